//! The list of classifiers, paper by paper.

use kindling_classification::{
    ModelEntry, efficientnet, efficientnet_lite, efficientnet_v2, ghostnet, mixnet, mnasnet, mobilenet_v1,
    mobilenet_v2, mobilenet_v3, mobilenet_v4, resnet,
};

/// Every model, in the order it is listed: the light ones first, the heavy baselines to swap away from last.
pub(crate) const MODELS: &[&[ModelEntry]] = &[
    mobilenet_v1::MODELS,
    mobilenet_v2::MODELS,
    mobilenet_v3::MODELS,
    mobilenet_v4::MODELS,
    efficientnet::MODELS,
    efficientnet_lite::MODELS,
    efficientnet_v2::MODELS,
    mnasnet::MODELS,
    mixnet::MODELS,
    ghostnet::MODELS,
    resnet::MODELS,
];

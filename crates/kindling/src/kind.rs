//! What a run may train: a classifier, a network that answers with a number, or one for segmentation.

use anyhow::Result;
use burn::module::Module;
use burn::tensor::Device;
use kindling_data::{HostBatch, Loader};
use kindling_layers::trace::{FeatureMap, Trace};
use kindling_memory::Plan;
use kindling_runs::Metrics;
use kindling_trainer::engine::{Classification, ModelState, Regression, Segmentation, Training};
use kindling_trainer::{Observer, Setup, Stepped, Steps, TrainError, Trained, Trainer};
use kindling_zoo::weights::Import;
use kindling_zoo::{Network, SegmentationNetwork};

use crate::config::RunConfig;
use crate::finish::Finished;

/// A network with initial or imported weights.
pub(crate) type Start<M> = (M, Option<Import>);

/// A training step on a batch at a learning rate.
pub(crate) type StepAt = Box<dyn FnMut(&HostBatch, f64) -> Result<Stepped, TrainError>>;

/// A kind of networks, with what their runs do differently.
pub(crate) trait Kind {
    /// What is trained.
    type Network: Module;
    /// How it is trained.
    type Training: Training<ModelState<Self::Network>>;

    /// The network that a run starts from.
    fn initial(config: &RunConfig, device: &Device) -> Result<Start<Self::Network>>;

    /// The network with the initial weights of the seed.
    fn untrained(config: &RunConfig, device: &Device) -> Result<Self::Network>;

    /// Training steps that belong to no run, each at a learning rate.
    fn steps(network: Self::Network, config: &RunConfig, device: &Device, start: Plan) -> Result<StepAt>;

    /// Its layers for images of the run's size.
    fn trace(config: &RunConfig, network: &Self::Network) -> Trace;

    /// A run at its start.
    fn trainer<'a>(
        network: Self::Network,
        config: &RunConfig,
        validation: Loader,
        setup: Setup<'a>,
    ) -> Result<Trainer<'a, ModelState<Self::Network>, Self::Training>>;

    /// Scores a run whose training has ended, writes what it has found and the report, and returns the metrics; of several processes
    /// the first does.
    fn conclude(finished: &Finished, trained: &mut Trained, observer: &mut dyn Observer) -> Result<Option<Metrics>>;
}

/// Classifiers: classes of images.
pub(crate) struct OfImages;

/// The same networks with one output: numbers of images.
pub(crate) struct OfValues;

/// Networks for segmentation: classes of pixels.
pub(crate) struct OfPixels;

impl Kind for OfImages {
    type Network = Network;
    type Training = Classification;

    fn initial(config: &RunConfig, device: &Device) -> Result<Start<Network>> {
        config.initial_network(device)
    }

    fn untrained(config: &RunConfig, device: &Device) -> Result<Network> {
        config.network(device)
    }

    fn steps(network: Network, config: &RunConfig, device: &Device, start: Plan) -> Result<StepAt> {
        let (task, classes) = (config.data.task, config.data.classes.len());
        let mut steps = Steps::new(network, &config.train, task, classes, device, start)?;
        Ok(Box::new(move |batch, rate| {
            steps.set_rate(rate);
            steps.step(batch)
        }))
    }

    fn trace(config: &RunConfig, network: &Network) -> Trace {
        network.trace(config.data.preprocess.channels, config.data.preprocess.size)
    }

    fn trainer<'a>(
        network: Network,
        config: &RunConfig,
        validation: Loader,
        setup: Setup<'a>,
    ) -> Result<Trainer<'a, ModelState<Network>, Classification>> {
        Ok(Trainer::new(network, config.train.clone(), config.data.classes.len(), validation, setup)?)
    }

    fn conclude(finished: &Finished, trained: &mut Trained, observer: &mut dyn Observer) -> Result<Option<Metrics>> {
        finished.conclude(trained, observer)
    }
}

impl Kind for OfValues {
    type Network = Network;
    type Training = Regression;

    fn initial(config: &RunConfig, device: &Device) -> Result<Start<Network>> {
        OfImages::initial(config, device)
    }

    fn untrained(config: &RunConfig, device: &Device) -> Result<Network> {
        OfImages::untrained(config, device)
    }

    fn steps(network: Network, config: &RunConfig, device: &Device, start: Plan) -> Result<StepAt> {
        OfImages::steps(network, config, device, start)
    }

    fn trace(config: &RunConfig, network: &Network) -> Trace {
        OfImages::trace(config, network)
    }

    fn trainer<'a>(
        network: Network,
        config: &RunConfig,
        validation: Loader,
        setup: Setup<'a>,
    ) -> Result<Trainer<'a, ModelState<Network>, Regression>> {
        Ok(Trainer::regressing(network, config.train.clone(), validation, setup)?)
    }

    fn conclude(finished: &Finished, trained: &mut Trained, observer: &mut dyn Observer) -> Result<Option<Metrics>> {
        finished.conclude_regression(trained, observer)
    }
}

impl Kind for OfPixels {
    type Network = SegmentationNetwork;
    type Training = Segmentation;

    fn initial(config: &RunConfig, device: &Device) -> Result<Start<SegmentationNetwork>> {
        config.initial_segmenter(device)
    }

    fn untrained(config: &RunConfig, device: &Device) -> Result<SegmentationNetwork> {
        config.segmenter(device)
    }

    fn steps(network: SegmentationNetwork, config: &RunConfig, device: &Device, start: Plan) -> Result<StepAt> {
        let mut steps = Steps::segmenting(network, &config.train, config.data.classes.len(), device, start)?;
        Ok(Box::new(move |batch, rate| {
            steps.set_rate(rate);
            steps.step(batch)
        }))
    }

    fn trace(config: &RunConfig, network: &SegmentationNetwork) -> Trace {
        let preprocess = &config.data.preprocess;
        Trace::of(network, FeatureMap::square(preprocess.channels, preprocess.size))
    }

    fn trainer<'a>(
        network: SegmentationNetwork,
        config: &RunConfig,
        validation: Loader,
        setup: Setup<'a>,
    ) -> Result<Trainer<'a, ModelState<SegmentationNetwork>, Segmentation>> {
        Ok(Trainer::segmenting(network, config.train.clone(), config.data.classes.len(), validation, setup)?)
    }

    fn conclude(finished: &Finished, trained: &mut Trained, observer: &mut dyn Observer) -> Result<Option<Metrics>> {
        finished.conclude_segmentation(trained, observer)
    }
}

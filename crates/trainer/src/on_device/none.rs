//! A build without CUDA: there are no such nodes.

use burn::tensor::{Device, Tensor};
use kindling_processes::Nccl;
use kindling_processes::nccl::Failed;
use kindling_processes::tree::Node;

use crate::error::TrainError;
use crate::ranks::Ranks;

/// Of no value.
pub(crate) enum OnDevice {}

impl OnDevice {
    pub(crate) fn of(_: Vec<Node<Tensor<1>>>) -> Result<Self, String> {
        Err("this build has no CUDA".to_string())
    }

    pub(crate) fn make_room(&mut self, _: &Device, _: usize) -> bool {
        match *self {}
    }

    pub(crate) fn sum(&self, _: (&Ranks, &Nccl), _: usize, _: &mut [f32]) -> Result<Result<(), Failed>, TrainError> {
        match *self {}
    }

    pub(crate) fn into_host(self) -> Result<Vec<Node<Vec<f32>>>, String> {
        match self {}
    }
}

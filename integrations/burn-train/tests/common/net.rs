//! A small network on a device that fails where it is told to.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, Relu};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, Interrupter, TrainOutput, TrainStep};
use kindling_burn_train::Split;
use kindling_memory::host_usage;

use super::Run;

pub(super) const SIZE: usize = 8;
pub(super) const CLASSES: usize = 3;

/// A batch in host memory, so that its upload is part of the step.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(super) images: Vec<f32>,
    pub(super) labels: Vec<i64>,
}

impl Split for Batch {
    fn samples(&self) -> usize {
        self.labels.len()
    }

    fn part(&self, rows: Range<usize>) -> Self {
        let pixels = rows.start * SIZE * SIZE..rows.end * SIZE * SIZE;
        Self { images: self.images[pixels].to_vec(), labels: self.labels[rows].to_vec() }
    }
}

/// Where a device may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Upload,
    /// After the forward pass, before the backward pass.
    Forward,
    Backward,
    /// Before the optimizer.
    Optimizer,
    /// After it.
    Optimized,
    Infer,
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) phase: Phase,
    /// How often the phase comes before.
    pub(crate) call: usize,
    pub(crate) text: &'static str,
}

impl Fault {
    pub(crate) fn oom(phase: Phase, call: usize) -> Self {
        Self { phase, call, text: "out of device memory allocating 1048576 bytes" }
    }
}

#[derive(Default)]
pub(super) struct Memory {
    faults: Vec<Fault>,
    calls: [AtomicUsize; 6],
    holds: usize,
    /// After so many steps the run is interrupted.
    stop: Option<(usize, Interrupter)>,
    /// Live bytes of the process at each upload.
    live: Mutex<Vec<usize>>,
}

impl Debug for Memory {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.faults)
    }
}

impl Memory {
    pub(super) fn new(faults: Vec<Fault>, holds: usize, stop: Option<(usize, Interrupter)>) -> Self {
        Self { faults, holds, stop, ..Self::default() }
    }

    fn at(&self, phase: Phase, samples: usize) {
        let call = self.calls[phase as usize].fetch_add(1, Relaxed);
        if let Some(fault) = self.faults.iter().find(|fault| (fault.phase, fault.call) == (phase, call)) {
            panic!("{}", fault.text);
        }
        if samples > self.holds {
            panic!("out of device memory allocating 1048576 bytes");
        }
        if let Some((steps, interrupter)) = &self.stop
            && phase == Phase::Optimized
            && call + 1 == *steps
        {
            interrupter.stop(Some("enough"));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norm {
    None,
    Burn,
    Kindling,
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    conv: Conv2d,
    burns: Option<BatchNorm>,
    ours: Option<kindling_layers::BatchNorm>,
    dropout: Option<Dropout>,
    #[module(skip)]
    our_dropout: Option<kindling_layers::Dropout>,
    classifier: Linear,
    #[module(skip)]
    memory: Arc<Memory>,
}

impl Net {
    /// The same for every run with the same layers, parameter identities apart.
    pub(crate) fn new(run: &Run) -> Self {
        let device = Device::flex().autodiff();
        device.seed(11);
        Self {
            // A bias before a norm has no gradient but rounding, which Adam would magnify.
            conv: Conv2dConfig::new([1, 6], [3, 3]).with_bias(run.norm == Norm::None).init(&device),
            classifier: LinearConfig::new(6, CLASSES).init(&device),
            burns: (run.norm == Norm::Burn).then(|| BatchNormConfig::new(6).init(&device)),
            ours: (run.norm == Norm::Kindling).then(|| kindling_layers::BatchNormConfig::default().init(6, &device)),
            dropout: (run.dropout && run.norm != Norm::Kindling).then(|| DropoutConfig::new(0.25).init()),
            our_dropout: (run.dropout && run.norm == Norm::Kindling)
                .then_some(kindling_layers::Dropout { probability: 0.25, layer: 0 }),
            memory: Arc::default(),
        }
    }

    pub(super) fn on(self, memory: Memory) -> Self {
        Self { memory: Arc::new(memory), ..self }
    }

    /// Live bytes of the process at each upload.
    pub(crate) fn live(&self) -> Vec<usize> {
        self.memory.live.lock().unwrap().clone()
    }

    fn judge(&self, batch: Batch) -> ClassificationOutput {
        let device = self.conv.weight.device();
        let samples = batch.samples();
        let images = Tensor::<4>::from_data(TensorData::new(batch.images, [samples, 1, SIZE, SIZE]), &device);
        let labels = Tensor::<1, Int>::from_data(TensorData::new(batch.labels, [samples]), &device);
        let mut x = self.conv.forward(images);
        if let Some(norm) = &self.burns {
            x = norm.forward(x);
        }
        if let Some(norm) = &self.ours {
            x = norm.forward(x);
        }
        let x = Relu::new().forward(x).mean_dims(&[2, 3]).reshape([samples, 6]);
        let x = if let Some(dropout) = &self.dropout { dropout.forward(x) } else { x };
        let x = if let Some(dropout) = &self.our_dropout { dropout.forward(x) } else { x };
        let logits = self.classifier.forward(x);
        let loss = CrossEntropyLossConfig::new().init(&device).forward(logits.clone(), labels.clone());
        ClassificationOutput::new(loss, logits, labels)
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let samples = batch.samples();
        self.memory.live.lock().unwrap().push(host_usage().current);
        self.memory.at(Phase::Upload, samples);
        let output = self.judge(batch);
        self.memory.at(Phase::Forward, samples);
        let gradients = output.loss.backward();
        self.memory.at(Phase::Backward, samples);
        TrainOutput::new(self, gradients, output)
    }

    fn optimize(self, optimizer: &mut ModuleOptimizer, rate: ModuleLearningRate, gradients: GradientsParams) -> Self {
        self.memory.at(Phase::Optimizer, 0);
        let next = optimizer.step(rate, self, gradients);
        next.memory.at(Phase::Optimized, 0);
        next
    }
}

impl InferenceStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.memory.at(Phase::Infer, batch.samples());
        self.judge(batch)
    }
}

//! What an operation allocates and keeps in the forward pass.

use burn::tensor::DType;
use kindling_layers::Activation;
use kindling_layers::trace::FeatureMap;
use kindling_ops::{ConvScratch, EnlargedScratch, channels_at_once, inferred_apart};

use super::Target;
use super::cuda;
use super::ledger::{BufferId, Part};
use super::node::Kind;
use super::pass::{Held, Pass};

impl Pass<'_> {
    /// Simulates the forward pass of an operation; `tracked` says whether a backward pass will follow.
    pub(super) fn forward(&mut self, index: usize, tracked: bool) {
        let graph = self.graph;
        let node = &graph.nodes[index];
        let tracked = tracked && !node.frozen;
        let inputs: Vec<Held> = node.inputs.iter().filter_map(|input| self.values[*input]).collect();
        if inputs.len() != node.inputs.len() {
            return; // the trace reads a value that no layer has computed
        }
        let Some(&first) = inputs.first() else { return };
        let bytes = self.map_bytes(node.output);
        let mut keep = Vec::new();
        let output = match node.kind {
            Kind::Dense { kernel, .. } => {
                let view = self.copy_of_view(first, node.inputs[0]);
                keep.push(self.retained(first));
                if self.on_cuda() {
                    let output = self.make(bytes);
                    self.ledger.burst_of(&[self.columns(index, kernel), self.read(index), view]);
                    output
                } else {
                    self.computed(node.output, self.convolved(index) + view)
                }
            }
            Kind::Enlarging => {
                let views = inputs.iter().zip(&node.inputs).map(|(held, value)| self.copy_of_view(*held, *value));
                let scratch = views.sum::<u64>() + self.enlarging(index).forward() as u64;
                keep.extend(inputs.iter().map(|held| self.retained(*held)).collect::<Vec<_>>());
                self.computed(node.output, scratch)
            }
            Kind::Linear => {
                keep.push(self.retained(first));
                self.make_product(bytes)
            }
            // The operation that it is a part of reads what it reads.
            Kind::Pointwise | Kind::Depthwise { .. } if self.is_inside(index) => self.ledger.retain(first.buffer),
            Kind::Pointwise | Kind::Depthwise { .. } => {
                keep.push(self.retained(first));
                let scratch = if self.on_cuda() { self.read(index) } else { self.convolved(index) };
                self.computed(node.output, self.copy_of_view(first, node.inputs[0]) + scratch)
            }
            Kind::NormAct(_) => {
                keep.extend(self.kept_raw(index, first));
                self.computed(node.output, self.copy_of_view(first, node.inputs[0]))
            }
            Kind::Activation(activation) => {
                if self.on_cuda() {
                    keep.extend((1..cuda::kept_by(activation)).map(|_| self.scratch_map(bytes)));
                }
                if tracked || !self.free_to_overwrite(node.inputs[0], first) {
                    keep.push(self.retained(first));
                    self.make(bytes)
                } else {
                    self.ledger.retain(first.buffer)
                }
            }
            Kind::Add(activation) if node.reads => {
                let output = self.computed(node.output, 0);
                keep.extend(self.kept_raw(index, first));
                if activation != Activation::Identity {
                    keep.push(self.retained(Held { buffer: output, view: false }));
                }
                output
            }
            Kind::Add(_) => {
                let reused =
                    node.inputs.iter().zip(&inputs).find(|(value, held)| self.free_to_overwrite(**value, **held));
                match reused.map(|(_, held)| held.buffer) {
                    Some(buffer) => self.ledger.retain(buffer),
                    None => self.make(bytes),
                }
            }
            Kind::Multiply => {
                keep.extend(inputs.iter().map(|held| self.retained(*held)).collect::<Vec<_>>());
                self.make(bytes)
            }
            Kind::Slice => self.ledger.retain(first.buffer),
            Kind::Mean if node.reads => {
                self.ledger.burst(self.read(index));
                keep.push(self.retained(first));
                self.make(bytes)
            }
            Kind::Deferred | Kind::Mean | Kind::Concat => self.make(bytes),
            Kind::Resize => {
                let copied = self.copy_of_view(first, node.inputs[0]);
                self.computed(node.output, copied + self.converted(&[node.inputs[0], node.output]))
            }
            Kind::MaxPool if node.reads => {
                keep.push(self.retained(first));
                self.computed(node.output, self.read(index) + self.converted(&[node.output]))
            }
            Kind::MaxPool => {
                let output = self.make(bytes);
                // The positions of the maxima.
                let places = self.make(bytes / self.situation.precision.bytes() as u64 * INDEX_BYTES);
                keep.extend([self.retained(first), Held { buffer: places, view: false }]);
                output
            }
            Kind::Other => {
                keep.push(self.retained(first));
                self.make(bytes)
            }
        };
        let of_one_image = self.situation.micro_batch == 1;
        let view = matches!(node.kind, Kind::Slice) && !of_one_image;
        for input in &node.inputs {
            self.reads[*input] -= 1;
            if self.reads[*input] == 0
                && let Some(held) = self.values[*input].take()
            {
                self.ledger.release(held.buffer);
            }
        }
        self.values[node.output] = Some(Held { buffer: output, view });
        if tracked && graph.wants_gradient[node.output] {
            self.kept[index] = keep;
        } else {
            keep.into_iter().for_each(|held| self.ledger.release(held.buffer));
        }
    }

    /// Computes a map, with scratch memory.
    pub(super) fn computed(&mut self, made: usize, scratch: u64) -> BufferId {
        let output = self.make(self.map_bytes(made));
        self.ledger.burst(scratch);
        output
    }

    /// What a normalisation keeps: its input, unless that is recomputed.
    fn kept_raw(&mut self, index: usize, input: Held) -> Option<Held> {
        self.maker(index).is_none().then(|| self.retained(input))
    }

    /// The operation that recomputes the input of another one in the backward pass.
    pub(super) fn maker(&self, index: usize) -> Option<usize> {
        let nodes = &self.graph.nodes;
        let input = nodes[index].inputs[0];
        (0..nodes.len()).find(|maker| nodes[*maker].rebuilt && nodes[*maker].output == input)
    }

    fn retained(&mut self, held: Held) -> Held {
        Held { buffer: self.ledger.retain(held.buffer), ..held }
    }

    /// A map that is kept and not passed on.
    fn scratch_map(&mut self, bytes: u64) -> Held {
        Held { buffer: self.ledger.make(Part::Activations, bytes), view: false }
    }

    /// Whether a value can be overwritten with a result: nothing else refers to it, and it will not be read again.
    fn free_to_overwrite(&self, value: usize, held: Held) -> bool {
        !held.view && self.reads[value] == 1 && self.ledger.unique(held.buffer)
    }

    /// The bytes of the copy that an operation makes of an input that is not contiguous.
    pub(super) fn copy_of_view(&self, held: Held, value: usize) -> u64 {
        if held.view { self.map_bytes(value) } else { 0 }
    }

    /// The format of maps.
    pub(super) fn format(&self) -> DType {
        self.situation.precision.dtype().into()
    }

    /// Whether maps are of a half format that is widened and rounded piece by piece, as on the CPU.
    pub(super) fn halves(&self) -> bool {
        !self.on_cuda() && self.situation.precision.bytes() < size_of::<f32>()
    }

    /// Bytes of the float32 planes of these maps that an operation holds at a time if they are of a half format: one for each thread.
    pub(super) fn converted(&self, values: &[usize]) -> u64 {
        if self.halves() { values.iter().map(|value| self.planes(*value)).sum() } else { 0 }
    }

    /// Bytes of the pieces of a map that an operation normalises at a time; on CUDA, of the whole map if it needs all of it.
    pub(super) fn read(&self, index: usize) -> u64 {
        let node = &self.graph.nodes[index];
        match node.kind {
            Kind::Pointwise | Kind::Depthwise { .. } if self.reads_inside(index).is_some() => self.bands(index),
            _ if !node.reads => 0,
            Kind::Pointwise | Kind::Dense { .. } | Kind::MaxPool if self.on_cuda() => self.map_bytes(node.inputs[0]),
            _ if self.on_cuda() => 0,
            _ => self.planes(node.inputs[0]),
        }
    }

    /// Scratch memory of a convolution's output on the CPU.
    pub(super) fn convolved(&self, index: usize) -> u64 {
        let node = &self.graph.nodes[index];
        match node.kind {
            Kind::Depthwise { .. } if node.reads => self.read(index) + self.converted(&[node.output]),
            Kind::Depthwise { .. } => self.converted(&[node.inputs[0], node.output]),
            _ if node.reads => self.convolution(index).forward_of_reading() as u64 + self.prepared_again(index),
            _ => self.convolution(index).forward() as u64 + self.prepared_again(index),
        }
    }

    /// Packed filters of the convolutions that do not train, which an evaluation keeps until it ends. Where filters train, a step takes more
    /// than its evaluation.
    pub(super) fn filters_of_evaluation(&self) -> u64 {
        let is_frozen = |index: &usize| {
            let node = &self.graph.nodes[*index];
            node.frozen && matches!(node.kind, Kind::Dense { .. } | Kind::Pointwise)
        };
        let frozen = (0..self.graph.nodes.len()).filter(is_frozen).filter(|_| !self.on_cuda());
        frozen.map(|index| self.convolution(index).packed() as u64).sum()
    }

    /// Filters of a dense convolution that does not train, of which an evaluation prepares copies for the images that it computes beside
    /// others. Where the convolution trains, its step takes more than its evaluation.
    fn prepared_again(&self, index: usize) -> u64 {
        if !self.graph.nodes[index].frozen {
            return 0;
        }
        let FeatureMap { height, width, .. } = self.graph.maps[0];
        let parts = inferred_apart(self.situation.micro_batch, [height, width], self.threads());
        ((parts - 1) * self.convolution(index).prepared()) as u64
    }

    /// What a depthwise convolution or a pool holds of a map at a time: a float32 plane for each thread.
    pub(super) fn planes(&self, value: usize) -> u64 {
        let FeatureMap { height, width, .. } = self.graph.maps[value];
        (self.threads() * height * width * size_of::<f32>()) as u64
    }

    /// What is held of a gradient of a half format while it is finished channel by channel: float32 planes of all samples.
    pub(super) fn channels(&self, value: usize) -> u64 {
        if !self.halves() {
            return 0;
        }
        let FeatureMap { channels, height, width } = self.graph.maps[value];
        let at_once = channels_at_once(channels, self.threads());
        (at_once * self.situation.micro_batch * height * width * size_of::<f32>()) as u64
    }

    /// A dense convolution on the CPU.
    pub(super) fn convolution(&self, index: usize) -> ConvScratch {
        let node = &self.graph.nodes[index];
        let of = |value: usize| {
            let FeatureMap { channels, height, width } = self.graph.maps[value];
            [channels, height, width]
        };
        let (kernel, stride, dilation, before) = match node.kind {
            Kind::Dense { kernel, stride, dilation, before } => (kernel, stride, dilation, before),
            _ => (1, 1, 1, [0; 2]),
        };
        let (input, output) = (of(node.inputs[0]), of(node.output));
        ConvScratch {
            batch: self.situation.micro_batch,
            input,
            output,
            kernel,
            stride,
            dilation,
            before,
            threads: self.threads(),
            format: if self.on_cuda() { DType::F32 } else { self.format() },
        }
    }

    /// A convolution that enlarges its input.
    pub(super) fn enlarging(&self, index: usize) -> EnlargedScratch {
        let node = &self.graph.nodes[index];
        let FeatureMap { channels, height, width } = self.graph.maps[node.inputs[0]];
        EnlargedScratch {
            batch: self.situation.micro_batch,
            input: [channels, height, width],
            beside: node.inputs.get(1).map_or(0, |beside| self.graph.maps[*beside].channels),
            output: self.graph.maps[node.output].channels,
            threads: self.threads(),
        }
    }

    /// The rows from which a dense convolution is computed; see [`cuda::columns`].
    fn columns(&self, index: usize, kernel: usize) -> u64 {
        let node = &self.graph.nodes[index];
        self.seen(node.inputs[0], node.output, kernel)
    }

    /// The rows from which the gradients of the filters and of the input are computed, the larger of the two.
    pub(super) fn columns_of_both(&self, index: usize, kernel: usize) -> u64 {
        let node = &self.graph.nodes[index];
        self.columns(index, kernel).max(self.seen(node.output, node.inputs[0], kernel))
    }

    fn seen(&self, seen: usize, from: usize, kernel: usize) -> u64 {
        let [seen, from] = [seen, from].map(|value| self.graph.maps[value]);
        cuda::columns(seen, from, kernel, self.situation.micro_batch as u64, self.situation.precision.bytes() as u64)
    }

    pub(super) fn threads(&self) -> usize {
        match self.situation.target {
            Target::Cpu { threads } => threads.max(1),
            Target::Cuda => 1,
        }
    }
}

/// Bytes of a position in a map: both backends use 32-bit integers by default.
const INDEX_BYTES: u64 = 4;

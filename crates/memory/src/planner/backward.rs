//! What an operation allocates and frees in the backward pass.

use kindling_layers::Activation;

use super::ledger::{BufferId, Part};
use super::node::Kind;
use super::pass::{Held, Pass};
use super::{WEIGHT_BYTES, cuda};

impl Pass<'_> {
    /// Simulates the backward pass of an operation, and releases what it kept.
    pub(super) fn backward(&mut self, index: usize) {
        let graph = self.graph;
        let node = &graph.nodes[index];
        if node.kind == Kind::Deferred {
            return;
        }
        let mut kept = std::mem::take(&mut self.kept[index]);
        let Some(gradient) = self.gradients[node.output].take() else {
            return kept.into_iter().for_each(|held| self.ledger.release(held.buffer));
        };
        let input = node.inputs[0];
        let wants = graph.wants_gradient[input];
        match node.kind {
            Kind::Add(_) if node.reads => return self.add_backward(index, gradient, kept),
            _ if node.reads => return self.read_backward(index, gradient, kept),
            _ => {}
        }
        match node.kind {
            Kind::Dense { .. } | Kind::Pointwise => self.dense(index, gradient, &mut kept),
            Kind::Enlarging => self.enlarging_backward(index, gradient, &mut kept),
            Kind::Multiply => return self.multiply(index, gradient, kept),
            Kind::Activation(_) => return self.activation(index, gradient, kept),
            Kind::Depthwise { .. } => {
                let converted = self.converted(&[input, node.output]);
                let copy = self.scratch(self.copy_of_view(gradient, node.output) + converted);
                if wants {
                    let made = self.make(self.map_bytes(input));
                    self.give(input, made, false);
                }
                let copied = kept.first().map_or(0, |held| self.copy_of_view(*held, input));
                self.ledger.burst_of(&[copied, self.parts(index)]);
                self.weight_gradients(index);
                self.end_scratch(copy);
            }
            Kind::NormAct(_) => {
                let made = self.normalisation(index, gradient, input);
                if wants {
                    self.give(input, made, false);
                } else {
                    self.ledger.release(made);
                }
            }
            Kind::Add(_) | Kind::Concat => {
                let view = gradient.view || (node.kind == Kind::Concat && self.situation.micro_batch > 1);
                for &input in node.inputs.iter().filter(|input| graph.wants_gradient[**input]) {
                    let shared = self.ledger.retain(gradient.buffer);
                    self.give(input, shared, view);
                }
            }
            Kind::Resize => {
                let copied = self.copy_of_view(gradient, node.output);
                let made = self.computed(input, copied + self.converted(&[input, node.output]));
                self.give(input, made, false);
            }
            Kind::Mean => {
                // One number for each plane, which is broadcast when it is read.
                let made = self.make(self.map_bytes(node.output));
                self.give(input, made, true);
            }
            Kind::Deferred | Kind::MaxPool | Kind::Slice | Kind::Linear | Kind::Other => {
                for &input in node.inputs.iter().filter(|input| graph.wants_gradient[**input]) {
                    let bytes = self.map_bytes(input);
                    let made = if node.kind == Kind::Slice { self.make_product(bytes) } else { self.make(bytes) };
                    self.give(input, made, false);
                }
                self.weight_gradients(index);
                if node.kind == Kind::Linear {
                    // A matrix product.
                    self.ledger.burst(self.zeros(node.params.first().map_or(0, |weight| weight * WEIGHT_BYTES)));
                }
            }
        }
        kept.into_iter().chain([gradient]).for_each(|held| self.ledger.release(held.buffer));
    }

    /// The backward pass of an operation that read its input through a normalisation: it computes the gradients of both together.
    fn read_backward(&mut self, index: usize, gradient: Held, kept: Vec<Held>) {
        let node = &self.graph.nodes[index];
        let input = node.inputs[0];
        let scratch = self.scratch(self.copy_of_view(gradient, node.output));
        let made = if self.on_cuda() { self.read_backward_on_cuda(index) } else { self.read_backward_on_cpu(index) };
        self.weight_gradients(index);
        self.give(input, made, false);
        for &gate in &node.inputs[1..] {
            let made = self.make(self.map_bytes(gate));
            self.give(gate, made, false);
        }
        self.end_scratch(scratch);
        kept.into_iter().chain([gradient]).for_each(|held| self.ledger.release(held.buffer));
    }

    /// A dense convolution needs sums over all samples before it can finish the gradient of its input, which may wait for them in float32.
    /// Other operations finish it channel by channel.
    fn read_backward_on_cpu(&mut self, index: usize) -> BufferId {
        let node = &self.graph.nodes[index];
        let input = node.inputs[0];
        match node.kind {
            Kind::Mean => self.computed(input, self.channels(input)),
            Kind::Depthwise { .. } | Kind::MaxPool => {
                let converted = self.converted(&[node.output]);
                self.computed(input, self.planes(input) + self.channels(input) + converted)
            }
            _ => {
                let convolution = self.convolution(index);
                let work = convolution.gradients_of_reading() as u64;
                if !convolution.waits_in_float32() {
                    return self.computed(input, work);
                }
                let wide = self.scratch(self.map_bytes(input) / convolution.format.size() as u64 * WEIGHT_BYTES);
                self.ledger.burst(work);
                let made = self.make(self.map_bytes(input));
                self.end_scratch(wide);
                made
            }
        }
    }

    /// First the gradient of the filters, for which a dense convolution computes the normalised map once more. Then the gradient of the
    /// normalised map, which is overwritten with the gradient of its input and returned.
    fn read_backward_on_cuda(&mut self, index: usize) -> BufferId {
        let node = &self.graph.nodes[index];
        let input = node.inputs[0];
        let [read, written] = self.swapped(index);
        self.ledger.burst_of(&[self.read(index), self.parts(index), read, written]);
        let of_read = match node.kind {
            // The map, and the positions of its maxima.
            Kind::MaxPool => self.map_bytes(input) + 3 * self.map_bytes(node.output),
            // The gradient of a mean is a number for each plane, which is broadcast when it is read.
            _ => 0,
        };
        let of_read = self.scratch(of_read);
        let made = self.make(self.map_bytes(input));
        self.ledger.burst(self.sums(input));
        self.end_scratch(of_read);
        made
    }

    /// The backward pass of the sum of a shortcut and a branch that was normalised while it was read.
    fn add_backward(&mut self, index: usize, gradient: Held, kept: Vec<Held>) {
        let graph = self.graph;
        let node = &graph.nodes[index];
        let (branch, shortcut) = (node.inputs[0], node.inputs[1]);
        let mut of_sum = gradient;
        if node.kind != Kind::Add(Activation::Identity) {
            let buffer = self.make(self.map_bytes(node.output));
            of_sum = Held { buffer, view: false };
            self.ledger.release(gradient.buffer);
        }
        if graph.wants_gradient[shortcut] {
            let shared = self.ledger.retain(of_sum.buffer);
            self.give(shortcut, shared, of_sum.view);
        }
        let made = self.normalisation(index, of_sum, branch);
        self.give(branch, made, false);
        kept.into_iter().chain([of_sum]).for_each(|held| self.ledger.release(held.buffer));
    }

    /// The gradient of the input of a normalisation. It overwrites the gradient of the output if nothing else refers to that and it is
    /// contiguous.
    fn normalisation(&mut self, index: usize, gradient: Held, value: usize) -> BufferId {
        let again = self.recomputed_input(index);
        let again = self.scratch(again);
        let made = if !gradient.view && self.ledger.unique(gradient.buffer) {
            self.ledger.retain(gradient.buffer)
        } else {
            self.make(self.map_bytes(value))
        };
        self.ledger.burst(self.sums(value) + self.channels(value));
        self.end_scratch(again);
        self.weight_gradients(index);
        made
    }

    /// The bytes of an operation's input that is recomputed, and of the memory that this takes.
    fn recomputed_input(&self, index: usize) -> u64 {
        let input = self.graph.nodes[index].inputs[0];
        self.maker(index).map_or(0, |maker| {
            let scratch = if self.on_cuda() {
                self.read(maker) + self.convolution(maker).forward() as u64
            } else {
                self.convolved(maker)
            };
            self.map_bytes(input) + scratch
        })
    }

    /// On the CPU the input of a square filter is let go of before the gradient of its size is made. That of a 1x1 filter was not seen to
    /// go (DeepLabV3+).
    fn dense(&mut self, index: usize, gradient: Held, kept: &mut Vec<Held>) {
        let node = &self.graph.nodes[index];
        let (input, convolution) = (node.inputs[0], self.convolution(index));
        let copy = self.scratch(self.copy_of_view(gradient, node.output));
        if self.on_cuda() {
            let [read, written] = self.swapped(index);
            let columns =
                if let Kind::Dense { kernel, .. } = node.kind { self.columns_of_both(index, kernel) } else { 0 };
            self.ledger.burst_of(&[read, written, columns, self.parts(index)]);
            self.weight_gradients(index);
            if self.graph.wants_gradient[input] {
                let made = self.make(self.map_bytes(input));
                self.give(input, made, false);
            }
        } else {
            if !node.params.is_empty() {
                self.ledger.burst(convolution.weight_gradient() as u64);
                self.weight_gradients(index);
            }
            if matches!(node.kind, Kind::Dense { .. }) {
                kept.drain(..).for_each(|held| self.ledger.release(held.buffer));
            }
            if self.graph.wants_gradient[input] {
                let made = self.computed(input, convolution.input_gradient() as u64);
                self.give(input, made, false);
            }
        }
        self.end_scratch(copy);
    }

    /// Both maps are let go of before the gradients of their sizes are made.
    fn enlarging_backward(&mut self, index: usize, gradient: Held, kept: &mut Vec<Held>) {
        let node = &self.graph.nodes[index];
        let scratch = self.enlarging(index);
        let copy = self.scratch(self.copy_of_view(gradient, node.output));
        if !node.params.is_empty() {
            self.ledger.burst(scratch.weight_gradient() as u64);
            self.weight_gradients(index);
        }
        kept.drain(..).for_each(|held| self.ledger.release(held.buffer));
        let works = [scratch.input_gradient(), scratch.beside_gradient()];
        let mut made = Vec::new();
        for (&input, work) in node.inputs.iter().zip(works).filter(|(input, _)| self.graph.wants_gradient[**input]) {
            made.push((input, self.computed(input, work as u64)));
        }
        made.into_iter().for_each(|(input, made)| self.give(input, made, false));
        self.end_scratch(copy);
    }

    fn multiply(&mut self, index: usize, gradient: Held, kept: Vec<Held>) {
        let node = &self.graph.nodes[index];
        if let [first, second] = node.inputs[..] {
            if self.graph.wants_gradient[second] {
                self.ledger.burst(self.sums(first));
                let made = self.make(self.map_bytes(second));
                self.give(second, made, false);
            }
            if self.graph.wants_gradient[first] {
                let made = self.make(self.map_bytes(first));
                self.give(first, made, false);
            }
        }
        kept.into_iter().chain([gradient]).for_each(|held| self.ledger.release(held.buffer));
    }

    fn activation(&mut self, index: usize, gradient: Held, kept: Vec<Held>) {
        let node = &self.graph.nodes[index];
        let input = node.inputs[0];
        // The derivative overwrites what was kept, or the gradient, if nothing else refers to it.
        let free = kept.iter().chain([&gradient]).find(|held| !held.view && self.ledger.unique(held.buffer));
        let result = match free.map(|held| held.buffer) {
            Some(buffer) => self.ledger.retain(buffer),
            None => self.make(self.map_bytes(input)),
        };
        kept.into_iter().chain([gradient]).for_each(|held| self.ledger.release(held.buffer));
        if self.graph.wants_gradient[input] {
            self.give(input, result, false);
        } else {
            self.ledger.release(result);
        }
    }

    fn weight_gradients(&mut self, index: usize) {
        for elements in &self.graph.nodes[index].params {
            self.make_gradient(elements * WEIGHT_BYTES);
        }
    }

    /// Copies of the input and of the output's gradient in another layout, which Burn's convolutions make on CUDA.
    fn swapped(&self, index: usize) -> [u64; 2] {
        let node = &self.graph.nodes[index];
        let burns = self.on_cuda() && matches!(node.kind, Kind::Dense { .. });
        if burns { [node.inputs[0], node.output].map(|value| self.map_bytes(value)) } else { [0; 2] }
    }

    /// The partial sums of the gradient of the filters on CUDA.
    fn parts(&self, index: usize) -> u64 {
        let node = &self.graph.nodes[index];
        let (output, batch) = (self.graph.maps[node.output], self.situation.micro_batch as u64);
        match (node.kind, node.params.first()) {
            (Kind::Pointwise | Kind::Dense { .. }, Some(weights)) if self.on_cuda() => {
                cuda::parts(*weights, output, batch)
            }
            (Kind::Depthwise { .. }, Some(weights)) if self.on_cuda() => {
                cuda::parts_of_depthwise(*weights, output, batch)
            }
            _ => 0,
        }
    }

    /// The partial sums for the gradients of a normalisation or a gate on CUDA.
    fn sums(&self, value: usize) -> u64 {
        if !self.on_cuda() {
            return 0;
        }
        cuda::sums(self.graph.maps[value], self.situation.micro_batch as u64)
    }

    /// Adds a gradient to that of a value, overwriting whichever of the two nothing else refers to.
    fn give(&mut self, value: usize, buffer: BufferId, view: bool) {
        let given = Held { buffer, view };
        let sum = match self.gradients[value].take() {
            None => given,
            Some(known) => {
                let free = [given, known].into_iter().find(|held| !held.view && self.ledger.unique(held.buffer));
                let sum = match free.map(|held| held.buffer) {
                    Some(buffer) => self.ledger.retain(buffer),
                    None => self.make(self.map_bytes(value)),
                };
                self.ledger.release(given.buffer);
                self.ledger.release(known.buffer);
                Held { buffer: sum, view: false }
            }
        };
        self.gradients[value] = Some(sum);
    }

    fn scratch(&mut self, bytes: u64) -> u64 {
        self.ledger.add(Part::Workspace, bytes);
        bytes
    }

    fn end_scratch(&mut self, bytes: u64) {
        self.ledger.remove(Part::Workspace, bytes);
    }
}

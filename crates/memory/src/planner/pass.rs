//! The forward and backward pass of one micro-batch.

use std::collections::BTreeSet;

use super::graph::Graph;
use super::ledger::{BufferId, Ledger, Part};
use super::node::{Kind, Node, Place};
use super::{Checkpointing, Phase, Situation, Target, WEIGHT_BYTES, cuda, exchange, update};

/// A tensor: a buffer, or a view of one that is not contiguous.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) buffer: BufferId,
    pub(super) view: bool,
}

/// Maps of the size of the logits that the default loss of a segmentation has at once on a GPU, besides these: measured with 2 and 20 classes.
const MAPS_OF_LOSS: usize = 6;
/// The same on the CPU where an auxiliary classifier's logits are behind the network's: each half is read by itself, and its gradient is put
/// into a map of zeros.
const MAPS_OF_HALVES: usize = 4;

/// The state of a pass.
pub(super) struct Pass<'a> {
    pub(super) graph: &'a Graph,
    pub(super) situation: &'a Situation,
    pub(super) ledger: &'a mut Ledger,
    /// The values that later layers will read.
    pub(super) values: Vec<Option<Held>>,
    /// How often each value will still be read.
    pub(super) reads: Vec<usize>,
    /// What each operation keeps for the backward pass.
    pub(super) kept: Vec<Vec<Held>>,
    /// Gradients of values.
    pub(super) gradients: Vec<Option<Held>>,
    /// Bytes of each gradient of a weight of this pass, before they are added to those of other passes.
    new_gradients: Vec<u64>,
    /// The values whose rows are padded on CUDA.
    padded: Vec<bool>,
}

/// Simulates a micro-batch on top of what the ledger already holds. Its gradients stay allocated. Several passes at once are where their peaks
/// are at the same time.
pub(super) fn micro_batch(graph: &Graph, situation: &Situation, ledger: &mut Ledger) {
    // The gradients of earlier micro-batches.
    let earlier = sums_at_once(situation);
    (0..earlier).for_each(|_| ledger.add_all(Part::Gradients, update::gradients(graph)));
    let (passes, each) = situation.passes_at_once();
    let mut pass = Pass::new(graph, &each, ledger);
    let filters = pass.filters_of_evaluation();
    pass.ledger.add(Part::Workspace, filters);
    pass.ledger.times(passes);
    let images = pass.make(pass.map_bytes(0));
    if situation.checkpointing == Checkpointing::None {
        pass.whole(images);
    } else {
        pass.in_segments(images);
    }
    let made = pass.new_gradients;
    ledger.remove_all(Part::Gradients, made);
    ledger.times(1);
    ledger.remove(Part::Workspace, filters);
    match earlier {
        0 => ledger.add_all(Part::Gradients, update::gradients(graph)),
        // They are added up to one.
        sums => (1..sums).for_each(|_| ledger.remove_all(Part::Gradients, update::gradients(graph))),
    }
}

/// The most sums of gradients that there are while a micro-batch is computed. On the CPU normalisation groups are added in a binary tree,
/// so before group `n` there are as many as `n` has bits set; elsewhere there is one. Several processes add in the tree everywhere.
fn sums_at_once(situation: &Situation) -> usize {
    match situation.target {
        Target::Cuda if situation.processes == 1 => usize::from(situation.batch > situation.micro_batch),
        _ => exchange::waiting(situation),
    }
}

/// For each layer that keeps something or needs scratch memory: bytes kept that no layer before keeps, and scratch.
pub(super) fn kept_by_layer(graph: &Graph, situation: &Situation) -> Vec<(usize, (u64, u64))> {
    let mut ledger = Ledger::default();
    let (_, each) = situation.passes_at_once();
    let mut pass = Pass::new(graph, &each, &mut ledger);
    let images = pass.make(pass.map_bytes(0));
    pass.enter(0, images);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for index in 0..graph.nodes.len() {
        pass.ledger.start_scratch();
        pass.forward(index, true);
        let new = |held: &&Held| seen.insert(held.buffer);
        let kept: Vec<BufferId> = pass.kept[index].iter().filter(new).map(|held| held.buffer).collect();
        let kept = kept.into_iter().map(|buffer| pass.ledger.bytes(buffer)).sum();
        found.push((graph.nodes[index].layer, (kept, pass.ledger.scratch())));
    }
    pass.start_gradient(graph.maps.len() - 1);
    for index in pass.backward_order(|_| true) {
        pass.ledger.start_scratch();
        pass.backward(index);
        let (_, (_, scratch)) = &mut found[index];
        *scratch = (*scratch).max(pass.ledger.scratch());
    }
    found
}

impl<'a> Pass<'a> {
    fn new(graph: &'a Graph, situation: &'a Situation, ledger: &'a mut Ledger) -> Self {
        let count = graph.maps.len();
        let mut pass = Self {
            graph,
            situation,
            ledger,
            values: vec![None; count],
            reads: vec![0; count],
            kept: vec![Vec::new(); graph.nodes.len()],
            gradients: vec![None; count],
            new_gradients: Vec::new(),
            padded: cuda::padded(&graph.nodes, graph.maps.len()),
        };
        for node in &graph.nodes {
            node.inputs.iter().for_each(|input| pass.reads[*input] += 1);
        }
        pass
    }

    /// Without activation checkpointing: one forward pass, then one backward pass.
    fn whole(&mut self, images: BufferId) {
        self.ledger.phase = Phase::Forward;
        self.enter(0, images);
        self.run(|_| true, true, &BTreeSet::new());
        let last = self.graph.maps.len() - 1;
        self.start_gradient(last);
        self.ledger.phase = Phase::Backward;
        self.back(|_| true);
    }

    /// With activation checkpointing: the segments forward, keeping only the maps between them; the tail forward and backward; then
    /// each segment forward again and backward. Between segments there are the maps that later ones read: one in a classifier, and in
    /// a network for segmentation those that its decoder has not read yet.
    fn in_segments(&mut self, images: BufferId) {
        let segments = self.segments();
        self.ledger.phase = Phase::Forward;
        let mut boundaries: Vec<Vec<(usize, BufferId)>> = Vec::with_capacity(segments.len());
        let mut between = vec![(0, images)];
        for (number, segment) in segments.iter().enumerate() {
            boundaries.push(between.iter().map(|&(value, buffer)| (value, self.ledger.retain(buffer))).collect());
            let later = self.read_after(&segments, number);
            between = self.enter_all(between, |node| self::within(segment, node), &later);
            self.run(|node| self::within(segment, node), false, &self.made_in(segment, &later));
            for value in later {
                if let Some(held) = self.leave(value) {
                    between.push((value, held.buffer));
                }
            }
        }
        // What the tail reads lives until its own backward pass is over.
        let last: Vec<BufferId> = between.iter().map(|&(_, buffer)| self.ledger.retain(buffer)).collect();
        let in_tail = |node: &Node| node.place == Place::Tail;
        let rest = self.enter_all(between, in_tail, &BTreeSet::new());
        self.run(in_tail, true, &BTreeSet::new());
        self.ledger.phase = Phase::Backward;
        let logits = self.graph.maps.len() - 1;
        rest.into_iter().for_each(|(_, buffer)| self.ledger.release(buffer));
        self.start_gradient(logits);
        self.back(in_tail);
        last.into_iter().for_each(|buffer| self.ledger.release(buffer));

        for (number, segment) in segments.iter().enumerate().rev() {
            let Some(boundary) = boundaries.pop() else { break };
            let mut read = self.read_after(&segments, number);
            read.insert(logits);
            let made = self.made_in(segment, &read);
            let gradients: Vec<(usize, Held)> =
                made.iter().filter_map(|&value| Some((value, self.gradients[value].take()?))).collect();
            if !gradients.is_empty() {
                self.again(segment, &boundary, gradients, &made);
            }
            boundary.into_iter().for_each(|(_, buffer)| self.ledger.release(buffer));
        }
    }

    /// Runs a segment once more, and back: `gradients` are those of the maps that it has `made` for others.
    fn again(
        &mut self,
        segment: &Segment,
        boundary: &[(usize, BufferId)],
        gradients: Vec<(usize, Held)>,
        made: &BTreeSet<usize>,
    ) {
        let inside = |node: &Node| self::within(segment, node);
        let inputs = boundary.iter().map(|&(value, buffer)| (value, self.ledger.retain(buffer))).collect();
        let rest = self.enter_all(inputs, inside, &BTreeSet::new());
        rest.into_iter().for_each(|(_, buffer)| self.ledger.release(buffer));
        self.run(inside, true, made);
        // The gradient of sum(output * gradient) is a new map of the output's size.
        for &value in made {
            if let Some(output) = self.leave(value) {
                self.ledger.release(output.buffer);
            }
        }
        for (value, of_output) in gradients {
            let gradient = self.make(self.map_bytes(value));
            self.ledger.release(of_output.buffer);
            self.gradients[value] = Some(Held { buffer: gradient, view: false });
        }
        self.back(inside);
    }

    /// The values that segments after this one, or the tail, read; the logits are among them if this is the last.
    fn read_after(&self, segments: &[Segment], number: usize) -> BTreeSet<usize> {
        let is_later = |node: &&Node| {
            node.place == Place::Tail || segments[number + 1..].iter().any(|segment| self::within(segment, node))
        };
        let read = self.graph.nodes.iter().filter(is_later).flat_map(|node| node.inputs.iter().copied());
        let mut read: BTreeSet<usize> = read.collect();
        if number + 1 == segments.len() && self.graph.nodes.iter().all(|node| node.place != Place::Tail) {
            read.insert(self.graph.maps.len() - 1);
        }
        read
    }

    /// Those of the values that operations of the segment make.
    fn made_in(&self, segment: &Segment, values: &BTreeSet<usize>) -> BTreeSet<usize> {
        let made = self.graph.nodes.iter().filter(|node| self::within(segment, node)).map(|node| node.output);
        made.filter(|value| values.contains(value)).collect()
    }

    /// Gives each of these values to the operations that read it. Returns those that are read `later`, too, and lets go of the others.
    fn enter_all(
        &mut self,
        values: Vec<(usize, BufferId)>,
        reads: impl Fn(&Node) -> bool,
        later: &BTreeSet<usize>,
    ) -> Vec<(usize, BufferId)> {
        let mut kept = Vec::new();
        for (value, buffer) in values {
            if later.contains(&value) {
                kept.push((value, self.ledger.retain(buffer)));
            }
            if self.graph.nodes.iter().any(|node| reads(node) && node.inputs.contains(&value)) {
                self.enter(value, buffer);
            } else {
                self.ledger.release(buffer);
            }
        }
        kept
    }

    /// The segments that are recomputed one at a time.
    fn segments(&self) -> Vec<Segment> {
        let mut found: Vec<Segment> = Vec::new();
        for node in self.graph.nodes.iter().filter(|node| node.place != Place::Tail) {
            let place = match (node.place, self.situation.checkpointing) {
                (Place::Block(stage, _), Checkpointing::Stages) => (Place::Block(stage, 0), true),
                (Place::Decoder(block, _), Checkpointing::Stages) => (Place::Decoder(block, 0), true),
                (place, _) => (place, false),
            };
            match found.last().filter(|last| (last.place, last.whole) == place) {
                Some(_) => {}
                None => found.push(Segment { place: place.0, whole: place.1 }),
            }
        }
        found
    }

    /// Gives a value to the operations that read it.
    fn enter(&mut self, value: usize, buffer: BufferId) {
        self.values[value] = Some(Held { buffer, view: false });
    }

    /// Takes the output of a segment for its next reader.
    fn leave(&mut self, value: usize) -> Option<Held> {
        self.values[value].take()
    }

    /// Runs operations forward. What they make of `passed_on` stays, whoever of them reads it, as the middle of a stage may be read by the
    /// rest of it and by a decoder.
    fn run(&mut self, wanted: impl Fn(&Node) -> bool, tracked: bool, passed_on: &BTreeSet<usize>) {
        // Only reads inside the segment count, and that of whoever it is passed on to.
        let mut reads = vec![0; self.reads.len()];
        passed_on.iter().for_each(|value| reads[*value] += 1);
        for node in self.graph.nodes.iter().filter(|node| wanted(node)) {
            node.inputs.iter().for_each(|input| reads[*input] += 1);
        }
        self.reads = reads;
        for index in 0..self.graph.nodes.len() {
            if wanted(&self.graph.nodes[index]) {
                self.forward(index, tracked);
            }
        }
    }

    fn back(&mut self, wanted: impl Fn(&Node) -> bool) {
        for index in self.backward_order(wanted) {
            self.backward(index);
        }
    }

    fn backward_order(&self, wanted: impl Fn(&Node) -> bool) -> Vec<usize> {
        let nodes = &self.graph.nodes;
        let mut order: Vec<usize> = (0..nodes.len()).filter(|index| wanted(&nodes[*index])).collect();
        order.sort_by_key(|index| std::cmp::Reverse((nodes[*index].level, *index)));
        order
    }

    /// The gradient of the logits. Where these are maps, the loss on a GPU makes several of their size in float32: the truth, probabilities,
    /// their logarithms, products of these, and gradients. On the CPU it makes none, and reads the masks.
    fn start_gradient(&mut self, value: usize) {
        let map = self.graph.maps[value];
        let (pixels, images) = ((map.height * map.width) as u64, self.situation.micro_batch as u64);
        let is_map = pixels > 1;
        let logits = self.leave(value);
        let free = |pass: &mut Self| logits.map_or((), |logits| pass.ledger.release(logits.buffer));
        let buffer = match self.situation.target {
            Target::Cuda => {
                if is_map {
                    self.ledger.burst_of(&[map.elements() * images * WEIGHT_BYTES; MAPS_OF_LOSS]);
                }
                free(self);
                self.make(self.map_bytes(value))
            }
            Target::Cpu { .. } => {
                let is_of_two = self.graph.nodes.last().is_some_and(|node| node.kind == Kind::Concat);
                match is_map {
                    true if is_of_two => {
                        self.ledger.burst_of(&[map.elements() * images * WEIGHT_BYTES; MAPS_OF_HALVES])
                    }
                    true => self.ledger.burst(pixels * images),
                    false => {}
                }
                // The logits are read while their gradient is made.
                if is_map && self.halves() {
                    return self.start_gradient_of_halves(value, logits);
                }
                let buffer = self.make(self.map_bytes(value));
                free(self);
                buffer
            }
        };
        self.gradients[value] = Some(Held { buffer, view: false });
    }

    /// The loss of logits of a half format is computed from a copy in float32, and so is its gradient, which is rounded then.
    fn start_gradient_of_halves(&mut self, value: usize, logits: Option<Held>) {
        let bytes = self.map_bytes(value) / self.situation.precision.bytes() as u64 * WEIGHT_BYTES;
        let copy = self.make(bytes);
        logits.into_iter().for_each(|logits| self.ledger.release(logits.buffer));
        let gradient = self.make(bytes);
        self.ledger.release(copy);
        let buffer = self.make(self.map_bytes(value));
        self.ledger.release(gradient);
        self.gradients[value] = Some(Held { buffer, view: false });
    }

    pub(super) fn make(&mut self, bytes: u64) -> BufferId {
        self.ledger.make(Part::Activations, bytes)
    }

    /// The result of a matrix product. `burn-flex` 0.22.1 allocates zeros of alignment 1 for it and then copies them to aligned memory
    /// (`FlexTensor::empty` through `Bytes::from_bytes_vec`), so for a moment there are two.
    pub(super) fn make_product(&mut self, bytes: u64) -> BufferId {
        let buffer = self.make(bytes);
        self.ledger.burst(self.zeros(bytes));
        buffer
    }

    /// Scratch memory for allocating zeros; see [`Pass::make_product`].
    pub(super) fn zeros(&self, bytes: u64) -> u64 {
        if self.on_cuda() { 0 } else { bytes }
    }

    /// A gradient of a weight.
    pub(super) fn make_gradient(&mut self, bytes: u64) {
        self.ledger.add(Part::Gradients, bytes);
        self.new_gradients.push(bytes);
    }

    /// Bytes of a value for the whole micro-batch.
    pub(super) fn map_bytes(&self, value: usize) -> u64 {
        let map = self.graph.maps[value];
        let (batch, element) = (self.situation.micro_batch as u64, self.situation.precision.bytes() as u64);
        match self.situation.target {
            Target::Cpu { .. } => map.elements() * batch * element,
            Target::Cuda => cuda::map_bytes(map, batch, element, self.padded[value]),
        }
    }

    pub(super) fn on_cuda(&self) -> bool {
        self.situation.target == Target::Cuda
    }
}

/// Operations that are recomputed together.
struct Segment {
    place: Place,
    /// All blocks of the stage, or all parts of the decoder's block.
    whole: bool,
}

fn within(segment: &Segment, node: &Node) -> bool {
    match (segment.place, node.place) {
        (Place::Block(stage, _), Place::Block(other, _)) if segment.whole => stage == other,
        (Place::Decoder(block, _), Place::Decoder(other, _)) if segment.whole => block == other,
        (place, other) => place == other,
    }
}

//! Promises of the planner, on a network that has every kind of layer the zoo has.

use kindling_layers::blocks::{BlockConfig, InvertedResidual, InvertedResidualConfig};
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value, Zeros};
use kindling_layers::{Activation, DropPath, Freeze};
use kindling_ops::InvertedResidualShape;

use super::*;

const THREADS: usize = 2;
const CPU: Target = Target::Cpu { threads: THREADS };

/// Stem, two stages of blocks with squeeze-excite and shortcut, last convolution, classifier.
struct Network;

fn conv(trace: &mut Trace, x: Value, channels: usize, kernel: usize, stride: usize, depthwise: bool) -> Value {
    let x = linear(trace, x, channels, kernel, stride, depthwise);
    trace.activation(Activation::Silu, x)
}

fn linear(trace: &mut Trace, x: Value, channels: usize, kernel: usize, stride: usize, depthwise: bool) -> Value {
    let FeatureMap { height, width, .. } = x.map;
    let map = FeatureMap { channels, height: height.div_ceil(stride), width: width.div_ceil(stride) };
    let fan = if depthwise { 1 } else { x.map.channels };
    let padding = Zeros { before: [kernel / 2; 2], after: [kernel / 2; 2] };
    let op = Op::Conv { kernel, stride, dilation: 1, groups: if depthwise { channels } else { 1 }, padding };
    let x = trace.scope("conv", |trace| trace.push(op, &[x], map, (channels * fan * kernel * kernel) as u64));
    let norm = Op::BatchNorm { epsilon: 1e-5 };
    trace.scope("norm", |trace| trace.push(norm, &[x], map, 2 * channels as u64))
}

fn block(trace: &mut Trace, x: Value) -> Value {
    let channels = x.map.channels;
    let wide = conv(trace, x, 4 * channels, 1, 1, false);
    let wide = conv(trace, wide, 4 * channels, 3, 1, true);
    let mean = trace.apply("squeeze", Op::GlobalAveragePool, &[wide], FeatureMap::vector(4 * channels));
    let gate = trace.activation(Activation::Sigmoid, mean);
    let wide = trace.apply("scale", Op::Multiply, &[wide, gate], wide.map);
    let narrow = linear(trace, wide, channels, 1, 1, false);
    let sum = trace.add(narrow, x);
    trace.activation(Activation::Relu, sum)
}

impl Describe for Network {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("stem", |trace| conv(trace, input, 16, 3, 2, false));
        for stage in 0..2 {
            x = trace.scope(format!("stages.{stage}.0"), |trace| conv(trace, x, 32 << stage, 3, 2, false));
            for number in 1..3 {
                x = trace.scope(format!("stages.{stage}.{number}"), |trace| block(trace, x));
            }
        }
        trace.scope("head", |trace| {
            let x = trace.scope("features", |trace| conv(trace, x, 256, 1, 1, false));
            let x = trace.apply("pool", Op::GlobalAveragePool, &[x], FeatureMap::vector(256));
            trace.scope("classifier", |trace| trace.push(Op::Linear, &[x], FeatureMap::vector(5), 256 * 5 + 5))
        })
    }
}

/// The same without its classifier, and a decoder of two blocks that read the map of the stem and that of the first stage.
struct WithDecoder;

impl Describe for WithDecoder {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let (stem, stage, last) = trace.scope("encoder", |trace| {
            let stem = trace.scope("stem", |trace| conv(trace, input, 16, 3, 2, false));
            let first = trace.scope("stages.0.0", |trace| conv(trace, stem, 32, 3, 2, false));
            let second = trace.scope("stages.0.1", |trace| block(trace, first));
            (stem, second, trace.scope("stages.1.0", |trace| conv(trace, second, 64, 3, 2, false)))
        });
        let mut x = last;
        for (number, skip) in [stage, stem].into_iter().enumerate() {
            x = trace.scope(format!("decoder.{number}"), |trace| {
                let large = trace.apply(
                    "upsample",
                    Op::Upsample { factor: 2 },
                    &[x],
                    FeatureMap { channels: x.map.channels, ..skip.map },
                );
                let both = FeatureMap { channels: large.map.channels + skip.map.channels, ..skip.map };
                let both = trace.apply("concat", Op::Concat, &[large, skip], both);
                conv(trace, both, 32 >> number, 3, 1, false)
            });
        }
        trace.scope("head", |trace| linear(trace, x, 2, 3, 1, false))
    }
}

/// An encoder, a decoder in one piece, and an auxiliary classifier of the map of the first stage.
struct WithAuxiliary;

impl Describe for WithAuxiliary {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let (stage, last) = trace.scope("encoder", |trace| {
            let stem = trace.scope("stem", |trace| conv(trace, input, 16, 3, 2, false));
            let first = trace.scope("stages.0.0", |trace| conv(trace, stem, 32, 3, 2, false));
            (first, trace.scope("stages.1.0", |trace| conv(trace, first, 64, 3, 2, false)))
        });
        let enlarged = |trace: &mut Trace, x: Value, factor: usize| {
            trace.apply("enlarge", Op::Upsample { factor }, &[x], FeatureMap { channels: 2, ..input.map })
        };
        let x = trace.scope("decoder", |trace| conv(trace, last, 2, 3, 1, false));
        let x = enlarged(trace, x, 8);
        trace.scope("auxiliary", |trace| {
            let other = conv(trace, stage, 2, 3, 1, false);
            let other = enlarged(trace, other, 4);
            trace.apply("concat", Op::Concat, &[x, other], FeatureMap { channels: 4, ..input.map })
        })
    }
}

fn trace() -> Trace {
    Trace::of(&Network, FeatureMap::square(3, 128))
}

/// Every situation that is worth telling apart.
fn situations(batch: usize) -> Vec<Situation> {
    let mut found = Vec::new();
    for target in [CPU, Target::Cuda] {
        for checkpointing in Checkpointing::ALL {
            for optimizer in [OptimizerKind::AdamW, OptimizerKind::Sgd { momentum: false }] {
                for freeze in [Freeze::None, Freeze::Stages(1), Freeze::Backbone] {
                    let whole = Situation::whole_batch(batch, target);
                    found.push(Situation { checkpointing, optimizer, freeze, ..whole });
                }
            }
        }
    }
    found
}

/// Of large maps, a half format takes half, and the CPU's operations widen pieces of them: no float32 copy of a whole map comes on top, but
/// for the gradient of one where it is not multiplied as it is stored.
#[test]
fn a_half_format_takes_little_more_than_half_on_the_cpu() {
    let trace = Trace::of(&Network, FeatureMap::square(3, 512));
    let halves = [Precision::Bf16, Precision::F16];
    for (half, checkpointing) in halves.iter().flat_map(|half| Checkpointing::ALL.map(|kept| (*half, kept))) {
        let maps = |precision| {
            let whole = Situation::whole_batch(4, CPU);
            let prediction = predict(&trace, &Situation { precision, checkpointing, ..whole });
            (prediction.activations + prediction.workspace) as f64
        };
        let share = maps(half) / maps(Precision::F32);
        assert!((0.5..0.7).contains(&share), "{share} of float32 in {half:?} with {checkpointing:?} recomputed");
    }
}

#[test]
fn the_parts_add_up_to_the_peak() {
    for situation in situations(4) {
        let p = predict(&trace(), &situation);
        assert_eq!(
            p.peak,
            p.weights + p.gradients + p.optimizer + p.activations + p.workspace + p.overhead,
            "{situation:?}"
        );
        assert!(p.weights > 0 && p.overhead > 0, "{situation:?}");
    }
}

/// On CUDA without what the pools hold beyond it: pages get larger with the largest map, and the last one is as full as it
/// happens to be.
#[test]
fn a_larger_micro_batch_never_needs_less() {
    let needs = |situation: Situation| {
        let found = predict(&trace(), &situation);
        if situation.target == Target::Cuda { found.peak - found.overhead } else { found.peak }
    };
    for situation in situations(1) {
        let peaks: Vec<u64> = (1..12)
            .map(|size| needs(Situation { batch: size, micro_batch: size, ghost_batch_size: size, ..situation }))
            .collect();
        assert!(peaks.is_sorted(), "{situation:?}: {peaks:?}");
        let of_twelve = |micro_batch| needs(Situation { batch: 12, micro_batch, ghost_batch_size: 12, ..situation });
        let peaks: Vec<u64> = [1, 2, 3, 4, 6, 12].map(of_twelve).to_vec();
        assert!(peaks.is_sorted(), "of one batch, {situation:?}: {peaks:?}");
    }
}

#[test]
fn recomputing_never_needs_more_and_costs_one_more_forward_at_most() {
    for target in [CPU, Target::Cuda] {
        let [none, stages, blocks] = Checkpointing::ALL.map(|checkpointing| {
            predict(&trace(), &Situation { checkpointing, ..Situation::whole_batch(8, target) }).peak
        });
        assert!(stages < none && blocks < none, "{none} {stages} {blocks} on {target:?}");
    }
    for checkpointing in [Checkpointing::Stages, Checkpointing::Blocks] {
        let cost = relative_cost(&trace(), checkpointing, Freeze::None);
        assert!(cost > 1.3 && cost <= 4.0 / 3.0, "{cost}");
    }
    assert_eq!(relative_cost(&trace(), Checkpointing::None, Freeze::None), 1.0);
}

/// The memory that has room for so many counted bytes: on the CPU it is that of the process.
fn memory_for(target: Target, counted: u64) -> u64 {
    if target == Target::Cuda { counted } else { crate::resident_of(counted) }
}

#[test]
fn after_a_micro_batch_only_its_gradients_are_left() {
    let input = FeatureMap::square(3, 128);
    for trace in [trace(), Trace::of(&WithDecoder, input), Trace::of(&WithAuxiliary, input)] {
        for situation in situations(4) {
            let graph = Graph::of_run(&trace, &situation);
            let mut ledger = Ledger::default();
            pass::micro_batch(&graph, &situation.as_computed(), &mut ledger);
            let left = [Part::Activations, Part::Workspace, Part::Gradients].map(|part| ledger.live(part));
            assert_eq!(left, [0, 0, update::gradients(&graph).sum::<u64>()], "{situation:?}");
        }
    }
}

/// Beside its share of the images a process holds the sums of its groups, the sum of all until the next step, and the buffers of the
/// exchange.
#[test]
fn several_processes_hold_what_the_exchange_takes_and_read_their_share() {
    use kindling_processes::reduce::Held;

    let trace = trace();
    let graph = Graph::of_run(&trace, &Situation::whole_batch(1, CPU));
    let numbers = update::gradients(&graph).sum::<u64>() / WEIGHT_BYTES + graph.statistics.iter().sum::<u64>();
    for target in [CPU, Target::Cuda] {
        let of = |processes, groups: usize, mixes| {
            let whole = Situation::whole_batch(2 * groups, target);
            Situation { ghost_batch_size: 2, micro_batch: 2, processes, mixes, ..whole }
        };
        let simulated = |situation: Situation| {
            let mut ledger = Ledger::default();
            ledger.add_all(Part::Gradients, update::gradients(&graph));
            exchange::exchange(&graph, &situation, &mut ledger);
            ledger
        };
        let gradients: u64 = update::gradients(&graph).sum();
        assert_eq!(simulated(of(1, 12, false)).peak().total(), gradients, "one process exchanges nothing");
        for (processes, groups) in [(2, 4), (3, 16), (4, 4), (5, 33)] {
            let held = Held::of(processes, groups, numbers as usize);
            let ledger = simulated(of(processes, groups, false));
            let nodes = held.nodes as u64 * numbers * WEIGHT_BYTES;
            let on_cpu = nodes + (numbers + held.buffers as u64) * WEIGHT_BYTES;
            let most = match target {
                Target::Cuda => nodes + WEIGHT_BYTES * numbers.max(held.room as u64),
                Target::Cpu { .. } => on_cpu,
            };
            assert_eq!(ledger.peak().total(), most, "{processes} processes, {groups} groups on {target:?}");
            let kept = if target == Target::Cuda { 0 } else { numbers * WEIGHT_BYTES };
            assert_eq!(ledger.live(Part::Gradients), kept + gradients);
            let (share, all) =
                (predict(&trace, &of(processes, groups, false)), predict(&trace, &of(processes, groups, true)));
            let batch = 3 * 128 * 128 * 2 * 4;
            let (mine, whole) = (groups.div_ceil(processes) as u64 * batch, groups as u64 * batch);
            if target == CPU && share.phase == all.phase && share.phase != Phase::Checkpoint {
                assert_eq!(all.overhead - share.overhead, 3 * (whole - mine), "the batch in use, and two of a loader");
            }
        }
    }
    let at_once = |processes| {
        let situation = Situation { ghost_batch_size: 8, processes, ..Situation::whole_batch(64, Target::Cuda) };
        largest_micro_batch(&trace, &situation, u64::MAX).map(|(size, _)| size)
    };
    assert_eq!((at_once(1), at_once(2)), (Some(64), Some(8)), "several processes compute one group after the other");
}

#[test]
fn a_decoder_keeps_less_if_its_blocks_are_recomputed() {
    // So large that its maps, and not what a convolution works with, are most of what it holds.
    let trace = Trace::of(&WithDecoder, FeatureMap::square(3, 256));
    for target in [CPU, Target::Cuda] {
        let [none, stages, blocks] = Checkpointing::ALL.map(|checkpointing| {
            predict(&trace, &Situation { checkpointing, ..Situation::whole_batch(4, target) }).activations
        });
        assert!(none > stages && none > blocks, "{none} {stages} {blocks}");
        // The images, both maps that the decoder reads, and the last one are kept between segments.
        let between = 4 * 4 * (3 * 256 * 256 + 16 * 128 * 128 + 32 * 64 * 64 + 64 * 32 * 32);
        assert!(blocks > between, "{blocks} {between}");
    }
}

/// A decoder that reads the last map and, beside it, one from the middle of a stage, and whose logits are large.
struct WithTapInStage;

impl Describe for WithTapInStage {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let (tap, last) = trace.scope("encoder", |trace| {
            let stem = trace.scope("stem", |trace| conv(trace, input, 16, 3, 2, false));
            let first = trace.scope("stages.0.0", |trace| conv(trace, stem, 32, 3, 2, false));
            let second = trace.scope("stages.0.1", |trace| block(trace, first));
            (first, trace.scope("stages.1.0", |trace| conv(trace, second, 64, 3, 2, false)))
        });
        let logits = trace.scope("decoder", |trace| {
            let high = conv(trace, last, 64, 1, 1, false);
            let size = FeatureMap { channels: 64, ..tap.map };
            let high = trace.apply("upsample", Op::Upsample { factor: 2 }, &[high], size);
            let low = conv(trace, tap, 64, 1, 1, false);
            trace.add(low, high)
        });
        let size = FeatureMap { channels: 64, ..input.map };
        trace.scope("enlarge", |trace| trace.apply("resize", Op::Upsample { factor: 4 }, &[logits], size))
    }
}

/// The map is read by the next block of its stage, too, and is all the same there when the decoder comes.
#[test]
fn a_map_from_the_middle_of_a_stage_stays_until_the_decoder_reads_it() {
    let trace = Trace::of(&WithTapInStage, FeatureMap::square(3, 128));
    let situation = Situation { checkpointing: Checkpointing::Stages, ..Situation::whole_batch(1, CPU) };
    let prediction = predict(&trace, &situation);
    // While the decoder is computed again there are the images, what enters each segment (the map twice, as one buffer), the decoder's maps,
    // the gradient of the logits, and that of the product of both.
    let logits = 64 * 128 * 128;
    let entering = 3 * 128 * 128 + 16 * 64 * 64 + 2 * 32 * 32 * 32 + 64 * 16 * 16;
    let inside = 64 * 16 * 16 + 2 * 64 * 32 * 32;
    assert_eq!((prediction.phase, prediction.activations), (Phase::Backward, 4 * (entering + inside + 2 * logits)));
}

/// A convolution to the logits of 64 classes a pixel.
struct WithLogits;

impl Describe for WithLogits {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let op = Op::Conv { kernel: 1, stride: 1, dilation: 1, groups: 1, padding: Zeros::default() };
        let map = FeatureMap { channels: 64, ..input.map };
        trace.scope("head", |trace| trace.push(op, &[input], map, 64 * 3))
    }
}

/// It is computed from a copy of the logits in float32, and its gradient is float32, too, while both are there.
#[test]
fn the_loss_of_logits_of_a_half_format_takes_what_that_of_float32_takes() {
    let trace = Trace::of(&WithLogits, FeatureMap::square(3, 64));
    for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
        let situation = Situation { precision, ..Situation::whole_batch(2, CPU) };
        let (images, logits) = (2 * 3 * 64 * 64, 2 * 64 * 64 * 64);
        let expected = images * precision.bytes() as u64 + 2 * logits * WEIGHT_BYTES;
        assert_eq!(predict(&trace, &situation).activations, expected, "{precision}");
    }
}

/// A block of a U-Net's decoder: a map of 8 channels and 20x20 pixels is enlarged, one of 4 is appended, and a convolution goes over both.
struct WithEnlarged;

impl Describe for WithEnlarged {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let (skip, x) = trace.scope("encoder", |trace| {
            let skip = trace.scope("stem", |trace| conv(trace, input, 4, 3, 1, false));
            (skip, trace.scope("stages.0.0", |trace| conv(trace, skip, 8, 3, 2, false)))
        });
        trace.scope("decoder.0", |trace| {
            let size = FeatureMap { channels: 8, ..skip.map };
            let enlarged = trace.apply("upsample", Op::Upsample { factor: 2 }, &[x], size);
            let both = trace.apply("concat", Op::Concat, &[enlarged, skip], FeatureMap { channels: 12, ..skip.map });
            let padding = Zeros { before: [1; 2], after: [1; 2] };
            let op = Op::Conv { kernel: 3, stride: 1, dilation: 1, groups: 1, padding };
            let map = FeatureMap { channels: 16, ..skip.map };
            let made = trace.scope("conv1.conv", |trace| trace.push(op, &[both], map, 16 * 12 * 9));
            trace.enlarged(made);
            made
        })
    }
}

/// A convolution that enlarges its input keeps this map, and the one beside it, which is kept for another one already; any other keeps both as one
/// map of the larger size. Which it is depends on the processor.
#[test]
fn a_map_that_is_enlarged_while_it_is_read_is_not_kept() {
    let trace = Trace::of(&WithEnlarged, FeatureMap::square(3, 40));
    for precision in [Precision::F32, Precision::Bf16] {
        for target in [CPU, Target::Cuda] {
            let situation = Situation { precision, ..Situation::whole_batch(1, target) };
            let last = by_layer(&trace, &situation).into_iter().rfind(|layer| layer.kind == "conv 3x3");
            let last = last.expect("there is a convolution");
            let [before, whole] = [8 * 20 * 20, 12 * 40 * 40].map(|numbers| numbers * precision.bytes() as u64);
            let enlarges = target == CPU && precision == Precision::Bf16 && kindling_ops::multiplies_bf16();
            // On a GPU channels are padded.
            let expected = if enlarges { before..=before } else { whole..=2 * whole };
            assert!(expected.contains(&last.kept), "{precision}, {target:?}: {}", last.kept);
        }
    }
}

#[test]
fn an_auxiliary_classifier_is_recomputed_with_the_decoder() {
    let graph = Graph::of_run(&Trace::of(&WithAuxiliary, FeatureMap::square(3, 128)), &Situation::whole_batch(1, CPU));
    let places: Vec<Place> = graph.nodes.iter().map(|node| node.place).collect();
    assert!(places.ends_with(&[Place::Decoder(0, 0); 5]) && !places.contains(&Place::Tail), "{places:?}");
}

#[test]
fn the_largest_micro_batch_fits_and_the_next_does_not() {
    for target in [CPU, Target::Cuda] {
        let situation = Situation { batch: 40, ghost_batch_size: 3, ..Situation::whole_batch(40, target) };
        let of = |micro_batch| predict(&trace(), &Situation { micro_batch, ..situation });
        let groups = normalisation_groups(40, 3);
        assert_eq!(largest_micro_batch(&trace(), &situation, memory_for(target, of(3).peak - 1)), None);
        if target == CPU {
            // Groups at once, up to one a thread, which need half as much again at most; the next size needs more.
            let (size, prediction) = largest_micro_batch(&trace(), &situation, u64::MAX).expect("it fits");
            let next = (size + 3).min(3 * THREADS);
            assert_eq!(prediction, of(size));
            assert!(prediction.peak <= of(3).peak * 3 / 2 && (next == size || of(next).peak > of(3).peak * 3 / 2));
            assert_eq!(of(3 * THREADS), of(40), "more groups than threads are not computed at once");
            assert!(of(6).peak > of(3).peak);
            continue;
        }
        let counted = of(20).peak;
        let (size, prediction) =
            largest_micro_batch(&trace(), &situation, memory_for(target, counted)).expect("some fit");
        assert_eq!(prediction, of(size));
        assert!(prediction.peak <= counted);
        let whole: usize = groups
            .iter()
            .scan(0, |sum, group| {
                *sum += group;
                Some(*sum)
            })
            .find(|sum| *sum > size)
            .expect("a next one");
        assert!(of(whole).peak > counted, "{whole} would fit as well as {size}");
        assert_eq!(largest_micro_batch(&trace(), &situation, u64::MAX).map(|(size, _)| size), Some(40));
    }
}

#[test]
fn the_largest_batch_fits_and_the_next_does_not() {
    let situation = Situation::whole_batch(1, CPU);
    let of = |size| {
        predict(&trace(), &Situation { batch: size, micro_batch: size, ghost_batch_size: size, ..situation }).peak
    };
    for wanted in [1, 2, 7, 8, 31] {
        let found = largest_batch(&trace(), &situation, memory_for(CPU, of(wanted + 1) - 1)).map(|(batch, _)| batch);
        assert_eq!(found, Some(wanted));
    }
    assert_eq!(largest_batch(&trace(), &situation, memory_for(CPU, of(1) - 1)), None);
}

#[test]
fn what_is_frozen_keeps_nothing_and_has_no_moments() {
    let of = |freeze| predict(&trace(), &Situation { freeze, ..Situation::whole_batch(8, CPU) });
    let (all, half, head) = (of(Freeze::None), of(Freeze::Stages(1)), of(Freeze::Backbone));
    assert!(all.peak > half.peak && half.peak > head.peak);
    assert!(all.optimizer > half.optimizer && half.optimizer > head.optimizer);
    assert_eq!(head.optimizer, 2 * 4 * (256 * 5 + 5));
}

#[test]
fn layers_keep_what_the_forward_pass_keeps() {
    let situation = Situation::whole_batch(2, CPU);
    let layers = by_layer(&trace(), &situation);
    let kept = |name: &str| layers.iter().find(|layer| layer.name == name).map(|layer| layer.kept);
    // The first convolution keeps the images, its normalisation what the convolution made.
    assert_eq!(kept("stem.conv"), Some(2 * 4 * 3 * 128 * 128));
    assert_eq!(kept("stem.norm"), Some(2 * 4 * 16 * 64 * 64));
    let total: u64 = layers.iter().map(|layer| layer.kept).sum();
    let peak = predict(&trace(), &situation);
    assert!(total <= peak.activations + peak.workspace, "{total} kept of {peak:?}");
}

/// Expansion, depthwise and linear convolution of a block: only what each of them made, the block's input, and its output behind
/// the last activation.
#[test]
fn maps_that_are_only_read_are_not_kept() {
    // The mean of each channel, kept for the gate's activation, which keeps a second number on CUDA.
    for (target, small) in [(CPU, 4 * 128), (Target::Cuda, 2 * 4 * 128)] {
        let layers = by_layer(&trace(), &Situation::whole_batch(1, target));
        let of_block: u64 =
            layers.iter().filter(|layer| layer.name.starts_with("stages.0.1")).map(|layer| layer.kept).sum();
        let map = |channels: u64| 4 * channels * 32 * 32;
        assert_eq!(of_block, map(32) + map(128) + map(128) + map(32) + map(32) + small, "on {target:?}");
    }
}

/// Where a dense convolution reads through a normalisation, CUDA makes the map for as long as it is read: the linear
/// convolution of a block reads 128 channels.
#[test]
fn maps_that_are_made_to_be_read_are_workspace_on_cuda() {
    let layers = by_layer(&trace(), &Situation::whole_batch(1, Target::Cuda));
    let of_block = layers.iter().filter(|layer| layer.name.starts_with("stages.0.1") && layer.kind == "pointwise");
    let workspace = of_block.map(|layer| layer.workspace).max();
    assert!(workspace >= Some(4 * 128 * 32 * 32), "{workspace:?} in {layers:?}");
}

/// What a plan says is what the pools are told to take, and that has room for the bytes in use at any time.
#[test]
fn the_peak_on_cuda_is_what_the_pools_take() {
    for situation in situations(4).into_iter().filter(|situation| situation.target == Target::Cuda) {
        let prediction = predict(&trace(), &situation);
        assert_eq!(prediction.peak, pages(&trace(), &situation).bytes(), "{situation:?}");
    }
}

#[test]
fn what_a_kernel_sees_is_written_some_pixels_at_a_time() {
    // 7 x 7 x 3 float32 numbers for each pixel of a small map, all at once.
    let (image, map) = (FeatureMap::square(3, 32), FeatureMap::square(64, 16));
    assert_eq!(cuda::columns(image, map, 7, 4, 4), 4 * 16 * 16 * 147 * 4);
    // Of a large one, as many as the bytes of the map that is seen hold, in multiples of 256, and in no more than 32 MiB.
    let (image, map) = (FeatureMap::square(3, 512), FeatureMap::square(64, 256));
    assert_eq!(cuda::columns(image, map, 7, 4, 4), 21_248 * 147 * 4);
    assert_eq!(cuda::columns(image, map, 7, 32, 4), 56_832 * 147 * 4);
}

#[test]
fn bytes_lost_to_padded_rows_are_counted_on_cuda() {
    // 24 channels of float32 take 96 bytes and are padded to 128; 32 fill their rows.
    let bytes = |channels, padded| cuda::map_bytes(FeatureMap::square(channels, 8), 1, 4, padded);
    assert_eq!(bytes(24, true), 128 * 64);
    assert_eq!(bytes(32, true), 128 * 64);
    assert_eq!(bytes(320, true), 1536 * 64);
    // Own operations leave nothing between the rows.
    assert_eq!(bytes(24, false), 96 * 64);
}

/// A stem, an inverted residual block on a map that is large enough to be computed in bands, and a classifier.
struct Inverted(InvertedResidual);

impl Describe for Inverted {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let x = trace.scope("stem", |trace| conv(trace, input, 16, 3, 2, false));
        let x = trace.scope("stages.0.0", |trace| self.0.describe(x, trace));
        trace.scope("head", |trace| {
            let x = trace.apply("pool", Op::GlobalAveragePool, &[x], FeatureMap::vector(16));
            trace.scope("classifier", |trace| trace.push(Op::Linear, &[x], FeatureMap::vector(5), 16 * 5 + 5))
        })
    }
}

#[test]
fn maps_inside_a_block_are_not_stored_where_it_does_not_train_on_the_cpu() {
    let device = burn::tensor::Device::flex();
    let config = InvertedResidualConfig::new(16, 96, 16, 3, 1, Activation::Relu6);
    let trace = Trace::of(&Inverted(config.init(DropPath::default(), &device)), FeatureMap::square(3, 256));
    assert_eq!(trace.layers.iter().filter(|layer| layer.inside).count(), 2);
    let mut stored = trace.clone();
    stored.layers.iter_mut().for_each(|layer| layer.inside = false);
    let frozen = Situation { freeze: Freeze::Backbone, ..Situation::whole_batch(4, CPU) };
    let less = |situation: Situation| predict(&stored, &situation).peak - predict(&trace, &situation).peak;
    // Two maps of 96 channels are not there; a part of each is, on either thread, in float32.
    for (precision, quarters) in [(Precision::F32, 6), (Precision::F16, 5)] {
        let (expanded, less) = (precision.bytes() as u64 * 4 * 96 * 128 * 128, less(Situation { precision, ..frozen }));
        let in_bands = InvertedResidualShape::has_bands(precision.dtype().into());
        assert!(
            if in_bands { less > expanded * quarters / 4 } else { less == 0 },
            "{precision:?}: {less} of {expanded}"
        );
    }
    for other in [Situation { freeze: Freeze::None, ..frozen }, Situation { target: Target::Cuda, ..frozen }] {
        assert_eq!(less(other), 0, "{other:?}");
    }
}

/// The stem makes 16 maps of 32x32, blocks make four times 32 of 16x16.
#[test]
fn answers_take_the_weights_and_the_largest_map_of_a_convolution_at_least() {
    let mut trace = Trace::of(&Network, FeatureMap::square(3, 64));
    let weights = predict(&trace, &Situation::whole_batch(1, CPU)).weights;
    let largest = 4 * 32 * 16 * 16;
    assert_eq!(least_of_inference(&trace, 4), weights + 4 * largest);
    assert_eq!(least_of_inference(&trace, 2), weights + 2 * largest);
    // What no output is stored of takes nothing.
    trace.layers.iter_mut().for_each(|layer| layer.inside = true);
    assert_eq!(least_of_inference(&trace, 4), weights);
}

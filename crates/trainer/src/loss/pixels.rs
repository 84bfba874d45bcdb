//! Losses of segmentation. Dice, generalised Dice, Tversky and focal loss are MONAI 1.6.1's with a softmax over all classes,
//! background included; cross-entropy is PyTorch's, and the focal loss of each class by itself segmentation_models_pytorch 0.5.0's.

use std::cell::OnceCell;
use std::ops::Range;

use burn::tensor::{Tensor, TensorData, activation};
use kindling_data::{HostBatch, IGNORED};
use kindling_ops::{pixel_sums, sum, sums_pixels};
use serde::{Deserialize, Serialize};

use super::focal::FocalConfig;
use super::overlap::{Linear, numbers, over_pixels, ratio};
use super::pixel_terms::{DiceOver, PixelLoss, PixelTerm};
use super::{Loss, OverBatch, Whole};
use crate::micro_batch::MicroBatch;

/// The loss that a network for segmentation minimises.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentationConfig {
    /// The sum of these losses.
    pub loss: PixelLoss,
    /// Over what the sums of Dice and its relatives run.
    pub dice_over: DiceOver,
    /// How much the cross-entropy of the auxiliary classifier counts beside them, 1e-6 to 1e3; torchvision's training takes 0.5. If
    /// absent, the network has no auxiliary classifier, or it is not trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auxiliary_loss: Option<f64>,
    /// How the focal losses weigh pixels.
    pub focal: FocalConfig,
}

/// The loss of a network for segmentation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SegmentationLoss {
    terms: Vec<PixelTerm>,
    over: DiceOver,
    focal: FocalConfig,
    smoothing: f64,
    weights: Vec<f64>,
    /// The weight of the auxiliary classifier's cross-entropy.
    auxiliary: Option<f64>,
}

/// The masks of some rows of a batch.
fn masks_of<'a>(batch: &'a HostBatch, micro: &MicroBatch) -> &'a [u8] {
    let Some(masks) = batch.masks_of(micro.rows.clone()) else {
        unreachable!("a loader of segmentations gives masks with every batch")
    };
    masks
}

/// Pixels of each of so many classes in some rows of a batch together.
fn there(batch: &HostBatch, rows: Range<usize>, classes: usize) -> Vec<f64> {
    let of_class = |class: usize| batch.pixels[rows.clone()].iter().filter_map(|counts| counts.get(class)).sum::<u64>();
    (0..classes).map(|class| of_class(class) as f64).collect()
}

/// What the pixels of some rows are.
struct Truth {
    /// `[rows, classes, height, width]`: 1 where a pixel is of the class; ignored pixels are of none.
    one_hot: Tensor<4>,
    /// Whether there are pixels of no class, which have to be left out of what is found, too.
    ignores: bool,
}

impl Truth {
    /// Of some rows of a batch, beside their logits.
    fn of(logits: &Tensor<4>, batch: &HostBatch, micro: &MicroBatch) -> Self {
        let shape = logits.dims();
        let [_, classes, height, width] = shape;
        let (pixels, mut ignores) = (height * width, false);
        let mut one_hot: Vec<f32> = vec![0.0; micro.rows.len() * classes * pixels];
        for (row, mask) in masks_of(batch, micro).chunks_exact(pixels).enumerate() {
            for (pixel, &class) in mask.iter().enumerate() {
                match class {
                    IGNORED => ignores = true,
                    class => one_hot[(row * classes + usize::from(class)) * pixels + pixel] = 1.0,
                }
            }
        }
        let beside = (&logits.device(), logits.dtype());
        Self { one_hot: Tensor::from_data(TensorData::new(one_hot, shape), beside), ignores }
    }
}

/// The logits of some rows, and what is made of them where a loss asks for it: maps, or on the CPU sums without maps.
struct Rows<'a> {
    logits: Tensor<4>,
    batch: &'a HostBatch,
    micro: &'a MicroBatch,
    truth: &'a OnceCell<Truth>,
    log_p: OnceCell<Tensor<4>>,
    p: OnceCell<Tensor<4>>,
    sums: OnceCell<Tensor<3>>,
}

impl<'a> Rows<'a> {
    /// `truth` is shared by all logits of the same rows.
    fn of(logits: Tensor<4>, batch: &'a HostBatch, micro: &'a MicroBatch, truth: &'a OnceCell<Truth>) -> Self {
        Self { logits, batch, micro, truth, log_p: OnceCell::new(), p: OnceCell::new(), sums: OnceCell::new() }
    }

    fn truth(&self) -> &Truth {
        self.truth.get_or_init(|| Truth::of(&self.logits, self.batch, self.micro))
    }

    /// The logarithms of the probabilities.
    fn log_p(&self) -> &Tensor<4> {
        self.log_p.get_or_init(|| activation::log_softmax(self.logits.clone(), 1))
    }

    /// The probabilities; zero where nothing counts.
    fn p(&self) -> &Tensor<4> {
        self.p.get_or_init(|| self.counted(self.log_p().clone().exp()))
    }

    /// A map with zeros where nothing counts.
    fn counted(&self, map: Tensor<4>) -> Tensor<4> {
        let Truth { one_hot, ignores } = self.truth();
        if *ignores { map * one_hot.clone().sum_dim(1) } else { map }
    }

    /// One of [`pixel_sums`]' sums, `[rows, classes]`, where there is that operation.
    fn sum(&self, number: usize) -> Option<Tensor<2>> {
        let make = || pixel_sums(self.logits.clone(), masks_of(self.batch, self.micro).into());
        let of = |sums: &Tensor<3>| sums.clone().narrow(1, number, 1).squeeze_dim(1);
        sums_pixels(&self.logits).then(|| of(self.sums.get_or_init(make)))
    }

    /// The sums of the probability of each class where the truth is.
    fn together(&self) -> Tensor<2> {
        self.sum(0).unwrap_or_else(|| over_pixels(self.p().clone() * self.truth().one_hot.clone()))
    }

    /// The same everywhere.
    fn found(&self) -> Tensor<2> {
        self.sum(1).unwrap_or_else(|| over_pixels(self.p().clone()))
    }

    /// The sums of its logarithm where the truth is.
    fn right(&self) -> Tensor<2> {
        self.sum(2).unwrap_or_else(|| over_pixels(self.log_p().clone() * self.truth().one_hot.clone()))
    }

    /// The same everywhere.
    fn all(&self) -> Tensor<2> {
        self.sum(3).unwrap_or_else(|| over_pixels(self.counted(self.log_p().clone())))
    }
}

impl SegmentationLoss {
    /// A loss over `classes` classes; even weights if `weights` is absent.
    pub(crate) fn new(asked: &SegmentationConfig, classes: usize, smoothing: f64, weights: Option<&[f64]>) -> Self {
        let weights = weights.map_or_else(|| vec![1.0; classes], <[f64]>::to_vec);
        let terms = asked.loss.terms().to_vec();
        let (over, focal, auxiliary) = (asked.dice_over, asked.focal.clone(), asked.auxiliary_loss);
        Self { terms, over, focal, smoothing, weights, auxiliary }
    }

    /// The logits of the network, and those of its auxiliary classifier with their weight, which a training pass has put behind them.
    fn divided(&self, logits: Tensor<4>) -> (Tensor<4>, Option<(Tensor<4>, f64)>) {
        let classes = self.weights.len();
        if logits.dims()[1] == classes {
            return (logits, None);
        }
        let half = |start| logits.clone().narrow(1, start, classes);
        (half(0), self.auxiliary.map(|weight| (half(classes), weight)))
    }

    /// The cross-entropy, of pixels with this weight in the whole batch.
    fn cross_entropy(&self, rows: &Rows<'_>, total_weight: f64) -> Tensor<1> {
        let classes = self.weights.len();
        let weighed = |x: Tensor<2>, factor: f64| {
            let weights: Vec<f64> = self.weights.iter().map(|weight| weight * factor).collect();
            let weights = numbers::<2>(&weights, [1, classes], &x);
            sum(x * weights)
        };
        let of_truth = weighed(rows.right(), 1.0 - self.smoothing);
        let cost = match self.smoothing {
            0.0 => of_truth,
            smoothing => of_truth + weighed(rows.all(), smoothing / classes as f64),
        };
        // Burn divides in float32 in the gradient of a division by a number.
        cost * (-1.0 / total_weight)
    }

    /// One minus a ratio of sums: over each group, or what these rows add to the one over the batch.
    fn ratio(&self, term: PixelTerm, rows: &Rows<'_>, whole: &Whole) -> Tensor<1> {
        let &Rows { batch, micro, .. } = rows;
        let [together, found] = [rows.together(), rows.found()];
        let share = |rows: usize| rows as f64 / batch.len() as f64;
        let singles = vec![1; micro.rows.len()];
        let groups = match self.over {
            DiceOver::Image => &singles,
            DiceOver::Group => &micro.groups,
            DiceOver::Batch => return self.over_all(term, batch, whole).part(together, found, share(micro.rows.len())),
        };
        let mut start = micro.rows.start;
        let parts = groups.iter().map(|&size| {
            let rows = start..start + size;
            start += size;
            let of = |x: &Tensor<2>| x.clone().narrow(0, rows.start - micro.rows.start, size).sum_dim(0);
            let there = there(batch, rows.clone(), self.weights.len());
            let ratio = ratio(term, of(&together), of(&found), &there);
            (ratio.neg() + 1.0) * share(size)
        });
        let parts: Vec<Tensor<1>> = parts.collect();
        parts.into_iter().reduce(|sum, part| sum + part).unwrap_or_else(|| sum(together) * 0.0)
    }

    /// The loss over a whole batch, given the sums of [`OverBatch::of_rows`].
    fn over_all(&self, term: PixelTerm, batch: &HostBatch, whole: &Whole) -> Linear {
        let classes = self.weights.len();
        let (together, found) = whole.sums.split_at(classes);
        Linear::about(term, together, found, &there(batch, 0..batch.pixels.len(), classes))
    }
}

impl Loss<4> for SegmentationLoss {
    fn total_weight(&self, batch: &HostBatch) -> f64 {
        let weigh = |counts: &Vec<u64>| -> f64 {
            counts.iter().zip(&self.weights).map(|(count, weight)| *count as f64 * weight).sum()
        };
        // A batch in which nothing counts has a loss of zero.
        batch.pixels.iter().map(weigh).sum::<f64>().max(f64::from(f32::MIN_POSITIVE))
    }

    /// `logits` are `[rows, classes, height, width]`, or twice as many channels with those of an auxiliary classifier. Panics if a batch
    /// has no masks.
    fn part(&self, logits: Tensor<4>, batch: &HostBatch, micro: &MicroBatch, whole: &Whole) -> Tensor<1> {
        let (logits, auxiliary) = self.divided(logits);
        let truth = OnceCell::new();
        let rows = Rows::of(logits, batch, micro, &truth);
        let pixels = || (batch.pixels.iter().flatten().sum::<u64>() as f64).max(1.0);
        let term = |term: &PixelTerm| match term {
            PixelTerm::CrossEntropy => self.cross_entropy(&rows, whole.weight),
            PixelTerm::Focal => self.focal.of_softmax(rows.log_p(), rows.p(), &rows.truth().one_hot, pixels()),
            PixelTerm::BinaryFocal => {
                let Truth { one_hot, ignores } = rows.truth();
                self.focal.of_each_class(rows.logits.clone(), one_hot, *ignores, pixels())
            }
            ratio => self.ratio(*ratio, &rows, whole),
        };
        let mut parts: Vec<Tensor<1>> = self.terms.iter().map(term).collect();
        parts.extend(auxiliary.map(|(logits, weight)| {
            self.cross_entropy(&Rows::of(logits, batch, micro, &truth), whole.weight) * weight
        }));
        parts.into_iter().reduce(|sum, part| sum + part).unwrap_or_else(|| sum(rows.found()) * 0.0)
    }

    fn over_batch(&self) -> Option<&dyn OverBatch<4>> {
        let asked = self.over == DiceOver::Batch && self.terms.iter().any(|term| term.is_ratio());
        asked.then_some(self as &dyn OverBatch<4>)
    }
}

impl OverBatch<4> for SegmentationLoss {
    /// What is found together with the truth, and what is found, behind each other: `[rows, 2 * classes]`. How many pixels are of a class is
    /// known without a pass.
    fn of_rows(&self, logits: Tensor<4>, batch: &HostBatch, micro: &MicroBatch) -> Tensor<2> {
        let truth = OnceCell::new();
        let rows = Rows::of(self.divided(logits).0, batch, micro, &truth);
        Tensor::cat(vec![rows.together(), rows.found()], 1)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};
    use serde_json::Value;

    use super::*;
    use crate::micro_batch::micro_batches;

    const GOLDEN: &str = include_str!("golden/pixels.json");

    fn numbers_of(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    }

    /// A batch with a truth that needs no image.
    fn batch(golden: &Value, truth: &str) -> HostBatch {
        let shape: Vec<usize> = numbers_of(&golden["shape"]).into_iter().map(|side| side as usize).collect();
        let [images, classes, height, width] = shape[..] else { panic!("{shape:?}") };
        let masks: Vec<u8> = numbers_of(&golden[truth]).into_iter().map(|class| class as u8).collect();
        let count = |mask: &[u8], of: usize| mask.iter().filter(|it| usize::from(**it) == of).count() as u64;
        let counts = |mask: &[u8]| (0..classes).map(|of| count(mask, of)).collect();
        HostBatch {
            shape: [images, 1, height, width],
            images: vec![0.0; images * height * width],
            labels: vec![0; images],
            samples: (0..images as u64).collect(),
            pixels: masks.chunks(height * width).map(counts).collect(),
            masks: Some(masks),
            ..HostBatch::default()
        }
    }

    /// The loss of a batch that is cut into micro-batches of so many rows with groups of at most `ghost`, and its gradient.
    fn of_batch(
        loss: &SegmentationLoss,
        logits: &[f64],
        batch: &HostBatch,
        ghost: usize,
        limit: usize,
    ) -> (f64, Vec<f64>) {
        let device = Device::flex().autodiff();
        let [images, _, height, width] = batch.shape;
        let shape = [images, logits.len() / (images * height * width), height, width];
        let data = TensorData::new(logits.to_vec(), shape);
        let logits = Tensor::<4>::from_data(data, (&device, DType::F64)).require_grad();
        let cuts = micro_batches(images, ghost, limit);
        let rows_of = |micro: &MicroBatch| logits.clone().narrow(0, micro.rows.start, micro.rows.len());
        let addends = loss.over_batch().map(|loss| {
            let parts: Vec<Tensor<2>> =
                cuts.iter().map(|micro| loss.of_rows(rows_of(micro).inner(), batch, micro)).collect();
            Tensor::cat(parts, 0).sum_dim(0).into_data().try_to_vec::<f64>().unwrap()
        });
        let whole = Whole { weight: loss.total_weight(batch), sums: addends.unwrap_or_default() };
        let parts = cuts.iter().map(|micro| loss.part(rows_of(micro), batch, micro, &whole));
        let sum = parts.reduce(|sum, part| sum + part).unwrap();
        let gradient = logits.grad(&sum.backward()).unwrap();
        let value = sum.inner().into_data().try_to_vec::<f64>().unwrap()[0];
        (value, gradient.into_data().try_to_vec::<f64>().unwrap())
    }

    fn close(found: f64, expected: f64, what: &str) {
        assert!((found - expected).abs() <= 1e-10 * expected.abs().max(1.0), "{what}: {found} for {expected}");
    }

    #[test]
    fn every_loss_and_its_gradient_equal_monai_smp_and_pytorch() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        let logits = numbers_of(&golden["logits"]);
        for case in golden["cases"].as_array().unwrap() {
            let (name, over) = (case["loss"].as_str().unwrap(), case["over"].as_str().unwrap());
            let ignores = case["ignores"].as_bool().unwrap();
            let (loss, dice_over) = (name.parse().unwrap(), over.parse().unwrap());
            let focal = match &case["focal"] {
                Value::Null => FocalConfig::default(),
                given => FocalConfig::deserialize(given).unwrap(),
            };
            let asked = SegmentationConfig { loss, dice_over, focal, auxiliary_loss: None };
            let weights = case["weights"].as_array().map(|_| numbers_of(&case["weights"]));
            let smoothing = case["smoothing"].as_f64().unwrap();
            let batch = batch(&golden, if ignores { "ignoring" } else { "truth" });
            // Where one group is the batch, as in the references, the batch has the sums of the group.
            let mut forms = vec![(asked.clone(), 3)];
            if asked.dice_over == DiceOver::Group {
                forms.push((SegmentationConfig { dice_over: DiceOver::Batch, ..asked }, 1));
            }
            for (asked, ghost) in forms {
                let loss = SegmentationLoss::new(&asked, 3, smoothing, weights.as_deref());
                let what = format!(
                    "{name} over {}, smoothing {smoothing}, weights {weights:?}, {:?}, ignored pixels: {ignores}",
                    asked.dice_over, asked.focal
                );
                let (value, gradient) = of_batch(&loss, &logits, &batch, ghost, ghost);
                close(value, case["value"].as_f64().unwrap(), &what);
                close(
                    gradient.iter().map(|number| number * number).sum::<f64>().sqrt(),
                    case["norm"].as_f64().unwrap(),
                    &what,
                );
                for (found, expected) in gradient.iter().zip(numbers_of(&case["first8"])) {
                    close(*found, expected, &what);
                }
            }
        }
    }

    /// Where there is no operation for it, Burn's are used.
    #[test]
    fn sums_of_one_operation_equal_those_of_many_and_so_do_their_gradients() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        let device = Device::flex().autodiff();
        for truth in ["truth", "ignoring"] {
            let batch = batch(&golden, truth);
            let [images, _, height, width] = batch.shape;
            let micro = MicroBatch { rows: 0..images, groups: vec![images] };
            let data = TensorData::new(numbers_of(&golden["logits"]), [images, 3, height, width]);
            let found = |by_maps: bool| {
                let logits = Tensor::<4>::from_data(data.clone(), (&device, DType::F64)).require_grad();
                let cell = OnceCell::new();
                let rows = Rows::of(logits.clone(), &batch, &micro, &cell);
                let [together, found, right, all] = match by_maps {
                    false => [rows.together(), rows.found(), rows.right(), rows.all()],
                    true => {
                        let one_hot = || rows.truth().one_hot.clone();
                        let maps = [rows.p().clone() * one_hot(), rows.p().clone(), rows.log_p().clone() * one_hot()];
                        let [together, found, right] = maps.map(over_pixels);
                        [together, found, right, over_pixels(rows.counted(rows.log_p().clone()))]
                    }
                };
                // Other weights for each, so that none of them is hidden by another.
                let parts = [together, found * 0.3, right * 0.2, all * -0.1];
                let all = Tensor::cat(parts.into(), 1).powf_scalar(2.0);
                let gradient = logits.grad(&sum(all.clone()).backward()).unwrap();
                let values = |data: TensorData| data.try_to_vec::<f64>().unwrap();
                [values(all.inner().into_data()), values(gradient.into_data())].concat()
            };
            let [one, many] = [false, true].map(found);
            one.iter().zip(&many).for_each(|(one, many)| close(*one, *many, truth));
            assert_eq!(one.len(), many.len());
        }
    }

    /// Pixels that are ignored are left out of both forms alike, and so is a sum with a loss that is a mean.
    #[test]
    fn over_the_batch_a_loss_and_its_gradient_are_those_of_one_group_that_is_the_batch() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        let logits = numbers_of(&golden["logits"]);
        let batch = batch(&golden, "ignoring");
        for name in ["dice+cross-entropy", "generalised-dice", "tversky+dice"] {
            let loss: PixelLoss = name.parse().unwrap();
            let of = |dice_over| SegmentationConfig { loss: loss.clone(), dice_over, ..SegmentationConfig::default() };
            let [group, cut] =
                [DiceOver::Group, DiceOver::Batch].map(|over| SegmentationLoss::new(&of(over), 3, 0.0, None));
            let expected = of_batch(&group, &logits, &batch, 3, 3);
            for (ghost, limit) in [(1, 1), (2, 2), (1, 3)] {
                let found = of_batch(&cut, &logits, &batch, ghost, limit);
                let what = format!("{name}, ghost batches of {ghost}, {limit} at once");
                close(found.0, expected.0, &what);
                found.1.iter().zip(&expected.1).for_each(|(found, expected)| close(*found, *expected, &what));
            }
            let by_group = of_batch(&group, &logits, &batch, 1, 1);
            assert!((by_group.0 - expected.0).abs() > 1e-3, "{name}: a mean over groups is another loss");
        }
    }

    /// With the auxiliary classifier's logits behind the network's, in value and in both gradients.
    #[test]
    fn the_auxiliary_cross_entropy_is_added_with_its_weight() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        let logits = numbers_of(&golden["logits"]);
        let other: Vec<f64> = logits.iter().map(|logit| 0.5 - logit).collect();
        let batch = batch(&golden, "ignoring");
        let image = logits.len() / batch.len();
        let both: Vec<f64> =
            logits.chunks(image).zip(other.chunks(image)).flat_map(|(one, two)| [one, two].concat()).collect();
        for dice_over in [DiceOver::Group, DiceOver::Batch] {
            let of = |loss: &str, auxiliary_loss| {
                let focal = FocalConfig::default();
                let asked = SegmentationConfig { loss: loss.parse().unwrap(), dice_over, focal, auxiliary_loss };
                SegmentationLoss::new(&asked, 3, 0.1, Some(&[1.0, 2.0, 0.5]))
            };
            let (main, main_gradient) = of_batch(&of("dice+focal", None), &logits, &batch, 1, 1);
            let (auxiliary, auxiliary_gradient) = of_batch(&of("cross-entropy", None), &other, &batch, 1, 1);
            for limit in [1, 3] {
                let (found, gradient) = of_batch(&of("dice+focal", Some(0.4)), &both, &batch, 1, limit);
                close(found, main + 0.4 * auxiliary, &format!("{dice_over}, {limit} at once"));
                for (row, found) in gradient.chunks(2 * image).enumerate() {
                    let expected = |of: &[f64], at: usize| of[row * image + at];
                    for at in 0..image {
                        close(found[at], expected(&main_gradient, at), "the network's gradient");
                        close(found[image + at], 0.4 * expected(&auxiliary_gradient, at), "the auxiliary's gradient");
                    }
                }
            }
        }
    }

    #[test]
    fn parts_of_a_batch_add_up_to_its_loss_wherever_it_is_cut_between_groups() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        let logits = numbers_of(&golden["logits"]);
        for term in PixelTerm::ALL {
            for over in [DiceOver::Image, DiceOver::Group, DiceOver::Batch] {
                let loss = term.to_string().parse().unwrap();
                let asked = SegmentationConfig { loss, dice_over: over, ..SegmentationConfig::default() };
                let loss = SegmentationLoss::new(&asked, 3, 0.0, Some(&[1.0, 2.0, 0.5]));
                let batch = batch(&golden, "ignoring");
                let whole = of_batch(&loss, &logits, &batch, 1, 3);
                let cut = of_batch(&loss, &logits, &batch, 1, 1);
                close(cut.0, whole.0, &format!("{term} over {over}"));
                cut.1.iter().zip(&whole.1).for_each(|(cut, whole)| close(*cut, *whole, &format!("{term} over {over}")));
            }
        }
    }

    #[test]
    fn a_batch_of_ignored_pixels_costs_nothing_and_moves_nothing() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        let mut batch = batch(&golden, "truth");
        batch.masks.iter_mut().flatten().for_each(|class| *class = IGNORED);
        batch.pixels.iter_mut().flatten().for_each(|count| *count = 0);
        for term in PixelTerm::ALL {
            for dice_over in [DiceOver::Image, DiceOver::Batch] {
                let loss = term.to_string().parse().unwrap();
                let asked = SegmentationConfig { loss, dice_over, ..SegmentationConfig::default() };
                let loss = SegmentationLoss::new(&asked, 3, 0.0, None);
                let (value, gradient) = of_batch(&loss, &numbers_of(&golden["logits"]), &batch, 3, 3);
                close(value, 0.0, &format!("{term} over {dice_over}"));
                assert!(gradient.iter().all(|number| *number == 0.0), "{term} over {dice_over}");
            }
        }
    }

    #[test]
    fn a_sum_of_losses_reads_as_it_is_written() {
        let sum: PixelLoss = "dice+focal".parse().unwrap();
        assert_eq!(sum.to_string(), "dice+focal");
        assert_eq!(PixelLoss::default().to_string(), "dice+cross-entropy");
        assert!("dice+dice".parse::<PixelLoss>().is_err());
        let error = "dise".parse::<PixelLoss>().unwrap_err();
        assert!(error.contains("dice"), "{error}");
    }
}

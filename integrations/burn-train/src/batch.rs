//! Dividing batches into parts, and joining the outputs of parts.

use std::ops::Range;

use burn::tensor::{DType, Int, Tensor};
use burn::train::{ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput, SequenceOutput};

/// A batch that can be computed in parts.
///
/// ```
/// use std::ops::Range;
/// use burn::tensor::{Int, Tensor};
/// use kindling_burn_train::Split;
///
/// struct Scans {
///     images: Tensor<4>,
///     labels: Tensor<1, Int>,
/// }
///
/// impl Split for Scans {
///     fn samples(&self) -> usize {
///         self.images.dims()[0]
///     }
///
///     fn part(&self, rows: Range<usize>) -> Self {
///         Self { images: self.images.clone().slice(rows.clone()), labels: self.labels.clone().slice(rows) }
///     }
/// }
/// ```
pub trait Split {
    /// How many samples there are.
    fn samples(&self) -> usize;

    /// Some consecutive samples, as a batch. The batch itself stays: it may be needed again.
    fn part(&self, rows: Range<usize>) -> Self;

    /// The weight of the loss and the gradients of this part in those of the whole batch.
    ///
    /// The default is right for a loss that is a mean over samples. Where the loss is a sum, the share is 1; where it is a
    /// mean weighted by class or over unpadded tokens, the share is this part's weight divided by the whole batch's.
    fn share(&self, whole: &Self) -> f64 {
        self.samples() as f64 / whole.samples() as f64
    }
}

/// An output that can be joined from the outputs of parts. Metrics see it as if it had been computed at once.
pub trait Join: Sized {
    /// The output of the whole batch from the outputs of its parts, in order, each with its share ([`Split::share`]). They
    /// come as `ItemLazy::sync` leaves them: outside any gradient graph. There is at least one.
    fn join(parts: Vec<(Self, f64)>) -> Self;

    /// A number, `[1]`, that cannot be computed unless everything in here could. It is read before the step counts: what
    /// it does not depend on may fail later, on the thread that computes metrics, where a failure ends the run.
    fn witness(&self) -> Option<Tensor<1>> {
        None
    }
}

impl Join for () {
    fn join(_parts: Vec<(Self, f64)>) -> Self {}
}

/// Outputs of a loss, rows of numbers and targets.
macro_rules! join_rows {
    ($($output:ty, $rows_of_targets:path, $sum_of_targets:path;)+) => {$(
        impl Join for $output {
            fn join(parts: Vec<(Self, f64)>) -> Self {
                let loss = total(parts.iter().map(|(part, share)| (&part.loss, *share)));
                let (output, targets) = parts.into_iter().map(|(part, _)| (part.output, part.targets)).unzip();
                Self { loss, output: rows(output), targets: $rows_of_targets(targets) }
            }

            fn witness(&self) -> Option<Tensor<1>> {
                Some(sum(&self.loss) + sum(&self.output) + $sum_of_targets(&self.targets))
            }
        }
    )+};
}

join_rows! {
    ClassificationOutput, rows_of_int, sum_of_int;
    MultiLabelClassificationOutput, rows_of_int, sum_of_int;
    RegressionOutput, rows, sum;
}

impl Join for SequenceOutput {
    fn join(parts: Vec<(Self, f64)>) -> Self {
        let loss = total(parts.iter().map(|(part, share)| (&part.loss, *share)));
        let predictions: Option<Vec<_>> = parts.iter().map(|(part, _)| part.predictions.clone()).collect();
        let (logits, targets) = parts.into_iter().map(|(part, _)| (part.logits, part.targets)).unzip();
        Self { loss, logits: rows(logits), predictions: predictions.map(rows_of_int), targets: rows_of_int(targets) }
    }

    fn witness(&self) -> Option<Tensor<1>> {
        let known = sum(&self.loss) + sum(&self.logits) + sum_of_int(&self.targets);
        Some(match &self.predictions {
            Some(predictions) => known + sum_of_int(predictions),
            None => known,
        })
    }
}

/// The loss of the whole batch; one for each sample where the parts have that. A single part's is left as it is.
fn total<'a>(losses: impl Iterator<Item = (&'a Tensor<1>, f64)>) -> Tensor<1> {
    let (losses, shares): (Vec<Tensor<1>>, Vec<f64>) = losses.map(|(loss, share)| (loss.clone(), share)).unzip();
    if losses.len() == 1 || losses.iter().any(|loss| loss.dims() != [1]) {
        return rows(losses);
    }
    let scaled = losses.into_iter().zip(shares).map(|(loss, share)| loss * share);
    scaled.reduce(|sum, loss| sum + loss).expect("a batch has at least one part")
}

fn rows<const D: usize>(mut parts: Vec<Tensor<D>>) -> Tensor<D> {
    if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::cat(parts, 0) }
}

fn rows_of_int<const D: usize>(mut parts: Vec<Tensor<D, Int>>) -> Tensor<D, Int> {
    if parts.len() == 1 { parts.swap_remove(0) } else { Tensor::cat(parts, 0) }
}

/// In float32, so that numbers of several types can be added.
fn sum<const D: usize>(tensor: &Tensor<D>) -> Tensor<1> {
    tensor.clone().sum().cast(DType::F32).reshape([1])
}

fn sum_of_int<const D: usize>(tensor: &Tensor<D, Int>) -> Tensor<1> {
    tensor.clone().sum().float().cast(DType::F32).reshape([1])
}

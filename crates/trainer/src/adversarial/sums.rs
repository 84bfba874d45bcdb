//! What the micro-batches of a half of an iteration add up to.

use burn::tensor::Tensor;
use kindling_layers::pass::BatchStatistics;
use kindling_ops::plain;

use crate::gradients::GradientSum;
use crate::step::read;

/// Sums over the micro-batches of a half.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) gradients: GradientSum,
    pub(super) statistics: BatchStatistics,
    /// Numbers to read at the finite check, in an order of the half's own, `[1]` each.
    pub(super) numbers: Vec<Tensor<1>>,
}

impl Sums {
    /// Adds to the numbers, which are as many every time.
    pub(super) fn count<const N: usize>(&mut self, numbers: [Tensor<1>; N]) {
        let numbers = numbers.map(plain);
        if self.numbers.is_empty() {
            self.numbers = numbers.into();
            return;
        }
        let known = std::mem::take(&mut self.numbers);
        self.numbers = known.into_iter().zip(numbers).map(|(known, number)| known + number).collect();
    }

    /// Reads the numbers, and last the norm of all gradients without the loss scale, in one transfer that depends on
    /// everything.
    pub(super) fn finite_check(&mut self, loss_scale: f64) -> Result<Vec<f64>, String> {
        let squares = self.gradients.squared_norm().ok_or("the network has no parameters")?;
        let mut all: Vec<Tensor<1>> = self.numbers.drain(..).map(|number| number.reshape([1])).collect();
        all.push(squares.reshape([1]));
        let mut read = read(Tensor::cat(all, 0))?;
        if let Some(norm) = read.last_mut() {
            *norm = norm.sqrt() / loss_scale;
        }
        Ok(read)
    }
}

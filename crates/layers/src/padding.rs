//! Padding of convolutions with zeros.

use crate::trace::Zeros;

/// How a convolution pads its input. For a dilated kernel, `kernel` is the distance from its first to its last pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// `kernel / 2` zeros on each side, as in PyTorch's models. With an odd kernel, the output has `ceil(size / stride)` rows and
    /// columns.
    #[default]
    Symmetric,
    /// As many zeros as `ceil(size / stride)` rows and columns of output need; if their number is odd, the last one is below or to the
    /// right. This is TensorFlow's "SAME".
    Same,
    /// This number of zeros on each side, whatever the kernel.
    Zeros(usize),
}

impl Padding {
    /// Zeros before and after an axis of `size` elements.
    pub fn of_axis(self, size: usize, kernel: usize, stride: usize) -> (usize, usize) {
        match self {
            Self::Symmetric => (kernel / 2, kernel / 2),
            Self::Zeros(zeros) => (zeros, zeros),
            Self::Same => {
                let needed = (size.div_ceil(stride) - 1) * stride + kernel;
                let total = needed.saturating_sub(size);
                (total / 2, total - total / 2)
            }
        }
    }

    /// Zeros around a map.
    pub fn of_map(self, height: usize, width: usize, kernel: usize, stride: usize) -> Zeros {
        let (top, bottom) = self.of_axis(height, kernel, stride);
        let (left, right) = self.of_axis(width, kernel, stride);
        Zeros { before: [top, left], after: [bottom, right] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By TensorFlow's definition: `max((ceil(n / s) - 1) s + k - n, 0)`, the smaller half first.
    #[test]
    fn same_pads_as_tensorflow_does() {
        for (size, kernel, stride, expected) in
            [(224, 3, 2, (0, 1)), (225, 3, 2, (1, 1)), (224, 5, 2, (1, 2)), (7, 5, 1, (2, 2)), (1, 3, 2, (1, 1))]
        {
            assert_eq!(Padding::Same.of_axis(size, kernel, stride), expected, "{size} {kernel} {stride}");
        }
        assert_eq!(Padding::Symmetric.of_axis(224, 5, 2), (2, 2));
    }
}

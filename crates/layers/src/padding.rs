//! Zeros around an image before a convolution.

use crate::trace::Zeros;

/// How a convolution pads. The kernel of one that is dilated counts as far as it reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// `kernel / 2` zeros on each side, as PyTorch models have it; of an odd kernel `ceil(size / stride)` rows and columns come out.
    #[default]
    Symmetric,
    /// Just as many zeros as the last window needs for `ceil(size / stride)` rows and columns, the odd one below and to the
    /// right: TensorFlow's "SAME".
    Same,
    /// So many zeros on each side, whatever the kernel.
    Zeros(usize),
}

impl Padding {
    /// Zeros before and after one axis of `size` elements.
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

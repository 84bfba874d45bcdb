//! Convolutions of a map that is enlarged to the size of another, whose channels follow, as in the decoder of a U-Net.

use burn::tensor::Tensor;

use crate::conv_norm::ConvNorm;
use crate::conv2d::Conv2d;
use crate::map::Map;
use crate::precision;
use crate::resize::resized;
use kindling_ops::{self as ops, Interpolation, reserve};

/// A map `[batch, channels, height, width]` that is enlarged, each pixel of `size` being the nearest one of it.
#[derive(Clone, Debug)]
pub struct Enlarged {
    /// The map before.
    pub x: Tensor<4>,
    /// Rows and columns that it gets.
    pub size: [usize; 2],
    /// The map of this size whose channels follow.
    pub beside: Option<Tensor<4>>,
}

impl Enlarged {
    /// The map with what is beside it, as a tensor.
    pub fn whole(self) -> Tensor<4> {
        let x = resized(self.x, self.size, Interpolation::Nearest);
        match self.beside {
            Some(beside) => Tensor::cat(vec![x, beside], 1),
            None => x,
        }
    }
}

impl Conv2d {
    /// Convolves a map that is enlarged: while it is read where [`kindling_ops::dense_of_enlarged`] does that, and otherwise before.
    pub fn read_enlarged(&self, x: Enlarged) -> Tensor<4> {
        if !self.enlarges(&x) {
            return self.forward(x.whole());
        }
        let (Enlarged { x, size: [height, width], beside }, weight) = (x, self.weight.val());
        precision::assert_fits(&weight, &x);
        reserve::like(&x, x.dims()[0] * weight.dims()[0] * height * width);
        ops::dense_of_enlarged(x, beside, weight)
    }

    /// Whether it enlarges a map while it reads it.
    fn enlarges(&self, x: &Enlarged) -> bool {
        ops::convolves_enlarged(&x.x, x.size) && self.keeps_size_with_3x3(x.size)
    }
}

impl ConvNorm {
    /// As [`ConvNorm::pass`], of a map that is enlarged.
    pub fn pass_enlarged(&self, x: Enlarged) -> Map {
        match self.conv.enlarges(&x) {
            true => self.normalised(self.conv.read_enlarged(x)),
            false => self.pass(x.whole().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, FloatDType, Tolerance};

    use crate::conv2d::Conv2dConfig;

    /// In float32 the map is enlarged before, in bf16 while it is read, where the processor multiplies numbers of bf16; not by a kernel that is
    /// dilated, nor where the size is not doubled.
    #[test]
    fn a_map_that_is_enlarged_while_it_is_read_is_convolved_as_one_that_was_before() {
        let device = Device::flex();
        let layer = crate::init::initialise(Conv2dConfig::new(9, 4, 3, 1).init(&device), 5);
        let random = |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
        for (size, doubled) in [([22, 40], true), ([21, 40], false)] {
            let (x, beside) = (random([2, 6, 11, 20]), random([2, 3, size[0], size[1]]));
            for (format, tolerance) in [(FloatDType::F32, 1e-5), (FloatDType::BF16, 0.1)] {
                let map = Enlarged { x: x.clone().cast(format), size, beside: Some(beside.clone().cast(format)) };
                let is_half = format == FloatDType::BF16;
                assert_eq!(layer.enlarges(&map), is_half && doubled && ops::multiplies_bf16());
                assert!(!layer.clone().atrous(2).enlarges(&map));
                let before = layer.forward(map.clone().whole()).cast(FloatDType::F32).into_data();
                let found = layer.read_enlarged(map).cast(FloatDType::F32).into_data();
                found.assert_approx_eq::<f32>(&before, Tolerance::absolute(tolerance));
            }
        }
    }
}

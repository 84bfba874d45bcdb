//! Tensors as elements in row-major order, and back.

use burn::backend::TensorMetadata;
use burn::tensor::{DType, TensorData, bf16, f16};
use burn_flex::FlexTensor;
use half::slice::HalfFloatSliceExt;
use half::vec::{HalfBitsVecExt, HalfFloatVecExt};
use rayon::prelude::*;

use super::gemm::Threads;
use super::halves::{Half, Stored};
use super::making::Making;
use super::real::Real;
use super::values::{Elements, Source};

/// The elements of a tensor in row-major order: borrowed from the tensor if they are stored in that type and order, else a copy.
pub(crate) enum Values<T> {
    Own(FlexTensor),
    Made(Vec<T>),
}

impl<T: Real> std::ops::Deref for Values<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            // `values` made the tensor contiguous, and a contiguous tensor has a slice.
            Self::Own(tensor) => tensor.as_slice().unwrap_or(&[]),
            Self::Made(values) => values,
        }
    }
}

/// Compiles and runs an expression for the number type of a format: in `computed_in!(T = x.dtype(); ...)`, `T` is that type.
macro_rules! computed_in {
    ($number:ident = $dtype:expr; $work:expr) => {
        if $dtype == burn::tensor::DType::F64 {
            type $number = f64;
            $work
        } else {
            type $number = f32;
            $work
        }
    };
}
pub(crate) use computed_in;

/// The elements of a weight, or of another tensor that is small beside a map. [`crate::serves`] must be true of it.
pub(crate) fn values<T: Stored>(tensor: &FlexTensor) -> Values<T> {
    let Contiguous(tensor) = contiguous(tensor);
    if tensor.dtype() == T::DTYPE {
        return Values::Own(tensor);
    }
    Values::Made(match tensor.as_slice::<f32>() {
        // Float32 weights and statistics that are used with a map of float64.
        Some(singles) => singles.iter().map(|value| T::of(f64::from(*value))).collect(),
        None => {
            let mut wide = Vec::new();
            Contiguous(tensor).source().read_all(&mut wide, Threads::All);
            wide
        }
    })
}

/// A tensor whose elements are a slice, in row-major order.
pub(crate) struct Contiguous(FlexTensor);

/// The map of a tensor of which [`crate::serves`] is true.
pub(crate) fn contiguous(tensor: &FlexTensor) -> Contiguous {
    Contiguous(match tensor {
        _ if is_slice(tensor) => tensor.clone(),
        _ if has_equal_planes(tensor) => with_all_pixels(tensor),
        _ => tensor.to_contiguous(),
    })
}

fn is_slice(tensor: &FlexTensor) -> bool {
    match tensor.dtype() {
        DType::BF16 => tensor.as_slice::<bf16>().is_some(),
        DType::F16 => tensor.as_slice::<f16>().is_some(),
        DType::F64 => tensor.as_slice::<f64>().is_some(),
        _ => tensor.as_slice::<f32>().is_some(),
    }
}

impl Contiguous {
    /// The elements, which are of type `T` or of a half format.
    pub(crate) fn source<T: Stored>(&self) -> Source<'_, T> {
        let Self(tensor) = self;
        match (tensor.as_slice::<bf16>(), tensor.as_slice::<f16>()) {
            (Some(halves), _) => Source::Halves(Half::Bf16, halves.reinterpret_cast()),
            (_, Some(halves)) => Source::Halves(Half::F16, halves.reinterpret_cast()),
            _ => Source::Same(tensor.as_slice().unwrap_or(&[])),
        }
    }
}

/// Whether all pixels of a plane are one number that is stored once, as in the gradient of the mean of each plane.
fn has_equal_planes(map: &FlexTensor) -> bool {
    let layout = map.layout();
    layout.num_dims() == 4 && layout.strides().ends_with(&[0, 0]) && layout.num_elements() > 0
}

/// Such a map with all of its pixels. Burn copies it pixel by pixel, on one thread, which took four times as long as all that a normalisation
/// makes of it.
fn with_all_pixels(map: &FlexTensor) -> FlexTensor {
    let shape = dims(map);
    computed_in!(T = map.dtype(); {
        let each = Contiguous(map.narrow(2, 0, 1).narrow(3, 0, 1).to_contiguous());
        tensor(repeated::<T>(each.source(), shape[2] * shape[3]), shape)
    })
}

/// So many of each element.
fn repeated<T: Stored>(each: Source<'_, T>, times: usize) -> Elements<T> {
    let mut all = Making::like(each, each.len() * times);
    all.parts(times).into_par_iter().enumerate().for_each_init(
        || Elements::like(each, times),
        |plane, (index, part)| {
            match (&mut *plane, each) {
                (Elements::Same(plane), Source::Same(each)) => set(plane, each[index], times),
                (Elements::Halves(_, plane), Source::Halves(_, each)) => set(plane, each[index], times),
                _ => unreachable!("elements are like their source"),
            }
            part.begin(Threads::One).copy(plane.source());
        },
    );
    all.made()
}

fn set<E: Copy>(all: &mut Vec<E>, to: E, count: usize) {
    all.clear();
    all.resize(count, to);
}

impl<T: Stored> Elements<T> {
    /// The elements of a tensor that is given up: its own memory if nothing else refers to it.
    pub(crate) fn of(tensor: FlexTensor) -> Self {
        let Contiguous(tensor) = if is_slice(&tensor) { Contiguous(tensor) } else { contiguous(&tensor) };
        if !tensor.is_unique() {
            return Contiguous(tensor).source().copied();
        }
        let dtype = tensor.dtype();
        let data = tensor.into_data();
        // The data has the type that it is asked for, so no conversion can fail.
        match dtype {
            DType::BF16 => Self::Halves(Half::Bf16, data.try_into_vec::<bf16>().unwrap_or_default().reinterpret_into()),
            DType::F16 => Self::Halves(Half::F16, data.try_into_vec::<f16>().unwrap_or_default().reinterpret_into()),
            _ => Self::Same(data.try_into_vec().unwrap_or_default()),
        }
    }
}

/// A tensor of this shape. Numbers of a vector keep their type.
pub(crate) fn tensor<T: Stored, const D: usize>(elements: impl Into<Elements<T>>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(data(elements.into(), shape))
}

/// The same before it is a tensor.
pub(crate) fn data<T: Stored, const D: usize>(elements: Elements<T>, shape: [usize; D]) -> TensorData {
    match elements {
        Elements::Same(values) => TensorData::new(values, shape),
        Elements::Halves(Half::Bf16, bits) => TensorData::new(bits.reinterpret_into::<bf16>(), shape),
        Elements::Halves(Half::F16, bits) => TensorData::new(bits.reinterpret_into::<f16>(), shape),
    }
}

/// The shape of a map.
pub(crate) fn dims(x: &FlexTensor) -> [usize; 4] {
    x.shape().dims()
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;
    use burn::backend::ops::FloatTensorOps;
    use burn::tensor::{DType, FloatDType, Shape, TensorData};

    use super::*;

    /// In all formats, from a number a plane and from a single one.
    #[test]
    fn a_map_that_is_broadcast_to_planes_has_all_of_its_pixels() {
        let numbers: Vec<f32> = (0..6).map(|number| number as f32 / 2.0).collect();
        let each = FlexTensor::from_data(TensorData::new(numbers.clone(), [2, 3, 1, 1]));
        for format in [FloatDType::F32, FloatDType::BF16, FloatDType::F16, FloatDType::F64] {
            let each = Flex::float_cast(each.clone(), format);
            let map = Flex::float_expand(each.clone(), Shape::new([2, 3, 4, 5]));
            assert!(has_equal_planes(&map) && !has_equal_planes(&map.to_contiguous()) && !has_equal_planes(&each));
            let Contiguous(found) = contiguous(&map);
            assert_eq!(found.dtype(), DType::from(format));
            let found = Flex::float_cast(found, FloatDType::F32);
            let expected: Vec<f32> = numbers.iter().flat_map(|number| [*number; 20]).collect();
            assert_eq!(found.as_slice::<f32>(), Some(&*expected), "{format:?}");
            let one = Flex::float_expand(each.narrow(0, 1, 1).narrow(1, 0, 1), Shape::new([2, 3, 4, 5]));
            let Contiguous(found) = contiguous(&one);
            let found = Flex::float_cast(found, FloatDType::F32);
            assert_eq!(found.as_slice::<f32>(), Some(&[1.5; 2 * 3 * 4 * 5][..]), "{format:?}");
        }
    }
}

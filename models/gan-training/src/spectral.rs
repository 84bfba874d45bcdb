//! Spectral normalisation: every filter divided by its largest singular value ("Spectral Normalization for Generative
//! Adversarial Networks", Miyato et al. 2018), so that a discriminator cannot change faster than its images. It needs
//! first derivatives only, where gradient penalties need second ones.
//!
//! The normalised network is a network of its own, with leaves of its own: `W / s` with `s = u' W v`, where `u` and `v`
//! come from one power iteration each time a network is normalised. Gradients that were found for it are carried over to
//! the network itself once a step, by the chain rule: `(G - (G . W / s) u v') / s`. So the sum over micro-batches is
//! carried over, not each of them, and what a step computes does not depend on them.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use kindling_layers::host;
use kindling_layers::parameters::ModulePath;
use kindling_layers::tensors::Tensors;
use kindling_ops::{plain, sum};
use kindling_random::{Purpose, rng};
use kindling_trainer::engine::GradientSum;
use rand::distr::Distribution;
use rand_distr::StandardNormal;

/// Power iterations before the first step, from vectors drawn by the seed: PyTorch's.
const FIRST_ITERATIONS: usize = 15;
/// Keeps a length from being zero: PyTorch's.
const EPSILON: f64 = 1e-12;

/// The vectors of every filter of a network, by the filter's name: state, committed like all state.
#[derive(Clone, Debug)]
pub struct SpectralNorm {
    vectors: BTreeMap<String, Vectors>,
}

/// The singular vectors that belong to a filter's largest singular value, as far as they are known. On the plain device.
#[derive(Clone, Debug)]
struct Vectors {
    /// `[rows]`.
    left: Tensor<1>,
    /// `[columns]`.
    right: Tensor<1>,
}

/// What carries gradients of a normalised network over to the network itself.
#[derive(Debug, Default)]
pub struct Normalised {
    of: BTreeMap<ParamId, Divided>,
}

#[derive(Debug)]
struct Divided {
    /// The filter after its division, `[rows, columns]`.
    weight: Tensor<2>,
    vectors: Vectors,
    /// What it was divided by, `[1]`.
    by: Tensor<1>,
}

impl SpectralNorm {
    /// The vectors for a network with these weights, drawn by the seed.
    pub fn new<M: Module>(model: &M, seed: u64) -> Self {
        let mut visitor = Draw { path: ModulePath::default(), seed, place: 0, vectors: BTreeMap::new() };
        model.visit(&mut visitor);
        Self { vectors: visitor.vectors }
    }

    /// The network with its filters divided and trainable anew, what carries gradients back, and the vectors after one
    /// more power iteration. Vectors and statistics (one dimension) stay as they are.
    pub fn normalise<M: Module>(&self, model: &M) -> (M, Normalised, Self) {
        let path = ModulePath::default();
        let mut mapper =
            Divide { path, vectors: self.vectors.clone(), next: BTreeMap::new(), normalised: Normalised::default() };
        let model = model.clone().map(&mut mapper);
        (model, mapper.normalised, Self { vectors: mapper.next })
    }

    /// The vectors in host memory.
    ///
    /// # Errors
    /// What the device says.
    pub fn save(&self) -> Result<Tensors, String> {
        let mut tensors = Tensors::new();
        for (name, Vectors { left, right }) in &self.vectors {
            for (side, vector) in [("left", left), ("right", right)] {
                tensors.insert(format!("{name}.{side}"), host::read(vector.clone())?);
            }
        }
        Ok(tensors)
    }

    /// These vectors without their values, of which none is on the device any more: they are to be restored.
    pub fn emptied(&self) -> Self {
        let host = Device::flex();
        let zeros = |vector: &Tensor<1>| Tensor::zeros(vector.dims(), &host);
        let empty = |Vectors { left, right }: &Vectors| Vectors { left: zeros(left), right: zeros(right) };
        Self { vectors: self.vectors.iter().map(|(name, known)| (name.clone(), empty(known))).collect() }
    }

    /// These vectors with saved values.
    ///
    /// # Errors
    /// A sentence about what is missing or of another length.
    pub fn restore(self, mut saved: Tensors, device: &Device) -> Result<Self, String> {
        let plain = device.clone().without_autodiff();
        let mut vectors = BTreeMap::new();
        for (name, known) in self.vectors {
            let mut take = |side: &str, known: &Tensor<1>| -> Result<Tensor<1>, String> {
                let key = format!("{name}.{side}");
                let data = saved.remove(&key).ok_or_else(|| format!("it has no spectral vector `{key}`"))?;
                let (found, length) = (data.shape().num_elements(), known.dims()[0]);
                if found != length {
                    return Err(format!("the spectral vector `{key}` has {found} numbers instead of {length}"));
                }
                Ok(Tensor::from_data(data, &plain))
            };
            let (left, right) = (take("left", &known.left)?, take("right", &known.right)?);
            vectors.insert(name, Vectors { left, right });
        }
        Ok(Self { vectors })
    }
}

impl Normalised {
    /// Carries gradients of the normalised network over to the network that was normalised.
    pub fn carry_over(self, mut gradients: GradientSum) -> GradientSum {
        for (id, Divided { weight, vectors, by }) in self.of {
            let Some(gradient) = gradients.take(id) else { continue };
            let shape = weight.dims();
            let gradient = gradient.reshape(shape);
            let along = sum(gradient.clone() * weight).reshape([1, 1]);
            let [rows, columns] = shape;
            let outer = vectors.left.reshape([rows, 1]).matmul(vectors.right.reshape([1, columns]));
            let carried = (gradient - outer * along) / by.reshape([1, 1]);
            gradients.put(id, carried.reshape([rows * columns]));
        }
        gradients
    }
}

/// A filter as a matrix: a row for each output.
fn matrix<const D: usize>(weight: Tensor<D>) -> Tensor<2> {
    let rows = weight.dims()[0];
    let columns = weight.shape().num_elements() / rows.max(1);
    weight.reshape([rows, columns])
}

fn normalised(vector: Tensor<2>) -> Tensor<1> {
    let length = vector.shape().num_elements();
    let vector = vector.reshape([length]);
    let norm = sum(vector.clone().square()).sqrt().clamp_min(EPSILON);
    vector / norm.reshape([1])
}

/// One power iteration.
fn iterate(weight: &Tensor<2>, vectors: Vectors) -> Vectors {
    let [rows, _] = weight.dims();
    let right = normalised(weight.clone().transpose().matmul(vectors.left.reshape([rows, 1])));
    let columns = right.dims()[0];
    let left = normalised(weight.clone().matmul(right.clone().reshape([columns, 1])));
    Vectors { left, right }
}

struct Draw {
    path: ModulePath,
    seed: u64,
    place: u64,
    vectors: BTreeMap<String, Vectors>,
}

impl ModuleVisitor for Draw {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let place = self.place;
        self.place += 1;
        if D < 2 {
            return;
        }
        let weight = matrix(plain(param.val()));
        let [rows, columns] = weight.dims();
        let mut rng = rng(self.seed, Purpose::Spectral, 0, place);
        let mut draw = |length: usize| {
            let values: Vec<f32> = (0..length).map(|_| StandardNormal.sample(&mut rng)).collect();
            let data = TensorData::new(values, [length, 1]);
            normalised(Tensor::<2>::from_data(data, (&weight.device(), weight.dtype())))
        };
        let drawn = Vectors { left: draw(rows), right: draw(columns) };
        let vectors = (0..FIRST_ITERATIONS).fold(drawn, |vectors, _| iterate(&weight, vectors));
        self.vectors.insert(self.path.to_string(), vectors);
    }
}

struct Divide {
    path: ModulePath,
    vectors: BTreeMap<String, Vectors>,
    next: BTreeMap<String, Vectors>,
    normalised: Normalised,
}

impl ModuleMapper for Divide {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.to_string();
        let Some(vectors) = self.vectors.remove(&name) else { return param };
        let id = param.id;
        let (next, normalised) = (&mut self.next, &mut self.normalised);
        param.map(|old| {
            let (tracked, shape) = (old.is_autodiff(), old.shape());
            let weight = matrix(plain(old));
            let vectors = iterate(&weight, vectors);
            let [rows, columns] = weight.dims();
            let (left, right) = (vectors.left.clone().reshape([1, rows]), vectors.right.clone().reshape([columns, 1]));
            let by = left.matmul(weight.clone().matmul(right)).reshape([1]);
            let weight = weight / by.clone().reshape([1, 1]);
            let divided = weight.clone().reshape(shape);
            next.insert(name, vectors.clone());
            normalised.of.insert(id, Divided { weight, vectors, by });
            if tracked { Tensor::from_inner(divided).require_grad() } else { divided }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Tolerance;
    use kindling_layers::{Linear, parameters};

    fn linear(values: [[f32; 3]; 2]) -> Linear {
        let device = Device::flex();
        let mut linear = Linear::new(3, 2, &device);
        linear.weight = Param::from_tensor(Tensor::from_floats(values, &device));
        linear.train()
    }

    /// A matrix of orthogonal rows of lengths 5 and 1: its singular values.
    #[test]
    fn the_largest_singular_value_becomes_one() {
        let model = linear([[3.0, 4.0, 0.0], [0.0, 0.0, 1.0]]);
        let (found, _, _) = SpectralNorm::new(&model, 3).normalise(&model);
        let expected = [[0.6f32, 0.8, 0.0], [0.0, 0.0, 0.2]];
        found.weight.val().into_data().assert_approx_eq::<f32>(&expected.into(), Tolerance::absolute(1e-5));
    }

    #[test]
    fn vectors_come_back_as_they_were_saved_and_those_of_another_network_are_refused() {
        let model = linear([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]);
        let norm = SpectralNorm::new(&model, 3);
        let saved = norm.save().expect("readable");
        assert_eq!(saved.keys().collect::<Vec<_>>(), ["weight.left", "weight.right"]);
        let other = SpectralNorm::new(&model, 4);
        let restored = other.clone().restore(saved.clone(), &Device::flex()).expect("the same network's");
        assert_eq!(restored.save().expect("readable"), saved);
        assert!(other.clone().restore(Tensors::new(), &Device::flex()).is_err());
        let shorter = saved.into_keys().map(|name| (name, TensorData::new(vec![1.0f32], [1]))).collect();
        assert!(other.restore(shorter, &Device::flex()).is_err());
        assert_eq!(parameters::count(&model), 8, "vectors are no parameters");
    }
}

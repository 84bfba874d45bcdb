//! The tensors of a model by name.
//!
//! Names are the dotted paths of the module's fields: `stem.conv.weight`. A name ending in `running_mean` or
//! `running_var` is state; every other float tensor is a parameter.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};

use crate::host;
use kindling_ops::{plain, reserve};

/// A parameter of zeros that is allocated when it is first read. A plan reads only its shape, so it allocates nothing.
pub(crate) fn zeros_when_read<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    let make = move |device: &Device, trains: bool| Tensor::zeros(shape, device).set_require_grad(trains);
    Param::uninitialized(ParamId::new(), make, device.clone(), true, Shape::from(shape))
}

/// The model without its values: nothing of it is on a device until [`write()`] fills it again. A tensor that is read before is zero.
pub fn emptied<M: Module>(model: M) -> M {
    struct Empty;
    impl ModuleMapper for Empty {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, device, shape) = (param.id, param.lazy_device(), param.lazy_shape());
            let trains = param.is_initialized() && param.val().is_require_grad();
            let make = {
                let shape = shape.clone();
                move |device: &Device, trains: bool| Tensor::zeros(shape, device).set_require_grad(trains)
            };
            Param::uninitialized(id, make, device, trains, shape)
        }
    }
    model.map(&mut Empty)
}

/// Whether a tensor of this name is state rather than a parameter.
pub fn is_state(name: &str) -> bool {
    name.ends_with("running_mean") || name.ends_with("running_var")
}

/// Where a visitor or mapper is in a module; displays as the name of a tensor there.
///
/// Burn reports the variant of an enum module like a field. Names of tensors do not contain variants, so they are skipped.
#[derive(Clone, Debug, Default)]
pub struct ModulePath {
    segments: Vec<String>,
}

impl ModulePath {
    /// Call from `enter_module` with its arguments.
    pub fn enter(&mut self, name: &str, container: &str) {
        if !container.starts_with("Enum:") {
            self.segments.push(name.to_string());
        }
    }

    /// Call from `exit_module` with its container.
    pub fn exit(&mut self, container: &str) {
        if !container.starts_with("Enum:") {
            self.segments.pop();
        }
    }
}

impl std::fmt::Display for ModulePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.segments.join("."))
    }
}

/// A float tensor of a model: its name and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The fields that lead to it, with dots between: `stages.0.1.expand.conv.weight`.
    pub name: String,
    /// Its sizes: `[output, input / groups, height, width]` of a filter, `[channels]` of a scale or a bias.
    pub shape: Vec<usize>,
}

/// The float tensors of a model, in the order of its fields.
pub fn slots<M: Module>(model: &M) -> Vec<Slot> {
    struct Slots {
        path: ModulePath,
        found: Vec<Slot>,
    }
    impl ModuleVisitor for Slots {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let shape = param.lazy_shape().as_slice().to_vec();
            self.found.push(Slot { name: self.path.to_string(), shape });
        }
    }
    let mut visitor = Slots { path: ModulePath::default(), found: Vec::new() };
    model.visit(&mut visitor);
    visitor.found
}

/// The number of trainable parameters of a model, without running statistics.
pub fn count<M: Module>(model: &M) -> u64 {
    let parameters = slots(model).into_iter().filter(|slot| !is_state(&slot.name));
    parameters.map(|slot| slot.shape.iter().product::<usize>() as u64).sum()
}

/// Copies every float tensor of a model to host memory.
///
/// # Errors
/// The device's error message if a tensor cannot be read, or a refusal if the copy would exceed a memory budget (see [`reserve`]).
pub fn read<M: Module>(model: &M) -> Result<BTreeMap<String, TensorData>, String> {
    read_only(model, |_| true)
}

/// Copies the float tensors of a model whose name is wanted to host memory.
///
/// # Errors
/// As [`read`].
pub fn read_only<M: Module>(model: &M, wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<String, TensorData>, String> {
    struct Read<W> {
        path: ModulePath,
        wanted: W,
        found: Result<BTreeMap<String, TensorData>, String>,
    }
    impl<W: Fn(&str) -> bool> ModuleVisitor for Read<W> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let (Ok(found), name) = (&mut self.found, self.path.to_string()) else { return };
            if !(self.wanted)(&name) {
                return;
            }
            let value = param.val();
            match reserve::ask_for_copy(&value).and_then(|()| host::read(value)) {
                Ok(data) => {
                    found.insert(name, data);
                }
                Err(error) => self.found = Err(error),
            }
        }
    }
    let mut visitor = Read { path: ModulePath::default(), wanted, found: Ok(BTreeMap::new()) };
    model.visit(&mut visitor);
    visitor.found
}

/// A tensor of a model that has not been copied to host memory yet.
#[derive(Clone, Debug)]
pub struct Handle {
    flat: Tensor<1>,
    shape: Vec<usize>,
}

impl Handle {
    /// The shape of the tensor.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The format of its numbers.
    pub fn dtype(&self) -> DType {
        self.flat.dtype()
    }

    /// Copies the tensor to host memory, with one axis.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read(&self) -> Result<TensorData, String> {
        reserve::ask_for_copy(&self.flat)?;
        host::read(self.flat.clone())
    }
}

/// Handles of all float tensors of a model, so that they can be read one at a time.
pub fn handles<M: Module>(model: &M) -> BTreeMap<String, Handle> {
    let handle = |Flat { name, shape, values, .. }| (name, Handle { flat: values, shape });
    flat(model, |_| true).into_iter().map(handle).collect()
}

/// A float tensor of a model with one axis, not on a gradient graph.
#[derive(Clone, Debug)]
pub struct Flat {
    /// Its identity.
    pub id: ParamId,
    /// Its dotted path.
    pub name: String,
    /// The shape that it has in the model.
    pub shape: Vec<usize>,
    /// Its numbers, `[n]`.
    pub values: Tensor<1>,
}

/// The float tensors of a model that are wanted, in the order of its fields.
pub fn flat<M: Module>(model: &M, wanted: impl Fn(ParamId) -> bool) -> Vec<Flat> {
    struct Flatten<W> {
        path: ModulePath,
        wanted: W,
        found: Vec<Flat>,
    }
    impl<W: Fn(ParamId) -> bool> ModuleVisitor for Flatten<W> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if !(self.wanted)(param.id) {
                return;
            }
            let value = plain(param.val());
            let shape = value.shape().as_slice().to_vec();
            let values = value.reshape([shape.iter().product::<usize>()]);
            self.found.push(Flat { id: param.id, name: self.path.to_string(), shape, values });
        }
    }
    let mut visitor = Flatten { path: ModulePath::default(), wanted, found: Vec::new() };
    model.visit(&mut visitor);
    visitor.found
}

/// The model with other numbers in the float tensors of these identities, given as [`flat`] gives them. A tensor that is on a
/// gradient graph, or trains, still is and does.
pub fn replace<M: Module>(model: M, values: BTreeMap<ParamId, Tensor<1>>) -> M {
    struct Replace(BTreeMap<ParamId, Tensor<1>>);
    impl ModuleMapper for Replace {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(values) = self.0.remove(&param.id) else { return param };
            param.map(|old| {
                let new = values.reshape(old.shape());
                match (old.is_autodiff(), old.is_require_grad()) {
                    (false, _) => new,
                    (true, false) => Tensor::from_inner(new),
                    (true, true) => Tensor::from_inner(new).require_grad(),
                }
            })
        }
    }
    model.map(&mut Replace(values))
}

/// Why a set of tensors is not this model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The model needs a tensor that is not there.
    Missing(String),
    /// A tensor is there that the model does not know.
    Unexpected(String),
    /// A tensor has another shape than the model's.
    Shape {
        /// The tensor's dotted path in the model, or its key in a file that has other names.
        name: String,
        /// The model's shape.
        expected: Vec<usize>,
        /// The shape found.
        found: Vec<usize>,
    },
    /// No tensor has a name that the model knows, under any naming.
    Foreign {
        /// One of the names found.
        found: String,
        /// Names that were looked for.
        known: Vec<String>,
    },
    /// A tensor does not hold floating-point numbers.
    Type {
        /// The tensor's key in the file.
        name: String,
        /// The type of its numbers, as the file says it.
        found: String,
    },
    /// A running variance is negative or not finite.
    Variance {
        /// The variance's dotted path in the model.
        name: String,
        /// The first value that is negative or not finite.
        value: String,
    },
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "`{name}` is missing"),
            Self::Unexpected(name) => write!(f, "`{name}` is not a tensor of this model"),
            Self::Shape { name, expected, found } => {
                write!(f, "`{name}` has shape {found:?} where the model has {expected:?}")
            }
            Self::Foreign { found, known } => {
                write!(f, "it has keys like `{found}`, and none like `{}`", known.join("` or `"))
            }
            Self::Variance { name, value } => {
                write!(f, "`{name}` holds {value}, and a variance is a finite number from 0 up")
            }
            Self::Type { name, found } => write!(f, "`{name}` holds {found}, not floating-point numbers"),
        }
    }
}

/// Checks that `shapes` are exactly the model's tensors.
///
/// # Errors
/// The first difference: a shape, then a missing name, then an unexpected one.
pub fn check<M: Module>(model: &M, shapes: &BTreeMap<String, Vec<usize>>) -> Result<(), Mismatch> {
    let slots = slots(model);
    for slot in &slots {
        match shapes.get(&slot.name) {
            Some(found) if *found != slot.shape => {
                let (expected, found) = (slot.shape.clone(), found.clone());
                return Err(Mismatch::Shape { name: slot.name.clone(), expected, found });
            }
            _ => {}
        }
    }
    if let Some(slot) = slots.iter().find(|slot| !shapes.contains_key(&slot.name)) {
        return Err(Mismatch::Missing(slot.name.clone()));
    }
    let known = |name: &&String| !slots.iter().any(|slot| slot.name == **name);
    match shapes.keys().find(known) {
        Some(name) => Err(Mismatch::Unexpected(name.clone())),
        None => Ok(()),
    }
}

/// Replaces every float tensor of a model by the one of its name, on the model's device.
///
/// # Errors
/// If the tensors are not exactly the model's ([`check`]), or a running variance is negative or not finite. The model is lost then, so
/// pass a clone if it is still needed.
pub fn write<M: Module>(model: M, mut tensors: BTreeMap<String, TensorData>) -> Result<M, Mismatch> {
    let shapes = tensors.iter().map(|(name, data)| (name.clone(), data.shape().as_slice().to_vec())).collect();
    check(&model, &shapes)?;
    for (name, data) in tensors.iter().filter(|(name, _)| name.ends_with("running_var")) {
        if let Some(value) = data.iter::<f64>().find(|value| !(value.is_finite() && *value >= 0.0)) {
            return Err(Mismatch::Variance { name: name.clone(), value: value.to_string() });
        }
    }

    struct Write<'a> {
        path: ModulePath,
        tensors: &'a mut BTreeMap<String, TensorData>,
    }
    impl ModuleMapper for Write<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(data) = self.tensors.remove(&self.path.to_string()) else { return param };
            if !param.is_initialized() {
                // A parameter that was never read need not be allocated before it is replaced.
                let (id, new) = (param.id, Tensor::from_data(data, &param.lazy_device()));
                return param.transform_for_load(new, id);
            }
            param.map(|old| {
                let new = Tensor::from_data(data, &old.device());
                if old.is_require_grad() { new.require_grad() } else { new }
            })
        }
    }
    Ok(model.map(&mut Write { path: ModulePath::default(), tensors: &mut tensors }))
}

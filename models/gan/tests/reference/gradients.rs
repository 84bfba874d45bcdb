//! The norms of a module's gradients.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor};
use kindling_layers::parameters::ModulePath;

/// The norm of each parameter's gradient, under its name.
pub(super) fn norms<M: Module>(module: &M, gradients: &Gradients) -> BTreeMap<String, f64> {
    struct Norms<'a> {
        gradients: &'a Gradients,
        path: ModulePath,
        found: BTreeMap<String, f64>,
    }
    impl ModuleVisitor for Norms<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(self.gradients) {
                let values: Vec<f64> = gradient.into_data().convert::<f64>().try_to_vec().expect("a float gradient");
                let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
                self.found.insert(self.path.to_string(), norm);
            }
        }
    }
    let mut visitor = Norms { gradients, path: ModulePath::default(), found: BTreeMap::new() };
    module.visit(&mut visitor);
    visitor.found
}

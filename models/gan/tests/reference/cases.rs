//! What is compared.

use burn::module::Module;
use burn::tensor::{Device, Tensor, activation};
use kindling_gan::dcgan::{dcgan_discriminator_names, dcgan_generator_names};
use kindling_gan::fastgan::{fastgan_decoders_names, fastgan_discriminator_names, fastgan_generator_names};
use kindling_gan::{DcganConfig, FastGanConfig, Glu, SkipLayerExcitation, Upsampling};
use kindling_layers::names::Names;
use kindling_layers::parameters;
use kindling_layers::pass::{TrainingPass, training};
use serde_json::Value;

use super::Tolerance;
use super::fill::signed;
use super::gradients::norms;
use super::network::{filled, reference_name};

const GOLDEN: &str = include_str!("../golden/gan.json");

fn golden() -> Value {
    serde_json::from_str(GOLDEN).expect("gan.json is JSON")
}

/// One case of `gan.json` and how close is close.
struct Case {
    golden: Value,
    tolerance: Tolerance,
}

impl Case {
    fn new(name: &str, tolerance: Tolerance) -> Self {
        let golden = golden();
        let cases = golden["cases"].as_array().expect("a list of cases");
        let golden = cases.iter().find(|case| case["name"] == name).expect("the case is there").clone();
        Self { golden, tolerance }
    }

    fn number(&self, key: &str) -> usize {
        self.golden[key].as_u64().expect("a number") as usize
    }

    fn filled<M: Module>(&self, which: &str, module: M, names: &Names) -> M {
        assert_eq!(parameters::count(&module), self.golden["params"][which].as_u64().expect("a count"), "{which}");
        filled(module, names, &self.golden["keys"][which])
    }

    fn latent(&self, device: &Device) -> Tensor<2> {
        let shape = [self.number("batch"), self.number("latent")];
        Tensor::from_data(signed("latent", &shape, 1.7), device)
    }

    fn images(&self, device: &Device) -> Tensor<4> {
        let size = self.number("image_size");
        let shape = [self.number("batch"), self.number("channels"), size, size];
        Tensor::from_data(signed("images", &shape, 1.0), device)
    }

    /// A tensor against its summaries in both precisions.
    fn close<const D: usize>(&self, what: &str, found: Tensor<D>) {
        close(what, found, &self.golden["f32"][what], &self.golden["f64"][what], self.tolerance);
    }

    /// A loss and the gradients of the module it teaches.
    fn close_step<M: Module>(&self, which: &str, module: &M, names: &Names, loss: Tensor<1>) {
        let (single, double) = (&self.golden["f32"], &self.golden["f64"]);
        let key = format!("{which}_loss");
        let expected = double[&key].as_f64().expect("a loss");
        let value = loss.clone().into_scalar::<f64>();
        assert!((value - expected).abs() <= self.tolerance.relative, "{key}: {value} for {expected}");

        let key = format!("{which}_gradients");
        let expected = double[&key].as_object().expect("gradients");
        // Where the slope of a leaky ReLU flips is chance. So each norm may be as far off as the reference's own float32 is where
        // that is furthest off, times three, as much as our 3x3 convolutions of large maps round more than sums do; the norm in the
        // middle has to be right to the digits.
        let apart = |name: &String, norm: f64| {
            let double = expected[name].as_f64().expect("a norm");
            (norm - double).abs() / double
        };
        let worst_of = |name: &String| apart(name, single[&key][name].as_f64().expect("a norm"));
        let worst = expected.keys().map(worst_of).fold(0.0, f64::max);
        let allowed = if self.tolerance.of_reference { 3.0 * worst } else { 0.0 }.max(self.tolerance.gradients);
        let mut errors = Vec::new();
        for (own, norm) in norms(module, &loss.backward()) {
            let name = reference_name(&own, names);
            if !expected.contains_key(&name) {
                assert!(own.ends_with("noise.weight"), "the reference has no gradient of {name}");
                continue;
            }
            let error = apart(&name, norm);
            assert!(error <= allowed, "gradient of {name}: {norm} for {}, {error:e} apart", expected[&name]);
            errors.push(error);
        }
        assert_eq!(errors.len(), expected.len(), "every parameter has a gradient");
        errors.sort_by(f64::total_cmp);
        let middle = errors[errors.len() / 2];
        assert!(middle <= self.tolerance.gradients, "{which}'s gradients: {middle:e} in the middle");
    }

    /// Both networks in both modes and one hinge step of each.
    fn compare<G: Module, D: Module>(
        &self,
        (generator, generator_names): (&G, &Names),
        (discriminator, discriminator_names): (&D, &Names),
        generate: impl Fn(&G, Tensor<2>) -> Tensor<4>,
        score: impl Fn(&D, Tensor<4>) -> Tensor<2>,
        device: &Device,
    ) {
        let (latent, images) = (self.latent(device), self.images(device));
        self.close("eval_images", generate(generator, latent.clone()));
        self.close("eval_scores", score(discriminator, images.clone()));

        let pass = || TrainingPass::whole_batch(self.number("batch"));
        let score = |images| training(pass(), || score(discriminator, images)).0;
        let (fake, _) = training(pass(), || generate(generator, latent));
        let (of_real, of_fake) = (score(images), score(fake.clone().detach()));
        self.close("train_images", fake.clone());
        self.close("train_scores", of_real.clone());
        let hinge = |x: Tensor<2>| activation::relu(x.add_scalar(1.0)).mean();
        let loss = hinge(-of_real) + hinge(of_fake);
        self.close_step("discriminator", discriminator, discriminator_names, loss);
        self.close_step("generator", generator, generator_names, -score(fake).mean());
    }
}

fn close<const D: usize>(what: &str, found: Tensor<D>, single: &Value, double: &Value, tolerance: Tolerance) {
    let shape = double["shape"].as_array().expect("a shape").iter().map(|n| n.as_u64().expect("a length") as usize);
    let (shape, dims) = (shape.collect::<Vec<usize>>(), found.dims());
    assert_eq!(dims.as_slice(), shape, "{what}");
    let values: Vec<f64> = found.into_data().convert::<f64>().try_to_vec().expect("float values");
    let norms = values.chunks(values.len() / shape[0]).map(|sample| sample.iter().map(|v| v * v).sum::<f64>().sqrt());
    let some = (0..values.len().min(64)).map(|k| values[7919 * k % values.len()]);
    let list = |of: &Value, key: &str| -> Vec<f64> {
        of[key].as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
    };
    for (key, found) in [("norms", norms.collect::<Vec<f64>>()), ("some", some.collect())] {
        let (single, double) = (list(single, key), list(double, key));
        assert_eq!(found.len(), double.len(), "{what} {key}");
        let largest = double.iter().map(|v| v.abs()).fold(0.0, f64::max);
        for (index, ((found, single), double)) in found.into_iter().zip(single).zip(double).enumerate() {
            let rounding = if tolerance.of_reference { 10.0 * (single - double).abs() } else { 0.0 };
            let allowed = (tolerance.relative * largest).max(rounding);
            assert!((found - double).abs() <= allowed, "{what} {key} {index}: {found} for {double} +- {allowed}");
        }
    }
}

/// A DCGAN against PyTorch's example.
pub(crate) fn dcgan_equals_pytorch(name: &str, upsampling: Upsampling, device: &Device, tolerance: Tolerance) {
    let case = Case::new(name, tolerance);
    let config = DcganConfig {
        latent: case.number("latent"),
        features: case.number("features"),
        channels: case.number("channels"),
        upsampling,
    };
    let (generator, discriminator) = (config.generator(device), config.discriminator(device));
    let names = (dcgan_generator_names(&generator), dcgan_discriminator_names(&discriminator));
    let generator = case.filled("generator", generator, &names.0);
    let discriminator = case.filled("discriminator", discriminator, &names.1);
    case.compare(
        (&generator, &names.0),
        (&discriminator, &names.1),
        |network, latent| network.forward(latent),
        |network, images| network.forward(images),
        device,
    );
}

/// A FastGAN and its decoders against the same written with PyTorch's layers.
pub(crate) fn fastgan_equals_pytorch(name: &str, device: &Device, tolerance: Tolerance) {
    let case = Case::new(name, tolerance);
    let config = FastGanConfig {
        latent: case.number("latent"),
        features: case.number("features"),
        channels: case.number("channels"),
        image_size: case.number("image_size"),
    };
    let (generator, discriminator) = (config.generator(device), config.discriminator(device));
    let names = (fastgan_generator_names(&generator), fastgan_discriminator_names(&discriminator));
    let generator = case.filled("generator", generator, &names.0);
    let discriminator = case.filled("discriminator", discriminator, &names.1);
    case.compare(
        (&generator, &names.0),
        (&discriminator, &names.1),
        |network, latent| network.forward(latent),
        |network, images| network.forward(images),
        device,
    );

    let decoders = config.decoders(device);
    let names = fastgan_decoders_names(&decoders);
    let decoders = case.filled("decoders", decoders, &names);
    let features = discriminator.forward_features(case.images(device));
    let [whole, part] = decoders.forward(&features, 1);
    case.close("decoded_whole", whole);
    case.close("decoded_part", part);
}

/// The blocks that FastGAN is known for, one by one.
pub(crate) fn blocks_equal_pytorchs(device: &Device, tolerance: Tolerance) {
    let golden = golden();
    let blocks = &golden["blocks"];
    let mut names = Names::default();
    names.plain("squeeze", "main.1");
    names.plain("excite", "main.3");
    let excitation = filled(SkipLayerExcitation::new(6, 5, device), &names, &blocks["keys"]);
    let small = Tensor::<4>::from_data(signed("small", &[2, 6, 8, 8], 1.0), device);
    let large = Tensor::<4>::from_data(signed("large", &[2, 5, 16, 16], 1.0), device);
    let close = |what: &str, found| close(what, found, &blocks[what], &blocks[what], tolerance);
    close("skip_layer_excitation", excitation.forward(small.clone(), large));
    close("glu", Glu.forward(small));
}

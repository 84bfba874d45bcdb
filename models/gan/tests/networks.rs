//! What the networks promise whatever their weights are.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Distribution, Gradients, Tensor, Tolerance, activation};
use kindling_gan::{DcganConfig, FastGanConfig, Upsampling};
use kindling_layers::init::initialise_adversarial;
use kindling_layers::parameters::{self, ModulePath};
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::trace::{Describe, FeatureMap, Trace};
use std::collections::BTreeMap;

const SMALL_DCGAN: DcganConfig = DcganConfig { latent: 12, features: 8, channels: 1, upsampling: Upsampling::Resize };
const SMALL_FASTGAN: FastGanConfig = FastGanConfig { latent: 12, features: 8, channels: 1, image_size: 256 };

/// Checks the trace layer by layer against the tensors the module holds.
fn trace_equals_tensors<M: Module + Describe>(module: &M, input: FeatureMap, output: FeatureMap) -> u64 {
    let trace = Trace::of(module, input);
    assert_eq!(trace.params(), parameters::count(module));
    let mut held = BTreeMap::<String, u64>::new();
    for slot in parameters::slots(module).into_iter().filter(|slot| !parameters::is_state(&slot.name)) {
        let (layer, _) = slot.name.rsplit_once('.').expect("a dotted name");
        *held.entry(layer.to_string()).or_default() += slot.shape.iter().product::<usize>() as u64;
    }
    let traced = trace.layers.iter().filter(|layer| layer.params > 0).map(|layer| (layer.name.clone(), layer.params));
    assert_eq!(traced.collect::<BTreeMap<String, u64>>(), held);
    assert_eq!(trace.layers.last().expect("a layer").output, output);
    trace.params()
}

fn images(channels: usize, size: usize) -> FeatureMap {
    FeatureMap::square(channels, size)
}

#[test]
fn dcgan_has_the_parameters_of_pytorchs_example() {
    let (config, device) = (DcganConfig::default(), Device::flex());
    let (latent, image) = (FeatureMap::vector(100), images(3, 64));
    assert_eq!(trace_equals_tensors(&config.generator(&device), latent, image), 3_576_704);
    assert_eq!(trace_equals_tensors(&config.discriminator(&device), image, FeatureMap::vector(1)), 2_765_568);
    let resize = DcganConfig { upsampling: Upsampling::Resize, ..config };
    assert_eq!(trace_equals_tensors(&resize.generator(&device), latent, image), 2_371_136);
}

#[test]
fn fastgan_has_29_million_parameters() {
    let (config, device) = (FastGanConfig::default(), Device::flex());
    let (latent, image) = (FeatureMap::vector(256), images(3, 512));
    assert_eq!(trace_equals_tensors(&config.generator(&device), latent, image), 29_174_200);
    assert_eq!(trace_equals_tensors(&config.discriminator(&device), image, images(1, 5)), 7_692_352);
    let decoders = config.decoders(&device);
    assert_eq!(trace_equals_tensors(&decoders.whole, images(512, 8), images(3, 128)), 1_439_712);
    assert_eq!(trace_equals_tensors(&decoders.part, images(256, 8), images(3, 128)), 849_888);
    assert_eq!(parameters::count(&decoders), 2_289_600);
}

#[test]
fn a_smaller_fastgan_has_a_block_less() {
    let (config, device) = (FastGanConfig { image_size: 256, ..FastGanConfig::default() }, Device::flex());
    let (generator, discriminator) = (config.generator(&device), config.discriminator(&device));
    trace_equals_tensors(&generator, FeatureMap::vector(256), images(3, 256));
    trace_equals_tensors(&discriminator, images(3, 256), images(1, 5));
    assert_eq!((generator.blocks.len(), generator.excitations.len()), (6, 3));
}

#[test]
fn shapes_follow_the_configuration() {
    let device = Device::flex();
    for (upsampling, channels) in [(Upsampling::Transposed, 1), (Upsampling::Resize, 3)] {
        let config = DcganConfig { latent: 7, features: 4, channels, upsampling };
        let image = config.generator(&device).forward(Tensor::zeros([2, 7], &device));
        assert_eq!(image.dims(), [2, channels, 64, 64]);
        assert_eq!(config.discriminator(&device).forward(image).dims(), [2, 1]);
    }
    for (image_size, channels) in [(256, 3), (512, 1)] {
        let config = FastGanConfig { latent: 9, features: 4, channels, image_size };
        let image = config.generator(&device).forward(Tensor::zeros([2, 9], &device));
        assert_eq!(image.dims(), [2, channels, image_size, image_size]);
        let features = config.discriminator(&device).forward_features(image);
        assert_eq!(features.scores.dims(), [2, 25]);
        for quarter in 0..4 {
            let decoded = config.decoders(&device).forward(&features, quarter);
            assert!(decoded.iter().all(|image| image.dims() == [2, channels, 128, 128]));
        }
    }
}

#[test]
fn a_configuration_that_is_no_network_is_refused() {
    let device = Device::flex();
    for config in [
        FastGanConfig { image_size: 128, ..SMALL_FASTGAN },
        FastGanConfig { features: 6, ..SMALL_FASTGAN },
        FastGanConfig { features: 0, ..SMALL_FASTGAN },
    ] {
        let build = || config.generator(&device);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(build)).is_err(), "{config:?}");
    }
}

/// A sample alone gives the image it gives in a batch, and images are in `[-1, 1]`.
fn samples_are_independent<G: Module>(generator: G, generate: impl Fn(&G, Tensor<2>) -> Tensor<4>) {
    let device = Device::flex();
    let values: Vec<f32> = (0..36).map(|i| ((i * 29) % 31) as f32 / 10.0 - 1.5).collect();
    let latents = Tensor::<1>::from_floats(values.as_slice(), &device).reshape([3, 12]);
    // Running statistics that fit the initial weights; with others the images would be grey.
    let (_, statistics) = training(TrainingPass::whole_batch(3), || generate(&generator, latents.clone()));
    let generator = statistics.commit(generator, 1.0);

    let together = generate(&generator, latents.clone());
    for row in 0..3 {
        let alone = generate(&generator, latents.clone().narrow(0, row, 1));
        let expected = together.clone().narrow(0, row, 1).into_data();
        alone.into_data().assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
    }
    let difference = together.clone().narrow(0, 0, 1) - together.clone().narrow(0, 1, 1);
    assert!(difference.abs().max().into_scalar::<f32>() > 0.01, "the images are all alike");
    assert!(together.abs().max().into_scalar::<f32>() <= 1.0);
}

#[test]
fn a_generated_image_depends_on_its_own_latent_only() {
    let device = Device::flex();
    let dcgan = initialise_adversarial(SMALL_DCGAN.generator(&device), 1, 0);
    samples_are_independent(dcgan, |network, latent| network.forward(latent));
    let fastgan = initialise_adversarial(SMALL_FASTGAN.generator(&device), 1, 0);
    samples_are_independent(fastgan, |network, latent| network.forward(latent));
}

/// The names of the parameters that a loss teaches, checked to be finite and not all zero.
fn taught<M: Module>(module: &M, gradients: &Gradients) -> Vec<String> {
    struct Taught<'a> {
        gradients: &'a Gradients,
        path: ModulePath,
        found: Vec<String>,
    }
    impl ModuleVisitor for Taught<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.enter(name, container);
        }
        fn exit_module(&mut self, _name: &str, container: &str) {
            self.path.exit(container);
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(self.gradients) {
                let largest = gradient.abs().max().into_scalar::<f32>();
                assert!(largest.is_finite() && largest > 0.0, "the gradient of {} is {largest}", self.path);
                self.found.push(self.path.to_string());
            }
        }
    }
    let mut visitor = Taught { gradients, path: ModulePath::default(), found: Vec::new() };
    module.visit(&mut visitor);
    visitor.found
}

fn all_parameters<M: Module>(module: &M) -> Vec<String> {
    let names = parameters::slots(module).into_iter().map(|slot| slot.name);
    names.filter(|name| !parameters::is_state(name)).collect()
}

/// One hinge step of each network, from initial weights.
fn a_hinge_step_teaches_everything<G: Module, D: Module>(
    generator: &G,
    discriminator: &D,
    generate: impl Fn(&G) -> Tensor<4>,
    score: impl Fn(&D, Tensor<4>) -> Tensor<2>,
) {
    let pass = || TrainingPass::whole_batch(2);
    let score = |images| training(pass(), || score(discriminator, images)).0;
    let (fake, _) = training(pass(), || generate(generator));
    let real = Tensor::random(fake.dims(), Distribution::Uniform(-1.0, 1.0), &fake.device());
    let hinge = |x: Tensor<2>| activation::relu(x.add_scalar(1.0)).mean();
    let loss = hinge(-score(real)) + hinge(score(fake.clone().detach()));
    assert_eq!(taught(discriminator, &loss.backward()), all_parameters(discriminator));
    let loss = -score(fake).mean();
    assert_eq!(taught(generator, &loss.backward()), all_parameters(generator));
}

#[test]
fn a_hinge_step_teaches_every_parameter_of_a_dcgan() {
    let device = Device::flex().autodiff();
    for upsampling in [Upsampling::Transposed, Upsampling::Resize] {
        let config = DcganConfig { upsampling, ..SMALL_DCGAN };
        let generator = initialise_adversarial(config.generator(&device), 3, 0);
        let discriminator = initialise_adversarial(config.discriminator(&device), 3, 1);
        let latent = Tensor::<2>::random([2, 12], Distribution::Normal(0.0, 1.0), &device);
        a_hinge_step_teaches_everything(
            &generator,
            &discriminator,
            |network| network.forward(latent.clone()),
            |network, images| network.forward(images),
        );
    }
}

#[test]
fn a_hinge_step_teaches_every_parameter_of_a_fastgan() {
    let device = Device::flex().autodiff();
    let generator = initialise_adversarial(SMALL_FASTGAN.generator(&device), 3, 0);
    let discriminator = initialise_adversarial(SMALL_FASTGAN.discriminator(&device), 3, 1);
    let latent = Tensor::<2>::random([2, 12], Distribution::Normal(0.0, 1.0), &device);
    a_hinge_step_teaches_everything(
        &generator,
        &discriminator,
        |network| network.forward(latent.clone()),
        |network, images| network.forward(images),
    );
}

#[test]
fn rebuilding_images_teaches_the_decoders_and_what_they_see() {
    let device = Device::flex().autodiff();
    let discriminator = initialise_adversarial(SMALL_FASTGAN.discriminator(&device), 3, 1);
    let decoders = initialise_adversarial(SMALL_FASTGAN.decoders(&device), 3, 2);
    let images = Tensor::random([2, 1, 256, 256], Distribution::Uniform(-1.0, 1.0), &device);
    let (loss, _) = training(TrainingPass::whole_batch(2), || {
        let [whole, part] = decoders.forward(&discriminator.forward_features(images), 2);
        whole.mean() + part.mean()
    });
    let gradients = loss.backward();
    assert_eq!(taught(&decoders, &gradients), all_parameters(&decoders));
    let mut unscored = all_parameters(&discriminator);
    unscored.retain(|name| !name.starts_with("widen") && !name.starts_with("score"));
    assert_eq!(taught(&discriminator, &gradients), unscored);
}

#[test]
fn noise_belongs_to_samples_and_leaves_inference_alone() {
    let device = Device::flex();
    let mut generator = initialise_adversarial(SMALL_FASTGAN.generator(&device), 5, 0);
    let latent = Tensor::<2>::random([2, 12], Distribution::Normal(0.0, 1.0), &device);
    let quiet = generator.forward(latent.clone());
    let layers = generator.blocks.iter_mut().flat_map(|block| &mut block.layers);
    for noise in layers.filter_map(|layer| layer.noise.as_mut()) {
        noise.weight = Param::from_tensor(Tensor::ones([1], &device));
    }
    generator.forward(latent.clone()).into_data().assert_eq(&quiet.into_data(), true);

    let train = |samples: [u64; 2]| {
        let pass = TrainingPass { samples: samples.to_vec(), ..TrainingPass::whole_batch(2) };
        training(pass, || generator.forward(latent.clone())).0.into_data()
    };
    train([3, 4]).assert_eq(&train([3, 4]), true);
    assert_ne!(train([3, 4]), train([3, 5]));
}

#[test]
fn networks_infer_alike_with_and_without_gradients() {
    let (plain, tracked) = (Device::flex(), Device::flex().autodiff());
    let images = |device: &Device| {
        let network = initialise_adversarial(SMALL_FASTGAN.generator(device), 2, 0);
        let latent: Vec<f32> = (0..24).map(|i| (i % 7) as f32 - 3.0).collect();
        let latent = Tensor::<1>::from_floats(latent.as_slice(), device).reshape([2, 12]);
        network.forward(latent)
    };
    let scores = |device: &Device| {
        let network = initialise_adversarial(SMALL_FASTGAN.discriminator(device), 2, 1);
        let image = Tensor::from_data(images(&plain).into_data(), device);
        network.forward(image)
    };
    let close = |a: burn::tensor::TensorData, b| a.assert_approx_eq::<f32>(&b, Tolerance::absolute(1e-5));
    close(images(&plain).into_data(), images(&tracked).into_data());
    close(scores(&plain).into_data(), scores(&tracked).into_data());
}

//! Spectral normalisation and differentiable augmentation against PyTorch in float64; `pytorch/reference.py` wrote what
//! is expected.
//!
//! A device's precision can be set once a process and before its first tensor, hence a test program of its own.
#![allow(clippy::unwrap_used)]

use std::sync::OnceLock;

use burn::module::{Module, Param};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use kindling_gan_training::{Change, DiffAugment, SpectralNorm};
use kindling_layers::tensors::Tensors;
use kindling_layers::{Conv2d, Conv2dConfig};
use kindling_trainer::engine::GradientSum;
use serde_json::Value;

const REFERENCE: &str = include_str!("pytorch/reference.json");
const TOLERANCE: f64 = 1e-12;

fn reference() -> Value {
    serde_json::from_str(REFERENCE).unwrap()
}

fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let float64 = || {
        let mut device = Device::flex();
        device.configure(FloatDType::F64).expect("no tensor was made before");
        device
    };
    DEVICE.get_or_init(float64).clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn tensor<const D: usize>(value: &Value, shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers(value), shape), &device())
}

fn close<const D: usize>(what: &str, found: Tensor<D>, expected: &Value) {
    let found: Vec<f64> = found.into_data().convert::<f64>().try_to_vec().unwrap();
    let expected = numbers(expected);
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let off = (found - expected).abs() / largest;
        assert!(off < TOLERANCE, "{what}, number {index}: {found} for PyTorch's {expected}");
    }
}

#[test]
fn spectral_normalisation_and_its_gradient_equal_pytorchs() {
    let reference = reference();
    let reference = &reference["spectral"];
    let mut conv: Conv2d = Conv2dConfig::new(3, 5, 3, 1).init(&device());
    conv.weight = Param::from_tensor(tensor(&reference["weight"], [5, 3, 3, 3]));
    let mut model = conv.train();
    let mut saved = Tensors::new();
    saved.insert("weight.left".into(), TensorData::new(numbers(&reference["left"]), [5]));
    saved.insert("weight.right".into(), TensorData::new(vec![0.0f64; 27], [27]));
    let mut norm = SpectralNorm::new(&model, 0).restore(saved, &device()).unwrap();

    let images = Tensor::from_inner(tensor::<4>(&reference["images"], [2, 3, 4, 4]));
    let weights = Tensor::from_inner(tensor::<4>(&reference["weights"], [2, 5, 4, 4]));
    let rounds = reference["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for (index, round) in rounds.iter().enumerate() {
        let (network, back, next) = norm.normalise(&model);
        let output = network.forward(images.clone());
        close(&format!("output {index}"), output.clone().inner(), &round["output"]);
        let mut sum = GradientSum::default();
        sum.add((output * weights.clone()).sum().backward(), &network);
        let gradient = back.carry_over(sum).take(model.weight.id).expect("the filter has a gradient");
        close(&format!("gradient {index}"), gradient, &round["gradient"]);
        let saved = next.save().unwrap();
        for (side, length) in [("left", 5), ("right", 27)] {
            let vector = saved[&format!("weight.{side}")].clone();
            close(
                &format!("{side} {index}"),
                Tensor::<1>::from_data(vector, &device()).reshape([length]),
                &round[side],
            );
        }
        norm = next;
        let factors = tensor::<4>(&reference["factors"], [1, 3, 3, 3]);
        model.weight = model.weight.map(|weight| Tensor::from_inner(weight.inner() * factors).require_grad());
    }
}

#[test]
fn differentiable_augmentation_and_its_gradient_equal_pytorchs() {
    let reference = reference();
    for case in reference["augment"].as_array().unwrap() {
        let channels = case["channels"].as_u64().unwrap() as usize;
        let shape = [3, channels, 8, 8];
        let pair = |value: &Value| {
            let values: Vec<i64> = value.as_array().unwrap().iter().map(|it| it.as_i64().unwrap()).collect();
            [values[0], values[1]]
        };
        let changes: Vec<Change> = case["changes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|change| Change {
                brightness: change["brightness"].as_f64().unwrap() as f32,
                saturation: change["saturation"].as_f64().unwrap() as f32,
                contrast: change["contrast"].as_f64().unwrap() as f32,
                shift: pair(&change["shift"]),
                cutout: Some(pair(&change["cutout"])),
            })
            .collect();
        let images = Tensor::from_inner(tensor::<4>(&case["images"], shape)).require_grad();
        let weights = Tensor::from_inner(tensor::<4>(&case["weights"], shape));
        let output = DiffAugment::ALL.apply(images.clone(), &changes);
        close("output", output.clone().inner(), &case["output"]);
        let mut found = (output * weights).sum().backward();
        close("gradient", images.grad_remove(&mut found).expect("a gradient of the images"), &case["gradient"]);
    }
}

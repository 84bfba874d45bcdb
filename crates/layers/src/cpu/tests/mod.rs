//! Every operation against a naive float64 computation over random shapes, and its gradients against differences of
//! that computation's own terms.

mod convolutions;
mod naive_norm;
mod unread;

use burn::tensor::{Device, Tensor, TensorData};
use rand::RngExt;

use super::norm_act;
use super::*;

fn rng(case: u64) -> kindling_random::Rng {
    kindling_random::rng(11, kindling_random::Purpose::Display, 0, case)
}

fn random(rng: &mut kindling_random::Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect()
}

fn vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec::<f32>().unwrap()
}

fn close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-6f64, |largest, value| largest.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs() / scale;
        assert!(error < 2e-5, "{what}[{index}]: {found} for {expected}");
    }
}

#[test]
fn squeeze_and_scale_and_their_gradients_equal_the_naive_sums() {
    let device = Device::flex().autodiff();
    for (case, shape) in [[1, 1, 1, 1], [2, 3, 5, 7], [3, 17, 16, 16], [1, 4, 33, 40]].into_iter().enumerate() {
        let mut rng = rng(2000 + case as u64);
        let [batch, channels, height, width] = shape;
        let plane = height * width;
        let (x, dy) = (random(&mut rng, batch * channels * plane), random(&mut rng, batch * channels * plane));
        let (gate, dm) = (random(&mut rng, batch * channels), random(&mut rng, batch * channels));
        let tensor = |values: &[f32]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device);
        let vector =
            |values: &[f32]| Tensor::<2>::from_data(TensorData::new(values.to_vec(), [batch, channels]), &device);
        let (xt, gt) = (tensor(&x).require_grad(), vector(&gate).require_grad());
        let (mean, y) = (means(xt.clone()), scale(xt.clone(), gt.clone()));
        let loss = (mean.clone() * vector(&dm)).sum() + (y.clone() * tensor(&dy)).sum();
        let grads = loss.backward();

        let of = |index: usize| index / plane;
        let sums = |term: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..batch * channels).map(|at| (at * plane..(at + 1) * plane).map(term).sum()).collect()
        };
        let naive_mean: Vec<f64> = sums(&|i| f64::from(x[i])).iter().map(|sum| sum / plane as f64).collect();
        let naive_y: Vec<f64> = (0..x.len()).map(|i| f64::from(x[i]) * f64::from(gate[of(i)])).collect();
        let naive_dx: Vec<f64> = (0..x.len())
            .map(|i| f64::from(dy[i]) * f64::from(gate[of(i)]) + f64::from(dm[of(i)]) / plane as f64)
            .collect();
        close("mean", &vec(mean), &naive_mean);
        close("scaled", &vec(y), &naive_y);
        close("dx", &vec(xt.grad(&grads).unwrap()), &naive_dx);
        close("dgate", &vec(gt.grad(&grads).unwrap()), &sums(&|i| f64::from(x[i]) * f64::from(dy[i])));
    }
}

/// Maps of a half format: what is computed from them is the float32 result, rounded once.
#[test]
fn half_formats_are_the_float32_result_rounded_once() {
    use burn::tensor::{FloatDType, Tolerance};
    let device = Device::flex().autodiff();
    let mut rng = rng(3000);
    let mut of = |shape: [usize; 4]| {
        let values = random(&mut rng, shape.iter().product());
        Tensor::<4>::from_data(TensorData::new(values, shape), &device)
    };
    let (x, w, d) = (of([2, 6, 9, 9]), of([4, 6, 3, 3]), of([6, 1, 3, 3]));
    let places = Places { stride: 2, before: [1; 2], out: [5; 2] };
    type Operation = fn(Tensor<4>, Tensor<4>, Places) -> Tensor<4>;
    let operations: [(&Tensor<4>, Operation); 3] = [
        (&w, dense),
        (&d, |x, d, places| depthwise(x, d, places.stride, places.before)),
        (&d, |x, d, _| scale(x.clone(), means(x) * d.reshape([6, 9]).sum_dim(1).reshape([1, 6]))),
    ];
    for (format, digits) in [(FloatDType::BF16, 1.0 / 128.0), (FloatDType::F16, 1.0 / 1024.0)] {
        for (weight, operation) in &operations {
            let half = x.clone().cast(format);
            let run = |x: Tensor<4>| {
                let (x, weight) = (x.detach().require_grad(), (*weight).clone().detach().require_grad());
                let y = operation(x.clone(), weight.clone(), places);
                let mut grads = y.clone().sum().backward();
                (y, x.grad_remove(&mut grads).unwrap(), weight.grad_remove(&mut grads).unwrap())
            };
            let (y, dx, dw) = run(half.clone());
            let (full_y, full_dx, full_dw) = run(half.cast(FloatDType::F32));
            assert_eq!([y.dtype(), dx.dtype(), dw.dtype()], [format.into(), format.into(), DType::F32]);
            let near = Tolerance::<f32>::relative(digits).set_absolute(1e-6);
            y.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_y.into_data(), near);
            dx.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_dx.into_data(), near);
            dw.into_data().assert_approx_eq::<f32>(&full_dw.into_data(), near);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let g = Geometry { batch: 3, channels: 5, height: 20, width: 19, kernel: 5, stride: 2, before: [2, 2] };
            let mut rng = rng(7);
            let x = random(&mut rng, g.input().iter().product());
            let dy = random(&mut rng, g.output().iter().product());
            (depthwise::backward_weight(&x, &dy, &g), norm_act::statistics(&x, g.input(), &[2, 1]))
        })
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(5));
}

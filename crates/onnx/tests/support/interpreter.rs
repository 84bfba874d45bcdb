//! A trace run with Burn's operations, for the layers that no network here has.

use burn::tensor::ops::{AvgPoolOptions, ConvOptions, ConvTransposeOptions, InterpolateMode, InterpolateOptions};
use burn::tensor::ops::{MaxPoolOptions, PadMode};
use burn::tensor::{Device, Tensor, TensorData, module};
use kindling_layers::resized;
use kindling_layers::tensors::Tensors;
use kindling_layers::trace::{LayerTrace, Op, Trace};

/// The output of the last layer for `[batch, channels, height, width]`; vectors are maps of one pixel.
pub(crate) fn run(trace: &Trace, tensors: &Tensors, input: Tensor<4>) -> Tensor<4> {
    let mut values = vec![input];
    for layer in &trace.layers {
        let inputs = layer.inputs.iter().map(|&id| values[id].clone()).collect();
        values.push(apply(layer, tensors, inputs));
    }
    values.pop().expect("there is an input")
}

fn apply(layer: &LayerTrace, tensors: &Tensors, inputs: Vec<Tensor<4>>) -> Tensor<4> {
    let find = |part: &str| tensors.get(&format!("{}.{part}", layer.name)).cloned();
    let on_device = |data: TensorData| Tensor::<1>::from_data(data, &Device::flex());
    let vector = |part: &str| on_device(find(part).unwrap_or_else(|| panic!("{}.{part}", layer.name)));
    let filter = || Tensor::<4>::from_data(find("weight").expect("a weight"), &Device::flex());
    let bias = || find("bias").map(on_device);
    let x = inputs[0].clone();
    match layer.op {
        Op::Conv { stride, dilation, groups, padding, .. } => {
            let ([top, left], [bottom, right]) = (padding.before, padding.after);
            let x = x.pad((left, right, top, bottom), PadMode::Constant(0.0));
            module::conv2d(x, filter(), bias(), ConvOptions::new([stride; 2], [0; 2], [dilation; 2], groups))
        }
        Op::ConvTranspose { stride, padding, .. } => {
            let options = ConvTransposeOptions::new([stride; 2], [padding; 2], [0; 2], [1; 2], 1);
            module::conv_transpose2d(x, filter(), bias(), options)
        }
        Op::BatchNorm { epsilon } => {
            let [mean, var] = ["running_mean", "running_var"].map(vector);
            module::batch_norm(x, vector("weight"), vector("bias"), mean, var, epsilon)
        }
        Op::Linear => {
            let weight = Tensor::<2>::from_data(find("weight").expect("a weight"), &Device::flex());
            let y: Tensor<2> = module::linear(x.flatten(1, 3), weight.transpose(), bias());
            let [batch, channels] = y.dims();
            y.reshape([batch, channels, 1, 1])
        }
        Op::Activation(function) => function.forward(x),
        Op::Add => x + inputs[1].clone(),
        Op::Multiply => x * inputs[1].clone(),
        Op::Scale { factor } => x.mul_scalar(factor),
        Op::GlobalAveragePool => module::adaptive_avg_pool2d(x, [1, 1]),
        Op::AdaptiveAveragePool { output } => module::adaptive_avg_pool2d(x, [output; 2]),
        Op::AveragePool { kernel } => module::avg_pool2d(x, AvgPoolOptions::new([kernel; 2])),
        Op::MaxPool { kernel, stride, padding } => {
            let options = MaxPoolOptions::new([kernel; 2]).with_stride([stride; 2]);
            module::max_pool2d(x, options.with_padding([padding; 2]))
        }
        Op::Concat => Tensor::cat(inputs, 1),
        Op::Slice { start, end } => x.narrow(1, start, end - start),
        Op::Resize { interpolation } => resized(x, [layer.output.height, layer.output.width], interpolation),
        Op::Upsample { factor } => {
            let [_, _, height, width] = x.dims();
            let options = InterpolateOptions::new(InterpolateMode::Nearest);
            module::interpolate(x, options.with_output_size([factor * height, factor * width]))
        }
    }
}

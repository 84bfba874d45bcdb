//! Checks that a trace is a graph with consistent shapes.

use kindling_layers::Interpolation;
use kindling_layers::trace::{FeatureMap, LayerTrace, Op, Trace};

use crate::error::{OnnxError, size_of};
use crate::operation::factor;

/// The map of each value, the network's input first.
///
/// # Errors
/// If a layer reads a value that does not exist yet, or if the shape of its output is not what its operation computes from its inputs. A
/// file with such a layer would be refused when it is loaded, or, worse, compute something else.
pub(crate) fn check(trace: &Trace) -> Result<Vec<FeatureMap>, OnnxError> {
    let mut maps = vec![trace.input];
    for layer in &trace.layers {
        let read = |&id: &usize| match maps.get(id) {
            Some(&map) => Ok(map),
            None => Err(OnnxError::inconsistent(layer, format!("it reads value {id} of {}", maps.len()))),
        };
        let inputs = layer.inputs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let made = output_of(layer, &inputs)?;
        if made != layer.output {
            let (made, traced) = (size_of(made), size_of(layer.output));
            let reason = format!("it makes a map of {made}, and {traced} is expected");
            return Err(OnnxError::inconsistent(layer, reason));
        }
        maps.push(made);
    }
    Ok(maps)
}

/// The output shape of a layer for these inputs. The channels of convolutions and linear layers are taken from the trace.
fn output_of(layer: &LayerTrace, inputs: &[FeatureMap]) -> Result<FeatureMap, OnnxError> {
    let wrong = |reason: String| OnnxError::inconsistent(layer, reason);
    let no_window = || wrong("its window is larger than the map".to_string());
    let channels = layer.output.channels;
    match (layer.op, inputs) {
        (Op::Conv { kernel, stride, dilation, padding, .. }, &[x]) => {
            let reach = kernel.saturating_sub(1) * dilation + 1;
            let axis = |size, axis: usize| windows(size + padding.before[axis] + padding.after[axis], reach, stride);
            resized(x, channels, axis).ok_or_else(no_window)
        }
        (Op::ConvTranspose { kernel, stride, padding }, &[x]) => {
            let axis = |size: usize, _| (size.checked_sub(1)? * stride + kernel).checked_sub(2 * padding);
            resized(x, channels, axis).ok_or_else(no_window)
        }
        (Op::MaxPool { kernel, stride, padding }, &[x]) => {
            resized(x, x.channels, |size, _| windows(size + 2 * padding, kernel, stride)).ok_or_else(no_window)
        }
        (Op::AveragePool { kernel }, &[x]) => {
            resized(x, x.channels, |size, _| windows(size, kernel, kernel)).ok_or_else(no_window)
        }
        (Op::AdaptiveAveragePool { output }, &[x]) => {
            let cell = |size: usize, _| (output > 0 && size.is_multiple_of(output)).then_some(output);
            resized(x, x.channels, cell).ok_or_else(|| {
                let reason = format!("cells of a map of {} differ in size, or share pixels", size_of(x));
                OnnxError::unsupported(layer, reason)
            })
        }
        (Op::Upsample { factor }, &[x]) => {
            Ok(FeatureMap { channels: x.channels, height: x.height * factor, width: x.width * factor })
        }
        (Op::Resize { interpolation: Interpolation::Bilinear | Interpolation::BilinearCorners }, &[x])
            if factor(x.height, layer.output.height).is_some() && factor(x.width, layer.output.width).is_some() =>
        {
            Ok(FeatureMap { channels: x.channels, ..layer.output })
        }
        (Op::Resize { .. }, &[_]) => {
            let reason = "its maps are no whole number of times as large as its inputs".to_string();
            Err(OnnxError::unsupported(layer, reason))
        }
        (Op::GlobalAveragePool, &[x]) => Ok(FeatureMap::vector(x.channels)),
        (Op::Linear, &[_]) => Ok(FeatureMap::vector(channels)),
        (Op::BatchNorm { .. } | Op::Activation(_) | Op::Scale { .. }, &[x]) => Ok(x),
        (Op::Slice { start, end }, &[x]) if start < end && end <= x.channels => {
            Ok(FeatureMap { channels: end - start, ..x })
        }
        (Op::Slice { .. }, &[x]) => Err(wrong(format!("there are {} channels", x.channels))),
        (Op::Add, &[a, b]) if a == b => Ok(a),
        (Op::Multiply, &[a, b]) if b == a || b == FeatureMap::vector(a.channels) => Ok(a),
        (Op::Add | Op::Multiply, &[a, b]) => Err(wrong(format!("its inputs are {} and {}", size_of(a), size_of(b)))),
        (Op::Concat, &[first, ..]) => {
            match inputs.iter().find(|map| (map.height, map.width) != (first.height, first.width)) {
                None => Ok(FeatureMap { channels: inputs.iter().map(|map| map.channels).sum(), ..first }),
                Some(&other) => Err(wrong(format!("its inputs are {} and {}", size_of(first), size_of(other)))),
            }
        }
        (_, inputs) => Err(wrong(format!("it reads {} values", inputs.len()))),
    }
}

/// A map with another height and width; `axis` computes them from the size and 0 for height or 1 for width.
fn resized(map: FeatureMap, channels: usize, axis: impl Fn(usize, usize) -> Option<usize>) -> Option<FeatureMap> {
    Some(FeatureMap { channels, height: axis(map.height, 0)?, width: axis(map.width, 1)? })
}

/// How many windows of `kernel` elements, `stride` apart, fit into `size` elements.
fn windows(size: usize, kernel: usize, stride: usize) -> Option<usize> {
    Some(size.checked_sub(kernel)?.checked_div(stride)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::traced;
    use kindling_layers::Interpolation;

    /// One layer that hands on `output`.
    fn one(op: Op, output: FeatureMap) -> Result<Vec<FeatureMap>, OnnxError> {
        check(&traced(FeatureMap::square(4, 7), |input, trace| trace.apply("layer", op, &[input], output)))
    }

    #[test]
    fn sizes_follow_from_the_operation() {
        let pool = Op::MaxPool { kernel: 3, stride: 2, padding: 1 };
        assert_eq!(one(pool, FeatureMap::square(4, 4)), Ok(vec![FeatureMap::square(4, 7), FeatureMap::square(4, 4)]));
        let transposed = Op::ConvTranspose { kernel: 4, stride: 2, padding: 1 };
        assert!(one(transposed, FeatureMap::square(9, 14)).is_ok());
        // Seven rows in windows of two: the last row is in none.
        assert!(one(Op::AveragePool { kernel: 2 }, FeatureMap::square(4, 3)).is_ok());
        assert!(one(Op::Upsample { factor: 3 }, FeatureMap::square(4, 21)).is_ok());
    }

    /// ONNX takes the size of the batch from a list of all sizes, or factors, which it rounds.
    #[test]
    fn a_map_of_any_size_is_refused_with_the_layer() {
        let resize = Op::Resize { interpolation: Interpolation::Nearest };
        let refused = one(resize, FeatureMap::square(4, 13)).expect_err("13 / 7 is no whole number");
        assert!(matches!(refused, OnnxError::Unsupported { layer, .. } if layer == "layer"));
    }

    #[test]
    fn a_trace_that_contradicts_itself_is_refused_with_the_layer() {
        let refused = one(Op::AveragePool { kernel: 2 }, FeatureMap::square(4, 4)).expect_err("four windows");
        let sentence = "the layer `layer` (mean 2x2) does not fit into its network: it makes a map of 4x3x3, \
                        and 4x4x4 is expected";
        assert_eq!(refused.to_string(), sentence);
        assert!(one(Op::Slice { start: 2, end: 5 }, FeatureMap::square(3, 7)).is_err());
        assert!(one(Op::Add, FeatureMap::square(4, 7)).is_err());
        assert!(one(Op::AveragePool { kernel: 8 }, FeatureMap::square(4, 1)).is_err());
        let mut trace = traced(FeatureMap::square(4, 7), |input, trace| trace.add(input, input));
        trace.layers[0].inputs[1] = 1;
        assert!(matches!(check(&trace), Err(OnnxError::Inconsistent { .. })));
    }

    /// Seven rows in three cells: PyTorch's cells are 3, 3 and 3 rows that overlap.
    #[test]
    fn uneven_adaptive_pooling_is_refused_with_the_layer() {
        let pool = Op::AdaptiveAveragePool { output: 3 };
        let refused = one(pool, FeatureMap::square(4, 3)).expect_err("7 is no multiple of 3");
        assert!(matches!(&refused, OnnxError::Unsupported { layer, .. } if layer == "layer"), "{refused}");
        assert!(one(Op::AdaptiveAveragePool { output: 7 }, FeatureMap::square(4, 7)).is_ok());
        assert!(one(Op::AdaptiveAveragePool { output: 1 }, FeatureMap::vector(4)).is_ok());
    }
}

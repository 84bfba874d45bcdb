//! Depthwise and dense convolutions of whole maps.

use kindling_ops::{Convolution, Places, dense, depthwise};

use super::{Ground, close_sums, close_within, random, rng, vec};

/// A convolution with its shapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) batch: usize,
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    pub(crate) before: [usize; 2],
    pub(crate) out: [usize; 2],
    pub(crate) depthwise: bool,
}

impl Case {
    /// A depthwise convolution to `ceil(size / stride)`.
    pub(crate) fn depthwise(shape: [usize; 4], kernel: usize, stride: usize, before: [usize; 2]) -> Self {
        let [batch, input, height, width] = shape;
        let out = [height.div_ceil(stride), width.div_ceil(stride)];
        Self { batch, input, output: input, height, width, kernel, stride, dilation: 1, before, out, depthwise: true }
    }

    /// A dense convolution with as many zeros on all sides.
    pub(crate) fn dense(shape: [usize; 4], output: usize, kernel: usize, stride: usize, padding: usize) -> Self {
        let [batch, input, height, width] = shape;
        let out = [height, width].map(|size| (size + 2 * padding - kernel) / stride + 1);
        Self {
            batch,
            input,
            output,
            height,
            width,
            kernel,
            stride,
            dilation: 1,
            before: [padding; 2],
            out,
            depthwise: false,
        }
    }

    /// The same with the kernel's places two pixels apart, and its output as large.
    pub(crate) fn dilated(self) -> Self {
        assert!(self.before.iter().all(|before| *before == self.kernel / 2), "{self:?} has other zeros");
        Self { dilation: 2, before: [self.kernel - 1; 2], ..self }
    }

    pub(crate) fn input_shape(&self) -> [usize; 4] {
        [self.batch, self.input, self.height, self.width]
    }

    pub(crate) fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.output, self.out[0], self.out[1]]
    }

    pub(crate) fn filters(&self) -> [usize; 4] {
        [self.output, if self.depthwise { 1 } else { self.input }, self.kernel, self.kernel]
    }

    pub(crate) fn places(&self) -> Places {
        Places { stride: self.stride, dilation: self.dilation, before: self.before, out: self.out }
    }

    pub(crate) fn convolution(&self) -> Convolution {
        match self.depthwise {
            true => Convolution::Depthwise(self.places()),
            false => Convolution::Dense(self.places()),
        }
    }

    /// Calls `visit(output index, input index, weight index)` for every product.
    pub(crate) fn products(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let [out_height, out_width] = self.out;
        let [top, left] = self.before;
        let fan = if self.depthwise { 1 } else { self.input };
        for (sample, output) in (0..self.batch).flat_map(|sample| (0..self.output).map(move |output| (sample, output)))
        {
            for (oy, ox) in (0..out_height).flat_map(|oy| (0..out_width).map(move |ox| (oy, ox))) {
                for of_fan in 0..fan {
                    let input = if self.depthwise { output } else { of_fan };
                    for (ky, kx) in (0..self.kernel).flat_map(|ky| (0..self.kernel).map(move |kx| (ky, kx))) {
                        let (iy, ix) = (oy * self.stride + ky * self.dilation, ox * self.stride + kx * self.dilation);
                        if iy < top || ix < left || iy - top >= self.height || ix - left >= self.width {
                            continue;
                        }
                        visit(
                            ((sample * self.output + output) * out_height + oy) * out_width + ox,
                            ((sample * self.input + input) * self.height + iy - top) * self.width + ix - left,
                            ((output * fan + of_fan) * self.kernel + ky) * self.kernel + kx,
                        );
                    }
                }
            }
        }
    }
}

/// What the sums over products are: of a convolution, of its input's gradient and of its weight's.
pub(crate) struct Naive {
    pub(crate) x: Vec<f32>,
    pub(crate) y: Vec<f32>,
    pub(crate) w: Vec<f32>,
    pub(crate) of_x: Vec<f64>,
    pub(crate) of_y: Vec<f64>,
    pub(crate) of_w: Vec<f64>,
    /// Of the products that `of_w` is the sums of.
    squares_of_w: Vec<f64>,
}

impl Naive {
    /// For a random map, gradient of the output and filters.
    pub(crate) fn of(case: &Case, number: u64) -> Self {
        let mut rng = rng(number);
        let count = |shape: [usize; 4]| shape.iter().product::<usize>();
        let (x, y) = (random(&mut rng, count(case.input_shape())), random(&mut rng, count(case.output_shape())));
        let w = random(&mut rng, count(case.filters()));
        let (mut of_x, mut of_y, mut of_w) = (vec![0.0f64; y.len()], vec![0.0f64; x.len()], vec![0.0f64; w.len()]);
        let mut squares_of_w = of_w.clone();
        case.products(|o, i, k| {
            of_x[o] += f64::from(x[i]) * f64::from(w[k]);
            of_y[i] += f64::from(y[o]) * f64::from(w[k]);
            of_w[k] += f64::from(y[o]) * f64::from(x[i]);
            squares_of_w[k] += (f64::from(y[o]) * f64::from(x[i])).powi(2);
        });
        Self { x, y, w, of_x, of_y, of_w, squares_of_w }
    }
}

/// A convolution and its gradients.
pub(crate) fn check_convolution(ground: &Ground, case: &Case, number: u64) {
    check_convolution_within(ground.rounding(), ground, case, number);
}

/// The same, for devices whose results may be further from the naive ones: by this share of the largest of them.
pub(crate) fn check_convolution_within(limit: f64, ground: &Ground, case: &Case, number: u64) {
    let naive = Naive::of(case, number);
    let xt = ground.map(&naive.x, case.input_shape()).require_grad();
    let wt = ground.tensor(&naive.w, case.filters()).require_grad();
    let y = match case.depthwise {
        true => depthwise(xt.clone(), wt.clone(), case.places()),
        false => dense(xt.clone(), wt.clone(), case.places()),
    };
    assert_eq!(y.dims(), case.output_shape());
    let grads = ground.weighed(y.clone(), &naive.y).backward();
    close_within(limit, &format!("{case:?} y"), &vec(y), &naive.of_x);
    close_within(limit, &format!("{case:?} dx"), &vec(xt.grad(&grads).expect("a gradient")), &naive.of_y);
    let found = vec(wt.grad(&grads).expect("a gradient"));
    close_sums(limit, &format!("{case:?} dw"), &found, &naive.of_w, &naive.squares_of_w);
}

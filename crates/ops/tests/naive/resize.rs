//! Maps of another height and width.

use kindling_ops::{Interpolation, resize};

use super::{Ground, close, random, rng, vec};

/// How maps are resized.
pub(crate) const INTERPOLATIONS: [Interpolation; 3] =
    [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::BilinearCorners];

/// Pixels of the input with their weights, for each pixel of the output of an axis, as PyTorch's documentation defines them. Computed in
/// floats, except for nearest, where a place may be a whole number.
fn weights(input: usize, output: usize, interpolation: Interpolation) -> Vec<Vec<(usize, f64)>> {
    let (from, to) = (input as f64, output as f64);
    (0..output)
        .map(|pixel| {
            let place = match interpolation {
                Interpolation::Nearest => return vec![(pixel * input / output, 1.0)],
                Interpolation::Bilinear => ((pixel as f64 + 0.5) * from / to - 0.5).max(0.0),
                Interpolation::BilinearCorners if output == 1 => 0.0,
                Interpolation::BilinearCorners => pixel as f64 * (from - 1.0) / (to - 1.0),
            };
            let at = (place.floor() as usize).min(input - 1);
            let share = place - at as f64;
            vec![(at, 1.0 - share), ((at + 1).min(input - 1), share)]
        })
        .collect()
}

/// Checks the operation and its gradient.
pub(crate) fn check_resize(ground: &Ground, shape: [usize; 4], size: [usize; 2], how: Interpolation, case: u64) {
    let [batch, channels, height, width] = shape;
    let of_output = [batch, channels, size[0], size[1]];
    let mut rng = rng(8500 + case);
    let (x, dy) = (random(&mut rng, shape.iter().product()), random(&mut rng, of_output.iter().product()));
    let xt = ground.map(&x, shape).require_grad();
    let y = resize(xt.clone(), size, how);
    assert_eq!(y.dims(), of_output);
    let grads = ground.weighed(y.clone(), &dy).backward();

    let (rows, columns) = (weights(height, size[0], how), weights(width, size[1], how));
    let (mut naive_y, mut naive_dx) = (vec![0.0; dy.len()], vec![0.0; x.len()]);
    for plane in 0..batch * channels {
        for (row, down) in rows.iter().enumerate() {
            for (column, across) in columns.iter().enumerate() {
                let to = (plane * size[0] + row) * size[1] + column;
                for (of_row, from_row) in down.iter().map(|(at, weight)| (weight, (plane * height + at) * width)) {
                    for (at, weight) in across {
                        naive_y[to] += of_row * weight * f64::from(x[from_row + at]);
                        naive_dx[from_row + at] += of_row * weight * f64::from(dy[to]);
                    }
                }
            }
        }
    }
    let what = format!("{how:?} {shape:?} to {size:?}");
    close(&what, &vec(y), &naive_y);
    close(&format!("dx of {what}"), &vec(xt.grad(&grads).expect("a gradient")), &naive_dx);
}

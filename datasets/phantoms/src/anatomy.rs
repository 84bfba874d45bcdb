//! Draws a head in cross-section, and the distractors that every class has. It imitates axial T1 slices: bright scalp and marrow, dark
//! skull and fluid, grey cortex in folds around brighter white matter.

use std::f32::consts::PI;

use kindling_random::Rng;

use crate::SIZE;
use crate::canvas::{Canvas, Ellipse, Warp, count, draw as uniform, smooth};
use crate::difficulty::*;
use crate::field::Field;

/// The largest deviation of the outline of a head from an ellipse, in pixels.
const OUTLINE_BEND: f32 = 14.0;

/// The results that later steps need.
pub(crate) struct Head {
    /// The inside of the skull.
    pub(crate) brain: Ellipse,
    /// The brightness of grey matter.
    pub(crate) tissue: f32,
    bias: Field,
    bias_strength: f32,
}

/// Draws the anatomy and the distractors. The first axis of the head points from the back to the front.
pub(crate) fn draw(canvas: &mut Canvas, rng: &mut Rng) -> Head {
    let middle = SIZE as f32 / 2.0;
    let centre = [middle + uniform(rng, [-18.0, 18.0]), middle + uniform(rng, [-14.0, 14.0])];
    let radii = [uniform(rng, [200.0, 232.0]), uniform(rng, [158.0, 192.0])];
    let outline = Ellipse::new(centre, radii, PI / 2.0 + uniform(rng, [-0.2, 0.2]));
    let tissue = uniform(rng, [0.36, 0.46]);
    let thickness = shells(canvas, &outline, tissue, rng);
    let brain = outline.grown(-thickness);
    deep_structures(canvas, &brain, tissue, rng);
    distractors(canvas, &brain, rng);
    Head { brain, tissue, bias: Field::new(4, rng), bias_strength: uniform(rng, [0.3 * BIAS, BIAS]) }
}

/// Everything that follows the outline, from the scalp to the white matter, in one pass. Returns how far below the
/// outline the brain begins.
fn shells(canvas: &mut Canvas, outline: &Ellipse, tissue: f32, rng: &mut Rng) -> f32 {
    let (scalp, skull) = (uniform(rng, [9.0, 15.0]), uniform(rng, [8.0, 13.0]));
    let brain = scalp + skull + 4.0;
    // From the outside in: where a layer begins, how soft its border is, and its brightness. The skull is two dark
    // plates with marrow between them, and a film of fluid lies under it.
    let layers = [
        (0.0, 2.0, uniform(rng, [0.48, 0.66])),
        (scalp, 2.5, uniform(rng, [0.05, 0.10])),
        (scalp + skull * 0.33, 2.5, uniform(rng, [0.12, 0.30])),
        (scalp + skull * 0.67, 2.5, uniform(rng, [0.06, 0.11])),
        (brain, 3.0, tissue),
    ];
    let white = tissue + uniform(rng, [0.10, 0.17]);
    let sulcus = uniform(rng, [0.10, 0.18]);
    let fields = [4, 4, 32, 8, 128].map(|cells| Field::new(cells, rng));
    let short = outline.radii[0].min(outline.radii[1]);

    let reached = outline.grown(OUTLINE_BEND * 1.5);
    let mut rows = [[0.0f32; SIZE]; 5];
    for (y, line) in canvas.rows_mut().enumerate() {
        // Half of the image is air.
        let columns = reached.chord(y);
        for (field, row) in fields.iter().zip(&mut rows) {
            field.row(y, columns.clone(), row);
        }
        let [bend_x, bend_y, fold, coarse, texture] = &rows;
        for x in columns {
            let (bent_x, bent_y) = (x as f32 + OUTLINE_BEND * bend_x[x], y as f32 + OUTLINE_BEND * bend_y[x]);
            let below = (1.0 - outline.radius_at(bent_x, bent_y)) * short;
            let mut value = 0.0;
            for (start, edge, level) in layers {
                value += smooth((below - start) * (1.0 / edge) + 0.5) * (level - value);
            }
            // 0 in the middle of the brain, 1 at its surface; the coarse field makes lobes of unlike depth.
            let depth = 1.0 - (below - brain) / (short - brain) + 0.25 * coarse[x];
            // Ridges where a field crosses zero are long and branching, like folds; they end in the white matter.
            let ridge = 1.0 - smooth(fold[x].abs() * 7.0);
            let matter = smooth((0.86 - depth) * 9.0 - 1.1 * ridge * smooth(depth * 3.0 - 1.0));
            let rim = smooth((depth - 0.62) * 5.0);
            let change = matter * (white - tissue) - ridge * rim * sulcus + 0.05 * texture[x];
            line[x] = value + smooth((below - brain - 1.0) / 3.0) * change;
        }
    }
    brain
}

/// Ventricles, deep nuclei and the falx. All vary in size, shape and brightness, and some are missing.
fn deep_structures(canvas: &mut Canvas, brain: &Ellipse, tissue: f32, rng: &mut Rng) {
    let warp = Warp::new(8, 16.0, rng);
    let fluid = uniform(rng, [0.07, 0.15]);
    let size = uniform(rng, [0.6, 1.4]);
    let spread = uniform(rng, [0.09, 0.15]);
    let nuclei = tissue + uniform(rng, [-0.06, 0.06]);
    let forward = uniform(rng, [-0.08, 0.12]);

    let falx = uniform(rng, [1.2, 2.4]);
    for end in [-1.0f32, 1.0] {
        let length = uniform(rng, [0.22, 0.34]);
        let shape = Ellipse::inside(brain, [end * (0.95 - length), 0.0], [length * brain.radii[0], falx], 0.0);
        canvas.paint(&shape, &warp, 2.5, fluid + 0.03);
    }
    for side in [-1.0f32, 1.0] {
        // Thalamus and putamen, grey in the white matter.
        for (at, radii) in [([-0.06, 0.17], [34.0, 20.0]), ([0.14, 0.36], [38.0, 13.0])] {
            let radii = [radii[0] * uniform(rng, [0.8, 1.25]), radii[1] * uniform(rng, [0.8, 1.3])];
            let at = [at[0] + forward, side * at[1] * uniform(rng, [0.9, 1.15])];
            let shape = Ellipse::inside(brain, at, radii, side * uniform(rng, [-0.1, 0.35]));
            canvas.paint(&shape, &warp, 6.0, nuclei + uniform(rng, [-0.03, 0.03]));
        }
        // The front and the back horn of a ventricle.
        for (end, tilt) in [(0.22, 0.28), (-0.30, -0.38)] {
            let radii = [size * uniform(rng, [34.0, 54.0]), size * uniform(rng, [8.0, 15.0])];
            let at = [end + forward, side * spread * uniform(rng, [0.85, 1.3])];
            let shape = Ellipse::inside(brain, at, radii, side * (tilt + uniform(rng, [-0.12, 0.12])));
            canvas.paint(&shape, &warp, 3.0, fluid);
        }
    }
    let third = [size * uniform(rng, [14.0, 26.0]), size * uniform(rng, [2.5, 5.0])];
    canvas.paint(&Ellipse::inside(brain, [forward - 0.05, 0.0], third, 0.0), &warp, 2.5, fluid);
}

/// Vessels, specks and hazes: the same in every class.
fn distractors(canvas: &mut Canvas, brain: &Ellipse, rng: &mut Rng) {
    for _ in 0..count(rng, HAZES) {
        let at = place(brain, 0.8, rng);
        canvas.add_haze(at, uniform(rng, HAZE_RADIUS), uniform(rng, HAZE_CONTRAST));
    }
    for _ in 0..count(rng, SPECKS) {
        let (at, radius) = (place(brain, 0.9, rng), uniform(rng, SPECK_RADIUS));
        let shape = Ellipse::new(at, [radius, radius * uniform(rng, CORE_ASPECT)], uniform(rng, [0.0, PI]));
        canvas.add(&shape, 2.0, uniform(rng, SPECK_CONTRAST));
    }
    for _ in 0..count(rng, VESSELS) {
        let start = place(brain, 0.85, rng);
        let (angle, length) = (uniform(rng, [0.0, 2.0 * PI]), uniform(rng, VESSEL_LENGTH));
        let (width, contrast) = (uniform(rng, VESSEL_WIDTH), uniform(rng, VESSEL_CONTRAST));
        // Two pieces with a bend, no straighter than real ones.
        let bend = angle + uniform(rng, [-0.7, 0.7]);
        let half =
            |from: [f32; 2], angle: f32| [from[0] + angle.cos() * length / 2.0, from[1] + angle.sin() * length / 2.0];
        let middle = half(start, angle);
        let end = half(middle, bend);
        let level = level_at(canvas, middle) + contrast;
        canvas.raise_line(start, middle, [width; 2], level);
        canvas.raise_line(middle, end, [width, width / 2.0], level);
    }
}

/// A point of the brain, uniform in the ellipse of `reach` times its half axes.
pub(crate) fn place(brain: &Ellipse, reach: f32, rng: &mut Rng) -> [f32; 2] {
    let (radius, angle) = (uniform(rng, [0.0, 1.0]).sqrt() * reach, uniform(rng, [0.0, 2.0 * PI]));
    brain.point([radius * angle.cos(), radius * angle.sin()])
}

fn level_at(canvas: &Canvas, at: [f32; 2]) -> f32 {
    let clamp = |v: f32| (v.max(0.0) as usize).min(SIZE - 1);
    canvas.pixels[clamp(at[1]) * SIZE + clamp(at[0])]
}

/// Multiplies by the bias field of the receiver coil.
pub(crate) fn shade(canvas: &mut Canvas, head: &Head) {
    let mut bias = [0.0; SIZE];
    for (y, line) in canvas.rows_mut().enumerate() {
        head.bias.row(y, 0..SIZE, &mut bias);
        for (pixel, bias) in line.iter_mut().zip(&bias) {
            *pixel *= 1.0 + head.bias_strength * bias;
        }
    }
}

//! Draws the lesion, which is the only thing that depends on the class.

use std::f32::consts::PI;

use kindling_random::Rng;

use crate::anatomy::{Head, place};
use crate::canvas::{Canvas, Ellipse, count, draw as uniform};
use crate::difficulty::*;

/// A lesion that is not drawn yet.
pub(crate) struct Lesion {
    centre: [f32; 2],
    radius: f32,
    contrast: f32,
    /// How much of each pixel it covers, up to [`OPACITY`].
    pub(crate) cover: Canvas,
}

impl Lesion {
    /// The lesion of a class: 0 none, 1 a core, 2 a core with spicules.
    pub(crate) fn of(label: usize, head: &Head, rng: &mut Rng) -> Option<Self> {
        if label == 0 {
            return None;
        }
        let centre = place(&head.brain, LESION_REACH, rng);
        let radius = uniform(rng, CORE_RADIUS);
        let core = Ellipse::new(centre, [radius, radius * uniform(rng, CORE_ASPECT)], uniform(rng, [0.0, PI]));
        let contrast = uniform(rng, CONTRAST);

        // On a plane of its own, so that brightness does not add up where spicules and core overlap.
        let mut cover = Canvas::new();
        cover.add(&core, CORE_EDGE, OPACITY);
        if label == 2 {
            spicules(&mut cover, centre, radius, rng);
        }
        Some(Self { centre, radius, contrast, cover })
    }

    /// Draws it into a head.
    pub(crate) fn draw(&self, canvas: &mut Canvas, head: &Head) {
        // A mass displaces tissue: over a dark ventricle it is as bright as elsewhere.
        let level = canvas.mean_about(self.centre, self.radius).max(head.tissue) + self.contrast;
        let reach = self.radius * (1.0 + SPICULE_LENGTH[1]) + SPICULE_WIDTH[1] + CORE_EDGE;
        canvas.paint_mask(&self.cover, self.centre, reach, level);
    }

    /// The pixels that it covers at least half of what it covers in its middle.
    pub(crate) fn pixels(&self) -> impl Iterator<Item = bool> {
        self.cover.pixels.iter().map(|cover| *cover >= OPACITY / 2.0)
    }
}

/// Draws thin rays in all directions, irregular in angle and length.
fn spicules(cover: &mut Canvas, centre: [f32; 2], radius: f32, rng: &mut Rng) {
    let rays = count(rng, SPICULES);
    let start = uniform(rng, [0.0, 2.0 * PI]);
    for ray in 0..rays {
        let angle = start + 2.0 * PI * (ray as f32 + uniform(rng, [-0.3, 0.3])) / rays as f32;
        let length = radius * uniform(rng, SPICULE_LENGTH);
        let width = uniform(rng, SPICULE_WIDTH);
        let at = |distance: f32| [centre[0] + angle.cos() * distance, centre[1] + angle.sin() * distance];
        cover.raise_line(at(radius * 0.7), at(radius + length), [width, width / 2.0], OPACITY);
    }
}

//! How the heads of the test are moved.
//!
//! Every head that is used lies in the space of the atlas, so on a head as it is, masks are known before its slices are looked at: those of
//! the test are those of training. Only on heads that lie differently can a model show that it looks.

use kindling_data::{Draw, Image, Mask, Policy};

/// How many times the head is moved.
pub(crate) const POSES: usize = 12;
/// Of each moved head every slice in so many is used, starting with another one: of as many heads together each slice once.
pub(crate) const EVERY: usize = 4;

/// The seed of the poses, whatever a run's is.
const SEED: u64 = 152;

/// The most that a head is turned, in degrees, scaled, and shifted, as a share of the image's side.
fn policy() -> Policy {
    Policy { rotate: 20.0, scale: 0.15, translate: 0.08, ..Policy::none() }
}

/// One of the poses: all slices of a head are moved alike.
fn draw(pose: usize) -> Draw {
    Draw { seed: SEED, epoch: 0, sample: pose as u64, showing: 0 }
}

/// A slice in a pose.
pub(crate) fn image(image: Image, pose: usize) -> Image {
    policy().apply(image, &draw(pose))
}

/// The mask of a slice in a pose: each pixel takes the class of the nearest one of where it comes from.
pub(crate) fn mask(mask: Mask, pose: usize) -> Mask {
    let nothing = Image::filled(mask.width, mask.height, 1, 0.0);
    policy().apply_with_mask(nothing, mask, &draw(pose)).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_moves_with_its_image_and_no_two_poses_are_alike() {
        let inside = |at: usize| (20..50).contains(&(at % 100)) && (30..70).contains(&(at / 100));
        let wanted = Mask { width: 100, height: 100, classes: (0..10_000).map(|at| u8::from(inside(at))).collect() };
        let pixels = wanted.classes.iter().map(|&class| f32::from(class)).collect();
        let seen = Image { width: 100, height: 100, channels: 1, pixels };
        let poses: Vec<Mask> = (0..POSES).map(|pose| mask(wanted.clone(), pose)).collect();
        for (pose, moved) in poses.iter().enumerate() {
            let image = image(seen.clone(), pose);
            let alike = (0..10_000).filter(|&at| (image.pixels[at] >= 0.5) == (moved.classes[at] == 1)).count();
            assert!(alike > 9900, "pose {pose}: {alike} pixels");
            let overlap = (0..10_000).filter(|&at| moved.classes[at] == 1 && inside(at)).count();
            assert!(overlap < 1190, "pose {pose} leaves {overlap} of 1200 pixels where they were");
            assert!(poses[..pose].iter().all(|other| other != moved), "pose {pose} is there twice");
        }
    }
}

//! Outlines of masks, drawn into their images.

use crate::decode::{IGNORED, Image, Mask, class_colour, is_outline};

/// Draws the outline of every class but the background, in its colour, into an image of three channels of the mask's size.
pub(super) fn draw(image: &mut Image, mask: &Mask) {
    let shown = mask.classes.iter().enumerate().filter(|(_, class)| **class != 0 && **class != IGNORED);
    for (at, class) in shown.filter(|(at, _)| is_outline(&mask.classes, mask.width, *at)) {
        let colour = class_colour(*class).map(|value| f32::from(value) / 255.0);
        if let Some(pixel) = image.pixels.get_mut(3 * at..3 * at + 3) {
            pixel.copy_from_slice(&colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_is_drawn_inside_its_class_and_nothing_else_changes() {
        let mut mask = Mask::filled(5, 5, 0);
        (0..25)
            .filter(|at| (1..4).contains(&(at % 5)) && (1..4).contains(&(at / 5)))
            .for_each(|at| mask.classes[at] = 3);
        mask.classes[4] = IGNORED;
        let mut image = Image::filled(5, 5, 3, 0.5);
        draw(&mut image, &mask);
        for at in 0..25 {
            let drawn = image.pixels[3 * at..3 * at + 3] != [0.5; 3];
            assert_eq!(drawn, mask.classes[at] == 3 && at != 12, "pixel {at}");
        }
    }
}

//! Colours of masks, in one place: whoever draws an overlay and the page that explains it must agree.
//!
//! They are those of Okabe and Ito (Color Universal Design, 2008), which people with any kind of colour vision tell apart.

/// Red, green and blue of the classes with the labels 1, 2 and so on: #E69F00, #56B4E9, #009E73, #F0E442, #0072B2, #D55E00, #CC79A7.
/// Further labels begin anew: [`class_colour`].
pub const CLASS_COLOURS: [[u8; 3]; 7] =
    [[230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66], [0, 114, 178], [213, 94, 0], [204, 121, 167]];

/// In a difference, pixels of a class that were taken for background: #D55E00.
pub const MISSED: [u8; 3] = [213, 94, 0];
/// In a difference, background that was taken for a class: #0072B2.
pub const FALSELY_FOUND: [u8; 3] = [0, 114, 178];
/// In a difference, pixels of a class that were taken for another: #CC79A7.
pub const WRONG_CLASS: [u8; 3] = [204, 121, 167];

/// The colour of the class with a label from 1 on; the background, label 0, is drawn nowhere and has that of the first class.
pub fn class_colour(label: u32) -> [u8; 3] {
    CLASS_COLOURS[label.saturating_sub(1) as usize % CLASS_COLOURS.len()]
}

/// As a style sheet has it: `#e69f00`.
pub(crate) fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_okabe_and_ito_and_begin_anew_after_seven_classes() {
        let expected = ["#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"];
        assert_eq!(CLASS_COLOURS.map(hex), expected);
        assert_eq!([1, 7, 8, 15].map(|label| hex(class_colour(label))), ["#e69f00", "#cc79a7", "#e69f00", "#e69f00"]);
        assert_eq!([MISSED, FALSELY_FOUND, WRONG_CLASS].map(hex), ["#d55e00", "#0072b2", "#cc79a7"]);
    }
}

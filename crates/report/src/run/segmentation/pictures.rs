//! Cases with their masks: the image, and over it the truth, the answer, or where they differ.

use kindling_metrics::NamedClass;
use maud::{Markup, html};

use super::super::embedded;
use crate::colours::{FALSELY_FOUND, MISSED, WRONG_CLASS, class_colour, hex};
use crate::scored::number;

/// Bytes of pictures that a page has; in base64 they take a third more. With all else a page stays below 3 MB.
const MOST_BYTES: usize = 1_400_000;

/// Why a case is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownCase {
    /// One of those with the lowest Dice.
    Worst,
    /// One of those in the middle.
    Typical,
    /// One of those with the highest Dice.
    Best,
}

/// A case of the test split with its masks.
#[derive(Debug, Clone, PartialEq)]
pub struct MaskPicture {
    /// The image as PNG. About 256 pixels wide is enough; it is embedded as it is.
    pub png: Vec<u8>,
    /// The true mask as PNG with transparency, of the image's size, in the colours of [`class_colour`](crate::class_colour).
    pub truth: Vec<u8>,
    /// The predicted mask, in the same form.
    pub prediction: Vec<u8>,
    /// Where they differ, in the colours [`MISSED`](crate::MISSED), [`FALSELY_FOUND`](crate::FALSELY_FOUND) and
    /// [`WRONG_CLASS`](crate::WRONG_CLASS).
    pub difference: Vec<u8>,
    /// The group that it is shown in.
    pub shown: ShownCase,
    /// Its name in the data set, usually a path from its folder.
    pub name: String,
    /// Dice of each class by its name, 0 to 1; NaN where neither mask has it.
    pub dice: Vec<(String, f64)>,
}

impl MaskPicture {
    fn bytes(&self) -> usize {
        [&self.png, &self.truth, &self.prediction, &self.difference].map(Vec::len).iter().sum()
    }
}

/// The groups of cases, in the order of the page, with their titles.
const GROUPS: [(ShownCase, &str); 3] =
    [(ShownCase::Worst, "Worst cases"), (ShownCase::Typical, "Typical cases"), (ShownCase::Best, "Best cases")];

/// What lies over an image.
type Overlay = fn(&MaskPicture) -> &[u8];

/// What may lie over an image: the class of the style sheet, the words for it, and the picture. The first is chosen when the page opens.
const LAYERS: [(&str, &str, Option<Overlay>); 4] = [
    ("difference", "Difference", Some(|picture| &picture.difference)),
    ("prediction", "Prediction", Some(|picture| &picture.prediction)),
    ("truth", "Truth", Some(|picture| &picture.truth)),
    ("nothing", "Image alone", None),
];

pub(super) fn section(classes: &[NamedClass], pictures: &[MaskPicture]) -> Markup {
    let shown = that_fit(pictures);
    let of = |group: ShownCase| shown.iter().filter(move |picture| picture.shown == group);
    html! {
        @if !shown.is_empty() {
            section.masks {
                h2 { "Cases of the test split" }
                div.layers {
                    fieldset {
                        legend { "Over the images" }
                        @for (layer, name, _) in LAYERS {
                            label { input type="radio" name="layer" value=(layer) checked[layer == LAYERS[0].0]; (name) }
                        }
                    }
                    (legends(classes))
                }
                @for (group, title) in GROUPS {
                    @if of(group).next().is_some() {
                        h3.later { (title) }
                        div.pictures { @for picture in of(group) { (figure(classes, picture)) } }
                    }
                }
                @if shown.len() < pictures.len() {
                    p.note { (pictures.len() - shown.len()) " more would have made this page too large to send." }
                }
            }
        }
    }
}

/// The pictures for which there is room; of each group the first ones.
fn that_fit(pictures: &[MaskPicture]) -> Vec<&MaskPicture> {
    let mut fit: Vec<&MaskPicture> = Vec::new();
    for (group, _) in GROUPS {
        let mut room = MOST_BYTES / GROUPS.len();
        for picture in pictures.iter().filter(|picture| picture.shown == group) {
            let Some(left) = room.checked_sub(picture.bytes()) else { break };
            room = left;
            fit.push(picture);
        }
    }
    fit
}

/// What the colours of masks and of differences mean; only those of the chosen layer are shown.
fn legends(classes: &[NamedClass]) -> Markup {
    let differences = [(MISSED, "missed"), (FALSELY_FOUND, "falsely found"), (WRONG_CLASS, "wrong class")];
    html! {
        ul.legend.of-classes { @for class in classes { li { (swatch(class_colour(class.label))) (class.name) } } }
        ul.legend.of-differences {
            // One class cannot be taken for another.
            @for (colour, name) in differences.iter().take(if classes.len() > 1 { 3 } else { 2 }) { li { (swatch(*colour)) (name) } }
        }
    }
}

fn figure(classes: &[NamedClass], picture: &MaskPicture) -> Markup {
    let colour = |name: &str| classes.iter().find(|class| class.name == name).map(|class| class_colour(class.label));
    html! {
        figure.picture {
            div.frame {
                img src=(embedded(&picture.png)) loading="lazy" alt=(described(picture));
                @for (layer, _, overlay) in LAYERS {
                    @if let Some(overlay) = overlay {
                        img.layer.(layer) src=(embedded(overlay(picture))) loading="lazy" alt="";
                    }
                }
            }
            figcaption {
                span.name title=(picture.name) { (picture.name) }
                ul.legend {
                    @for (class, dice) in &picture.dice {
                        li { @if let Some(colour) = colour(class) { (swatch(colour)) } (class) " " b { (number(*dice)) } }
                    }
                }
            }
        }
    }
}

fn described(picture: &MaskPicture) -> String {
    let dice: Vec<String> = picture.dice.iter().map(|(class, dice)| format!("{class} {}", number(*dice))).collect();
    format!("{}: Dice {}", picture.name, dice.join(", "))
}

/// A piece of a colour.
pub(super) fn swatch(colour: [u8; 3]) -> Markup {
    html! { span.swatch style={ "background:" (hex(colour)) } aria-hidden="true" {} }
}

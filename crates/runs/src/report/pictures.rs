//! A grid of test images with the model's answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use super::{Report, SamplePicture, words};

pub(super) fn section(report: &Report<'_>) -> Markup {
    let wrong = report.pictures.iter().filter(|picture| picture.truth != picture.prediction).count();
    html! {
        @if !report.pictures.is_empty() {
            section {
                h2 { "Images of the test split" }
                p.note {
                    (words::plural(report.pictures.len() as u64, "image", "images"))
                    ", each with the model's answer and its probability; "
                    @match wrong {
                        0 => "all answers right.",
                        _ => { (wrong) " wrong, with a dashed frame and the truth below." }
                    }
                }
                div.pictures { @for picture in report.pictures { (figure(report, picture)) } }
            }
        }
    }
}

fn figure(report: &Report<'_>, picture: &SamplePicture) -> Markup {
    let right = picture.truth == picture.prediction;
    let (answer, truth) = (names(report, &picture.prediction), names(report, &picture.truth));
    html! {
        figure.picture.wrong[!right] {
            img src={ "data:image/png;base64," (STANDARD.encode(&picture.png)) } loading="lazy"
                alt={ (picture.name) ": answered " (answer) ", truth " (truth) };
            figcaption {
                span.answer {
                    span.sign aria-hidden="true" { @if right { "✓" } @else { "✗" } }
                    b { (answer) }
                    span.probability { (format!("{:.0}\u{a0}%", picture.probability * 100.0)) }
                }
                @if !right { span.truth { "truth: " b { (truth) } } }
                span.name title=(picture.name) { (picture.name) }
            }
        }
    }
}

fn names(report: &Report<'_>, classes: &[usize]) -> String {
    match classes {
        [] => "none".to_string(),
        some => some.iter().map(|class| report.class(*class)).collect::<Vec<_>>().join(" + "),
    }
}

//! The frame of every page: one file that loads nothing.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A page with a title, a style sheet and the body's content. `policy` is the content security policy with which the browser itself
/// holds the page to its promise of asking nothing of the network.
pub(crate) fn frame(title: &str, style: &str, policy: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body { (body) }
        }
    }
}

/// The style of pages of measurements, to which each adds its own.
pub(crate) const COMMON: &str = include_str!("common.css");

/// The policy of a page that runs no script and shows no pictures but its own drawings.
pub(crate) const DRAWINGS_ONLY: &str = "default-src 'none'; style-src 'unsafe-inline'";

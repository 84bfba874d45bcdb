//! A whole as a picture, from the whole down to its parts: each row divides the one above it, and widths are shares.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::frame::{COMMON, DRAWINGS_ONLY, frame};

const STYLE: &str = include_str!("flame.css");
/// Narrower parts, as shares of the whole, are drawn without their name.
const LEGIBLE: f64 = 0.02;

/// A part without parts: the names that lead to it, the largest part first, and how much it is.
pub type Leaf = (Vec<String>, f64);

/// A flame graph with a heading.
pub struct Flame<'a> {
    /// Heading above the graph.
    pub title: &'a str,
    /// A sentence on what is shown.
    pub note: &'a str,
    /// The name of the whole.
    pub whole: &'a str,
    /// Its parts, in order.
    pub leaves: Vec<Leaf>,
    /// An amount in words, with its unit.
    pub show: fn(f64) -> String,
}

/// Facts under a heading: what, and how much.
pub type Facts<'a> = (&'a str, Vec<[String; 2]>);

/// A page of pictures, with facts at its end.
pub fn page(title: &str, subject: &str, flames: Vec<Flame<'_>>, facts: &[Facts<'_>]) -> String {
    let body = html! {
        header { p.brand { "Kindling profile" } h1 { (subject) } }
        main {
            @for Flame { title, note, whole, leaves, show } in flames {
                section { h2 { (title) } p.note { (note) } (picture(&tree(whole, leaves), &show)) }
            }
            @for (heading, facts) in facts {
                section {
                    h2 { (heading) }
                    dl.facts { @for [what, text] in facts { div { dt { (what) } dd { (text) } } } }
                }
            }
        }
        footer { "This page is one file and loads nothing." }
    };
    frame(title, &format!("{COMMON}{STYLE}"), DRAWINGS_ONLY, &body).into_string()
}

/// A part with its parts.
struct Bar {
    name: String,
    amount: f64,
    parts: Vec<Bar>,
}

/// Leaves with their paths, neighbours of one name put together.
fn tree(name: &str, leaves: Vec<Leaf>) -> Bar {
    let amount = leaves.iter().map(|(_, amount)| amount).sum();
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<String, Vec<Leaf>> = BTreeMap::new();
    for (mut path, amount) in leaves {
        if path.is_empty() {
            continue;
        }
        let first = path.remove(0);
        if !groups.contains_key(&first) {
            order.push(first.clone());
        }
        groups.entry(first).or_default().push((path, amount));
    }
    let parts = order.into_iter().map(|name| {
        let leaves = groups.remove(&name).unwrap_or_default();
        tree(&name, leaves)
    });
    Bar { name: name.to_string(), amount, parts: parts.collect() }
}

fn picture(whole: &Bar, show: &dyn Fn(f64) -> String) -> Markup {
    let all = whole.amount.max(f64::MIN_POSITIVE);
    html! { div.flame { (bar(whole, (all, all), 0, show)) } }
}

/// A part with its parts below it, as wide as its share of the part above: `above` is how much that is, and the whole.
fn bar(part: &Bar, above: (f64, f64), depth: usize, show: &dyn Fn(f64) -> String) -> Markup {
    let (parent, whole) = above;
    let share = part.amount / whole;
    let width = 100.0 * part.amount / parent.max(f64::MIN_POSITIVE);
    let title = format!("{}: {}, {:.1} %", part.name, show(part.amount), 100.0 * share);
    html! {
        div.part style=(format!("flex: 0 0 {width:.4}%")) {
            div class=(format!("cell depth{}", depth.min(3))) title=(title) {
                @if share >= LEGIBLE { (part.name) " " span { (show(part.amount)) } }
            }
            @if !part.parts.is_empty() {
                div.row { @for inner in &part.parts { (bar(inner, (part.amount, whole), depth + 1, show)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_their_whole_and_keep_their_order() {
        let leaf = |path: &[&str], amount| (path.iter().map(|name| name.to_string()).collect(), amount);
        let leaves = vec![
            leaf(&["stem", "forward"], 1.0),
            leaf(&["stage 0", "block 0.0", "forward"], 2.0),
            leaf(&["stage 0", "block 0.1", "forward"], 3.0),
            leaf(&["stage 10", "block 10.0", "forward"], 4.0),
        ];
        let whole = tree("step", leaves);
        let names: Vec<&str> = whole.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["stem", "stage 0", "stage 10"]);
        assert_eq!((whole.amount, whole.parts[1].amount, whole.parts[1].parts.len()), (10.0, 5.0, 2));
    }

    #[test]
    fn parts_fill_the_part_above_them() {
        let leaf = |path: &[&str], amount| (path.iter().map(|name| name.to_string()).collect(), amount);
        let whole = tree("step", vec![leaf(&["a", "x"], 1.0), leaf(&["a", "y"], 3.0), leaf(&["b"], 12.0)]);
        let drawn = picture(&whole, &|amount| amount.to_string()).into_string();
        let widths: Vec<&str> = drawn.split("flex: 0 0 ").skip(1).filter_map(|rest| rest.split('%').next()).collect();
        assert_eq!(widths, ["100.0000", "25.0000", "25.0000", "75.0000", "75.0000"]);
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let whole = tree("<script>", vec![(vec!["a\"b".to_string()], 1.0)]);
        let drawn = picture(&whole, &|amount| amount.to_string()).into_string();
        assert!(!drawn.contains("<script>") && !drawn.contains("a\"b"), "{drawn}");
    }
}

//! A profile as a picture: what takes time, and what takes memory, from the whole down to the parts.
//!
//! One HTML file that loads nothing. Each row divides the one above it; widths are shares.

use std::collections::BTreeMap;

use kindling_memory::MemorySize;
use kindling_runs::html::{DRAWINGS_ONLY, frame};
use maud::{Markup, html};

use super::{Profile, segment_of};

const STYLE: &str = include_str!("flame.css");
/// Narrower parts, as shares of the whole, are drawn without their name.
const LEGIBLE: f64 = 0.02;

/// A part with its parts.
struct Bar {
    name: String,
    amount: f64,
    parts: Vec<Bar>,
}

pub(super) fn page(profile: &Profile) -> Markup {
    let seconds = |amount: f64| format!("{:.1} ms", amount * 1e3);
    let bytes = |amount: f64| MemorySize(amount as u64).to_string();
    let body = html! {
        h1 { (profile.title) }
        h2 { "Time" }
        p { "Measured on one micro-batch, part by part: forward with a gradient graph, and backward." }
        (picture(&time(profile), &seconds))
        h2 { "Memory kept for backward" }
        p { "From the network's description, layer by layer; each map is counted where it is first kept." }
        (picture(&memory(profile), &bytes))
        h2 { "Peak" }
        pre { (profile.summary().join("\n")) }
    };
    frame(&format!("Profile of {}", profile.title), STYLE, DRAWINGS_ONLY, &body)
}

/// Step, stage, block, direction.
fn time(profile: &Profile) -> Bar {
    let leaves = profile.segments.iter().flat_map(|segment| {
        let directions = [("forward", segment.time.forward), ("backward", segment.time.backward)];
        directions.map(|(direction, amount)| (path_of(&segment.time.name, direction), amount))
    });
    tree("step", leaves.collect())
}

/// Step, stage, block, layer.
fn memory(profile: &Profile) -> Bar {
    let leaves = profile.layers.iter().filter(|layer| layer.kept > 0).map(|layer| {
        let segment = segment_of(&layer.name);
        let inside = layer.name.strip_prefix(&segment).unwrap_or(&layer.name).trim_start_matches('.');
        (path_of(&segment, &format!("{inside} ({})", layer.kind)), layer.kept as f64)
    });
    tree("step", leaves.collect())
}

/// `stages.3.1` is block 1 of stage 3.
fn path_of(segment: &str, leaf: &str) -> Vec<String> {
    let mut path: Vec<String> = match segment.strip_prefix("stages.").and_then(|rest| rest.split_once('.')) {
        Some((stage, block)) => vec![format!("stage {stage}"), format!("block {stage}.{block}")],
        None => vec![segment.to_string()],
    };
    path.push(leaf.to_string());
    path
}

/// Leaves with their paths, neighbours of one name put together.
fn tree(name: &str, leaves: Vec<(Vec<String>, f64)>) -> Bar {
    let amount = leaves.iter().map(|(_, amount)| amount).sum();
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<String, Vec<(Vec<String>, f64)>> = BTreeMap::new();
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
    html! { div.flame { (bar(whole, whole.amount.max(f64::MIN_POSITIVE), 0, show)) } }
}

fn bar(part: &Bar, whole: f64, depth: usize, show: &dyn Fn(f64) -> String) -> Markup {
    let share = part.amount / whole;
    let title = format!("{}: {}, {:.1} %", part.name, show(part.amount), 100.0 * share);
    html! {
        div.part style=(format!("flex: {:.6} 0 0", part.amount / whole)) {
            div class=(format!("cell depth{}", depth.min(3))) title=(title) {
                @if share >= LEGIBLE { (part.name) " " span { (show(part.amount)) } }
            }
            @if !part.parts.is_empty() {
                div.row { @for inner in &part.parts { (bar(inner, whole, depth + 1, show)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_their_whole_and_keep_their_order() {
        let leaf = |segment: &str, leaf: &str, amount| (path_of(segment, leaf), amount);
        let leaves = vec![
            leaf("stem", "forward", 1.0),
            leaf("stages.0.0", "forward", 2.0),
            leaf("stages.0.1", "forward", 3.0),
            leaf("stages.10.0", "forward", 4.0),
        ];
        let whole = tree("step", leaves);
        let names: Vec<&str> = whole.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["stem", "stage 0", "stage 10"]);
        assert_eq!((whole.amount, whole.parts[1].amount, whole.parts[1].parts.len()), (10.0, 5.0, 2));
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let whole = tree("<script>", vec![(vec!["a\"b".to_string()], 1.0)]);
        let drawn = picture(&whole, &|amount| amount.to_string()).into_string();
        assert!(!drawn.contains("<script>") && !drawn.contains("a\"b"), "{drawn}");
    }
}

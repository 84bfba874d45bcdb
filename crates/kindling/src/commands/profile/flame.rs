//! A profile as a picture: what takes time, and what takes memory, from the whole down to the parts.

use kindling_memory::MemorySize;
use kindling_report::flame::{self, Flame, Leaf};

use super::{Profile, segment_of};

/// One HTML file that loads nothing.
pub(super) fn page(profile: &Profile) -> String {
    let time = Flame {
        title: "Time",
        note: "Measured on one micro-batch, part by part: forward with a gradient graph, and backward.",
        whole: "step",
        leaves: time(profile),
        show: |amount| format!("{:.1} ms", amount * 1e3),
    };
    let memory = Flame {
        title: "Memory kept for backward",
        note: "From the network's description, layer by layer; each map is counted where it is first kept.",
        whole: "step",
        leaves: memory(profile),
        show: |amount| MemorySize(amount as u64).to_string(),
    };
    let title = format!("Profile of {}", profile.title);
    let mut facts = vec![("Peak", profile.summary())];
    if let Some(roofline) = &profile.roofline {
        facts.insert(0, ("How far from the limit", roofline.facts(profile)));
    }
    flame::page(&title, &profile.title, vec![time, memory], &facts)
}

/// Stage, block, direction.
fn time(profile: &Profile) -> Vec<Leaf> {
    let leaves = profile.segments.iter().flat_map(|segment| {
        let directions = [("forward", segment.time.forward), ("backward", segment.time.backward)];
        directions.map(|(direction, amount)| (path_of(&segment.time.name, direction), amount))
    });
    leaves.collect()
}

/// Stage, block, layer.
fn memory(profile: &Profile) -> Vec<Leaf> {
    let leaves = profile.layers.iter().filter(|layer| layer.kept > 0).map(|layer| {
        let segment = segment_of(&layer.name);
        let inside = layer.name.strip_prefix(&segment).unwrap_or(&layer.name).trim_start_matches('.');
        (path_of(&segment, &format!("{inside} ({})", layer.kind)), layer.kept as f64)
    });
    leaves.collect()
}

/// `stages.3.1` is block 1 of stage 3, and `encoder.stages.3.1` lies in the encoder.
fn path_of(segment: &str, leaf: &str) -> Vec<String> {
    let mut path: Vec<String> = match segment.split('.').collect::<Vec<_>>().as_slice() {
        [inner @ .., "stages", stage, block] => {
            let inner = inner.iter().map(ToString::to_string);
            inner.chain([format!("stage {stage}"), format!("block {stage}.{block}")]).collect()
        }
        ["encoder", part] => vec!["encoder".to_string(), part.to_string()],
        ["decoder", block, part] => vec!["decoder".to_string(), format!("block {block}"), part.to_string()],
        _ => vec![segment.to_string()],
    };
    path.push(leaf.to_string());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_lies_in_its_block_and_its_stage() {
        assert_eq!(path_of("stem", "forward"), ["stem", "forward"]);
        assert_eq!(path_of("stages.10.0", "forward"), ["stage 10", "block 10.0", "forward"]);
        assert_eq!(path_of("head.features", "forward"), ["head.features", "forward"]);
        assert_eq!(path_of("encoder.stem", "forward"), ["encoder", "stem", "forward"]);
        assert_eq!(path_of("encoder.stages.3.1", "forward"), ["encoder", "stage 3", "block 3.1", "forward"]);
        assert_eq!(path_of("decoder.4.conv1", "forward"), ["decoder", "block 4", "conv1", "forward"]);
        assert_eq!(path_of("decoder", "forward"), ["decoder", "forward"]);
    }
}

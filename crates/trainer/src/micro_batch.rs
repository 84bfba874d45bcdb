//! How a global batch is cut.

use std::ops::Range;

use burn::tensor::Device;
use kindling_layers::pass::normalisation_groups;
use kindling_ops::sums_in_a_fixed_order;

/// Consecutive rows of a global batch that are computed at once: whole normalisation groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MicroBatch {
    /// Rows of the global batch.
    pub rows: Range<usize>,
    /// Sizes of the normalisation groups in them.
    pub groups: Vec<usize>,
}

/// Cuts a global batch of `batch` samples into micro-batches of at most `limit` samples for a device; where sums are taken in a fixed
/// order, into single normalisation groups, whatever `limit` is ([`groups_at_once`]).
pub fn micro_batches_on(device: &Device, batch: usize, ghost_batch_size: usize, limit: usize) -> Vec<MicroBatch> {
    let limit = if sums_in_a_fixed_order(device) { 1 } else { limit };
    micro_batches(batch, ghost_batch_size, limit)
}

/// How many micro-batches of a step are computed at once, each on threads of its own, if `limit` samples may be computed at once, and `group`
/// is the largest normalisation group. Where sums are taken in a fixed order these are single groups, and no more of them than threads;
/// elsewhere a micro-batch has several, and there is one at a time.
pub fn groups_at_once(device: &Device, group: usize, limit: usize) -> usize {
    if sums_in_a_fixed_order(device) { (limit / group.max(1)).clamp(1, rayon::current_num_threads()) } else { 1 }
}

/// Cuts a global batch of `batch` samples into micro-batches of at most `limit` samples.
///
/// Groups depend on the batch alone ([`normalisation_groups`]), never on `limit`. A group larger than `limit` stands
/// alone: it cannot be cut.
pub fn micro_batches(batch: usize, ghost_batch_size: usize, limit: usize) -> Vec<MicroBatch> {
    let mut cuts: Vec<MicroBatch> = Vec::new();
    let mut start = 0;
    for group in normalisation_groups(batch, ghost_batch_size) {
        let end = start + group;
        match cuts.last_mut() {
            Some(last) if end - last.rows.start <= limit => {
                last.rows.end = end;
                last.groups.push(group);
            }
            _ => cuts.push(MicroBatch { rows: start..end, groups: vec![group] }),
        }
        start = end;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_are_whole_groups_and_cover_the_batch_once() {
        for batch in 1..70 {
            for limit in 1..40 {
                let cuts = micro_batches(batch, 8, limit);
                let rows: Vec<usize> = cuts.iter().flat_map(|cut| cut.rows.clone()).collect();
                assert_eq!(rows, (0..batch).collect::<Vec<_>>());
                let groups: Vec<usize> = cuts.iter().flat_map(|cut| cut.groups.clone()).collect();
                assert_eq!(groups, normalisation_groups(batch, 8), "groups depend on the batch alone");
                assert!(cuts.iter().all(|cut| cut.rows.len() <= limit || cut.groups.len() == 1));
            }
        }
    }

    #[test]
    fn a_batch_of_sixteen_is_cut_into_two_groups_of_eight() {
        let cuts = micro_batches(16, 8, 8);
        assert_eq!(cuts.iter().map(|cut| cut.rows.clone()).collect::<Vec<_>>(), [0..8, 8..16]);
        assert_eq!(micro_batches(16, 8, 16).len(), 1);
    }
}

//! Ranges divided into parts that follow each other.

use std::ops::Range;

/// A side divided into parts of `each`, and a last one that may be shorter.
pub(crate) fn parts(side: usize, each: usize) -> impl Iterator<Item = Range<usize>> {
    parts_of(0..side, each)
}

/// A range divided into parts of `each`, or of one, and a last one that may be shorter.
pub(crate) fn parts_of(range: Range<usize>, each: usize) -> impl Iterator<Item = Range<usize>> {
    let (each, end) = (each.max(1), range.end);
    range.step_by(each).map(move |start| start..(start + each).min(end))
}

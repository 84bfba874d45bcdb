//! The nearest images of a set.

use rayon::prelude::*;

use super::error::MetricError;
use super::features::{Features, squared_distance};

/// The image of a set that is nearest to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Index of the image in the set.
    pub index: usize,
    /// Euclidean distance of the features, 0 for equal ones.
    pub distance: f64,
}

/// For each of `these`, the `count` nearest of `among`, nearest first. Of equally near ones, the first is taken.
///
/// # Errors
/// [`MetricError::TooFew`] if `among` is empty, [`MetricError::Widths`].
pub fn nearest(these: &Features, among: &Features, count: usize) -> Result<Vec<Vec<Neighbour>>, MetricError> {
    if these.count() > 0 {
        these.comparable(among, 1)?;
    }
    let of_row = |index: usize| {
        let row = these.row(index);
        let mut all: Vec<(usize, f64)> =
            among.rows().enumerate().map(|(index, other)| (index, squared_distance(row, other))).collect();
        let by = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0));
        let kept = count.min(all.len());
        if kept > 0 && kept < all.len() {
            all.select_nth_unstable_by(kept - 1, by);
        }
        all.truncate(kept);
        all.sort_by(by);
        all.into_iter().map(|(index, squared)| Neighbour { index, distance: squared.sqrt() }).collect()
    };
    Ok((0..these.count()).into_par_iter().map(of_row).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_nearest_come_first_and_of_equals_the_first() {
        let among = Features::new(vec![0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 1.0, 0.0], 2).unwrap();
        let these = Features::new(vec![0.0, 0.0], 2).unwrap();
        let found = nearest(&these, &among, 3).unwrap();
        let told: Vec<(usize, f64)> = found[0].iter().map(|it| (it.index, it.distance)).collect();
        assert_eq!(told, [(0, 0.0), (2, 0.0), (3, 1.0)]);
        assert_eq!(nearest(&these, &among, 9).unwrap()[0].len(), 4);
    }
}

//! A curve of bounded size.

/// A point of a curve: a step, and what was measured there.
pub(crate) type Point = (f64, f64);

/// Points that a curve may have; the widest chart shows two a column.
const MOST: usize = 2048;

/// A curve that never has more than [`MOST`] points, however long a run is.
///
/// A full curve is thinned: each pair of neighbours becomes one point, their mean, and from then on twice as many values make one
/// point. Values that are not finite are no points.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    points: Vec<Point>,
    /// Values that make a point; a power of two.
    stride: u32,
    /// The next point, as far as it is known: sums of steps and values, and of how many.
    next: (f64, f64, u32),
}

impl Default for Series {
    fn default() -> Self {
        Self { points: Vec::new(), stride: 1, next: (0.0, 0.0, 0) }
    }
}

impl Series {
    /// Adds a value. One of a step that stands last replaces that one: what was measured again counts.
    pub(crate) fn push(&mut self, step: u64, value: f64) {
        let step = step as f64;
        if !value.is_finite() {
            return;
        }
        if self.stride == 1 && self.points.last().is_some_and(|last| last.0 == step) {
            self.points.pop();
        }
        let (steps, values, count) = &mut self.next;
        *steps += step;
        *values += value;
        *count += 1;
        if *count < self.stride {
            return;
        }
        let count = f64::from(*count);
        self.points.push((*steps / count, *values / count));
        self.next = (0.0, 0.0, 0);
        if self.points.len() >= MOST {
            self.thin();
        }
    }

    fn thin(&mut self) {
        let pairs = self.points.chunks_exact(2);
        self.points = pairs.map(|pair| ((pair[0].0 + pair[1].0) / 2.0, (pair[0].1 + pair[1].1) / 2.0)).collect();
        self.stride *= 2;
    }

    /// Forgets what came after a step, from which a run goes on.
    pub(crate) fn rewind(&mut self, step: u64) {
        self.points.retain(|point| point.0 <= step as f64);
        self.next = (0.0, 0.0, 0);
    }

    /// The points, by ascending step.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }
}

/// A curve of running means.
#[derive(Clone, Debug, Default)]
pub(crate) struct Smoothed {
    series: Series,
    /// Weighted sum of values, and of weights.
    sum: f64,
    weight: f64,
    seen: u64,
}

/// A mean reaches back over this share of the curve, but over no more steps than [`LONGEST`].
const REACH: f64 = 1.0 / 40.0;
const LONGEST: f64 = 200.0;

impl Smoothed {
    /// Adds a value; one that is not finite is left out.
    pub(crate) fn push(&mut self, step: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.seen += 1;
        let keep = (-1.0 / (self.seen as f64 * REACH).clamp(1.0, LONGEST)).exp();
        // Dividing by the weight so far keeps the first values from leaning towards zero.
        self.sum = self.sum * keep + value;
        self.weight = self.weight * keep + 1.0;
        self.series.push(step, self.sum / self.weight);
    }

    /// See [`Series::rewind`].
    pub(crate) fn rewind(&mut self, step: u64) {
        self.series.rewind(step);
    }

    /// See [`Series::points`].
    pub(crate) fn points(&self) -> &[Point] {
        self.series.points()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_values_stay_a_few_thousand_points_from_the_first_to_the_last() {
        let mut series = Series::default();
        for step in 1..=1_000_000 {
            series.push(step, step as f64 * 2.0);
            assert!(series.points.len() < MOST && series.points.capacity() <= 2 * MOST);
        }
        let points = series.points();
        assert!(points.len() > MOST / 4, "{}", points.len());
        assert!(points[0].0 < 2000.0 && points[points.len() - 1].0 > 998_000.0);
        assert!(points.iter().all(|point| point.1 == point.0 * 2.0), "a mean of pairs stays on a line");
        assert!(points.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn values_that_are_not_finite_are_no_points_and_spoil_no_mean() {
        let mut curve = Smoothed::default();
        for (step, value) in (1..).zip([1.0, f64::NAN, f64::INFINITY, 1.0, f64::NEG_INFINITY]) {
            curve.push(step, value);
        }
        assert_eq!(curve.points(), [(1.0, 1.0), (4.0, 1.0)]);
        let mut series = Series::default();
        for (step, value) in (1..).zip([f64::NAN, 0.5, f64::INFINITY]) {
            series.push(step, value);
        }
        assert_eq!(series.points(), [(2.0, 0.5)]);
    }

    #[test]
    fn a_step_that_is_measured_again_has_the_later_value() {
        let mut series = Series::default();
        for (step, value) in [(1, 0.5), (2, 0.6), (2, 0.7)] {
            series.push(step, value);
        }
        assert_eq!(series.points(), [(1.0, 0.5), (2.0, 0.7)]);
    }

    #[test]
    fn a_rewound_curve_ends_with_the_step_it_goes_on_from() {
        let mut series = Series::default();
        (1..=10).for_each(|step| series.push(step, 1.0));
        series.rewind(4);
        series.push(5, 2.0);
        assert_eq!(series.points(), [(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0), (5.0, 2.0)]);
    }
}

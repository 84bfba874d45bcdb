//! Points of curves: smoothed, and thinned so that a long run's page stays small.

/// A point of a curve.
pub(crate) type Point = (f64, f64);

/// About as many points as a chart has pixels to show.
const POINTS: usize = 400;

/// A height that all values keep below but a few outliers that would flatten the rest; `None` without outliers.
pub(crate) fn limit(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let usual = *values.get(values.len() * 19 / 20)?;
    let highest = *values.last()?;
    (values.len() >= 20 && usual > 0.0 && highest > 4.0 * usual).then_some(1.5 * usual)
}

/// A running mean over about a fortieth of the curve, without the points that are not finite. Outliers count as
/// their [`limit`], or one of them would hide a hundred steps.
pub(crate) fn smooth(points: &[Point]) -> Vec<Point> {
    let limit = limit(points.iter().map(|point| point.1)).unwrap_or(f64::INFINITY);
    let keep = (-1.0 / (points.len() as f64 / 40.0).clamp(1.0, 200.0)).exp();
    let (mut sum, mut weight) = (0.0, 0.0);
    let finite = points.iter().filter(|(_, y)| y.is_finite());
    finite
        .map(|&(x, y)| {
            // Dividing by the weight so far keeps the first points from leaning towards zero.
            sum = sum * keep + y.min(limit);
            weight = weight * keep + 1.0;
            (x, sum / weight)
        })
        .collect()
}

/// At most about twice [`POINTS`] points that look the same: of each stretch the lowest and the highest, so that no
/// spike is lost, and the first and the last that is not finite.
pub(crate) fn thin(points: &[Point]) -> Vec<Point> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let stretch = (2 * points.len()).div_ceil(POINTS);
    let by_height = |a: &&Point, b: &&Point| a.1.total_cmp(&b.1);
    let mut thinned = Vec::with_capacity(POINTS + 2);
    for points in points.chunks(stretch) {
        let (finite, strange): (Vec<Point>, Vec<Point>) = points.iter().partition(|point| point.1.is_finite());
        let kept = [finite.iter().min_by(by_height), finite.iter().max_by(by_height), strange.first(), strange.last()];
        let mut ends: Vec<Point> = kept.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        // By place, for NaN is not even equal to itself.
        ends.dedup_by_key(|point| point.0);
        thinned.extend(ends);
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_every_spike_and_bounds_the_number_of_points() {
        let mut points: Vec<Point> = (0..12_345).map(|x| (f64::from(x), 1.0)).collect();
        points[7_777].1 = 50.0;
        let thinned = thin(&points);
        assert!(thinned.len() <= POINTS + 2, "{}", thinned.len());
        assert!(thinned.contains(&(7_777.0, 50.0)));
        assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn thinning_keeps_what_is_not_finite() {
        let mut points: Vec<Point> = (0..12_345).map(|x| (f64::from(x), 1.0)).collect();
        points[7_777].1 = f64::NAN;
        assert!(thin(&points).iter().any(|point| point.0 == 7_777.0));
        let diverged: Vec<Point> = (0..12_345).map(|x| (f64::from(x), f64::NAN)).collect();
        assert!(thin(&diverged).len() <= POINTS + 2);
    }

    #[test]
    fn smoothing_stays_within_the_values_and_skips_what_is_not_finite() {
        let points = [(1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, f64::INFINITY), (5.0, 3.0)];
        let smooth = smooth(&points);
        assert_eq!(smooth.iter().map(|point| point.0).collect::<Vec<_>>(), [1.0, 3.0, 5.0]);
        assert!(smooth.iter().all(|point| (2.0..=4.0).contains(&point.1)), "{smooth:?}");
    }
}

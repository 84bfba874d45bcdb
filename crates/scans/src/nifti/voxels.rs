//! Stored intensities in the type of the file, to save memory: the largest template has 35 million of them.

/// The voxels of a volume as they are stored, first array axis fastest. A positive `scl_slope` is not applied, because the intensity
/// [`Window`] would undo it.
#[derive(Debug)]
pub(crate) enum Voxels {
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    F32(Vec<f32>),
}

impl Voxels {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> f32 {
        match self {
            Self::U8(values) => values[index].into(),
            Self::I16(values) => values[index].into(),
            Self::U16(values) => values[index].into(),
            Self::F32(values) => values[index],
        }
    }

    /// Some of the voxels, by their places.
    pub(crate) fn picked(&self, places: impl Iterator<Item = usize>) -> Self {
        match self {
            Self::U8(values) => Self::U8(places.map(|place| values[place]).collect()),
            Self::I16(values) => Self::I16(places.map(|place| values[place]).collect()),
            Self::U16(values) => Self::U16(places.map(|place| values[place]).collect()),
            Self::F32(values) => Self::F32(places.map(|place| values[place]).collect()),
        }
    }

    /// The `share` quantile (nearest rank) of the finite voxels above `floor`; `None` if there are none.
    fn quantile(&self, share: f64, floor: f32) -> Option<f32> {
        match self {
            Self::U8(values) => counted_quantile(values.iter().map(|&v| v.into()), share, floor),
            Self::I16(values) => counted_quantile(values.iter().map(|&v| v.into()), share, floor),
            Self::U16(values) => counted_quantile(values.iter().map(|&v| v.into()), share, floor),
            Self::F32(values) => {
                let mut kept: Vec<f32> = values.iter().copied().filter(|v| v.is_finite() && *v > floor).collect();
                let index = rank(kept.len(), share)? - 1;
                Some(*kept.select_nth_unstable_by(index, f32::total_cmp).1)
            }
        }
    }
}

/// The nearest rank, counted from 1, of a quantile of `count` values.
fn rank(count: usize, share: f64) -> Option<usize> {
    (count > 0).then(|| ((count as f64 * share).ceil() as usize).clamp(1, count))
}

/// The quantile of 8 or 16-bit integers by counting: exact, and needs no copy.
fn counted_quantile(values: impl Iterator<Item = i32>, share: f64, floor: f32) -> Option<f32> {
    const LOWEST: i32 = i16::MIN as i32;
    let mut counts = vec![0_usize; (u16::MAX as i32 - LOWEST + 1) as usize];
    for value in values {
        counts[(value - LOWEST) as usize] += 1;
    }
    let kept = || {
        let values = counts.iter().zip(LOWEST..);
        values.filter(|(count, value)| **count > 0 && *value as f32 > floor)
    };
    let rank = rank(kept().map(|(count, _)| count).sum(), share)?;
    let mut seen = 0;
    kept().find_map(|(count, value)| {
        seen += count;
        (seen >= rank).then_some(value as f32)
    })
}

/// The intensities of a volume that are mapped to 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    low: f32,
    high: f32,
}

impl Window {
    /// The upper quantile of the window, which ignores the few voxels that are far off (vessels, fat, artefacts).
    const SHARE: f64 = 0.005;

    /// The window from the 0.5 % quantile of all voxels, which is the level of the background, to the 99.5 % quantile of the voxels above it,
    /// which is the brightest tissue. `None` if all voxels are the same.
    pub(crate) fn of(voxels: &Voxels) -> Option<Self> {
        let low = voxels.quantile(Self::SHARE, f32::NEG_INFINITY)?;
        let high = voxels.quantile(1.0 - Self::SHARE, low)?;
        (high - low > 0.0 && (high - low).is_finite()).then_some(Self { low, high })
    }

    /// The intensity in [0, 1]; 0 for NaN.
    pub(crate) fn scale(&self, value: f32) -> f32 {
        let scaled = (value - self.low) / (self.high - self.low);
        if scaled.is_nan() { 0.0 } else { scaled.clamp(0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_give_the_same_quantiles() {
        let numbers: Vec<u8> = (0..=200).rev().collect();
        let types = [
            Voxels::U8(numbers.clone()),
            Voxels::I16(numbers.iter().map(|&v| v.into()).collect()),
            Voxels::U16(numbers.iter().map(|&v| v.into()).collect()),
            Voxels::F32(numbers.iter().map(|&v| v.into()).collect()),
        ];
        for voxels in &types {
            assert_eq!(voxels.quantile(0.5, f32::NEG_INFINITY), Some(100.0), "{voxels:?}");
            assert_eq!(voxels.quantile(0.0, f32::NEG_INFINITY), Some(0.0));
            assert_eq!(voxels.quantile(1.0, f32::NEG_INFINITY), Some(200.0));
            assert_eq!(voxels.quantile(0.5, 99.0), Some(150.0));
            assert_eq!(voxels.quantile(0.5, 200.0), None);
        }
        let signed = Voxels::I16(vec![-32768, 0, 32767]);
        assert_eq!(signed.quantile(0.0, f32::NEG_INFINITY), Some(-32768.0));
        assert_eq!(signed.quantile(1.0, f32::NEG_INFINITY), Some(32767.0));
    }

    #[test]
    fn a_few_outliers_do_not_move_the_window() {
        let mut values = vec![-5.0; 5000];
        values.extend((0..5000).map(|i| i as f32 / 50.0));
        values[0] = f32::NAN;
        values[1] = 1e30;
        values[2] = f32::NEG_INFINITY;
        let window = Window::of(&Voxels::F32(values)).unwrap();
        assert_eq!(window.low, -5.0);
        assert!((99.0..100.0).contains(&window.high), "{window:?}");
        assert_eq!(window.scale(-5.0), 0.0);
        assert_eq!(window.scale(1e30), 1.0);
        assert_eq!(window.scale(f32::NAN), 0.0);
    }

    #[test]
    fn an_even_volume_has_no_window() {
        assert_eq!(Window::of(&Voxels::U8(vec![7; 100])), None);
        assert_eq!(Window::of(&Voxels::F32(vec![f32::NAN; 100])), None);
        assert_eq!(Window::of(&Voxels::F32(Vec::new())), None);
    }
}

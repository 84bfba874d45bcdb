//! What the gradients of a normalisation and its gate need of each plane.

/// Sums over the pixels of a plane that the gradients need.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// The sum of the gate's gradient.
    pub(crate) gate: f64,
    /// The sum of the gradient of the normalised values, and of that gradient times the normalised values before scale and shift.
    pub(crate) normalised: (f64, f64),
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.gate += other.gate;
        self.normalised.0 += other.normalised.0;
        self.normalised.1 += other.normalised.1;
    }
}

impl std::iter::Sum for Sums {
    fn sum<I: Iterator<Item = Self>>(of_planes: I) -> Self {
        of_planes.fold(Self::default(), |mut sum, of_plane| {
            sum += of_plane;
            sum
        })
    }
}

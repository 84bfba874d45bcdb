//! The three anatomical planes, and the orientation of their slices.

/// The class names, in label order.
pub const CLASSES: [&str; 3] = ["sagittal", "coronal", "axial"];

/// The anatomical axes, each counted in the direction of its name: x to the subject's right, y to the front
/// (anterior), z to the top (superior). NIfTI calls this frame RAS+.
pub const AXIS_NAMES: [char; 3] = ['x', 'y', 'z'];

/// An anatomical plane; its number is the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// Cuts left from right.
    Sagittal = 0,
    /// Cuts front from back.
    Coronal = 1,
    /// Cuts top from bottom.
    Axial = 2,
}

impl Plane {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Sagittal, Self::Coronal, Self::Axial];

    /// Index of the plane in [`CLASSES`], 0 to 2.
    pub fn label(self) -> usize {
        self as usize
    }

    /// Name of the plane in lower case.
    pub fn name(self) -> &'static str {
        CLASSES[self.label()]
    }

    /// The anatomical axis that the slices of this plane are stacked along.
    pub fn normal(self) -> usize {
        self.label()
    }

    /// The anatomical axes `(horizontal, vertical)` of a slice. Both run against the direction of the image: the largest coordinate is in the
    /// first column and the first row. So superior (in axial slices, anterior) is up, the nose in a sagittal slice points left, and the
    /// subject's right is on the left, which is the view of radiologists.
    pub(crate) fn in_plane(self) -> (usize, usize) {
        match self {
            Self::Sagittal => (1, 2),
            Self::Coronal => (0, 2),
            Self::Axial => (0, 1),
        }
    }
}

//! Errors of scoring segmentations.

/// Why segmentations have no scores.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SegmentationError {
    /// A label map is neither an image nor a volume.
    #[error("a label map has 2 or 3 axes; the shape {0:?} has {count}", count = .0.len())]
    Axes(Vec<usize>),
    /// The labels do not fill the shape, or the shape holds nothing.
    #[error("{found} labels do not fill a label map of the shape {shape:?}")]
    Labels {
        /// How many labels were given.
        found: usize,
        /// Voxels along each axis.
        shape: Vec<usize>,
    },
    /// The prediction and the truth have different shapes.
    #[error("a prediction of the shape {prediction:?} cannot be compared with a truth of the shape {truth:?}")]
    Shapes {
        /// Shape of the prediction.
        prediction: Vec<usize>,
        /// Shape of the truth.
        truth: Vec<usize>,
    },
    /// There is not one spacing for each axis.
    #[error("{axes} axes need {axes} spacings; {found} were given")]
    Spacings {
        /// How many axes the label map has, 2 or 3.
        axes: usize,
        /// How many spacings were given.
        found: usize,
    },
    /// A spacing, or its square, is not a positive finite number.
    #[error("the spacing of axis {axis} is {spacing} mm; it must be positive and finite, and so must its square")]
    Spacing {
        /// Index of the axis in the shape, from 0.
        axis: usize,
        /// The spacing that was given, in mm.
        spacing: f64,
    },
    /// A tolerance is negative or not finite.
    #[error("the tolerance of class {class} is {tolerance} mm; it must be finite and not negative")]
    Tolerance {
        /// Label of the class in the maps.
        class: u32,
        /// The tolerance that was given, in mm.
        tolerance: f64,
    },
    /// Nothing is to be scored.
    #[error("no classes were given to score")]
    NoClasses,
    /// A class is to be scored twice.
    #[error("class {0} is to be scored twice")]
    Twice(u32),
    /// The label that marks voxels to ignore is to be scored.
    #[error("label {0} marks voxels to ignore, so it cannot be scored")]
    Ignored(u32),
    /// There is nothing to summarise.
    #[error("no cases were given to summarise")]
    NoCases,
    /// A case was scored for other classes than were named.
    #[error("the classes with the labels {named:?} were named, but the case {sample:?} was scored for {scored:?}")]
    Named {
        /// Name of the case.
        sample: String,
        /// Labels of the classes that were named.
        named: Vec<u32>,
        /// Labels of the classes that it was scored for.
        scored: Vec<u32>,
    },
    /// Two models' segmentations are not of the same cases.
    #[error("the two segmentations are not of the same cases with the same truths and patients")]
    NotPaired,
    /// The cases were scored for different classes.
    #[error("case {case}, counted from 0, was scored for other classes than the first")]
    Classes {
        /// Index of the first such case, from 0.
        case: usize,
    },
}

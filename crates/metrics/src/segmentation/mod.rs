//! Scores of segmentations, one case at a time: how much the masks of a class overlap, and how far their surfaces lie apart.
//!
//! | file | holds |
//! |---|---|
//! | `label_map.rs` | [`LabelMap`]: the class of every voxel, and its shape |
//! | `scorer.rs` | [`SegmentationScorer`]: which classes are scored and how; all scores of a case |
//! | `counts.rs` | [`VoxelCounts`]: true and false positives and negatives, Dice, IoU |
//! | `grid.rs` | size of a volume in voxels, and the distance between them in mm |
//! | `masks.rs` | the masks of one class, cut to the box that holds both |
//! | `surface.rs` | which voxels, or which corners between voxels, form the surface of a mask |
//! | `area.rs` | the area of the surface around a corner |
//! | `distance.rs` | exact Euclidean distances from one surface to the other |
//! | `agreement.rs` | the 95th percentile of these distances, and the share of them within a tolerance |
//! | `summary.rs` | [`ClassSummary`]: median and quartiles of a class over the cases |
//! | `case.rs` | [`SegmentedCase`]: a case with its scores, and whose it is |
//! | `scores.rs` | [`SegmentationScores`]: all of it for a split, with 95 % intervals by patient |
//! | `paired.rs` | two models on the same cases |
//!
//! Overlap follows nnU-Net 2.8.1, surfaces follow MONAI 1.6.1: tools differ by a factor of two and more in what a surface is, how a
//! percentile is taken, and what an empty mask is worth.

mod agreement;
mod area;
mod case;
mod counts;
mod distance;
mod error;
mod grid;
mod label_map;
mod masks;
mod paired;
mod scorer;
mod scores;
mod summary;
mod surface;

pub use case::{LengthUnit, NamedClass, SegmentedCase};
pub use counts::VoxelCounts;
pub use error::SegmentationError;
pub use label_map::LabelMap;
pub use paired::compare_cases;
pub use scorer::{ClassMaskScores, SegmentationScorer, SegmentedClass, SurfaceDice};
pub use scores::{SegmentationScores, SegmentedClassScores};
pub use summary::{ClassSummary, Spread};

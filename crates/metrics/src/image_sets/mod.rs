//! How alike two sets of images are, by features of each image. Where features come from is the caller's business; a distance
//! says as much as they do.
//!
//! All of these are biased by the number of images and by what makes the features: compare only what was measured with
//! the same of both.

mod eigen;
mod error;
mod features;
mod frechet;
mod kernel;
mod manifold;
mod nearest;

pub use error::MetricError;
pub use features::Features;
pub use frechet::frechet_distance;
pub use kernel::kernel_distance;
pub use manifold::{PrecisionRecall, precision_recall};
pub use nearest::{Neighbour, nearest};

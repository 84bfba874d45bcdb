//! Distances between two sets of images, in the space of features of each image. The caller provides the features, and a distance is only
//! as meaningful as they are.
//!
//! All of these measures depend on the number of images and on the features: compare only figures with the same of both.

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

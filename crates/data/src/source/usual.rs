//! How a data set is usually trained on.

use super::Task;

/// What a run on a data set does where nobody says anything: settings that the data set itself knows best. `None` leaves it to the task and
/// to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usual {
    /// What is asked about its images, if they are there for one task alone.
    pub task: Option<Task>,
    /// The side of the images, in pixels.
    pub image_size: Option<u32>,
    /// Passes over its training samples.
    pub epochs: Option<u64>,
}

impl Usual {
    /// A data set that leaves everything to others.
    pub const NOTHING: Self = Self { task: None, image_size: None, epochs: None };
}

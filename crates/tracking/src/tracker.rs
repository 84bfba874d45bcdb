//! What every tracker does.

use crate::TrackingError;
use crate::about::About;
use crate::entry::{Entry, What};
use crate::marks::Marks;
use crate::vocabulary::Ending;

/// A tracker that a run is delivered to.
///
/// What has arrived is read from where it arrived, and stands nowhere else: there is no second file that a kill could leave behind
/// or ahead. So after an error a tracker is opened again, and what it then says counts.
pub(crate) trait Tracker: Send {
    /// Makes the place ready, tells it of the run if it has not heard, and returns what has arrived there.
    fn open(&mut self, about: &About) -> Result<Marks, TrackingError>;

    /// Whether there is a place for such a thing. The others are not delivered.
    fn takes(&self, what: &What) -> bool;

    /// Delivers entries in order. After an error any of them may have arrived.
    fn deliver(&mut self, entries: &[Entry]) -> Result<(), TrackingError>;

    /// Everything of the log is delivered; says how it ends.
    fn end(&mut self, ending: Ending, now: &Entry) -> Result<(), TrackingError>;
}

//! Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// A flag that is set at the first Ctrl-C (or SIGTERM); the second one ends the process at once.
///
/// Ending at once loses nothing but the steps since the last checkpoint: checkpoints are whole or not there.
pub(crate) fn flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(crate::INTERRUPTED));
        }
        eprintln!("\nfinishing the step and saving; press Ctrl-C again to stop at once");
    })
    .context("cannot catch Ctrl-C")?;
    Ok(stop)
}

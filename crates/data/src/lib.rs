//! Sources, decoding, augmentation, order and the loader. Host memory only: this crate knows neither Burn nor the
//! trainer.
//!
//! ```text
//! Source -> order -> read -> Preprocess::fit -> Augment -> Preprocess::to_tensor -> HostBatch
//! ```
//!
//! Order, augmentation and batches depend on (seed, epoch) alone: the same for any number of workers and after any
//! resume.

mod augment;
mod batch;
mod dataset;
mod decode;
mod error;
mod folder;
mod grid;
mod idx;
mod image;
mod images;
mod loader;
mod normalisation;
mod order;
mod preprocess;
pub mod sheet;
mod source;
mod split;
mod stack;
mod thumbnail;

pub use augment::Augment;
pub use batch::HostBatch;
pub use dataset::{Dataset, Task};
pub use decode::{Header, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE, read_header, read_image};
pub use error::DataError;
pub use folder::open_folder;
pub use grid::grid;
pub use idx::{Idx, MAX_IDX_BYTES, parse_idx, read_idx};
pub use image::Image;
pub use images::open_images;
pub use loader::{EpochBatches, Loader, LoaderConfig};
pub use normalisation::Normalisation;
pub use order::order;
pub use preprocess::{Fit, Interpolation, Preprocess};
pub use source::{Source, read_guarded};
pub use split::Split;
pub use stack::{ImageStack, StackSource};
pub use thumbnail::png_of;

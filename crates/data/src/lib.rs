//! Sources, decoding, augmentation, order and the loader. Host memory only: this crate knows neither Burn nor the
//! trainer.
//!
//! ```text
//! Source -> order -> read -> Preprocess::fit -> Augment -> Preprocess::to_tensor -> HostBatch
//! ```
//!
//! Order, augmentation and batches depend on (seed, epoch) alone: the same for any number of workers and after any
//! resume.

mod assemble;
mod augment;
mod bad;
mod batch;
mod carve;
pub mod check;
mod dataset;
mod decode;
mod depth;
mod error;
mod folder;
mod format;
mod grid;
mod idx;
mod image;
mod images;
mod loader;
mod manifest;
mod normalisation;
mod npy;
mod npz;
mod open;
mod order;
mod png_rows;
mod preprocess;
mod range;
mod room;
mod samples;
mod sampling;
pub mod shards;
pub mod sheet;
mod source;
mod split;
mod split_by;
mod stack;
mod stages;
mod stretches;
mod thumbnail;

pub use assemble::{Opened, Opening};
pub use augment::{Augment, Blur, Cutout, Draw, Elastic, Noise, Policy};
pub use bad::{BadSample, MaxBad, OnBadSample};
pub use batch::HostBatch;
pub use dataset::{Dataset, Task};
pub use decode::{
    Header, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE, decode_image, decoding_bytes, largest_decoding_bytes, read_header,
    read_image,
};
pub use depth::{Depth, depth_of};
pub use error::DataError;
pub use folder::{open_folder, open_folder_with};
pub use format::{Format, Part, Pictures, first_bytes};
pub use grid::grid;
pub use idx::{Idx, MAX_IDX_BYTES, parse_idx, read_idx};
pub use image::Image;
pub use images::open_images;
pub use loader::{EpochBatches, Loader, LoaderConfig, PREFETCH_BYTES};
pub use manifest::{Row, open_manifest, parse_manifest};
pub use normalisation::Normalisation;
pub use npy::NpyHeader;
pub use npz::Npz;
pub use open::open_path;
pub use order::order;
pub use preprocess::{Fit, Interpolation, Preprocess};
pub use range::{below, within};
pub use room::{Keeper, keep_decoders_within};
pub use sampling::Sampling;
pub use source::{Source, read_guarded};
pub use split::Split;
pub use split_by::SplitBy;
pub use stack::{ImageStack, StackSource};
pub use stages::{Stage, measure_stages};
pub use stretches::order_of_stretches;
pub use thumbnail::png_of;

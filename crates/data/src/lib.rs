//! From files to batches in host memory. This crate knows neither Burn nor the trainer.
//!
//! ```text
//! Source -> order -> read -> Preprocess::fit -> Augment -> Preprocess::to_tensor -> HostBatch
//! ```
//!
//! A [`Mask`] goes the same way beside its image: [`Preprocess::fit_mask`], [`Policy::apply_with_mask`], [`HostBatch::masks`].
//!
//! Order, augmentation and batches depend on (seed, epoch) alone: the same for any number of workers and after any
//! resume.
//!
//! # Where things are
//!
//! Each folder knows those below it and none above; `.ci/deps` checks that.
//!
//! | folder | what it holds |
//! |---|---|
//! | `check/` | what can be wrong with a data set; contact sheets to look at |
//! | `loader/` | batches of an epoch, made by background threads; which samples are drawn; times of the stages |
//! | `source/` | [`Source`] and [`Dataset`]: folders, manifests, shards, arrays, images with masks; what happens to bad samples |
//! | `augment/` | random changes of a training image, and the policies made of them |
//! | `decode/` | files to [`Image`]s and [`Mask`]s within limits, and these to what a model is fed |
//! | `split/` | train, val and test: by name and seed, stratified, and no group on two sides |
//!
//! Beneath them lie `error.rs` and `order.rs` (shuffles).

mod augment;
pub mod check;
mod decode;
mod error;
mod loader;
mod order;
mod source;
mod split;

pub use augment::{Augment, Blur, Cutout, Draw, Elastic, Noise, Policy};
pub use check::sheet;
pub use decode::{
    Blend, BlendedRows, DIFFERENCE_COLOURS, Depth, Fit, Header, IGNORED, Image, Interpolation, Keeper, MAX_FILE_BYTES,
    MAX_PIXELS, MAX_SIDE, Mask, MaskValues, Normalisation, Preprocess, Windows, class_colour, decode_image,
    decoding_bytes, depth_of, difference_overlay_png, grid, keep_decoders_within, mask_overlay_png, mask_png,
    overlay_png, png_of, read_header, read_image,
};
pub use error::DataError;
pub use kindling_given::{UnknownName, below, counted, within};
pub use loader::{
    EpochBatches, FOREGROUND_SHARE, HostBatch, Loader, LoaderConfig, PREFETCH_BYTES, Sampling, Scale, Stage,
    measure_stages,
};
pub use order::{order, order_of_stretches};
pub use source::{
    Asked, BadSample, Changes, Dataset, FileList, Fingerprint, Format, Idx, ImageStack, ListedSample, MAX_IDX_BYTES,
    MaskLinks, MaxBad, NpyHeader, Npz, OnBadSample, Opened, Opening, Pages, Part, PassedOver, Pictures, Purpose,
    Recorded, Row, Slice, Source, Stack, StackSource, Stacked, Task, Usual, ValueSummary, first_bytes, images_in,
    largest_decoding_bytes, majority_baseline, manifest_of, open_folder, open_folder_with, open_images, open_manifest,
    open_path, open_segmentation, paired_in_order, parse_idx, parse_manifest, read_guarded, read_idx, shards,
};
pub use split::{FEWEST_FOLDS, Fold, MOST_FOLDS, Split, SplitBy, SplitRule};

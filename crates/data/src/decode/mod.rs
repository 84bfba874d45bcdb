//! From files to [`Image`]s within limits, and from images to what a model is fed.

mod blend;
mod file;
mod frames;
mod image;
mod limits;
mod mask;
mod mask_file;
mod normalisation;
mod overlay;
mod picture;
mod png_rows;
mod preprocess;
mod reserve;
mod samples;
mod tiff;
mod windows;

pub use self::blend::{Blend, BlendedRows};
pub use self::file::{Header, decode_image, decoding_bytes, read_header, read_image};
pub(crate) use self::file::{
    bytes_to_read, count_pages, decode, decode_fitted, header_of, headers_of_pages, read_fitted, read_page,
};
pub use self::image::{Depth, Image, depth_of};
pub use self::limits::{MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE};
pub use self::mask::{IGNORED, Mask};
pub use self::mask_file::MaskValues;
pub(crate) use self::mask_file::{decode_mask_values, read_mask_values};
pub use self::normalisation::Normalisation;
pub(crate) use self::overlay::is_outline;
pub use self::overlay::{DIFFERENCE_COLOURS, class_colour, difference_overlay_png, mask_overlay_png, mask_png};
pub(crate) use self::picture::byte;
pub use self::picture::{grid, overlay_png, png_of};
pub use self::preprocess::{Fit, Interpolation, Preprocess};
pub(crate) use self::reserve::work_for;
pub use self::reserve::{Keeper, keep_decoders_within};
pub use self::windows::Windows;

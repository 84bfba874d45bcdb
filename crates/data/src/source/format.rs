//! Kinds of files that hold images.

use std::io::Read;
use std::path::{Path, PathBuf};

use kindling_files as files;

use super::{Fingerprint, Slice, check_sizes};
use crate::decode::{
    Image, MaskValues, Preprocess, count_pages, headers_of_pages, read_fitted, read_header, read_image,
    read_mask_values, read_page,
};
use crate::error::DataError;

/// Endings of files that count as pictures.
const EXTENSIONS: [&str; 8] = ["png", "jpg", "jpeg", "tif", "tiff", "gif", "bmp", "webp"];
/// Endings of pictures that may hold several images.
const SEVERAL: [&str; 5] = ["tif", "tiff", "gif", "png", "webp"];

/// A kind of file that holds images.
pub trait Format: Send + Sync {
    /// Whether a file in a folder is of this kind: by its name, or where that says nothing, by its first bytes.
    fn claims(&self, path: &Path) -> bool;

    /// The images in a file, in order, from its header alone. What is claimed by name may still be none: that is an
    /// error.
    ///
    /// # Errors
    /// Any [`DataError`] of files, with the path.
    fn list(&self, path: &Path) -> Result<Vec<Part>, DataError>;

    /// Reads an image that [`Format::list`] gave.
    ///
    /// # Errors
    /// Any [`DataError`] of files, with the path.
    fn read(&self, part: &Part) -> Result<Image, DataError>;

    /// Reads an image that [`Format::list`] gave, and fits it.
    ///
    /// # Errors
    /// Any [`DataError`] of files, with the path.
    fn read_fitted(&self, part: &Part, preprocess: &Preprocess) -> Result<Image, DataError> {
        Ok(preprocess.fit_owned(self.read(part)?))
    }

    /// Columns and rows of an image that [`Format::list`] gave, where its header says them.
    ///
    /// # Errors
    /// Any [`DataError`] of files, with the path.
    fn size(&self, part: &Part) -> Result<Option<(usize, usize)>, DataError> {
        let _ = part;
        Ok(None)
    }

    /// Where an image that [`Format::list`] gave lies in the volume that it is a slice of, from the header; `None` if it is no slice.
    ///
    /// # Errors
    /// Any [`DataError`] of files, with the path.
    fn slice(&self, part: &Part) -> Result<Option<Slice>, DataError> {
        let _ = part;
        Ok(None)
    }

    /// The images of a file that have masks in another, which is of the kind `masks`, each with its mask: where both hold as many, the
    /// first with the first and so on.
    ///
    /// # Errors
    /// Any [`DataError`] of files, [`DataError::NotAMask`] if the two do not belong together, and [`DataError::MaskSize`].
    fn list_with_masks(&self, image: &Path, mask: &Path, masks: &dyn Format) -> Result<Vec<(Part, Part)>, DataError> {
        if masks.mask_links(mask)?.is_some() {
            let reason = format!("it says by their UIDs which DICOM images it is of, and {image:?} is none");
            return Err(DataError::NotAMask { path: mask.to_owned(), reason });
        }
        paired_in_order(self, self.list(image)?, mask, masks)
    }

    /// Which images the masks in a file are of, where the file says it itself; `None` where names of files say it.
    ///
    /// # Errors
    /// Any [`DataError`] of files, and [`DataError::NotAMask`], with the path.
    fn mask_links(&self, mask: &Path) -> Result<Option<MaskLinks>, DataError> {
        let _ = mask;
        Ok(None)
    }

    /// What masks that say which images they are of call the images of this file ([`MaskLinks::images`]); `None` if they cannot.
    ///
    /// # Errors
    /// Any [`DataError`] of files, with the path.
    fn link(&self, image: &Path) -> Result<Option<String>, DataError> {
        let _ = image;
        Ok(None)
    }

    /// Reads the numbers of a mask that [`Format::list`] gave.
    ///
    /// # Errors
    /// [`DataError::NotAMask`] for a kind of file that holds none, and any [`DataError`] of files, with the path.
    fn read_mask_values(&self, part: &Part) -> Result<MaskValues, DataError> {
        let reason = "its kind of file holds no numbers of pixels; save masks as PNG, TIFF, BMP or NIfTI".to_owned();
        Err(DataError::NotAMask { path: part.path.clone(), reason })
    }

    /// The fingerprint of the file of an image that [`Format::list`] gave, which another version of the file does not share.
    ///
    /// # Errors
    /// The system's error if the file cannot be read.
    fn fingerprint(&self, part: &Part) -> std::io::Result<Fingerprint> {
        Fingerprint::of_file(&part.path)
    }

    /// How many images of a file [`Format::list`] passes over.
    fn passed_over(&self, path: &Path) -> usize {
        let _ = path;
        0
    }

    /// Whether the images of a file are best read one after another.
    fn is_sequential(&self) -> bool {
        false
    }
}

/// How a file of masks names the images that they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaskLinks {
    /// The files of these images, in the words of [`Format::link`].
    pub images: Vec<String>,
    /// Names of the numbers in the masks.
    pub names: Vec<(u16, String)>,
}

/// The `images` of a file of the kind `format` with the masks in `mask`, a file of the kind `masks`: the first with the first and so on.
///
/// # Errors
/// As [`Format::list_with_masks`].
pub fn paired_in_order<F: Format + ?Sized>(
    format: &F,
    images: Vec<Part>,
    mask: &Path,
    masks: &dyn Format,
) -> Result<Vec<(Part, Part)>, DataError> {
    let of_masks = masks.list(mask)?;
    if images.len() != of_masks.len() {
        let image = images.first().map_or(Path::new(""), |image| image.path.as_path());
        let reason = format!("it holds {} images, and {image:?} holds {}", of_masks.len(), images.len());
        return Err(DataError::NotAMask { path: mask.to_owned(), reason });
    }
    if let ([image], [mask]) = (images.as_slice(), of_masks.as_slice())
        && let (Some(size), Some(mask)) = (format.size(image)?, masks.size(mask)?)
    {
        check_sizes(|| image.name(), size, mask)?;
    }
    Ok(images.into_iter().zip(of_masks).collect())
}

/// One image of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Path of the file.
    pub path: PathBuf,
    /// Which of its images, from 0; `None` where a file holds one.
    pub frame: Option<usize>,
    /// Channels of the image: 1 or 3.
    pub channels: usize,
    /// The patient, where the file names one.
    pub group: Option<String>,
}

impl Part {
    /// Its name in messages: the path and, of several images in a file, the number.
    pub fn name(&self) -> String {
        match self.frame {
            None => self.path.display().to_string(),
            Some(frame) => format!("{}#{frame}", self.path.display()),
        }
    }
}

/// PNG, JPEG, TIFF, GIF, BMP and WebP, by name. Of several pages or frames the first counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pictures;

impl Format for Pictures {
    fn claims(&self, path: &Path) -> bool {
        ends_with(path, &EXTENSIONS)
    }

    fn list(&self, path: &Path) -> Result<Vec<Part>, DataError> {
        let channels = read_header(path)?.channels;
        Ok(vec![Part { path: path.to_owned(), frame: None, channels, group: None }])
    }

    fn read(&self, part: &Part) -> Result<Image, DataError> {
        read_image(&part.path)
    }

    fn read_fitted(&self, part: &Part, preprocess: &Preprocess) -> Result<Image, DataError> {
        read_fitted(&part.path, preprocess)
    }

    fn size(&self, part: &Part) -> Result<Option<(usize, usize)>, DataError> {
        let header = read_header(&part.path)?;
        Ok(Some((header.width, header.height)))
    }

    fn read_mask_values(&self, part: &Part) -> Result<MaskValues, DataError> {
        read_mask_values(&part.path, None)
    }

    fn passed_over(&self, path: &Path) -> usize {
        let several = if ends_with(path, &SEVERAL) { count_pages(path).ok() } else { None };
        several.map_or(0, |pages| pages.saturating_sub(1))
    }
}

/// The same files, each page of a TIFF and each frame of an animation an image of its own. Those of a file stay on one side of
/// a split.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages;

impl Format for Pages {
    fn claims(&self, path: &Path) -> bool {
        Pictures.claims(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<Part>, DataError> {
        let headers = headers_of_pages(path)?;
        if headers.len() == 1 {
            return Pictures.list(path);
        }
        let group = Some(path.display().to_string());
        let part =
            |(frame, channels)| Part { path: path.to_owned(), frame: Some(frame), channels, group: group.clone() };
        Ok(headers.iter().map(|header| header.channels).enumerate().map(part).collect())
    }

    fn read(&self, part: &Part) -> Result<Image, DataError> {
        match part.frame {
            None => Pictures.read(part),
            Some(page) => read_page(&part.path, page, None),
        }
    }

    fn size(&self, part: &Part) -> Result<Option<(usize, usize)>, DataError> {
        if part.frame.is_none() { Pictures.size(part) } else { Ok(None) }
    }

    fn read_mask_values(&self, part: &Part) -> Result<MaskValues, DataError> {
        read_mask_values(&part.path, part.frame)
    }

    fn read_fitted(&self, part: &Part, preprocess: &Preprocess) -> Result<Image, DataError> {
        match part.frame {
            None => Pictures.read_fitted(part, preprocess),
            Some(page) => read_page(&part.path, page, Some(preprocess)),
        }
    }
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|have| endings.iter().any(|known| have.eq_ignore_ascii_case(known)))
}

/// The first bytes of a regular file, at most as many as asked for; none if it cannot be read.
pub fn first_bytes(path: &Path, at_most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = files::open(path) {
        let _ = file.take(at_most).read_to_end(&mut bytes);
    }
    bytes
}

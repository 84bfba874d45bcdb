//! DICOMDIR: the file that lists the contents of a medium (PS3.3, annex F).

use std::path::{Path, PathBuf};

use kindling_data::DataError;

use super::file::{DicomFile, unreadable};
use super::tags;

/// Whether a file is a DICOMDIR, possibly an empty one.
pub(crate) fn is_directory(file: &DicomFile) -> bool {
    let elements = &file.elements;
    !elements.items(0, tags::DIRECTORY_RECORD_SEQUENCE).is_empty()
        || elements.bytes(&file.bytes, 0, tags::FILE_SET_CONSISTENCY_FLAG).is_some()
}

/// The images that a DICOMDIR lists, in its order. Names are relative to its folder and cannot leave it.
pub(crate) fn images(path: &Path, file: &DicomFile) -> Result<Vec<PathBuf>, DataError> {
    let (elements, bytes) = (&file.elements, file.bytes.as_slice());
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut images = Vec::new();
    for &record in elements.items(0, tags::DIRECTORY_RECORD_SEQUENCE) {
        let kind = elements.text(bytes, record, tags::DIRECTORY_RECORD_TYPE);
        let unused = elements.words(bytes, record, tags::RECORD_IN_USE_FLAG).is_some_and(|flag| flag == [0]);
        if kind.as_deref() != Some("IMAGE") || unused {
            continue;
        }
        let name = elements
            .text(bytes, record, tags::REFERENCED_FILE_ID)
            .ok_or_else(|| unreadable(path, "an image record names no file"))?;
        let parts: Vec<&str> = name.split('\\').map(str::trim).collect();
        // The standard allows eight capital letters, digits and underscores. Other names occur, and are accepted unless they leave the
        // folder.
        if parts.iter().any(|part| part.is_empty() || *part == ".." || part.contains(['/', ':', '\0'])) {
            return Err(unreadable(path, format!("it names the file {name:?}, which does not lie in its own folder")));
        }
        let exact: PathBuf = parts.iter().fold(folder.to_owned(), |path, part| path.join(part));
        let lower: PathBuf = parts.iter().fold(folder.to_owned(), |path, part| path.join(part.to_lowercase()));
        images.push(if !exact.exists() && lower.exists() { lower } else { exact });
    }
    if images.is_empty() {
        return Err(unreadable(path, "it lists no images"));
    }
    Ok(images)
}

//! Reads the tensors of a weights file.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use burn::tensor::TensorData;
use burn_store::{ModuleStore, PytorchStore};
use kindling_files as files;
use kindling_given::in_units;
use kindling_layers::tensors::{self, Tensors};
use zip::ZipArchive;

use crate::error::ZooError;

/// The largest file that is read. The weights of EfficientNetV2-L take half a gigabyte.
const MAX_BYTES: u64 = 4 << 30;

/// Up to this size, an entry of an archive may be larger than the archive.
const SMALL_ENTRY: u64 = 1 << 20;

/// Reads all tensors of a safetensors file or of a file of `torch.save`, in its zip format or the older one. The format is recognised
/// by the first bytes, not by the name.
///
/// Nothing in a file is executed: a pickle is read as data, and objects that are not tensors are skipped. The size of a tensor is
/// checked against that of the file before the tensor is read, so a small file cannot claim a lot of memory.
///
/// # Errors
/// [`ZooError::Io`] or [`ZooError::Corrupt`].
pub fn read(path: &Path) -> Result<Tensors, ZooError> {
    let io = |source| ZooError::Io { action: "read", path: path.to_path_buf(), source };
    let corrupt = |reason: String| ZooError::Corrupt { path: path.to_path_buf(), reason };
    let mut file = files::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length > MAX_BYTES {
        return Err(corrupt(format!(
            "it has {}, more than the {} that are read",
            in_units(length),
            in_units(MAX_BYTES)
        )));
    }
    let mut start = [0u8; 9];
    let count = file.read(&mut start).map_err(io)?;
    let start = &start[..count];
    let tensors = if looks_like_safetensors(start) {
        file.rewind().map_err(io)?;
        tensors::from_reader(&mut file, length)
    } else {
        let checked = if start.starts_with(b"PK") { check_archive(file, length) } else { Ok(()) };
        checked.and_then(|()| read_pytorch(path, length))
    };
    match tensors {
        Ok(tensors) if tensors.is_empty() => Err(corrupt("there is no tensor in it".to_string())),
        tensors => tensors.map_err(corrupt),
    }
}

/// A safetensors file starts with the length of its header, followed by the opening brace of the header. The length is not compared
/// with that of the file: one that was cut off inside its header is a safetensors file too.
fn looks_like_safetensors(start: &[u8]) -> bool {
    match start {
        [a, b, c, d, e, f, g, h, b'{'] => {
            u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]) <= tensors::MAX_HEADER_BYTES
        }
        _ => false,
    }
}

/// `torch.save` does not compress entries. A compressed archive is read as well, unless an entry unpacks to more than weights would:
/// each byte of a pickle can cost a hundred bytes of memory.
fn check_archive(file: File, length: u64) -> Result<(), String> {
    let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| one_line(&error.to_string()))?;
    let sizes = (0..archive.len()).filter_map(|index| archive.by_index_data(index).ok()).map(|entry| entry.size());
    match sizes.max() {
        Some(size) if size > length.max(SMALL_ENTRY) => {
            Err(format!("an entry of {} is packed in an archive of {}", in_units(size), in_units(length)))
        }
        _ => Ok(()),
    }
}

fn read_pytorch(path: &Path, length: u64) -> Result<Tensors, String> {
    let mut store = PytorchStore::from_file(path).map_indices_contiguous(false);
    let found = store.get_all_tensors().map_err(|error| one_line(&error.to_string()))?;
    let claimed = found.values().map(|tensor| tensor.byte_len() as u64).fold(0, u64::saturating_add);
    // Tensors may share memory, and a compressed archive may be smaller than its contents, but not by much.
    if claimed > 16 * length {
        return Err(format!("it claims {} of tensors in a file of {}", in_units(claimed), in_units(length)));
    }
    let mut tensors = Tensors::new();
    for (name, tensor) in found {
        let bytes = tensor.to_bytes().map_err(|error| one_line(&error.to_string()))?;
        tensors.insert(name.clone(), TensorData::from_bytes(bytes, tensor.shape.clone(), tensor.dtype));
    }
    Ok(tensors)
}

/// Errors are printed as a single sentence.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! Named tensors as safetensors documents.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};

use burn::tensor::{DType, TensorData};
use bytemuck::Pod;
use kindling_given::in_units;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

/// Tensors by name, in host memory.
pub type Tensors = BTreeMap<String, TensorData>;

/// The key of our note in a document's metadata.
const NOTE: &str = "kindling";

/// The description of a tensor in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the tensor.
    pub name: String,
    /// Format of its numbers.
    pub dtype: DType,
    /// Lengths of its axes, outermost first; none of a scalar.
    pub shape: Vec<usize>,
}

impl Entry {
    /// The description of a tensor in host memory.
    pub fn of(name: &str, data: &TensorData) -> Self {
        Self { name: name.to_string(), dtype: data.dtype(), shape: data.shape().as_slice().to_vec() }
    }

    fn bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size()
    }

    fn dtype(&self) -> Result<Dtype, String> {
        match self.dtype {
            DType::F32 => Ok(Dtype::F32),
            DType::F64 => Ok(Dtype::F64),
            DType::I64 => Ok(Dtype::I64),
            other => Err(format!("`{}` is {other:?}, not f32, f64 or i64", self.name)),
        }
    }
}

/// Writes a safetensors document tensor by tensor, so that only one of them need be in memory.
///
/// The same tensors and note give the same bytes. For that there is only one metadata key, since the format's library writes several
/// keys in arbitrary order. Tensors are written with the widest numbers first, so that all are aligned as the format requires, and
/// otherwise in the order of their names.
pub struct DocumentWriter<'a> {
    out: &'a mut dyn Write,
    expected: std::vec::IntoIter<Entry>,
}

impl<'a> DocumentWriter<'a> {
    /// Writes the header of a document of these tensors, given in any order, and a note that describes them.
    ///
    /// # Errors
    /// Errors of `out`, and [`io::ErrorKind::InvalidInput`] if a tensor has a format that is not supported: f32, f64, and i64 for
    /// counters are.
    pub fn new(out: &'a mut dyn Write, mut entries: Vec<Entry>, note: Option<&str>) -> io::Result<Self> {
        let wrong = |reason: String| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let types = entries.iter().try_for_each(|entry| entry.dtype().map(|_| ()));
        types.map_err(wrong)?;
        entries.sort_by(|a, b| (Reverse(a.dtype().ok()), &a.name).cmp(&(Reverse(b.dtype().ok()), &b.name)));
        let mut end = 0;
        let mut infos = Vec::with_capacity(entries.len());
        for entry in &entries {
            let start = end;
            end += entry.bytes();
            let (dtype, shape) = (entry.dtype().map_err(wrong)?, entry.shape.clone());
            infos.push((entry.name.clone(), TensorInfo { dtype, shape, data_offsets: (start, end) }));
        }
        let metadata = note.map(|note| HashMap::from([(NOTE.to_string(), note.to_string())]));
        let metadata = Metadata::new(metadata, infos).map_err(|error| wrong(error.to_string()))?;
        let mut header = serde_json::to_vec(&metadata).map_err(|error| wrong(error.to_string()))?;
        header.resize(header.len().next_multiple_of(size_of::<u64>()), b' ');
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        Ok(Self { out, expected: entries.into_iter() })
    }

    /// Writes the next tensor.
    ///
    /// # Errors
    /// Errors of `out`, and [`io::ErrorKind::InvalidInput`] if this is not the next tensor of the document, or its size differs.
    pub fn tensor(&mut self, name: &str, data: &TensorData) -> io::Result<()> {
        let fits = |entry: &Entry| entry.name == name && entry.bytes() == data.as_bytes().len();
        match self.expected.next() {
            Some(entry) if fits(&entry) => self.out.write_all(data.as_bytes()),
            other => {
                let text = format!("`{name}` was to be written where {other:?} comes next");
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }

    /// Ends the document.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if a tensor is missing.
    pub fn finish(mut self) -> io::Result<()> {
        match self.expected.next() {
            None => Ok(()),
            Some(entry) => {
                let text = format!("`{}` was not written", entry.name);
                Err(io::Error::new(io::ErrorKind::InvalidInput, text))
            }
        }
    }
}

/// A safetensors document as bytes in memory.
///
/// # Errors
/// A sentence if a tensor has a format that is not supported.
pub fn to_bytes(tensors: &Tensors, note: Option<&str>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut document =
        DocumentWriter::new(&mut bytes, tensors.iter().map(|(name, data)| Entry::of(name, data)).collect(), note)
            .map_err(|error| error.to_string())?;
    let order = document.expected.clone();
    for entry in order {
        document.tensor(&entry.name, &tensors[&entry.name]).map_err(|error| error.to_string())?;
    }
    document.finish().map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Reads a safetensors document of `length` bytes tensor by tensor, so that nothing is in memory twice.
///
/// # Errors
/// A sentence that says what is wrong with the document, or why it cannot be read. Sizes in its header are checked against `length`
/// before memory is allocated for them.
pub fn from_reader(input: &mut dyn Read, length: u64) -> Result<Tensors, String> {
    let mut size = [0; size_of::<u64>()];
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends too early".to_string(),
        _ => error.to_string(),
    };
    input.read_exact(&mut size).map_err(cut)?;
    let (start, size) = (size.len() as u64, u64::from_le_bytes(size));
    if size > MAX_HEADER_BYTES {
        let most = in_units(MAX_HEADER_BYTES);
        return Err(format!("its header would have {}, and at most {most} are possible", in_units(size)));
    }
    if size > length.saturating_sub(start) {
        return Err(format!(
            "it is cut off in its header: {} of at least {} are there; copy or download it again",
            in_units(length),
            in_units(start + size)
        ));
    }
    let mut header = vec![0; size as usize];
    input.read_exact(&mut header).map_err(cut)?;
    let metadata: Metadata = serde_json::from_slice(&header).map_err(|error| error.to_string())?;
    let described = start + size + metadata.data_len() as u64;
    if described != length {
        return Err(match described > length {
            true => format!(
                "it is cut off: {} of {} are there; copy or download it again",
                in_units(length),
                in_units(described)
            ),
            false => {
                format!("{} stand behind its last tensor; copy or download it again", in_units(length - described))
            }
        });
    }
    let mut tensors = Tensors::new();
    for name in metadata.offset_keys() {
        if let Some(info) = metadata.info(&name) {
            let data = read_tensor(input, &name, info)?;
            tensors.insert(name, data);
        }
    }
    Ok(tensors)
}

/// The largest header of a document, in bytes: the limit of the format.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Reads the next tensor.
fn read_tensor(input: &mut dyn Read, name: &str, info: &TensorInfo) -> Result<TensorData, String> {
    let shape = info.shape.clone();
    let halves = |dtype: DType, numbers: Vec<u16>| {
        // Burn requires a larger alignment than two bytes and copies the numbers itself.
        TensorData::from_bytes_vec(bytemuck::cast_slice(&numbers).to_vec(), shape.clone(), dtype)
    };
    Ok(match info.dtype {
        Dtype::F64 => TensorData::new(numbers::<f64>(input, name, info)?, shape),
        Dtype::F32 => TensorData::new(numbers::<f32>(input, name, info)?, shape),
        Dtype::F16 => halves(DType::F16, numbers(input, name, info)?),
        Dtype::BF16 => halves(DType::BF16, numbers(input, name, info)?),
        Dtype::I64 => TensorData::new(numbers::<i64>(input, name, info)?, shape),
        Dtype::I32 => TensorData::new(numbers::<i32>(input, name, info)?, shape),
        other => return Err(format!("`{name}` is {other:?}, which is not read")),
    })
}

/// Reads the numbers of the next tensor into the vector that Burn takes over without a copy.
fn numbers<T: Pod>(input: &mut dyn Read, name: &str, info: &TensorInfo) -> Result<Vec<T>, String> {
    let count = (info.data_offsets.1 - info.data_offsets.0) / size_of::<T>();
    let mut numbers: Vec<T> = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| format!("there is no memory for the {count} numbers of `{name}`"))?;
    numbers.resize(count, T::zeroed());
    input.read_exact(bytemuck::cast_slice_mut(&mut numbers)).map_err(|error| format!("`{name}`: {error}"))?;
    Ok(numbers)
}

/// Reads a safetensors document that is in memory.
///
/// # Errors
/// As [`from_reader`].
pub fn from_bytes(mut bytes: &[u8]) -> Result<Tensors, String> {
    let length = bytes.len() as u64;
    from_reader(&mut bytes, length)
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    #[test]
    fn tensors_come_back_as_they_were_and_equal_tensors_give_equal_bytes() {
        let mut tensors = Tensors::new();
        tensors.insert("b".into(), TensorData::new(vec![1.5f32, -2.0, 0.25], [3]));
        tensors.insert("a".into(), TensorData::new(vec![1.0f64 / 3.0; 4], [2, 2]));
        let bytes = to_bytes(&tensors, Some("of no model")).expect("writable");
        assert_eq!(from_bytes(&bytes).expect("readable"), tensors);
        assert_eq!(bytes, to_bytes(&tensors, Some("of no model")).expect("writable"));
    }

    #[test]
    fn a_document_is_the_format_library_s_byte_for_byte() {
        let mut tensors = Tensors::new();
        tensors.insert("steps".into(), TensorData::new(vec![7i64], [1]));
        tensors.insert("b".into(), TensorData::new(vec![1.5f32, -2.0, 0.25], [3]));
        tensors.insert("a".into(), TensorData::new(vec![1.0f32; 4], [2, 2]));
        tensors.insert("wide".into(), TensorData::new(vec![1.0f64 / 3.0; 4], [2, 2]));
        for note in [None, Some("of no model")] {
            let views = tensors.iter().map(|(name, data)| {
                let dtype = match data.dtype() {
                    DType::F64 => Dtype::F64,
                    DType::I64 => Dtype::I64,
                    _ => Dtype::F32,
                };
                (name, TensorView::new(dtype, data.shape().as_slice().to_vec(), data.as_bytes()).expect("a view"))
            });
            let metadata = note.map(|note: &str| HashMap::from([(NOTE.to_string(), note.to_string())]));
            let expected = safetensors::serialize(views, metadata).expect("writable");
            assert_eq!(to_bytes(&tensors, note).expect("writable"), expected);
        }
    }

    #[test]
    fn a_truncated_document_is_an_error() {
        let mut tensors = Tensors::new();
        tensors.insert("a".into(), TensorData::new(vec![0.0f32; 64], [64]));
        let bytes = to_bytes(&tensors, None).expect("writable");
        for length in [0, 4, 20, bytes.len() - 1] {
            assert!(from_bytes(&bytes[..length]).is_err(), "{length} bytes were accepted");
        }
    }
}

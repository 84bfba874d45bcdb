//! Tensors by name as safetensors documents.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo};

/// Tensors by name, in host memory.
pub type Tensors = BTreeMap<String, TensorData>;

/// The key of a document's metadata that is ours.
const NOTE: &str = "kindling";

/// Tensors, and a note about what they are, as a safetensors document that has yet to be written.
///
/// The same tensors and note give the same bytes: names are written in order, and there is one metadata key, for the
/// format's library writes several in any order. It borrows the tensors: writing it takes no second copy of them.
#[derive(Debug)]
pub struct Document<'a> {
    header: Vec<u8>,
    tensors: Vec<&'a TensorData>,
}

impl<'a> Document<'a> {
    /// The document of these tensors.
    ///
    /// # Errors
    /// A sentence if a tensor has a type that files of Kindling do not hold: they hold f32, f64, and i64 for counters.
    pub fn new(tensors: &'a Tensors, note: Option<&str>) -> Result<Self, String> {
        let mut typed = Vec::with_capacity(tensors.len());
        for (name, data) in tensors {
            let dtype = match data.dtype() {
                DType::F32 => Dtype::F32,
                DType::F64 => Dtype::F64,
                DType::I64 => Dtype::I64,
                other => return Err(format!("`{name}` is {other:?}, not f32, f64 or i64")),
            };
            typed.push((dtype, name, data));
        }
        // The format wants the widest numbers first, so that all are aligned.
        typed.sort_by_key(|(dtype, name, _)| (Reverse(*dtype), *name));
        let mut end = 0;
        let infos = typed.iter().map(|(dtype, name, data)| {
            let start = end;
            end += data.as_bytes().len();
            let shape = data.shape().as_slice().to_vec();
            (name.to_string(), TensorInfo { dtype: *dtype, shape, data_offsets: (start, end) })
        });
        let metadata = note.map(|note| HashMap::from([(NOTE.to_string(), note.to_string())]));
        let metadata = Metadata::new(metadata, infos.collect()).map_err(|error| error.to_string())?;
        let mut header = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
        header.resize(header.len().next_multiple_of(size_of::<u64>()), b' ');
        Ok(Self { header, tensors: typed.into_iter().map(|(.., data)| data).collect() })
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&(self.header.len() as u64).to_le_bytes())?;
        out.write_all(&self.header)?;
        self.tensors.iter().try_for_each(|data| out.write_all(data.as_bytes()))
    }
}

/// The [`Document`] in memory.
///
/// # Errors
/// As [`Document::new`].
pub fn to_bytes(tensors: &Tensors, note: Option<&str>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    Document::new(tensors, note)?.write_to(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Reads a safetensors document.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn from_bytes(bytes: &[u8]) -> Result<Tensors, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = Tensors::new();
    for (name, view) in file.iter() {
        let dtype = match view.dtype() {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            other => return Err(format!("`{name}` is {other:?}, which is not read")),
        };
        let data = TensorData::from_bytes_vec(view.data().to_vec(), view.shape().to_vec(), dtype);
        tensors.insert(name.to_string(), data);
    }
    Ok(tensors)
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

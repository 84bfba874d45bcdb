//! Tensors by name as safetensors documents.

use std::collections::{BTreeMap, HashMap};

use burn::tensor::{DType, TensorData};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// Tensors by name, in host memory.
pub type Tensors = BTreeMap<String, TensorData>;

/// The key of a document's metadata that is ours.
const NOTE: &str = "kindling";

/// Writes tensors, and a note about what they are, as one safetensors document.
///
/// The same tensors and note give the same bytes: names are written in order, and there is one metadata key, for the
/// format's library writes several in any order.
///
/// # Errors
/// A sentence if a tensor has a type that files of Kindling do not hold: they hold f32, f64, and i64 for counters.
pub fn to_bytes(tensors: &Tensors, note: Option<&str>) -> Result<Vec<u8>, String> {
    let mut views = Vec::with_capacity(tensors.len());
    for (name, data) in tensors {
        let dtype = match data.dtype() {
            DType::F32 => Dtype::F32,
            DType::F64 => Dtype::F64,
            DType::I64 => Dtype::I64,
            other => return Err(format!("`{name}` is {other:?}, not f32, f64 or i64")),
        };
        let view = TensorView::new(dtype, data.shape().as_slice().to_vec(), data.as_bytes());
        views.push((name.as_str(), view.map_err(|error| format!("`{name}`: {error}"))?));
    }
    let metadata = note.map(|note| HashMap::from([(NOTE.to_string(), note.to_string())]));
    safetensors::serialize(views, metadata).map_err(|error| error.to_string())
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
    fn a_truncated_document_is_an_error() {
        let mut tensors = Tensors::new();
        tensors.insert("a".into(), TensorData::new(vec![0.0f32; 64], [64]));
        let bytes = to_bytes(&tensors, None).expect("writable");
        for length in [0, 4, 20, bytes.len() - 1] {
            assert!(from_bytes(&bytes[..length]).is_err(), "{length} bytes were accepted");
        }
    }
}

//! safetensors files, read and written as the format's description has it, so that files can also be wrong.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Tensors by name.
pub type Tensors = BTreeMap<String, Stored>;

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its type, as the format calls it: `F32`.
    pub dtype: String,
    /// Lengths of its axes.
    pub shape: Vec<usize>,
    /// Its elements, little-endian.
    pub bytes: Vec<u8>,
}

impl Stored {
    /// Numbers of type `F32`.
    pub fn floats(shape: &[usize], values: impl IntoIterator<Item = f32>) -> Self {
        let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Self { dtype: "F32".to_string(), shape: shape.to_vec(), bytes }
    }

    /// The numbers of an `F32` tensor.
    ///
    /// # Panics
    /// If it is another.
    pub fn values(&self) -> Vec<f32> {
        assert_eq!(self.dtype, "F32");
        self.bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

/// The tensors of a file.
///
/// # Panics
/// If it cannot be read.
pub fn read_tensors(path: &Path) -> Tensors {
    let fail = |what: &str| -> ! { panic!("{}: {what}", path.display()) };
    let bytes = fs::read(path).unwrap_or_else(|error| fail(&error.to_string()));
    let Some((length, rest)) = bytes.split_first_chunk() else { fail("no length of a header") };
    let Some((header, data)) = rest.split_at_checked(u64::from_le_bytes(*length) as usize) else {
        fail("half a header")
    };
    let header: Map<String, Value> = serde_json::from_slice(header).unwrap_or_else(|error| fail(&error.to_string()));
    let of = |(name, entry): (String, Value)| {
        let numbers = |key: &str| -> Vec<usize> {
            serde_json::from_value(entry[key].clone()).unwrap_or_else(|error| fail(&format!("{name}: {error}")))
        };
        let [from, to] = numbers("data_offsets")[..] else { fail("offsets are two") };
        let dtype = entry["dtype"].as_str().unwrap_or_default().to_string();
        (name.clone(), Stored { dtype, shape: numbers("shape"), bytes: data[from..to].to_vec() })
    };
    header.into_iter().filter(|(name, _)| name != "__metadata__").map(of).collect()
}

/// Writes a file, whether its tensors make sense or not.
///
/// # Panics
/// If it cannot be written.
pub fn write_tensors(path: &Path, tensors: &Tensors) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, Stored { dtype, shape, bytes }) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(name.clone(), json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets }));
        data.extend(bytes);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let length = (header.len() as u64).to_le_bytes();
    let content = [&length[..], &header, &data].concat();
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

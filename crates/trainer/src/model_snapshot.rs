//! What learns in a run, in host memory: what a checkpoint holds of it.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use kindling_layers::tensors::Tensors;
use sha2::{Digest, Sha256};

/// What a checkpoint holds besides position and policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSnapshot {
    /// Tensors by the name of their file.
    pub files: BTreeMap<String, Tensors>,
    /// The optimizers' counters by name.
    pub counters: BTreeMap<String, i64>,
    /// Other numbers by name.
    pub numbers: BTreeMap<String, f64>,
}

impl ModelSnapshot {
    /// A hash of everything, in hexadecimal digits: the same for the same bits.
    pub(crate) fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |name: &str, bytes: &[u8]| {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for (file, tensors) in &self.files {
            part(file, &[]);
            tensors.iter().for_each(|(name, data)| part(name, data.as_bytes()));
        }
        self.counters.iter().for_each(|(name, counter)| part(name, &counter.to_le_bytes()));
        self.numbers.iter().for_each(|(name, number)| part(name, &number.to_bits().to_le_bytes()));
        HEXLOWER.encode(&hash.finalize())
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;

    #[test]
    fn the_hash_sees_every_part() {
        let tensors = |value: f32| [("weight".to_owned(), TensorData::from([value, 2.0]))].into_iter().collect();
        let of = |value: f32, counter: i64, number: f64| ModelSnapshot {
            files: [("weights".to_owned(), tensors(value))].into_iter().collect(),
            counters: [("time".to_owned(), counter)].into_iter().collect(),
            numbers: [("mean".to_owned(), number)].into_iter().collect(),
        };
        let hash = of(1.0, 3, 0.5).sha256();
        assert_eq!((hash.len(), of(1.0, 3, 0.5).sha256()), (64, hash.clone()));
        for other in [of(1.0 + f32::EPSILON, 3, 0.5), of(1.0, 4, 0.5), of(1.0, 3, -0.5)] {
            assert_ne!(other.sha256(), hash);
        }
    }
}

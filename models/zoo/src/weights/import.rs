//! Fills a network with tensors.

use std::fmt;

use burn::module::Module;
use burn::tensor::{DType, Tensor, TensorData};
use kindling_classification::Network;
use kindling_layers::names::{KeyStyle, Names};
use kindling_layers::parameters::{self, Mismatch};
use kindling_layers::tensors::Tensors;
use kindling_segmentation::SegmentationNetwork;

use super::keys::{COUNTER, KeyTable, Place, libraries_of, recognise, unwrap};
use crate::heads::{HEAD, SEGMENTATION_HEAD};
use crate::registry::Model;
use crate::segmentation::SegmentationModel;

/// What may differ between the network of the file and the one that is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapt {
    /// Nothing: strict loading.
    Strict,
    /// Images may have one channel where those of the file have several. The weights of the stem are then summed, which gives the
    /// same output as repeating the channel.
    Stem,
    /// As `Stem`, and the head may have a different number of classes. The network then keeps its own, newly initialised head.
    StemAndHead,
}

/// The result of an import; displays as a sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Import {
    /// The library whose keys the file has; `None` for Kindling's.
    pub style: Option<KeyStyle>,
    /// Number of the network's tensors that were filled.
    pub filled: usize,
    /// Number of batch counters in the file, which are ignored because no output depends on them.
    pub counters: usize,
    /// Classes of the head in the file, if that head was not used.
    pub replaced_head: Option<usize>,
    /// Channels of the stem in the file, if they were summed.
    pub folded_stem: Option<usize>,
    /// Whether it fills the encoder of a network for segmentation alone.
    pub of_encoder: bool,
    /// Keys of other tensors that a training script saved with the model.
    pub left_out: Vec<String>,
}

impl Import {
    /// That of a classifier whose stages become the encoder of a network for segmentation, which has a head of its own.
    #[must_use]
    pub fn into_encoder(self) -> Self {
        Self { of_encoder: true, replaced_head: None, ..self }
    }
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            Some(style) => write!(f, "{} tensors under {style}'s keys", self.filled)?,
            None => write!(f, "{} tensors", self.filled)?,
        }
        if self.of_encoder {
            f.write_str(" for the encoder; the decoder and the head start from random weights")?;
        }
        if let Some(channels) = self.folded_stem {
            write!(f, "; the stem's {channels} input channels were summed into 1")?;
        }
        if let Some(classes) = self.replaced_head {
            write!(f, "; the head of {classes} classes was not used: a new one starts from random weights")?;
        }
        if self.counters > 0 {
            write!(f, "; {} batch counters were ignored", self.counters)?;
        }
        match self.left_out.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "; the tensor `{one}` does not belong to the model"),
            [first, ..] => write!(f, "; {} tensors do not belong to the model (`{first}`, ...)", self.left_out.len()),
        }
    }
}

/// Fills the network of a model. Every tensor of the network is filled, and every given tensor is used or listed in the [`Import`].
///
/// # Errors
/// The first tensor that is missing, unknown or of another shape, by its key in the file. The network is lost then.
pub fn import(network: Network, model: &Model, tensors: Tensors, adapt: Adapt) -> Result<(Network, Import), Mismatch> {
    let libraries = libraries_of(&network, model);
    import_of(network, &libraries, &CLASSIFIER, tensors, adapt)
}

/// As [`import`], of a network for segmentation. Where it has no auxiliary classifier, that of the file is left out.
///
/// # Errors
/// As [`import`].
pub fn import_segmentation(
    network: SegmentationNetwork,
    model: &SegmentationModel,
    tensors: Tensors,
    adapt: Adapt,
) -> Result<(SegmentationNetwork, Import), Mismatch> {
    let has_auxiliary = network.has_auxiliary();
    let libraries: Vec<_> = model.layer_names(has_auxiliary).into_iter().collect();
    let is_unused = |key: &str| !has_auxiliary && AUXILIARY.iter().any(|prefix| key.starts_with(*prefix));
    let (auxiliary, tensors): (Tensors, Tensors) = tensors.into_iter().partition(|(key, _)| is_unused(key));
    let (network, mut import) = import_of(network, &libraries, &SEGMENTATION, tensors, adapt)?;
    import.left_out.extend(auxiliary.into_keys());
    Ok((network, import))
}

fn import_of<M: Module>(
    network: M,
    libraries: &[(KeyStyle, Names)],
    ends: &'static Ends,
    tensors: Tensors,
    adapt: Adapt,
) -> Result<(M, Import), Mismatch> {
    let (tensors, left_out) = unwrap(tensors);
    let table = recognise(libraries, &parameters::slots(&network), &tensors)?;
    let mut import = Import { style: table.style, left_out, ..Import::default() };
    let mut own = fit(&table, tensors, (adapt, ends), &mut import)?;
    import.filled = own.len();
    if import.replaced_head.is_some() {
        // If one tensor of a head does not fit, none is used.
        own.extend(parameters::read_only(&network, |name| ends.head.contains(&name)).into_iter().flatten());
    }
    Ok((parameters::write(network, own)?, import))
}

/// Fills any network, from tensors under keys that follow from the names of its layers in a library. Every tensor of the network is
/// filled, and every given tensor is used or listed in the [`Import`].
///
/// # Errors
/// As [`import`].
pub fn import_named<M: Module>(network: M, names: &Names, tensors: Tensors) -> Result<(M, Import), Mismatch> {
    let (tensors, left_out) = unwrap(tensors);
    let table = KeyTable::named(names, &parameters::slots(&network));
    let mut import = Import { left_out, ..Import::default() };
    let own = fit(&table, tensors, (Adapt::Strict, &CLASSIFIER), &mut import)?;
    import.filled = own.len();
    Ok((parameters::write(network, own)?, import))
}

/// Number of classes of the head in a file, if its other tensors belong to this network.
pub fn classes(network: &Network, model: &Model, tensors: &Tensors) -> Option<usize> {
    classes_of(network, &libraries_of(network, model), &HEAD, tensors)
}

/// As [`classes`], of a network for segmentation.
pub fn segmentation_classes(
    network: &SegmentationNetwork,
    model: &SegmentationModel,
    tensors: &Tensors,
) -> Option<usize> {
    let libraries: Vec<_> = model.layer_names(network.has_auxiliary()).into_iter().collect();
    classes_of(network, &libraries, &SEGMENTATION_HEAD, tensors)
}

/// Whether a file of a network for segmentation has an auxiliary classifier.
pub fn has_auxiliary(tensors: &Tensors) -> bool {
    // Whatever the file puts before all keys.
    tensors.keys().any(|key| AUXILIARY.iter().any(|prefix| key.contains(*prefix)))
}

/// The rows of the first tensor in a file that is the weight of one of these heads.
fn classes_of<M: Module>(
    network: &M,
    libraries: &[(KeyStyle, Names)],
    heads: &[&str],
    tensors: &Tensors,
) -> Option<usize> {
    let (tensors, _) = unwrap(tensors.clone());
    let table = recognise(libraries, &parameters::slots(network), &tensors).ok()?;
    let rows = |head: &&str| {
        let (key, _) = table.places.iter().find(|(_, place)| place.own == **head)?;
        let shape = tensors.get(key)?.shape();
        match shape.as_slice() {
            // A head of no features could claim any number of classes.
            [classes, features, ..] if *features > 0 => Some(*classes),
            _ => None,
        }
    };
    heads.iter().find_map(rows)
}

/// The tensors of the file with our names and shapes.
fn fit(table: &KeyTable, tensors: Tensors, adapt: (Adapt, &Ends), import: &mut Import) -> Result<Tensors, Mismatch> {
    let mut own = Tensors::new();
    let mut unknown = None;
    for (key, data) in tensors {
        let Some(place) = table.places.get(&key) else {
            if key.ends_with(COUNTER) {
                import.counters += 1;
            } else {
                unknown.get_or_insert(key);
            }
            continue;
        };
        if let Some(data) = reshape(&key, place, data, adapt, import)? {
            own.insert(place.own.clone(), data);
        }
    }
    let taken = |place: &Place| own.contains_key(&place.own) || is_replaced(&place.own, adapt.1, import);
    if let Some((key, _)) = table.places.iter().find(|(_, place)| !taken(place)) {
        return Err(Mismatch::Missing(key.clone()));
    }
    match unknown {
        Some(key) => Err(Mismatch::Unexpected(key)),
        None => Ok(own),
    }
}

/// The ends of a network, which may be adapted to other images and classes.
struct Ends {
    /// The weights of the first convolution.
    stem: &'static str,
    /// The tensors of the last layer.
    head: &'static [&'static str],
}

/// What networks for segmentation may learn beside the mask, and leave out of it: in torchvision, and here.
const AUXILIARY: [&str; 2] = ["aux_classifier.", "auxiliary."];

const CLASSIFIER: Ends = Ends { stem: "stem.conv.weight", head: &HEAD };
const SEGMENTATION: Ends = Ends { stem: "encoder.stem.conv.weight", head: &SEGMENTATION_HEAD };

fn is_replaced(own: &str, ends: &Ends, import: &Import) -> bool {
    import.replaced_head.is_some() && ends.head.contains(&own)
}

/// A tensor in the network's shape; `None` if it belongs to a head that is replaced.
fn reshape(
    key: &str,
    place: &Place,
    data: TensorData,
    (adapt, ends): (Adapt, &Ends),
    import: &mut Import,
) -> Result<Option<TensorData>, Mismatch> {
    let found = data.shape().as_slice().to_vec();
    let expected = &place.reference_shape;
    let (adapt_stem, adapt_head) = (adapt != Adapt::Strict, adapt == Adapt::StemAndHead);
    if !is_float(data.dtype()) {
        return Err(Mismatch::Type { name: key.to_string(), found: format!("{:?}", data.dtype()) });
    }
    if found == *expected || found == place.shape {
        let (bytes, _, dtype) = data.into_parts();
        let data = TensorData::from_bytes(bytes, place.shape.clone(), dtype);
        return Ok(Some(data));
    }
    if adapt_head
        && ends.head.contains(&place.own.as_str())
        && found.len() == expected.len()
        && found[1..] == expected[1..]
    {
        import.replaced_head = Some(found[0]);
        return Ok(None);
    }
    if let (true, &[output, channels, height, width]) = (adapt_stem && place.own == ends.stem, found.as_slice())
        && *expected == [output, 1, height, width]
        && channels > 1
    {
        import.folded_stem = Some(channels);
        return Ok(Some(sum_channels(data)));
    }
    Err(Mismatch::Shape { name: key.to_string(), expected: expected.clone(), found })
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

/// `[output, channels, height, width]` to `[output, 1, height, width]`.
fn sum_channels(data: TensorData) -> TensorData {
    let device = burn::tensor::Device::flex();
    Tensor::<4>::from_data(data.convert::<f32>(), &device).sum_dim(1).into_data()
}

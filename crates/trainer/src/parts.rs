//! Documents of tensors that are written while they are read: never more than a tensor's copy at once, so that a checkpoint
//! fits wherever its step did.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use burn::module::Module;
use burn::optim::{Optimizer as Rule, RecordState, StateSink};
use burn::tensor::TensorData;
use burn_pack::Scalar;
use kindling_layers::host;
use kindling_layers::parameters::{self, Handle};
use kindling_layers::tensors::{DocumentWriter, Entry, Tensors};
use kindling_ops::reserve;

/// Whole numbers of an optimizer's state by name, as step counters are.
pub(crate) type Counters = BTreeMap<String, i64>;

/// The files of a checkpoint by name, which are read from the device while they are written.
#[derive(Default)]
pub struct Parts<'a>(pub(crate) BTreeMap<String, Box<dyn Part + 'a>>);

impl<'a> Parts<'a> {
    /// Adds a file of tensors that are in host memory.
    pub fn add(&mut self, name: &str, tensors: Cow<'a, Tensors>) {
        self.0.insert(name.to_string(), Box::new(OfHost(tensors)));
    }

    /// Adds all files of others.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

/// Why a document could not be written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// The device did not give a tensor.
    Device(String),
    /// The file was not written.
    File(io::Error),
}

/// The tensors of a document, on the device.
pub(crate) trait Part {
    /// What it holds, in the order of [`Part::read`], which is that of names.
    ///
    /// # Errors
    /// What the device says.
    fn entries(&self) -> Result<Vec<Entry>, String>;

    /// Reads one tensor after the other. Returns whole numbers that belong to them.
    ///
    /// # Errors
    /// What the device says, and what `give` returns.
    fn read(&self, give: &mut dyn FnMut(&str, &TensorData) -> io::Result<()>) -> Result<Counters, Unwritten>;
}

/// Writes a part as a document.
pub(crate) fn write(part: &dyn Part, note: Option<&str>, out: &mut dyn Write) -> Result<Counters, Unwritten> {
    let entries = part.entries().map_err(Unwritten::Device)?;
    let mut document = DocumentWriter::new(out, entries, note).map_err(Unwritten::File)?;
    let counters = part.read(&mut |name, data| document.tensor(name, data))?;
    document.finish().map_err(Unwritten::File)?;
    Ok(counters)
}

/// A module's float tensors.
pub(crate) struct OfModule(BTreeMap<String, Handle>);

impl OfModule {
    pub(crate) fn of<M: Module>(module: &M) -> Self {
        Self(parameters::handles(module))
    }
}

impl Part for OfModule {
    fn entries(&self) -> Result<Vec<Entry>, String> {
        let entry = |(name, handle): (&String, &Handle)| Entry {
            name: name.clone(),
            dtype: handle.dtype(),
            shape: handle.shape().to_vec(),
        };
        Ok(self.0.iter().map(entry).collect())
    }

    fn read(&self, give: &mut dyn FnMut(&str, &TensorData) -> io::Result<()>) -> Result<Counters, Unwritten> {
        for (name, handle) in &self.0 {
            let data = handle.read().map_err(Unwritten::Device)?;
            give(name, &data).map_err(Unwritten::File)?;
        }
        Ok(Counters::new())
    }
}

/// What an update rule remembers of each parameter. States of one rule are alike: as many tensors each, of as many numbers
/// as the parameter has.
pub(crate) struct OfStates<'a, R: Rule> {
    pub(crate) states: &'a BTreeMap<String, R::State<1>>,
    /// Put before the names of counters.
    pub(crate) prefix: &'a str,
}

impl<R: Rule> OfStates<'_, R> {
    /// The tensors and whole numbers of a parameter's state, in the order of their names.
    fn flatten(name: &str, state: &R::State<1>) -> (Tensors, Vec<(String, i64)>) {
        let mut sink = StateSink::default();
        state.state_flatten(name, &mut sink);
        let counters = sink.scalars.into_iter().filter_map(|(name, scalar)| match scalar {
            Scalar::Int(value) => Some((name, value)),
            Scalar::UInt(value) => Some((name, value as i64)),
            Scalar::Float(_) | Scalar::Bool(_) => None, // no rule here has any
        });
        (sink.tensors.into_iter().collect(), counters.collect())
    }
}

impl<R: Rule> Part for OfStates<'_, R> {
    fn entries(&self) -> Result<Vec<Entry>, String> {
        let mut entries = Vec::new();
        for (name, state) in self.states {
            // A state tells its shapes only with its numbers; it is read one more time for them.
            reserve::ask_afterwards()?;
            entries.extend(Self::flatten(name, state).0.iter().map(|(name, data)| Entry::of(name, data)));
        }
        Ok(entries)
    }

    fn read(&self, give: &mut dyn FnMut(&str, &TensorData) -> io::Result<()>) -> Result<Counters, Unwritten> {
        let mut counters = Counters::new();
        for (name, state) in self.states {
            reserve::ask_afterwards().map_err(Unwritten::Device)?;
            let (tensors, numbers) = Self::flatten(name, state);
            for (name, data) in tensors {
                let data = host::at_once(data).map_err(Unwritten::Device)?;
                give(&name, &data).map_err(Unwritten::File)?;
            }
            counters.extend(numbers.into_iter().map(|(name, value)| (format!("{}{name}", self.prefix), value)));
        }
        Ok(counters)
    }
}

/// Tensors that are in host memory already.
struct OfHost<'a>(Cow<'a, Tensors>);

impl Part for OfHost<'_> {
    fn entries(&self) -> Result<Vec<Entry>, String> {
        Ok(self.0.iter().map(|(name, data)| Entry::of(name, data)).collect())
    }

    fn read(&self, give: &mut dyn FnMut(&str, &TensorData) -> io::Result<()>) -> Result<Counters, Unwritten> {
        self.0.iter().try_for_each(|(name, data)| give(name, data)).map_err(Unwritten::File)?;
        Ok(Counters::new())
    }
}

/// The tensors of a part in host memory, all at once, and its counters.
///
/// # Errors
/// What the device says.
pub(crate) fn to_host(part: &dyn Part) -> Result<(Tensors, Counters), String> {
    let mut shapes: BTreeMap<String, Entry> =
        part.entries()?.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
    let mut tensors = Tensors::new();
    let counters = part.read(&mut |name, data| {
        if let Some(Entry { name, dtype, shape }) = shapes.remove(name) {
            tensors.insert(name, TensorData::from_bytes_vec(data.as_bytes().to_vec(), shape, dtype));
        }
        Ok(())
    });
    match counters {
        Ok(counters) => Ok((tensors, counters)),
        Err(Unwritten::Device(reason)) => Err(reason),
        Err(Unwritten::File(error)) => Err(error.to_string()),
    }
}

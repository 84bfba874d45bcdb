//! The two networks: what is committed together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::{Discriminator, Generator};
use kindling_ops::sum;
use kindling_trainer::engine::{Checkpointable, ModelSnapshot, ModelState, Parts, abandon_graph};

use crate::config::AdversarialConfig;
use crate::lecam::LeCam;
use crate::spectral::SpectralNorm;

const GENERATOR: &str = "generator-";
const DISCRIMINATOR: &str = "discriminator-";
const SPECTRAL: &str = "spectral.safetensors";
/// Keys of checkpoints, as the first version wrote them.
const ANCHORS: [&str; 2] = ["lecam.real", "lecam.made"];

/// Both networks with everything that training changes about them.
#[derive(Clone)]
pub struct Pair<G, D> {
    pub(crate) generator: ModelState<G>,
    pub(crate) discriminator: ModelState<D>,
    /// Vectors of the discriminator's filters, if they are normalised.
    pub(crate) spectral: Option<SpectralNorm>,
    /// Where scores are held, once a step was done and if they are held.
    pub(crate) anchors: Option<LeCam>,
}

impl<G: Generator, D: Discriminator> Pair<G, D> {
    /// Both at their start, on the plain device.
    pub(crate) fn new(generator: G, discriminator: D, config: &AdversarialConfig) -> Self {
        let spectral = config.spectral_norm.then(|| SpectralNorm::new(&discriminator, config.seed));
        Self {
            generator: ModelState::with_adam(generator, config.betas, true),
            discriminator: ModelState::with_adam(discriminator, config.betas, false),
            spectral,
            anchors: None,
        }
    }

    /// A number that cannot be read unless all of both networks is there.
    pub(crate) fn witness(&self) -> Option<Tensor<1>> {
        let both = [self.generator.witness(), self.discriminator.witness()];
        let both: Vec<Tensor<1>> = both.into_iter().flatten().collect();
        (!both.is_empty()).then(|| sum(Tensor::cat(both, 0)))
    }
}

impl<G: Module, D: Module> Checkpointable for Pair<G, D> {
    fn parts(&self) -> Result<Parts<'_>, String> {
        let mut parts = self.generator.parts(GENERATOR);
        parts.extend(self.discriminator.parts(DISCRIMINATOR));
        if let Some(spectral) = &self.spectral {
            parts.add(SPECTRAL, Cow::Owned(spectral.save()?));
        }
        Ok(parts)
    }

    fn numbers(&self) -> BTreeMap<String, f64> {
        let Some(LeCam { real, fake }) = self.anchors else { return BTreeMap::new() };
        ANCHORS.iter().map(|name| name.to_string()).zip([real, fake]).collect()
    }

    fn emptied(&self) -> Self {
        Self {
            generator: self.generator.emptied(),
            discriminator: self.discriminator.emptied(),
            spectral: self.spectral.as_ref().map(SpectralNorm::emptied),
            anchors: self.anchors,
        }
    }

    fn restored(self, mut snapshot: ModelSnapshot, device: &Device) -> Result<Self, String> {
        let generator = self.generator.restore(&mut snapshot, GENERATOR, device)?;
        let discriminator = self.discriminator.restore(&mut snapshot, DISCRIMINATOR, device)?;
        let spectral = match (self.spectral, snapshot.files.remove(SPECTRAL)) {
            (Some(known), Some(saved)) => Some(known.restore(saved, device)?),
            (None, None) => None,
            _ => return Err("it was saved with another --spectral-norm".to_string()),
        };
        let [real, fake] = ANCHORS.map(|name| snapshot.numbers.get(name).copied());
        let anchors = real.zip(fake).map(|(real, fake)| LeCam { real, fake });
        Ok(Self { generator, discriminator, spectral, anchors })
    }

    fn make_room(&self, device: &Device) {
        abandon_graph(self.generator.model(), device);
        abandon_graph(self.discriminator.model(), device);
    }
}

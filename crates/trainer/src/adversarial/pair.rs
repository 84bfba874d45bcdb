//! The two networks: what is committed together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::{Critic, Generator};

use super::config::AdversarialConfig;
use super::lecam::LeCam;
use super::spectral::SpectralNorm;
use crate::checkpointable::Checkpointable;
use crate::model_snapshot::ModelSnapshot;
use crate::model_state::{ModelState, Parts};
use crate::optimizer::Optimizer;
use crate::parts::OfHost;
use crate::recovery::abandon_graph;

const GENERATOR: &str = "generator-";
const CRITIC: &str = "discriminator-";
const SPECTRAL: &str = "spectral.safetensors";
const ANCHORS: [&str; 2] = ["lecam.real", "lecam.made"];

/// Both networks with everything that training changes about them.
#[derive(Clone)]
pub(crate) struct Pair<G, D> {
    pub(crate) generator: ModelState<G>,
    pub(crate) critic: ModelState<D>,
    /// Vectors of the critic's filters, if they are normalised.
    pub(crate) spectral: Option<SpectralNorm>,
    /// Where scores are held, once a step was done and if they are held.
    pub(crate) anchors: Option<LeCam>,
}

impl<G: Generator, D: Critic> Pair<G, D> {
    /// Both at their start, on the plain device.
    pub(crate) fn new(generator: G, critic: D, config: &AdversarialConfig) -> Self {
        let spectral = config.spectral_norm.then(|| SpectralNorm::new(&critic, config.seed));
        let adam = || Optimizer::adam(config.betas);
        Self {
            generator: ModelState::new("generator", generator, adam(), true),
            critic: ModelState::new("discriminator", critic, adam(), false),
            spectral,
            anchors: None,
        }
    }

    /// A number that cannot be read unless all of both networks is there.
    pub(crate) fn witness(&self) -> Option<Tensor<1>> {
        let both = [self.generator.witness(), self.critic.witness()];
        let both: Vec<Tensor<1>> = both.into_iter().flatten().collect();
        (!both.is_empty()).then(|| Tensor::cat(both, 0).sum())
    }
}

impl<G: Module, D: Module> Checkpointable for Pair<G, D> {
    fn parts(&self) -> Result<Parts<'_>, String> {
        let mut parts = self.generator.parts(GENERATOR);
        parts.extend(self.critic.parts(CRITIC));
        if let Some(spectral) = &self.spectral {
            parts.insert(SPECTRAL.to_string(), Box::new(OfHost(Cow::Owned(spectral.save()?))));
        }
        Ok(parts)
    }

    fn numbers(&self) -> BTreeMap<String, f64> {
        let Some(LeCam { real, made }) = self.anchors else { return BTreeMap::new() };
        ANCHORS.iter().map(|name| name.to_string()).zip([real, made]).collect()
    }

    fn emptied(&self) -> Self {
        Self {
            generator: self.generator.emptied(),
            critic: self.critic.emptied(),
            spectral: self.spectral.as_ref().map(SpectralNorm::emptied),
            anchors: self.anchors,
        }
    }

    fn restored(self, mut snapshot: ModelSnapshot, device: &Device) -> Result<Self, String> {
        let generator = self.generator.restore(snapshot.take(GENERATOR)?, device)?;
        let critic = self.critic.restore(snapshot.take(CRITIC)?, device)?;
        let spectral = match (self.spectral, snapshot.files.remove(SPECTRAL)) {
            (Some(known), Some(saved)) => Some(known.restore(saved, device)?),
            (None, None) => None,
            _ => return Err("it was saved with another --spectral-norm".to_string()),
        };
        let [real, made] = ANCHORS.map(|name| snapshot.numbers.get(name).copied());
        let anchors = real.zip(made).map(|(real, made)| LeCam { real, made });
        Ok(Self { generator, critic, spectral, anchors })
    }

    fn make_room(&self, device: &Device) {
        abandon_graph(&self.generator.model, device);
        abandon_graph(&self.critic.model, device);
    }
}

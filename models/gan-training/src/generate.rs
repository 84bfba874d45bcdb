//! Images from a trained generator.

use burn::tensor::{Device, Tensor, TensorData};
use kindling_layers::{Checkpointing, Generator, host};
use kindling_memory::{Plan, has_pages};
use kindling_trainer::TrainError;
use kindling_trainer::engine::{Limits, Policy, carry_out, make_room};

/// Images in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// `[count, channels, height, width]`, in `[-1, 1]`.
    pub values: Vec<f32>,
    /// `[count, channels, height, width]`.
    pub shape: [usize; 4],
}

/// Makes an image of each latent vector, at most `micro_batch` at once and fewer where memory runs out, and hands them
/// over in order, as they come: no more of them are held than are computed at once. `generator` is on `device`, without
/// gradients. An image does not depend on which others are computed with it, but for rounding.
///
/// # Errors
/// [`TrainError::DoesNotFit`] if a single image does not fit, [`TrainError::Device`], and whatever `take` answers.
pub fn generate<G: Generator, E: From<TrainError>>(
    generator: &G,
    latents: impl Iterator<Item = Vec<f32>>,
    micro_batch: usize,
    device: &Device,
    mut take: impl FnMut(Images) -> Result<(), E>,
) -> Result<(), E> {
    let micro_batch = micro_batch.max(1);
    let limits = Limits::of_inference(micro_batch).with_pages(has_pages(device));
    let mut policy = Policy::new(limits, Plan { micro_batch, checkpointing: Checkpointing::None });
    let mut waiting: Vec<Vec<f32>> = Vec::new();
    let mut latents = latents.peekable();
    while latents.peek().is_some() || !waiting.is_empty() {
        while waiting.len() < policy.plan().micro_batch
            && let Some(latent) = latents.next()
        {
            waiting.push(latent);
        }
        let mut count = 0;
        let (images, next) = carry_out(
            &policy,
            device,
            || make_room(device),
            |_| {},
            |plan| {
                count = waiting.len().min(plan.micro_batch);
                make(generator, &waiting[..count], device)
            },
        )?;
        policy = next;
        waiting.drain(..count);
        take(images)?;
    }
    Ok(())
}

fn make<G: Generator>(generator: &G, latents: &[Vec<f32>], device: &Device) -> Result<Images, TrainError> {
    let count = latents.len();
    let failed = |text: &str| TrainError::of_device(None, count, text);
    let shape = [count, latents.first().map_or(0, Vec::len)];
    let (shape, data) = TrainError::caught(None, count, || {
        let latent = Tensor::<2>::from_data(TensorData::new(latents.concat(), shape), device);
        let images = generator.forward(latent);
        Ok((images.dims(), host::read(images).map_err(|error| failed(&error))?))
    })?;
    let values = data.convert::<f32>().try_to_vec::<f32>().map_err(|error| failed(&format!("{error:?}")))?;
    Ok(Images { values, shape })
}

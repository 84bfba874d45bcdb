//! What a run was started with.

/// What a run was started with, which does not change.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) model: String,
    pub(crate) parameters: u64,
    pub(crate) data: String,
    pub(crate) classes: usize,
    pub(crate) device: String,
    /// Height and width in pixels.
    pub(crate) image_size: usize,
    /// Images an optimizer step.
    pub(crate) global_batch: usize,
}

impl Facts {
    /// One fact after the other; the micro-batch is that of the newest step.
    pub(crate) fn words(&self, micro_batch: usize) -> Vec<String> {
        let Self { model, parameters, data, classes, device, image_size, global_batch } = self;
        let ending = if *classes == 1 { "" } else { "es" };
        vec![
            format!("{model} ({:.2} M parameters)", *parameters as f64 / 1e6),
            format!("{data} ({classes} class{ending})"),
            device.clone(),
            format!("{image_size}x{image_size}"),
            format!("batch {global_batch} in micro-batches of {micro_batch}"),
        ]
    }
}

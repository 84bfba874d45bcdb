//! Which places of an image speak for a class.

use burn::tensor::{Device, Int, Tensor, TensorData};
use kindling_layers::{Classifier, grad_cam, host};

use crate::error::TrainError;

/// Where an image speaks for a class, from [`explain`]: rows from the top, each from the left.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassMap {
    /// Places of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Shares of the largest, 0 to 1; all 0 where no place speaks for the class.
    pub values: Vec<f32>,
}

/// Grad-CAM of one image `[channels, height, width]`, prepared as for inference, for a class. `model` is on `device`, without
/// gradients. Computed in float32, one image at a time: it fits wherever inference does, but for the gradient of the last map.
///
/// # Errors
/// [`TrainError::InferenceOutOfMemory`] or [`TrainError::Device`].
pub fn explain<M: Classifier>(
    model: &M,
    image: Vec<f32>,
    [channels, height, width]: [usize; 3],
    class: usize,
    device: &Device,
) -> Result<ClassMap, TrainError> {
    let failed = |text: &str| TrainError::of_device(None, 1, text);
    let (data, [height, width]) = TrainError::caught(None, 1, || {
        let image = Tensor::from_data(TensorData::new(image, [1, channels, height, width]), device);
        let class = Tensor::<1, Int>::from_data(TensorData::from([class as i64]), device);
        let map = grad_cam(model, image, class);
        let [_, height, width] = map.dims();
        Ok((host::read(map).map_err(|error| failed(&error))?, [height, width]))
    })?;
    let values = data.convert::<f32>().try_to_vec::<f32>().map_err(|error| failed(&format!("{error:?}")))?;
    let largest = values.iter().copied().fold(0.0, f32::max);
    let share = |value: f32| if largest > 0.0 { value / largest } else { 0.0 };
    Ok(ClassMap { width, height, values: values.into_iter().map(share).collect() })
}

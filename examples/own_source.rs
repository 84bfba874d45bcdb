//! A data set of your own: `cargo run --release -p kindling-examples --bin own_source`
//!
//! A `Source` knows the number of samples and the class of each, and reads single samples. The loader takes care of order, augmentation and
//! batches, on its own threads.

use std::error::Error;
use std::sync::Arc;

use kindling_data::{Augment, DataError, Image, Loader, LoaderConfig, Normalisation, Preprocess, Source};

const SIDE: usize = 64;

/// Bright discs and squares on grey. A source of files would read a file in `read`, and name its path in errors.
struct Shapes {
    count: usize,
}

impl Source for Shapes {
    fn len(&self) -> usize {
        self.count
    }

    fn label(&self, index: usize) -> usize {
        index % 2
    }

    /// The loader may request any sample at any time, from several threads, and must get the same result each time.
    fn read(&self, index: usize) -> Result<Image, DataError> {
        if index >= self.count {
            return Err(DataError::OutOfRange { index, len: self.count });
        }
        let (disc, radius) = (self.label(index) == 0, 8 + index % 16);
        let pixels = (0..SIDE * SIDE).map(|at| {
            let (x, y) = ((at % SIDE).abs_diff(SIDE / 2), (at / SIDE).abs_diff(SIDE / 2));
            let inside = if disc { x * x + y * y < radius * radius } else { x.max(y) < radius };
            if inside { 220 } else { 60 }
        });
        Ok(Image::from_u8(SIDE, SIDE, 1, pixels.collect()))
    }

    fn name_of(&self, index: usize) -> String {
        format!("shape {index}")
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let preprocess = Preprocess::padded(32, 1, Normalisation { mean: vec![0.4], std: vec![0.3] });
    let config = LoaderConfig { workers: 2, augment: Augment::Light, ..LoaderConfig::shuffled(8, preprocess, 1) };
    let loader = Loader::new(Arc::new(Shapes { count: 20 }), config)?;

    let batches = loader.epoch(0, 0).collect::<Result<Vec<_>, _>>()?;
    for batch in &batches {
        println!("batch {}, {:?}: samples {:?} of classes {:?}", batch.index, batch.shape, batch.samples, batch.labels);
    }
    // A batch depends on the seed, the epoch and its number, and not on the batches before it. Resuming a run relies on this.
    let alone = loader.epoch(0, 2).next().transpose()?;
    println!("{} batches; the last one read alone is the same: {}", batches.len(), batches.last() == alone.as_ref());
    Ok(())
}

//! How long each stage of the way from a file to a batch takes.

use std::time::{Duration, Instant};

use kindling_files as files;

use crate::augment::{Augment, Draw};
use crate::decode::{MAX_FILE_BYTES, Preprocess, decode};
use crate::error::DataError;
use crate::source::{Source, guarded};

/// Time and bytes of one stage, over all images measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stage {
    /// Its name: `read`, `decode`, `resize`, `augment` or `collate`.
    pub name: &'static str,
    /// Time of one thread.
    pub time: Duration,
    /// Bytes: of the files for `read` and `decode`, of the images in float32 after that.
    pub bytes: u64,
}

/// The stages of the first `count` samples of a source, each timed by itself on this thread. A source whose samples are
/// not files reads and decodes at once: then `read` takes no time.
///
/// # Errors
/// The first sample that cannot be read.
pub fn measure_stages(
    source: &dyn Source,
    preprocess: &Preprocess,
    augment: &Augment,
    count: usize,
) -> Result<[Stage; 5], DataError> {
    let mut stages = ["read", "decode", "resize", "augment", "collate"].map(|name| Stage { name, ..Stage::default() });
    let policy = augment.policy();
    let mut tensor = vec![0.0; preprocess.channels * preprocess.size * preprocess.size];
    for index in 0..count.min(source.len()) {
        let mut add = |stage: usize, began: Instant, bytes: usize| {
            stages[stage].time += began.elapsed();
            stages[stage].bytes += bytes as u64;
            Instant::now()
        };
        guarded(source, index, || {
            let began = Instant::now();
            let read = source.file(index).and_then(|path| Some((path, files::read(path, MAX_FILE_BYTES).ok()?)));
            // A file that is no picture is left to its source.
            let decoded = read.and_then(|(path, bytes)| {
                let began = add(0, began, bytes.len());
                let samples = decode(path, &bytes).ok()?;
                Some((samples, add(1, began, bytes.len())))
            });
            let (fitted, began) = match decoded {
                Some((samples, began)) => (preprocess.fit_samples(samples)?, began),
                None => {
                    let image = source.read(index)?;
                    let bytes = size_of_val(image.pixels.as_slice());
                    let began = add(1, began, bytes);
                    (preprocess.fit_owned(image), began)
                }
            };
            let bytes = size_of_val(fitted.pixels.as_slice());
            let began = add(2, began, bytes);
            let changed = policy.apply(fitted, &Draw { seed: 0, epoch: 0, sample: index as u64, showing: 0 });
            let began = add(3, began, bytes);
            preprocess.write_tensor(&changed, &mut tensor);
            add(4, began, bytes);
            Ok(())
        })?;
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::decode::{Image, Normalisation};

    struct Flat;

    impl Source for Flat {
        fn len(&self) -> usize {
            3
        }
        fn label(&self, _: usize) -> usize {
            0
        }
        fn read(&self, _: usize) -> Result<Image, DataError> {
            std::thread::sleep(Duration::from_millis(2));
            Ok(Image::filled(20, 10, 1, 0.5))
        }
        fn name_of(&self, index: usize) -> String {
            format!("no file {index}")
        }
    }

    #[test]
    fn every_stage_is_timed_and_its_bytes_are_counted() {
        let preprocess = Preprocess::padded(32, 3, Normalisation::identity(3));
        let stages = measure_stages(&Flat, &preprocess, &Augment::Light, 2).unwrap();
        assert_eq!(stages.map(|stage| stage.name), ["read", "decode", "resize", "augment", "collate"]);
        assert_eq!(stages.map(|stage| stage.bytes), [0, 2 * 800, 2 * 12_288, 2 * 12_288, 2 * 12_288]);
        assert!(stages[1].time >= Duration::from_millis(4) && stages[3].time > Duration::ZERO);
    }
}

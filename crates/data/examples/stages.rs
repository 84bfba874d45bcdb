//! Times the stages from file to batch without the rest of Kindling: `stages FOLDER [AUGMENT] [SIZE]`.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Instant;

use kindling_data::{Augment, Loader, LoaderConfig, Normalisation, Preprocess, measure_stages, open_folder};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let dataset = open_folder(Path::new(&arguments[1]), 0).unwrap();
    let augment: Augment = arguments.get(2).map_or("light", String::as_str).parse().unwrap();
    let size = arguments.get(3).map_or(512, |size| size.parse().unwrap());
    let preprocess = Preprocess::padded(size, dataset.channels, Normalisation::imagenet(dataset.channels));
    let count = dataset.train.len();
    for _ in 0..2 {
        for stage in measure_stages(dataset.train.as_ref(), &preprocess, &augment, count).unwrap() {
            println!("{:8} {:7.3} ms", stage.name, stage.time.as_secs_f64() * 1e3 / count as f64);
        }
        for workers in [1, 2] {
            let config = LoaderConfig {
                workers,
                augment: augment.clone(),
                classes: dataset.classes.len(),
                ..LoaderConfig::shuffled(8, preprocess.clone(), 0)
            };
            let loader = Loader::new(dataset.train.clone(), config).unwrap();
            let began = Instant::now();
            let images: usize = loader.epoch(0, 0).map(|batch| batch.unwrap().len()).sum();
            println!("{workers} workers: {:.1} images/s", images as f64 / began.elapsed().as_secs_f64());
        }
    }
}

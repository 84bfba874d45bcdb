//! Reading a picture takes what its header was said to ask for: not more, which a budget would not have, and not much less,
//! which a plan would waste. One test alone in its process, because it counts the bytes of the process.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{DynamicImage, GrayImage, ImageBuffer, Rgb, RgbImage, RgbaImage};
use kindling_data::{
    Augment, DataError, Dataset, Format, Header, Image, Normalisation, Part, Pictures, Preprocess, Source, Task,
    decoding_bytes, largest_decoding_bytes,
};
use kindling_memory::{CountingAllocator, host_usage, reset_host_peak};

#[global_allocator]
static ALLOCATOR: CountingAllocator<std::alloc::System> = CountingAllocator(std::alloc::System);

/// What a reader holds besides, in bytes: names, and the weights of the filter that scales.
const BESIDES: u64 = 64 << 10;

/// One picture as a data set.
struct One(PathBuf);

impl Source for One {
    fn len(&self) -> usize {
        1
    }
    fn label(&self, _: usize) -> usize {
        0
    }
    fn file(&self, _: usize) -> Option<&Path> {
        Some(&self.0)
    }
    fn read(&self, _: usize) -> Result<Image, DataError> {
        kindling_data::read_image(&self.0)
    }
    fn name_of(&self, _: usize) -> String {
        self.0.display().to_string()
    }
}

/// What the budget is asked for before this picture is read.
fn asked(path: &Path, preprocess: &Preprocess) -> u64 {
    let source: Arc<dyn Source> = Arc::new(One(path.to_owned()));
    let dataset = Dataset {
        name: String::new(),
        about: String::new(),
        classes: vec![String::new(); 2],
        task: Task::MultiClass,
        channels: 3,
        train: Arc::clone(&source),
        val: Arc::clone(&source),
        test: source,
        normalisation: None,
        augment: Augment::None,
    };
    largest_decoding_bytes(&dataset, preprocess)
}

/// The most that reading it takes.
fn taken(path: &Path, preprocess: &Preprocess) -> u64 {
    let part = Part { path: path.to_owned(), frame: None, channels: 3, group: None };
    let before = host_usage().current;
    reset_host_peak();
    let fitted = Pictures.read_fitted(&part, preprocess).unwrap();
    assert_eq!((fitted.width, fitted.height), (preprocess.size, preprocess.size));
    (host_usage().peak - before) as u64
}

/// Noise that compresses a little, as scans do.
fn values(count: usize) -> impl Iterator<Item = u8> {
    (0..count).map(|at| ((at / 3) % 61 + ((at * 2_654_435_761) >> 9) % 23) as u8)
}

#[test]
fn a_picture_takes_what_its_header_was_said_to_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (width, height) in [(512_u32, 512_u32), (1500, 1500), (2000, 700), (700, 2000)] {
        let pixels = (width * height) as usize;
        let colour = RgbImage::from_raw(width, height, values(pixels * 3).collect()).unwrap();
        let grey = GrayImage::from_raw(width, height, values(pixels).collect()).unwrap();
        let alpha = RgbaImage::from_raw(width, height, values(pixels * 4).collect()).unwrap();
        let words = values(pixels * 3).map(|value| u16::from(value) * 257).collect();
        let deep = ImageBuffer::<Rgb<u16>, _>::from_raw(width, height, words).unwrap();
        let pictures: [(&str, DynamicImage); 6] = [
            ("grey.png", grey.into()),
            ("colour.png", colour.clone().into()),
            ("alpha.png", alpha.into()),
            ("deep.png", deep.into()),
            ("colour.tif", colour.clone().into()),
            ("colour.jpg", colour.into()),
        ];
        for (name, picture) in pictures {
            let path = dir.path().join(name);
            picture.save(&path).unwrap();
            for (size, channels) in [(64, 3), (224, 1), (512, 3)] {
                let preprocess = Preprocess::padded(size, channels, Normalisation::identity(channels));
                let (asked, taken) = (asked(&path, &preprocess), taken(&path, &preprocess));
                let file = path.metadata().unwrap().len();
                let to = format!("to {size} x {size} x {channels}");
                let what = format!("{name} of {file} bytes, {width} x {height} {to}: {taken} of {asked} bytes");
                println!("{what}");
                assert!(taken <= asked + BESIDES, "{what}");
                assert!(asked <= taken + taken / 10 || asked <= taken + 2 * BESIDES, "{what}");
                if name == "colour.png" && channels == 3 {
                    let header = Header { width: width as usize, height: height as usize, channels: 3 };
                    assert_eq!(decoding_bytes(header, &preprocess), asked, "a plan and a run agree: {what}");
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, 8);
}

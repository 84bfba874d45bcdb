//! Which kinds of image files are read, how they are turned, which images of a file count, and what is reported about the rest.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use image::codecs::gif::GifEncoder;
use image::{DynamicImage, Frame, GrayImage, ImageFormat, Luma};
use kindling_tests::{Bench, Outcome, assert_says, kindling, picture, train};
use serde_json::Value;
use tempfile::tempdir;

fn check(data: &Path, flags: &str) -> (Value, String) {
    let words = || kindling();
    let json =
        Outcome::of(words().args(["data", "check", "--format", "json"]).args(flags.split_whitespace()).arg(data));
    let table = Outcome::of(words().args(["data", "check"]).args(flags.split_whitespace()).arg(data)).stdout;
    (json.result(), table)
}

/// A trained network, and its answers for images: the probabilities that `predict` prints.
struct Judge {
    bench: Bench,
    run: PathBuf,
}

impl Judge {
    fn new() -> Self {
        let bench = Bench::new(8);
        let run = bench.path("run");
        Outcome::of(&mut train(bench.data(), &run, "--batch-size 8 --max-steps 2")).succeeded();
        Self { bench, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.path(name)
    }

    /// Its answers for all images of a file.
    fn says(&self, path: &Path) -> Vec<Vec<f64>> {
        let mut command = kindling();
        command.args(["predict", "--device", "cpu"]).arg(&self.run).arg(path);
        let rows = Outcome::of(&mut command).succeeded().stdout;
        rows.lines().skip(1).map(|row| row.split(',').skip(2).map(|number| number.parse().unwrap()).collect()).collect()
    }

    fn refuses(&self, path: &Path) -> String {
        let mut command = kindling();
        Outcome::of(command.env_remove("RUST_BACKTRACE").args(["predict", "--device", "cpu"]).arg(&self.run).arg(path))
            .refused()
    }
}

fn near(a: &[Vec<f64>], b: &[Vec<f64>], tolerance: f64) -> bool {
    a.len() == b.len() && a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() <= tolerance)
}

/// A picture that looks different from every side.
fn arrow() -> GrayImage {
    GrayImage::from_fn(40, 40, |x, y| Luma([if x < y && x < 12 { 230 } else { (x * 2 + y) as u8 }]))
}

#[test]
fn gif_bmp_and_webp_are_read_as_png_is() {
    let judge = Judge::new();
    let image = DynamicImage::ImageLuma8(arrow());
    let expected = {
        image.save(judge.path("a.png")).unwrap();
        judge.says(&judge.path("a.png"))
    };
    for (name, format) in [("a.gif", ImageFormat::Gif), ("a.bmp", ImageFormat::Bmp), ("a.webp", ImageFormat::WebP)] {
        let path = judge.path(name);
        // All three hold colours; the writer of WebP is without loss, and 256 greys fit into the colours of a GIF.
        image.to_rgb8().save_with_format(&path, format).unwrap();
        // A GIF's colours are chosen by its writer.
        let tolerance = if name == "a.gif" { 0.02 } else { 1e-5 };
        assert!(near(&judge.says(&path), &expected, tolerance), "{name}");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert_says(&judge.refuses(&path), &[name, "replace or remove"]);
    }
}

#[test]
fn a_class_folder_of_these_kinds_is_trained_on_and_what_is_left_out_is_told() {
    let bench = Bench::new(6);
    for (index, ending) in ["gif", "bmp", "webp"].into_iter().enumerate() {
        DynamicImage::ImageLuma8(picture("dark", index))
            .to_rgb8()
            .save(bench.data().join(format!("dark/x.{ending}")))
            .unwrap();
    }
    for name in ["a.xcf", "b.XCF", "notes.txt"] {
        fs::write(bench.data().join("bright").join(name), "not read").unwrap();
    }
    let (report, table) = check(bench.data(), "");
    assert_eq!(report["samples"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 18 + 3);
    assert_eq!(report["passed_over"]["files"], serde_json::json!({ "txt": 1, "xcf": 2 }));
    assert_eq!(report["sound"], true, "what is no image is not wrong");
    let told = "3 files of kinds that are not read (1 .txt, 2 .xcf)";
    assert!(table.contains(told), "{table}");
    let flags = "--batch-size 4 --max-steps 1";
    let outcome = Outcome::of(&mut train(bench.data(), &bench.path("run"), flags)).succeeded();
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
}

/// A TIFF of these grey pages of one size, by hand (TIFF 6.0): little-endian, one strip a page, no compression.
fn tiff(pages: &[GrayImage], orientation: u16) -> Vec<u8> {
    write_tiff(
        pages.iter().map(|page| (page.width(), page.height(), page.as_raw().clone())).collect(),
        8,
        1,
        orientation,
    )
}

/// The same of samples of this many bits and this format: 1 whole numbers, 3 floating point.
fn write_tiff(pages: Vec<(u32, u32, Vec<u8>)>, bits: u32, format: u32, orientation: u16) -> Vec<u8> {
    let mut bytes = b"II\x2a\0".to_vec();
    bytes.extend(8u32.to_le_bytes());
    let count = pages.len();
    for (index, (width, height, samples)) in pages.into_iter().enumerate() {
        let entries: [(u16, u16, u32); 10] = [
            (256, 4, width),
            (257, 4, height),
            (258, 3, bits),
            (259, 3, 1),
            (262, 3, 1),
            (273, 4, bytes.len() as u32 + 2 + 10 * 12 + 4),
            (274, 3, u32::from(orientation)),
            (278, 4, height),
            (279, 4, samples.len() as u32),
            (339, 3, format),
        ];
        bytes.extend((entries.len() as u16).to_le_bytes());
        let next = bytes.len() + entries.len() * 12 + 4 + samples.len();
        for (tag, kind, value) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(1u32.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(if index + 1 < count { next as u32 } else { 0 }.to_le_bytes());
        bytes.extend(samples);
    }
    bytes
}

#[test]
fn pages_and_frames_are_samples_where_that_is_asked_for_and_told_where_not() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    for class in ["bright", "dark"] {
        fs::create_dir_all(data.join(class)).unwrap();
        for file in 0..6 {
            let pages: Vec<GrayImage> = (0..3).map(|page| picture(class, 3 * file + page)).collect();
            fs::write(data.join(class).join(format!("{file}.tif")), tiff(&pages, 1)).unwrap();
        }
        let mut gif = Vec::new();
        let frames = [20, 21].map(|index| Frame::new(DynamicImage::ImageLuma8(picture(class, index)).to_rgba8()));
        GifEncoder::new(&mut gif).encode_frames(frames).unwrap();
        fs::write(data.join(class).join("moving.gif"), gif).unwrap();
    }
    let samples =
        |report: &Value| report["samples"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    let (first, table) = check(&data, "");
    assert_eq!(samples(&first), 14);
    assert_eq!((&first["passed_over"]["first_only"], &first["passed_over"]["images"]), (&14.into(), &26.into()));
    assert!(table.contains("26 further pages or frames of 14 files") && table.contains("--pages"), "{table}");

    let (all, table) = check(&data, "--pages");
    assert_eq!(samples(&all), 2 * (6 * 3 + 2));
    assert!(!table.contains("further pages"), "{table}");
    assert_eq!(all["leaks"], serde_json::json!([]), "pages of a file stay together");
    assert_eq!(all["split_by"], "group");

    let run = folder.path().join("run");
    Outcome::of(&mut train(&data, &run, "--pages --batch-size 4 --max-steps 1")).succeeded();
    assert!(fs::read_to_string(run.join("config.toml")).unwrap().contains("pages = true"));
    let mut resume = kindling();
    Outcome::of(resume.args(["train", "--resume"]).arg(&run)).succeeded();
    // The run's answer for each page is its answer for that page alone.
    let judge = Judge { bench: Bench::new(1), run };
    let of_pages = judge.says(&data.join("dark/2.tif"));
    for (page, expected) in of_pages.iter().enumerate() {
        let alone = judge.path("page.png");
        picture("dark", 6 + page).save(&alone).unwrap();
        assert!(near(std::slice::from_ref(expected), &judge.says(&alone), 1e-6), "page {page}");
    }
    assert_eq!(of_pages.len(), 3);
}

#[test]
fn photos_are_turned_as_their_tag_says() {
    let judge = Judge::new();
    let expected = {
        arrow().save(judge.path("a.png")).unwrap();
        judge.says(&judge.path("a.png"))
    };
    // The image as it would be stored under each tag (Exif 2.3, 4.6.4): what is shown is the same.
    let stored = |tag: u16| {
        let image = DynamicImage::ImageLuma8(arrow());
        match tag {
            2 => image.fliph(),
            3 => image.rotate180(),
            4 => image.flipv(),
            5 => image.rotate90().fliph(),
            6 => image.rotate270(),
            7 => image.rotate270().fliph(),
            8 => image.rotate90(),
            _ => image,
        }
    };
    for tag in 1..=8 {
        let image = stored(tag);
        // A directory of one entry: the orientation.
        let mut exif = b"II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
        exif.extend(u32::from(tag).to_le_bytes());
        exif.extend([0; 4]);

        let png = judge.path(&format!("{tag}.png"));
        image.save(&png).unwrap();
        let bytes = fs::read(&png).unwrap();
        // Behind the header, which ends at byte 33. Its checksum is not looked at where it does not matter.
        let chunk = [&(exif.len() as u32).to_be_bytes(), b"eXIf".as_slice(), &exif, &crc(b"eXIf", &exif).to_be_bytes()]
            .concat();
        fs::write(&png, [&bytes[..33], &chunk, &bytes[33..]].concat()).unwrap();
        assert!(near(&judge.says(&png), &expected, 1e-6), "PNG, tag {tag}");

        let jpeg = judge.path(&format!("{tag}.jpg"));
        image.save(&jpeg).unwrap();
        let bytes = fs::read(&jpeg).unwrap();
        let body = [b"Exif\0\0".as_slice(), &exif].concat();
        let segment = [&[0xFF, 0xE1], ((body.len() + 2) as u16).to_be_bytes().as_slice(), &body].concat();
        fs::write(&jpeg, [&bytes[..2], &segment, &bytes[2..]].concat()).unwrap();
        // JPEG changes the pixels a little.
        assert!(near(&judge.says(&jpeg), &expected, 0.05), "JPEG, tag {tag}");

        let tif = judge.path(&format!("{tag}.tif"));
        fs::write(&tif, tiff(&[image.to_luma8()], tag)).unwrap();
        assert!(near(&judge.says(&tif), &expected, 1e-6), "TIFF, tag {tag}");
    }
    // The tag matters: without it the image is another.
    stored(3).save(judge.path("plain.png")).unwrap();
    assert!(!near(&judge.says(&judge.path("plain.png")), &expected, 1e-3));
}

/// The checksum of a PNG's chunk (PNG, D).
fn crc(name: &[u8], contents: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in name.iter().chain(contents) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn floating_point_from_0_to_1_is_read_and_anything_else_is_told_plainly() {
    let judge = Judge::new();
    let image = arrow();
    image.save(judge.path("a.png")).unwrap();
    let expected = judge.says(&judge.path("a.png"));
    let floats = |scale: f32| -> Vec<u8> {
        image.as_raw().iter().flat_map(|value| (f32::from(*value) / 255.0 * scale).to_le_bytes()).collect()
    };
    let path = judge.path("f.tif");
    fs::write(&path, write_tiff(vec![(40, 40, floats(1.0))], 32, 3, 1)).unwrap();
    assert!(near(&judge.says(&path), &expected, 1e-6));
    fs::write(&path, write_tiff(vec![(40, 40, floats(4095.0))], 32, 3, 1)).unwrap();
    assert_says(&judge.refuses(&path), &["f.tif", "outside 0 to 1", "divide them"]);
    // Whole numbers of 32 bits.
    fs::write(&path, write_tiff(vec![(40, 40, vec![0; 6400])], 32, 1, 1)).unwrap();
    let sentence = judge.refuses(&path);
    assert_says(&sentence, &["f.tif", "8 or 16 bits", "floating point from 0 to 1"]);
    assert!(!sentence.contains("Unknown"), "{sentence}");
}

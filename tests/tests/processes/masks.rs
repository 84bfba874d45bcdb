//! Masks of several processes: drawn and scored as by one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Bench, Outcome, assert_says, kindling, mask_folder, volume_folder};

use crate::together::in_processes;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("volumes_whose_slices_lie_with_several_processes_are_scored_as_by_one", volumes_are_scored_as_by_one),
    ("masks_drawn_by_several_processes_are_the_files_of_one", masks_are_the_files_of_one),
    ("a_process_that_sees_other_images_is_named_and_no_mask_is_drawn", other_images_are_refused),
];

const UNET: &str = "unet-timm-mobilenetv3_small_100";
/// The tag of a DICOM file's pixels. Their length stands eight bytes behind it.
const PIXELS: [u8; 4] = [0xE0, 0x7F, 0x10, 0x00];

/// Volumes, and a run that has seen them a few times.
fn volumes_and_run() -> (Bench, PathBuf, PathBuf) {
    let bench = Bench::for_model(UNET, 1);
    let (data, run) = (bench.path("volumes"), bench.path("run"));
    volume_folder(&data, 7);
    let mut train = kindling();
    train.args(["train", "--device", "cpu", "--quiet", "--model", UNET, "--image-size", "64", "--batch-size", "4"]);
    train.args(["--max-steps", "6", "--lr", "0.01", "--augment", "none", "--workers", "1", "--data"]);
    Outcome::of(train.arg(&data).arg("--out").arg(&run)).succeeded();
    (bench, data, run)
}

fn volumes_are_scored_as_by_one() {
    let (bench, _data, run) = volumes_and_run();
    // Neither 2 nor 5 parts have whole volumes. Two black slices are left out of what is scored.
    for (flags, cases, sizes) in
        [("", 7, &[2, 3, 5][..]), ("--sliding-window", 7, &[2, 3, 5]), ("--by-slice", 7 * 6 - 2, &[3])]
    {
        let eval = |cases: &str| {
            let mut eval = kindling();
            eval.arg("eval").arg(&run).args(["--device", "cpu", "--split", "all", "--format", "json"]);
            eval.args(flags.split_whitespace()).arg("--predictions").arg(bench.path(cases));
            eval
        };
        let alone = Outcome::of(&mut eval("alone.csv")).succeeded();
        assert!(!alone.stderr.contains("not what the run began with"), "{}", alone.stderr);
        let table = fs::read(bench.path("alone.csv")).expect("cases");
        assert_eq!(table.iter().filter(|byte| **byte == b'\n').count(), 1 + cases, "a line a case: {flags}");
        for size in sizes {
            let together = Outcome::of(&mut in_processes(*size, &eval("together.csv"), "")).succeeded();
            assert_eq!(together.stdout, alone.stdout, "{size} processes {flags}");
            assert!(fs::read(bench.path("together.csv")).expect("cases") == table, "{size} processes {flags}");
        }
    }
}

/// Pictures, more than three processes draw at once, of which one cannot be read; and volumes.
fn pictures_and_volumes(folder: &Path, volumes: &Path) {
    mask_folder(folder, 20);
    fs::write(folder.join("images/07a.png"), b"no picture").expect("a folder of the test");
    for volume in ["02.nii", "03.nii"] {
        fs::copy(volumes.join("images").join(volume), folder.join("images").join(format!("v{volume}")))
            .expect("a volume of the test");
    }
}

/// Two series of four slices each; a slice of the first has too few pixels, so that it gets no mask.
fn series(folder: &Path) {
    let slices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/scans/tests/segmentation");
    fs::create_dir(folder).expect("a folder of the test can be made");
    for number in 1..=4 {
        let slice = fs::read(slices.join(format!("slice{number}.dcm"))).expect("a slice");
        fs::write(folder.join(format!("b{number}.dcm")), &slice).expect("a folder of the test");
        let (uid, other) = (b"498.1.4\0", b"498.1.9\0");
        let at = slice.windows(uid.len()).position(|bytes| bytes == uid).expect("the UID of the series");
        let mut first = slice;
        first[at..at + uid.len()].copy_from_slice(other);
        if number == 2 {
            // The header is sound, but there are fewer pixels than it says.
            let pixels = first.windows(4).rposition(|tag| tag == PIXELS).expect("pixels");
            first[pixels + 8] -= 10;
            first.truncate(first.len() - 10);
        }
        fs::write(folder.join(format!("a{number}.dcm")), first).expect("a folder of the test");
    }
}

/// The files of a folder. Of DICOM the pixels alone: the rest says when it was written.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        let mut bytes = fs::read(file.path()).expect("a mask");
        if name.ends_with(".dcm") {
            let pixels = bytes.windows(4).rposition(|tag| tag == PIXELS).expect("pixels");
            bytes.drain(..pixels);
        }
        (name, bytes)
    };
    fs::read_dir(folder).expect("the folder of the masks").map(|file| read(file.expect("a file"))).collect()
}

/// What a command draws, what it prints, and what it could not draw.
fn drawn(command: &mut Command, masks: &Path) -> (BTreeMap<String, Vec<u8>>, Outcome) {
    let outcome = Outcome::of(command);
    let found = files(masks);
    fs::remove_dir_all(masks).expect("the folder of the masks");
    (found, outcome)
}

fn masks_are_the_files_of_one() {
    let (bench, volumes, run) = volumes_and_run();
    let (pictures, scans, masks) = (bench.path("pictures"), bench.path("scans"), bench.path("masks"));
    pictures_and_volumes(&pictures, &volumes);
    series(&scans);
    let pictures = pictures.join("images");
    let errors = |said: &Outcome| -> Vec<String> {
        said.stderr.lines().filter(|line| line.starts_with("error: ")).map(str::to_owned).collect()
    };
    // Two black slices of a volume are no pictures, and yet part of its mask.
    for (images, flags, count, unread, sizes) in [
        (&pictures, "", 20 + 6 + 4, 1, &[2, 3][..]),
        (&pictures, "--sliding-window --tta flip", 20 + 6 + 4, 1, &[3]),
        (&pictures, "--mask-format nifti", 2, 21, &[3]),
        (&scans, "--mask-format dicom-seg", 1, 1, &[2]),
    ] {
        let mut predict = kindling();
        predict.arg("predict").arg(&run).arg(images).args(["--device", "cpu", "--out"]).arg(&masks);
        predict.args(flags.split_whitespace());
        let (alone, said) = drawn(&mut predict, &masks);
        assert_eq!((alone.len(), errors(&said).len(), said.code), (count, unread, Some(1)), "{flags}: {}", said.all());
        assert_eq!(said.stdout.lines().count(), 1 + count, "a line a mask: {}", said.stdout);
        for size in sizes {
            let (together, heard) = drawn(&mut in_processes(*size, &predict, ""), &masks);
            assert_eq!(
                (&heard.stdout, heard.code),
                (&said.stdout, Some(1)),
                "{size} processes {flags}: {}",
                heard.all()
            );
            assert_eq!(errors(&heard), errors(&said), "{size} processes {flags}");
            assert!(together == alone, "{size} processes {flags}: other masks than of one");
        }
    }
}

fn other_images_are_refused() {
    let (bench, volumes, run) = volumes_and_run();
    // A file of the same name, in which the second process sees two slices less.
    for (rank, volume) in [("0", "02.nii"), ("1", "03.nii")] {
        fs::create_dir(bench.path(rank)).expect("a folder of the test can be made");
        fs::copy(volumes.join("images").join(volume), bench.path(rank).join("scan.nii")).expect("a volume of the test");
    }
    let masks = bench.path("masks");
    let mut predict = kindling();
    predict.arg("predict").arg(&run).args(["scan.nii", "--device", "cpu", "--out"]).arg(&masks);
    let own = format!("cd {}/$OMPI_COMM_WORLD_RANK", bench.path("").display());
    let sentence = Outcome::of(&mut in_processes(2, &predict, &own)).refused_by_one();
    assert_says(&sentence, &["rank 1 on ", "another list of images"]);
    assert!(files(&masks).is_empty(), "nothing is drawn");
}

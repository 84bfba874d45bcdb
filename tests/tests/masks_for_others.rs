//! Masks of predictions as NIfTI and DICOM SEG, as nibabel, pydicom and highdicom read them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use kindling_tests::{Bench, Optional, Outcome, Suite, Test, columns, kindling, picture_folder, train};
use serde_json::Value;

const UNET: &str = "unet-timm-mobilenetv3_small_100";

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_PYTHON" };
    let mut suite = Suite::new();
    suite.add(
        &need,
        vec![
            Test::new("others_read_the_masks_that_were_drawn_and_eval_finds_no_difference", others_read_the_masks),
            Test::new("what_cannot_have_a_mask_of_a_format_is_named_and_no_image_is_replaced", mistakes),
        ],
    );
    suite.run()
}

fn python() -> Command {
    Command::new(env::var_os("KINDLING_PYTHON").unwrap_or_else(|| "python3".into()))
}

fn missing() -> Option<String> {
    let mut command = python();
    command.args(["-c", "import highdicom, nibabel, numpy, PIL, pydicom"]);
    let works = command.output().is_ok_and(|output| output.status.success());
    let missing = "Python with highdicom, nibabel, numpy, Pillow and pydicom: set KINDLING_PYTHON to one that has them";
    (!works).then(|| missing.to_string())
}

/// Runs the script beside this file, which fails with what differs.
fn script(what: &str, folder: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/masks_for_others.py");
    let ran = python().arg(script).arg(what).arg(folder).output().expect("Python starts");
    assert!(ran.status.success(), "{what}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A run that has seen discs, and a folder with scans of discs.
fn run_and_scans() -> (Bench, PathBuf, PathBuf) {
    let bench = Bench::for_model(UNET, 8);
    let flags = format!("--model {UNET} --image-size 64 --batch-size 4 --epochs 6 --lr 0.01 --augment none");
    let run = bench.run("run", &flags, "");
    let scans = bench.path("others");
    fs::create_dir(&scans).expect("a folder");
    script("make", &scans);
    (bench, run, scans)
}

fn predict(run: &Path, images: &Path, format: &str, out: &Path) -> Outcome {
    let mut command = kindling();
    command.args(["predict", "--device", "cpu", "--mask-format", format]).args([run, images]).arg("--out").arg(out);
    Outcome::of(&mut command)
}

fn others_read_the_masks() {
    let (_bench, run, folder) = run_and_scans();
    let at = |name: &str| folder.join(name);
    for (images, format) in [("volumes", "nifti"), ("scans", "dicom-seg")] {
        let said = predict(&run, &at(images), format, &at("masks")).succeeded().stdout;
        assert_eq!(said.lines().count(), 3, "a line a volume or series: {said}");
        predict(&run, &at(images), "png", &at("pictures")).succeeded();
    }
    script("check", &folder);

    // As truth the masks are what the network says, so that the score is 1.
    for images in ["volumes", "scans"] {
        let data = at(&format!("{images}-scored"));
        fs::create_dir_all(data.join("masks")).expect("a folder");
        fs::rename(at(images), data.join("images")).expect("a folder");
        let is_volume = |path: &Path| path.to_string_lossy().ends_with(".nii.gz");
        for mask in fs::read_dir(at("masks")).expect("a folder").map(|entry| entry.expect("a file").path()) {
            if is_volume(&mask) == (images == "volumes") {
                fs::copy(&mask, data.join("masks").join(mask.file_name().expect("a name"))).expect("a file");
            }
        }
        let cases = at(&format!("{images}.csv"));
        let mut eval = kindling();
        eval.args(["eval", "--device", "cpu", "--format", "json"]).arg(&run).arg("--data").arg(&data);
        eval.arg("--predictions").arg(&cases);
        let outcome = Outcome::of(&mut eval).succeeded();
        let scores: Value = outcome.result();
        assert_eq!(scores["scores"]["dice"]["value"].as_f64(), Some(1.0), "{images}: {scores}");
        if images == "scans" {
            // Those of a file with several images lie nowhere in space.
            assert_eq!((&scores["scores"]["unit"], scores["scores"]["cases"].as_u64()), (&"pixels".into(), Some(12)));
            assert!(outcome.stderr.contains("nothing says where"), "{}", outcome.stderr);
            for part in ["images", "masks"] {
                fs::remove_file(data.join(part).join("several.dcm")).expect("a file");
            }
        }
        let scores: Value = Outcome::of(&mut eval).succeeded().result();
        let names: Vec<String> = columns(&cases, ["sample"]).into_iter().map(|[name]| name).collect();
        let count = if images == "scans" { 1 } else { 2 };
        assert_eq!((names.len(), scores["scores"]["dice"]["value"].as_f64()), (count, Some(1.0)), "{names:?}");
        assert_eq!((&scores["scores"]["unit"], scores["scores"]["cases"].as_u64()), (&"mm".into(), Some(count as u64)));
        let is_volume = |name: &String| name.contains(".nii") || name.ends_with(".4.2");
        assert!(names.iter().all(is_volume), "a file, or a Series Instance UID: {names:?}");
    }
}

fn mistakes() {
    let (bench, run, folder) = run_and_scans();
    let (volumes, out) = (folder.join("volumes"), bench.path("out"));
    for (images, format, says) in [
        (folder.join("scans"), "nifti", "no NIfTI volume"),
        (volumes.clone(), "dicom-seg", "no DICOM file"),
        (bench.data().join("images"), "nifti", "no NIfTI volume"),
    ] {
        let outcome = predict(&run, &images, format, &out);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
        assert_eq!(fs::read_dir(&out).expect("a folder").count(), 0, "nothing is written for {format}");
    }
    let before = fs::read(volumes.join("upright.nii.gz")).expect("a file");
    let sentence = predict(&run, &volumes, "nifti", &volumes).refused();
    assert!(sentence.contains("would replace an image"), "{sentence}");
    assert!(before == fs::read(volumes.join("upright.nii.gz")).expect("a file"), "the image is as it was");

    let (pictures, classifier) = (bench.path("pictures"), bench.path("classifier"));
    picture_folder(&pictures, 6);
    Outcome::of(&mut train(&pictures, &classifier, "--batch-size 4 --max-steps 1")).succeeded();
    let sentence = predict(&classifier, &pictures, "nifti", &out).refused();
    assert!(sentence.contains("--mask-format is about masks"), "{sentence}");
}

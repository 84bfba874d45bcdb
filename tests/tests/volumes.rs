//! Volumes as cases: the scores of all slices of a volume together, with distances in millimetres.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use kindling_tests::{
    Bench, Outcome, SPACING, VOLUME, VolumeFile, columns, empty_planes, json_of, kindling, volume_folder,
};
use serde_json::Value;

const UNET: &str = "unet-timm-mobilenetv3_small_100";
/// 10 are trained on, 2 validate and 2 test.
const COUNT: usize = 14;
const SCORES: [&str; 9] = [
    "sample",
    "group",
    "dice",
    "iou",
    "hausdorff_95",
    "surface_dice",
    "true_positives",
    "false_positives",
    "false_negatives",
];

fn run() -> (Bench, PathBuf, PathBuf) {
    let bench = Bench::for_model(UNET, 1);
    let (data, run) = (bench.path("volumes"), bench.path("run"));
    volume_folder(&data, COUNT);
    let mut train = kindling();
    train.args(["train", "--device", "cpu", "--quiet", "--model", UNET, "--image-size", "64", "--batch-size", "4"]);
    train.args(["--epochs", "3", "--lr", "0.01", "--augment", "none", "--workers", "1", "--data"]);
    Outcome::of(train.arg(&data).arg("--out").arg(&run)).succeeded();
    (bench, data, run)
}

fn eval(run: &Path, cases: &Path, flags: &str) -> Value {
    let mut eval = kindling();
    eval.args(["eval", "--device", "cpu", "--format", "json"]).arg(run).arg("--predictions").arg(cases);
    Outcome::of(eval.args(flags.split_whitespace())).succeeded().result()
}

/// The planes, from the lowest, that `predict` draws of a volume, as the slices show them: the right is on the left, and the front up.
fn drawn(run: &Path, data: &Path, index: usize, out: &Path) -> Vec<bool> {
    let mut predict = kindling();
    predict.args(["predict", "--device", "cpu"]).arg(run).arg(data.join(format!("images/{index:02}.nii")));
    Outcome::of(predict.arg("--out").arg(out)).succeeded();
    let ([width, height, depth], empty) = (VOLUME, empty_planes(index));
    let mut volume = vec![false; empty * width * height];
    for plane in 0..depth - empty {
        let mask = image::open(out.join(format!("{index:02}_{plane:04}.png"))).unwrap().to_luma8();
        assert_eq!(mask.dimensions(), (width as u32, height as u32));
        volume.extend(mask.as_raw().iter().map(|class| *class > 0));
    }
    volume
}

/// The true mask of a volume, in the same order.
fn truth(index: usize) -> Vec<bool> {
    let [width, height, depth] = VOLUME;
    let mask = VolumeFile::new(index, empty_planes(index)).mask;
    let stored = |at: usize| {
        let (column, row, plane) = (at % width, at / width % height, at / width / height);
        (plane * height + height - 1 - row) * width + width - 1 - column
    };
    (0..width * height * depth).map(|at| mask[stored(at)] > 0).collect()
}

/// Where a mask has a neighbour across a face, or the end of the volume, that does not belong to it: MONAI's edge. In mm.
fn edge(mask: &[bool]) -> Vec<[f64; 3]> {
    let [width, height, depth] = VOLUME;
    let at = |x: usize, y: usize, z: usize| x < width && y < height && z < depth && mask[(z * height + y) * width + x];
    let mut edge = Vec::new();
    for index in (0..mask.len()).filter(|index| mask[*index]) {
        let (x, y, z) = (index % width, index / width % height, index / width / height);
        let around = [
            at(x.wrapping_sub(1), y, z),
            at(x + 1, y, z),
            at(x, y.wrapping_sub(1), z),
            at(x, y + 1, z),
            at(x, y, z.wrapping_sub(1)),
            at(x, y, z + 1),
        ];
        if around.contains(&false) {
            let place = [x, y, z];
            edge.push(std::array::from_fn(|axis| place[axis] as f64 * f64::from(SPACING[axis])));
        }
    }
    edge
}

/// The distances from each point to the nearest of the others, sorted.
fn distances(from: &[[f64; 3]], to: &[[f64; 3]]) -> Vec<f64> {
    let apart = |a: &[f64; 3], b: &[f64; 3]| (0..3).map(|axis| (a[axis] - b[axis]).powi(2)).sum::<f64>().sqrt();
    let mut found: Vec<f64> =
        from.iter().map(|a| to.iter().map(|b| apart(a, b)).fold(f64::INFINITY, f64::min)).collect();
    found.sort_by(f64::total_cmp);
    found
}

/// `numpy.percentile`.
fn percentile_95(sorted: &[f64]) -> f64 {
    let rank = 0.95 * (sorted.len() - 1) as f64;
    let (below, share) = (rank.floor() as usize, rank.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * share
}

fn close(found: &str, expected: f64, what: &str) {
    let found: f64 = found.parse().unwrap_or_else(|_| panic!("{what} is {found:?}, expected {expected}"));
    assert!((found - expected).abs() < 1e-5, "{what} is {found}, expected {expected}");
}

#[test]
fn a_volume_is_one_case_whose_scores_are_those_of_all_its_voxels() {
    let (bench, data, run) = run();
    let (volumes, slices) = (bench.path("volumes.csv"), bench.path("slices.csv"));
    let scores = eval(&run, &volumes, "--split all");
    assert_eq!((&scores["scores"]["cases"], &scores["scores"]["unit"]), (&COUNT.into(), &"mm".into()));
    let by_slice = eval(&run, &slices, "--split all --by-slice");
    assert_eq!(by_slice["scores"]["unit"], "pixels");
    assert_eq!(by_slice["scores"]["patients"], COUNT, "slices of a volume are of one patient");
    assert_eq!(by_slice["score"], scores["score"], "what is counted pixel by pixel does not depend on what a case is");

    let cases = columns(&volumes, SCORES);
    assert_eq!(cases.len(), COUNT);
    let of_slices = columns(&slices, SCORES);
    let kept: usize = (0..COUNT).map(|index| VOLUME[2] - empty_planes(index)).sum();
    assert_eq!(of_slices.len(), kept);
    for [sample, group, dice, iou, hausdorff_95, surface_dice, counts @ ..] in &cases {
        let index: usize = sample.trim_start_matches("images/").trim_end_matches(".nii").parse().unwrap();
        assert_eq!(sample, &format!("images/{group}.nii"));
        let slices = of_slices.iter().filter(|slice| slice[0].starts_with(&format!("{sample}#")));
        let mut sums = [0; 3];
        for slice in slices {
            sums.iter_mut().zip(&slice[6..]).for_each(|(sum, count)| *sum += count.parse::<u64>().unwrap());
        }
        assert_eq!(counts.iter().map(|count| count.parse().unwrap()).collect::<Vec<u64>>(), sums, "{sample}");

        let (found, truth) = (drawn(&run, &data, index, &bench.path("masks")), truth(index));
        let count = |of: fn(bool, bool) -> bool| found.iter().zip(&truth).filter(|(a, b)| of(**a, **b)).count() as f64;
        let (both, all) = (count(|a, b| a && b), count(|a, _| a) + count(|_, b| b));
        close(dice, 2.0 * both / all, &format!("{sample}: Dice"));
        close(iou, both / (all - both), &format!("{sample}: IoU"));
        let (found, truth) = (edge(&found), edge(&truth));
        if found.is_empty() {
            assert_eq!(hausdorff_95, "", "{sample}: nothing was found");
            continue;
        }
        let (forth, back) = (distances(&found, &truth), distances(&truth, &found));
        close(hausdorff_95, percentile_95(&forth).max(percentile_95(&back)), &format!("{sample}: HD95"));
        let near = forth.iter().chain(&back).filter(|distance| **distance <= 2.0).count() as f64;
        close(surface_dice, near / (forth.len() + back.len()) as f64, &format!("{sample}: surface Dice"));
    }
}

#[test]
fn a_run_on_volumes_ends_with_volumes_as_cases() {
    let (bench, _, run) = run();
    let kept = json_of(&run.join("segmentation.json"));
    let cases = columns(&run.join("cases.csv"), ["sample", "split"]);
    let of_test = cases.iter().filter(|[_, split]| split == "test").count();
    assert_eq!((&kept["cases"], &kept["unit"]), (&of_test.into(), &"mm".into()));
    assert!(
        of_test > 0 && (of_test + 1..COUNT).contains(&cases.len()),
        "some volumes validate, and some test: {cases:?}"
    );
    assert!(cases.iter().all(|[sample, _]| sample.ends_with(".nii")), "{cases:?}");
    let again = eval(&run, &bench.path("again.csv"), "");
    assert_eq!(again["scores"]["dice"], kept["dice"]);
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains(".nii#") && page.contains("mm"), "pictures are of slices, and distances in mm");
}

/// A slice that cannot be read takes its volume with it, and images without a place in space stay cases of their own.
#[test]
fn what_is_no_whole_volume_is_said_or_left_out() {
    let (bench, data, run) = run();
    fs::copy(bench.data().join("images/01.png"), data.join("images/flat.png")).unwrap();
    let mask = image::open(bench.data().join("masks/01.png")).unwrap().to_luma8();
    let mask = image::GrayImage::from_fn(mask.width(), mask.height(), |x, y| image::Luma([mask[(x, y)].0[0].min(1)]));
    mask.save(data.join("masks/flat.png")).unwrap();
    let mut eval = kindling();
    eval.args(["eval", "--device", "cpu", "--format", "json"]).arg(&run).arg("--data").arg(&data);
    let outcome = Outcome::of(&mut eval).succeeded();
    assert_eq!(outcome.result()["scores"]["unit"], "pixels");
    assert!(
        outcome.stderr.contains("each slice is scored as a case of its own") && outcome.stderr.contains("flat.png")
    );
}

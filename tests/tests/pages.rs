//! The pages that benchmarks, profiles and runs leave.
#![allow(clippy::unwrap_used)]

use std::fs;

use kindling_tests::{Bench, Outcome, json_of, kindling, train};
use tempfile::tempdir;

fn numbers(page: &str, class: &str, attribute: &str) -> Vec<f64> {
    let of = |piece: &str| piece.split(&format!("{attribute}=\"")).nth(1)?.split('"').next()?.parse().ok();
    page.split(&format!("class=\"{class}\"")).skip(1).filter_map(of).collect()
}

#[test]
fn bars_of_one_kind_share_one_scale() {
    let folder = tempdir().unwrap();
    let (page, rows) = (folder.path().join("page.html"), folder.path().join("rows.json"));
    let words = "bench infer --models mobilenet_v3_small,resnet50 --device cpu --image-size 64 --batch-size 2 --windows 3 \
                 --window-seconds 0.05 --warmup 1 --no-isolate";
    let mut command = kindling();
    command.args(words.split_whitespace()).arg("--html").arg(&page).arg("--out").arg(&rows);
    Outcome::of(&mut command).succeeded();
    let rows = json_of(&rows);
    let speed = |index: usize| rows["rows"][index]["measured"]["images_per_second"]["median"].as_f64().unwrap();
    let bars = numbers(&fs::read_to_string(page).unwrap(), "bar", "width");
    assert_eq!(bars.len(), 2);
    let (bars, speeds) = (bars[0] / bars[1], speed(0) / speed(1));
    assert!((bars / speeds - 1.0).abs() < 0.05, "bars differ {bars} times and speeds {speeds} times");
}

#[test]
fn the_page_of_a_profile_looks_like_the_others() {
    let folder = tempdir().unwrap();
    for (model, bar) in [("mobilenet_v3_small", "block 0.0: "), ("unet-mobilenet_v2", "decoder: ")] {
        let page = folder.path().join(model).with_extension("html");
        let mut command = kindling();
        command.args(["profile", "--model", model]);
        command.args("--image-size 32 --batch-size 2 --steps 1 --roofline --out".split(' ')).arg(&page);
        Outcome::of(&mut command).succeeded();
        let text = fs::read_to_string(page).unwrap();
        for part in [
            "class=\"brand\"",
            "<main>",
            "<section>",
            "class=\"facts\"",
            "How far from the limit",
            "This page is one file and loads nothing.",
            bar,
        ] {
            assert!(text.contains(part), "{model}: {part} is not on the page");
        }
        // Time and memory: each whole fills the page, and parts fill the part above them.
        let widths: Vec<f64> =
            text.split("flex: 0 0 ").skip(1).map(|rest| rest.split('%').next().unwrap().parse().unwrap()).collect();
        assert!(widths.iter().filter(|width| (**width - 100.0).abs() < 1e-3).count() >= 2, "{model}: {widths:?}");
        assert!(widths.iter().all(|width| (0.0..=100.001).contains(width)), "{model}: {widths:?}");
    }
}

#[test]
fn what_is_said_of_an_axis_is_so() {
    let bench = Bench::new(40);
    let mut notes = 0;
    // Learning rates far too high let the loss jump, so that a few steps lie above the axis.
    // Which of them do so is left to the samples' order.
    for (lr, seed) in ["1", "10", "100"].into_iter().flat_map(|lr| (0..5).map(move |seed| (lr, seed))) {
        if notes > 0 {
            break;
        }
        let run = bench.path(&format!("{lr}-{seed}"));
        let flags = format!(
            "--batch-size 2 --epochs 2 --max-steps 50 --optimizer sgd --lr {lr} --seed {seed} --warmup 0 --clip-norm 1"
        );
        Outcome::of(&mut train(bench.data(), &run, &flags)).succeeded();
        let report = fs::read_to_string(run.join("report.html")).unwrap();
        for figure in report.split("<figure").filter(|figure| figure.contains("Values above ")) {
            let number = |text: &str| text.split([' ', '\u{a0}', '<']).next()?.parse::<f64>().ok();
            let edge = number(figure.split("Values above ").nth(1).unwrap()).unwrap();
            let ticks: Vec<f64> = figure.split("text-anchor=\"end\">").skip(1).filter_map(number).collect();
            assert!(ticks.contains(&edge), "the axis has {ticks:?}, and the note says {edge}");
            notes += 1;
        }
    }
    assert!(notes > 0, "no loss jumped");
}

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
    let page = folder.path().join("profile.html");
    let mut command = kindling();
    command.args("profile --image-size 32 --batch-size 2 --steps 1 --out".split(' ')).arg(&page);
    Outcome::of(&mut command).succeeded();
    let text = fs::read_to_string(page).unwrap();
    for part in ["class=\"brand\"", "<main>", "<section>", "class=\"facts\"", "This page is one file and loads nothing."] {
        assert!(text.contains(part), "{part} is not on the page");
    }
}

#[test]
fn what_is_said_of_an_axis_is_so() {
    let bench = Bench::new(40);
    let run = bench.path("run");
    // A first learning rate far too high lets the loss jump, so that a few steps lie above the axis.
    let flags = "--batch-size 2 --epochs 1 --max-steps 40 --optimizer sgd --lr 3 --warmup 0";
    Outcome::of(&mut train(bench.data(), &run, flags)).succeeded();
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    let notes: Vec<f64> = report
        .split("Values above ")
        .skip(1)
        .filter_map(|rest| rest.split(" are drawn").next()?.parse().ok())
        .collect();
    for figure in report.split("<figure").filter(|figure| figure.contains("Values above ")) {
        let edge: f64 = figure.split("Values above ").nth(1).unwrap().split([' ', '\u{a0}']).next().unwrap().parse().unwrap();
        let ticks: Vec<f64> = figure
            .split("text-anchor=\"end\">")
            .skip(1)
            .filter_map(|rest| rest.split(['<', '\u{a0}']).next()?.parse().ok())
            .collect();
        assert!(ticks.contains(&edge), "the axis ends at {ticks:?}, and the note says {edge}");
    }
    println!("{} notes", notes.len());
}

//! What the page about a model that segments promises.

use kindling_metrics::{
    ClassMaskScores, FlowRow, LabelMap, LengthUnit, Resampling, SegmentationScorer, SegmentedClass, SurfaceDice,
};
use kindling_runs::{DeviceFacts, SegmentationSummary};

use super::super::embedded;
use super::super::tests::{keep, step};
use super::*;
use crate::colours::{FALSELY_FOUND, MISSED, WRONG_CLASS, class_colour};

/// Pixels along each side of the pictures.
const SIDE: usize = 128;

/// A scan with an organ, a smaller one and a spot, which some cases have not: the class of each pixel. The answer of a bad case is off.
fn labels(case: usize, answer: bool) -> Vec<u8> {
    let off = if answer { (case % 9) as f64 * 0.006 } else { 0.0 };
    let inside = |x: f64, y: f64, (cx, cy): (f64, f64), (rx, ry): (f64, f64)| {
        ((x - cx) / rx).powi(2) + ((y - cy) / ry).powi(2) < 1.0
    };
    let turn = case as f64 * 0.7;
    let (dx, dy) = (0.03 * turn.sin(), 0.03 * turn.cos());
    let class = |index: usize| {
        let (x, y) = ((index % SIDE) as f64 / SIDE as f64 - dx, (index / SIDE) as f64 / SIDE as f64 - dy);
        let spot = !(case.is_multiple_of(5) || answer && case.is_multiple_of(7));
        match () {
            () if spot && inside(x, y, (0.38 + off, 0.44), (0.05, 0.06)) => 3,
            () if inside(x, y, (0.38 + off, 0.45), (0.17, 0.2)) => 1,
            () if inside(x, y, (0.66, 0.55 - off), (0.08, 0.1 + off)) => 2,
            () => 0,
        }
    };
    (0..SIDE * SIDE).map(class).collect()
}

/// A grey picture of these organs.
fn scan(labels: &[u8]) -> Vec<u8> {
    let grey = |(index, label): (usize, &u8)| {
        let (x, y) = ((index % SIDE) as f64 - 64.0, (index / SIDE) as f64 - 64.0);
        let grain = ((index * 7919) % 23) as f64;
        let body = if x.hypot(1.2 * y) < 56.0 { 60.0 } else { 4.0 };
        (body + [0.0, 60.0, 90.0, 130.0][usize::from(*label)] + grain) as u8
    };
    labels.iter().enumerate().map(grey).collect()
}

/// A PNG of 8 bits of grey, or of 4 bits that number the colours of a palette, the first of which is transparent. It is not compressed.
fn png(pixels: &[u8], palette: &[[u8; 3]]) -> Vec<u8> {
    let rows = pixels.chunks(SIDE).map(|row| match palette {
        [] => row.to_vec(),
        _ => row.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect(),
    });
    let raw: Vec<u8> = rows.flat_map(|row| [vec![0], row].concat()).collect();
    let mut data = vec![0x78, 0x01, 1];
    let length = u16::try_from(raw.len()).unwrap();
    data.extend(length.to_le_bytes().into_iter().chain((!length).to_le_bytes()));
    data.extend(&raw);
    let (a, b) = raw.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    data.extend((b << 16 | a).to_be_bytes());
    let side = (SIDE as u32).to_be_bytes();
    let kind: [u8; 5] = if palette.is_empty() { [8, 0, 0, 0, 0] } else { [4, 3, 0, 0, 0] };
    let opaque: Vec<u8> = std::iter::once(0).chain(palette.iter().map(|_| 150)).collect();
    let colours = [vec![[0; 3]], palette.to_vec()].concat().concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    file.extend(chunk(b"IHDR", &[&side[..], &side, &kind].concat()));
    if !palette.is_empty() {
        file.extend(chunk(b"PLTE", &colours).into_iter().chain(chunk(b"tRNS", &opaque)));
    }
    file.extend(chunk(b"IDAT", &data).into_iter().chain(chunk(b"IEND", &[])));
    file
}

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let counted = [&kind[..], data].concat();
    let remainder = counted.iter().fold(u32::MAX, |remainder, byte| {
        let shift = |rest: u32| if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 };
        (0..8).fold(remainder ^ u32::from(*byte), |rest, _| shift(rest))
    });
    [&(data.len() as u32).to_be_bytes()[..], &counted, &(!remainder).to_be_bytes()].concat()
}

fn classes() -> Vec<NamedClass> {
    (1..).zip(["liver", "left kidney", "lesion"]).map(|(label, name)| NamedClass { name: name.into(), label }).collect()
}

fn cases(count: usize) -> Vec<SegmentedCase> {
    let scored = (1..=3).map(|index| SegmentedClass { index, tolerance: 2.0 }).collect();
    let scorer = SegmentationScorer::new(scored, None, SurfaceDice::Voxels).unwrap();
    let case = |number: usize| {
        let (truth, answer) = (labels(number, false), labels(number, true));
        let shape = [SIDE, SIDE];
        let [truth, answer] = [&truth, &answer].map(|labels| LabelMap::new(labels, &shape).unwrap());
        SegmentedCase {
            sample: format!("scans/patient-{:03}/slice-{number}.png", number / 2),
            group: Some((number / 2).to_string()),
            split: "test".into(),
            scores: scorer.case(&answer, &truth, &[1.0, 1.0]).unwrap(),
        }
    };
    (0..count).map(case).collect()
}

fn picture(case: &SegmentedCase, number: usize, shown: ShownCase) -> MaskPicture {
    let (truth, answer) = (labels(number, false), labels(number, true));
    let differs = |(truth, answer): (&u8, &u8)| match (truth, answer) {
        (truth, answer) if truth == answer => 0,
        (_, 0) => 1,
        (0, _) => 2,
        _ => 3,
    };
    let difference: Vec<u8> = truth.iter().zip(&answer).map(differs).collect();
    let colours = [1, 2, 3].map(class_colour);
    let names = classes();
    MaskPicture {
        png: png(&scan(&truth), &[]),
        truth: png(&truth, &colours),
        prediction: png(&answer, &colours),
        difference: png(&difference, &[MISSED, FALSELY_FOUND, WRONG_CLASS]),
        shown,
        name: case.sample.clone(),
        dice: names.into_iter().zip(&case.scores).map(|(class, scores)| (class.name, scores.dice)).collect(),
    }
}

/// A run that segments 40 test cases.
struct Run {
    classes: Vec<NamedClass>,
    events: Vec<Event>,
    metrics: Metrics,
    cases: Vec<SegmentedCase>,
    scores: Option<SegmentationScores>,
    environment: Environment,
    pictures: Vec<MaskPicture>,
    position_dice: Option<f64>,
}

fn evaluated(step: u64, epoch: u64, split: &str, dice: f64) -> Event {
    let (split, loss) = (split.to_owned(), 0.9 - 0.8 * dice);
    let (accuracy, dice, mae, r2) = (Some(0.97), Some(dice), None, None);
    Event::Evaluated { step, epoch, split, loss, accuracy, samples: 20, dice, mae, r2 }
}

impl Run {
    fn new() -> Self {
        let cases = cases(40);
        let resampling = Resampling { resamples: 300, seed: 0 };
        let mut scores =
            SegmentationScores::of("test", &classes(), (2.0, LengthUnit::Pixels), &cases, resampling).unwrap();
        let row =
            |split: &str, images: usize| FlowRow { split: split.into(), images, patients: images / 2, left_out: 0 };
        scores.flow = vec![row("train", 120), row("val", 40), row("test", 40)];
        let epochs = (1..=8_u64).map(|epoch| evaluated(40 * epoch, epoch, "validation", 0.9 - 0.7 / epoch as f64));
        let steps = (1..=320).map(|at| step(at, at.div_ceil(40), 0.2 + 0.8 / (1.0 + at as f64 / 30.0)));
        let mut events: Vec<Event> = steps.chain(epochs).collect();
        events.extend([evaluated(320, 8, "test", scores.dice.value), Event::Finished { step: 320, seconds: 252.4 }]);
        let shown = [(8, ShownCase::Worst), (17, ShownCase::Worst), (35, ShownCase::Worst), (4, ShownCase::Typical)];
        let shown = shown.into_iter().chain([(13, ShownCase::Typical), (9, ShownCase::Best), (18, ShownCase::Best)]);
        let pictures = shown.map(|(number, why)| picture(&cases[number], number, why)).collect();
        let facts = DeviceFacts { device: "cpu".into(), ..DeviceFacts::default() };
        let reached = SegmentationSummary {
            test_dice: Some(scores.dice.value),
            validation_dice: Some(0.8125),
            position_dice: Some(0.603),
        };
        let metrics = Metrics {
            segmentation: Some(reached),
            parameters: 812_345,
            best_epoch: Some(7),
            steps: 320,
            epochs: 8,
            images_per_second: 41.53,
            peak_memory_bytes: 3 << 30,
            seconds: 252.4,
            ..Metrics::default()
        };
        let environment = Environment::collect("0.22.1", facts);
        let (scores, position_dice) = (Some(scores), Some(0.603));
        Self { classes: classes(), events, metrics, cases, scores, environment, pictures, position_dice }
    }

    fn html(&self) -> String {
        let report = SegmentationReport {
            title: "20260701-140509-unet-scans",
            model: "unet_mobilenet_v3_small",
            data: "scans",
            classes: &self.classes,
            config_toml: "seed = 7",
            events: &self.events,
            metrics: &self.metrics,
            scores: self.scores.as_ref(),
            cases: &self.cases,
            environment: &self.environment,
            history: &[],
            pictures: &self.pictures,
            position_dice: self.position_dice,
        };
        report.html().replace('\u{a0}', " ")
    }
}

#[test]
fn the_page_says_its_verdict_against_position_alone() {
    let mut run = Run::new();
    let html = run.html();
    keep("segmentation.html", &html);
    let scores = run.scores.as_mut().unwrap();
    scores.dice.value = 0.8421;
    scores.dice.interval = Some((0.80, 0.87));
    let html = run.html();
    assert!(html.contains("Mean foreground Dice 0.842 on the test split, against 0.603 by position alone"), "{html}");
    assert!(html.contains("40 cases of 20 patients. Intervals: 300 resamples of the patients, with all cases of each"));
    assert!(html.contains("95 % interval 0.800 to 0.870. ") && html.contains("position alone 0.603"), "{html}");
    run.position_dice = Some(0.82);
    assert!(run.html().contains("not clearly better than position alone (0.820)"), "the interval reaches below it");
    run.position_dice = Some(0.85);
    assert!(run.html().contains("no better than position alone (0.850)"));
    run.scores.as_mut().unwrap().split = "val".into();
    assert!(run.html().contains("0.842 on the val split<"), "position's Dice is that of the test split");
    run.scores.as_mut().unwrap().split = "test".into();
    run.position_dice = None;
    let html = run.html();
    assert!(
        html.contains("Mean foreground Dice 0.842 on the test split<") && !html.contains("osition alone"),
        "{html}"
    );
}

#[test]
fn every_class_has_its_means_medians_and_dots() {
    let html = Run::new().html();
    for text in [
        "<h3>Dice of every case",
        "<h3>HD95 of every case<span class=\"unit\"> in pixels</span>",
        "surface Dice at 2 pixels",
        "aria-label=\"Dice of every case; liver: median",
        "<th scope=\"row\">all classes</th>",
        "lesion: of 40 cases, 8 have it neither in the truth nor in the answer and do not count; 4 have it in only one of them, which is a \
         Dice of 0 and no distance.",
        "<title>scans/patient-000/slice-0.png: 1.000</title>",
        "Mean foreground Dice; validation: 0.200 at epoch 1",
        "position alone 0.603",
        "validation Dice</th>",
        "<th scope=\"row\">train</th><td>60</td><td>120</td><td>0</td>",
    ] {
        assert!(html.contains(text), "{text}\n{html}");
    }
    let dots = html.matches("<title>scans/").count();
    let defined: usize =
        (1..=3).map(|label| defined(label, |scores| scores.dice) + defined(label, |scores| scores.hausdorff_95)).sum();
    assert_eq!(dots, defined, "a dot for every case that has the score");
    assert!(!html.contains("NaN"), "{html}");
}

fn defined(label: u32, score: fn(&ClassMaskScores) -> f64) -> usize {
    let cases = cases(40);
    cases
        .iter()
        .flat_map(|case| &case.scores)
        .filter(|scores| scores.class == label && score(scores).is_finite())
        .count()
}

#[test]
fn what_is_not_defined_is_said_in_words() {
    let mut run = Run::new();
    let scores = run.scores.as_mut().unwrap();
    scores.classes[0].summary.dice.undefined = 1;
    scores.classes[0].summary.hausdorff_95.undefined = 1;
    scores.classes[1].summary.hausdorff_95.undefined = 1;
    let html = run.html();
    assert!(
        html.contains("liver: of 40 cases, 1 has it neither in the truth nor in the answer and does not count."),
        "{html}"
    );
    assert!(
        html.contains("left kidney: of 40 cases, 1 has it in only one of truth and answer, which is a Dice of 0"),
        "{html}"
    );
    let scores = run.scores.as_mut().unwrap();
    for class in &mut scores.classes {
        (class.summary.dice.undefined, class.summary.hausdorff_95.undefined) = (0, 0);
    }
    scores.dice = Figure { name: "mean_dice".into(), value: f64::NAN, interval: None };
    let html = run.html();
    assert!(html.contains("Every score is defined in every case."));
    assert!(html.contains("Mean foreground Dice is not defined on the test split") && !html.contains("NaN"), "{html}");
}

#[test]
fn cases_stand_in_groups_and_each_has_its_masks_in_the_colours_of_the_legend() {
    let mut run = Run::new();
    let html = run.html();
    let places =
        ["Worst cases", "slice-8.png<", "slice-35.png<", "Typical cases", "slice-4.png<", "Best cases", "slice-9.png<"];
    let places = places.map(|text| html.find(text).unwrap_or_else(|| panic!("{text}")));
    assert!(places.is_sorted(), "{places:?}");
    for layer in ["difference", "prediction", "truth"] {
        assert_eq!(html.matches(&format!("class=\"layer {layer}\"")).count(), 7, "{layer}");
        assert_eq!(
            html.matches(&format!("name=\"layer\" value=\"{layer}\"")).count(),
            1,
            "one switch for all: {layer}"
        );
    }
    let first = &run.pictures[0];
    for (layer, png) in [("difference", &first.difference), ("prediction", &first.prediction), ("truth", &first.truth)]
    {
        assert!(html.contains(&format!("<img class=\"layer {layer}\" src=\"{}\"", embedded(png))), "{layer}");
    }
    assert_eq!(html.matches("\" checked").count(), 1, "the page opens with one of them");
    let swatch =
        |colour: &str| format!("<span class=\"swatch\" style=\"background:{colour}\" aria-hidden=\"true\"></span>");
    for (colour, name) in [("#e69f00", "liver"), ("#56b4e9", "left kidney"), ("#009e73", "lesion")] {
        assert!(html.contains(&format!("{}{name}</li>", swatch(colour))), "{name}");
    }
    for (colour, name) in [("#d55e00", "missed"), ("#0072b2", "falsely found"), ("#cc79a7", "wrong class")] {
        assert!(html.contains(&format!("{}{name}</li>", swatch(colour))), "{name}");
    }
    assert!(html.contains("lesion <b>–</b>"), "a class that a case has not has no Dice there");
    assert!(html.contains("alt=\"scans/patient-004/slice-8.png: Dice liver 0."), "{html}");
    run.classes.truncate(1);
    assert!(!run.html().contains("wrong class"), "one class is not taken for another");
    run.pictures.clear();
    assert!(!run.html().contains("Cases of the test split"));
}

#[test]
fn the_page_asks_nothing_of_the_network() {
    let html = Run::new().html();
    for word in ["http://", "https://", "src=\"/", "url(", "@import", "<link"] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'") && html.contains("prefers-color-scheme: dark"));
}

#[test]
fn names_are_escaped() {
    let mut run = Run::new();
    let bad = "<script>alert(1)</script>\"'&";
    run.classes[0].name = bad.into();
    run.scores.as_mut().unwrap().classes[0].name = bad.into();
    run.cases[0].sample = bad.into();
    run.pictures[0].name = bad.into();
    run.pictures[0].dice[0].0 = bad.into();
    let html = run.html();
    assert!(!html.contains("<script>alert") && html.contains("&lt;script&gt;alert(1)"), "{html}");
}

#[test]
fn a_long_run_of_many_classes_cases_and_pictures_makes_a_page_of_less_than_three_megabytes() {
    let mut run = Run::new();
    run.classes = (1..=20).map(|label| NamedClass { name: format!("organ {label}"), label }).collect();
    let scores = |case: u32| {
        let class = move |class: u32| ClassMaskScores {
            class,
            voxels: Default::default(),
            dice: f64::from(case * class % 97) / 97.0,
            iou: 0.5,
            hausdorff_95: f64::from(case % 31),
            surface_dice: 0.5,
        };
        (1..=20).map(class).collect()
    };
    let case = |number| SegmentedCase {
        sample: format!("scans/patient-{number}/slice.png"),
        group: None,
        split: "test".into(),
        scores: scores(number),
    };
    run.cases = (0..3000).map(case).collect();
    let resampling = Resampling { resamples: 10, seed: 0 };
    let tolerance = (1.0, LengthUnit::Millimetres);
    run.scores = Some(SegmentationScores::of("test", &run.classes, tolerance, &run.cases, resampling).unwrap());
    run.events = (1..=40_000).map(|at| step(at, at.div_ceil(100), 1.0)).collect();
    run.events.extend((1..=400).map(|epoch| evaluated(epoch * 100, epoch, "validation", 0.5)));
    let large = run.pictures[0].clone();
    let group = |shown| (0..20).map(move |_| MaskPicture { shown, ..picture_of(60_000) });
    run.pictures = [ShownCase::Worst, ShownCase::Typical, ShownCase::Best].into_iter().flat_map(group).collect();
    run.pictures.push(large);
    let html = run.html();
    assert!(html.len() < 3_000_000, "{}", html.len());
    let shown = html.matches("class=\"layer truth\"").count();
    assert!(
        shown >= 20 && html.contains(&format!("{} more would have made this page too large", 61 - shown)),
        "{shown}"
    );
    for title in ["Worst cases", "Typical cases", "Best cases"] {
        assert!(html.contains(title), "each group has its share: {title}");
    }
}

/// A picture of about so many bytes.
fn picture_of(bytes: usize) -> MaskPicture {
    MaskPicture {
        png: vec![7; bytes / 2],
        truth: vec![7; bytes / 6],
        prediction: vec![7; bytes / 6],
        difference: vec![7; bytes / 6],
        shown: ShownCase::Worst,
        name: "large".into(),
        dice: Vec::new(),
    }
}

#[test]
fn a_run_of_which_little_is_known_still_has_a_page() {
    let mut run = Run::new();
    run.scores = None;
    let html = run.html();
    assert!(html.contains("on the test split, against 0.603") || html.contains("not clearly better"), "{html}");
    run.metrics.segmentation =
        Some(SegmentationSummary { validation_dice: Some(0.75), ..SegmentationSummary::default() });
    let html = run.html();
    assert!(
        html.contains("Mean foreground Dice 0.750 on the validation split<"),
        "position's is of the test split: {html}"
    );
    run.metrics = Metrics::default();
    run.events = vec![step(1, 1, f64::NAN)];
    (run.cases, run.pictures, run.classes) = Default::default();
    run.environment = Environment::default();
    let html = run.html();
    assert!(html.contains("Not evaluated yet") && html.contains("Not finished"), "{html}");
    assert!(!html.contains("Mean foreground Dice"), "{html}");
}

#[test]
fn pictures_of_the_tests_are_png() {
    let bytes = png(&[0; SIDE * SIDE], &[[1, 2, 3]]);
    // What `zlib.crc32(b"IEND")` gives in Python.
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR") && bytes.ends_with(&0xae42_6082_u32.to_be_bytes()));
}

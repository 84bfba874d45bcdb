//! Predictions and their scores: what a run writes, and the same from its table without the model.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use kindling_tests::{CLASSES, Outcome, json_of, kindling, picture_folder, train};
use serde_json::Value;
use tempfile::tempdir;

fn eval_from(table: &Path, flags: &str) -> Outcome {
    Outcome::of(kindling().arg("eval").arg("--from").arg(table).args(flags.split_whitespace()))
}

#[test]
fn a_run_writes_its_predictions_and_eval_finds_its_scores_in_them_without_the_model() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, 20);
    Outcome::of(&mut train(&data, &run, "--batch-size 4 --epochs 2 --seed 3")).succeeded();
    let scores = json_of(&run.join("scores.json"));
    let metrics = json_of(&run.join("metrics.json"));
    let accuracy = scores["figures"].as_array().unwrap().iter().find(|figure| figure["name"] == "accuracy").unwrap();
    assert_eq!(accuracy["value"], metrics["test"]["accuracy"], "the same images, counted twice");
    let ends = accuracy["interval"].as_array().unwrap().iter().map(|end| end.as_f64().unwrap()).collect::<Vec<_>>();
    assert!(ends[0] <= accuracy["value"].as_f64().unwrap() && accuracy["value"].as_f64().unwrap() <= ends[1]);
    let images = |row: &Value| row["images"].as_u64().unwrap();
    let flow = scores["flow"].as_array().unwrap();
    assert_eq!(flow.iter().map(images).sum::<u64>(), 20 * CLASSES.len() as u64, "{flow:?}");

    // The weights and the images are gone, and everything but the flow of the training images is found again, bit by bit.
    let table = folder.path().join("table.csv");
    fs::copy(run.join("predictions.csv"), &table).unwrap();
    let found = eval_from(&table, "--format json --seed 3").succeeded().result()["scores"].clone();
    for key in ["images", "patients", "resamples", "figures", "classes", "reliability", "temperature"] {
        assert_eq!(found[key], scores[key], "{key}");
    }
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    for text in ["ROC: ", "Precision and recall: ", "Reliability", "Flow of patients and images"] {
        assert!(report.contains(text), "{text}");
    }

    // What eval writes of the weights is what the run wrote of them.
    let again = folder.path().join("again.csv");
    let mut command = kindling();
    command.arg("eval").arg(&run).args(["--device", "cpu", "--format", "json", "--predictions"]).arg(&again);
    let told = Outcome::of(&mut command).succeeded().result();
    assert_eq!(told["scores"]["classes"], scores["classes"], "cut-offs are those of the run's validation images");
    let lines = |path: &Path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().filter(|line| !line.contains(",val,")).map(str::to_owned).collect()
    };
    assert_eq!(lines(&again), lines(&table));
    let own = run.join("predictions.csv");
    let mut command = kindling();
    command.arg("eval").arg(&run).args(["--device", "cpu", "--predictions"]).arg(&own);
    assert!(Outcome::of(&mut command).refused().contains("predictions.csv"));
}

#[test]
fn runs_are_compared_on_their_common_images_and_what_was_set_otherwise_is_named() {
    let folder = tempdir().unwrap();
    let (data, runs) = (folder.path().join("data"), ["first", "second"].map(|name| folder.path().join(name)));
    picture_folder(&data, 12);
    for (run, rate) in runs.iter().zip(["0.001", "0.01"]) {
        Outcome::of(&mut train(&data, run, &format!("--batch-size 4 --epochs 1 --lr {rate}"))).succeeded();
    }
    let compare = |second: &Path, flags: &[&str]| {
        Outcome::of(kindling().arg("compare").arg(&runs[0]).arg(second).args(["--resamples", "100"]).args(flags))
    };
    let told = compare(&runs[1], &["--format", "json"]).succeeded().result();
    let other = &told["against"][0];
    let settings: Vec<&str> =
        other["settings"].as_array().unwrap().iter().map(|of| of["key"].as_str().unwrap()).collect();
    assert_eq!(settings, ["train.lr"]);
    let scores = runs.each_ref().map(|run| json_of(&run.join("scores.json")));
    assert_eq!(other["scores"]["images"], scores[0]["images"]);
    let of = |figures: &Value, name: &str| -> f64 {
        let found = figures.as_array().unwrap().iter().find(|figure| figure["name"] == name);
        found.unwrap()["value"].as_f64().unwrap()
    };
    let difference = of(&scores[1]["figures"], "accuracy") - of(&scores[0]["figures"], "accuracy");
    assert_eq!(of(&other["scores"]["differences"], "accuracy"), difference);
    let table = compare(&runs[1], &[]).succeeded().stdout;
    assert!(table.contains("train.lr") && table.contains("McNemar"), "{table}");

    let list = |flags: &str| {
        Outcome::of(kindling().arg("runs").arg(folder.path()).args(flags.split_whitespace())).succeeded().stdout
    };
    let csv = list("--format csv --sort train.lr --reverse --columns train.lr");
    let column = |line: &str, place: usize| line.split(',').nth(place).unwrap().to_owned();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "the data is no run: {csv}");
    assert_eq!([1, 2].map(|line| column(lines[line], 12)), ["0.01", "0.001"], "{csv}");
    let accuracy = of(&scores[1]["figures"], "accuracy");
    assert_eq!(column(lines[1], 5).parse::<f64>().unwrap(), accuracy, "{csv}");
    assert_eq!(list("--where train.lr=0.01 --format json").lines().count(), 1);
    let sentence = Outcome::of(kindling().arg("runs").arg(folder.path()).args(["--sort", "acuracy"])).refused();
    assert!(sentence.contains("acuracy") && sentence.contains("macro_auroc"), "{sentence}");

    fs::remove_file(runs[1].join("predictions.csv")).unwrap();
    assert!(compare(&runs[1], &[]).refused().contains("no predictions.csv"));
}

/// A table as another program writes it: no split, no patients, and a column of its own.
fn foreign_table(path: &Path) {
    let row = |image: usize| {
        let (truth, p) = (["well", "ill"][image % 2], 0.2 + 0.4 * (image % 2) as f64 + 0.19 * (image % 3) as f64);
        format!("scan-{image},{truth},{:.2},{:.2},{}\n", 1.0 - p, p, ["a", "b"][image / 20])
    };
    let rows: String = (0..40).map(row).collect();
    fs::write(path, format!("sample,truth,p:well,p:ill,scanner\n{rows}")).unwrap();
}

#[test]
fn predictions_of_another_program_are_scored_with_subgroups_of_any_column() {
    let folder = tempdir().unwrap();
    let table = folder.path().join("theirs.csv");
    foreign_table(&table);
    let found =
        eval_from(&table, "--format json --subgroups scanner --resamples 100").succeeded().result()["scores"].clone();
    assert_eq!((&found["images"], &found["patients"], &found["resamples"]), (&40.into(), &40.into(), &100.into()));
    let groups = found["subgroups"]["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| group["images"].as_u64().unwrap()).collect::<Vec<_>>(), [20, 20]);

    let manifest = folder.path().join("manifest.csv");
    fs::write(&manifest, "path,label,sex\nscan-1,ill,f\nscan-2,well,m\n").unwrap();
    let flags = format!("--subgroups sex --resamples 0 --manifest {}", manifest.display());
    let told = eval_from(&table, &flags).succeeded().stdout;
    assert!(told.contains("left out: 38 images have no value") && told.contains("f: 1 images"), "{told}");
    assert!(told.lines().any(|line| line.starts_with("accuracy")), "{told}");
}

#[test]
fn a_run_scores_subgroups_of_a_column_of_its_manifest() {
    let folder = tempdir().unwrap();
    picture_folder(&folder.path().join("pictures"), 80);
    let row = |(class, index): (&str, usize)| {
        format!("pictures/{class}/{index:02}.png,{class},{}\n", ["one", "two"][index % 2])
    };
    let samples = CLASSES.iter().flat_map(|class| (0..80).map(move |index| (*class, index)));
    let rows: String = samples.map(row).collect();
    let manifest = folder.path().join("manifest.csv");
    fs::write(&manifest, format!("path,label,scanner\n{rows}")).unwrap();

    let run = folder.path().join("run");
    let flags = "--batch-size 8 --max-steps 2 --subgroups scanner";
    Outcome::of(&mut train(&manifest, &run, flags)).succeeded();
    let own = json_of(&run.join("scores.json"))["subgroups"].clone();
    let flags = format!("--format json --subgroups scanner --manifest {}", manifest.display());
    let again = eval_from(&run.join("predictions.csv"), &flags).succeeded().result()["scores"]["subgroups"].clone();
    assert_eq!(own["column"], "scanner");
    assert_eq!(own, again, "they are those of the table of predictions");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("By scanner"));

    // What cannot be scored at the end is refused at the start.
    for (data, column, word) in [(&manifest, "sex", "no column `sex`"), (&folder.path().join("pictures"), "sex", "CSV")]
    {
        let flags = format!("--batch-size 8 --max-steps 2 --subgroups {column}");
        let sentence = Outcome::of(&mut train(data, &folder.path().join("refused"), &flags)).refused();
        assert!(sentence.contains(word), "{sentence}");
    }
}

#[test]
fn what_cannot_be_scored_is_refused_in_one_sentence() {
    let folder = tempdir().unwrap();
    let table = folder.path().join("wrong.csv");
    let refused = |text: &str, flags: &str| {
        fs::write(&table, text).unwrap();
        eval_from(&table, flags).refused()
    };
    let good = "sample,split,truth,p:a,p:b\nx,one,a,0.5,0.5\ny,two,b,0.4,0.6\n";
    for (text, flags, expected) in [
        ("sample,truth,p:a,p:b\n", "", "no predictions"),
        ("file,truth,p:a,p:b\n", "", "no column `sample`"),
        ("sample,truth,p:a,p:b\nx,a,0.5,2\n", "", "line 2"),
        ("sample,truth,p:a,p:b\nx,a,0.5,0.1\n", "", "add up to 0.6000"),
        (good, "", "choose one with --split"),
        (good, "--split test", "has no split test"),
        (good, "--split all --subgroups sex", "has no column sex"),
        (good, "--split all --resamples 100001", "100000"),
    ] {
        let sentence = refused(text, flags);
        assert!(sentence.contains(expected), "{flags}: {sentence}");
    }
    let missing = eval_from(&folder.path().join("missing.csv"), "").refused();
    assert!(missing.contains("missing.csv"), "{missing}");
}

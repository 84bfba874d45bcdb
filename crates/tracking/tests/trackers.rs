//! What the trackers themselves make of a run: TensorBoard's reader and its server, `wandb sync`, and an MLflow server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use std::{env, fs};

use kindling_runs::{Event, EventLog, RunDir};
use kindling_tests::{Optional, run_optional};
use kindling_tracking::{Follower, Target};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The versions that these files and calls were made for. Another one is told, and is no failure by itself.
const TESTED: [(&str, &str); 3] = [("tensorboard", "2.21.0"), ("wandb", "0.31.0"), ("mlflow", "3.17.2")];

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_TRACKERS" };
    run_optional(
        need,
        &[
            ("tensorboard_reads_and_shows_all_of_a_run", tensorboard_reads_and_shows_all_of_a_run),
            ("tensorboard_reads_up_to_a_torn_tail", tensorboard_reads_up_to_a_torn_tail),
            ("tensorboard_sees_a_wrong_sum", tensorboard_sees_a_wrong_sum),
            ("wandb_sync_takes_all_of_a_run", wandb_sync_takes_all_of_a_run),
            ("wandb_sync_takes_a_run_without_an_end_for_failed", wandb_sync_takes_a_run_without_an_end_for_failed),
            ("wandb_sync_gets_no_step_twice_after_a_resume", wandb_sync_gets_no_step_twice_after_a_resume),
            ("an_mlflow_server_gets_all_of_a_run_once", an_mlflow_server_gets_all_of_a_run_once),
        ],
    )
}

fn python() -> Command {
    let mut python = Command::new(env::var_os("KINDLING_PYTHON_TRACKING").unwrap_or_else(|| "python3".into()));
    // The trackers ask nobody whether there is a newer version, and tell nobody that they were used.
    python.env("MLFLOW_DISABLE_TELEMETRY", "true").env("DO_NOT_TRACK", "true");
    python
}

fn missing() -> Option<String> {
    let names = TESTED.map(|(name, _)| name).join(", ");
    let found = python().args(["-c", &format!("import {names}")]).output();
    let needed = TESTED.map(|(name, version)| format!("{name} {version}")).join(", ");
    let missing = format!("Python with {needed}: set KINDLING_PYTHON_TRACKING to one that has them");
    (!found.is_ok_and(|output| output.status.success())).then_some(missing)
}

/// Runs a script beside this file and reads the JSON that it prints.
fn script(name: &str, argument: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let output = python().arg(path).arg(argument).output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
    let value: Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    let (_, tested) = TESTED.iter().find(|(tracker, _)| name.contains(tracker)).expect("a tracker's script");
    if value["version"] != *tested {
        println!("{name} ran with {}, and was made for {tested}", value["version"]);
    }
    value
}

fn step(step: u64) -> Event {
    Event::Step {
        step,
        epoch: step.div_ceil(4),
        // The third step is no number.
        loss: if step == 3 { f64::NAN } else { 1.0 / step as f64 },
        lr: 0.25,
        images_per_second: 10.0,
        micro_batch: 4,
        peak_memory_bytes: 1 << 20,
        gradient_norm: 1.5 + step as f64,
        waiting_seconds: 0.0,
        seconds: step as f64,
        together: None,
    }
}

fn started() -> Event {
    Event::Started {
        // 1772366400 seconds after 1970.
        time: "2026-03-01T13:00:00+01:00".into(),
        model: "resnet18".into(),
        data: "phantoms".into(),
        classes: vec!["a".into(), "b".into()],
        parameters: 7,
        device: "cpu".into(),
        image_size: 64,
        global_batch: 8,
        micro_batch: 8,
        steps_total: 8,
    }
}

fn evaluated(step: u64, split: &str) -> Event {
    let (split, accuracy, dice, mae, r2) = (split.into(), Some(0.75), None, None, None);
    Event::Evaluated { step, epoch: 1, split, loss: 0.5, accuracy, samples: 4, dice, mae, r2 }
}

fn sampled(step: u64) -> Event {
    Event::Sampled { step, path: "samples/000004.png".into() }
}

fn finished() -> [Event; 2] {
    [evaluated(8, "test"), Event::Finished { step: 8, seconds: 8.0 }]
}

/// Four steps, what comes after them, and four more.
fn in_progress() -> Vec<Event> {
    let mut events = vec![started()];
    events.extend((1..=4).map(step));
    let warned = Event::Warned { step: 4, text: "look at this".into() };
    events.extend([evaluated(4, "validation"), sampled(4), warned]);
    events.extend((5..=8).map(step));
    events
}

/// A run in a folder of the test.
struct Tracked {
    folder: TempDir,
    run: RunDir,
}

impl Tracked {
    fn with(events: &[Event]) -> Self {
        let folder = tempfile::tempdir().expect("a folder of the test");
        let path = folder.path().join("first");
        fs::create_dir_all(path.join("samples")).expect("a folder");
        fs::write(path.join("config.toml"), "seed = 7\n[model]\nname = \"resnet18\"\n[train]\nlr = 0.25\n")
            .expect("a file");
        let picture = image::GrayImage::from_pixel(20, 10, image::Luma([128]));
        picture.save(path.join("samples/000004.png")).expect("a picture");
        let metrics = json!({ "steps": 8, "test": { "accuracy": 0.75, "confusion": [[1, 2]] }, "seconds": "NaN" });
        fs::write(path.join("metrics.json"), metrics.to_string()).expect("a file");
        let tracked = Self { run: RunDir::open(&path).expect("a run"), folder };
        tracked.append(events);
        tracked
    }

    fn complete() -> Self {
        Self::with(&[in_progress(), finished().into()].concat())
    }

    fn append(&self, events: &[Event]) {
        let mut log = EventLog::open(&self.run.events()).expect("a log");
        events.iter().for_each(|event| log.append(event).expect("an event"));
    }

    fn export(&self, target: &Target) {
        let mut follower = Follower::new(&self.run, target).expect("a follower");
        follower.finish(Duration::from_secs(60)).expect("delivered");
    }

    /// What a killed run does that goes on: its log ends at step 4, and it computes the later steps again.
    fn resume(&self) {
        EventLog::open(&self.run.events()).expect("a log").rewind_to(4).expect("rewound");
        self.append(&[Event::Resumed { step: 4 }]);
        self.append(&(5..=8).map(step).collect::<Vec<_>>());
        self.append(&finished());
    }
}

fn losses() -> Vec<Value> {
    (1..=8).map(|step| if step == 3 { json!("NaN") } else { json!(1.0 / step as f64) }).collect()
}

/// Whether two numbers are the same in float32, or both the same word.
fn same(found: &Value, expected: &Value) -> bool {
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => found as f32 == expected as f32,
        _ => found.to_string().eq_ignore_ascii_case(&expected.to_string()),
    }
}

/// The steps of a series of triples or pairs that begin with them.
fn steps_of(series: &Value) -> Vec<u64> {
    let points = series.as_array().map(Vec::as_slice).unwrap_or_default();
    points.iter().map(|point| point[0].as_u64().expect("a step")).collect()
}

fn event_file(run: &RunDir) -> PathBuf {
    let entries = fs::read_dir(Target::TensorBoard.place(run)).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn tensorboard(tracked: &Tracked) -> Value {
    script("read_tensorboard.py", &Target::TensorBoard.place(&tracked.run).to_string_lossy())
}

fn tensorboard_reads_and_shows_all_of_a_run() {
    let tracked = Tracked::with(&in_progress());
    tracked.export(&Target::TensorBoard);
    tracked.resume();
    tracked.export(&Target::TensorBoard);
    let found = tensorboard(&tracked);
    let read = &found["read"];
    let loss = &read["scalars"]["train/loss"];
    assert_eq!(steps_of(loss), (1..=8).collect::<Vec<_>>(), "every step, and none twice");
    for (step, expected) in losses().iter().enumerate() {
        assert!(same(&loss[step][1], expected), "step {}: {}", step + 1, loss[step]);
        assert_eq!(loss[step][2], json!(1_772_366_401.0 + step as f64), "the time of the log");
    }
    assert_eq!(read["scalars"]["val/accuracy"], json!([[4, 0.75, 1_772_366_404.0]]));
    assert_eq!(steps_of(&read["scalars"]["test/loss"]), [8]);
    assert_eq!(steps_of(&read["scalars"]["result/test/accuracy"]), [8]);
    assert_eq!(read["images"]["samples"], json!([[4, 20, 10]]), "the step, the width and the height");
    assert_eq!(read["histograms"]["train/gradient_norm_in_epoch"], json!([[4, 4.0, 4.0], [8, 4.0, 4.0]]));
    assert_eq!(read["texts"]["log/warned"], json!([[4, "look at this"]]));
    assert_eq!(read["texts"]["log/resumed"], json!([[4, "resumed after step 4"]]));
    assert_eq!(read["settings"], json!({ "seed": 7.0, "model.name": "resnet18", "train.lr": 0.25 }));
    assert_eq!(read["is_ended"], json!(true));
    let shown = &found["shown"];
    assert_eq!(shown["loss"].as_array().map(Vec::len), Some(8));
    assert_eq!((&shown["images"], &shown["is_png"]), (&json!(1), &json!(true)));
    assert_eq!(shown["histograms"], json!(["train/gradient_norm_in_epoch", "train/loss_in_epoch"]));
    assert_eq!(shown["texts"], json!(["config", "log/resumed", "log/warned"]));
}

fn tensorboard_reads_up_to_a_torn_tail() {
    let tracked = Tracked::complete();
    tracked.export(&Target::TensorBoard);
    let path = event_file(&tracked.run);
    let whole = fs::read(&path).expect("a file");
    // Within the sixth step: the place after which the fifth has its number.
    let fifth = (5.0_f32.recip()).to_le_bytes();
    let place = whole.windows(4).position(|bytes| bytes == fifth).expect("the fifth loss") + 250;
    fs::write(&path, &whole[..place]).expect("a torn file");
    let found = tensorboard(&tracked);
    assert_eq!(steps_of(&found["read"]["scalars"]["train/loss"]), (1..=5).collect::<Vec<_>>());
    tracked.export(&Target::TensorBoard);
    assert!(fs::read(&path).expect("a file") == whole, "the tear is mended");
}

fn tensorboard_sees_a_wrong_sum() {
    let tracked = Tracked::complete();
    tracked.export(&Target::TensorBoard);
    let path = event_file(&tracked.run);
    let mut bytes = fs::read(&path).expect("a file");
    let fifth = (5.0_f32.recip()).to_le_bytes();
    let place = bytes.windows(4).position(|bytes| bytes == fifth).expect("the fifth loss");
    bytes[place] ^= 1;
    fs::write(&path, bytes).expect("a changed file");
    let found = tensorboard(&tracked);
    assert_eq!(steps_of(&found["read"]["scalars"]["train/loss"]), (1..=4).collect::<Vec<_>>());
}

/// What `wandb sync` sends of the run.
fn sync(tracked: &Tracked) -> Value {
    let entries = fs::read_dir(Target::Wandb.place(&tracked.run)).expect("a folder");
    let folders: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder").path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let found = script("wandb_sync.py", &folders[0].to_string_lossy());
    assert_eq!(found["code"], 0, "{}", found["said"]);
    found["sent"].clone()
}

fn rows_of(sent: &Value) -> BTreeMap<u64, &Value> {
    let rows = sent["rows"].as_array().expect("rows");
    let by_step: BTreeMap<u64, &Value> = rows.iter().map(|row| (row["_step"].as_u64().expect("a step"), row)).collect();
    assert_eq!(by_step.len(), rows.len(), "no step is sent twice");
    by_step
}

fn wandb_sync_takes_all_of_a_run() {
    let tracked = Tracked::complete();
    tracked.export(&Target::Wandb);
    let sent = sync(&tracked);
    let rows = rows_of(&sent);
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    for (row, expected) in rows.values().zip(losses()) {
        assert!(same(&row["train/loss"], &expected), "{row}");
    }
    assert_eq!((&rows[&4]["val/accuracy"], &rows[&4]["epoch"]), (&json!(0.75), &json!(1)));
    assert_eq!(rows[&8]["test/loss"], json!(0.5));
    let counts = rows[&4]["train/gradient_norm_in_epoch"]["values"].as_array().expect("a histogram");
    assert_eq!(counts.iter().filter_map(Value::as_u64).sum::<u64>(), 4);
    assert_eq!(sent["config"], json!({ "seed": 7, "model": { "name": "resnet18" }, "train": { "lr": 0.25 } }));
    assert_eq!(sent["name"], "first");
    let summary = &sent["summary"];
    assert_eq!((&summary["train/loss"], &summary["result/test/accuracy"]), (&json!(0.125), &json!(0.75)));
    assert_eq!(summary["result/seconds"], "NaN");
    assert_eq!(sent["exit_code"], 0);
    let picture = rows[&4]["samples"]["path"].as_str().expect("a picture");
    let bytes = fs::read(tracked.run.path().join("samples/000004.png")).expect("a picture").len();
    assert_eq!(sent["files"][picture], bytes, "the picture is sent whole");
    assert!(sent["lines"].to_string().contains("look at this"), "{}", sent["lines"]);
}

fn wandb_sync_takes_a_run_without_an_end_for_failed() {
    let tracked = Tracked::with(&in_progress());
    tracked.export(&Target::Wandb);
    let sent = sync(&tracked);
    assert_eq!(rows_of(&sent).len(), 8);
    assert_ne!(sent["exit_code"], 0);
}

fn wandb_sync_gets_no_step_twice_after_a_resume() {
    let tracked = Tracked::with(&in_progress());
    tracked.export(&Target::Wandb);
    assert_eq!(rows_of(&sync(&tracked)).len(), 8, "a run may be sent before it is complete");
    tracked.resume();
    tracked.export(&Target::Wandb);
    let sent = sync(&tracked);
    assert_eq!(rows_of(&sent).keys().copied().collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    assert_eq!(rows_of(&sent)[&8]["test/accuracy"], json!(0.75), "what the last step got later");
    assert_eq!(sent["exit_code"], 0);
}

/// An MLflow server that ends with the test.
struct Server(Child);

impl Server {
    fn start(folder: &Path, port: u16) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mlflow_server.py");
        let mut command = python();
        command.arg(path).arg(folder).arg(port.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input is the end of it.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its number").port()
}

fn an_mlflow_server_gets_all_of_a_run_once() {
    let (tracked, port) = (Tracked::with(&in_progress()), free_port());
    let url = format!("http://127.0.0.1:{port}");
    let target: Target = format!("mlflow={url}").parse().expect("a target");
    let mut follower = Follower::new(&tracked.run, &target).expect("a follower");
    let sentence = follower.poll().expect_err("there is no server yet").to_string();
    assert!(sentence.contains("does not answer"), "{sentence}");

    let store = tracked.folder.path();
    let server = Server::start(store, port);
    follower.poll().expect("the server is there now");
    drop(server);
    follower.finish(Duration::from_secs(60)).expect("nothing was left to say");
    drop(follower);
    tracked.resume();
    let _server = Server::start(store, port);
    for _ in 0..2 {
        tracked.export(&target);
    }

    let found = script("read_mlflow.py", &url);
    let runs = found["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 1, "the run that resumes is the same");
    let run = &runs[0];
    let about = ["experiment", "name", "status"].map(|name| run[name].as_str().unwrap_or_default());
    assert_eq!(about, ["kindling", "first", "FINISHED"]);
    assert_eq!(run["began"], json!(1_772_366_400_000_u64));
    assert_eq!(run["settings"], json!({ "seed": "7", "model.name": "resnet18", "train.lr": "0.25" }));
    let loss = &run["metrics"]["train/loss"];
    assert_eq!(steps_of(loss), (1..=8).collect::<Vec<_>>(), "every step, and none twice");
    for (point, expected) in loss.as_array().expect("points").iter().zip(losses()) {
        assert!(same(&point[1], &expected), "{point}");
    }
    assert_eq!(run["again"], 8, "what is sent once more is kept once");
    assert_eq!(run["metrics"]["val/accuracy"], json!([[4, 0.75, 1_772_366_404_000_u64]]));
    assert_eq!(steps_of(&run["metrics"]["result/test/accuracy"]), [8]);
    assert_eq!(run["files"], json!(["samples/00000004.png"]));
}

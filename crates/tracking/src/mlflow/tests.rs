use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kindling_runs::{Event, RunDir};

use super::*;
use crate::testing::{append, evaluated, run as run_in, started, step};
use crate::{Follower, Target, Tracking};

#[test]
fn no_call_has_too_many_metrics_and_those_of_a_step_stay_together() {
    let entry = |step| Entry {
        step,
        epoch: None,
        time: 1.5,
        seconds: 0.0,
        nth: 1,
        what: What::Values(vec![("a".into(), f64::NAN), ("b".into(), f64::NEG_INFINITY), ("c".into(), 0.5)]),
    };
    let entries: Vec<Entry> = (1..=1000).map(entry).collect();
    let batches = batches(&entries);
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [999, 999, 999, 3]);
    assert_eq!(batches[3][0], json!({ "key": "a", "value": "NaN", "timestamp": 1500, "step": 1000 }));
    assert_eq!(batches[3][1]["value"], "-Infinity");
}

/// As much of a server as is called here.
#[derive(Debug, Default)]
struct Fake {
    calls: usize,
    /// The call that is carried out, and whose answer is lost.
    loses: Option<usize>,
    experiments: usize,
    runs: Vec<String>,
    status: String,
    settings: Vec<Value>,
    /// Values and times of metrics by name and step, as often as they came.
    metrics: BTreeMap<(String, u64), Vec<Value>>,
}

impl Fake {
    /// A server of its own, with its address.
    fn start(loses: Option<usize>) -> (Arc<Mutex<Self>>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = Arc::new(Mutex::new(Self { loses, ..Self::default() }));
        let shared = fake.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                std::thread::spawn(move || Self::serve(&shared, &stream.unwrap()));
            }
        });
        (fake, url)
    }

    fn serve(shared: &Mutex<Self>, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if reader.read_line(&mut first).unwrap_or(0) == 0 {
                return;
            }
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let call = first.split(' ').nth(1).unwrap().trim_start_matches("/api/2.0/mlflow/").to_owned();
            let mut fake = shared.lock().unwrap();
            fake.calls += 1;
            let (status, answer) = fake.answer(&call, &serde_json::from_slice(&body).unwrap_or_default());
            if fake.loses == Some(fake.calls) {
                return;
            }
            drop(fake);
            let answer = answer.to_string();
            write!(stream, "HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    }

    fn run(&self) -> Value {
        let last = |((key, step), _): (&(String, u64), _)| json!({ "key": key, "step": step });
        let metrics: Vec<Value> = self.metrics.iter().map(last).collect();
        json!({
            "info": { "run_id": "r", "status": self.status, "artifact_uri": "s3://elsewhere" },
            "data": { "metrics": metrics, "params": self.settings },
        })
    }

    fn answer(&mut self, call: &str, body: &Value) -> (u16, Value) {
        let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
        match call.split('?').next().unwrap() {
            "experiments/get-by-name" if self.experiments == 0 => return (404, json!({ "message": "none" })),
            "experiments/get-by-name" => return (200, json!({ "experiment": { "experiment_id": "1" } })),
            "experiments/create" => {
                self.experiments += 1;
                return (200, json!({ "experiment_id": "1" }));
            }
            "runs/search" => {
                let wanted = body["filter"].as_str().unwrap();
                let found = self.runs.iter().any(|key| wanted.contains(key.as_str()));
                return (200, if found { json!({ "runs": [self.run()] }) } else { json!({}) });
            }
            "runs/create" => {
                self.runs.push(body["tags"][0]["value"].as_str().unwrap().to_owned());
                self.status = "RUNNING".into();
                return (200, json!({ "run": self.run() }));
            }
            "runs/log-batch" => {
                self.settings.extend(list("params"));
                for metric in list("metrics") {
                    let key = (metric["key"].as_str().unwrap().to_owned(), metric["step"].as_u64().unwrap());
                    self.metrics.entry(key).or_default().push(json!([metric["value"], metric["timestamp"]]));
                }
            }
            "runs/update" => self.status = body["status"].as_str().unwrap().to_owned(),
            _ => return (404, json!({ "message": "unknown" })),
        }
        (200, json!({}))
    }
}

fn complete(folder: &std::path::Path) -> RunDir {
    let run = run_in(folder);
    append(&run, &[started(), step(1, 1), step(2, 1), evaluated(2, "validation"), step(3, 2)]);
    append(&run, &[Event::Finished { step: 3, seconds: 3.0 }]);
    run
}

#[test]
fn an_answer_that_is_lost_makes_no_second_run_and_no_second_number() {
    let mut loses = 1;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let run = complete(folder.path());
        let (fake, url) = Fake::start(Some(loses));
        let mut follower = Follower::new(&run, &Target::Mlflow(url)).unwrap();
        let first = follower.finish(Duration::from_secs(60));
        if loses > fake.lock().unwrap().calls {
            first.unwrap();
            break;
        }
        // A lost answer is told, and the next call makes up for it; so does another process.
        if loses % 2 == 0 {
            drop(follower);
            follower = Follower::new(&run, &Target::Mlflow(fake_url(&first))).unwrap();
        }
        follower.finish(Duration::from_secs(60)).unwrap();
        let fake = fake.lock().unwrap();
        assert_eq!((fake.runs.len(), fake.status.as_str()), (1, "FINISHED"), "call {loses} is lost");
        let steps: Vec<u64> =
            fake.metrics.keys().filter(|(key, _)| key == "train/loss").map(|(_, step)| *step).collect();
        assert_eq!(steps, [1, 2, 3], "call {loses} is lost");
        // What comes twice is the same to the last digit, and a server takes it once.
        assert!(fake.metrics.values().all(|same| same.iter().all(|one| *one == same[0])), "call {loses} is lost");
        loses += 1;
    }
    assert!(loses > 7, "{loses} calls are few: what was lost?");
}

/// The address in a sentence about a server.
fn fake_url(error: &Result<crate::Progress, TrackingError>) -> String {
    match error {
        Err(TrackingError::Away { url, .. }) => url.clone(),
        other => panic!("a lost answer is a server that is away, and not {other:?}"),
    }
}

#[test]
fn a_server_that_never_answers_holds_up_nobody_and_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = complete(folder.path());
    // It takes connections, and no more.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let begin = Instant::now();
    let tracking = Tracking::start(&run, &[Target::Mlflow(url), Target::Csv]);
    let warnings = tracking.finish();
    assert!(begin.elapsed() < 10 * client::LIMIT, "{:?}", begin.elapsed());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("MLflow: http://127.0.0.1:") && warnings[0].contains("does not answer"),
        "{warnings:?}"
    );
    assert!(Target::Csv.place(&run).exists(), "another tracker does not wait for it");
}

#[test]
fn a_refusal_is_told_with_what_the_server_says() {
    let folder = tempfile::tempdir().unwrap();
    let run = complete(folder.path());
    let (_, url) = Fake::start(None);
    let mut follower = Follower::new(&run, &Target::Mlflow(format!("{url}/wrong"))).unwrap();
    let sentence = follower.poll().unwrap_err().to_string();
    assert!(sentence.contains("refuses experiments/create with 404: unknown"), "{sentence}");
}

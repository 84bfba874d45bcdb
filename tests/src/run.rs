//! The files of a run, and runs in progress.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Outcome;

/// How long a run may take to get anywhere, on a machine that builds something else at the same time.
const PATIENCE: Duration = Duration::from_secs(300);

/// A JSON file.
///
/// # Panics
/// If it is not there or holds no JSON.
pub fn json_of(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The events of a run, one for each line of its `events.jsonl`.
///
/// # Panics
/// If a line is no JSON object that says which event it is.
pub fn events(run: &Path) -> Vec<Value> {
    let path = run.join("events.jsonl");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(text.ends_with('\n'), "{} ends with half a line", path.display());
    let parse = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(value) if value["event"].is_string() => value,
        _ => panic!("{} holds the line `{line}`", path.display()),
    };
    text.lines().map(parse).collect()
}

/// The numbers of the steps in a run's events, in order.
///
/// # Panics
/// See [`events`].
pub fn steps(run: &Path) -> Vec<u64> {
    of_steps(run, |event| event["step"].as_u64())
}

/// The losses of a run's steps, in order.
///
/// # Panics
/// See [`step_numbers`].
pub fn losses(run: &Path) -> Vec<f64> {
    step_numbers(run, "loss")
}

/// The events of the iterations of a GAN's run that were not left out, in order.
///
/// # Panics
/// See [`events`].
pub fn iterations(run: &Path) -> Vec<Value> {
    events(run).into_iter().filter(|event| event["event"] == "iteration").collect()
}

/// A number of each of a run's steps, in order.
///
/// # Panics
/// See [`events`]; or if one is not there or not finite.
pub fn step_numbers(run: &Path, key: &str) -> Vec<f64> {
    of_steps(run, |event| event[key].as_f64())
}

fn of_steps<T>(run: &Path, field: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let events = events(run).into_iter().filter(|event| event["event"] == "step");
    events.map(|event| field(&event).unwrap_or_else(|| panic!("a step without the number: {event}"))).collect()
}

/// Copies a folder with all that is in it.
///
/// # Panics
/// If that is not possible.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder of the test can be made");
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())).flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}

/// The step of a run's newest complete checkpoint; 0 if there is none.
pub fn newest_step(run: &Path) -> u64 {
    let entries = fs::read_dir(run.join("checkpoints")).into_iter().flatten().flatten();
    let step = |name: String| name.strip_prefix("step-")?.parse::<u64>().ok();
    entries.filter_map(|entry| step(entry.file_name().to_string_lossy().into_owned())).max().unwrap_or(0)
}

/// The checkpoints of a run, oldest first.
///
/// # Panics
/// If there is no folder of checkpoints.
pub fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let folder = run.join("checkpoints");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Those of `names` whose files in the two folders are not equal byte by byte.
///
/// # Panics
/// If a file is not there.
pub fn files_differ<'a>(a: &Path, b: &Path, names: &[&'a str]) -> Vec<&'a str> {
    let read = |path: PathBuf| fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    names.iter().copied().filter(|name| read(a.join(name)) != read(b.join(name))).collect()
}

/// What stands behind `key = ` in a TOML file.
///
/// # Panics
/// If the file is not there or has no such line.
pub fn toml_value(path: &Path, key: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let of_line = |line: &str| Some(line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim().to_string());
    text.lines().find_map(of_line).unwrap_or_else(|| panic!("{} has no `{key}`", path.display()))
}

/// The columns of a CSV table with these names, of every line. No field of it may have a comma.
///
/// # Panics
/// If the file is not there, has no such column, or has a line that is too short.
pub fn columns<const N: usize>(path: &Path, names: [&str; N]) -> Vec<[String; N]> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let place = |name| header.iter().position(|column| *column == name);
    let places = names.map(|name| place(name).unwrap_or_else(|| panic!("{} has no column `{name}`", path.display())));
    lines.map(|line| places.map(|place| line[place].to_owned())).collect()
}

/// A run in progress. It is killed if a test drops it.
#[derive(Debug)]
pub struct Started {
    child: Option<Child>,
    run: PathBuf,
    what: String,
}

impl Started {
    /// Starts a command whose run is, or will be, in the folder `run`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn new(mut command: Command, run: &Path) -> Self {
        let what = format!("{command:?}");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap_or_else(|error| panic!("{what} cannot be started: {error}"));
        Self { child: Some(child), run: run.to_path_buf(), what }
    }

    /// Waits until the run has done this step.
    ///
    /// # Panics
    /// If it ends before.
    pub fn until_step(&mut self, step: u64) {
        self.until(&format!(r#""event":"step","step":{step},"#), 1);
    }

    /// Waits until the run's log contains a text so many times.
    ///
    /// # Panics
    /// If it ends before.
    pub fn until(&mut self, text: &str, times: usize) {
        let began = Instant::now();
        let log = self.run.join("events.jsonl");
        while !fs::read_to_string(&log).is_ok_and(|events| events.matches(text).count() >= times) {
            let ended = self.child().try_wait().expect("a child can be asked whether it has ended");
            assert!(ended.is_none(), "{} ended before its log held `{text}`: {ended:?}", self.what);
            assert!(began.elapsed() < PATIENCE, "{} takes too long to log `{text}`", self.what);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The folder of its run.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// # Panics
    /// If it has ended, with all it said.
    pub fn assert_running(&mut self) {
        if self.child().try_wait().expect("a child can be asked whether it has ended").is_some() {
            let child = self.child.take().expect("it ends once");
            let output = child.wait_with_output().expect("a child can be waited for");
            panic!("it ended by itself\n{}", Outcome::new(self.what.clone(), &output).all());
        }
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Panics
    /// If it had ended by itself, because then the test has tested nothing.
    pub fn kill(mut self) {
        self.child().kill().expect("a child can be killed");
        let outcome = self.end();
        assert_eq!(outcome.code, None, "it ended before it could be killed\n{}", outcome.all());
    }

    /// Sends the signal of Ctrl-C and waits for the end.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn interrupt(self) -> Outcome {
        self.signal("INT", 1)
    }

    /// Sends a signal so many times and waits for the end.
    ///
    /// # Panics
    /// If the signal cannot be sent.
    pub fn signal(mut self, signal: &str, times: usize) -> Outcome {
        let id = self.child().id().to_string();
        let script =
            format!("kill -{signal} {id}; {}:", format!("kill -{signal} {id} 2>/dev/null; ").repeat(times - 1));
        let sent = Command::new("sh").args(["-c", &script]).status();
        assert!(sent.is_ok_and(|status| status.success()), "`{script}` failed");
        self.end()
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn end(mut self) -> Outcome {
        let child = self.child.take().expect("it ends once");
        let output = child.wait_with_output().expect("a child can be waited for");
        Outcome::new(self.what.clone(), &output)
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it has not ended")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

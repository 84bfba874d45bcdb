//! A file of rows.

use std::path::Path;

use kindling_files as files;
use kindling_metrics::Quartiles;
use serde::{Deserialize, Serialize};

use super::Row;
use super::row::Outcome;
use crate::{RunError, write_atomically};

/// The version of the format, which the file begins with.
const FORMAT: &str = "kindling-bench/1";

/// What `kindling bench --out` writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// `kindling-bench/1`.
    pub format: String,
    /// In the order they were measured.
    pub rows: Vec<Row>,
}

impl Rows {
    /// Rows of this version.
    pub fn new(rows: Vec<Row>) -> Self {
        Self { format: FORMAT.into(), rows }
    }

    /// Reads a file: of several rows, or one row alone.
    ///
    /// # Errors
    /// [`RunError::Io`], or [`RunError::Malformed`] if it is no benchmark, or one of another version.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let malformed = |reason: String| RunError::Malformed { path: path.into(), reason };
        let text = files::read_to_string(path, files::MAX_LOG_BYTES).map_err(RunError::on("read", path))?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        if value.get("configuration").is_some() {
            let row = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
            return Ok(Self::new(vec![row]));
        }
        match value.get("format").and_then(|format| format.as_str()) {
            Some(FORMAT) => serde_json::from_value(value).map_err(|error| malformed(error.to_string())),
            Some(other) => Err(malformed(format!("its format is {other}, and this version reads {FORMAT}"))),
            None => Err(malformed(format!("it is no benchmark: there is no format {FORMAT} in it"))),
        }
    }

    /// Writes a file.
    ///
    /// # Errors
    /// [`RunError::Inexpressible`], or as [`write_atomically`].
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| RunError::Inexpressible { path: path.into(), reason: error.to_string() })?;
        write_atomically(path, format!("{text}\n").as_bytes())
    }

    /// Rows of the same configuration and engine, measured one after another, as one: their windows together.
    /// The most memory is the most of any; of failures and figures the figures remain, with a note.
    pub fn pooled(&self) -> Vec<Row> {
        let mut pooled: Vec<Row> = Vec::new();
        for row in &self.rows {
            let alike = |known: &&mut Row| {
                (&known.configuration_hash, &known.engine, &known.variant)
                    == (&row.configuration_hash, &row.engine, &row.variant)
            };
            match pooled.iter_mut().find(alike) {
                None => pooled.push(row.clone()),
                Some(known) => pool(known, row),
            }
        }
        pooled
    }
}

fn pool(into: &mut Row, row: &Row) {
    match (&mut into.outcome, &row.outcome) {
        (Outcome::Measured(sum), Outcome::Measured(more)) => {
            sum.windows.extend(&more.windows);
            if let Some(quartiles) = Quartiles::of(sum.windows.iter().map(super::Window::speed)) {
                sum.images_per_second = quartiles;
            }
            // The steps themselves are not kept; of the two summaries the one of more steps remains.
            if more.steps > sum.steps {
                sum.step_seconds = more.step_seconds;
            }
            sum.steps += more.steps;
            sum.recoveries += more.recoveries;
            sum.skipped_updates += more.skipped_updates;
            let (memory, other) = (&mut sum.memory, &more.memory);
            memory.peak_in_use_bytes = memory.peak_in_use_bytes.max(other.peak_in_use_bytes);
            memory.peak_reserved_bytes = memory.peak_reserved_bytes.max(other.peak_reserved_bytes);
            memory.peak_process_bytes = memory.peak_process_bytes.max(other.peak_process_bytes);
        }
        (Outcome::Measured(_), Outcome::Failed(failure)) => {
            into.notes.push(format!("another round failed: {}", failure.reason));
        }
        (Outcome::Failed(failure), Outcome::Measured(_)) => {
            let note = format!("another round failed: {}", failure.reason);
            *into = row.clone();
            into.notes.push(note);
        }
        (Outcome::Failed(_), Outcome::Failed(_)) => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::configuration::tests::example;
    use super::super::*;
    use super::*;
    use crate::Environment;

    /// A row with windows of these speeds.
    pub(in crate::bench) fn row(engine: &str, configuration: Configuration, speeds: &[f64]) -> Row {
        let windows: Vec<Window> = speeds.iter().map(|&speed| Window { images: 12, seconds: 12.0 / speed }).collect();
        let images_per_second = Quartiles::of(windows.iter().map(Window::speed)).unwrap();
        let step_seconds = Quartiles::of(speeds.iter().map(|speed| 4.0 / speed)).unwrap();
        let memory =
            MemoryUsed { peak_in_use_bytes: Some(400 << 20), how: "every allocation".into(), ..MemoryUsed::default() };
        let steps = 3 * windows.len() as u64;
        Row {
            engine: engine.into(),
            variant: None,
            configuration_hash: configuration.hash(),
            configuration,
            protocol: Protocol { warmup: 1, windows: speeds.len(), window_seconds: 1.0 },
            outcome: Outcome::Measured(Measured {
                images_per_second,
                step_seconds,
                first_step_seconds: 2.0,
                windows,
                steps,
                micro_batch: 4,
                recoveries: 0,
                skipped_updates: 0,
                loss: Some(1.1),
                memory,
                energy: None,
            }),
            software: [("kindling".to_string(), "0.1.0".to_string())].into(),
            environment: Environment::default(),
            conditions: Conditions::default(),
            notes: Vec::new(),
        }
    }

    /// The row without figures.
    pub(in crate::bench) fn failed(engine: &str, configuration: Configuration) -> Row {
        let failure = Failure { kind: FailureKind::OutOfMemory, reason: "8 GiB, and | it needs 9".into() };
        Row { outcome: Outcome::Failed(failure), ..row(engine, configuration, &[1.0]) }
    }

    #[test]
    fn rows_and_failures_survive_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.json");
        let rows = Rows::new(vec![row("kindling", example(), &[4.0, 5.0]), failed("pytorch", example())]);
        rows.write(&path).unwrap();
        assert_eq!(Rows::read(&path).unwrap(), rows);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"measured\"") && text.contains("\"out-of-memory\""), "{text}");
    }

    #[test]
    fn a_row_alone_is_a_file_too_and_anything_else_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("row.json");
        let alone = row("kindling", example(), &[4.0]);
        std::fs::write(&path, serde_json::to_string(&alone).unwrap()).unwrap();
        assert_eq!(Rows::read(&path).unwrap().rows, [alone]);
        for text in ["", "[]", "{}", r#"{"format":"kindling-bench/9","rows":[]}"#, r#"{"configuration":{}}"#] {
            std::fs::write(&path, text).unwrap();
            let error = Rows::read(&path).unwrap_err().to_string();
            assert!(error.contains("row.json"), "{text}: {error}");
        }
    }

    #[test]
    fn rounds_of_one_configuration_are_pooled_and_engines_are_not() {
        let kindling = |speeds: &[f64]| row("kindling", example(), speeds);
        let rows = Rows::new(vec![
            kindling(&[1.0, 2.0]),
            row("pytorch", example(), &[9.0]),
            failed("kindling", example()),
            kindling(&[3.0]),
        ]);
        let pooled = rows.pooled();
        assert_eq!(pooled.len(), 2);
        let measured = pooled[0].measured().unwrap();
        assert_eq!((measured.windows.len(), measured.steps), (3, 9));
        assert!((measured.images_per_second.median - 2.0).abs() < 1e-12);
        assert_eq!(pooled[0].notes.len(), 1);
    }
}

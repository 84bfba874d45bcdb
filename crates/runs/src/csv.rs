//! The tables of a run: texts as comma-separated values.

use std::collections::BTreeMap;
use std::path::Path;

use kindling_files::{self as files, csv};

use crate::RunError;

/// One column of a table by the values of another, e.g. `sex` by `path`.
///
/// # Errors
/// [`RunError::Malformed`] if a column is not there or a line is wrong, [`RunError::Io`].
pub fn read_column(path: &Path, key: &str, column: &str) -> Result<BTreeMap<String, String>, RunError> {
    read_text(path, |text| column_of(text, key, column))
}

/// Reads a table and parses its text; errors name its path.
///
/// # Errors
/// [`RunError::Malformed`] with what `parse` says, [`RunError::Io`].
pub(crate) fn read_text<T>(path: &Path, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<T, RunError> {
    let text = files::read(path, files::MAX_LOG_BYTES).map_err(RunError::on("read", path))?;
    parse(&text).map_err(|reason| RunError::Malformed { path: path.to_owned(), reason })
}

fn column_of(text: &[u8], key: &str, column: &str) -> Result<BTreeMap<String, String>, String> {
    let mut records = Records::of(text);
    let header = records.header()?;
    let place = |name: &str| {
        let found = header.iter().position(|have| have.trim() == name);
        found.ok_or_else(|| format!("there is no column `{name}`; there are {}", header.join(", ")))
    };
    let (key, column) = (place(key)?, place(column)?);
    let mut values = BTreeMap::new();
    for record in records {
        let (line, fields) = record?;
        match (fields.get(key), fields.get(column)) {
            (Some(key), Some(value)) => drop(values.insert(key.trim().to_owned(), value.trim().to_owned())),
            _ => return Err(format!("line {line} has {} values under {} columns", fields.len(), header.len())),
        }
    }
    Ok(values)
}

/// The shortest text that reads back as the same number, of one that is not negative.
pub(crate) fn shortest(value: f64) -> String {
    if value == 0.0 || value >= 1e-5 { format!("{value}") } else { format!("{value:e}") }
}

/// The records of a table as texts, each with the line it starts on.
pub(crate) struct Records<'a>(csv::Records<'a>);

impl<'a> Records<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        Self(csv::Records::of(text))
    }

    /// The first record: the names of the columns, none in an empty text.
    pub(crate) fn header(&mut self) -> Result<Vec<String>, String> {
        Ok(self.next().transpose()?.map(|(_, header)| header).unwrap_or_default())
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(u64, Vec<String>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map_err(|(line, reason)| format!("line {line}: {reason}")).and_then(|(line, fields)| {
            let texts: Result<Vec<String>, _> = fields.into_iter().map(String::from_utf8).collect();
            Ok((line, texts.map_err(|_| format!("line {line} is not UTF-8"))?))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_another_and_a_lack_of_it_is_told() {
        let text = b"\xef\xbb\xbfpath,label,sex\na.png,x,f\n\"b,1.png\",y,m\n";
        let found = column_of(text, "path", "sex").unwrap();
        assert_eq!(found.get("b,1.png").map(String::as_str), Some("m"));
        assert_eq!(column_of(text, "path", "age").unwrap_err(), "there is no column `age`; there are path, label, sex");
        assert!(column_of(b"path,sex\na\n", "path", "sex").unwrap_err().starts_with("line 2 has 1 values"));
    }
}

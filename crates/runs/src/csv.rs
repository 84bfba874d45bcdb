//! Tables as comma-separated values (RFC 4180), over the parser of `csv-core`.

use std::collections::BTreeMap;
use std::path::Path;

use kindling_files as files;

use crate::RunError;

/// The most columns and the longest value, in bytes, that are read.
const MOST_COLUMNS: usize = 100_000;
const MOST_BYTES: usize = 64 << 10;

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

/// A line of a table, without its end.
pub fn csv_line(fields: impl Iterator<Item = String>) -> String {
    // Quoted where it must be.
    let quoted = |field: String| match field.contains([',', '"', '\n', '\r']) || field.trim() != field {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    };
    fields.map(quoted).collect::<Vec<_>>().join(",")
}

/// The shortest text that reads back as the same number, of one that is not negative.
pub(crate) fn shortest(value: f64) -> String {
    if value == 0.0 || value >= 1e-5 { format!("{value}") } else { format!("{value:e}") }
}

/// The records of a CSV text, each with the line it ends on. Empty lines are none.
pub(crate) struct Records<'a> {
    reader: csv_core::Reader,
    rest: &'a [u8],
    line: u64,
}

impl<'a> Records<'a> {
    pub(crate) fn of(text: &'a [u8]) -> Self {
        // What spreadsheets put before UTF-8.
        let rest = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { reader: csv_core::Reader::new(), rest, line: 1 }
    }

    /// The first record: the names of the columns, none in an empty text.
    pub(crate) fn header(&mut self) -> Result<Vec<String>, String> {
        Ok(self.next().transpose()?.map(|(_, header)| header).unwrap_or_default())
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(u64, Vec<String>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        // What the record before left of its end of line, and empty lines.
        while let Some((b'\r' | b'\n', rest)) = self.rest.split_first() {
            self.line += u64::from(self.rest[0] == b'\n');
            self.rest = rest;
        }
        if self.rest.is_empty() {
            return None;
        }
        let (line, mut fields, mut field) = (self.line, Vec::new(), Vec::new());
        let mut buffer = [0; 1024];
        loop {
            let (result, read, written) = self.reader.read_field(self.rest, &mut buffer);
            self.line += self.rest[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.rest = &self.rest[read..];
            field.extend_from_slice(&buffer[..written]);
            if field.len() > MOST_BYTES || fields.len() > MOST_COLUMNS {
                self.rest = &[];
                return Some(Err(format!("line {line}: a value is too long (is a quotation mark missing?)")));
            }
            match result {
                csv_core::ReadFieldResult::InputEmpty | csv_core::ReadFieldResult::OutputFull => {}
                csv_core::ReadFieldResult::Field { record_end } => {
                    match String::from_utf8(std::mem::take(&mut field)) {
                        Ok(text) => fields.push(text),
                        Err(_) => return Some(Err(format!("line {line} is not UTF-8"))),
                    }
                    if record_end {
                        return Some(Ok((line, fields)));
                    }
                }
                csv_core::ReadFieldResult::End => return None,
            }
        }
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

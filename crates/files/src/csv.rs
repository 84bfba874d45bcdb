//! Tables as comma-separated values (RFC 4180), over the parser of `csv-core`.

use csv_core::{ReadFieldResult, Reader};

/// The longest value, in KiB: paths end at 4096 bytes nearly everywhere.
const MOST_KIB: usize = 64;
const MOST_COLUMNS: usize = 100_000;

/// The records of a table, each with the line it starts on. Empty lines are none. An error is a line and what is wrong with it, and the
/// last item.
pub struct Records<'a> {
    reader: Reader,
    rest: &'a [u8],
    line: u64,
}

impl<'a> Records<'a> {
    /// The records of a text, the header first.
    pub fn of(text: &'a [u8]) -> Self {
        // What spreadsheets put before UTF-8.
        let rest = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { reader: Reader::new(), rest, line: 1 }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(u64, Vec<Vec<u8>>), (u64, String)>;

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
            let refused = match () {
                () if field.len() > MOST_KIB << 10 => {
                    format!("a value is longer than {MOST_KIB} KiB (is a quotation mark missing?)")
                }
                () if fields.len() > MOST_COLUMNS => format!("there are more than {MOST_COLUMNS} values"),
                () => String::new(),
            };
            if !refused.is_empty() {
                self.rest = &[];
                return Some(Err((line, refused)));
            }
            match result {
                // At the end of the text, reading on says that there is no more.
                ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
                ReadFieldResult::Field { record_end } => {
                    fields.push(std::mem::take(&mut field));
                    if record_end {
                        return Some(Ok((line, fields)));
                    }
                }
                ReadFieldResult::End => return None,
            }
        }
    }
}

/// A line of a table, without its end. Values are quoted where they must be.
pub fn csv_line<T: AsRef<str>>(fields: impl IntoIterator<Item = T>) -> String {
    let quoted = |field: T| match field.as_ref() {
        text if text.contains([',', '"', '\n', '\r']) || text.trim() != text => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        plain => plain.to_owned(),
    };
    fields.into_iter().map(quoted).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Vec<(u64, Vec<String>)>;

    fn read(text: &[u8]) -> Result<Read, (u64, String)> {
        let texts = |record: Vec<Vec<u8>>| record.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        Records::of(text).map(|record| record.map(|(line, record)| (line, texts(record)))).collect()
    }

    #[test]
    fn records_have_the_line_they_start_on() {
        let found = read(b"\xef\xbb\xbfa,b\r\n\r\n\"x\ny\",\n,last").expect("a table");
        let expected = [(1, ["a", "b"]), (3, ["x\ny", ""]), (5, ["", "last"])];
        assert_eq!(found, expected.map(|(line, record)| (line, record.map(str::to_owned).to_vec())));
        assert_eq!(read(b"\n\n"), Ok(Vec::new()));
    }

    #[test]
    fn whatever_is_written_is_read_back() {
        let values = ["plain", "with, comma", "with \"marks\"", "two\nlines", "\r", " spaces ", ""];
        assert_eq!(read(csv_line(values).as_bytes()), Ok(vec![(1, values.map(str::to_owned).to_vec())]));
        assert_eq!(csv_line(["a", "b c"]), "a,b c");
    }

    #[test]
    fn a_table_without_end_is_refused_with_the_line_it_starts_on() {
        let missing = format!("a,b\n\"{}", "x\n".repeat(40_000));
        let (line, reason) = read(missing.as_bytes()).expect_err("a mark is missing");
        assert!(line == 2 && reason.contains("longer than 64 KiB (is a quotation mark missing?)"), "{line}: {reason}");
        let (line, reason) = read(",".repeat(200_000).as_bytes()).expect_err("no table has so many columns");
        assert_eq!((line, reason.as_str()), (1, "there are more than 100000 values"));
    }
}

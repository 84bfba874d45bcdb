//! Tables in CSV, record by record.

use kindling_given::in_units;

/// The longest value, in bytes: paths end at 4096 nearly everywhere.
const MAX_VALUE: usize = 64 << 10;

/// The records of a table, each with the line it starts on. Empty lines are none.
pub(super) struct Records<'a> {
    reader: csv_core::Reader,
    rest: &'a [u8],
    line: u64,
}

impl<'a> Records<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self { reader: csv_core::Reader::new(), rest: text, line: 1 }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(u64, Vec<Vec<u8>>), (u64, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        // What the record before left of its end of line, and empty lines.
        while let Some((b'\r' | b'\n', _)) = self.rest.split_first() {
            self.line += u64::from(self.rest[0] == b'\n');
            self.rest = &self.rest[1..];
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
            if field.len() > MAX_VALUE {
                self.rest = &[];
                return Some(Err((
                    line,
                    format!("a value is longer than {} (is a quotation mark missing?)", in_units(MAX_VALUE as u64)),
                )));
            }
            match result {
                // At the end of the text, reading on says that there is no more.
                csv_core::ReadFieldResult::InputEmpty | csv_core::ReadFieldResult::OutputFull => {}
                csv_core::ReadFieldResult::Field { record_end } => {
                    fields.push(std::mem::take(&mut field));
                    if record_end {
                        return Some(Ok((line, fields)));
                    }
                }
                csv_core::ReadFieldResult::End => return None,
            }
        }
    }
}

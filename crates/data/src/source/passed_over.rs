//! What opening a data set leaves out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use kindling_given::counted;
use serde::Serialize;

/// Files and images in a data set's folders that are not among its samples. Nobody should be surprised by them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// Files of no kind that is read, by their ending in lower case; empty for those without one.
    pub files: BTreeMap<String, usize>,
    /// Files that hold several images of which only the first is a sample.
    pub first_only: usize,
    /// The images in them that are none.
    pub images: usize,
}

impl PassedOver {
    /// Whether there is nothing of the kind.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A file of no kind that is read.
    pub(crate) fn file(&mut self, path: &Path) {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
        *self.files.entry(ending).or_default() += 1;
    }

    /// A file of which so many images are no samples.
    pub(crate) fn images(&mut self, count: usize) {
        self.first_only += usize::from(count > 0);
        self.images += count;
    }
}

/// A sentence for each kind, a line each.
impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        if !self.files.is_empty() {
            let kind = |(ending, count): (&String, &usize)| match ending.as_str() {
                "" => format!("{count} without an ending"),
                ending => format!("{count} .{ending}"),
            };
            let kinds: Vec<String> = self.files.iter().map(kind).collect();
            let all = counted(self.files.values().sum::<usize>(), "file");
            lines.push(format!("left out: {all} of kinds that are not read ({})", kinds.join(", ")));
        }
        if self.first_only > 0 {
            lines.push(format!(
                "left out: {} of {}, of which the first is read; --pages makes each a sample",
                if self.images == 1 {
                    "1 further page or frame".into()
                } else {
                    format!("{} further pages or frames", self.images)
                },
                counted(self.first_only, "file")
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_told_by_kind_and_number() {
        let mut passed = PassedOver::default();
        assert!(passed.is_empty() && passed.to_string().is_empty());
        for name in ["a.xcf", "b.XCF", "notes.txt", "LICENSE"] {
            passed.file(Path::new(name));
        }
        passed.images(2);
        passed.images(0);
        let text = passed.to_string();
        assert!(text.contains("4 files of kinds that are not read (1 without an ending, 1 .txt, 2 .xcf)"), "{text}");
        assert!(text.contains("2 further pages or frames of 1 file"), "{text}");
    }
}

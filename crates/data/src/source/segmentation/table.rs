//! Manifests whose lines name an image and its mask.

use std::path::{Path, PathBuf};

use super::declared;
use super::pairs::{self, Pair, Paired};
use crate::error::DataError;
use crate::source::manifest::{Table, Tells, file_of};
use crate::source::{Opened, Opening, PassedOver};

/// Opens a manifest with the columns `path,mask[,split,group,weight]`. Relative paths are relative to its folder.
pub(super) fn open(path: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let table = Table::read(path, Tells::Mask)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (mut pairs, mut lines, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for row in &table.rows {
        let mask = row.mask.as_deref().unwrap_or_default();
        match file_of(folder, &row.path, opening).and_then(|image| Ok((image.0, file_of(folder, mask, opening)?.0))) {
            Ok((image, mask)) => {
                lines.push(row.line);
                pairs.push(Pair {
                    image,
                    mask,
                    below: PathBuf::from(&row.path),
                    case: row.path.clone(),
                    group: row.group.clone(),
                    weight: row.weight,
                    split: row.split,
                });
            }
            Err(reason) if opening.keep_going => problems.push(table.wrong(row.line, reason)),
            Err(reason) => return Err(table.wrong(row.line, reason)),
        }
    }
    let (about, numbers) = (table.about(), declared::beside(folder)?);
    let (path, root, passed_over) = (path.to_owned(), folder.to_owned(), PassedOver::default());
    let paired = Paired { path, root, about, pairs, numbers, problems, passed_over };
    pairs::open(paired, opening, |index, error| table.wrong(lines[index], error.to_string()))
}

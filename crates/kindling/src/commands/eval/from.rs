//! `kindling eval --from`: scores of a table of predictions, without the model.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use kindling_metrics::{RegressionScores, Resampling, Scores, Subgroups, value_subgroups};
use kindling_runs::{PredictionTable, ValueTable};

use super::Scored;
use crate::scores;

/// What splits that choose cut-offs are called.
const VALIDATION: [&str; 3] = ["val", "valid", "validation"];

/// A table of predictions, and what of it is scored.
pub(super) struct From<'a> {
    pub(super) table: &'a Path,
    pub(super) split: Option<Scored>,
    /// The column of subgroups, and the manifest it is in where that is not the table.
    pub(super) subgroups: Option<&'a str>,
    pub(super) manifest: Option<&'a PathBuf>,
    /// Whether classes are grades.
    pub(super) ordinal: bool,
    pub(super) resampling: Resampling,
}

impl From<'_> {
    pub(super) fn scores(&self) -> Result<Scores> {
        let mut table = PredictionTable::read(self.table)?;
        table.ordinal = self.ordinal;
        if table.ordinal && table.several {
            bail!(
                "--ordinal is about images of one grade each, and those of {} have several labels",
                self.table.display()
            );
        }
        self.check_filled(table.images.is_empty())?;
        if self.split == Some(Scored::All) {
            table.images.iter_mut().for_each(|image| image.split = "all".to_owned());
        }
        let splits: Vec<String> = table.splits().into_iter().map(str::to_owned).collect();
        let split = self.split(&splits)?;
        let validation = splits.iter().map(String::as_str).find(|split| VALIDATION.contains(split));
        let mut found = scores::of_table(&table, &split, validation, self.resampling)
            .map_err(|error| anyhow!("{}: {error}", self.table.display()))?;
        if let (Some(column), Some(predictions)) = (self.subgroups, table.predictions(&split).ok().flatten()) {
            let samples: Vec<&str> = table.of_split(&split).map(|image| image.sample.as_str()).collect();
            let others: Vec<&[String]> = table.of_split(&split).map(|image| image.others.as_slice()).collect();
            let values = self.values((&table.others, &others), &samples, &split, column)?;
            found.subgroups = Some(Subgroups::of(column, &values, &predictions, self.resampling));
        }
        Ok(found)
    }

    /// Scores of numbers.
    pub(super) fn value_scores(&self) -> Result<RegressionScores> {
        if self.ordinal {
            bail!("--ordinal is about classes, and {} has numbers", self.table.display());
        }
        let mut table = ValueTable::read(self.table)?;
        self.check_filled(table.images.is_empty())?;
        if self.split == Some(Scored::All) {
            table.images.iter_mut().for_each(|image| image.split = "all".to_owned());
        }
        let splits: Vec<String> = table.splits().into_iter().map(str::to_owned).collect();
        let split = self.split(&splits)?;
        let found = scores::of_values(&table, &split, "prediction", self.resampling)
            .map_err(|error| anyhow!("{}: {error}", self.table.display()))?;
        let mut found = found.ok_or_else(|| anyhow!("{}: what is no number cannot be scored", self.table.display()))?;
        if let (Some(column), Ok(Some(values))) = (self.subgroups, table.values(&split)) {
            let samples: Vec<&str> = table.of_split(&split).map(|image| image.sample.as_str()).collect();
            let others: Vec<&[String]> = table.of_split(&split).map(|image| image.others.as_slice()).collect();
            let of = self.values((&table.others, &others), &samples, &split, column)?;
            found.subgroups = Some(value_subgroups(column, &of, &values, self.resampling));
        }
        Ok(found)
    }

    fn check_filled(&self, is_empty: bool) -> Result<()> {
        if is_empty {
            bail!("{} holds no predictions: there is nothing below its first line", self.table.display());
        }
        Ok(())
    }

    /// The split that is asked for; otherwise test, or the only one there is.
    fn split(&self, splits: &[String]) -> Result<String> {
        let there = || splits.iter().map(|split| format!("{split:?}")).collect::<Vec<_>>().join(", ");
        let wanted = self.split.map(|split| split.to_string());
        match (wanted, splits) {
            (Some(wanted), _) if splits.contains(&wanted) => Ok(wanted),
            (Some(wanted), _) => bail!("{} has no split {wanted}; it has {}", self.table.display(), there()),
            (None, _) if splits.iter().any(|split| split == "test") => Ok("test".to_owned()),
            (None, [only]) => Ok(only.clone()),
            (None, _) => {
                bail!("{} has the splits {}; choose one with --split, or all", self.table.display(), there())
            }
        }
    }

    /// The value of a column for each image of the split: of the table's other columns, whose names and values these are, or the
    /// manifest's, by the sample's name.
    fn values(
        &self,
        (names, others): (&[String], &[&[String]]),
        samples: &[&str],
        split: &str,
        column: &str,
    ) -> Result<Vec<Option<String>>> {
        if let Some(manifest) = self.manifest {
            return scores::column_of(manifest, column, samples.iter().copied(), split)
                .with_context(|| format!("the subgroups of {}", self.table.display()));
        }
        let Some(place) = names.iter().position(|other| other == column) else {
            let there = match names {
                [] => "it has no others than those of predictions".to_owned(),
                others => format!("it has {}", others.join(", ")),
            };
            bail!(
                "{} has no column {column} ({there}); name the manifest that has it with --manifest",
                self.table.display()
            );
        };
        Ok(others.iter().map(|others| others.get(place).cloned()).collect())
    }
}

//! A cross-validation: the scores of all folds together, the folds beside each other, and their curves.

mod table;
#[cfg(test)]
mod tests;

use kindling_metrics::{Figure, NamedClass, SegmentedCase};
use kindling_runs::{Answers, CrossValidation, Record, TaskScores};
use maud::{Markup, PreEscaped, html};

use crate::compare::{ComparedRun, OWN_STYLE, curves};
use crate::frame::frame;
use crate::run::{POLICY, SCRIPT, STYLE, regression, scores, segmentation};
use crate::scored;
use crate::words;

/// What the title says, the first that is there: the area does not depend on a cut-off, and is not there beyond 50 classes.
const LEADING: [&str; 4] = ["macro_auroc", "accuracy", "mean_dice", "mae"];

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct CrossValidationReport<'a> {
    /// Title of the page, e.g. the name of the folder.
    pub title: &'a str,
    /// What `cross-validation.json` says.
    pub found: &'a CrossValidation,
    /// What the models of the folds said of what each has tested.
    pub answers: &'a Answers,
    /// What the files of each fold's run say, in order.
    pub folds: &'a [Record],
}

impl CrossValidationReport<'_> {
    /// The page: one file that asks nothing of the network.
    pub fn html(&self) -> String {
        // Curves are called by their number and this: 1 of 5.
        let name = format!("of {}", self.folds.len());
        let runs = self.folds.iter().map(|record| ComparedRun { name: &name, record, paired: None, folds: None });
        let runs: Vec<ComparedRun<'_>> = runs.collect();
        let body = html! {
            (self.header())
            main {
                (self.pooled())
                (table::section(self.found))
                (curves::section(&runs))
            }
            footer { "Made by Kindling " (env!("CARGO_PKG_VERSION")) ". This page is one file and loads nothing." }
            script { (PreEscaped(SCRIPT)) }
        };
        let title = format!("{} – Kindling", self.title);
        frame(&title, &format!("{STYLE}{OWN_STYLE}"), POLICY, &body).into_string()
    }

    /// The scores of all folds together, as those of one run are shown.
    fn pooled(&self) -> Markup {
        match &self.found.pooled {
            TaskScores::Classes(scores) => scores::section(scores),
            TaskScores::Values(scores) => regression::section(scores),
            TaskScores::Masks(found) => {
                let (classes, cases): (&[NamedClass], &[SegmentedCase]) = match self.answers {
                    Answers::Masks(table) => (&table.classes, &table.cases),
                    Answers::Classes(_) | Answers::Values(_) => Default::default(),
                };
                segmentation::scores::section(found, classes, cases)
            }
        }
    }

    fn header(&self) -> Markup {
        let folds = words::plural(self.found.folds.len() as u64, "fold", "folds");
        let (samples, patients) = (self.found.pooled.samples(), self.found.pooled.patients());
        let (one, many) = scored::called(&self.found.pooled);
        let tested = if patients < samples { "patient" } else { one };
        html! {
            header {
                p.brand { "Kindling" span { (self.title) } }
                @match LEADING.iter().find_map(|name| self.found.pooled.figure(name)) {
                    Some(figure) => h1 { (in_words(figure)) " over " (folds) },
                    None => h1 { "Cross-validation with " (folds) },
                }
                p.about {
                    @if let Some(first) = self.folds.first() {
                        strong { (first.model()) } " on " strong { (first.data()) } ". "
                    }
                    "Each of " (words::plural(samples as u64, one, many))
                    @if patients < samples { " of " (words::plural(patients as u64, "patient", "patients")) }
                    " was tested once, by the model that had seen neither it nor anything else of the same " (tested) "."
                }
            }
        }
    }
}

/// `AUROC, mean of the classes 0.941 (0.902 to 0.973)`.
fn in_words(figure: &Figure) -> String {
    let value = format!("{} {}", scored::name(&figure.name), scored::number(figure.value));
    if figure.interval.is_some() { format!("{value} ({})", scored::interval(figure)) } else { value }
}

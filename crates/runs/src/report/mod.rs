//! `report.html`: one page about a run, to read or to send to a colleague.

mod axis;
mod chart;
mod confusion;
mod curves;
mod figures;
mod gan;
mod happened;
mod page;
mod pictures;
mod strokes;
#[cfg(test)]
mod tests;
mod words;

pub use gan::{GanReport, Grid};

use crate::{Environment, Event, Metrics, Score};

/// One image of the test split with the model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplePicture {
    /// The image as PNG. About 192 pixels wide is enough; it is embedded as it is.
    pub png: Vec<u8>,
    /// Its name in the data set.
    pub name: String,
    /// Indices of the true classes, ascending: one, or any number where samples have several labels.
    pub truth: Vec<usize>,
    /// Indices of the answered classes.
    pub prediction: Vec<usize>,
    /// The model's probability for its answer, 0 to 1; of several labels for the one it is least sure of.
    pub probability: f64,
}

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct Report<'a> {
    /// Title of the page, e.g. the name of the run's folder.
    pub title: &'a str,
    /// The model's name in the zoo.
    pub model: &'a str,
    /// The data set's name or path.
    pub data: &'a str,
    /// Names of the classes, in the order of their indices.
    pub classes: &'a [String],
    /// The resolved configuration.
    pub config_toml: &'a str,
    /// The events, in order.
    pub events: &'a [Event],
    /// The results.
    pub metrics: &'a Metrics,
    /// What it ran on.
    pub environment: &'a Environment,
    /// Images of the test split, shown in this order.
    pub pictures: &'a [SamplePicture],
    /// Accuracy of always answering the largest class of the test split, 0 to 1.
    pub chance: f64,
}

impl Report<'_> {
    /// The page: one file that asks nothing of the network.
    pub fn html(&self) -> String {
        page::page(self).into_string()
    }

    /// The score the page is about, with the split's name: the test's, or before there is one the validation's.
    fn score(&self) -> Option<(&'static str, &Score)> {
        let test = self.metrics.test.as_ref().map(|score| ("test", score));
        test.or_else(|| self.metrics.validation.as_ref().map(|score| ("validation", score)))
    }

    fn class(&self, index: usize) -> String {
        self.classes.get(index).cloned().unwrap_or_else(|| format!("class {index}"))
    }
}

//! `model-card.md`: a run's model card, with the sections of Mitchell et al. 2019, "Model Cards for Model Reporting"
//! (<https://doi.org/10.1145/3287560.3287596>), and the metadata that the Hugging Face Hub reads.
//!
//! What a run's files know is filled in; what only people know is marked as a place to fill in. Nothing else flows into a card, not
//! even the time, so the same files give the same card.

mod classification;
mod data;
mod figures;
mod limits;
mod markdown;
mod metadata;
mod model;
mod regression;
mod scores;
mod segmentation;
#[cfg(test)]
mod tests;

use kindling_runs::{Record, TaskScores};

use self::markdown::{text, to_fill_in};

/// What is known of a model without a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Architecture<'a> {
    /// Family of architectures, as the zoo calls it.
    pub family: &'a str,
    /// The paper that describes it, as the zoo cites it.
    pub paper: &'a str,
    /// The implementation whose numbers it has.
    pub reference: &'a str,
}

/// Everything a card is made of.
#[derive(Debug, Clone)]
pub struct Card<'a> {
    /// Name of the model, e.g. that of the run's folder.
    pub title: &'a str,
    /// What the run's files say.
    pub record: &'a Record,
    /// What is known of the model; none of one that the zoo does not have any more.
    pub architecture: Option<&'a Architecture<'a>>,
}

impl Card<'_> {
    /// The card as Markdown, with the metadata of the Hugging Face Hub at its head.
    pub fn markdown(&self) -> String {
        let record = self.record;
        let sections = [
            metadata::of(self),
            heading(self),
            model::details(self),
            intended_use(),
            factors(record),
            scores::metrics(record),
            data::evaluation(record),
            data::training(record),
            scores::quantitative_analyses(record),
            model::environment(record),
            ethics(),
            limits::section(record),
        ];
        let text = sections.concat();
        format!("{}\n", text.trim_end())
    }
}

fn heading(card: &Card<'_>) -> String {
    let record = card.record;
    let version = record.environment.as_ref().map(|environment| format!(" {}", text(&environment.kindling)));
    format!(
        "# {}\n\n{}, {}, trained on {} with Kindling{}.\n\nThe sections are those of Mitchell et al. (2019), \
         [Model Cards for Model Reporting](https://doi.org/10.1145/3287560.3287596). All figures are read from the files of the \
         run. What no file knows is marked “To be filled in by a person”.\n\n",
        text(card.title),
        match (record.segments(), record.regresses()) {
            (true, _) => "A model that segments images",
            (false, true) => "A model that gives an image a number",
            (false, false) => "An image classifier",
        },
        text(record.model()),
        text(record.data()),
        version.unwrap_or_default(),
    )
}

fn intended_use() -> String {
    let places = [
        ("Primary intended uses", "what the model is for, and what decision rests on its answer."),
        ("Primary intended users", "who may use it, and what they have to know."),
        ("Out-of-scope uses", "what it must not be used for, and what it was not tested on."),
    ];
    places.iter().fold("## Intended use\n\n".to_owned(), |section, (title, what)| {
        format!("{section}### {title}\n\n{}", to_fill_in(what))
    })
}

fn factors(record: &Record) -> String {
    let evaluated = match record.scores.as_ref().and_then(TaskScores::subgroups) {
        Some(subgroups) => format!("Scores are given by {}.\n\n", text(&subgroups.column)),
        None if record.segments() => "No subgroups were scored.\n\n".to_owned(),
        None => "No subgroups were scored (`kindling eval --subgroups COLUMN` scores them).\n\n".to_owned(),
    };
    format!(
        "## Factors\n\n{}{evaluated}",
        to_fill_in(
            "the population: who the patients are, from where and when, how they were chosen; devices and protocols that images \
             come from; who set the labels, and how."
        )
    )
}

fn ethics() -> String {
    format!(
        "## Ethical considerations\n\n{}",
        to_fill_in(
            "consent and permission for the data, privacy, what a wrong answer does to whom, and what was done against that."
        )
    )
}

//! The page of a sweep: how far scores are apart between seeds, and between settings.

use kindling_runs::{Record, Spread};
use maud::{Markup, PreEscaped, html};

use crate::chart::{Strip, StripRow};
use crate::compare::{ComparedRun, OWN_STYLE, curves};
use crate::frame::frame;
use crate::run::{POLICY, SCRIPT, STYLE};
use crate::scored::number;
use crate::words;

/// Lines of more runs than these are not told from each other.
const MOST_CURVES: usize = 30;

/// A combination of settings with its runs.
#[derive(Debug, Clone)]
pub struct SweptSettings<'a> {
    /// The settings in words.
    pub settings: &'a str,
    /// Its runs, one a seed.
    pub runs: Vec<SweptRun<'a>>,
}

/// The scores of one run of a sweep.
#[derive(Debug, Clone)]
pub struct SweptRun<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// The name of its folder beside the page.
    pub folder: &'a str,
    /// What its files say; none of a run that has none.
    pub record: Option<&'a Record>,
    /// Its scores, in the order of [`SweepPage::scores`].
    pub values: Vec<Option<f64>>,
}

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct SweepPage<'a> {
    /// Title of the page, e.g. the name of the folder.
    pub title: &'a str,
    /// Name of each score, and whether less is better.
    pub scores: &'a [(&'a str, bool)],
    /// The combinations of settings, in the order in which they were trained.
    pub combinations: &'a [SweptSettings<'a>],
}

impl SweepPage<'_> {
    /// The page: one file that asks nothing of the network. It links to the reports of the runs beside it.
    pub fn html(&self) -> String {
        let runs: Vec<&SweptRun<'_>> = self.combinations.iter().flat_map(|of| &of.runs).collect();
        let compared: Vec<ComparedRun<'_>> = runs
            .iter()
            .filter_map(|run| Some(ComparedRun { name: run.folder, record: run.record?, paired: None, folds: None }))
            .collect();
        let body = html! {
            header {
                p.brand { "Kindling sweep" span { (self.title) } }
                h1 { (words::plural(runs.len() as u64, "run", "runs")) " of " (words::plural(self.combinations.len() as u64, "setting", "settings")) }
                p.about { "What differs between seeds of one setting is chance; a difference between settings that is no larger says nothing." }
            }
            main {
                section { h2 { "Spread over the seeds" } (self.strips()) (self.spreads()) }
                section { h2 { "Every run" } (self.table()) }
                @if compared.len() <= MOST_CURVES { (curves::section(&compared)) }
            }
            footer { "Made by Kindling " (env!("CARGO_PKG_VERSION")) ". This page is one file and loads nothing." }
            script { (PreEscaped(SCRIPT)) }
        };
        let title = format!("{} – Kindling", self.title);
        frame(&title, &format!("{STYLE}{OWN_STYLE}"), POLICY, &body).into_string()
    }

    /// The values of a score, by combination.
    fn values(&self, score: usize) -> impl Iterator<Item = Vec<f64>> {
        let of = move |run: &SweptRun<'_>| run.values.get(score).copied().flatten();
        self.combinations.iter().map(move |combination| combination.runs.iter().filter_map(of).collect())
    }

    fn strips(&self) -> Markup {
        let strip = |score: usize, title: &str, less: bool| {
            let row = |(number, values): (usize, Vec<f64>)| StripRow { label: number.to_string(), values };
            let note = if less { "less is better" } else { "more is better" };
            Strip { title, note, rows: (1..).zip(self.values(score)).map(row).collect() }.figure()
        };
        html! {
            div.forests {
                @for (score, (title, less)) in self.scores.iter().enumerate() { (strip(score, title, *less)) }
            }
        }
    }

    fn spreads(&self) -> Markup {
        html! {
            div.scroll {
                table.numbers.ranges {
                    thead { tr {
                        th scope="col" { "setting" } th scope="col" { "runs" }
                        @for (title, _) in self.scores { th scope="col" { (title) } }
                    } }
                    tbody {
                        @for (at, combination) in self.combinations.iter().enumerate() {
                            tr {
                                th scope="row" { (at + 1) " · " (combination.settings) } td { (combination.runs.len()) }
                                @for score in 0..self.scores.len() { td { (spread(Spread::of(self.values(score).nth(at).unwrap_or_default()))) } }
                            }
                        }
                    }
                }
            }
            p.note { "Mean ± standard deviation of one run, with Bessel's correction; below it the smallest and the largest." }
        }
    }

    fn table(&self) -> Markup {
        html! {
            div.scroll {
                table.numbers {
                    thead { tr {
                        th scope="col" { "run" } th scope="col" { "setting" } th scope="col" { "seed" }
                        @for (title, _) in self.scores { th scope="col" { (title) } }
                    } }
                    tbody {
                        @for combination in self.combinations {
                            @for run in &combination.runs {
                                tr {
                                    th scope="row" {
                                        @if run.record.is_some() { a href={ (run.folder) "/report.html" } { (run.folder) } } @else { (run.folder) }
                                    }
                                    td { (combination.settings) } td { (run.seed) }
                                    @for value in &run.values { td { (value.map_or("–".to_owned(), number)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn spread(of: Option<Spread>) -> Markup {
    html! {
        @match of {
            None => "–",
            Some(of) => {
                b { (number(of.mean)) @if let Some(deviation) = of.deviation { " ± " (number(deviation)) } }
                span { (number(of.least)) " to " (number(of.most)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_a_dot_and_a_row_and_settings_have_their_spread() {
        let record = Record::default();
        let run = |seed: u64, folder: &'static str, value: Option<f64>| SweptRun {
            seed,
            folder,
            record: value.map(|_| &record),
            values: vec![value],
        };
        let combinations = [
            SweptSettings { settings: "lr <1", runs: vec![run(0, "a-0", Some(0.5)), run(1, "a-1", Some(0.75))] },
            SweptSettings { settings: "lr 2", runs: vec![run(0, "b-0", None), run(1, "b-1", Some(1.0))] },
        ];
        let page = SweepPage { title: "swept", scores: &[("accuracy", false)], combinations: &combinations }.html();
        for part in ["lr &lt;1", "0.625 ± 0.177", "0.500 to 0.750", "href=\"a-1/report.html\"", "more is better"] {
            assert!(page.contains(part), "{part:?} is missing");
        }
        assert_eq!(page.matches("<circle class=\"dot faded\"").count(), 3);
        assert!(!page.contains("href=\"b-0") && page.contains("b-0"), "a run without files has no report");
    }
}

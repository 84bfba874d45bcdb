//! The page about a model that segments.

mod pictures;
pub(crate) mod scores;
#[cfg(test)]
mod tests;

use kindling_metrics::{Figure, NamedClass, SegmentationScores, SegmentedCase};
use kindling_runs::{Environment, Event, Metrics, Sitting};
use maud::{Markup, html};

use super::curves::Goal;
use super::trained::{Tile, Trained, gauge};
use crate::chart::Unit;
use crate::scored::{interval, number};
use crate::words;

pub use pictures::{MaskPicture, ShownCase};

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct SegmentationReport<'a> {
    /// Title of the page, e.g. the name of the run's folder.
    pub title: &'a str,
    /// The model's name in the zoo.
    pub model: &'a str,
    /// The data set's name or path.
    pub data: &'a str,
    /// The classes that are scored, without the background. Their labels choose their colours: [`class_colour`](crate::class_colour).
    pub classes: &'a [NamedClass],
    /// `config.toml` as it was resolved.
    pub config_toml: &'a str,
    /// The events, in order.
    pub events: &'a [Event],
    /// What `metrics.json` says.
    pub metrics: &'a Metrics,
    /// Scores with intervals, where there are any.
    pub scores: Option<&'a SegmentationScores>,
    /// The cases of the split that was scored: the dots of the charts.
    pub cases: &'a [SegmentedCase],
    /// The machine and the versions that the run began on.
    pub environment: &'a Environment,
    /// Every time it was started or continued.
    pub history: &'a [Sitting],
    /// Cases of the test split with their masks, in the order in which they are shown.
    pub pictures: &'a [MaskPicture],
    /// Mean foreground Dice on the test split of the best answer that ignores the image, 0 to 1: what the model must beat.
    pub position_dice: Option<f64>,
}

/// What the page is about: a split, its mean foreground Dice, and the interval where there is one.
struct Headline<'a> {
    split: &'a str,
    dice: f64,
    figure: Option<&'a Figure>,
    position: Option<f64>,
}

impl SegmentationReport<'_> {
    /// The page: one file that asks nothing of the network, of less than 3 MB.
    pub fn html(&self) -> String {
        let trained = Trained {
            title: self.title,
            model: self.model,
            data: self.data,
            classes: self.classes.len(),
            config_toml: self.config_toml,
            events: self.events,
            metrics: self.metrics,
            environment: self.environment,
            history: self.history,
        };
        let headline = self.headline();
        let verdict = match &headline {
            Some(headline) => self.verdict(headline),
            None => html! { h1 { "Not evaluated yet" } },
        };
        let goal = Goal {
            title: "Mean foreground Dice",
            name: "Dice",
            unit: Unit::Share,
            of: |at| at.dice,
            level: self.position().map(|dice| (dice, "position alone".to_owned())),
            best_epoch: self.metrics.best_epoch,
        };
        let results = html! {
            @if let Some(scores) = self.scores { (scores::section(scores, self.classes, self.cases)) }
            (pictures::section(self.classes, self.pictures))
        };
        trained.page(&verdict, self.tiles(headline.as_ref()), &goal, &results).into_string()
    }

    /// The test split's Dice, or before there is one the validation split's.
    fn headline(&self) -> Option<Headline<'_>> {
        if let Some(scores) = self.scores {
            let position = self.position().filter(|_| scores.split == "test");
            return Some(Headline {
                split: &scores.split,
                dice: scores.dice.value,
                figure: Some(&scores.dice),
                position,
            });
        }
        let reached = self.metrics.segmentation?;
        let test = reached.test_dice.map(|dice| ("test", dice, self.position()));
        let (split, dice, position) = test.or(reached.validation_dice.map(|dice| ("validation", dice, None)))?;
        Some(Headline { split, dice, figure: None, position })
    }

    fn position(&self) -> Option<f64> {
        self.position_dice.filter(|dice| dice.is_finite())
    }

    fn verdict(&self, headline: &Headline<'_>) -> Markup {
        let &Headline { split, dice, figure, position } = headline;
        if !dice.is_finite() {
            return html! {
                h1 { "Mean foreground Dice is not defined on the " (split) " split" }
                p.note {
                    "A class that no case has, neither in the truth nor in the answer, has no Dice, and without it there is no mean over all "
                    "classes. Those of the other classes stand below."
                }
            };
        }
        let level = position.map(|position| (position, "position"));
        let against = position.map_or_else(String::new, |position| format!(", position alone {}", number(position)));
        html! {
            h1 {
                "Mean foreground Dice " (number(dice)) " on the " (split) " split"
                @if let Some(position) = position { ", " (compared(headline, position)) }
            }
            (gauge(dice, level, &format!("Mean foreground Dice {}{against}", number(dice))))
            p.note {
                @if let Some(scores) = self.scores {
                    (scores::basis(scores)) " "
                    @if let Some(figure) = figure.filter(|figure| figure.interval.is_some()) { "95\u{a0}% interval " (interval(figure)) ". " }
                }
                "Dice is averaged over cases, then over classes."
                @if position.is_some() { " Position alone is the best answer that ignores the image." }
            }
        }
    }

    /// How good the answers are.
    fn tiles(&self, headline: Option<&Headline<'_>>) -> Vec<Tile> {
        let mut tiles: Vec<Tile> = Vec::new();
        if let Some(Headline { split, dice, figure, .. }) = headline {
            let range =
                figure.filter(|figure| figure.interval.is_some()).map(|figure| format!("{}, ", interval(figure)));
            tiles.push(("Mean Dice", number(*dice), format!("{}{split} split", range.unwrap_or_default())));
        }
        if let Some(scores) = self.scores {
            let distances = scores.hausdorff_95;
            let median =
                distances.quartiles.map(|found| format!("{}\u{a0}{}", words::tenths(found.median), scores.unit));
            let missing =
                if distances.undefined > 0 { format!(", {} not defined", distances.undefined) } else { String::new() };
            let of = format!("of {}{missing}", words::plural(distances.defined as u64, "mask", "masks"));
            tiles.push(("Median HD95", median.unwrap_or_else(|| "–".into()), of));
        }
        let validated = self.metrics.segmentation.and_then(|reached| reached.validation_dice);
        if let (Some(dice), true) = (validated, headline.is_some_and(|headline| headline.split == "test")) {
            let best = self.metrics.best_epoch.map(|epoch| format!("best epoch {epoch}"));
            tiles.push(("Validation Dice", number(dice), best.unwrap_or_default()));
        }
        tiles
    }
}

/// Clearly better is what an interval lies above.
fn compared(headline: &Headline<'_>, position: f64) -> String {
    let low = headline.figure.and_then(|figure| figure.interval).map(|(low, _)| low);
    if low.is_some_and(|low| low > position) {
        format!("against {} by position alone", number(position))
    } else if headline.dice > position {
        format!("not clearly better than position alone ({})", number(position))
    } else {
        format!("no better than position alone ({})", number(position))
    }
}

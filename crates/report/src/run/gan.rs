//! The page about two networks that were trained against each other.

use kindling_runs::{Environment, Event, GanMetrics, Sitting};
use maud::{Markup, html};

use super::trained::tiles;
use super::{embedded, happened, of_run};
use crate::chart::{Chart, Point, Series, Stroke, Unit, smooth, thin};
use crate::words;

/// Samples of the generator at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// After which iteration.
    pub step: u64,
    /// The picture as PNG; it is embedded as it is.
    pub png: Vec<u8>,
}

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct GanReport<'a> {
    /// Title of the page, e.g. the name of the run's folder.
    pub title: &'a str,
    /// `config.toml` as it was resolved.
    pub config_toml: &'a str,
    /// The events, in order.
    pub events: &'a [Event],
    /// What `metrics.json` says.
    pub metrics: &'a GanMetrics,
    /// The machine and the versions that the run began on.
    pub environment: &'a Environment,
    /// Every time it was started or continued.
    pub history: &'a [Sitting],
    /// Samples from the same noise over time, in order.
    pub grids: &'a [Grid],
    /// What makes the features that distances are measured in.
    pub features: &'a str,
}

/// What was noted of each iteration.
#[derive(Default)]
struct Curves {
    discriminator: Vec<Point>,
    generator: Vec<Point>,
    real: Vec<Point>,
    made: Vec<Point>,
    spread: Vec<Point>,
    discriminator_norm: Vec<Point>,
    generator_norm: Vec<Point>,
    speed: Vec<Point>,
    frechet: Vec<Point>,
    kernel: Vec<Point>,
}

impl Curves {
    fn of(events: &[Event]) -> Self {
        let mut curves = Self::default();
        for event in events {
            match event {
                Event::Iteration {
                    step,
                    discriminator_loss,
                    generator_loss,
                    discriminator_norm,
                    generator_norm,
                    real_believed,
                    made_believed,
                    spread,
                    images_per_second,
                    ..
                } => {
                    let rows = [
                        (&mut curves.discriminator, discriminator_loss),
                        (&mut curves.generator, generator_loss),
                        (&mut curves.discriminator_norm, discriminator_norm),
                        (&mut curves.generator_norm, generator_norm),
                        (&mut curves.real, real_believed),
                        (&mut curves.made, made_believed),
                        (&mut curves.spread, spread),
                        (&mut curves.speed, images_per_second),
                    ];
                    for (points, value) in rows {
                        points.push((*step as f64, *value));
                    }
                }
                Event::Compared { step, frechet, kernel, .. } => {
                    curves.frechet.push((*step as f64, *frechet));
                    curves.kernel.push((*step as f64, *kernel));
                }
                _ => {}
            }
        }
        curves
    }
}

impl GanReport<'_> {
    /// The page: one file that asks nothing of the network.
    pub fn html(&self) -> String {
        let curves = Curves::of(self.events);
        let content = html! {
            (self.tiles())
            (self.samples())
            (charts(&curves))
            (happened(self.events, Vec::new()))
        };
        of_run(self.title, &self.header(), &content, (self.environment, self.history), self.config_toml).into_string()
    }

    fn header(&self) -> Markup {
        let metrics = self.metrics;
        html! {
            header {
                p.brand { "Kindling" span { (self.title) } }
                @match (metrics.first_frechet, metrics.frechet) {
                    (Some(first), Some(last)) => h1 {
                        "Frechet distance " (words::number(last)) ", from " (words::number(first)) " before training"
                    },
                    _ => h1 { "Samples of " (metrics.model) },
                }
                p.note {
                    "Distances of " (metrics.compared) " images of either kind in features of " (self.features)
                    ". They are no FID and no KID, whose features are another network's; compare them only with distances "
                    "measured in the same features of as many images."
                }
                p.about {
                    strong { (metrics.model) } " (" (words::count(metrics.generator_parameters)) " parameters against "
                    (words::count(metrics.discriminator_parameters)) "), trained on " strong { (metrics.data) } " for "
                    (words::plural(metrics.iterations, "iteration", "iterations")) " in "
                    (words::duration(metrics.seconds)) " on " (self.environment.device.device) "."
                }
            }
        }
    }

    fn tiles(&self) -> Markup {
        let metrics = self.metrics;
        let distance = |value: Option<f64>| value.map_or_else(|| "–".into(), words::number);
        let peak = match metrics.peak_memory_bytes {
            0 => "–".into(),
            peak => words::bytes(peak),
        };
        let shown = [
            ("Frechet distance", distance(metrics.frechet), "0 is equal"),
            ("Kernel distance", distance(metrics.kernel), "around 0 is equal"),
            ("Training speed", words::number(metrics.images_per_second), "real images per second"),
            ("Peak memory", peak, "while training"),
        ];
        tiles(&shown.map(|(name, value, note)| (name, value, note.to_owned())))
    }

    /// Where there are many grids, some of them: the first, the last, and evenly spaced ones between.
    fn samples(&self) -> Markup {
        const MOST: usize = 12;
        let last = self.grids.len().saturating_sub(1);
        let shown = (0..MOST.min(self.grids.len())).map(|place| place * last / (MOST - 1).min(last).max(1));
        html! {
            @if !self.grids.is_empty() {
                section {
                    h2 { "Samples over time" }
                    p.note { "The same noise every time, made by the moving average of the generator." }
                    div.charts.small {
                        @for grid in shown.filter_map(|index| self.grids.get(index)) {
                            figure {
                                img src=(embedded(&grid.png)) style="width:100%"
                                    loading="lazy" alt={ "samples after iteration " (grid.step) };
                                figcaption.note { "after iteration " (grid.step) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn charts(curves: &Curves) -> Markup {
    let line = |name: &'static str, colour, points: &[Point]| Series {
        name: name.into(),
        colour,
        stroke: Stroke::Line,
        points: thin(&smooth(points)),
    };
    let dots = |name: &'static str, points: &[Point]| Series {
        name: name.into(),
        colour: "first",
        stroke: Stroke::Dots,
        points: thin(points),
    };
    let chart = |title, unit, series: Vec<Series>| {
        let series: Vec<Series> = series.into_iter().filter(|series| !series.points.is_empty()).collect();
        Chart { title, along: "step", unit, series, level: None, marks: Vec::new(), small: false }
    };
    let large = [
        chart("Frechet distance", Unit::Plain, vec![dots("frechet", &curves.frechet)]),
        chart("Kernel distance", Unit::Plain, vec![dots("kernel", &curves.kernel)]),
        chart(
            "Loss",
            Unit::Plain,
            vec![line("discriminator", "first", &curves.discriminator), line("generator", "second", &curves.generator)],
        ),
        chart(
            "Taken for real",
            Unit::Percent,
            vec![line("real images", "first", &curves.real), line("fake images", "second", &curves.made)],
        ),
    ];
    let small = [
        chart("Spread of samples", Unit::Percent, vec![line("spread", "first", &curves.spread)]),
        chart(
            "Gradient norm",
            Unit::Plain,
            vec![
                line("discriminator", "first", &curves.discriminator_norm),
                line("generator", "second", &curves.generator_norm),
            ],
        ),
        chart("Images per second", Unit::Plain, vec![line("speed", "first", &curves.speed)]),
    ];
    html! {
        section {
            h2 { "Learning" }
            div.charts { @for chart in large.iter().filter(|chart| !chart.series.is_empty()) { (chart.figure()) } }
            p.note {
                "Losses of two networks against each other say little by themselves; the distance does. Made images that "
                "differ ever less from each other are a collapse."
            }
            div.charts.small {
                @for chart in small.into_iter().filter(|chart| !chart.series.is_empty()) {
                    (Chart { small: true, ..chart }.figure())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(events: &[Event], metrics: &GanMetrics, grids: &[Grid]) -> String {
        let environment = Environment::collect("0.0", kindling_runs::DeviceFacts::default());
        let report = GanReport {
            title: "a <run>",
            config_toml: "seed = 1",
            events,
            metrics,
            environment: &environment,
            history: &[],
            grids,
            features: "a network",
        };
        report.html()
    }

    #[test]
    fn the_page_shows_distances_losses_and_every_grid_and_loads_nothing() {
        let iteration = |step: u64| Event::Iteration {
            step,
            epoch: 1,
            discriminator_loss: 1.5,
            generator_loss: f64::NAN,
            discriminator_norm: 1.0,
            generator_norm: 2.0,
            real_believed: 0.75,
            made_believed: 0.25,
            spread: 0.5,
            images_per_second: 10.0,
            micro_batch: 8,
            peak_memory_bytes: 1 << 30,
            seconds: 1.0,
        };
        let mut events: Vec<Event> = (1..=40).map(iteration).collect();
        events.push(Event::Compared { step: 40, frechet: 12.5, kernel: 0.25, samples: 100 });
        events.push(Event::Warned { step: 40, text: "the generator may have collapsed".into() });
        let metrics =
            GanMetrics { first_frechet: Some(100.0), frechet: Some(12.5), compared: 100, ..GanMetrics::default() };
        let grids: Vec<Grid> = (0..30).map(|step| Grid { step, png: vec![step as u8; 9] }).collect();
        let html = page(&events, &metrics, &grids);
        for expected in ["12.5", "Frechet distance", "Taken for real", "may have collapsed", "a &lt;run&gt;"] {
            assert!(html.contains(expected), "{expected}");
        }
        assert_eq!(html.matches("data:image/png").count(), 12);
        assert!(html.contains("after iteration 0<") && html.contains("after iteration 29<"));
        assert!(!html.contains("http://") && !html.contains("src=\"http"));
    }

    #[test]
    fn a_run_without_distances_has_a_page_too() {
        let one = [Grid { step: 0, png: vec![1] }];
        assert_eq!(page(&[], &GanMetrics::default(), &one).matches("data:image/png").count(), 1);
        assert!(!page(&[], &GanMetrics::default(), &[]).contains("Samples over time"));
    }
}

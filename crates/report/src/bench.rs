//! Rows as a page: bars of speed, and speed against memory. One file that asks nothing of the network.

use kindling_runs::bench::{Comparison, MemoryUsed, Row, What, comparison_table, machine};
use maud::{Markup, html};

use crate::frame::{COMMON, DRAWINGS_ONLY, frame};

const STYLE: &str = include_str!("bench.css");
/// Colours of the style sheet, and marks that tell series apart without them.
const SERIES: [(&str, Mark); 6] = [
    ("first", Mark::Circle),
    ("second", Mark::Square),
    ("third", Mark::Diamond),
    ("fourth", Mark::Triangle),
    ("fifth", Mark::Circle),
    ("sixth", Mark::Square),
];
const MEBIBYTE: f64 = 1_048_576.0;

#[derive(Clone, Copy)]
enum Mark {
    Circle,
    Square,
    Diamond,
    Triangle,
}

/// A page about rows, with a comparison if there is one.
pub fn bench_page(title: &str, rows: &[Row], comparison: Option<&Comparison>) -> String {
    let groups = groups(rows);
    let series = series(rows);
    let body = html! {
        header { p.brand { "Kindling bench" } h1 { (title) } (machines(rows)) }
        main {
            section {
                h2 { "Images a second" }
                p.note { "Bars of one kind, like train or infer, share one scale." }
                (legend(&series)) (bars(rows, &groups, &series))
            }
            section { h2 { "Speed against memory" } (legend(&series)) (scatter(rows, &groups, &series)) }
            @if let Some(comparison) = comparison {
                section { h2 { "Compared" } pre { (comparison_table(comparison)) } }
            }
            (failures(rows))
        }
        footer { "This page is one file and loads nothing." }
    };
    frame(&format!("{title} – Kindling"), &format!("{COMMON}{STYLE}"), DRAWINGS_ONLY, &body).into_string()
}

/// The configurations, in order, by their labels.
fn groups(rows: &[Row]) -> Vec<String> {
    distinct(rows.iter().map(|row| row.configuration.label()))
}

/// The engines, in order.
fn series(rows: &[Row]) -> Vec<String> {
    distinct(rows.iter().map(Row::engine_label))
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn look(series: &[String], row: &Row) -> (&'static str, Mark) {
    let index = series.iter().position(|name| *name == row.engine_label()).unwrap_or(0);
    SERIES[index % SERIES.len()]
}

fn machines(rows: &[Row]) -> Markup {
    html! { @for machine in distinct(rows.iter().map(machine)) { p.note { (machine) } } }
}

fn legend(series: &[String]) -> Markup {
    html! {
        ul.legend {
            @for (name, (colour, mark)) in series.iter().zip(SERIES.into_iter().cycle()) {
                li { svg.sample viewBox="0 0 16 16" aria-hidden="true" { g class=(colour) { (symbol(mark, 8.0, 8.0)) } } (name) }
            }
        }
    }
}

fn symbol(mark: Mark, x: f64, y: f64) -> Markup {
    let path = |points: &[(f64, f64)]| {
        let words: Vec<String> = points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        words.join(" ")
    };
    html! {
        @match mark {
            Mark::Circle => circle.mark cx={ (format!("{x:.1}")) } cy={ (format!("{y:.1}")) } r="5.5" {},
            Mark::Square => polygon.mark points=(path(&[(-5.0, -5.0), (5.0, -5.0), (5.0, 5.0), (-5.0, 5.0)])) {},
            Mark::Diamond => polygon.mark points=(path(&[(0.0, -6.5), (6.5, 0.0), (0.0, 6.5), (-6.5, 0.0)])) {},
            Mark::Triangle => polygon.mark points=(path(&[(0.0, -6.5), (6.0, 5.0), (-6.0, 5.0)])) {},
        }
    }
}

/// Speeds as bars, a group a configuration, with the quartiles as whiskers. All groups of one kind share a scale, so that the
/// bars of models can be held against each other; training and inference do not, for they differ by more than models do.
fn bars(rows: &[Row], groups: &[String], series: &[String]) -> Markup {
    const LABEL: f64 = 24.0;
    const BAR: f64 = 24.0;
    const LEFT: f64 = 8.0;
    const LENGTH: f64 = 620.0;
    let mut top = 0.0;
    let mut drawn = Vec::new();
    for group in groups {
        let members: Vec<&Row> = rows.iter().filter(|row| row.configuration.label() == *group).collect();
        let most = members.first().map_or(0.0, |row| fastest(rows, row.configuration.what));
        let start = top;
        top += LABEL + BAR * members.len() as f64 + 12.0;
        drawn.push((group, start, members, most.max(f64::MIN_POSITIVE)));
    }
    let height = top.max(1.0);
    html! {
        svg.bars viewBox={ "0 0 840 " (format!("{height:.0}")) } role="img" aria-label="Images a second" {
            @for (group, start, members, most) in &drawn {
                text.label x=(LEFT) y=(start + 16.0) { (group) }
                @for (index, row) in members.iter().enumerate() {
                    @let y = start + LABEL + BAR * index as f64;
                    @match row.measured() {
                        Some(measured) => {
                            @let speed = measured.images_per_second;
                            @let x = |value: f64| LEFT + LENGTH * value / most;
                            g class=(look(series, row).0) {
                                rect.bar x=(LEFT) y=(y) height="16" width={ (format!("{:.1}", x(speed.median) - LEFT)) } { title { (row.engine_label()) } }
                                line.whisker x1={ (format!("{:.1}", x(speed.q1))) } x2={ (format!("{:.1}", x(speed.q3))) } y1=(y + 8.0) y2=(y + 8.0) {}
                            }
                            text.value x={ (format!("{:.1}", x(speed.q3.max(speed.median)) + 8.0)) } y=(y + 13.0) { (format!("{:.2}", speed.median)) " " (row.engine_label()) }
                        }
                        None => text.value x=(LEFT) y=(y + 13.0) { (row.engine_label()) ": no figures" },
                    }
                }
            }
        }
    }
}

/// The most images a second that a row of this kind reached, its upper quartile.
fn fastest(rows: &[Row], what: What) -> f64 {
    let of_kind = rows.iter().filter(|row| row.configuration.what == what);
    of_kind.filter_map(Row::measured).map(|measured| measured.images_per_second.q3).fold(0.0, f64::max)
}

/// A point a row: to the right more memory, upwards faster. Both axes are logarithmic.
fn scatter(rows: &[Row], groups: &[String], series: &[String]) -> Markup {
    const BOX: (f64, f64) = (840.0, 420.0);
    const INSIDE: (f64, f64, f64, f64) = (64.0, 20.0, 40.0, 50.0); // left, top, right, bottom
    // The first figure that every engine counts: live tensors of one beside the whole process of another say nothing.
    type Figure = fn(&MemoryUsed) -> Option<u64>;
    let figures: [(&str, Figure); 3] = [
        ("peak memory reserved, MiB", |memory| memory.peak_reserved_bytes),
        ("peak memory in use, MiB", |memory| memory.peak_in_use_bytes),
        ("peak memory of the whole process, MiB", |memory| memory.peak_process_bytes),
    ];
    let counted = |figure: Figure| rows.iter().filter_map(Row::measured).all(|it| figure(&it.memory).is_some());
    let (of, figure) = figures.into_iter().find(|(_, figure)| counted(*figure)).unwrap_or(figures[2]);
    let points: Vec<(&Row, f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            let measured = row.measured()?;
            let bytes = figure(&measured.memory)?;
            Some((row, bytes as f64 / MEBIBYTE, measured.images_per_second.median))
        })
        .filter(|point| point.1 > 0.0 && point.2 > 0.0)
        .collect();
    let (left, right) = span(points.iter().map(|point| point.1));
    let (low, high) = span(points.iter().map(|point| point.2));
    let x = |value: f64| INSIDE.0 + (BOX.0 - INSIDE.0 - INSIDE.2) * (value / left).ln() / (right / left).ln();
    let y = |value: f64| BOX.1 - INSIDE.3 - (BOX.1 - INSIDE.1 - INSIDE.3) * (value / low).ln() / (high / low).ln();
    html! {
        @if points.is_empty() { p.note { "No row has both." } }
        @else {
            svg.scatter viewBox={ "0 0 " (BOX.0) " " (BOX.1) } role="img" aria-label="Speed against memory" {
                @for tick in ticks(left, right) {
                    line.grid x1={ (format!("{:.1}", x(tick))) } x2={ (format!("{:.1}", x(tick))) } y1=(INSIDE.1) y2=(BOX.1 - INSIDE.3) {}
                    text.tick x={ (format!("{:.1}", x(tick))) } y=(BOX.1 - INSIDE.3 + 18.0) text-anchor="middle" { (tick) }
                }
                @for tick in ticks(low, high) {
                    line.grid x1=(INSIDE.0) x2=(BOX.0 - INSIDE.2) y1={ (format!("{:.1}", y(tick))) } y2={ (format!("{:.1}", y(tick))) } {}
                    text.tick x=(INSIDE.0 - 8.0) y={ (format!("{:.1}", y(tick) + 4.0)) } text-anchor="end" { (tick) }
                }
                text.tick x={ (format!("{:.1}", (INSIDE.0 + BOX.0 - INSIDE.2) / 2.0)) } y=(BOX.1 - 10.0) text-anchor="middle" { (of) }
                text.tick x=(8) y=(12) { "images/s" }
                @for (row, memory, speed) in &points {
                    @let (colour, mark) = look(series, row);
                    @let number = groups.iter().position(|group| *group == row.configuration.label()).unwrap_or(0) + 1;
                    g class=(colour) {
                        (symbol(mark, x(*memory), y(*speed)))
                        text.tick x={ (format!("{:.1}", x(*memory) + 9.0)) } y={ (format!("{:.1}", y(*speed) + 4.0)) } { (number) }
                        title { (row.engine_label()) ", " (row.configuration.label()) }
                    }
                }
            }
            ol.key { @for group in groups { li { (group) } } }
        }
    }
}

/// The ends of a logarithmic axis with room around the values.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high { (1.0, 10.0) } else { (low / 1.4, high * 1.4) }
}

/// 1, 2 and 5 times powers of ten between two ends.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let mut found = Vec::new();
    for power in low.log10().floor() as i32..=high.log10().ceil() as i32 {
        found.extend([1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
    }
    found.retain(|tick| (low..=high).contains(tick));
    found
}

fn failures(rows: &[Row]) -> Markup {
    let failed: Vec<_> = rows.iter().filter_map(|row| Some((row, row.failure()?))).collect();
    html! {
        @if !failed.is_empty() {
            section {
                h2 { "Without figures" }
                ul { @for (row, failure) in failed {
                    li { strong { (row.engine_label()) ", " (row.configuration.label()) } " – " (failure.kind) ": " (failure.reason) }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kindling_metrics::Quartiles;
    use kindling_runs::bench::{
        Conditions, Configuration, Failure, FailureKind, Measured, Outcome, Protocol, Rows, Window,
    };

    use super::*;

    fn example() -> Configuration {
        Configuration {
            what: What::Train,
            model: "mobilenet_v2".into(),
            image_size: 512,
            channels: 3,
            classes: 10,
            batch_size: 4,
            micro_batch: None,
            norm_group: 8,
            precision: "f32".into(),
            recompute: "none".into(),
            optimizer: "adamw".into(),
            memory_budget: None,
            seed: 0,
            device: "cpu".into(),
            threads: 2,
        }
    }

    /// A row with windows of these speeds.
    fn row(engine: &str, configuration: Configuration, speeds: &[f64]) -> Row {
        let windows: Vec<Window> = speeds.iter().map(|&speed| Window { images: 12, seconds: 12.0 / speed }).collect();
        let memory = MemoryUsed { peak_in_use_bytes: Some(400 << 20), ..MemoryUsed::default() };
        let outcome = Outcome::Measured(Measured {
            images_per_second: Quartiles::of(speeds.iter().copied()).unwrap(),
            step_seconds: Quartiles::of(speeds.iter().map(|speed| 4.0 / speed)).unwrap(),
            first_step_seconds: 2.0,
            steps: 3 * windows.len() as u64,
            windows,
            micro_batch: 4,
            recoveries: 0,
            skipped_updates: 0,
            loss: Some(1.1),
            memory,
            energy: None,
        });
        of_outcome(engine, configuration, outcome)
    }

    /// The row without figures.
    fn failed(engine: &str, configuration: Configuration) -> Row {
        let failure = Failure { kind: FailureKind::OutOfMemory, reason: "8 GiB, and | it needs 9".into() };
        of_outcome(engine, configuration, Outcome::Failed(failure))
    }

    fn of_outcome(engine: &str, configuration: Configuration, outcome: Outcome) -> Row {
        Row {
            engine: engine.into(),
            variant: None,
            configuration_hash: configuration.hash(),
            configuration,
            protocol: Protocol { warmup: 1, windows: 3, window_seconds: 1.0 },
            outcome,
            software: [("kindling".to_string(), "0.1.0".to_string())].into(),
            environment: kindling_runs::Environment::default(),
            conditions: Conditions::default(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_page_shows_every_row_and_asks_nothing_of_the_network() {
        let tricky = Configuration { model: "<script>alert(1)</script>".into(), ..example() };
        let a = vec![row("kindling", example(), &[10.0, 11.0, 12.0]), row("kindling", tricky, &[1.0])];
        let b = vec![row("pytorch", example(), &[8.0, 8.5, 9.0]), failed("pytorch", example())];
        let comparison = Comparison::of(&Rows::new(a.clone()), &Rows::new(b.clone()), true).unwrap();
        let html = bench_page("two engines", &[a, b].concat(), Some(&comparison));
        assert_eq!(html.matches("class=\"bar\"").count(), 3);
        assert!(html.contains("Without figures") && html.contains("slower"), "{html}");
        assert!(!html.contains("<script") && !html.contains("http://") && !html.contains("src="), "{html}");
        assert!(!html.contains("NaN") && !html.contains("inf\""), "{html}");
    }

    #[test]
    fn bars_of_one_kind_share_a_scale_and_kinds_do_not() {
        let small = Configuration { model: "mobilenet_v3_small".into(), ..example() };
        let infer = Configuration { what: What::Infer, ..example() };
        let rows = [row("k", example(), &[10.0]), row("k", small, &[40.0]), row("k", infer, &[400.0])];
        let html = bench_page("bars", &rows, None);
        let widths: Vec<f64> = html
            .split("class=\"bar\"")
            .skip(1)
            .map(|bar| bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(widths.len(), 3);
        assert!((widths[1] / widths[0] - 4.0).abs() < 0.01, "four times as fast, four times as long: {widths:?}");
        assert_eq!(widths[1], widths[2], "the fastest of each kind: {widths:?}");
    }

    #[test]
    fn memory_is_drawn_as_what_every_engine_counts() {
        let with = |in_use: Option<u64>| {
            let mut row = row("kindling", example(), &[10.0]);
            let Outcome::Measured(measured) = &mut row.outcome else { unreachable!() };
            measured.memory.peak_in_use_bytes = in_use;
            measured.memory.peak_process_bytes = Some(900 << 20);
            row
        };
        assert!(bench_page("both", &[with(Some(5 << 20)), with(Some(6 << 20))], None).contains("peak memory in use"));
        assert!(bench_page("one", &[with(Some(5 << 20)), with(None)], None).contains("whole process"));
    }

    #[test]
    fn a_page_of_failures_alone_or_of_nothing_can_be_drawn() {
        for rows in [vec![failed("kindling", example())], vec![]] {
            let html = bench_page("nothing", &rows, None);
            assert!(html.contains("No row has both") && !html.contains("NaN"), "{html}");
        }
    }

    #[test]
    fn ticks_lie_between_the_ends() {
        assert_eq!(ticks(3.0, 60.0), [5.0, 10.0, 20.0, 50.0]);
        assert_eq!(span(std::iter::empty()), (1.0, 10.0));
    }
}

//! Rows as CSV, as Markdown and as a table for terminals.

use std::fmt::Write;

use super::{Comparison, MemoryUsed, Pair, Row};
use crate::Table;

const GIBIBYTE: f64 = 1_073_741_824.0;
const MEBIBYTE: f64 = 1_048_576.0;

/// All rows as CSV (RFC 4180), one line a row, with the figures a spreadsheet can plot. What is not known is empty.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "engine,variant,what,model,image_size,batch_size,micro_batch,precision,recompute,device,threads,\
         images_per_second_q1,images_per_second_median,images_per_second_q3,step_seconds_median,first_step_seconds,\
         windows,steps,peak_in_use_bytes,peak_reserved_bytes,peak_process_bytes,recoveries,skipped_updates,\
         joules_per_image,seed,configuration_hash,failure,reason\r\n",
    );
    for row in rows {
        let cells: Vec<String> = csv_cells(row).iter().map(|cell| quoted(cell)).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

fn csv_cells(row: &Row) -> Vec<String> {
    let configuration = &row.configuration;
    let measured = row.measured();
    let number = |of: fn(&super::Measured) -> f64| measured.map(of).map_or(String::new(), |value| value.to_string());
    let bytes = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let memory = measured.map(|measured| measured.memory.clone()).unwrap_or_default();
    let failure = row.failure();
    vec![
        row.engine.clone(),
        row.variant.clone().unwrap_or_default(),
        configuration.what.to_string(),
        configuration.model.clone(),
        configuration.image_size.to_string(),
        configuration.batch_size.to_string(),
        bytes(measured.map(|measured| measured.micro_batch as u64)),
        configuration.precision.clone(),
        configuration.recompute.clone(),
        configuration.device.clone(),
        configuration.threads.to_string(),
        number(|measured| measured.images_per_second.q1),
        number(|measured| measured.images_per_second.median),
        number(|measured| measured.images_per_second.q3),
        number(|measured| measured.step_seconds.median),
        number(|measured| measured.first_step_seconds),
        bytes(measured.map(|measured| measured.windows.len() as u64)),
        bytes(measured.map(|measured| measured.steps)),
        bytes(memory.peak_in_use_bytes),
        bytes(memory.peak_reserved_bytes),
        bytes(memory.peak_process_bytes),
        bytes(measured.map(|measured| measured.recoveries)),
        bytes(measured.map(|measured| measured.skipped_updates)),
        measured.and_then(|it| it.energy).map_or(String::new(), |energy| energy.joules_per_image.to_string()),
        configuration.seed.to_string(),
        row.configuration_hash.clone(),
        failure.map_or(String::new(), |failure| failure.kind.to_string()),
        failure.map_or(String::new(), |failure| failure.reason.clone()),
    ]
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_string() }
}

const HEADINGS: [&str; 10] = [
    "engine",
    "what",
    "images/s",
    "q1 to q3",
    "step ms",
    "peak in use",
    "reserved",
    "process",
    "micro-batch",
    "recoveries",
];

/// The cells that people read; a failed row says why in its third.
fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![row.engine_label(), row.configuration.label()];
    let Some(measured) = row.measured() else {
        let failure = row.failure();
        cells.push(failure.map_or("no figures".into(), |failure| format!("{}: {}", failure.kind, failure.reason)));
        return cells;
    };
    let speed = measured.images_per_second;
    let memory = &measured.memory;
    cells.extend([
        digits(speed.median),
        format!("{} to {}", digits(speed.q1), digits(speed.q3)),
        digits(1e3 * measured.step_seconds.median),
        bytes(memory.peak_in_use_bytes),
        bytes(memory.peak_reserved_bytes),
        bytes(memory.peak_process_bytes),
        measured.micro_batch.to_string(),
        measured.recoveries.to_string(),
    ]);
    cells
}

/// Three significant digits, or whole numbers.
fn digits(value: f64) -> String {
    let behind = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.behind$}")
}

fn bytes(value: Option<u64>) -> String {
    match value.map(|value| value as f64) {
        None => "-".into(),
        Some(value) if value < GIBIBYTE => format!("{:.0} MiB", value / MEBIBYTE),
        Some(value) => format!("{:.2} GiB", value / GIBIBYTE),
    }
}

/// All rows as a Markdown table, with the machine under it.
pub fn markdown(rows: &[Row]) -> String {
    let escaped = |cell: String| cell.replace('|', "\\|").replace('\n', " ");
    let mut text = format!("| {} |\n|---|---|{}\n", HEADINGS.join(" | "), "---:|".repeat(HEADINGS.len() - 2));
    for row in rows {
        let mut cells: Vec<String> = cells(row).into_iter().map(escaped).collect();
        cells.resize(HEADINGS.len(), String::new());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let mut machines: Vec<String> = rows.iter().map(machine).collect();
    machines.dedup();
    let _ = writeln!(text, "\nMedian and quartiles over windows after warm-up. Measured on: {}.", machines.join("; "));
    text
}

/// The machine and the software of a row, in a line.
pub fn machine(row: &Row) -> String {
    let environment = &row.environment;
    let on_cpu = row.configuration.device == "cpu";
    let device = match (&environment.cpu, on_cpu) {
        (Some(cpu), true) => format!("{cpu}, {} threads", row.configuration.threads),
        (_, _) => environment.device.device.clone(),
    };
    let software: Vec<String> = row.software.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let driver = environment.device.driver.as_ref().map_or(String::new(), |driver| format!(", driver {driver}"));
    format!("{device}{driver}, {}", software.join(", "))
}

/// All rows for a terminal: what fits into its width. A micro-batch that is not the batch and recoveries stand beside what was
/// measured.
pub fn table(rows: &[Row]) -> String {
    let (heading, figure) = memory_of_all(rows);
    let mut table = Table::new(&["<row", "images/s", "q1 to q3", heading]);
    for row in rows {
        let mut label = row.configuration.label();
        let Some(measured) = row.measured() else {
            let reason = row.failure().map(|failure| format!("{}: {}", failure.kind, failure.reason));
            table.row([label, reason.unwrap_or("no figures".into())]);
            continue;
        };
        if measured.micro_batch != row.configuration.batch_size {
            let _ = write!(label, ", {} at once", measured.micro_batch);
        }
        if measured.recoveries > 0 {
            let _ = write!(label, ", {}", counted_recoveries(measured.recoveries));
        }
        let speed = measured.images_per_second;
        table.row([
            label,
            digits(speed.median),
            format!("{} to {}", digits(speed.q1), digits(speed.q3)),
            bytes(figure(&measured.memory)),
        ]);
    }
    table.to_string()
}

fn counted_recoveries(count: u64) -> String {
    if count == 1 { "1 recovery".into() } else { format!("{count} recoveries") }
}

/// A figure of memory.
type Figure = fn(&MemoryUsed) -> Option<u64>;

/// The first figure of memory that every measured row has, with its heading.
fn memory_of_all(rows: &[Row]) -> (&'static str, Figure) {
    let figures: [(&str, Figure); 3] = [
        ("peak in use", |memory| memory.peak_in_use_bytes),
        ("reserved", |memory| memory.peak_reserved_bytes),
        ("process", |memory| memory.peak_process_bytes),
    ];
    let of_all = |(_, figure): &(&str, Figure)| {
        rows.iter().filter_map(Row::measured).all(|measured| figure(&measured.memory).is_some())
    };
    figures.into_iter().find(of_all).unwrap_or(figures[2])
}

/// A comparison for a terminal: the second file's figures over the first's.
pub fn comparison_table(comparison: &Comparison) -> String {
    let engines = |of: fn(&Pair) -> &Row| {
        let mut names: Vec<String> = comparison.pairs.iter().map(|pair| of(pair).engine_label()).collect();
        names.sort();
        names.dedup();
        names
    };
    let (a, b) = (engines(|pair| &pair.a), engines(|pair| &pair.b));
    let mut table = Table::new(&["<row", "a", "b", "b/a", "<difference", "<memory b/a"]);
    for pair in &comparison.pairs {
        let speed = |row: &Row| row.measured().map_or("failed".into(), |it| digits(it.images_per_second.median));
        let mut label = pair.a.configuration.label();
        if a.len() > 1 || b.len() > 1 {
            let _ = write!(label, ", {} against {}", pair.b.engine_label(), pair.a.engine_label());
        }
        if !pair.differences.is_empty() {
            let _ = write!(label, " [{}]", pair.differences.join(", "));
        }
        table.row([
            label,
            speed(&pair.a),
            speed(&pair.b),
            pair.speed_ratio().map_or("-".into(), |ratio| format!("{ratio:.2}")),
            pair.verdict().words().to_string(),
            pair.memory_ratio().map_or("-".into(), |(ratio, of)| format!("{ratio:.2} {of}")),
        ]);
    }
    let mut text = table.to_string();
    for (file, rows) in [("a", &comparison.only_a), ("b", &comparison.only_b)] {
        for row in rows {
            let _ = writeln!(text, "only in {file}: {}", row.configuration.label());
        }
    }
    if !comparison.pairs.is_empty() {
        let _ = writeln!(text, "a and b: images a second of {} and of {}", a.join(", "), b.join(", "));
    }
    text.push_str("faster and slower: the quartile ranges of the windows' speeds do not touch\n");
    text
}

#[cfg(test)]
mod tests {
    use super::super::configuration::tests::example;
    use super::super::rows::tests::{failed, row};
    use super::super::{Configuration, Rows};
    use super::*;

    fn rows() -> Vec<Row> {
        vec![row("kindling", example(), &[10.0, 11.0, 12.0]), failed("pytorch", example())]
    }

    #[test]
    fn csv_has_as_many_cells_in_every_line_and_quotes_what_must_be() {
        let text = csv(&rows());
        let lines: Vec<&str> = text.trim_end().split("\r\n").collect();
        assert_eq!(lines.len(), 3);
        let count = lines[0].split(',').count();
        assert_eq!(lines[1].split(',').count(), count);
        // The reason holds a comma, so it is quoted.
        assert_eq!(lines[2].split(',').count(), count + 1);
        assert!(lines[2].ends_with(",out of memory,\"8 GiB, and | it needs 9\""), "{}", lines[2]);
        let median = lines[0].split(',').position(|name| name == "images_per_second_median").unwrap();
        let value: f64 = lines[1].split(',').nth(median).unwrap().parse().unwrap();
        assert!((value - 11.0).abs() < 1e-9);
        assert_eq!(quoted("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }

    #[test]
    fn markdown_is_a_table_whatever_a_reason_holds() {
        let text = markdown(&rows());
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| bars(line) == bars(lines[0])), "{text}");
        assert!(text.contains("| 11.0 | 10.5 to 11.5 |") && text.contains("out of memory"), "{text}");
    }

    #[test]
    fn a_comparison_shows_ratio_and_verdict_and_what_is_left_over() {
        let other = Configuration { image_size: 224, ..example() };
        let a = Rows::new(vec![row("kindling", example(), &[10.0, 10.1, 10.2]), row("kindling", other, &[1.0])]);
        let b = Rows::new(vec![row("pytorch", example(), &[20.2, 20.2, 20.2])]);
        let text = comparison_table(&Comparison::of(&a, &b, false).unwrap());
        assert!(text.contains("2.00") && text.contains("faster") && text.contains("1.00 in use"), "{text}");
        assert!(text.contains("only in a: train mobilenet_v2 224"), "{text}");
    }

    #[test]
    fn a_table_for_a_terminal_keeps_its_columns_beside_a_long_reason() {
        let text = table(&rows());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("out of memory: 8 GiB, and | it needs 9"), "{text}");
        assert!(lines[1].contains("11.0") && lines[1].contains("10.5 to 11.5"), "{text}");
    }
}

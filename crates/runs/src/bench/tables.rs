//! Rows as CSV, as Markdown and as a table for terminals.

use std::fmt::Write;

use super::{Comparison, Row};

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

/// All rows for a terminal.
pub fn table(rows: &[Row]) -> String {
    let lines: Vec<Vec<String>> = rows.iter().map(cells).collect();
    aligned(&HEADINGS, &lines)
}

/// A comparison for a terminal: the second file's figures over the first's.
pub fn comparison_table(comparison: &Comparison) -> String {
    let headings = ["row", "a", "b", "a images/s", "b images/s", "speed b/a", "difference", "memory b/a"];
    let mut lines: Vec<Vec<String>> = Vec::new();
    for pair in &comparison.pairs {
        let speed = |row: &Row| row.measured().map_or("failed".into(), |it| digits(it.images_per_second.median));
        let mut label = pair.a.configuration.label();
        if !pair.differences.is_empty() {
            let _ = write!(label, " [{}]", pair.differences.join(", "));
        }
        lines.push(vec![
            label,
            pair.a.engine_label(),
            pair.b.engine_label(),
            speed(&pair.a),
            speed(&pair.b),
            pair.speed_ratio().map_or("-".into(), |ratio| format!("{ratio:.2}")),
            pair.verdict().words().to_string(),
            pair.memory_ratio().map_or("-".into(), |(ratio, of)| format!("{ratio:.2} {of}")),
        ]);
    }
    let mut text = aligned(&headings, &lines);
    for (file, rows) in [("a", &comparison.only_a), ("b", &comparison.only_b)] {
        for row in rows {
            let _ = writeln!(text, "only in {file}: {}", row.configuration.label());
        }
    }
    text.push_str(
        "a difference counts as faster or slower if the quartile ranges of the windows' speeds do not touch\n",
    );
    text
}

/// Columns as wide as their widest cell; the first two to the left, numbers to the right. A last cell runs over.
fn aligned(headings: &[&str], lines: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.chars().count()).collect();
    for line in lines.iter().filter(|line| line.len() == headings.len()) {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line).take(2) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let headings: Vec<String> = headings.iter().map(|heading| heading.to_string()).collect();
    for line in std::iter::once(&headings).chain(lines) {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
            let left = at < 2 || (line.len() < headings.len() && at + 1 == line.len());
            if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
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
        assert_eq!(lines.len(), 3);
        assert!(lines[2].contains("out of memory: 8 GiB, and | it needs 9"), "{text}");
        assert!(lines[0].len() < 140, "{text}");
    }
}

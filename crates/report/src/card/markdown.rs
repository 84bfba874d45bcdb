//! Markdown from plain values: whatever a name contains, it stays a piece of text.

use std::fmt::Write;

/// Longer values are cut: where they are needed whole, a file of the run has them.
const LONGEST: usize = 160;

/// Text in which no character means anything to Markdown or HTML, on one line.
pub(super) fn text(value: &str) -> String {
    let value: String = value.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    let characters: Vec<char> = value.trim().chars().collect();
    let is_letter = |at: Option<&char>| at.is_some_and(|one| one.is_alphanumeric());
    let mut out = String::with_capacity(value.len());
    for (at, &one) in characters.iter().enumerate() {
        let inside =
            is_letter(at.checked_sub(1).and_then(|before| characters.get(before))) && is_letter(characters.get(at + 1));
        match one {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Within a word it is a letter like any other.
            '_' if inside => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' | '!' => out.extend(['\\', one]),
            // What begins a list stands at the beginning alone.
            '-' | '+' if at == 0 => out.extend(['\\', one]),
            _ => out.push(one),
        }
    }
    out
}

/// The same, cut where it is long.
pub(super) fn short(value: &str) -> String {
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} …", text(&value[..end])),
        None => text(value),
    }
}

/// A string of YAML, in the form that JSON has as well.
pub(super) fn quoted(value: &str) -> String {
    let mut out = String::from("\"");
    for one in value.chars() {
        match one {
            '"' | '\\' => out.extend(['\\', one]),
            // Writing to a String cannot fail.
            one if one.is_control() => drop(write!(out, "\\u{:04x}", u32::from(one))),
            one => out.push(one),
        }
    }
    out.push('"');
    out
}

/// A table; `rows` hold Markdown already. The first column is one of names, and of the others numbers stand at the right. Nothing
/// without rows.
pub(super) fn table<const COLUMNS: usize>(headings: [&str; COLUMNS], rows: &[[String; COLUMNS]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> = (0..COLUMNS).map(|at| if at == 0 { "---" } else { "---:" }.to_owned()).collect();
    let headings: Vec<String> = headings.map(str::to_owned).to_vec();
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{}{body}\n", line(&headings), line(&rule))
}

/// A table of facts: names and what is known; facts that are not known are left out.
pub(super) fn facts(rows: &[(&str, Option<String>)]) -> String {
    let known = rows.iter().filter_map(|(name, value)| Some(format!("| {name} | {} |\n", value.as_ref()?)));
    let body: String = known.collect();
    if body.is_empty() { body } else { format!("| | |\n| --- | --- |\n{body}\n") }
}

/// A place that a person is to fill in.
pub(super) fn to_fill_in(what: &str) -> String {
    format!("> **To be filled in by a person:** {what}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_more_than_text() {
        let cases = [
            ("mobilenet_v3_small", "mobilenet_v3_small"),
            ("_a_", "\\_a\\_"),
            ("a|b\n# c", "a\\|b \\# c"),
            ("<img src=x> & co", "&lt;img src=x&gt; &amp; co"),
            ("[link](x) `code` **bold**", "\\[link\\](x) \\`code\\` \\*\\*bold\\*\\*"),
            ("- item", "\\- item"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected);
        }
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
        assert!(short(&"ä".repeat(1000)).chars().count() < 170);
    }

    #[test]
    fn tables_have_a_line_for_each_row_and_are_left_out_without_any() {
        let rows = [["a".to_owned(), "1".to_owned()], ["b".to_owned(), "2".to_owned()]];
        assert_eq!(table(["name", "n"], &rows), "| name | n |\n| --- | ---: |\n| a | 1 |\n| b | 2 |\n\n");
        assert_eq!(table::<2>(["name", "n"], &[]), "");
        assert_eq!(facts(&[("a", None), ("b", Some("1".into()))]), "| | |\n| --- | --- |\n| b | 1 |\n\n");
        assert_eq!(facts(&[("a", None)]), "");
    }
}

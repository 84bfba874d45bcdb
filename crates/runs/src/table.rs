//! Tables for terminals, of at most 80 columns.

use std::fmt;

/// What a table fits into: the narrowest terminal that people have.
const WIDTH: usize = 80;
/// Between two columns.
const GAP: usize = 2;
/// No column of words becomes narrower than this.
const LEAST: usize = 10;

/// A table for terminals. Its columns are as wide as their widest cell. Where that is wider than a terminal, the widest of the
/// columns that hold words gives way, and its cells go on below.
///
/// ```
/// use kindling_runs::Table;
///
/// let mut table = Table::new(&["<class", "images"]);
/// table.row(["round", "12"]);
/// table.row(["none", "7"]);
/// assert_eq!(table.to_string(), "class  images\nround      12\nnone        7\n");
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    /// Headings of words, which stand to the left, and of numbers, which stand to the right.
    columns: Vec<(bool, String)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns. Those whose heading begins with `<` hold words and stand to the left, the others hold numbers
    /// and stand to the right. Where no heading says anything, there is no line of headings.
    pub fn new(headings: &[&str]) -> Self {
        let column = |heading: &&str| match heading.strip_prefix('<') {
            Some(words) => (true, words.to_owned()),
            None => (false, (*heading).to_owned()),
        };
        Self { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row. The last cell of a row that has fewer cells than there are columns takes the room of the missing ones.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The columns' widths: no more than a terminal has, as far as columns of words can give way.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(_, heading)| length(heading)).collect();
        for row in &self.rows {
            // A cell that runs over says nothing of its column.
            let own = if row.len() < widths.len() { row.len().saturating_sub(1) } else { row.len() };
            for (width, cell) in widths.iter_mut().zip(&row[..own]) {
                *width = (*width).max(length(cell));
            }
        }
        let longest = self.longest_words();
        loop {
            let over = (widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)).saturating_sub(WIDTH);
            let widest = |least: &dyn Fn(usize) -> usize| {
                let words =
                    (0..widths.len()).filter(|&column| self.columns[column].0 && widths[column] > least(column));
                words.max_by_key(|&column| widths[column])
            };
            // Words are only broken where all columns are as narrow as their longest words.
            match widest(&|column| longest[column]).or_else(|| widest(&|_| LEAST)) {
                Some(widest) if over > 0 => widths[widest] -= 1,
                _ => return widths,
            }
        }
    }

    /// The longest word of each column, or the least width.
    fn longest_words(&self) -> Vec<usize> {
        let word = |cell: &str| cell.split(' ').map(length).max().unwrap_or(0);
        let of_column = |column: usize| {
            let cells = self.rows.iter().filter(|row| row.len() == self.columns.len()).map(|row| word(&row[column]));
            cells.max().unwrap_or(0).max(LEAST)
        };
        (0..self.columns.len()).map(of_column).collect()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, widths: &[usize], cells: &[String]) -> fmt::Result {
        let last = cells.len().saturating_sub(1);
        let runs_over = cells.len() < widths.len();
        let broken: Vec<(bool, usize, Vec<String>)> = (cells.iter().enumerate())
            .map(|(column, cell)| {
                let over = runs_over && column == last;
                let used: usize = widths[..column].iter().map(|width| width + GAP).sum();
                let width = if over { WIDTH.saturating_sub(used).max(LEAST) } else { widths[column] };
                let words = over || self.columns[column].0;
                (words, width, if words { wrap(cell, width) } else { vec![cell.clone()] })
            })
            .collect();
        let lines = broken.iter().map(|(.., lines)| lines.len()).max().unwrap_or(0);
        for line in 0..lines {
            let cells = broken.iter().map(|(words, width, lines)| {
                let cell = lines.get(line).map_or("", String::as_str);
                if *words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end())?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let headings: Vec<String> = self.columns.iter().map(|(_, heading)| heading.clone()).collect();
        if headings.iter().any(|heading| !heading.is_empty()) {
            self.write(f, &widths, &headings)?;
        }
        self.rows.iter().try_for_each(|row| self.write(f, &widths, row))
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// A text in lines of at most `width` characters, broken between words, or in a word that is longer than a line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut length) = (Vec::new(), String::new(), 0);
    let mut end = |line: &mut String, length: &mut usize| {
        lines.push(std::mem::take(line));
        *length = 0;
    };
    for word in text.split(' ') {
        if length > 0 && length + 1 + self::length(word) > width {
            end(&mut line, &mut length);
        } else if length > 0 {
            line.push(' ');
            length += 1;
        }
        for letter in word.chars() {
            if length == width {
                end(&mut line, &mut length);
            }
            line.push(letter);
            length += 1;
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(length).max().unwrap_or(0)
    }

    #[test]
    fn a_column_of_sentences_gives_way_before_a_long_name_is_broken() {
        let mut table = Table::new(&["<name", "number", "<about"]);
        let name = "a-name-of-thirty-two-characters--";
        table.row([name, "123456", "what this is about in more words than one line of the table has room for"]);
        assert!(table.to_string().contains(&format!("{name}  123456  what")), "{table}");
        assert!(widest(&table.to_string()) <= WIDTH, "{table}");
    }

    #[test]
    fn words_give_way_so_that_a_table_fits_and_nothing_of_it_is_lost() {
        let mut table = Table::new(&["<row", "images/s", "<about"]);
        let (name, about) = ("train ".repeat(9) + "end", "x".repeat(95));
        table.row([name.as_str(), "12.5", about.as_str()]);
        table.row(["short", "1"]);
        let text = table.to_string();
        assert!(widest(&text) <= WIDTH, "{text}");
        assert_eq!(text.matches("train").count(), 9, "{text}");
        assert_eq!(text.matches('x').count(), 95, "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.contains("12.5")), "{text}");
    }

    #[test]
    fn a_last_cell_runs_over_the_columns_that_a_row_has_not() {
        let mut table = Table::new(&["<row", "a", "b"]);
        table.row(["one", "1", "2"]);
        table.row(["two", "it was out of memory, for it needs more than there is on this small machine of ours"]);
        let text = table.to_string();
        assert!(text.lines().nth(2).is_some_and(|line| line.starts_with("two  it was out of memory")), "{text}");
        assert!(widest(&text) <= WIDTH && text.contains("of ours"), "{text}");
    }

    #[test]
    fn numbers_stand_below_each_other_beside_letters_of_several_bytes() {
        let mut table = Table::new(&["<class", "n"]);
        table.row(["Köln", "7"]);
        table.row(["Bonn", "12"]);
        assert_eq!(table.to_string(), "class   n\nKöln    7\nBonn   12\n");
        let mut table = Table::new(&["<", "<"]);
        table.row(["no", "headings"]);
        assert_eq!(table.to_string(), "no  headings\n");
    }
}

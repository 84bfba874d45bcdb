//! Text that has to fit.

use ratatui::text::Span;

/// Between two things on a line.
const BETWEEN: &str = " · ";

/// Columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// Things side by side, on as many lines as they take. One that is wider than a line has one of its own.
pub(super) fn flow(things: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for thing in things {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(BETWEEN) + columns(thing) <= width => {
                line.push_str(BETWEEN);
                line.push_str(thing);
            }
            _ => lines.push(thing.clone()),
        }
    }
    lines
}

/// The first of these things, and of the others those for which there is room, on one line.
pub(super) fn as_fits(things: &[String], width: usize) -> String {
    let mut line = String::new();
    for thing in things {
        if line.is_empty() {
            line.push_str(thing);
        } else if columns(&line) + columns(BETWEEN) + columns(thing) <= width {
            line.push_str(BETWEEN);
            line.push_str(thing);
        }
    }
    line
}

/// A sentence in lines of a width, broken between words where that is possible.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let wide = columns(word);
        let gap = usize::from(used > 0);
        if used + gap + wide <= width {
            lines.last_mut().into_iter().for_each(|line| {
                line.extend((gap > 0).then_some(' '));
                line.push_str(word);
            });
            used += gap + wide;
            continue;
        }
        // A word wider than a line, such as a path, is broken where the line ends.
        let mut room = if wide > width && used + gap < width { width - used - gap } else { 0 };
        if room > 0 {
            lines.last_mut().into_iter().for_each(|line| line.extend((gap > 0).then_some(' ')));
            used += gap;
        } else if used > 0 {
            lines.push(String::new());
            (used, room) = (0, width);
        } else {
            room = width;
        }
        for char in word.chars() {
            let cells = columns(char.encode_utf8(&mut [0; 4]));
            if cells > room && used > 0 {
                lines.push(String::new());
                (used, room) = (0, width);
            }
            lines.last_mut().into_iter().for_each(|line| line.push(char));
            used += cells;
            room = room.saturating_sub(cells);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(things: &[&str]) -> Vec<String> {
        things.iter().map(|thing| (*thing).to_owned()).collect()
    }

    #[test]
    fn things_share_lines_as_long_as_there_is_room() {
        let things = owned(&["model", "data", "device"]);
        assert_eq!(flow(&things, 80), ["model · data · device"]);
        assert_eq!(flow(&things, 12), ["model · data", "device"]);
        assert_eq!(flow(&things, 0), ["model", "data", "device"]);
        assert_eq!(as_fits(&things, 20), "model · data");
        assert_eq!(as_fits(&things, 15), "model · data");
        assert_eq!(as_fits(&owned(&["model", "a long device", "data"]), 12), "model · data");
        assert_eq!(as_fits(&things, 0), "model");
    }

    #[test]
    fn sentences_are_broken_between_words_and_long_words_anywhere() {
        assert_eq!(wrap("one two three", 80), ["one two three"]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("at abcdefghij end", 6), ["at abc", "defghi", "j end"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        for width in 0..40 {
            for line in wrap("skipped a train sample: \"folder/日本語/image.png\": it cannot be read", width) {
                assert!(columns(&line) <= width.max(2), "{width}: {line}");
            }
        }
    }
}

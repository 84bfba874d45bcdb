//! The last sentences.

use std::collections::VecDeque;

/// Sentences that are kept: more than the tallest terminal shows.
const MOST: usize = 500;
/// Characters of a sentence that are kept.
const LONGEST: usize = 1000;

/// A sentence about the run, and whether it is about trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// What is said, on one line.
    pub(crate) text: String,
    /// Whether a person should look at it.
    pub(crate) trouble: bool,
}

/// The last sentences of a run, newest last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages(VecDeque<Message>);

impl Messages {
    /// Adds what was said. Each line of it is a sentence of its own; empty ones are left out.
    pub(crate) fn push(&mut self, text: &str, trouble: bool) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            // A path or an error's text may hold what moves a cursor.
            let text = line.chars().take(LONGEST).map(|char| if char.is_control() { ' ' } else { char }).collect();
            if self.0.len() == MOST {
                self.0.pop_front();
            }
            self.0.push_back(Message { text, trouble });
        }
    }

    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Message> {
        self.0.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sentences_are_kept_each_on_one_line() {
        let mut messages = Messages::default();
        (0..10_000).for_each(|number| messages.push(&format!("{number}"), false));
        messages.push("one\n\n  two\x1b[2J\n", true);
        let texts: Vec<&str> = messages.newest_first().map(|message| message.text.as_str()).collect();
        assert_eq!(texts.len(), MOST);
        assert_eq!(texts[..3], ["  two [2J", "one", "9999"]);
    }
}

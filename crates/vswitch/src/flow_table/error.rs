//! Why a text is no flow.

use std::ops::Range;

/// Why a text is no flow, group or match, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FlowError {
    /// Which bytes of the text are wrong.
    pub at: Range<usize>,
    /// What is wrong with them.
    pub message: String,
    /// What to write in their place.
    pub hint: String,
}

impl FlowError {
    pub(crate) fn new(at: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: hint.into() }
    }

    /// The same within a longer text, in which the shorter one begins at `offset`.
    pub(crate) fn shifted(self, offset: usize) -> Self {
        Self { at: self.at.start + offset..self.at.end + offset, ..self }
    }
}

/// The longest piece of a text that a message repeats, in characters.
const SHOWN: usize = 40;

/// What is shown of a piece of text: no more than a line of it, and nothing that a terminal would obey.
pub fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push_str("..");
    }
    shown
}

/// The one of `known` that is most like `text`, if one is: at most two letters differ.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text = &text[..text.len().min(SHOWN).min(text.find(|c: char| !c.is_ascii()).unwrap_or(usize::MAX))];
    let distances = known.into_iter().map(|word| (distance(text.as_bytes(), word.as_bytes()), word));
    distances.filter(|(distance, word)| *distance <= 2 && *distance < word.len()).min().map(|(_, word)| word)
}

/// Levenshtein's distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = replaced.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

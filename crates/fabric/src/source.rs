//! The file as text, and where in it something stands.

use miette::SourceSpan;

/// A fabric file: its name, for messages, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path as the user gave it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// How names of files end that are read here.
const ENDS: [&str; 9] =
    [".fabric.yaml", ".fabric.yml", ".clab.yaml", ".clab.yml", ".yaml", ".yml", ".graphml", ".xml", ".py"];

/// What stands for the file's name where somebody has typed the text.
const TYPED: [&str; 3] = ["the command line", "--topo", "the name"];

/// Whether a source of this name is no file, but what was typed.
pub(crate) fn is_typed(name: &str) -> bool {
    TYPED.contains(&name)
}

impl Source {
    /// The file's name without directories and without `.fabric.yaml` or the end of another tool's, reduced to the characters of a name.
    pub fn stem(&self) -> String {
        let file = self.name.rsplit(['/', '\\']).next().unwrap_or_default();
        let stem = ENDS.iter().find_map(|end| file.strip_suffix(end));
        let name: String = stem
            .unwrap_or(file)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
            .skip_while(|c| !c.is_ascii_alphanumeric())
            .take(crate::names::LONGEST)
            .collect();
        if name.is_empty() { "fabric".to_owned() } else { name }
    }
}

/// Where the lines of a text start, so that a place is found without reading the text again.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Self { text, starts }
    }

    /// The line of a byte offset, from 1.
    pub fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset)
    }

    /// Line and column (in characters) of a byte offset, both from 1.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.line(offset);
        let before = self.text.get(self.starts[line - 1]..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

/// A place in the text: byte offset and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub offset: usize,
    pub len: usize,
}

impl From<Place> for SourceSpan {
    fn from(place: Place) -> Self {
        (place.offset, place.len).into()
    }
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub value: T,
    pub place: Place,
    /// Whether all of it could be read: what depends on it being complete is only checked then.
    pub sound: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_is_always_a_name() {
        let stem = |name: &str| Source { name: name.to_owned(), text: String::new() }.stem();
        assert_eq!(stem("a/b/small-dc.fabric.yaml"), "small-dc");
        assert_eq!(stem("my net.yml"), "my-net");
        assert_eq!(stem(".fabric.yaml"), "fabric");
        assert_eq!(stem("-"), "fabric");
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let lines = Lines::of("a: 1\nµ: 2\n");
        assert_eq!(lines.position(0), (1, 1));
        assert_eq!(lines.position(7), (2, 2));
        assert_eq!(lines.position(99), (3, 1));
    }
}

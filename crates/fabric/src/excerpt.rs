//! A file as messages show it: control characters are written out, and long lines are cut around what is marked.

use std::collections::BTreeMap;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use crate::escape;

/// A longer line is cut, characters.
const LONGEST: usize = 160;
/// So much of it stays on each side of what is marked, characters.
const AROUND: usize = 50;
/// So much of a long marked text stays, characters.
const MARKED: usize = 60;
/// What stands for what was cut out.
const CUT: &str = "…";

/// The text to show, and where in the file what is marked stands.
#[derive(Clone, Debug)]
pub(crate) struct Excerpt {
    name: String,
    text: String,
    /// The column of each marked place in the file, in characters from 0, by its offset here.
    columns: BTreeMap<usize, usize>,
}

impl Excerpt {
    /// The text of a file around these places, and the places in it.
    pub fn new(name: &str, text: &str, places: &[SourceSpan]) -> (Self, Vec<SourceSpan>) {
        let mut excerpt =
            Self { name: name.to_owned(), text: String::with_capacity(text.len()), columns: BTreeMap::new() };
        let mut shown = vec![SourceSpan::from(0); places.len()];
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let end = start + line.len();
            let is_last = end == text.len();
            let here: Vec<(usize, (usize, usize))> = (places.iter().enumerate())
                .filter(|(_, place)| (start..end).contains(&place.offset()) || is_last && place.offset() >= end)
                .map(|(number, place)| (number, within(line, place.offset() - start, place.len())))
                .collect();
            excerpt.add(line, &here, &mut shown);
            start = end;
        }
        (excerpt, shown)
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a line with the places (their number, and from which byte to which) that are marked in it.
    fn add(&mut self, line: &str, here: &[(usize, (usize, usize))], shown: &mut [SourceSpan]) {
        let body = line.strip_suffix('\n').map_or(line, |body| body.strip_suffix('\r').unwrap_or(body));
        let is_long = body.len() > LONGEST && body.chars().count() > LONGEST;
        if here.is_empty() && !is_long && body.chars().all(escape::is_shown) {
            self.text.push_str(body);
            self.text.push_str(if line.ends_with('\n') { "\n" } else { "" });
            return;
        }
        let keeps = |at: usize| {
            let near = |(_, (from, to)): &(usize, (usize, usize))| {
                // Characters are counted as bytes here: those of more bytes leave less.
                (from.saturating_sub(AROUND)..to.min(&(from + MARKED)) + AROUND).contains(&at)
            };
            !is_long || if here.is_empty() { at < LONGEST } else { here.iter().any(near) }
        };
        // Where each character is in the line and in what is shown: both grow.
        let mut offsets = Vec::with_capacity(body.len());
        let mut was_kept = true;
        for (at, character) in body.char_indices() {
            let is_kept = keeps(at);
            if was_kept && !is_kept {
                self.text.push_str(CUT);
            }
            was_kept = is_kept;
            offsets.push((at, self.text.len()));
            match (is_kept, escape::is_shown(character)) {
                (true, true) => self.text.push(character),
                (true, false) => self.text.push_str(&escape::written(character)),
                (false, _) => {}
            }
        }
        let end = self.text.len();
        for &(number, (from, to)) in here {
            let offset = |at: usize| {
                let next = offsets.partition_point(|&(byte, _)| byte < at);
                offsets.get(next).map_or(end, |&(_, offset)| offset)
            };
            let (first, last) = (offset(from), offset(to));
            shown[number] = (first, last.saturating_sub(first)).into();
            self.columns.insert(first, body.get(..from).unwrap_or(body).chars().count());
        }
        if line.ends_with('\n') {
            self.text.push('\n');
            // The end of a file that ends with a line's end is a line of its own.
            for &(number, _) in here.iter().filter(|(_, (from, _))| *from == line.len()) {
                shown[number] = self.text.len().into();
                self.columns.insert(self.text.len(), 0);
            }
        }
    }
}

/// A place within a line: never between the bytes of a character, nor beyond its end.
fn within(line: &str, offset: usize, len: usize) -> (usize, usize) {
    let boundary = |at: usize| (0..=at.min(line.len())).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
    let from = boundary(offset);
    (from, boundary(offset.saturating_add(len)).max(from))
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.text.read_span(span, lines_before, lines_after)?;
        let of_file = self.columns.get(&found.span().offset()).copied();
        let column = of_file.unwrap_or(found.column());
        let contents = MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            *found.span(),
            found.line(),
            column,
            found.line_count(),
        );
        Ok(Box::new(contents.with_language("yaml")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown, and the marked text in it.
    fn shown(text: &str, places: &[(usize, usize)]) -> (String, Vec<String>) {
        let places: Vec<SourceSpan> = places.iter().map(|&place| place.into()).collect();
        let (excerpt, places) = Excerpt::new("x", text, &places);
        let marked = places.iter().map(|place| excerpt.text[place.offset()..][..place.len()].to_owned()).collect();
        (excerpt.text, marked)
    }

    #[test]
    fn what_is_short_and_harmless_stays_as_it_is() {
        let text = "name: x\r\nlinks: µ\n\tz";
        let (seen, marked) = shown(text, &[(6, 1), (16, 2), (text.len(), 0)]);
        assert_eq!(
            (seen.as_str(), marked),
            ("name: x\nlinks: µ\n\tz", vec!["x".to_owned(), "µ".to_owned(), String::new()])
        );
    }

    #[test]
    fn control_characters_are_written_out_and_marks_follow() {
        let (seen, marked) = shown("a: \u{1b}[1m\nb: c\n", &[(3, 4), (11, 1)]);
        assert_eq!((seen.as_str(), marked), ("a: \\x1b[1m\nb: c\n", vec!["\\x1b[1m".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn long_lines_are_cut_around_what_is_marked() {
        let line = format!("{}WRONG{}", "a".repeat(500), "b".repeat(500));
        let (seen, marked) = shown(&format!("x: 1\n{line}\ny: 2\n{line}\n"), &[(505, 5)]);
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[1], format!("…{}WRONG{}…", "a".repeat(AROUND), "b".repeat(AROUND)));
        assert_eq!((lines[0], lines[2], marked), ("x: 1", "y: 2", vec!["WRONG".to_owned()]));
        assert_eq!(lines[3], format!("{}…", "a".repeat(LONGEST)));
        let places = [SourceSpan::from((505, 5))];
        let (excerpt, places) = Excerpt::new("x", &format!("x: 1\n{line}\n"), &places);
        let contents = excerpt.read_span(&places[0], 0, 0).expect("there");
        assert_eq!((contents.line(), contents.column()), (1, 500), "as in the file");
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_shown(text in "(?s).{0,400}", places in proptest::collection::vec((0..2_000_usize, 0..300_usize), 0..5)) {
            let (seen, marked) = shown(&text, &places);
            proptest::prop_assert!(seen.chars().all(escape::is_shown) && marked.len() == places.len());
        }
    }
}

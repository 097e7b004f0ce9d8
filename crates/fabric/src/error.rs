//! What is wrong with a file: every problem that was found, each with its place and a hint how to fix it.

use std::fmt;
use std::ops::Range;

use miette::{Diagnostic, LabeledSpan, SourceCode, SourceSpan};

use crate::escape::escaped;
use crate::excerpt::Excerpt;
use crate::source::{self, Lines, Place, Source};

/// How many problems are kept; a hostile file may have millions.
const MOST_KEPT: usize = 50;
/// Of a file that nobody has written, and whose problems nobody reads.
const MOST_KEPT_OF_MADE: usize = 1_000;

/// A file that can't be used. Nothing has been started.
///
/// As a [`Diagnostic`] it shows the file's lines; [`Error::problems`] gives them one by one. The only problem of what was typed is shown by itself: there is no file of which a heading could say that it has one.
#[derive(Clone, Debug)]
pub struct Error {
    file: Excerpt,
    problems: Vec<Problem>,
    more: usize,
    /// Whether some checks were left out, since they need what has a problem.
    is_partial: bool,
}

/// What is added to the first line of such an error.
const NOT_ALL: &str = "; some checks have to wait until that is mended";

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct Problem {
    /// What is wrong, and what was expected.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What stands under the marked text.
    pub label: String,
    /// Where in the file the marked text is.
    pub span: SourceSpan,
    /// The same in what is shown of the file.
    #[label("{label}")]
    marked: SourceSpan,
    /// How to fix it.
    pub hint: String,
    /// The same, unless the message says it.
    #[help]
    help: Option<String>,
    /// Whether the text is no YAML there.
    is_yaml: bool,
}

impl Problem {
    /// What kind of problem it is, for programs: `unknown-key`, `missing-key`, `unexpected-value`, `too-large`, `yaml`, ... Problems of one kind have the same
    /// code, whatever the file says.
    pub fn code(&self) -> String {
        let label = &self.label;
        if self.is_yaml {
            return "yaml".to_owned();
        }
        let fixed = [
            ("found ", "unexpected-value"),
            ("needs `", "missing-key"),
            ("expected ", "not-a-quantity"),
            ("here", "refused"),
        ];
        if let Some((_, code)) = fixed.into_iter().find(|(start, _)| label.starts_with(start)) {
            return code.to_owned();
        }
        // What the file says, and numbers, stand behind the words.
        let words = label.split(['`', ',', ':']).next().unwrap_or_default();
        let words = words.split_whitespace().take_while(|word| !word.contains(|c: char| c.is_ascii_digit()));
        words.map(|word| word.trim_matches('-').to_lowercase().replace('\'', "")).collect::<Vec<_>>().join("-")
    }
}

fn headline(kept: usize, more: usize, file: &str) -> String {
    match (kept, more) {
        (1, 0) => format!("{file} has a problem"),
        (_, 0) => format!("{file} has {kept} problems"),
        _ => format!("{file} has {} problems; the first {kept}:", kept + more),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(only) = self.only_of_what_was_typed() {
            return f.write_str(&only.message);
        }
        f.write_str(&headline(self.problems.len(), self.more, self.file.name()))?;
        f.write_str(if self.is_partial && self.more == 0 { NOT_ALL } else { "" })
    }
}

impl std::error::Error for Error {}

impl Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.only_of_what_was_typed()?.help()
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.file)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.only_of_what_was_typed()?.labels()
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        let several = self.only_of_what_was_typed().is_none().then_some(&self.problems)?;
        Some(Box::new(several.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

impl Error {
    fn only_of_what_was_typed(&self) -> Option<&Problem> {
        let is_alone = self.more == 0 && !self.is_partial && source::is_typed(self.file.name());
        self.problems.first().filter(|_| is_alone && self.problems.len() == 1)
    }

    /// The file's name, as the user gave it.
    pub fn file(&self) -> &str {
        self.file.name()
    }

    /// What is wrong, in the order of the file.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

/// Collects problems while a file is read.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    source: &'a Source,
    lines: Lines<'a>,
    found: Vec<Problem>,
    more: usize,
    noted: usize,
    is_partial: bool,
    /// How much of the text is shown, in bytes.
    shown: usize,
    /// Whether a program reads them, and no hints.
    is_made: bool,
}

impl<'a> Problems<'a> {
    pub fn new(source: &'a Source) -> Self {
        Self {
            source,
            lines: Lines::of(&source.text),
            found: Vec::new(),
            more: 0,
            noted: 0,
            is_partial: false,
            shown: source.text.len(),
            is_made: false,
        }
    }

    /// Of a file that a program has made, and mends by what is found: more are kept, and hints are left out.
    pub fn of_made(source: &'a Source) -> Self {
        Self { is_made: true, ..Self::new(source) }
    }

    /// Notes that `message` holds at `place`: `label` is shown under the marked text, `hint` says how to fix it.
    pub fn add(&mut self, place: Place, message: impl Into<String>, label: impl Into<String>, hint: impl Into<String>) {
        self.noted += 1;
        if self.is_full() {
            self.more += 1;
            return;
        }
        let (line, column) = self.lines.position(place.offset);
        // The file's own words stand in all of them.
        let text = |text: String| escaped(&text).into_owned();
        let (message, hint) = (text(message.into()), text(hint.into()));
        // `expected a time, found `x``: that is how to fix it.
        let is_said = hint.strip_prefix("write ").is_some_and(|what| message.starts_with(&format!("expected {what}")));
        let problem = Problem {
            message,
            line,
            column,
            label: text(label.into()),
            span: place.into(),
            marked: place.into(),
            help: (!is_said && !hint.is_empty()).then(|| hint.clone()),
            hint,
            is_yaml: false,
        };
        // The same text can be read twice (an alias, a default that meets many links): once is enough.
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    /// Where a part of a scalar's value is in the text, if it is written there as it is; else where all of it is.
    pub fn place_within(&self, place: Place, value: &str, part: &Range<usize>) -> Place {
        let written = self.source.text.get(place.offset..place.offset + place.len).unwrap_or_default();
        match written.find(value).filter(|_| !value.is_empty()) {
            Some(at) => Place { offset: place.offset + at + part.start, len: part.len().max(1) },
            None => place,
        }
    }

    /// Notes that the text is no YAML at `place`.
    pub fn add_yaml(&mut self, place: Place, message: String, label: &str, hint: impl Into<String>) {
        let before = self.found.len();
        self.add(place, message, label, hint);
        for problem in &mut self.found[before..] {
            problem.is_yaml = true;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Leaves the text from `end` on out of messages; every place that is noted must lie before it.
    pub fn show_until(&mut self, end: usize) {
        self.shown = end;
    }

    /// A hint that takes long to find: left out when nobody will read it.
    pub fn hint(&self, find: impl FnOnce() -> String) -> String {
        if self.is_full() || self.is_made { String::new() } else { find() }
    }

    /// Whether no more are kept.
    pub fn is_full(&self) -> bool {
        self.found.len() >= if self.is_made { MOST_KEPT_OF_MADE } else { MOST_KEPT }
    }

    /// How often something was noted, to tell whether it was between two moments.
    pub fn noted(&self) -> usize {
        self.noted
    }

    /// Some checks are left out, since they need what has a problem.
    pub fn leave_checks_out(&mut self) {
        self.is_partial = true;
    }

    /// The line of `place`, from 1.
    pub fn line(&self, place: Place) -> usize {
        self.lines.line(place.offset)
    }

    /// All that was found, as an error.
    pub fn into_error(mut self) -> Error {
        self.found.sort_by_key(|p| (p.span.offset(), p.span.len()));
        let places: Vec<SourceSpan> = self.found.iter().map(|problem| problem.span).collect();
        let (file, marked) = Excerpt::new(&self.source.name, &self.source.text[..self.shown], &places);
        self.found.iter_mut().zip(marked).for_each(|(problem, marked)| problem.marked = marked);
        Error { file, problems: self.found, more: self.more, is_partial: self.is_partial }
    }
}

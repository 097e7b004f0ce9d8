//! What YAML complains about, in the words of who wrote the file: what is wrong in which line, and what to do.

use serde_saphyr::granit_parser::ErrorKind;

use crate::error::Problems;
use crate::read::shown;
use crate::source::Place;

/// Says what a parser's error means at this place of the text; `false` if there are no better words than its own.
pub(crate) fn explain(kind: &ErrorKind, place: Place, text: &str, problems: &mut Problems<'_>) -> bool {
    let at = Scan::of(text, place.offset);
    let complaint = match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInPlainScalar
        | ErrorKind::InvalidBlockEntryWhitespace
        | ErrorKind::InvalidMappingValueWhitespace => Some(at.tab()),
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::ExpectedDocumentStart => Some(at.indentation()),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement | ErrorKind::InvalidSimpleKey => {
            at.unclosed().or_else(|| Some(at.colon()))
        }
        ErrorKind::SimpleKeyExpected => at.unclosed().or_else(|| Some(at.no_colon())),
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::BlockEntryInFlowCollection
        | ErrorKind::InvalidFlowScalarIndent
        | ErrorKind::FlowMappingValueAdjacentCollection => at.unclosed().or_else(|| at.separator()),
        ErrorKind::UnclosedFlowCollection { open } => Some(Complaint {
            what: format!("`{open}` of line {} is not closed", at.number(place.offset)),
            label: "opened here",
            hint: format!("write `{}` where it ends", closing(*open)),
            place: Place { len: 1, ..place },
        }),
        ErrorKind::MisplacedFlowCollectionEnd => Some(at.closes_nothing()),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => Some(Complaint {
            what: format!("`{open}` is closed by `{close}`"),
            label: "the bracket that is open",
            hint: format!("write `{}` at its end", closing(*open)),
            place: Place { len: 1, ..place },
        }),
        ErrorKind::InvalidBlockScalarHeader | ErrorKind::UnexpectedCharacter { .. } => Some(at.needs_quotes()),
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => at.open_quote(),
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            Some(at.complaint(
                place,
                "something follows a text in quotes",
                "after the quotes",
                "put all of it between the quotes",
            ))
        }
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape => Some(at.complaint(
            place,
            "after a backslash, this text has what is no escape",
            "in this text",
            "write `\\\\` for a backslash, or put the text between single quotes",
        )),
        ErrorKind::UnknownAnchor => Some(at.complaint(
            place,
            "there is no anchor of this name before it",
            "an alias",
            "`*x` repeats what is marked `&x`; text that begins with `*` needs quotes",
        )),
        ErrorKind::ExpectedNodeContent => Some(at.complaint(
            place,
            "a value is missing here",
            "no value",
            "write a value, or remove the comma or key before it",
        )),
        ErrorKind::BlockSequenceEntryNotAllowed => Some(at.complaint(
            place,
            "a list in lines cannot begin here",
            "a list item",
            "begin the list in the next line, or write it between brackets: [a, b]",
        )),
        ErrorKind::CommentNotSeparated | ErrorKind::CommentInterceptedScalar => Some(at.complaint(
            place,
            "a comment cannot begin here",
            "a comment",
            "put a space before `#`, or quotes around text that has one",
        )),
        _ => None,
    };
    let Some(Complaint { what, label, hint, place }) = complaint else { return false };
    // The parser's place may be the end of the text, or behind a mark of byte order that it does not count.
    let rest = &text[place.offset..];
    let len = (0..=place.len.min(rest.len())).rev().find(|&len| rest.is_char_boundary(len)).unwrap_or(0);
    problems.add_yaml(Place { len, ..place }, what, label, hint);
    true
}

/// A complaint.
struct Complaint {
    what: String,
    label: &'static str,
    hint: String,
    place: Place,
}

const fn closing(open: char) -> char {
    match open {
        '{' => '}',
        '[' => ']',
        other => other,
    }
}

/// What the text is like around the place of an error. Text of several lines is taken for what it looks like: this is for hints.
struct Scan<'a> {
    text: &'a str,
    /// The offset of the error.
    at: usize,
    /// Brackets and quotes that are open there.
    open: Vec<(char, usize)>,
}

impl<'a> Scan<'a> {
    fn of(text: &'a str, at: usize) -> Self {
        let mut open: Vec<(char, usize)> = Vec::new();
        let mut before = '\n';
        // What comes before the character that is looked at, without spaces: quotes begin a value, or are a part of one.
        let mut begins = true;
        let mut characters = text[..at].char_indices().peekable();
        while let Some((offset, character)) = characters.next() {
            let quote = open.last().map(|(quote, _)| *quote).filter(|quote| matches!(quote, '"' | '\''));
            match (quote, character) {
                (Some('"'), '\\') => _ = characters.next(),
                (Some('\''), '\'') if characters.peek().is_some_and(|(_, next)| *next == '\'') => _ = characters.next(),
                (Some(quote), character) if quote == character => _ = open.pop(),
                (None, '#') if before.is_whitespace() => {
                    while characters.next_if(|(_, next)| *next != '\n').is_some() {}
                }
                (None, '"' | '\'') if begins => open.push((character, offset)),
                (None, '{' | '[') => open.push((character, offset)),
                (None, '}' | ']') => _ = open.pop(),
                (Some(_) | None, _) => {}
            }
            if !matches!(character, ' ' | '\t') {
                begins = matches!(character, '\n' | '{' | '[' | ',' | ':' | '-');
            }
            before = character;
        }
        Self { text, at, open }
    }

    fn complaint(&self, place: Place, what: &str, label: &'static str, hint: &str) -> Complaint {
        debug_assert!(place.offset <= self.text.len());
        Complaint { what: what.to_owned(), label, hint: hint.to_owned(), place }
    }

    /// The number of the line of an offset, from 1.
    fn number(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    /// Where the line of an offset begins, and the line.
    fn line(&self, offset: usize) -> (usize, &'a str) {
        let start = self.text[..offset].rfind('\n').map_or(0, |end| end + 1);
        (start, self.text[start..].lines().next().unwrap_or_default())
    }

    /// Lines that say something before that of the error, the nearest first: their number and their text.
    fn lines_above(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let (start, _) = self.line(self.at);
        let lines: Vec<(usize, &str)> = self.text[..start].lines().enumerate().map(|(i, line)| (i + 1, line)).collect();
        lines.into_iter().rev().filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    }

    /// The words of a line, to be marked.
    fn words(&self, offset: usize) -> Place {
        let (start, line) = self.line(offset);
        let words = line.trim();
        Place { offset: start + indent(line), len: words.len() }
    }

    fn tab(&self) -> Complaint {
        let (start, line) = self.line(self.at);
        let blank = line.len() - line.trim_start().len();
        let tab = line[..blank].find('\t').or_else(|| line.find('\t'));
        let place = Place { offset: tab.map_or(self.at, |tab| start + tab), len: usize::from(tab.is_some()) };
        let number = self.number(self.at);
        if tab.is_some_and(|tab| tab < blank) {
            let what = format!("line {number} is indented with a tab");
            self.complaint(place, &what, "a tab", "indent with spaces, two a level")
        } else {
            self.complaint(
                place,
                &format!("a tab stands in line {number} where a space has to"),
                "a tab",
                "write a space",
            )
        }
    }

    /// A line that continues nothing.
    fn indentation(&self) -> Complaint {
        let (_, line) = self.line(self.at);
        let (number, own) = (self.number(self.at), indent(line));
        let place = self.words(self.at);
        let spaces = |n: usize| match n {
            0 => "no space".to_owned(),
            1 => "1 space".to_owned(),
            n => format!("{n} spaces"),
        };
        // The columns in which something begins that is still open, from the inside.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (number, above) in self.lines_above() {
            let column = indent(above);
            if open.last().is_none_or(|(_, least)| column < *least) {
                open.push((number, column));
            }
        }
        let same = open.iter().find(|(_, column)| *column == own);
        let is_item = |line: &str| line.trim_start().starts_with("- ") || line.trim() == "-";
        let above = |number: usize| self.text.lines().nth(number - 1).unwrap_or_default();
        let (what, label, hint) = match (same, open.first()) {
            (Some((other, _)), _) if is_item(line) && !is_item(above(*other)) => (
                format!("line {number} is an item of a list between the keys of a map"),
                "a list item",
                format!("indent it under the key that it belongs to, or write it as `key: value` as line {other} is"),
            ),
            (Some((other, _)), _) if !is_item(line) && is_item(above(*other)) => (
                format!("line {number} stands among the items of a list, and is none"),
                "not an item",
                format!("begin it with `- ` as line {other}; a fabric file itself is a map, not a list"),
            ),
            (None, Some((other, column))) if own > *column => (
                format!("line {number} is indented by {}, deeper than what it continues", spaces(own)),
                "indented too deep",
                format!(
                    "line {other} has {}: indent it alike, or by two more under a key without a value",
                    spaces(*column)
                ),
            ),
            (None, Some(_)) => {
                let columns = open.iter().map(|(other, column)| format!("{} as line {other}", spaces(*column)));
                let columns = columns.take(3).collect::<Vec<_>>().join(", or ");
                (
                    format!("line {number} is indented by {}, as nothing above that it could continue", spaces(own)),
                    "indented otherwise",
                    format!("indent it by {columns}"),
                )
            }
            _ => (
                format!("line {number} does not continue what stands above"),
                "here",
                "each line of a map is `key: value`; what belongs to a key is indented below it".to_owned(),
            ),
        };
        Complaint { what, label, hint, place }
    }

    /// A colon that makes no key.
    fn colon(&self) -> Complaint {
        let (start, line) = self.line(self.at);
        let number = self.number(self.at);
        // `key:value` is text, and goes on in the next line.
        if let Some((other, above)) = self.lines_above().next().filter(|(_, above)| is_glued(above)) {
            let offset = self.text.split_inclusive('\n').take(other - 1).map(str::len).sum();
            let (key, value) = above.trim().split_once(':').unwrap_or_default();
            return Complaint {
                what: format!("line {other} has no space after the colon"),
                label: "no key",
                hint: format!("write `{}: {}`", shown(key), shown(value)),
                place: self.words(offset),
            };
        }
        let before = line.get(..self.at - start).unwrap_or_default();
        if let Some((key, _)) = before.split_once(": ").filter(|(key, _)| !key.trim().is_empty()) {
            let value = line[key.len() + 2..].trim();
            return Complaint {
                what: format!("line {number} has a second colon"),
                label: "the second one",
                hint: format!("text with a colon needs quotes: `{}: \"{}\"`", shown(key.trim()), shown(value)),
                place: Place { offset: self.at, len: 1.min(self.text.len() - self.at) },
            };
        }
        self.indentation()
    }

    /// A line that should have been a key.
    fn no_colon(&self) -> Complaint {
        // YAML notices when the next line comes.
        let (_, line) = self.line(self.at);
        let is_here = !line.trim().is_empty() && !line.contains(':');
        let above = self.lines_above().find(|(_, above)| !above.contains(':'));
        let (number, words) = match above {
            Some((number, above)) if !is_here => (number, above.trim()),
            _ => (self.number(self.at), line.trim()),
        };
        let offset: usize = self.text.split_inclusive('\n').take(number - 1).map(str::len).sum();
        Complaint {
            what: format!("line {number} has no colon"),
            label: "no key",
            hint: format!("each line of a map is `key: value`: write `{}: ..`", shown(words)),
            place: self.words(offset.min(self.text.len())),
        }
    }

    /// A bracket that was opened in an earlier line.
    fn unclosed(&self) -> Option<Complaint> {
        let (bracket, offset) = *self.open.last()?;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let (opened, here) = (self.number(offset), self.number(self.at));
        if matches!(bracket, '"' | '\'') {
            return self.open_quote();
        }
        if opened == here && !rest.trim().is_empty() {
            return None;
        }
        Some(Complaint {
            what: format!("`{bracket}` of line {opened} is not closed"),
            label: "opened here",
            hint: format!("write `{}` where it ends", closing(bracket)),
            place: Place { offset, len: 1 },
        })
    }

    /// What stands between brackets without a comma before it.
    fn separator(&self) -> Option<Complaint> {
        let (bracket, _) = *self.open.last()?;
        let found = self.text[self.at..].chars().next()?;
        let close = closing(bracket);
        let len = found.len_utf8();
        Some(Complaint {
            what: format!("a comma or `{close}` is missing before `{}`", shown(&found.to_string())),
            label: "here",
            hint: format!(
                "values between {bracket} {close} are separated by commas; text with {{, [, `,` or `: ` in it needs quotes"
            ),
            place: Place { offset: self.at, len },
        })
    }

    fn closes_nothing(&self) -> Complaint {
        let place = Place { offset: self.at, len: 1.min(self.text.len() - self.at) };
        self.complaint(place, "this bracket closes nothing", "not open", "remove it, or open it before")
    }

    /// `>= 1 Mbit/s` and others that begin with a sign of YAML's own.
    fn needs_quotes(&self) -> Complaint {
        let rest = self.text[self.at..].lines().next().unwrap_or_default();
        let is_between = self.open.iter().any(|(bracket, _)| matches!(bracket, '{' | '['));
        let end = if is_between { rest.find([',', '}', ']']).unwrap_or(rest.len()) } else { rest.len() };
        let value = rest[..end].split(" #").next().unwrap_or_default().trim_end();
        let first = value.chars().next().unwrap_or_default();
        let what = match first {
            '>' | '|' => {
                format!("`{}` needs quotes: to YAML, a `{first}` begins a text of several lines", shown(value))
            }
            _ => format!("`{}` needs quotes: no text begins with `{first}`", shown(value)),
        };
        Complaint {
            what,
            label: "quote it",
            hint: format!("write \"{}\"", shown(value)),
            place: Place { offset: self.at, len: value.len() },
        }
    }

    /// Quotes that have no end.
    fn open_quote(&self) -> Option<Complaint> {
        let (quote, offset) = *self.open.iter().rev().find(|(open, _)| matches!(open, '"' | '\''))?;
        let number = self.number(offset);
        let (start, line) = self.line(offset);
        Some(Complaint {
            what: format!("the text in quotes that begins in line {number} has no end"),
            label: "begins here",
            hint: format!("write `{quote}` where it ends, in the same line"),
            place: Place { offset, len: (start + line.trim_end().len()).saturating_sub(offset).max(1) },
        })
    }
}

/// How many spaces a line begins with.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Whether a line looks like a key with a value, but lacks the space between them.
fn is_glued(line: &str) -> bool {
    let Some((key, value)) = line.trim().split_once(':') else { return false };
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    is_key && !value.is_empty() && !value.starts_with(' ')
}

//! As much of JSON as load reports need: numbers by the path of their keys. All other values are read over.

use super::{AgentError, shown};

/// Objects and arrays within each other at most.
const DEPTH_MAX: usize = 16;

/// Calls `number` for each number that is no element of an array, with the keys that lead to it, joined by dots.
pub(super) fn numbers(
    text: &str,
    number: &mut dyn FnMut(&str, f64) -> Result<(), AgentError>,
) -> Result<(), AgentError> {
    let mut reader = Reader { text, at: 0, path: String::new() };
    reader.expect_next('{')?;
    reader.object(0, number)?;
    reader.skip_space();
    if reader.at < text.len() { Err(reader.expected("the end")) } else { Ok(()) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    path: String,
}

type Number<'a> = &'a mut dyn FnMut(&str, f64) -> Result<(), AgentError>;

impl<'a> Reader<'a> {
    fn expected(&self, expected: &'static str) -> AgentError {
        AgentError::Syntax { at: self.at, expected }
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn next(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_next = self.next() == Some(wanted);
        self.at += if is_next { wanted.len_utf8() } else { 0 };
        is_next
    }

    fn expect_next(&mut self, wanted: char) -> Result<(), AgentError> {
        let expected = match wanted {
            '{' => "an object",
            ':' => "`:`",
            _ => "`\"`",
        };
        if self.take(wanted) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// What stands between quotation marks, as it is written.
    fn string(&mut self) -> Result<&'a str, AgentError> {
        self.expect_next('"')?;
        let rest = &self.text[self.at..];
        let mut is_escaped = false;
        for (length, byte) in rest.bytes().enumerate() {
            match byte {
                b'"' if !is_escaped => {
                    self.at += length + 1;
                    return Ok(&rest[..length]);
                }
                0..0x20 => break,
                _ => is_escaped = byte == b'\\' && !is_escaped,
            }
        }
        Err(self.expected("the end of a string"))
    }

    /// Reads what follows a `{`.
    fn object(&mut self, depth: usize, number: Number<'_>) -> Result<(), AgentError> {
        if self.take('}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect_next(':')?;
            let length = self.path.len();
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(key);
            self.value(depth + 1, number)?;
            self.path.truncate(length);
            if self.take('}') {
                return Ok(());
            }
            if !self.take(',') {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), AgentError> {
        if self.take(']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1, &mut |_, _| Ok(()))?;
            if self.take(']') {
                return Ok(());
            }
            if !self.take(',') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    fn value(&mut self, depth: usize, number: Number<'_>) -> Result<(), AgentError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("fewer objects within each other"));
        }
        match self.next() {
            Some('{') => {
                self.at += 1;
                self.object(depth, number)
            }
            Some('[') => {
                self.at += 1;
                self.array(depth)
            }
            Some('"') => self.string().map(drop),
            _ => self.word(number),
        }
    }

    /// A number, or `true`, `false`, `null`.
    fn word(&mut self, number: Number<'_>) -> Result<(), AgentError> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.at += word.len();
        if matches!(word, "true" | "false" | "null") {
            return Ok(());
        }
        let value = decimal(word).ok_or_else(|| AgentError::Value {
            name: shown(&self.path),
            value: shown(word),
            expected: "a number",
        })?;
        number(&self.path, value)
    }
}

/// A number in decimal notation; `inf`, `nan` and the like are none.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let starts = text.strip_prefix('-').unwrap_or(text).bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|value: &f64| starts && value.is_finite())
}

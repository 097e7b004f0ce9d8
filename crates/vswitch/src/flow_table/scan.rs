//! Texts of flows, cut into what is between their commas.

use std::ops::Range;

use super::error::FlowError;

/// The longest text of a flow or group, in bytes.
pub const TEXT_MAX: usize = 16 << 10;

/// One piece of a flow's text: a word, and what stands behind its `=`, its `:` or in its brackets. Both with where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    pub word: &'a str,
    pub at: Range<usize>,
    pub value: Option<(&'a str, Range<usize>)>,
}

impl<'a> Pair<'a> {
    /// All of it.
    pub fn span(&self) -> Range<usize> {
        self.at.start..self.value.as_ref().map_or(self.at.end, |(_, at)| at.end)
    }

    /// What stands behind the word, which needs that.
    pub fn needed(&self, example: &str) -> Result<(&'a str, Range<usize>), FlowError> {
        match &self.value {
            Some((value, at)) if !value.is_empty() => Ok((value, at.clone())),
            _ => Err(FlowError::new(
                self.at.clone(),
                format!("`{}` has no value", self.word),
                format!("write it as in `{example}`"),
            )),
        }
    }

    /// Nothing may stand behind the word.
    pub fn alone(&self) -> Result<(), FlowError> {
        match &self.value {
            Some((_, at)) => Err(FlowError::new(
                at.clone(),
                format!("nothing is expected behind `{}`", self.word),
                format!("write `{}` alone", self.word),
            )),
            None => Ok(()),
        }
    }
}

/// Whether it separates pieces.
const fn separates(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n')
}

/// The pieces of a text, as `ovs-ofctl` cuts it.
pub struct Scan<'a> {
    text: &'a str,
    next: usize,
}

impl<'a> Scan<'a> {
    pub const fn new(text: &'a str) -> Self {
        Self { text, next: 0 }
    }

    /// Where the next piece begins.
    pub fn at(&mut self) -> usize {
        let bytes = self.text.as_bytes();
        while bytes.get(self.next).is_some_and(|byte| separates(*byte)) {
            self.next += 1;
        }
        self.next
    }

    /// The next piece.
    pub fn pair(&mut self) -> Result<Option<Pair<'a>>, FlowError> {
        let (start, text, bytes) = (self.at(), self.text, self.text.as_bytes());
        if start == bytes.len() {
            return Ok(None);
        }
        let ends = |byte: &u8| separates(*byte) || matches!(byte, b'=' | b':' | b'(');
        let end = bytes[start..].iter().position(ends).map_or(bytes.len(), |at| start + at);
        let pair = |value| Pair { word: &text[start..end], at: start..end, value };
        let (value, next) = match bytes.get(end) {
            Some(b'(') => {
                let close = closing(bytes, end)?;
                (Some((&text[end + 1..close], end + 1..close)), close + 1)
            }
            Some(b'=' | b':') => {
                let close = end_of_value(bytes, end + 1)?;
                (Some((&text[end + 1..close], end + 1..close)), close)
            }
            _ => (None, end),
        };
        if start == end {
            return Err(FlowError::new(
                start..next.max(start + 1),
                "a word is expected here",
                "write the name of a field or an action",
            ));
        }
        self.next = next;
        Ok(Some(pair(value)))
    }
}

/// Where the bracket that is opened at `open` is closed.
fn closing(bytes: &[u8], open: usize) -> Result<usize, FlowError> {
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Ok(at),
            b')' => depth -= 1,
            _ => {}
        }
    }
    Err(FlowError::new(open..bytes.len(), "this bracket is not closed", "write `)` behind what belongs to it"))
}

/// Where a value ends that begins at `start`: what stands in brackets within it belongs to it.
fn end_of_value(bytes: &[u8], start: usize) -> Result<usize, FlowError> {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'(' => at = closing(bytes, at)?,
            byte if separates(*byte) => return Ok(at),
            _ => {}
        }
        at += 1;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(&str, Option<&str>)> {
        let mut scan = Scan::new(text);
        std::iter::from_fn(|| scan.pair().unwrap())
            .map(|pair| (pair.word, pair.value.map(|(value, _)| value)))
            .collect()
    }

    #[test]
    fn a_text_is_cut_at_commas_and_spaces_but_not_in_brackets() {
        assert_eq!(pairs(" tcp, tp_dst=80 "), [("tcp", None), ("tp_dst", Some("80"))]);
        assert_eq!(
            pairs("mod_dl_src:00:01:02:03:04:05,write_actions(output:1,drop),clone:(a,b)x"),
            [
                ("mod_dl_src", Some("00:01:02:03:04:05")),
                ("write_actions", Some("output:1,drop")),
                ("clone", Some("(a,b)x"))
            ]
        );
        assert_eq!(pairs(",,"), []);
    }

    #[test]
    fn what_is_not_closed_or_has_no_word_is_refused() {
        assert_eq!(Scan::new("a(b").pair().unwrap_err().at, 1..3);
        assert_eq!(Scan::new("=5").pair().unwrap_err().at, 0..2);
    }
}

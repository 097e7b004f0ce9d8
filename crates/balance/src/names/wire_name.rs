//! Names as DNS has them.

use std::fmt;

/// The longest name in bytes, with the length of each label and the root's (RFC 1035, 2.3.4).
const NAME_MAX: usize = 255;
/// The longest label.
const LABEL_MAX: usize = 63;

/// A name in wire format: labels with their lengths before them, in lower case (RFC 4343), the root's at the end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireName(Vec<u8>);

impl WireName {
    /// Reads `www.example.net`, with or without a dot at its end: labels of letters, digits, `_`, and `-` between those. `None` if it is no such name.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut bytes = Vec::with_capacity(text.len() + 2);
        for label in text.split('.') {
            let is_plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            // Programs take a name with such a hyphen for an option, or for none (RFC 1123, 2.1).
            let has_edge = label.starts_with('-') || label.ends_with('-');
            if label.is_empty() || label.len() > LABEL_MAX || !is_plain || has_edge {
                return None;
            }
            bytes.push(label.len() as u8);
            bytes.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        bytes.push(0);
        (bytes.len() <= NAME_MAX).then_some(Self(bytes))
    }

    /// Reads a name that is not compressed from the start of `bytes`, as clients write it; and how long it is there. `None` if it is none.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut end = 0;
        loop {
            let length = usize::from(*bytes.get(end)?);
            end += 1 + length;
            // Two bits before a length say something else, as that it is a pointer: nothing stands before a question that it could point to.
            if length > LABEL_MAX || end > NAME_MAX {
                return None;
            }
            if length == 0 {
                break;
            }
        }
        // Lengths are no letters.
        Some((Self(bytes.get(..end)?.to_ascii_lowercase()), end))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is below another name.
    pub fn is_below(&self, other: &Self) -> bool {
        self != other && self.offset_of(other).is_some()
    }

    /// Where another name begins in this one, if it is that one or below it.
    pub(super) fn offset_of(&self, other: &Self) -> Option<usize> {
        let at = self.0.len().checked_sub(other.0.len())?;
        (self.0[at..] == other.0 && self.label_starts().any(|start| start == at)).then_some(at)
    }

    fn label_starts(&self) -> impl Iterator<Item = usize> + '_ {
        let next = |at: &usize| (self.0[*at] != 0).then(|| at + 1 + usize::from(self.0[*at]));
        std::iter::successors(Some(0), next)
    }
}

/// Without a dot at its end; `.` alone is the root.
impl fmt::Display for WireName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == [0] {
            return formatter.write_str(".");
        }
        for start in self.label_starts().filter(|start| self.0[*start] != 0) {
            let label = &self.0[start + 1..][..usize::from(self.0[start])];
            let dot = if start > 0 { "." } else { "" };
            write!(formatter, "{dot}{}", label.escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for WireName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

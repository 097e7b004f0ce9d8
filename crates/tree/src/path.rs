//! Where a value lives: an absolute instance path in the style of RFC 8040 section 3.5.3.
//!
//! ```text
//! path    = "/" / "/" module ":" / 1*( "/" segment )
//! segment = [ module ":" ] name [ "=" key *( "," key ) ]      the first segment must name its module
//! ```
//!
//! The first two forms are all data, and all data of a module; no value can be there itself.
//!
//! A [`Path`] is *canonical*: keys are percent-encoded in one way (everything but RFC 3986's unreserved characters), and a
//! module is left out where it is the parent's (RFC 8040 section 3.5.3: names are inherited). Equal paths are equal strings.
//!
//! Paths are ordered so that a subtree is one contiguous range: `/` sorts below `=`, and both below everything else. By
//! bytes alone `/a:b-c` would stand between `/a:b` and `/a:b/x`.

use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most bytes in a path, as given and in its canonical form.
pub const MAX_PATH_BYTES: usize = 1_024;
/// The most segments in a path.
pub const MAX_PATH_DEPTH: usize = 32;

/// A byte that no path holds; it sorts right behind the subtree that it is appended to.
const END: char = '\0';

/// An absolute path in canonical form. A clone shares the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Path(Arc<str>);

/// Why a text is not a path. Positions are bytes from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text, or its canonical form, is longer than [`MAX_PATH_BYTES`].
    #[error(
        "path has {bytes} bytes or more, expected at most {MAX_PATH_BYTES}; hint: shorten keys, or nest less deeply"
    )]
    TooLong {
        /// Its length as far as it was looked at.
        bytes: usize,
    },
    /// There are more than [`MAX_PATH_DEPTH`] segments.
    #[error("segment at byte {position} is one too many, expected at most {MAX_PATH_DEPTH} segments")]
    TooDeep {
        /// Where the first segment too many begins.
        position: usize,
    },
    /// Something else was expected at a position.
    #[error("at byte {position} of the path: expected {expected}; hint: a path looks like /car:cars/car-entry=17")]
    Syntax {
        /// The byte at which it stands.
        position: usize,
        /// What would have been right there.
        expected: &'static str,
    },
}

impl Path {
    /// The path of everything: `/`.
    pub fn root() -> Self {
        Self(Arc::from("/"))
    }

    /// Parses `text` and brings it into its canonical form.
    ///
    /// # Errors
    /// [`PathError`] with the position and what was expected there.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong { bytes: text.len() });
        }
        if text == "/" {
            return Ok(Self::root());
        }
        let mut parser = Parser { text, position: 0, canonical: String::with_capacity(text.len()), module: "" };
        let mut depth = 0;
        while parser.position < text.len() {
            if depth == MAX_PATH_DEPTH {
                return Err(PathError::TooDeep { position: parser.position });
            }
            parser.segment(depth == 0)?;
            depth += 1;
        }
        if depth == 0 {
            return Err(PathError::Syntax { position: 0, expected: "\"/\"" });
        }
        if parser.canonical.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong { bytes: parser.canonical.len() });
        }
        Ok(Self(Arc::from(parser.canonical)))
    }

    /// All top-level nodes of a module and what is below them, written `/car:`. No value can be at such a path itself.
    ///
    /// # Errors
    /// [`PathError`] if that is not the name of a module.
    pub fn of_module(module: &str) -> Result<Self, PathError> {
        let path = Self::parse(&format!("/{module}:"))?;
        if path.is_module() && path.module() == Some(module) {
            return Ok(path);
        }
        Err(PathError::Syntax { position: 1, expected: "the name of a module" })
    }

    /// Whether this is all of a module, as [`Path::of_module`] makes it.
    pub fn is_module(&self) -> bool {
        // In a key it would be encoded.
        self.0.ends_with(':')
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `/`.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// The module of the first segment; none for the root.
    pub fn module(&self) -> Option<&str> {
        self.0[1..].split_once(':').map(|(module, _)| module)
    }

    /// The path without its last segment (a list entry's parent is what holds the list); none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Path> {
        if self.is_root() {
            return None;
        }
        let end = self.0.rfind('/').expect("a path begins with a slash");
        Some(Self(Arc::from(if end == 0 { "/" } else { &self.0[..end] })))
    }

    /// A path one segment deeper; of a module, one of its top-level nodes.
    ///
    /// `name` may have a `module:` (it must, under the root). `keys` are plain text, encoded here; none for a node that is
    /// not a list entry.
    ///
    /// # Errors
    /// [`PathError`] if the name is none, or the result too long or too deep.
    pub fn child(&self, name: &str, keys: &[&str]) -> Result<Path, PathError> {
        let mut text = self.0.to_string();
        if !self.is_root() && !self.is_module() {
            text.push('/');
        }
        if let Some(at) = name.find(['/', '=', ',']) {
            return Err(PathError::Syntax { position: text.len() + at, expected: "a name without keys" });
        }
        text.push_str(name);
        for (index, key) in keys.iter().enumerate() {
            text.push(if index == 0 { '=' } else { ',' });
            encode(key.as_bytes(), &mut text);
        }
        Self::parse(&text)
    }

    /// The segments from the root on; none for the root itself and for all of a module.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.0[1..].split('/').filter(|text| !text.is_empty() && !text.ends_with(':')).map(|text| Segment { text })
    }

    /// Whether `other` is this path or below it. A list without keys contains its entries.
    pub fn contains(&self, other: &Path) -> bool {
        if self.is_root() {
            return true;
        }
        match other.0.as_bytes().strip_prefix(self.0.as_bytes()) {
            None => false,
            Some(_) if self.is_module() => true,
            // A canonical key holds no "=", so that it can only follow a name.
            Some(rest) => matches!(rest.first(), None | Some(b'/' | b'=')),
        }
    }

    /// Whether one of the two contains the other.
    pub fn overlaps(&self, other: &Path) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// What sorts right behind the last path of this subtree. Not a path: it only bounds ranges.
    pub(crate) fn subtree_end(&self) -> Path {
        let mut end = String::with_capacity(self.0.len() + 1);
        end.push_str(&self.0);
        // All paths begin with the root's slash, and DEL sorts behind all that may follow it.
        end.push(if self.is_root() || self.is_module() { '\x7f' } else { END });
        Self(Arc::from(end))
    }
}

/// A byte's place in the order of paths.
fn rank(byte: u8) -> u8 {
    match byte {
        b'/' => 0,
        b'=' => 1,
        0 => 2,
        // Canonical paths are ASCII.
        other => other + 2,
    }
}

/// The first byte at which the two differ, eight at a time: keys of one list have long common beginnings.
fn mismatch(a: &[u8], b: &[u8]) -> Option<usize> {
    let shared = a.len().min(b.len());
    let mut at = 0;
    while let (Some(x), Some(y)) = (a[at..shared].first_chunk::<8>(), b[at..shared].first_chunk::<8>()) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return Some(at + difference.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    (at..shared).find(|&at| a[at] != b[at])
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.0.as_bytes(), other.0.as_bytes());
        match mismatch(a, b) {
            Some(at) => rank(a[at]).cmp(&rank(b[at])),
            None => a.len().cmp(&b.len()),
        }
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(PathVisitor)
    }
}

struct PathVisitor;

impl Visitor<'_> for PathVisitor {
    type Value = Path;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path such as /car:cars/car-entry=17")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Path, E> {
        Path::parse(text).map_err(E::custom)
    }
}

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    text: &'a str,
}

impl<'a> Segment<'a> {
    /// The segment as it stands in the path.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// The module, where it is not the parent's.
    pub fn module(&self) -> Option<&'a str> {
        self.node().split_once(':').map(|(module, _)| module)
    }

    /// The name of the node, without module and keys.
    pub fn name(&self) -> &'a str {
        let node = self.node();
        node.split_once(':').map_or(node, |(_, name)| name)
    }

    /// The keys of a list entry as plain text; none if the segment has no `=`.
    pub fn keys(&self) -> Option<Vec<String>> {
        let (_, keys) = self.text.split_once('=')?;
        Some(keys.split(',').map(|key| decode(key).expect("the parser checked the encoding")).collect())
    }

    fn node(&self) -> &'a str {
        self.text.split_once('=').map_or(self.text, |(node, _)| node)
    }
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    canonical: String,
    /// The module of the segments so far.
    module: &'a str,
}

impl<'a> Parser<'a> {
    fn segment(&mut self, first: bool) -> Result<(), PathError> {
        if self.peek() != Some(b'/') {
            return self.expected("\"/\"");
        }
        self.position += 1;
        self.canonical.push('/');
        let mut name = self.identifier()?;
        if self.peek() == Some(b':') {
            self.position += 1;
            let module = name;
            if first && self.peek().is_none() {
                self.canonical.push_str(module);
                self.canonical.push(':');
                return Ok(());
            }
            name = self.identifier()?;
            if module != self.module {
                self.canonical.push_str(module);
                self.canonical.push(':');
            }
            self.module = module;
        } else if first {
            return self.expected("\":\", since the first name needs its module");
        }
        self.canonical.push_str(name);
        if self.peek() == Some(b'=') { self.keys() } else { self.end_of_segment("\"=\", \"/\" or the end") }
    }

    /// An identifier of YANG (RFC 7950 section 6.2).
    fn identifier(&mut self) -> Result<&'a str, PathError> {
        let rest = &self.text[self.position..];
        if !rest.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            return self.expected("a name (a letter or \"_\", then letters, digits, \"_\", \"-\", \".\")");
        }
        let length = rest
            .find(|other: char| !(other.is_ascii_alphanumeric() || matches!(other, '_' | '-' | '.')))
            .unwrap_or(rest.len());
        self.position += length;
        Ok(&rest[..length])
    }

    fn keys(&mut self) -> Result<(), PathError> {
        let mut mark = '=';
        loop {
            self.position += 1;
            self.canonical.push(mark);
            let rest = &self.text[self.position..];
            let length = rest.find(['/', ',', '?', '#']).unwrap_or(rest.len());
            match decode(&rest[..length]) {
                Ok(key) => encode(key.as_bytes(), &mut self.canonical),
                Err((at, expected)) => return Err(PathError::Syntax { position: self.position + at, expected }),
            }
            self.position += length;
            if self.peek() != Some(b',') {
                return self.end_of_segment("\",\", \"/\" or the end (\"?\" and \"#\" must be percent-encoded)");
            }
            mark = ',';
        }
    }

    fn end_of_segment(&self, expected: &'static str) -> Result<(), PathError> {
        if matches!(self.peek(), None | Some(b'/')) { Ok(()) } else { self.expected(expected) }
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, PathError> {
        Err(PathError::Syntax { position: self.position, expected })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986 section 2.3.
fn encode(key: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte as char);
        } else {
            out.push('%');
            out.push(DIGITS[usize::from(byte >> 4)] as char);
            out.push(DIGITS[usize::from(byte & 15)] as char);
        }
    }
}

/// A key as plain text, or the position of what is wrong with it and what was expected there.
fn decode(key: &str) -> Result<String, (usize, &'static str)> {
    let bytes = key.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digit = |at: usize| bytes.get(at).and_then(|&byte| (byte as char).to_digit(16));
            let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
                return Err((at, "\"%\" and two hexadecimal digits"));
            };
            plain.push((high * 16 + low) as u8);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(plain).map_err(|_| (0, "a key that decodes to UTF-8"))
}

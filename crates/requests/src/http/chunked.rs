//! The chunked transfer coding (RFC 9112, section 7.1), read a piece at a time.

/// The longest line of a chunk's size, or of a trailer.
const LINE_MAX: usize = 4 << 10;

/// Where in a chunked body the reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    /// In the line with a chunk's size.
    #[default]
    Size,
    /// In a chunk, of which so many bytes are left.
    Data(u64),
    /// In the line break after it.
    DataEnd,
    /// In the trailers.
    Trailers,
    /// Behind it.
    Over,
}

/// Reads a chunked body.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkedReader {
    position: Position,
    /// Digits of the size so far, or bytes of a trailer's line.
    size: u64,
    line: usize,
    has_digits: bool,
    in_extension: bool,
}

impl ChunkedReader {
    /// Whether the body is all there.
    pub fn is_over(&self) -> bool {
        self.position == Position::Over
    }

    /// Takes bytes as far as the body goes: how many, and how many of them are its content. Nothing if this is no chunked body.
    pub fn take(&mut self, bytes: &[u8]) -> Option<(usize, u64)> {
        let (mut at, mut content) = (0, 0);
        while at < bytes.len() && !self.is_over() {
            if let Position::Data(left) = self.position {
                let here = left.min((bytes.len() - at) as u64);
                content += here;
                at += here as usize;
                self.position = if here == left { Position::DataEnd } else { Position::Data(left - here) };
                continue;
            }
            self.take_byte(bytes[at])?;
            at += 1;
        }
        Some((at, content))
    }

    fn take_byte(&mut self, byte: u8) -> Option<()> {
        self.line += 1;
        if self.line > LINE_MAX {
            return None;
        }
        match (self.position, byte) {
            (Position::Size | Position::DataEnd | Position::Trailers, b'\r') => {}
            (Position::Size, b'\n') => {
                let size = self.has_digits.then_some(self.size)?;
                self.position = if size == 0 { Position::Trailers } else { Position::Data(size) };
                *self = Self { position: self.position, ..Self::default() };
            }
            (Position::Size, b';' | b' ' | b'\t') => self.in_extension = true,
            (Position::Size, _) if self.in_extension => {}
            (Position::Size, digit) => {
                let digit = (digit as char).to_digit(16)?;
                self.size = self.size.checked_mul(16)?.checked_add(u64::from(digit))?;
                self.has_digits = true;
            }
            (Position::DataEnd, b'\n') => *self = Self::default(),
            (Position::DataEnd, _) => return None,
            (Position::Trailers, b'\n') if self.line_is_empty() => self.position = Position::Over,
            (Position::Trailers, b'\n') => *self = Self { position: Position::Trailers, ..Self::default() },
            // Here, whether the line has anything in it.
            (Position::Trailers, _) => self.has_digits = true,
            (Position::Data(_) | Position::Over, _) => unreachable!("those bytes are taken otherwise"),
        }
        Some(())
    }

    const fn line_is_empty(&self) -> bool {
        !self.has_digits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn chunks_extensions_and_trailers() {
        let body = b"4\r\nWiki\r\n5;a=b\r\npedia\r\n0\r\nX: y\r\n\r\nrest";
        let mut reader = ChunkedReader::default();
        assert_eq!((reader.take(body), reader.is_over()), (Some((body.len() - 4, 9)), true));
        for wrong in [&b"\r\n"[..], b"x\r\n", b"1\r\nab\r\n", b"11111111111111111\r\n"] {
            assert_eq!(ChunkedReader::default().take(wrong), None, "{wrong:?}");
        }
        assert_eq!(ChunkedReader::default().take(&vec![b'0'; LINE_MAX + 1]), None);
    }

    proptest! {
        #[test]
        fn pieces_are_the_whole(chunks in prop::collection::vec(1..50_usize, 0..6), cuts in prop::collection::vec(1..20_usize, 1..40)) {
            let mut body: Vec<u8> = chunks.iter().flat_map(|&n| format!("{n:x}\r\n{}\r\n", "z".repeat(n)).into_bytes()).collect();
            body.extend_from_slice(b"0\r\n\r\n");
            let (mut reader, mut at, mut content) = (ChunkedReader::default(), 0, 0);
            for cut in cuts.iter().cycle() {
                let piece = &body[at..(at + cut).min(body.len())];
                let (taken, here) = reader.take(piece).expect("it is well formed");
                (at, content) = (at + taken, content + here);
                if reader.is_over() {
                    break;
                }
            }
            prop_assert_eq!((at, content), (body.len(), chunks.iter().sum::<usize>() as u64));
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(0..=255_u8, 0..100)) {
            if let Some((taken, content)) = ChunkedReader::default().take(&bytes) {
                prop_assert!(taken <= bytes.len() && content <= taken as u64);
            }
        }
    }
}

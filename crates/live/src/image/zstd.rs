//! What is compressed by zstd (RFC 8878): frames one behind the other, and between them what is to be skipped, as containers' tools put tables of contents there.

use std::io::{self, Chain, Cursor, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// What a frame begins with.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What a skippable one does: the first four bits are anybody's.
const SKIPPABLE: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

fn is_skippable(magic: [u8; 4]) -> bool {
    [magic[0] & 0xf0, magic[1], magic[2], magic[3]] == SKIPPABLE
}

/// Whether it may begin so.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|magic| *magic == MAGIC || is_skippable(*magic))
}

/// The frame that is being read, of which the magic number was read before.
type Frame<R> = StreamingDecoder<Chain<Cursor<[u8; 4]>, R>, FrameDecoder>;

/// Reads what is compressed. A frame takes 100 MiB of memory at most.
pub struct Decoder<R: Read>(State<R>);

enum State<R: Read> {
    Between(R),
    Within(Box<Frame<R>>),
    /// At its end, or behind an error.
    Over,
}

impl<R: Read> Decoder<R> {
    pub const fn new(reader: R) -> Self {
        Self(State::Between(reader))
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.0, State::Over) {
                State::Over => return Ok(0),
                State::Between(reader) => self.0 = begin(reader)?,
                State::Within(mut frame) => {
                    let bytes = frame.read(buffer)?;
                    if bytes > 0 {
                        self.0 = State::Within(frame);
                        return Ok(bytes);
                    }
                    self.0 = State::Between(frame.into_inner().into_inner().1);
                }
            }
        }
    }
}

/// What stands at the begin of a frame.
fn begin<R: Read>(mut reader: R) -> io::Result<State<R>> {
    let mut start = Vec::with_capacity(4);
    (&mut reader).take(4).read_to_end(&mut start)?;
    let magic = match start.first_chunk::<4>() {
        None if start.is_empty() => return Ok(State::Over),
        None => return Err(io::ErrorKind::UnexpectedEof.into()),
        Some(magic) => *magic,
    };
    if is_skippable(magic) {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        let skipped = io::copy(&mut (&mut reader).take(length), &mut io::sink())?;
        return if skipped == length { Ok(State::Between(reader)) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    let frame = StreamingDecoder::new(Cursor::new(magic).chain(reader));
    let frame = frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    Ok(State::Within(Box::new(frame)))
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// The bytes in two frames, with something between them.
    pub fn compressed(bytes: &[u8]) -> Vec<u8> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        let skipped = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        [frame(first), skipped.clone(), frame(second), skipped].concat()
    }

    fn plain(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        Decoder::new(bytes).read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn frames_follow_each_other() {
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        let compressed = compressed(&bytes);
        assert!(begins(&compressed) && begins(&compressed[compressed.len() - 11..]) && !begins(b"PK"));
        assert!(compressed.len() < bytes.len() / 2);
        assert!(plain(&compressed).unwrap() == bytes);
        assert!(plain(&[]).unwrap().is_empty());
        // Whatever is cut off is missed, but at the ends of frames.
        let compressed = self::compressed(&bytes[..400]);
        let ends = (0..compressed.len()).filter(|&cut| plain(&compressed[..cut]).is_ok()).count();
        assert_eq!(ends, 4);
    }

    proptest! {
        #[test]
        fn any_bytes_are_data_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..4_000, value: u8) {
            let _ = plain(&[&MAGIC[..], &bytes].concat());
            let mut spoiled = compressed(&bytes.repeat(9));
            let at = at % spoiled.len();
            spoiled[at] = value;
            let _ = plain(&spoiled);
        }
    }
}

//! Messages as bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tree::bounded::{self, Entries};

use super::VERSION;

/// Longest body of a frame, in bytes.
pub const FRAME_MAX: usize = 16 << 20;

/// Bytes of a frame before its body.
pub const FRAME_HEADER: usize = 4;

/// Entries of all lists and maps together in a message of a server to a client. The most are in a status that lists the RPCs of 256
/// servers, 4,096 of each: half of this. Clients' messages and items of envelopes have bounds of their own, which are tighter.
const ENTRIES_MAX: usize = FRAME_MAX / 8;

/// Longest reason that is given, in bytes.
const REASON_BYTES_MAX: usize = 512;

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`FRAME_MAX`].
    #[error("a frame of {0} bytes: at most {FRAME_MAX} are allowed (is the other side speaking TLS or HTTP?)")]
    TooLong(usize),
    /// The bytes are no message of this protocol.
    #[error("a frame that is no message of version {VERSION}: {0}")]
    Malformed(String),
}

/// Appends one frame to `out`.
///
/// # Errors
/// [`FrameError::TooLong`], with `out` as it was.
pub fn encode_frame<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER]);
    let body = postcard::to_extend(message, std::mem::take(out)).expect("a Vec takes everything");
    *out = body;
    let length = out.len() - start - FRAME_HEADER;
    if length > FRAME_MAX {
        out.truncate(start);
        return Err(FrameError::TooLong(length));
    }
    out[start..start + FRAME_HEADER].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Bytes of a message's frame, without making it.
pub fn frame_bytes<T: Serialize>(message: &T) -> usize {
    FRAME_HEADER + postcard::experimental::serialized_size(message).expect("every message can be encoded")
}

/// The body of the first whole frame in `bytes` and how many bytes the frame has; `None` while it is not whole.
///
/// # Errors
/// [`FrameError::TooLong`] as soon as the header says so.
pub fn split_frame(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, FrameError> {
    let Some((header, rest)) = bytes.split_first_chunk::<FRAME_HEADER>() else { return Ok(None) };
    let length = u32::from_le_bytes(*header) as usize;
    if length > FRAME_MAX {
        return Err(FrameError::TooLong(length));
    }
    Ok(rest.get(..length).map(|body| (body, FRAME_HEADER + length)))
}

/// The message in a frame's body.
///
/// # Errors
/// [`FrameError::Malformed`], also when something follows the message, or when it has more parts than any honest one.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    bounded::decode(body, &mut Entries::at_most(ENTRIES_MAX)).map_err(|why| FrameError::Malformed(short(why.0)))
}

/// A reason that fits an answer and a log: it may repeat what it was given.
pub(super) fn short(mut reason: String) -> String {
    let end = (0..=REASON_BYTES_MAX.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
    reason.truncate(end.unwrap_or_default());
    reason
}

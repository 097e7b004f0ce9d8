//! What later versions added to the map, behind the encoding of version 1.
//!
//! Each part is a number and its bytes, in the order of the numbers, and is written only when it is not empty: as long as
//! nothing of a later version is used, an older program can read the map.

use serde::{Deserialize, Serialize};

use super::Map;
use crate::DecodeError;

/// Roles and users ([`crate::Access`]).
const ACCESS: u32 = 2;

/// A part as it is written.
#[derive(Serialize, Deserialize)]
struct Part<'a> {
    number: u32,
    #[serde(borrow)]
    content: &'a [u8],
}

fn malformed(why: &impl ToString) -> DecodeError {
    DecodeError::Malformed { what: "map", why: why.to_string() }
}

impl Map {
    /// Appends the parts that are not empty.
    pub(super) fn encode_parts(&self, bytes: &mut Vec<u8>) {
        let mut push = |number: u32, content: Vec<u8>| {
            let part = Part { number, content: &content };
            *bytes = postcard::to_extend(&part, core::mem::take(bytes)).expect("writing to memory does not fail");
        };
        if !self.access.is_unused() {
            push(ACCESS, postcard::to_stdvec(&self.access).expect("writing to memory does not fail"));
        }
    }

    /// Reads the parts behind the encoding of version 1.
    pub(super) fn decode_parts(&mut self, mut bytes: &[u8]) -> Result<(), DecodeError> {
        let mut last = 0;
        while !bytes.is_empty() {
            let (part, rest) = postcard::take_from_bytes::<Part<'_>>(bytes).map_err(|error| malformed(&error))?;
            if part.number <= last {
                return Err(malformed(&"its parts are not in order"));
            }
            (last, bytes) = (part.number, rest);
            match part.number {
                ACCESS => self.access = whole(part.content)?,
                number => return Err(malformed(&format!("a part {number}, which a newer Heddle wrote"))),
            }
        }
        Ok(())
    }
}

/// A value of which nothing is left over.
fn whole<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(bytes).map_err(|error| malformed(&error))? {
        (value, []) => Ok(value),
        _ => Err(malformed(&"something follows the end of a part")),
    }
}

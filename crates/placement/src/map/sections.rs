//! What a map has had since version 2: sections behind the encoding of version 1.
//!
//! ```text
//!   format 1 | map as version 1 has it | tag, length, content | tag, length, content ...
//! ```
//!
//! Tag and length are varints, as in postcard. A section is written only when it says something, so that a server of version 1 can read
//! the map of a cluster that uses nothing newer. Tags rise; one that is not known was written by a newer program.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FIRST_PROTOCOL, Map, REMOVED_MAX};

/// [`Map::protocol`], as a `u32`.
const PROTOCOL: u32 = 1;
/// [`Map::secret`], as an array.
const SECRET: u32 = 2;
/// [`Map::removed_addresses`], as a map.
const REMOVED: u32 = 3;
/// The section of [`Map::access`].
const ACCESS: u32 = 16;

impl Map {
    pub(super) fn encode_sections(&self, out: &mut Vec<u8>) {
        if self.protocol != FIRST_PROTOCOL {
            section(out, PROTOCOL, &self.protocol);
        }
        if let Some(secret) = &self.secret {
            section(out, SECRET, secret);
        }
        if !self.removed_addresses.is_empty() {
            section(out, REMOVED, &self.removed_addresses);
        }
        if !self.access.is_unused() {
            section(out, ACCESS, &self.access);
        }
    }

    /// Reads what [`Map::encode_sections`] wrote; says what is wrong with it otherwise.
    pub(super) fn decode_sections(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let mut last = 0;
        while !bytes.is_empty() {
            let ((tag, content), rest) = postcard::take_from_bytes::<(u32, &[u8])>(bytes)
                .map_err(|error| format!("something follows its end: {error}"))?;
            if tag <= last {
                return Err("its sections are not in order".to_owned());
            }
            match tag {
                PROTOCOL => {
                    self.protocol = whole(content)?;
                    if self.protocol <= FIRST_PROTOCOL {
                        return Err("a protocol that nobody raises to is written".to_owned());
                    }
                }
                SECRET => self.secret = Some(whole(content)?),
                REMOVED => {
                    self.removed_addresses = whole(content)?;
                    if self.removed_addresses.is_empty() || self.removed_addresses.len() > REMOVED_MAX {
                        return Err("too many removed servers, or none".to_owned());
                    }
                }
                ACCESS => {
                    self.access = whole(content)?;
                    self.access.note_holders();
                    if self.access.is_unused() {
                        return Err("roles and users that nobody has made are written".to_owned());
                    }
                }
                _ => return Err(format!("section {tag} was written by a newer program")),
            }
            (last, bytes) = (tag, rest);
        }
        Ok(())
    }
}

fn section(out: &mut Vec<u8>, tag: u32, content: &impl Serialize) {
    let content = postcard::to_stdvec(content).expect("writing to memory does not fail");
    let section = postcard::to_stdvec(&(tag, content)).expect("writing to memory does not fail");
    out.extend(section);
}

/// The value in a section; nothing may be left over.
fn whole<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err("something follows a section".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

//! Messages are lines.

use super::ProtocolError;

/// Cuts a stream of bytes into lines of a bounded length.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    bytes: Vec<u8>,
    /// Bytes that hold no line's end.
    searched: usize,
}

impl Lines {
    /// Takes lines of up to `limit` bytes, the end not counted.
    pub const fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), searched: 0 }
    }

    /// Takes what came in. Call [`Lines::take_line`] until it says `None` before the next call, so that what is held stays bounded.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line.
    ///
    /// # Errors
    /// [`ProtocolError::TooLong`], and then for ever.
    pub fn take_line(&mut self) -> Result<Option<Vec<u8>>, ProtocolError> {
        let end = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n');
        let length = end.map_or(self.bytes.len(), |end| self.searched + end);
        if length > self.limit {
            return Err(ProtocolError::TooLong { limit: self.limit });
        }
        if end.is_none() {
            self.searched = length;
            return Ok(None);
        }
        let rest = self.bytes.split_off(length + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.truncate(length);
        self.searched = 0;
        Ok(Some(line))
    }

    /// What has come behind the last line that was taken: something else than lines begins there.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.searched = 0;
        std::mem::take(&mut self.bytes)
    }
}

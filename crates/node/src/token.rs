//! Tokens by which users log in: 256 random bits, of which the cluster keeps the hash.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use placement::access::TokenHash;
use store::protocol::Token;

use super::Error;
use super::clock::random_bits;

/// What a token begins with, so that whoever finds one in a log or a repository knows what it is.
const MARK: &str = "heddle-";

/// Bytes of a file with a token, at most.
const FILE_BYTES_MAX: u64 = 4_096;

/// A token. Nothing but [`LoginToken::reveal`] shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginToken(Token);

impl LoginToken {
    /// A new one.
    pub fn draw() -> Self {
        let mut bytes = [0; 32];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&random_bits().to_le_bytes());
        }
        Self(Token(bytes))
    }

    /// The token in a text: a mark and 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix(MARK)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(Token(bytes)))
    }

    /// The token in a file that nobody else may read.
    ///
    /// # Errors
    /// [`Error::Path`], [`Error::Token`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bad = |reason: &str| Error::Token { origin: path.display().to_string(), reason: reason.to_owned() };
        let about = std::fs::metadata(path).map_err(Error::path(path, "read it"))?;
        if about.mode() & 0o077 != 0 {
            return Err(bad("other users may read it: expected mode 0600"));
        }
        if about.len() > FILE_BYTES_MAX {
            return Err(bad("it is too long for a token"));
        }
        let text = std::fs::read_to_string(path).map_err(Error::path(path, "read it"))?;
        Self::parse(&text).ok_or_else(|| bad("expected `heddle-` and 64 hexadecimal digits"))
    }

    /// What the cluster keeps of it: its SHA-256.
    pub fn hash(&self) -> TokenHash {
        hash(&self.0)
    }

    /// As text, for the one who gets it.
    pub fn reveal(&self) -> String {
        use fmt::Write;
        let mut text = MARK.to_owned();
        for byte in self.0.0 {
            write!(text, "{byte:02x}").expect("a String takes everything");
        }
        text
    }

    pub(super) fn secret(&self) -> &Token {
        &self.0
    }
}

impl fmt::Debug for LoginToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginToken(...)")
    }
}

/// The SHA-256 of a token.
pub(super) fn hash(secret: &Token) -> TokenHash {
    let digest = ring::digest::digest(&ring::digest::SHA256, &secret.0);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Seconds since 1970 by the clock on the wall.
pub fn wall_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_shown_and_hides_otherwise() {
        let token = LoginToken::draw();
        assert_ne!(token, LoginToken::draw());
        let text = token.reveal();
        assert_eq!(LoginToken::parse(&format!("{text}\n")), Some(token.clone()));
        assert_eq!(format!("{token:?} {:?}", token.secret()), "LoginToken(...) Token(...)");
        for bad in ["", "heddle-", "heddle-12", &text[7..], &text.replace("heddle-", "heddle_"), &format!("{text}0")] {
            assert_eq!(LoginToken::parse(bad), None, "{bad}");
        }
        assert_eq!(LoginToken::parse(&format!("heddle-{}", "+1".repeat(32))), None);
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = LoginToken::draw();
        std::fs::write(&path, token.reveal()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(LoginToken::read(&path).unwrap_err().to_string().contains("0600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(LoginToken::read(&path).unwrap(), token);
    }
}

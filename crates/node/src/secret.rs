//! The secret that the servers of a cluster share, and how they prove that they know it.
//!
//! ```text
//!   DIR/SECRET    JSON, mode 0600: the secret that this server has made (`own`), those that others have handed over while the cluster
//!                 was agreeing on one (`held`), and the digest of the one that holds (`active`), if that was said at joining
//! ```
//!
//! Which secret holds, the map says by its SHA-256. The proof is a challenge and its response, by HMAC-SHA256, both ways: see
//! `docs/protocol.md`.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use machine::ServerId;
use ring::rand::SecureRandom;
use ring::{digest, hmac};
use serde::{Deserialize, Serialize};
use store::Secret;

use super::Error;

/// Capital letters keep it out of the log's names.
const FILE: &str = "SECRET";

/// Secrets that others may hand over: each server of a cluster makes one.
const HELD_MAX: usize = 64;

/// Keeps proofs apart from whatever else may be made with the same key.
const CONTEXT: &[u8] = b"heddle peer proof, protocol version 2";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    own: String,
    held: Vec<String>,
    active: Option<String>,
}

/// The secrets of a data folder.
#[derive(Debug)]
pub(super) struct Secrets {
    path: PathBuf,
    own: Secret,
    held: Vec<Secret>,
    active: Option<[u8; 32]>,
}

impl Secrets {
    /// Reads the folder's file, or makes it with a new secret.
    ///
    /// # Errors
    /// [`Error::Path`] if it cannot be read, understood or made; [`Error::SecretOpen`] if others may read it.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Self { path, own: secret(random()?), held: Vec::new(), active: None };
                made.write()?;
                Ok(made)
            }
            read => {
                let bytes = read.map_err(Error::path(&path, "read it"))?;
                let mode = fs::metadata(&path).map_err(Error::path(&path, "read it"))?.mode() & 0o777;
                if mode & 0o077 != 0 {
                    return Err(Error::SecretOpen { path, mode });
                }
                Self::parse(&path, &bytes).map_err(Error::path(&path, "understand it"))
            }
        }
    }

    fn parse(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let content: Content = serde_json::from_slice(bytes).map_err(io::Error::from)?;
        let number = |text: &String| {
            unhex(text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a secret has 64 hexadecimal digits"))
        };
        let held = content.held.iter().map(|text| Ok(secret(number(text)?))).collect::<io::Result<_>>()?;
        let active = content.active.as_ref().map(number).transpose()?;
        Ok(Self { path: path.to_owned(), own: secret(number(&content.own)?), held, active })
    }

    /// All of it is on the disk, and nothing in part, when this returns.
    fn write(&self) -> Result<(), Error> {
        let content = Content {
            own: hex(&self.own.bytes),
            held: self.held.iter().map(|secret| hex(&secret.bytes)).collect(),
            active: self.active.map(|digest| hex(&digest)),
        };
        let text = serde_json::to_vec_pretty(&content).expect("text is always JSON");
        let part = self.path.with_file_name(format!("{FILE}_PART"));
        let write = || {
            let _ = fs::remove_file(&part);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&part, &self.path)?;
            File::open(self.path.parent().expect("a file is in a folder"))?.sync_all()
        };
        write().map_err(Error::path(&self.path, "write it"))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The one that this server has made.
    pub fn own(&self) -> &Secret {
        &self.own
    }

    /// The one that holds, as far as was said at joining.
    pub fn active(&self) -> Option<&[u8; 32]> {
        self.active.as_ref()
    }

    /// The secret of this digest.
    pub fn find(&self, digest: &[u8; 32]) -> Option<&Secret> {
        std::iter::once(&self.own).chain(&self.held).find(|secret| secret.digest == *digest)
    }

    /// Keeps what another server has handed over; it is on the disk when this returns.
    ///
    /// # Errors
    /// [`Error::Path`] if it cannot be written. Then nothing has changed.
    pub fn keep(&mut self, handed: &Secret) -> Result<(), Error> {
        let full = || io::Error::other(format!("{HELD_MAX} secrets were handed over already"));
        if secret(handed.bytes) != *handed {
            let wrong = io::Error::new(
                io::ErrorKind::InvalidData,
                "a secret was handed over with a digest that is not its own",
            );
            return Err(Error::path(&self.path, "write it")(wrong));
        }
        if self.find(&handed.digest).is_some() {
            return Ok(());
        }
        if self.held.len() >= HELD_MAX {
            return Err(Error::path(&self.path, "write it")(full()));
        }
        self.held.push(handed.clone());
        let written = self.write();
        if written.is_err() {
            self.held.pop();
        }
        written
    }

    /// The cluster has said at joining which secret holds.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn admit(&mut self, bytes: [u8; 32]) -> Result<(), Error> {
        let secret = secret(bytes);
        if self.active == Some(secret.digest) && self.find(&secret.digest).is_some() {
            return Ok(());
        }
        self.keep(&secret)?;
        self.active = Some(secret.digest);
        self.write()
    }
}

/// A secret with its digest.
fn secret(bytes: [u8; 32]) -> Secret {
    let digest = digest::digest(&digest::SHA256, &bytes).as_ref().try_into().expect("SHA-256 has 32 bytes");
    Secret { digest, bytes }
}

/// 256 random bits of the kernel.
///
/// # Errors
/// [`Error::System`].
pub(super) fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    let failed = |_| Error::system("get random numbers")(io::Error::other("the kernel gives none"));
    ring::rand::SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// What a proof is about. Both sides have the same, so that a proof is good for one connection only; its direction keeps one side's from
/// being sent back as the other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transcript {
    pub cluster: u64,
    /// The server that connects.
    pub dialer: ServerId,
    /// The server that was connected to.
    pub acceptor: ServerId,
    /// The random numbers of both.
    pub acceptor_nonce: [u8; 32],
    pub dialer_nonce: [u8; 32],
    /// With TLS, what only the two ends of this very connection know (RFC 9266); otherwise zeros.
    pub channel: [u8; 32],
}

/// Which of the two servers proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Dialer,
    Acceptor,
}

impl Transcript {
    fn bytes(&self, side: Side) -> Vec<u8> {
        let mut bytes = CONTEXT.to_vec();
        bytes.push(match side {
            Side::Dialer => 1,
            Side::Acceptor => 2,
        });
        for number in [self.cluster, self.dialer.0, self.acceptor.0] {
            bytes.extend(number.to_le_bytes());
        }
        for part in [&self.acceptor_nonce, &self.dialer_nonce, &self.channel] {
            bytes.extend(part);
        }
        bytes
    }

    /// The proof of one side.
    pub fn prove(&self, secret: &Secret, side: Side) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.bytes);
        hmac::sign(&key, &self.bytes(side)).as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
    }

    /// Whether it is the proof of that side; in constant time.
    pub fn verify(&self, secret: &Secret, side: Side, proof: &[u8; 32]) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.bytes);
        hmac::verify(&key, &self.bytes(side), proof).is_ok()
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn transcript() -> Transcript {
        Transcript {
            cluster: 7,
            dialer: ServerId(1),
            acceptor: ServerId(2),
            acceptor_nonce: [3; 32],
            dialer_nonce: [4; 32],
            channel: [0; 32],
        }
    }

    #[test]
    fn a_proof_is_good_for_its_side_its_connection_and_its_secret() {
        let (one, other) = (secret([1; 32]), secret([2; 32]));
        let proof = transcript().prove(&one, Side::Dialer);
        assert!(transcript().verify(&one, Side::Dialer, &proof));
        assert!(!transcript().verify(&other, Side::Dialer, &proof), "another secret");
        assert!(!transcript().verify(&one, Side::Acceptor, &proof), "sent back");
        let changed = [
            Transcript { cluster: 8, ..transcript() },
            Transcript { dialer: ServerId(3), ..transcript() },
            Transcript { acceptor: ServerId(3), ..transcript() },
            Transcript { dialer: ServerId(2), acceptor: ServerId(1), ..transcript() },
            Transcript { acceptor_nonce: [9; 32], ..transcript() },
            Transcript { dialer_nonce: [9; 32], ..transcript() },
            Transcript { channel: [9; 32], ..transcript() },
        ];
        for changed in changed {
            assert!(!changed.verify(&one, Side::Dialer, &proof), "{changed:?}");
        }
    }

    #[test]
    fn what_was_handed_over_is_kept_and_is_for_the_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Secrets::open(folder.path()).unwrap();
        let (handed, joined) = (secret([5; 32]), secret([6; 32]));
        first.keep(&handed).unwrap();
        first.keep(&handed).unwrap();
        first.admit(joined.bytes).unwrap();
        assert!(first.keep(&Secret { digest: [0; 32], bytes: [1; 32] }).is_err());
        let again = Secrets::open(folder.path()).unwrap();
        assert_eq!((again.own(), again.active()), (first.own(), Some(&joined.digest)));
        assert_eq!(again.held, [handed.clone(), joined]);
        assert_eq!(again.find(&handed.digest), Some(&handed));
        assert_ne!(Secrets::open(tempfile::tempdir().unwrap().path()).unwrap().own(), first.own());
        let file = folder.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Secrets::open(folder.path()).unwrap_err().to_string().contains("mode 640"));
        for text in ["", "{}", "{\"own\":\"ab\",\"held\":[],\"active\":null}"] {
            fs::remove_file(&file).unwrap();
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(Secrets::open(folder.path()).unwrap_err().to_string().contains("understand it"), "{text}");
        }
    }

    #[test]
    fn not_every_number_of_secrets_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut secrets = Secrets::open(folder.path()).unwrap();
        for n in 0..HELD_MAX as u8 {
            secrets.keep(&secret([n; 32])).unwrap();
        }
        assert!(secrets.keep(&secret([255; 32])).unwrap_err().to_string().contains("64 secrets"));
        assert_eq!(secrets.held.len(), HELD_MAX);
    }
}

//! The owner of a folder, in one small JSON file that a person can read.

use bytes::Bytes;
use machine::ServerId;
use serde::{Deserialize, Serialize};

use crate::{Error, FileName, Operation};

/// Format of everything in the folder that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Longest name of a server, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The file's name.
const FILE: &str = "identity";

/// The server that writes this folder. It never changes once it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Format of the folder.
    pub format: u32,
    /// The cluster's number, drawn when it was founded.
    pub cluster: u128,
    /// The server's number in the cluster.
    pub server: ServerId,
    /// The server's name, for people: 1 to 255 bytes, no control characters.
    pub name: String,
}

impl Identity {
    /// Name of its file.
    pub fn file() -> FileName {
        FileName::made(FILE.to_owned())
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`Error::Identity`] says what is not allowed.
    pub fn validate(&self) -> Result<(), Error> {
        let reject = |why: &str| Err(Error::Identity { why: why.to_owned() });
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return reject("its name needs 1 to 255 bytes");
        }
        if self.name.chars().any(char::is_control) {
            return reject("its name has a control character");
        }
        Ok(())
    }

    /// The file's whole content.
    pub(crate) fn encode(&self) -> Bytes {
        let mut content = OnDisk {
            format: self.format,
            cluster: format!("{:032x}", self.cluster),
            server: self.server,
            name: self.name.clone(),
            checksum: String::new(),
        };
        content.checksum = content.expected_checksum();
        let mut text = serde_json::to_vec_pretty(&content).expect("text and numbers are always JSON");
        text.push(b'\n');
        text.into()
    }

    /// The operation that puts the file in place.
    pub fn write(&self) -> Operation {
        Operation::Replace { file: Self::file(), bytes: self.encode() }
    }

    /// Reads the file's content.
    ///
    /// # Errors
    /// [`Error::NewerVersion`], and [`Error::Corrupt`] if a single byte is not as it was written.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let corrupt = |found: String| Error::Corrupt {
            file: Self::file(),
            offset: 0,
            expected: "a server's identity with its checksum".to_owned(),
            found,
        };
        let format: Format = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        if format.format > FORMAT {
            return Err(Error::NewerVersion { file: Self::file(), found: format.format, known: FORMAT });
        }
        let content: OnDisk = serde_json::from_slice(bytes).map_err(|error| corrupt(error.to_string()))?;
        let cluster = u128::from_str_radix(&content.cluster, 16).map_err(|error| corrupt(error.to_string()))?;
        let identity = Self { format: content.format, cluster, server: content.server, name: content.name };
        identity.validate().map_err(|error| corrupt(error.to_string()))?;
        // Written once, by this program: what it would write again has to be what is there, to the byte.
        if identity.encode() != bytes {
            return Err(corrupt("other content than the checksum says".to_owned()));
        }
        Ok(identity)
    }
}

/// How a cluster is called in messages.
pub(crate) fn cluster_name(cluster: u128) -> String {
    format!("cluster {cluster:032x}")
}

/// How the owner of a file is called in messages.
pub(crate) fn owner(cluster: u128, server: u64) -> String {
    format!("server {server} of {}", cluster_name(cluster))
}

/// The part of the file that every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnDisk {
    format: u32,
    cluster: String,
    server: ServerId,
    name: String,
    checksum: String,
}

impl OnDisk {
    /// CRC-32 over the other fields, apart by zero bytes (which none of them holds).
    fn expected_checksum(&self) -> String {
        let text = format!("{}\0{}\0{}\0{}", self.format, self.cluster, self.server, self.name);
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }
}

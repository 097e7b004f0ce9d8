//! Which version is spoken: on a connection the lower one of both sides', among servers the one that the map says.

use std::borrow::Cow;

use tree::Refusal;

use super::{Admin, Error, Hello, MAGIC, RequestBody, Response, Role, ServerMessage};

/// The version of this protocol.
pub const VERSION: u32 = 4;

/// The first version in which peers prove that they belong to the cluster, and users log in.
pub const VERSION_WITH_PROOF: u32 = 2;

/// The lowest version that is understood as well.
pub const VERSION_MIN: u32 = 1;

impl Hello {
    /// A first message.
    pub fn new(role: Role) -> Self {
        Self { magic: MAGIC, version: VERSION, role }
    }

    /// A first message to one who speaks an older version.
    pub fn in_version(role: Role, version: u32) -> Self {
        Self { magic: MAGIC, version: version.min(VERSION), role }
    }

    /// The version to speak with who says this; if there is none, the text for [`Welcome::Refused`](super::Welcome::Refused).
    ///
    /// # Errors
    /// The text.
    pub fn check(&self) -> Result<u32, String> {
        if self.magic != MAGIC {
            return Err("this is a Heddle controller, and what was sent is not its protocol".into());
        }
        if self.version < VERSION_MIN {
            return Err(format!(
                "protocol version {} was asked for, this server speaks {VERSION_MIN} to {VERSION}: use a newer program",
                self.version
            ));
        }
        Ok(self.version.min(VERSION))
    }
}

/// The version that a server speaks which refuses the local one with this text. Servers of version 1 take no other version, and say so in these
/// words; later ones answer with the lower version.
pub fn spoken_by_refuser(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("was asked for, this server speaks ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|spoken| (VERSION_MIN..VERSION).contains(spoken))
}

impl RequestBody {
    /// The version from which servers know this request: one that speaks an older version would close the connection. New variants get
    /// an arm.
    pub fn version(&self) -> u32 {
        match self {
            Self::Get { .. }
            | Self::List { .. }
            | Self::Watch { .. }
            | Self::Unwatch { .. }
            | Self::Offer { .. }
            | Self::Call { .. } => 1,
            Self::Write(transaction) if transaction.is_of_version_1() => 1,
            Self::Write(_)
            | Self::WriteOrElse { .. }
            | Self::GetAt { .. }
            | Self::ListAt { .. }
            | Self::Window { .. }
            | Self::Lease(_)
            | Self::WhoAmI => 2,
            Self::Admin(admin) => match admin {
                Admin::Placement(placement::Command::Access { .. })
                | Admin::Disk
                | Admin::Defragment
                | Admin::BackupLasting { .. }
                | Admin::Access
                | Admin::StoppedReplicas
                | Admin::Health => 2,
                Admin::Alarms | Admin::ForceRemove(_) => 3,
                Admin::Status
                | Admin::Join { .. }
                | Admin::Placement(_)
                | Admin::MoveLeader { .. }
                | Admin::Backup { .. } => 1,
            },
        }
    }
}

impl ServerMessage {
    /// The same message for a client of this version: what it does not know is said in words that it knows.
    pub fn for_version(&self, version: u32) -> Cow<'_, Self> {
        let Self::Response(Response { sequence, leader, result: Err(error) }) = self else {
            return Cow::Borrowed(self);
        };
        match error.for_version(version) {
            None => Cow::Borrowed(self),
            Some(error) => {
                let response = Response { sequence: *sequence, leader: leader.clone(), result: Err(error) };
                Cow::Owned(Self::Response(response))
            }
        }
    }
}

impl Error {
    /// What to say instead to a client of this version; none if it knows this error. New variants get an arm: transient ones become
    /// [`Error::Busy`] or [`Error::Timeout`], after which old clients ask again, others [`Error::Invalid`] with the text.
    fn for_version(&self, version: u32) -> Option<Self> {
        // Version 4 is one of servers among each other.
        if version >= 3 {
            return None;
        }
        if version > 1 {
            let is_unknown = matches!(self, Self::Refused(Refusal::Full) | Self::Needed(_));
            return is_unknown.then(|| Self::Invalid(self.to_string()));
        }
        match self {
            // Only requests of version 2 are answered with the second.
            Self::Refused(Refusal::Full) | Self::Compacted { .. } => Some(Self::Invalid(self.to_string())),
            Self::Refused(_)
            | Self::Invalid(_)
            | Self::SpansShards(_)
            | Self::Timeout { .. }
            | Self::Busy(_)
            | Self::Elsewhere { .. }
            | Self::Rpc(_)
            | Self::Disk(_)
            | Self::TooLarge(_) => None,
            Self::Denied(text) | Self::Needed(text) => Some(Self::Invalid(text.clone())),
            Self::Overloaded { retry_after_ms, .. } => Some(Self::Busy(u64::from(*retry_after_ms))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_version_is_spoken() {
        let role = || Role::Client { session: 1 };
        assert_eq!(Hello::new(role()).check(), Ok(VERSION));
        assert_eq!(Hello::in_version(role(), 1).check(), Ok(1));
        assert_eq!(Hello { version: VERSION + 5, ..Hello::new(role()) }.check(), Ok(VERSION));
        assert!(Hello { version: 0, ..Hello::new(role()) }.check().unwrap_err().contains("use a newer program"));
    }

    #[test]
    fn a_server_of_version_1_says_what_it_speaks() {
        let text = "protocol version 2 was asked for, this server speaks 1: use programs of one release";
        assert_eq!(spoken_by_refuser(text), Some(1));
        for other in
            ["", "this server speaks 1", "was asked for, this server speaks 7", "was asked for, this server speaks x"]
        {
            assert_eq!(spoken_by_refuser(other), None, "{other}");
        }
    }
}

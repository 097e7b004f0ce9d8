//! What servers say to each other: one envelope carries whatever there is for a peer, of all groups.

use std::collections::BTreeMap;

use machine::ServerId;
use machine::nanos::{Span, Time, in_picoseconds};
use placement::ShardId;
use serde::{Deserialize, Serialize};
use tree::{LeaseId, Path};

use crate::message::RaftMessage;
use crate::protocol::Error;

/// An envelope is closed before its items have more bytes than this, unless it is of one item.
pub(crate) const ENVELOPE_BYTES: usize = 4 << 20;

/// Items of one envelope at most: the smallest weighs 96 bytes, so that no more than 43,690 fit.
pub(crate) const ITEMS_MAX: usize = 65_536;

/// Entries of all lists and maps of an envelope together, items included. The smallest of which there may be many are values in answers
/// to reads: path, entity tag and length have eight bytes and more. Entries of logs weigh 40, and a list of offers has 65,536.
const ENTRIES_MAX: usize = ENVELOPE_BYTES / 8;

/// Everything for one peer, gathered until the driver asked for output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The sender's clock when it sent this; comes back as `echo`.
    pub stamp: Time,
    /// Of the last envelope from the peer: a round trip measured.
    pub echo: Option<Echo>,
    /// For so long the sender refuses to elect another leader once it has heard the one there is, by its clock. It is in each envelope, so that it comes with
    /// every answer that a lease is built on.
    #[serde(with = "in_picoseconds")]
    pub promise: Span,
    /// In order. On the wire they carry a checksum: Raft trusts its peers, and TCP's checksum alone lets one damaged
    /// segment in some millions through (Stone and Partridge, SIGCOMM 2000).
    #[serde(with = "checked")]
    pub items: Vec<Item>,
}

/// When an envelope was sent, and how long it has been here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// Its stamp.
    pub stamp: Time,
    /// How long ago it came.
    #[serde(with = "in_picoseconds")]
    pub delay: Span,
}

/// Items as bytes with their CRC-32.
mod checked {
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tree::bounded::{self, Entries};

    use super::{ENTRIES_MAX, ENVELOPE_BYTES, ITEMS_MAX, Item};

    /// What the weight of a part may be wrong by, in all.
    const SLACK_BYTES: usize = 64 << 10;

    pub(super) fn serialize<S: Serializer>(items: &[Item], serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = postcard::to_stdvec(items).map_err(S::Error::custom)?;
        (crc32fast::hash(&bytes), serde_bytes::Bytes::new(&bytes)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Item>, D::Error> {
        let (checksum, bytes) = <(u32, &serde_bytes::Bytes)>::deserialize(deserializer)?;
        if crc32fast::hash(bytes) != checksum {
            return Err(D::Error::custom("the checksum does not fit the items"));
        }
        let (count, _) = postcard::take_from_bytes::<u64>(bytes).map_err(D::Error::custom)?;
        if count > ITEMS_MAX as u64 {
            return Err(D::Error::custom(format!("an envelope of {count} items: at most {ITEMS_MAX} are sent in one")));
        }
        if count > 1 && bytes.len() > ENVELOPE_BYTES + SLACK_BYTES {
            let length = bytes.len();
            return Err(D::Error::custom(format!(
                "an envelope of {count} items of {length} bytes together: more than {ENVELOPE_BYTES} are sent only as one item"
            )));
        }
        bounded::decode(bytes, &mut Entries::at_most(ENTRIES_MAX)).map_err(D::Error::custom)
    }
}

/// Part of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The sender's number for the transfer; it never uses it again, not in another life either.
    pub transfer: u64,
    /// The group that it is of.
    pub group: ShardId,
    /// Counts from 0.
    pub number: u32,
    /// Part of the content.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// In the last chunk: Raft's message, to be handled once everything is there.
    pub message: Option<RaftMessage>,
}

/// One thing for a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Item {
    /// A message of a Raft group.
    Raft {
        /// The group that it is about.
        group: ShardId,
        /// The message of Raft.
        message: RaftMessage,
    },
    /// Please do this for a client of mine (or for me): you lead the shard, or have a replica.
    Ask {
        /// Goes into the answer; unique for the asking server's life.
        id: u64,
        /// The shard that it is about.
        group: ShardId,
        /// What is asked for.
        ask: Ask,
    },
    /// The answer to an [`Item::Ask`].
    Answer {
        /// The asker's number.
        id: u64,
        /// Of which group it is true: the asker may have gone on to another.
        group: ShardId,
        /// The answer, or why there is none.
        answer: Result<PeerAnswer, Error>,
    },
    /// Part of a snapshot.
    Snapshot(Chunk),
    /// A part has arrived.
    SnapshotTaken {
        /// The number of the transfer.
        transfer: u64,
        /// The part that is expected next.
        next: u32,
        /// The receiver doesn't want the rest.
        refused: bool,
    },
    /// What the sender leads, and how busy it is.
    Leads(Leads),
    /// The sender has a replica that the map does not want there: is it still a member, or needed as a voter? Goes to the leader, and to others
    /// who could bear out what it says.
    Leaving {
        /// The group that it is about.
        group: ShardId,
    },
    /// You are no member of this group any more, as of this log index.
    NoMember {
        /// The group that it is about.
        group: ShardId,
        /// Applied when that was found.
        index: u64,
        /// For meta, the map as it is without you: what you lead must still find its way to others.
        #[serde(with = "serde_bytes")]
        map: Option<Vec<u8>>,
        /// A majority of the members knows by its disks that you are not among them: you may forget the group.
        sealed: bool,
    },
    /// RPC registry and calls.
    Rpc(rpc::Message),
    /// Since version 2: the leader of meta proposes this as the cluster's secret. Keep it, and say so.
    Secret(crate::Secret),
    /// Since version 2: the secret of this digest is on the sender's disk.
    SecretKept([u8; 32]),
}

impl Item {
    /// Bytes on the wire, or a little more: an envelope is a frame, and what fits no frame gets nowhere, however often it is said.
    pub(crate) fn weight(&self) -> usize {
        /// Numbers take ten bytes at most.
        const SMALL: usize = 96;
        match self {
            // The many are weighed without being written.
            Self::Raft { message, .. } if message.snapshot().is_none() => SMALL + message.weight(),
            Self::Ask { ask: Ask::Propose(data) | Ask::Force(data), .. } => SMALL + data.len(),
            Self::Answer {
                answer: Ok(PeerAnswer::Outcome(Ok(_)) | PeerAnswer::Index(_) | PeerAnswer::Done), ..
            }
            | Self::Ask { ask: Ask::ReadIndex | Ask::MoveLeader(_), .. }
            | Self::SnapshotTaken { .. }
            | Self::Leaving { .. } => SMALL,
            Self::Snapshot(chunk) if chunk.message.is_none() => SMALL + chunk.bytes.len(),
            other => postcard::serialize_with_flavor(other, postcard::ser_flavors::Size::default())
                .expect("an item can be written"),
        }
    }
}

/// What a server may ask of another on behalf of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Ask {
    /// Propose this to the group: an encoded [`tree::Command`] or [`placement::Command`].
    Propose(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Which index must I have applied to read what is committed now?
    ReadIndex,
    /// Read for me, since I have no replica.
    Read(crate::read::Read),
    /// Let this server lead.
    MoveLeader(ServerId),
    /// What only the leader knows of leases (since version 2). Answered by `Read`, or by a refusal in `Outcome`.
    Lease(LeaseAsk),
    /// Propose this removal to meta, though a shard may lose its majority by it (since version 3).
    Force(#[serde(with = "serde_bytes")] Vec<u8>),
}

/// What is asked of leases at their shard's leader, which counts their time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseAsk {
    /// Keep one alive.
    KeepAlive {
        /// The number of the lease.
        lease: LeaseId,
        /// The path by which it is looked for here.
        at: Path,
    },
    /// What of it is here.
    Show {
        /// The number of the lease.
        lease: LeaseId,
        /// The path by which it is looked for here.
        at: Path,
    },
    /// All of them.
    List {
        /// Only leases behind this one.
        after: Option<LeaseId>,
    },
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PeerAnswer {
    /// The answer to `Propose` to a data shard.
    Outcome(tree::Outcome),
    /// The answer to `Propose` to meta.
    Placed(Result<placement::Effect, placement::Refusal>),
    /// The answer to [`Ask::ReadIndex`].
    Index(u64),
    /// The answer to [`Ask::Read`].
    Read(crate::read::ReadResult),
    /// The answer to [`Ask::MoveLeader`].
    Done,
}

/// What a server leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leads {
    /// The sender's address: the receiver may not know it yet, or not any more, and must be able to answer.
    pub address: String,
    /// Group and term.
    pub terms: BTreeMap<ShardId, u64>,
    /// Requests since the last such message, by group and by the server that they came in at.
    pub load: BTreeMap<ShardId, BTreeMap<ServerId, u64>>,
    /// Voters that are up to date and could lead.
    pub ready: BTreeMap<ShardId, Vec<ServerId>>,
}

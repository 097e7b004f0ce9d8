//! What balancers of a service say to each other: connections, so that either may take the other one's place.
//!
//! A datagram has a header of 36 bytes and entries of 44 or 92 bytes each, 16 more of connections that began with a SYN cookie, numbers with their high byte first:
//!
//! ```text
//!   "HCS3" | flags: 1 | entries: 1 | request: 1 | question: 1 | instance: 4 | sequence: 4 | lacks from: 4 | since: 4 | answered: 1 | 0: 3 | from: 4 | to: 4
//!   family: 1 | protocol: 1 | stage: 1 | TCP's state: 1 | service: 4 | server: 4 | client's MAC: 6 | has a cookie: 1 | 0: 1 |
//!     client's address and port | virtual address and port | server's address and port | the balancer's own address and port |
//!     the cookie: 4 | the client's first number: 4 | offset: 4 | the client's window: 2 | 0: 2
//! ```
//!
//! *instance* changes when a balancer begins anew. Entries are changes, or parts of an answer (flag 1). *sequence* is how many datagrams with changes went before, so whoever has missed one knows from which on.
//! He asks for what he lacks: *request* has a number, and is met in parts. *question* is the number of the question for its next parts (0: there is none), *lacks from* the first place of the receiver's table that
//! is missing, *since* the first datagram that was missed (flag 8: all connections are wanted). A part has all that is wanted of the places *from* up to *to*, for the request *answered*; flag 2: it is the
//! last one for this question. Flag 4: the sender does not know all connections itself yet. Services and servers are known by a hash of their names: files may differ for a while.
//! *offset* is what a client sees the server's numbers greater by, modulo 2^32. A connection that began with a cookie is spoken of only when that is known: before, the cookie is all that another balancer needs.

use vswitch::conntrack::{SharedConnection, TcpState, Tuple};
use wire::protocol;

/// The UDP port that balancers send to: that of Linux's `ip_vs_sync`, whose messages are others.
pub const SYNC_PORT: u16 = 8_848;

/// Datagrams are no longer than this, so that they fit the MTU of any network.
const BYTES_MAX: usize = 1_200;

const MAGIC: [u8; 4] = *b"HCS3";
const HEADER: usize = 36;
const ENTRY: usize = 20;
/// More bytes of an entry with a cookie.
const COOKIE: usize = 16;

/// How far a connection is, for who takes it over. A later one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nobody has answered.
    #[default]
    New,
    /// Both sides talk.
    Established,
    /// It has ended, or is about to.
    Ended,
}

impl Stage {
    /// That of a connection: of TCP by its state, of others by whether it is answered.
    pub(super) const fn of(tcp: Option<TcpState>, is_replied: bool) -> Self {
        let Some(tcp) = tcp else { return if is_replied { Self::Established } else { Self::New } };
        match tcp {
            TcpState::SynSent | TcpState::SynSent2 | TcpState::SynReceived => Self::New,
            TcpState::Established | TcpState::FinWait | TcpState::CloseWait => Self::Established,
            TcpState::LastAck | TcpState::TimeWait | TcpState::Close => Self::Ended,
        }
    }
}

/// A connection, as one balancer says it to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEntry {
    /// The hash of its service's name: [`name_hash`].
    pub service: u32,
    /// That of its server's.
    pub server: u32,
    /// The MAC address of its client.
    pub client_mac: [u8; 6],
    /// How far it is.
    pub stage: Stage,
    /// What it is.
    pub connection: SharedConnection,
    /// What its numbers are, if it began with a SYN cookie.
    pub cookie: Option<SyncCookie>,
}

/// What numbers a connection has that began with a SYN cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncCookie {
    /// The number that its client was answered with.
    pub cookie: u32,
    /// That of the client's first segment.
    pub first: u32,
    /// The client sees the server's numbers greater by so much, modulo 2^32.
    pub offset: u32,
    /// The client's window as it began.
    pub window: u16,
}

/// The end of every table, as a place.
pub const TABLE_END: u32 = u32::MAX;

/// What stands before the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncHeader {
    /// Another one whenever the sender begins anew.
    pub instance: u32,
    /// So many datagrams with changes the sender has sent to the receiver before this one.
    pub sequence: u32,
    /// Whether the sender does not know all connections itself.
    pub is_syncing: bool,
    /// What the sender lacks.
    pub question: Option<SyncQuestion>,
    /// Entries are the answer to the receiver's question; `None`: they are what has changed.
    pub answer: Option<SyncAnswer>,
}

/// The next parts of what its sender lacks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncQuestion {
    /// The request that they are parts of.
    pub request: u8,
    /// Which of its questions: not 0.
    pub number: u8,
    /// The first place of the receiver's table that the sender lacks.
    pub from: u32,
    /// Only what has changed from this datagram on is lacked; `None`: all.
    pub since: Option<u32>,
}

/// A part of what the receiver lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncAnswer {
    /// The request of the receiver.
    pub request: u8,
    /// It has what is lacked of these places of the sender's table: the first one, and the first one that is not among them ([`TABLE_END`]: there are no more).
    pub places: (u32, u32),
    /// No other one follows without another question.
    pub is_last: bool,
}

/// Flags of a datagram.
mod flag {
    pub const ANSWER: u8 = 1;
    pub const LAST: u8 = 2;
    pub const SYNCING: u8 = 4;
    pub const ALL: u8 = 8;
}

impl SyncHeader {
    fn emit(&self, entries: u8) -> [u8; HEADER] {
        let Self { instance, sequence, is_syncing, question, answer } = *self;
        let lacks_all = question.is_some_and(|question| question.since.is_none());
        let flags = [
            (flag::ANSWER, answer.is_some()),
            (flag::LAST, answer.is_some_and(|answer| answer.is_last)),
            (flag::SYNCING, is_syncing),
            (flag::ALL, lacks_all),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set).fold(0, |all, (flag, _)| all | flag);
        let (request, number, lacks, since) =
            question.map_or((0, 0, 0, 0), |it| (it.request, it.number, it.from, it.since.unwrap_or(0)));
        let SyncAnswer { request: answered, places, is_last: _ } = answer.unwrap_or_default();
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&[flags, entries, request, number]);
        bytes[24] = answered;
        let numbers = [(8, instance), (12, sequence), (16, lacks), (20, since), (28, places.0), (32, places.1)];
        for (at, number) in numbers {
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Reads one, and how many entries follow.
    fn parse(bytes: &[u8; HEADER]) -> Option<(Self, u8)> {
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let [flags, entries, request, question] = *bytes[4..].first_chunk()?;
        let has = |flag: u8| flags & flag != 0;
        let is_known = flags & !(flag::ANSWER | flag::LAST | flag::SYNCING | flag::ALL) == 0;
        if !bytes.starts_with(&MAGIC) || !is_known || bytes[25..28] != [0; 3] {
            return None;
        }
        let since = (!has(flag::ALL)).then(|| number(20));
        let asked = SyncQuestion { request, number: question, from: number(16), since };
        let places = (number(28), number(32));
        let answer = SyncAnswer { request: bytes[24], places, is_last: has(flag::LAST) };
        let header = Self {
            instance: number(8),
            sequence: number(12),
            is_syncing: has(flag::SYNCING),
            question: (question != 0).then_some(asked),
            answer: has(flag::ANSWER).then_some(answer),
        };
        (places.0 <= places.1).then_some((header, entries))
    }
}

/// Why bytes are none of these datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    /// They begin otherwise, or end too soon.
    #[error("no message of a balancer")]
    Header,
    /// This entry, counted from 0, makes no sense.
    #[error("entry {0} of a balancer's message makes no sense")]
    Entry(usize),
    /// There is more, or less, than it says.
    #[error("a balancer's message has another length than it says")]
    Length,
}

/// By what services and servers are known.
pub fn name_hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash, byte| machine::mix(hash ^ u64::from(byte)).wrapping_add(1)) as u32
}

const STATES: [TcpState; 9] = [
    TcpState::SynSent,
    TcpState::SynSent2,
    TcpState::SynReceived,
    TcpState::Established,
    TcpState::FinWait,
    TcpState::CloseWait,
    TcpState::LastAck,
    TcpState::TimeWait,
    TcpState::Close,
];

/// A datagram that is being written.
#[derive(Clone, Debug)]
pub struct SyncMessage {
    bytes: Vec<u8>,
    entries: u8,
}

impl SyncMessage {
    /// One without entries.
    pub fn new(header: &SyncHeader) -> Self {
        let mut bytes = Vec::with_capacity(BYTES_MAX);
        bytes.extend(header.emit(0));
        Self { bytes, entries: 0 }
    }

    /// It has another header.
    pub fn set_header(&mut self, header: &SyncHeader) {
        self.bytes[..HEADER].copy_from_slice(&header.emit(self.entries));
    }

    /// Whether there is room for one more entry, be it of IPv6.
    pub const fn has_room(&self) -> bool {
        self.bytes.len() + ENTRY + 4 * 18 + COOKIE <= BYTES_MAX
    }

    /// Adds an entry, for which there is room.
    pub fn push(&mut self, entry: &SyncEntry) {
        let SharedConnection { original, reply, tcp, is_replied: _ } = entry.connection;
        let state = tcp.and_then(|tcp| STATES.iter().position(|state| *state == tcp)).map_or(0, |at| at as u8 + 1);
        let family = if original.is_ipv6 { 6 } else { 4 };
        self.bytes.extend([family, original.protocol, entry.stage as u8, state]);
        self.bytes.extend(entry.service.to_be_bytes());
        self.bytes.extend(entry.server.to_be_bytes());
        self.bytes.extend(entry.client_mac);
        self.bytes.extend([u8::from(entry.cookie.is_some()), 0]);
        for (address, port) in [
            (original.src, original.src_port),
            (original.dst, original.dst_port),
            (reply.src, reply.src_port),
            (reply.dst, reply.dst_port),
        ] {
            if original.is_ipv6 {
                self.bytes.extend(address.to_be_bytes());
            } else {
                self.bytes.extend((address as u32).to_be_bytes());
            }
            self.bytes.extend(port.to_be_bytes());
        }
        if let Some(SyncCookie { cookie, first, offset, window }) = entry.cookie {
            self.bytes.extend([cookie, first, offset].map(u32::to_be_bytes).concat());
            self.bytes.extend(window.to_be_bytes());
            self.bytes.extend([0; 2]);
        }
        self.entries += 1;
        self.bytes[5] = self.entries;
    }

    /// Whether it has no entries.
    pub const fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that are read one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn end(&mut self, is_ipv6: bool) -> Option<(u128, u16)> {
        let address =
            if is_ipv6 { u128::from_be_bytes(self.take()?) } else { u128::from(u32::from_be_bytes(self.take()?)) };
        Some((address, u16::from_be_bytes(self.take()?)))
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take()?))
    }

    fn cookie(&mut self) -> Option<SyncCookie> {
        let (cookie, first, offset) = (self.number()?, self.number()?, self.number()?);
        let window = u16::from_be_bytes(self.take()?);
        let [0, 0] = self.take()? else { return None };
        Some(SyncCookie { cookie, first, offset, window })
    }

    fn entry(&mut self) -> Option<SyncEntry> {
        let [family, protocol, stage, state] = self.take()?;
        let is_ipv6 = match family {
            4 => false,
            6 => true,
            _ => return None,
        };
        let stage = [Stage::New, Stage::Established, Stage::Ended].get(usize::from(stage)).copied()?;
        let tcp = match state.checked_sub(1) {
            None => None,
            Some(state) => Some(*STATES.get(usize::from(state))?),
        };
        let is_right = match protocol {
            protocol::TCP => tcp.is_some_and(|tcp| Stage::of(Some(tcp), true) == stage),
            protocol::UDP => tcp.is_none(),
            _ => false,
        };
        let (service, server) = (self.number()?, self.number()?);
        let client_mac = self.take()?;
        let has_cookie = match self.take()? {
            [0, 0] => false,
            // Datagrams of UDP have no numbers.
            [1, 0] if tcp.is_some() => true,
            _ => return None,
        };
        let mut tuple = || {
            let ((src, src_port), (dst, dst_port)) = (self.end(is_ipv6)?, self.end(is_ipv6)?);
            Some(Tuple { src, dst, src_port, dst_port, protocol, is_ipv6 })
        };
        let (original, reply) = (tuple()?, tuple()?);
        let is_replied = stage != Stage::New || tcp == Some(TcpState::SynReceived);
        let connection = SharedConnection { original, reply, tcp, is_replied };
        let cookie = if has_cookie { Some(self.cookie()?) } else { None };
        (is_right && original != reply).then_some(SyncEntry { service, server, client_mac, stage, connection, cookie })
    }
}

/// Reads a datagram.
///
/// # Errors
/// Why it is none. Nothing of it is to be believed then.
pub fn parse_sync(bytes: &[u8]) -> Result<(SyncHeader, Vec<SyncEntry>), SyncError> {
    let (header, count) = bytes.first_chunk().and_then(SyncHeader::parse).ok_or(SyncError::Header)?;
    let mut reader = Reader(&bytes[HEADER..]);
    let mut entries = Vec::with_capacity(usize::from(count).min(BYTES_MAX / ENTRY));
    for at in 0..usize::from(count) {
        if reader.0.is_empty() {
            return Err(SyncError::Length);
        }
        entries.push(reader.entry().ok_or(SyncError::Entry(at))?);
    }
    if !reader.0.is_empty() {
        return Err(SyncError::Length);
    }
    Ok((header, entries))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(is_ipv6: bool, numbers: [u128; 4], state: usize, cookie: Option<SyncCookie>) -> SyncEntry {
        let mask = if is_ipv6 { u128::MAX } else { u128::from(u32::MAX) };
        let tuple = |src: u128, dst: u128| Tuple {
            src: src & mask,
            dst: dst & mask,
            src_port: src as u16,
            dst_port: dst as u16 ^ 1,
            protocol: if state == 0 { protocol::UDP } else { protocol::TCP },
            is_ipv6,
        };
        let tcp = state.checked_sub(1).map(|state| STATES[state]);
        let stage = Stage::of(tcp, true);
        let is_replied = stage != Stage::New || tcp == Some(TcpState::SynReceived);
        let (original, reply) = (tuple(numbers[0], numbers[1]), tuple(numbers[2], !numbers[3]));
        let connection = SharedConnection { original, reply, tcp, is_replied };
        SyncEntry {
            service: numbers[0] as u32,
            server: numbers[1] as u32,
            client_mac: [2, 0, 0, 0, 0, 9],
            stage,
            connection,
            cookie: cookie.filter(|_| tcp.is_some()),
        }
    }

    fn cookies() -> impl Strategy<Value = Option<SyncCookie>> {
        let some = any::<(u32, u32, u32, u16)>();
        prop::option::of(some.prop_map(|(cookie, first, offset, window)| SyncCookie { cookie, first, offset, window }))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (instance, sequence, is_syncing) in any::<(u32, u32, bool)>(),
            (request, answered) in any::<(u8, u8)>(), number in 1..=u8::MAX,
            (from, since) in any::<(u32, Option<u32>)>(),
            (one, other, is_last) in any::<(u32, u32, bool)>(),
            (has_question, has_answer) in any::<(bool, bool)>(),
            entries in prop::collection::vec((any::<bool>(), any::<[u128; 4]>(), 0..=9_usize, cookies()), 0..60),
        ) {
            let question = has_question.then_some(SyncQuestion { request, number, from, since });
            let answer = has_answer.then_some(SyncAnswer { request: answered, places: (one.min(other), one.max(other)), is_last });
            let header = SyncHeader { instance, sequence, is_syncing, question, answer };
            let mut message = SyncMessage::new(&header);
            let written: Vec<SyncEntry> = entries
                .into_iter()
                .map(|(is_ipv6, numbers, state, cookie)| entry(is_ipv6, numbers, state, cookie))
                .filter(|entry| entry.connection.original != entry.connection.reply)
                .take_while(|entry| {
                    let has_room = message.has_room();
                    if has_room {
                        message.push(entry);
                    }
                    has_room
                })
                .collect();
            prop_assert!(message.bytes().len() <= BYTES_MAX);
            prop_assert_eq!(parse_sync(message.bytes()), Ok((header, written)));
            for cut in 0..message.bytes().len() {
                prop_assert!(parse_sync(&message.bytes()[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), is_near: bool) {
            if is_near && bytes.len() > HEADER {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] &= 15;
                bytes[25..36].fill(0);
            }
            let _ = parse_sync(&bytes);
        }
    }

    #[test]
    fn different_names_have_different_hashes() {
        let all = ["web", "wed", "h1", "h11", "", "a", "aa"].map(name_hash);
        let different: std::collections::BTreeSet<u32> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
    }
}

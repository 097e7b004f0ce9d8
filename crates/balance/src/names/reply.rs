//! What a name server answers.

use std::net::IpAddr;

use super::query::{Edns, HEADER, IN, Query, flag, kind};

/// Bytes of an answer to whoever says nothing of other limits (RFC 1035, 2.3.4).
const SIZE: usize = 512;
/// Bytes that pass everywhere without fragments, whatever somebody asks for (DNS flag day 2020).
const SIZE_MAX: u16 = 1_232;

/// How an answer ends (IANA's registry of RCODEs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rcode {
    NoError = 0,
    Malformed = 1,
    NameError = 3,
    NotImplemented = 4,
    Refused = 5,
    BadVersion = 16,
}

/// What an answer to a query has.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    pub rcode: Rcode,
    /// Where the name of the zone begins in the question's name, if it is one of here.
    pub zone_at: Option<usize>,
    pub ttl_s: u32,
    pub addresses: &'a [IpAddr],
    /// Whether the start of authority is the answer.
    pub is_authority: bool,
    /// The answer holds for clients that have so many bits with this one in common.
    pub scope: u8,
}

/// An error about a message of which not even the question can be repeated.
pub(super) fn error(id: u16, flags: u16, rcode: Rcode) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    let kept = flags & (flag::OPCODE | flag::RECURSION_DESIRED | flag::CHECKING_DISABLED);
    bytes.extend((flag::RESPONSE | kept | rcode as u16).to_be_bytes());
    bytes.extend([0; HEADER - 4]);
    bytes
}

impl Reply<'_> {
    /// An error, or an answer without records.
    pub const fn empty(rcode: Rcode) -> Self {
        Self { rcode, zone_at: None, ttl_s: 0, addresses: &[], is_authority: false, scope: 0 }
    }

    /// The answer's bytes; and whether addresses are left out since they would not fit. One fits always, and any of them will do, so that is no truncation (TC): it would have
    /// clients ask by TCP, where nobody answers.
    pub fn emit(&self, query: &Query) -> (Vec<u8>, bool) {
        let extension = query.edns.map(|edns| self.extension(&edns)).unwrap_or_default();
        let limit = query.edns.map_or(SIZE, |edns| usize::from(edns.size_max.min(SIZE_MAX)).max(SIZE));
        let mut bytes = error(query.id, query.flags, self.rcode);
        bytes[3] = bytes[3] & 0xf0 | (self.rcode as u8 & 0xf);
        bytes.extend(&query.question);
        let (mut answers, mut is_truncated) = (0u16, false);
        for address in self.addresses {
            let record = record(*address, self.ttl_s);
            if bytes.len() + record.len() + extension.len() > limit {
                is_truncated = true;
                break;
            }
            bytes.extend(record);
            answers += 1;
        }
        let mut authorities = 0;
        if let Some(zone_at) = self.zone_at.filter(|_| self.addresses.is_empty()) {
            bytes.extend(start_of_authority(zone_at, self.ttl_s));
            (answers, authorities) = if self.is_authority { (1, 0) } else { (0, 1) };
        }
        let set = |bytes: &mut Vec<u8>, at: usize, word: u16| bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
        set(&mut bytes, 4, 1);
        set(&mut bytes, 6, answers);
        set(&mut bytes, 8, authorities);
        set(&mut bytes, 10, u16::from(query.edns.is_some()));
        if self.zone_at.is_some() {
            bytes[2] |= (flag::AUTHORITATIVE >> 8) as u8;
        }
        bytes.extend(extension);
        (bytes, is_truncated)
    }

    /// The record that says that extensions are known here, and which client the answer is for.
    fn extension(&self, edns: &Edns) -> Vec<u8> {
        let option = edns.client.map(|client| client.option(self.scope)).unwrap_or_default();
        let mut bytes = vec![0];
        bytes.extend(kind::OPT.to_be_bytes());
        bytes.extend(SIZE_MAX.to_be_bytes());
        bytes.extend([(self.rcode as u16 >> 4) as u8, 0, if edns.wants_dnssec { 0x80 } else { 0 }, 0]);
        bytes.extend((option.len() as u16).to_be_bytes());
        bytes.extend(option);
        bytes
    }
}

/// A pointer to a name that stands at this byte of the message (RFC 1035, 4.1.4).
fn pointer(at: usize) -> [u8; 2] {
    (0xc000 | at as u16).to_be_bytes()
}

/// What is before the data of a record: of the name that begins at this byte of the message.
fn record_head(at: usize, kind: u16, ttl_s: u32, data_length: usize) -> Vec<u8> {
    let mut bytes = pointer(at).to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(IN.to_be_bytes());
    bytes.extend(ttl_s.to_be_bytes());
    bytes.extend((data_length as u16).to_be_bytes());
    bytes
}

/// An address of the name that was asked for.
fn record(address: IpAddr, ttl_s: u32) -> Vec<u8> {
    let (kind, data) = match address {
        IpAddr::V4(address) => (kind::A, address.octets().to_vec()),
        IpAddr::V6(address) => (kind::AAAA, address.octets().to_vec()),
    };
    let mut bytes = record_head(HEADER, kind, ttl_s, data.len());
    bytes.extend(data);
    bytes
}

/// The start of authority of the zone whose name begins at this byte of the question's. That there is nothing may be kept as long as an address (RFC 2308, 4).
fn start_of_authority(zone_at: usize, ttl_s: u32) -> Vec<u8> {
    const MAILBOX: &[u8] = b"\x0ahostmaster";
    // Serial, refresh, retry, expire: nobody transfers it.
    const TIMES: [u32; 4] = [1, 3_600, 600, 86_400];
    let zone = pointer(HEADER + zone_at);
    let mut data = zone.to_vec();
    data.extend(MAILBOX);
    data.extend(zone);
    TIMES.iter().chain([&ttl_s]).for_each(|time| data.extend(time.to_be_bytes()));
    let mut bytes = record_head(HEADER + zone_at, kind::SOA, ttl_s, data.len());
    bytes.extend(data);
    bytes
}

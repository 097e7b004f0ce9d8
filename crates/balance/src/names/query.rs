//! What comes to a name server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::wire_name::WireName;

/// Bytes of a header.
pub(super) const HEADER: usize = 12;

/// Flags and codes in the second word of a header.
pub(super) mod flag {
    pub const RESPONSE: u16 = 0x8000;
    pub const OPCODE: u16 = 0x7800;
    pub const AUTHORITATIVE: u16 = 0x0400;
    pub const RECURSION_DESIRED: u16 = 0x0100;
    /// Copied as it came (RFC 6840, 5.9).
    pub const CHECKING_DISABLED: u16 = 0x0010;
}

/// Types of records.
pub(super) mod kind {
    pub const A: u16 = 1;
    pub const SOA: u16 = 6;
    pub const AAAA: u16 = 28;
    pub const OPT: u16 = 41;
    /// Those from here to 254 are asked of other programs: transfers of zones and the like.
    pub const TRANSFERS: std::ops::RangeInclusive<u16> = 249..=254;
    pub const ANY: u16 = 255;
}

/// The class of the internet.
pub(super) const IN: u16 = 1;

/// The option of EDNS with the client's subnet.
pub(super) const CLIENT_SUBNET: u16 = 8;

/// A query with one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its number.
    pub id: u16,
    /// The second word of its header.
    pub flags: u16,
    /// Whose records are wanted.
    pub name: WireName,
    /// The question as it came.
    pub(super) question: Vec<u8>,
    /// The type of the records.
    pub record: u16,
    /// Their class.
    pub class: u16,
    /// What it says of extensions, if it knows any.
    pub edns: Option<Edns>,
}

/// What a query says of extensions (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// Bytes of the longest answer that may come.
    pub size_max: u16,
    /// Whether records of DNSSEC are wanted; there are none.
    pub wants_dnssec: bool,
    /// Whose query it passes on.
    pub client: Option<ClientSubnet>,
}

/// The addresses of which a client is (RFC 7871).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet {
    /// The first one of them.
    pub address: IpAddr,
    /// The length of their prefix.
    pub prefix: u8,
}

/// Why something is no query that could be answered, with as much of it as an error repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// It is too short for a header, or a response: whoever answers those may go on for ever.
    NotAQuery,
    /// It cannot be read.
    Malformed {
        /// Its number.
        id: u16,
        /// The second word of its header.
        flags: u16,
    },
    /// It is a query of another kind: a notification, an update, ...
    NotImplemented {
        /// Its number.
        id: u16,
        /// The second word of its header.
        flags: u16,
    },
    /// Its extensions are of a version that nobody knows here.
    BadVersion(Box<Query>),
}

/// Reads from the start of what is left.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// An option of EDNS: what it is, and its value.
    fn option(&mut self) -> Option<(u16, &'a [u8])> {
        let (code, length) = (self.word()?, self.word()?);
        Some((code, self.take(usize::from(length))?))
    }

    /// Passes a name, which may end with a pointer: nobody asks which one it is.
    fn skip_name(&mut self) -> Option<()> {
        loop {
            match self.take(1)?[0] {
                0 => return Some(()),
                length @ 1..=63 => self.take(usize::from(length)).map(|_| ())?,
                192.. => return self.take(1).map(|_| ()),
                64..192 => return None,
            }
        }
    }
}

impl Query {
    /// Reads a message.
    ///
    /// # Errors
    /// Why it is no query that could be answered.
    pub fn parse(message: &[u8]) -> Result<Self, QueryError> {
        let mut reader = Reader { rest: message };
        let mut word = || reader.word().ok_or(QueryError::NotAQuery);
        let (id, flags) = (word()?, word()?);
        let counts = [word()?, word()?, word()?, word()?];
        if flags & flag::RESPONSE != 0 {
            return Err(QueryError::NotAQuery);
        }
        if flags & flag::OPCODE != 0 {
            return Err(QueryError::NotImplemented { id, flags });
        }
        let malformed = QueryError::Malformed { id, flags };
        // One question, and nothing that answers it (RFC 9619).
        let [1, 0, 0, additional] = counts else { return Err(malformed) };
        let Some((query, version)) = Self::parse_body((id, flags), additional, &mut reader) else {
            return Err(malformed);
        };
        if version == 0 { Ok(query) } else { Err(QueryError::BadVersion(Box::new(query))) }
    }

    /// What is behind the header, and which version of EDNS it is.
    fn parse_body((id, flags): (u16, u16), additional: u16, reader: &mut Reader<'_>) -> Option<(Self, u8)> {
        let start = reader.rest;
        let (name, length) = WireName::read(start)?;
        reader.take(length)?;
        let (record, class) = (reader.word()?, reader.word()?);
        let question = start[..length + 4].to_vec();
        let mut edns = None;
        for _ in 0..additional {
            let is_root = reader.rest.first() == Some(&0);
            reader.skip_name()?;
            let (kind, size_max) = (reader.word()?, reader.word()?);
            let extended = reader.take(4)?;
            let data_length = reader.word()?;
            let data = reader.take(usize::from(data_length))?;
            if kind != kind::OPT {
                continue;
            }
            // There is one, and it is the root's (RFC 6891, 6.1.1).
            if !is_root || edns.is_some() {
                return None;
            }
            let version = extended[1];
            let client = if version == 0 { client_subnet(data).ok()? } else { None };
            edns = Some((Edns { size_max, wants_dnssec: extended[2] & 0x80 != 0, client }, version));
        }
        if !reader.rest.is_empty() {
            return None;
        }
        let (edns, version) = edns.unzip();
        Some((Self { id, flags, name, question, record, class, edns }, version.unwrap_or(0)))
    }
}

/// An option of EDNS cannot be read.
struct MalformedOption;

/// The client's subnet among the options of EDNS.
fn client_subnet(options: &[u8]) -> Result<Option<ClientSubnet>, MalformedOption> {
    let mut reader = Reader { rest: options };
    let mut found = None;
    while !reader.rest.is_empty() {
        let (code, value) = reader.option().ok_or(MalformedOption)?;
        if code == CLIENT_SUBNET {
            let subnet = ClientSubnet::parse(value).ok_or(MalformedOption)?;
            if found.replace(subnet).is_some() {
                return Err(MalformedOption);
            }
        }
    }
    Ok(found)
}

impl ClientSubnet {
    /// Reads the option: as many bytes of the address as the prefix has, with zeros behind it, and no scope (RFC 7871, 6 and 7.1.2).
    fn parse(value: &[u8]) -> Option<Self> {
        let mut reader = Reader { rest: value };
        let family = reader.word()?;
        let lengths = reader.take(2)?;
        let (prefix, scope) = (lengths[0], lengths[1]);
        let given = reader.rest;
        let mut bytes = [0; 16];
        let width: u8 = match family {
            1 => 32,
            2 => 128,
            _ => return None,
        };
        if prefix > width || scope != 0 || given.len() != usize::from(prefix.div_ceil(8)) {
            return None;
        }
        bytes[..given.len()].copy_from_slice(given);
        let bits = u128::from_be_bytes(bytes);
        if bits & u128::MAX.checked_shr(u32::from(prefix)).unwrap_or(0) != 0 {
            return None;
        }
        let address = match family {
            1 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
            _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        };
        Some(Self { address, prefix })
    }

    /// As an option of an answer, which holds for clients that have so many bits with this one in common.
    pub(super) fn option(&self, scope: u8) -> Vec<u8> {
        let (family, bytes): (u16, Vec<u8>) = match self.address {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        let address = &bytes[..usize::from(self.prefix.div_ceil(8))];
        let mut option = CLIENT_SUBNET.to_be_bytes().to_vec();
        option.extend((4 + address.len() as u16).to_be_bytes());
        option.extend(family.to_be_bytes());
        option.extend([self.prefix, scope]);
        option.extend(address);
        option
    }
}

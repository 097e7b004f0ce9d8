//! Questions about the flags of a TCP segment, as pcap-filter(7) has them: `tcp[tcpflags] & (tcp-syn|tcp-fin) != 0`, `tcp[13] == 2`.
//!
//! There they are of IPv4 alone; here they are of IPv6 as well, and no segment without a whole header answers them.

use std::fmt;

use wire::{EthernetPacket, Ipv4Packet, Ipv6Packet, TcpPacket, ethertype, tcp_flags};

/// Flags by their names there.
const NAMES: [(&str, u8); 8] = [
    ("tcp-fin", tcp_flags::FIN),
    ("tcp-syn", tcp_flags::SYN),
    ("tcp-rst", tcp_flags::RST),
    ("tcp-push", tcp_flags::PSH),
    ("tcp-ack", tcp_flags::ACK),
    ("tcp-urg", tcp_flags::URG),
    ("tcp-ece", tcp_flags::ECE),
    ("tcp-cwr", tcp_flags::CWR),
];

/// What can be asked of a packet's bytes.
const OF_FLAGS: &str = "of a packet's bytes only TCP's flags can be asked for, `tcp[tcpflags]` or `tcp[13]`";

/// What stands for flags.
const FLAGS: &str = "expected flags: `tcp-syn`, `(tcp-syn|tcp-ack)`, or a number up to 255";

/// What follows the flags.
const RELATIONS: &str = "expected `=`, `!=`, `<`, `<=`, `>` or `>=`, as in `tcp[tcpflags] & tcp-syn != 0`";

/// Whether the flags under a mask compare so with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagsTest {
    mask: u8,
    relation: Relation,
    flags: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    /// With what filters write for them.
    const ALL: [(&str, Self); 7] = [
        ("=", Self::Equal),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("<", Self::Less),
        ("<=", Self::LessOrEqual),
        (">", Self::Greater),
        (">=", Self::GreaterOrEqual),
    ];

    const fn holds(self, a: u8, b: u8) -> bool {
        match self {
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
        }
    }
}

impl FlagsTest {
    /// Reads one at the beginning of these words, and how many it has.
    ///
    /// # Errors
    /// Says which word is wrong, by its place, and what was expected.
    pub fn read(words: &[&str]) -> Result<(Self, usize), (usize, &'static str)> {
        let mut reader = Reader { words, next: 0 };
        reader.expect(OF_FLAGS, |word| {
            ["tcp[13]", "tcp[13:1]", "tcp[tcpflags]", "tcp[tcpflags:1]"].contains(&word).then_some(())
        })?;
        let mask = if reader.take_if("&") { reader.flags()? } else { u8::MAX };
        let relation = reader.expect(RELATIONS, |word| {
            Relation::ALL.iter().find(|(written, _)| *written == word).map(|(_, relation)| *relation)
        })?;
        let mut flags = reader.flags()?;
        while reader.take_if("|") {
            flags |= reader.flags()?;
        }
        Ok((Self { mask, relation, flags }, reader.next))
    }

    /// Whether a frame of TCP has such flags.
    pub fn matches(self, frame: &[u8]) -> bool {
        flags_of(frame).is_some_and(|flags| self.relation.holds(flags & self.mask, self.flags))
    }
}

impl fmt::Display for FlagsTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mask, relation, flags } = self;
        let written = Relation::ALL.iter().find(|(_, other)| other == relation).map_or("=", |(written, _)| written);
        write!(f, "tcp[13] & {mask} {written} {flags}")
    }
}

struct Reader<'a> {
    words: &'a [&'a str],
    next: usize,
}

impl Reader<'_> {
    fn take_if(&mut self, wanted: &str) -> bool {
        let is_next = self.words.get(self.next).is_some_and(|word| *word == wanted);
        self.next += usize::from(is_next);
        is_next
    }

    fn expect<T>(&mut self, what: &'static str, read: impl Fn(&str) -> Option<T>) -> Result<T, (usize, &'static str)> {
        let found = self.words.get(self.next).and_then(|word| read(word)).ok_or((self.next, what))?;
        self.next += 1;
        Ok(found)
    }

    /// A flag, a number, or several of them in parentheses.
    fn flags(&mut self) -> Result<u8, (usize, &'static str)> {
        if !self.take_if("(") {
            return self.expect(FLAGS, flag);
        }
        let mut flags = self.expect(FLAGS, flag)?;
        while self.take_if("|") {
            flags |= self.expect(FLAGS, flag)?;
        }
        self.expect("expected `|` or `)`", |word| (word == ")").then_some(flags))
    }
}

fn flag(word: &str) -> Option<u8> {
    let named = NAMES.iter().find(|(name, _)| *name == word).map(|(_, flag)| *flag);
    named.or_else(|| match word.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    })
}

/// The flags of the TCP segment in a frame, if it has one with a whole header.
fn flags_of(frame: &[u8]) -> Option<u8> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    let segment = match ethernet.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
            (ip.fragment_offset() == 0).then(|| ip.payload())?
        }
        ethertype::IPV6 => {
            let upper = Ipv6Packet::new_checked(ethernet.payload()).ok()?.upper_layer().ok()?;
            upper.fragment.is_none_or(|fragment| fragment.offset == 0).then_some(upper.payload)?
        }
        _ => return None,
    };
    TcpPacket::new_checked(segment).ok().map(|segment| segment.flags())
}

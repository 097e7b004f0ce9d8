//! Two bonds of Heddle recognise each other, whatever their mode: what both can do, such as sequence numbers, may then be used.
//!
//! Each member says hello by LLDP (IEEE 802.1AB) once a second, to the station at the other end of its cable. The hello is a TLV
//! of an organisation (kind 127) under an identifier that is locally administered, since Heddle has no registered one:
//!
//! ```text
//!  octet  0         1             3                  11                19
//!         version   capabilities  the sender's bond  whom it hears     the member's index
//! ```
//!
//! A member's peer is *agreed* when its hello arrives and says that it hears this bond: so both directions work. It is forgotten
//! after three hellos that do not come. Switches that speak LLDP pass the hello over, and no bridge forwards it, so that only
//! bonds at the two ends of one cable find each other.
//!
//! What holds: nothing is agreed with this bond itself, nor while two members hear different bonds. A hello can be forged by
//! whoever sits on the link, as an LACPDU can: what is agreed must never be a matter of safety. State is bounded by
//! [`MEMBERS_MAX`](crate::MEMBERS_MAX) members; each sends at most [`HELLOS_MAX`] a second.

use core::fmt;
use std::collections::BTreeMap;

use machine::{Rebase, Span, Step, Time};
use wire::{EthernetRepr, LLDP_NEAREST_BRIDGE, LldpPacket, LldpRepr, ethertype};

use crate::lacp::pace::Pace;
use crate::{MemberId, MemberSet};

/// Between two hellos on a member.
pub const PERIOD: Span = Span::from_secs(1);
/// A hello holds until three more are missing, with half a period for delay.
pub const EXPIRY: Span = Span::from_ms(3_500);
/// The same as LLDP's time to live, for neighbours that only list what they hear.
const TIME_TO_LIVE_S: u16 = 4;
/// Hellos that a member sends in any second, though each change is worth one.
pub const HELLOS_MAX: usize = 3;
/// The organisation's identifier. Its second-lowest bit says that it is locally administered.
pub const IDENTIFIER: [u8; 3] = [0x02, 0x48, 0x44];
/// The organisation's only TLV.
pub const SUBTYPE: u8 = 1;
const VERSION: u8 = 1;
const HELLO: usize = 20;
/// A frame with a hello, from its destination address on, without frame check sequence.
pub const FRAME: usize = 14 + LldpRepr::len_with(HELLO);

/// What a bond can do with a peer that can do it too: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u16);

impl Capabilities {
    /// It puts arrivals in order by sequence numbers that the sender adds.
    pub const SEQUENCE: Self = Self(1);
    /// It sends a flow's frames over all members in turn (balance-rr), so that they may overtake one another.
    pub const IN_TURN: Self = Self(2);

    /// Whether all of `wanted` are there.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// What both can do.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// What one member announces to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the sender can do.
    pub capabilities: Capabilities,
    /// The sender's bond; not 0.
    pub bond: u64,
    /// The bond that the sender heard on this member, 0 if none.
    pub hears: u64,
    /// The sender's index of the member.
    pub member: u8,
}

/// Why an organisation's TLV is no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// It ends too early.
    #[error("hello: {0} bytes, at least {HELLO} expected")]
    Truncated(usize),
    /// Versions begin with 1; a later one keeps the fields of an earlier one where they are.
    #[error("hello: version is 0, at least 1 expected")]
    Version,
    /// No bond has this identity.
    #[error("hello: the sender's bond is 0")]
    Nobody,
}

impl Hello {
    /// Reads what the TLV carries. What a later version adds is passed over.
    ///
    /// # Errors
    /// [`HelloError`]
    pub fn parse(value: &[u8]) -> Result<Self, HelloError> {
        let bytes = value.first_chunk::<HELLO>().ok_or(HelloError::Truncated(value.len()))?;
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let hello = Self {
            capabilities: Capabilities(u16::from_be_bytes([bytes[1], bytes[2]])),
            bond: number(3),
            hears: number(11),
            member: bytes[19],
        };
        match (bytes[0], hello.bond) {
            (0, _) => Err(HelloError::Version),
            (_, 0) => Err(HelloError::Nobody),
            _ => Ok(hello),
        }
    }

    /// What the TLV carries.
    pub fn emit(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[0] = VERSION;
        bytes[1..3].copy_from_slice(&self.capabilities.0.to_be_bytes());
        bytes[3..11].copy_from_slice(&self.bond.to_be_bytes());
        bytes[11..19].copy_from_slice(&self.hears.to_be_bytes());
        bytes[19] = self.member;
        bytes
    }
}

/// How a bond identifies itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A number that no other bond has, not 0, and another one at each start, so that a restart is noticed.
    pub bond: u64,
    /// The bond's address, LLDP's chassis.
    pub mac: [u8; 6],
    /// What it can do.
    pub capabilities: Capabilities,
}

/// What was agreed with the bond at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// How it identifies itself.
    pub bond: u64,
    /// What both can do.
    pub capabilities: Capabilities,
    /// What it does or can do by itself.
    pub theirs: Capabilities,
    /// The members on which it was agreed.
    pub ports: MemberSet,
    /// These are all members whose links are up: only then may every frame be treated as the peer's.
    pub everywhere: bool,
}

/// Why nothing is agreed on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is: with this bond.
    Agreed(u64),
    /// Its link is down.
    LinkDown,
    /// No hello arrives: the other end is no bond of Heddle.
    External,
    /// A hello arrives, but it does not say that the local hellos do.
    NotHeard(u64),
    /// It hears this bond itself.
    Looped,
    /// Another member hears another bond.
    Divided(u64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agreed(bond) => write!(f, "its peer is Heddle's bond {bond:016x}"),
            Self::LinkDown => f.write_str("its link is down"),
            Self::External => f.write_str("no hello of Heddle arrives, so its peer is external"),
            Self::NotHeard(bond) => write!(f, "Heddle's bond {bond:016x} does not hear it yet"),
            Self::Looped => f.write_str("it hears this bond's own hellos (a loop)"),
            Self::Divided(bond) => {
                write!(f, "its peer is Heddle's bond {bond:016x}, but another member has another peer")
            }
        }
    }
}

/// What came in and went out on a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Hellos that were sent.
    pub sent: u64,
    /// Hellos that were received.
    pub received: u64,
    /// LLDPDUs without a hello.
    pub external: u64,
    /// Payloads that are no LLDPDU, or whose hello cannot be read.
    pub malformed: u64,
    /// Hellos of this bond itself.
    pub looped: u64,
    /// How often hellos ceased.
    pub expirations: u64,
}

/// What [`Peer::poll`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this frame on that member.
    Send {
        /// The member by which it leaves.
        port: MemberId,
        /// The frame from its destination address on.
        frame: [u8; FRAME],
    },
    /// From now on this is agreed.
    Agreed(Option<Agreed>),
}

#[derive(Clone, Debug)]
struct Port {
    mac: [u8; 6],
    up: bool,
    heard: Option<Heard>,
    looped_until: Time,
    /// When the next hello is due.
    due: Time,
    sent: Pace<HELLOS_MAX>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    hello: Hello,
    until: Time,
}

/// The hellos of one bond.
///
/// One rule, as for [`crate::lacp::Lacp`]: after every call that takes a time, call [`Peer::poll`] until it returns
/// [`Step::Wait`]. A call for a member that is not there changes nothing.
#[derive(Clone, Debug)]
pub struct Peer {
    identity: Identity,
    ports: BTreeMap<MemberId, Port>,
    agreed: Option<Agreed>,
}

impl Peer {
    /// A bond without members.
    ///
    /// # Panics
    /// If the bond's number is 0.
    pub fn new(identity: Identity) -> Self {
        assert_ne!(identity.bond, 0, "0 stands for nobody");
        Self { identity, ports: BTreeMap::new(), agreed: None }
    }

    /// Adds a member whose link is down, or changes the source address of its hellos.
    pub fn add_port(&mut self, id: MemberId, mac: [u8; 6]) {
        let port = self.ports.entry(id).or_insert_with(|| Port {
            mac,
            up: false,
            heard: None,
            looped_until: Time::ZERO,
            due: Time::NEVER,
            sent: Pace::new(),
            counters: Counters::default(),
        });
        port.mac = mac;
    }

    /// Takes a member out.
    pub fn remove_port(&mut self, id: MemberId) {
        self.ports.remove(&id);
    }

    /// The link of a member went up or down.
    pub fn link(&mut self, now: Time, id: MemberId, up: bool) {
        let Some(port) = self.ports.get_mut(&id).filter(|port| port.up != up) else { return };
        port.up = up;
        port.heard = None;
        port.looped_until = Time::ZERO;
        port.due = if up { now } else { Time::NEVER };
    }

    /// Changes what this bond can do, and announces it.
    pub fn set_capabilities(&mut self, now: Time, capabilities: Capabilities) {
        if self.identity.capabilities != capabilities {
            self.identity.capabilities = capabilities;
            for port in self.ports.values_mut().filter(|port| port.up) {
                port.due = now;
            }
        }
    }

    /// Takes the payload of an LLDP frame (what follows the type [`ethertype::LLDP`]) that arrived on a member.
    pub fn receive(&mut self, now: Time, id: MemberId, payload: &[u8]) {
        let local = self.identity.bond;
        let Some(port) = self.ports.get_mut(&id).filter(|port| port.up) else { return };
        let Ok(packet) = LldpPacket::new_checked(payload) else {
            port.counters.malformed += 1;
            return;
        };
        let Some(value) = packet.organization(IDENTIFIER, SUBTYPE) else {
            port.counters.external += 1;
            return;
        };
        match Hello::parse(value) {
            Err(_) => port.counters.malformed += 1,
            Ok(hello) if hello.bond == local => {
                port.counters.looped += 1;
                port.looped_until = now + EXPIRY;
            }
            Ok(hello) => port.take(now, hello, packet.time_to_live_s()),
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Time) -> Step<Output> {
        for port in self.ports.values_mut() {
            port.expire(now);
        }
        let agreed = self.agreement(now);
        if agreed != self.agreed {
            self.agreed = agreed;
            return Step::Do(Output::Agreed(agreed));
        }
        let identity = self.identity;
        for (&id, port) in &mut self.ports {
            if let Some(frame) = port.hello(now, id, &identity) {
                return Step::Do(Output::Send { port: id, frame });
            }
        }
        Step::Wait(self.ports.values().map(|port| port.deadline(now)).min().unwrap_or(Time::NEVER))
    }

    /// What is agreed, as of the last poll.
    pub const fn agreed(&self) -> Option<Agreed> {
        self.agreed
    }

    fn agreement(&self, now: Time) -> Option<Agreed> {
        let local = self.identity.bond;
        let mut agreed: Option<Agreed> = None;
        let mut up = MemberSet::EMPTY;
        for (&id, port) in self.ports.iter().filter(|(_, port)| port.up) {
            up.insert(id);
            let Some(Heard { hello, .. }) = port.heard.filter(|_| now >= port.looped_until) else { continue };
            let it = agreed.get_or_insert(Agreed {
                bond: hello.bond,
                capabilities: self.identity.capabilities,
                theirs: hello.capabilities,
                ports: MemberSet::EMPTY,
                everywhere: false,
            });
            if it.bond != hello.bond {
                return None;
            }
            if hello.hears == local {
                it.ports.insert(id);
                it.capabilities = it.capabilities.and(hello.capabilities);
                it.theirs = it.theirs.and(hello.capabilities);
            }
        }
        agreed.filter(|it| !it.ports.is_empty()).map(|it| Agreed { everywhere: it.ports == up, ..it })
    }

    /// Why a member's peer is agreed or not. `None`: there is no such member.
    pub fn why(&self, now: Time, id: MemberId) -> Option<Reason> {
        let port = self.ports.get(&id)?;
        Some(match port.heard {
            _ if !port.up => Reason::LinkDown,
            _ if now < port.looped_until => Reason::Looped,
            None => Reason::External,
            Some(Heard { hello, .. }) if hello.hears != self.identity.bond => Reason::NotHeard(hello.bond),
            Some(Heard { hello, .. }) if self.agreed.is_none() => Reason::Divided(hello.bond),
            Some(Heard { hello, .. }) => Reason::Agreed(hello.bond),
        })
    }

    /// What came in and went out on a member.
    pub fn counters(&self, id: MemberId) -> Option<Counters> {
        self.ports.get(&id).map(|port| port.counters)
    }
}

impl Port {
    /// A hello of another bond. One that is new is answered at once, so that both ends soon know of each other.
    fn take(&mut self, now: Time, hello: Hello, time_to_live_s: u16) {
        self.counters.received += 1;
        let before = self.heard.map(|heard| heard.hello.bond);
        // A time to live of 0 takes back what was said (9.2.7.2 of 802.1AB).
        self.heard = (time_to_live_s > 0).then_some(Heard { hello, until: now + EXPIRY });
        if self.heard.map(|heard| heard.hello.bond) != before {
            self.due = now;
        }
    }

    fn expire(&mut self, now: Time) {
        if self.heard.is_some_and(|heard| now >= heard.until) {
            self.heard = None;
            self.counters.expirations += 1;
            self.due = now;
        }
    }

    fn hello(&mut self, now: Time, id: MemberId, identity: &Identity) -> Option<[u8; FRAME]> {
        if now < self.due || !self.sent.take(now) {
            return None;
        }
        self.due = now + PERIOD;
        self.counters.sent += 1;
        let hears = self.heard.map_or(0, |heard| heard.hello.bond);
        let value =
            Hello { capabilities: identity.capabilities, bond: identity.bond, hears, member: id.index() as u8 }.emit();
        let lldp = LldpRepr {
            chassis: identity.mac,
            port: self.mac,
            time_to_live_s: TIME_TO_LIVE_S,
            identifier: IDENTIFIER,
            subtype: SUBTYPE,
            value: &value,
        };
        let header = EthernetRepr { dst: LLDP_NEAREST_BRIDGE, src: self.mac, vlan: None, ethertype: ethertype::LLDP };
        let mut frame = [0; FRAME];
        header.emit(&mut frame);
        lldp.emit(&mut frame[header.buffer_len()..]);
        Some(frame)
    }

    fn deadline(&self, now: Time) -> Time {
        let hello = if self.due == Time::NEVER { Time::NEVER } else { self.due.max(self.sent.ready_at()) };
        let expiry = self.heard.map_or(Time::NEVER, |heard| heard.until);
        let loop_end = if self.looped_until > now { self.looped_until } else { Time::NEVER };
        hello.min(expiry).min(loop_end)
    }
}

impl Rebase for Peer {
    fn rebase(&mut self, by: Span) {
        let Self { identity: _, ports, agreed: _ } = self;
        ports.rebase(by);
    }
}

impl Rebase for Port {
    fn rebase(&mut self, by: Span) {
        let Self { mac: _, up: _, heard, looped_until, due, sent, counters: _ } = self;
        heard.rebase(by);
        looped_until.rebase(by);
        due.rebase(by);
        sent.rebase(by);
    }
}

impl Rebase for Heard {
    fn rebase(&mut self, by: Span) {
        let Self { hello: _, until } = self;
        until.rebase(by);
    }
}

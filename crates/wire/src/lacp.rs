//! LACPDUs, version 1 (IEEE 802.1AX-2014, 6.4.2).

use core::fmt;

use crate::Error;
use crate::error::split;
use crate::slow::{SLOW_PAYLOAD, subtype};

const NAME: &str = "LACPDU";
/// Subtype, version, the two participants and the collector: what is read. A terminator and padding follow.
const READ: usize = 58;
const VERSION: u8 = 1;
const INFORMATION: u8 = 20;
const COLLECTOR: u8 = 16;
/// Where the information of actor, partner and collector begins, and how the type of each is numbered.
const ACTOR_AT: usize = 2;
const PARTNER_AT: usize = 22;
const COLLECTOR_AT: usize = 42;

/// The state of one end of a link, as its LACPDUs announce it (6.4.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LacpState(pub u8);

impl LacpState {
    /// Sends LACPDUs without being asked (active LACP).
    pub const ACTIVITY: Self = Self(1);
    /// Wants to hear of its partner every second (short timeout).
    pub const TIMEOUT: Self = Self(1 << 1);
    /// May be aggregated; else the link is individual.
    pub const AGGREGATION: Self = Self(1 << 2);
    /// Is attached to the right aggregator.
    pub const SYNCHRONIZATION: Self = Self(1 << 3);
    /// It accepts frames.
    pub const COLLECTING: Self = Self(1 << 4);
    /// It sends frames.
    pub const DISTRIBUTING: Self = Self(1 << 5);
    /// Goes by administrative defaults, as it has not heard of its partner.
    pub const DEFAULTED: Self = Self(1 << 6);
    /// Has not heard of its partner in time.
    pub const EXPIRED: Self = Self(1 << 7);

    /// Whether all bits of `flags` are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The same with the bits of `flags` set or cleared.
    #[must_use]
    pub const fn with(self, flags: Self, set: bool) -> Self {
        Self(if set { self.0 | flags.0 } else { self.0 & !flags.0 })
    }

    /// Only the bits of `flags`.
    #[must_use]
    pub const fn only(self, flags: Self) -> Self {
        Self(self.0 & flags.0)
    }
}

impl fmt::Display for LacpState {
    /// The set bits by name, as in `active+short+aggregation`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] =
            ["active", "short", "aggregation", "sync", "collecting", "distributing", "defaulted", "expired"];
        let set = NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1);
        for (nth, (_, name)) in set.enumerate() {
            write!(f, "{}{name}", if nth == 0 { "" } else { "+" })?;
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

/// What an LACPDU says of one end of the link. Every value is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LacpInfo {
    /// The system's priority; less goes first.
    pub system_priority: u16,
    /// The system's address.
    pub system: [u8; 6],
    /// Ports of a system with the same key may be aggregated.
    pub key: u16,
    /// The port's priority; less goes first.
    pub port_priority: u16,
    /// The port's number within its system.
    pub port: u16,
    /// The state of the port.
    pub state: LacpState,
}

impl LacpInfo {
    fn read(at: &[u8; 58], start: usize) -> Self {
        let word = |offset: usize| u16::from_be_bytes([at[start + offset], at[start + offset + 1]]);
        let mut system = [0; 6];
        system.copy_from_slice(&at[start + 4..start + 10]);
        Self {
            system_priority: word(2),
            system,
            key: word(10),
            port_priority: word(12),
            port: word(14),
            state: LacpState(at[start + 16]),
        }
    }

    fn write(&self, kind: u8, bytes: &mut [u8]) {
        bytes[0] = kind;
        bytes[1] = INFORMATION;
        bytes[2..4].copy_from_slice(&self.system_priority.to_be_bytes());
        bytes[4..10].copy_from_slice(&self.system);
        bytes[10..12].copy_from_slice(&self.key.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.port_priority.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.port.to_be_bytes());
        bytes[16] = self.state.0;
    }
}

/// A view of an LACPDU. Checked: the subtype, and the lengths of the actor's, the partner's and the collector's information.
///
/// Version, TLV types and reserved fields are not looked at, as 6.4.12 demands: a later version keeps the fields of this one
/// where they are.
#[derive(Clone, Copy, Debug)]
pub struct LacpPacket<'a> {
    bytes: &'a [u8; READ],
}

impl<'a> LacpPacket<'a> {
    /// Checks the payload of a slow protocols' frame. What follows the collector's information is not looked at.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for another subtype or another length of a TLV.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Error> {
        let (bytes, _rest) = split::<READ>(NAME, bytes)?;
        if bytes[0] != subtype::LACP {
            return Err(Error::field(NAME, "subtype", u32::from(bytes[0]), "1 (LACP)"));
        }
        for (at, field, length, expected) in [
            (ACTOR_AT, "length of the actor's information", INFORMATION, "20"),
            (PARTNER_AT, "length of the partner's information", INFORMATION, "20"),
            (COLLECTOR_AT, "length of the collector's information", COLLECTOR, "16"),
        ] {
            if bytes[at + 1] != length {
                return Err(Error::field(NAME, field, u32::from(bytes[at + 1]), expected));
            }
        }
        Ok(Self { bytes })
    }

    /// The version of the protocol that the sender speaks.
    pub const fn version(&self) -> u8 {
        self.bytes[1]
    }
}

/// What an LACPDU says. Every value is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LacpRepr {
    /// The sender's end.
    pub actor: LacpInfo,
    /// The receiver's end, as the sender knows it.
    pub partner: LacpInfo,
    /// How long the sender's collector may hold a frame, in tens of microseconds.
    pub collector_max_delay: u16,
}

impl LacpRepr {
    /// What the view says.
    pub fn parse(packet: &LacpPacket<'_>) -> Self {
        let bytes = packet.bytes;
        Self {
            actor: LacpInfo::read(bytes, ACTOR_AT),
            partner: LacpInfo::read(bytes, PARTNER_AT),
            collector_max_delay: u16::from_be_bytes([bytes[COLLECTOR_AT + 2], bytes[COLLECTOR_AT + 3]]),
        }
    }

    /// Bytes that [`LacpRepr::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        SLOW_PAYLOAD
    }

    /// Writes the LACPDU, version 1, with its padding to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than `buffer_len()` bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let bytes = crate::error::room::<SLOW_PAYLOAD>(buffer);
        bytes.fill(0);
        bytes[0] = subtype::LACP;
        bytes[1] = VERSION;
        self.actor.write(1, &mut bytes[ACTOR_AT..PARTNER_AT]);
        self.partner.write(2, &mut bytes[PARTNER_AT..COLLECTOR_AT]);
        bytes[COLLECTOR_AT] = 3;
        bytes[COLLECTOR_AT + 1] = COLLECTOR;
        bytes[COLLECTOR_AT + 2..COLLECTOR_AT + 4].copy_from_slice(&self.collector_max_delay.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by hand after figure 6-7: actor 02:00:00:00:00:01, key 9, port 1, state 0x3d; partner 02:00:00:00:00:02, port 3.
    const LINUX: [u8; READ] = [
        1, 1, 1, 20, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0, 9, 0, 0xff, 0, 1, 0x3d, 0, 0, 0, 2, 20, 0xff, 0xff, 2, 0, 0, 0,
        0, 2, 0, 17, 0, 0xff, 0, 3, 0x3f, 0, 0, 0, 3, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn the_layout_is_that_of_the_standard() {
        let mut bytes = [0; SLOW_PAYLOAD];
        bytes[..READ].copy_from_slice(&LINUX);
        let repr = LacpRepr::parse(&LacpPacket::new_checked(&bytes).unwrap());
        assert_eq!(
            repr.actor,
            LacpInfo {
                system_priority: 0xffff,
                system: [2, 0, 0, 0, 0, 1],
                key: 9,
                port_priority: 0xff,
                port: 1,
                state: LacpState(0x3d),
            }
        );
        assert_eq!(repr.partner.port, 3);
        let mut again = [0xa5; SLOW_PAYLOAD];
        repr.emit(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn a_later_version_with_other_types_is_read_as_this_one() {
        let mut bytes = LINUX;
        let before = LacpRepr::parse(&LacpPacket::new_checked(&bytes).unwrap());
        (bytes[1], bytes[2], bytes[22]) = (2, 77, 78);
        let packet = LacpPacket::new_checked(&bytes).unwrap();
        assert_eq!((packet.version(), LacpRepr::parse(&packet)), (2, before));
    }

    #[test]
    fn what_is_not_an_lacpdu_is_named() {
        for (at, value, message) in [
            (0, 2, "LACPDU: subtype is 2, 1 (LACP) expected"),
            (3, 0, "LACPDU: length of the actor's information is 0, 20 expected"),
            (23, 255, "LACPDU: length of the partner's information is 255, 20 expected"),
            (43, 20, "LACPDU: length of the collector's information is 20, 16 expected"),
        ] {
            let mut bytes = LINUX;
            bytes[at] = value;
            assert_eq!(LacpPacket::new_checked(&bytes).unwrap_err().to_string(), message);
        }
        let error = LacpPacket::new_checked(&LINUX[..57]).unwrap_err();
        assert_eq!(error.to_string(), "LACPDU: 57 bytes, at least 58 expected");
    }

    #[test]
    fn a_state_reads_as_words() {
        assert_eq!(LacpState(0x0d).to_string(), "active+aggregation+sync");
        assert_eq!(LacpState(0).to_string(), "none");
    }

    fn info() -> impl Strategy<Value = LacpInfo> {
        any::<(u16, [u8; 6], u16, u16, u16, u8)>().prop_map(
            |(system_priority, system, key, port_priority, port, state)| LacpInfo {
                system_priority,
                system,
                key,
                port_priority,
                port,
                state: LacpState(state),
            },
        )
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(actor in info(), partner in info(), collector_max_delay: u16) {
            let repr = LacpRepr { actor, partner, collector_max_delay };
            let mut buffer = vec![0xa5; repr.buffer_len() + 3];
            repr.emit(&mut buffer);
            prop_assert_eq!(LacpRepr::parse(&LacpPacket::new_checked(&buffer).unwrap()), repr);
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..130), likely: bool) {
            if likely && bytes.len() > COLLECTOR_AT + 1 {
                (bytes[0], bytes[3], bytes[23], bytes[43]) = (1, INFORMATION, INFORMATION, COLLECTOR);
            }
            if let Ok(packet) = LacpPacket::new_checked(&bytes) {
                let repr = LacpRepr::parse(&packet);
                prop_assert_eq!(repr.actor.state.0, bytes[18]);
            }
        }
    }
}

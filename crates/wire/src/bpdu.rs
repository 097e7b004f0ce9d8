//! Bridge protocol data units: configuration, topology change notification, rapid spanning tree (IEEE 802.1D-2004, 9).
//!
//! They stand in a frame of IEEE 802.3 behind three bytes of LLC: the frame says its length where Ethernet II says a type.

use crate::Error;
use crate::error::{room, split, split_at};

const NAME: &str = "BPDU";
/// Addresses, length, and LLC.
const HEADER: usize = 17;
/// The LLC header of bridges: destination and source 0x42, unnumbered information.
const LLC: [u8; 3] = [0x42, 0x42, 0x03];
/// The least that an Ethernet frame has, without its check sequence.
const FRAME_MIN: usize = 60;
/// What a topology change notification has.
const TCN_LEN: usize = 4;
/// What a configuration BPDU has.
const CONFIG_LEN: usize = 35;
/// What a rapid one has: the length of what version 1 adds, which is 0, comes last.
const RST_LEN: usize = 36;

const TYPE_CONFIG: u8 = 0x00;
const TYPE_RST: u8 = 0x02;
const TYPE_TCN: u8 = 0x80;

/// Where BPDUs go: to the bridge at the other end of the link, which does not pass them on.
pub const BRIDGE_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00];

/// Bytes of a frame with a BPDU, from the destination address on, without frame check sequence.
pub const BPDU_FRAME: usize = FRAME_MIN;

/// What kind of BPDU it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BpduKind {
    /// Of STP: the configuration of a designated port.
    Config,
    /// Of STP: the topology has changed. It says nothing else.
    Tcn,
    /// Of RSTP.
    Rst,
}

/// The role of the port that has sent an RST BPDU (9.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BpduRole {
    /// It does not say.
    #[default]
    Unknown,
    /// Alternate or backup.
    AlternateBackup,
    /// Root.
    Root,
    /// Designated.
    Designated,
}

/// The flags of a configuration or RST BPDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BpduFlags(pub u8);

impl BpduFlags {
    /// The topology has changed.
    pub const TOPOLOGY_CHANGE: u8 = 1;
    /// A designated port wants to forward at once.
    pub const PROPOSAL: u8 = 1 << 1;
    /// The port learns.
    pub const LEARNING: u8 = 1 << 4;
    /// The port forwards.
    pub const FORWARDING: u8 = 1 << 5;
    /// The sender has nothing behind it that could make a loop.
    pub const AGREEMENT: u8 = 1 << 6;
    /// A notification has been heard. Of configuration BPDUs only.
    pub const TOPOLOGY_CHANGE_ACK: u8 = 1 << 7;

    /// Whether a flag is set.
    pub const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// The same with a flag set or cleared.
    #[must_use]
    pub const fn with(self, flag: u8, set: bool) -> Self {
        Self(if set { self.0 | flag } else { self.0 & !flag })
    }

    /// The role that an RST BPDU says.
    pub const fn role(self) -> BpduRole {
        match self.0 >> 2 & 3 {
            1 => BpduRole::AlternateBackup,
            2 => BpduRole::Root,
            3 => BpduRole::Designated,
            _ => BpduRole::Unknown,
        }
    }

    /// The same with this role.
    #[must_use]
    pub const fn with_role(self, role: BpduRole) -> Self {
        let bits = match role {
            BpduRole::Unknown => 0,
            BpduRole::AlternateBackup => 1,
            BpduRole::Root => 2,
            BpduRole::Designated => 3,
        };
        Self(self.0 & !0x0c | bits << 2)
    }
}

/// A view of the BPDU of a frame. Checked: the LLC header, the length that the frame says, protocol, version and type, and that all its fields are there.
///
/// What a later version adds behind them is not looked at (9.3.4).
#[derive(Clone, Copy, Debug)]
pub struct BpduPacket<'a> {
    kind: BpduKind,
    bytes: &'a [u8],
}

impl<'a> BpduPacket<'a> {
    /// Checks a frame, from its destination address on.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Field`] for another LLC header, protocol, type, or a version that does not go with the type.
    pub fn new_checked(frame: &'a [u8]) -> Result<Self, Error> {
        let (header, rest) = split::<HEADER>(NAME, frame)?;
        if header[14..] != LLC {
            let [a, b, c] = [header[14], header[15], header[16]];
            return Err(Error::field(NAME, "LLC", u32::from_be_bytes([0, a, b, c]), "0x424203"));
        }
        let says = usize::from(u16::from_be_bytes([header[12], header[13]]));
        let Some(need) = says.checked_sub(LLC.len()) else {
            return Err(Error::field(NAME, "length of the frame", says as u32, "at least 3"));
        };
        let (bytes, _padding) = split_at(NAME, rest, need)?;
        let (start, _) = split::<TCN_LEN>(NAME, bytes)?;
        if start[..2] != [0, 0] {
            let protocol = u16::from_be_bytes([start[0], start[1]]);
            return Err(Error::field(NAME, "protocol", protocol.into(), "0 (spanning tree)"));
        }
        let (kind, len) = match (start[3], start[2]) {
            (TYPE_TCN, _) => (BpduKind::Tcn, TCN_LEN),
            (TYPE_CONFIG, _) => (BpduKind::Config, CONFIG_LEN),
            (TYPE_RST, 2..) => (BpduKind::Rst, RST_LEN),
            (TYPE_RST, version) => return Err(Error::field(NAME, "version", version.into(), "at least 2")),
            (other, _) => return Err(Error::field(NAME, "type", other.into(), "0, 2 or 128")),
        };
        let (bytes, _later) = split_at(NAME, bytes, len)?;
        Ok(Self { kind, bytes })
    }

    /// What kind it is.
    pub const fn kind(&self) -> BpduKind {
        self.kind
    }
}

/// What a BPDU says. Every value is valid. A notification says its kind only; the rest is as by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpduRepr {
    /// What kind it is.
    pub kind: BpduKind,
    /// Its flags.
    pub flags: BpduFlags,
    /// Who is the root: priority, and behind it the address.
    pub root: u64,
    /// How far it is to the root from who has sent this.
    pub root_path_cost: u32,
    /// Who has sent it, or, of an alternate port, who would be designated if it were.
    pub bridge: u64,
    /// By which port.
    pub port: u16,
    /// How old the information is, in 1/256 of a second.
    pub message_age: u16,
    /// How old it may get, in 1/256 of a second.
    pub max_age: u16,
    /// How often BPDUs are sent, in 1/256 of a second.
    pub hello_time: u16,
    /// How long a port listens and learns each before it forwards, in 1/256 of a second.
    pub forward_delay: u16,
}

impl BpduRepr {
    /// A topology change notification.
    pub const TCN: Self = Self {
        kind: BpduKind::Tcn,
        flags: BpduFlags(0),
        root: 0,
        root_path_cost: 0,
        bridge: 0,
        port: 0,
        message_age: 0,
        max_age: 0,
        hello_time: 0,
        forward_delay: 0,
    };

    /// What the view says.
    pub fn parse(packet: &BpduPacket<'_>) -> Self {
        let Some(b) = packet.bytes.first_chunk::<CONFIG_LEN>() else { return Self::TCN };
        let word = |at: usize| u16::from_be_bytes([b[at], b[at + 1]]);
        let long = |at: usize| (0..8).fold(0, |sum, byte| sum << 8 | u64::from(b[at + byte]));
        Self {
            kind: packet.kind,
            flags: BpduFlags(b[4]),
            root: long(5),
            root_path_cost: u32::from_be_bytes([b[13], b[14], b[15], b[16]]),
            bridge: long(17),
            port: word(25),
            message_age: word(27),
            max_age: word(29),
            hello_time: word(31),
            forward_delay: word(33),
        }
    }

    /// Writes the frame that the port with the address `source` sends, with its padding, to the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` has less than [`BPDU_FRAME`] bytes.
    pub fn emit(&self, source: [u8; 6], buffer: &mut [u8]) {
        let frame = room::<BPDU_FRAME>(buffer);
        frame.fill(0);
        let (version, kind, len) = match self.kind {
            BpduKind::Config => (0, TYPE_CONFIG, CONFIG_LEN),
            BpduKind::Tcn => (0, TYPE_TCN, TCN_LEN),
            BpduKind::Rst => (2, TYPE_RST, RST_LEN),
        };
        frame[..6].copy_from_slice(&BRIDGE_GROUP);
        frame[6..12].copy_from_slice(&source);
        frame[12..14].copy_from_slice(&((len + LLC.len()) as u16).to_be_bytes());
        frame[14..HEADER].copy_from_slice(&LLC);
        let b = &mut frame[HEADER..];
        (b[2], b[3]) = (version, kind);
        if self.kind == BpduKind::Tcn {
            return;
        }
        b[4] = self.flags.0;
        b[5..13].copy_from_slice(&self.root.to_be_bytes());
        b[13..17].copy_from_slice(&self.root_path_cost.to_be_bytes());
        b[17..25].copy_from_slice(&self.bridge.to_be_bytes());
        let words = [self.port, self.message_age, self.max_age, self.hello_time, self.forward_delay];
        for (word, at) in words.into_iter().zip((25..).step_by(2)) {
            b[at..at + 2].copy_from_slice(&word.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn emitted(repr: &BpduRepr) -> [u8; BPDU_FRAME] {
        let mut frame = [0xa5; BPDU_FRAME];
        repr.emit([2, 0, 0, 0, 0, 7], &mut frame);
        frame
    }

    const RST: BpduRepr = BpduRepr {
        kind: BpduKind::Rst,
        flags: BpduFlags(0x3c),
        root: 0x1000_0200_0000_0001,
        root_path_cost: 20_000,
        bridge: 0x8000_0200_0000_0002,
        port: 0x8003,
        message_age: 256,
        max_age: 20 * 256,
        hello_time: 2 * 256,
        forward_delay: 15 * 256,
    };

    /// Laid out as in figure 9-3 of the standard.
    #[test]
    fn a_rapid_bpdu_has_its_fields_where_the_standard_has_them() {
        let expected = [
            0x01, 0x80, 0xc2, 0, 0, 0, 2, 0, 0, 0, 0, 7, 0, 39, 0x42, 0x42, 3, 0, 0, 2, 2, 0x3c, 0x10, 0, 2, 0, 0, 0,
            0, 1, 0, 0, 0x4e, 0x20, 0x80, 0, 2, 0, 0, 0, 0, 2, 0x80, 3, 1, 0, 20, 0, 2, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0,
            0,
        ];
        assert_eq!(emitted(&RST), expected);
        assert_eq!(RST.flags.role(), BpduRole::Designated);
    }

    #[test]
    fn what_is_not_a_bpdu_is_named() {
        let frame = emitted(&RST);
        for (at, value, message) in [
            (14, 0xaa, "BPDU: LLC is 11158019, 0x424203 expected"),
            (13, 2, "BPDU: length of the frame is 2, at least 3 expected"),
            (13, 200, "BPDU: 43 bytes, at least 197 expected"),
            (13, 38, "BPDU: 35 bytes, at least 36 expected"),
            (18, 9, "BPDU: protocol is 9, 0 (spanning tree) expected"),
            (19, 1, "BPDU: version is 1, at least 2 expected"),
            (20, 3, "BPDU: type is 3, 0, 2 or 128 expected"),
        ] {
            let mut changed = frame;
            changed[at] = value;
            assert_eq!(BpduPacket::new_checked(&changed).unwrap_err().to_string(), message);
        }
        assert!(BpduPacket::new_checked(&frame[..16]).is_err());
    }

    proptest! {
        #[test]
        fn emitted_and_parsed_is_the_same(
            rapid: bool, flags: u8, root: u64, root_path_cost: u32, bridge: u64, port: u16, times: [u16; 4],
        ) {
            let [message_age, max_age, hello_time, forward_delay] = times;
            let kind = if rapid { BpduKind::Rst } else { BpduKind::Config };
            let flags = BpduFlags(flags);
            let repr = BpduRepr {
                kind, flags, root, root_path_cost, bridge, port, message_age, max_age, hello_time, forward_delay,
            };
            prop_assert_eq!(BpduRepr::parse(&BpduPacket::new_checked(&emitted(&repr)).unwrap()), repr);
            prop_assert_eq!(flags.with_role(flags.role()), flags);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), good in 0_usize..24) {
            let mut frame = emitted(&RST).to_vec();
            frame.truncate(good);
            frame.extend(&bytes);
            if let Ok(packet) = BpduPacket::new_checked(&frame) {
                prop_assert_eq!(BpduRepr::parse(&packet).kind, packet.kind());
            }
        }
    }

    #[test]
    fn a_notification_says_its_kind_only() {
        let packet = emitted(&BpduRepr::TCN);
        assert_eq!(BpduRepr::parse(&BpduPacket::new_checked(&packet).unwrap()), BpduRepr::TCN);
        assert_eq!(packet[12..21], [0, 7, 0x42, 0x42, 3, 0, 0, 0, 0x80]);
    }
}

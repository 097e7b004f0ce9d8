//! What stands between UDP and an Ethernet frame in a tunnel: VXLAN (RFC 7348, 5) and Geneve (RFC 8926, 3).

/// How frames are put into datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926, without options.
    Geneve,
}

/// The protocol of Ethernet frames in Geneve: transparent Ethernet bridging (RFC 8926, 3.4).
const ETHERNET: [u8; 2] = [0x65, 0x58];

/// VXLAN's flag I: the identifier is valid.
const IDENTIFIED: u8 = 0x08;

/// Geneve's flag O: it is a control message, between the ends of the tunnel.
const CONTROL: u8 = 0x80;

/// Geneve's flag C: options are critical.
const CRITICAL: u8 = 0x40;

impl Encapsulation {
    /// The length of what [`Encapsulation::emit`] writes, in bytes.
    pub const HEADER_LEN: usize = 8;

    /// Its name: `vxlan`, `geneve`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
        }
    }

    /// The UDP port that IANA has given it.
    pub const fn port(self) -> u16 {
        match self {
            Self::Vxlan => 4789,
            Self::Geneve => 6081,
        }
    }

    /// The header in front of a frame of a network; of the identifier the lower 24 bits.
    pub fn emit(self, vni: u32) -> [u8; Self::HEADER_LEN] {
        let [_, a, b, c] = vni.to_be_bytes();
        match self {
            Self::Vxlan => [IDENTIFIED, 0, 0, 0, a, b, c, 0],
            Self::Geneve => [0, 0, ETHERNET[0], ETHERNET[1], a, b, c, 0],
        }
    }

    /// The network of a control message of Geneve, whose payload no end forwards (RFC 8926, 3.4); `None` if a datagram is none.
    pub fn parse_control(self, datagram: &[u8]) -> Option<u32> {
        let header = datagram.first_chunk::<{ Self::HEADER_LEN }>()?;
        let is_control = self == Self::Geneve && header[0] >> 6 == 0 && header[1] & CONTROL != 0;
        is_control.then(|| u32::from_be_bytes([0, header[4], header[5], header[6]]))
    }

    /// The network of a datagram's frame, and where in it the frame begins. `None` if there is no frame that may be taken: it is of another version or protocol, says
    /// no network, is cut off, is a control message, or has Geneve options that whoever does not know them must not pass over.
    pub fn parse(self, datagram: &[u8]) -> Option<(u32, usize)> {
        let header = datagram.first_chunk::<{ Self::HEADER_LEN }>()?;
        let vni = u32::from_be_bytes([0, header[4], header[5], header[6]]);
        let at = match self {
            Self::Vxlan if header[0] & IDENTIFIED != 0 => Self::HEADER_LEN,
            // Two bits of version, six of the options' length in words.
            Self::Geneve
                if header[0] >> 6 == 0 && header[1] & (CONTROL | CRITICAL) == 0 && header[2..4] == ETHERNET =>
            {
                Self::HEADER_LEN + 4 * usize::from(header[0] & 0x3f)
            }
            _ => return None,
        };
        (at <= datagram.len()).then_some((vni, at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Encapsulation::{Geneve, Vxlan};
    use super::*;

    #[test]
    fn headers_are_those_of_the_standards() {
        assert_eq!(Vxlan.emit(0x0012_3456), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(Geneve.emit(0x0012_3456), [0, 0, 0x65, 0x58, 0x12, 0x34, 0x56, 0]);
        assert_eq!((Vxlan.port(), Geneve.port()), (4789, 6081));
    }

    #[test]
    fn options_are_passed_over_unless_they_are_critical() {
        let with_options = |flags| [[2, flags, 0x65, 0x58, 0, 0, 7, 0], [1; 8]].concat();
        assert_eq!(Geneve.parse(&with_options(0)), Some((7, 16)));
        assert_eq!(Geneve.parse(&with_options(0)[..15]), None, "they are cut off");
        assert_eq!(Geneve.parse(&with_options(CRITICAL)), None);
        // Nor is a control message forwarded, whatever its payload looks like.
        assert_eq!(
            (Geneve.parse(&with_options(CONTROL)), Geneve.parse_control(&with_options(CONTROL))),
            (None, Some(7))
        );
        assert_eq!((Geneve.parse_control(&with_options(0)), Vxlan.parse_control(&with_options(CONTROL))), (None, None));
        assert_eq!(Geneve.parse(&[0x40, 0, 0x65, 0x58, 0, 0, 7, 0]), None, "another version");
        assert_eq!(Geneve.parse(&[0, 0, 0x08, 0x00, 0, 0, 7, 0]), None, "no Ethernet");
        assert_eq!(Vxlan.parse(&[0, 0, 0, 0, 0, 0, 7, 0]), None, "no identifier");
        assert_eq!(Vxlan.parse(&[8, 0, 0, 0, 0, 0, 7]), None);
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed_and_nothing_panics(vni in 0..1_u32 << 24, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            for encapsulation in [Vxlan, Geneve] {
                let whole = [&encapsulation.emit(vni)[..], &bytes].concat();
                prop_assert_eq!(encapsulation.parse(&whole), Some((vni, Encapsulation::HEADER_LEN)));
                if let Some((_, at)) = encapsulation.parse(&bytes) {
                    prop_assert!(at <= bytes.len());
                }
            }
        }
    }
}

//! ICMP: which messages are answered, and which are errors (RFC 792, RFC 4443).

/// Messages that ask, and those that answer them, of ICMP (RFC 792, RFC 950).
const ASKED_V4: [(u8, u8); 4] = [(8, 0), (13, 14), (15, 16), (17, 18)];
/// The same of `ICMPv6` (RFC 4443).
const ASKED_V6: [(u8, u8); 1] = [(128, 129)];

const fn asked(is_ipv6: bool) -> &'static [(u8, u8)] {
    if is_ipv6 { &ASKED_V6 } else { &ASKED_V4 }
}

/// Type and code of the message in the other direction.
pub fn answer_to(is_ipv6: bool, type_and_code: u16) -> Option<u16> {
    let [kind, code] = type_and_code.to_be_bytes();
    let other = asked(is_ipv6).iter().find_map(|(ask, answer)| match kind {
        kind if kind == *ask => Some(*answer),
        kind if kind == *answer => Some(*ask),
        _ => None,
    });
    other.map(|other| u16::from_be_bytes([other, code]))
}

/// Whether it asks for an answer.
pub fn icmp_request(is_ipv6: bool, type_and_code: u16) -> bool {
    let [kind, _] = type_and_code.to_be_bytes();
    asked(is_ipv6).iter().any(|(ask, _)| *ask == kind)
}

/// Whether it is an error, which quotes the packet that it is about.
pub const fn is_error(is_ipv6: bool, kind: u8) -> bool {
    if is_ipv6 { matches!(kind, 1..=4) } else { matches!(kind, 3 | 4 | 11 | 12) }
}

//! Which kinds of frames a filter has not let pass: what is said where a capture stays empty.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::ethertype;

/// What a comment of a capture begins with that says so.
pub(super) const NOT_MATCHED: &str = "not matched by the filter: ";

/// Their names; the last one is of all others.
const KINDS: [&str; 4] = ["IPv4", "IPv6", "ARP", "other"];

/// Frames by their kind. Several workers may count at once.
#[derive(Debug, Default)]
pub struct FrameKinds([AtomicU64; KINDS.len()]);

impl FrameKinds {
    /// Counts a frame.
    pub fn add(&self, frame: &[u8]) {
        self.0[kind(frame)].fetch_add(1, Ordering::Relaxed);
    }

    /// How many frames there were.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

impl fmt::Display for FrameKinds {
    /// `12 IPv4, 3 ARP`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.0.iter().map(|count| count.load(Ordering::Relaxed)).zip(KINDS);
        let words: Vec<String> =
            counted.filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}")).collect();
        f.write_str(&words.join(", "))
    }
}

/// The kind of a frame, behind its VLAN tags.
fn kind(frame: &[u8]) -> usize {
    const TAG: usize = 4;
    let mut at = 12;
    loop {
        let of_frame = frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        match of_frame {
            Some(ethertype::VLAN | ethertype::SERVICE_VLAN) => at += TAG,
            Some(ethertype::IPV4) => return 0,
            Some(ethertype::IPV6) => return 1,
            Some(ethertype::ARP) => return 2,
            _ => return KINDS.len() - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_by_kind_behind_their_tags() {
        let frame = |types: &[u16]| {
            let mut frame = vec![0; 12];
            for (number, kind) in types.iter().enumerate() {
                frame.extend(if number > 0 { vec![0, 7] } else { Vec::new() });
                frame.extend(kind.to_be_bytes());
            }
            frame
        };
        let kinds = FrameKinds::default();
        for types in [&[0x0800_u16][..], &[0x8100, 0x0800], &[0x86dd], &[0x0806], &[0x88cc], &[0x8100], &[]] {
            kinds.add(&frame(types));
        }
        assert_eq!((kinds.total(), kinds.to_string().as_str()), (7, "2 IPv4, 1 IPv6, 1 ARP, 3 other"));
        assert_eq!(FrameKinds::default().to_string(), "");
    }
}

//! Datagrams of UDP that leave the fabric in fragments: which of them are whole.
//!
//! A host can do nothing with a part of a datagram, so what was delivered of one is known when its last fragment has come. Fragments may come
//! in any order and more than once, as over a bond in mode broadcast.
//!
//! The table has a fixed size. A datagram is looked for in one set of it, and takes the place of the one there that began first, as if the
//! kernel gave up that one.

use machine::{Rebase, Span, Time, mix};
use vswitch::UdpFragment;
use vswitch::spread::FlowHash;

/// Sets of the table, and places in a set: 8,192 datagrams a worker. Linux keeps 4 MiB of fragments a host, some 250 datagrams of 16 KB.
const SETS: usize = 1_024;
const WAYS: usize = 8;

/// A fragment that comes so much later than the first one is of another datagram with the same number: numbers have 16 bits. That is how long
/// hosts of live runs wait for fragments.
const LIFETIME: Span = Span::from_secs(1);

/// A fragment is known by the cell of so many bytes in which it begins. The MTU of a network is 1,280 bytes at least.
const CELL: u32 = 1_024;

/// Bytes of UDP's header.
const UDP_HEADER: u32 = 8;

/// A datagram that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Source and destination.
    pub ports: (u16, u16),
    /// Bytes of its payload.
    pub payload_len: u32,
}

/// Datagrams of which fragments have come.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Made with the first fragment.
    datagrams: Vec<Datagram>,
}

/// A datagram, whole or not: fragments of a whole one may come again.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    /// Of its addresses and its number.
    key: u64,
    /// When its first fragment came; nothing is here before.
    began: Option<Time>,
    /// The cells in which fragments that came begin.
    came: u64,
    /// What they have together.
    bytes: u32,
    /// What it has in all, once its end has come.
    total: Option<u32>,
    ports: Option<(u16, u16)>,
}

impl Datagram {
    const NONE: Self = Self { key: 0, began: None, came: 0, bytes: 0, total: None, ports: None };
}

impl Reassembly {
    /// A fragment leaves the fabric at `now`; `hash` is of its addresses. Returns the datagram that it was the last one of.
    pub fn offer(&mut self, now: Time, hash: FlowHash, fragment: &UdpFragment) -> Option<Whole> {
        if self.datagrams.is_empty() {
            self.datagrams = vec![Datagram::NONE; SETS * WAYS];
        }
        let key = mix(hash.0.wrapping_add(u64::from(fragment.identification)));
        let start = key as usize % SETS * WAYS;
        let set = &mut self.datagrams[start..start + WAYS];
        let is_it = |datagram: &Datagram| {
            datagram.key == key && datagram.began.is_some_and(|began| now.since(began) < LIFETIME)
        };
        let at = set.iter().position(is_it).unwrap_or_else(|| {
            let oldest = (0..WAYS).min_by_key(|at| set[*at].began).unwrap_or(0);
            set[oldest] = Datagram { key, began: Some(now), ..Datagram::NONE };
            oldest
        });
        let datagram = &mut set[at];
        let cell = 1 << (fragment.offset / CELL).min(63);
        if datagram.came & cell != 0 {
            return None;
        }
        datagram.came |= cell;
        datagram.bytes += fragment.len;
        datagram.ports = datagram.ports.or(fragment.ports);
        datagram.total = datagram.total.or((!fragment.more).then(|| fragment.end()));
        let is_whole = datagram.total == Some(datagram.bytes);
        let ports = datagram.ports.filter(|_| is_whole)?;
        Some(Whole { ports, payload_len: datagram.bytes.checked_sub(UDP_HEADER)? })
    }
}

impl Rebase for Reassembly {
    fn rebase(&mut self, by: Span) {
        let Self { datagrams } = self;
        datagrams.rebase(by);
    }
}

impl Rebase for Datagram {
    fn rebase(&mut self, by: Span) {
        let Self { key: _, began, came: _, bytes: _, total: _, ports: _ } = self;
        began.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HASH: FlowHash = FlowHash(77);

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// The fragments of a datagram with 16,060 bytes of payload.
    fn fragments(identification: u16) -> Vec<UdpFragment> {
        let total = 16_060 + UDP_HEADER;
        let of = |offset: u32| UdpFragment {
            identification,
            offset,
            len: (total - offset).min(1_480),
            more: offset + 1_480 < total,
            ports: (offset == 0).then_some((40_000, 6_000)),
        };
        (0..total).step_by(1_480).map(of).collect()
    }

    #[test]
    fn a_datagram_is_whole_with_its_last_fragment_and_counts_once() {
        let mut reassembly = Reassembly::default();
        let mut offer = |at: u64, fragment: &UdpFragment| reassembly.offer(ms(at), HASH, fragment);
        let (one, two) = (fragments(1), fragments(2));
        // The last one first; another one never comes.
        for fragment in one[1..].iter().rev().chain(&two[..10]) {
            assert_eq!(offer(1, fragment), None);
        }
        assert_eq!(offer(2, &one[0]), Some(Whole { ports: (40_000, 6_000), payload_len: 16_060 }));
        for fragment in &one {
            assert_eq!(offer(3, fragment), None, "a copy");
        }
        // The numbers begin anew.
        let whole = one.iter().filter_map(|fragment| offer(1_500, fragment)).count();
        assert_eq!(whole, 1);
    }

    #[test]
    fn a_fragment_that_comes_too_late_completes_nothing() {
        let mut reassembly = Reassembly::default();
        let one = fragments(1);
        for fragment in &one[1..] {
            assert_eq!(reassembly.offer(ms(0), HASH, fragment), None);
        }
        assert_eq!(reassembly.offer(ms(1_000), HASH, &one[0]), None);
    }

    proptest! {
        /// Whatever order they come in, and though some come again: hundreds of datagrams at a time each count once.
        #[test]
        fn order_and_copies_do_not_matter(order in Just((0..300 * 11_usize).collect::<Vec<_>>()).prop_shuffle(), again in 1_usize..50) {
            let all: Vec<_> = (0..300).flat_map(fragments).collect();
            let mut reassembly = Reassembly::default();
            let mut whole = 0;
            for (at, &number) in order.iter().enumerate() {
                whole += u32::from(reassembly.offer(ms(1), HASH, &all[number]).is_some());
                if at % again == 0 {
                    whole += u32::from(reassembly.offer(ms(1), HASH, &all[order[at / 2]]).is_some());
                }
            }
            prop_assert_eq!(whole, 300);
        }

        #[test]
        fn any_fragments_are_taken(
            fragments in proptest::collection::vec((any::<(u16, bool, Option<(u16, u16)>)>(), 0_u32..8_192, 1_u32..65_536), 0..300),
        ) {
            let mut reassembly = Reassembly::default();
            for ((identification, more, ports), offset, len) in fragments {
                let fragment = UdpFragment { identification: identification % 8, offset: offset * 8, len, more, ports };
                let whole = reassembly.offer(ms(1), HASH, &fragment);
                prop_assert!(whole.is_none_or(|whole| whole.payload_len < 131_072));
            }
        }
    }
}

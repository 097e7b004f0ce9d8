//! Connection tracking: whatever packets come, in whatever order, no connection is lost or counted twice, and none is translated into two.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use machine::{Span, Time};
use vswitch::conntrack::{Conntrack, NatRange, Request, Segment, Translate, TranslatedEnd};

/// So few that they make room for each other.
const CONNECTIONS_MAX: usize = 8;

/// The input is, packet by packet, what is asked (a byte), how much later it comes (a byte, seconds), how long it is (a byte), and its bytes.
fuzz_target!(|bytes: &[u8]| {
    let mut table = Conntrack::new(7, CONNECTIONS_MAX);
    let (mut now, mut rest) = (Time::ZERO, bytes);
    while let Some((&[asked, later, length], more)) = rest.split_first_chunk::<3>() {
        let (packet, more) = more.split_at(usize::from(length).min(more.len()));
        rest = more;
        now += Span::from_secs(u64::from(later));
        let is_ipv6 = asked & 1 != 0;
        let end = if asked & 2 == 0 { TranslatedEnd::Source } else { TranslatedEnd::Destination };
        let range = NatRange { end, is_ipv6, addresses: (1, 3), ports: (asked & 4 != 0).then_some((1, 4)) };
        let translate = [Translate::No, Translate::Existing, Translate::New(range)][usize::from(asked >> 3 & 3) % 3];
        let (commit, force) = (asked & 0x20 != 0, asked & 0x40 != 0);
        let request = Request { zone: u16::from(asked >> 7), commit, force, mark: None, translate };
        let Some(segment) = Segment::parse(is_ipv6, packet) else { continue };
        table.process(now, &segment, &request);
        let counters = table.counters();
        assert!(counters.connections <= CONNECTIONS_MAX as u64);
        assert_eq!(counters.committed, counters.connections + counters.expired + counters.evicted + counters.reopened);
        let (there, rest) = table.connections(now, 0, usize::MAX);
        assert!(rest.is_none() && there.len() as u64 <= counters.connections);
        let tuples = there.iter().flat_map(|it| [(it.zone, it.original), (it.zone, it.reply)]);
        let different: BTreeSet<String> = tuples.map(|tuple| format!("{tuple:?}")).collect();
        assert_eq!(different.len(), 2 * there.len(), "each tuple is one connection's");
    }
});

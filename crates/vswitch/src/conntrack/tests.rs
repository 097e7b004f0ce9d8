//! Connections against a plain list of them, and by example.

use std::net::Ipv4Addr;

use machine::{Rebase, Span, Time};
use proptest::prelude::*;
use wire::{protocol, tcp_flags};

use super::ct_state::{DESTINATION_NAT, ESTABLISHED, INVALID, NEW, RELATED, REPLY, SOURCE_NAT, TRACKED};
use super::lifetime::Lifetime;
use super::tcp::{self, Step};
use super::*;

const SYN: u8 = tcp_flags::SYN;
const ACK: u8 = tcp_flags::ACK;
const FIN: u8 = tcp_flags::FIN;
const RST: u8 = tcp_flags::RST;

/// Looks, keeps nothing.
const LOOK: Request = Request { zone: 0, commit: false, force: false, mark: None, translate: Translate::Existing };
const COMMIT: Request = Request { commit: true, ..LOOK };

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(1_000 + s)
}

fn host(id: u32) -> u128 {
    Ipv4Addr::new(10, 0, 0, id as u8).to_bits().into()
}

fn tuple(protocol: u8, (src, src_port): (u32, u16), (dst, dst_port): (u32, u16)) -> Tuple {
    Tuple { src: host(src), dst: host(dst), src_port, dst_port, protocol, is_ipv6: false }
}

fn tcp(from: (u32, u16), to: (u32, u16), tcp_flags: u8) -> Segment {
    Segment { tuple: tuple(protocol::TCP, from, to), tcp_flags, quoted: None, numbers: None }
}

fn udp(from: (u32, u16), to: (u32, u16)) -> Segment {
    Segment { tuple: tuple(protocol::UDP, from, to), tcp_flags: 0, quoted: None, numbers: None }
}

fn source(first: u32, last: u32, ports: Option<(u16, u16)>) -> Translate {
    let addresses = (host(first), host(last));
    Translate::New(NatRange { end: TranslatedEnd::Source, is_ipv6: false, addresses, ports })
}

fn shown(table: &Conntrack, now: Time) -> Vec<String> {
    table.connections(now, 0, usize::MAX).0.iter().map(ToString::to_string).collect()
}

#[test]
fn a_connection_goes_through_the_states_of_tcp() {
    let mut table = Conntrack::new(1, 10);
    let (a, b) = ((1, 4_000), (2, 80));
    let mut said = Vec::new();
    for (from, to, flags, request) in [
        (a, b, SYN, LOOK),
        (a, b, SYN, COMMIT),
        (a, b, SYN, LOOK),
        (b, a, SYN | ACK, LOOK),
        (a, b, ACK, LOOK),
        (b, a, ACK | FIN, LOOK),
        (a, b, ACK, LOOK),
        (a, b, ACK | FIN, LOOK),
        (b, a, ACK, LOOK),
        // It begins anew, and nobody has kept the new one yet.
        (a, b, SYN, LOOK),
    ] {
        let Tracked { state, .. } = table.process(at(0), &tcp(from, to, flags), &request);
        let states = table.connections(at(0), 0, 10).0;
        said.push((state & !TRACKED, states.first().and_then(|it| it.tcp).map_or(String::new(), |it| it.to_string())));
    }
    let expected = [
        (NEW, ""),
        (NEW, "SYN_SENT"),
        (NEW, "SYN_SENT"),
        (ESTABLISHED | REPLY, "SYN_RECV"),
        (ESTABLISHED, "ESTABLISHED"),
        (ESTABLISHED | REPLY, "FIN_WAIT"),
        (ESTABLISHED, "CLOSE_WAIT"),
        (ESTABLISHED, "LAST_ACK"),
        (ESTABLISHED | REPLY, "TIME_WAIT"),
        (NEW, ""),
    ];
    assert_eq!(said, expected.map(|(state, tcp)| (state, tcp.to_owned())));
}

#[test]
fn what_belongs_to_no_connection_is_invalid() {
    let mut table = Conntrack::new(1, 10);
    let state = |table: &mut Conntrack, segment: &Segment| table.process(at(0), segment, &COMMIT).state;
    for flags in [SYN | ACK, RST, FIN | ACK, 0, SYN | FIN, RST | SYN] {
        assert_eq!(state(&mut table, &tcp((1, 1), (2, 2), flags)), INVALID | TRACKED, "{flags:#x}");
    }
    let echo_reply =
        Segment { tuple: tuple(protocol::ICMP, (1, 7), (2, 0)), tcp_flags: 0, quoted: None, numbers: None };
    assert_eq!(state(&mut table, &echo_reply), INVALID | TRACKED);
    // To itself, from itself.
    assert_eq!(state(&mut table, &udp((1, 1), (1, 1))), INVALID | TRACKED);
    assert_eq!(table.counters().no_tuple, 1);
    assert_eq!(table.counters().connections, 0);
    // One whose beginning nobody saw is taken as it is.
    assert_eq!(state(&mut table, &tcp((1, 1), (2, 2), ACK)), NEW | TRACKED);
    assert_eq!(state(&mut table, &tcp((2, 2), (1, 1), ACK)), ESTABLISHED | REPLY | TRACKED);
}

#[test]
fn a_range_of_which_nothing_is_left_is_not_searched_again_at_once() {
    let mut table = Conntrack::new(1, 10);
    let request = Request { translate: source(9, 9, Some((5_000, 5_001))), ..COMMIT };
    let server = (2, 53);
    for client in [1, 4] {
        assert!(table.process(at(0), &udp((client, 4_000), server), &request).is_kept);
    }
    // Both ports are free again after 30 s.
    let refused = |table: &mut Conntrack, now, server| table.process(now, &udp((3, 4_000), server), &request).refusal;
    let ms = |ms: u64| at(30) + Span::from_ms(ms);
    let before = Time::from_ps(at(30).as_ps() - Span::from_ms(5).as_ps());
    assert_eq!(refused(&mut table, before, server), Some(Refusal::NoTuple));
    assert_eq!(refused(&mut table, ms(1), server), Some(Refusal::NoTuple), "nobody has looked");
    assert_eq!(refused(&mut table, ms(1), (2, 54)), None, "another port is another matter");
    assert_eq!(refused(&mut table, ms(6), server), None);
    assert_eq!(table.counters().no_tuple, 2);
}

#[test]
fn who_begins_many_connections_takes_away_nothing_of_the_others_part() {
    let mut table = Conntrack::new(1, 10);
    let ping = |id| {
        let tuple = Tuple { src_port: id, dst_port: 0x800, ..tuple(protocol::ICMP, (1, 0), (2, 0)) };
        Segment { tuple, tcp_flags: 0, quoted: None, numbers: None }
    };
    let begin = |table: &mut Conntrack, id, end| {
        table.begin_for(end);
        assert!(table.process(at(0), &ping(id), &COMMIT).is_kept);
    };
    let has = |table: &Conntrack, ids: std::ops::Range<u16>| {
        let is_known = |id: &u16| table.peek(at(0), &ping(*id), &LOOK).is_kept;
        ids.filter(is_known).count()
    };
    // One alone may have all.
    for id in 0..20 {
        begin(&mut table, id, 0);
    }
    assert_eq!(has(&table, 0..20), 10);
    // The other one gets its half, and keeps it.
    for id in 100..103 {
        begin(&mut table, id, 1);
    }
    for id in 20..60 {
        begin(&mut table, id, 0);
    }
    assert_eq!((has(&table, 100..103), has(&table, 0..60)), (3, 7));
    for id in 103..160 {
        begin(&mut table, id, 1);
    }
    assert_eq!((has(&table, 100..160), has(&table, 0..60)), (5, 5));
    assert_eq!(table.counters().connections, 10);
}

/// One end with connections in use everywhere let the other one begin none.
#[test]
fn an_end_gives_back_what_it_has_beyond_its_half() {
    let mut table = Conntrack::new(1, 10);
    let answered = |table: &mut Conntrack, now, id: u16, end| {
        table.begin_for(end);
        let (client, server) = ((1, id), (2, 53));
        let begins = table.process(at(now), &udp(client, server), &COMMIT);
        begins.refusal.or_else(|| table.process(at(now), &udp(server, client), &LOOK).refusal)
    };
    for id in 0..10 {
        assert_eq!(answered(&mut table, 0, id, 0), None);
    }
    // These go on, and the others have had nothing since.
    for id in 0..2 {
        assert_eq!(answered(&mut table, 1, id, 0), None);
    }
    for id in 100..105 {
        assert_eq!(answered(&mut table, 2, id, 1), None, "{id}");
    }
    assert_eq!(answered(&mut table, 2, 105, 1), Some(Refusal::NoRoom));
    assert_eq!(answered(&mut table, 2, 10, 0), Some(Refusal::NoRoom));
    let has = |id: &u16| table.peek(at(2), &udp((1, *id), (2, 53)), &LOOK).is_kept;
    let kept: Vec<u16> = (0..200).filter(has).collect();
    assert_eq!(kept, [0, 1, 7, 8, 9, 100, 101, 102, 103, 104]);
}

#[test]
fn a_table_that_is_full_of_connections_in_use_says_so() {
    let mut table = Conntrack::new(1, 1);
    for (from, to) in [((1, 1), (2, 2)), ((2, 2), (1, 1))] {
        assert!(table.process(at(0), &udp(from, to), &COMMIT).is_kept);
    }
    assert_eq!(table.process(at(0), &udp((3, 3), (4, 4)), &COMMIT).refusal, Some(Refusal::NoRoom));
}

#[test]
fn addresses_are_translated_and_back() {
    let mut table = Conntrack::new(1, 10);
    let request = Request { translate: source(9, 9, Some((5_000, 5_001))), ..COMMIT };
    let (client, server, outside) = ((1, 4_000), (2, 80), (9, 5_000));
    let begun = table.process(at(0), &tcp(client, server, SYN), &request);
    assert_eq!(begun.state, NEW | TRACKED | SOURCE_NAT);
    let port = begun.tuple.unwrap().src_port;
    let answer = table.process(at(0), &tcp(server, (9, port), SYN | ACK), &LOOK);
    assert_eq!(answer.state, ESTABLISHED | REPLY | TRACKED | DESTINATION_NAT);
    assert_eq!(answer.tuple, Some(tuple(protocol::TCP, server, client)));
    // Another one gets the other port, and a third one none.
    let second = table.process(at(0), &tcp((3, 4_000), server, SYN), &request).tuple.unwrap();
    assert_eq!((second.src, second.src_port), (host(outside.0), if port == 5_000 { 5_001 } else { 5_000 }));
    assert_eq!(table.process(at(0), &tcp((4, 4_000), server, SYN), &request).state, INVALID | TRACKED);
    assert_eq!(table.counters().no_tuple, 1);
    assert_eq!(
        shown(&table, at(0))[0],
        format!(
            "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=4000,dport=80),reply=(src=10.0.0.2,dst=10.0.0.9,sport=80,dport={port}),protoinfo=(state=SYN_RECV)"
        )
    );
    // Without `nat`, the same packet stays as it is.
    let plain = Request { translate: Translate::No, ..LOOK };
    let untouched = table.process(at(0), &tcp(client, server, ACK), &plain);
    assert_eq!((untouched.state, untouched.tuple), (ESTABLISHED | TRACKED, None));
    // Whoever has a port that is free keeps it.
    let kept = Request { translate: source(9, 9, None), ..COMMIT };
    assert_eq!(table.process(at(0), &udp(client, server), &kept).tuple.unwrap().src_port, 4_000);
    assert_eq!(table.process(at(0), &udp((3, 4_000), server), &kept).tuple.unwrap().src_port, 4_001);
}

#[test]
fn an_icmp_error_belongs_to_the_connection_that_it_is_about() {
    let mut table = Conntrack::new(1, 10);
    let request = Request { translate: source(9, 9, None), ..COMMIT };
    let (client, server) = ((1, 4_000), (2, 53));
    table.process(at(0), &udp(client, server), &request);
    // A router says to the translated address that the server is not there.
    let error = Segment {
        tuple: tuple(protocol::ICMP, (7, 0), (9, 0x0301)),
        tcp_flags: 0,
        quoted: Some(tuple(protocol::UDP, (9, 4_000), server)),
        numbers: None,
    };
    let related = table.process(at(0), &error, &LOOK);
    assert_eq!(related.state, RELATED | REPLY | TRACKED | DESTINATION_NAT);
    assert_eq!(related.tuple, Some(tuple(protocol::ICMP, (7, 0), (1, 0x0301))));
    assert_eq!(related.quoted, Some(tuple(protocol::UDP, client, server)));
    let unknown = Segment { quoted: Some(tuple(protocol::UDP, (9, 4_001), server)), ..error };
    assert_eq!(table.process(at(0), &unknown, &LOOK).state, INVALID | TRACKED);
}

#[test]
fn connections_end_when_nothing_comes() {
    let mut table = Conntrack::new(1, 10);
    table.process(at(0), &udp((1, 1), (2, 2)), &COMMIT);
    assert_eq!(table.process(at(29), &udp((1, 1), (2, 2)), &LOOK).state, NEW | TRACKED);
    assert_eq!(table.process(at(58), &udp((2, 2), (1, 1)), &LOOK).state, ESTABLISHED | REPLY | TRACKED);
    // It is answered: it lives for two minutes.
    assert_eq!(shown(&table, at(177)).len(), 1);
    table.rebase(Span::from_secs(100));
    assert_eq!(table.process(at(77), &udp((1, 1), (2, 2)), &LOOK).state, ESTABLISHED | TRACKED);
    assert_eq!(shown(&table, at(197)).len(), 0);
    assert_eq!(table.process(at(197), &udp((1, 1), (2, 2)), &LOOK).state, NEW | TRACKED);
    assert_eq!((table.counters().expired, table.counters().connections), (1, 0));
}

/// Answers to one that is over would come as those of a new one do.
#[test]
fn the_addresses_of_a_connection_that_is_over_are_free() {
    let mut table = Conntrack::new(1, 10);
    table.process(at(0), &udp((1, 1), (2, 2)), &Request { translate: source(9, 9, None), ..COMMIT });
    assert_eq!(table.process(at(29), &udp((9, 1), (2, 2)), &COMMIT).state, INVALID | TRACKED);
    assert_eq!(table.process(at(30), &udp((9, 1), (2, 2)), &COMMIT).state, NEW | TRACKED);
    let counters = table.counters();
    assert_eq!((counters.connections, counters.expired, counters.no_tuple), (1, 1, 1));
}

/// Whoever makes up addresses fills the table with what nobody answers: that makes room, and what is in use stays.
#[test]
fn what_nobody_answers_makes_room_first() {
    let mut table = Conntrack::new(1, 100);
    for port in 0..50 {
        table.process(at(0), &udp((1, port), (2, 53)), &COMMIT);
        table.process(at(0), &udp((2, 53), (1, port)), &LOOK);
    }
    for port in 0..10_000 {
        assert_eq!(table.process(at(1), &tcp((3, port), (2, 80), SYN), &COMMIT).state, NEW | TRACKED);
    }
    let counters = table.counters();
    assert_eq!((counters.connections, counters.evicted, counters.full), (100, 9_950, 0));
    for port in 0..50 {
        assert_eq!(table.process(at(2), &udp((1, port), (2, 53)), &LOOK).state, ESTABLISHED | TRACKED);
    }
    for port in 50..200 {
        table.process(at(2), &udp((1, port), (2, 53)), &COMMIT);
        table.process(at(2), &udp((2, 53), (1, port)), &LOOK);
    }
    let counters = table.counters();
    assert_eq!((counters.connections, counters.full), (100, 100), "all are in use");
    assert_eq!(table.process(at(122), &udp((1, 999), (2, 53)), &COMMIT).state, NEW | TRACKED);
    assert_eq!(table.counters().full, 100, "their time has come");
}

/// A table that is full of connections that are over keeps each that has just begun until it is answered, however many others begin meanwhile.
#[test]
fn what_is_over_makes_room_before_what_has_just_begun() {
    let mut table = Conntrack::new(1, 100);
    for port in 0..100 {
        let (a, b) = ((1, port), (2, 80));
        for (from, to, flags) in [(a, b, SYN), (b, a, SYN | ACK), (a, b, ACK), (a, b, FIN | ACK), (b, a, FIN | ACK)] {
            table.process(at(0), &tcp(from, to, flags), if from == a { &COMMIT } else { &LOOK });
        }
        table.process(at(0), &tcp(a, b, ACK), &LOOK);
    }
    assert_eq!(shown(&table, at(1)).iter().filter(|line| line.contains("state=TIME_WAIT")).count(), 100);
    for port in 0..100 {
        assert_eq!(table.process(at(1), &tcp((3, port), (2, 80), SYN), &COMMIT).state, NEW | TRACKED);
    }
    for port in 0..100 {
        let answer = table.process(at(2), &tcp((2, 80), (3, port), SYN | ACK), &LOOK);
        assert_eq!(answer.state, ESTABLISHED | REPLY | TRACKED, "{port}");
    }
    assert_eq!((table.counters().connections, table.counters().evicted), (100, 100));
}

#[test]
fn zones_marks_and_force() {
    let mut table = Conntrack::new(1, 10);
    let marked = Request { zone: 5, mark: Some((0x12, 0xff)), ..COMMIT };
    let (a, b) = ((1, 1), (2, 2));
    assert_eq!(table.process(at(0), &udp(a, b), &marked).mark, 0x12);
    assert_eq!(table.process(at(0), &udp(b, a), &LOOK).state, NEW | TRACKED, "another zone");
    let answer = table.process(at(0), &udp(b, a), &Request { zone: 5, ..LOOK });
    assert_eq!((answer.state, answer.mark), (ESTABLISHED | REPLY | TRACKED, 0x12));
    let more = Request { mark: Some((0x300, 0x300)), ..marked };
    assert_eq!(table.process(at(0), &udp(a, b), &more).mark, 0x312);
    assert_eq!(
        shown(&table, at(0)),
        [
            "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2),reply=(src=10.0.0.2,dst=10.0.0.1,sport=2,dport=1),zone=5,mark=786"
        ]
    );
    let forced = Request { force: true, mark: None, ..marked };
    assert_eq!(table.process(at(0), &udp(b, a), &forced).state, NEW | TRACKED);
    assert!(shown(&table, at(0))[0].starts_with("udp,orig=(src=10.0.0.2,"));
}

#[test]
fn connections_are_flushed_piece_by_piece_and_by_zone() {
    let mut table = Conntrack::new(1, 10).noting_removals();
    for n in 1..=6 {
        table.process(at(0), &udp((n, 1), (9, 2)), &Request { zone: n as u16 % 2, ..COMMIT });
    }
    let (mut flushed, mut from) = (Vec::new(), Some(0));
    while let Some(place) = from {
        let (gone, next) = table.flush(at(1), Some(1), place, 4);
        flushed.push(gone);
        from = next;
    }
    assert_eq!((flushed, table.take_removed().count()), (vec![2, 1], 3));
    assert!(shown(&table, at(1)).iter().all(|text| !text.contains("zone=1")) && table.counters().connections == 3);
    // A place that is free is not counted again; what has expired is gone, too.
    assert_eq!(table.flush(at(1), Some(1), 0, 10), (0, None));
    assert_eq!(table.flush(at(100_000), None, 0, 10), (0, None));
    assert_eq!((table.counters().connections, table.flush(at(1), None, 7, 10)), (0, (0, None)));
    // Room is there again.
    for n in 1..=10 {
        table.process(at(2), &udp((n, 1), (9, 2)), &COMMIT);
    }
    assert_eq!(table.flush(at(3), None, 0, 100), (10, None));
}

/// A connection in a plain list.
#[derive(Clone, Debug)]
struct Listed {
    original: Tuple,
    reply: Tuple,
    zone: u16,
    tcp: Option<TcpState>,
    is_replied: bool,
    expires_at: Time,
}

#[derive(Clone, Debug)]
struct Event {
    pass_s: u64,
    segment: Segment,
    zone: u16,
    commit: bool,
    /// Which of the translations.
    translate: usize,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let protocol = prop::sample::select(vec![protocol::TCP, protocol::TCP, protocol::UDP, protocol::ICMP]);
    let flags = prop::sample::select(vec![SYN, SYN | ACK, ACK, ACK | FIN, RST, RST | ACK, 0, SYN | FIN]);
    let ends = (1_u32..4, 1_u32..4, 0_u16..2, 0_u16..2, any::<bool>());
    let passes = prop::sample::select(vec![0, 0, 0, 1, 9, 31, 121]);
    let event = (passes, protocol, flags, ends, 0_u16..2, any::<bool>(), 0_usize..4);
    let event =
        event.prop_map(|(pass_s, protocol, flags, (src, dst, src_port, dst_port, asks), zone, commit, translate)| {
            let kind = if asks { 0x0800 } else { 0 };
            let tuple = match protocol {
                protocol::ICMP => tuple(protocol, (src, src_port), (dst, kind)),
                _ => tuple(protocol, (src, src_port), (dst, dst_port)),
            };
            let tcp_flags = if protocol == protocol::TCP { flags } else { 0 };
            Event {
                pass_s,
                segment: Segment { tuple, tcp_flags, quoted: None, numbers: None },
                zone,
                commit,
                translate,
            }
        });
    prop::collection::vec(event, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A table says of each packet what a search through a list of connections says; translations are free ones of their range.
    #[test]
    fn a_table_is_a_list_of_connections(events in events(), seed: u64) {
        let mut table = Conntrack::new(seed, 1_000);
        let mut list: Vec<Listed> = Vec::new();
        let mut now = at(0);
        let destination = NatRange { end: TranslatedEnd::Destination, is_ipv6: false, addresses: (host(1), host(3)), ports: Some((0, 1)) };
        let ways = [Translate::No, Translate::Existing, source(1, 2, Some((0, 2))), Translate::New(destination)];
        for Event { pass_s, segment, zone, commit, translate } in events {
            now += Span::from_secs(pass_s);
            list.retain(|it| it.expires_at > now);
            let request = Request { zone, commit, force: false, mark: None, translate: ways[translate] };
            let said = table.process(now, &segment, &request);
            let found = list.iter().position(|it| it.zone == zone && (it.original == segment.tuple || it.reply == segment.tuple));
            let mut is_new = true;
            if let Some(found) = found {
                let it = &mut list[found];
                let is_reply = it.original != segment.tuple;
                let step = it.tcp.map_or(Step::Stay, |state| state.step(is_reply, segment.tcp_flags));
                match step {
                    Step::Reopen => { list.remove(found); }
                    Step::Invalid => {
                        is_new = false;
                        prop_assert_eq!(said.state, INVALID | TRACKED);
                    }
                    Step::To(_) | Step::Stay => {
                        is_new = false;
                        if let Step::To(next) = step { it.tcp = Some(next); }
                        it.is_replied |= is_reply;
                        it.expires_at = now + Lifetime::of(&it.original, it.tcp, it.is_replied).timeout();
                        let state = if it.is_replied { ESTABLISHED } else { NEW } | if is_reply { REPLY } else { 0 } | TRACKED;
                        prop_assert_eq!(said.state & !(SOURCE_NAT | DESTINATION_NAT), state);
                        let target = if is_reply { it.original } else { it.reply }.reversed();
                        let becomes = said.tuple.unwrap_or(segment.tuple);
                        prop_assert!(translate == 0 && becomes == segment.tuple || translate > 0 && Some(becomes) == target);
                    }
                }
            }
            if is_new {
                let asks = segment.tuple.protocol != protocol::ICMP || segment.tuple.dst_port == 0x0800;
                let tcp = if segment.tuple.protocol == protocol::TCP { tcp::begin(segment.tcp_flags) } else { None };
                if !asks || segment.tuple.protocol == protocol::TCP && tcp.is_none() {
                    prop_assert_eq!(said.state, INVALID | TRACKED);
                    continue;
                }
                if !commit {
                    prop_assert_eq!(said, Tracked { state: NEW | TRACKED, ..Tracked::default() });
                    continue;
                }
                let target = said.tuple.unwrap_or(segment.tuple);
                let reply = target.reversed().unwrap();
                let clash = list.iter().any(|it| it.zone == zone && (it.original == reply || it.reply == reply)) || reply == segment.tuple;
                if said.state == INVALID | TRACKED {
                    prop_assert!(translate >= 2 || clash, "a tuple is free");
                    continue;
                }
                prop_assert!(!clash, "{:?} is another one's", reply);
                if let Translate::New(range) = ways[translate] {
                    let (address, port) = match range.end {
                        TranslatedEnd::Source => (target.src, target.src_port),
                        TranslatedEnd::Destination => (target.dst, target.dst_port),
                    };
                    prop_assert!((range.addresses.0..=range.addresses.1).contains(&address));
                    let (first, last) = range.ports.unwrap();
                    prop_assert!(segment.tuple.protocol == protocol::ICMP || (first..=last).contains(&port));
                }
                let lifetime = Lifetime::of(&segment.tuple, tcp, false);
                list.push(Listed { original: segment.tuple, reply, zone, tcp, is_replied: false, expires_at: now + lifetime.timeout() });
            }
            let mut there: Vec<_> = table.connections(now, 0, usize::MAX).0.iter().map(|it| (it.original, it.reply, it.zone, it.tcp.map(|it| it.to_string()), now + it.expires_in)).map(|it| format!("{it:?}")).collect();
            let mut wanted: Vec<_> = list.iter().map(|it| (it.original, it.reply, it.zone, it.tcp.map(|it| it.to_string()), it.expires_at)).map(|it| format!("{it:?}")).collect();
            there.sort();
            wanted.sort();
            prop_assert_eq!(there, wanted);
        }
    }

    /// Few places, so that connections make room for each other all the time: what is shown is what is counted, and no more than there may be.
    #[test]
    fn a_table_is_bounded(events in events(), capacity in 1_usize..6) {
        let mut table = Conntrack::new(3, capacity);
        let mut now = at(0);
        for Event { pass_s, segment, zone, translate, .. } in events {
            now += Span::from_secs(pass_s);
            let translate = if translate == 3 { source(1, 3, None) } else { Translate::Existing };
            table.process(now, &segment, &Request { zone, translate, ..COMMIT });
            let counters = table.counters();
            prop_assert!(counters.connections <= capacity as u64);
            prop_assert_eq!(counters.committed, counters.connections + counters.expired + counters.evicted + counters.reopened);
            prop_assert!(shown(&table, now).len() as u64 <= counters.connections);
        }
    }

    #[test]
    fn any_packet_is_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..120), is_ipv6: bool, kind in 0_usize..4) {
        if let Some(first) = bytes.first_mut() {
            *first = if is_ipv6 { 0x60 } else { 0x45 };
        }
        let length = bytes.len() as u16;
        if let Some(place) = bytes.get_mut(2..12).filter(|_| !is_ipv6) {
            place[..2].copy_from_slice(&length.to_be_bytes());
            place[4..6].fill(0);
            place[7] = [1, 6, 17, 132][kind];
        }
        if let Some(segment) = Segment::parse(is_ipv6, &bytes) {
            let mut table = Conntrack::new(1, 4);
            table.process(at(0), &segment, &COMMIT);
        }
    }
}

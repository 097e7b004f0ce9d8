//! What name servers answer to which messages.

use proptest::prelude::*;
use simple_dns::{OPCODE, RCODE};

use super::*;
use crate::names::{ClientSubnet, Query, QueryError};

fn www() -> Names {
    let mut east = near(site("east", 1, 1), &["10.1.0.0/16", "10.1.128.0/17"]);
    east.addresses.push(ip("fd00::1"));
    Names::new(
        vec![spec("www.example.net", vec![east, site("west", 2, 1)]), spec("a.b.Example.org", vec![site("one", 3, 1)])],
        7,
    )
}

fn asked(names: &mut Names, message: &[u8]) -> Vec<u8> {
    answer(names, "10.0.0.1", message, &[UP; 2]).expect("an answer")
}

/// The code of the answer to a message, how many records it has as answers and authorities, and whether it is authoritative.
fn outcome(names: &mut Names, message: &[u8]) -> (RCODE, usize, usize, bool) {
    let bytes = asked(names, message);
    let packet = Packet::parse(&bytes).expect("it is a message");
    assert_eq!((packet.id(), packet.has_flags(PacketFlag::RESPONSE)), (7, true));
    assert!(!packet.has_flags(PacketFlag::RECURSION_AVAILABLE) && !packet.has_flags(PacketFlag::TRUNCATION));
    let is_authoritative = packet.has_flags(PacketFlag::AUTHORITATIVE_ANSWER);
    (packet.rcode(), packet.answers.len(), packet.name_servers.len(), is_authoritative)
}

#[test]
fn a_query_has_the_answer_that_its_name_and_type_have() {
    let mut names = www();
    for (name, record, expected) in [
        ("www.example.net", TYPE::A, (RCODE::NoError, 1, 0, true)),
        ("WWW.eXample.NET", TYPE::AAAA, (RCODE::NoError, 1, 0, true)),
        ("www.example.net", TYPE::MX, (RCODE::NoError, 0, 1, true)),
        ("www.example.net", TYPE::SOA, (RCODE::NoError, 1, 0, true)),
        ("a.b.example.org", TYPE::AAAA, (RCODE::NoError, 0, 1, true)),
        ("x.www.example.net", TYPE::A, (RCODE::NameError, 0, 1, true)),
        ("example.net", TYPE::A, (RCODE::Refused, 0, 0, false)),
        ("xwww.example.net", TYPE::A, (RCODE::Refused, 0, 0, false)),
        ("www.example.org", TYPE::A, (RCODE::Refused, 0, 0, false)),
        (".", TYPE::A, (RCODE::Refused, 0, 0, false)),
    ] {
        assert_eq!(outcome(&mut names, &bytes(&query(name, record))), expected, "{name} {record:?}");
    }
    let mut any = query("www.example.net", TYPE::A);
    any.questions[0].qtype = QTYPE::ANY;
    assert_eq!(outcome(&mut names, &bytes(&any)), (RCODE::NoError, 1, 0, true));
    any.questions[0].qtype = QTYPE::AXFR;
    assert_eq!(outcome(&mut names, &bytes(&any)), (RCODE::Refused, 0, 0, false));
    any.questions[0].qclass = QCLASS::CLASS(CLASS::CH);
    assert_eq!(outcome(&mut names, &bytes(&any)), (RCODE::Refused, 0, 0, false));
    let counters = names.counters();
    assert_eq!((counters.messages, counters.refused, counters.name_error), (13, 6, 1));
}

/// The question comes back as it was written, with the letters' cases that resolvers choose at random.
#[test]
fn answers_repeat_the_question_and_say_how_long_they_hold() {
    let mut names = www();
    let bytes = asked(&mut names, &bytes(&query("wWw.ExAmPlE.nEt", TYPE::A)));
    let packet = Packet::parse(&bytes).expect("it is a message");
    assert_eq!(packet.questions[0].qname.to_string(), "wWw.ExAmPlE.nEt");
    assert!(packet.has_flags(PacketFlag::RECURSION_DESIRED) && packet.opt().is_none());
    let record = &packet.answers[0];
    assert_eq!((record.name.to_string().as_str(), record.ttl), ("wWw.ExAmPlE.nEt", 5));
    assert_eq!(addresses(&bytes), [ip("10.1.0.1")]);
}

#[test]
fn negative_answers_have_the_start_of_authority() {
    let mut names = www();
    for (name, code) in [("www.example.net", RCODE::NoError), ("x.y.www.example.net", RCODE::NameError)] {
        let bytes = asked(&mut names, &bytes(&query(name, TYPE::TXT)));
        let packet = Packet::parse(&bytes).expect("it is a message");
        let [record] = &packet.name_servers[..] else { panic!("one authority") };
        let RData::SOA(authority) = &record.rdata else { panic!("{record:?}") };
        assert_eq!((packet.rcode(), record.name.to_string().as_str()), (code, "www.example.net"));
        assert_eq!(authority.rname.to_string(), "hostmaster.www.example.net");
        assert_eq!((record.ttl, authority.minimum), (5, 5));
    }
}

/// A name without records that leads to one with some is there.
#[test]
fn what_lies_between_two_names_is_there() {
    let sites = || vec![site("a", 1, 1)];
    let mut names = Names::new(vec![spec("net", sites()), spec("a.b.net", sites())], 7);
    assert_eq!(outcome(&mut names, &bytes(&query("b.net", TYPE::A))), (RCODE::NoError, 0, 1, true));
    assert_eq!(outcome(&mut names, &bytes(&query("c.net", TYPE::A))), (RCODE::NameError, 0, 1, true));
    assert_eq!(outcome(&mut names, &bytes(&query("a.b.net", TYPE::A))), (RCODE::NoError, 1, 0, true));
}

#[test]
fn a_name_is_answered_where_it_is_asked_for() {
    let mut names = www();
    let message = bytes(&query("www.example.net", TYPE::A));
    let elsewhere =
        names.answer(Time::ZERO, (ip("10.0.0.54"), ip("10.0.0.1")), &message, |_| unreachable!("nobody is asked"));
    assert_eq!(Packet::parse(&elsewhere.expect("an answer")).expect("a message").rcode(), RCODE::Refused);
}

#[test]
fn what_is_no_query_is_refused_or_ignored() {
    let mut names = www();
    let good = bytes(&query("www.example.net", TYPE::A));
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let code = |names: &mut Names, message: &[u8]| {
        answer(names, "10.0.0.1", message, &[UP; 2]).map(|answer| {
            assert!(answer.len() >= 12 && answer[2] & 0x80 != 0 && answer[..2] == message[..2]);
            answer[3] & 0xf
        })
    };
    // Responses are not answered, and neither is what is shorter than a header.
    assert_eq!(code(&mut names, &with(2, 0x81)), None);
    assert_eq!(code(&mut names, &good[..11]), None);
    // Other operations.
    for opcode in 1..16 {
        assert_eq!(code(&mut names, &with(2, opcode << 3)), Some(4), "{opcode}");
    }
    // Several questions, or none; answers.
    for (at, count) in [(5, 0), (5, 2), (7, 1), (9, 1), (11, 1)] {
        assert_eq!(code(&mut names, &with(at, count)), Some(1), "{at} {count}");
    }
    // A name that is a pointer, to itself or elsewhere; one that goes on.
    for first in [0xc0, 0x80, 0x40, 0x3f] {
        assert_eq!(code(&mut names, &with(12, first)), Some(1), "{first}");
    }
    // What is left out, and what is too much.
    for length in 12..good.len() {
        assert_eq!(code(&mut names, &good[..length]), Some(1), "{length}");
    }
    assert_eq!(code(&mut names, &[&good[..], &[0]].concat()), Some(1));
    let counters = names.counters();
    assert_eq!((counters.ignored, counters.not_implemented), (2, 15));
    assert_eq!(counters.malformed, 5 + 4 + (good.len() as u64 - 12) + 1);
}

#[test]
fn extensions_are_answered_and_others_versions_refused() {
    let mut names = www();
    let packet = with_edns(query("www.example.net", TYPE::A), 4_096, &[(10, vec![1; 8])]);
    let answer = asked(&mut names, &bytes(&packet));
    let parsed = Packet::parse(&answer).expect("it is a message");
    let opt = parsed.opt().expect("it knows extensions");
    assert_eq!((opt.version, opt.udp_packet_size, opt.opt_codes.len()), (0, 1_232, 0));
    // The other implementation has version and upper bits of the code at the wrong bytes (RFC 6891, 6.1.3): they are written and read here.
    let good = bytes(&with_edns(query("www.example.net", TYPE::A), 512, &[]));
    let opt = &good[good.len() - 11..];
    let mut other = good.clone();
    other[good.len() - 5] = 1;
    let answer = asked(&mut names, &other);
    assert_eq!((answer[3] & 0xf, &answer[6..12]), (0, &[0, 0, 0, 0, 0, 1][..]));
    assert_eq!(answer[answer.len() - 11..], [0, 0, 41, 0x04, 0xd0, 1, 0, 0, 0, 0, 0]);
    // Two of them are too many, and one of another name is none.
    let mut twice = [&good[..], opt].concat();
    twice[11] = 2;
    let named = [&good[..good.len() - 11], &[1, b'x'], opt].concat();
    for message in [twice, named] {
        assert_eq!(asked(&mut names, &message)[3] & 0xf, 1);
    }
}

#[test]
fn the_clients_subnet_decides_if_a_resolver_passes_it_on() {
    let mut names = www();
    let mut seen = |option: (u16, Vec<u8>)| {
        let message = bytes(&with_edns(query("www.example.net", TYPE::A), 1_232, &[option]));
        let answer = answer(&mut names, "10.1.0.7", &message, &[UP; 2]).expect("an answer");
        let packet = Packet::parse(&answer).expect("it is a message");
        let option = packet.opt().and_then(|opt| opt.opt_codes.first()).map(|option| option.data.to_vec());
        (packet.rcode(), addresses(&answer), option.map(|option| (option[2], option[3], option[4..].to_vec())))
    };
    let east = || vec![ip("10.1.0.1")];
    // The scope has all that decides: of the prefixes that the client is in the longest, and of others up to the first bit that differs.
    assert_eq!(seen(subnet("10.1.200.0", 24)), (RCODE::NoError, east(), Some((24, 17, vec![10, 1, 200]))));
    assert_eq!(seen(subnet("10.1.7.0", 24)), (RCODE::NoError, east(), Some((24, 17, vec![10, 1, 7]))));
    let (code, _, option) = seen(subnet("10.2.0.0", 16));
    assert_eq!((code, option), (RCODE::NoError, Some((16, 15, vec![10, 2]))));
    let (code, _, option) = seen(subnet("192.168.0.0", 16));
    assert_eq!((code, option), (RCODE::NoError, Some((16, 1, vec![192, 168]))));
    // Of IPv6 nothing decides. Who wants to be known by no subnet is known by his resolver's address.
    let (code, _, option) = seen(subnet("fd00:7::", 32));
    assert_eq!((code, option), (RCODE::NoError, Some((32, 0, vec![0xfd, 0, 0, 7]))));
    assert_eq!(seen(subnet("0.0.0.0", 0)), (RCODE::NoError, east(), Some((0, 0, vec![]))));
}

#[test]
fn a_malformed_subnet_is_an_error() {
    let mut names = www();
    for value in [
        vec![],
        vec![0, 1, 24],
        vec![0, 3, 0, 0],
        vec![0, 1, 33, 0, 1, 2, 3, 4, 5],
        vec![0, 2, 129, 0],
        vec![0, 1, 24, 0, 10, 1],
        vec![0, 1, 24, 0, 10, 1, 2, 3],
        vec![0, 1, 23, 0, 10, 1, 1],
        vec![0, 1, 24, 8, 10, 1, 2],
    ] {
        let message = bytes(&with_edns(query("www.example.net", TYPE::A), 512, &[(8, value.clone())]));
        assert_eq!(asked(&mut names, &message)[3] & 0xf, 1, "{value:?}");
    }
    let twice = [subnet("10.1.0.0", 16), subnet("10.1.0.0", 16)];
    let message = bytes(&with_edns(query("www.example.net", TYPE::A), 512, &twice));
    assert_eq!(asked(&mut names, &message)[3] & 0xf, 1);
}

#[test]
fn answers_are_no_longer_than_who_asks_takes_them() {
    let many =
        SiteSpec { addresses: (0..200).map(|last| IpAddr::from([10, 2, 0, last])).collect(), ..site("many", 1, 1) };
    let mut names = names(vec![many]);
    for (size_max, limit, expected) in
        [(None, 512, 29), (Some(100), 512, 29), (Some(700), 700, 40), (Some(9_000), 1_232, 73)]
    {
        let plain = query("www.example.net", TYPE::A);
        let packet = match size_max {
            Some(size_max) => with_edns(plain, size_max, &[]),
            None => plain,
        };
        let answer = answer(&mut names, "10.0.0.1", &bytes(&packet), &[UP]).expect("an answer");
        let parsed = Packet::parse(&answer).expect("it is a message");
        assert!(answer.len() <= limit && !parsed.has_flags(PacketFlag::TRUNCATION), "{size_max:?} {}", answer.len());
        assert!(parsed.answers.len().abs_diff(expected) <= 1, "{size_max:?} {}", parsed.answers.len());
    }
    assert_eq!(names.counters().truncated, 4);
}

#[test]
fn names_are_those_of_dns() {
    for (text, expected) in [
        ("www.example.net", Some("www.example.net")),
        ("WWW.Example.net.", Some("www.example.net")),
        ("a", Some("a")),
        ("_x-1.y", Some("_x-1.y")),
        ("", None),
        (".", None),
        ("a..b", None),
        ("a b", None),
        ("b\u{fc}cher.example", None),
        ("a".repeat(64).as_str(), None),
        ("abc.".repeat(64).as_str(), None),
        ("abc.".repeat(63).as_str(), Some("abc.".repeat(63).trim_end_matches('.'))),
    ] {
        assert_eq!(WireName::parse(text).map(|name| name.to_string()).as_deref(), expected, "{text}");
    }
}

/// Type and class of the question of a message, if it has one.
fn question_type(message: &[u8]) -> Option<(u16, u16)> {
    let mut rest = message.get(12..).filter(|_| message[4..6] != [0, 0])?;
    while let [length, after @ ..] = rest
        && *length > 0
    {
        rest = after.get(usize::from(*length)..)?;
    }
    let [0, a, b, c, d, ..] = rest else { return None };
    Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes, what goes out is a response that another implementation reads, with the number of the message and no longer than allowed.
    #[test]
    fn any_message_is_answered_by_a_message(
        mut message in proptest::collection::vec(any::<u8>(), 0..80),
        is_near_a_query in any::<bool>(),
        changed in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        if is_near_a_query {
            message = bytes(&with_edns(query("www.example.net", TYPE::A), 1_232, &[subnet("10.1.7.0", 24)]));
            for (at, value) in changed {
                let at = at.index(message.len());
                message[at] = value;
            }
        }
        let mut names = www();
        if let Some(answer) = answer(&mut names, "10.0.0.1", &message, &[UP; 2]) {
            prop_assert_eq!(&answer[..2], &message[..2]);
            prop_assert!(answer[2] & 0x80 != 0 && answer.len() <= 1_232);
            // It does not know all types of records that may be asked for; answers repeat the question.
            let knows_type = question_type(&answer).is_none_or(|(record, class)| {
                QTYPE::try_from(record).is_ok() && QCLASS::try_from(class & 0x7fff).is_ok()
            });
            let knows_opcode = message[2] & 0x78 == 0;
            if knows_type && knows_opcode {
                prop_assert!(Packet::parse(&answer).is_ok(), "{:?}", answer);
            }
        } else {
            prop_assert!(message.len() < 12 || message[2] & 0x80 != 0);
        }
    }

    /// What another implementation writes is read as it was meant.
    #[test]
    fn queries_are_read_as_they_were_written(address in any::<u32>(), prefix in 1u8..=32, size_max in any::<u16>()) {
        let first = address & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        let first = IpAddr::V4(first.into());
        let packet = with_edns(query("a.example", TYPE::AAAA), size_max, &[subnet(&first.to_string(), prefix)]);
        let query = Query::parse(&bytes(&packet)).expect("it is a query");
        let edns = query.edns.expect("it has extensions");
        prop_assert_eq!((query.id, query.name.to_string(), query.record), (7, "a.example".to_owned(), 28));
        prop_assert_eq!((edns.size_max, edns.client), (size_max, Some(ClientSubnet { address: first, prefix })));
    }
}

#[test]
fn errors_name_what_they_are_about() {
    let mut packet = query("a.example", TYPE::A);
    *packet.opcode_mut() = OPCODE::Update;
    assert!(matches!(Query::parse(&bytes(&packet)), Err(QueryError::NotImplemented { id: 7, .. })));
}

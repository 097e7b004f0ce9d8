//! Prefixes of clients get so many answers a second.

use super::*;

/// How many of so many queries of a client are answered at a time.
fn answered(names: &mut Names, ms: u64, client: &str, count: usize) -> usize {
    let now = Time::ZERO + Span::from_ms(ms);
    let message = bytes(&query("www.example.net", TYPE::A));
    (0..count).filter(|_| names.answer(now, (ip(SERVER), ip(client)), &message, |_| vec![UP]).is_some()).count()
}

fn limited(answers_max: u32) -> Names {
    Names::new(vec![NameSpec { answers_max, ..spec("www.example.net", vec![site("all", 1, 1)]) }], 7)
}

#[test]
fn a_prefix_gets_so_many_answers_a_second() {
    let mut names = limited(10);
    assert_eq!(answered(&mut names, 0, "192.0.2.1", 30), 10);
    assert_eq!(names.counters().rate_limited, 20);
    // It is of 24 bits with IPv4, of 56 with IPv6.
    assert_eq!(answered(&mut names, 0, "192.0.2.255", 30), 0);
    assert_eq!(answered(&mut names, 0, "192.0.3.1", 30), 10);
    assert_eq!(answered(&mut names, 0, "2001:db8:0:1ff::1", 30), 10);
    assert_eq!(answered(&mut names, 0, "2001:db8:0:100::1", 30), 0);
    assert_eq!(answered(&mut names, 0, "2001:db8:0:200::1", 30), 10);
    // The next ones come one by one.
    assert_eq!(answered(&mut names, 300, "192.0.2.7", 30), 3);
    assert_eq!(answered(&mut names, 10_000, "192.0.2.7", 30), 10);
    assert_eq!(answered(&mut limited(0), 0, "192.0.2.1", 5_000), 5_000);
}

/// What is refused, and what is malformed, is answered as well, and counts; what is no query is never answered.
#[test]
fn all_that_is_answered_counts() {
    let mut names = limited(10);
    let ends = (ip(SERVER), ip("192.0.2.1"));
    let mut send = |message: &[u8]| names.answer(Time::ZERO, ends, message, |_| vec![UP]).is_some();
    let other = bytes(&query("example.org", TYPE::A));
    assert_eq!((0..6).filter(|_| send(&other)).count(), 6);
    assert_eq!((0..6).filter(|_| send(&other[..14])).count(), 4);
    let mut response = other.clone();
    response[2] |= 0x80;
    assert!(!send(&response));
    let counters = names.counters();
    assert_eq!((counters.refused, counters.malformed, counters.rate_limited, counters.ignored), (6, 4, 2, 1));
}

/// Of names that are asked for at one address the most counts, at another one that of another name.
#[test]
fn a_limit_is_that_of_the_address() {
    let named = |name: &str, address: &str, answers_max| NameSpec {
        asked_at: vec![ip(address)],
        answers_max,
        ..spec(name, vec![site("all", 1, 1)])
    };
    let specs = [named("a.net", SERVER, 5), named("b.net", SERVER, 20), named("c.net", "10.0.0.54", 0)];
    let mut names = Names::new(specs.to_vec(), 7);
    let message = bytes(&query("example.org", TYPE::A));
    let mut count = |address: &str| {
        let ends = (ip(address), ip("192.0.2.1"));
        (0..100).filter(|_| names.answer(Time::ZERO, ends, &message, |_| vec![UP]).is_some()).count()
    };
    assert_eq!([count(SERVER), count("10.0.0.54")], [20, 100]);
}

/// A flood from many prefixes takes no more room, and gives one that asks too much nothing back.
#[test]
fn made_up_clients_do_not_help_one_that_floods() {
    let mut names = limited(10);
    assert_eq!(answered(&mut names, 0, "192.0.2.1", 30), 10);
    for client in 0..20_000_u32 {
        let client = std::net::Ipv4Addr::from_bits(0x0a00_0000 + (client << 8));
        assert_eq!(answered(&mut names, 100, &client.to_string(), 1), 1);
    }
    assert!(answered(&mut names, 100, "192.0.2.1", 30) <= 1);
}

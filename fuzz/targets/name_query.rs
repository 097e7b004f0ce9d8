//! What comes to name servers: any bytes are answered by a response with their number and no longer than it may be, or by nothing.
#![no_main]

use std::net::IpAddr;

use balance::AddressRange;
use balance::names::{NameSpec, Names, Query, SiteSpec, SiteState, WireName};
use libfuzzer_sys::fuzz_target;
use machine::Time;

fn names() -> Names {
    let site = |name: &str, count: u8, clients: &[&str]| SiteSpec {
        name: name.to_owned(),
        addresses: (0..count).map(|last| IpAddr::from([10, 1, 0, last])).chain(["fd00::1".parse().unwrap()]).collect(),
        weight: 1,
        is_backup: false,
        clients: clients.iter().filter_map(|text| AddressRange::parse(text)).collect(),
    };
    let spec = |name: &str, sites| NameSpec {
        name: WireName::parse(name).unwrap(),
        asked_at: vec![IpAddr::from([10, 0, 0, 53])],
        ttl_s: 5,
        shed_from_percent: 80,
        answers_max: 2,
        sites,
    };
    let few = vec![site("east", 1, &["10.1.0.0/16", "fd00::/16"]), site("west", 2, &[])];
    Names::new(vec![spec("www.example", few), spec("a.b", vec![site("many", 100, &[])])], 7)
}

fuzz_target!(|bytes: &[u8]| {
    let mut names = names();
    let state = SiteState { servers: 1, drained: 0, healthy: 1, load_percent: Some(90) };
    let ends = (IpAddr::from([10, 0, 0, 53]), IpAddr::from([10, 0, 0, 1]));
    let answer = names.answer(Time::ZERO, ends, bytes, |_| vec![state; 2]);
    let query = Query::parse(bytes);
    let counters = names.counters();
    assert_eq!(counters.messages, 1);
    match &answer {
        Some(answer) => {
            assert!(answer.len() >= 12 && answer[..2] == bytes[..2] && answer[2] & 0x80 != 0);
            let limit = match &query {
                Ok(query) if query.edns.is_some() => 1_232,
                _ => 512,
            };
            assert!(answer.len() <= limit, "{}", answer.len());
            // It would not be answered again.
            assert!(names.answer(Time::ZERO, ends, answer, |_| vec![state; 2]).is_none());
        }
        None => assert_eq!(counters.ignored, 1),
    }
    if let Ok(query) = query {
        // A name that can be written is read as it was written.
        let text = query.name.to_string();
        assert!(WireName::parse(&text).is_none_or(|name| name == query.name));
    }
});

//! The rules by which sites are chosen, and what name servers answer. Another implementation of DNS writes the queries and reads the answers.

mod limit;
mod messages;

use std::collections::BTreeMap;
use std::net::IpAddr;

use machine::{Span, Time};
use simple_dns::rdata::{OPT, OPTCode, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, TYPE};

use super::{NameSpec, Names, SiteSpec, SiteState, WireName};
use crate::AddressRange;

const SERVER: &str = "10.0.0.53";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A site with an address of IPv4 whose last number is this one.
fn site(name: &str, last: u8, weight: u32) -> SiteSpec {
    SiteSpec {
        name: name.to_owned(),
        addresses: vec![IpAddr::from([10, 1, 0, last])],
        weight,
        is_backup: false,
        clients: Vec::new(),
    }
}

fn near(mut site: SiteSpec, prefixes: &[&str]) -> SiteSpec {
    site.clients = prefixes.iter().map(|prefix| AddressRange::parse(prefix).expect("a prefix")).collect();
    site
}

fn backup(site: SiteSpec) -> SiteSpec {
    SiteSpec { is_backup: true, ..site }
}

fn spec(name: &str, sites: Vec<SiteSpec>) -> NameSpec {
    let name = WireName::parse(name).expect("a name");
    NameSpec { name, asked_at: vec![ip(SERVER)], ttl_s: 5, shed_from_percent: 80, answers_max: 0, sites }
}

const UP: SiteState = SiteState { servers: 2, drained: 0, healthy: 2, load_percent: None };
const DOWN: SiteState = SiteState { servers: 2, drained: 0, healthy: 0, load_percent: None };

const fn loaded(percent: u32) -> SiteState {
    SiteState { load_percent: Some(percent), ..UP }
}

/// A query as a client writes it.
fn query(name: &str, record: TYPE) -> Packet<'_> {
    let mut packet = Packet::new_query(7);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).expect("a name");
    packet.questions.push(Question::new(name, QTYPE::TYPE(record), QCLASS::CLASS(CLASS::IN), false));
    packet
}

/// The same with extensions and their options.
fn with_edns<'a>(mut packet: Packet<'a>, size_max: u16, options: &[(u16, Vec<u8>)]) -> Packet<'a> {
    let options = options.iter().map(|(code, data)| OPTCode { code: *code, data: data.clone().into() });
    *packet.opt_mut() = Some(OPT { opt_codes: options.collect(), udp_packet_size: size_max, version: 0 });
    packet
}

fn subnet(address: &str, prefix: u8) -> (u16, Vec<u8>) {
    let (family, octets) = match ip(address) {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    let given = &octets[..usize::from(prefix.div_ceil(8))];
    (8, [&[0, family, prefix, 0], given].concat())
}

fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    packet.build_bytes_vec().expect("it is short")
}

/// What a name server answers to a message.
fn answer(names: &mut Names, from: &str, message: &[u8], states: &[SiteState]) -> Option<Vec<u8>> {
    names.answer(Time::ZERO, (ip(SERVER), ip(from)), message, |_| states.to_vec())
}

/// The addresses of an answer.
fn addresses(answer: &[u8]) -> Vec<IpAddr> {
    let packet = Packet::parse(answer).expect("it is a message");
    let address = |data: &RData<'_>| match data {
        RData::A(a) => IpAddr::V4(a.address.into()),
        RData::AAAA(a) => IpAddr::V6(a.address.into()),
        other => panic!("{other:?}"),
    };
    packet.answers.iter().map(|record| address(&record.rdata)).collect()
}

/// How often each site's address was the answer to so many queries for IPv4, by its last number.
fn shares(names: &mut Names, from: &str, count: usize, states: &[SiteState]) -> BTreeMap<u8, usize> {
    let message = bytes(&query("www.example.net", TYPE::A));
    let mut shares = BTreeMap::new();
    for _ in 0..count {
        let answer = answer(names, from, &message, states).expect("an answer");
        let [IpAddr::V4(address)] = addresses(&answer)[..] else { panic!("one address") };
        *shares.entry(address.octets()[3]).or_insert(0) += 1;
    }
    shares
}

fn names(sites: Vec<SiteSpec>) -> Names {
    Names::new(vec![spec("www.example.net", sites)], 7)
}

#[test]
fn sites_get_their_weights_smoothly() {
    let mut names = names(vec![site("a", 1, 5), site("b", 2, 1), site("c", 3, 1)]);
    let message = bytes(&query("www.example.net", TYPE::A));
    let order: Vec<u8> = (0..14)
        .map(|_| {
            let answer = answer(&mut names, "10.0.0.1", &message, &[UP; 3]).expect("an answer");
            *answer.last().expect("an address")
        })
        .collect();
    // As nginx has it.
    assert_eq!(order, [1, 1, 2, 1, 3, 1, 1, 1, 1, 2, 1, 3, 1, 1]);
    assert_eq!(
        names.views().next().expect("it is there").sites().map(|site| site.answers).collect::<Vec<_>>(),
        [10, 2, 2]
    );
}

#[test]
fn who_asks_for_both_families_moves_each_by_itself() {
    let both = |name, last| {
        let mut site = site(name, last, 1);
        site.addresses.push(ip(&format!("fd00::{last}")));
        site
    };
    let mut names = names(vec![both("a", 1), both("b", 2)]);
    let mut ends = Vec::new();
    for record in [TYPE::A, TYPE::AAAA, TYPE::A, TYPE::AAAA] {
        let message = bytes(&query("www.example.net", record));
        ends.push(*answer(&mut names, "10.0.0.1", &message, &[UP; 2]).expect("an answer").last().expect("an address"));
    }
    assert_eq!(ends, [1, 1, 2, 2]);
}

#[test]
fn dead_sites_get_nobody_while_another_one_is_there() {
    let mut names = names(vec![site("a", 1, 3), site("b", 2, 1), backup(site("c", 3, 1)), backup(site("d", 4, 1))]);
    let client = "10.0.0.1";
    assert_eq!(shares(&mut names, client, 8, &[UP; 4]), BTreeMap::from([(1, 6), (2, 2)]));
    assert_eq!(shares(&mut names, client, 8, &[DOWN, UP, UP, UP]), BTreeMap::from([(2, 8)]));
    assert_eq!(shares(&mut names, client, 8, &[DOWN, DOWN, UP, UP]), BTreeMap::from([(3, 4), (4, 4)]));
    assert_eq!(shares(&mut names, client, 8, &[DOWN, DOWN, DOWN, UP]), BTreeMap::from([(4, 8)]));
    // All count as healthy, backups as such.
    assert_eq!(shares(&mut names, client, 8, &[DOWN; 4]), BTreeMap::from([(1, 6), (2, 2)]));
    let counters = names.views().next().expect("it is there").counters;
    assert_eq!((counters.queries, counters.answered), (40, 40));
    assert_eq!((counters.failed_over, counters.failed_open, counters.no_data), (16, 8, 0));
}

#[test]
fn the_longest_prefix_decides_among_healthy_sites() {
    let mut names = names(vec![
        near(site("a", 1, 1), &["10.1.0.0/16"]),
        near(site("b", 2, 1), &["10.1.2.0/24", "fd00:2::/32"]),
        site("c", 3, 2),
    ]);
    assert_eq!(shares(&mut names, "10.1.9.9", 4, &[UP; 3]), BTreeMap::from([(1, 4)]));
    assert_eq!(shares(&mut names, "10.1.2.9", 4, &[UP; 3]), BTreeMap::from([(2, 4)]));
    assert_eq!(shares(&mut names, "fd00:2::7", 4, &[UP; 3]), BTreeMap::from([(2, 4)]));
    // Prefixes prefer a site, and exclude nobody.
    assert_eq!(shares(&mut names, "10.9.0.1", 8, &[UP; 3]), BTreeMap::from([(1, 2), (2, 2), (3, 4)]));
    assert_eq!(shares(&mut names, "10.1.2.9", 4, &[UP, DOWN, UP]), BTreeMap::from([(1, 4)]));
    assert_eq!(shares(&mut names, "10.1.2.9", 4, &[DOWN, DOWN, UP]), BTreeMap::from([(3, 4)]));
    // Health comes before them.
    assert_eq!(shares(&mut names, "10.1.9.9", 4, &[DOWN, UP, DOWN]), BTreeMap::from([(2, 4)]));
}

#[test]
fn loaded_sites_shed_load() {
    let mut names = names(vec![site("a", 1, 1), site("b", 2, 1), backup(site("c", 3, 1))]);
    let client = "10.0.0.1";
    assert_eq!(shares(&mut names, client, 30, &[loaded(79), loaded(10), UP]), BTreeMap::from([(1, 15), (2, 15)]));
    // Half way from where it sheds load to its capacity it has half of its share.
    assert_eq!(shares(&mut names, client, 30, &[loaded(90), loaded(10), UP]), BTreeMap::from([(1, 10), (2, 20)]));
    assert_eq!(shares(&mut names, client, 30, &[loaded(100), loaded(10), UP]), BTreeMap::from([(2, 30)]));
    // When none has room, backups help; when those have none either, load decides nothing.
    assert_eq!(shares(&mut names, client, 8, &[loaded(100), loaded(250), UP]), BTreeMap::from([(3, 8)]));
    assert_eq!(
        shares(&mut names, client, 8, &[loaded(100), loaded(250), loaded(100)]),
        BTreeMap::from([(1, 4), (2, 4)])
    );
    assert_eq!(shares(&mut names, client, 8, &[DOWN, DOWN, loaded(100)]), BTreeMap::from([(3, 8)]));
}

#[test]
fn a_site_without_weight_gets_nobody_whatever_happens() {
    let mut names = names(vec![site("a", 1, 0), backup(site("b", 2, 1))]);
    for states in [[UP; 2], [UP, DOWN], [DOWN; 2]] {
        assert_eq!(shares(&mut names, "10.0.0.1", 4, &states), BTreeMap::from([(2, 4)]), "{states:?}");
    }
}

#[test]
fn counts_stay_where_another_file_has_the_site() {
    let mut old = names(vec![site("a", 1, 1), site("b", 2, 1)]);
    shares(&mut old, "10.0.0.1", 4, &[UP; 2]);
    let mut new = names(vec![site("b", 2, 3), site("c", 3, 1)]);
    new.take_over(&old);
    let view = new.views().next().expect("it is there");
    assert_eq!(view.sites().map(|site| site.answers).collect::<Vec<_>>(), [2, 0]);
    assert_eq!((view.counters.queries, new.counters().messages), (4, 4));
}

/// The load of a service is that of its healthy servers: of the connections that they may have, and what agents say.
#[test]
fn a_service_says_how_it_does_as_a_site() {
    use crate::{Client, LoadReport, Scheduler, ServerSpec, Service, ServiceSpec};
    let now = machine::Time::ZERO;
    let server = |name: &str, max: Option<u32>| {
        let mut server = ServerSpec::new(name, ip("10.0.0.1"), 80);
        server.connections_max = max;
        server
    };
    let spec = ServiceSpec::new(Scheduler::Rr, vec![server("a", Some(4)), server("b", Some(4))]);
    let mut service = Service::new(now, spec, 1).expect("it is right");
    let state = |service: &Service| SiteState::of(service, now, |_| 0);
    assert_eq!(state(&service), SiteState { servers: 2, drained: 0, healthy: 2, load_percent: Some(0) });
    for port in 0..6 {
        service.open(now, &Client { address: 1, port }).expect("there is room");
    }
    assert_eq!(state(&service).load_percent, Some(75));
    let (a, b) = (service.server("a").expect("it is there"), service.server("b").expect("it is there"));
    service.report(now, a, LoadReport { cpu_permille: Some(950), ..LoadReport::default() });
    assert_eq!(state(&service).load_percent, Some(95));
    service.set_healthy(now, a, false);
    assert_eq!(state(&service), SiteState { servers: 2, drained: 0, healthy: 1, load_percent: Some(75) });
    service.set_healthy(now, b, false);
    assert_eq!(state(&service), SiteState { servers: 2, drained: 0, healthy: 0, load_percent: None });
    service.drain(now, b, true);
    assert_eq!((state(&service).servers, state(&service).drained), (1, 1));
}

/// Who looks where a name leads takes no turn.
#[test]
fn a_look_takes_no_turn() {
    let mut names = names(vec![near(site("a", 1, 1), &["10.1.0.0/16"]), site("b", 2, 1), site("c", 3, 1)]);
    let site = |names: &Names, client: &str| names.site_for(0, false, ip(client), &[UP, UP, UP]);
    assert_eq!(
        (site(&names, "10.1.0.9"), site(&names, "10.2.0.9"), site(&names, "10.2.0.9")),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!(shares(&mut names, "10.2.0.9", 1, &[UP, UP, UP]), [(1, 1)].into());
    assert_eq!((site(&names, "10.2.0.9"), site(&names, "10.1.0.9")), (Some(1), Some(0)));
    assert_eq!(names.site_for(0, true, ip("fd00::1"), &[UP, UP, UP]), None);
}

//! Balancers at hosts: what they say to each other, and what becomes of connections when one is gone.

use super::super::ServiceCounters;
use super::super::balancers::{Balancer, Outgoing};
use super::super::syn_cookies::CookieKey;
use super::super::sync::parse_sync;
use super::*;
use machine::Rng;

mod cookies;

fn made(bed: &Bed, at: usize, seed: u64) -> Balancer {
    Balancer::new(bed.now, &bed.services, &bed.services.balancers[at], seed).with_cookies_of(CookieKey::new(7))
}

/// Two balancers of a service with full NAT, and what they say to each other.
struct Pair {
    bed: Bed,
    balancers: [Balancer; 2],
    /// Whether what they say is lost.
    is_cut: bool,
    /// Which of it is: so many of a thousand, and answers.
    lost: (u32, bool),
    randomness: Rng,
    messages: u32,
    /// By balancer.
    said: [Rate; 2],
}

/// How much a balancer says.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    datagrams: u32,
    /// In the 100 ms from then on.
    lately: (Time, u32),
    greatest: u32,
}

impl Rate {
    fn count(&mut self, now: Time) {
        self.datagrams += 1;
        if now.since(self.lately.0) >= Span::from_ms(100) {
            self.lately = (now, 0);
        }
        self.lately.1 += 1;
        self.greatest = self.greatest.max(self.lately.1);
    }
}

/// Hosts of balancers: the last two.
const AT: [NodeId; 2] = [host(2), host(3)];

impl Pair {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same of a service that is otherwise.
    fn with(change: impl Fn(&mut Service)) -> Self {
        let bed = Bed::with(3, &[80], |service| {
            service.forwarding = ForwardingMethod::FullNat;
            service.at = AT.to_vec();
            service.servers.truncate(1);
            service.spec.servers.truncate(1);
            change(service);
        });
        let balancers = [made(&bed, 0, 7), made(&bed, 1, 8)];
        let (lost, randomness, said) = ((0, false), Rng::new(7), [Rate::default(); 2]);
        Self { bed, balancers, is_cut: false, lost, randomness, messages: 0, said }
    }

    /// Another balancer stands where one was: it knows nothing.
    fn replace(&mut self, at: usize) {
        self.balancers[at] = made(&self.bed, at, 77);
        self.balancers[at].begin_late(self.bed.now);
        self.said = [Rate::default(); 2];
    }

    /// Lets so much time pass as it takes until something is so.
    fn run_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let patient_until = self.bed.now + Span::from_secs(600);
        while !is_so(self) {
            assert!(self.bed.now < patient_until, "{:?} {:?}", self.connections(), self.said);
            self.run(Span::from_ms(10));
        }
    }

    /// Whether what balancers say now is lost.
    fn loses(&mut self, message: &[u8]) -> bool {
        let is_answer = parse_sync(message).is_ok_and(|(header, _)| header.answer.is_some());
        self.is_cut || self.randomness.below(1_000) < self.lost.0 || is_answer && self.lost.1
    }

    /// Lets so much time pass.
    fn run(&mut self, span: Span) {
        let until = self.bed.now + span;
        while self.bed.now < until {
            let mut is_quiet = true;
            for at in 0..2 {
                let mut out = Vec::new();
                self.balancers[at].advance(self.bed.now, &mut out);
                is_quiet &= out.is_empty();
                for outgoing in out {
                    let Outgoing::Sync(to, message) = outgoing else { panic!("{outgoing:?}") };
                    assert_eq!(to, AT[1 - at]);
                    assert!(parse_sync(&message).is_ok() && message.len() <= 1_200);
                    self.messages += 1;
                    self.said[at].count(self.bed.now);
                    if !self.loses(&message) {
                        self.balancers[1 - at].hear_sync(self.bed.now, AT[at], &self.bed.host_table, &message);
                    }
                }
            }
            if !is_quiet {
                continue;
            }
            let next = [0, 1].map(|at| self.balancers[at].next_time(self.bed.now)).into_iter().min();
            self.bed.now = next.expect("there are two").max(self.bed.now + Span::from_us(10)).min(until);
        }
    }

    fn send(&mut self, at: usize, from: Endpoint, flags: u8, numbers: (u32, u32)) -> (Decision, Vec<Field>) {
        let frame = frame(from, Endpoint(VIRTUAL, 80), flags, numbers);
        let mut fields = Vec::new();
        let state = self.balancers[at].state_mut();
        let sender = (&self.bed.services, (&self.bed.host_table, host(0)));
        let decision = state.process_from_client(self.bed.now, sender, &super::whole(&frame), &mut fields);
        self.balancers[at].note_packet(self.bed.now);
        (decision, fields)
    }

    fn answer(&mut self, at: usize, to: Endpoint, flags: u8, numbers: (u32, u32)) -> Option<NodeId> {
        let (client, decision, _) = self.decide_answer(at, to, flags, numbers);
        client.filter(|_| decision == Decision::Translated)
    }

    /// A segment of the server comes: to which client it goes, what becomes of it, and what is written into it.
    fn decide_answer(
        &mut self,
        at: usize,
        to: Endpoint,
        flags: u8,
        numbers: (u32, u32),
    ) -> (Option<NodeId>, Decision, Vec<Field>) {
        let frame = frame(Endpoint(self.bed.address(1), SERVER_PORT), to, flags, numbers);
        let state = self.balancers[at].state_mut();
        let client = state.client_of_answer(self.bed.now, &frame);
        let mut fields = Vec::new();
        let decision = state.process_from_server(self.bed.now, AT[at], (&frame, frame.len() as u32), &mut fields);
        self.balancers[at].note_packet(self.bed.now);
        (client.map(|(client, _)| client), decision, fields)
    }

    /// Opens a connection at one; where its server sees it.
    fn open(&mut self, at: usize, port: u16) -> (Endpoint, Endpoint) {
        let client = self.bed.client(port);
        let (decision, fields) = self.send(at, client, SYN, (1_000, 0));
        assert_eq!(decision, Decision::To(host(1)));
        let port = fields.iter().find_map(|it| if let Field::SrcPort(port) = it { Some(*port) } else { None });
        let seen = Endpoint(VIRTUAL, port.unwrap_or(client.1));
        assert_eq!(self.answer(at, seen, SYN | ACK, (5_000, 1_001)), Some(host(0)));
        assert_eq!(self.send(at, client, ACK, (1_001, 5_001)).0, Decision::To(host(1)));
        (client, seen)
    }

    fn connections(&self) -> [u64; 2] {
        [0, 1].map(|at| self.balancers[at].view(0, true).connections)
    }

    fn active(&self, at: usize) -> u32 {
        let now = self.bed.now;
        let view = self.balancers[at].state().views().next().expect("it is there");
        view.machine.status(now).map(|server| server.active).sum()
    }
}

#[test]
fn either_takes_the_others_connections_over() {
    let mut pair = Pair::new();
    let all: Vec<_> = (0..200).map(|number| pair.open(usize::from(number % 2 == 1), 4_000 + number)).collect();
    // Their own ports are apart, so that neither gives away what the other one has given.
    assert!(all.iter().enumerate().all(|(number, (_, seen))| (seen.1 >= 33_280) == (number % 2 == 1)), "{all:?}");
    assert_eq!(pair.connections(), [100, 100]);
    pair.run(Span::from_ms(20));
    assert_eq!(pair.connections(), [200, 200]);
    assert_eq!((pair.active(0), pair.active(1)), (200, 200));
    for (number, (client, seen)) in all.iter().enumerate() {
        // The one that has not opened it goes on with it.
        let other = usize::from(number % 2 == 0);
        assert_eq!(pair.send(other, *client, PSH | ACK, (1_001, 5_001)).0, Decision::To(host(1)));
        assert_eq!(pair.answer(other, *seen, PSH | ACK, (5_001, 1_001)), Some(host(0)));
    }
    assert_eq!(pair.balancers[1].state().views().next().map(|view| view.counters), Some(ServiceCounters::default()));
    // Both hear of the end.
    let (client, _) = all[0];
    pair.send(0, client, RST | ACK, (1_001, 5_001));
    pair.run(Span::from_ms(5));
    assert_eq!((pair.active(0), pair.active(1)), (199, 199));
    // Where nothing happens, nearly nothing is said.
    let before = pair.messages;
    pair.run(Span::from_secs(1));
    assert!((18..=22).contains(&(pair.messages - before)), "{}", pair.messages - before);
}

#[test]
fn what_is_lost_on_the_way_is_asked_for() {
    let mut pair = Pair::new();
    pair.is_cut = true;
    for number in 0..300 {
        pair.open(0, 4_000 + number);
    }
    pair.run(Span::from_ms(50));
    assert_eq!(pair.connections(), [300, 0]);
    pair.is_cut = false;
    pair.run(Span::from_ms(300));
    assert_eq!(pair.connections(), [300, 300]);
    assert!(pair.balancers.iter().all(Balancer::is_usable), "nobody was gone");
}

/// One that comes anew hears of all connections, whatever share of datagrams is lost, and neither of them floods the other one meanwhile.
#[test]
fn all_connections_are_heard_of_over_links_that_lose() {
    let mut pair = Pair::new();
    for number in 0..20_000 {
        pair.open(0, 4_000 + number);
    }
    pair.run_until(|pair| pair.connections() == [20_000, 20_000]);
    for lost in [0, 10, 100, 500] {
        pair.lost = (lost, false);
        pair.replace(1);
        assert!(!pair.balancers[1].is_usable());
        pair.run_until(|pair| pair.connections() == [20_000, 20_000] && pair.balancers[1].is_usable());
        assert_eq!(pair.active(1), 20_000, "{lost}");
        // 26 connections in a datagram, eight datagrams a question, one question a millisecond.
        let [answers, questions] = pair.said;
        let share = f64::from(answers.datagrams) / (20_000.0 / 26.0);
        let expected = 1.0 / (1.0 - f64::from(lost) / 1_000.0);
        assert!(share < expected * 3.0, "{lost}: {answers:?}");
        assert!(answers.greatest <= 801 && questions.greatest <= 101, "{lost}: {answers:?} {questions:?}");
        // Nothing more is asked when all is known.
        pair.lost = (0, false);
        pair.run(Span::from_secs(2));
        pair.said = [Rate::default(); 2];
        pair.run(Span::from_secs(1));
        assert!(pair.said.iter().all(|said| said.datagrams <= 11), "{lost}: {:?}", pair.said);
    }
    // Nor does one flood that nobody answers.
    pair.is_cut = true;
    pair.replace(1);
    pair.run(Span::from_secs(2));
    let said = pair.said[1];
    assert!(said.datagrams < 40 && pair.balancers[1].is_usable(), "{said:?}");
}

/// What is lost of changes is said again, and nothing else, though there are many connections.
#[test]
fn what_is_said_again_is_what_was_lost() {
    let mut pair = Pair::new();
    for number in 0..10_000 {
        pair.open(0, 4_000 + number);
    }
    pair.run_until(|pair| pair.connections() == [10_000, 10_000]);
    pair.is_cut = true;
    pair.open(0, 20_000);
    pair.run(Span::from_ms(5));
    pair.is_cut = false;
    let before = pair.messages;
    pair.run_until(|pair| pair.connections() == [10_001, 10_001]);
    assert!(pair.messages - before < 40, "{}", pair.messages - before);
    // Connections come and go while a tenth is lost: both agree in the end.
    pair.lost = (100, false);
    for number in 0..1_000 {
        let (client, _) = pair.open(number % 2, 21_000 + number as u16);
        if number % 3 == 0 {
            pair.send(number % 2, client, RST | ACK, (1_001, 5_001));
        }
        pair.run(Span::from_us(300));
    }
    pair.run_until(|pair| [0, 1].map(|at| pair.active(at)) == [10_667, 10_667]);
    assert!(pair.balancers.iter().all(Balancer::is_usable), "nobody was gone");
}

/// One to which no answer comes goes on with what it knows, after a while, and forgets nothing; it hears of the rest when it can.
#[test]
fn one_that_hears_no_answers_goes_on() {
    let mut pair = Pair::new();
    let all: Vec<_> = (0..100).map(|number| pair.open(0, 4_000 + number)).collect();
    pair.run(Span::from_ms(20));
    pair.lost = (0, true);
    pair.balancers[1].set_carrier(pair.bed.now, false);
    pair.balancers[1].set_carrier(pair.bed.now, true);
    pair.run(Span::from_secs(9));
    assert!(!pair.balancers[1].is_usable(), "somebody is there who knows better");
    pair.run(Span::from_secs(2));
    assert!(pair.balancers[1].is_usable());
    assert_eq!(pair.active(1), 100);
    // What it sees itself is not in doubt.
    pair.lost = (0, false);
    pair.answer(0, all[0].1, PSH | ACK, (5_001, 1_001));
    pair.send(0, all[0].0, ACK, (1_001, 5_001));
    pair.send(0, all[0].0, RST | ACK, (1_001, 5_001));
    assert_eq!(pair.send(1, all[1].0, PSH | ACK, (1_001, 5_001)).0, Decision::To(host(1)));
    pair.run(Span::from_secs(1));
    assert_eq!((pair.active(0), pair.active(1)), (99, 99));
}

/// One that was heard of when it began is followed as others are, once it is open: who makes resets up ends nothing at the other balancer.
#[test]
fn made_up_resets_end_nothing_at_the_other_balancer() {
    let mut pair = Pair::new();
    let client = pair.bed.client(4_000);
    let (_, fields) = pair.send(0, client, SYN, (1_000, 0));
    pair.run(Span::from_ms(5));
    assert_eq!(pair.connections(), [1, 1]);
    let port = fields.iter().find_map(|it| if let Field::SrcPort(port) = it { Some(*port) } else { None });
    let seen = Endpoint(VIRTUAL, port.unwrap_or(client.1));
    pair.answer(0, seen, SYN | ACK, (5_000, 1_001));
    pair.send(0, client, ACK, (1_001, 5_001));
    pair.run(Span::from_ms(20));
    for (number, made_up) in [7, 70_000, 3_000_000_000].into_iter().enumerate() {
        pair.send(1, client, RST, (made_up, 0));
        pair.decide_answer(1, seen, RST, (made_up, 0));
        assert_eq!(pair.active(1), 1, "{number}");
    }
}

/// Peers are told of a connection before its server is, if that is asked for, whatever else there is to say.
#[test]
fn a_connection_that_begins_is_said_first() {
    let mut pair = Pair::new();
    for number in 0..500 {
        pair.open(0, 4_000 + number);
    }
    let (now, client) = (pair.bed.now, pair.bed.client(9_000));
    assert!(pair.balancers[0].state_mut().take_opened());
    let (_, fields) = pair.send(0, client, SYN, (1_000, 0));
    assert!(pair.balancers[0].state_mut().take_opened());
    pair.balancers[0].note_opened(now);
    assert_eq!(pair.balancers[0].next_time(now), now);
    let mut out = Vec::new();
    pair.balancers[0].advance(now, &mut out);
    let Some(Outgoing::Sync(_, first)) = out.first() else { panic!("{out:?}") };
    pair.balancers[1].hear_sync(now, AT[0], &pair.bed.host_table, first);
    // The one that has opened it is gone: its server's answer comes to the other one.
    let port = fields.iter().find_map(|it| if let Field::SrcPort(port) = it { Some(*port) } else { None });
    let seen = Endpoint(VIRTUAL, port.unwrap_or(client.1));
    assert_eq!(pair.answer(1, seen, SYN | ACK, (5_000, 1_001)), Some(host(0)));
    assert_eq!(pair.send(1, client, ACK, (1_001, 5_001)).0, Decision::To(host(1)));
}

/// One whose link was down gets nothing before it has heard of all, and forgets what has ended meanwhile.
#[test]
fn one_that_comes_back_hears_of_all_first() {
    let mut pair = Pair::new();
    let (ended, seen) = pair.open(0, 4_000);
    pair.run(Span::from_ms(5));
    pair.balancers[0].set_carrier(pair.bed.now, false);
    pair.is_cut = true;
    assert!(!pair.balancers[0].is_usable());
    pair.send(1, ended, RST | ACK, (1_001, 5_001));
    assert_eq!(pair.active(1), 1, "whoever has seen nothing of it may not end it");
    assert_eq!(pair.answer(1, seen, PSH | ACK, (5_001, 1_001)), Some(host(0)));
    pair.send(1, ended, RST | ACK, (1_001, 5_001));
    assert_eq!(pair.active(1), 1, "what one end has sent may be made up, too");
    pair.send(1, ended, ACK, (1_001, 5_001));
    pair.send(1, ended, RST | ACK, (1_001, 5_001));
    assert_eq!(pair.active(1), 0);
    let others: Vec<_> = (0..100).map(|number| pair.open(1, 5_000 + number)).collect();
    pair.run(Span::from_secs(2));
    assert_eq!(pair.answer(1, seen, ACK, (5_001, 1_001)), Some(host(0)), "what comes late is translated");
    pair.is_cut = false;
    pair.balancers[0].set_carrier(pair.bed.now, true);
    assert!(!pair.balancers[0].is_usable());
    pair.run(Span::from_ms(20));
    assert!(pair.balancers[0].is_usable());
    assert_eq!(pair.active(0), 100, "the one that has ended is none of them");
    for (client, _) in others {
        assert_eq!(pair.send(0, client, PSH | ACK, (1_001, 5_001)).0, Decision::To(host(1)));
    }
    // With nobody to ask it waits no longer than that.
    pair.balancers[0].set_carrier(pair.bed.now, false);
    pair.is_cut = true;
    pair.run(Span::from_ms(400));
    pair.balancers[0].set_carrier(pair.bed.now, true);
    pair.run(Span::from_ms(450));
    assert!(!pair.balancers[0].is_usable());
    pair.run(Span::from_ms(100));
    assert!(pair.balancers[0].is_usable());
    assert_eq!(pair.active(0), 100, "nobody says that they have ended");
}

/// Whoever goes on with a connection sees its end, however much the other one has seen of it meanwhile, and however often it goes to and fro.
#[test]
fn connections_end_wherever_they_have_been_meanwhile() {
    let mut pair = Pair::new();
    let all: Vec<_> = (0..3).map(|number| pair.open(0, 4_000 + number)).collect();
    pair.run(Span::from_ms(5));
    let mut passed = 0;
    for (turn, (client, seen)) in all.iter().enumerate() {
        pair.balancers[0].set_carrier(pair.bed.now, false);
        pair.is_cut = true;
        // Far more than any window takes passes at the other one.
        for _ in 0..300 {
            for (client, seen) in &all[turn..] {
                pair.answer(1, *seen, PSH | ACK, (5_001 + passed, 1_001));
                pair.send(1, *client, PSH | ACK, (1_001, 5_001 + passed));
            }
            passed += 20_000;
        }
        pair.is_cut = false;
        pair.balancers[0].set_carrier(pair.bed.now, true);
        pair.run(Span::from_ms(20));
        assert_eq!((pair.active(0), pair.active(1)), (3 - turn as u32, 3 - turn as u32));
        pair.send(0, *client, FIN | ACK, (1_001, 5_001 + passed));
        pair.answer(0, *seen, FIN | ACK, (5_001 + passed, 1_002));
        pair.send(0, *client, ACK, (1_002, 5_002 + passed));
        pair.run(Span::from_ms(20));
        assert_eq!((pair.active(0), pair.active(1)), (2 - turn as u32, 2 - turn as u32));
    }
}

#[test]
fn datagrams_that_make_no_sense_change_nothing() {
    let mut pair = Pair::new();
    pair.open(0, 4_000);
    let mut out = Vec::new();
    pair.run(Span::from_ms(2));
    pair.open(0, 4_001);
    pair.bed.now += Span::from_ms(2);
    pair.balancers[0].advance(pair.bed.now, &mut out);
    let [Outgoing::Sync(_, message)] = &out[..] else { panic!("{out:?}") };
    let before = pair.connections();
    for cut in 0..message.len() {
        pair.balancers[1].hear_sync(pair.bed.now, AT[0], &pair.bed.host_table, &message[..cut]);
    }
    assert_eq!((pair.connections(), pair.balancers[1].view(0, true).malformed), (before, message.len() as u64));
    // Nobody else is a peer.
    pair.balancers[1].hear_sync(pair.bed.now, host(0), &pair.bed.host_table, message);
    assert_eq!(pair.connections(), before);
    pair.balancers[1].hear_sync(pair.bed.now, AT[0], &pair.bed.host_table, message);
    assert_eq!(pair.connections(), [2, 2]);
}

/// A connection that is being opened is that for the other one, too, until it hears more of it.
#[test]
fn connections_that_are_being_opened_are_counted_by_both() {
    let mut pair = Pair::new();
    let half_open = |pair: &Pair| [0, 1].map(|at| pair.balancers[at].state().running[0].half_open);
    for number in 0..40 {
        let client = pair.bed.client(4_000 + number);
        assert_eq!(pair.send(0, client, SYN, (1_000, 0)).0, Decision::To(host(1)));
    }
    pair.run(Span::from_ms(20));
    assert_eq!((half_open(&pair), pair.active(1)), ([40, 40], 40));
    for number in 0..10 {
        pair.open(0, 4_000 + number);
    }
    pair.run(Span::from_ms(20));
    assert_eq!((half_open(&pair), pair.active(1)), ([30, 30], 40));
    pair.bed.now += Span::from_secs(200);
    for at in [0, 1] {
        let now = pair.bed.now;
        (0..10).for_each(|_| pair.balancers[at].state_mut().clear_expired(now));
    }
    assert_eq!(half_open(&pair), [0, 0]);
}

/// A client's port, or a balancer's own, is used again long before the last connection that had it is forgotten: the new one is known to the other balancer as any is, with its own server.
#[test]
fn a_port_that_is_used_again_is_another_connection_for_both() {
    let mut pair = Pair::new();
    let open = |pair: &mut Pair, port| {
        let client = pair.bed.client(port);
        let (_, fields) = pair.send(0, client, SYN, (1_000, 0));
        pair.run(Span::from_ms(5));
        let port = fields.iter().find_map(|it| if let Field::SrcPort(port) = it { Some(*port) } else { None });
        let seen = Endpoint(VIRTUAL, port.unwrap_or(client.1));
        assert_eq!(pair.answer(0, seen, SYN | ACK, (5_000, 1_001)), Some(host(0)));
        assert_eq!(pair.send(0, client, ACK, (1_001, 5_001)).0, Decision::To(host(1)));
        pair.run(Span::from_ms(5));
        (client, seen)
    };
    for is_last_seen in [false, true] {
        let (client, seen) = open(&mut pair, 4_000);
        assert_eq!((pair.active(0), pair.active(1)), (1, 1));
        pair.send(0, client, FIN | ACK, (1_001, 5_001));
        pair.answer(0, seen, FIN | ACK, (5_001, 1_002));
        // The other one hears that it ends, be it before its last segment or after it.
        if !is_last_seen {
            pair.run(Span::from_ms(5));
        }
        pair.send(0, client, ACK, (1_002, 5_002));
        pair.run(Span::from_secs(40));
        assert_eq!((pair.active(0), pair.active(1)), (0, 0));
    }
    let (client, seen) = open(&mut pair, 4_000);
    assert_eq!((pair.active(0), pair.active(1), pair.connections()), (1, 1, [1, 1]));
    pair.balancers[0].set_carrier(pair.bed.now, false);
    pair.is_cut = true;
    assert_eq!(pair.send(1, client, PSH | ACK, (1_001, 5_001)).0, Decision::To(host(1)));
    assert_eq!(pair.answer(1, seen, PSH | ACK, (5_001, 1_001)), Some(host(0)));
    pair.send(1, client, FIN | ACK, (1_001, 5_001));
    pair.answer(1, seen, FIN | ACK, (5_001, 1_002));
    assert_eq!(pair.active(1), 0);
}

/// What may be made up, of both ends, as consistent as can be without seeing them.
fn make_up(pair: &mut Pair, (client, seen): (Endpoint, Endpoint), said: &[(bool, u8)]) {
    let (mut first, mut second) = (3_000_000_000, 2_000_000_000);
    for (is_answer, flags) in said {
        let (own, other) = if *is_answer { (&mut second, first) } else { (&mut first, second) };
        let numbers = (*own, other);
        *own += u32::from(flags & FIN != 0);
        if *is_answer {
            pair.decide_answer(1, seen, *flags, numbers);
        } else {
            pair.send(1, client, *flags, numbers);
        }
    }
}

/// A balancer that has taken over cannot tell who sends: what others make up may end a connection for a moment, but begins none in its place, and its ends go on.
#[test]
fn what_others_make_up_behind_a_balancer_that_took_over_cuts_nothing() {
    let close = [(false, FIN | ACK), (true, FIN | ACK), (false, ACK)];
    let agree = [(true, SYN | ACK), (false, RST), (false, SYN)];
    let said = [
        [&close[..], &[(false, SYN)]].concat(),
        [&close[..], &agree].concat(),
        [&close[..], &[(false, SYN)], &agree].concat(),
        [&close[..], &[(false, RST), (false, SYN)], &agree].concat(),
        [&[(false, FIN | ACK), (true, ACK), (false, RST)][..], &agree].concat(),
        [&[(false, PSH | ACK), (true, ACK), (false, RST | ACK)][..], &agree].concat(),
        [
            &[(false, PSH | ACK), (true, ACK), (true, RST | ACK)][..],
            &agree,
            &[(true, SYN | ACK), (false, ACK), (true, ACK), (false, RST), (false, SYN)],
        ]
        .concat(),
    ];
    for (number, said) in said.iter().enumerate() {
        for times in [1, 20] {
            let mut pair = Pair::new();
            let (client, seen) = pair.open(0, 4_000);
            pair.run(Span::from_ms(5));
            pair.balancers[0].set_carrier(pair.bed.now, false);
            pair.is_cut = true;
            (0..times).for_each(|_| make_up(&mut pair, (client, seen), said));
            for _ in 0..3 {
                assert_eq!(pair.send(1, client, PSH | ACK, (1_001, 5_001)).0, Decision::To(host(1)), "{number}");
                assert_eq!(pair.answer(1, seen, PSH | ACK, (5_001, 1_001)), Some(host(0)), "{number}");
            }
            // Now it is known where they stand.
            make_up(&mut pair, (client, seen), said);
            let counters = pair.balancers[1].state().conntrack().expect("it has a service").counters();
            assert_eq!((counters.reopened, counters.connections), (0, 1), "{number}");
            pair.send(1, client, FIN | ACK, (1_001, 5_001));
            assert_eq!(pair.answer(1, seen, FIN | ACK, (5_001, 1_002)), Some(host(0)), "{number}");
            assert_eq!(pair.active(1), 0, "{number}");
        }
    }
}

/// Whoever wants another connection behind an end that may have been made up waits for it no longer than that is remembered, however often he asks.
#[test]
fn a_server_that_says_nothing_keeps_nobody_behind_a_doubtful_end() {
    let mut pair = Pair::new();
    let (client, seen) = pair.open(0, 4_000);
    pair.run(Span::from_ms(5));
    pair.balancers[0].set_carrier(pair.bed.now, false);
    pair.is_cut = true;
    pair.send(1, client, PSH | ACK, (1_001, 5_001));
    pair.answer(1, seen, PSH | ACK, (5_001, 1_001));
    pair.send(1, client, RST | ACK, (1_001, 5_001));
    let begun = |pair: &Pair| pair.balancers[1].state().conntrack().map(|it| it.counters().committed);
    let before = begun(&pair);
    let asks = (0..8).take_while(|_| {
        pair.bed.now += Span::from_secs(2);
        pair.send(1, client, SYN, (90_000, 0));
        begun(&pair) == before
    });
    assert_eq!(asks.count(), 4, "ten seconds");
}

/// One that was away says nothing bad of servers whose answers came to the other one meanwhile.
#[test]
fn questions_that_others_have_seen_answered_are_no_servers_fault() {
    let mut pair = Pair::new();
    let all: Vec<_> = (0..20).map(|number| pair.open(0, 4_000 + number)).collect();
    for (client, _) in &all {
        pair.send(0, *client, PSH | ACK, (1_001, 5_001));
    }
    pair.run(Span::from_ms(5));
    pair.balancers[0].set_carrier(pair.bed.now, false);
    pair.is_cut = true;
    for (client, seen) in &all {
        assert_eq!(pair.send(1, *client, PSH | ACK, (1_001, 5_001)).0, Decision::To(host(1)));
        assert_eq!(pair.answer(1, *seen, PSH | ACK, (5_001, 1_001)), Some(host(0)));
        pair.send(1, *client, FIN | ACK, (1_001, 5_001));
        pair.answer(1, *seen, FIN | ACK, (5_001, 1_002));
    }
    assert_eq!(pair.active(1), 0);
    pair.run(Span::from_secs(2));
    pair.is_cut = false;
    pair.balancers[0].set_carrier(pair.bed.now, true);
    pair.run(Span::from_ms(50));
    assert_eq!((pair.balancers[0].is_usable(), pair.active(0)), (true, 0));
    let view = pair.balancers[0].state().views().next().expect("it is there");
    let failed: u64 = view.machine.status(pair.bed.now).map(|server| server.failed).sum();
    assert_eq!(failed, 0);
}

/// What a balancer knows is said of each service by itself.
#[test]
fn a_balancer_knows_the_connections_of_each_service() {
    let bed = Bed::with(3, &[80, 81], |service| {
        (service.forwarding, service.at) = (ForwardingMethod::FullNat, AT.to_vec());
        service.servers.truncate(1);
        service.spec.servers.truncate(1);
    });
    let mut balancer = made(&bed, 0, 7);
    for (number, port) in [(0, 80), (1, 80), (2, 80), (3, 81)] {
        let frame = frame(bed.client(4_000 + number), Endpoint(VIRTUAL, port), SYN, (1_000, 0));
        let sender = (&bed.services, (&bed.host_table, host(0)));
        let decision =
            balancer.state_mut().process_from_client(bed.now, sender, &super::whole(&frame), &mut Vec::new());
        assert_eq!(decision, Decision::To(host(1)));
    }
    assert_eq!([0, 1].map(|service| balancer.view(service, true).connections), [3, 1]);
}

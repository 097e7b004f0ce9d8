//! Balancers at hosts: what they say to each other, and what becomes of connections when one is gone.

use super::super::ServiceCounters;
use super::super::balancers::{Balancer, Outgoing};
use super::super::sync::parse_sync;
use super::*;

/// Two balancers of a service with full NAT, and what they say to each other.
struct Pair {
    bed: Bed,
    balancers: [Balancer; 2],
    /// Whether what they say is lost.
    is_cut: bool,
    messages: u32,
}

/// Hosts of balancers: the last two.
const AT: [NodeId; 2] = [host(2), host(3)];

impl Pair {
    fn new() -> Self {
        let bed = Bed::with(3, &[80], |service| {
            service.forwarding = ForwardingMethod::FullNat;
            service.at = AT.to_vec();
            service.servers.truncate(1);
            service.spec.servers.truncate(1);
        });
        let made = |at: usize| Balancer::new(bed.now, &bed.services, &bed.services.balancers[at], 7 + at as u64);
        let balancers = [made(0), made(1)];
        Self { bed, balancers, is_cut: false, messages: 0 }
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
                    if !self.is_cut {
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
        let decision = state.process_from_client(self.bed.now, sender, (&frame, frame.len() as u32), &mut fields);
        self.balancers[at].note_packet(self.bed.now);
        (decision, fields)
    }

    fn answer(&mut self, at: usize, to: Endpoint, flags: u8, numbers: (u32, u32)) -> Option<NodeId> {
        let frame = frame(Endpoint(self.bed.address(1), SERVER_PORT), to, flags, numbers);
        let state = self.balancers[at].state_mut();
        let client = state.client_of_answer(self.bed.now, &self.bed.host_table, &frame);
        let mut fields = Vec::new();
        let decision = state.process_from_server(self.bed.now, (&frame, frame.len() as u32), &mut fields);
        self.balancers[at].note_packet(self.bed.now);
        client.filter(|_| decision == Decision::Translated).map(|(client, _)| client)
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
        [0, 1].map(|at| self.balancers[at].view(true).connections)
    }

    fn active(&mut self, at: usize) -> u32 {
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
    assert_eq!((pair.connections(), pair.balancers[1].view(true).malformed), (before, message.len() as u64));
    // Nobody else is a peer.
    pair.balancers[1].hear_sync(pair.bed.now, host(0), &pair.bed.host_table, message);
    assert_eq!(pair.connections(), before);
    pair.balancers[1].hear_sync(pair.bed.now, AT[0], &pair.bed.host_table, message);
    assert_eq!(pair.connections(), [2, 2]);
}

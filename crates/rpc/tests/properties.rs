//! What must hold whatever happens: registries become equal, each call ends once and in time, none is executed twice that must not be.

use std::collections::{BTreeMap, BTreeSet};

use crate::net::{Faults, Net, PERFECT};
use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use proptest::prelude::*;
use rpc::{Call, CallId, Config, DeliveryId, Error, Input, Offer, Output, Path, ProviderId, Rpc};

const PATHS: [&str; 4] = ["/", "/people:people", "/people:people/person=7", "/car:cars"];
const NAMES: [&str; 2] = ["people:add-person", "toaster:make-toast"];

fn faults() -> impl Strategy<Value = Faults> {
    (0_u32..60, 0_u32..60, 0_u32..200).prop_map(|(lost, doubled, jitter_ms)| Faults {
        lost,
        doubled,
        jitter_ms,
        ..PERFECT
    })
}

fn offer(rng: &mut Rng) -> Offer {
    let name = NAMES[rng.below(2) as usize].to_owned();
    let path = rng.below(5) as usize;
    Offer { name, path: PATHS.get(path).map(|path| Path::parse(path).expect("a path")) }
}

/// A cluster under random events, and what is known about its calls.
struct World {
    net: Net,
    rng: Rng,
    all: Vec<ServerId>,
    incarnations: BTreeMap<ServerId, u64>,
    open: Vec<(ServerId, ProviderId, DeliveryId)>,
    /// Where each call runs until when at the latest, if it is not answered.
    calls: BTreeMap<CallId, (ServerId, Time)>,
    idempotent: BTreeSet<CallId>,
    executed: BTreeMap<CallId, u32>,
    /// Calls whose callers heard that they were certainly not executed.
    not_executed: BTreeSet<CallId>,
    answered: u64,
    lost_callers: u64,
}

impl World {
    fn new(seed: u64, servers: u64, faults: Faults) -> Self {
        let mut net = Net::cluster(seed, servers, Config::default());
        net.faults = faults;
        let all: Vec<_> = (1..=servers).map(ServerId).collect();
        Self {
            net,
            rng: Rng::new(seed).fork(7),
            incarnations: all.iter().map(|&server| (server, 1)).collect(),
            all,
            open: Vec::new(),
            calls: BTreeMap::new(),
            idempotent: BTreeSet::new(),
            executed: BTreeMap::new(),
            not_executed: BTreeSet::new(),
            answered: 0,
            lost_callers: 0,
        }
    }

    fn any_server(&mut self) -> ServerId {
        self.all[self.rng.below(self.all.len() as u32) as usize]
    }

    fn any_provider(&mut self) -> ProviderId {
        ProviderId(u64::from(self.rng.below(3)))
    }

    fn step(&mut self, n: u64) {
        let at = self.any_server();
        let provider = self.any_provider();
        let offers = vec![offer(&mut self.rng)];
        match self.rng.below(20) {
            0..=2 => self.net.input(at, Input::Offer { provider, offers }),
            3 => self.net.input(at, Input::Withdraw { provider, offers }),
            4 => self.net.input(at, Input::ProviderGone(provider)),
            5..=9 => self.call(at, n),
            10..=13 => self.reply(),
            14 => {
                let other = self.any_server();
                self.net.input(at, Input::ServerLost(other));
            }
            15 => self.net.everybody(&self.all.clone()),
            16 => {
                let other = self.any_server();
                self.net.cut.insert((at, other));
            }
            17 => self.net.cut.clear(),
            18 if self.rng.below(3) == 0 => self.restart(at),
            _ => {}
        }
        let span = Span::from_ms(u64::from(self.rng.below(60)));
        self.net.advance(span);
        self.look();
    }

    fn call(&mut self, at: ServerId, n: u64) {
        let Offer { name, path } = offer(&mut self.rng);
        let timeout = Span::from_ms(1 + u64::from(self.rng.below(3_000)));
        let (id, idempotent) = (CallId(n), self.rng.below(2) == 0);
        self.calls.insert(id, (at, self.net.now + timeout));
        if idempotent {
            self.idempotent.insert(id);
        }
        // Providers see which call it is.
        let call = Call { id, name, path, input: n.to_le_bytes()[..].into(), timeout, idempotent };
        self.net.input(at, Input::Call(call));
    }

    fn reply(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let (at, provider, delivery) = self.open.swap_remove(self.rng.below(self.open.len() as u32) as usize);
        self.net.input(at, Input::Reply { provider, delivery, result: Ok([1][..].into()) });
    }

    fn restart(&mut self, at: ServerId) {
        let incarnation = self.incarnations.get_mut(&at).expect("one of all");
        *incarnation += 1;
        self.net.crash(at);
        self.net.start(at, *incarnation, Config::default());
        self.net.everybody(&self.all.clone());
        let before = self.calls.len();
        self.calls.retain(|_, (server, _)| *server != at);
        self.lost_callers += (before - self.calls.len()) as u64;
        self.open.retain(|(server, ..)| *server != at);
    }

    /// Judges what came out.
    fn look(&mut self) {
        for (time, at, output) in core::mem::take(&mut self.net.events) {
            match output {
                Output::Deliver { provider, delivery, input, .. } => {
                    let id = CallId(u64::from_le_bytes(input[..].try_into().expect("8 bytes")));
                    let count = self.executed.entry(id).or_default();
                    *count += 1;
                    assert!(*count == 1 || self.idempotent.contains(&id), "call {id} was delivered {count} times");
                    self.open.push((at, provider, delivery));
                }
                Output::Answer { id, result } => {
                    if matches!(result, Err(Error::NoProvider { .. } | Error::Unreachable { .. } | Error::Busy { .. }))
                    {
                        self.not_executed.insert(id);
                    }
                    // A caller that was restarted meanwhile has lost its calls, so an answer belongs to one under way.
                    let (server, deadline) = self.calls.remove(&id).expect("each call is answered once");
                    assert!(server == at && time <= deadline, "call {id} ended at {time:?}, after {deadline:?}");
                    self.answered += 1;
                }
                Output::OfferRefused { error, .. } | Output::MessageRefused { error, .. } => panic!("{error}"),
                Output::Send { .. } | Output::Ended { .. } => unreachable!("the network takes these"),
            }
        }
        let lie = self.not_executed.iter().find(|id| self.executed.contains_key(id));
        assert_eq!(lie, None, "a call was executed and its caller heard that it was not");
        let now = self.net.now;
        assert!(self.calls.values().all(|&(_, deadline)| deadline >= now), "a call has not ended in time");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn each_call_ends_once_in_time_and_is_not_executed_twice(seed: u64, servers in 1_u64..6, faults in faults(), steps in 50_u64..300) {
        let mut world = World::new(seed, servers, faults);
        for n in 0..steps {
            world.step(n);
        }
        world.net.advance(Span::from_secs(4));
        world.look();
        prop_assert!(world.calls.is_empty());
        for rpc in world.net.servers.values() {
            prop_assert_eq!(rpc.calls_under_way(), 0);
            prop_assert!(rpc.describe().iter().all(|status| status.calls_under_way == 0));
        }
    }

    #[test]
    fn registries_become_equal(seed: u64, servers in 2_u64..8, faults in faults(), steps in 1_u64..80) {
        let mut world = World::new(seed, servers, faults);
        for n in 0..steps {
            world.step(n);
        }
        // From here on nothing changes any more, and as bad as before the network still gets some messages through.
        world.net.cut.clear();
        world.net.everybody(&world.all.clone());
        let end = world.net.now + Span::from_secs(60);
        while !world.net.agrees() && world.net.now < end {
            world.net.advance(Span::from_ms(100));
        }
        prop_assert!(world.net.agrees(), "not equal after a minute");
        for (server, rpc) in &world.net.servers {
            prop_assert_eq!(rpc.registry().buckets().len(), world.all.len());
            prop_assert_eq!(rpc.registry().own(), *server);
        }
        // A restart, with a network that is well: a round of gossip reaches each server within a few intervals.
        world.net.faults = PERFECT;
        world.restart(ServerId(1));
        world.net.advance(Span::from_secs(3));
        prop_assert!(world.net.agrees());
        prop_assert!(world.net.servers[&ServerId(1)].registry().own_bucket().offers.is_empty());
    }
}

/// A network without faults: at once means one and a half round trips.
#[test]
fn a_change_is_known_everywhere_after_three_messages() {
    let mut net = Net::cluster(3, 7, Config::default());
    net.advance(Span::from_secs(2));
    let offers = vec![Offer { name: NAMES[0].to_owned(), path: None }];
    net.input(ServerId(4), Input::Offer { provider: ProviderId(1), offers });
    net.advance(Span::from_ms(3));
    assert!(net.agrees());
    // And at rest there is one status an interval and server, nothing else.
    let before: Vec<_> = net.servers.values().map(Rpc::counters).collect();
    net.advance(Span::from_secs(10));
    for (rpc, before) in net.servers.values().zip(before) {
        assert_eq!(rpc.counters().statuses_sent - before.statuses_sent, 100);
        assert_eq!(rpc.counters().envelopes_sent, before.envelopes_sent);
    }
}

//! Registry and broker as one machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Nano, Rng, ServerId};

use crate::broker::{Broker, Context, RemoteCall};
use crate::error::{Bound, Error, Loss};
use crate::providers::Providers;
use crate::registry::Heard;
use crate::route::{Known, near};
use crate::{Config, Counters, DeliveryId, Input, Message, Offer, Output, ProviderId, Registry, Status};

/// The RPC part of one server, as a [`Control`] machine.
///
/// It begins alone: [`Input::Members`] and [`Input::Live`] say who else there is.
#[derive(Clone, Debug)]
pub struct Rpc {
    config: Config,
    registry: Registry,
    providers: Providers,
    broker: Broker,
    /// Servers that can be reached, members or not.
    reachable: BTreeSet<ServerId>,
    /// Of the other members, those that can be reached.
    live: BTreeSet<ServerId>,
    rng: Rng,
    gossip_at: Time,
    announced_at: Option<Time>,
    /// When the own bucket is next announced to all live servers.
    announce_at: Time,
    /// When a status was last answered by a status, by server.
    answered_at: BTreeMap<ServerId, Time>,
    out: VecDeque<Output>,
    counters: Counters,
}

impl Rpc {
    /// The machine of server `own`.
    ///
    /// `incarnation` must be higher at each start of the server, such as its wall-clock time in ms or a counter on disk; `rng` chooses whom to gossip with.
    pub fn new(own: ServerId, incarnation: u64, config: Config, rng: Rng) -> Self {
        Self {
            config,
            registry: Registry::new(own, incarnation),
            providers: Providers::default(),
            broker: Broker::new(config),
            reachable: BTreeSet::new(),
            live: BTreeSet::new(),
            rng,
            gossip_at: Time::ZERO,
            announced_at: None,
            announce_at: Time::NEVER,
            answered_at: BTreeMap::new(),
            out: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Who offers what.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What a local client offers now.
    pub fn offers_of(&self, provider: ProviderId) -> Vec<Offer> {
        self.providers.offers_of(provider)
    }

    /// What is offered and looks like this name, for whoever may know it. It costs the same whatever is offered.
    pub fn near(&self, name: &str) -> Vec<String> {
        near(&self.registry, name)
    }

    /// Whether a provider's answer is still waited for.
    pub fn awaits(&self, delivery: DeliveryId) -> bool {
        self.broker.awaits(delivery)
    }

    /// Deliveries to local providers that have not ended.
    pub fn deliveries_under_way(&self) -> usize {
        self.broker.executions()
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Calls of local clients that have not ended.
    pub fn calls_under_way(&self) -> usize {
        self.broker.calls()
    }

    /// All servers of the cluster with their buckets, for status pages.
    pub fn describe(&self) -> Vec<Status> {
        let own = self.registry.own();
        let servers: BTreeSet<_> = self.registry.members().iter().copied().chain([own]).collect();
        servers
            .into_iter()
            .map(|server| Status {
                server,
                is_live: server == own || self.live.contains(&server),
                bucket: self.registry.buckets().get(&server).cloned(),
                calls_under_way: if server == own {
                    self.broker.executions()
                } else {
                    self.broker.under_way_to(server)
                },
            })
            .collect()
    }

    /// Lends the broker what it works with.
    fn with_broker<R>(&mut self, now: Time, f: impl FnOnce(&mut Broker, &mut Context<'_>) -> R) -> R {
        let known = Known { registry: &self.registry, providers: &self.providers, live: &self.live };
        f(&mut self.broker, &mut Context { now, known, out: &mut self.out, counters: &mut self.counters })
    }

    fn message(&mut self, now: Time, from: ServerId, message: Message) {
        if let Err(error) = self.take_message(now, from, message) {
            self.counters.messages_refused += 1;
            self.out.push_back(Output::MessageRefused { from, error });
        }
    }

    fn take_message(&mut self, now: Time, from: ServerId, message: Message) -> Result<(), Error> {
        if !self.registry.members().contains(&from) {
            if let Message::Call { attempt, .. } = message {
                self.out.push_back(Output::Send { to: from, message: Message::Busy { attempt } });
            }
            return Err(Error::Stranger { server: from });
        }
        match message {
            Message::Status { versions } => {
                let heard = self.registry.hear_status(&versions)?;
                self.heard(now, from, heard);
            }
            Message::Envelope { buckets } => {
                let heard = self.registry.hear_envelope(buckets)?;
                self.heard(now, from, heard);
            }
            Message::Call { attempt, receiver, name, path, input, timeout } => {
                let call = RemoteCall { attempt, receiver, name, path, input, timeout };
                self.with_broker(now, |broker, cx| broker.remote_call(cx, from, call))?;
            }
            Message::Result { attempt, verdict } => {
                self.with_broker(now, |broker, cx| broker.result(cx, from, attempt, verdict));
            }
            Message::NotHere { attempt } => self.with_broker(now, |broker, cx| broker.not_here(cx, from, attempt)),
            Message::Busy { attempt } => {
                let refusal = Error::busy(Bound::Executions);
                self.with_broker(now, |broker, cx| broker.not_taken(cx, from, attempt, refusal));
            }
        }
        Ok(())
    }

    fn heard(&mut self, now: Time, from: ServerId, heard: Heard) {
        if let Some(message) = heard.envelope {
            self.counters.envelopes_sent += 1;
            self.out.push_back(Output::Send { to: from, message });
        }
        // Two servers that each hold what the other cannot take would answer each other without end.
        let may_answer = self.answered_at.get(&from).is_none_or(|&last| last + self.config.announce_interval <= now);
        if heard.wants_more && may_answer {
            self.answered_at.insert(from, now);
            self.send_status(from);
        }
        self.counters.buckets_taken += heard.replaced.len() as u64;
        for (server, before) in heard.replaced {
            self.broker.bucket_replaced(server);
            let incarnation = self.registry.buckets()[&server].version.incarnation;
            if before.is_some_and(|before| before.incarnation < incarnation) {
                self.with_broker(now, |broker, cx| broker.server_lost(cx, server, Loss::Restarted, incarnation));
            }
        }
        if heard.is_own_refuted {
            self.counters.versions_refuted += 1;
            self.announce(now);
        }
    }

    /// Tells all live servers about the own bucket, at once or as soon as the rate allows.
    fn announce(&mut self, now: Time) {
        let earliest = self.announced_at.map_or(now, |last| last + self.config.announce_interval);
        self.announce_at = self.announce_at.min(earliest.max(now));
    }

    fn offer(&mut self, now: Time, provider: ProviderId, offers: Vec<Offer>) {
        match self.providers.add(provider, offers) {
            Ok(fresh) => self.change_own(now, &[], fresh),
            Err(error) => self.out.push_back(Output::OfferRefused { provider, error }),
        }
    }

    /// The providers keep the bounds of a bucket.
    fn change_own(&mut self, now: Time, gone: &[Offer], fresh: Vec<Offer>) {
        if self.registry.change_own(gone, fresh) {
            self.announce(now);
        }
    }

    fn provider_gone(&mut self, now: Time, provider: ProviderId) {
        let gone = self.providers.remove(provider);
        self.change_own(now, &gone, Vec::new());
        self.with_broker(now, |broker, cx| broker.provider_gone(cx, provider));
    }

    fn members(&mut self, now: Time, members: Vec<ServerId>) {
        self.registry.set_members(members);
        self.live = self.reachable.intersection(self.registry.members()).copied().collect();
        let members = self.registry.members().clone();
        self.answered_at.retain(|server, _| members.contains(server));
        self.with_broker(now, |broker, cx| broker.keep_servers(cx, &members));
    }

    fn set_live(&mut self, now: Time, live: Vec<ServerId>) {
        self.reachable = live.into_iter().collect();
        let live: BTreeSet<_> = self.reachable.intersection(self.registry.members()).copied().collect();
        let before = core::mem::replace(&mut self.live, live);
        for server in before {
            if !self.live.contains(&server) {
                self.with_broker(now, |broker, cx| broker.server_lost(cx, server, Loss::ServerLost, u64::MAX));
            }
        }
    }

    fn server_lost(&mut self, now: Time, server: ServerId) {
        self.reachable.remove(&server);
        self.live.remove(&server);
        self.with_broker(now, |broker, cx| broker.server_lost(cx, server, Loss::ServerLost, u64::MAX));
    }

    fn run_timers(&mut self, now: Time) {
        if self.announce_at <= now {
            self.announce_at = Time::NEVER;
            self.announced_at = Some(now);
            let peers: Vec<_> = self.live.iter().copied().collect();
            for peer in peers {
                self.send_status(peer);
            }
        }
        if self.gossip_at <= now {
            // An interval of nothing would never let the driver wait.
            self.gossip_at = now + self.config.gossip_interval.max(Span::from_us(1));
            if !self.live.is_empty() {
                let chosen = self.rng.below(self.live.len() as u32) as usize;
                let peer = self.live.iter().nth(chosen).copied();
                self.send_status(peer.expect("one of the live servers"));
            }
        }
        if self.broker.next_deadline() <= now {
            self.with_broker(now, Broker::expire);
        }
    }

    fn send_status(&mut self, to: ServerId) {
        self.counters.statuses_sent += 1;
        self.out.push_back(Output::Send { to, message: self.registry.status() });
    }
}

impl Control<Nano> for Rpc {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Message { from, message } => self.message(now, from, message),
            Input::Members(members) => self.members(now, members),
            Input::Live(live) => self.set_live(now, live),
            Input::ServerLost(server) => self.server_lost(now, server),
            Input::Unsent { to, attempt } => self.with_broker(now, |broker, cx| broker.unsent(cx, to, attempt)),
            Input::Offer { provider, offers } => self.offer(now, provider, offers),
            Input::Withdraw { provider, offers } => {
                let gone = self.providers.withdraw(provider, &offers);
                self.change_own(now, &gone, Vec::new());
            }
            Input::ProviderGone(provider) => self.provider_gone(now, provider),
            Input::Call(call) => self.with_broker(now, |broker, cx| broker.call(cx, call)),
            Input::Cancel(id) => self.with_broker(now, |broker, cx| broker.cancel(cx, id)),
            Input::Undelivered { delivery } => self.with_broker(now, |broker, cx| broker.undelivered(cx, delivery)),
            Input::Reply { provider, delivery, result } => {
                self.with_broker(now, |broker, cx| broker.reply(cx, provider, delivery, result));
            }
        }
    }

    fn poll(&mut self, now: Time) -> Step<Output> {
        self.run_timers(now);
        if let Some(output) = self.out.pop_front() {
            return Step::Do(output);
        }
        match self.broker.next_ended() {
            Some((provider, delivery)) => Step::Do(Output::Ended { provider, delivery }),
            None => Step::Wait(self.gossip_at.min(self.announce_at).min(self.broker.next_deadline())),
        }
    }
}

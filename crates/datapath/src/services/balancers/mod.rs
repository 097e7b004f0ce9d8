//! Balancers at hosts of the network: a service that has `at` is balanced by one of several, as boxes do it.
//!
//! ```text
//!   client -> virtual address --> balancer (by VRRP the active one; else by the connection's hash) -> server
//!   server -> balancer's own address, port --> the balancer whose port it is, or another one that has heard of the connection -> client
//! ```
//!
//! Each has its own state of all services that it balances: what it says to its peers, and what they say to it, are datagrams that cross the fabric ([`super::sync`]). One that
//! comes back asks for all connections first, and gets packets once it has them.
//!
//! A balancer is a host's program as far as the fabric sees: what is for it is delivered to that host, and what it sends leaves there. The host's own programs go on beside it.

mod balancer;
mod drive;
mod forward;
mod frames;
mod peer;

use machine::{Rebase, Span, Time};
use serde::{Deserialize, Serialize};
use topology::{NodeId, TiVec};

use super::syn_cookies::CookieKey;
use super::{Service, ServiceState, ServiceView, Services};
pub(crate) use balancer::Balancer;
#[cfg(test)]
pub(super) use balancer::Outgoing;
pub(super) use forward::Towards;

/// Balancers of one service at most.
pub const BALANCERS_MAX: usize = 4;

/// How one of several balancers is made the active one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VrrpSettings {
    /// The virtual router: 1 to 255.
    pub router: u8,
    /// From advertisement to advertisement, centiseconds.
    pub interval_cs: u16,
    /// Hosts whose own programs may take part.
    pub partners: Vec<NodeId>,
}

impl VrrpSettings {
    /// The priority of the balancer at this place of `at`: the first one is preferred.
    pub const fn priority(place: usize) -> u8 {
        200 - 40 * place as u8
    }
}

/// A balancer of a service, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalancerView {
    /// Its host.
    pub host: NodeId,
    /// What it does.
    pub role: BalancerRole,
    /// Connections of the service that it has or has heard of.
    pub connections: u64,
    /// Connections that it has heard of from others, or of which it has heard that they have gone on.
    pub adopted: u64,
    /// Datagrams about connections that it could not read.
    pub malformed: u64,
}

/// What a balancer does for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalancerRole {
    /// It gets packets.
    Active,
    /// It would, if the active one were not there.
    Backup,
    /// It hears of connections, and gets packets when it has heard of all.
    Syncing,
    /// Its link is down.
    Down,
}

impl BalancerRole {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backup => "backup",
            Self::Syncing => "syncing",
            Self::Down => "down",
        }
    }
}

/// The balancers of a network.
#[derive(Debug)]
pub struct Balancers {
    all: Vec<Balancer>,
    /// By host: which of them is there.
    at: TiVec<NodeId, Option<u16>>,
    /// By service: the one that has advertised last that it is active, where one is by VRRP.
    active: Vec<Option<usize>>,
    /// When they are to be woken.
    armed: Time,
}

impl Default for Balancers {
    fn default() -> Self {
        Self { all: Vec::new(), at: TiVec::new(), active: Vec::new(), armed: Time::NEVER }
    }
}

impl Balancers {
    /// Balancers as they start. `seed` is where their randomness starts.
    pub(crate) fn new(now: Time, services: &Services, seed: u64) -> Self {
        let made = |(number, host): (usize, &super::BalancerHost)| {
            let own = machine::mix(seed ^ machine::mix(number as u64 | 1 << 40));
            Balancer::new(now, services, host, own).with_cookies_of(CookieKey::new(seed))
        };
        let mut balancers = Self {
            all: services.balancers.iter().enumerate().map(made).collect(),
            active: Vec::new(),
            ..Self::default()
        };
        balancers.index();
        // Until somebody has advertised, the fabric knows no better.
        balancers.active = services.all.iter().map(|service| balancers.at(*service.at.first()?)).collect();
        balancers
    }

    fn index(&mut self) {
        self.at.raw.clear();
        for (number, balancer) in self.all.iter().enumerate() {
            let count = self.at.len().max(usize::from(balancer.host()) + 1);
            self.at.raw.resize(count, None);
            self.at[balancer.host()] = Some(number as u16);
        }
    }

    /// Which of them is at a host.
    #[inline]
    fn at(&self, host: NodeId) -> Option<usize> {
        self.at.get(host).copied().flatten().map(usize::from)
    }

    /// Services have changed: balancers that stay keep their connections.
    pub(crate) fn take_over(
        &mut self,
        now: Time,
        old: &mut Self,
        (was, is): (&Services, &Services),
        nodes: &TiVec<NodeId, Option<NodeId>>,
    ) {
        let had_some = !old.all.is_empty();
        // Clients have cookies of it.
        if let Some(known) = old.all.first().map(|old| old.state().cookie_key) {
            self.states().for_each(|state| state.cookie_key = known);
        }
        for balancer in &mut self.all {
            let before = old.all.iter_mut().find(|old| nodes[old.host()] == Some(balancer.host()));
            match before {
                Some(before) => balancer.take_over(now, before, (was, is), nodes),
                None if had_some => balancer.begin_late(now),
                None => {}
            }
        }
        for (number, service) in is.all.iter().enumerate() {
            let before = was.all.iter().position(|before| before.name == service.name);
            let host = before.and_then(|before| Some(old.all[old.active[before]?].host()));
            let known = host.and_then(|host| nodes[host]).filter(|host| service.at.contains(host));
            if let Some(at) = known.and_then(|host| self.at(host)) {
                self.active[number] = Some(at);
            }
        }
    }

    /// This one has advertised last that it is active for the service of this name.
    pub(crate) fn set_active(&mut self, services: &Services, name: &str, host: NodeId) {
        let number = services.all.iter().position(|service| service.name == name);
        if let (Some(number), Some(at)) = (number, self.at(host)) {
            self.active[number] = Some(at);
        }
    }

    /// The states of services at all balancers.
    pub(crate) fn states(&mut self) -> impl Iterator<Item = &mut ServiceState> {
        self.all.iter_mut().map(Balancer::state_mut)
    }

    /// Has views of services that are balanced at hosts show what the active balancer knows, and what all of them have counted.
    pub(crate) fn show<'a>(&'a self, services: &'a Services, views: &mut [ServiceView<'a>]) {
        for (number, (service, view)) in services.all.iter().zip(views).enumerate() {
            let all: Vec<(BalancerView, &ServiceState)> = self.of_service(number, service).collect();
            let leading = all.iter().position(|(balancer, _)| balancer.role == BalancerRole::Active).unwrap_or(0);
            let Some(shown) = all.get(leading).and_then(|(_, state)| state.views().nth(number)) else { continue };
            *view = shown;
            view.balancers = all.iter().map(|(balancer, _)| *balancer).collect();
            let others = all.iter().enumerate().filter(|(at, _)| *at != leading);
            for other in others.filter_map(|(_, (_, state))| state.views().nth(number)) {
                view.counters.add(&other.counters);
                for (host, counters) in &other.servers {
                    if let Some((_, own)) = view.servers.iter_mut().find(|(own, _)| own == host) {
                        own.add(counters);
                    }
                }
                view.others.push(other.machine);
            }
        }
    }

    /// The balancers of a service, by its number, in the order of the file; and the state of each.
    fn of_service<'a>(
        &'a self,
        number: usize,
        service: &'a Service,
    ) -> impl Iterator<Item = (BalancerView, &'a ServiceState)> + 'a {
        let own = service.at.iter().filter_map(|host| self.at(*host));
        own.map(move |at| {
            let balancer = &self.all[at];
            let is_active = service.vrrp.is_none() || self.active[number] == Some(at) && balancer.is_elected(number);
            (balancer.view(number, is_active), balancer.state())
        })
    }
}

impl Rebase for Balancers {
    fn rebase(&mut self, by: Span) {
        let Self { all, at: _, active: _, armed } = self;
        all.rebase(by);
        armed.rebase(by);
    }
}

//! Selection logic (6.4.14): which ports may go together, and which of the aggregates is used.
//!
//! There are as many aggregators as ports can be, so each set of ports that may go together has one. As in Linux, only one of
//! them, the *active*, carries the bond's traffic; ports of the others stand by, which the partner sees by their sync bit.

use core::cmp::Reverse;

use machine::{Span, Time};
use wire::{LacpInfo, LacpState};

use super::Lacp;
use super::event::{Event, Partner};
use super::mux::MuxState;
use super::port::{Port, Selected};
use super::receive::ReceiveState;
use crate::config::AdSelect;
use crate::{MEMBERS_MAX, MemberId, MemberSet};

/// How long an aggregate is wanted that the partner does not use, while it uses another: for so long the partner may follow.
pub const PATIENCE: Span = Span::from_secs(10);

/// What ports of one aggregate have in common (6.3.6, the LAG identifier).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LagId {
    key: u16,
    partner: Partner,
    /// The port, if it may not go with any other.
    individual: Option<MemberId>,
}

/// An aggregate as the choice of the active one sees it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    aggregator: MemberId,
    partner: Partner,
    individual: bool,
    ports: MemberSet,
    speed_mbps: u64,
    /// The partner uses it: it has put one of these ports in sync.
    claimed: bool,
    /// One of its ports is attached.
    attached: bool,
}

impl Port {
    fn lag_id(&self, id: MemberId) -> LagId {
        let together = self.actor.state.has(LacpState::AGGREGATION) && self.partner.state.has(LacpState::AGGREGATION);
        LagId {
            key: self.actor.key,
            partner: Partner::of(&self.partner),
            individual: if together { None } else { Some(id) },
        }
    }

    /// Whether enough is known of its partner, were it only that there is none.
    ///
    /// The standard would also choose an aggregate for a port that has just come up, by the defaults. That would be undone by the
    /// partner's first LACPDU.
    fn selectable(&self, now: Time) -> bool {
        let known = match self.receive {
            ReceiveState::PortDisabled => false,
            ReceiveState::Expired => !self.is_defaulted(),
            ReceiveState::LacpDisabled | ReceiveState::Defaulted | ReceiveState::Current => true,
        };
        self.carrier.up && known && !self.looped(now)
    }
}

impl Lacp {
    /// Assigns aggregators and chooses the active one. True if a port's *Selected* changed.
    pub(super) fn select(&mut self, now: Time) -> bool {
        let mut changed = self.assign(now);
        let candidates = self.candidates();
        let active = self.choose(now, &candidates);
        if active.map(|it| it.aggregator) != self.active {
            self.active = active.map(|it| it.aggregator);
            self.log(Event::Active {
                partner: active.map(|it| it.partner),
                ports: active.map_or(MemberSet::EMPTY, |it| it.ports),
            });
        }
        for port in self.ports.values_mut().filter(|port| port.selected != Selected::Unselected) {
            let wanted = if port.aggregator == self.active { Selected::Selected } else { Selected::Standby };
            changed |= port.selected != wanted;
            port.selected = wanted;
        }
        changed
    }

    /// Takes ports out that cannot be used, and finds an aggregator for those that are detached.
    fn assign(&mut self, now: Time) -> bool {
        let mut changed = false;
        let ids: Vec<MemberId> = self.ports.keys().copied().collect();
        for id in ids {
            let port = &self.ports[&id];
            if !port.selectable(now) {
                let port = self.port_mut(id);
                changed |= port.selected != Selected::Unselected;
                port.selected = Selected::Unselected;
            } else if port.selected == Selected::Unselected && port.mux == MuxState::Detached {
                let lag = port.lag_id(id);
                // It may still hold one that it was put into and taken out of before its mux machine moved.
                self.port_mut(id).aggregator = None;
                let aggregator = self.aggregator_for(lag);
                let port = self.port_mut(id);
                port.aggregator = Some(aggregator);
                port.selected = Selected::Standby;
                changed = true;
            }
        }
        changed
    }

    /// The aggregator of the ports with this identifier, else the first without ports.
    fn aggregator_for(&self, lag: LagId) -> MemberId {
        let same = self
            .ports
            .iter()
            .find(|(id, port)| port.selected != Selected::Unselected && port.lag_id(**id) == lag)
            .and_then(|(_, port)| port.aggregator);
        same.unwrap_or_else(|| {
            (0..MEMBERS_MAX)
                .map(MemberId::new)
                .find(|&free| self.ports.values().all(|port| port.aggregator != Some(free)))
                .expect("there are as many aggregators as ports, and this port holds none")
        })
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (&id, port) in self.ports.iter().filter(|(_, port)| port.selected != Selected::Unselected) {
            let aggregator = port.aggregator.expect("a port is selected into an aggregator");
            let place = candidates.iter().position(|it| it.aggregator == aggregator).unwrap_or_else(|| {
                candidates.push(Candidate {
                    aggregator,
                    partner: Partner::of(&port.partner),
                    individual: port.lag_id(id).individual.is_some(),
                    ports: MemberSet::EMPTY,
                    speed_mbps: 0,
                    claimed: false,
                    attached: false,
                });
                candidates.len() - 1
            });
            let it = &mut candidates[place];
            it.ports.insert(id);
            it.speed_mbps += u64::from(port.carrier.speed_mbps);
            it.claimed |= !port.is_defaulted() && port.partner.state.has(LacpState::SYNCHRONIZATION);
            it.attached |= !matches!(port.mux, MuxState::Detached | MuxState::Waiting);
        }
        candidates
    }

    /// The aggregate to use, by the rules of the Linux bonding document: one with other ports before an individual one, one with a
    /// partner before one without, then by `ad_select`; of equals that in use.
    fn choose(&mut self, now: Time, candidates: &[Candidate]) -> Option<Candidate> {
        let best = candidates.iter().max_by_key(|it| self.rank(it)).copied()?;
        let current = candidates.iter().find(|it| Some(it.aggregator) == self.active).copied();
        let stays = current.is_some_and(|current| {
            self.settings.ad_select == AdSelect::Stable
                && current.attached
                && (current.partner.is_known() || !best.partner.is_known())
        });
        let chosen = if stays { current? } else { best };
        Some(self.yielded(now, candidates, chosen).unwrap_or(chosen))
    }

    fn rank(&self, it: &Candidate) -> impl Ord + use<> {
        let ports = if self.settings.ad_select == AdSelect::Count { it.ports.len() } else { 0 };
        let in_use = Some(it.aggregator) == self.active;
        (!it.individual, it.partner.is_known(), ports, it.speed_mbps, in_use, Reverse(it.aggregator))
    }

    /// Two ends may choose different aggregates of the same links, and then none would ever be in sync. The end whose system goes
    /// second gives in: if its choice is not in sync and a partner that goes first has put another one in sync, it takes that. A
    /// external partner may not know of this: then the first gives in after [`PATIENCE`].
    fn yielded(&mut self, now: Time, candidates: &[Candidate], chosen: Candidate) -> Option<Candidate> {
        if chosen.claimed || !candidates.iter().any(|it| it.claimed) {
            self.unclaimed_since = Time::NEVER;
            return None;
        }
        self.unclaimed_since = self.unclaimed_since.min(now);
        let impatient = now >= self.unclaimed_since + PATIENCE;
        let local = (self.settings.system_priority, self.settings.system);
        let goes_first = |it: &Candidate| (it.partner.priority, it.partner.system) < local;
        candidates
            .iter()
            .filter(|it| it.claimed && (impatient || goes_first(it)))
            .max_by_key(|it| self.rank(it))
            .copied()
    }

    /// Whether all ports that wait for `aggregator` have waited long enough (*Ready*).
    pub(super) fn ready(&self, now: Time, aggregator: MemberId) -> bool {
        self.ports
            .values()
            .filter(|port| port.aggregator == Some(aggregator) && port.mux == MuxState::Waiting)
            .all(|port| now >= port.wait_while)
    }

    /// The members of an aggregate that can be used.
    pub(super) fn ports_of(&self, aggregator: MemberId) -> MemberSet {
        let inside = |port: &Port| port.selected != Selected::Unselected && port.aggregator == Some(aggregator);
        self.ports.iter().filter(|(_, port)| inside(port)).map(|(&id, _)| id).collect()
    }

    /// A port of the active aggregate, which stands for all.
    pub(super) fn representative(&self) -> Option<&Port> {
        let first = self.ports_of(self.active?).iter().next()?;
        self.ports.get(&first)
    }

    /// A partner's end that is heard at `here` has left any port that is down: a cable was moved (6.4.8, `port_moved`).
    pub(super) fn forget_moved(&mut self, here: MemberId, end: &LacpInfo) {
        let settings = self.settings;
        let left = |port: &Port| {
            !port.carrier.up
                && !port.is_defaulted()
                && port.partner.system == end.system
                && port.partner.port == end.port
        };
        for (_, port) in self.ports.iter_mut().filter(|(id, port)| **id != here && left(port)) {
            port.initialize(&settings);
        }
    }
}

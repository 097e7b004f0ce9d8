//! What ends of bonds tell in the log, and how much of it: a partner that lies, or whose greetings are forged, can have a bond change its
//! mind at each of its frames.

use bond::Event;
use bond::end::Output;
use machine::Time;
use topology::BondEndId;

use super::edge::Edge;
use super::flight::Due;
use crate::log_quota::LogQuota;

impl Edge {
    fn bond_name(&self, index: BondEndId) -> String {
        let topology = &self.plan.fabric().topology;
        let end = &topology.bonds[index];
        format!("{} of {}", end.name, topology.nodes[end.node].name)
    }

    /// Writes into the log what an end of a bond has to tell.
    #[cold]
    pub(super) fn log_of_bond(&mut self, now: Time, index: BondEndId, output: &Output) {
        if let Output::Event(event @ Event::Remapped(_)) = output {
            // That is how load is followed, several times a second if the file wants it.
            return tracing::debug!("{}: {event:?}", self.bond_name(index));
        }
        self.log_what_was_left_out(now, index);
        let Some(quota) = &mut self.state.quotas[index] else { return };
        let due = quota.due();
        if !quota.take(now) {
            if due == Time::NEVER {
                self.state.flight.add_timer(quota.due().max(now), Due::Log(index));
            }
            return;
        }
        let name = self.bond_name(index);
        match output {
            Output::Event(event) => tracing::info!("{name}: {event:?}"),
            Output::Lacp(event) => tracing::info!("{name}: {event}"),
            Output::Peer(agreed) => tracing::info!("{name}: agreed with its peer: {agreed:?}"),
            Output::Send { .. } => {}
        }
    }

    /// Says what the log does not, once the minute is over.
    pub(super) fn log_what_was_left_out(&mut self, now: Time, index: BondEndId) {
        let Some(quota) = &mut self.state.quotas[index] else { return };
        if let Some(lines) = quota.take_left_out(now) {
            tracing::warn!(
                "{}: {lines} more changes in a minute are not in this log: its partner changes its mind too often",
                self.bond_name(index)
            );
        }
    }

    /// Sees to it that it is told what the logs of another plan's workers left out.
    pub(super) fn start_logs(&mut self) {
        for (index, quota) in self.state.quotas.iter_enumerated() {
            let due = quota.as_ref().map_or(Time::NEVER, LogQuota::due);
            if due != Time::NEVER {
                self.state.flight.add_timer(due, Due::Log(index));
            }
        }
    }
}

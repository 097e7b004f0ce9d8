//! Connections of services, and conversations of hosts, that the kernel carries: what has passed is counted here as if it had come this way.

use datapath::{ConnectionId, KernelUse, OffloadedFlow};
use machine::Time;

use super::edge::EdgeState;
use super::flight::Due;
use super::worker::Worker;
use crate::kernel_path::{FlowTable, Passed};

/// So many times as much as at a packet is looked for of what has expired, once a second: a flood's connections are gone in half a minute.
const CLEARINGS: u32 = 8;

impl Worker {
    /// Has connections carried by these flows from now on: those that did so until now.
    #[cold]
    pub(super) fn set_offloads(&mut self, flows: Option<Box<FlowTable>>) -> Option<Box<FlowTable>> {
        let now = self.now();
        self.withdraw_offloads(now);
        self.graph.services.set_offload(flows.is_some());
        let carries_direct = self.plan.fabric().kernel != KernelUse::No;
        self.graph.set_direct(flows.as_ref().filter(|_| carries_direct).map(|flows| flows.seed()));
        if let Some(flows) = &flows {
            self.edge.state.flight.add_timer(flows.sweeps_at().max(now), Due::Offloads);
        }
        std::mem::replace(&mut self.edge.offloads, flows)
    }

    /// Nothing is carried any more. Connections are again as soon as their packets come, if that is still possible.
    #[cold]
    pub(super) fn withdraw_offloads(&mut self, now: Time) {
        let Some(mut flows) = self.edge.offloads.take() else { return };
        flows.withdraw_all(now, |flow, passed| self.count(now, flow, passed));
        self.graph.services.set_offload(true);
        self.graph.forget_direct();
        self.edge.offloads = Some(flows);
    }

    /// What has ended is carried no more.
    #[inline]
    pub(super) fn drop_withdrawn_offloads(&mut self, now: Time) {
        while let Some(connection) = self.graph.take_withdrawn() {
            self.drop_offload(now, connection);
        }
    }

    fn drop_offload(&mut self, now: Time, connection: ConnectionId) {
        let Some(mut flows) = self.edge.offloads.take() else { return };
        flows.withdraw(now, connection, |flow, passed| self.count(now, flow, passed));
        self.edge.offloads = Some(flows);
    }

    /// Counts what has passed until now.
    pub(super) fn count_offloads(&mut self, now: Time) {
        let Some(mut flows) = self.edge.offloads.take() else { return };
        flows.read_all(|flow, passed| self.count(now, flow, passed));
        self.edge.offloads = Some(flows);
    }

    /// The same, and places are freed; again after a while.
    #[cold]
    pub(super) fn sweep_offloads(&mut self, now: Time) {
        let Some(mut flows) = self.edge.offloads.take() else { return };
        // There may be a timer left of those that were there before.
        if now >= flows.sweeps_at() {
            let again = flows.sweep(now, |flow, passed| self.count(now, flow, passed));
            self.graph.look_at_direct();
            self.edge.state.flight.add_timer(again, Due::Offloads);
            // Packets that are carried do not have what has expired found, as others do.
            (0..CLEARINGS).for_each(|_| self.graph.services.clear_expired(now));
        }
        self.edge.offloads = Some(flows);
        self.drop_withdrawn_offloads(now);
    }

    /// So much has passed by a flow since it was counted last.
    fn count(&mut self, now: Time, flow: &OffloadedFlow, Passed { packets, bytes }: Passed) {
        let EdgeState { ports, entered, .. } = &mut self.edge.state;
        *entered += packets;
        if let Some(Some(port)) = ports.get_mut(usize::from(flow.from)) {
            port.traffic.sent_packets += packets;
            port.traffic.sent_bytes += bytes;
        }
        if let Some(Some(port)) = ports.get_mut(usize::from(flow.to)) {
            port.traffic.count_received(true, packets, bytes);
        }
        let moment = self.plan.tables().at(now);
        self.graph.count_offloaded(moment, &mut self.edge, flow, (packets, bytes));
    }
}

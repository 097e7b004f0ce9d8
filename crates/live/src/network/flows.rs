//! Tables of flows of a live network's switches.

use fabric::{Fabric, FlowCommand, FlowInput, find_switch, packet, selection, table_changes};
use topology::NodeId;
use vswitch::conntrack::ConnectionStatus;
use vswitch::flow_table::{EntryStatus, ExplainedStep, Explanation, GroupStatus, MeterStatus, TableChange};
use vswitch::{Action, actions_in_words};

use super::{Network, describe};
use crate::Error;
use crate::control::{
    Applied, ConnectionEntry, FlowEntry, GroupCounters, MeterEntry, SwitchConnections, SwitchFlows, TracedEntry,
    TracedPacket,
};
use crate::dataplane::{TablesStatus, TrackedConnections};

impl Network {
    /// Changes the tables of a switch, as `ovs-ofctl` would: all of the texts, or none. One that has no tables gets them. How many flows or groups have
    /// changed.
    pub fn change_flows(
        &mut self,
        switch: &str,
        (command, is_strict): (FlowCommand, bool),
        texts: &[String],
    ) -> Result<usize, Error> {
        let Some(before) = self.fabric() else { return Err(Error::NothingRuns) };
        let node = find_switch(&before.topology, switch)?;
        let inputs: Vec<FlowInput> = texts.iter().cloned().map(FlowInput::of_command_line).collect();
        let changes = table_changes((&before.topology, node), (command, is_strict), &inputs);
        let changes = changes.map_err(|error| Error::File(describe(&error)))?;
        if !before.flow_tables.contains_key(&node) {
            self.give_tables(switch)?;
        }
        let Some(plane) = &self.plane else { return Err(Error::NothingRuns) };
        let changed = plane.change_flows(node, changes)?.map_err(|(number, error)| Error::Flow {
            text: texts.get(number).cloned().unwrap_or_default(),
            switch: switch.to_owned(),
            error,
        })?;
        self.changed_flows.insert(switch.to_owned());
        Ok(changed)
    }

    /// Brings back what the file says about the flows of switches where somebody has changed them.
    pub(super) fn restore_flows(&mut self, applied: &mut Applied) -> Result<(), Error> {
        let changed = std::mem::take(&mut self.changed_flows);
        let (Some(fabric), Some(plane)) = (self.fabric(), &self.plane) else { return Ok(()) };
        for switch in changed {
            let Ok(node) = find_switch(&fabric.topology, &switch) else { continue };
            if let Some(tables) = fabric.flow_tables.get(&node) {
                let all = selection((&fabric.topology, node), "").map_err(|error| Error::File(describe(&error)))?;
                let mut changes =
                    vec![TableChange::DeleteGroup(None), TableChange::DeleteMeter(None), TableChange::Delete(all)];
                changes.extend(tables.changes());
                let restored = plane.change_flows(node, changes)?;
                restored.map_err(|(_, error)| Error::Flow { text: String::new(), switch: switch.clone(), error })?;
            }
            if !applied.changed.contains(&switch) && !applied.created.contains(&switch) {
                applied.changed.push(switch);
                applied.kept = applied.kept.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Goes over to a network in which this switch has tables; packets go on meanwhile.
    fn give_tables(&mut self, switch: &str) -> Result<(), Error> {
        self.with_tables.insert(switch.to_owned());
        let fabric = self.definition(&self.changed_links, &self.changed_ports);
        let changed = fabric.and_then(|fabric| self.go_over_to(fabric, &self.folder.clone()));
        if changed.is_err() {
            self.with_tables.remove(switch);
        }
        changed?;
        self.reconnect();
        Ok(())
    }

    /// What is in the tables of a switch, or of all that have some: the flows that are meant, as `ovs-ofctl dump-flows` chooses them.
    pub fn flows(&self, switch: Option<&str>, text: &str) -> Result<Vec<SwitchFlows>, Error> {
        let Some(fabric) = self.fabric() else { return Err(Error::NothingRuns) };
        let switches: Vec<NodeId> = match switch {
            Some(name) => vec![find_switch(&fabric.topology, name)?],
            None => fabric.flow_tables.keys().copied().collect(),
        };
        let mut all = Vec::new();
        for node in switches {
            all.extend(self.flows_of(fabric, node, text)?);
        }
        Ok(all)
    }

    /// What a packet with these fields would meet at a switch.
    pub fn trace(&self, switch: &str, text: &str) -> Result<TracedPacket, Error> {
        let (Some(fabric), Some(plane)) = (self.fabric(), &self.plane) else { return Err(Error::NothingRuns) };
        let node = find_switch(&fabric.topology, switch)?;
        let fields = packet((&fabric.topology, node), text).map_err(|error| Error::File(describe(&error)))?;
        let Some(Explanation { steps, missed, actions, because_of }) = plane.explain(node, fields)? else {
            return Ok(TracedPacket { actions: actions_in_words(&[Action::Normal]), ..TracedPacket::default() });
        };
        Ok(TracedPacket {
            entries: steps.iter().map(step).collect(),
            missed,
            actions: actions_in_words(&actions),
            because_of: because_of.to_string(),
        })
    }

    /// The switches that have tables of flows, or the one that is named.
    fn with_flows(fabric: &Fabric, switch: Option<&str>) -> Result<Vec<NodeId>, Error> {
        let Some(name) = switch else { return Ok(fabric.flow_tables.keys().copied().collect()) };
        let node = find_switch(&fabric.topology, name)?;
        if !fabric.flow_tables.contains_key(&node) {
            return Err(Error::NoTables { switch: name.to_owned() });
        }
        Ok(vec![node])
    }

    /// Has a switch forget the connections of a zone, or all that it tracks; or all switches. How many they were.
    pub fn flush_connections(&self, switch: Option<&str>, zone: Option<u16>) -> Result<usize, Error> {
        let (Some(fabric), Some(plane)) = (self.fabric(), &self.plane) else { return Err(Error::NothingRuns) };
        let mut flushed = 0;
        for node in Self::with_flows(fabric, switch)? {
            flushed += plane.flush_connections(node, zone)?;
        }
        Ok(flushed)
    }

    /// The connections that a switch tracks, or all switches do that track some.
    pub fn connections(&self, switch: Option<&str>) -> Result<Vec<SwitchConnections>, Error> {
        let (Some(fabric), Some(plane)) = (self.fabric(), &self.plane) else { return Err(Error::NothingRuns) };
        let switches = Self::with_flows(fabric, switch)?;
        let mut all = Vec::new();
        for node in switches {
            let tracked = plane.connections(node)?;
            all.extend(tracked.map(|TrackedConnections { connections, counters }| SwitchConnections {
                switch: fabric.topology.nodes[node].name.clone(),
                counters,
                connections: connections.iter().map(connection).collect(),
            }));
        }
        Ok(all)
    }

    fn flows_of(&self, fabric: &Fabric, node: NodeId, text: &str) -> Result<Option<SwitchFlows>, Error> {
        let Some(plane) = &self.plane else { return Err(Error::NothingRuns) };
        let meant = selection((&fabric.topology, node), text).map_err(|error| Error::File(describe(&error)))?;
        let tables = plane.flows(node, &meant)?;
        Ok(tables.map(|TablesStatus { entries, groups, meters, cache }| SwitchFlows {
            switch: fabric.topology.nodes[node].name.clone(),
            entries: entries.into_iter().map(entry).collect(),
            groups: groups.iter().map(|status| status.group.to_string()).collect(),
            group_counters: groups.iter().map(group).collect(),
            meters: meters.iter().map(meter).collect(),
            cache,
        }))
    }
}

fn group(status: &GroupStatus) -> GroupCounters {
    let GroupStatus { group, flows, duration, packets, bytes, buckets } = status;
    GroupCounters {
        id: group.id,
        flows: *flows,
        packets: *packets,
        bytes: *bytes,
        duration_ms: duration.as_ns() / 1_000_000,
        buckets: buckets.clone(),
    }
}

fn meter(status: &MeterStatus) -> MeterEntry {
    let MeterStatus { meter, duration, packets, bytes, bands, flows } = status;
    MeterEntry {
        id: meter.id,
        text: meter.to_string(),
        flows: *flows,
        packets: *packets,
        bytes: *bytes,
        duration_ms: duration.as_ns() / 1_000_000,
        bands: bands.clone(),
    }
}

fn connection(status: &ConnectionStatus) -> ConnectionEntry {
    ConnectionEntry { text: status.to_string(), expires_ms: status.expires_in.as_ns() / 1_000_000 }
}

/// What a packet meets.
fn step(step: &ExplainedStep) -> TracedEntry {
    match step {
        ExplainedStep::Entry(flow) => TracedEntry { table: Some(flow.table), flow: flow.to_string() },
        ExplainedStep::Connection(known) => TracedEntry { table: None, flow: known.to_string() },
        ExplainedStep::Meter(id) => {
            TracedEntry { table: None, flow: format!("meter:{id}, which lets pass what does not come too fast") }
        }
    }
}

fn entry(EntryStatus { flow, duration, idle, packets, bytes }: EntryStatus) -> FlowEntry {
    FlowEntry {
        table: flow.table,
        priority: flow.priority,
        cookie: flow.cookie,
        matching: flow.matching.to_string(),
        actions: flow.instructions.to_string(),
        idle_timeout_s: flow.idle_timeout_s,
        hard_timeout_s: flow.hard_timeout_s,
        duration_ms: duration.as_ns() / 1_000_000,
        idle_ms: idle.as_ns() / 1_000_000,
        packets,
        bytes,
    }
}

//! What is counted of links, hosts, switches, bonds and workers.

use live::Counters;
use live::control::{LinkCounters, PortCounters, Refusals};
use serde_json::Value;

use super::family::{Family, Labels, with};

/// Seconds of so many nanoseconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Why frames went nowhere, and how many.
fn reasons(refusals: &Refusals) -> Vec<(String, u64)> {
    // As everywhere else they are shown: none is forgotten.
    let Ok(Value::Object(reasons)) = serde_json::to_value(refusals) else { return Vec::new() };
    reasons.into_iter().map(|(reason, count)| (reason, count.as_u64().unwrap_or_default())).collect()
}

/// Each direction of each link.
pub fn links(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut up = Family::gauge("heddle_link_up", "Whether the link has a carrier");
    let mut packets = Family::counter("heddle_link_packets", "Packets that the link accepted");
    let mut bytes = Family::counter("heddle_link_bytes", "Bytes that the link accepted");
    let mut drops =
        Family::counter("heddle_link_drops", "Packets lost: to a full queue, to a carrier that went, at random");
    let mut marks = Family::counter("heddle_link_marks", "Packets marked since the queue was long (ECN)");
    let mut impaired = Family::counter(
        "heddle_link_impaired_packets",
        "Packets that the link doubled, damaged or let overtake, at random",
    );
    let mut busy =
        Family::counter("heddle_link_transmitting_seconds", "Time in which the link transmitted, of links with rates");
    let mut waited =
        Family::counter("heddle_link_waiting_seconds", "Time that packets waited in the queue, all of them together");
    let mut peak = Family::gauge("heddle_link_queue_peak_packets", "The most packets that waited at once");
    for (at, link) in counters.links.iter().enumerate() {
        let is_parallel = |other: &&LinkCounters| (&other.a, &other.b) == (&link.a, &link.b);
        let number = (counters.links[..at].iter().filter(is_parallel).count() + 1).to_string();
        let link_labels = with(&with(&with(network, "a", &link.a), "b", &link.b), "number", &number);
        up.add(&link_labels, link.up);
        for (from, to, one) in [(&link.a, &link.b, &link.forward), (&link.b, &link.a, &link.backward)] {
            let labels = with(&with(&with(network, "from", from), "to", to), "number", &number);
            packets.add(&labels, one.packets);
            bytes.add(&labels, one.bytes);
            for (reason, count) in [("queue", one.drops), ("carrier", one.cut), ("random", one.losses)] {
                drops.add(&with(&labels, "reason", reason), count);
            }
            marks.add(&labels, one.marks);
            for (kind, count) in
                [("duplicate", one.duplicates), ("corruption", one.corruptions), ("overtake", one.overtakes)]
            {
                if count > 0 {
                    impaired.add(&with(&labels, "kind", kind), count);
                }
            }
            busy.add(&labels, seconds(one.busy.as_ns()));
            waited.add(&labels, seconds(one.waited.as_ns()));
            peak.add(&labels, one.queue_peak);
        }
    }
    vec![up, packets, bytes, drops, marks, impaired, busy, waited, peak]
}

/// Each host's port, and what was refused of all.
pub fn hosts(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut packets = Family::counter("heddle_host_packets", "Frames that the host sent, or was handed");
    let mut bytes = Family::counter("heddle_host_bytes", "Their bytes, without frame check sequence");
    let mut drops = Family::counter("heddle_host_drops", "Frames that the host's kernel did not take");
    let mut losses =
        Family::counter("heddle_host_device_losses", "Times that a program in the host has removed its device");
    let mut refused = Family::counter("heddle_host_refused_packets", "Frames of the host that went nowhere");
    for PortCounters { host, traffic, fault: _, queues_used: _ } in &counters.ports {
        let labels = with(network, "host", host);
        for (direction, frames, octets) in [
            ("sent", traffic.sent_packets, traffic.sent_bytes),
            ("received", traffic.received_packets, traffic.received_bytes),
        ] {
            let labels = with(&labels, "direction", direction);
            packets.add(&labels, frames);
            bytes.add(&labels, octets);
        }
        drops.add(&labels, traffic.drops);
        losses.add(&labels, traffic.device_losses);
        // So many hosts have so many reasons that those are left out which have never been.
        for (reason, count) in reasons(&traffic.refused).into_iter().filter(|(_, count)| *count > 0) {
            refused.add(&with(&labels, "reason", &reason), count);
        }
    }
    let mut all = Family::counter("heddle_refused_packets", "Frames that came in and went nowhere, of all hosts");
    for (reason, count) in reasons(&counters.refused) {
        all.add(&with(network, "reason", &reason), count);
    }
    vec![packets, bytes, drops, losses, refused, all]
}

/// What each switch forwarded.
pub fn switches(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut packets =
        Family::counter("heddle_switch_forwarded_packets", "Packets that the switch forwarded to hosts by its routes");
    let mut at = 0;
    while let Some(first) = counters.forwarded.get(at) {
        // They come by switch.
        let own = counters.forwarded[at..].iter().take_while(|it| it.switch == first.switch);
        let (count, sum) = own.fold((0, 0), |(count, sum), it| (count + 1, sum + it.packets));
        packets.add(&with(network, "switch", &first.switch), sum);
        at += count;
    }
    vec![packets]
}

/// Each end of each bond.
pub fn bonds(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut up = Family::gauge("heddle_bond_up", "Whether the bond can be used at all");
    let mut members = Family::gauge("heddle_bond_members", "Members of the bond");
    let mut accepted = Family::counter("heddle_bond_packets", "Frames that came by the bond and were accepted");
    let mut inactive =
        Family::counter("heddle_bond_inactive_packets", "Frames that were dropped since their member does not receive");
    for bond in &counters.bonds {
        let labels = with(&with(network, "node", &bond.node), "bond", &bond.name);
        up.add(&labels, bond.carrier);
        members.add(&labels, bond.members.len() as u64);
        accepted.add(&labels, bond.accepted);
        inactive.add(&labels, bond.inactive);
    }
    vec![up, members, accepted, inactive]
}

/// The threads that forward.
pub fn workers(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut busy = Family::counter("heddle_worker_busy_seconds", "Time in which the worker did not sleep");
    let mut delivered =
        Family::counter("heddle_worker_delivered_packets", "Packets of a network with rates that were handed to hosts");
    let mut late =
        Family::counter("heddle_worker_late_seconds", "How much later than due those were, all of them together");
    for (number, worker) in counters.workers.iter().enumerate() {
        let labels = with(network, "worker", &number.to_string());
        busy.add(&labels, seconds(worker.busy.as_ns()));
        delivered.add(&labels, worker.delivered);
        late.add(&labels, seconds(worker.late_total.as_ns()));
    }
    vec![busy, delivered, late]
}

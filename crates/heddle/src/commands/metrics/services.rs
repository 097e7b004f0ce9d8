//! What is counted of services and their servers, and of service chains.

use datapath::{BalancerRole, ServerCounters};
use live::Counters;

use super::family::{Family, Labels, with};
use super::network::seconds;

/// Each service, and each server of it.
pub fn services(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut lost = Family::counter(
        "heddle_service_lost",
        "Connections and packets that no server got, by why; `moved`: another server got it",
    );
    let mut up = Family::gauge("heddle_server_up", "Whether the server gets new connections");
    let mut out = Family::gauge("heddle_server_out", "1, of a server that gets no new connections: `why` not");
    let mut down = Family::gauge("heddle_server_health_down", "Whether health checks find the server down");
    let mut probes = Family::counter("heddle_server_health_probes", "Probes of health checks that have had a result");
    let mut failures = Family::counter("heddle_server_health_failures", "Those that have failed");
    let mut weight = Family::gauge("heddle_server_weight", "The server's share among the others");
    let mut connections = Family::gauge("heddle_server_connections", "Connections: `active` ones, and `inactive` ones");
    let mut opened = Family::counter("heddle_server_connections_opened", "Connections that the server was given");
    let mut completed = Family::counter("heddle_server_connections_completed", "Those that ended as they should");
    let mut failed = Family::counter("heddle_server_connections_failed", "Those that the server failed");
    let mut latency = Family::gauge(
        "heddle_server_latency_seconds",
        "How long the server takes to begin an answer, as schedulers estimate it",
    );
    let mut packets = Family::counter("heddle_server_packets", "Packets to (`in`) and from (`out`) the server");
    let mut bytes = Family::counter("heddle_server_bytes", "Their bytes, without frame check sequence");
    let mut cpu = Family::gauge("heddle_server_cpu_ratio", "What its agent has said of its processors, of 1");
    let mut carried = Family::counter("heddle_service_kernel_packets", "Packets that the kernel has carried");
    let mut no_room = Family::counter(
        "heddle_service_kernel_no_room",
        "Connections that found no room in the kernel's table: the worker carries their packets",
    );
    let mut active = Family::gauge("heddle_balancer_active", "Whether the balancer gets packets of the service");
    let mut known = Family::gauge("heddle_balancer_connections", "Connections that the balancer has or has heard of");
    let mut memory = Family::gauge("heddle_server_memory_ratio", "What its agent has said of its memory, of 1");
    for service in &counters.services {
        let labels = with(network, "service", &service.service);
        for (reason, count) in service.counters.named() {
            lost.add(&with(&labels, "reason", reason), count);
        }
        carried.add(&labels, service.by_kernel);
        no_room.add(&labels, service.kernel_no_room);
        for balancer in &service.balancers {
            let labels = with(&labels, "balancer", &balancer.balancer);
            active.add(&labels, balancer.role == BalancerRole::Active);
            known.add(&labels, balancer.connections);
        }
        for server in &service.servers {
            let labels = with(&labels, "server", &server.server);
            up.add(&labels, server.out.is_none());
            if let Some(why) = &server.out {
                out.add(&with(&labels, "why", why), true);
            }
            if let Some(health) = &server.health {
                down.add(&labels, health.is_down);
                probes.add(&labels, health.probes);
                failures.add(&labels, health.failures);
            }
            weight.add(&labels, server.weight);
            connections.add(&with(&labels, "state", "active"), server.active);
            connections.add(&with(&labels, "state", "inactive"), server.inactive);
            opened.add(&labels, server.opened);
            completed.add(&labels, server.completed);
            failed.add(&labels, server.failed);
            latency.add_some(&labels, server.latency.map(|latency| seconds(latency.as_ns())));
            let ServerCounters { in_packets, in_bytes, out_packets, out_bytes } = server.traffic;
            for (direction, frames, octets) in [("in", in_packets, in_bytes), ("out", out_packets, out_bytes)] {
                let labels = with(&labels, "direction", direction);
                packets.add(&labels, frames);
                bytes.add(&labels, octets);
            }
            let ratio = |permille: Option<u32>| permille.map(|permille| f64::from(permille) / 1e3);
            cpu.add_some(&labels, server.load.and_then(|load| ratio(load.cpu_permille)));
            memory.add_some(&labels, server.load.and_then(|load| ratio(load.memory_permille)));
        }
    }
    vec![
        lost,
        carried,
        no_room,
        active,
        known,
        up,
        out,
        down,
        probes,
        failures,
        weight,
        connections,
        opened,
        completed,
        failed,
        latency,
        packets,
        bytes,
        cpu,
        memory,
    ]
}

/// Each name that leads to services, each site of it, and what name servers have counted.
pub fn names(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut outcomes = Family::counter(
        "heddle_name_queries",
        "Queries for a name: `answered` with a site's addresses, those of them by a backup (`failed-over`) or without a healthy site (`failed-open`), and `no-data`",
    );
    let mut answers = Family::counter("heddle_site_answers", "Answers with the site's addresses");
    let mut healthy = Family::gauge("heddle_site_healthy_servers", "Servers of the site that can get connections");
    let mut servers = Family::gauge("heddle_site_servers", "Servers of the site that are to get connections");
    let mut load = Family::gauge("heddle_site_load_ratio", "How much of the site's capacity is in use, of 1");
    let mut messages =
        Family::counter("heddle_name_server_messages", "What came to name servers, by what became of it");
    for name in &counters.names {
        let labels = with(network, "name", &name.name);
        for (outcome, count) in name.counters.named() {
            outcomes.add(&with(&labels, "outcome", outcome), count);
        }
        for site in &name.sites {
            let labels = with(&with(&labels, "site", &site.site), "service", &site.service);
            answers.add(&labels, site.answers);
            healthy.add(&labels, site.healthy);
            servers.add(&labels, site.servers);
            load.add_some(&labels, site.load_percent.map(|percent| f64::from(percent) / 1e2));
        }
    }
    if !counters.names.is_empty() {
        for (kind, count) in counters.name_servers.named() {
            messages.add(&with(network, "kind", kind), count);
        }
    }
    vec![outcomes, answers, healthy, servers, load, messages]
}

/// Each course of each chain, and each function of it.
pub fn chains(network: &Labels, counters: &Counters) -> Vec<Family> {
    let mut chain_packets = Family::counter(
        "heddle_chain_packets",
        "Packets of a chain: that `entered` and `left` it, went past a function that was down (`bypassed`), were dropped for that (`blocked`), or were for a station that there is not, or for one but sent to everybody (`stray`)",
    );
    let mut up = Family::gauge("heddle_function_up", "Whether packets go to the function");
    let mut failures = Family::counter("heddle_function_failures", "How often the function has gone down");
    let mut packets = Family::counter("heddle_function_packets", "Packets to (`in`) and from (`out`) the function");
    let mut bytes = Family::counter("heddle_function_bytes", "Their bytes, without frame check sequence");
    let mut timed =
        Family::counter("heddle_function_timed_packets", "Packets of which it was measured how long they took");
    let mut delay = Family::counter("heddle_function_delay_seconds", "How long those took, all of them together");
    let mut counts = Family::counter("heddle_function_counts", "What a built-in function has counted, by its name");
    for chain in &counters.chains {
        let labels = with(&with(network, "chain", &chain.chain), "course", &chain.course);
        for (outcome, count) in [
            ("entered", chain.entered),
            ("left", chain.left),
            ("bypassed", chain.bypassed),
            ("blocked", chain.blocked),
            ("stray", chain.stray),
        ] {
            chain_packets.add(&with(&labels, "outcome", outcome), count);
        }
        for (place, hop) in chain.hops.iter().enumerate() {
            let labels = with(&with(&labels, "function", &hop.function), "place", &place.to_string());
            up.add(&labels, hop.up);
            failures.add(&labels, hop.failures);
            for (direction, frames, octets) in
                [("in", hop.in_packets, hop.in_bytes), ("out", hop.out_packets, hop.out_bytes)]
            {
                let labels = with(&labels, "direction", direction);
                packets.add(&labels, frames);
                bytes.add(&labels, octets);
            }
            timed.add(&labels, hop.timed);
            delay.add(&labels, seconds(hop.delay_total_ns));
            for count in &hop.counts {
                counts.add(&with(&labels, "name", &count.name), count.count);
            }
        }
    }
    vec![chain_packets, up, failures, packets, bytes, timed, delay, counts]
}

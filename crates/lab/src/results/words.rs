//! What goes on in an experiment, in words.

use fabric::{ClusterLoad, ElectionEnd, Experiment, Pattern, Role, Target, Work};
use transport::{TransportKind, TransportSpec};

use crate::live::tuning;

/// What a reader must know to compare with another's figures.
pub(crate) fn of(experiment: &Experiment) -> String {
    match &experiment.work {
        Work::Traffic(_) => traffic_in_words(experiment),
        Work::Cluster(load) => load_in_words(experiment, load),
    }
}

fn load_in_words(experiment: &Experiment, load: &ClusterLoad) -> String {
    let varies = |key: &str| experiment.vary.iter().any(|axis| axis.key == key);
    if load.is_election() {
        let whom = match load.victim {
            Target::Node(number) => format!("node n{number}"),
            Target::Leader | Target::All => "leader".to_owned(),
            Target::Follower => "follower".to_owned(),
        };
        let times = if load.requests == 1 { "once".to_owned() } else { format!("{} times", load.requests) };
        let end = match load.until {
            ElectionEnd::Write => "to the first write",
            ElectionEnd::Leader => "until another leads",
        };
        return format!("from killing (SIGKILL) the {whom} {end}, {times} a run");
    }
    let mut words = Vec::new();
    if !varies("clients") {
        words.push(if load.clients == 1 { "one client".to_owned() } else { format!("{} clients", load.clients) });
    }
    words.push(format!("{} requests of each operation", load.requests));
    if !varies("at") {
        let whom = match load.at {
            Role::Leader => "at the leader",
            Role::Follower => "at a follower",
            Role::Any => "at all nodes in turn",
        };
        words.push(whom.to_owned());
    }
    if !varies("value") {
        words.push(format!("values of {} bytes", load.value_bytes));
    }
    if !load.faults.is_empty() {
        words.push(format!("{} faults", load.faults.len()));
    }
    words.join(", ")
}

/// The conclusion turns on window, threshold and headers.
fn traffic_in_words(experiment: &Experiment) -> String {
    let Work::Traffic(traffic) = &experiment.work else { return String::new() };
    let varies = |key: &str| experiment.vary.iter().any(|axis| axis.key == key);
    let TransportSpec { window, initial_window, duplicate_ack_threshold, segment_bytes, header_bytes, .. } =
        traffic.transport;
    let mut words = Vec::new();
    let mut say = |key: &str, text: String| {
        if !varies(key) {
            words.push(text);
        }
    };
    say("pattern", pattern_name(&traffic.pattern));
    say("transport", transport_name(traffic.transport.kind).to_owned());
    if traffic.streams > 1 {
        say("streams", format!("{} streams a pair", traffic.streams));
    }
    // UDP has neither windows nor acknowledgements.
    let all_udp = traffic.transport.kind == TransportKind::Udp && !varies("transport");
    if let (true, Some(rate)) = (all_udp, traffic.rate_pps) {
        words.push(format!("{rate} datagrams a second in packets of {} bytes", segment_bytes + header_bytes));
    } else if all_udp {
        let message = tuning::udp_message_bytes(&traffic.transport);
        words.push(format!(
            "messages of {message} bytes in {segment_bytes}-byte fragments with {header_bytes} bytes of headers"
        ));
    }
    match traffic.faults.len() {
        0 => {}
        1 => words.push("one fault of a link".to_owned()),
        faults => words.push(format!("{faults} faults of links")),
    }
    if all_udp {
        return words.join(", ");
    }
    let mut say = |key: &str, text: String| {
        if !varies(key) {
            words.push(text);
        }
    };
    say("window", format!("window {window}"));
    say("initial-window", format!("initial window {initial_window}"));
    say("duplicate-ack-threshold", format!("threshold {duplicate_ack_threshold}"));
    let ack = traffic.transport.delayed_ack;
    words.push(ack.map_or_else(|| "every segment acknowledged".to_owned(), |after| format!("delayed ACKs {after}")));
    words.push(format!("{segment_bytes}-byte segments with {header_bytes} bytes of headers"));
    words.join(", ")
}

const fn transport_name(kind: TransportKind) -> &'static str {
    match kind {
        TransportKind::Reno => "Reno",
        TransportKind::NewReno => "NewReno",
        TransportKind::Sack => "SACK",
        TransportKind::Udp => "UDP",
    }
}

fn pattern_name(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Random => "random".to_owned(),
        Pattern::Stride(i) => format!("stride({i})"),
        Pattern::Staggered(edge, pod) => format!("staggered({edge}, {pod})"),
        Pattern::Permutation => "permutation".to_owned(),
        Pattern::Incast(n) => format!("incast({n})"),
        Pattern::AllToAll => "all-to-all".to_owned(),
        Pattern::Pairs(pairs) if pairs.len() == 1 => "one pair of hosts".to_owned(),
        Pattern::Pairs(pairs) => format!("{} pairs of hosts", pairs.len()),
    }
}

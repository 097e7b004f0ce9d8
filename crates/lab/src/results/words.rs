//! What goes on in an experiment, in words.

use fabric::{
    ClusterLoad, ElectionEnd, Experiment, LoadSetting, Pattern, RequestLoad, Role, Setting, Target, Traffic,
    TrafficSetting, Work,
};
use transport::linux::{Settings, Sysctl};
use transport::{TransportKind, TransportSpec};

use crate::counted::counted;
use crate::live::tuning;

/// What a reader must know to compare with another's figures.
pub(crate) fn of(experiment: &Experiment) -> String {
    match &experiment.work {
        Work::Traffic(traffic) => traffic_in_words(experiment, traffic),
        Work::Cluster(load) => load_in_words(experiment, load),
    }
}

fn load_in_words(experiment: &Experiment, load: &ClusterLoad) -> String {
    let ClusterLoad { operations: _, requests, clients, at, value_bytes, victim, until, faults } = load;
    let varies = |is: fn(&LoadSetting) -> bool| {
        settings(experiment).any(|setting| matches!(setting, Setting::Load(setting) if is(setting)))
    };
    if load.is_election() {
        let whom = match victim {
            Target::Node(number) => format!("node n{number}"),
            Target::Leader | Target::All => "leader".to_owned(),
            Target::Follower => "follower".to_owned(),
        };
        let times = if *requests == 1 { "once".to_owned() } else { format!("{requests} times") };
        let end = match until {
            ElectionEnd::Write => "to the first write",
            ElectionEnd::Leader => "until another leads",
        };
        return format!("from killing (SIGKILL) the {whom} {end}, {times} a run");
    }
    let mut words = Vec::new();
    if !varies(|setting| matches!(setting, LoadSetting::Clients(_))) {
        words.push(if *clients == 1 { "one client".to_owned() } else { format!("{clients} clients") });
    }
    words.push(format!("{} of each operation", counted(u64::from(*requests), "request")));
    if !varies(|setting| matches!(setting, LoadSetting::At(_))) {
        let whom = match at {
            Role::Leader => "at the leader",
            Role::Follower => "at a follower",
            Role::Any => "at all nodes in turn",
        };
        words.push(whom.to_owned());
    }
    if !varies(|setting| matches!(setting, LoadSetting::Value(_))) {
        words.push(format!("values of {value_bytes} bytes"));
    }
    if !faults.is_empty() {
        words.push(format!("{} faults", faults.len()));
    }
    words.join(", ")
}

/// What the axes of an experiment set.
fn settings(experiment: &Experiment) -> impl Iterator<Item = &Setting> {
    experiment.vary.iter().flat_map(|axis| &axis.values).map(|(_, setting)| setting)
}

/// The conclusion turns on window, threshold and headers.
fn traffic_in_words(experiment: &Experiment, traffic: &Traffic) -> String {
    let Traffic { pattern, transport, streams, rate_pps, transfers, requests, faults, switched_by } = traffic;
    let &TransportSpec {
        kind,
        window,
        initial_window,
        duplicate_ack_threshold,
        delayed_ack,
        segment_bytes,
        header_bytes,
        rto_min: _,
        linux,
    } = transport;
    let varies = |is: fn(&TrafficSetting) -> bool| {
        settings(experiment).any(|setting| matches!(setting, Setting::Traffic(setting) if is(setting)))
    };
    let mut words = Vec::new();
    let mut say = |is: fn(&TrafficSetting) -> bool, text: String| {
        if !varies(is) {
            words.push(text);
        }
    };
    match requests {
        Some(load) => say(|_| false, requests_in_words(experiment, load)),
        None => say(|setting| matches!(setting, TrafficSetting::Pattern(_)), pattern_name(pattern)),
    }
    say(|setting| matches!(setting, TrafficSetting::Transport(_)), transport_name(kind).to_owned());
    if *streams > 1 {
        say(|setting| matches!(setting, TrafficSetting::Streams(_)), format!("{streams} streams a pair"));
    }
    // UDP has neither windows nor acknowledgements.
    let all_udp = kind == TransportKind::Udp && !varies(|setting| matches!(setting, TrafficSetting::Transport(_)));
    if let (true, Some(rate)) = (all_udp, rate_pps) {
        words.push(format!("{rate} datagrams a second in packets of {} bytes", segment_bytes + header_bytes));
    } else if all_udp {
        let message = tuning::udp_message_bytes(transport);
        words.push(format!(
            "messages of {message} bytes in {segment_bytes}-byte fragments with {header_bytes} bytes of headers"
        ));
    }
    if let Some(transfers) = transfers {
        let every = transfers.every;
        let size = transfers.size.all_the_same().map_or_else(
            || format!("{:.0} bytes on the mean, drawn", transfers.size.mean()),
            |size| format!("{size} bytes"),
        );
        let varies_size = varies(|setting| matches!(setting, TrafficSetting::TransferSize(_)));
        let varies_every = varies(|setting| matches!(setting, TrafficSetting::TransferInterval(_)));
        words.push(match (varies_size, varies_every) {
            (false, false) => format!("transfers of {size}, one in {every} on the mean"),
            (false, true) => format!("transfers of {size}"),
            (true, false) => format!("transfers, one in {every} on the mean"),
            (true, true) => "transfers".to_owned(),
        });
    }
    if !switched_by.is_heddle() && !varies(|setting| matches!(setting, TrafficSetting::SwitchedBy(_))) {
        words.push(format!("switched by {}", switched_by.word()));
    }
    match faults.len() {
        0 => {}
        1 => words.push("one fault of a link".to_owned()),
        faults => words.push(format!("{faults} faults of links")),
    }
    if all_udp {
        return words.join(", ");
    }
    let mut say = |is: fn(&TrafficSetting) -> bool, text: String| {
        if !varies(is) {
            words.push(text);
        }
    };
    if kind == TransportKind::Linux {
        let control = linux.congestion_control.name().to_owned();
        say(|setting| matches!(setting, TrafficSetting::CongestionControl(_)), control);
    }
    let threshold = if kind == TransportKind::Linux { linux.reordering } else { duplicate_ack_threshold };
    say(|setting| matches!(setting, TrafficSetting::Window(_)), format!("window {window}"));
    say(|setting| matches!(setting, TrafficSetting::InitialWindow(_)), format!("initial window {initial_window}"));
    say(
        |setting| match setting {
            TrafficSetting::Sysctl(values) => values.iter().any(|(sysctl, _)| *sysctl == Sysctl::Reordering),
            setting => matches!(setting, TrafficSetting::DuplicateAckThreshold(_)),
        },
        format!("threshold {threshold}"),
    );
    words.push(
        delayed_ack.map_or_else(|| "every segment acknowledged".to_owned(), |after| format!("delayed ACKs {after}")),
    );
    words.push(format!("{segment_bytes}-byte segments with {header_bytes} bytes of headers"));
    words.extend(sysctls_in_words(experiment, &linux, threshold));
    words.join(", ")
}

/// What is asked of a service, without what cases set.
fn requests_in_words(experiment: &Experiment, load: &RequestLoad) -> String {
    let varies = |is: fn(&TrafficSetting) -> bool| {
        settings(experiment).any(|setting| matches!(setting, Setting::Traffic(setting) if is(setting)))
    };
    let mut words = Vec::new();
    if !varies(|setting| matches!(setting, TrafficSetting::Workload(_))) && load.target.is_none() {
        words.push(format!("{} requests", load.workload.name()));
    } else {
        words.push("requests".to_owned());
    }
    words.push(format!("to {}", load.service));
    match load.rate_milli {
        // How many there are, cases say.
        _ if varies(|setting| matches!(setting, TrafficSetting::RequestRate(_))) => {
            words.extend(load.is_poisson.then(|| "at random moments".to_owned()));
        }
        _ if varies(|setting| matches!(setting, TrafficSetting::RequestClients(_))) => {}
        Some(rate) => {
            let moments = if load.is_poisson { " at random moments" } else { "" };
            words.push(format!("{} a second{moments}", rate as f64 / 1e3));
        }
        None if load.clients == 1 => words.push("of one client".to_owned()),
        None => words.push(format!("of {} clients", load.clients)),
    }
    if !varies(|setting| matches!(setting, TrafficSetting::NewConnections(_))) {
        words.push(
            if load.new_connections { "each on a new connection" } else { "on connections that stay" }.to_owned(),
        );
    }
    words.join(" ")
}

/// The sysctls that are not as a kernel has them that nobody has set up, without those that cases set. The threshold has been said.
fn sysctls_in_words(experiment: &Experiment, linux: &Settings, threshold: u32) -> Vec<String> {
    let is_varied = |sysctl: Sysctl| {
        settings(experiment).any(|setting| match setting {
            Setting::Traffic(TrafficSetting::Sysctl(values)) => values.iter().any(|(varied, _)| *varied == sysctl),
            _ => false,
        })
    };
    let usual = Settings { reordering: threshold, ..Settings::default() };
    let is_set = |sysctl: Sysctl| sysctl.get(linux) != sysctl.get(&usual);
    let listed = Sysctl::ALL.iter().copied().filter(|&sysctl| is_set(sysctl) && !is_varied(sysctl));
    listed.map(|sysctl| format!("{} {}", sysctl.name(), sysctl.get(linux))).collect()
}

const fn transport_name(kind: TransportKind) -> &'static str {
    match kind {
        TransportKind::Reno => "Reno",
        TransportKind::NewReno => "NewReno",
        TransportKind::Sack => "SACK",
        TransportKind::Linux => "Linux's TCP",
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

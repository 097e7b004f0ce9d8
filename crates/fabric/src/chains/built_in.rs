//! Functions that are built in: what they are, held against the network and against the chain that has them.

use std::net::IpAddr;

use topology::{NodeId, Topology};
use vswitch::chain::{Chain, Function, FunctionKind};
use vswitch::conntrack::{NatRange, TranslatedEnd};
use vswitch::flow_table::{Match, nat_range};
use vswitch::functions::{BuiltIn, Course, FirewallRule, FirewallRules, NatRules, PortForward, RateLimit};

use super::matching::{ALL, matching};
use super::text::{BuiltInKind, ForwardText, ForwardedProtocol, FunctionText, RuleText};
use crate::error::Problems;
use crate::graph::Graph;
use crate::source::{At, Place};

/// Rules of one list, and forwards of one function.
const MOST: usize = 1_024;

/// The least that a rate limit lets pass at once if the file does not say: a segment that a kernel has not cut.
const LEAST_BURST: u64 = 64 << 10;

/// What comes in a twentieth of a second passes at once if the file does not say.
const BURST_PARTS: u64 = 20;

/// Notes keys that are for functions of other kinds; `None`: for one that has ports. Whether there are none.
pub(crate) fn note_keys_of_kinds(
    At { value: text, .. }: &At<FunctionText>,
    kind: Option<BuiltInKind>,
    problems: &mut Problems<'_>,
) -> bool {
    let FunctionText {
        kind: _,
        rate,
        burst,
        to,
        outbound,
        inbound,
        source,
        forwards,
        at,
        instances,
        devices,
        image,
        bundle,
        vm,
        links,
        simulated,
        timeout,
        setup,
    } = text;
    let place = |place: Option<Place>, key, of| place.map(|place| (place, key, of));
    let of_kinds = [
        place(rate.as_ref().map(|it| it.place), "rate", BuiltInKind::RateLimit),
        place(burst.as_ref().map(|it| it.place), "burst", BuiltInKind::RateLimit),
        place(to.as_ref().map(|it| it.place), "to", BuiltInKind::Mirror),
        place(outbound.as_ref().map(|it| it.place), "outbound", BuiltInKind::Firewall),
        place(inbound.as_ref().map(|it| it.place), "inbound", BuiltInKind::Firewall),
        place(source.as_ref().map(|it| it.place), "source", BuiltInKind::Nat),
        place(forwards.as_ref().map(|it| it.place), "forwards", BuiltInKind::Nat),
    ];
    let before = problems.noted();
    for (place, key, of) in of_kinds.into_iter().flatten().filter(|(.., of)| Some(*of) != kind) {
        let of = of.name();
        let message = match kind {
            Some(kind) => format!("`{key}` is for a function of `kind: {of}`, and this is a `{}`", kind.name()),
            None => format!("`{key}` is for a function of `kind: {of}`, and this one is not built in"),
        };
        problems.add(place, message, "of another kind", format!("take it away, or write `kind: {of}`"));
    }
    if let Some(kind) = kind {
        let of_ports = [
            (at.as_ref().map(|it| it.place), "at"),
            (instances.as_ref().map(|it| it.place), "instances"),
            (devices.as_ref().map(|it| it.place), "devices"),
            (image.as_ref().map(|it| it.place), "image"),
            (bundle.as_ref().map(|it| it.place), "bundle"),
            (vm.as_ref().map(|it| it.place), "vm"),
            (links.as_ref().map(|it| it.place), "links"),
            (simulated.as_ref().map(|it| it.place), "simulated"),
            (timeout.as_ref().map(|it| it.place), "timeout"),
            (setup.place(), "programs"),
        ];
        for (place, key) in of_ports.into_iter().filter_map(|(place, key)| Some((place?, key))) {
            let kind = kind.name();
            let message = if key == "instances" {
                format!("a built-in `{kind}` has no instances: it is a part of its chain, and sees all of its flows")
            } else {
                format!("a built-in `{kind}` has no ports and no process: `{key}` is for functions that have")
            };
            problems.add(place, message, "not of a built-in function", "take it away, or take `kind` away");
        }
    }
    problems.noted() == before
}

/// What a built-in function is, as far as that can be said without its chain.
pub(crate) fn built_in(
    graph: &Graph,
    text: &At<FunctionText>,
    kind: &At<BuiltInKind>,
    problems: &mut Problems<'_>,
) -> Option<BuiltIn> {
    let needs = |key: &str, example: &str, problems: &mut Problems<'_>| {
        if text.sound {
            let message = format!("a `{}` needs `{key}`", kind.value.name());
            problems.add(kind.place, message, format!("needs `{key}`"), format!("add `{example}`"));
        }
    };
    let own = &text.value;
    match kind.value {
        BuiltInKind::Counter => Some(BuiltIn::Counter),
        BuiltInKind::RateLimit => {
            let Some(rate) = &own.rate else {
                needs("rate", "rate: 10Mbit", problems);
                return None;
            };
            let rate_bps = rate.value.0;
            let most = (rate_bps / 8 / BURST_PARTS).clamp(LEAST_BURST, 1 << 30) as u32;
            Some(BuiltIn::RateLimit(RateLimit {
                rate_bps,
                burst_bytes: own.burst.as_ref().map_or(most, |it| it.value.0),
            }))
        }
        BuiltInKind::Mirror => {
            let Some(to) = &own.to else {
                needs("to", "to: HOST", problems);
                return None;
            };
            graph.end_host(to, problems).map(BuiltIn::Mirror)
        }
        BuiltInKind::Firewall => {
            let (outbound, inbound) = (rules(own.outbound.as_ref(), problems), rules(own.inbound.as_ref(), problems));
            Some(BuiltIn::Firewall(FirewallRules { outbound: outbound?, inbound: inbound? }))
        }
        BuiltInKind::Nat => {
            if own.source.is_none() && own.forwards.is_none() {
                needs("source` or `forwards", "source: 10.0.0.100", problems);
                return None;
            }
            let source = match &own.source {
                Some(text) => Some(source(&graph.topology, text, problems)?),
                None => None,
            };
            Some(BuiltIn::Nat(NatRules { source, forwards: forwards(graph, own, source, problems)? }))
        }
    }
}

fn rules(list: Option<&At<Vec<At<RuleText>>>>, problems: &mut Problems<'_>) -> Option<Vec<FirewallRule>> {
    let Some(list) = list else { return Some(Vec::new()) };
    if list.value.len() > MOST {
        let message = format!("{} rules are more than {MOST}", list.value.len());
        problems.add(list.place, message, "too many", "let masks of addresses and ports stand for several");
        return None;
    }
    let before = problems.noted();
    let rule = |rule: &At<RuleText>, problems: &mut Problems<'_>| {
        let (allows, text) = match (&rule.value.allow, &rule.value.deny) {
            (Some(text), None) => (true, text),
            (None, Some(text)) => (false, text),
            _ if !rule.sound => return None,
            _ => {
                let message = "a rule is either `allow: MATCH` or `deny: MATCH`";
                problems.add(rule.place, message, "one of the two", "write it as in `allow: 'tcp,tp_dst=22'`");
                return None;
            }
        };
        let matching = if text.value.0 == ALL { Some(Match::default()) } else { matching(text, "a rule", problems) };
        Some(FirewallRule { allows, matching: matching? })
    };
    let read: Vec<FirewallRule> = list.value.iter().filter_map(|it| rule(it, problems)).collect();
    (problems.noted() == before).then_some(read)
}

/// What sources are translated to.
pub(crate) fn source(
    topology: &Topology,
    text: &At<crate::read::Text>,
    problems: &mut Problems<'_>,
) -> Option<NatRange> {
    let shown = crate::read::shown(&text.value.0);
    let Some(range) = nat_range(TranslatedEnd::Source, &text.value.0) else {
        problems.add(
            text.place,
            format!("`{shown}` is no range of addresses and ports"),
            "no range",
            "write it as in `10.0.0.100`, `10.0.0.100-10.0.0.109` or `10.0.0.100:5000-6000`",
        );
        return None;
    };
    if let Some((0, _)) = range.ports {
        let hint = "write it as in `10.0.0.100:5000-6000`";
        problems.add(text.place, format!("`{shown}` begins with port 0, which nobody has"), "no port", hint);
        return None;
    }
    may_be_answered(topology, (range.is_ipv6, range.addresses), text.place, &shown, problems).then_some(range)
}

/// Whether the hosts of a network send to these addresses what they answer: all of them are in the hosts' own subnet, where they ask for them. Notes it if not.
fn may_be_answered(
    topology: &Topology,
    (is_ipv6, (first, last)): (bool, (u128, u128)),
    place: Place,
    shown: &str,
    problems: &mut Problems<'_>,
) -> bool {
    let is_near = |host: NodeId| {
        let Some(own) = topology.address(host) else { return false };
        let (bits, width, prefix) = if is_ipv6 {
            (own.ipv6.to_bits(), 128, own.ipv6_prefix)
        } else {
            (own.ipv4.to_bits().into(), 32, own.ipv4_prefix)
        };
        let host_bits = width - u32::from(prefix);
        let most = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |addresses| addresses - 1);
        let subnet = bits & !most;
        // The first one is the subnet's own; the last one is all of its hosts, in IPv4.
        (subnet < first) && if is_ipv6 { last - subnet <= most } else { last < subnet + most }
    };
    if topology.addressed_hosts().any(|(host, _)| is_near(host)) {
        return true;
    }
    let message = format!("no host of this network would answer `{shown}`: it is not in a subnet of theirs");
    let hint = if is_ipv6 {
        "take addresses of the hosts' own prefix that no host has; `heddle show nodes FILE` lists those of hosts"
    } else {
        "take addresses of 10.0.0.0/8 that no host has; `heddle show nodes FILE` lists those of hosts"
    };
    problems.add(place, message, "not of this network", hint);
    false
}

fn forwards(
    graph: &Graph,
    text: &FunctionText,
    source: Option<NatRange>,
    problems: &mut Problems<'_>,
) -> Option<Vec<PortForward>> {
    let Some(list) = &text.forwards else { return Some(Vec::new()) };
    if list.value.len() > MOST {
        let message = format!("{} forwards are more than {MOST}", list.value.len());
        problems.add(list.place, message, "too many", "make several functions of them");
        return None;
    }
    let before = problems.noted();
    let mut read: Vec<PortForward> = Vec::with_capacity(list.value.len());
    for it in &list.value {
        let Some(forward) = forward(graph, it, source, problems) else { continue };
        let key = |it: &PortForward| (it.protocol, it.is_ipv6, it.address, it.port);
        if read.iter().any(|other| key(other) == key(&forward)) {
            problems.add(it.place, "this port of this address is forwarded twice", "there already", "keep one of them");
        }
        read.push(forward);
    }
    (problems.noted() == before).then_some(read)
}

fn forward(
    graph: &Graph,
    At { value: text, place, .. }: &At<ForwardText>,
    source: Option<NatRange>,
    problems: &mut Problems<'_>,
) -> Option<PortForward> {
    let host = graph.end_host(&text.to, problems)?;
    let (is_ipv6, address) = match (&text.address, source) {
        (Some(address), _) => {
            let (is_ipv6, bits) = match address.value {
                IpAddr::V4(address) => (false, u128::from(address.to_bits())),
                IpAddr::V6(address) => (true, address.to_bits()),
            };
            let range = (is_ipv6, (bits, bits));
            if !may_be_answered(&graph.topology, range, address.place, &address.value.to_string(), problems) {
                return None;
            }
            (is_ipv6, bits)
        }
        (None, Some(source)) => (source.is_ipv6, source.addresses.0),
        (None, None) => {
            let message = "it is not said of which address this is a port";
            problems.add(
                *place,
                message,
                "needs `address`",
                "add `address: 10.0.0.100`, or give the function a `source`",
            );
            return None;
        }
    };
    let own = graph.topology.address(host)?;
    let to = if is_ipv6 { own.ipv6.to_bits() } else { own.ipv4.to_bits().into() };
    let port = text.port.value.get() as u16;
    Some(PortForward {
        // Its chain says.
        course: Course::Reverse,
        protocol: match text.protocol {
            Some(ForwardedProtocol::Udp) => PortForward::UDP,
            Some(ForwardedProtocol::Tcp) | None => PortForward::TCP,
        },
        is_ipv6,
        address,
        port,
        to,
        to_port: text.to_port.as_ref().map_or(port, |port| port.value.get() as u16),
    })
}

/// Holds a built-in function against the chain that has it.
pub(crate) fn fit(
    topology: &Topology,
    function: &mut Function,
    (chain, text, at): (&Chain, Option<&FunctionText>, Place),
    problems: &mut Problems<'_>,
) {
    let FunctionKind::BuiltIn(built_in) = &mut function.kind else { return };
    if built_in.is_stateful() && !chain.is_both_ways {
        let message = format!(
            "`{}` is a {}, which has to see both directions of connections, and `{}` has one only",
            function.name,
            built_in.kind(),
            chain.name
        );
        problems.add(at, message, "sees one direction", "take `both-directions: false` away");
    }
    let is_end = |host: NodeId| chain.from.contains(&host) || chain.to.contains(&host);
    match built_in {
        BuiltIn::Mirror(to) if is_end(*to) => {
            let name = &topology.nodes[*to].name;
            let place = text.and_then(|text| text.to.as_ref()).map_or(at, |to| to.place);
            let message =
                format!("`{name}` is an end of the chain `{}`: it would get a copy of its own packets", chain.name);
            problems.add(place, message, "an end of the chain", "name a host that is none");
        }
        BuiltIn::Nat(rules) => fit_nat(topology, rules, (chain, text, at), problems),
        BuiltIn::Mirror(_) | BuiltIn::Counter | BuiltIn::RateLimit(_) | BuiltIn::Firewall(_) => {}
    }
}

fn fit_nat(
    topology: &Topology,
    rules: &mut NatRules,
    (chain, text, at): (&Chain, Option<&FunctionText>, Place),
    problems: &mut Problems<'_>,
) {
    /// The host outside of `ends` that has one of these addresses.
    fn taken<'a>(
        topology: &'a Topology,
        ends: &[NodeId],
        (is_ipv6, (first, last)): (bool, (u128, u128)),
    ) -> Option<&'a str> {
        let has = |(host, node): (NodeId, &'a topology::Node)| {
            let own = topology.address(host)?;
            let own = if is_ipv6 { own.ipv6.to_bits() } else { own.ipv4.to_bits().into() };
            ((first..=last).contains(&own) && !ends.contains(&host)).then_some(node.name.as_str())
        };
        topology.hosts().find_map(has)
    }
    let mut note = |place: Place, host: &str, whose: &str| {
        let message = format!("`{host}` has this address, and is not {whose} of the chain `{}`", chain.name);
        let hint = "take addresses of 10.0.0.0/8 that no host has; `heddle show nodes FILE` lists those of hosts";
        problems.add(place, message, "of another host", hint);
    };
    if let Some(source) = rules.source
        && let Some(host) = taken(topology, &chain.from, (source.is_ipv6, source.addresses))
    {
        note(text.and_then(|text| text.source.as_ref()).map_or(at, |it| it.place), host, "a `from`");
    }
    let texts = text.and_then(|text| text.forwards.as_ref()).map_or(&[][..], |list| list.value.as_slice());
    let mut strangers = Vec::new();
    for (forward, text) in rules.forwards.iter_mut().zip(texts) {
        let host = topology.node(&text.value.to.value.0);
        let is_in = |ends: &[NodeId]| host.is_some_and(|host| ends.contains(&host));
        let ends = if is_in(&chain.from) {
            forward.course = Course::Reverse;
            &chain.from
        } else if is_in(&chain.to) {
            forward.course = Course::Forward;
            &chain.to
        } else {
            strangers.push(&text.value.to);
            continue;
        };
        if let Some(host) = taken(topology, ends, (forward.is_ipv6, (forward.address, forward.address))) {
            note(text.place, host, "at that end");
        }
    }
    for name in strangers {
        let message = format!("`{}` is no end of the chain `{}`", name.value.0, chain.name);
        problems.add(name.place, message, "not of the chain", "name a host that the chain's `from` or `to` has");
    }
}

//! What a file may say, and is hardly meant: it has no effect, or another one than it seems to have.

mod brief;
mod cases;
mod doubt;
mod expected;
mod hosts;
mod marks;
mod names;
mod rates;
mod requests;
mod vlans;
mod warm_up;

use std::collections::BTreeSet;

use datapath::ForwardingMethod;
use fabric::{Case, Experiment, Fabric, Metric, SwitchTables, Work};
use link::LinkSpec;
use machine::Span;
use topology::{Link, NodeId, Side};
use transport::{ReceiveWindow, TransportKind};
use vswitch::chain::Chain;

use cases::{CASES_MAX, is_meant, of_case};

pub use doubt::Doubt;
pub use warm_up::unlike_warm_up;

use crate::live_times::{is_whole_seconds, whole_seconds};

/// What in this file is hardly meant, each once.
pub fn doubts(fabric: &Fabric) -> Vec<Doubt> {
    let mut found = BTreeSet::new();
    of_links(fabric, &["links"], "", &mut found);
    for experiment in &fabric.experiments {
        for case in experiment.cases().iter().filter(|case| !case.overrides.spread_only()).take(CASES_MAX) {
            let changed = fabric.with(&case.overrides);
            let labels: Vec<String> = case.labels.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
            let place = ["experiments", experiment.name.as_str()];
            of_links(&changed, &place, &format!("{}: ", labels.join(", ")), &mut found);
        }
        found.extend(rounded(experiment));
        found.extend(tiny_window(fabric, experiment));
        found.extend(no_round_trips(experiment));
        found.extend(expected::never_met(experiment));
        found.extend(rates::expected_in_vain(fabric, experiment, CASES_MAX));
        found.extend(hosts::served_twice(fabric, experiment));
        found.extend(requests::kept_connections(fabric, experiment));
        found.extend(brief::too_brief(fabric, experiment, CASES_MAX));
        found.extend(vlans::unheard(fabric, experiment, CASES_MAX));
    }
    found.extend(few_runs(fabric));
    found.extend(marks::unheard(fabric));
    found.extend(fabric.experiments.iter().filter_map(|experiment| marks::missing(fabric, experiment)));
    found.extend(live_only(fabric));
    found.extend(vlans::apart(fabric));
    found.extend(idle_functions(fabric));
    found.extend(never_entered(fabric));
    found.extend(no_controller(fabric));
    found.extend(unanswered_checks(fabric));
    found.extend(unanswered_clients(fabric));
    found.extend(hosts::without_route(fabric));
    found.extend(hosts::dead_next_hops(fabric));
    found.extend(names::nobodys_prefixes(fabric));
    found.extend(names::unchecked_sites(fabric));
    found.into_iter().collect()
}

/// The first link of each kind; `case`: what comes before the message.
fn of_links(fabric: &Fabric, place: &[&str], case: &str, found: &mut BTreeSet<Doubt>) {
    let node = |node: NodeId| &fabric.topology.nodes[node].name;
    let mut add = |link: Option<(&Link, String)>, hint| {
        let Some((link, what)) = link else { return };
        let place = place.iter().map(|&step| step.to_owned()).collect();
        let message = format!("{case}the link {}-{} {what}", node(link.a.node), node(link.b.node));
        // The file's own links are known by then.
        let is_known = found.iter().any(|doubt: &Doubt| doubt.place == ["links"] && message.ends_with(&doubt.message));
        if !is_known {
            found.insert(Doubt { place, message, hint });
        }
    };
    let marks_never = |spec: &LinkSpec| {
        let (from, queue) = (spec.ecn_packets?.get(), spec.queue_packets?);
        (from >= queue).then(|| {
            format!("marks packets that find {from} others in its queue, which holds {queue}: it never marks any")
        })
    };
    let never_marks = |link: &Link| link.specs().find_map(marks_never);
    let jitters_more = |spec: &LinkSpec| {
        let (delay, jitter) = (spec.delay, Span::from_ns(spec.jitter_ns.into()));
        (jitter > delay).then(|| {
            format!("has a jitter of {jitter}, more than its delay of {delay}: as no packet arrives before it was sent, the mean delay is longer")
        })
    };
    let is_late = |link: &Link| link.specs().find_map(jitters_more);
    let links = || fabric.topology.links.iter();
    add(links().find_map(|link| Some((link, never_marks(link)?))), "give it an `ecn` below its `queue`");
    add(links().find_map(|link| Some((link, is_late(link)?))), "give it a `jitter` of at most its `delay`");
}

/// Links may hold more packets than a live network has buffers for. Simulated ones have as many as they want.
pub fn crowded_buffers(fabric: &Fabric) -> Option<Doubt> {
    let topology = &fabric.topology;
    if !topology.is_shaped() {
        return None;
    }
    let buffers = live::buffers(fabric);
    let workers = live::default_workers().clamp(1, topology.switch_count().max(1));
    let all = (buffers * workers) as u64;
    let both = |link: &Link| [Side::A, Side::B].map(|side| link.spec_from(side).queue_packets);
    let queues = topology.links.iter().flat_map(|link| both(link).map(|queue| Some((link, queue?)))).flatten();
    let node = |node: NodeId| &topology.nodes[node].name;
    let (longest, queue) = queues.clone().max_by_key(|(_, queue)| *queue)?;
    let together: u64 = queues.map(|(_, queue)| u64::from(queue)).sum();
    let message = if queue as usize > buffers / 2 {
        format!(
            "the queue of the link {}-{} has {queue} places: live, a link has at most {} packets under way, and loses more",
            node(longest.a.node),
            node(longest.b.node),
            buffers / 2
        )
    } else if together > all {
        format!(
            "the queues of all links have {together} places together: live, {all} packets can be under way here, and once half of them are, \
             a link has no more than are left over"
        )
    } else {
        return None;
    };
    Some(Doubt {
        place: vec!["links".to_owned()],
        message,
        hint: "a shorter `queue`, unless few are ever full at once",
    })
}

/// Live TCP warms up and is measured for whole seconds.
fn rounded(experiment: &Experiment) -> Option<Doubt> {
    let is_whole = |asked: Span| Span::from_secs(whole_seconds(asked)) == asked;
    let (warm_up, measured) = (experiment.warm_up, experiment.duration);
    let said = |word: &str, asked: Span| {
        (!is_whole(asked)).then(|| format!("{word} for {} s, not {asked}", whole_seconds(asked)))
    };
    let said: Vec<String> = [said("warm up", warm_up), said("measure", measured)].into_iter().flatten().collect();
    (!said.is_empty() && experiment.cases().iter().any(is_whole_seconds)).then(|| Doubt {
        place: vec!["experiments".to_owned(), experiment.name.clone()],
        message: format!("live runs of TCP {}: iperf3 takes whole seconds only", said.join(", and ")),
        hint: "write whole seconds, so that live and simulated runs take as long",
    })
}

/// A window of fewer segments is not what a live receiver offers.
const WINDOW_EXACT: u32 = 3;

/// What a live receiver offers follows from its buffer, in which Linux counts packets with their overhead: half a segment more, so that rounding takes none away. Of one or two
/// segments that is much.
fn tiny_window(fabric: &Fabric, experiment: &Experiment) -> Option<Doubt> {
    let window_of = |case: &Case| {
        let spec = &case.work.traffic()?.transport;
        match spec.window {
            ReceiveWindow::Segments(window) if spec.kind != TransportKind::Udp => Some(window),
            ReceiveWindow::Segments(_) | ReceiveWindow::Auto => None,
        }
    };
    let least = experiment.cases().iter().filter_map(window_of).min().filter(|window| *window < WINDOW_EXACT)?;
    fabric.topology.is_shaped().then(|| Doubt {
        place: vec!["experiments".to_owned(), experiment.name.clone()],
        message: format!(
            "live receivers offer {least}.5 segments where `window: {least}` is asked for, and live senders fill the half: Linux has no more exact way to say it"
        ),
        hint: "compare live and simulated by a `window` of 3 or more, or run this one with --sim",
    })
}

/// Round-trip times are those of senders' TCP whose connections stay: of what is expected of others, nothing is measured, and so it is missed.
fn no_round_trips(experiment: &Experiment) -> Vec<Doubt> {
    let why_not = |case: &Case| {
        let traffic = case.work.traffic()?;
        match traffic.transport.kind {
            TransportKind::Udp => Some("UDP has none"),
            _ if traffic.transfers.is_some() => Some("those of `transfers` are not measured"),
            TransportKind::Reno | TransportKind::NewReno | TransportKind::Sack | TransportKind::Linux => None,
        }
    };
    let cases = experiment.cases();
    let doubt = |expectation: &fabric::Expectation| {
        let mut meant = cases.iter().filter(|case| is_meant(expectation, case));
        let (case, why) = meant.find_map(|case| Some((case, why_not(case)?)))?;
        let of_case = of_case(case);
        let metric = expectation.metric.word();
        Some(Doubt {
            place: ["experiments", &experiment.name, "expect", metric].map(str::to_owned).to_vec(),
            message: format!(
                "`{metric}` of senders is not measured{of_case} ({why}), so this expectation will be missed"
            ),
            hint: "expect `delay-..` there, which the network measures of all packets",
        })
    };
    let of_senders = |expectation: &&fabric::Expectation| matches!(expectation.metric, Metric::RoundTrip(_));
    experiment.expect.iter().filter(of_senders).filter_map(doubt).collect()
}

/// Fewer runs have intervals that say little: Student's t is 64 for two runs, 9.9 for three, and 4.6 for five.
const FEW_RUNS: u32 = 5;

/// Intervals will be wide. Noted at the first experiment only. One run without an expectation is a look at what happens: it has no intervals, and claims nothing.
/// One run of which something is expected is a judgement that chance may have made.
fn few_runs(fabric: &Fabric) -> Option<Doubt> {
    let doubt = |experiment: &Experiment| {
        Some(Doubt {
            place: vec!["experiments".to_owned(), experiment.name.clone(), "repeat".to_owned()],
            message: few_runs_in_words(experiment.repeat, !experiment.expect.is_empty())?,
            hint: MORE_RUNS,
        })
    };
    fabric.experiments.iter().find_map(doubt)
}

/// How more runs are had.
pub(crate) const MORE_RUNS: &str = "`repeat: 5` or more, or `repeat: { until: 5 %, at-most: 30 }`";

/// What so few runs cannot say; `None` if they are enough for what is made of them.
pub(crate) fn few_runs_in_words(runs: u32, is_judged: bool) -> Option<String> {
    match runs {
        FEW_RUNS.. => None,
        0 | 1 => is_judged.then(|| {
            "what one run measured is held against what is expected: nobody knows how far the next one lies".to_owned()
        }),
        runs => Some(format!("99 % intervals of {runs} runs are wide, however alike the runs are")),
    }
}

/// Simulated hosts run no programs. Of functions of chains, the file says otherwise what they do.
fn live_only(fabric: &Fabric) -> Option<Doubt> {
    let topology = &fabric.topology;
    let is_function = |host: &str| topology.node(host).is_some_and(|node| topology.is_function_port(node));
    let (host, _) = fabric.setups.iter().find(|(host, _)| !is_function(host))?;
    let has_traffic =
        fabric.experiments.iter().any(|experiment| experiment.cases().iter().any(|case| case.work.traffic().is_some()));
    has_traffic.then(|| Doubt {
        place: vec!["nodes".to_owned(), host.clone()],
        message: format!("programs, files, sysctls and routes of hosts, as of `{host}`, are there in live runs only: simulated hosts have none"),
        hint: "`sysctl:` of `traffic` sets those of TCP in both",
    })
}

/// Functions that are in no chain.
fn idle_functions(fabric: &Fabric) -> impl Iterator<Item = Doubt> {
    let used: BTreeSet<usize> = fabric.chains.chains.iter().flat_map(|chain| chain.functions.iter().copied()).collect();
    let idle = fabric.chains.functions.iter().enumerate().filter(move |(number, _)| !used.contains(number));
    idle.map(|(_, function)| Doubt {
        place: vec!["functions".to_owned(), function.name.clone()],
        message: format!("the function `{}` is in no chain: no packet passes it", function.name),
        hint: "name it in `functions:` of a chain, or remove it",
    })
}

/// Chains all of whose packets another one takes that stands before it.
fn never_entered(fabric: &Fabric) -> impl Iterator<Item = Doubt> {
    let chains = &fabric.chains.chains;
    let takes = |other: &Chain, chain: &Chain, from: NodeId, to: NodeId| {
        let goes = |from_ends: &[NodeId], to_ends: &[NodeId]| from_ends.contains(&from) && to_ends.contains(&to);
        let ahead = goes(&other.from, &other.to) && other.matching.covers(&chain.matching);
        ahead
            || (other.is_both_ways && goes(&other.to, &other.from) && other.matching.reversed().covers(&chain.matching))
    };
    let shadow = move |(number, chain): (usize, &'_ Chain)| {
        let before = &chains[..number];
        let pairs = || chain.from.iter().flat_map(|from| chain.to.iter().map(move |to| (*from, *to)));
        let is_taken = |(from, to)| before.iter().any(|other| takes(other, chain, from, to));
        let first = pairs().next().and_then(|(from, to)| before.iter().find(|other| takes(other, chain, from, to)))?;
        pairs().all(is_taken).then(|| Doubt {
            place: vec!["chains".to_owned(), chain.name.clone()],
            message: format!(
                "no packet enters the chain `{}`: `{}`, which stands before it, takes all that it would",
                chain.name, first.name
            ),
            hint: "put it before that one, or give that one a `match`",
        })
    };
    chains.iter().enumerate().filter_map(shadow)
}

/// Flows that show packets to a controller, where none can be.
fn no_controller(fabric: &Fabric) -> impl Iterator<Item = Doubt> {
    let asks = |tables: &SwitchTables| tables.flows.iter().any(|flow| flow.instructions.asks_controller());
    fabric.flow_tables.iter().filter(move |(_, tables)| asks(tables)).map(|(switch, _)| {
        let name = &fabric.topology.nodes[*switch].name;
        Doubt {
            place: vec!["flows".to_owned(), name.clone()],
            message: format!(
                "flows of `{name}` send packets to a controller (`controller`), and there is none: nobody gets them"
            ),
            hint: "let flows do something else with them; switches speak no OpenFlow yet",
        }
    })
}

/// Health checks of servers in whose hosts the file starts nothing. Who asks them in experiments starts servers there himself.
fn unanswered_checks(fabric: &Fabric) -> impl Iterator<Item = Doubt> {
    let is_asked = |service: &str| {
        let mut loads = fabric.experiments.iter().filter_map(|experiment| match &experiment.work {
            Work::Traffic(traffic) => traffic.requests.as_deref(),
            Work::Cluster(_) => None,
        });
        loads.any(|load| load.service == service)
    };
    let is_silent = |host: NodeId| {
        let node = &fabric.topology.nodes[host];
        let setup = fabric.setups.get(&node.name);
        !node.is_external() && setup.is_none_or(|setup| setup.programs.is_empty() && setup.vm.is_none())
    };
    let checked = fabric.services.iter().filter(move |it| it.health.is_some() && !is_asked(&it.name));
    checked.filter_map(move |service| {
        let silent = service.servers.iter().map(|server| server.host).filter(|host| is_silent(*host));
        let silent: Vec<&str> = silent.map(|host| fabric.topology.nodes[host].name.as_str()).collect();
        if silent.is_empty() {
            return None;
        }
        Some(Doubt {
            place: vec!["services".to_owned(), service.name.clone()],
            message: format!(
                "the health check of `{}` finds {} down until somebody starts a server there: the file starts none",
                service.name,
                silent.join(", ")
            ),
            hint: "start one with the network: `programs: { web: [heddle, serve, ':80'] }` at the host",
        })
    })
}

/// Of how many hosts it is looked at whether a service's answers come to them.
const CLIENTS_MAX: usize = 1_000;

/// Servers that have no route to hosts which find their service by a router.
fn unanswered_clients(fabric: &Fabric) -> impl Iterator<Item = Doubt> {
    let topology = &fabric.topology;
    let subnets = fabric.subnets();
    let translated = |service: &&datapath::Service| service.forwarding != ForwardingMethod::FullNat;
    // Only where routers join parts of the network.
    let services = fabric.services.iter().filter(translated).filter(|_| !topology.interfaces.is_empty());
    services.filter_map(move |service| {
        let address = service.addresses.first()?.ip();
        let comes = |client: NodeId| {
            let hop = subnets.next_hop(client, address).filter(|hop| hop.address != address)?;
            Some((client, subnets.source(&hop)?))
        };
        let mut clients = topology.end_hosts().take(CLIENTS_MAX).filter_map(|(client, _)| comes(client));
        let (client, server) = clients.find_map(|(client, source)| {
            let is_lost = |server: &&datapath::Server| subnets.next_hop(server.host, source).is_none();
            Some((client, service.servers.iter().find(is_lost)?.host))
        })?;
        let name = |host: NodeId| &topology.nodes[host].name;
        Some(Doubt {
            place: vec!["services".to_owned(), service.name.clone()],
            message: format!(
                "`{}` finds the service `{}` by a router, and gets no answer: the server `{}` has no route back",
                name(client),
                service.name,
                name(server)
            ),
            hint: "give servers a route, as `routes: [default via ROUTER]`, or write `forward: full-nat`",
        })
    })
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use super::*;

    fn doubts_of(links: &str, experiment: &str) -> Vec<(Vec<String>, String)> {
        let text = format!(
            "topology: {{ leaf-spine: {{ leaves: 2, spines: 1, hosts-per-leaf: 2 }} }}\nlinks: {links}\n\
             experiments:\n  a: {experiment}\n"
        );
        let fabric = fabric::parse(&Source { name: "net".to_owned(), text }).unwrap();
        doubts(&fabric).into_iter().map(|doubt| (doubt.place, doubt.message)).collect()
    }

    const PLAIN: &str = "{ traffic: { pattern: stride(2) }, for: 2s }";
    const ASKS: &str = "{ traffic: { pattern: stride(2), sysctl: { tcp_ecn: 1 } }, for: 2s }";

    #[test]
    fn what_makes_sense_is_not_doubted() {
        assert_eq!(doubts_of("{ rate: 1Gbit, delay: 1ms, jitter: 1ms, queue: 100 }", PLAIN), []);
        assert_eq!(doubts_of("{ rate: 1Gbit, queue: 100, ecn: 99 }", ASKS), []);
        let udp = "{ traffic: { pattern: stride(2), transport: udp }, for: 1500ms }";
        assert_eq!(doubts_of("{ rate: 1Gbit }", udp), []);
        // Where links take no time, Linux finds its windows out.
        let tiny = "{ traffic: { pattern: stride(2), window: 1 }, for: 2s }";
        assert_eq!(doubts_of("{}", tiny), []);
    }

    #[test]
    fn programs_of_simulated_hosts_are_doubted() {
        let doubts_with = |host: &str, experiment: &str| {
            let text = format!(
                "nodes: {{ h1: {host}, h2: host }}\nlinks: [{{ between: [h1, h2], rate: 1Gbit }}]\n{experiment}"
            );
            doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap())
        };
        let (program, experiment) = (
            "{ kind: host, programs: { a: x } }",
            format!("experiments: {{ a: {PLAIN} }}\n").replace("stride(2)", "stride(1)"),
        );
        let found = doubts_with(program, &experiment);
        assert!(found.len() == 1 && found[0].place == ["nodes", "h1"], "{found:?}");
        assert_eq!((doubts_with("host", &experiment), doubts_with(program, "")), (Vec::new(), Vec::new()));
    }

    #[test]
    fn what_nothing_comes_to_is_doubted() {
        let found = |rest: &str| {
            let text = format!(
                "nodes: {{ h1: host, h2: host, s1: switch }}\nlinks: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n\
                 functions: {{ a: {{ kind: counter }}, b: {{ kind: counter }} }}\n{rest}\n"
            );
            let doubts = doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            doubts.into_iter().map(|doubt| (doubt.place.join("."), doubt.message)).collect::<Vec<_>>()
        };
        let said = |rest: &str| found(rest).into_iter().map(|(place, _)| place).collect::<Vec<_>>();
        let web = "x: { from: h1, to: h2, match: 'tcp,tp_dst=80', functions: a }";
        assert_eq!(said(&format!("chains: {{ {web}, y: {{ from: h1, to: h2, functions: b }} }}")), [""; 0]);
        assert_eq!(said(&format!("chains: {{ {web} }}")), ["functions.b"]);
        let all = "y: { from: h1, to: h2, functions: b }";
        let shadowed = found(&format!("chains: {{ {all}, {web} }}"));
        let expected = "no packet enters the chain `x`: `y`, which stands before it, takes all that it would";
        assert_eq!(shadowed, [("chains.x".to_owned(), expected.to_owned())]);
        // The other way round it takes what comes back as well.
        let back = "x: { from: h2, to: h1, functions: a }";
        assert_eq!(said(&format!("chains: {{ {all}, {back} }}")), ["chains.x"]);
        let both = format!("chains: {{ {web}, y: {{ from: h1, to: h2, functions: b }} }}");
        assert_eq!(said(&format!("{both}\nflows: {{ s1: ['tcp,actions=controller'] }}")), ["flows.s1"]);
    }

    #[test]
    fn health_checks_that_nobody_answers_are_doubted() {
        let found = |h2: &str, rest: &str| {
            let text = format!(
                "nodes: {{ h1: host, h2: {h2}, h3: host, s1: switch }}\n\
                 links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}, {{ between: [h3, s1] }}]\n{rest}\n"
            );
            let doubts = doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            doubts.into_iter().map(|doubt| (doubt.place.join("."), doubt.message)).collect::<Vec<_>>()
        };
        let with = "services: { web: { address: 10.1.0.80:80, servers: [h2, h3], health: { check: tcp } } }";
        let program = "{ kind: host, programs: { web: [heddle, serve, ':80'] } }";
        let [(place, message)] = &found(program, with)[..] else { panic!("one doubt") };
        assert!(place == "services.web" && message.contains("finds h3 down until"), "{message}");
        assert!(found("host", with)[0].1.contains("finds h2, h3 down"));
        let asked = "experiments: { a: { traffic: { requests: { to: web } }, for: 1s, repeat: 5 } }";
        let of_check = |(_, message): &(String, String)| message.contains("health check");
        assert!(!found("host", &format!("{with}\n{asked}")).iter().any(of_check));
        let without = "services: { web: { address: 10.1.0.80:80, servers: [h2, h3] } }";
        assert_eq!(found("host", without), []);
    }

    #[test]
    fn servers_without_a_way_back_are_doubted() {
        let found = |h2: &str, forward: &str| {
            let text = format!(
                "nodes:\n  h1: {{ kind: host, ipv4: 10.0.1.1/24, routes: [default via 10.0.1.254] }}\n  h2: {{ kind: host, ipv4: 10.0.2.1/24{h2} }}\n  \
                 r1: {{ kind: host, forward: true, interfaces: {{ s1: {{ ipv4: 10.0.1.254/24 }}, s2: {{ ipv4: 10.0.2.254/24 }} }} }}\n  s1: switch\n  s2: switch\n\
                 links: [{{ between: [h1, s1] }}, {{ between: [r1, s1] }}, {{ between: [r1, s2] }}, {{ between: [h2, s2] }}]\n\
                 services: {{ web: {{ address: 10.0.2.80:80, servers: [h2], forward: {forward} }} }}\n"
            );
            let doubts = doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            let of_service = doubts.into_iter().filter(|doubt| doubt.place[0] == "services");
            of_service.map(|doubt| (doubt.place.join("."), doubt.message)).collect::<Vec<_>>()
        };
        let expected =
            "`h1` finds the service `web` by a router, and gets no answer: the server `h2` has no route back";
        assert_eq!(found("", "nat"), [("services.web".to_owned(), expected.to_owned())]);
        assert_eq!(found("", "full-nat"), []);
        assert_eq!(found(", routes: [10.0.1.0/24 via 10.0.2.254]", "dr"), []);
    }

    #[test]
    fn queues_beyond_the_buffers_are_doubted() {
        let doubt = |links: &str| {
            let text = format!("topology: {{ fat-tree: {{ k: 4 }} }}\nlinks: {links}\n");
            crowded_buffers(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap())
        };
        assert_eq!(doubt("{ rate: 1Gbit, queue: 250 }"), None);
        assert_eq!(doubt("{ delay: 10s }"), None);
        let long = doubt("{ rate: 1Gbit, queue: 1000000 }").unwrap();
        assert!(long.message.contains(" has 1000000 places: live, a link has at most "), "{long:?}");
        // Of jumbo frames there are fewer.
        let many = "topology: { fat-tree: { k: 8 } }\nmtu: 9000\nlinks: { rate: 1Gbit, queue: 10000 }\n";
        let fabric = fabric::parse(&Source { name: "net".to_owned(), text: many.to_owned() }).unwrap();
        let many = crowded_buffers(&fabric).unwrap();
        assert!(many.message.contains("have 7680000 places together"), "{many:?}");
    }

    #[test]
    fn round_trip_times_that_are_not_measured_are_doubted() {
        let doubt = |traffic: &str, only: &str| {
            let experiment = format!(
                "{{ traffic: {{ pattern: stride(2){traffic} }}, repeat: 5, for: 2s, expect: {{ rtt-mean: {only} }} }}"
            );
            doubts_of("{ rate: 1Gbit }", &experiment)
        };
        assert_eq!(doubt("", "<= 1 ms"), []);
        for (traffic, why) in [
            (", transport: udp", "UDP has none"),
            (", transfers: { size: 20kB, every: 10ms }", "those of `transfers` are not measured"),
        ] {
            let found = doubt(traffic, "<= 1 ms");
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == ["experiments", "a", "expect", "rtt-mean"] && found[0].1.contains(why), "{found:?}");
        }
        let varied = |only: &str| {
            let experiment = format!(
                "{{ traffic: {{ pattern: stride(2) }}, vary: {{ transport: [linux, udp] }}, repeat: 5, for: 2s, expect: {{ rtt-mean: {only} }} }}"
            );
            doubts_of("{ rate: 1Gbit }", &experiment)
        };
        assert!(varied("<= 1 ms")[0].1.contains("in the case transport udp"));
        assert_eq!(varied("{ where: { transport: linux }, is: <= 1 ms }"), []);
    }

    #[test]
    fn dctcp_without_marks_is_doubted() {
        let found = |links: &str, experiment: &str| {
            let experiment = format!("{{ traffic: {{ pattern: stride(2){experiment}, repeat: 5, for: 2s }}");
            doubts_of(links, &experiment).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
        };
        let (dctcp, queue) = (", congestion-control: dctcp }", "{ rate: 1Gbit, queue: 100 }");
        let said = |case: &str| {
            vec![format!("`dctcp` answers to marks, and no link makes any{case}: it does what `reno` does")]
        };
        assert_eq!(found(queue, dctcp), said(""));
        let varied = " }, vary: { congestion-control: [cubic, dctcp] }";
        assert_eq!(found(queue, varied), said(" in the case congestion-control dctcp"));
        let marking = "{ rate: 1Gbit, queue: 100, ecn: 20 }";
        assert_eq!((found(marking, dctcp), found(queue, " }")), (Vec::new(), Vec::new()));
    }

    #[test]
    fn each_doubt_is_reported_once() {
        for (links, experiment, place, expected) in [
            ("{ rate: 1Gbit, queue: 100, ecn: 100 }", ASKS, "links", "it never marks any"),
            ("{ rate: 1Gbit, delay: 1ms, jitter: 2ms }", PLAIN, "links", "the mean delay is longer"),
            ("{ rate: 1Gbit, queue: 100, ecn: 10 }", PLAIN, "experiments", "no sender understands that"),
            (
                "{ rate: 1Gbit }",
                "{ traffic: { pattern: stride(2) }, vary: { window: [8, 2, 1] }, for: 2s }",
                "experiments",
                "1.5 segments where `window: 1`",
            ),
            (
                "{ rate: 1Gbit }",
                "{ traffic: { pattern: stride(2) }, for: 1500ms }",
                "experiments",
                "for 2 s, not 1500ms",
            ),
            (
                "{ rate: 1Gbit, ecn: 20 }",
                "{ traffic: { pattern: stride(2), sysctl: { tcp_ecn: 1 } }, vary: { links.queue: [10, 40] }, for: 2s }",
                "experiments",
                "links.queue 10: the link ",
            ),
        ] {
            let found = doubts_of(links, experiment);
            assert_eq!(found.len(), 1, "{links} {experiment}: {found:?}");
            assert!(found[0].0[0] == place && found[0].1.contains(expected), "{found:?}");
        }
    }
}

//! `ping`: whether hosts reach each other, and how long that takes. In each host that asks runs one program (`heddle pings`), which is told round by round whom to ask.

mod asking;
mod matrix;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use fabric::Fabric;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use live::Instance;
use live::control::ServiceStatus;
use live::pings::Answers;
use machine::Span;
use miette::{IntoDiagnostic, Report, miette};
use serde_json::{Value, json};
use topology::{HostAddress, Node, NodeId, Topology};

use self::asking::Asking;
use super::explain;
use super::instance::{connect, definition, host, running};
use super::path::{name_number, service_meant, site, unbalanced};
use super::severed;
use crate::Ending;
use crate::cli::{Format, Ping, Pings};
use crate::output::{Rows, fitting, put};

/// With fewer hosts it is over before a bar would be seen.
const BAR_HOSTS_MIN: usize = 17;

/// How often a pair is asked, and a host among all.
const COUNT_OF_PAIR: u32 = 3;
const COUNT_OF_ALL: u32 = 1;

/// Somebody who is asked: a host, which may ask as well, or a service.
pub struct Whom {
    name: String,
    address: IpAddr,
}

impl Whom {
    fn host(topology: &Topology, id: NodeId, is_ipv6: bool) -> Self {
        let HostAddress { ipv4, ipv6, .. } = *topology.address(id).expect("it is a host");
        let address = if is_ipv6 { ipv6.into() } else { ipv4.into() };
        Self { name: topology.nodes[id].name.clone(), address }
    }

    /// A host, a service, which answers itself, or whoever has an address.
    fn named((instance, fabric): (&Instance, &Fabric), from: &Self, name: &str, is_ipv6: bool) -> Result<Self, Report> {
        let (version, other) = if is_ipv6 { ("IPv6", "-4") } else { ("IPv4", "-6") };
        let hint = || format!("`heddle ping {other} {} {name}` asks the other one", from.name);
        let topology = &fabric.topology;
        let is_it = |service: &&datapath::Service| service.name == name && topology.node(name).is_none();
        if let Some(service) = fabric.services.iter().find(is_it) {
            let Some(address) = service.addresses.iter().find(|it| it.is_ipv6 == is_ipv6) else {
                return Err(miette!(help = hint(), "the service `{name}` has no {version} address"));
            };
            return Ok(Self { name: name.to_owned(), address: address.ip() });
        }
        if let Some(number) = name_number(fabric, name) {
            let names = instance.counters().map_err(explain)?.names;
            let found = site(fabric, &names, number, (is_ipv6, from.address))
                .ok_or_else(|| miette!(help = hint(), "no site of `{name}` has an {version} address"))?;
            eprintln!("{}.", found.words);
            let service = &fabric.services[found.service];
            let at = service.addresses.iter().find(|it| it.is_ipv6 == is_ipv6).expect("the site has one");
            return Ok(Self { name: name.to_owned(), address: at.ip() });
        }
        match name.parse::<IpAddr>() {
            Ok(address) if address.is_ipv6() != from.address.is_ipv6() => Err(miette!(
                help = format!("leave {} out", if is_ipv6 { "-6" } else { "-4" }),
                "{address} is no {version} address"
            )),
            Ok(address) => Ok(Self { name: name.to_owned(), address }),
            Err(_) => match (host(topology, name), service_meant(fabric, name)) {
                (Ok(host), _) => Ok(Self::host(topology, host, is_ipv6)),
                (Err(_), Some(error)) | (Err(error), None) => Err(error),
            },
        }
    }
}

/// What a host has heard of those that it asked, by their names.
pub struct Asked {
    from: String,
    of: Vec<(String, Answers)>,
}

/// Has hosts ask each other.
pub fn ping(args: &Ping, format: Format) -> Result<Ending, Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle ping --name NETWORK ..`")?)?;
    let fabric = definition(&instance)?;
    let topology = &fabric.topology;
    let mut ids: Vec<NodeId> = Vec::new();
    let (hosts, askers) = if let (Some(from), Some(to)) = (&args.from, &args.to) {
        ids.extend([from, to].into_iter().filter_map(|name| topology.node(name)));
        // Who names an address has said which version.
        let is_ipv6 =
            args.version.ipv6 || (!args.version.ipv4 && to.parse().is_ok_and(|address: IpAddr| address.is_ipv6()));
        if from == to {
            return Err(miette!("`{from}` is both ends: expected two hosts"));
        }
        let from = Whom::host(topology, host(topology, from)?, is_ipv6);
        let to = Whom::named((&instance, &fabric), &from, to, is_ipv6)?;
        (vec![from, to], 1)
    } else {
        let (hosts, askers) = all_hosts(&fabric);
        ids.clone_from(&hosts);
        (hosts.into_iter().map(|id| Whom::host(topology, id, false)).collect(), askers)
    };
    if hosts.len() < 2 || askers == 0 || hosts[0].address == hosts[1].address {
        return Err(miette!(
            help =
                "hosts that are made ask, and guests answer; of hosts behind devices name one: `heddle ping h1 HOST`",
            "there is nobody to ask: expected two hosts"
        ));
    }
    let rounds = if args.all { rounds_of(askers, hosts.len()) } else { vec![vec![(0, 1)]] };
    let count = args.count.unwrap_or(if args.all { COUNT_OF_ALL } else { COUNT_OF_PAIR });
    let mut asking = Asking::start(&instance, (&hosts, askers), args.timeout)?;
    let bar = bar(u64::from(count) * rounds.len() as u64, !args.quiet && askers >= BAR_HOSTS_MIN);
    for pass in 0..count {
        let began = Instant::now();
        for round in &rounds {
            if instance.has_ended() {
                return Err(explain(live::Error::Gone));
            }
            asking.round(round)?;
            bar.inc(1);
        }
        if pass + 1 < count {
            std::thread::sleep(args.interval.saturating_sub(began.elapsed()));
        }
    }
    bar.finish_and_clear();
    let asked = asking.end()?;
    if instance.has_ended() {
        return Err(explain(live::Error::Gone));
    }
    put(&match format {
        Format::Table if args.all => matrix::table(&asked),
        Format::Table => fitting(&matrix::pair(&asked, hosts[1].address)),
        Format::Json | Format::Csv => rows(&asked, &hosts).render(format),
    })?;
    let mut answers = asked.iter().flat_map(|asked| &asked.of);
    if answers.all(|(_, answers)| answers.received > 0) {
        return Ok(Ending::Passed);
    }
    let is_it = |status: &ServiceStatus| args.to.as_ref() == Some(&status.service);
    let counters = instance.counters().map_err(explain)?;
    for why in severed::reasons(topology, fabric.rerouting, &counters.links, &ids) {
        eprintln!("note: {why}");
    }
    if let Some(why) = counters.services.into_iter().find(is_it).and_then(|status| unbalanced(&status)) {
        eprintln!("{why}");
    }
    Ok(Ending::Missed)
}

/// All hosts that can ask, and how many those are; behind them those that can only answer: guests. Whether anybody is behind another device, nobody here knows.
fn all_hosts(fabric: &Fabric) -> (Vec<NodeId>, usize) {
    let is_guest = |node: &Node| fabric.setups.get(&node.name).is_some_and(|setup| setup.vm.is_some());
    let those = |is_wanted: &dyn Fn(&Node) -> bool| -> Vec<NodeId> {
        fabric.topology.end_hosts().filter(|(_, node)| is_wanted(node)).map(|(id, _)| id).collect()
    };
    let made = those(&|node: &Node| !node.is_external() && !is_guest(node));
    let askers = made.len();
    ([made, those(&is_guest)].concat(), askers)
}

/// Who asks whom in which round, where the first `askers` of so many hosts ask all others.
fn rounds_of(askers: usize, hosts: usize) -> Vec<Vec<(usize, usize)>> {
    let others = hosts - askers;
    let most = askers.max(others);
    let round = |turn: usize| {
        let pairs = (0..askers).map(|asker| (asker, (asker + turn) % most));
        pairs.filter(|(_, other)| *other < others).map(|(asker, other)| (asker, askers + other)).collect()
    };
    let of_others = (0..if others > 0 { most } else { 0 }).map(round);
    if askers > 1 { rounds(askers).into_iter().chain(of_others).collect() } else { of_others.collect() }
}

/// Who asks whom in which round, so that each of `hosts` asks each other one, and in no round more than one: both of a pair ask in the same round. It is how tournaments are
/// played: all but the last stand in a circle that turns, the last one meets whoever comes by, and the others meet across. Of an odd number one pauses.
fn rounds(hosts: usize) -> Vec<Vec<(usize, usize)>> {
    let circle = if hosts.is_multiple_of(2) { hosts - 1 } else { hosts };
    let round = |turn: usize| {
        let across = (1..=circle / 2).map(move |step| ((turn + step) % circle, (turn + circle - step) % circle));
        let met = (circle < hosts).then_some((turn, circle));
        met.into_iter().chain(across).flat_map(|(a, b)| [(a, b), (b, a)]).collect()
    };
    (0..circle).map(round).collect()
}

/// A bar that counts rounds, for those that wait at a terminal.
fn bar(rounds: u64, is_shown: bool) -> ProgressBar {
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} rounds").expect("it is a template");
    ProgressBar::with_draw_target(Some(rounds), target).with_style(style)
}

fn rows(asked: &[Asked], hosts: &[Whom]) -> Rows {
    let columns = ["from", "to", "address", "sent", "received", "rtt-min-ms", "rtt-mean-ms", "rtt-max-ms", "failure"];
    let mut rows = Rows::new(&columns);
    let addresses: BTreeMap<&str, IpAddr> = hosts.iter().map(|host| (host.name.as_str(), host.address)).collect();
    for Asked { from, of } in asked {
        for (to, answers) in of {
            let [min, mean, max] = answers
                .rtt_ns
                .map_or([Value::Null, Value::Null, Value::Null], |rtt| rtt.map(|ns| json!(ns as f64 / 1e6)));
            let (sent, received) = (json!(answers.sent), json!(answers.received));
            let address = json!(addresses.get(to.as_str()));
            rows.push([json!(from), json!(to), address, sent, received, min, mean, max, json!(answers.failure)]);
        }
    }
    rows
}

/// Asks hosts, from the one in which it runs: `ping` starts it there.
pub fn pings(args: &Pings) -> Result<(), Report> {
    let patience = Span::from_ms(args.patience_ms);
    let answers = live::pings::ask(&args.to, args.remembered, patience, &mut std::io::stdout()).map_err(explain)?;
    put(&(serde_json::to_string(&answers).into_diagnostic()? + "\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn guests_are_asked_and_do_not_ask() {
        for (askers, hosts) in [(1, 2), (1, 4), (3, 4), (4, 6), (2, 9), (3, 3)] {
            let rounds = rounds_of(askers, hosts);
            let mut pairs = BTreeSet::new();
            for round in &rounds {
                let asking: BTreeSet<usize> = round.iter().map(|(from, _)| *from).collect();
                let asked: BTreeSet<usize> = round.iter().map(|(_, to)| *to).collect();
                assert_eq!((asking.len(), asked.len()), (round.len(), round.len()), "{askers} of {hosts}: {round:?}");
                pairs.extend(round.iter().copied());
            }
            assert!(pairs.iter().all(|(from, to)| *from < askers && from != to), "{pairs:?}");
            assert_eq!(pairs.len(), askers * (hosts - 1), "{askers} of {hosts}: {rounds:?}");
        }
    }

    #[test]
    fn each_asks_each_other_one_and_one_at_a_time() {
        for hosts in 2..=9 {
            let rounds = rounds(hosts);
            let mut pairs = BTreeSet::new();
            for round in &rounds {
                let askers: BTreeSet<usize> = round.iter().map(|(from, _)| *from).collect();
                let asked: BTreeSet<usize> = round.iter().map(|(_, to)| *to).collect();
                assert!(askers.len() == round.len() && askers == asked, "{hosts}: {round:?}");
                pairs.extend(round.iter().copied().filter(|(from, to)| from != to && *from < hosts && *to < hosts));
            }
            assert_eq!(pairs.len(), hosts * (hosts - 1), "{hosts}: {rounds:?}");
        }
    }
}

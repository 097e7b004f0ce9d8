//! What hosts are hardly meant to do: to send nothing to others, as they have no route, or to serve at a port that an experiment's own server has.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabric::{Experiment, Fabric, Subnets, Work};
use topology::NodeId;

use super::doubt::Doubt;

/// Of how many hosts it is looked at whom they reach, and by whom.
const HOSTS_MAX: usize = 200;

/// Hosts beside a router that have no route to the subnets behind it. Noted at the first one.
pub(super) fn without_route(fabric: &Fabric) -> Option<Doubt> {
    let topology = &fabric.topology;
    let subnets = fabric.subnets();
    let routers: Vec<NodeId> =
        fabric.setups.iter().filter(|(_, setup)| setup.forwards).filter_map(|(name, _)| topology.node(name)).collect();
    if routers.is_empty() {
        return None;
    }
    // Daemons that route, guests, and hosts that somebody else sets up have routes of which the file says nothing.
    let is_by_file = |host: &NodeId| {
        let node = &topology.nodes[*host];
        let is_by_setup = fabric.setups.get(&node.name).is_none_or(|setup| {
            let is_daemon = setup.forwards && !setup.programs.is_empty();
            !is_daemon && setup.vm.is_none() && setup.uplink.is_none() && setup.image.is_none()
        });
        !node.is_external() && is_by_setup
    };
    let hosts = || topology.end_hosts().map(|(host, _)| host).take(HOSTS_MAX);
    let address = |host: NodeId| topology.address(host).map(|address| (address.ipv4, address.ipv4_prefix));
    let lacking = |host: NodeId| {
        let router = routers.iter().filter(|router| **router != host).find_map(|router| {
            let gateways = topology.interfaces_of(*router).filter_map(address).map(|(own, _)| IpAddr::from(own));
            is_neighbour(&subnets, host, gateways)
        })?;
        let to = hosts().find(|to| {
            let is_lost = |(to, _): (std::net::Ipv4Addr, u8)| subnets.next_hop(host, to.into()).is_none();
            *to != host && address(*to).is_some_and(is_lost)
        })?;
        Some((host, to, router))
    };
    let mut found = hosts().filter(is_by_file).filter_map(lacking);
    let (host, to, router) = found.next()?;
    let others = match found.count() {
        0 => String::new(),
        1 => ", and one host more lacks one".to_owned(),
        several => format!(", and {several} hosts more lack one"),
    };
    let (host, to_name) = (&topology.nodes[host].name, &topology.nodes[to].name);
    let (to, prefix) = address(to)?;
    let subnet =
        std::net::Ipv4Addr::from_bits(to.to_bits() & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or_default());
    Some(Doubt {
        place: vec!["nodes".to_owned(), host.clone()],
        message: format!(
            "`{host}` has no route to `{to_name}`, though the router {router} is beside it{others}: `routes: [{subnet}/{prefix} via {router}]`, or `[default via {router}]`"
        ),
        hint: "give it `routes:`, or a routing daemon as one of its `programs:`",
    })
}

/// Hosts that others' routes name as their next hop and that pass nothing on, and next hops that nobody is. Noted at the first one of each.
pub(super) fn dead_next_hops(fabric: &Fabric) -> Vec<Doubt> {
    let topology = &fabric.topology;
    let subnets = fabric.subnets();
    // Daemons and guests have addresses of which the file says nothing, as VRRP gives them; so has what is beyond the network.
    let may_appear = topology.nodes.iter().any(topology::Node::is_external)
        || fabric.setups.values().any(|setup| !setup.programs.is_empty() || setup.vm.is_some())
        || !(fabric.services.is_empty() && fabric.chains.functions.is_empty());
    let passes_on = |name: &str| {
        fabric.setups.get(name).is_some_and(|setup| {
            let by_sysctl = setup.sysctls.iter().any(|sysctl| sysctl.name.contains("forward"));
            setup.forwards || by_sysctl || !setup.programs.is_empty() || setup.vm.is_some()
        })
    };
    let (mut idle, mut nobody) = (None, None);
    // Many hosts have one next hop, and each is looked for among all.
    let mut owners: BTreeMap<IpAddr, Option<NodeId>> = BTreeMap::new();
    let setups = fabric.setups.iter().filter(|(_, setup)| !setup.routes.is_empty()).take(HOSTS_MAX);
    for (host, via) in
        setups.flat_map(|(host, setup)| setup.routes.iter().filter_map(move |route| Some((host, route.via?))))
    {
        let owner = *owners.entry(via).or_insert_with(|| subnets.owner_of(via));
        match owner.map(|id| &topology.nodes[topology.owner(id)]) {
            Some(router) if !passes_on(&router.name) && !router.is_external() => {
                idle.get_or_insert_with(|| Doubt {
                    place: vec!["nodes".to_owned(), router.name.clone()],
                    message: format!("`{}` is the next hop of `{host}` ({via}), and passes nothing on", router.name),
                    hint: "`forward: true` makes it a router",
                });
            }
            None if !may_appear && !matches!(via, IpAddr::V6(via) if via.is_unicast_link_local()) => {
                nobody.get_or_insert_with(|| Doubt {
                    place: vec!["nodes".to_owned(), host.clone(), "routes".to_owned()],
                    message: format!("the next hop {via} of `{host}` is nobody's address"),
                    hint: "name an address of a router in the host's subnet",
                });
            }
            _ => {}
        }
    }
    idle.into_iter().chain(nobody).collect()
}

/// Which of these addresses a host takes for a neighbour's.
fn is_neighbour(subnets: &Subnets<'_>, host: NodeId, mut addresses: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    addresses.find(|address| subnets.next_hop(host, *address).is_some_and(|hop| hop.address == *address))
}

/// Programs of servers that name the port at which an experiment's requests have a server of their own.
pub(super) fn served_twice(fabric: &Fabric, experiment: &Experiment) -> Option<Doubt> {
    let Work::Traffic(traffic) = &experiment.work else { return None };
    let load = traffic.requests.as_deref()?;
    let service = fabric.services.iter().find(|service| service.name == load.service)?;
    let own = service.addresses.first()?.port;
    service.servers.iter().find_map(|server| {
        let host = &fabric.topology.nodes[server.host].name;
        let port = server.port.unwrap_or(own);
        let programs = &fabric.setups.get(host)?.programs;
        let program = programs.iter().find(|program| program.run.iter().any(|word| names_port(word, port)))?;
        Some(Doubt {
            place: vec!["nodes".to_owned(), host.clone(), "programs".to_owned(), program.name.clone()],
            message: format!(
                "the program `{}` of `{host}` seems to listen at port {port}, where the requests of `{}` have a server of their own: live, one of the two fails",
                program.name, experiment.name
            ),
            hint: "leave the program to another file, or give it another port",
        })
    })
}

/// Whether a number in a command line is this port.
fn names_port(text: &str, port: u16) -> bool {
    text.split(|c: char| !c.is_ascii_digit() && c != '.').any(|number| number.parse() == Ok(port))
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use super::*;

    fn read(text: String) -> Fabric {
        fabric::parse(&Source { name: "net".to_owned(), text }).unwrap()
    }

    #[test]
    fn hosts_without_a_route_are_doubted() {
        let found = |h1: &str, h2: &str| {
            let fabric = read(format!(
                "nodes:\n  h1: {{ kind: host, ipv4: 10.0.1.1/24{h1} }}\n  h2: {{ kind: host, ipv4: 10.0.2.1/24{h2} }}\n  \
                 r1: {{ kind: host, forward: true, interfaces: {{ s1: {{ ipv4: 10.0.1.254/24 }}, s2: {{ ipv4: 10.0.2.254/24 }} }} }}\n  s1: switch\n  s2: switch\n\
                 links: [{{ between: [h1, s1] }}, {{ between: [r1, s1] }}, {{ between: [r1, s2] }}, {{ between: [h2, s2] }}]\n"
            ));
            without_route(&fabric).map(|doubt| (doubt.place.join("."), doubt.message))
        };
        let (way, back) = (", routes: [default via 10.0.1.254]", ", routes: [10.0.1.0/24 via 10.0.2.254]");
        assert_eq!(found(way, back), None);
        let forgotten = "`h2` has no route to `h1`, though the router 10.0.2.254 is beside it: `routes: [10.0.1.0/24 via 10.0.2.254]`, or `[default via 10.0.2.254]`";
        assert_eq!(found(way, ""), Some(("nodes.h2".to_owned(), forgotten.to_owned())));
        let both = found("", "").expect("two lack one").1;
        assert!(both.contains("the router 10.0.1.254 is beside it, and one host more lacks one: "), "{both}");
        assert_eq!(found(way, ", uplink: nat"), None);
    }

    #[test]
    fn next_hops_that_pass_nothing_on_or_are_nobody_are_doubted() {
        let found = |h1: &str, r1: &str| {
            let fabric = read(format!(
                "nodes:\n  h1: {{ kind: host, ipv4: 10.0.1.1/24, routes: [default via {h1}] }}\n  h2: {{ kind: host, ipv4: 10.0.2.1/24, routes: [default via 10.0.2.254] }}\n  \
                 r1: {{ kind: host{r1}, interfaces: {{ h1: {{ ipv4: 10.0.1.254/24 }}, h2: {{ ipv4: 10.0.2.254/24 }} }} }}\n\
                 links: [{{ between: [h1, r1] }}, {{ between: [r1, h2] }}]\n"
            ));
            dead_next_hops(&fabric).into_iter().map(|doubt| (doubt.place.join("."), doubt.message)).collect::<Vec<_>>()
        };
        assert_eq!(found("10.0.1.254", ", forward: true"), []);
        let idle =
            ("nodes.r1".to_owned(), "`r1` is the next hop of `h1` (10.0.1.254), and passes nothing on".to_owned());
        assert_eq!(found("10.0.1.254", ""), [idle]);
        assert_eq!(found("10.0.1.254", ", sysctls: { net.ipv4.ip_forward: 1 }"), []);
        let nobody = ("nodes.h1.routes".to_owned(), "the next hop 10.0.1.253 of `h1` is nobody's address".to_owned());
        assert_eq!(found("10.0.1.253", ", forward: true"), [nobody]);
        assert_eq!(found("10.0.1.253", ", forward: true, programs: { frr: sleep 9 }"), []);
    }

    #[test]
    fn programs_at_the_ports_of_requests_are_doubted() {
        let found = |program: &str, servers: &str| {
            let text = format!(
                "nodes: {{ h1: host, h2: {{ kind: host, programs: {{ web: {program} }} }}, s1: switch }}\n\
                 links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]\n\
                 services: {{ web: {{ address: 10.1.0.80:80, servers: [{servers}] }} }}\n\
                 experiments: {{ a: {{ traffic: {{ requests: {{ to: web }} }}, for: 1s, repeat: 5 }} }}\n"
            );
            let fabric = read(text);
            let doubt = served_twice(&fabric, &fabric.experiments[0]);
            doubt.is_some_and(|doubt| doubt.place.join(".") == "nodes.h2.programs.web")
        };
        assert!(found("python3 -m http.server 80", "h2"));
        assert!(found("[heddle, serve, ':80']", "h2"));
        assert!(found("nginx -g 'listen 8080'", "{ host: h2, port: 8080 }"));
        assert!(!found("python3 -m http.server 80", "{ host: h2, port: 8080 }"));
        assert!(!found("ping 10.0.0.80", "h2"));
    }
}

//! VLANs in which hosts are that are meant to hear of each other, and do not.

use std::collections::BTreeMap;

use fabric::{Experiment, Fabric};
use topology::NodeId;
use vswitch::functions::BuiltIn;
use vswitch::port::{PortVlans, VlanMode};

use super::cases::{is_drawn, of_case};
use super::doubt::Doubt;
use crate::plan::pairs_of;

/// VLANs of the ports that lead to hosts.
struct Vlans {
    by_host: BTreeMap<NodeId, PortVlans>,
    /// Of all others.
    everything: PortVlans,
}

impl Vlans {
    fn of(fabric: &Fabric) -> Self {
        let topology = &fabric.topology;
        let mut by_host = BTreeMap::new();
        for (switch, settings) in &fabric.switches {
            for (port, settings) in &settings.ports {
                let Some((link, side)) = topology.nodes[*switch].ports.get(*port) else { continue };
                if let Some(own) = &settings.vlans {
                    by_host.insert(topology.links[*link].end(side.other()).node, own.clone());
                }
            }
        }
        Self { by_host, everything: PortVlans::default() }
    }

    fn at(&self, host: NodeId) -> &PortVlans {
        self.by_host.get(&host).unwrap_or(&self.everything)
    }

    /// Whether who is at a trunk of some says with each frame in which VLAN it is.
    fn says_itself(&self, host: NodeId) -> bool {
        self.at(host).mode() == VlanMode::Trunk && self.by_host.contains_key(&host)
    }

    /// In which VLAN a host's frames without a tag are; `None`: its port does not admit them.
    fn of_untagged(&self, host: NodeId) -> Option<u16> {
        self.at(host).admit(None)
    }
}

/// Ends of a chain are in different VLANs, or who watches it is in another one: they hear nothing of each other.
pub(super) fn apart(fabric: &Fabric) -> Vec<Doubt> {
    let vlans = Vlans::of(fabric);
    let hears = |from: NodeId, to: NodeId| {
        vlans.says_itself(from)
            || vlans.says_itself(to)
            || vlans.of_untagged(from).is_some_and(|vid| vlans.at(to).carries(vid))
    };
    let topology = &fabric.topology;
    let name = |host: NodeId| &topology.nodes[host].name;
    let mut doubts = Vec::new();
    for chain in &fabric.chains.chains {
        let pairs = || chain.from.iter().flat_map(|from| chain.to.iter().map(move |to| (*from, *to)));
        let place = || ["chains", &chain.name].map(str::to_owned).to_vec();
        if !pairs().any(|(from, to)| hears(from, to))
            && let Some((from, to)) = pairs().next()
        {
            let (from, to, chain) = (name(from), name(to), &chain.name);
            let message = format!("`{from}` and `{to}` are in different VLANs, so nothing passes the chain `{chain}`");
            doubts.push(Doubt { place: place(), message, hint: "give both ends' ports one `tag`, or `trunks`" });
        }
        let watchers = chain.functions.iter().filter_map(|function| fabric.chains.functions[*function].built_in());
        for watcher in watchers.filter_map(BuiltIn::mirrors_to) {
            if !chain.from.iter().chain(&chain.to).any(|end| hears(*end, watcher)) {
                let message = format!(
                    "`{}` is in another VLAN than the chain `{}` that it watches: it gets no copies",
                    name(watcher),
                    chain.name
                );
                doubts.push(Doubt {
                    place: place(),
                    message,
                    hint: "give its port their `tag`, or make it a trunk of it",
                });
            }
        }
    }
    doubts
}

/// Flows from host to host that no frame of either's own address comes to the end of: noted at the first one of an experiment, in so many of its cases at most.
///
/// What flows, functions and routers do with tags is not looked at: where there are some, nothing is said.
pub(super) fn unheard(fabric: &Fabric, experiment: &Experiment, cases_max: usize) -> Option<Doubt> {
    let topology = &fabric.topology;
    let has_others = !fabric.flow_tables.is_empty()
        || !fabric.chains.chains.is_empty()
        || !topology.interfaces.is_empty()
        || fabric.setups.values().any(|setup| setup.forwards);
    let vlans = Vlans::of(fabric);
    if has_others || vlans.by_host.is_empty() {
        return None;
    }
    let name = |host: NodeId| &topology.nodes[host].name;
    let is_external = |host: NodeId| topology.nodes[host].is_external();
    let why = |from: NodeId, to: NodeId| {
        let Some(vid) = vlans.of_untagged(from) else {
            return Some(format!("the port of `{}` admits no frames without a tag", name(from)));
        };
        let carries = vlans.at(to).carries(vid);
        let says =
            if carries { "carries it with a tag, so that it is for another device" } else { "does not carry it" };
        (!carries || vlans.at(to).tags(vid))
            .then(|| format!("`{}` is in VLAN {vid}, and the port of `{}` {says}", name(from), name(to)))
    };
    let of_case_of = |case: &fabric::Case| {
        let traffic = case.work.traffic().filter(|it| it.switched_by.is_heddle() && it.requests.is_none())?;
        let pairs = pairs_of(fabric, case, fabric.seed).ok().filter(|_| !is_drawn(&traffic.pattern))?;
        let mut known = pairs.into_iter().filter(|(from, to)| !is_external(*from) && !is_external(*to));
        let (from, to, why) =
            known.find_map(|(from, to)| Some((from, to, why(from, to).or_else(|| why(to, from))?)))?;
        Some(format!("nothing of the flow from `{}` to `{}`{} arrives: {why}", name(from), name(to), of_case(case)))
    };
    let message = experiment.cases().iter().take(cases_max).find_map(of_case_of)?;
    let place = ["experiments", &experiment.name].map(str::to_owned).to_vec();
    Some(Doubt { place, message, hint: "give both hosts' ports one `tag`" })
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use crate::doubts::doubts;

    #[test]
    fn chains_across_vlans_are_doubted() {
        let found = |ports: &str| {
            let text = format!(
                "nodes: {{ h1: host, h2: host, h3: host, s1: switch }}\nlinks: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}, {{ between: [h3, s1] }}]\n\
                 switches: {{ s1: {{ ports: {{ {ports} }} }} }}\nfunctions: {{ tap: {{ kind: mirror, to: h3 }} }}\n\
                 chains: {{ a: {{ from: h1, to: h2, functions: tap }} }}\n"
            );
            let doubts = doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            assert!(doubts.iter().all(|doubt| doubt.place == ["chains", "a"]), "{doubts:?}");
            doubts.into_iter().map(|doubt| doubt.message).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(found("h1: { storm-control: 9/s }"), none);
        assert_eq!(found("h1: { tag: 1 }, h2: { tag: 1 }, h3: { tag: 1 }"), none);
        assert_eq!(found("h1: { tag: 1 }, h2: { tag: 1 }, h3: { trunks: [1] }"), none);
        let other = found("h1: { tag: 1 }, h2: { tag: 1 }, h3: { tag: 2 }");
        assert_eq!(other, ["`h3` is in another VLAN than the chain `a` that it watches: it gets no copies"]);
        let apart = found("h1: { tag: 1 }, h2: { tag: 2 }, h3: { tag: 2 }");
        assert_eq!(apart, ["`h1` and `h2` are in different VLANs, so nothing passes the chain `a`"]);
    }

    #[test]
    fn flows_across_vlans_are_doubted() {
        let found = |ports: &str, pairs: &str| {
            let text = format!(
                "topology: {{ single: {{ hosts: 4 }} }}\nswitches: {{ s1: {{ ports: {{ {ports} }} }} }}\n\
                 experiments: {{ a: {{ traffic: {{ pattern: {{ pairs: {pairs} }} }}, for: 1s, repeat: 5 }} }}\n"
            );
            let doubts = doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            assert!(doubts.iter().all(|doubt| doubt.place == ["experiments", "a"]), "{doubts:?}");
            doubts.into_iter().map(|doubt| doubt.message).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        let tags = "h1: { tag: 10 }, h2: { tag: 20 }, h3: { tag: 10 }";
        assert_eq!(found(tags, "[[h1, h3]]"), none);
        assert_eq!(found("h1: { trunks: [10] }", "[[h2, h3]]"), none);
        let nothing = |from: &str, to: &str| format!("nothing of the flow from `{from}` to `{to}` arrives: ");
        let apart = "`h1` is in VLAN 10, and the port of `h2` does not carry it";
        assert_eq!(found(tags, "[[h1, h3], [h1, h2]]"), [nothing("h1", "h2") + apart]);
        let tagged = "`h1` is in VLAN 10, and the port of `h4` carries it with a tag, so that it is for another device";
        assert_eq!(found(tags, "[[h1, h4]]"), [nothing("h1", "h4") + tagged]);
        assert_eq!(
            found(tags, "[[h4, h1]]"),
            [nothing("h4", "h1") + "`h4` is in VLAN 0, and the port of `h1` does not carry it"]
        );
        let trunk = "the port of `h1` admits no frames without a tag";
        assert_eq!(found("h1: { trunks: [10] }", "[[h1, h2]]"), [nothing("h1", "h2") + trunk]);
    }
}

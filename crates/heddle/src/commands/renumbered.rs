//! Which hosts of a running network have other addresses once a file is applied: those that a file does not write follow from the order of its hosts.

use std::collections::{BTreeMap, BTreeSet};

use topology::{HostAddress, NodeId, Topology};

/// So many hosts are named, one by one.
const NAMED: usize = 3;

/// The prefix of the network of all hosts whose addresses nobody has written with one.
const WHOLE: u8 = 8;

/// How addresses are kept.
const HINT: &str = "addresses follow from the order of hosts: write new ones last, or give hosts `ipv4:` and `mac:`";

/// How interfaces are.
const OF_INTERFACES: &str = "interfaces are eth0, eth1 and so on in the order of `links:`: write new links of a host last; one that goes makes those behind it others";

/// What is said of hosts that are in both networks and have another address in the second one, a note a line; nothing if there are none.
pub fn notes(before: &Topology, now: &Topology) -> Vec<String> {
    let had: BTreeMap<&str, &HostAddress> = addresses(before).map(|(_, name, address)| (name, address)).collect();
    let with_several: BTreeSet<NodeId> = now.interfaces.iter().copied().collect();
    let (mut notes, mut is_by_order, mut is_by_links) = (Vec::new(), false, false);
    for (id, name, has) in addresses(now) {
        let Some(had) = had.get(name) else { continue };
        let Some(note) = change(name, had, has) else { continue };
        notes.push(note);
        // With the prefix of a subnet, somebody has written it.
        let is_written = had.ipv4 != has.ipv4 && has.ipv4_prefix != WHOLE;
        let is_of_several = with_several.contains(&now.owner(id));
        is_by_links |= is_of_several;
        is_by_order |= !is_of_several && !is_written;
    }
    let hint = if is_by_order { Some(HINT) } else { is_by_links.then_some(OF_INTERFACES) };
    let more = notes.len().saturating_sub(NAMED);
    notes.truncate(NAMED);
    if more > 0 {
        notes.push(format!("and {more} more"));
    }
    if let Some((last, hint)) = notes.last_mut().zip(hint) {
        *last = format!("{last} (hint: {hint})");
    }
    notes
}

fn addresses(topology: &Topology) -> impl Iterator<Item = (NodeId, &str, &HostAddress)> {
    topology.addressed_hosts().filter_map(move |(id, node)| Some((id, node.name.as_str(), topology.address(id)?)))
}

/// Peers know a host by its IPv4 address; by the other ones only where that has stayed.
fn change(name: &str, had: &HostAddress, has: &HostAddress) -> Option<String> {
    let of = |had: &str, has: &str| Some(format!("{name}: {had} becomes {has}"));
    if had.ipv4 != has.ipv4 {
        of(&had.ipv4.to_string(), &has.ipv4.to_string())
    } else if had.ipv6 != has.ipv6 {
        of(&had.ipv6.to_string(), &has.ipv6.to_string())
    } else if had.mac != has.mac {
        let [had, has] = [had, has].map(|it| it.mac.map(|byte| format!("{byte:02x}")).join(":"));
        of(&had, &has)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts in this order, each as the file writes it, at one switch.
    fn topology(hosts: &[&str]) -> Topology {
        let name = |host: &&str| host.split(':').next().unwrap_or_default().to_owned();
        let links = hosts.iter().map(|host| format!("{{ between: [{}, s1] }}", name(host))).collect::<Vec<_>>();
        let text = format!("nodes: {{ {}, s1: switch }}\nlinks: [{}]\n", hosts.join(", "), links.join(", "));
        fabric::parse(&fabric::Source { name: "net".to_owned(), text }).expect("a file").topology
    }

    #[test]
    fn hosts_behind_a_new_one_are_named() {
        let before = topology(&["a: host", "b: host", "c: host"]);
        let last = topology(&["a: host", "b: host", "c: host", "new: host"]);
        assert_eq!(notes(&before, &last), Vec::<String>::new());
        let first = topology(&["new: host", "a: host", "b: host"]);
        let said = ["a: 10.0.0.1 becomes 10.0.0.2".to_owned(), format!("b: 10.0.0.2 becomes 10.0.0.3 (hint: {HINT})")];
        assert_eq!(notes(&before, &first), said);
    }

    #[test]
    fn interfaces_have_other_numbers_by_their_links() {
        let of = |host: &str, interface: &str, link: &str| {
            let text = format!(
                "nodes:\n  a: {{ kind: host, ipv4: 10.0.1.1/24 }}\n  c: {{ kind: host, ipv4: 10.0.3.1/24 }}\n  \
                 r: {{ kind: host, interfaces: {{ a: {{ ipv4: 10.0.1.2/24 }}, {interface}c: {{ ipv4: 10.0.3.2/24 }} }} }}\n{host}\
                 links:\n  - between: [r, a]\n{link}  - between: [r, c]\n"
            );
            fabric::parse(&fabric::Source { name: "net".to_owned(), text }).expect("a file").topology
        };
        let host = "  b: { kind: host, ipv4: 10.0.2.1/24 }\n";
        let before = of(host, "b: { ipv4: 10.0.2.2/24 }, ", "  - between: [r, b]\n");
        let said = format!("r.eth1: 10.0.2.2 becomes 10.0.3.2 (hint: {OF_INTERFACES})");
        assert_eq!(notes(&before, &of("", "", "")), [said]);
        // Who has written another address knows why.
        let other = |ipv4: &str| topology(&[&format!("a: {{ kind: host, ipv4: {ipv4} }}"), "b: host"]);
        let said = notes(&other("192.168.1.1/24"), &other("192.168.1.2/24"));
        assert_eq!(said, ["a: 192.168.1.1 becomes 192.168.1.2"]);
    }

    #[test]
    fn of_many_some_are_named() {
        let hosts: Vec<String> = (1..=8).map(|i| format!("h{i}: host")).collect();
        let mut hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let before = topology(&hosts);
        hosts.insert(0, "new: host");
        let said = notes(&before, &topology(&hosts));
        assert_eq!((said.len(), said[3].as_str()), (4, format!("and 5 more (hint: {HINT})").as_str()), "{said:?}");
    }

    #[test]
    fn a_host_whose_ipv4_address_is_written_may_have_another_mac() {
        let own = "b: { kind: host, ipv4: 10.0.0.9 }";
        let said = notes(&topology(&["a: host", own]), &topology(&["new: host", "a: host", own]));
        assert_eq!(said.len(), 2, "{said:?}");
        let kept = "b: { kind: host, ipv4: 10.0.0.9, ipv6: 'fd68:6564:646c::9', mac: '02:00:00:00:00:09' }";
        let said = notes(&topology(&["a: host", kept]), &topology(&["new: host", "a: host", kept]));
        assert_eq!(said.len(), 1, "{said:?}");
    }
}

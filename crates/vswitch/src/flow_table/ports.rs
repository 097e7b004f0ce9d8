//! The ports of a switch, as flows name them.

use std::ops::Range;

use topology::{NodeId, PortId, Topology};

use super::error::{FlowError, nearest, shown};

/// The ports of one switch. A port has a number, and the name of the node that it leads to. A bond is known by the port of its first member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(Vec<Port>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Port {
    /// The node at the other end.
    peer: String,
    /// The port by which its bond is known; its own one where there is none.
    known_as: PortId,
}

/// How many ports a message lists.
const LISTED_MAX: usize = 8;

impl Ports {
    /// Those of a switch.
    pub fn of(topology: &Topology, switch: NodeId) -> Self {
        let name = |peer: NodeId| topology.nodes[peer].name.clone();
        let ports = topology.peers(switch).enumerate();
        let mut ports: Vec<Port> =
            ports.map(|(at, peer)| Port { peer: name(peer), known_as: PortId(at as u16) }).collect();
        for bond in topology.bonds.iter().filter(|bond| bond.node == switch) {
            for member in &bond.ports {
                ports[usize::from(member.0)].known_as = bond.ports[0];
            }
        }
        Self(ports)
    }

    /// Whether all of these ports are there as well, with the same numbers and names, and perhaps more behind them.
    pub fn begins_with(&self, others: &Self) -> bool {
        self.0.starts_with(&others.0)
    }

    /// Those of a switch with one port to each of these.
    #[cfg(test)]
    pub fn to(peers: &[&str]) -> Self {
        let port = |(at, peer): (usize, &&str)| Port { peer: (*peer).to_owned(), known_as: PortId(at as u16) };
        Self(peers.iter().enumerate().map(port).collect())
    }

    /// All by which packets come and go: of a bond one.
    pub fn known(&self) -> impl Iterator<Item = PortId> + '_ {
        let ports = self.0.iter().enumerate();
        ports.filter(|(at, port)| usize::from(port.known_as.0) == *at).map(|(_, port)| port.known_as)
    }

    /// The port by which packets are known that come or go by this one.
    pub fn known_as(&self, port: PortId) -> Option<PortId> {
        self.0.get(usize::from(port.0)).map(|port| port.known_as)
    }

    /// The node that a port leads to.
    pub fn peer(&self, port: PortId) -> Option<&str> {
        self.0.get(usize::from(port.0)).map(|port| port.peer.as_str())
    }

    /// The port of this number or name. `at` is where it stands.
    ///
    /// # Errors
    /// If there is none, or several have the name.
    pub fn find(&self, text: &str, at: &Range<usize>) -> Result<PortId, FlowError> {
        let wrong = |message: String, hint: String| Err(FlowError::new(at.clone(), message, hint));
        let name = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            let port = name.parse().ok().map(PortId);
            return match port.and_then(|port| Some((port, self.known_as(port)?))) {
                Some((port, known_as)) if port == known_as => Ok(port),
                Some((port, known_as)) => wrong(
                    format!("port {} is in a bond that is known by its first port", port.0),
                    format!("write {}", known_as.0),
                ),
                None => wrong(format!("the switch has no port {}", shown(name)), self.list()),
            };
        }
        let mut found = self.known().filter(|port| self.peer(*port) == Some(name));
        match (found.next(), found.next()) {
            (Some(port), None) => Ok(port),
            (Some(one), Some(other)) => wrong(
                format!("several ports lead to `{}`", shown(name)),
                format!("write the number of one of them: {}, {}..", one.0, other.0),
            ),
            (None, _) => {
                let near = nearest(name, self.0.iter().map(|port| port.peer.as_str()));
                let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
                wrong(format!("no port of the switch leads to `{}`", shown(name)), near + &self.list())
            }
        }
    }

    /// Which there are.
    fn list(&self) -> String {
        let mut known = self.known().peekable();
        if known.peek().is_none() {
            return "it has no ports".to_owned();
        }
        let few = known.by_ref().take(LISTED_MAX);
        let few: Vec<String> =
            few.map(|port| format!("{} ({})", port.0, self.peer(port).unwrap_or_default())).collect();
        let more = if known.next().is_some() { ".." } else { "" };
        format!("its ports are {}{more}", few.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_more_is_behind_the_others() {
        let [few, more, others] = [&["h1", "h2"][..], &["h1", "h2", "vm"], &["vm", "h1", "h2"]].map(Ports::to);
        assert!(more.begins_with(&few) && few.begins_with(&few));
        assert!(!few.begins_with(&more) && !others.begins_with(&few));
    }

    #[test]
    fn ports_have_numbers_and_the_names_of_their_peers() {
        let ports = Ports::to(&["h1", "h2", "s2", "s2"]);
        let find = |text| ports.find(text, &(0..1)).map_err(|error| format!("{error} ({})", error.hint));
        assert_eq!(find("2"), Ok(PortId(2)));
        assert_eq!(find("h2"), Ok(PortId(1)));
        assert_eq!(find("s2").unwrap_err(), "several ports lead to `s2` (write the number of one of them: 2, 3..)");
        assert_eq!(
            find("h3").unwrap_err(),
            "no port of the switch leads to `h3` (did you mean `h1`? its ports are 0 (h1), 1 (h2), 2 (s2), 3 (s2))"
        );
        assert_eq!(find("4").unwrap_err(), "the switch has no port 4 (its ports are 0 (h1), 1 (h2), 2 (s2), 3 (s2))");
    }
}

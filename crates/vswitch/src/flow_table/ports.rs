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

/// What stands before the number of a port.
const BEFORE_PORTS: [&str; 4] = ["output:", "in_port=", "watch_port:", "output(port="];

/// Words that stand where a port may, and are none of its names.
const WORDS: [&str; 9] = ["in_port", "local", "normal", "controller", "flood", "all", "any", "none", "table"];

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

    /// Flows or groups as they are printed, in which ports have the names by which they are found again: `output:h1`, `in_port=h1`.
    #[must_use]
    pub fn named_in(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((at, before)) =
            BEFORE_PORTS.iter().filter_map(|before| Some((rest.find(before)? + before.len(), before))).min()
        {
            let (done, from) = rest.split_at(at);
            let digits = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
            named.push_str(done);
            // Of a longer word, it is the end: `reg_in_port=1`.
            let is_word = done[..at - before.len()].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let name = from[..digits].parse().ok().and_then(|port| self.name(PortId(port))).filter(|_| !is_word);
            named.push_str(name.unwrap_or(&from[..digits]));
            rest = &from[digits..];
        }
        named + rest
    }

    /// The name by which a port is found, if no other one has it and it is no word of flows.
    fn name(&self, port: PortId) -> Option<&str> {
        let name = self.peer(port)?;
        let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
        (!is_word && self.find(name, &(0..0)) == Ok(port)).then_some(name)
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
    fn flows_have_the_names_of_ports_that_are_found_again() {
        let ports = Ports::to(&["h1", "h2", "s2", "s2", "local"]);
        for (text, expected) in [
            ("udp,in_port=0 actions=output:1", "udp,in_port=h1 actions=output:h2"),
            ("actions=output:2,output:3,output:4,output:9", "actions=output:2,output:3,output:4,output:9"),
            ("actions=output:10,output(port=1,max_len=100)", "actions=output:10,output(port=h2,max_len=100)"),
            (
                "group_id=1,type=ff,bucket=watch_port:0,actions=output:0",
                "group_id=1,type=ff,bucket=watch_port:h1,actions=output:h1",
            ),
            ("actions=output:NXM_NX_REG0[],reg_in_port=1", "actions=output:NXM_NX_REG0[],reg_in_port=1"),
            ("priority=0 actions=NORMAL", "priority=0 actions=NORMAL"),
        ] {
            assert_eq!(ports.named_in(text), expected);
        }
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

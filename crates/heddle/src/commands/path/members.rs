//! Which member of a bond packets leave on, where that follows from what is known of their flow.

use ::bond::config::{HashPolicy, Mode};
use fabric::EndKind;
use topology::{BondEndId, LinkId, NodeId, PortId};
use vswitch::Trace;

use super::network::Network;

/// Leaves of the members of bonds those by which a packet has gone, where others of its flow go there, too. `crossed`: where it left nodes, and the link that it took.
pub fn choose(network: &Network, trace: &mut Trace, crossed: &[(NodeId, NodeId, LinkId)], is_known: bool) {
    for hop in trace.hops.iter_mut().filter(|hop| hop.links.len() > 1) {
        let taken = crossed.iter().find(|(from, to, _)| (*from, *to) == (hop.from, hop.to));
        if let Some((.., link)) = taken
            && why_any(network, (hop.from, hop.port), is_known).is_none()
        {
            hop.links = vec![*link];
        }
    }
}

/// Why it is not known which member packets take that leave a node by a bond, in words; `None`: it is known, or there is no bond.
pub fn why_any(network: &Network, (from, port): (NodeId, PortId), is_known: bool) -> Option<String> {
    let topology = &network.fabric.topology;
    let end = topology.bond_at(from, port)?;
    let bond = &network.fabric.bonds[end];
    if topology.nodes[from].is_external() {
        return Some("another program chooses one of them there".to_owned());
    }
    if bond.end == EndKind::Learning {
        return Some("the switch sends to that one on which it last saw the address".to_owned());
    }
    let mode = bond.config.mode;
    let by = match mode {
        Mode::BalanceRr => "they take turns, packet by packet",
        Mode::ActiveBackup => "one of them sends at a time, which `heddle show bonds` shows",
        Mode::Broadcast => "each of them sends a copy",
        Mode::BalanceTlb | Mode::BalanceAlb => "which one sends depends on their load",
        Mode::BalanceXor | Mode::Ad8023 if bond.config.rebalance.is_some() => "`rebalance` moves flows between them",
        Mode::BalanceXor | Mode::Ad8023 => return why_no_hash(network, end, (bond.config.policy, is_known)),
    };
    Some(format!("{by} ({mode})"))
}

/// Why the hash of a flow is not known to lead to one member.
fn why_no_hash(network: &Network, end: BondEndId, (policy, is_known): (HashPolicy, bool)) -> Option<String> {
    let has_ports = match policy {
        HashPolicy::Layer34 | HashPolicy::Encap34 => true,
        HashPolicy::Layer2 | HashPolicy::Layer23 | HashPolicy::Encap23 | HashPolicy::VlanSrcMac => false,
    };
    if has_ports && !is_known {
        return Some(format!("a hash ({policy}) chooses one of them: with --port and --source-port it is said which"));
    }
    (!network.all_send(end)).then(|| "not all of them send now (`heddle show bonds` says why)".to_owned())
}

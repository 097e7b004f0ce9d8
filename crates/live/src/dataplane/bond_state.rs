//! How bonds are, for whoever asks.

use bond::{End, LinkState, MemberId, Mode};
use machine::Time;
use topology::BondEndId;

use super::plan::Plan;
use super::pool::Packet;
use crate::control::{BondState, MemberState};

/// How an end with this index in the fabric is at `now`.
pub fn state(plan: &Plan, index: BondEndId, end: &End<Packet>, now: Time) -> BondState {
    let topology = &plan.fabric().topology;
    let place = &topology.bonds[index];
    let members = end.bond().members().map(|(id, member)| {
        let (sends, why) = why(end, id, now);
        let why = match end.peer().and_then(|peer| peer.why(now, id)) {
            Some(peer) => format!("{why}; {peer}; resequencing {}", end.resequencing()),
            None => why,
        };
        MemberState {
            name: member.name().to_owned(),
            to: topology.nodes[plan.map().far_node(plan.map().members(index)[id.index()])].name.clone(),
            link: format!("{:?}", member.link()).to_lowercase(),
            sends,
            why,
        }
    });
    BondState {
        node: topology.nodes[place.node].name.clone(),
        name: place.name.clone(),
        mode: end.bond().config().mode.name().to_owned(),
        carrier: end.bond().has_carrier(),
        members: members.collect(),
        accepted: end.counters().accepted,
        inactive: end.counters().inactive,
        reordering: end.reordering().copied(),
    }
}

/// Whether a bond sends on a member, and why.
fn why(end: &End<Packet>, id: MemberId, now: Time) -> (bool, String) {
    let bond = end.bond();
    if let Some(why) = end.lacp().and_then(|lacp| lacp.why(now, id)) {
        return (bond.usable().contains(id), why.to_string());
    }
    let link = bond.member(id).map(bond::Member::link);
    match (bond.usable().contains(id), bond.config().mode, bond.active()) {
        (false, ..) if link == Some(LinkState::Back) => {
            (false, "its link is up, and updelay is not over yet".to_owned())
        }
        (false, ..) => (false, "its link is down".to_owned()),
        (true, Mode::ActiveBackup, Some(active)) if active == id => {
            (true, "it is the active one".to_owned() + &announced(bond, id))
        }
        (true, Mode::ActiveBackup, Some(active)) => {
            let name = bond.member(active).map_or("another", bond::Member::name);
            (false, format!("it waits while {name} is the active one"))
        }
        (true, Mode::BalanceTlb | Mode::BalanceAlb, Some(active)) if active == id => {
            (true, "its link is up; it also receives for the bond".to_owned() + &announced(bond, id))
        }
        (true, ..) => (true, "its link is up".to_owned() + &announced(bond, id)),
    }
}

/// What is announced to peers, where that is not the one address of the host.
fn announced(bond: &bond::Bond, id: MemberId) -> String {
    match (bond.config().mode, bond.mac()) {
        (Mode::BalanceAlb, _) => {
            let peers = bond.peers().filter(|(.., member)| *member == id).count();
            format!("; its address is announced to {peers} addresses of peers")
        }
        (Mode::ActiveBackup, Some(mac)) if bond.config().answers_by_member() => {
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            format!("; its address, {mac}, is announced to peers")
        }
        _ => String::new(),
    }
}

//! Which ends of bonds do not carry all that they can.

use bond::lacp::Convergence;
use bond::{End, LinkState, Member, MemberId};
use machine::Time;
use topology::{BondEndId, NodeId};

use super::pool::Packet;
use super::worker::Worker;
use crate::convergence::{UnconvergedBond, UnconvergedMember};

impl Worker {
    /// Those of its own, each with its number in the fabric. Only LACP has anything to wait for: in other modes a link with a carrier is used.
    #[cold]
    pub(super) fn unconverged(&self, now: Time) -> Vec<(BondEndId, UnconvergedBond)> {
        let topology = &self.plan.fabric().topology;
        let places = self.graph.ends.iter_enumerated();
        let ends = places.filter_map(|(index, place)| Some((index, place.as_ref()?.bonded()?)));
        let unconverged = ends.filter_map(|(index, end)| {
            let members: Vec<_> = end.bond().members().filter_map(|member| unconverged(end, member, now)).collect();
            let bond = &topology.bonds[index];
            let name = |node: NodeId| topology.nodes[node].name.clone();
            let to = topology.bonds[bond.partner].node;
            let found = UnconvergedBond { node: name(bond.node), bond: bond.name.clone(), to: name(to), members };
            (!found.members.is_empty()).then_some((index, found))
        });
        unconverged.collect()
    }
}

/// What is wrong with a member that has a carrier, if anything is.
fn unconverged(end: &End<Packet>, (id, member): (MemberId, &Member), now: Time) -> Option<UnconvergedMember> {
    let reason = end.lacp()?.why(now, id)?.reason;
    let (pending, why) = match reason.convergence() {
        // LACP hears of a link at once; the bond uses it when `updelay` is over.
        Convergence::Converged if reason.distributes() && member.link() == LinkState::Back => {
            (true, "its link is up, and updelay is not over yet".to_owned())
        }
        Convergence::Converged => return None,
        Convergence::Pending => (true, reason.to_string()),
        Convergence::LeftOut => (false, reason.to_string()),
    };
    Some(UnconvergedMember { name: member.name().to_owned(), pending, why })
}

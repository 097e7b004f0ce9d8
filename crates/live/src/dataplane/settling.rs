//! Which ends of bonds do not carry all that they can.

use bond::lacp::Standing;
use bond::{End, LinkState, Member, MemberId};
use machine::Time;
use topology::{BondEndId, NodeId};

use super::pool::Packet;
use super::worker::Worker;
use crate::settling::{Unsettled, UnsettledMember};

impl Worker {
    /// Those of its own, each with its number in the fabric. Only LACP has anything to wait for: in other modes a link with a carrier is used.
    #[cold]
    pub(super) fn unsettled(&self, now: Time) -> Vec<(BondEndId, Unsettled)> {
        let topology = &self.plan.fabric().topology;
        let places = self.graph.ends.iter_enumerated();
        let ends = places.filter_map(|(index, place)| Some((index, place.as_ref()?.bonded()?)));
        let unsettled = ends.filter_map(|(index, end)| {
            let members: Vec<_> = end.bond().members().filter_map(|member| unsettled(end, member, now)).collect();
            let bond = &topology.bonds[index];
            let name = |node: NodeId| topology.nodes[node].name.clone();
            let to = topology.bonds[bond.partner].node;
            let found = Unsettled { node: name(bond.node), bond: bond.name.clone(), to: name(to), members };
            (!found.members.is_empty()).then_some((index, found))
        });
        unsettled.collect()
    }
}

/// What is wrong with a member that has a carrier, if anything is.
fn unsettled(end: &End<Packet>, (id, member): (MemberId, &Member), now: Time) -> Option<UnsettledMember> {
    let reason = end.lacp()?.why(now, id)?.reason;
    let (pending, why) = match reason.standing() {
        // LACP hears of a link at once; the bond uses it when `updelay` is over.
        Standing::Settled if reason.distributes() && member.link() == LinkState::Back => {
            (true, "its link is up, and updelay is not over yet".to_owned())
        }
        Standing::Settled => return None,
        Standing::Pending => (true, reason.to_string()),
        Standing::LeftOut => (false, reason.to_string()),
    };
    Some(UnsettledMember { name: member.name().to_owned(), pending, why })
}

//! A switch's MAC-learning ports at the far end of a bond.

use crate::MemberId;

/// The far end of a bond in a mode that needs no bond there: a switch's MAC-learning ports. They send to the member by which an address was
/// seen last, and flood to all members what they have never seen.
#[derive(Clone, Debug, Default)]
pub struct LearningPorts {
    /// Addresses of the host, and where they are. A host has few.
    seen: Vec<([u8; 6], MemberId)>,
}

/// Addresses that a switch learns of one host.
const LEARNED_MAX: usize = 64;

impl LearningPorts {
    /// A frame from this address has come by a member.
    #[inline]
    pub fn saw(&mut self, member: MemberId, mac: [u8; 6]) {
        if let Some((_, place)) = self.seen.iter_mut().find(|(known, _)| *known == mac) {
            *place = member;
        } else if self.seen.len() < LEARNED_MAX {
            self.seen.push((mac, member));
        }
    }

    /// Where a frame to this address goes; `None`: everywhere.
    #[inline]
    pub fn find(&self, mac: [u8; 6]) -> Option<MemberId> {
        self.seen.iter().find(|(known, _)| *known == mac).map(|(_, member)| *member)
    }

    /// A link went down: what was behind it is not there any more.
    pub fn forget(&mut self, member: MemberId) {
        self.seen.retain(|(_, place)| *place != member);
    }
}

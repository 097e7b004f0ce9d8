//! What a flow's actions are held against: its ports, and its packets as the actions before have made them.

use super::error::FlowError;
use super::key::Slot;
use super::match_field::Needs;
use super::matching::Match;
use super::ports::Ports;
use super::scan::Pair;

/// What actions are held against.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub ports: &'a Ports,
    /// Which packets come to them, as the actions before have made them; `None` for a group's.
    pub matching: Option<Match>,
    /// Whether they have made them other packets than the flow is for.
    is_changed: bool,
}

impl<'a> Context<'a> {
    /// Actions of a flow for these packets, or of a group.
    pub const fn of(ports: &'a Ports, matching: Option<Match>) -> Self {
        Self { ports, matching, is_changed: false }
    }

    /// The label stack is another one, and behind it this ethertype says what the packet is: of that, nothing was matched.
    pub fn relabel(&mut self, ethertype: u16) {
        let Some(Match { key, mask }) = &mut self.matching else { return };
        for slot in [Slot::IP_PROTO, Slot::TP_SRC, Slot::TP_DST, Slot::MPLS] {
            mask.set(slot, 0);
            key.set(slot, 0);
        }
        key.set(Slot::ETH_TYPE, u64::from(ethertype));
        mask.set(Slot::ETH_TYPE, Slot::ETH_TYPE.all());
        self.is_changed = true;
    }

    /// The tag is another one, of which these bits are known.
    pub fn retag(&mut self, tci: u16, known: u16) {
        let Some(Match { key, mask }) = &mut self.matching else { return };
        key.set(Slot::VLAN_TCI, u64::from(tci));
        mask.set(Slot::VLAN_TCI, u64::from(known));
        self.is_changed = true;
    }

    /// Refuses an action that the flow's packets need not have a field for.
    pub fn check(&self, needs: Needs, pair: &Pair<'_>) -> Result<(), FlowError> {
        let Some(Match { key, mask }) = &self.matching else { return Ok(()) };
        needs.check(key, mask, pair.word, pair.span()).map_err(|error| {
            let (example, _) = needs.words();
            let value = match &pair.value {
                None => "",
                Some(_) if pair.word == "ct" => "(..)",
                Some(_) => ":..",
            };
            let hint = if self.is_changed {
                format!("what stands in front of it changes the packet: write it before that, or in a later table (`goto_table:1`) whose flow matches `{example}`")
            } else {
                format!("match `{example}` before `actions=`, as in `{example},actions={}{value}`", pair.word)
            };
            FlowError { hint, ..error }
        })
    }
}

//! What goes on behind `ct` with packets, besides their headers.

use std::collections::BTreeMap;

use super::actions::FlowAction;

/// What goes on behind `ct` with a packet, besides its headers.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The table in which it is looked up next.
    pub table: u8,
    /// Its action set.
    pub set: Vec<FlowAction>,
}

/// All of what has gone on with packets since tables changed last, by the numbers that [`Slot::RECIRCULATION`] has.
#[derive(Clone, Debug, Default)]
pub struct FrozenStates {
    /// From 1 on.
    states: Vec<Frozen>,
    numbers: BTreeMap<String, u16>,
}

impl FrozenStates {
    /// The one with this number.
    pub fn get(&self, number: u16) -> Option<&Frozen> {
        self.states.get(usize::from(number).wrapping_sub(1))
    }

    /// The number of one; `None` if there are as many as numbers.
    pub fn number(&mut self, table: u8, set: &[FlowAction]) -> Option<u16> {
        let text = set.iter().fold(table.to_string(), |text, action| format!("{text},{action}"));
        if let Some(number) = self.numbers.get(&text) {
            return Some(*number);
        }
        let number = u16::try_from(self.states.len() + 1).ok()?;
        self.states.push(Frozen { table, set: set.to_vec() });
        self.numbers.insert(text, number);
        Some(number)
    }

    /// Tables have changed: nobody goes on with what was before.
    pub fn clear(&mut self) {
        self.states.clear();
        self.numbers.clear();
    }
}

//! Priority vectors (17.5, 17.6) and times (17.13), as BPDUs have them.

use machine::Span;
use wire::BpduRepr;

/// Which address a bridge identifier has.
const ADDRESS: u64 = (1 << 48) - 1;
/// Which number a port identifier has.
const PORT_NUMBER: u16 = (1 << 12) - 1;
/// A second, in the units of BPDUs.
pub(crate) const SECOND: u16 = 256;

/// Who the root is, how far away, by whom and by which port of his. The less, the better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Vector {
    pub(crate) root: u64,
    pub(crate) cost: u32,
    pub(crate) bridge: u64,
    pub(crate) port: u16,
}

impl Vector {
    pub(crate) const fn of(bpdu: &BpduRepr) -> Self {
        Self { root: bpdu.root, cost: bpdu.root_path_cost, bridge: bpdu.bridge, port: bpdu.port }
    }

    /// Whether what is heard takes the place of this: it is better, or it is the last word of who has said this (17.6).
    pub(crate) fn yields_to(&self, heard: &Self) -> bool {
        let is_same =
            self.bridge & ADDRESS == heard.bridge & ADDRESS && self.port & PORT_NUMBER == heard.port & PORT_NUMBER;
        heard < self || is_same
    }

    /// Whether the designated bridge has this address.
    pub(crate) const fn is_from(&self, bridge: u64) -> bool {
        self.bridge & ADDRESS == bridge & ADDRESS
    }
}

/// How old information is, and what the root says about times, in 1/256 of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) message_age: u16,
    pub(crate) max_age: u16,
    pub(crate) hello_time: u16,
    pub(crate) forward_delay: u16,
}

impl Times {
    /// Those of a BPDU, within the bounds of table 17-1: others would have this bridge send or wait without end. The forward delay may be as short as Linux allows.
    pub(crate) fn of(bpdu: &BpduRepr) -> Self {
        Self {
            message_age: bpdu.message_age,
            max_age: bpdu.max_age.clamp(6 * SECOND, 40 * SECOND),
            hello_time: bpdu.hello_time.clamp(SECOND, 10 * SECOND),
            forward_delay: bpdu.forward_delay.clamp(2 * SECOND, 30 * SECOND),
        }
    }

    /// The same a bridge further away from the root.
    pub(crate) const fn one_further(self) -> Self {
        Self { message_age: self.message_age.saturating_add(SECOND), ..self }
    }

    /// Whether the next bridge may still believe it.
    pub(crate) const fn is_fresh(self) -> bool {
        self.message_age.saturating_add(SECOND) <= self.max_age
    }
}

/// What so many 1/256 of a second are.
pub(crate) fn span(units: u16) -> Span {
    Span::from_ns(u64::from(units) * 3_906_250)
}

/// A time in 1/256 of a second.
pub(crate) fn units(span: Span) -> u16 {
    u16::try_from(span.as_ns() / 3_906_250).unwrap_or(u16::MAX)
}

//! `mirror`: a copy of each packet goes to a host that watches.

use machine::{Rebase, Span, Time};
use topology::NodeId;

use super::service_function::{FunctionCount, PassingPacket, ServiceFunction, Verdict, nonzero};
use crate::field::Field;

/// Has each packet copied.
#[derive(Debug)]
pub struct Mirror {
    to: NodeId,
    copies: u64,
    bytes: u64,
}

impl Mirror {
    pub const fn new(to: NodeId) -> Self {
        Self { to, copies: 0, bytes: 0 }
    }
}

impl ServiceFunction for Mirror {
    #[inline]
    fn process(&mut self, _: Time, packet: &PassingPacket<'_>, _: &mut Vec<Field>) -> Verdict {
        self.copies += 1;
        self.bytes += u64::from(packet.bytes);
        Verdict::PassAndCopy(self.to)
    }

    fn counts(&self) -> Vec<FunctionCount> {
        nonzero([FunctionCount { bytes: Some(self.bytes), ..FunctionCount::new("copies", self.copies) }])
    }
}

impl Rebase for Mirror {
    fn rebase(&mut self, _: Span) {
        let Self { to: _, copies: _, bytes: _ } = self;
    }
}

//! The pipeline of a switch that has no flows, and looks into packets all the same: for the tags of its VLANs.

use machine::{Rebase, Span, Time};
use wire::Error;

use crate::action::Action;
use crate::pipeline::{PacketIn, Pipeline};

/// All packets are switched as they are without flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct NormalPipeline;

impl Pipeline for NormalPipeline {
    fn process(&mut self, _: Time, packet: &PacketIn<'_>, actions: &mut Vec<Action>) -> Result<(), Error> {
        packet.key()?;
        actions.push(Action::Normal);
        Ok(())
    }
}

impl Rebase for NormalPipeline {
    fn rebase(&mut self, _: Span) {}
}

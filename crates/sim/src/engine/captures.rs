//! Captures, in the engine.

use machine::Time;
use topology::{LinkId, Side};

use super::Engine;
use crate::CapturedFrame;
use crate::capture::{Capture, View};

impl Engine<'_> {
    /// From now on these ports see what passes them.
    pub(super) fn capture(&mut self, ports: &[(LinkId, Side)]) {
        if ports.is_empty() {
            return;
        }
        let views = ports.iter().enumerate().flat_map(|(port, (link, side))| {
            let [a, b] = self.tables.map.ends(*link);
            let (own, far) = if *side == Side::A { (a, b) } else { (b, a) };
            [View { egress: own, port, is_outbound: true }, View { egress: far, port, is_outbound: false }]
        });
        let capture = Capture::new(self.scenario.transport, views.collect());
        self.graph.observe(capture.egresses());
        self.medium.capture = Some(capture);
    }

    /// What has passed ports that are looked at, until then and since this was asked last.
    pub(crate) fn take_captured(&mut self, until: Time) -> Vec<CapturedFrame> {
        self.medium.capture.as_mut().map(|capture| capture.take(until)).unwrap_or_default()
    }
}

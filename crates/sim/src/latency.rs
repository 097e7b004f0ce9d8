//! How long a host takes between what it hears and what it says: up to a microsecond, at random.
//!
//! Real hosts never answer at the same moment of each packet. Without that, flows that meet at a queue keep step for ever, and one may find it full each time
//! (phase effects: Floyd and Jacobson, 1992).

use machine::{Rng, Span, Time};
use topology::NetPort;
use transport::TransportKind;

use crate::Scenario;

/// The longest that a host takes.
const MOST: Span = Span::from_us(1);
/// What keeps this randomness apart from all other of a run.
const LABEL: u64 = 0x6c61_7465_6e63_7900;

#[derive(Debug)]
pub(crate) struct HostLatency {
    rng: Rng,
    /// By port: when the last packet left. None leaves before it.
    last: Vec<Time>,
}

impl HostLatency {
    /// Of runs of TCP as Linux has it; the studies' hosts took no time.
    pub(crate) fn of(scenario: &Scenario<'_>) -> Option<Self> {
        let is_linux = scenario.transport.kind == TransportKind::Linux;
        is_linux.then(|| Self { rng: Rng::new(scenario.seed).fork(LABEL), last: Vec::new() })
    }

    /// When a packet leaves by the host's port that the host thinks of now.
    pub(crate) fn departure(&mut self, now: Time, port: NetPort) -> Time {
        let place = port.0 as usize;
        if place >= self.last.len() {
            self.last.resize(place + 1, Time::ZERO);
        }
        let departure = now + Span::from_ps(u64::from(self.rng.below(MOST.as_ps() as u32)));
        self.last[place] = self.last[place].max(departure);
        self.last[place]
    }
}

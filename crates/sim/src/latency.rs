//! How long a host takes between what it hears and what it says: up to a microsecond while it is at work, up to 50 if it has to wake up, at random; and now and then
//! longer, when it is interrupted.
//!
//! Real hosts never answer at the same moment of each packet. Without that, flows that meet at a queue keep step for ever, and one may find it full each time
//! (phase effects: Floyd and Jacobson, 1992). A host that has had nothing to do for a while sleeps, and takes tens of microseconds to wake up (66 by `heddle calibrate` on
//! the machine of docs/benchmarks.md). Nor is any host always there: every now and then the machine does something else, live for a millisecond and more
//! (docs/benchmarks.md, *Fail-over*: the longest gap without any fault). Without that, a sender over paths of unequal length could send the same segments
//! twice for ever, where a real one learns that packets overtake each other as soon as it is late itself.

use machine::{Rng, Span, Time};
use topology::NetPort;
use transport::TransportKind;

use crate::Scenario;

/// The longest that a host takes which is at work.
const AT_WORK: Span = Span::from_us(1);
/// The longest that a host takes to wake up. It sleeps when it has sent nothing for as long.
const WAKE_UP: Span = Span::from_us(50);
/// The longest that a host is interrupted, and the longest time from the end of that to the next one: ten times a second on the mean.
const INTERRUPTION: Span = Span::from_us(500);
const BETWEEN: Span = Span::from_ms(200);
/// What keeps this randomness apart from all other of a run.
const LABEL: u64 = 0x6c61_7465_6e63_7900;

#[derive(Debug)]
pub(crate) struct HostLatency {
    rng: Rng,
    /// The longest that a host takes which has slept.
    wake_up: Span,
    ports: Vec<Port>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Port {
    /// When the last packet left. None leaves before it.
    last: Time,
    /// When its host is interrupted, from the one to the other.
    interrupted: (Time, Time),
}

impl HostLatency {
    /// Of runs of TCP as Linux has it; the studies' hosts took no time.
    pub(crate) fn of(scenario: &Scenario<'_>) -> Option<Self> {
        let is_linux = scenario.transport.kind == TransportKind::Linux;
        // Where hosts cost something, cores wake up.
        let wake_up = if scenario.hosts.is_some() { AT_WORK } else { WAKE_UP };
        is_linux.then(|| Self { rng: Rng::new(scenario.seed).fork(LABEL), wake_up, ports: Vec::new() })
    }

    /// When a packet leaves by the host's port that the host thinks of now.
    pub(crate) fn departure(&mut self, now: Time, port: NetPort) -> Time {
        let place = port.0 as usize;
        if place >= self.ports.len() {
            self.ports.resize(place + 1, Port::default());
        }
        let port = &mut self.ports[place];
        let most = if now > port.last + WAKE_UP { self.wake_up } else { AT_WORK };
        let mut departure = now + Span::from_ps(u64::from(self.rng.below(most.as_ps() as u32)));
        let (begin, end) = port.interrupted;
        if now >= end {
            let begin = now + below(&mut self.rng, BETWEEN);
            port.interrupted = (begin, begin + below(&mut self.rng, INTERRUPTION));
        } else if now >= begin {
            departure = departure.max(end);
        }
        port.last = port.last.max(departure);
        port.last
    }
}

fn below(rng: &mut Rng, most: Span) -> Span {
    Span::from_ns(u64::from(rng.below(most.as_ns() as u32)))
}

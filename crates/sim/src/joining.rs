//! Segments that a simulated host joins, as a kernel does with what comes together (GRO).
//!
//! What comes at one instant comes together: out of a card that has collected it ([`link::LinkSpec::coalesce_ns`]), or of a bond that has put it in
//! order. Live, `vswitch::segmentation` joins the frames of one flow that are due at once; the rules are the same here: they follow each other without
//! a gap, carry the same timestamps and the same marks, and make up an IP packet of 64 KiB at most; one that is pushed is the last.

use machine::Time;
use transport::{Ecn, Segment, TransportKind};

use crate::Scenario;

/// The longest IP packet.
const IP_MAX: u64 = 65_535;
/// Bytes of an Ethernet header, which counts among a packet's headers.
const ETHERNET: u64 = 14;
/// Picoseconds of a unit of TCP's timestamps.
const STAMP_PS: u64 = 1_000_000_000;

/// Segments of one flow that have come at one instant, of which its receiver was not polled yet.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    segment_bytes: u64,
    /// Bytes of payload that may be joined.
    bytes_max: u64,
    joined: Option<Joined>,
}

#[derive(Clone, Copy, Debug)]
struct Joined {
    at: Time,
    direction: u32,
    first: u64,
    /// Behind the last one.
    end: u64,
    stamp: u64,
    echo: u32,
    ecn: Ecn,
    /// The last one was pushed.
    is_ended: bool,
}

impl Joining {
    /// `None` where hosts are none with Linux, or no two segments come to one at once.
    pub(crate) fn of(scenario: &Scenario<'_>) -> Option<Self> {
        let topology = &scenario.fabric.topology;
        let collects = topology.links.iter().any(|link| link.spec.coalesce_ns > 0) || !topology.bonds.is_empty();
        let headers = u64::from(scenario.transport.header_bytes).saturating_sub(ETHERNET);
        (collects && scenario.transport.kind == TransportKind::Linux).then(|| Self {
            segment_bytes: u64::from(scenario.transport.segment_bytes.max(1)),
            bytes_max: IP_MAX - headers.min(IP_MAX),
            joined: None,
        })
    }

    /// When what is there came: nothing that happens later is joined to it.
    #[inline]
    pub(crate) fn since(&self) -> Option<Time> {
        Some(self.joined?.at)
    }

    /// Whether a segment is joined to what is there.
    pub(crate) fn continues(&self, now: Time, direction: u32, segment: &Segment) -> bool {
        let is_next = |joined: Joined| {
            !joined.is_ended
                && (joined.at, joined.direction, joined.end, joined.stamp, joined.echo, joined.ecn)
                    == (now, direction, segment.seq, segment.stamp.as_ps() / STAMP_PS, segment.echo, segment.ecn)
                && segment.seq + self.segment_bytes - joined.first <= self.bytes_max
        };
        self.joined.is_some_and(is_next)
    }

    /// A segment has been given to its receiver. Whether more may be joined to it.
    pub(crate) fn note(&mut self, now: Time, direction: u32, segment: &Segment) -> bool {
        if !segment.carries_data() {
            return false;
        }
        let first = if self.continues(now, direction, segment) { self.joined.map(|joined| joined.first) } else { None };
        self.joined = Some(Joined {
            at: now,
            direction,
            first: first.unwrap_or(segment.seq),
            end: segment.seq + self.segment_bytes,
            stamp: segment.stamp.as_ps() / STAMP_PS,
            echo: segment.echo,
            ecn: segment.ecn,
            is_ended: segment.push,
        });
        true
    }

    /// When what is there came, and of which direction of a flow it is; nothing is there afterwards.
    pub(crate) fn end(&mut self) -> Option<(Time, u32)> {
        let joined = self.joined.take()?;
        Some((joined.at, joined.direction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Span;

    #[test]
    fn what_follows_at_once_and_fits_is_joined() {
        let mut joining = Joining { segment_bytes: 1_000, bytes_max: 3_500, joined: None };
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let segment = |seq| Segment { seq, stamp: at(7), push: false, ecn: Ecn::NONE, echo: 0 };
        assert_eq!(joining.end(), None);
        assert!(joining.note(at(9), 4, &segment(5_000)));
        assert_eq!(joining.since(), Some(at(9)));
        for (now, direction, next) in [
            (at(10), 4, segment(6_000)),
            (at(9), 2, segment(6_000)),
            (at(9), 4, segment(7_000)),
            (at(9), 4, Segment { seq: 6_000, stamp: at(8), push: false, ecn: Ecn::NONE, echo: 0 }),
        ] {
            assert!(!joining.continues(now, direction, &next), "{next:?}");
        }
        let same = Segment { seq: 6_000, stamp: at(7) + Span::from_us(999), push: false, ecn: Ecn::NONE, echo: 0 };
        assert!(joining.continues(at(9), 4, &same), "timestamps are in milliseconds");
        assert!(joining.note(at(9), 4, &same) && joining.note(at(9), 4, &segment(7_000)));
        assert!(!joining.continues(at(9), 4, &segment(8_000)), "it is full");
        assert_eq!((joining.end(), joining.end()), (Some((at(9), 4)), None));
        assert!(joining.note(at(9), 4, &Segment { push: true, ..segment(5_000) }));
        assert!(!joining.continues(at(9), 4, &segment(6_000)), "one that is pushed is the last");
        assert!(!joining.note(
            at(9),
            4,
            &Segment { seq: Segment::SYN, stamp: at(7), push: false, ecn: Ecn::NONE, echo: 0 }
        ));
    }
}

//! What end hosts cost: the cores of one machine, which all hosts share, as they do live.
//!
//! ```text
//!   a flow's sender ──┐                        ┌──> the host's link
//!                     ├──> one of the cores ───┤
//!   the host's link ──┘                        └──> the flow's receiver
//! ```
//!
//! A packet that carries a flow's data keeps a core busy when it is sent, and again when it has come; what it took to carry it between hosts, and to
//! acknowledge it, is a part of that, since this is how it is measured. An acknowledgement waits for its turn, and takes no time.
//!
//! What always holds: packets have their turn in the order in which they ask for it; those of one flow are handled one after another on each side, as a socket
//! is used by one core at a time; no core does two things at once.

use machine::{Span, Time};

/// What waits of a flow to be sent at most, in time: Linux's TCP leaves no more than a millisecond of its pace to the queues below it
/// (`tcp_limit_output_bytes`, TCP small queues).
const SEND_AHEAD: Span = Span::from_ms(1);
/// A flow that was held goes on when so much is left.
const SEND_AGAIN: Span = Span::from_us(500);
/// Packets of a flow that have come and wait for a core at most; more are dropped (`net.core.netdev_max_backlog`).
pub const BACKLOG: u32 = 1_000;

/// What the hosts of a machine cost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCosts {
    /// How many cores all hosts share; at least one.
    pub cores: u32,
    /// What it takes to send a packet of data.
    pub sent: PacketCost,
    /// What it takes to receive one.
    pub received: PacketCost,
    /// How much later a core begins that had nothing to do.
    pub wake_up: Span,
}

/// The time that a core works for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCost {
    /// For any packet.
    pub packet: Span,
    /// For each byte of its frame.
    pub byte: Span,
}

impl PacketCost {
    fn of(self, bytes: u32) -> Span {
        self.packet + self.byte * u64::from(bytes)
    }
}

/// A side of a flow's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Send,
    Receive,
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// When all is done that was asked for, of each kind of work.
    done: [Time; 2],
    /// Packets that have come and are not done with.
    waiting: u32,
}

/// The cores of the machine on which all hosts are.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    costs: HostCosts,
    /// When each has done all that it has been given.
    free: Vec<Time>,
    /// By number; an even one carries data, and the next one its acknowledgements.
    directions: Vec<Direction>,
    /// Packets that came while as many waited as may.
    pub(crate) dropped: u64,
}

impl Cores {
    pub(crate) fn new(costs: HostCosts) -> Self {
        let free = vec![Time::ZERO; costs.cores.max(1) as usize];
        Self { costs, free, directions: Vec::new(), dropped: 0 }
    }

    /// When a core has sent a packet that a flow's host wants to send now.
    pub(crate) fn send(&mut self, now: Time, direction: u32, bytes: u32) -> Time {
        self.take(now, direction, Work::Send, bytes)
    }

    /// When a core has handled a packet that comes to its host now; `None`: it is dropped. [`Cores::received`] says that it is done with.
    pub(crate) fn receive(&mut self, now: Time, direction: u32, bytes: u32) -> Option<Time> {
        let waiting = &mut self.direction(direction).waiting;
        if *waiting >= BACKLOG {
            self.dropped += 1;
            return None;
        }
        *waiting += 1;
        Some(self.take(now, direction, Work::Receive, bytes))
    }

    /// A packet that has come is done with.
    pub(crate) fn received(&mut self, direction: u32) {
        self.direction(direction).waiting -= 1;
    }

    /// Until when a flow shall not be asked for more to send; `None`: it may send.
    pub(crate) fn held_until(&self, now: Time, direction: u32) -> Option<Time> {
        let done = self.directions.get(direction as usize)?.done[Work::Send as usize];
        (done > now + SEND_AHEAD).then(|| Time::from_ps(done.as_ps() - SEND_AGAIN.as_ps()))
    }

    fn direction(&mut self, direction: u32) -> &mut Direction {
        let at = direction as usize;
        if at >= self.directions.len() {
            self.directions.resize(at + 1, Direction::default());
        }
        &mut self.directions[at]
    }

    /// Gives a core some work. Returns when it is done.
    fn take(&mut self, now: Time, direction: u32, work: Work, bytes: u32) -> Time {
        let cost = match work {
            _ if !direction.is_multiple_of(2) => Span::ZERO,
            Work::Send => self.costs.sent.of(bytes),
            Work::Receive => self.costs.received.of(bytes),
        };
        let earliest = self.direction(direction).done[work as usize].max(now);
        let core = self.core_at(earliest);
        let free = &mut self.free[core];
        let wakes = *free < now && earliest == now;
        let start = if wakes { now + self.costs.wake_up } else { earliest.max(*free) };
        let done = start + cost;
        *free = done;
        self.direction(direction).done[work as usize] = done;
        done
    }

    /// The core that begins first with what can be begun then. Of those that have nothing to do it is the one that has worked last: others may go on sleeping.
    fn core_at(&self, earliest: Time) -> usize {
        let begins = |core: &usize| (self.free[*core].max(earliest), std::cmp::Reverse(self.free[*core]));
        (0..self.free.len()).min_by_key(begins).expect("a machine has a core")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn us(n: u64) -> Time {
        Time::ZERO + Span::from_us(n)
    }

    fn costs(cores: u32) -> HostCosts {
        let cost = |us| PacketCost { packet: Span::from_us(us), byte: Span::from_ns(1) };
        HostCosts { cores, sent: cost(2), received: cost(3), wake_up: Span::ZERO }
    }

    #[test]
    fn a_core_does_one_thing_after_another() {
        let mut cores = Cores::new(costs(1));
        assert_eq!(cores.send(us(10), 0, 1_000), us(13), "2 us, and 1 ns for each byte");
        assert_eq!(cores.receive(us(10), 2, 2_000), Some(us(18)), "3 us and 2 us, behind the other host's");
        assert_eq!(cores.send(us(11), 1, 54), us(18), "an acknowledgement waits, and takes no time");
        assert_eq!(cores.send(us(30), 0, 0), us(32));
    }

    #[test]
    fn flows_use_as_many_cores_as_there_are_and_each_side_of_one_a_single_one() {
        let mut cores = Cores::new(costs(3));
        assert_eq!((cores.send(us(10), 0, 0), cores.send(us(10), 0, 0)), (us(12), us(14)), "one after another");
        assert_eq!((cores.send(us(10), 2, 0), cores.send(us(10), 4, 0)), (us(12), us(12)), "others at once");
        assert_eq!(cores.receive(us(10), 0, 0), Some(us(15)), "behind those, on the core that is free first");
    }

    #[test]
    fn a_core_with_nothing_to_do_wakes_up() {
        let mut cores = Cores::new(HostCosts { wake_up: Span::from_us(20), ..costs(2) });
        assert_eq!(cores.send(us(10), 0, 0), us(32));
        assert_eq!(cores.send(us(31), 0, 0), us(34), "it is awake");
        assert_eq!(
            cores.receive(us(34), 0, 0),
            Some(us(37)),
            "the one that has just done something, and not the other one"
        );
        assert_eq!(cores.receive(us(38), 0, 0), Some(us(61)));
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut cores = Cores::new(costs(1));
        let mut last = Time::ZERO;
        while cores.held_until(us(0), 0).is_none() {
            last = cores.send(us(0), 0, 0);
        }
        assert_eq!(last, us(1_002), "a millisecond, and what has begun");
        assert_eq!(cores.held_until(us(0), 0), Some(us(502)));
        assert_eq!((cores.held_until(us(502), 0), cores.held_until(us(0), 2)), (None, None));
        let taken = (0..2 * BACKLOG).filter_map(|_| cores.receive(us(0), 0, 0)).count();
        assert_eq!((taken, cores.dropped), (BACKLOG as usize, u64::from(BACKLOG)));
        cores.received(0);
        assert!(cores.receive(us(0), 0, 0).is_some() && cores.receive(us(0), 0, 0).is_none());
    }

    proptest! {
        /// Whatever is asked for, in whatever order: flows stay in order, and as much is done as cores can do, no more.
        #[test]
        fn order_is_kept_and_capacity_is_exact(
            cores in 1_u32..5, asked in proptest::collection::vec((0_u64..3, 0_u32..8, any::<bool>(), 0_u32..9_000), 1..200),
        ) {
            let costs = costs(cores);
            let mut machine = Cores::new(costs);
            let (mut now, mut last, mut work, mut end) = (us(1), [[Time::ZERO; 2]; 8], Span::ZERO, Time::ZERO);
            for (later, direction, sends, bytes) in asked {
                now += Span::from_us(later);
                let (done, cost) = if sends {
                    (machine.send(now, direction, bytes), costs.sent.of(bytes))
                } else {
                    (machine.receive(now, direction, bytes).expect("fewer than wait at most"), costs.received.of(bytes))
                };
                let cost = if direction.is_multiple_of(2) { cost } else { Span::ZERO };
                let before = &mut last[direction as usize][usize::from(sends)];
                prop_assert!(done >= now + cost && done >= *before + cost);
                *before = done;
                work = work + cost;
                end = end.max(done);
            }
            prop_assert!(end.since(us(1)) * u64::from(cores) >= work, "no core does two things at once");
            if cores == 1 {
                prop_assert!(end <= now + work, "it never rests while something waits");
            }
        }
    }
}

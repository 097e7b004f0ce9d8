//! Who of several balancers is active: the virtual router redundancy protocol, version 3 (RFC 9568), as a machine of one virtual router at one balancer.
//!
//! ```text
//!   INITIALIZE --start--> BACKUP --nothing heard for 3 intervals and a bit--> ACTIVE --advertises each interval
//!        ^                  ^                                                    |
//!        |                  +------------- one of a higher priority -------------+
//!        +--stop-- any
//! ```
//!
//! How advertisements are written and read is its driver's business. What always holds: whoever is active advertises, and one that hears a better one is active no longer.

use std::collections::VecDeque;

use machine::{Control, Rebase, Span, Step, Time};

/// The priority of who has the addresses itself: always active (RFC 9568, 5.2.4).
pub const OWNER_PRIORITY: u8 = 255;

/// The priority with which an active one resigns.
pub const RESIGNED: u8 = 0;

/// Outputs that wait at most: what one input or one timer has the machine do.
const OUTPUTS_MAX: usize = 4;

/// A virtual router at one balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VrrpSpec {
    /// Its number: 1 to 255.
    pub router: u8,
    /// The balancer's priority: 1 to 255.
    pub priority: u8,
    /// From advertisement to advertisement, centiseconds: 1 to 4,095.
    pub interval_cs: u16,
    /// The balancer's own address: the higher one is active where priorities are equal.
    pub address: u128,
}

/// An advertisement, of whichever balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The virtual router.
    pub router: u8,
    /// The sender's priority.
    pub priority: u8,
    /// The sender's interval, centiseconds.
    pub interval_cs: u16,
    /// The sender's address.
    pub sender: u128,
}

/// Which state it is in (RFC 9568, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VrrpState {
    /// It takes no part.
    Initialize,
    /// Another one is active, as far as it knows.
    Backup,
    /// It serves.
    Active,
}

impl VrrpState {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Backup => "backup",
            Self::Active => "active",
        }
    }
}

/// What its driver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VrrpInput {
    /// It takes part from now on.
    Start,
    /// It takes no part any more. An active one resigns.
    Stop,
    /// Its link is gone: it takes no part, and nobody would hear it resign.
    LinkDown,
    /// Somebody has advertised.
    Heard(Advertisement),
}

/// What its driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VrrpOutput {
    /// Send an advertisement.
    Advertise {
        /// Its own priority, or [`RESIGNED`].
        priority: u8,
    },
    /// It is in another state now. One that is active announces its addresses (gratuitous ARP, unsolicited neighbour advertisements).
    Changed(VrrpState),
}

/// A virtual router at one balancer. Ticks are not needed: [`Control::poll`] says when it wants to be asked again.
#[derive(Clone, Debug)]
pub struct Vrrp {
    spec: VrrpSpec,
    state: VrrpState,
    /// Whether it takes over from one of lower priority that is active.
    preempts: bool,
    /// The interval of whoever is active (`Active_Adver_Interval`), centiseconds.
    active_interval_cs: u16,
    /// When it takes over (`Active_Down_Timer`), or advertises next (`Adver_Timer`).
    due: Time,
    outputs: VecDeque<VrrpOutput>,
}

impl Vrrp {
    /// One that takes no part yet.
    pub fn new(spec: VrrpSpec) -> Self {
        let active_interval_cs = spec.interval_cs;
        Self {
            spec,
            state: VrrpState::Initialize,
            preempts: true,
            active_interval_cs,
            due: Time::NEVER,
            outputs: VecDeque::with_capacity(OUTPUTS_MAX),
        }
    }

    /// What it is.
    pub const fn spec(&self) -> &VrrpSpec {
        &self.spec
    }

    /// Which state it is in.
    pub const fn state(&self) -> VrrpState {
        self.state
    }

    /// Whether it takes over from one of lower priority that is active (`Preempt_Mode`): one that has not heard of all connections yet is not to.
    pub const fn set_preempts(&mut self, preempts: bool) {
        self.preempts = preempts;
    }

    /// `Skew_Time` (RFC 9568, 6.1): the higher the priority, the sooner it takes over.
    fn skew(&self) -> Span {
        let interval_us = u64::from(self.active_interval_cs) * 10_000;
        Span::from_us((256 - u64::from(self.spec.priority)) * interval_us / 256)
    }

    /// `Active_Down_Interval`.
    fn down_interval(&self) -> Span {
        interval(self.active_interval_cs) * 3 + self.skew()
    }

    fn change(&mut self, state: VrrpState) {
        if self.state != state {
            self.state = state;
            self.outputs.push_back(VrrpOutput::Changed(state));
        }
    }

    fn advertise(&mut self, now: Time) {
        self.outputs.push_back(VrrpOutput::Advertise { priority: self.spec.priority });
        self.due = now + interval(self.spec.interval_cs);
    }

    fn become_active(&mut self, now: Time) {
        self.advertise(now);
        self.change(VrrpState::Active);
    }

    fn become_backup(&mut self, now: Time) {
        self.due = now + self.down_interval();
        self.change(VrrpState::Backup);
    }

    fn hear(&mut self, now: Time, heard: &Advertisement) {
        if heard.router != self.spec.router || heard.interval_cs == 0 || heard.sender == self.spec.address {
            return;
        }
        match self.state {
            VrrpState::Initialize => {}
            VrrpState::Backup if heard.priority == RESIGNED => self.due = now + self.skew(),
            VrrpState::Backup => {
                if !self.preempts || heard.priority >= self.spec.priority {
                    self.active_interval_cs = heard.interval_cs;
                    self.due = now + self.down_interval();
                }
            }
            VrrpState::Active if heard.priority == RESIGNED => self.advertise(now),
            VrrpState::Active => {
                let own = (self.spec.priority, self.spec.address);
                if (heard.priority, heard.sender) > own {
                    self.active_interval_cs = heard.interval_cs;
                    self.become_backup(now);
                } else {
                    // Whoever else is active is to hear of this one at once.
                    self.advertise(now);
                }
            }
        }
    }
}

fn interval(cs: u16) -> Span {
    Span::from_ms(u64::from(cs) * 10)
}

impl Control for Vrrp {
    type Input = VrrpInput;
    type Output = VrrpOutput;

    fn handle(&mut self, now: Time, input: VrrpInput) {
        match input {
            VrrpInput::Start if self.state == VrrpState::Initialize => {
                self.active_interval_cs = self.spec.interval_cs;
                if self.spec.priority == OWNER_PRIORITY { self.become_active(now) } else { self.become_backup(now) }
            }
            VrrpInput::Start => {}
            VrrpInput::Stop | VrrpInput::LinkDown => {
                if self.state == VrrpState::Active && input == VrrpInput::Stop {
                    self.outputs.push_back(VrrpOutput::Advertise { priority: RESIGNED });
                }
                self.due = Time::NEVER;
                self.change(VrrpState::Initialize);
            }
            VrrpInput::Heard(heard) => self.hear(now, &heard),
        }
    }

    fn poll(&mut self, now: Time) -> Step<VrrpOutput> {
        if self.outputs.is_empty() && self.due <= now {
            match self.state {
                VrrpState::Initialize => self.due = Time::NEVER,
                VrrpState::Backup => self.become_active(now),
                VrrpState::Active => self.advertise(now),
            }
        }
        match self.outputs.pop_front() {
            Some(output) => Step::Do(output),
            None => Step::Wait(self.due),
        }
    }
}

impl Rebase for Vrrp {
    fn rebase(&mut self, by: Span) {
        let Self { spec: _, state: _, preempts: _, active_interval_cs: _, due, outputs: _ } = self;
        due.rebase(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(priority: u8, address: u128) -> VrrpSpec {
        VrrpSpec { router: 51, priority, interval_cs: 5, address }
    }

    /// Two balancers on one link, which may be cut for either.
    struct Pair {
        routers: [Vrrp; 2],
        links: [bool; 2],
        now: Time,
        /// How often both were active.
        both: u32,
    }

    impl Pair {
        fn new(priorities: [u8; 2]) -> Self {
            let mut number = 0;
            let routers = priorities.map(|priority| {
                number += 1;
                Vrrp::new(spec(priority, number))
            });
            let mut pair = Self { routers, links: [true; 2], now: Time::ZERO, both: 0 };
            for number in 0..2 {
                pair.routers[number].handle(Time::ZERO, VrrpInput::Start);
            }
            pair
        }

        /// Plays until a time, all messages at once.
        fn run(&mut self, span: Span) {
            let until = self.now + span;
            while self.now < until {
                let next = [0, 1].map(|number| self.poll(number));
                self.both += u32::from(self.states() == [VrrpState::Active; 2]);
                self.now = next.into_iter().min().expect("there are two").max(self.now).min(until);
            }
        }

        fn poll(&mut self, number: usize) -> Time {
            loop {
                match self.routers[number].poll(self.now) {
                    Step::Wait(until) => return until,
                    Step::Do(VrrpOutput::Changed(_)) => {}
                    Step::Do(VrrpOutput::Advertise { priority }) => {
                        let VrrpSpec { router, interval_cs, address, .. } = *self.routers[number].spec();
                        if self.links == [true; 2] {
                            let heard = Advertisement { router, priority, interval_cs, sender: address };
                            self.routers[1 - number].handle(self.now, VrrpInput::Heard(heard));
                        }
                    }
                }
            }
        }

        fn states(&self) -> [VrrpState; 2] {
            [0, 1].map(|number| self.routers[number].state())
        }
    }

    const ACTIVE: VrrpState = VrrpState::Active;
    const BACKUP: VrrpState = VrrpState::Backup;

    #[test]
    fn the_higher_priority_is_active_and_the_other_one_takes_over() {
        let mut pair = Pair::new([200, 100]);
        pair.run(Span::from_ms(400));
        assert_eq!((pair.states(), pair.both), ([ACTIVE, BACKUP], 0));
        pair.routers[0].handle(pair.now, VrrpInput::LinkDown);
        pair.links[0] = false;
        // Three intervals and a bit after the last one was heard: 150 ms and 50 * 156 / 256.
        let deadline = pair.routers[1].poll(pair.now);
        let Step::Wait(deadline) = deadline else { panic!("{deadline:?}") };
        assert!(deadline.since(pair.now) <= Span::from_us(180_469), "{}", deadline.since(pair.now));
        pair.run(deadline.since(pair.now) + Span::from_ms(1));
        assert_eq!(pair.states(), [VrrpState::Initialize, ACTIVE]);
        // It comes back, and takes over once it may.
        pair.links[0] = true;
        pair.routers[0].set_preempts(false);
        pair.routers[0].handle(pair.now, VrrpInput::Start);
        pair.run(Span::from_secs(1));
        assert_eq!(pair.states(), [BACKUP, ACTIVE]);
        pair.routers[0].set_preempts(true);
        pair.run(Span::from_ms(400));
        assert_eq!(pair.states(), [ACTIVE, BACKUP]);
    }

    #[test]
    fn whoever_resigns_is_followed_at_once() {
        let mut pair = Pair::new([200, 100]);
        pair.run(Span::from_ms(400));
        pair.routers[0].handle(pair.now, VrrpInput::Stop);
        // The skew alone.
        pair.run(Span::from_ms(31));
        assert_eq!(pair.states(), [VrrpState::Initialize, ACTIVE]);
    }

    #[test]
    fn two_that_are_active_agree_by_priority_and_address() {
        for (priorities, expected) in [([200, 100], [ACTIVE, BACKUP]), ([100, 100], [BACKUP, ACTIVE])] {
            let mut pair = Pair::new(priorities);
            pair.links[0] = false;
            pair.run(Span::from_ms(400));
            assert_eq!(pair.states(), [ACTIVE; 2], "neither hears the other one");
            pair.links[0] = true;
            pair.run(Span::from_ms(100));
            assert_eq!(pair.states(), expected);
        }
    }

    #[test]
    fn what_is_not_for_it_changes_nothing() {
        let mut router = Vrrp::new(spec(100, 7));
        router.handle(Time::ZERO, VrrpInput::Start);
        let _ = router.poll(Time::ZERO);
        let Step::Wait(due) = router.poll(Time::ZERO) else { panic!("nothing is due") };
        let heard = Advertisement { router: 51, priority: 200, interval_cs: 100, sender: 9 };
        for heard in [
            Advertisement { router: 52, ..heard },
            Advertisement { interval_cs: 0, ..heard },
            Advertisement { sender: 7, ..heard },
        ] {
            router.handle(Time::ZERO, VrrpInput::Heard(heard));
            assert_eq!(router.poll(Time::ZERO), Step::Wait(due));
        }
        // The owner is active from the beginning.
        let mut owner = Vrrp::new(spec(OWNER_PRIORITY, 7));
        owner.handle(Time::ZERO, VrrpInput::Start);
        assert_eq!(owner.state(), ACTIVE);
    }
}

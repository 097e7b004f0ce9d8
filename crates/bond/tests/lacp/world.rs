//! Bonds, cables with delay and loss, and a clock.

use std::collections::BTreeMap;

use bond::config::LacpRate;
use bond::lacp::{Convergence, Event, Lacp, MuxState, Output, Reason, Settings};
use bond::{Carrier, MemberId};
use machine::{Rng, Span, Step, Time};
use wire::LacpState;

/// The end of a cable: which bond, which member.
pub type CableEnd = (usize, u8);

pub struct Cable {
    pub ends: [CableEnd; 2],
    pub delay: Span,
    /// Of 100 frames so many are lost.
    pub loss_percent: u32,
    pub plugged: bool,
}

/// Everything there is. After each step the promises of `bond::lacp` are looked at.
pub struct World {
    pub now: Time,
    pub bonds: Vec<Lacp>,
    pub cables: Vec<Cable>,
    pub events: Vec<(Time, usize, Event)>,
    /// When each bond's members last became others.
    pub changed_at: Vec<Time>,
    pub sent: u64,
    /// Frames on their way: when they arrive, and a number that keeps equal times in order.
    flying: BTreeMap<(Time, u64), (CableEnd, Vec<u8>)>,
    /// Bonds whose frames go nowhere and that hear nothing, as if their process stood still.
    pub mute: Vec<bool>,
    rng: Rng,
}

pub fn member(index: u8) -> MemberId {
    MemberId::new(index.into())
}

pub fn system(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

pub fn fast(n: u8) -> Settings {
    Settings { rate: LacpRate::Fast, ..Settings::new(system(n)) }
}

impl World {
    /// Bonds with these settings and so many members each, all without a cable.
    pub fn new(seed: u64, bonds: &[(Settings, u8)]) -> Self {
        let mut world = Self {
            now: Time::ZERO,
            bonds: Vec::new(),
            cables: Vec::new(),
            events: Vec::new(),
            changed_at: Vec::new(),
            sent: 0,
            flying: BTreeMap::new(),
            mute: Vec::new(),
            rng: Rng::new(seed),
        };
        for &(settings, members) in bonds {
            let mut lacp = Lacp::new(settings);
            for id in 0..members {
                lacp.add_port(world.now, member(id), [2, 1, 0, 0, settings.system[5], id], 0xff);
            }
            world.bonds.push(lacp);
            world.changed_at.push(Time::ZERO);
            world.mute.push(false);
        }
        world
    }

    /// Two bonds with a cable from each member to the member with the same index.
    pub fn pair(seed: u64, a: Settings, b: Settings, members: u8) -> Self {
        let mut world = Self::new(seed, &[(a, members), (b, members)]);
        for id in 0..members {
            world.plug((0, id), (1, id), 1_000);
        }
        world
    }

    /// Lays a cable of 50 us between two members. Both ends see their carrier at once.
    pub fn plug(&mut self, a: CableEnd, b: CableEnd, speed_mbps: u32) {
        self.cables.push(Cable { ends: [a, b], delay: Span::from_us(50), loss_percent: 0, plugged: true });
        for end in [a, b] {
            self.link(end, true, speed_mbps);
        }
    }

    /// Pulls a cable.
    pub fn pull(&mut self, cable: usize) {
        self.cables[cable].plugged = false;
        for end in self.cables[cable].ends {
            self.link(end, false, 0);
        }
    }

    /// Plugs it in again.
    pub fn replug(&mut self, cable: usize, speed_mbps: u32) {
        self.cables[cable].plugged = true;
        for end in self.cables[cable].ends {
            self.link(end, true, speed_mbps);
        }
    }

    pub fn link(&mut self, end: CableEnd, up: bool, speed_mbps: u32) {
        self.bonds[end.0].link(member(end.1), if up { Carrier::up(speed_mbps) } else { Carrier::DOWN });
        self.drain(end.0);
    }

    /// Lets the clock run for so long.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        while self.step(until) {}
        self.now = until;
    }

    /// Runs until all bonds have these distributing, and returns when that was.
    pub fn run_until_distributing(&mut self, wanted: &[u32], limit: Span) -> Time {
        let until = self.now + limit;
        while self.distributing() != wanted {
            let goes_on = self.step(until);
            assert!(goes_on, "{:?} distribute at {:?}:\n{}", self.distributing(), self.now, self.reasons());
        }
        self.now
    }

    pub fn distributing(&self) -> Vec<u32> {
        self.bonds.iter().map(|bond| bond.members().distributing.bits()).collect()
    }

    pub fn reasons(&self) -> String {
        let of = |(n, bond): (usize, &Lacp)| {
            let whys = (0..32).filter_map(|id| bond.why(self.now, member(id)));
            whys.fold(String::new(), |text, why| text + &format!("bond {n}: {why}\n"))
        };
        self.bonds.iter().enumerate().map(of).collect()
    }

    pub fn why(&self, end: CableEnd) -> String {
        self.bonds[end.0].why(self.now, member(end.1)).unwrap().to_string()
    }

    /// Polls all, then goes to the next thing that happens; false if that lies beyond `until`.
    fn step(&mut self, until: Time) -> bool {
        let mut next = self.flying.first_key_value().map_or(Time::NEVER, |(&(time, _), _)| time);
        for bond in 0..self.bonds.len() {
            next = next.min(self.drain(bond));
        }
        // What was just polled may have sent something that arrives earlier.
        next = next.min(self.flying.first_key_value().map_or(Time::NEVER, |(&(time, _), _)| time));
        if next > until {
            return false;
        }
        assert!(next >= self.now, "a deadline lies in the past");
        self.now = next;
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let ((bond, port), frame) = entry.remove();
            if !self.mute[bond] {
                self.bonds[bond].receive(self.now, member(port), &frame[14..]);
                self.drain(bond);
            }
        }
        true
    }

    /// Carries out what a bond asks for, looks at its promises, and returns when it wants to be polled again.
    pub fn drain(&mut self, bond: usize) -> Time {
        for _ in 0..10_000 {
            match self.bonds[bond].poll(self.now) {
                Step::Do(Output::Send { port, frame }) => self.send((bond, port.index() as u8), &frame),
                Step::Do(Output::Members(members)) => {
                    assert_eq!(members, self.bonds[bond].members());
                    self.changed_at[bond] = self.now;
                }
                Step::Do(Output::Event(event)) => {
                    assert!(!event.to_string().is_empty());
                    self.events.push((self.now, bond, event));
                }
                Step::Wait(deadline) => {
                    check_promises(&self.bonds[bond], self.now);
                    return deadline;
                }
            }
        }
        panic!("bond {bond} never comes to rest");
    }

    fn send(&mut self, from: CableEnd, frame: &[u8]) {
        self.sent += 1;
        let Some(cable) = self.cables.iter().find(|cable| cable.plugged && cable.ends.contains(&from)) else { return };
        let lost = self.rng.below(100) < cable.loss_percent;
        let to = if cable.ends[0] == from { cable.ends[1] } else { cable.ends[0] };
        if !lost && !self.mute[from.0] {
            self.flying.insert((self.now + cable.delay, self.sent), (to, frame.to_vec()));
        }
    }
}

/// What `bond::lacp` promises at any time.
fn check_promises(bond: &Lacp, now: Time) {
    let members = bond.members();
    let mut partner = None;
    for id in members.distributing.iter() {
        let status = bond.status(id).expect("what distributes is a member");
        assert_eq!(status.mux, MuxState::Distributing);
        assert!(status.partner.state.has(LacpState::SYNCHRONIZATION), "member {id}: {status:?}");
        assert!(status.partner.state.has(LacpState::COLLECTING), "member {id}: {status:?}");
        assert_ne!(status.partner.system, bond.settings().system, "aggregated with itself");
        if status.actor.state.has(LacpState::DEFAULTED) {
            assert_eq!(members.distributing.len(), 1, "without a partner only one port is used");
        }
        let identity = (status.partner.system_priority, status.partner.system, status.partner.key, status.actor.key);
        assert_eq!(*partner.get_or_insert(identity), identity, "one aggregate has one partner");
        assert!(bond.why(now, id).unwrap().reason.distributes());
    }
    assert!(members.distributing.iter().all(|id| members.collecting.contains(id)), "what sends also accepts");
    let enough = members.distributing.len() >= usize::from(bond.settings().min_links.max(1));
    assert_eq!(members.carrier, enough);
    for id in (0..32).map(member).filter(|&id| !members.distributing.contains(id)) {
        if let Some(why) = bond.why(now, id) {
            assert!(!why.reason.distributes(), "{why}");
        }
    }
    check_standings(bond, now);
}

/// A bond does not say that all is decided while nothing is carried, except when there is nothing to carry it on.
fn check_standings(bond: &Lacp, now: Time) {
    let whys: Vec<_> = (0..32).filter_map(|id| bond.why(now, member(id))).collect();
    let decided = whys.iter().all(|why| why.reason.convergence() != Convergence::Pending);
    let cannot = |reason: Reason| matches!(reason, Reason::LinkDown | Reason::Looped);
    let carries = !bond.members().distributing.is_empty();
    assert!(!decided || carries || whys.iter().all(|why| cannot(why.reason)), "{whys:?}");
    let all_converged = whys.iter().all(|why| why.reason.convergence() == Convergence::Converged);
    let with_link = whys.iter().filter(|why| why.reason != Reason::LinkDown).count();
    assert!(!all_converged || bond.members().distributing.len() == with_link, "{whys:?}");
}

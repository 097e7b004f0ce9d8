//! One end of a bond as a driver has it: the bond, LACP where the mode wants it, numbers on what is sent, and order on arrival.
//!
//! ```text
//!   transmit(summary) --> Bond ------------------> member(s), number
//!   receive(member, number, packet) --> Bond::accept --> BySequence --> out
//!   control(member, frame) --> Lacp, Bond (probes' answers)
//!   carrier, time --> Bond, Lacp --> poll: control frames to send, events
//! ```
//!
//! Both ends of the bonds that one process drives are ours: the number goes beside the packet, as a tag would go before it.

use machine::{Rng, Step, Time};

use crate::config::{Config, Mode};
use crate::lacp::{self, Lacp, Settings};
use crate::reorder::{self, BySequence, Numbered, Reorder};
use crate::{Accept, Action, Bond, Carrier, ControlFrame, Event, MemberId, MemberSet, Refusal, Summary, Transmit};

/// Ethernet addresses and type before the payload of a slow protocol.
const ETHERNET: usize = 14;

/// A frame that a bond sends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// An announcement, a probe, a learning frame.
    Bond(ControlFrame),
    /// Of LACP.
    Lacp(Box<[u8; lacp::FRAME]>),
}

impl Control {
    /// The frame, from its destination address on.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bond(frame) => frame.as_bytes(),
            Self::Lacp(frame) => &frame[..],
        }
    }
}

/// What an end wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this on that member.
    Send {
        /// Where.
        member: MemberId,
        /// What.
        frame: Control,
    },
    /// The bond changed.
    Event(Event),
    /// LACP has something to tell.
    Lacp(lacp::Event),
}

/// What is counted of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed on or held.
    pub accepted: u64,
    /// Dropped because the member does not receive now.
    pub inactive: u64,
}

/// One end of a bond. `P` is what a packet is to the driver.
///
/// One rule: after every call, [`End::poll`] until it waits; then come back at that time at the latest. [`End::expire`] hands on what
/// must not wait any longer.
#[derive(Debug)]
pub struct End<P> {
    bond: Bond,
    lacp: Option<Lacp>,
    /// The next frame's number.
    next: u32,
    reorder: Option<BySequence<P>>,
    /// What the other end is known to send on.
    partner_uses: MemberSet,
    counters: Counters,
}

/// What an end is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Mode and options.
    pub config: Config,
    /// Whether arrivals are put in order, and how.
    pub reorder: Option<reorder::Config>,
    /// The bond's address: the host's.
    pub mac: [u8; 6],
    /// Name, address and carrier of each member.
    pub members: Vec<(String, [u8; 6], Carrier)>,
    /// The host's addresses.
    pub addresses: Vec<std::net::IpAddr>,
    /// What the other end sends on from its first frame: all members in balance-rr. Others are learned when they are heard first.
    pub partner_uses: MemberSet,
    /// Where chance starts.
    pub seed: u64,
}

impl<P> End<P> {
    /// An end with all its members.
    ///
    /// # Panics
    /// If there are more members than [`crate::MEMBERS_MAX`], two of one name, an address that is a group's, or a reordering buffer
    /// out of bounds: checked by whoever read them.
    pub fn new(now: Time, plan: &Plan) -> Self {
        let mut bond = Bond::new(now, plan.config.clone(), Some(plan.mac), Rng::new(plan.seed));
        bond.set_addresses(&plan.addresses);
        let mut lacp = (plan.config.mode == Mode::Ad8023).then(|| Lacp::new(Settings::of(&plan.config, plan.mac)));
        for (name, mac, carrier) in &plan.members {
            let id = bond.add_member(now, name, *mac, *carrier).expect("the members were checked");
            if let Some(lacp) = &mut lacp {
                lacp.add_port(now, id, *mac, DEFAULT_PORT_PRIORITY);
                lacp.link(id, *carrier);
            }
        }
        let mut reorder = plan.reorder.map(|config| BySequence::new(config).expect("its bounds were checked"));
        if let Some(reorder) = &mut reorder {
            reorder.set_members(now, plan.partner_uses.bits(), &mut |_| {});
        }
        Self { bond, lacp, next: 0, reorder, partner_uses: plan.partner_uses, counters: Counters::default() }
    }

    /// Chooses who sends a frame, and numbers it. Copies have one number.
    #[inline]
    pub fn transmit(&mut self, now: Time, frame: &Summary) -> (Transmit, u32) {
        let number = self.next;
        let transmit = self.bond.transmit(now, frame);
        if !matches!(transmit, Transmit::None(_)) {
            self.next = number.wrapping_add(1);
        }
        (transmit, number)
    }

    /// [`End::transmit`] for a frame as bytes: its source address is put right where the mode wants it.
    #[inline]
    pub fn transmit_frame(&mut self, now: Time, frame: &mut [u8]) -> (Transmit, u32) {
        let number = self.next;
        let transmit = self.bond.transmit_frame(now, frame);
        if !matches!(transmit, Transmit::None(_)) {
            self.next = number.wrapping_add(1);
        }
        (transmit, number)
    }

    /// A frame has come by a member. `out` gets what is handed on, in order; what nobody gets comes back.
    #[inline]
    pub fn receive(
        &mut self,
        now: Time,
        (member, number): (MemberId, u32),
        frame: &Summary,
        packet: P,
        out: &mut impl FnMut(P),
    ) -> Option<P> {
        match self.bond.accept(member, frame) {
            Accept::Deliver | Accept::DeliverTo(_) => {}
            Accept::Lacp | Accept::Drop(Refusal::Inactive | Refusal::NotAMember) => {
                self.counters.inactive += 1;
                return Some(packet);
            }
        }
        self.counters.accepted += 1;
        if let Some(reorder) = &mut self.reorder {
            // A gap is waited for only while one of the members in use may still bring it.
            if !self.partner_uses.contains(member) {
                self.partner_uses.insert(member);
                reorder.set_members(now, self.partner_uses.bits(), out);
            }
            return reorder.offer(now, member.index() as u8, Numbered { epoch: 0, number }, packet, out);
        }
        out(packet);
        None
    }

    /// A frame that the other end sent by itself.
    pub fn receive_control(&mut self, now: Time, member: MemberId, frame: &[u8]) {
        // Announcements and probes are answered by the network above; here they have done what they were for.
        let accept = self.bond.receive_frame(now, member, frame);
        if let (Accept::Lacp, Some(lacp)) = (accept, &mut self.lacp) {
            lacp.receive(now, member, frame.get(ETHERNET..).unwrap_or_default());
        }
    }

    /// A member's link went up or down.
    pub fn carrier(&mut self, now: Time, member: MemberId, carrier: Carrier) {
        self.bond.carrier(now, member, carrier);
        if let Some(lacp) = &mut self.lacp {
            lacp.link(member, carrier);
        }
    }

    /// Hands on what has waited long enough.
    pub fn expire(&mut self, now: Time, out: &mut impl FnMut(P)) {
        if let Some(reorder) = &mut self.reorder
            && reorder.deadline().is_some_and(|deadline| deadline <= now)
        {
            reorder.expire(now, out);
        }
    }

    /// Hands on all that waits.
    pub fn flush(&mut self, now: Time, out: &mut impl FnMut(P)) {
        if let Some(reorder) = &mut self.reorder {
            reorder.flush(now, out);
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self, now: Time) -> Step<Output> {
        let mut until = Time::NEVER;
        while let Some(lacp) = &mut self.lacp {
            match lacp.poll(now) {
                Step::Do(lacp::Output::Send { port, frame }) => {
                    return Step::Do(Output::Send { member: port, frame: Control::Lacp(Box::new(frame)) });
                }
                Step::Do(lacp::Output::Event(event)) => return Step::Do(Output::Lacp(event)),
                Step::Do(lacp::Output::Members(lacp::Members { collecting, distributing, .. })) => {
                    self.bond.set_distributing(now, distributing, collecting);
                }
                Step::Wait(lacp_until) => {
                    until = lacp_until;
                    break;
                }
            }
        }
        match self.bond.poll(now) {
            Step::Do(Action::Send { member, frame }) => Step::Do(Output::Send { member, frame: Control::Bond(frame) }),
            Step::Do(Action::Event(event)) => Step::Do(Output::Event(event)),
            Step::Wait(bond_until) => Step::Wait(until.min(bond_until).min(self.deadline())),
        }
    }

    /// When [`End::expire`] has something to hand on.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.reorder.as_ref().and_then(Reorder::deadline).unwrap_or(Time::NEVER)
    }

    /// The bond.
    pub const fn bond(&self) -> &Bond {
        &self.bond
    }

    /// LACP, in 802.3ad.
    pub const fn lacp(&self) -> Option<&Lacp> {
        self.lacp.as_ref()
    }

    /// What became of arrivals.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// What order on arrival cost and mended.
    pub fn reordering(&self) -> Option<&reorder::Counters> {
        self.reorder.as_ref().map(Reorder::counters)
    }
}

/// `actor_port_prio` of the Linux bonding document.
const DEFAULT_PORT_PRIORITY: u16 = 255;

/// The far end of a bond in a mode that needs no bond there: a switch's plain ports. It sends to the member by which an address was
/// seen last, and to all of them what it has never seen.
#[derive(Clone, Debug, Default)]
pub struct Learning {
    /// Addresses of the host, and where they are. A host has few.
    seen: Vec<([u8; 6], MemberId)>,
}

/// Addresses that a switch learns of one host.
const LEARNED_MAX: usize = 64;

impl Learning {
    /// A frame from this address has come by a member.
    #[inline]
    pub fn saw(&mut self, member: MemberId, mac: [u8; 6]) {
        if let Some((_, place)) = self.seen.iter_mut().find(|(known, _)| *known == mac) {
            *place = member;
        } else if self.seen.len() < LEARNED_MAX {
            self.seen.push((mac, member));
        }
    }

    /// Where a frame to this address goes; `None`: everywhere.
    #[inline]
    pub fn find(&self, mac: [u8; 6]) -> Option<MemberId> {
        self.seen.iter().find(|(known, _)| *known == mac).map(|(_, member)| *member)
    }

    /// A link went down: what was behind it is not there any more.
    pub fn forget(&mut self, member: MemberId) {
        self.seen.retain(|(_, place)| *place != member);
    }
}

#[cfg(test)]
mod tests {
    use machine::Span;

    use super::*;
    use crate::Kind;

    fn summary(hash: u32) -> Summary {
        Summary {
            dst_mac: [2, 0, 0, 0, 0, 9],
            src_mac: [2, 0, 0, 0, 0, 1],
            hash,
            bytes: 1_514,
            peer: 0,
            kind: Kind::Ip,
        }
    }

    fn end(mode: Mode, reorder: bool, system: u8) -> End<u32> {
        let members = (0..2).map(|n| (format!("eth{n}"), [2, n, 0, 0, 0, system], Carrier::up(1_000))).collect();
        End::new(
            Time::ZERO,
            &Plan {
                config: Config::new(mode),
                reorder: reorder.then(|| reorder::Config { buffer: 64, timeout: Span::from_ms(2) }),
                mac: [2, 0, 0, 0, 0, system],
                members,
                addresses: Vec::new(),
                partner_uses: MemberSet::from_bits(3),
                seed: 1,
            },
        )
    }

    #[test]
    fn what_overtakes_is_put_in_order_by_number() {
        let (mut a, mut b) = (end(Mode::BalanceRr, false, 1), end(Mode::BalanceRr, true, 2));
        let mut sent: Vec<_> = (0..40_u32)
            .map(|packet| {
                let (Transmit::One(member), number) = a.transmit(Time::ZERO, &summary(0)) else { panic!("one") };
                (packet, member, number)
            })
            .collect();
        assert_eq!(sent.iter().filter(|(_, member, _)| member.index() == 0).count(), 20);
        // The first member's frames come first.
        sent.sort_by_key(|(packet, member, _)| (member.index(), *packet));
        let mut came = Vec::new();
        for (packet, member, number) in sent {
            b.receive(Time::ZERO, (member, number), &summary(0), packet, &mut |packet| came.push(packet));
        }
        assert_eq!(came, (0..40).collect::<Vec<_>>());
    }

    #[test]
    fn two_ends_in_802_3ad_come_to_use_both_members() {
        let (mut a, mut b) = (end(Mode::Ad8023, false, 1), end(Mode::Ad8023, false, 2));
        let mut now = Time::ZERO;
        assert!(matches!(a.transmit(now, &summary(1)).0, Transmit::None(_)));
        for _ in 0..200 {
            for forth in [true, false] {
                let (from, to) = if forth { (&mut a, &mut b) } else { (&mut b, &mut a) };
                while let Step::Do(output) = from.poll(now) {
                    if let Output::Send { member, frame } = output {
                        to.receive_control(now, member, frame.as_bytes());
                    }
                }
            }
            now += Span::from_ms(10);
        }
        let mut used = MemberSet::EMPTY;
        for hash in 0..8 {
            let (Transmit::One(member), _) = a.transmit(now, &summary(hash)) else { panic!("it distributes") };
            used.insert(member);
        }
        assert_eq!(used.len(), 2);
    }

    #[test]
    fn a_switch_learns_where_a_host_is() {
        let mut learning = Learning::default();
        let (first, second, mac) = (MemberId::new(0), MemberId::new(1), [2, 0, 0, 0, 0, 1]);
        assert_eq!(learning.find(mac), None);
        learning.saw(first, mac);
        learning.saw(second, mac);
        assert_eq!(learning.find(mac), Some(second));
        learning.forget(second);
        assert_eq!(learning.find(mac), None);
    }
}

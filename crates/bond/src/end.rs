//! One end of a bond as a driver has it: the bond, LACP where the mode wants it, numbers on what is sent, and resequencing.
//!
//! ```text
//!   transmit(summary) --> Bond ------------------> member(s), number
//!   receive(member, number, packet) --> Bond::accept --> BySequence --> out      an internal partner
//!   receive_frame(member, packet) ----> Bond::accept --> ByTcp -------> out      an external partner
//!                           `--> Lacp, Peer, Bond (probes' answers)
//!   receive_control(member, frame) --> Lacp, Peer, Bond
//!   carrier, time --> Bond, Lacp, Peer --> poll: control frames to send, events
//! ```
//!
//! What the other end is ([`Partner`]) decides how arrivals come:
//!
//! | partner | frames to send | arrivals | resequencing |
//! |---|---|---|---|
//! | [`Partner::Internal`], an end of this process | [`End::transmit`] or [`End::transmit_frame`]; the number goes beside the packet, as a tag would go before it | [`End::receive`], with that number; what the other end's `poll` sent goes to [`End::receive_control`] | by number |
//! | [`Partner::External`], another program behind kernel devices | [`End::transmit_frame`]; the number stays here | every frame, whatever it is, to [`End::receive_frame`] | by TCP's sequence numbers |

mod external;
mod learning;

use machine::{Rebase, Rng, Span, Step, Time};
use wire::{EthernetPacket, LLDP_NEAREST_BRIDGE, ethertype};

use crate::config::{Config, Mode};
use crate::lacp::{self, Lacp, Settings};
use crate::peer::{self, Peer};
use crate::reorder::{self, BySequence, Numbered, Reorder};
use crate::{Accept, Action, Bond, Carrier, ControlFrame, Event, MemberId, MemberSet, Refusal, Summary, Transmit};

pub use crate::Framed;
use external::External;
pub use external::{Partner, Received, Resequencing};
pub use learning::LearningPorts;

/// Ethernet addresses and type before the payload of a slow protocol.
const ETHERNET: usize = 14;

/// A frame that a bond sends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// An announcement, a probe, a learning frame.
    Bond(ControlFrame),
    /// An LACPDU or a marker response.
    Lacp(Box<[u8; lacp::FRAME]>),
    /// A hello to the bond at the other end (LLDP).
    Hello(Box<[u8; peer::FRAME]>),
}

impl Control {
    /// The frame, from its destination address on.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bond(frame) => frame.as_bytes(),
            Self::Lacp(frame) => &frame[..],
            Self::Hello(frame) => &frame[..],
        }
    }
}

/// What an end wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this on that member.
    Send {
        /// The member by which it leaves.
        member: MemberId,
        /// The frame to send.
        frame: Control,
    },
    /// The bond changed.
    Event(Event),
    /// LACP changed state.
    Lacp(lacp::Event),
    /// From now on this is agreed with a bond of Heddle at the other end; `None`: nothing.
    Peer(Option<peer::Agreed>),
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
    /// What a partner of another program takes besides.
    external: Option<Box<External<P>>>,
    /// What the other end is known to send on.
    partner_uses: MemberSet,
    /// `partner_uses`, or whether arrivals are resequenced at all, changed since the resequencer was last updated.
    is_stale: bool,
    counters: Counters,
}

/// What an end is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Mode and options.
    pub config: Config,
    /// What the other end is.
    pub partner: Partner,
    /// Whether arrivals are put in order, and how. With an external partner the timeout is a ceiling: what is waited for is twice the
    /// skew that repairs show, and without this there is order only while a bond of Heddle in balance-rr is at the other end.
    pub reorder: Option<reorder::Config>,
    /// The bond's address: the host's.
    pub mac: [u8; 6],
    /// Name, address and carrier of each member.
    pub members: Vec<(String, [u8; 6], Carrier)>,
    /// The host's addresses.
    pub addresses: Vec<std::net::IpAddr>,
    /// What the other end sends on from its first frame: all members in balance-rr. Others are learned when they are heard first.
    pub partner_uses: MemberSet,
    /// The seed of what it draws at random.
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
        let external = External::new(now, plan, &bond).map(Box::new);
        let by_number = plan.reorder.filter(|_| external.is_none());
        let reorder = by_number.map(|config| BySequence::new(config).expect("its bounds were checked"));
        let counters = Counters::default();
        let mut end =
            Self { bond, lacp, next: 0, reorder, external, partner_uses: plan.partner_uses, is_stale: true, counters };
        end.update_resequencer(now, &mut |_| {});
        end
    }

    /// Chooses the member that sends a frame, and numbers the frame. Copies have one number.
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

    /// [`End::transmit_frame`] for packets that are ready together. The number of the first one; each has one more than the last one that was sent.
    ///
    /// # Panics
    /// If `chosen` is shorter than `packets`.
    #[inline]
    pub fn transmit_packets(&mut self, now: Time, packets: &mut [impl Framed], chosen: &mut [Transmit]) -> u32 {
        let first = self.next;
        let chosen = &mut chosen[..packets.len()];
        self.bond.transmit_packets(now, packets, chosen);
        let sent = chosen.iter().filter(|chosen| !matches!(chosen, Transmit::None(_))).count();
        self.next = first.wrapping_add(sent as u32);
        first
    }

    /// Sees a frame of the host that does not leave by the bond, since it is for nobody here: memberships of groups are learned from it.
    pub fn overhear(&mut self, frame: &[u8]) {
        self.bond.learn_memberships(frame);
    }

    /// When the next announcement to peers is due, in balance-alb. What [`End::transmit_frame`] takes may move it, and nothing else that is
    /// waited for: a driver may compare this in place of a poll for each frame.
    #[inline]
    pub const fn announce_at(&self) -> Time {
        self.bond.announce_at()
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
        self.bond.saw(now, member, frame.kind);
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

    /// The members by which all that comes is handed on at once and as it is, until something changes: [`End::count_accepted`] is all that is left of
    /// [`End::receive`] there. None where arrivals are resequenced, or where it goes by the frame.
    pub fn open_members(&self) -> MemberSet {
        let is_looked_at = self.reorder.is_some() || self.external.is_some();
        if is_looked_at { MemberSet::EMPTY } else { self.bond.open_members() }
    }

    /// So many frames have been handed on that came by [`End::open_members`].
    pub const fn count_accepted(&mut self, frames: u64) {
        self.counters.accepted += frames;
    }

    /// A frame that the other end sent by itself: LACP, a hello, a probe, an announcement. [`End::receive_frame`] finds these by itself.
    pub fn receive_control(&mut self, now: Time, member: MemberId, frame: &[u8]) {
        if let Some(peer) = self.external.as_mut().and_then(|external| external.peer.as_mut())
            && let Some(payload) = hello(frame)
        {
            return peer.receive(now, member, payload);
        }
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
        if let Some(peer) = self.external.as_mut().and_then(|external| external.peer.as_mut()) {
            peer.link(now, member, carrier.up);
        }
        // What is missing does not come by a link that is gone. It is learned again when it brings something.
        if !carrier.up && self.partner_uses.contains(member) {
            self.partner_uses.remove(member);
            self.is_stale = true;
        }
    }

    /// Hands on what has waited long enough.
    pub fn expire(&mut self, now: Time, out: &mut impl FnMut(P)) {
        if self.is_stale {
            self.update_resequencer(now, out);
        }
        if let Some(resequencer) = self.external.as_mut().and_then(|external| external.resequencer_mut()) {
            resequencer.expire(now, out);
        }
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
        if let Some(resequencer) = self.external.as_mut().and_then(|external| external.resequencer_mut()) {
            resequencer.flush(now, out);
        }
    }

    /// Passes changes on to the resequencer.
    #[cold]
    fn update_resequencer(&mut self, now: Time, out: &mut impl FnMut(P)) {
        self.is_stale = false;
        let members = self.partner_uses.bits();
        if let Some(reorder) = &mut self.reorder {
            reorder.set_members(now, members, out);
        }
        if let Some(external) = &mut self.external {
            external.update_resequencer(now, members, out);
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
        match self.external.as_mut().and_then(|external| external.peer.as_mut()).map(|peer| peer.poll(now)) {
            Some(Step::Do(peer::Output::Send { port, frame })) => {
                return Step::Do(Output::Send { member: port, frame: Control::Hello(Box::new(frame)) });
            }
            Some(Step::Do(peer::Output::Agreed(agreed))) => {
                self.agreed(agreed);
                return Step::Do(Output::Peer(agreed));
            }
            Some(Step::Wait(peer_until)) => until = until.min(peer_until),
            None => {}
        }
        match self.bond.poll(now) {
            Step::Do(Action::Send { member, frame }) => Step::Do(Output::Send { member, frame: Control::Bond(frame) }),
            Step::Do(Action::Event(event)) => Step::Do(Output::Event(event)),
            Step::Wait(bond_until) => Step::Wait(until.min(bond_until).min(self.deadline())),
        }
    }

    /// When [`End::expire`] has something to do.
    #[inline]
    pub fn deadline(&self) -> Time {
        if self.is_stale {
            return Time::ZERO;
        }
        let by_tcp = self.external.as_ref().and_then(|external| external.resequencer()).and_then(Reorder::deadline);
        self.reorder.as_ref().and_then(Reorder::deadline).or(by_tcp).unwrap_or(Time::NEVER)
    }

    /// The bond of which this is an end.
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

    /// What resequencing cost and put right.
    pub fn reordering(&self) -> Option<&reorder::Counters> {
        let by_tcp = self.external.as_ref().and_then(|external| external.counters());
        self.reorder.as_ref().map(Reorder::counters).or(by_tcp)
    }

    /// Whether arrivals are resequenced at present, and by what.
    pub fn resequencing(&self) -> Resequencing {
        match &self.external {
            Some(external) => external.why(),
            None if self.reorder.is_some() => Resequencing::ByNumber,
            None => Resequencing::Off,
        }
    }

    /// What is known of a bond of Heddle at the other end, where hellos are spoken.
    pub fn peer(&self) -> Option<&Peer> {
        self.external.as_ref()?.peer.as_ref()
    }
}

/// The payload of an LLDP frame to the station at the other end of the cable. Others may come from further away.
fn hello(frame: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetPacket::new_checked(frame).ok()?;
    (ethernet.ethertype() == ethertype::LLDP && ethernet.dst() == LLDP_NEAREST_BRIDGE).then(|| ethernet.payload())
}

/// `actor_port_prio` of the Linux bonding document.
const DEFAULT_PORT_PRIORITY: u16 = 255;

impl<P> Rebase for End<P> {
    fn rebase(&mut self, by: Span) {
        let Self { bond, lacp, next: _, reorder, external, partner_uses: _, is_stale: _, counters: _ } = self;
        bond.rebase(by);
        lacp.rebase(by);
        reorder.rebase(by);
        external.rebase(by);
    }
}

#[cfg(test)]
mod tests;

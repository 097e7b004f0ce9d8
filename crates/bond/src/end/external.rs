//! A partner of another program: frames are all that comes from it. Hellos find out whether it is a bond of Heddle, and resequencing
//! goes by TCP's own sequence numbers.

use core::fmt;
use core::num::NonZeroU64;

use machine::{Rebase, Span, Time, mix};
use wire::ethertype::{LLDP, SLOW};

use super::{End, Plan, hello};
use crate::peer::{Agreed, Capabilities, Identity, Peer};
use crate::reorder::{self, ByTcp, Config, Reorder, Segment, TcpConfig, Timeout};
use crate::{Accept, Bond, Framed, Kind, MemberId, MemberSet, Mode, Refusal, Summary};

/// What is at the other end of a bond's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// An end that the same process drives: numbers travel beside packets.
    Internal,
    /// Another program, behind kernel devices or cables: it gets frames and nothing else.
    External {
        /// Under which number this bond says hello to it ([`crate::peer`]): drawn at random at each start, so that two processes never
        /// have the same. `None`: nothing is said, and no hello is listened to.
        hello: Option<NonZeroU64>,
    },
}

/// Whether arrivals are resequenced, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resequencing {
    /// They are handed on as they come.
    Off,
    /// By the numbers that an internal partner puts on frames.
    ByNumber,
    /// By TCP's sequence numbers, as the plan asks for.
    ByTcp,
    /// By TCP's sequence numbers, since this bond of Heddle at the other end sends in turn over all members.
    ByTcpAgreed(u64),
}

impl fmt::Display for Resequencing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off: frames are handed on as they come"),
            Self::ByNumber => f.write_str("by the numbers of frames"),
            Self::ByTcp => f.write_str("by TCP's sequence numbers"),
            Self::ByTcpAgreed(bond) => {
                write!(f, "by TCP's sequence numbers, since Heddle's bond {bond:016x} sends in turn")
            }
        }
    }
}

/// What became of an arrival from an external partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<P> {
    /// The packet, if nobody above gets it: it was for the bond itself, or its member does not receive.
    pub back: Option<P>,
    /// It said something to the bond: [`End::poll`] until it waits. After other packets it is enough to come back at [`End::deadline`].
    pub poll: bool,
}

/// What an end with an external partner has besides.
#[derive(Debug)]
pub(super) struct External<P> {
    pub(super) peer: Option<Peer>,
    config: TcpConfig,
    /// The plan wants arrivals resequenced for every partner.
    is_asked: bool,
    /// The bond at the other end that sends in turn.
    in_turn: Option<u64>,
    /// Made when resequencing is first wanted; kept for its counters.
    resequencer: Option<ByTcp<P>>,
}

impl<P> External<P> {
    /// `None` if the partner is internal.
    pub(super) fn new(now: Time, plan: &Plan, bond: &Bond) -> Option<Self> {
        let Partner::External { hello } = plan.partner else { return None };
        let Config { buffer, timeout } = plan.reorder.unwrap_or_default();
        let seed = plan.seed ^ hello.map_or(0, NonZeroU64::get);
        let config = TcpConfig { buffer, timeout: Timeout::Measured(timeout), seed: mix(seed), ..TcpConfig::default() };
        let peer = hello.map(|number| {
            let in_turn = plan.config.mode == Mode::BalanceRr;
            let capabilities = if in_turn { Capabilities::IN_TURN } else { Capabilities::default() };
            let mut peer = Peer::new(Identity { bond: number.get(), mac: plan.mac, capabilities });
            for (id, member) in bond.members() {
                peer.add_port(id, member.permanent_mac());
                peer.link(now, id, member.carrier().up);
            }
            peer
        });
        Some(Self { peer, config, is_asked: plan.reorder.is_some(), in_turn: None, resequencer: None })
    }

    const fn is_wanted(&self) -> bool {
        self.is_asked || self.in_turn.is_some()
    }

    /// The resequencer, while it is wanted.
    #[inline]
    pub(super) fn resequencer(&self) -> Option<&ByTcp<P>> {
        self.resequencer.as_ref().filter(|_| self.is_wanted())
    }

    #[inline]
    pub(super) fn resequencer_mut(&mut self) -> Option<&mut ByTcp<P>> {
        let is_wanted = self.is_wanted();
        self.resequencer.as_mut().filter(|_| is_wanted)
    }

    pub(super) fn counters(&self) -> Option<&reorder::Counters> {
        self.resequencer.as_ref().map(Reorder::counters)
    }

    pub(super) const fn why(&self) -> Resequencing {
        match (self.is_asked, self.in_turn) {
            (true, _) => Resequencing::ByTcp,
            (false, Some(bond)) => Resequencing::ByTcpAgreed(bond),
            (false, None) => Resequencing::Off,
        }
    }

    /// Starts resequencing, or ends it, and passes on the members in use.
    pub(super) fn update_resequencer(&mut self, now: Time, members: u32, out: &mut impl FnMut(P)) {
        if self.is_wanted() && self.resequencer.is_none() {
            self.resequencer = Some(ByTcp::new(self.config).expect("the plan's bounds were checked"));
        }
        let is_wanted = self.is_wanted();
        if let Some(resequencer) = &mut self.resequencer {
            if !is_wanted {
                // When resequencing is wanted again, flows are elsewhere.
                resequencer.forget(now, out);
            }
            resequencer.set_members(now, members, out);
        }
    }

    /// What hellos have agreed on. The members that the peer sends on, if it sends in turn.
    fn agreed(&mut self, agreed: Option<Agreed>) -> MemberSet {
        // While one member leads elsewhere, not all that arrives is the peer's.
        let in_turn = agreed.filter(|it| it.everywhere && it.theirs.has(Capabilities::IN_TURN));
        self.in_turn = in_turn.map(|it| it.bond);
        in_turn.map_or(MemberSet::EMPTY, |it| it.ports)
    }
}

impl<P> End<P> {
    pub(super) fn agreed(&mut self, agreed: Option<Agreed>) {
        let Some(external) = &mut self.external else { return };
        let ports = external.agreed(agreed);
        self.partner_uses = MemberSet::from_bits(self.partner_uses.bits() | ports.bits());
        self.is_stale = true;
    }
}

impl<P: Framed> End<P> {
    /// A frame has come by a member from an external partner. Every frame of the member's device is to come here, as it came, also those
    /// to group addresses: LACP and hellos go to their machines and no further, as IEEE 802.1AX and 802.1AB want it; ARP and neighbour
    /// discovery are looked at (probes, balance-alb) and handed on; the rest is handed on, or dropped where the mode lets its
    /// member not receive. Frames that this host itself put on the device, which packet sockets show too, are not to come here.
    ///
    /// `out` gets what is handed on: in balance-alb its destination is the bond's address again; with resequencing, each flow
    /// of TCP in order. The device must let through all group addresses, and the addresses of all members (in balance-alb peers
    /// write to each of them).
    pub fn receive_frame(
        &mut self,
        now: Time,
        member: MemberId,
        mut packet: P,
        out: &mut impl FnMut(P),
    ) -> Received<P> {
        if self.is_stale {
            self.update_resequencer(now, out);
        }
        let frame = packet.frame();
        let summary = Summary::of_arrival(frame);
        if self.takes(&summary, frame) {
            self.receive_control(now, member, frame);
            return Received { back: Some(packet), poll: true };
        }
        let poll = matches!(summary.kind, Kind::Arp | Kind::Neighbour);
        match self.bond.receive_frame(now, member, frame) {
            Accept::Deliver => {}
            Accept::DeliverTo(mac) => frame[..6].copy_from_slice(&mac),
            Accept::Lacp | Accept::Drop(Refusal::Inactive | Refusal::NotAMember) => {
                self.counters.inactive += 1;
                return Received { back: Some(packet), poll };
            }
        }
        self.counters.accepted += 1;
        let Some(external) = self.external.as_mut().filter(|external| external.is_wanted()) else {
            out(packet);
            return Received { back: None, poll };
        };
        let segment = Segment::of(frame, external.config.seed);
        let resequencer = external.resequencer.as_mut().expect("it is there while it is wanted and up to date");
        if !self.partner_uses.contains(member) {
            self.partner_uses.insert(member);
            resequencer.set_members(now, self.partner_uses.bits(), out);
        }
        Received { back: resequencer.offer(now, member.index() as u8, segment, packet, out), poll }
    }

    /// Whether a frame is the bond's own and goes no further.
    fn takes(&self, summary: &Summary, frame: &[u8]) -> bool {
        let speaks = || self.external.as_ref().is_some_and(|external| external.peer.is_some());
        match frame.get(12..14) {
            Some(kind) if kind == SLOW.to_be_bytes() => true,
            Some(kind) if kind == LLDP.to_be_bytes() => hello(frame).is_some() && speaks(),
            _ => summary.kind == Kind::Slow,
        }
    }
}

impl<P> Rebase for External<P> {
    fn rebase(&mut self, by: Span) {
        let Self { peer, config: _, is_asked: _, in_turn: _, resequencer } = self;
        peer.rebase(by);
        resequencer.rebase(by);
    }
}

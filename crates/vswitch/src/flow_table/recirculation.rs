//! What is done with a packet of which connection tracking or a meter is asked: a decision up to there, what is known of its connection, and a decision about what goes on.
//!
//! A decision of the tables holds for all packets that are alike, and what connection tracking says differs from packet to packet. So a packet is decided about once
//! for each time that it goes on in a table behind `ct`: as a packet that has [`Slot::RECIRCULATION`] and the fields of its connection in its key, which is found in
//! the same caches. What comes of all of it is one list of actions, in which copies are what goes on.

use wire::{EthernetPacket, MplsPacket, ethertype, protocol};

use super::key::{Key, LABELS, Slot};
use super::meter::{Metered, remarked};
use super::walk::{Continuation, Inquiry, Subject};
use crate::action::Action;
use crate::conntrack::{Request, Segment, SequenceNumbers, Tracked, Tuple, ct_state};
use crate::field::Field;
use crate::translation::translate;

/// How often one packet may go on behind `ct`, with all its copies.
const RECIRCULATIONS_MAX: u32 = 32;

/// What is asked while a packet is on its way.
pub trait Pass {
    /// Decides about a packet with this key: adds what is to be done.
    fn decide(&mut self, key: &Key, stacks: &mut Stacks);

    /// What a packet is to the connections that there are.
    fn track(&mut self, segment: &Segment, request: &Request) -> Tracked;

    /// The same of one that was asked about before in this zone, by what it was then; `None` if its connection is no more.
    fn track_again(&mut self, segment: &Segment, request: &Request) -> Option<Tracked>;

    /// Whether it comes too fast for the meter of this number.
    fn meter(&mut self, id: u32) -> Metered;
}

/// Decisions that are being carried out, each behind the one that it goes on from: they are kept, so that no packet allocates.
#[derive(Debug, Default)]
pub struct Stacks {
    pub actions: Vec<Action>,
    pub inquiries: Vec<Inquiry>,
}

impl Stacks {
    /// Adds a decision.
    pub fn add(&mut self, actions: &[Action], inquiries: &[Inquiry]) {
        self.actions.extend_from_slice(actions);
        self.inquiries.extend_from_slice(inquiries);
    }

    /// Nothing is carried out any more.
    pub fn clear(&mut self) {
        self.actions.clear();
        self.inquiries.clear();
    }
}

/// A packet on its way through a decision.
#[derive(Clone, Copy)]
struct Walker {
    key: Key,
    /// What it was before it got a second tag.
    inner: Option<Key>,
    /// What it quotes, if that was translated.
    quoted: Option<Tuple>,
    /// The zone in which it belongs to a connection, what it was when that was asked, and whether it was translated there.
    known: Option<(u16, Segment, bool)>,
}

/// One packet, and what comes of it.
pub struct Run<'a, P> {
    pub pass: &'a mut P,
    /// As it has come in; `None` of one that is only thought of.
    pub headers: Option<&'a [u8]>,
    pub stacks: &'a mut Stacks,
    pub out: &'a mut Vec<Action>,
    recirculations: u32,
}

impl<'a, P: Pass> Run<'a, P> {
    pub const fn new(
        pass: &'a mut P,
        headers: Option<&'a [u8]>,
        stacks: &'a mut Stacks,
        out: &'a mut Vec<Action>,
    ) -> Self {
        Self { pass, headers, stacks, out, recirculations: 0 }
    }

    /// Carries out what has been decided about a packet. False if it has gone on too often.
    pub fn carry_out(&mut self, key: &Key) -> bool {
        let (actions, inquiries) = (self.stacks.actions.len(), self.stacks.inquiries.len());
        self.part(Walker { key: *key, inner: None, quoted: None, known: None }, (0, actions), (0, (0, inquiries)))
    }

    /// Carries out a part of a decision's actions, from one to another. The decision's begin at `base`, and its inquiries are those from one to another.
    fn part(
        &mut self,
        mut walker: Walker,
        (from, to): (usize, usize),
        (base, inquiries): (usize, (usize, usize)),
    ) -> bool {
        let mut at = from;
        while at < to {
            let action = self.stacks.actions[at];
            let here =
                self.stacks.inquiries[inquiries.0..inquiries.1].iter().find(|it| it.at as usize + base == at).copied();
            if let Some(here) = here {
                let is_last = at + 1 == to;
                at += 1;
                match here.about {
                    Subject::Connection { request, goes_on } => {
                        if !self.track(&mut walker, (&request, goes_on), is_last) {
                            return false;
                        }
                    }
                    Subject::Forget => walker.known = None,
                    Subject::Meter(id) => match self.pass.meter(id) {
                        Metered::Pass => {}
                        // It goes no further; what was sent before has been sent.
                        Metered::Drop => return true,
                        Metered::Remark(level) => self.remark(&mut walker, level),
                    },
                }
                continue;
            }
            match action {
                Action::Clone(length) => {
                    let end = at + 1 + usize::from(length);
                    let clone = self.open();
                    if !self.part(walker, (at + 1, end), (base, inquiries)) {
                        return false;
                    }
                    self.close(clone);
                    at = end;
                    continue;
                }
                Action::Set(field) => walker.key.write(field),
                Action::PushVlan(_) => {
                    walker.inner = (walker.key.get(Slot::VLAN_TCI) != 0).then_some(walker.key);
                    walker.key.push_vlan();
                }
                Action::PopVlan => walker.key.pop_vlan(walker.inner.take()),
                Action::PushMpls { ethertype, entry } => walker.key.push_mpls(ethertype, entry),
                Action::PopMpls(ethertype) => {
                    // Whoever has decided that has known what is behind it.
                    walker.key.pop_mpls(ethertype);
                }
                Action::Output(_) | Action::Normal | Action::Flood | Action::Controller => {}
            }
            self.out.push(action);
            at += 1;
        }
        true
    }

    /// What follows is done with a copy.
    fn open(&mut self) -> usize {
        self.out.push(Action::Clone(0));
        self.out.len() - 1
    }

    fn close(&mut self, clone: usize) {
        self.out[clone] = Action::Clone((self.out.len() - clone - 1) as u16);
    }

    /// Shows the packet to connection tracking, and has it go on in another table if that is wanted.
    fn track(
        &mut self,
        walker: &mut Walker,
        (request, goes_on): (&Request, Option<Continuation>),
        is_last: bool,
    ) -> bool {
        let tracked = self.ask(walker, request);
        let Some(Continuation { number, metadata: (value, mask) }) = goes_on else { return true };
        self.recirculations += 1;
        if self.recirculations > RECIRCULATIONS_MAX {
            return false;
        }
        let mut next = *walker;
        next.key.set(Slot::RECIRCULATION, u64::from(number));
        next.key.set(Slot::METADATA, next.key.get(Slot::METADATA) & !mask | value & mask);
        next.key.set(Slot::CT_STATE, u64::from(tracked.state));
        next.key.set(Slot::CT_ZONE, u64::from(request.zone));
        next.key.set(Slot::CT_MARK, u64::from(tracked.mark));
        // What is the last one needs no copy.
        let clone = (!is_last).then(|| self.open());
        let (actions, inquiries) = (self.stacks.actions.len(), self.stacks.inquiries.len());
        self.pass.decide(&next.key, self.stacks);
        let (end, inquiries_end) = (self.stacks.actions.len(), self.stacks.inquiries.len());
        let is_done = self.part(next, (actions, end), (actions, (inquiries, inquiries_end)));
        self.stacks.actions.truncate(actions);
        self.stacks.inquiries.truncate(inquiries);
        if let Some(clone) = clone {
            self.close(clone);
        }
        is_done
    }

    /// Raises the drop precedence of a packet, if it has one.
    fn remark(&mut self, walker: &mut Walker, level: u8) {
        let is_ip = matches!(walker.key.get(Slot::ETH_TYPE) as u16, ethertype::IPV4 | ethertype::IPV6);
        let dscp = (walker.key.get(Slot::IP_TOS) >> 2) as u8;
        if let Some(raised) = remarked(dscp, level).filter(|_| is_ip) {
            let field = Field::Dscp(raised);
            walker.key.write(field);
            self.out.push(Action::Set(field));
        }
    }

    /// Asks about the packet, and translates it. A connection that it belongs to is asked about once: later it is what it was, whatever the packet has become.
    fn ask(&mut self, walker: &mut Walker, request: &Request) -> Tracked {
        let Some(segment) = segment(&walker.key, self.headers, walker.quoted) else {
            return Tracked { state: ct_state::INVALID | ct_state::TRACKED, ..Tracked::default() };
        };
        let known = walker.known.filter(|(zone, ..)| *zone == request.zone && !request.force);
        let again = known.and_then(|(_, first, is_translated)| {
            Some((self.pass.track_again(&first, request)?, first, is_translated))
        });
        let (tracked, first, was_translated) =
            again.unwrap_or_else(|| (self.pass.track(&segment, request), segment, false));
        if !was_translated {
            self.translate(walker, &segment, &tracked);
        }
        let is_translated = was_translated || tracked.tuple.is_some();
        walker.known = tracked.is_kept.then_some((request.zone, first, is_translated));
        tracked
    }

    fn translate(&mut self, walker: &mut Walker, segment: &Segment, tracked: &Tracked) {
        if segment.quoted.is_some() && tracked.quoted.is_some() {
            walker.quoted = tracked.quoted;
        }
        translate(segment, tracked, |field| {
            walker.key.write(field);
            self.out.push(Action::Set(field));
        });
    }
}

/// What a frame carries, behind the labels that it has come in with.
fn network_packet(headers: &[u8]) -> Option<&[u8]> {
    let ethernet = EthernetPacket::new_checked(headers).ok()?;
    if ethertype::is_mpls(ethernet.ethertype()) {
        return MplsPacket::behind_stack(ethernet.payload(), LABELS);
    }
    Some(ethernet.payload())
}

/// What connection tracking looks at of a packet that is known by its key; `None` for what does not say which connection it belongs to.
fn segment(key: &Key, headers: Option<&[u8]>, quoted: Option<Tuple>) -> Option<Segment> {
    if key.get(Slot::IP_FRAG) != 0 {
        return None;
    }
    let is_ipv6 = match key.get(Slot::ETH_TYPE) as u16 {
        ethertype::IPV4 => false,
        ethertype::IPV6 => true,
        _ => return None,
    };
    let (src, dst) = if is_ipv6 {
        (key.wide(Slot::SRC_LOW), key.wide(Slot::DST_LOW))
    } else {
        (key.get(Slot::IPV4_SRC).into(), key.get(Slot::IPV4_DST).into())
    };
    let (src_port, dst_port) = (key.get(Slot::TP_SRC) as u16, key.get(Slot::TP_DST) as u16);
    let protocol = key.get(Slot::IP_PROTO) as u8;
    let tuple = Tuple { src, dst, src_port, dst_port, protocol, is_ipv6 };
    if !tuple.is_icmp() {
        let tcp_flags = if protocol == protocol::TCP { key.get(Slot::TCP_FLAGS) as u8 } else { 0 };
        let numbers = headers
            .filter(|_| protocol == protocol::TCP)
            .and_then(|headers| SequenceNumbers::of(is_ipv6, network_packet(headers)?));
        return Some(Segment { tuple, tcp_flags, quoted: None, numbers });
    }
    let Some(headers) = headers else {
        // Its identifier is not in a key.
        let tuple = Tuple { src_port: 0, dst_port: src_port << 8 | dst_port & 0xff, ..tuple };
        return Some(Segment { tuple, tcp_flags: 0, quoted: None, numbers: None });
    };
    let mut segment = Segment::parse(is_ipv6, network_packet(headers)?)?;
    (segment.tuple.src, segment.tuple.dst) = (src, dst);
    segment.quoted = quoted.or(segment.quoted);
    Some(segment)
}

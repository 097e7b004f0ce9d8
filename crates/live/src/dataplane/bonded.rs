//! Bonds in the data plane: what departs by one leaves by its members, and what comes by a member comes to the bond.
//!
//! Each end is [`bond::End`], the machine that is simulated, too. A frame's number travels beside it, as a tag would before it.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU64;

use bond::end::{Framed, Output, Partner};
use bond::{Accept, Carrier, End, Learning, LinkState, MemberId, Mode, Transmit};
use fabric::EndKind;
use machine::{Step, Time, mix};
use topology::{BondEndId, Direction, NodeId};
use vswitch::Forwarding;
use vswitch::neighbour::{ANSWER_BYTES, answer_probe};
use vswitch::spread::FlowHash;

use super::announcements::Allowance;
use super::bond_log::Quota;
use super::flight::{Arrival, Bonded, Packet};
use super::plan::Plan;
use super::pool::Frame;
use super::worker::Worker;
use crate::control::{BondState, MemberState};
use crate::tap::VNET_HEADER;

/// Addresses at a frame's beginning.
const SOURCE: std::ops::Range<usize> = VNET_HEADER + 6..VNET_HEADER + 12;
const DESTINATION: std::ops::Range<usize> = VNET_HEADER..VNET_HEADER + 6;

/// One end of a bond.
#[derive(Debug)]
pub struct Place {
    what: What,
    /// Whether the other end is another program's, behind devices of the machine.
    has_external_partner: bool,
    /// When it wants to be looked at.
    pub due: Time,
    /// What it has told in the log.
    pub quota: Quota,
    /// What was let through to all of what the other end told.
    pub announced: Allowance,
    /// What arrives until then was sent before this end was made: it does not say where the other end sends now.
    pub stale_until: Option<Time>,
}

/// What is at an end.
#[derive(Debug)]
enum What {
    Bonded(Box<End<Packet>>),
    Learning(Learning),
    /// Behind devices of the machine: what comes by a member is written to that member's device.
    External,
}

impl Place {
    /// The end with this index in the fabric, as it comes up at `now`.
    pub fn new(plan: &Plan, index: BondEndId, now: Time) -> Self {
        let fabric = plan.fabric();
        let topology = &fabric.topology;
        let end = &topology.bonds[index];
        let has_external_partner = topology.nodes[topology.bonds[end.partner].node].is_external();
        let what = match fabric.bonds[index].end {
            _ if topology.nodes[end.node].is_external() => What::External,
            EndKind::Learning => What::Learning(Learning::default()),
            EndKind::Bonded => {
                let mut plan = fabric.bond_plan(index, mix(fabric.seed ^ u64::from(index.0)));
                if has_external_partner {
                    plan.partner = Partner::External { hello: drawn_lot() };
                }
                What::Bonded(Box::new(End::new(now, &plan)))
            }
        };
        let (quota, announced) = (Quota::default(), Allowance::default());
        Self { what, has_external_partner, due: now, quota, announced, stale_until: None }
    }

    /// The end, where one of ours sends.
    pub(super) const fn end(&self) -> Option<&End<Packet>> {
        match &self.what {
            What::Bonded(end) => Some(end),
            What::Learning(_) | What::External => None,
        }
    }

    /// Hands on all that waits for what is missing: the network changes.
    pub fn flush(&mut self, now: Time, out: &mut impl FnMut(Packet)) {
        if let What::Bonded(end) = &mut self.what {
            end.flush(now, out);
        }
    }

    /// A member's link has lost its carrier, or has it back.
    pub fn carrier(&mut self, now: Time, member: MemberId, up: bool) {
        match &mut self.what {
            What::Bonded(end) => {
                let Some(carrier) = end.bond().member(member).map(bond::Member::carrier) else { return };
                end.carrier(now, member, Carrier { up, ..carrier });
                self.due = now;
            }
            What::Learning(learning) if !up => learning.forget(member),
            What::Learning(_) | What::External => {}
        }
    }

    /// How it is at `now`; nothing of a switch's plain ports.
    pub fn state(&self, plan: &Plan, index: BondEndId, now: Time) -> Option<BondState> {
        let What::Bonded(end) = &self.what else { return None };
        let topology = &plan.fabric().topology;
        let place = &topology.bonds[index];
        let members = end.bond().members().map(|(id, member)| {
            let (sends, why) = why(end, id, now);
            let why = match end.peer().and_then(|peer| peer.why(now, id)) {
                Some(peer) => format!("{why}; {peer}; order on arrival {}", end.order()),
                None => why,
            };
            MemberState {
                name: member.name().to_owned(),
                to: topology.nodes[plan.far(plan.members(index)[id.index()])].name.clone(),
                link: format!("{:?}", member.link()).to_lowercase(),
                sends,
                why,
            }
        });
        Some(BondState {
            node: topology.nodes[place.node].name.clone(),
            name: place.name.clone(),
            mode: end.bond().config().mode.name().to_owned(),
            carrier: end.bond().has_carrier(),
            members: members.collect(),
            accepted: end.counters().accepted,
            inactive: end.counters().inactive,
            reordering: end.reordering().copied(),
        })
    }
}

/// Whether a bond sends on a member, and why.
fn why(end: &End<Packet>, id: MemberId, now: Time) -> (bool, String) {
    let bond = end.bond();
    if let Some(why) = end.lacp().and_then(|lacp| lacp.why(now, id)) {
        return (bond.usable().contains(id), why.to_string());
    }
    let link = bond.member(id).map(bond::Member::link);
    match (bond.usable().contains(id), bond.config().mode, bond.active()) {
        (false, ..) if link == Some(LinkState::Back) => {
            (false, "its link is up, and updelay is not over yet".to_owned())
        }
        (false, ..) => (false, "its link is down".to_owned()),
        (true, Mode::ActiveBackup, Some(active)) if active == id => {
            (true, "it is the active one".to_owned() + &told(bond, id))
        }
        (true, Mode::ActiveBackup, Some(active)) => {
            let name = bond.member(active).map_or("another", bond::Member::name);
            (false, format!("it waits while {name} is the active one"))
        }
        (true, Mode::BalanceTlb | Mode::BalanceAlb, Some(active)) if active == id => {
            (true, "its link is up; it also receives for the bond".to_owned() + &told(bond, id))
        }
        (true, ..) => (true, "its link is up".to_owned() + &told(bond, id)),
    }
}

/// What peers are told, where that is not the one address of the host.
fn told(bond: &bond::Bond, id: MemberId) -> String {
    match (bond.config().mode, bond.mac()) {
        (Mode::BalanceAlb, _) => {
            let told = bond.peers().filter(|(.., member)| *member == id).count();
            format!("; {told} addresses of peers are told its address")
        }
        (Mode::ActiveBackup, Some(mac)) if bond.config().answers_by_member() => {
            let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
            format!("; peers are told its address, {mac}")
        }
        _ => String::new(),
    }
}

impl Framed for Packet {
    fn frame(&mut self) -> &mut [u8] {
        let len = self.frame.bytes().len();
        &mut self.frame.buffer()[VNET_HEADER..len]
    }
}

/// A number that no other run of this program has: by it, a bond tells its own greetings from its peer's.
fn drawn_lot() -> Option<NonZeroU64> {
    NonZeroU64::new(RandomState::new().hash_one(std::process::id()))
}

impl Worker {
    /// When the next bond wants to be looked at.
    pub(super) fn bonds_due(&self) -> Time {
        self.parts.bonds.iter().flatten().map(|place| place.due).min().unwrap_or(Time::NEVER)
    }

    /// Looks at the bonds that want it.
    #[cold]
    pub(super) fn tend_bonds(&mut self, now: Time) {
        for index in self.parts.bonds.keys() {
            if self.parts.bonds[index].as_ref().is_some_and(|place| place.due <= now) {
                self.tend_bond(now, index);
            }
        }
    }

    fn tend_bond(&mut self, now: Time, index: BondEndId) {
        let place = self.parts.bonds[index].as_mut().expect("a worker owns the bonds of its nodes");
        place.due = Time::NEVER;
        let What::Bonded(end) = &mut place.what else { return };
        let released = &mut self.released;
        end.expire(now, &mut |packet| released.push(packet));
        self.hand_on(now, index);
        self.log_what_was_left_out(now, index);
        self.poll_bond(now, index);
    }

    /// Carries out what an end wants.
    pub(super) fn poll_bond(&mut self, now: Time, index: BondEndId) {
        loop {
            let place = self.parts.bonds[index].as_mut().expect("a worker owns the bonds of its nodes");
            let What::Bonded(end) = &mut place.what else { return };
            match end.poll(now) {
                Step::Wait(until) => {
                    place.due = until.min(place.quota.due()).max(now);
                    return;
                }
                Step::Do(Output::Send { member, frame }) => {
                    let direction = self.plan.members(index)[member.index()];
                    self.send_control(now, direction, frame.as_bytes());
                }
                Step::Do(output) => self.log_of_bond(now, index, &output),
            }
        }
    }

    pub(super) fn bond_name(&self, index: BondEndId) -> String {
        let topology = &self.plan.fabric().topology;
        let end = &topology.bonds[index];
        format!("{} of {}", end.name, topology.nodes[end.node].name)
    }

    fn send_control(&mut self, now: Time, direction: Direction, bytes: &[u8]) {
        // What a bond tells a peer of its host, in balance-alb, goes to that peer; all else is for the other end.
        let to = bytes.first_chunk().and_then(|to| self.plan.host_table().by_mac(*to));
        match to.filter(|to| *to != self.plan.near(direction)) {
            Some(peer) => self.send_bytes(now, direction, bytes, (peer, Bonded::No)),
            None => self.send_to_end(now, direction, bytes),
        }
    }

    /// Sends a frame to the other end of a bond itself.
    fn send_to_end(&mut self, now: Time, direction: Direction, bytes: &[u8]) {
        let far = self.plan.far(direction);
        self.send_bytes(now, direction, bytes, (far, Bonded::Control));
    }

    fn send_bytes(&mut self, now: Time, direction: Direction, bytes: &[u8], (to, bonded): (NodeId, Bonded)) {
        let Some(mut frame) = self.pool.take() else {
            self.parts.refused.no_buffer += 1;
            return;
        };
        let end = VNET_HEADER + bytes.len();
        let buffer = frame.buffer();
        buffer[..VNET_HEADER].fill(0);
        buffer[VNET_HEADER..end].copy_from_slice(bytes);
        frame.set_len(end);
        let forwarding = Forwarding { to, hash: FlowHash(0) };
        self.cross(direction, now, Packet { frame, forwarding, number: 0, bonded });
    }

    /// A frame of the bond's own has come to this end.
    #[cold]
    fn take_control(&mut self, now: Time, (index, member): (BondEndId, MemberId), frame: Frame) {
        self.answer_probe(now, (index, member), &frame.bytes()[VNET_HEADER..]);
        self.spread_announcement(now, index, &frame);
        self.pool.put(frame);
    }

    /// Answers what a bond at the other end asks of its own accord, to see whether its members live (`arp_interval`): from the
    /// host table, as hosts are answered. In active-backup its waiting members hear the question as well: they live by what comes back to
    /// them of the active one's questions, which a switch sends everywhere.
    #[cold]
    fn answer_probe(&mut self, now: Time, (index, member): (BondEndId, MemberId), question: &[u8]) {
        let mut answer = [0; ANSWER_BYTES];
        let Ok(len) = answer_probe(question, self.plan.host_table(), &mut answer) else { return };
        let fabric = self.plan.fabric();
        let partner = fabric.topology.bonds[index].partner;
        let node = fabric.topology.bonds[partner].node;
        let (mode, is_external) = (fabric.bonds[partner].config.mode, fabric.topology.nodes[node].is_external());
        let members = self.plan.members(index).len();
        // An external host has had its answer where its question came in.
        if !is_external {
            self.send_to_end(now, self.plan.members(index)[member.index()], &answer[..len]);
        }
        if mode == Mode::ActiveBackup {
            for other in (0..members).filter(|other| *other != member.index()) {
                self.send_to_end(now, self.plan.members(index)[other], question);
            }
        }
    }

    /// A host has sent a frame that is for no host: its bond may learn from it.
    #[cold]
    pub(super) fn overhear(&mut self, uplink: Direction, frame: &Frame) {
        let Some(index) = self.plan.bond(uplink) else { return };
        if let Some(Place { what: What::Bonded(end), .. }) = &mut self.parts.bonds[index] {
            end.overhear(&frame.bytes()[VNET_HEADER..]);
        }
    }

    /// A packet is to leave by a bond.
    pub(super) fn depart_by_bond(&mut self, index: BondEndId, now: Time, mut packet: Packet) {
        let place = self.parts.bonds[index].as_mut().expect("a worker owns the bonds of its nodes");
        let len = packet.frame.bytes().len();
        let (transmit, bonded) = match &mut place.what {
            What::Bonded(end) => {
                let (transmit, number) = end.transmit_frame(now, &mut packet.frame.buffer()[VNET_HEADER..len]);
                // In balance-alb, what the host says about its address may make the bond tell others.
                place.due = place.due.min(end.telling_at());
                (transmit, Bonded::Number(number))
            }
            What::Learning(learning) => {
                let to = packet.frame.bytes()[DESTINATION].try_into().expect("six bytes");
                let all = (0..self.plan.members(index).len()).map(MemberId::new).collect();
                (learning.find(to).map_or(Transmit::All(all), Transmit::One), Bonded::No)
            }
            What::External => unreachable!("what an external host sends has a member already"),
        };
        packet.bonded = bonded;
        match transmit {
            Transmit::One(member) => self.cross(self.plan.members(index)[member.index()], now, packet),
            Transmit::All(members) => {
                for member in members.iter() {
                    if let Some(frame) = self.copy(&packet.frame) {
                        let copy = Packet { frame, ..packet };
                        self.cross(self.plan.members(index)[member.index()], now, copy);
                    }
                }
                self.pool.put(packet.frame);
            }
            Transmit::None(_) => {
                self.parts.refused.no_member += 1;
                self.pool.put(packet.frame);
            }
        }
    }

    pub(super) fn copy(&mut self, original: &Frame) -> Option<Frame> {
        let Some(mut frame) = self.pool.take() else {
            self.parts.refused.no_buffer += 1;
            return None;
        };
        let bytes = original.bytes();
        // One from before the MTU became smaller may be longer than buffers are now.
        let Some(room) = frame.buffer().get_mut(..bytes.len()) else {
            self.pool.put(frame);
            self.parts.refused.removed += 1;
            return None;
        };
        room.copy_from_slice(bytes);
        frame.set_len(bytes.len());
        Some(frame)
    }

    /// A packet has come by a bond's member.
    pub(super) fn arrive_at_bond(
        &mut self,
        (index, member): (BondEndId, usize),
        Arrival { at, mut packet, .. }: Arrival,
    ) {
        let member = MemberId::new(member);
        let node = self.plan.fabric().topology.bonds[index].node;
        let mut released = std::mem::take(&mut self.released);
        let place = self.parts.bonds[index].as_mut().expect("a worker owns the bonds of its nodes");
        let end = match &mut place.what {
            What::Bonded(end) => end,
            What::Learning(learning) => {
                if place.stale_until.is_none_or(|until| at > until) {
                    learning.saw(member, packet.frame.bytes()[SOURCE].try_into().expect("six bytes"));
                }
                self.released = released;
                match packet.bonded {
                    Bonded::Control => self.take_control(at, (index, member), packet.frame),
                    Bonded::No | Bonded::Number(_) => self.come_to(node, at, packet),
                }
                return;
            }
            What::External => {
                self.released = released;
                return self.receive(node, member.index(), at, packet);
            }
        };
        if place.has_external_partner {
            let received = end.receive_frame(at, member, packet, &mut |packet| released.push(packet));
            place.due = place.due.min(end.deadline());
            self.released = released;
            if let Some(packet) = received.back {
                self.pool.put(packet.frame);
            }
            self.hand_on(at, index);
            if received.poll {
                self.poll_bond(at, index);
            }
            return;
        }
        let frame = &packet.frame.bytes()[VNET_HEADER..];
        let number = match packet.bonded {
            Bonded::Control => {
                end.receive_control(at, member, frame);
                // What it has asked by another member comes back to it in active-backup.
                let is_own =
                    frame.get(6..).and_then(<[u8]>::first_chunk).is_some_and(|from| end.bond().is_own_mac(*from));
                self.released = released;
                if is_own {
                    self.pool.put(packet.frame);
                } else {
                    self.take_control(at, (index, member), packet.frame);
                }
                return self.poll_bond(at, index);
            }
            Bonded::Number(number) => number,
            Bonded::No => 0,
        };
        let summary = bond::Summary::of(end.bond().config(), frame);
        // A peer knows the host by a member's address.
        if let Accept::DeliverTo(mac) = end.bond().accept(member, &summary) {
            packet.frame.buffer()[DESTINATION].copy_from_slice(&mac);
        }
        let mut out = |packet| released.push(packet);
        let copy = end.receive(at, (member, number), &summary, packet, &mut out);
        place.due = place.due.min(end.deadline());
        self.released = released;
        if let Some(copy) = copy {
            self.pool.put(copy.frame);
        }
        self.hand_on(at, index);
    }

    /// Lets go on what an end has handed on.
    fn hand_on(&mut self, now: Time, index: BondEndId) {
        let node = self.plan.fabric().topology.bonds[index].node;
        let mut released = std::mem::take(&mut self.released);
        for mut packet in released.drain(..) {
            // From an external partner, and for no host that the host table knows: it may be for a member's own address. What its kernel
            // says to all has been answered.
            let is_for_us = self.plan.switch_index(node).is_none() && packet.frame.bytes()[VNET_HEADER] & 1 == 0;
            if packet.bonded == Bonded::Control && !is_for_us {
                self.spread_announcement(now, index, &packet.frame);
                self.pool.put(packet.frame);
                continue;
            }
            packet.bonded = Bonded::No;
            self.come_to(node, now, packet);
        }
        self.released = released;
    }
}

//! Bonds in the simulation: what is offered to one goes to its members, and what comes by a member comes to the bond.
//!
//! Each end is [`bond::End`], the machine that runs live. A packet's number travels beside it, as a tag would before it. Frames that
//! ends send by themselves (LACPDUs, announcements) cross the members' links like others, in their queues.

mod addresses;

use bond::end::{Control, Output};
use bond::{Carrier, ControlFrame, End, HashPolicy, Learning, MemberId, Mode, Summary, Transmit};
use fabric::{EndKind, Fabric};
use machine::{Span, Step, Time, mix};
use topology::{NodeId, NodeKind};
use vswitch::HostTable;
use vswitch::neighbour::{ANSWER_BYTES, answer_probe};
use wire::{EthernetRepr, ethertype};

use crate::engine::{Engine, Event, Wire};
use crate::run::Scenario;
use addresses::Told;

/// [`InBond::leaves`] and [`InBond::far`] of a wire that is in no bond.
const NONE: u32 = u32::MAX;
/// [`Event::at`] with this bit: a packet arrives over the wire of the other bits, which is in a bond.
pub(crate) const OVER: u32 = 1 << 31;
/// [`Event::way`] of a frame that a bond has sent by itself; the packet's number is its place in [`Bonds::control`].
const CONTROL: u32 = u32::MAX;
/// A member's share of the headers that a flow's frame has: Ethernet, IPv4, ports.
const HEADERS: usize = 14 + 20 + 8;
/// The flag of an IPv4 fragment that is not the last one (RFC 791).
const MORE_FRAGMENTS: u16 = 0x2000;

/// A packet that waits for others.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    packet: u32,
    way: u32,
}

/// What is at an end.
#[derive(Debug)]
enum What {
    Bonded(Box<End<Waiting>>),
    Learning(Learning),
}

/// One end of a bond, and where it is.
#[derive(Debug)]
struct Place {
    node: u32,
    /// Of its members, towards the other end.
    wires: Vec<u32>,
    what: What,
    /// The end of the other side.
    partner: usize,
    /// Which of [`Bonds::summaries`] its mode hashes by.
    policy: usize,
    /// When its timer's event fires.
    armed: Time,
    /// At plain ports: by which addresses peers know the host at the other end, where it has told them several.
    told: Option<Box<Told>>,
}

/// Where a wire is in bonds. Apart from the wires, which are looked up for each packet of each network.
#[derive(Clone, Copy, Debug)]
struct InBond {
    /// The end that it leaves from, or [`NONE`].
    leaves: u32,
    /// The end that it leads to, and which of its members it is there.
    far: u32,
    member: u8,
    /// The node that it leads to, where events name a wire that is in no bond.
    node: u32,
}

/// A wire of which nobody has said anything.
const UNBONDED: InBond = InBond { leaves: NONE, far: NONE, member: 0, node: NONE };

/// All bonds of a network.
#[derive(Debug, Default)]
pub(crate) struct Bonds {
    /// By wire; empty where there are no bonds.
    wires: Vec<InBond>,
    ends: Vec<Place>,
    /// By policy and way: what a bond needs to know of a flow's packets.
    summaries: Vec<(HashPolicy, Vec<Summary>)>,
    /// By packet: the number that the sending end gave it.
    numbers: Vec<u32>,
    /// Frames of bonds that are under way.
    control: Vec<Option<Control>>,
    /// What an end has just handed on.
    released: Vec<Waiting>,
    /// Who has which address, where members are probed or hosts tell several of theirs.
    host_table: Option<HostTable>,
    /// By way: the host that sends. Empty where no host tells several addresses.
    senders: Vec<u32>,
}

/// What a bond's end has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct BondOutcome {
    /// Frames handed on, or held until they were.
    pub accepted: u64,
    /// Frames dropped since their member did not receive.
    pub inactive: u64,
    /// Order on arrival, where it is on.
    pub reordering: Option<bond::reorder::Counters>,
}

impl Bonds {
    /// The ends of the fabric's bonds; marks their wires.
    pub(crate) fn new(scenario: &Scenario<'_>, first_wire: &[u32], wires: &mut [Wire]) -> Self {
        let fabric = scenario.fabric;
        let mut bonds = Self::default();
        if !fabric.bonds.is_empty() {
            bonds.wires = vec![UNBONDED; wires.len()];
        }
        let needs_directory =
            |end: &fabric::Bond| end.config.arp_interval != Span::ZERO || end.config.answers_by_member();
        bonds.host_table =
            fabric.bonds.iter().any(needs_directory).then(|| HostTable::new(&fabric.topology, &fabric.host_bonds()));
        for ((id, place), end) in fabric.topology.bonds.iter_enumerated().zip(&fabric.bonds) {
            let index = usize::from(id);
            let first = first_wire[usize::from(place.node)];
            let mine: Vec<u32> = place.ports.iter().map(|port| first + u32::from(port.0)).collect();
            for &wire in &mine {
                bonds.wires[wire as usize].leaves = index as u32;
            }
            let plan = fabric.bond_plan(id, mix(scenario.seed ^ index as u64));
            let what = match end.end {
                EndKind::Bonded => What::Bonded(Box::new(End::new(Time::ZERO, &plan))),
                EndKind::Learning => What::Learning(Learning::default()),
            };
            let policy = bonds.policy(end.config.policy);
            bonds.ends.push(Place {
                node: place.node.0,
                wires: mine,
                what,
                partner: usize::from(place.partner),
                policy,
                armed: Time::NEVER,
                told: Told::at(fabric, id),
            });
        }
        for (index, end) in fabric.topology.bonds.iter().enumerate() {
            let partner = &bonds.ends[usize::from(end.partner)];
            for (member, &wire) in partner.wires.iter().enumerate() {
                wires[wire as usize].arrives = OVER | wire;
                let place = &mut bonds.wires[wire as usize];
                (place.far, place.member) = (index as u32, member as u8);
            }
        }
        bonds
    }

    /// The end that a wire leaves from, if it is in a bond.
    #[inline]
    pub(crate) fn leaving(&self, wire: u32) -> Option<usize> {
        let place = self.wires.get(wire as usize)?;
        (place.leaves != NONE).then_some(place.leaves as usize)
    }

    /// Lets what arrives by a wire name it, be it in a bond or not.
    pub(crate) fn watch(&mut self, wire: u32, node: u32, wires: &mut [Wire]) {
        if self.wires.is_empty() {
            self.wires = vec![UNBONDED; wires.len()];
        }
        self.wires[wire as usize].node = node;
        wires[wire as usize].arrives = OVER | wire;
    }

    /// The end that a wire leads to, and which of its members it is there.
    pub(crate) fn far_end(&self, wire: u32) -> Option<(usize, usize)> {
        let place = self.wires.get(wire as usize)?;
        (place.far != NONE).then_some((place.far as usize, usize::from(place.member)))
    }

    fn policy(&mut self, policy: HashPolicy) -> usize {
        if let Some(known) = self.summaries.iter().position(|(other, _)| *other == policy) {
            return known;
        }
        self.summaries.push((policy, Vec::new()));
        self.summaries.len() - 1
    }

    /// A way more: packets between these hosts, with these ports.
    pub(crate) fn add_way(&mut self, fabric: &Fabric, between: (NodeId, NodeId), upper: Upper, bytes: u32) {
        if self.summaries.is_empty() {
            return;
        }
        if self.tells_addresses() {
            self.senders.push(between.0.0);
        }
        let frame = headers(fabric, between, upper);
        for (policy, summaries) in &mut self.summaries {
            summaries.push(Summary { bytes, ..Summary::by_policy(*policy, &frame) });
        }
    }

    /// How long ends take to find each other, before anybody sends. LACP's machines take 1.1 s at most where nothing is lost.
    pub(crate) fn settling(&self) -> Span {
        let has_lacp = |place: &Place| matches!(&place.what, What::Bonded(end) if end.lacp().is_some());
        if self.ends.iter().any(has_lacp) { Span::from_secs(2) } else { Span::ZERO }
    }

    /// What the ends have done so far, in the order of the fabric.
    pub(crate) fn outcomes(&self) -> Vec<BondOutcome> {
        let of = |place: &Place| match &place.what {
            What::Learning(_) => BondOutcome::default(),
            What::Bonded(end) => BondOutcome {
                accepted: end.counters().accepted,
                inactive: end.counters().inactive,
                reordering: end.reordering().copied(),
            },
        };
        self.ends.iter().map(of).collect()
    }

    fn number(&mut self, packet: u32, number: u32) {
        let at = packet as usize;
        if at >= self.numbers.len() {
            self.numbers.resize(at + 1, 0);
        }
        self.numbers[at] = number;
    }

    fn keep(&mut self, frame: Control) -> u32 {
        let free = self.control.iter().position(Option::is_none);
        let at = free.unwrap_or(self.control.len());
        if at == self.control.len() {
            self.control.push(None);
        }
        self.control[at] = Some(frame);
        at as u32
    }
}

impl<const PLAIN: bool> Engine<'_, PLAIN> {
    /// Lets ends say what they have to say before anything else happens.
    pub(crate) fn start_bonds(&mut self) {
        for index in 0..self.bonds.ends.len() {
            self.poll_bond(Time::ZERO, index);
        }
    }

    /// A packet is to leave by a bond. As [`Engine::offer`]; of copies, the last one's.
    pub(crate) fn offer_to_bond(&mut self, now: Time, index: usize, packet: u32, way: u32) -> Option<(Time, u32)> {
        let known = self.known_address(now, index, way);
        let place = &mut self.bonds.ends[index];
        let summary = self.bonds.summaries[place.policy].1[way as usize];
        let (transmit, number) = match &mut place.what {
            What::Bonded(end) => end.transmit(now, &summary),
            What::Learning(learning) => {
                let all = (0..place.wires.len()).map(MemberId::new).collect();
                let (number, to) = known.unwrap_or((0, summary.dst_mac));
                (learning.find(to).map_or(Transmit::All(all), Transmit::One), number)
            }
        };
        match transmit {
            Transmit::One(member) => {
                let wire = place.wires[member.index()];
                self.bonds.number(packet, number);
                self.put_on(now, wire, packet, way)
            }
            Transmit::All(members) => {
                let mut last = None;
                for member in members.iter() {
                    let copy = self.packets.copy(packet);
                    self.bonds.number(copy, number);
                    last = self.put_on(now, self.bonds.ends[index].wires[member.index()], copy, way);
                }
                self.packets.take(packet);
                last
            }
            Transmit::None(_) => {
                self.packets.take(packet);
                None
            }
        }
    }

    /// Something has come by a member's wire.
    pub(crate) fn arrive_over(&mut self, now: Time, event: Event) {
        let InBond { far, member, node, .. } = self.bonds.wires[(event.at & !OVER) as usize];
        if far == NONE {
            return self.arrive(now, Event { at: node, ..event });
        }
        let (index, member) = (far as usize, MemberId::new(usize::from(member)));
        if event.way == CONTROL {
            let frame = self.bonds.control[event.packet as usize].take().expect("it is under way once");
            self.bonds.note_control(index, member, frame.as_bytes());
            let mut is_own = false;
            if let What::Bonded(end) = &mut self.bonds.ends[index].what {
                end.receive_control(now, member, frame.as_bytes());
                // What it has asked by another member comes back to it in active-backup.
                let from = frame.as_bytes().get(6..).and_then(<[u8]>::first_chunk);
                is_own = from.is_some_and(|from| end.bond().is_own_mac(*from));
            }
            if !is_own {
                self.answer_probe(now, (index, member), &frame);
            }
            return self.poll_bond(now, index);
        }
        self.note_source(index, member, event.way);
        let Waiting { packet, way } = Waiting { packet: event.packet, way: event.way };
        let written = self.bonds.address_written(index, packet);
        let place = &mut self.bonds.ends[index];
        let What::Bonded(end) = &mut place.what else {
            let at = place.node;
            return self.arrive(now, Event { packet, way, at });
        };
        let mut summary = self.bonds.summaries[place.policy].1[way as usize];
        summary.dst_mac = written.unwrap_or(summary.dst_mac);
        let number = self.bonds.numbers[packet as usize];
        let released = &mut self.bonds.released;
        let mut out = |waiting| released.push(waiting);
        if let Some(copy) = end.receive(now, (member, number), &summary, Waiting { packet, way }, &mut out) {
            self.packets.take(copy.packet);
        }
        let until = end.deadline();
        self.hand_on(now, index);
        self.arm_bond(now, index, until);
    }

    /// Answers what a bond at the other end asks of its own accord, to see whether its members live (`arp_interval`), as the live network
    /// does. In active-backup its waiting members hear the question as well: they live by what comes back to them of the active one's
    /// questions, which a switch sends everywhere.
    fn answer_probe(&mut self, now: Time, (index, member): (usize, MemberId), question: &Control) {
        let Some(host_table) = &self.bonds.host_table else { return };
        let mut answer = [0; ANSWER_BYTES];
        let Ok(len) = answer_probe(question.as_bytes(), host_table, &mut answer) else { return };
        let Some(answer) = ControlFrame::of(&answer[..len]) else { return };
        self.send_to_end(now, (index, member.index()), Control::Bond(answer));
        let partner = &self.bonds.ends[self.bonds.ends[index].partner];
        let What::Bonded(end) = &partner.what else { return };
        if end.bond().config().mode == Mode::ActiveBackup {
            let members = partner.wires.len();
            for other in (0..members).filter(|other| *other != member.index()) {
                self.send_to_end(now, (index, other), question.clone());
            }
        }
    }

    /// Sends a frame to the other end of a bond itself.
    fn send_to_end(&mut self, now: Time, (index, member): (usize, usize), frame: Control) {
        let wire = self.bonds.ends[index].wires[member];
        let bytes = frame.as_bytes().len() as u32;
        let at = self.bonds.keep(frame);
        self.put_control_on(now, wire, at, bytes);
    }

    /// A switch's plain ports see where the host's addresses are.
    fn note_source(&mut self, index: usize, member: MemberId, way: u32) {
        if !matches!(self.bonds.ends[index].what, What::Learning(_)) {
            return;
        }
        let partner = &self.bonds.ends[self.bonds.ends[index].partner];
        let What::Bonded(end) = &partner.what else { return };
        let own = self.bonds.summaries[partner.policy].1[way as usize].src_mac;
        let mac = end.bond().source_mac(member).unwrap_or(own);
        if let What::Learning(learning) = &mut self.bonds.ends[index].what {
            learning.saw(member, mac);
        }
    }

    /// Lets go on what an end has handed on.
    fn hand_on(&mut self, now: Time, index: usize) {
        let at = self.bonds.ends[index].node;
        let mut released = std::mem::take(&mut self.bonds.released);
        for Waiting { packet, way } in released.drain(..) {
            self.arrive(now, Event { packet, way, at });
        }
        self.bonds.released = released;
    }

    /// A member's link has lost its carrier, or has it back.
    pub(crate) fn change_carrier(&mut self, now: Time, index: usize, member: MemberId, up: bool) {
        match &mut self.bonds.ends[index].what {
            What::Bonded(end) => {
                let Some(carrier) = end.bond().member(member).map(bond::Member::carrier) else { return };
                end.carrier(now, member, Carrier { up, ..carrier });
                self.poll_bond(now, index);
            }
            What::Learning(learning) if !up => learning.forget(member),
            What::Learning(_) => {}
        }
    }

    /// A packet that was on its way is gone.
    pub(crate) fn throw_away(&mut self, event: Event) {
        if event.way == CONTROL {
            self.bonds.control[event.packet as usize] = None;
        } else {
            self.packets.take(event.packet);
        }
    }

    /// An end's timer has fired.
    pub(crate) fn wake_bond(&mut self, now: Time, index: usize) {
        let place = &mut self.bonds.ends[index];
        if place.armed != now {
            return;
        }
        place.armed = Time::NEVER;
        let released = &mut self.bonds.released;
        if let What::Bonded(end) = &mut place.what {
            end.expire(now, &mut |waiting| released.push(waiting));
        }
        self.hand_on(now, index);
        self.poll_bond(now, index);
    }

    /// Carries out what an end wants.
    fn poll_bond(&mut self, now: Time, index: usize) {
        loop {
            let What::Bonded(end) = &mut self.bonds.ends[index].what else { return };
            match end.poll(now) {
                Step::Wait(until) => return self.arm_bond(now, index, until),
                Step::Do(Output::Send { member, frame }) => {
                    self.send_to_end(now, (index, member.index()), frame);
                }
                // Nobody watches a simulated bond.
                Step::Do(Output::Event(_) | Output::Lacp(_) | Output::Peer(_)) => {}
            }
        }
    }

    fn put_control_on(&mut self, now: Time, wire: u32, frame: u32, bytes: u32) {
        match self.wires[wire as usize].link.offer(now, bytes) {
            link::Verdict::Arrives(at) => self.push(at, Event { packet: frame, way: CONTROL, at: OVER | wire }),
            link::Verdict::Dropped => self.bonds.control[frame as usize] = None,
        }
    }

    /// Sees to it that an end is woken when it wants to be.
    fn arm_bond(&mut self, now: Time, index: usize, until: Time) {
        let place = &mut self.bonds.ends[index];
        let until = until.max(now);
        if until < place.armed {
            place.armed = until;
            self.push(until, Event { packet: 0, way: index as u32, at: crate::engine::BOND });
        }
    }
}

/// What is above IP in a flow's frames, as far as hash policies look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upper {
    /// Ports, from and to.
    Tcp(u16, u16),
    /// Ports, from and to.
    Udp(u16, u16),
    /// A part of a longer message: no ports can be seen in it.
    Fragment,
}

/// The headers of a flow's frames, as far as hash policies look.
fn headers(fabric: &Fabric, (from, to): (NodeId, NodeId), upper: Upper) -> [u8; HEADERS] {
    let host = |node: NodeId| match &fabric.topology.nodes[node].kind {
        NodeKind::Host(host) => host,
        NodeKind::Switch { .. } => unreachable!("flows run between hosts"),
    };
    let (from, to) = (host(from), host(to));
    let mut frame = [0; HEADERS];
    EthernetRepr { dst: to.mac, src: from.mac, vlan: None, ethertype: ethertype::IPV4 }.emit(&mut frame);
    let ip = &mut frame[14..];
    ip[0] = 0x45;
    ip[3] = 28;
    ip[8] = 64;
    let (protocol, src_port, dst_port) = match upper {
        Upper::Tcp(src, dst) => (wire::protocol::TCP, src, dst),
        Upper::Udp(src, dst) => (wire::protocol::UDP, src, dst),
        Upper::Fragment => (wire::protocol::UDP, 0, 0),
    };
    if matches!(upper, Upper::Fragment) {
        ip[6..8].copy_from_slice(&MORE_FRAGMENTS.to_be_bytes());
    }
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&from.ipv4.octets());
    ip[16..20].copy_from_slice(&to.ipv4.octets());
    ip[20..22].copy_from_slice(&src_port.to_be_bytes());
    ip[22..24].copy_from_slice(&dst_port.to_be_bytes());
    frame
}

//! The simulation's side of the graph: packets as numbers, and the calendar of what is under way.

use std::collections::BTreeMap;

use bond::end::Received;
use bond::{Config, End, MemberId, Summary, Transmit};
use datapath::{Driver, Loss, Tag, Timer};
use machine::{Calendar, Time};
use rstp::PortState;
use topology::NetPort;
use vswitch::{Field, Forwarding};
use wire::{Coverage, EthernetPacket, EthernetPacketMut, TAG_AT, vlan_tag};

use crate::capture::{Capture, Seen};
use crate::carried::Carried;
use crate::headers::Headers;
use crate::pool::Pool;

/// [`Event::at`] of a flow's timer; [`Event::header`] says which end's.
pub(crate) const TIMER: u32 = u32::MAX;
/// [`Event::at`] of a flow's start.
pub(crate) const START: u32 = u32::MAX - 1;
/// [`Event::at`] of the timer of a bond's end; [`Event::header`] is its number.
pub(crate) const BOND: u32 = u32::MAX - 2;
/// [`Event::at`] of the timer of a switch's control machine; [`Event::header`] is its number among the switches. No port comes behind.
pub(crate) const SWITCH: u32 = u32::MAX - 4;
/// [`Event::at`] of what is due of requests to a service.
pub(crate) const REQUESTS: u32 = u32::MAX - 3;
/// [`Event::at`] with a host's port: a core has done with a packet that came by it. No port has a number so high.
pub(crate) const HOST: u32 = 1 << 31;
/// The same with this: with a packet that leaves by it.
pub(crate) const SENDS: u32 = 1 << 30;
/// [`HOST`] with this and a port: a function has done with a packet, which leaves by that port.
pub(crate) const FUNCTION: u32 = 1 << 29;
/// [`Event::header`] with [`SWITCH`]: it is no switch that wakes, but those that watch functions.
pub(crate) const WATCHES: u32 = u32::MAX;
/// The same of the balancers of services.
/// A bit of the number of a switch whose RSTP machine is woken, not its pipeline.
pub(crate) const BRIDGE: u32 = 1 << 30;
pub(crate) const BALANCERS: u32 = u32::MAX - 1;
/// [`Packet::header`] of a frame that has bytes; [`Packet::id`] is its place among the frames.
const FRAME: u32 = u32::MAX;

/// A packet comes in by a port, or somebody wakes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// The id of the packet, [`Packet::id`].
    pub(crate) packet: u32,
    /// [`Packet::header`]; of a timer, whose it is.
    pub(crate) header: u32,
    /// The port, or [`TIMER`], [`START`], [`BOND`], [`SWITCH`], or [`HOST`] with a port.
    pub(crate) at: u32,
}

/// A packet: a flow's, or a frame that somebody wrote, as bonds and hosts do that announce their addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Its number in the pool.
    pub(crate) id: u32,
    /// The number of its header.
    pub(crate) header: u32,
}

impl Packet {
    pub(crate) const fn is_frame(self) -> bool {
        self.header == FRAME
    }
}

/// A frame with bytes.
#[derive(Clone, Debug)]
struct Frame {
    bytes: Vec<u8>,
    /// How many more it has that nobody looks at.
    more: u32,
    /// What it carries besides, if it is one of a connection to a service. What was corrupted carries nothing.
    carried: Option<Carried>,
    forwarding: Forwarding,
    tag: Tag,
}

/// What is under way, and what it is.
#[derive(Debug)]
pub(crate) struct Medium {
    pub(crate) calendar: Calendar<Event>,
    pub(crate) headers: Headers,
    pub(crate) packets: Pool,
    /// By number in the pool: which one it is among those that the end of a bond has sent. Empty where there are no bonds.
    numbers: Vec<u32>,
    frames: Vec<Option<Frame>>,
    /// Places in `frames` that are free.
    free_frames: Vec<u32>,
    /// Room for the bytes of frames, of such as were freed.
    room: Vec<Vec<u8>>,
    /// Hosts' packets that have come through bonds, and frames: to be handled before the next event.
    pub(crate) delivered: Vec<(NetPort, Packet)>,
    /// Ports have begun or ceased to forward: routes are to be computed anew.
    pub(crate) has_new_ports: bool,
    /// What passes ports that somebody looks at.
    pub(crate) capture: Option<Capture>,
    /// What went nowhere, by its reason, where no link has counted it.
    pub(crate) lost: BTreeMap<&'static str, u64>,
}

impl Medium {
    pub(crate) fn new(headers: Headers, packets: Pool) -> Self {
        Self {
            calendar: Calendar::new(),
            headers,
            packets,
            numbers: Vec::new(),
            frames: Vec::new(),
            free_frames: Vec::new(),
            room: Vec::new(),
            delivered: Vec::new(),
            has_new_ports: false,
            capture: None,
            lost: BTreeMap::new(),
        }
    }

    fn frame_of(&self, packet: Packet) -> &Frame {
        self.frames[packet.id as usize].as_ref().expect("a frame is under way once")
    }

    #[cold]
    fn bytes_of_frame(&self, packet: Packet) -> u32 {
        let frame = self.frame_of(packet);
        frame.bytes.len() as u32 + frame.more
    }

    #[cold]
    fn forwarding_of_frame(&self, packet: Packet) -> Forwarding {
        self.frame_of(packet).forwarding
    }

    fn frame_of_mut(&mut self, packet: Packet) -> &mut Frame {
        self.frames[packet.id as usize].as_mut().expect("a frame is under way once")
    }

    fn keep(&mut self, frame: Frame) -> Packet {
        let id = self.free_frames.pop().unwrap_or(self.frames.len() as u32);
        if id as usize == self.frames.len() {
            self.frames.push(None);
        }
        self.frames[id as usize] = Some(frame);
        Packet { id, header: FRAME }
    }

    /// A frame of a connection to a service, which has so many bytes more than these.
    pub(crate) fn send(&mut self, bytes: &[u8], more: u32, forwarding: Forwarding, carried: Carried) -> Packet {
        let mut room = self.room.pop().unwrap_or_default();
        room.extend_from_slice(bytes);
        self.keep(Frame { bytes: room, more, carried: Some(carried), forwarding, tag: Tag::None })
    }

    /// What a frame carries besides its bytes.
    pub(crate) fn carried(&self, packet: Packet) -> Option<Carried> {
        packet.is_frame().then(|| self.frame_of(packet).carried).flatten()
    }

    fn number(&mut self, packet: Packet, number: u32) {
        let at = packet.id as usize;
        if at >= self.numbers.len() {
            self.numbers.resize(at + 1, 0);
        }
        self.numbers[at] = number;
    }
}

impl Driver for Medium {
    type Packet = Packet;

    /// Whole windows of many flows may come at one instant.
    const AT_ONCE_MAX: u32 = 1 << 22;

    const HAS_CHECKSUMS: bool = false;

    #[inline]
    fn bytes(&self, packet: &Packet) -> u32 {
        match self.headers.find(packet.header) {
            Some(header) => header.bytes,
            None => self.bytes_of_frame(*packet),
        }
    }

    #[inline]
    fn forwarding(&self, packet: &Packet) -> Forwarding {
        match self.headers.find(packet.header) {
            Some(header) => header.forwarding,
            None => self.forwarding_of_frame(*packet),
        }
    }

    fn set_forwarding(&mut self, packet: &mut Packet, forwarding: Forwarding) {
        if packet.is_frame() {
            self.frame_of_mut(*packet).forwarding = forwarding;
        } else {
            self.headers.set_forwarding(packet.header, forwarding);
        }
    }

    fn steer(&mut self, packet: &mut Packet, forwarding: Forwarding) {
        if packet.is_frame() {
            self.frame_of_mut(*packet).forwarding = forwarding;
        } else {
            packet.header = self.headers.steered(packet.header, forwarding.to);
        }
    }

    fn signature(&self, packet: &Packet) -> u64 {
        u64::from(packet.id)
    }

    fn tag(&self, packet: &Packet) -> Tag {
        if packet.is_frame() { self.frame_of(*packet).tag } else { Tag::Number(self.numbers[packet.id as usize]) }
    }

    fn set_tag(&mut self, packet: &mut Packet, tag: Tag) {
        match tag {
            _ if packet.is_frame() => self.frame_of_mut(*packet).tag = tag,
            Tag::Number(number) => self.number(*packet, number),
            Tag::None | Tag::Control => self.number(*packet, 0),
        }
    }

    fn destination(&self, packet: &Packet) -> [u8; 6] {
        match self.frame(packet) {
            Some(frame) => frame.first_chunk().copied().unwrap_or_default(),
            None => self.headers.destination(packet.header),
        }
    }

    fn source(&self, packet: &Packet) -> [u8; 6] {
        match self.frame(packet) {
            Some(frame) => frame.get(6..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default(),
            None => self.headers.source(packet.header),
        }
    }

    fn set_destination(&mut self, packet: &mut Packet, mac: [u8; 6]) {
        if !packet.is_frame() {
            packet.header = self.headers.with_destination(packet.header, mac);
        } else if let Some(destination) = self.frame_of_mut(*packet).bytes.first_chunk_mut() {
            *destination = mac;
        }
    }

    fn summary(&mut self, config: &Config, packet: &Packet) -> Summary {
        match self.frame(packet) {
            Some(frame) => Summary::of(config, frame),
            None => self.headers.summary(config.policy, packet.header),
        }
    }

    fn frame<'a>(&'a self, packet: &'a Packet) -> Option<&'a [u8]> {
        packet.is_frame().then(|| &*self.frame_of(*packet).bytes)
    }

    fn headers<'a>(&'a self, packet: &'a Packet) -> &'a [u8] {
        if packet.is_frame() { &self.frame_of(*packet).bytes } else { self.headers.bytes(packet.header) }
    }

    fn rewrite(&mut self, packet: &mut Packet, field: Field) -> Result<(), wire::Error> {
        if packet.is_frame() {
            return field.write(&mut self.frame_of_mut(*packet).bytes, Coverage::Complete);
        }
        packet.header = self.headers.with(packet.header, field)?;
        Ok(())
    }

    fn push_vlan(&mut self, packet: &mut Packet, tci: u16) -> Result<(), wire::Error> {
        if packet.is_frame() {
            let bytes = &mut self.frame_of_mut(*packet).bytes;
            EthernetPacket::new_checked(bytes)?;
            *bytes = [&bytes[..TAG_AT], &vlan_tag(tci), &bytes[TAG_AT..]].concat();
            return Ok(());
        }
        packet.header = self.headers.with_vlan(packet.header, tci)?;
        Ok(())
    }

    fn pop_vlan(&mut self, packet: &mut Packet) -> Result<(), wire::Error> {
        if packet.is_frame() {
            let bytes = &mut self.frame_of_mut(*packet).bytes;
            EthernetPacketMut::new_checked(bytes)?.set_vlan(0)?;
            *bytes = [&bytes[..TAG_AT], &bytes[TAG_AT + vlan_tag(0).len()..]].concat();
            return Ok(());
        }
        packet.header = self.headers.without_vlan(packet.header)?;
        Ok(())
    }

    fn push_mpls(&mut self, packet: &mut Packet, ethertype: u16, entry: u32) -> Result<(), wire::Error> {
        if packet.is_frame() {
            return wire::push_mpls(&mut self.frame_of_mut(*packet).bytes, ethertype, entry);
        }
        packet.header = self.headers.with_label(packet.header, ethertype, entry)?;
        Ok(())
    }

    fn pop_mpls(&mut self, packet: &mut Packet, ethertype: u16) -> Result<(), wire::Error> {
        if packet.is_frame() {
            return wire::pop_mpls(&mut self.frame_of_mut(*packet).bytes, ethertype);
        }
        packet.header = self.headers.without_label(packet.header, ethertype)?;
        Ok(())
    }

    /// Only what goes to services does, and that is frames.
    fn encapsulate(&mut self, packet: &mut Packet, at: usize, header: &[u8]) -> Result<(), wire::Error> {
        if !packet.is_frame() {
            return Err(wire::Error::Truncated { header: "frame", need: at, have: 0 });
        }
        self.frame_of_mut(*packet).bytes.splice(at..at, header.iter().copied());
        Ok(())
    }

    fn decapsulate(&mut self, packet: &mut Packet, at: usize, header: usize) -> Result<(), wire::Error> {
        self.frame_of_mut(*packet).bytes.drain(at..at + header);
        Ok(())
    }

    #[cold]
    fn observe(&mut self, port: NetPort, left: Time, arrives: Time, packet: &Packet) {
        let Self { capture: Some(capture), headers, packets, frames, .. } = self else { return };
        let seen = match headers.find(packet.header) {
            Some(header) => Seen::Packet {
                bytes: headers.known_bytes(packet.header),
                header,
                content: packets.content(packet.id),
                blocks: packets.blocks(packet.id),
                ecn: packets.ecn(packet.id),
                offer: packets.offer(packet.id),
            },
            None => match &frames[packet.id as usize] {
                Some(Frame { bytes, more, carried, .. }) => Seen::Frame { bytes, more: *more, carried: *carried },
                None => return,
            },
        };
        capture.note(port, (left, arrives), &seen);
    }

    fn transmit(&mut self, now: Time, end: &mut End<Packet>, packet: &mut Packet) -> (Transmit, u32) {
        if packet.is_frame() {
            return end.transmit_frame(now, &mut self.frame_of_mut(*packet).bytes);
        }
        let summary = self.headers.summary(end.bond().config().policy, packet.header);
        let (transmit, number) = end.transmit(now, &summary);
        if let Transmit::One(member) = transmit {
            let source = end.bond().source_on(member, summary.src_mac);
            if source != summary.src_mac {
                packet.header = self.headers.with_source(packet.header, source);
            }
        }
        (transmit, number)
    }

    /// In a simulation an external partner is simulated as a bond of Heddle.
    fn receive_from_external(
        &mut self,
        now: Time,
        end: &mut End<Packet>,
        member: MemberId,
        packet: Packet,
        out: &mut Vec<Packet>,
    ) -> Received<Packet> {
        let summary = self.summary(end.bond().config(), &packet);
        let back = end.receive(now, (member, 0), &summary, packet, &mut |packet| out.push(packet));
        Received { back, poll: false }
    }

    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        if packet.is_frame() {
            let copy = self.frame_of(*packet).clone();
            return Some(self.keep(copy));
        }
        let id = self.packets.copy(packet.id);
        let copy = Packet { id, ..*packet };
        if let Some(number) = self.numbers.get(packet.id as usize) {
            self.number(copy, *number);
        }
        Some(copy)
    }

    fn make(&mut self, frame: &[u8], forwarding: Forwarding, tag: Tag) -> Option<Packet> {
        Some(self.keep(Frame { bytes: frame.into(), more: 0, carried: None, forwarding, tag }))
    }

    fn make_like(&mut self, packet: &Packet, frame: &[u8], forwarding: Forwarding) -> Option<Packet> {
        let carried = self.carried(*packet);
        Some(self.keep(Frame { bytes: frame.into(), more: 0, carried, forwarding, tag: Tag::None }))
    }

    fn mark(&mut self, packet: &mut Packet) -> bool {
        !packet.is_frame() && self.packets.mark(packet.id)
    }

    /// What a flow sends has no bytes whose sum could be wrong: of a corrupted packet only a frame is left, to which its receiver does not listen.
    fn corrupt(&mut self, packet: &mut Packet, bits: u64) {
        if !packet.is_frame() {
            let mut bytes = self.headers.known_bytes(packet.header).to_vec();
            bytes.resize(self.bytes(packet) as usize, 0);
            let tag = self.numbers.get(packet.id as usize).map_or(Tag::None, |&number| Tag::Number(number));
            let frame = Frame { bytes, more: 0, carried: None, forwarding: self.forwarding(packet), tag };
            self.free(*packet);
            *packet = self.keep(frame);
        }
        let frame = self.frame_of_mut(*packet);
        frame.carried = None;
        wire::flip_bit(&mut frame.bytes, bits);
    }

    #[inline]
    fn free(&mut self, packet: Packet) {
        if packet.is_frame() {
            let freed = self.frames[packet.id as usize].take();
            self.free_frames.push(packet.id);
            self.room.extend(freed.map(|Frame { mut bytes, .. }| {
                bytes.clear();
                bytes
            }));
        } else {
            self.packets.take(packet.id);
        }
    }

    #[cold]
    fn count(&mut self, loss: Loss) {
        *self.lost.entry(loss.name()).or_insert(0) += 1;
    }

    #[inline]
    fn carry(&mut self, _: Time, at: Time, port: NetPort, packet: Packet) -> Option<Packet> {
        self.calendar.push(at, Event { packet: packet.id, header: packet.header, at: port.0 });
        None
    }

    fn hand_over(&mut self, _: Time, port: NetPort, _: Packet) {
        unreachable!("the graph is whole: {port:?} is a part of it");
    }

    /// Looks at every event: cables are pulled rarely.
    fn throw_away(&mut self, ports: [NetPort; 2]) -> [u64; 2] {
        let mut lost = [0; 2];
        let mut events = std::mem::take(&mut self.calendar);
        while let Some((at, event)) = events.pop() {
            match ports.iter().position(|port| event.at == port.0) {
                None => self.calendar.push(at, event),
                Some(port) => {
                    lost[port] += 1;
                    self.free(Packet { id: event.packet, header: event.header });
                }
            }
        }
        lost
    }

    fn deliver(&mut self, _: Time, port: NetPort, packet: Packet) {
        self.delivered.push((port, packet));
    }

    fn port_changed(&mut self, _: Time, _: NetPort, _: PortState) {
        self.has_new_ports = true;
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        let (header, kind) = match timer {
            Timer::End(end) => (end.0, BOND),
            Timer::Switch(switch) => (switch, SWITCH),
            Timer::Bridge(switch) => (BRIDGE | switch, SWITCH),
            Timer::Chains => (WATCHES, SWITCH),
            Timer::Balancers => (BALANCERS, SWITCH),
        };
        self.calendar.push(at, Event { packet: 0, header, at: kind });
    }
}

//! The driver of a network in which all takes no time, and packets are frames.

use std::collections::BTreeMap;

use bond::end::Received;
use bond::{Config, End, Framed, MemberId, Summary, Transmit};
use datapath::{Driver, Loss, Tag, Timer};
use machine::Time;
use topology::{NetPort, NodeId};
use vswitch::{Field, Forwarding};

/// A frame, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    pub(super) forwarding: Forwarding,
    pub(super) tag: Tag,
}

impl Framed for Packet {
    fn frame(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// Where all takes no time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub(super) timers: Vec<(Time, Timer)>,
    /// By which port, of which flow, and what.
    pub(super) heard: Vec<(NetPort, u64, Vec<u8>)>,
    pub(super) lost: Vec<Loss>,
    pub(super) forwarded: BTreeMap<(usize, NodeId), u64>,
    /// How many packets have been made, and how many have come to an end.
    pub(super) made: usize,
    pub(super) freed: usize,
}

impl Driver for Clock {
    type Packet = Packet;

    const AT_ONCE_MAX: u32 = 1 << 16;

    fn bytes(&self, packet: &Packet) -> u32 {
        packet.bytes.len() as u32
    }

    fn forwarding(&self, packet: &Packet) -> Forwarding {
        packet.forwarding
    }

    fn set_forwarding(&mut self, packet: &mut Packet, forwarding: Forwarding) {
        packet.forwarding = forwarding;
    }

    fn tag(&self, packet: &Packet) -> Tag {
        packet.tag
    }

    fn set_tag(&mut self, packet: &mut Packet, tag: Tag) {
        packet.tag = tag;
    }

    fn destination(&self, packet: &Packet) -> [u8; 6] {
        *packet.bytes.first_chunk().unwrap()
    }

    fn source(&self, packet: &Packet) -> [u8; 6] {
        *packet.bytes[6..].first_chunk().unwrap()
    }

    fn set_destination(&mut self, packet: &mut Packet, mac: [u8; 6]) {
        packet.bytes[..6].copy_from_slice(&mac);
    }

    fn summary(&mut self, _: &Config, packet: &Packet) -> Summary {
        Summary::of_arrival(&packet.bytes)
    }

    fn frame<'a>(&'a self, packet: &'a Packet) -> Option<&'a [u8]> {
        Some(&packet.bytes)
    }

    fn headers<'a>(&'a self, packet: &'a Packet) -> &'a [u8] {
        &packet.bytes
    }

    fn rewrite(&mut self, _: &mut Packet, _: Field) -> Result<(), wire::Error> {
        unreachable!("no switch has a pipeline")
    }

    fn push_vlan(&mut self, _: &mut Packet, _: u16) -> Result<(), wire::Error> {
        unreachable!("no switch has a pipeline")
    }

    fn pop_vlan(&mut self, _: &mut Packet) -> Result<(), wire::Error> {
        unreachable!("no switch has a pipeline")
    }

    fn push_mpls(&mut self, _: &mut Packet, _: u16, _: u32) -> Result<(), wire::Error> {
        unreachable!("no switch has a pipeline")
    }

    fn pop_mpls(&mut self, _: &mut Packet, _: u16) -> Result<(), wire::Error> {
        unreachable!("no switch has a pipeline")
    }

    fn transmit(&mut self, now: Time, end: &mut End<Packet>, packet: &mut Packet) -> (Transmit, u32) {
        end.transmit_frame(now, &mut packet.bytes)
    }

    fn transmit_burst(
        &mut self,
        now: Time,
        end: &mut End<Packet>,
        packets: &mut [Packet],
        chosen: &mut [Transmit],
    ) -> u32 {
        end.transmit_packets(now, packets, chosen)
    }

    fn receive_from_external(
        &mut self,
        now: Time,
        end: &mut End<Packet>,
        member: MemberId,
        packet: Packet,
        out: &mut Vec<Packet>,
    ) -> Received<Packet> {
        end.receive_frame(now, member, packet, &mut |packet| out.push(packet))
    }

    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        self.made += 1;
        Some(packet.clone())
    }

    fn make(&mut self, frame: &[u8], forwarding: Forwarding, tag: Tag) -> Option<Packet> {
        self.made += 1;
        Some(Packet { bytes: frame.to_vec(), forwarding, tag })
    }

    fn mark(&mut self, _: &mut Packet) -> bool {
        false
    }

    fn corrupt(&mut self, packet: &mut Packet, bits: u64) {
        unreachable!("no link here flips bit {bits} of {packet:?}");
    }

    fn free(&mut self, _: Packet) {
        self.freed += 1;
    }

    fn count(&mut self, loss: Loss) {
        self.lost.push(loss);
    }

    fn carry(&mut self, now: Time, at: Time, _: NetPort, packet: Packet) -> Option<Packet> {
        assert_eq!(at, now, "links take no time");
        Some(packet)
    }

    fn hand_over(&mut self, _: Time, port: NetPort, _: Packet) {
        unreachable!("the graph is whole: {port:?} is a part of it")
    }

    fn throw_away(&mut self, _: [NetPort; 2]) -> [u64; 2] {
        [0; 2]
    }

    fn deliver(&mut self, _: Time, port: NetPort, packet: Packet) {
        self.heard.push((port, packet.forwarding.hash.0, packet.bytes));
    }

    fn forwarded(&mut self, switch: usize, to: NodeId, packets: u64) {
        *self.forwarded.entry((switch, to)).or_insert(0) += packets;
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.timers.push((at, timer));
    }
}

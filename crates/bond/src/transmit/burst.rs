//! Packets that are ready together: what is the same for all of them is decided once, so that each policy has loops of its own in
//! which the compiler knows it.

use machine::Time;
use wire::protocol::ICMPV6;

use super::{DropReason, Framed, Transmit};
use crate::config::{HashPolicy, Mode};
use crate::hash::{self, Link};
use crate::summary::IGMP;
use crate::{Bond, Kind, Summary};

/// Whether a frame is surely IP, and neither of address resolution nor of membership in groups.
#[inline]
fn is_of_a_program(frame: &[u8]) -> bool {
    match *frame {
        // IPv4's protocol stands at 23, IPv6's next header at 20.
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, _, _, _, _, _, _, _, _, _, protocol, ..] => protocol != IGMP,
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, _, _, _, _, _, _, next_header, ..] => next_header != ICMPV6,
        _ => false,
    }
}

/// How a frame's link layer is hashed.
pub(crate) trait Hasher: Copy {
    fn hash(self, link: &Link<'_>) -> u32;
}

/// Some policy.
impl Hasher for Option<HashPolicy> {
    #[inline]
    fn hash(self, link: &Link<'_>) -> u32 {
        self.map_or(0, |policy| hash::of_link(policy, link))
    }
}

#[derive(Clone, Copy)]
struct Unhashed;
#[derive(Clone, Copy)]
struct Layer2;
#[derive(Clone, Copy)]
struct Layer23;
#[derive(Clone, Copy)]
struct Layer34;

impl Hasher for Unhashed {
    #[inline]
    fn hash(self, _: &Link<'_>) -> u32 {
        0
    }
}

impl Hasher for Layer2 {
    #[inline]
    fn hash(self, link: &Link<'_>) -> u32 {
        hash::of_link(HashPolicy::Layer2, link)
    }
}

impl Hasher for Layer23 {
    #[expect(clippy::inline_always, reason = "as for `hash::layer34`")]
    #[inline(always)]
    fn hash(self, link: &Link<'_>) -> u32 {
        hash::layer23(link)
    }
}

impl Hasher for Layer34 {
    #[expect(clippy::inline_always, reason = "as for `hash::layer34`")]
    #[inline(always)]
    fn hash(self, link: &Link<'_>) -> u32 {
        hash::layer34(link)
    }
}

impl Bond {
    /// [`Bond::transmit_frame`] for packets that are ready together. Nothing is read of a frame that the mode has no use for: where
    /// frames are hashed and nothing else, the host's addresses are not learned.
    ///
    /// # Panics
    /// If `chosen` is shorter than `packets`.
    pub fn transmit_packets<P: Framed>(&mut self, now: Time, packets: &mut [P], chosen: &mut [Transmit]) {
        match self.config.hashes_by() {
            None => self.send_burst(now, packets, chosen, Unhashed),
            Some(HashPolicy::Layer2) => self.send_burst(now, packets, chosen, Layer2),
            Some(HashPolicy::Layer23) => self.send_burst(now, packets, chosen, Layer23),
            Some(HashPolicy::Layer34) => self.send_burst(now, packets, chosen, Layer34),
            policy => self.send_burst(now, packets, chosen, policy),
        }
    }

    #[inline]
    fn send_burst<P: Framed>(&mut self, now: Time, packets: &mut [P], chosen: &mut [Transmit], hasher: impl Hasher) {
        let places = &mut chosen[..packets.len()];
        let mode = self.config.mode;
        let is_quick = !self.is_probing && !self.table.is_empty();
        match mode {
            Mode::BalanceRr if is_quick && self.config.packets_per_slave == 1 => {
                self.unread_burst(now, packets, places, |bond| {
                    bond.turn = bond.turn.wrapping_add(1);
                    let member = bond.table.by_number(bond.turn);
                    member.map_or(Transmit::None(DropReason::NoUsableMember), Transmit::One)
                });
            }
            Mode::ActiveBackup if is_quick && !self.is_renamed() && self.active.is_some() => {
                let place = self.active.map_or(Transmit::None(DropReason::NoUsableMember), Transmit::One);
                self.unread_burst(now, packets, places, |_| place);
            }
            Mode::Broadcast if is_quick => {
                let place = Transmit::All(self.table.set());
                self.unread_burst(now, packets, places, |_| place);
            }
            Mode::BalanceXor | Mode::Ad8023 if is_quick && self.balance.is_none() => {
                self.hash_burst(packets, places, hasher);
            }
            Mode::BalanceTlb if is_quick && self.config.tlb_dynamic_lb => {
                self.load_burst(now, packets, places, (hasher, false));
            }
            Mode::BalanceAlb if is_quick && self.config.tlb_dynamic_lb => {
                self.load_burst(now, packets, places, (hasher, true));
            }
            _ => {
                for (packet, place) in packets.iter_mut().zip(places) {
                    let frame = packet.frame();
                    let summary = Summary::read_with(hasher, mode == Mode::BalanceAlb, frame);
                    *place = self.transmit_read(now, &summary, frame);
                }
            }
        }
    }

    /// Modes that choose by nothing in the frame, while it says nothing about its host: what may is looked at.
    #[inline]
    fn unread_burst<P: Framed>(
        &mut self,
        now: Time,
        packets: &mut [P],
        places: &mut [Transmit],
        choose: impl Fn(&mut Self) -> Transmit,
    ) {
        for (packet, place) in packets.iter_mut().zip(places) {
            let frame = packet.frame();
            *place = if is_of_a_program(frame) {
                choose(self)
            } else {
                let summary = Summary::read_with(Unhashed, false, frame);
                self.transmit_read(now, &summary, frame)
            };
        }
    }

    #[inline]
    fn hash_burst<P: Framed>(&self, packets: &mut [P], places: &mut [Transmit], hasher: impl Hasher) {
        for (packet, place) in packets.iter_mut().zip(places) {
            let number = Link::of(packet.frame()).map_or(0, |link| hasher.hash(&link));
            let member = self.table.by_number(number);
            *place = member.map_or(Transmit::None(DropReason::NoUsableMember), Transmit::One);
        }
    }

    /// balance-tlb, or balance-alb (`by_peer`), while members are usable and nobody is probed.
    #[inline]
    fn load_burst<P: Framed>(
        &mut self,
        now: Time,
        packets: &mut [P],
        places: &mut [Transmit],
        (hasher, by_peer): (impl Hasher, bool),
    ) {
        for (packet, place) in packets.iter_mut().zip(places) {
            let frame = packet.frame();
            let summary = Summary::read_with(hasher, by_peer, frame);
            let bucket = if by_peer {
                summary.is_balanced_by_alb().then_some(summary.peer)
            } else {
                (summary.is_balanced_by_tlb() && summary.kind != Kind::Neighbour).then_some(summary.hash as u8)
            };
            let members = self.members.as_slice();
            let chosen = bucket.and_then(|bucket| self.tlb.choose(bucket, summary.bytes, &self.table, members));
            *place = match chosen {
                Some(member) => {
                    self.put_source(member, frame);
                    Transmit::One(member)
                }
                // What is not balanced may have to be looked at further.
                None => self.transmit_read(now, &summary, frame),
            };
        }
    }
}

//! Which member a frame leaves on: the path of every packet. The array of usable members is made when members change, so
//! that a packet costs a lookup and at most one reduction.

pub(crate) mod burst;
mod table;
pub(crate) mod tlb;

use machine::Time;

use crate::config::Mode;
use crate::{Bond, Kind, MemberId, MemberSet, Summary};

pub(crate) use table::Table;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// On this member.
    One(MemberId),
    /// A copy on each of these (broadcast).
    All(MemberSet),
    /// No member sends it.
    None(DropReason),
}

/// Why a frame is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// No member is usable.
    NoUsableMember,
    /// In 802.3ad, LACP lets no member distribute.
    NotDistributing,
}

/// A driver's packet whose bytes can be reached.
pub trait Framed {
    /// The Ethernet frame, from its destination address on, without frame check sequence. With segmentation offload it may be longer
    /// than any MTU.
    fn frame(&mut self) -> &mut [u8];
}

impl Bond {
    /// Chooses the member that sends a frame. In balance-tlb and balance-alb its source address must then be made
    /// [`Bond::source_mac`] of the chosen member; [`Bond::transmit_frame`] does it.
    #[inline]
    pub fn transmit(&mut self, now: Time, frame: &Summary) -> Transmit {
        let chosen = match self.config.mode {
            Mode::BalanceRr => self.in_turn(frame),
            Mode::ActiveBackup => self.active,
            Mode::BalanceXor | Mode::Ad8023 => self.by_hash(now, frame),
            Mode::Broadcast if self.table.is_empty() => None,
            Mode::Broadcast => return self.copies(now),
            Mode::BalanceTlb => {
                let bucket = frame.is_balanced_by_tlb().then_some(frame.hash as u8);
                self.by_load(now, frame, bucket)
            }
            Mode::BalanceAlb => {
                let bucket = frame.is_balanced_by_alb().then_some(frame.peer);
                self.by_load(now, frame, bucket)
            }
        };
        match chosen {
            Some(member) => {
                if self.is_probing {
                    self.monitor.sent(now, member);
                }
                Transmit::One(member)
            }
            None => Transmit::None(self.why_nobody()),
        }
    }

    /// [`Bond::transmit`] for frames that are ready together. Both slices have the same length.
    ///
    /// # Panics
    /// If `chosen` is shorter than `frames`.
    pub fn transmit_burst(&mut self, now: Time, frames: &[Summary], chosen: &mut [Transmit]) {
        let chosen = &mut chosen[..frames.len()];
        for (frame, place) in frames.iter().zip(chosen) {
            *place = self.transmit(now, frame);
        }
    }

    #[cold]
    fn why_nobody(&self) -> DropReason {
        let ad = self.config.mode == Mode::Ad8023 && self.members().any(|(_, member)| member.is_usable());
        if ad { DropReason::NotDistributing } else { DropReason::NoUsableMember }
    }

    /// balance-rr. The counter runs before it is used, as the driver's does: the first frame goes to the second member.
    #[inline]
    fn in_turn(&mut self, frame: &Summary) -> Option<MemberId> {
        if frame.kind == Kind::Igmp {
            return self.active.or_else(|| self.table.by_number(0));
        }
        let turn = match self.config.packets_per_slave {
            1 => {
                self.turn = self.turn.wrapping_add(1);
                self.turn
            }
            0 => self.rng.bits() as u32,
            packets => {
                self.turn = self.turn.wrapping_add(1);
                self.turn / u32::from(packets)
            }
        };
        let chosen = self.table.by_number(turn);
        if chosen.is_none() {
            // What nobody sends takes no turn: the kernel does not ask a driver whose device has no carrier.
            self.turn = self.turn.wrapping_sub(u32::from(self.config.packets_per_slave != 0));
        }
        chosen
    }

    #[inline]
    fn by_hash(&mut self, now: Time, frame: &Summary) -> Option<MemberId> {
        match &mut self.balance {
            Some(balance) => balance.choose(now, frame),
            None => self.table.by_number(frame.hash),
        }
    }

    #[inline]
    fn copies(&mut self, now: Time) -> Transmit {
        if self.is_probing {
            for member in self.table.set().iter() {
                self.monitor.sent(now, member);
            }
        }
        Transmit::All(self.table.set())
    }

    /// `bucket` is none for frames that stay on the active member.
    #[inline]
    fn by_load(&mut self, now: Time, frame: &Summary, bucket: Option<u8>) -> Option<MemberId> {
        match bucket {
            Some(bucket) if self.config.tlb_dynamic_lb => {
                self.tlb.choose(bucket, frame.bytes, &self.table, self.members.as_slice()).or(self.active)
            }
            Some(_) => self.by_hash(now, frame).or(self.active),
            None => {
                self.tlb.unbalanced(frame.bytes);
                self.active
            }
        }
    }
}

//! What a link does to packets.

use std::num::NonZeroU32;

use machine::Span;
use serde::Serialize;

/// What a link does to packets, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkSpec {
    /// Bits a second; `None`: as fast as the machine goes.
    pub rate_bps: Option<u64>,
    /// Propagation delay.
    pub delay: Span,
    /// How many packets wait behind the one in transmission; the next one is dropped. `None`: no bound of its own
    /// (only links without a rate, on which nothing waits).
    pub queue_packets: Option<u32>,
    /// A packet that finds so many waiting is marked (CE, RFC 3168), if its sender understands that. `None`: none is. Only links with a rate have a use for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_packets: Option<NonZeroU32>,
    /// Bytes that each packet takes on the wire besides its own, as `overhead` of tc-stab(8): Ethernet's preamble, start of frame,
    /// checksum and gap are 24. Only links with a rate have a use for it.
    #[serde(skip_serializing_if = "is_zero")]
    pub overhead_bytes: u32,
    /// How long a host's card collects what comes to it before it interrupts (`rx-usecs` of ethtool(8)), in nanoseconds: the first packet that comes
    /// while none waits begins that time, and at its end all that came are handed over. Zero: each at once.
    #[serde(skip_serializing_if = "is_zero")]
    pub coalesce_ns: u32,
    /// How many of a thousand million packets are lost on the way, at random and each by itself, as `loss random` of tc-netem(8). They have taken their time to be
    /// sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub loss_ppb: u32,
    /// By how many nanoseconds at most the delay of a packet is shorter or longer, as `delay TIME JITTER` of tc-netem(8): each is as likely. None arrives before it
    /// was sent, and none overtakes another.
    #[serde(skip_serializing_if = "is_zero")]
    pub jitter_ns: u32,
    /// How many of a thousand million packets come twice, as `duplicate` of tc-netem(8). The second one is sent as any packet is, and never comes twice again.
    #[serde(skip_serializing_if = "is_zero")]
    pub duplicate_ppb: u32,
    /// How many of a thousand million packets have a bit flipped on the way, as `corrupt` of tc-netem(8).
    #[serde(skip_serializing_if = "is_zero")]
    pub corrupt_ppb: u32,
    /// How many of a thousand million packets don't take the delay, and so overtake what was sent before, as `reorder` of tc-netem(8). Only links with a delay
    /// have a use for it.
    #[serde(skip_serializing_if = "is_zero")]
    pub reorder_ppb: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl LinkSpec {
    /// As fast as the machine goes.
    pub const UNSHAPED: Self = Self {
        rate_bps: None,
        delay: Span::ZERO,
        queue_packets: None,
        ecn_packets: None,
        overhead_bytes: 0,
        coalesce_ns: 0,
        loss_ppb: 0,
        jitter_ns: 0,
        duplicate_ppb: 0,
        corrupt_ppb: 0,
        reorder_ppb: 0,
    };

    /// Nothing leaves, and nobody may wait.
    pub(crate) const NO_CARRIER: Self = Self { rate_bps: Some(1), queue_packets: Some(0), ..Self::UNSHAPED };

    /// What a packet of `bytes` takes on the wire, in bytes.
    #[inline]
    pub(crate) const fn on_wire(&self, bytes: u32) -> u32 {
        bytes.saturating_add(self.overhead_bytes)
    }

    /// Whether it has what few links have: to all others, a packet takes its bytes and the overhead, and then the delay.
    pub(crate) const fn is_special(&self) -> bool {
        self.coalesce_ns > 0 || self.is_random()
    }

    /// The longest time that a packet waits in the receiver's card.
    pub const fn coalesce(&self) -> Span {
        Span::from_ns(self.coalesce_ns as u64)
    }

    /// The same of a direction that leads to no host: only hosts have such cards.
    #[must_use]
    pub const fn towards_switch(self) -> Self {
        Self { coalesce_ns: 0, ..self }
    }

    /// By how much the delay of a packet is shorter or longer at most.
    pub const fn jitter(&self) -> Span {
        Span::from_ns(self.jitter_ns as u64)
    }

    /// Whether what happens to a packet is a matter of chance.
    pub const fn is_random(&self) -> bool {
        let Self { loss_ppb, jitter_ns, duplicate_ppb, corrupt_ppb, reorder_ppb, .. } = *self;
        (loss_ppb | jitter_ns | duplicate_ppb | corrupt_ppb | reorder_ppb) > 0
    }

    /// Whether packets are delayed, limited or lost at all.
    pub const fn is_shaped(&self) -> bool {
        self.rate_bps.is_some() || self.delay.as_ps() > 0 || self.is_special()
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self::UNSHAPED
    }
}

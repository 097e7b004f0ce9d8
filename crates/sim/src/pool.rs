//! Contents in flight as plain data, addressed by small numbers.

use machine::Time;
use transport::segment::Blocks;
use transport::{Ecn, Offer, Segment};

/// The end of the free list.
const NIL: u32 = u32::MAX;

/// A segment or an acknowledgement, as far as the ends care; what the way needs is its header's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    /// Sequence number or cumulative acknowledgement. Of an unused packet: the next unused one.
    pub(crate) number: u64,
    /// When it was sent, or the echo of that.
    pub(crate) stamp: Time,
}

/// Set in the number of a segment that is pushed.
const PUSH: u64 = 1 << 63;

impl Content {
    /// [`Content::number`] of a packet that closes a connection.
    pub(crate) const FIN: u64 = Segment::SYN_ANSWERED - 1;
    /// The same of the one that acknowledges the last of them.
    pub(crate) const CLOSED: u64 = Self::FIN - 1;

    #[inline]
    pub(crate) const fn of_segment(segment: Segment) -> Self {
        let Segment { seq, stamp, push, ecn: _, echo: _ } = segment;
        Self { number: if push { seq | PUSH } else { seq }, stamp }
    }

    #[inline]
    pub(crate) const fn segment(self, ecn: Ecn, echo: u32) -> Segment {
        let Self { number, stamp } = self;
        let whole = Segment { seq: number, stamp, push: false, ecn, echo };
        if whole.carries_data() { Segment { seq: number & !PUSH, push: number & PUSH != 0, ..whole } } else { whole }
    }
}

/// All packets in flight. Its size is the most that were in flight at once.
#[derive(Debug)]
pub(crate) struct Pool {
    packets: Vec<Content>,
    /// Blocks of the acknowledgements, by the same numbers; empty without selective acknowledgement.
    blocks: Vec<Blocks>,
    selective: bool,
    /// What they say about congestion, by the same numbers; empty without notification.
    ecn: Vec<Ecn>,
    notifies: bool,
    /// What acknowledgements say about windows, and what segments echo of that, by the same numbers; empty where windows are fixed.
    offers: Vec<Offer>,
    is_tuned: bool,
    free: u32,
    used: u32,
}

impl Pool {
    pub(crate) const fn new(selective: bool, notifies: bool, is_tuned: bool) -> Self {
        Self {
            packets: Vec::new(),
            blocks: Vec::new(),
            selective,
            ecn: Vec::new(),
            notifies,
            offers: Vec::new(),
            is_tuned,
            free: NIL,
            used: 0,
        }
    }

    /// A packet leaves; `blocks` of an acknowledgement, whatever else it is leaves them alone.
    #[inline]
    pub(crate) fn put(&mut self, packet: Content, blocks: Option<&Blocks>, ecn: Ecn) -> u32 {
        self.used += 1;
        let id = self.free;
        let id = if let Some(place) = self.packets.get_mut(id as usize) {
            self.free = place.number as u32;
            *place = packet;
            id
        } else {
            self.grow(packet)
        };
        if self.selective
            && let Some(blocks) = blocks
        {
            self.blocks[id as usize] = *blocks;
        }
        if self.notifies {
            self.ecn[id as usize] = ecn;
        }
        id
    }

    /// As many have never been in flight at once.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, packet: Content) -> u32 {
        self.packets.push(packet);
        if self.selective {
            self.blocks.push(Blocks::NONE);
        }
        if self.notifies {
            self.ecn.push(Ecn::NONE);
        }
        if self.is_tuned {
            self.offers.push(Offer::NONE);
        }
        self.packets.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn take(&mut self, id: u32) -> Content {
        self.used -= 1;
        let place = &mut self.packets[id as usize];
        let packet = *place;
        place.number = u64::from(self.free);
        self.free = id;
        packet
    }

    /// A packet that is in flight, for whoever looks at it on its way.
    pub(crate) fn content(&self, id: u32) -> Content {
        self.packets[id as usize]
    }

    /// Blocks of a packet that was just taken, or is in flight.
    #[inline]
    pub(crate) fn blocks(&self, id: u32) -> Blocks {
        if self.selective { self.blocks[id as usize] } else { Blocks::NONE }
    }

    /// What a packet that was just taken says about congestion.
    #[inline]
    pub(crate) fn ecn(&self, id: u32) -> Ecn {
        if self.notifies { self.ecn[id as usize] } else { Ecn::NONE }
    }

    /// What a packet that has just left says about windows.
    #[inline]
    pub(crate) fn set_offer(&mut self, id: u32, offer: Offer) {
        if self.is_tuned {
            self.offers[id as usize] = offer;
        }
    }

    /// What a packet that was just taken says about windows.
    #[inline]
    pub(crate) fn offer(&self, id: u32) -> Offer {
        if self.is_tuned { self.offers[id as usize] } else { Offer::NONE }
    }

    /// A packet has found a long queue. Whether it could be marked.
    pub(crate) fn mark(&mut self, id: u32) -> bool {
        self.ecn.get_mut(id as usize).is_some_and(Ecn::mark)
    }

    /// Another packet like this one.
    pub(crate) fn copy(&mut self, id: u32) -> u32 {
        let packet = self.packets[id as usize];
        let blocks = self.blocks(id);
        let copy = self.put(packet, Some(&blocks), self.ecn(id));
        self.set_offer(copy, self.offer(id));
        copy
    }

    /// How many packets are in flight.
    #[cfg(test)]
    pub(crate) const fn used(&self) -> u32 {
        self.used
    }
}

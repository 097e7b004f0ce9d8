//! Snapshots between servers: in chunks, a few on the way at a time, while everything else goes on.

use std::collections::{BTreeMap, VecDeque};

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;

use crate::content::{Builder, Content, Reader};
use crate::message::{RaftMessage, SnapshotMeta};
pub use crate::peer::Chunk;
use crate::peer::Item;
use crate::status::Refused;

/// Chunks that may be on their way and not confirmed.
const WINDOW: usize = 8;

/// A chunk that is not confirmed for so long is sent again.
const RESEND: Span = Span::from_ms(200);

/// A transfer in which nothing happens for so long is over.
const GIVE_UP: Span = Span::from_secs(5);

/// Snapshots being sent at most; what Raft wants to have sent beyond is asked for again. Each holds a window of chunks in memory, a
/// megabyte and a little, which the memory budget does not count.
const SENDING_MAX: usize = 32;

/// Snapshots being received at most; others wait for their sender to try again.
const RECEIVING_MAX: usize = 16;

/// Of these, from one server at most.
const RECEIVING_FROM_ONE_MAX: usize = 8;

/// A transfer that another server has begun is left to it for so long after its last part.
const CONTESTED_AFTER: Span = Span::from_secs(1);

/// A snapshot being sent.
struct Sending {
    to: ServerId,
    group: ShardId,
    reader: Reader,
    message: Option<RaftMessage>,
    /// Read ahead by one, to know which is the last.
    ahead: Option<Vec<u8>>,
    unconfirmed: VecDeque<Chunk>,
    next: u32,
    sent: Time,
    progress: Time,
}

/// A snapshot being received.
struct Receiving {
    from: ServerId,
    transfer: u64,
    builder: Builder,
    next: u32,
    bytes: u64,
    progress: Time,
}

/// A snapshot that is there as a whole.
pub(crate) struct Received {
    pub(crate) from: ServerId,
    pub(crate) group: ShardId,
    pub(crate) message: RaftMessage,
    pub(crate) meta: SnapshotMeta,
    pub(crate) content: Content,
}

/// All transfers of one server.
#[derive(Default)]
pub(crate) struct Snapshots {
    sending: BTreeMap<u64, Sending>,
    receiving: BTreeMap<ShardId, Receiving>,
    /// The number of the newest transfer from here.
    transfers: u64,
    /// There was no room to send these.
    put_off: Vec<(ShardId, ServerId)>,
    pub(crate) sent: u64,
}

impl Snapshots {
    /// Numbers go on after a restart where no transfer can be mistaken for one from before it: a receiver that had some of that one's parts
    /// would take the rest from this one, and have a snapshot of what never was.
    pub(crate) fn start_at(&mut self, number: u64) {
        self.transfers = number;
    }

    /// Begins to send a group's content, unless that peer is getting it already.
    pub(crate) fn send(
        &mut self,
        now: Time,
        (to, group): (ServerId, ShardId),
        mut reader: Reader,
        message: RaftMessage,
        out: &mut Vec<(ServerId, Item)>,
    ) {
        if self.sending.values().any(|sending| sending.to == to && sending.group == group) {
            return;
        }
        if self.sending.len() >= SENDING_MAX {
            self.put_off.push((group, to));
            return;
        }
        self.transfers += 1;
        let ahead = reader.next();
        let message = Some(message);
        let sending = Sending {
            to,
            group,
            reader,
            message,
            ahead,
            unconfirmed: VecDeque::new(),
            next: 0,
            sent: now,
            progress: now,
        };
        let sending = self.sending.entry(self.transfers).or_insert(sending);
        sending.fill(self.transfers, now, out);
    }

    /// A peer confirms chunks. Gives group, receiver and whether all of it arrived, when the transfer ends.
    pub(crate) fn taken(
        &mut self,
        now: Time,
        (from, transfer): (ServerId, u64),
        (next, refused): (u32, bool),
        out: &mut Vec<(ServerId, Item)>,
    ) -> Option<(ShardId, ServerId, bool)> {
        let sending = self.sending.get_mut(&transfer).filter(|sending| sending.to == from)?;
        while sending.unconfirmed.front().is_some_and(|chunk| chunk.number < next) {
            sending.unconfirmed.pop_front();
            sending.progress = now;
        }
        sending.fill(transfer, now, out);
        let done = sending.unconfirmed.is_empty() && sending.ahead.is_none();
        if !done && !refused {
            return None;
        }
        let sending = self.sending.remove(&transfer)?;
        self.sent += u64::from(done);
        Some((sending.group, sending.to, done))
    }

    /// Sends again what may be lost; gives the transfers that have failed.
    pub(crate) fn tick(&mut self, now: Time, out: &mut Vec<(ServerId, Item)>) -> Vec<(ShardId, ServerId)> {
        let mut failed = std::mem::take(&mut self.put_off);
        self.sending.retain(|_, sending| {
            if now.since(sending.progress) > GIVE_UP {
                failed.push((sending.group, sending.to));
                return false;
            }
            if now.since(sending.sent) > RESEND {
                sending.sent = now;
                out.extend(sending.unconfirmed.iter().map(|chunk| (sending.to, Item::Snapshot(chunk.clone()))));
            }
            true
        });
        self.receiving.retain(|_, receiving| now.since(receiving.progress) <= GIVE_UP);
        failed
    }

    /// A chunk came in. Gives the whole, with the last.
    ///
    /// # Errors
    /// It does not fit, or is too much.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        from: ServerId,
        chunk: Chunk,
        bytes_max: u64,
        out: &mut Vec<(ServerId, Item)>,
    ) -> Result<Option<Received>, Refused> {
        let transfer = chunk.transfer;
        let confirm = |next, refused| (from, Item::SnapshotTaken { transfer, next, refused });
        let known = self.receiving.get(&chunk.group).is_some_and(|it| it.from == from && it.transfer == transfer);
        if !known {
            if chunk.number != 0 || !self.has_room(now, from, chunk.group) {
                // Of a transfer that is over, or begun before this server was started, or one too many.
                out.push(confirm(0, true));
                return Ok(None);
            }
            let builder = Builder::new(chunk.group);
            let receiving = Receiving { from, transfer, builder, next: 0, bytes: 0, progress: now };
            self.receiving.insert(chunk.group, receiving);
        }
        let receiving = self.receiving.get_mut(&chunk.group).expect("it was just made");
        if chunk.number == receiving.next {
            receiving.bytes = receiving.bytes.saturating_add(chunk.bytes.len() as u64);
            let fits = receiving.bytes <= bytes_max && (1..=wal::CHUNK_BYTES_MAX).contains(&chunk.bytes.len());
            if !fits || receiving.next == u32::MAX || receiving.builder.push(&chunk.bytes).is_err() {
                self.receiving.remove(&chunk.group);
                out.push(confirm(0, true));
                return Err(Refused::Snapshot);
            }
            receiving.next += 1;
            receiving.progress = now;
        }
        out.push(confirm(receiving.next, false));
        let last = chunk.number.checked_add(1) == Some(receiving.next);
        let Some(message) = chunk.message.filter(|_| last) else { return Ok(None) };
        let receiving = self.receiving.remove(&chunk.group).ok_or(Refused::Snapshot)?;
        let meta = message.snapshot().ok_or(Refused::Snapshot)?.clone();
        let content = receiving.builder.finish().map_err(|_| Refused::Snapshot)?;
        Ok(Some(Received { from, group: chunk.group, message, meta, content }))
    }

    /// Whether a server may begin to send a snapshot of this group. Nobody takes all places, nor another's while that goes on.
    fn has_room(&self, now: Time, from: ServerId, group: ShardId) -> bool {
        if let Some(other) = self.receiving.get(&group) {
            return other.from == from || now.since(other.progress) > CONTESTED_AFTER;
        }
        let of_one = self.receiving.values().filter(|it| it.from == from).count();
        self.receiving.len() < RECEIVING_MAX && of_one < RECEIVING_FROM_ONE_MAX
    }
}

impl Sending {
    fn fill(&mut self, transfer: u64, now: Time, out: &mut Vec<(ServerId, Item)>) {
        while self.unconfirmed.len() < WINDOW {
            let Some(bytes) = self.ahead.take() else { break };
            self.ahead = self.reader.next();
            let message = if self.ahead.is_none() { self.message.take() } else { None };
            let chunk = Chunk { transfer, group: self.group, number: self.next, bytes, message };
            self.next += 1;
            self.sent = now;
            out.push((self.to, Item::Snapshot(chunk.clone())));
            self.unconfirmed.push_back(chunk);
        }
    }
}

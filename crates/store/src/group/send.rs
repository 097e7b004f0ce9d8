//! What Raft has to say to other servers.

use machine::ServerId;
use raft::eraftpb::Message;

use super::replica::{APPEND_BYTES_MAX, Group};
use crate::effects::Effects;
use crate::message::RaftMessage;
use crate::peer::Item;

/// The newest message to a server in the round: where it is among the items, and the bytes of its entries.
struct Newest {
    to: ServerId,
    place: usize,
    bytes: usize,
}

/// A message in parts that others take, one behind the other.
fn parts(message: RaftMessage) -> impl Iterator<Item = RaftMessage> {
    let mut rest = Some(message);
    std::iter::from_fn(move || {
        let mut part = rest.take()?;
        rest = part.split_off();
        Some(part)
    })
}

impl Group {
    /// Raft appends each proposal by itself, and says by itself what is committed. What belongs together goes in one message: it costs who gets
    /// it one step, one write and one answer.
    pub(super) fn send(&mut self, messages: Vec<Message>, effects: &mut Effects) {
        let mut newest: Vec<Newest> = Vec::new();
        let messages = messages.into_iter().filter_map(|message| {
            let to = ServerId(message.to);
            Some((to, RaftMessage::of(message)?))
        });
        for (to, mut message) in messages.flat_map(|(to, message)| parts(message).map(move |part| (to, part))) {
            let bytes = message.weight();
            let before = newest.iter().position(|newest| newest.to == to);
            if let Some(newest) = before.map(|before| &mut newest[before])
                && newest.bytes + bytes <= APPEND_BYTES_MAX
                && let (_, Item::Raft { message: earlier, .. }) = &mut effects.items[newest.place]
                && earlier.absorb(&mut message)
            {
                newest.bytes += bytes;
                continue;
            }
            let Some(message) = self.hold_back(to, message) else { continue };
            newest.retain(|newest| newest.to != to);
            if let Some(place) = self.push(to, message, effects) {
                newest.push(Newest { to, place, bytes });
            }
        }
    }

    /// A message that leaves; gives its place among the items, if it is one.
    pub(super) fn push(&mut self, to: ServerId, message: RaftMessage, effects: &mut Effects) -> Option<usize> {
        if message.is_hand_over() {
            self.lease.give_up(message.term());
        }
        if let Some(what) = message.asks() {
            self.limits.note_asked(message.term(), to, what);
        }
        if message.snapshot().is_some() {
            effects.snapshots.push((to, self.id, message));
            return None;
        }
        effects.items.push((to, Item::Raft { group: self.id, message }));
        Some(effects.items.len() - 1)
    }
}

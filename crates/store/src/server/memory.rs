//! What this server holds for others ([`crate::budget`]), and what it says when that is too much.

use machine::nanos::Time;
use serde::Serialize;

use super::operations::{Operation, Origin};
use super::{About, ClientId, Output, Server};
use crate::budget::{Kind, Owner, Usage};
use crate::protocol::{Admin, Answer, Error, FRAME_MAX, RequestBody, Response, ServerMessage};
use crate::read::Read;

/// What a request costs beside its data: its place in tables, and a short answer.
const REQUEST_BYTES: usize = 512;

/// An answer that is no longer is owed in any case: its request has paid for it.
pub(super) const SHORT_ANSWER_BYTES: usize = REQUEST_BYTES;

/// Watches themselves, without the events that wait for them, have this part of the memory at most.
pub(super) const FOR_WATCHES: usize = 8;

/// While so much waits to be sent to a client, it is sent no events of watches.
pub(super) const WATCH_ROOM: usize = 256 << 10;

impl Operation {
    /// Bytes that it holds, about.
    pub(super) fn bytes(&self) -> usize {
        use super::operations::Task;
        REQUEST_BYTES
            + match &self.task {
                Task::Propose(data) | Task::Force(data) => data.len(),
                Task::Read(Read::Export { except, .. }, _) => except.iter().map(|path| path.as_str().len() + 24).sum(),
                Task::Read(..) | Task::MoveLeader(_) | Task::Lease(_) | Task::Confirm => 0,
            }
    }

    /// Whose share of the memory it counts in.
    pub(super) fn owner(&self) -> Owner {
        match self.origin {
            Origin::Client { client, .. } => Owner::Client(client),
            Origin::There(server, _) => Owner::Peer(server),
            Origin::Move(..) | Origin::Confirm | Origin::Upkeep => Owner::Server,
        }
    }
}

impl Server {
    /// What is held for others now.
    pub fn memory(&self) -> Usage {
        self.budget.usage()
    }

    /// What watches take by themselves of [`Self::memory`], without events that wait to be delivered: bytes.
    pub fn watch_bytes(&self) -> usize {
        self.watches.bytes()
    }

    /// Calls that providers here were asked to carry out, for callers here and elsewhere, and that have not ended.
    pub fn deliveries_under_way(&self) -> usize {
        self.calls.rpc.deliveries_under_way()
    }

    /// Places that requests and RPCs take, which have no answer yet.
    pub const fn places_taken(&self) -> usize {
        self.operations.places.used() + self.calls.used()
    }

    /// Whether more should be read of what a client sends: not while it leaves its answers unread, or has asked for as much
    /// as it may. Answers to RPCs come by the same way, so that what a call holds does not count.
    pub fn may_read(&self, client: ClientId) -> bool {
        let owner = Owner::Client(client);
        let (asked, unread) = (self.budget.of(owner, Kind::Requests), self.budget.of(owner, Kind::Answers));
        let scarce = self.budget.used() > self.budget.limit() / 8 * 7;
        unread < WATCH_ROOM && asked < self.budget.share() / 2 && !(scarce && unread > 0)
    }

    /// Bytes that were copied for answers, whether there was room for these or not: what a turn of one client costs the others.
    pub const fn read_bytes(&self) -> u64 {
        self.reads.bytes()
    }

    /// Bytes of messages to a client that are not known to be sent.
    pub fn unread_bytes(&self, client: ClientId) -> usize {
        self.budget.of(Owner::Client(client), Kind::Answers)
    }

    /// Whether there is something to be carried out.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The driver says how much of a client's messages waits to be sent: each time that there was a message, once all
    /// that can be sent is sent, and whenever more could be.
    pub(super) fn client_waits(&mut self, client: ClientId, bytes: usize) {
        self.budget.set(Owner::Client(client), Kind::Answers, bytes);
        if bytes < WATCH_ROOM {
            self.resume_watches(client);
        }
    }

    /// Something for a client. That there is room for it was seen to before.
    pub(super) fn send_to_client(&mut self, client: ClientId, message: ServerMessage, about: About) {
        self.budget.add(Owner::Client(client), Kind::Answers, message_bytes(&message));
        self.outbox.push(Output::Client { client, message, about });
    }

    /// Whether a client waits for the answer to anything.
    pub fn owes_answers(&self, client: ClientId) -> bool {
        self.operations.places.of(client) + self.calls.of(client) > 0
    }

    /// Whether there is room for what a client asks.
    pub(super) fn check_room(&mut self, now: Time, client: ClientId, body: &RequestBody) -> Result<(), Error> {
        // Whoever wants less is always heard.
        if matches!(body, RequestBody::Unwatch { .. } | RequestBody::Admin(Admin::Status)) {
            return Ok(());
        }
        let bytes = request_bytes(body);
        let kind = if matches!(body, RequestBody::Call { .. }) { Kind::Calls } else { Kind::Requests };
        if self.budget.admits(Owner::Client(client), bytes) {
            return Ok(());
        }
        self.budget.note_refused(kind);
        Err(self.overloaded(now, "it holds as many requests as it may"))
    }

    /// The answer, if there is room for it; else that there is none.
    pub(super) fn fit_answer(
        &mut self,
        now: Time,
        client: ClientId,
        result: Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let Ok(answer) = &result else { return result };
        let bytes = answer_bytes(answer);
        self.reads.add(bytes);
        if bytes <= SHORT_ANSWER_BYTES || self.budget.admits(Owner::Client(client), bytes) {
            return result;
        }
        self.budget.note_refused(Kind::Answers);
        if matches!(answer, Answer::Output(_)) {
            // It was carried out: to come back would do it again.
            return Err(Error::Rpc(format!("it was carried out, and its output of {bytes} bytes finds no room here")));
        }
        Err(self.overloaded(now, "it holds as many answers as it may"))
    }

    /// What is said to whoever should come back later.
    pub(super) fn overloaded(&mut self, now: Time, reason: &str) -> Error {
        let retry_after_ms = self.budget.retry_after_ms(now);
        Error::Overloaded { retry_after_ms, reason: reason.to_owned() }
    }

    /// Whether another entry may be proposed here.
    pub(super) fn may_propose(&self, bytes: usize) -> bool {
        self.budget.of_kind(Kind::Proposals) + bytes <= self.budget.share()
    }

    /// Nothing more is held for a client.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        let owner = Owner::Client(client);
        self.budget.set(owner, Kind::Answers, 0);
        debug_assert_eq!(self.budget.of_owner(owner), 0, "something is still held for {client:?}");
    }
}

/// Bytes of a request, about.
pub(super) fn request_bytes(body: &RequestBody) -> usize {
    REQUEST_BYTES
        + match body {
            RequestBody::Write(transaction) => transaction_bytes(transaction),
            RequestBody::WriteOrElse { transaction, otherwise } => {
                let values = otherwise
                    .iter()
                    .map(|change| change.at().path.as_str().len() + 16 + change.value().map_or(0, |value| value.len()));
                transaction_bytes(transaction) + values.sum::<usize>()
            }
            RequestBody::Call { name, input, .. } => name.len() + input.len(),
            RequestBody::Offer { offers } => {
                let path = |path: &Option<tree::Path>| path.as_ref().map_or(0, |path| path.as_str().len());
                offers.iter().map(|(name, at)| name.len() + path(at) + 64).sum()
            }
            RequestBody::Admin(Admin::Placement(command)) => command.encode().len(),
            RequestBody::Admin(Admin::Join { name, address, .. }) => name.len() + address.len(),
            // In memory an entry of a map takes more than on the wire.
            RequestBody::Watch { at, from } => at.path.as_str().len() + 64 * from.len(),
            _ => 0,
        }
}

/// Bytes of a transaction, about.
fn transaction_bytes(transaction: &tree::Transaction) -> usize {
    let values = transaction.changes.iter().filter_map(tree::Change::value).map(|value| value.len());
    let expected =
        transaction.conditions.iter().map(|condition| condition.expect.bytes().map_or(0, |value| value.len()));
    let paths = transaction.locations().map(|at| at.path.as_str().len() + 16);
    values.chain(expected).chain(paths).sum()
}

/// Bytes of an answer, about.
fn answer_bytes(answer: &Answer) -> usize {
    match answer {
        Answer::Value(_) | Answer::Values { .. } => crate::read::answer_bytes(answer),
        Answer::Output(bytes) => bytes.len(),
        Answer::Chunk { entries, .. } => {
            entries.iter().map(|entry| entry.at.path.as_str().len() + entry.value.bytes.len() + 64).sum()
        }
        // What was asked is done, and nothing else may be said of it, however long that is: at most what the map has of servers and shards.
        Answer::Written { .. }
        | Answer::Otherwise { .. }
        | Answer::Done
        | Answer::Joined { .. }
        | Answer::Admitted { .. }
        | Answer::Placed(_)
        | Answer::Window { .. }
        | Answer::Watching { .. } => 0,
        Answer::Kept { .. }
        | Answer::Leases { .. }
        | Answer::Status(_)
        | Answer::Identity { .. }
        | Answer::Access(_)
        | Answer::Disk(_)
        | Answer::StoppedReplicas(_)
        | Answer::Health(_)
        | Answer::Alarms(_) => encoded_bytes(answer),
    }
}

fn encoded_bytes(value: &impl Serialize) -> usize {
    postcard::experimental::serialized_size(value).unwrap_or(FRAME_MAX)
}

/// Bytes of a message to a client, about.
fn message_bytes(message: &ServerMessage) -> usize {
    const SMALL: usize = 64;
    SMALL
        + match message {
            ServerMessage::Response(Response { result: Ok(answer), .. }) => answer_bytes(answer),
            ServerMessage::Response(Response { result: Err(error), .. }) => SMALL + encoded_bytes(error),
            ServerMessage::Watched(events) => events.events.iter().map(super::watch_table::event_bytes).sum(),
            ServerMessage::Invoke { input, .. } => input.len(),
        }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use placement::ShardId;
    use tree::{Location, Path};

    use super::*;

    #[test]
    fn long_answers_and_requests_of_every_kind_have_their_weight() {
        let path: Path = "/car:cars/car-entry=17".parse().unwrap();
        let bytes = path.as_str().len();
        assert!(answer_bytes(&Answer::Kept { ttl_ms: 1_000, parts: vec![path.clone(); 1_000] }) >= 1_000 * bytes);
        let from: BTreeMap<_, _> = (0..1_000).map(|shard| (ShardId(shard), 7)).collect();
        assert!(request_bytes(&RequestBody::Watch { at: Location::config(path), from }) >= 64_000);
        let refused = Error::Invalid("x".repeat(10_000));
        let response = |result| ServerMessage::Response(Response { sequence: 1, leader: None, result });
        assert!(message_bytes(&response(Err(refused))) >= 10_000);
        assert!(message_bytes(&response(Ok(Answer::Done))) <= SHORT_ANSWER_BYTES);
    }
}

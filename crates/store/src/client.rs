//! A client as a state machine: it finds the leader of what it asks for, and asks again until the answer is there.
//!
//! ```text
//!  Request --> pending --choose an endpoint--> asked --Response--> Answer
//!                 ^                              |
//!                 +--- pause, with jitter <------+  connection lost, no answer in time, try elsewhere
//! ```
//!
//! What always holds:
//!
//! - Each request gets exactly one answer, at its deadline at the latest.
//! - A write keeps its session and sequence however often and wherever it is sent, so it is carried out once at most;
//!   and at most [`WRITES_MAX`] of the newest writes of the session are without an answer or before one that is, which is what
//!   servers remember.
//! - What could do harm when carried out twice and is not a write (a call that is not idempotent) is sent once.
//! - Reads are asked again freely: an answer was true between the request and itself, whichever server gave it.
//! - A watch survives the loss of its connection: it goes on after the last revisions it knows. So do offers.
//!
//! The driver makes connections, says [`Hello`](crate::protocol::Hello), and awaits the
//! [`Welcome`](crate::protocol::Welcome); the same machine runs live and in simulated clients.

mod endpoints;
mod event;
mod pending;
mod routes;
#[cfg(test)]
mod tests;
mod watch;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Nano, Rng};
use tree::{Location, Path};

use crate::protocol::{Answer, ClientMessage, Error, RequestBody, Response, ServerMessage, WATCHES_MAX, WatchEvents};
use endpoints::Endpoints;
pub use event::{ConnectionId, Input, Output};
use pending::{Origin, Pending, Progress};
use routes::Routes;
use watch::Watch;
pub use window::WRITES_MAX;
use window::Window;

/// Requests of the user that may be without an answer; more are answered with [`Error::Busy`].
pub const REQUESTS_MAX: usize = 1_024;

/// Bytes of values in the user's requests that have no answer; more are answered with [`Error::Busy`].
pub const REQUEST_BYTES_MAX: usize = 64 << 20;

/// No server is believed that wants to be left alone for longer.
const RETRY_AFTER_MAX_MS: u32 = 10_000;

/// How a client behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Ask the shard's leader, as soon as a response says who that is. Otherwise the endpoints alone are asked.
    pub go_to_leader: bool,
    /// Send each request once; whatever comes of it is the answer.
    pub single_attempt: bool,
    /// An attempt that has no answer after this is followed by another; each further one may take twice as long.
    pub attempt_timeout: Span,
    /// The first pause between attempts.
    pub backoff_min: Span,
    /// The longest pause between two attempts.
    pub backoff_max: Span,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            go_to_leader: true,
            single_attempt: false,
            attempt_timeout: Span::from_secs(1),
            backoff_min: Span::from_ms(2),
            backoff_max: Span::from_ms(250),
        }
    }
}

/// What the client offers to others.
#[derive(Clone, Debug)]
struct Offers {
    offers: Vec<(String, Option<Path>)>,
    connection: Option<ConnectionId>,
}

/// A client of the cluster, as a machine.
#[derive(Debug)]
pub struct Client {
    session: u64,
    config: ClientConfig,
    rng: Rng,
    endpoints: Endpoints,
    routes: Routes,
    window: Window,
    next_sequence: u64,
    /// Requests that are not answered yet, by sequence.
    pending: BTreeMap<u64, Pending>,
    /// Bytes of values in these.
    pending_bytes: usize,
    /// Writes that the window has no room for yet, in order.
    held: VecDeque<u64>,
    /// When a pending request has to be looked at: its `due`.
    timers: BTreeSet<(Time, u64)>,
    /// By the token of the user's request.
    watches: BTreeMap<u64, Watch>,
    offers: Option<Offers>,
    /// Which server's state the backup that was asked for last is of.
    backup_at: Option<String>,
    /// That answered last. The same address may lead to another one later: an empty one into which a backup was restored.
    cluster: Option<u64>,
    outputs: VecDeque<Output>,
}

impl Client {
    /// A client whose writes belong to `session`, a random number, and which knows these `host:port`s of the cluster.
    ///
    /// # Panics
    /// If there is no endpoint.
    pub fn new(session: u64, endpoints: Vec<String>, rng: Rng, config: ClientConfig) -> Self {
        assert!(!endpoints.is_empty(), "a client needs an endpoint");
        Self {
            session,
            config,
            rng,
            endpoints: Endpoints::new(endpoints),
            routes: Routes::default(),
            window: Window::default(),
            next_sequence: 1,
            pending: BTreeMap::new(),
            pending_bytes: 0,
            held: VecDeque::new(),
            timers: BTreeSet::new(),
            watches: BTreeMap::new(),
            offers: None,
            backup_at: None,
            cluster: None,
            outputs: VecDeque::new(),
        }
    }

    /// The session that its writes belong to; for the `Hello` of its connections.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Requests without an answer, those for the upkeep of watches and offers included.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// The leader that requests for `at` go to, if one is known: its `host:port`.
    pub fn leader(&self, at: &Location) -> Option<&str> {
        self.routes.leader(&at.path)
    }

    fn request(&mut self, now: Time, token: u64, body: RequestBody, timeout: Span) {
        let is_watch = matches!(body, RequestBody::Watch { .. });
        let users = || self.pending.values().filter(|pending| matches!(pending.origin, Origin::User(_))).count();
        let (bytes, pending_bytes) = (pending::value_bytes(&body), self.pending_bytes);
        let result = if pending_bytes > 0 && pending_bytes + bytes > REQUEST_BYTES_MAX {
            Err(Error::Busy(self.pending.len() as u64))
        } else if self.pending.len() >= REQUESTS_MAX && users() >= REQUESTS_MAX {
            Err(Error::Busy(REQUESTS_MAX as u64))
        } else if is_watch && self.watches.len() >= WATCHES_MAX {
            Err(Error::Busy(self.watches.len() as u64))
        } else if matches!(body, RequestBody::Unwatch { .. }) {
            Err(Error::Invalid("watches are ended by their token, not by a request".into()))
        } else {
            self.begin(now, Origin::User(token), body, now + timeout, timeout);
            return;
        };
        self.outputs.push_back(Output::Answer { token, result, unreachable: None });
    }

    /// Numbers a request, and sends it if the window allows.
    fn begin(&mut self, now: Time, origin: Origin, body: RequestBody, deadline: Time, timeout: Span) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let pending = Pending::new(origin, body, deadline, timeout);
        self.pending_bytes += pending.bytes;
        let tracked = pending.is_write();
        self.timers.insert((deadline, sequence));
        self.pending.insert(sequence, pending);
        // Those that wait already have lower sequences, and go first.
        if tracked && (!self.held.is_empty() || !self.window.admit(sequence)) {
            self.held.push_back(sequence);
        } else {
            self.attempt(now, sequence);
        }
    }

    /// Sends writes that the window had no room for.
    fn release(&mut self, now: Time) {
        while let Some(&sequence) = self.held.front() {
            if self.pending.contains_key(&sequence) {
                if !self.window.admit(sequence) {
                    return;
                }
                self.held.pop_front();
                self.attempt(now, sequence);
            } else {
                self.held.pop_front();
            }
        }
    }

    /// Sends a pending request to the endpoint that suits it best, or waits until one may be tried.
    fn attempt(&mut self, now: Time, sequence: u64) {
        let Some(pending) = self.pending.get(&sequence) else { return };
        let leader = if self.config.go_to_leader && pending.wants_leader() {
            pending.path().and_then(|path| self.routes.leader(path))
        } else {
            None
        };
        let backup = self.backup_at.as_deref().filter(|_| pending.goes_on_with_backup());
        let preferred = pending.preferred.as_deref().or(backup).or(leader);
        match self.endpoints.choose(now, preferred, pending.avoid.as_deref()) {
            Ok(endpoint) => {
                let (connection, new) = self.endpoints.connection(endpoint, now);
                if let Some(address) = new {
                    self.outputs.push_back(Output::Connect { connection, address });
                }
                let span = self.attempt_span(now, sequence);
                let is_up = self.endpoints.is_up(connection);
                let pending = self.pending.get_mut(&sequence).expect("it was there");
                pending.progress = Progress::Connection { connection, since: now, sent: false };
                pending.preferred = None;
                self.reschedule(sequence, now + span);
                if is_up {
                    self.send(now, sequence);
                }
            }
            Err(free_at) => {
                let pending = self.pending.get_mut(&sequence).expect("it was there");
                pending.progress = Progress::Pause;
                self.reschedule(sequence, free_at);
            }
        }
    }

    /// How long this attempt may take.
    fn attempt_span(&self, now: Time, sequence: u64) -> Span {
        let pending = &self.pending[&sequence];
        let rest = pending.deadline.since(now);
        if self.config.single_attempt {
            return rest;
        }
        match pending.patience(self.config.attempt_timeout) {
            Some(span) => rest.min(span),
            None => rest,
        }
    }

    /// Sends a request by the connection that it was given to.
    fn send(&mut self, now: Time, sequence: u64) {
        let acknowledged = self.window.acknowledged(self.next_sequence);
        let pending = self.pending.get_mut(&sequence).expect("it is pending");
        let Progress::Connection { connection, sent, .. } = &mut pending.progress else { return };
        *sent = true;
        let connection = *connection;
        self.endpoints.asked(connection, now);
        // A server that gives up a little earlier than this client can still say why.
        let span_ms = pending.due.since(now).as_ns() / 1_000_000;
        let timeout_ms = span_ms - (span_ms / 4).min(100);
        let request = crate::protocol::Request {
            session: self.session,
            sequence,
            acknowledged,
            timeout_ms: u32::try_from(timeout_ms.max(1)).unwrap_or(u32::MAX),
            body: pending.body.clone(),
        };
        self.outputs.push_back(Output::Send { connection, message: ClientMessage::Request(request) });
    }

    fn reschedule(&mut self, sequence: u64, due: Time) {
        let pending = self.pending.get_mut(&sequence).expect("it is pending");
        let due = due.min(pending.deadline);
        self.timers.remove(&(pending.due, sequence));
        pending.due = due;
        self.timers.insert((due, sequence));
    }

    /// A request's time has come: its deadline, the end of a pause, or of an attempt.
    fn expire(&mut self, now: Time, sequence: u64) {
        let pending = self.pending.get_mut(&sequence).expect("it is pending");
        // A server that has said nothing for so long, though it was asked, may be cut off or stopped.
        let is_silent = |&it: &ConnectionId| self.endpoints.silence(it, now) >= self.config.attempt_timeout;
        let silent = pending.connection().filter(is_silent);
        if now >= pending.deadline {
            pending.attempt_failed(None);
            let error = pending.timed_out();
            self.leave(sequence);
            self.finish(now, sequence, Err(error));
        } else if pending.progress == Progress::Pause {
            self.attempt(now, sequence);
        } else if silent.is_none() {
            let address = pending.connection().and_then(|connection| self.endpoints.address(connection));
            let error = pending.no_answer(address.unwrap_or("the server"));
            self.leave(sequence);
            self.retry(now, sequence, error, None);
        }
        if let Some(connection) = silent {
            self.outputs.push_back(Output::Disconnect(connection));
            self.lost(now, connection, "it says nothing");
        }
    }

    /// Stops caring about an attempt whose connection stays: a watch that may have begun there is ended.
    fn leave(&mut self, sequence: u64) {
        let pending = &self.pending[&sequence];
        if let (Progress::Connection { connection, sent: true, .. }, RequestBody::Watch { .. }) =
            (&pending.progress, &pending.body)
        {
            let connection = *connection;
            self.unwatch(connection, sequence);
        }
    }

    /// Ends a watch at a server. Whatever comes of it is of no interest: the sequence is known to nobody.
    fn unwatch(&mut self, connection: ConnectionId, watch: u64) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let request = crate::protocol::Request {
            session: self.session,
            sequence,
            acknowledged: self.window.acknowledged(self.next_sequence),
            timeout_ms: 1_000,
            body: RequestBody::Unwatch { watch },
        };
        self.outputs.push_back(Output::Send { connection, message: ClientMessage::Request(request) });
    }

    /// An attempt came to nothing; `unreachable` is whom it did not reach, if that was why.
    fn retry(&mut self, now: Time, sequence: u64, error: Error, unreachable: Option<String>) {
        let pending = self.pending.get_mut(&sequence).expect("it is pending");
        pending.unreachable = unreachable;
        pending.attempt_failed(Some(&error));
        if self.config.single_attempt || (pending.is_in_doubt() && !pending.may_repeat()) {
            let error = pending.in_doubt(error);
            return self.finish(now, sequence, Err(error));
        }
        pending.avoid = pending.connection().and_then(|it| self.endpoints.address(it)).map(str::to_owned);
        pending.attempts += 1;
        // The first time another server is asked at once, unless this one has too much to do.
        let is_slow = matches!(error, Error::Busy(_) | Error::Disk(_) | Error::Overloaded { .. });
        let steps = pending.attempts - u32::from(!is_slow);
        let after_ms = if let Error::Overloaded { retry_after_ms, .. } = error { retry_after_ms } else { 0 };
        if let Error::Elsewhere { servers, .. } = &error {
            let mut known = servers.iter().filter(|address| Some(*address) != pending.avoid.as_ref());
            pending.preferred = known.next().cloned();
        }
        pending.last_error = Some(error);
        pending.progress = Progress::Pause;
        if let Some(address) = pending.preferred.clone() {
            self.endpoints.learn(&address);
        }
        // Not before the server wants it, and not all who were told the same at once.
        let after_ms = u64::from(after_ms.min(RETRY_AFTER_MAX_MS));
        let jitter = if after_ms > 0 { self.rng.fraction() } else { 0.0 };
        let after = Span::from_us(after_ms * 1_000 + (jitter * (after_ms * 500) as f64) as u64);
        let pause = self.backoff(steps).max(after);
        if pause == Span::ZERO {
            self.attempt(now, sequence);
        } else {
            self.reschedule(sequence, now + pause);
        }
    }

    /// The pause before an attempt: doubled each time up to the longest, with as much as half of it taken off at random,
    /// so that clients that failed together don't come back together.
    fn backoff(&mut self, steps: u32) -> Span {
        if steps == 0 {
            return Span::ZERO;
        }
        let doubled = self.config.backoff_min * (1 << (steps - 1).min(20));
        let full = doubled.min(self.config.backoff_max).as_ns();
        Span::from_ns(full / 2 + (self.rng.fraction() * (full / 2) as f64) as u64)
    }

    /// A connection is lost, or could not be made.
    fn lost(&mut self, now: Time, connection: ConnectionId, reason: &str) {
        let Some(failures) = self.endpoints.failures(connection) else { return };
        let pause = self.backoff(failures + 1);
        let Some(address) = self.endpoints.lost(connection, now + pause) else { return };
        self.routes.forget(&address);
        for watch in self.watches.values_mut().filter(|watch| watch.connection == Some(connection)) {
            watch.connection = None;
        }
        if let Some(offers) = self.offers.as_mut().filter(|offers| offers.connection == Some(connection)) {
            offers.connection = None;
        }
        let on_it = |(&sequence, pending): (&u64, &Pending)| pending.is_on(connection).then_some(sequence);
        let affected: Vec<u64> = self.pending.iter().filter_map(on_it).collect();
        for sequence in affected {
            let pending = self.pending.get_mut(&sequence).expect("it is pending");
            let error = pending.connection_lost(&address, reason);
            // The endpoint is out for a while: there is no need to avoid it by name as well.
            self.retry(now, sequence, error, Some(address.clone()));
        }
        self.keep_up(now);
    }

    /// Resumes watches and offers that have lost their connection.
    fn keep_up(&mut self, now: Time) {
        let busy: BTreeSet<Origin> = self.pending.values().map(|pending| pending.origin).collect();
        let lost = |(token, watch): (&u64, &Watch)| {
            let is_lost = watch.connection.is_none() && !busy.contains(&Origin::Watch(*token));
            is_lost.then(|| (*token, watch.at.clone(), watch.revisions.clone()))
        };
        let watches: Vec<_> = self.watches.iter().filter_map(lost).collect();
        let span = self.config.attempt_timeout;
        for (token, at, from) in watches {
            self.begin(now, Origin::Watch(token), RequestBody::Watch { at, from }, Time::NEVER, span);
        }
        let renew = self.offers.as_ref().filter(|it| it.connection.is_none() && !busy.contains(&Origin::Offers));
        // An offer of the user that is under way sets them anew.
        let is_replaced = || self.pending.values().any(|pending| matches!(pending.body, RequestBody::Offer { .. }));
        if let Some(offers) = renew.filter(|_| !is_replaced()).map(|it| it.offers.clone()) {
            self.begin(now, Origin::Offers, RequestBody::Offer { offers }, Time::NEVER, span);
        }
    }

    fn responded(&mut self, now: Time, connection: ConnectionId, response: Response) {
        let Response { sequence, leader, result } = response;
        if result.is_err() {
            // A second answer ends a watch: its server has lost its replica. The watch is begun again elsewhere.
            let ended = |watch: &&mut Watch| watch.sequence == sequence && watch.connection == Some(connection);
            if let Some(watch) = self.watches.values_mut().find(ended) {
                watch.connection = None;
                self.keep_up(now);
                return;
            }
        }
        let Some(pending) = self.pending.get_mut(&sequence) else { return };
        if let Some(leader) = leader.filter(|_| self.config.go_to_leader)
            && let Some(path) = pending.path().cloned()
        {
            self.endpoints.learn(&leader.address);
            self.routes.learn(&path, leader.shard, &leader.address);
        }
        let pending = &self.pending[&sequence];
        match result {
            Err(error) if error.is_transient() => {
                // The failure of an attempt that was given up already says nothing of the present one.
                if pending.is_on(connection) {
                    self.retry(now, sequence, error, None);
                }
            }
            result => {
                if pending.is_pinned() && !pending.is_on(connection) {
                    // A watch or an offer is worth something where it was asked for last.
                    return;
                }
                self.finish_at(now, sequence, connection, result);
            }
        }
    }

    /// Ends a request that a server has answered.
    fn finish_at(&mut self, now: Time, sequence: u64, connection: ConnectionId, result: Result<Answer, Error>) {
        let pending = &self.pending[&sequence];
        match (&result, &pending.body, pending.origin) {
            (Ok(Answer::Watching { from }), RequestBody::Watch { at, .. }, Origin::User(token)) => {
                let (at, revisions) = (at.clone(), from.clone());
                self.watches.insert(token, Watch::new(at, revisions, sequence, connection));
            }
            (Ok(Answer::Watching { from }), _, Origin::Watch(token)) => {
                if let Some(watch) = self.watches.get_mut(&token) {
                    watch.resumed(sequence, connection);
                    let anew = std::mem::take(&mut watch.anew);
                    for (&shard, &revision) in from {
                        watch.revisions.entry(shard).or_insert(revision);
                        if anew {
                            let events =
                                WatchEvents { watch: sequence, shard, revision, skipped: true, events: Vec::new() };
                            self.outputs.push_back(Output::Event { token, events });
                        }
                    }
                } else {
                    self.unwatch(connection, sequence);
                }
            }
            (Ok(Answer::Chunk { .. }), ..) => {
                self.backup_at = self.endpoints.address(connection).map(str::to_owned);
            }
            (Ok(_), RequestBody::Offer { offers }, _) => {
                let offers = offers.clone();
                self.offers = Some(Offers { offers, connection: Some(connection) });
            }
            _ => {}
        }
        self.finish(now, sequence, result);
    }

    /// Ends a request.
    fn finish(&mut self, now: Time, sequence: u64, result: Result<Answer, Error>) {
        let pending = self.pending.remove(&sequence).expect("it is pending");
        self.pending_bytes -= pending.bytes;
        self.timers.remove(&(pending.due, sequence));
        self.window.answered(sequence);
        match (pending.origin, result) {
            (Origin::User(token), result) => {
                let unreachable = pending.unreachable.filter(|_| matches!(result, Err(Error::Timeout { .. })));
                self.outputs.push_back(Output::Answer { token, result, unreachable });
            }
            (Origin::Watch(token), Err(error)) => {
                if self.watches.remove(&token).is_some() {
                    self.outputs.push_back(Output::WatchEnded { token, error });
                }
            }
            (Origin::Watch(_) | Origin::Offers, _) => {}
        }
        self.release(now);
    }

    fn watched(&mut self, connection: ConnectionId, events: WatchEvents) {
        let found =
            self.watches.iter_mut().find(|(_, it)| it.sequence == events.watch && it.connection == Some(connection));
        // What has no owner was on its way when its watch ended.
        let Some((&token, watch)) = found else { return };
        if let Some(events) = watch.news(events) {
            self.outputs.push_back(Output::Event { token, events });
        }
    }

    fn message(&mut self, now: Time, connection: ConnectionId, message: ServerMessage) {
        if !self.endpoints.hear(connection) {
            return;
        }
        match message {
            ServerMessage::Response(response) => self.responded(now, connection, response),
            ServerMessage::Watched(events) => self.watched(connection, events),
            ServerMessage::Invoke { call, name, path, input } => {
                self.outputs.push_back(Output::Invoke { connection, call, name, path, input });
            }
        }
    }

    /// Another cluster answers where one was: what was seen of that one says nothing about this.
    fn forget_revisions(&mut self) {
        for watch in self.watches.values_mut() {
            watch.forget_revisions();
        }
        for pending in self.pending.values_mut() {
            if let (Origin::Watch(_), RequestBody::Watch { from, .. }) = (pending.origin, &mut pending.body) {
                from.clear();
            }
        }
    }

    fn end_watch(&mut self, now: Time, token: u64) {
        if let Some(watch) = self.watches.remove(&token)
            && let Some(connection) = watch.connection
        {
            self.unwatch(connection, watch.sequence);
        }
        // One that is being resumed or has not begun yet.
        let is_its = |pending: &Pending| match pending.origin {
            Origin::Watch(of) => of == token,
            Origin::User(of) => of == token && matches!(pending.body, RequestBody::Watch { .. }),
            Origin::Offers => false,
        };
        let begun = self.pending.iter().find_map(|(&sequence, pending)| is_its(pending).then_some(sequence));
        if let Some(sequence) = begun {
            self.leave(sequence);
            self.finish(now, sequence, Ok(Answer::Done));
        }
    }
}

impl Control<Nano> for Client {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Request { token, body, timeout } => self.request(now, token, body, timeout),
            Input::Unwatch { token } => self.end_watch(now, token),
            Input::Reply { connection, call, result } => {
                if self.endpoints.is_up(connection) {
                    let message = ClientMessage::Reply { call, result };
                    self.outputs.push_back(Output::Send { connection, message });
                }
            }
            Input::Connected { connection, cluster } => {
                if self.endpoints.connected(connection) {
                    if self.cluster.replace(cluster).is_some_and(|before| before != cluster) {
                        self.forget_revisions();
                    }
                    let waiting =
                        |(&sequence, pending): (&u64, &Pending)| pending.is_on(connection).then_some(sequence);
                    let waiting: Vec<u64> = self.pending.iter().filter_map(waiting).collect();
                    for sequence in waiting {
                        self.send(now, sequence);
                    }
                }
            }
            Input::Failed { connection, reason } => self.lost(now, connection, &reason),
            Input::Closed(connection) => self.lost(now, connection, "it was closed"),
            Input::Message { connection, message } => self.message(now, connection, message),
            Input::Tick => {}
        }
    }

    fn poll(&mut self, now: Time) -> Step<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Step::Do(output);
            }
            match self.timers.first() {
                Some(&(due, sequence)) if due <= now => self.expire(now, sequence),
                Some(&(due, _)) => return Step::Wait(due),
                None => return Step::Wait(Time::NEVER),
            }
        }
    }
}

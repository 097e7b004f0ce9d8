//! Clients that stand in a queue for a lock, hold it for a while, and write something while they do; some crash.
//!
//! What must hold: no two hold the lock at the same time by their own clocks, as long as clocks keep their bound; what is written with a
//! fencing token is never followed by something with a smaller one, whatever clocks do; once nothing goes wrong any more, whoever
//! is healthy keeps the lock until it gives it back, and those that crashed hold it up no longer than their lease lives.

use std::collections::BTreeMap;

use machine::nanos::{Span, Step, Time};
use machine::{Control, ServerId};
use store::ClientId;
use store::contender::{Contender, Contest, Input, Output};
use store::protocol::{Answer, ClientMessage, Error, Request, RequestBody, ServerMessage};
use tree::{Change, Condition, Expect, LeaseId, Location, Path, Transaction};

use super::core::{Core, Event, client_of};
use super::fault::Kind;
use super::report::Finding;

/// The first of them among the numbers of clients.
const FIRST: u32 = 40;
/// How often each looks at its clock.
const TICK: Span = Span::from_ms(20);
/// How long others wait for one that crashed.
const TTL: Span = Span::from_secs(2);
/// How long an answer is awaited at one server.
const PATIENCE: Span = Span::from_ms(700);
/// After everything was healed, a holder that was in trouble then may still lose the lock for so long.
const TROUBLE: Span = Span::from_secs(6);

/// All of them.
pub struct Lockers {
    all: BTreeMap<u32, Locker>,
    /// Revision and token of what was written under the lock.
    written: Vec<(u64, u64)>,
    /// How often the lock was held, and lost without being given back.
    counts: (u64, u64),
    /// When everything was healed, and how often the lock had been held then.
    healed: Option<(Time, u64)>,
    /// They give the lock back and want it no more.
    pub is_over: bool,
}

struct Locker {
    number: u32,
    contender: Option<Contender>,
    connection: Option<(ClientId, ServerId)>,
    session: u64,
    sequence: u64,
    /// By sequence: which question of the contender it is, and how long it waits.
    asked: BTreeMap<u64, (u64, Time)>,
    watch: Option<u64>,
    /// The write under the lock that has no answer yet: sequence and token.
    writing: Option<(u64, u64)>,
    holding: Option<(u64, Location)>,
    /// When the lock is given back, or the next attempt is made.
    next: Time,
}

fn lock() -> Location {
    Location::config(Path::parse("/car:locks/lock=1").expect("a path"))
}

fn guarded() -> Location {
    Location::config(Path::parse("/car:guarded").expect("a path"))
}

impl Lockers {
    /// As many as the scenario has.
    pub fn new(core: &mut Core) -> Self {
        let mut all = BTreeMap::new();
        for number in FIRST..FIRST + core.scenario.lockers {
            let locker = Locker {
                number,
                contender: None,
                connection: None,
                session: core.rng.bits(),
                sequence: 0,
                asked: BTreeMap::new(),
                watch: None,
                writing: None,
                holding: None,
                next: Time::ZERO + Span::from_ms(600),
            };
            all.insert(number, locker);
            core.after(Span::from_ms(u64::from(number)), Event::Wake(number, 0));
        }
        Self { all, written: Vec::new(), counts: (0, 0), healed: None, is_over: false }
    }

    /// Whether this is one of them.
    pub fn has(&self, number: u32) -> bool {
        self.all.contains_key(&number)
    }

    /// How often the lock was held, and lost without being given back.
    pub const fn counts(&self) -> (u64, u64) {
        self.counts
    }

    /// Nothing goes wrong any more.
    pub fn healed(&mut self, now: Time) {
        self.healed = Some((now, self.counts.0));
    }

    /// Whether somebody got the lock since everything was healed.
    pub fn go_on(&self) -> bool {
        self.all.is_empty() || self.healed.is_some_and(|(_, held)| self.counts.0 > held)
    }

    /// A locker looks at its clock.
    pub fn wake(&mut self, core: &mut Core, number: u32) {
        let Some(locker) = self.all.get_mut(&number) else { return };
        core.after(TICK, Event::Wake(number, 0));
        if self.is_over && locker.contender.is_none() {
            return;
        }
        if self.is_over {
            locker.holding = None;
            locker.handle(core.now, Input::Release);
        }
        locker.tick(core);
        self.drive(core, number);
        self.check_holders(core);
    }

    /// The stream broke.
    pub fn stream_ended(&mut self, core: &mut Core, connection: ClientId) {
        let Some(locker) = self.all.get_mut(&client_of(connection)) else { return };
        if locker.connection.is_some_and(|(current, _)| current == connection) {
            locker.disconnect(core);
            self.drive(core, client_of(connection));
        }
    }

    /// Something has come for a locker.
    pub fn receive(&mut self, core: &mut Core, connection: ClientId, message: ServerMessage) {
        let Some(locker) = self.all.get_mut(&client_of(connection)) else { return };
        if locker.connection.is_none_or(|(current, _)| current != connection) {
            return;
        }
        match message {
            ServerMessage::Response(response) => {
                let failed = response.result.as_ref().err().filter(|error| error.is_transient()).cloned();
                if let Some((sequence, token)) = locker.writing
                    && sequence == response.sequence
                {
                    locker.writing = None;
                    if let Ok(Answer::Written { revision }) = response.result {
                        self.written.push((revision, token));
                    }
                } else if Some(response.sequence) == locker.watch && response.result.is_err() {
                    locker.watch = None;
                    locker.answer(core.now, response.sequence, response.result.clone());
                    locker.handle(core.now, Input::WatchEnded);
                } else {
                    locker.answer(core.now, response.sequence, response.result);
                }
                if let Some(error) = failed {
                    // As `store::client` does it. A server that was removed while it was cut off, and whose peers were replaced meanwhile,
                    // believes nobody who says so, for ten minutes (decision 15): it answers that there is no leader. A locker that
                    // stayed with it would get no lock, though every other server would serve it.
                    core.note(|| format!("locker {} goes elsewhere: {error}", locker.number));
                    locker.disconnect(core);
                }
            }
            ServerMessage::Watched(events) if Some(events.watch) == locker.watch => {
                locker.handle(core.now, Input::Events(events));
            }
            _ => {}
        }
        self.drive(core, client_of(connection));
    }

    fn drive(&mut self, core: &mut Core, number: u32) {
        let Some(locker) = self.all.get_mut(&number) else { return };
        while let Some(contender) = &mut locker.contender {
            let Step::Do(output) = contender.poll(core.now) else { break };
            core.note(|| format!("locker {number}: {output:?}"));
            match output {
                Output::Ask { ask, body, .. } => locker.ask(core, ask, body),
                Output::Acquired { token, entry } => {
                    self.counts.0 += 1;
                    locker.holding = Some((token, entry));
                    locker.next = core.now + core.between_ms(50, 1_500);
                }
                Output::Lost(reason) => {
                    self.counts.1 += 1;
                    if self.healed.is_some_and(|(at, _)| core.now.since(at) > TROUBLE) {
                        let text = format!("locker {number} lost the lock though nothing went wrong: {reason}");
                        core.found(Finding::NoProgress(text));
                    }
                    locker.rest(core);
                }
                Output::Failed(_) | Output::Released => locker.rest(core),
            }
        }
    }

    fn check_holders(&self, core: &mut Core) {
        let holders: Vec<u32> = (self.all.values())
            .filter(|locker| locker.contender.as_ref().is_some_and(|it| it.holds(core.now).is_some()))
            .map(|locker| locker.number)
            .collect();
        if holders.len() > 1 && !core.scenario.kinds.contains(&Kind::ClockBeyond) {
            core.found(Finding::TwoHolders(format!("the clients {holders:?} hold one lock at the same time")));
        }
    }

    /// Tokens never go down.
    pub fn check(&mut self, core: &mut Core) {
        self.written.sort_unstable();
        for pair in self.written.windows(2) {
            let ((before, larger), (after, smaller)) = (pair[0], pair[1]);
            if smaller < larger {
                core.found(Finding::TwoHolders(format!(
                    "token {smaller} wrote at revision {after}, after token {larger} had at revision {before}"
                )));
            }
        }
    }
}

impl Locker {
    fn tick(&mut self, core: &mut Core) {
        let now = core.now;
        let late: Vec<u64> = self.asked.iter().filter(|(_, (_, until))| *until <= now).map(|(id, _)| *id).collect();
        if !late.is_empty() {
            // Perhaps that server is cut off.
            self.disconnect(core);
        }
        self.handle(now, Input::Tick);
        match (&self.contender, &self.holding) {
            (None, _) if now >= self.next => {
                let lease = LeaseId(core.rng.bits().max(1));
                let contest = Contest { at: lock(), lease, ttl: TTL, value: vec![self.number as u8] };
                self.contender = Some(Contender::new(contest).expect("entries can be below the lock"));
            }
            (Some(_), Some(_)) if now >= self.next => {
                if core.rng.below(4) == 0 {
                    core.note(|| format!("locker {} crashes", self.number));
                    self.rest(core);
                    self.disconnect(core);
                } else {
                    self.holding = None;
                    self.handle(now, Input::Release);
                }
            }
            (Some(contender), Some((token, entry))) if self.writing.is_none() && contender.holds(now).is_some() => {
                let (token, entry) = (*token, entry.clone());
                self.write(core, token, entry);
            }
            _ => {}
        }
    }

    fn write(&mut self, core: &mut Core, token: u64, entry: Location) {
        let condition = Condition { at: entry, expect: Expect::Etag(token) };
        let change = Change::Put { at: guarded(), value: token.to_le_bytes().to_vec().into() };
        let body = RequestBody::Write(Transaction { conditions: vec![condition], changes: vec![change] });
        let sequence = self.send(core, body);
        self.writing = Some((sequence, token));
    }

    fn handle(&mut self, now: Time, input: Input) {
        if let Some(contender) = &mut self.contender {
            contender.handle(now, input);
        }
    }

    fn answer(&mut self, now: Time, sequence: u64, result: Result<Answer, Error>) {
        if let Some((ask, _)) = self.asked.remove(&sequence) {
            self.handle(now, Input::Answer { ask, result });
        }
    }

    fn ask(&mut self, core: &mut Core, ask: u64, body: RequestBody) {
        let is_watch = matches!(body, RequestBody::Watch { .. });
        let sequence = self.send(core, body);
        self.asked.insert(sequence, (ask, core.now + PATIENCE));
        if is_watch {
            self.watch = Some(sequence);
        }
    }

    fn send(&mut self, core: &mut Core, body: RequestBody) -> u64 {
        let known = self.connection.filter(|(connection, _)| core.is_open(*connection));
        let (connection, server) = known.unwrap_or_else(|| {
            let members = core.members();
            let server = members[core.rng.below(members.len() as u32) as usize];
            (core.connect_stream(self.number, server), server)
        });
        self.connection = Some((connection, server));
        self.sequence += 1;
        let (session, sequence) = (self.session, self.sequence);
        let request = Request { session, sequence, acknowledged: sequence, timeout_ms: 600, body };
        core.to_server(connection, server, ClientMessage::Request(request));
        sequence
    }

    /// The connection is of no use any more: whatever was asked has no answer.
    fn disconnect(&mut self, core: &mut Core) {
        if let Some((connection, _)) = self.connection.take() {
            core.break_stream(connection);
        }
        self.writing = None;
        for (ask, _) in std::mem::take(&mut self.asked).into_values() {
            let result = Err(Error::Timeout { timeout_ms: 600, reason: "no answer".into() });
            self.handle(core.now, Input::Answer { ask, result });
        }
        if self.watch.take().is_some() {
            self.handle(core.now, Input::WatchEnded);
        }
    }

    fn rest(&mut self, core: &mut Core) {
        (self.contender, self.holding) = (None, None);
        // Answers to what was asked are of no interest to the next one.
        self.asked.clear();
        self.next = core.now + core.between_ms(50, 800);
    }
}

#[cfg(test)]
mod tests {
    use store::protocol::Response;

    use super::super::node::address;
    use super::super::scenario::Scenario;
    use super::*;

    #[test]
    fn a_locker_stays_with_a_server_until_that_cannot_help_it() {
        let scenario = Scenario { lockers: 1, ..Scenario::default() };
        let mut core = Core::new(1, &scenario);
        core.network.heal();
        let node = core.new_node(ServerId(1), BTreeMap::from([(ServerId(1), address(ServerId(1)))]));
        core.nodes.insert(ServerId(1), node);
        core.start(ServerId(1));
        let mut lockers = Lockers::new(&mut core);
        let refused = Error::Invalid("this is no lock".into());
        let lost = Error::Timeout { timeout_ms: 600, reason: "no leader".into() };
        for (error, stays) in [(refused, true), (lost, false)] {
            core.now += Span::from_secs(1);
            lockers.wake(&mut core, FIRST);
            let locker = &lockers.all[&FIRST];
            let (sequence, (connection, _)) = (locker.sequence, locker.connection.expect("it asks for a lease"));
            let message = ServerMessage::Response(Response { sequence, leader: None, result: Err(error) });
            lockers.receive(&mut core, connection, message);
            assert_eq!((lockers.all[&FIRST].connection.is_some(), core.is_open(connection)), (stays, stays));
        }
    }
}

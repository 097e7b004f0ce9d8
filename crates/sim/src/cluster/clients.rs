//! Clients that work on entries: each does one operation after another, and puts down what it was told.
//!
//! A request that is not answered is sent again, with the same session and sequence, to whichever server. When its time
//! is over the outcome is unknown: it may have been done, may yet be done, or never.

use std::collections::BTreeMap;

use machine::{Rng, ServerId, Span, Time};
use store::ClientId;
use store::protocol::{Answer, ClientMessage, Consistency, Error, Request, RequestBody, Response, ServerMessage};
use tree::Refusal;

use super::core::{Core, Event};
use super::data;
use super::report::{Finding, Operations};
use crate::linearizability::entry::{Action, Change, Condition, Expect, Input, Leaf, Output, Tagged};
use crate::linearizability::{History, Ticket};

/// The client that checks at the end that every entry can be written.
pub const PROBER: u32 = 30;
/// How long an operation may take. It is the probe's whole time that counts, so that one goes on.
const PATIENCE: Span = Span::from_ms(2_500);
/// How long a request may take at a server.
const TIMEOUT_MS: u32 = 1_500;

/// The tag of each leaf at the end, if it has a value.
pub type Finally = BTreeMap<(u32, Leaf), Option<u64>>;

/// All clients, and the history that they make together.
pub struct Clients {
    all: BTreeMap<u32, Client>,
    /// What they did.
    pub history: History<Input, Output>,
    /// Values by number: which leaf they were written to.
    values: BTreeMap<u64, (u32, Leaf)>,
    next_value: u64,
    /// Their counts.
    pub counts: Operations,
    /// No new operations.
    pub is_over: bool,
    /// Entries that still have to be written, then listed, by the prober.
    unprobed: Vec<(u32, bool)>,
    /// What it listed.
    pub finally: Finally,
}

struct Client {
    number: u32,
    rng: Rng,
    session: u64,
    sequence: u64,
    /// The connection to each server.
    connections: BTreeMap<ServerId, ClientId>,
    /// Who led the shard of an entry, when somebody said so last.
    leaders: BTreeMap<u32, ServerId>,
    /// Entity tags that it was told last, by entry and leaf.
    tags: BTreeMap<(u32, Leaf), Tagged>,
    doing: Option<Doing>,
    /// Numbers its alarms: only the last one counts.
    alarm: u64,
}

/// An operation under way.
struct Doing {
    input: Input,
    /// Its place in the history; stale reads have none.
    ticket: Option<Ticket>,
    body: RequestBody,
    deadline: Time,
    attempts: u32,
    server: ServerId,
}

impl Clients {
    /// As many as the scenario has, and the prober. They begin one after another.
    pub fn new(core: &mut Core) -> Self {
        let mut clients = Self {
            all: BTreeMap::new(),
            history: History::new(),
            values: BTreeMap::new(),
            next_value: 1,
            counts: Operations::default(),
            is_over: false,
            unprobed: Vec::new(),
            finally: Finally::new(),
        };
        for number in (0..core.scenario.clients).chain([PROBER]) {
            let mut rng = core.rng.fork(0xc11e_0000 | u64::from(number));
            let session = rng.bits() >> 1;
            let client = Client {
                number,
                rng,
                session,
                sequence: 0,
                connections: BTreeMap::new(),
                leaders: BTreeMap::new(),
                tags: BTreeMap::new(),
                doing: None,
                alarm: 0,
            };
            clients.all.insert(number, client);
            if number != PROBER {
                let begin = core.between_ms(300, 1_500);
                core.after(begin, Event::Wake(number, 0));
            }
        }
        clients
    }

    /// Whether nobody does anything.
    pub fn are_idle(&self) -> bool {
        self.all.values().all(|client| client.doing.is_none())
    }

    /// Begins to probe: every entry must take a write.
    pub fn probe(&mut self, core: &mut Core) {
        self.unprobed = (0..core.scenario.entries).rev().flat_map(|entry| [(entry, true), (entry, false)]).collect();
        core.after(Span::ZERO, Event::Wake(PROBER, 0));
    }

    /// Entries whose probe has not been answered.
    pub fn unprobed(&self) -> Vec<u32> {
        self.unprobed.iter().map(|(entry, _)| *entry).collect()
    }

    /// A client's time has come.
    pub fn wake(&mut self, core: &mut Core, number: u32, alarm: u64) {
        let Some(mut client) = self.all.remove(&number) else { return };
        if client.alarm == alarm {
            match client.doing.take() {
                None => self.begin(core, &mut client),
                Some(doing) if core.now >= doing.deadline => self.give_up(core, &mut client, &doing),
                Some(doing) => self.send(core, &mut client, doing),
            }
        }
        self.all.insert(number, client);
    }

    fn begin(&mut self, core: &mut Core, client: &mut Client) {
        let (input, consistency) = if client.number == PROBER {
            let Some((entry, is_list)) = self.unprobed.last().copied() else { return };
            let put = Change::Put(Leaf::A, self.value(entry, Leaf::A));
            let action = if is_list { Action::List } else { Action::Write { condition: None, change: put } };
            (Input { entry, action }, Consistency::Linearizable)
        } else if self.is_over {
            return;
        } else {
            self.choose(core, client)
        };
        let is_stale = consistency == Consistency::Stale;
        let ticket = (!is_stale).then(|| self.history.invoked(client.number, core.now, input));
        client.sequence += 1;
        let body = data::request(input.entry, input.action, consistency);
        let patience = if client.number == PROBER { core.scenario.settle } else { PATIENCE };
        let server = client.choose_server(core, input.entry, 0);
        let doing = Doing { input, ticket, body, deadline: core.now + patience, attempts: 0, server };
        self.send(core, client, doing);
    }

    fn value(&mut self, entry: u32, leaf: Leaf) -> u64 {
        let value = self.next_value;
        self.next_value += 1;
        self.values.insert(value, (entry, leaf));
        value
    }

    fn choose(&mut self, core: &Core, client: &mut Client) -> (Input, Consistency) {
        let entry = client.rng.below(core.scenario.entries);
        let leaf = if client.rng.below(2) == 0 { Leaf::A } else { Leaf::B };
        let read = match client.rng.below(20) {
            0..4 => Some((Action::Get(leaf), Consistency::Linearizable)),
            4..8 => Some((Action::List, Consistency::Linearizable)),
            8 => Some((Action::Get(leaf), Consistency::Stale)),
            9 => Some((Action::List, Consistency::Stale)),
            _ => None,
        };
        if let Some((action, consistency)) = read {
            return (Input { entry, action }, consistency);
        }
        let known = client.tags.get(&(entry, leaf)).copied();
        let expect = match client.rng.below(10) {
            0 => Some(Expect::Absent),
            1 => Some(Expect::Present),
            2..4 => known.map(|known| Expect::Tag(known.tag)),
            4 => known.map(|known| Expect::Value(known.value)),
            _ => None,
        };
        let change = match client.rng.below(12) {
            0 => Change::Create(leaf, self.value(entry, leaf)),
            1 => Change::Replace(leaf, self.value(entry, leaf)),
            2 => Change::Delete,
            3 => Change::Remove,
            4..7 => Change::PutBoth { a: self.value(entry, Leaf::A), b: self.value(entry, Leaf::B) },
            _ => Change::Put(leaf, self.value(entry, leaf)),
        };
        let condition = expect.map(|expect| Condition { leaf, expect });
        (Input { entry, action: Action::Write { condition, change } }, Consistency::Linearizable)
    }

    /// Sends a request, for the first time or again.
    fn send(&mut self, core: &mut Core, client: &mut Client, mut doing: Doing) {
        if doing.attempts > 0 {
            self.counts.repeated += 1;
            doing.server = client.choose_server(core, doing.input.entry, doing.attempts);
        }
        doing.attempts += 1;
        // Now and then a client connects anew: what comes on the old connection is lost.
        if client.rng.below(20) == 0
            && let Some(old) = client.connections.remove(&doing.server)
        {
            core.arrived(doing.server, store::Input::ClientGone(old));
        }
        let (number, server) = (client.number, doing.server);
        let connection = *client.connections.entry(server).or_insert_with(|| core.connect(number));
        let request = Request {
            session: client.session,
            sequence: client.sequence,
            acknowledged: client.sequence,
            timeout_ms: TIMEOUT_MS,
            body: doing.body.clone(),
        };
        core.note(|| format!("client {number} asks server {server}, sequence {}: {}", client.sequence, doing.input));
        core.to_server(connection, server, ClientMessage::Request(request));
        let patience = core.between_ms(60, 500).min(doing.deadline.since(core.now));
        client.set_alarm(core, patience);
        client.doing = Some(doing);
    }

    /// Something has come for a client.
    pub fn told(&mut self, core: &mut Core, connection: ClientId, from: ServerId, message: ServerMessage) {
        let number = super::core::client_of(connection);
        let Some(mut client) = self.all.remove(&number) else { return };
        if let ServerMessage::Response(response) = message
            && client.connections.get(&from) == Some(&connection)
            && response.sequence == client.sequence
            && let Some(doing) = client.doing.take()
        {
            self.answered(core, &mut client, doing, from, response);
        }
        self.all.insert(number, client);
    }

    fn answered(&mut self, core: &mut Core, client: &mut Client, doing: Doing, from: ServerId, response: Response) {
        let entry = doing.input.entry;
        if let Some(leader) = &response.leader {
            client.leaders.insert(entry, leader.server);
        }
        let number = client.number;
        let output = match response.result {
            Ok(answer) => Self::output(doing.input, answer),
            Err(Error::Refused(Refusal::ConditionFailed { .. } | Refusal::Exists { .. } | Refusal::Missing { .. })) => {
                Ok(Output::Refused)
            }
            Err(Error::Refused(Refusal::Forgotten)) => return self.give_up(core, client, &doing),
            Err(Error::Refused(refusal)) if refusal.is_retryable() => return Self::later(core, client, doing),
            Err(error) if error.is_transient() => return Self::later(core, client, doing),
            Err(error) => Err(format!("client {number} is told \"{error}\" for {}", doing.input)),
        };
        match output {
            Ok(output) => {
                core.note(|| format!("client {number} is told by server {from}: {output}"));
                // A condition on what a stale read told is none that the model knows.
                if doing.ticket.is_some() {
                    client.learn(doing.input, output);
                }
                self.done(core, client, &doing, output);
            }
            Err(text) => {
                core.found(Finding::Surprise(text));
                self.give_up(core, client, &doing);
            }
        }
    }

    /// The answer in the model's words.
    fn output(input: Input, answer: Answer) -> Result<Output, String> {
        let strange = || format!("the answer to {input} holds what no client wrote");
        match (input.action, answer) {
            (Action::Get(_), Answer::Value(None)) => Ok(Output::Leaf(None)),
            (Action::Get(_), Answer::Value(Some((tag, bytes)))) => {
                Ok(Output::Leaf(Some(data::tagged(tag, &bytes).ok_or_else(strange)?)))
            }
            (Action::List, Answer::Values { entries, more: false }) => {
                data::listed(input.entry, &entries).ok_or_else(strange)
            }
            (Action::Write { .. }, Answer::Written { revision }) => Ok(Output::Written { revision }),
            (_, answer) => Err(format!("{answer:?} is no answer to {input}")),
        }
    }

    /// Tries again in a little while.
    fn later(core: &mut Core, client: &mut Client, doing: Doing) {
        let number = client.number;
        core.note(|| format!("client {number} will try again"));
        let pause = core.between_ms(5, 60).min(doing.deadline.since(core.now));
        client.set_alarm(core, pause);
        client.doing = Some(doing);
    }

    fn done(&mut self, core: &mut Core, client: &mut Client, doing: &Doing, output: Output) {
        match doing.ticket {
            Some(ticket) => {
                self.history.returned(ticket, core.now, output);
                match output {
                    Output::Written { .. } => self.counts.written += 1,
                    Output::Refused => self.counts.refused += 1,
                    _ => self.counts.read += 1,
                }
            }
            None => self.check_stale(core, doing.input, output),
        }
        if client.number == PROBER {
            self.unprobed.pop();
            if let Output::Leaves(a, b) = output {
                let entry = doing.input.entry;
                self.finally.insert((entry, Leaf::A), a.map(|seen| seen.tag));
                self.finally.insert((entry, Leaf::B), b.map(|seen| seen.tag));
            }
        }
        Self::rest(core, client);
    }

    /// A stale read may be old, but must have been written there.
    fn check_stale(&mut self, core: &mut Core, input: Input, output: Output) {
        self.counts.stale += 1;
        let seen = match (input.action, output) {
            (Action::Get(leaf), Output::Leaf(seen)) => [(leaf, seen), (leaf, None)],
            (_, Output::Leaves(a, b)) => [(Leaf::A, a), (Leaf::B, b)],
            _ => return,
        };
        for (leaf, Tagged { value, .. }) in seen.into_iter().filter_map(|(leaf, seen)| Some((leaf, seen?))) {
            if self.values.get(&value) != Some(&(input.entry, leaf)) {
                core.found(Finding::Invented(format!("a stale {} of entry {} gave {value}", input, input.entry)));
            }
        }
    }

    /// Nobody will learn what came of it.
    fn give_up(&mut self, core: &mut Core, client: &mut Client, doing: &Doing) {
        let number = client.number;
        core.note(|| format!("client {number} gives up {}", doing.input));
        self.counts.unknown += u64::from(doing.ticket.is_some());
        // Some clients are so cross that they begin a new session.
        if client.rng.below(8) == 0 {
            client.session = client.rng.bits() >> 1;
        }
        Self::rest(core, client);
    }

    fn rest(core: &mut Core, client: &mut Client) {
        let think = -(1.0 - client.rng.fraction()).ln() * core.scenario.think.as_ns() as f64;
        client.set_alarm(core, Span::from_ns(1 + think as u64));
    }

    /// Checks nothing, but says how many operations there are to check.
    pub fn counts(&self) -> Operations {
        Operations { checked: self.history.operations().len() as u64, ..self.counts }
    }
}

impl Client {
    fn set_alarm(&mut self, core: &mut Core, after: Span) {
        self.alarm += 1;
        core.after(after, Event::Wake(self.number, self.alarm));
    }

    /// The leader as far as it is known, or anyone.
    fn choose_server(&mut self, core: &Core, entry: u32, attempts: u32) -> ServerId {
        let leader = self.leaders.get(&entry).copied();
        let goes_to_leader = self.rng.below(2) == 0 && attempts < 2;
        if let Some(leader) = leader.filter(|_| goes_to_leader) {
            return leader;
        }
        let members = core.members();
        members[self.rng.below(members.len() as u32) as usize]
    }

    /// Remembers entity tags and values for conditions to come.
    fn learn(&mut self, input: Input, output: Output) {
        let mut know = |leaf, seen: Option<Tagged>| match seen {
            Some(seen) => {
                self.tags.insert((input.entry, leaf), seen);
            }
            None => {
                self.tags.remove(&(input.entry, leaf));
            }
        };
        match (input.action, output) {
            (Action::Get(leaf), Output::Leaf(seen)) => know(leaf, seen),
            (Action::List, Output::Leaves(a, b)) => {
                know(Leaf::A, a);
                know(Leaf::B, b);
            }
            (Action::Write { change, .. }, Output::Written { revision: tag }) => match change {
                Change::Create(leaf, value) | Change::Put(leaf, value) | Change::Replace(leaf, value) => {
                    know(leaf, Some(Tagged { value, tag }));
                }
                Change::PutBoth { a, b } => {
                    know(Leaf::A, Some(Tagged { value: a, tag }));
                    know(Leaf::B, Some(Tagged { value: b, tag }));
                }
                Change::Delete | Change::Remove => {}
            },
            _ => {}
        }
    }
}

//! Clients that work on entries: each does one operation after another, and records what it was answered.
//!
//! A request that is not answered is sent again, with the same session and sequence, to whichever server. When its time
//! is over the outcome is unknown: it may have been done, may yet be done, or never.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use store::ClientId;
use store::protocol::{Answer, ClientMessage, Consistency, Error, Request, RequestBody, Response, ServerMessage};
use tree::Refusal;
use workload::entry::{Action, Change, Condition, Expect, Input, Leaf, Output, Tagged};
use workload::{Known, Layout};

use super::core::{Core, Event};
use super::data::{self, Entries};
use super::report::{Finding, Operations};
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
    /// What it listed last.
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
    known: Known,
    doing: Option<Doing>,
    /// Numbers its alarms: only the last one counts.
    alarm: u64,
}

/// What a client wants.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// Something of one entry.
    Entry(Input),
    /// A list of all entries of a module, which begin with this one: in the history a list of each of them. Whoever is not in
    /// the answer must be absent.
    Container(u32),
}

impl Asked {
    /// The first entry.
    const fn entry(self) -> u32 {
        match self {
            Self::Entry(Input { entry, .. }) | Self::Container(entry) => entry,
        }
    }

    /// As the history has it, if there are so many entries.
    fn inputs(self, entries: u32) -> impl Iterator<Item = Input> {
        let (first, end) = match self {
            Self::Entry(input) => (input, input.entry + 1),
            Self::Container(entry) => (Input { entry, action: Action::List }, entries),
        };
        (first.entry..end).step_by(data::MODULES as usize).map(move |entry| Input { entry, ..first })
    }

    fn body(self, consistency: Consistency) -> RequestBody {
        match self {
            Self::Entry(input) => Entries.request(input, consistency),
            Self::Container(module) => data::list_container(module, consistency),
        }
    }
}

impl Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(input) => write!(f, "entry {}: {input}", input.entry),
            Self::Container(module) => write!(f, "list of module {}", data::module(*module)),
        }
    }
}

/// An operation under way.
struct Doing {
    asked: Asked,
    /// Its places in the history; stale reads have none.
    tickets: Vec<Ticket>,
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
            next_value: if core.scenario.large_values { data::LARGE } else { 1 },
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
                known: Known::default(),
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
        let steps = (0..core.scenario.entries).rev().flat_map(|entry| [(entry, true), (entry, false)]);
        self.begin_probe(core, steps.collect());
    }

    /// Begins to list every entry once more. After a probe's list a write may still be done that its client gave up, as long as
    /// some server holds it: what is there at the end is known only when no server holds anything.
    pub fn list_all(&mut self, core: &mut Core) {
        self.begin_probe(core, (0..core.scenario.entries).rev().map(|entry| (entry, true)).collect());
    }

    fn begin_probe(&mut self, core: &mut Core, steps: Vec<(u32, bool)>) {
        self.unprobed = steps;
        if let Some(prober) = self.all.get_mut(&PROBER) {
            prober.set_alarm(core, Span::ZERO);
        }
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
                None => self.begin(core, &mut client, None),
                Some(doing) if core.now >= doing.deadline => self.give_up(core, &mut client, &doing),
                Some(doing) => self.send(core, &mut client, doing),
            }
        }
        self.all.insert(number, client);
    }

    /// Something has happened to a server: of those who have nothing to do, a quarter read there and a quarter do whatever they
    /// would have done later.
    pub fn flock(&mut self, core: &mut Core, server: ServerId) {
        if self.is_over {
            return;
        }
        for number in (0..core.scenario.clients).filter(|_| core.rng.below(2) == 0).collect::<Vec<_>>() {
            let Some(mut client) = self.all.remove(&number) else { continue };
            if client.doing.is_none() {
                let at = (core.rng.below(2) == 0).then_some(server);
                self.begin(core, &mut client, at);
            }
            self.all.insert(number, client);
        }
    }

    /// A new operation; if somebody says where, a read.
    fn begin(&mut self, core: &mut Core, client: &mut Client, at: Option<ServerId>) {
        let (asked, consistency) = if client.number == PROBER {
            let Some((entry, is_list)) = self.unprobed.last().copied() else { return };
            let put = Change::Put(Leaf::A, self.value(entry, Leaf::A));
            let action = if is_list { Action::List } else { Action::Write { condition: None, change: put } };
            (Asked::Entry(Input { entry, action }), Consistency::Linearizable)
        } else if self.is_over {
            return;
        } else if at.is_some() {
            (Self::choose_read(core, client), Consistency::Linearizable)
        } else {
            self.choose(core, client)
        };
        let mut tickets = Vec::new();
        if consistency == Consistency::Linearizable {
            let entries = core.scenario.entries;
            tickets.extend(asked.inputs(entries).map(|input| self.history.invoked(client.number, core.now, input)));
        }
        client.sequence += 1;
        let body = asked.body(consistency);
        let patience = if client.number == PROBER { core.scenario.recovery } else { PATIENCE };
        let server = at.unwrap_or_else(|| client.choose_server(core, asked.entry(), 0));
        let doing = Doing { asked, tickets, body, deadline: core.now + patience, attempts: 0, server };
        self.send(core, client, doing);
    }

    fn value(&mut self, entry: u32, leaf: Leaf) -> u64 {
        let value = self.next_value;
        self.next_value += 1;
        self.values.insert(value, (entry, leaf));
        value
    }

    fn choose_read(core: &Core, client: &mut Client) -> Asked {
        let entry = client.rng.below(core.scenario.entries);
        let leaf = if client.rng.below(2) == 0 { Leaf::A } else { Leaf::B };
        let action = match client.rng.below(10) {
            0..4 => Action::Get(leaf),
            4..7 => Action::List,
            _ => return Asked::Container(entry % data::MODULES),
        };
        Asked::Entry(Input { entry, action })
    }

    fn choose(&mut self, core: &Core, client: &mut Client) -> (Asked, Consistency) {
        match client.rng.below(20) {
            0..9 => return (Self::choose_read(core, client), Consistency::Linearizable),
            9 => return (Self::choose_read(core, client), Consistency::Stale),
            _ => {}
        }
        let entry = client.rng.below(core.scenario.entries);
        let leaf = if client.rng.below(2) == 0 { Leaf::A } else { Leaf::B };
        let known = client.known.get(entry, leaf);
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
        (Asked::Entry(Input { entry, action: Action::Write { condition, change } }), Consistency::Linearizable)
    }

    /// Sends a request, for the first time or again.
    fn send(&mut self, core: &mut Core, client: &mut Client, mut doing: Doing) {
        if doing.attempts > 0 {
            self.counts.repeated += 1;
            doing.server = client.choose_server(core, doing.asked.entry(), doing.attempts);
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
        core.note(|| format!("client {number} asks server {server}, sequence {}: {}", client.sequence, doing.asked));
        core.to_server(connection, server, ClientMessage::Request(request));
        let patience = core.between_ms(60, 500).min(doing.deadline.since(core.now));
        client.set_alarm(core, patience);
        client.doing = Some(doing);
    }

    /// Something has come for a client.
    pub fn receive(&mut self, core: &mut Core, connection: ClientId, from: ServerId, message: ServerMessage) {
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
        if let Some(leader) = &response.leader {
            client.leaders.insert(doing.asked.entry(), leader.server);
        }
        let number = client.number;
        let outputs = match response.result {
            Ok(answer) => Self::outputs(doing.asked, core.scenario.entries, answer),
            Err(Error::Refused(Refusal::ConditionFailed { .. } | Refusal::Exists { .. } | Refusal::Missing { .. })) => {
                Ok(vec![Output::Refused])
            }
            Err(Error::Refused(Refusal::Full)) if core.scenario.sizes.quota_bytes.is_some() => {
                self.counts.full += 1;
                Ok(vec![Output::NotDone])
            }
            Err(Error::Refused(Refusal::Forgotten)) => return self.give_up(core, client, &doing),
            Err(Error::Refused(refusal)) if refusal.is_retryable() => return Self::later(core, client, doing),
            Err(Error::Invalid(_)) if matches!(doing.asked, Asked::Container(_)) => {
                // The entries lie in several shards. A read without an answer says nothing in the history.
                core.note(|| format!("client {number} is told by server {from}: not in one shard"));
                self.counts.spread += 1;
                return Self::rest(core, client);
            }
            Err(error) if error.is_transient() => return Self::later(core, client, doing),
            Err(error) => Err(format!("client {number} is told \"{error}\" for {}", doing.asked)),
        };
        match outputs {
            Ok(outputs) => self.done(core, client, (&doing, from), &outputs),
            Err(text) => {
                core.found(Finding::Surprise(text));
                self.give_up(core, client, &doing);
            }
        }
    }

    /// The answer in the model's words, one for each of [`Asked::inputs`].
    fn outputs(asked: Asked, entries: u32, answer: Answer) -> Result<Vec<Output>, String> {
        match (asked, answer) {
            (Asked::Entry(input), answer) => Ok(vec![Entries.output(input, &answer)?]),
            (Asked::Container(_), Answer::Values { entries: mut found, more: false }) => {
                let mut outputs = Vec::new();
                for input in asked.inputs(entries) {
                    let (here, others) = found.into_iter().partition(|(at, ..)| data::is_of(input.entry, at));
                    found = others;
                    outputs.push(Entries.output(input, &Answer::Values { entries: here, more: false })?);
                }
                if found.is_empty() {
                    Ok(outputs)
                } else {
                    Err(format!("the {asked} has what no client wrote: {found:?}"))
                }
            }
            (_, answer) => Err(format!("{answer:?} is no answer to the {asked}")),
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

    fn done(&mut self, core: &mut Core, client: &mut Client, (doing, from): (&Doing, ServerId), outputs: &[Output]) {
        let inputs: Vec<Input> = doing.asked.inputs(core.scenario.entries).collect();
        self.counts.listed += u64::from(matches!(doing.asked, Asked::Container(_)));
        for (nth, (&input, &output)) in inputs.iter().zip(outputs).enumerate() {
            let number = client.number;
            core.note(|| format!("client {number} is told by server {from}: entry {}: {output}", input.entry));
            let Some(ticket) = doing.tickets.get(nth) else {
                self.check_stale(core, input, output);
                continue;
            };
            // A condition on what a stale read gave is none that the model knows.
            client.known.learn(input, output);
            self.history.returned(*ticket, core.now, output);
            match output {
                Output::Written { .. } => self.counts.written += 1,
                Output::Refused => self.counts.refused += 1,
                Output::NotDone => {}
                _ => self.counts.read += 1,
            }
            if number == PROBER
                && let Output::Leaves(a, b) = output
            {
                self.finally.insert((input.entry, Leaf::A), a.map(|seen| seen.tag));
                self.finally.insert((input.entry, Leaf::B), b.map(|seen| seen.tag));
            }
        }
        if client.number == PROBER {
            self.unprobed.pop();
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
        core.note(|| format!("client {number} gives up {}", doing.asked));
        self.counts.unknown += doing.tickets.len() as u64;
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
}

//! One operation, asked by many clients: as fast as they are answered, or at an even pace.

use machine::nanos::{Span, Time};
use store::protocol::{Answer, Consistency, Error};
use tree::Path;

use crate::cars::Cars;
use crate::clients::Clients;
use crate::entry::{Action, Change, Input, Leaf};
use crate::script::{Next, Script};
use crate::tally::Tally;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Writes a car that is not there.
    Create,
    /// Reads a car, linearizably.
    Read,
    /// Reads a car from whatever the asked server has.
    StaleRead,
    /// Writes a car that is there.
    Update,
    /// Takes a car away.
    Delete,
    /// Calls `people:add-person`, routed to whoever offers it.
    Rpc,
    /// Writes a value, whether there is one or not.
    Put,
}

impl Operation {
    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::StaleRead => "stale-read",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Rpc => "rpc",
            Self::Put => "put",
        }
    }
}

/// What load there is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadConfig {
    /// Clients at the same time.
    pub clients: u32,
    /// Requests of all clients together.
    pub requests: u64,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// What is asked.
    pub operation: Operation,
    /// So many entries are asked for in turn: client `n` of `clients` begins with the `n`-th and goes on with every `clients`-th.
    pub keys: u32,
    /// What the entries are below, instead of the cars.
    pub below: Option<Path>,
    /// A client does not ask more often than this; zero: as often as it is answered.
    pub every: Span,
    /// A request that is not answered by then has failed.
    pub timeout: Span,
}

/// A load under way.
#[derive(Debug)]
pub struct Load {
    config: LoadConfig,
    targets: usize,
    begun: Time,
    clients: Clients<Cars, ()>,
    /// By client.
    turns: Vec<Turn>,
    is_over: bool,
    tally: Tally,
}

/// What a client has still to do.
#[derive(Debug)]
struct Turn {
    key: u64,
    left: u64,
    /// When it is to ask next.
    due: Time,
}

impl Load {
    /// A load that begins now. Each client asks one of so many targets, always the same, and its neighbour the next one.
    pub fn new(config: LoadConfig, targets: usize, now: Time) -> Self {
        let clients = u64::from(config.clients.max(1));
        let turn = |n: u64| Turn {
            key: n,
            left: config.requests / clients + u64::from(n < config.requests % clients),
            // Evenly, not all at once.
            due: now + Span::from_ns(config.every.as_ns() / clients * n),
        };
        let turns = (0..u64::from(config.clients)).map(turn).collect();
        let cars = Cars { value_bytes: config.value_bytes, below: config.below.clone() };
        let (clients, tally) = (Clients::new(cars, config.clients as usize), Tally::default());
        Self { config, targets, begun: now, clients, turns, is_over: false, tally }
    }

    /// Nothing more is asked; what is under way is waited for.
    pub const fn stop(&mut self) {
        self.is_over = true;
    }

    /// What has been answered.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What came of it, if it ends now.
    pub fn finish(self, now: Time) -> Tally {
        Tally { lasted: now.since(self.begun), ..self.tally }
    }

    /// What is asked of an entry; nothing if it is a call.
    fn action(&mut self) -> Option<Action> {
        let change = match self.config.operation {
            Operation::Create => Change::Create(Leaf::A, self.clients.value()),
            Operation::Update => Change::Replace(Leaf::A, self.clients.value()),
            Operation::Put => Change::Put(Leaf::A, self.clients.value()),
            Operation::Delete => Change::Delete,
            Operation::Read | Operation::StaleRead => return Some(Action::Get(Leaf::A)),
            Operation::Rpc => return None,
        };
        Some(Action::Write { condition: None, change })
    }
}

impl Script for Load {
    fn next(&mut self, client: usize, now: Time) -> Next {
        let Turn { key, left, due } = self.turns[client];
        if left == 0 || self.is_over {
            return Next::Done;
        }
        if now < due {
            return Next::Until(due);
        }
        let entry = (key % u64::from(self.config.keys.max(1))) as u32;
        let consistency = match self.config.operation {
            Operation::StaleRead => Consistency::Stale,
            _ => Consistency::Linearizable,
        };
        let body = if let Some(action) = self.action() {
            self.clients.ask(client, now, Input { entry, action }, consistency, ())
        } else {
            self.clients.ask_else(client, now, ());
            self.clients.layout().call(u64::from(entry))
        };
        Next::Ask { target: client % self.targets, body, timeout: self.config.timeout }
    }

    fn answered(&mut self, client: usize, now: Time, result: Result<Answer, Error>) {
        let latency = self.clients.answered(client, now, &result).latency;
        match result {
            Ok(Answer::Value(None)) if self.config.operation == Operation::Read => {
                self.tally.failures.count(|| "a car is missing".to_owned());
            }
            Ok(_) => self.tally.took(latency),
            Err(error) => self.tally.failures.count(|| error.to_string()),
        }
        let turn = &mut self.turns[client];
        turn.left -= 1;
        turn.key += u64::from(self.config.clients);
        // Whoever is late asks at once, until it has made up for it.
        turn.due += self.config.every;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use store::protocol::RequestBody;

    use super::*;

    fn config(operation: Operation, every: Span) -> LoadConfig {
        let (timeout, below) = (Span::from_secs(1), None);
        LoadConfig { clients: 3, requests: 10, value_bytes: 16, operation, keys: u32::MAX, below, every, timeout }
    }

    /// Answers each request after so long. When each was asked, by which client, at which target, and what.
    fn driven(mut load: Load, takes: Span, answer: &Answer) -> (Vec<(Time, usize, usize, RequestBody)>, Tally) {
        let mut asked = Vec::new();
        // When each client goes on, and whether an answer comes then.
        let mut clients = [(Time::ZERO, false); 3];
        let mut now = Time::ZERO;
        while let Some((client, (at, is_answer))) =
            clients.iter().copied().enumerate().filter(|(_, (at, _))| *at != Time::NEVER).min_by_key(|(_, (at, _))| *at)
        {
            now = at;
            if is_answer {
                load.answered(client, now, Ok(answer.clone()));
            }
            clients[client] = match load.next(client, now) {
                Next::Ask { target, body, .. } => {
                    asked.push((now, client, target, body));
                    (now + takes, true)
                }
                Next::Until(time) => (time, false),
                Next::Wait => panic!("nobody waits for another"),
                Next::Done => (Time::NEVER, false),
            };
        }
        (asked, load.finish(now))
    }

    #[test]
    fn each_entry_is_asked_for_once_and_each_client_asks_its_target() {
        let load = Load::new(config(Operation::Create, Span::ZERO), 2, Time::ZERO);
        let (asked, tally) = driven(load, Span::from_ms(2), &Answer::Written { revision: 1 });
        let created = |body: &RequestBody| match body {
            RequestBody::Write(transaction) => match &transaction.changes[..] {
                [tree::Change::Create { at, value }] if value.len() == 16 => at.path.to_string(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let paths: BTreeSet<String> = asked.iter().map(|(.., body)| created(body)).collect();
        assert_eq!(paths, (0..10).map(|key| format!("/car:cars/car-entry={key}")).collect());
        assert!(asked.iter().all(|(_, client, target, _)| *target == client % 2));
        assert_eq!((tally.latencies_ns, tally.lasted), (vec![2_000_000; 10], Span::from_ms(8)));
    }

    #[test]
    fn a_pace_is_kept_and_made_up_for() {
        let load = Load::new(config(Operation::Put, Span::from_ms(30)), 1, Time::ZERO);
        let (asked, _) = driven(load, Span::from_ms(1), &Answer::Written { revision: 1 });
        let at: Vec<u64> = asked.iter().map(|(at, ..)| at.since(Time::ZERO).as_ns() / 1_000_000).collect();
        assert_eq!(at, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        let load = Load::new(config(Operation::Put, Span::from_ms(30)), 1, Time::ZERO);
        let (asked, _) = driven(load, Span::from_ms(40), &Answer::Written { revision: 1 });
        let first = asked.iter().filter(|(_, client, ..)| *client == 0).map(|(at, ..)| *at);
        assert!(first.eq([0, 40, 80, 120].map(|ms| Time::ZERO + Span::from_ms(ms))), "answered late, asked at once");
    }

    #[test]
    fn a_car_that_is_missing_is_a_failure_but_for_a_stale_read() {
        for (operation, failed) in [(Operation::Read, 10), (Operation::StaleRead, 0)] {
            let load = Load::new(config(operation, Span::ZERO), 1, Time::ZERO);
            let (_, tally) = driven(load, Span::from_ms(1), &Answer::Value(None));
            assert_eq!((tally.failures.count, tally.answered()), (failed, 10), "{operation:?}");
        }
    }

    #[test]
    fn what_is_stopped_asks_nothing_more() {
        let mut load = Load::new(config(Operation::Rpc, Span::ZERO), 1, Time::ZERO);
        assert!(matches!(load.next(0, Time::ZERO), Next::Ask { body: RequestBody::Call { .. }, .. }));
        load.stop();
        assert!(matches!(load.next(1, Time::ZERO), Next::Done));
        load.answered(0, Time::ZERO, Err(Error::Busy(1)));
        assert!(matches!(load.next(0, Time::ZERO), Next::Done));
        assert_eq!(load.tally().answered(), 1);
    }
}

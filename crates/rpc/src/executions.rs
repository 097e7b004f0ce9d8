//! What local providers were asked to execute and have not answered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::ServerId;
use machine::nanos::Time;

use crate::config::{EXECUTIONS_MAX, EXECUTIONS_PER_SERVER_MAX};
use crate::seen::Seen;
use crate::{AttemptId, CallId, DeliveryId, ProviderId};

/// The party that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A client of this server.
    Local(CallId),
    /// Another server asked for it.
    Server {
        /// The server that asked.
        server: ServerId,
        /// Its number for this.
        attempt: AttemptId,
    },
}

/// One delivery that is not answered.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// The provider that executes it.
    pub provider: ProviderId,
    /// The caller that waits for it.
    pub caller: Caller,
    /// The time after which nobody waits any more.
    pub deadline: Time,
}

/// All of them. Always: the counts agree with the list.
#[derive(Clone, Debug, Default)]
pub struct Executions {
    list: BTreeMap<DeliveryId, Execution>,
    by_provider: BTreeMap<ProviderId, BTreeSet<DeliveryId>>,
    by_server: BTreeMap<ServerId, usize>,
    deadlines: BTreeSet<(Time, DeliveryId)>,
    /// Those that have ended since the driver last heard; it hears of all at once.
    ended: VecDeque<(ProviderId, DeliveryId)>,
    /// What arrived from each server.
    seen: BTreeMap<ServerId, Seen>,
    next: u64,
}

impl Executions {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether one more is possible.
    pub fn has_room(&self) -> bool {
        self.list.len() < EXECUTIONS_MAX
    }

    /// Whether one more for this server is possible.
    pub fn has_room_for(&self, server: ServerId) -> bool {
        self.has_room() && self.by_server.get(&server).is_none_or(|&n| n < EXECUTIONS_PER_SERVER_MAX)
    }

    /// How many a provider has to do.
    pub fn of(&self, provider: ProviderId) -> usize {
        self.by_provider.get(&provider).map_or(0, BTreeSet::len)
    }

    /// The numbers of what a provider has to do.
    pub fn numbers_of(&self, provider: ProviderId) -> Vec<DeliveryId> {
        self.by_provider.get(&provider).into_iter().flatten().copied().collect()
    }

    /// Notes that an attempt of another server has arrived. True if it is new.
    pub fn note_arrival(&mut self, server: ServerId, attempt: AttemptId) -> bool {
        self.seen.entry(server).or_default().note(attempt)
    }

    /// Adds one. There must be room.
    pub fn add(&mut self, execution: Execution) -> DeliveryId {
        assert!(self.has_room(), "room is checked before");
        let id = DeliveryId(self.next);
        self.next += 1;
        self.by_provider.entry(execution.provider).or_default().insert(id);
        self.deadlines.insert((execution.deadline, id));
        if let Caller::Server { server, .. } = execution.caller {
            *self.by_server.entry(server).or_default() += 1;
        }
        self.list.insert(id, execution);
        id
    }

    /// Looks at one.
    pub fn get(&self, id: DeliveryId) -> Option<&Execution> {
        self.list.get(&id)
    }

    /// Takes one out.
    pub fn remove(&mut self, id: DeliveryId) -> Option<Execution> {
        let execution = self.list.remove(&id)?;
        self.ended.push_back((execution.provider, id));
        self.deadlines.remove(&(execution.deadline, id));
        if let Some(numbers) = self.by_provider.get_mut(&execution.provider) {
            numbers.remove(&id);
            if numbers.is_empty() {
                self.by_provider.remove(&execution.provider);
            }
        }
        if let Caller::Server { server, .. } = execution.caller
            && let Some(count) = self.by_server.get_mut(&server)
        {
            *count -= 1;
            if *count == 0 {
                self.by_server.remove(&server);
            }
        }
        Some(execution)
    }

    /// The next one that has ended and was not asked for yet.
    pub fn next_ended(&mut self) -> Option<(ProviderId, DeliveryId)> {
        self.ended.pop_front()
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|&(time, _)| time)
    }

    /// Forgets what other servers asked for and nobody waits for any more. Local calls have a deadline of their own.
    pub fn expire(&mut self, now: Time) {
        while let Some(&(time, id)) = self.deadlines.first()
            && time <= now
        {
            self.remove(id);
        }
    }

    /// Forgets all servers but these: they were removed from the cluster.
    pub fn keep_servers(&mut self, members: &BTreeSet<ServerId>) {
        self.seen.retain(|server, _| members.contains(server));
        let is_gone = |execution: &Execution| matches!(execution.caller, Caller::Server { server, .. } if !members.contains(&server));
        let gone: Vec<_> = self.list.iter().filter(|(_, e)| is_gone(e)).map(|(&id, _)| id).collect();
        for id in gone {
            self.remove(id);
        }
    }
}

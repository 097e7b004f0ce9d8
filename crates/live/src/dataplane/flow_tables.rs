//! Tables of flows of a running network: what is asked of the worker that has them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use topology::NodeId;
use vswitch::conntrack::{ConnectionStatus, ConntrackCounters};
use vswitch::flow_table::{
    CacheCounters, ChangeError, EntryStatus, Explanation, Group, Match, MeterStatus, Selection, TableChange,
};

use super::DataPlane;
use super::worker::{Command, Worker};
use crate::Error;

/// Changes that a worker makes at once: between them it forwards.
const CHANGES_AT_ONCE: usize = 64;

/// Places for connections that a worker looks through at once.
const CONNECTIONS_AT_ONCE: usize = 4_096;

/// Connections of a switch that are listed.
const CONNECTIONS_LISTED_MAX: usize = 16_384;

/// What is asked about a switch's tables.
#[derive(Clone, Debug)]
pub enum FlowQuestion {
    /// Whether these changes can be made.
    Check(Arc<[TableChange]>),
    /// Make these of the changes.
    Change(Arc<[TableChange]>, Range<usize>),
    /// Which entries there are of those that are meant, and all groups and meters.
    Entries(Selection),
    /// What a packet with these fields would meet.
    Explain(Box<Match>),
    /// Which connections are tracked, from a place on.
    Connections(usize),
}

/// What a worker answers.
#[derive(Debug)]
pub enum FlowAnswer {
    /// To [`FlowQuestion::Check`]: the first change that cannot be made.
    Checked(Result<(), (usize, ChangeError)>),
    /// To [`FlowQuestion::Change`]: how many flows or groups have changed.
    Changed(usize),
    /// To [`FlowQuestion::Entries`].
    Tables(TablesStatus),
    /// To [`FlowQuestion::Explain`].
    Explained(Explanation),
    /// To [`FlowQuestion::Connections`]: some of them, and where to go on.
    Connections(TrackedConnections, Option<usize>),
}

/// The connections that a switch tracks.
#[derive(Clone, Debug, Default)]
pub struct TrackedConnections {
    /// The connections.
    pub connections: Vec<ConnectionStatus>,
    /// What has been counted.
    pub counters: ConntrackCounters,
}

/// What is in a switch's tables.
#[derive(Clone, Debug)]
pub struct TablesStatus {
    /// The entries, in the order of tables and priorities.
    pub entries: Vec<EntryStatus>,
    /// The groups, in the order of their numbers.
    pub groups: Vec<Group>,
    /// The meters, likewise.
    pub meters: Vec<MeterStatus>,
    /// What caches in front of the tables have counted.
    pub cache: CacheCounters,
}

impl Worker {
    #[cold]
    pub(super) fn answer_about_flows(&mut self, switch: usize, question: FlowQuestion) -> Option<FlowAnswer> {
        let now = self.now();
        let tables = self.graph.pipeline_mut(switch)?.flow_tables()?;
        // Nothing is shown whose time has come.
        tables.expire(now);
        Some(match question {
            FlowQuestion::Check(changes) => FlowAnswer::Checked(tables.check(&changes)),
            FlowQuestion::Change(changes, range) => {
                // They were checked; what has expired since makes none of them wrong.
                let changed = changes[range].iter().filter_map(|change| tables.change(now, change).ok()).sum();
                self.graph.pipeline_changed(self.plan.tables().at(now), &mut self.edge, switch);
                FlowAnswer::Changed(changed)
            }
            FlowQuestion::Entries(selection) => FlowAnswer::Tables(TablesStatus {
                entries: tables.entries(now, &selection),
                groups: tables.groups().cloned().collect(),
                meters: tables.meters(now),
                cache: tables.cache_counters(),
            }),
            FlowQuestion::Explain(packet) => FlowAnswer::Explained(tables.explain(now, &packet)),
            FlowQuestion::Connections(from) => {
                let conntrack = tables.conntrack()?;
                let (connections, next) = conntrack.connections(now, from, CONNECTIONS_AT_ONCE);
                let counters = conntrack.counters();
                FlowAnswer::Connections(TrackedConnections { connections, counters }, next)
            }
        })
    }
}

impl DataPlane {
    /// Asks the worker that has a switch; none if the switch has no tables.
    fn ask_about_flows(&self, switch: NodeId, question: FlowQuestion) -> Result<Option<FlowAnswer>, Error> {
        let owner = self.plan.owner(switch);
        let Some(number) = self.plan.map().switch(switch) else { return Ok(None) };
        let worker = &self.workers[owner];
        let answer = worker.ask(|reply| Command::Flows { switch: number, question, reply });
        worker.await_answer(&answer, Instant::now() + self.patience).ok_or(Error::Worker { worker: owner })
    }

    /// Changes the tables of a switch that has some: all of the changes or, if one of them cannot be made, none. The worker forwards meanwhile. How many flows or
    /// groups have changed.
    pub fn change_flows(
        &self,
        switch: NodeId,
        changes: Vec<TableChange>,
    ) -> Result<Result<usize, (usize, ChangeError)>, Error> {
        let changes: Arc<[TableChange]> = changes.into();
        if let Some(FlowAnswer::Checked(Err(refused))) =
            self.ask_about_flows(switch, FlowQuestion::Check(Arc::clone(&changes)))?
        {
            return Ok(Err(refused));
        }
        let mut changed = 0;
        for first in (0..changes.len()).step_by(CHANGES_AT_ONCE) {
            let range = first..changes.len().min(first + CHANGES_AT_ONCE);
            if let Some(FlowAnswer::Changed(more)) =
                self.ask_about_flows(switch, FlowQuestion::Change(Arc::clone(&changes), range))?
            {
                changed += more;
            }
        }
        Ok(Ok(changed))
    }

    /// What is in the tables of a switch; none if it has no tables.
    pub fn flows(&self, switch: NodeId, selection: Selection) -> Result<Option<TablesStatus>, Error> {
        let answer = self.ask_about_flows(switch, FlowQuestion::Entries(selection))?;
        Ok(answer.and_then(|answer| if let FlowAnswer::Tables(tables) = answer { Some(tables) } else { None }))
    }

    /// The connections that a switch tracks, or as many as are listed; none if no flow of it asks for them.
    pub fn connections(&self, switch: NodeId) -> Result<Option<TrackedConnections>, Error> {
        let (mut all, mut from) = (TrackedConnections::default(), Some(0));
        while let Some(place) = from.filter(|_| all.connections.len() < CONNECTIONS_LISTED_MAX) {
            let answer = self.ask_about_flows(switch, FlowQuestion::Connections(place))?;
            let Some(FlowAnswer::Connections(more, next)) = answer else { return Ok(None) };
            all.connections.extend(more.connections);
            (all.counters, from) = (more.counters, next);
        }
        all.connections.truncate(CONNECTIONS_LISTED_MAX);
        Ok(Some(all))
    }

    /// What a packet with these fields would meet at a switch; none if the switch has no tables.
    pub fn explain(&self, switch: NodeId, packet: Match) -> Result<Option<Explanation>, Error> {
        let answer = self.ask_about_flows(switch, FlowQuestion::Explain(Box::new(packet)))?;
        Ok(answer.and_then(|answer| if let FlowAnswer::Explained(explained) = answer { Some(explained) } else { None }))
    }
}

//! Tables of flows of a running network: what is asked of the worker that has them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use topology::NodeId;
use vswitch::conntrack::{ConnectionStatus, ConntrackCounters};
use vswitch::flow_table::{
    CacheCounters, ChangeError, ChangeList, ChangeProgress, EntryStatus, Explanation, GroupStatus, KnownFlow, Match,
    MeterStatus, Selection, TableChange, TablesSummary,
};

use super::DataPlane;
use super::worker::{Command, Worker};
use crate::Error;

/// Flows that a worker looks up at once: between them it forwards.
const FLOWS_AT_ONCE: usize = 1_024;

/// Places for entries that a worker looks through at once.
const ENTRIES_AT_ONCE: usize = 4_096;

/// Places for connections that a worker looks through at once.
const CONNECTIONS_AT_ONCE: usize = 4_096;

/// Connections of a switch that are listed.
const CONNECTIONS_LISTED_MAX: usize = 16_384;

/// What is asked about a switch's tables.
#[derive(Clone, Debug)]
pub enum FlowQuestion {
    /// What changes depend on.
    Summary,
    /// What is known of the flows that these of the changes add.
    Known(Arc<ChangeList>, Range<usize>),
    /// Make a piece of the changes.
    Change(Arc<ChangeList>, ChangeProgress),
    /// Which entries there are of those that are meant, from a place on, and all groups and meters.
    Entries(Box<Selection>, usize),
    /// What a packet with these fields would meet.
    Explain(Box<Match>),
    /// Which connections are tracked, from a place on.
    Connections(usize),
    /// Forget the connections of a zone, or all, from a place on.
    FlushConnections(Option<u16>, usize),
}

/// What a worker answers.
#[derive(Debug)]
pub enum FlowAnswer {
    /// To [`FlowQuestion::Summary`].
    Summary(TablesSummary),
    /// To [`FlowQuestion::Known`].
    Known(Vec<KnownFlow>),
    /// To [`FlowQuestion::Change`]: how many flows or groups have changed, and how far it has come.
    Changed(usize, ChangeProgress),
    /// To [`FlowQuestion::Entries`]: some of them, in no order, and where to go on.
    Tables(TablesStatus, Option<usize>),
    /// To [`FlowQuestion::Explain`].
    Explained(Explanation),
    /// To [`FlowQuestion::Connections`]: some of them, and where to go on.
    Connections(TrackedConnections, Option<usize>),
    /// To [`FlowQuestion::FlushConnections`]: how many were forgotten, and where to go on.
    Flushed(usize, Option<usize>),
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
    pub groups: Vec<GroupStatus>,
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
            FlowQuestion::Summary => FlowAnswer::Summary(tables.summary()),
            FlowQuestion::Known(list, range) => FlowAnswer::Known(tables.known(&list.changes()[range])),
            FlowQuestion::Change(list, mut progress) => {
                // They were checked; what has expired since makes none of them wrong.
                let changed = tables.change_some(now, &list, &mut progress);
                self.graph.pipeline_changed(self.plan.tables().at(now), &mut self.edge, switch);
                FlowAnswer::Changed(changed, progress)
            }
            FlowQuestion::Entries(selection, from) => {
                let end = from.saturating_add(ENTRIES_AT_ONCE).min(tables.places());
                let next = (end < tables.places()).then_some(end);
                let entries = tables.entries_within(now, &selection, from..end);
                let (mut groups, mut meters) = (Vec::new(), Vec::new());
                if next.is_none() {
                    groups = tables.groups(now);
                    meters = tables.meters(now);
                }
                FlowAnswer::Tables(TablesStatus { entries, groups, meters, cache: tables.cache_counters() }, next)
            }
            FlowQuestion::Explain(packet) => FlowAnswer::Explained(tables.explain(now, &packet)),
            FlowQuestion::FlushConnections(zone, from) => {
                let (flushed, next) = tables.flush_connections(now, zone, (from, CONNECTIONS_AT_ONCE))?;
                FlowAnswer::Flushed(flushed, next)
            }
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
        let list = Arc::new(ChangeList::new(changes));
        let Some(FlowAnswer::Summary(summary)) = self.ask_about_flows(switch, FlowQuestion::Summary)? else {
            return Ok(Ok(0));
        };
        let is_close = summary.may_be_full(list.changes());
        let known = if is_close { Some(self.known_flows(switch, &list)?) } else { None };
        if let Err(refused) = summary.check(list.changes(), known.as_deref()) {
            return Ok(Err(refused));
        }
        let (mut changed, mut progress) = (0, ChangeProgress::default());
        while !progress.is_done(&list) {
            let question = FlowQuestion::Change(Arc::clone(&list), progress);
            let Some(FlowAnswer::Changed(more, next)) = self.ask_about_flows(switch, question)? else { break };
            (changed, progress) = (changed + more, next);
        }
        Ok(Ok(changed))
    }

    /// What a switch knows of the flows that changes add.
    fn known_flows(&self, switch: NodeId, list: &Arc<ChangeList>) -> Result<Vec<KnownFlow>, Error> {
        let changes = list.changes().len();
        let mut known = Vec::with_capacity(changes);
        for first in (0..changes).step_by(FLOWS_AT_ONCE) {
            let range = first..changes.min(first + FLOWS_AT_ONCE);
            let question = FlowQuestion::Known(Arc::clone(list), range.clone());
            match self.ask_about_flows(switch, question)? {
                Some(FlowAnswer::Known(more)) => known.extend(more),
                _ => known.resize(range.end, KnownFlow::default()),
            }
        }
        Ok(known)
    }

    /// What is in the tables of a switch; none if it has no tables. The worker forwards meanwhile, so a flow that comes or goes may be there or not.
    pub fn flows(&self, switch: NodeId, selection: &Selection) -> Result<Option<TablesStatus>, Error> {
        let (mut entries, mut from) = (Vec::new(), 0);
        loop {
            let answer = self.ask_about_flows(switch, FlowQuestion::Entries(Box::new(*selection), from))?;
            let Some(FlowAnswer::Tables(tables, next)) = answer else { return Ok(None) };
            entries.extend(tables.entries);
            let Some(next) = next else {
                EntryStatus::sort(&mut entries);
                return Ok(Some(TablesStatus { entries, ..tables }));
            };
            from = next;
        }
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

    /// Has a switch forget the connections of a zone, or all that it tracks. How many they were.
    pub fn flush_connections(&self, switch: NodeId, zone: Option<u16>) -> Result<usize, Error> {
        let (mut all, mut from) = (0, Some(0));
        while let Some(place) = from {
            let answer = self.ask_about_flows(switch, FlowQuestion::FlushConnections(zone, place))?;
            let Some(FlowAnswer::Flushed(flushed, next)) = answer else { break };
            (all, from) = (all + flushed, next);
        }
        Ok(all)
    }

    /// What a packet with these fields would meet at a switch; none if the switch has no tables.
    pub fn explain(&self, switch: NodeId, packet: Match) -> Result<Option<Explanation>, Error> {
        let answer = self.ask_about_flows(switch, FlowQuestion::Explain(Box::new(packet)))?;
        Ok(answer.and_then(|answer| if let FlowAnswer::Explained(explained) = answer { Some(explained) } else { None }))
    }
}

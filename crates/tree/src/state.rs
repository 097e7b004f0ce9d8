//! All that a shard's log makes: tree, sessions, marks of moves.
//!
//! ```text
//!                    Freeze                     Dropped
//!        served --------------> frozen ------------------> moved
//!          ^  ^                   |                          |
//!          |  +-------------------+                          | Import 0
//!          |          Thaw                                   v
//!          +--------------------------------------------- arriving
//!                        Import, the last
//! ```
//!
//! Moves are distinguished by their ids. A prefix remembers the newest move that was completed for it; commands of that and
//! older ones change nothing, so that a command which is proposed twice, or comes late, does no harm.

mod leasing;
mod repeat;

use std::collections::BTreeMap;

use crate::digest::{Digest, DigestCache};
use crate::marks::{MAX_MARKS, covers, share};
use crate::{
    Begin, Change, Command, Committed, Datastore, Entry, Event, EventKind, Import, LeaseId, Leases, Location, Mark,
    Outcome, Path, Refusal, SessionRecord, Sessions, Transaction, Tree, Value,
};
pub use leasing::{LeaseChunk, PROTOCOL_WITH_AWAY_PARTS, Staged};
use repeat::named;

/// The largest revision that another shard's chunk or a snapshot may claim. No shard lives long enough to reach it, and
/// counting on from it does not overflow.
pub const MAX_REVISION: u64 = 1 << 62;

/// The state machine of one shard. A clone shares its content and is as good as a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The values, by location.
    pub tree: Tree,
    /// What became of recent writes.
    pub sessions: Sessions,
    /// Prefixes that went to another shard: [`Mark::number`] is the shard.
    pub moved: BTreeMap<Path, Mark>,
    /// Prefixes that are about to go: [`Mark::number`] is the move.
    pub frozen: BTreeMap<Path, Mark>,
    /// Prefixes that are arriving.
    pub imports: BTreeMap<Path, Import>,
    /// The newest move of a prefix that was finished or given up.
    pub completed: BTreeMap<Path, u64>,
    /// Values that go away with the programs that need them.
    pub leases: Leases,
    /// Leases that came ahead of a prefix that is arriving.
    pub staged: BTreeMap<Path, Staged>,
    /// The quota is reached: what would make the data larger is refused, unless a move brings it.
    pub is_full: bool,
    /// The version of the protocol that all servers speak, as far as this log says: 0 before version 4. What is applied
    /// otherwise since a version is so from the entry on that says it, by all replicas alike.
    pub protocol: u32,
}

/// What one chunk of a move brings.
struct Arrival<'a> {
    move_id: u64,
    prefix: &'a Path,
    except: &'a [Path],
    number: u32,
    entries: &'a [Entry],
    sessions: &'a [SessionRecord],
    revision: u64,
    last: bool,
}

impl State {
    /// An empty shard.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies the command at log index `index`, and tells `watch` what changed.
    ///
    /// # Errors
    /// [`Refusal`]; then nothing that can be read changed, unless it is [`Refusal::Otherwise`].
    pub fn apply(&mut self, index: u64, command: &Command, watch: &mut impl FnMut(Event)) -> Outcome {
        self.apply_with_past(index, command, &mut |event, _| watch(event))
    }

    /// The same; `note` gets with each change the value that was there before.
    ///
    /// # Errors
    /// As for [`State::apply`].
    pub fn apply_with_past(
        &mut self,
        index: u64,
        command: &Command,
        note: &mut impl FnMut(Event, Option<Value>),
    ) -> Outcome {
        match command {
            Command::Freeze { prefix, except, move_id } => self.freeze(prefix, except, *move_id),
            Command::Thaw { prefix, move_id } => {
                if self.frozen.get(prefix).is_some_and(|mark| mark.number == *move_id) {
                    self.frozen.remove(prefix);
                }
                self.complete(prefix, *move_id);
                Ok(self.committed())
            }
            Command::Import { move_id, prefix, except, number, entries, sessions, revision, last } => {
                let arrival = Arrival {
                    move_id: *move_id,
                    prefix,
                    except,
                    number: *number,
                    entries,
                    sessions,
                    revision: *revision,
                    last: *last,
                };
                self.import(index, &arrival, &mut |event| note(event, None))
            }
            Command::Dropped { prefix, move_id, to } => {
                Ok(self.dropped(prefix, *move_id, *to, &mut |event| note(event, None)))
            }
            Command::Expire { leases } => Ok(self.expire(leases, note)),
            Command::ImportLeases { move_id, prefix, except, leases } => {
                self.stage_leases((prefix, except), *move_id, leases)
            }
            Command::Growth { allowed } => {
                self.is_full = !allowed;
                Ok(self.committed())
            }
            Command::Protocol { version } => {
                self.protocol = self.protocol.max(*version);
                Ok(self.committed())
            }
            Command::Write { session, sequence, acknowledged, .. }
            | Command::WriteOrElse { session, sequence, acknowledged, .. }
            | Command::Grant { session, sequence, acknowledged, .. }
            | Command::Revoke { session, sequence, acknowledged, .. } => {
                match self.sessions.begin(*session, *sequence, *acknowledged, index) {
                    Begin::Repeat(outcome) => return named(outcome, command),
                    Begin::Forgotten => return Err(Refusal::Forgotten),
                    Begin::New => {}
                }
                // Not kept in the session: the retry shall find another answer.
                self.admits(command)?;
                let outcome = self.carry_out(index, command, note);
                self.sessions.finish(*session, *sequence, outcome.clone());
                outcome
            }
        }
    }

    /// What a client wants, which was admitted.
    fn carry_out(&mut self, index: u64, command: &Command, note: &mut impl FnMut(Event, Option<Value>)) -> Outcome {
        match command {
            Command::Write { transaction, .. } => {
                transaction.check()?;
                self.tree.judge(&transaction.conditions)?;
                self.change(&transaction.changes, note)
            }
            Command::WriteOrElse { transaction, otherwise, .. } => {
                transaction.check_with(otherwise)?;
                match self.tree.judge(&transaction.conditions) {
                    Ok(()) => self.change(&transaction.changes, note),
                    Err(Refusal::ConditionFailed { index, actual }) => {
                        let Committed { revision } = self.change(otherwise, note)?;
                        Err(Refusal::Otherwise { revision, condition: index, actual })
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            Command::Grant { lease, ttl_ms, home, .. } => self.grant(*lease, *ttl_ms, home, index),
            Command::Revoke { lease, .. } => self.revoke(*lease, note),
            _ => unreachable!("other commands belong to no session"),
        }
    }

    /// Makes changes, unless they need room that there is none of.
    fn change(&mut self, changes: &[Change], note: &mut impl FnMut(Event, Option<Value>)) -> Outcome {
        if !self.is_full {
            return self.attach(changes, note);
        }
        let (tree, leases, mut noted) = (self.tree.clone(), self.leases.clone(), Vec::new());
        let committed = self.attach(changes, &mut |event, before| noted.push((event, before)))?;
        if self.tree.bytes() > tree.bytes() {
            (self.tree, self.leases) = (tree, leases);
            return Err(Refusal::Full);
        }
        for (event, before) in noted {
            note(event, before);
        }
        Ok(committed)
    }

    /// Whether the value at `path` is served here.
    ///
    /// # Errors
    /// [`Refusal::Moving`] or [`Refusal::Moved`].
    pub fn serves(&self, path: &Path) -> Result<(), Refusal> {
        self.completed_here(path, false)
    }

    /// Whether everything at and below `path` is served here, apart from `except`: what the caller knows to be elsewhere.
    ///
    /// # Errors
    /// [`Refusal::Moving`] or [`Refusal::Moved`].
    pub fn serves_subtree(&self, path: &Path, except: &[Path]) -> Result<(), Refusal> {
        if except.is_empty() {
            return self.completed_here(path, true);
        }
        self.completed_here(path, false)?;
        let asked = (path, except);
        for (prefix, mark) in &self.frozen {
            if share(asked, (prefix, &mark.except)) {
                return Err(Refusal::Moving { prefix: prefix.clone() });
            }
        }
        for (prefix, import) in &self.imports {
            if share(asked, (prefix, &import.except)) {
                return Err(Refusal::Moving { prefix: prefix.clone() });
            }
        }
        for (prefix, mark) in &self.moved {
            if share(asked, (prefix, &mark.except)) {
                return Err(Refusal::Moved { prefix: prefix.clone(), to: mark.number });
            }
        }
        Ok(())
    }

    /// A hash over all content, equal on servers that applied the same log. Takes time in proportion to the content.
    pub fn digest(&self) -> u64 {
        self.digest_with(&mut DigestCache::default())
    }

    /// The same; of large values that were digested with this cache before, nothing is read.
    pub fn digest_with(&self, cache: &mut DigestCache) -> u64 {
        let mut digest = Digest::new();
        self.tree.digest(&mut digest, cache);
        self.sessions.digest(&mut digest);
        for marks in [&self.moved, &self.frozen] {
            digest.number(marks.len() as u64);
            for (prefix, mark) in marks {
                digest.bytes(prefix.as_str().as_bytes());
                digest.number(mark.number);
                digest_paths(&mut digest, &mark.except);
            }
        }
        digest.number(self.imports.len() as u64);
        for (prefix, import) in &self.imports {
            digest.bytes(prefix.as_str().as_bytes());
            digest.number(import.move_id);
            digest.number(u64::from(import.next));
            digest_paths(&mut digest, &import.except);
        }
        for (prefix, move_id) in &self.completed {
            digest.bytes(prefix.as_str().as_bytes());
            digest.number(*move_id);
        }
        self.digest_leases(&mut digest);
        if self.is_full {
            digest.number(1);
        }
        if self.protocol > 0 {
            digest.number(u64::from(self.protocol));
        }
        digest.finish()
    }

    /// Whether all that a client's command touches is here and at rest.
    fn admits(&self, command: &Command) -> Result<(), Refusal> {
        if self.frozen.is_empty() && self.imports.is_empty() && self.moved.is_empty() {
            return Ok(());
        }
        match command {
            Command::Write { transaction, .. } => self.admits_all(transaction, &[]),
            Command::WriteOrElse { transaction, otherwise, .. } => self.admits_all(transaction, otherwise),
            Command::Grant { home, .. } => self.completed_here(home, false),
            Command::Revoke { lease, at, .. } => self.admits_revocation(*lease, at),
            _ => Ok(()),
        }
    }

    fn admits_all(&self, transaction: &Transaction, otherwise: &[Change]) -> Result<(), Refusal> {
        for condition in &transaction.conditions {
            self.completed_here(&condition.at.path, false)?;
        }
        for change in transaction.changes.iter().chain(otherwise) {
            self.completed_here(&change.at().path, change.is_subtree())?;
        }
        Ok(())
    }

    fn admits_revocation(&self, lease: LeaseId, at: &Path) -> Result<(), Refusal> {
        match self.leases.get(lease) {
            Some(_) => self.is_lease_at_rest(lease),
            None => self.completed_here(at, false),
        }
    }

    fn completed_here(&self, path: &Path, subtree: bool) -> Result<(), Refusal> {
        if let Some((prefix, _)) = Mark::find(&self.frozen, path, subtree) {
            return Err(Refusal::Moving { prefix: prefix.clone() });
        }
        for (prefix, import) in &self.imports {
            if covers(prefix, &import.except, path) || (subtree && share((prefix, &import.except), (path, &[]))) {
                return Err(Refusal::Moving { prefix: prefix.clone() });
            }
        }
        if let Some((prefix, mark)) = Mark::find(&self.moved, path, subtree) {
            return Err(Refusal::Moved { prefix: prefix.clone(), to: mark.number });
        }
        Ok(())
    }

    fn freeze(&mut self, prefix: &Path, except: &[Path], move_id: u64) -> Outcome {
        let frozen_by = self.frozen.get(prefix).map(|mark| mark.number);
        if self.is_completed(prefix, move_id) || frozen_by == Some(move_id) {
            return Ok(self.committed());
        }
        self.undisturbed(prefix, except)?;
        if self.frozen.len() >= MAX_MARKS || self.moved.len() >= MAX_MARKS {
            return Err(Refusal::TooManyMarks);
        }
        self.frozen.insert(prefix.clone(), Mark { number: move_id, except: except.to_vec() });
        Ok(self.committed())
    }

    fn import(&mut self, index: u64, arrival: &Arrival<'_>, watch: &mut impl FnMut(Event)) -> Outcome {
        let Arrival { prefix, except, .. } = *arrival;
        if self.is_completed(prefix, arrival.move_id) {
            return Ok(self.committed());
        }
        let expected = match self.imports.get(prefix) {
            Some(import) if import.move_id == arrival.move_id => import.next,
            Some(import) if import.move_id > arrival.move_id => return Ok(self.committed()),
            _ => 0,
        };
        if arrival.number < expected {
            return Ok(self.committed());
        }
        if arrival.number > expected {
            return Err(Refusal::OutOfOrder { prefix: prefix.clone(), expected });
        }
        let is_sound = arrival.revision <= MAX_REVISION
            && arrival.entries.iter().all(|entry| entry.value.etag <= arrival.revision);
        if !is_sound {
            return Err(Refusal::UnsoundChunk { prefix: prefix.clone(), number: arrival.number });
        }
        if expected == 0 {
            self.begin_import(arrival)?;
        }
        for entry in arrival.entries {
            // Whoever sends more than was agreed must not overwrite what is served here.
            if covers(prefix, except, &entry.at.path) {
                self.tree.import(core::slice::from_ref(entry));
            }
        }
        self.sessions.import(arrival.sessions, index);
        self.tree.raise(arrival.revision);
        if arrival.last {
            self.imports.remove(prefix);
            self.claim(prefix, except);
            self.complete(prefix, arrival.move_id);
            self.adopt_leases((prefix, except), arrival.move_id, index);
            self.reset(prefix, watch);
        } else {
            self.imports.get_mut(prefix).expect("it has begun").next = expected.saturating_add(1);
        }
        Ok(self.committed())
    }

    fn begin_import(&mut self, arrival: &Arrival<'_>) -> Result<(), Refusal> {
        let Arrival { prefix, except, move_id, .. } = *arrival;
        // What an older move brought, and was given up, is not mixed with what this one brings.
        if let Some(given_up) = self.imports.remove(prefix) {
            self.tree.drop_prefix(prefix, &given_up.except);
            self.leases.arrives(prefix, &given_up.except);
        }
        self.undisturbed(prefix, except)?;
        if self.imports.len() >= MAX_MARKS {
            return Err(Refusal::TooManyMarks);
        }
        self.leases.arrives(prefix, except);
        self.imports.insert(prefix.clone(), Import { move_id, except: except.to_vec(), next: 0 });
        Ok(())
    }

    fn dropped(&mut self, prefix: &Path, move_id: u64, to: u64, watch: &mut impl FnMut(Event)) -> Committed {
        if self.is_completed(prefix, move_id) {
            return self.committed();
        }
        let except = if self.frozen.get(prefix).is_some_and(|mark| mark.number == move_id) {
            self.frozen.remove(prefix).map(|mark| mark.except)
        } else if self.imports.get(prefix).is_some_and(|import| import.move_id == move_id) {
            self.imports.remove(prefix).map(|import| import.except)
        } else {
            None
        };
        self.complete(prefix, move_id);
        if self.staged.get(prefix).is_some_and(|staged| staged.move_id <= move_id) {
            self.staged.remove(prefix);
        }
        if let Some(except) = except {
            self.tree.drop_prefix(prefix, &except);
            self.leases.moved(prefix, &except, self.names_homes());
            self.claim(prefix, &except);
            self.moved.insert(prefix.clone(), Mark { number: to, except });
            self.reset(prefix, watch);
        }
        self.committed()
    }

    /// Refuses a move of what another move has in hand.
    fn undisturbed(&self, prefix: &Path, except: &[Path]) -> Result<(), Refusal> {
        let frozen = self.frozen.iter().map(|(prefix, mark)| (prefix, &mark.except[..]));
        let arriving = self.imports.iter().map(|(prefix, import)| (prefix, &import.except[..]));
        match frozen.chain(arriving).find(|other| share((prefix, except), *other)) {
            Some((other, _)) => Err(Refusal::Moving { prefix: other.clone() }),
            None => Ok(()),
        }
    }

    /// Takes the territory of `prefix` without `except` out of all marks of moved prefixes.
    fn claim(&mut self, prefix: &Path, except: &[Path]) {
        // A hole that lay in a mark's territory stays marked, now by itself.
        let holes: Vec<(Path, Mark)> = except
            .iter()
            .filter_map(|hole| {
                let (_, mark) = Mark::find(&self.moved, hole, false)?;
                let except = mark.except.iter().filter(|other| hole.contains(other)).cloned().collect();
                Some((hole.clone(), Mark { number: mark.number, except }))
            })
            .collect();
        self.moved.retain(|moved, _| !covers(prefix, except, moved));
        for (moved, mark) in &mut self.moved {
            if covers(moved, &mark.except, prefix) {
                mark.except.retain(|hole| !prefix.contains(hole));
                mark.except.push(prefix.clone());
            }
        }
        for (hole, mark) in holes {
            self.moved.entry(hole).or_insert(mark);
        }
    }

    fn is_completed(&self, prefix: &Path, move_id: u64) -> bool {
        self.completed.get(prefix).is_some_and(|completed| *completed >= move_id)
    }

    fn complete(&mut self, prefix: &Path, move_id: u64) {
        let completed = self.completed.entry(prefix.clone()).or_default();
        *completed = move_id.max(*completed);
        if self.completed.len() > MAX_MARKS {
            let oldest = self.completed.iter().min_by_key(|(_, move_id)| **move_id).map(|(prefix, _)| prefix.clone());
            self.completed.remove(&oldest.expect("there are too many"));
        }
    }

    /// Tells watchers that a prefix came or went, under a revision of its own.
    fn reset(&mut self, prefix: &Path, watch: &mut impl FnMut(Event)) {
        let revision = self.tree.revision() + 1;
        self.tree.raise(revision);
        for datastore in Datastore::ALL {
            let at = Location { datastore, path: prefix.clone() };
            watch(Event { revision, kind: EventKind::Reset, at });
        }
    }

    fn committed(&self) -> Committed {
        Committed { revision: self.tree.revision() }
    }
}

fn digest_paths(digest: &mut Digest, paths: &[Path]) {
    digest.number(paths.len() as u64);
    for path in paths {
        digest.bytes(path.as_str().as_bytes());
    }
}

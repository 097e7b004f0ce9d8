//! One who stands in a queue for a lock, or to be elected: a recipe out of leases, conditions and watches.
//!
//! ```text
//!  grant a lease --> write an entry with it --> watch the queue, list it --first?--> holds ---release---> revoke the lease
//!                                                        ^                             |
//!                                                        +--- somebody leaves ---+     +--- the lease or the entry is
//!                                                                 not first -----+           gone, or not confirmed in
//!                                                                                            time --> lost
//! ```
//!
//! Each stands in the queue by an entry of its own below the lock's path, written once and together with a lease. Its entity
//! tag is its place: the lowest holds the lock, so the queue is fair. The same tag is the *fencing token*: it is larger for
//! each holder than for the one before, and a transaction with the condition that the entry has this tag is refused as soon
//! as another may hold the lock. What happens elsewhere is safe only if what is written to refuses smaller tokens than it has
//! seen: a program may be stopped for longer than its lease lives and not know it. See `docs/recipes.md`.
//!
//! The machine has no sockets: its driver asks what it wants to be asked, of a [`crate::client::Client`] for example.

use std::collections::{BTreeMap, BTreeSet};

use machine::nanos::{Span, Step, Time};
use machine::{Control, Nano};
use tree::{Change, Condition, EventKind, Expect, LeaseId, Location, Path, PathError, Refusal, Transaction};

use crate::protocol::{Answer, Consistency, Error, LIST_MAX, LeaseRequest, RequestBody, WatchEvents};

/// The name of entries below the path of a lock; the key is the lease.
pub const ENTRY_NAME: &str = "waiter";

/// What failed for now is asked again after this.
const PAUSE: Span = Span::from_ms(100);

/// How a contender behaves.
#[derive(Clone, Debug)]
pub struct Contest {
    /// The lock, or what the election is about.
    pub at: Location,
    /// Its lease, a random number; its place in the queue has this name.
    pub lease: LeaseId,
    /// For how long others wait if it is not heard of any more.
    pub ttl: Span,
    /// What the entry says: a name, for people or for those that look for the elected.
    pub value: Vec<u8>,
}

impl Contest {
    /// The entry's place.
    ///
    /// # Errors
    /// [`PathError`] if nothing can be below the lock's path.
    pub fn entry(&self) -> Result<Location, PathError> {
        let path = self.at.path.child(ENTRY_NAME, &[&self.lease.to_string()])?;
        Ok(Location { path, ..self.at.clone() })
    }
}

/// Whether this is an entry in the queue for the lock at `lock`.
pub fn is_entry(lock: &Path, path: &Path) -> bool {
    let below = path.as_str().strip_prefix(lock.as_str()).and_then(|rest| rest.strip_prefix('/'));
    below
        .and_then(|rest| rest.strip_prefix(ENTRY_NAME))
        .is_some_and(|rest| rest.starts_with('=') && !rest.contains('/'))
}

/// What comes in.
#[derive(Clone, Debug)]
pub enum Input {
    /// What came of a question.
    Answer {
        /// The number of the question.
        ask: u64,
        /// What came of it.
        result: Result<Answer, Error>,
    },
    /// Of the watch that it asked for.
    Events(WatchEvents),
    /// The watch has ended.
    WatchEnded,
    /// The lock is not needed any more.
    Release,
    /// Nothing but the passing of time.
    Tick,
}

/// What goes out.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// To be asked; answered by [`Input::Answer`]. A watch that has begun goes on until the end.
    Ask {
        /// Goes into the answer.
        ask: u64,
        /// The request to send.
        body: RequestBody,
        /// Then it ends at the latest.
        timeout: Span,
    },
    /// It holds the lock.
    Acquired {
        /// The fencing token: the entity tag of its entry.
        token: u64,
        /// The entry by which it stands in the queue.
        entry: Location,
    },
    /// It held the lock, and perhaps does not any more: whatever it is for must stop now. It is the end.
    Lost(String),
    /// It could not stand in the queue. It is the end.
    Failed(Error),
    /// It left the queue as it was asked to. It is the end.
    Released,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    Grant,
    Enter,
    Watch,
    List,
    /// Of the home, or of a part.
    KeepAlive {
        asked: Time,
        is_home: bool,
    },
    Revoke,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Granting,
    Entering,
    Waiting,
    Holding,
    Leaving,
    Over,
}

/// One in the queue.
#[derive(Debug)]
pub struct Contender {
    contest: Contest,
    entry: Location,
    stage: Stage,
    next: u64,
    errands: BTreeMap<u64, Errand>,
    /// A path in each part of the lease that is known.
    parts: BTreeSet<Path>,
    /// The entity tag of the entry.
    token: Option<u64>,
    /// The lease has not ended before this.
    valid_until: Time,
    next_keep_alive: Time,
    /// When the queue is to be listed; never while it is being listed.
    next_list: Time,
    /// The first of what was listed so far.
    first: Option<(u64, Path)>,
    is_watching: bool,
    next_watch: Time,
    outputs: std::collections::VecDeque<Output>,
}

impl Contender {
    /// Begins to stand in the queue.
    ///
    /// # Errors
    /// [`PathError`] if nothing can be below the lock's path.
    pub fn new(contest: Contest) -> Result<Self, PathError> {
        Ok(Self {
            entry: contest.entry()?,
            contest,
            stage: Stage::Granting,
            next: 1,
            errands: BTreeMap::new(),
            parts: BTreeSet::new(),
            token: None,
            valid_until: Time::ZERO,
            next_keep_alive: Time::NEVER,
            next_list: Time::NEVER,
            first: None,
            is_watching: false,
            next_watch: Time::ZERO,
            outputs: std::collections::VecDeque::new(),
        })
    }

    /// Whether it is at its end.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The fencing token, while it holds the lock as far as it knows.
    pub fn holds(&self, now: Time) -> Option<u64> {
        self.token.filter(|_| self.stage == Stage::Holding && now < self.valid_until)
    }

    /// For how long the lease is certain, by this clock, when it was confirmed by a question of that time: a tenth less than
    /// it lives by the leader's clock, which may go faster.
    fn confirmed(&mut self, asked: Time) {
        let certain = asked + self.contest.ttl / 10 * 9;
        self.valid_until = self.valid_until.max(certain);
    }

    fn is_under_way(&self, errand: impl Fn(&Errand) -> bool) -> bool {
        self.errands.values().any(errand)
    }

    fn ask(&mut self, errand: Errand, body: RequestBody, timeout: Span) {
        let ask = self.next;
        self.next += 1;
        self.errands.insert(ask, errand);
        self.outputs.push_back(Output::Ask { ask, body, timeout });
    }

    fn lease(&mut self, errand: Errand, request: LeaseRequest) {
        let timeout = self.contest.ttl / 2;
        self.ask(errand, RequestBody::Lease(request), timeout);
    }

    /// Begins whatever is due.
    fn work(&mut self, now: Time) {
        let home = self.contest.at.path.clone();
        let lease = self.contest.lease;
        match self.stage {
            Stage::Granting if self.errands.is_empty() => {
                let ttl_ms = self.contest.ttl.as_ns() / 1_000_000;
                self.valid_until = now;
                self.lease(Errand::Grant, LeaseRequest::Grant { lease, ttl_ms, home });
            }
            Stage::Waiting | Stage::Holding | Stage::Entering => self.keep_up(now),
            Stage::Granting | Stage::Leaving | Stage::Over => {}
        }
    }

    fn keep_up(&mut self, now: Time) {
        if self.stage == Stage::Holding && now >= self.valid_until {
            return self.lose("its lease was not confirmed in time");
        }
        if now >= self.next_keep_alive {
            self.next_keep_alive = now + self.contest.ttl / 4;
            let home = self.contest.at.path.clone();
            let parts: Vec<Path> = self.parts.iter().cloned().collect();
            for (at, is_home) in core::iter::once((home, true)).chain(parts.into_iter().map(|path| (path, false))) {
                let lease = self.contest.lease;
                self.lease(Errand::KeepAlive { asked: now, is_home }, LeaseRequest::KeepAlive { lease, at });
            }
        }
        if self.stage == Stage::Entering {
            if now >= self.next_list && !self.is_under_way(|errand| *errand == Errand::Enter) {
                self.next_list = Time::NEVER;
                self.enter();
            }
            return;
        }
        let is_asking = self.is_under_way(|errand| *errand == Errand::Watch);
        if !self.is_watching && !is_asking && now >= self.next_watch {
            let body = RequestBody::Watch { at: self.contest.at.clone(), from: BTreeMap::new() };
            self.ask(Errand::Watch, body, self.contest.ttl);
        }
        if now >= self.next_list && !self.is_under_way(|errand| *errand == Errand::List) {
            // Should a watch ever be silent about a change, the queue stands still for so long.
            self.next_list = now + self.contest.ttl;
            self.first = None;
            self.list(None);
        }
    }

    fn enter(&mut self) {
        let (at, value, lease) = (self.entry.clone(), self.contest.value.as_slice().into(), self.contest.lease);
        let condition = Condition { at: at.clone(), expect: Expect::Absent };
        let changes = vec![Change::PutWithLease { at, value, lease }];
        let body = RequestBody::Write(Transaction { conditions: vec![condition], changes });
        self.ask(Errand::Enter, body, self.contest.ttl);
    }

    fn list(&mut self, after: Option<Path>) {
        let (at, consistency) = (self.contest.at.clone(), Consistency::Linearizable);
        let body = RequestBody::List { at, after, limit: LIST_MAX, consistency };
        self.ask(Errand::List, body, self.contest.ttl);
    }

    fn answered(&mut self, now: Time, ask: u64, result: Result<Answer, Error>) {
        let Some(errand) = self.errands.remove(&ask) else { return };
        match errand {
            Errand::Revoke => {
                if self.stage == Stage::Leaving && !self.is_under_way(|errand| *errand == Errand::Revoke) {
                    self.stage = Stage::Over;
                    self.outputs.push_back(Output::Released);
                }
            }
            _ if matches!(self.stage, Stage::Leaving | Stage::Over) => {}
            Errand::Grant => self.granted(now, result),
            Errand::Enter => self.entered(now, result),
            Errand::Watch => {
                self.is_watching = result.is_ok();
                self.next_watch = now + PAUSE;
                // What happened before the watch began is in the list.
                self.next_list = now;
            }
            Errand::List => self.listed(now, result),
            Errand::KeepAlive { asked, is_home } => self.kept(asked, is_home, result),
        }
    }

    fn granted(&mut self, now: Time, result: Result<Answer, Error>) {
        match result {
            Ok(_) => {
                let asked = self.valid_until;
                self.confirmed(asked);
                self.next_keep_alive = now + self.contest.ttl / 4;
                self.stage = Stage::Entering;
                self.next_list = now;
            }
            Err(error) => self.fail(error),
        }
    }

    fn entered(&mut self, now: Time, result: Result<Answer, Error>) {
        match result {
            Ok(Answer::Written { revision }) => self.token = Some(revision),
            // An attempt that was not answered had been carried out: nobody else writes here.
            Err(Error::Refused(Refusal::ConditionFailed { actual: Some(etag), .. })) => self.token = Some(etag),
            Err(error) if error.is_transient() => {
                self.next_list = now + PAUSE;
                return;
            }
            Err(error) => return self.fail(error),
            Ok(other) => unreachable!("a write is not answered by {other:?}"),
        }
        self.stage = Stage::Waiting;
        // The watch comes first.
        self.next_list = Time::NEVER;
    }

    fn listed(&mut self, now: Time, result: Result<Answer, Error>) {
        let (entries, more) = match result {
            Ok(Answer::Values { entries, more }) => (entries, more),
            Err(error) if error.is_transient() => {
                self.next_list = now + PAUSE;
                return;
            }
            Err(error) => return self.give_up(error),
            Ok(other) => unreachable!("a list is not answered by {other:?}"),
        };
        let last = entries.last().map(|(path, ..)| path.clone());
        let lock = self.contest.at.path.clone();
        let queue = entries.into_iter().filter(|(path, ..)| is_entry(&lock, path)).map(|(path, etag, _)| (etag, path));
        self.first = queue.chain(self.first.take()).min();
        match (more, last) {
            (true, Some(last)) => self.list(Some(last)),
            _ => self.judge(now),
        }
    }

    /// All of the queue was listed.
    fn judge(&mut self, now: Time) {
        let is_first = self.first.as_ref().is_some_and(|(_, path)| *path == self.entry.path);
        let etag = self.first.as_ref().map(|(etag, _)| *etag);
        match (self.stage, is_first) {
            (Stage::Holding, false) => self.lose("its entry in the queue is gone"),
            (Stage::Waiting, true) if now < self.valid_until => {
                self.token = etag;
                self.stage = Stage::Holding;
                let token = etag.expect("the first has an entity tag");
                self.outputs.push_back(Output::Acquired { token, entry: self.entry.clone() });
            }
            _ => {}
        }
    }

    fn kept(&mut self, asked: Time, is_home: bool, result: Result<Answer, Error>) {
        match result {
            Ok(Answer::Kept { parts, .. }) => {
                self.parts.extend(parts.into_iter().take(tree::leases::MAX_LEASE_PARTS));
                if is_home {
                    self.confirmed(asked);
                }
            }
            // A part may have ended, or moved back to the home.
            Err(_) if !is_home => {}
            Err(Error::Refused(Refusal::NoLease { lease })) => {
                self.give_up(Error::Refused(Refusal::NoLease { lease }));
            }
            // Until the lease has not been confirmed for too long.
            _ => {}
        }
    }

    fn events(&mut self, now: Time, events: &WatchEvents) {
        let matters = |kind: &EventKind| !matches!(kind, EventKind::Put { .. });
        if events.skipped || events.events.iter().any(|event| matters(&event.kind)) {
            self.next_list = self.next_list.min(now);
        }
    }

    fn release(&mut self) {
        if matches!(self.stage, Stage::Leaving | Stage::Over) {
            return;
        }
        self.stage = Stage::Leaving;
        self.leave();
    }

    fn leave(&mut self) {
        let lease = self.contest.lease;
        let home = self.contest.at.path.clone();
        for at in core::mem::take(&mut self.parts).into_iter().chain([home]) {
            self.lease(Errand::Revoke, LeaseRequest::Revoke { lease, at });
        }
    }

    fn lose(&mut self, reason: &str) {
        self.stage = Stage::Over;
        self.outputs.push_back(Output::Lost(reason.to_owned()));
        // Others need not wait until the lease ends by itself.
        self.leave();
    }

    fn fail(&mut self, error: Error) {
        self.stage = Stage::Over;
        self.outputs.push_back(Output::Failed(error));
    }

    fn give_up(&mut self, error: Error) {
        if self.stage == Stage::Holding { self.lose(&error.to_string()) } else { self.fail(error) }
    }
}

impl Control<Nano> for Contender {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Answer { ask, result } => self.answered(now, ask, result),
            Input::Events(events) => self.events(now, &events),
            Input::WatchEnded => {
                self.is_watching = false;
                self.next_watch = now + PAUSE;
            }
            Input::Release => self.release(),
            Input::Tick => {}
        }
    }

    fn poll(&mut self, now: Time) -> Step<Output> {
        if self.outputs.is_empty() {
            self.work(now);
        }
        if let Some(output) = self.outputs.pop_front() {
            return Step::Do(output);
        }
        match self.stage {
            Stage::Granting | Stage::Leaving | Stage::Over => Step::Wait(Time::NEVER),
            Stage::Entering => Step::Wait(self.next_keep_alive.min(self.next_list)),
            Stage::Waiting | Stage::Holding => {
                let watch = if self.is_watching || self.is_under_way(|errand| *errand == Errand::Watch) {
                    Time::NEVER
                } else {
                    self.next_watch
                };
                let list =
                    if self.is_under_way(|errand| *errand == Errand::List) { Time::NEVER } else { self.next_list };
                let end = if self.stage == Stage::Holding { self.valid_until } else { Time::NEVER };
                Step::Wait(self.next_keep_alive.min(list).min(watch).min(end))
            }
        }
    }
}

//! What a balancer knows of another one: whether it is there, what was missed of what it says, and what is asked of it therefore.
//!
//! ```text
//!   nothing lacked --a datagram was missed, or this balancer comes back--> request: question -> parts .. last part -> question -> .. -> the table's end --> nothing lacked
//!                                                                                     \- no answer: again, after a pause that doubles
//! ```
//!
//! A part that was lost is asked for again, and no other: so a request ends whatever share of datagrams is lost, as long as some are not. A question is sent when the answer to the last one is there, or after a pause.

use machine::{Rebase, Span, Time};
use topology::NodeId;

use crate::services::sync::{SyncAnswer, SyncHeader, SyncQuestion, TABLE_END};

/// Whoever has nothing to say says so this often.
pub(super) const HEARTBEAT: Span = Span::from_ms(100);
/// A peer that has been silent for so long is not waited for.
const SILENT: Span = Span::from_ms(350);
/// Between a question and the next one, if something of its answer was lost: this when answers come at once, longer when they take longer.
const PAUSE_MIN: Span = Span::from_ms(10);
/// The same when nobody answers.
const PAUSE_MAX: Span = Span::from_ms(500);
/// Parts that are remembered behind one that was lost.
const PARTS_MAX: usize = 32;

/// What this balancer lacks of a peer's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// All.
    All,
    /// What has changed from the datagram with this number on.
    Since(u32),
}

/// A request for what is lacked.
#[derive(Clone, Debug)]
struct Request {
    number: u8,
    lack: Lack,
    /// The first place of the peer's table of which it has not heard.
    from: u32,
    /// Places behind that of which it has: the first one, and the first one that is not among them.
    parts: Vec<(u32, u32)>,
    /// Its last question, 0 if there was none.
    question: u8,
    /// When it asks (again).
    ask_at: Time,
    /// The first question to which there was no answer yet was asked then.
    asked_at: Option<Time>,
    /// How long an answer may take, and how long this one may.
    pauses: (Span, Span),
}

impl Request {
    const fn new(now: Time, number: u8, lack: Lack) -> Self {
        Self {
            number,
            lack,
            from: 0,
            parts: Vec::new(),
            question: 0,
            ask_at: now,
            asked_at: None,
            pauses: (PAUSE_MIN, PAUSE_MIN),
        }
    }

    /// A part has come.
    fn hear(&mut self, now: Time, answer: &SyncAnswer) {
        self.parts.push(answer.places);
        while let Some(at) = self.parts.iter().position(|(first, end)| *first <= self.from && self.from < *end) {
            self.from = self.parts.swap_remove(at).1;
        }
        self.parts.retain(|(_, end)| self.from < *end);
        self.parts.truncate(PARTS_MAX);
        if let Some(asked_at) = self.asked_at.take() {
            self.pauses.0 = (now.since(asked_at) * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        }
        self.pauses.1 = self.pauses.0;
        let is_whole = answer.is_last && self.parts.is_empty();
        self.ask_at = if is_whole { now } else { now + self.pauses.0 };
    }

    fn has_ended(&self) -> bool {
        self.from == TABLE_END
    }
}

/// Another balancer of one of its services.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub host: NodeId,
    /// When it is to hear something.
    pub heartbeat_at: Time,
    /// The instance from which a datagram has come, and the number of the next one with changes.
    expected: Option<(u32, u32)>,
    heard_at: Option<Time>,
    /// Whether it has said that it does not know all connections itself.
    is_syncing: bool,
    request: Option<Request>,
    /// What was missed since that was made.
    missed: Option<Lack>,
    /// The number of the last request.
    requests: u8,
    /// What it asks.
    question: Option<SyncQuestion>,
    /// The request and the number of its last question that was answered.
    answered: (u8, u8),
}

impl Peer {
    pub(super) const fn new(now: Time, host: NodeId) -> Self {
        Self {
            host,
            heartbeat_at: now,
            expected: None,
            heard_at: None,
            is_syncing: false,
            request: None,
            missed: None,
            requests: 0,
            question: None,
            answered: (0, 0),
        }
    }

    /// Whether it can say which connections there are.
    pub(super) fn is_able(&self, now: Time) -> bool {
        !self.is_syncing && self.heard_at.is_some_and(|heard| now.since(heard) < SILENT)
    }

    /// Whether what it says now shows that it was away, or that it gets packets again: connections move to it.
    pub(super) fn is_back(&self, now: Time, header: &SyncHeader) -> bool {
        self.heard_at.is_some() && self.is_able(now) == header.is_syncing
    }

    /// Whether it was asked for all connections, and has not said all of them.
    pub(super) fn lacks_all(&self) -> bool {
        let asked = self.request.as_ref().map(|request| request.lack);
        [asked, self.missed].contains(&Some(Lack::All))
    }

    /// All that it knows is wanted, whatever was asked before; what has come from it says nothing of what will.
    pub(super) fn ask_for_all(&mut self, now: Time) {
        (self.heard_at, self.expected) = (None, None);
        self.begin(now, Lack::All);
        self.missed = None;
    }

    fn begin(&mut self, now: Time, lack: Lack) {
        self.requests = self.requests.wrapping_add(1);
        self.request = Some(Request::new(now, self.requests, lack));
    }

    /// Something was missed. What went before it will not come any more.
    fn miss(&mut self, now: Time, lack: Lack) {
        if self.request.is_none() {
            // Where one datagram is lost, others are: they are asked for together.
            self.begin(now + PAUSE_MIN, lack);
        } else if self.missed.is_none() {
            self.missed = Some(lack);
        }
    }

    /// A datagram has come from it, with changes or without.
    pub(super) fn hear(&mut self, now: Time, header: &SyncHeader, has_changes: bool) {
        (self.heard_at, self.is_syncing) = (Some(now), header.is_syncing);
        let next = header.sequence.wrapping_add(u32::from(has_changes));
        match self.expected {
            Some((instance, expected)) if instance == header.instance => {
                let ahead = header.sequence.wrapping_sub(expected).cast_signed();
                if ahead > 0 {
                    self.miss(now, Lack::Since(expected));
                }
                if ahead >= 0 {
                    self.expected = Some((instance, next));
                }
            }
            known => {
                let is_asking = self.lacks_all();
                let is_missed = known.is_some() || header.sequence != 0 && !is_asking;
                // Its numbers begin anew, and what was asked is about those before. Of one that has just come nothing was missed.
                if is_missed && !header.is_syncing || known.is_some() && self.request.is_some() {
                    self.begin(now, Lack::All);
                    self.missed = None;
                }
                self.expected = Some((header.instance, next));
            }
        }
        let is_new = |question: &SyncQuestion| (question.request, question.number) != self.answered;
        self.question = header.question.filter(is_new);
        if let (Some(answer), Some(request)) = (&header.answer, &mut self.request)
            && answer.request == request.number
        {
            request.hear(now, answer);
            if request.has_ended() {
                self.request = None;
                if let Some(lack) = self.missed.take() {
                    self.begin(now + PAUSE_MIN, lack);
                }
            }
        }
    }

    /// Asks, if that is due.
    pub(super) fn ask(&mut self, now: Time) {
        let Some(request) = self.request.as_mut().filter(|request| request.ask_at <= now) else { return };
        request.question = request.question.checked_add(1).unwrap_or(1);
        request.asked_at.get_or_insert(now);
        request.ask_at = now + request.pauses.1;
        request.pauses.1 = (request.pauses.1 * 2).min(PAUSE_MAX);
        self.heartbeat_at = now;
    }

    /// What is asked of it.
    pub(super) fn asked(&self) -> Option<SyncQuestion> {
        let request = self.request.as_ref().filter(|request| request.question != 0)?;
        let since = match request.lack {
            Lack::All => None,
            Lack::Since(number) => Some(number),
        };
        Some(SyncQuestion { request: request.number, number: request.question, from: request.from, since })
    }

    /// Whether it waits for an answer.
    pub(super) const fn has_question(&self) -> bool {
        self.question.is_some()
    }

    /// What it asks, which is answered now.
    pub(super) fn take_question(&mut self) -> Option<SyncQuestion> {
        let question = self.question.take()?;
        self.answered = (question.request, question.number);
        Some(question)
    }

    /// When it is to hear something, or to be asked.
    pub(super) fn due(&self) -> Time {
        self.request.as_ref().map_or(Time::NEVER, |request| request.ask_at).min(self.heartbeat_at)
    }
}

impl Rebase for Request {
    fn rebase(&mut self, by: Span) {
        let Self { number: _, lack: _, from: _, parts: _, question: _, ask_at, asked_at, pauses: _ } = self;
        ask_at.rebase(by);
        asked_at.rebase(by);
    }
}

impl Rebase for Peer {
    fn rebase(&mut self, by: Span) {
        let Self {
            host: _,
            heartbeat_at,
            expected: _,
            heard_at,
            is_syncing: _,
            request,
            missed: _,
            requests: _,
            question: _,
            answered: _,
        } = self;
        heartbeat_at.rebase(by);
        heard_at.rebase(by);
        request.rebase(by);
    }
}

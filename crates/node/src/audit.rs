//! The audit log says who did what, and what came of it: one line of JSON each, in a file that is only appended to.
//!
//! ```text
//!   request --> open --answer--> a line --> queue, bounded --> a thread --> FILE --full--> FILE.1 --> ... --> FILE.N
//! ```
//!
//! What always holds: each request that is carried out is open until it is answered, under a number that its client has not
//! chosen, or has been refused. What is open of one party leaves room for all others.
//!
//! The event loop never waits: what finds no room in the queue is counted, and where every line is required, requests are
//! refused while there is none. Lines are written as they come and synced to the disk within [`writer::SYNC_EVERY`]; a crash of the
//! machine may cost the lines of the last second, a crash of the process none that were written.

mod line;
mod options;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use machine::ServerId;
use store::protocol::{Answer, Error as Refusal, Request};
use store::{ClientId, Party, Places, RequestId};
use tree::Location;

use super::Error;
use line::Event;
pub use options::AuditOptions;
use writer::Shared;

/// Lines that wait for the disk; where every line is required, those of what was open by then come on top.
const QUEUE_LINES: usize = 8_192;

/// Bytes of these.
const QUEUE_BYTES: usize = 16 << 20;

/// Bytes of requests that are not answered, about; the server has bounds of its own for these. One connection may have a
/// quarter of them, one party half.
const OPEN_BYTES: usize = 64 << 20;

/// A client that finds no room is asked to come back after this time.
const RETRY_AFTER_MS: u32 = 100;

/// Figures for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub written: u64,
    pub lost: u64,
    pub is_failing: bool,
}

/// The audit log of a controller.
pub(super) struct Audit {
    options: AuditOptions,
    server: ServerId,
    /// Requests that are not answered, with the places that they take.
    open: BTreeMap<(ClientId, RequestId), (Event, usize)>,
    /// Bytes that each holder has.
    room: Places,
    /// The users behind clients when they asked last, if that was known: a user who was deleted is named at the end of his watches.
    users: HashMap<ClientId, Arc<str>>,
    lines: Option<Sender<String>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Audit {
    /// Opens the file, before it is known whose log it is.
    ///
    /// # Errors
    /// [`Error::Path`].
    pub fn open(options: AuditOptions) -> Result<impl FnOnce(ServerId) -> Result<Self, Error>, Error> {
        let shared = Arc::new(Shared::default());
        let writer = writer::Writer::open(&options, Arc::clone(&shared))?;
        Ok(|server| Self::start(options, shared, writer, server))
    }

    fn start(
        options: AuditOptions,
        shared: Arc<Shared>,
        writer: writer::Writer,
        server: ServerId,
    ) -> Result<Self, Error> {
        // `put` bounds it.
        let (lines, queue) = channel();
        let thread = std::thread::Builder::new()
            .name("audit".into())
            .spawn(move || writer.run(&queue))
            .map_err(Error::system("make a thread"))?;
        let (open, users, room) = (BTreeMap::new(), HashMap::new(), Places::new(OPEN_BYTES));
        Ok(Self { options, server, open, room, users, lines: Some(lines), shared, thread: Some(thread) })
    }

    pub fn figures(&self) -> Figures {
        Figures {
            written: self.shared.written.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            is_failing: self.shared.is_failing.load(Ordering::Relaxed),
        }
    }

    /// A request has come. Gives why it cannot be taken, if it has to be noted and cannot.
    pub fn begin(
        &mut self,
        (client, id): (ClientId, RequestId),
        address: &str,
        (user, party): (Option<&str>, &Party),
        request: &Request,
    ) -> Option<Refusal> {
        let event = Event::new(address, user, request);
        if self.is_owed(&event) {
            let why = if self.shared.is_failing.load(Ordering::Relaxed) {
                Some("it cannot be written")
            } else if !self.has_room() {
                Some("the disk does not follow")
            } else {
                None
            };
            if let Some(why) = why {
                let file = self.options.file.display();
                return Some(Refusal::Disk(format!(
                    "every request has to be noted in the audit log {file}, and {why}; hint: is there room on its disk?"
                )));
            }
        }
        let bytes = event.bytes();
        if !self.room.admits(client, party, bytes) {
            // Whoever takes all the room must not be able to do so unseen.
            let reason = "the requests of its user or host that are not answered take as much of the audit log's memory \
                          as they may";
            return Some(Refusal::Overloaded { retry_after_ms: RETRY_AFTER_MS, reason: reason.to_owned() });
        }
        self.room.take(client, party, bytes);
        if let Some(user) = user.filter(|user| self.users.get(&client).is_none_or(|known| **known != **user)) {
            self.users.insert(client, user.into());
        }
        let before = self.open.insert((client, id), (event, bytes));
        assert!(before.is_none(), "each request has a number of its own");
        None
    }

    /// Whether a line must not be lost, whatever comes of the request.
    fn is_owed(&self, event: &Event) -> bool {
        self.options.is_required && (self.options.reads || !event.is_read())
    }

    fn has_room(&self) -> bool {
        self.shared.queued_lines.load(Ordering::Relaxed) < QUEUE_LINES
            && self.shared.queued_bytes.load(Ordering::Relaxed) < QUEUE_BYTES
    }

    fn take(&mut self, client: ClientId, id: RequestId) -> Option<Event> {
        let (event, bytes) = self.open.remove(&(client, id))?;
        self.room.give_back(client, bytes);
        Some(event)
    }

    /// A request was answered.
    pub fn end(&mut self, (client, id): (ClientId, RequestId), user: Option<&str>, result: &Result<Answer, Refusal>) {
        let Some(event) = self.take(client, id) else { return };
        if !event.is_read() || self.options.reads || matches!(result, Err(Refusal::Denied(_))) {
            self.put(event.line(self.server, user, result), self.is_owed(&event));
        }
    }

    /// A watch that ran was ended by the server: of this session, and asked for with this sequence.
    pub fn end_of_watch(
        &mut self,
        client: ClientId,
        address: &str,
        watch: (u64, u64),
        at: &Location,
        result: &Result<Answer, Refusal>,
    ) {
        if self.options.reads || matches!(result, Err(Refusal::Denied(_))) {
            let user = self.users.get(&client).map(|user| &**user);
            let line = Event::end_of_watch(address, user, watch, at).line(self.server, None, result);
            self.put(line, false);
        }
    }

    /// Somebody was not let in.
    pub fn refused_log_in(&mut self, address: &str, why: &str) {
        self.put(line::refused(self.server, address, "log in", why), false);
    }

    /// A request was denied before it was read.
    pub fn refused_unread(&mut self, address: &str, why: &str) {
        self.put(line::refused(self.server, address, "request", why), false);
    }

    /// A client has gone: what it was not answered is noted as such.
    pub fn gone(&mut self, client: ClientId) {
        self.users.remove(&client);
        let of_client = self.open.range((client, RequestId(0))..=(client, RequestId(u64::MAX)));
        for id in of_client.map(|((_, id), _)| *id).collect::<Vec<_>>() {
            let Some(event) = self.take(client, id) else { continue };
            if !event.is_read() || self.options.reads {
                self.put(event.unanswered(self.server), self.is_owed(&event));
            }
        }
    }

    /// Hands a line to the thread, if there is room or it has to be written.
    fn put(&mut self, line: String, is_owed: bool) {
        let bytes = line.len();
        if (is_owed || self.has_room())
            && let Some(lines) = &self.lines
        {
            self.shared.queued_lines.fetch_add(1, Ordering::Relaxed);
            self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
            if lines.send(line).is_ok() {
                return;
            }
        }
        if self.shared.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!("{}: lines of the audit log were lost", self.options.file.display());
        }
    }

    /// Writes what waits.
    pub fn finish(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use store::protocol::{Consistency, RequestBody};
    use tree::{Change, Path, Transaction};

    use super::*;

    const CLIENT: ClientId = ClientId(1);

    struct Bed {
        audit: Audit,
        folder: tempfile::TempDir,
        id: u64,
    }

    impl Bed {
        fn new(reads: bool, is_required: bool) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("audit.log");
            let options = AuditOptions { file, reads, is_required, file_bytes: 1 << 30, keep: 1 };
            let audit = Audit::open(options).unwrap()(ServerId(1)).unwrap();
            Self { audit, folder, id: 0 }
        }

        fn begin(&mut self, client: ClientId, party: &Party, sequence: u64, body: RequestBody) -> Option<Refusal> {
            self.id += 1;
            let request = Request { session: 5, sequence, acknowledged: 1, timeout_ms: 1_000, body };
            self.audit.begin((client, RequestId(self.id)), "192.0.2.1:1", (Some("ann"), party), &request)
        }

        fn end(&mut self, client: ClientId, id: u64, result: &Result<Answer, Refusal>) {
            self.audit.end((client, RequestId(id)), None, result);
        }

        /// Sequence, operation and outcome of all lines.
        fn lines(mut self) -> Vec<(u64, String, String)> {
            self.audit.finish();
            let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
            let row = |line: &str| {
                let line: Value = serde_json::from_str(line).unwrap();
                let text = |name: &str| line[name].as_str().unwrap().to_owned();
                (line["sequence"].as_u64().unwrap(), text("operation"), text("outcome"))
            };
            text.lines().map(row).collect()
        }
    }

    fn user() -> Party {
        Party::User("ann".into())
    }

    fn at(path: &str) -> Location {
        Location::config(Path::parse(path).unwrap())
    }

    fn put() -> RequestBody {
        RequestBody::Write(Transaction::of(Change::Put { at: at("/car:cars"), value: vec![1].into() }))
    }

    fn get() -> RequestBody {
        RequestBody::Get { at: at("/car:cars"), consistency: Consistency::Stale }
    }

    fn watch() -> RequestBody {
        RequestBody::Watch { at: at("/car:cars"), from: BTreeMap::new() }
    }

    fn denied() -> Result<Answer, Refusal> {
        Err(Refusal::Denied("no".into()))
    }

    #[test]
    fn each_request_has_its_own_line_whatever_its_sequence() {
        let mut bed = Bed::new(false, true);
        for body in [put(), RequestBody::Unwatch { watch: 7 }, get(), put()] {
            assert_eq!(bed.begin(CLIENT, &user(), 7, body), None);
        }
        bed.end(CLIENT, 3, &denied());
        bed.end(CLIENT, 2, &Ok(Answer::Done));
        bed.end(CLIENT, 4, &Ok(Answer::Written { revision: 2 }));
        bed.end(CLIENT, 4, &denied());
        bed.audit.gone(CLIENT);
        let row = |operation: &str, outcome: &str| (7, operation.to_owned(), outcome.to_owned());
        assert_eq!(bed.lines(), [row("get", "denied"), row("write", "allowed"), row("write", "unknown")]);
    }

    #[test]
    fn watches_that_run_take_no_room() {
        let mut bed = Bed::new(true, true);
        for sequence in 1..=5_000 {
            assert_eq!(bed.begin(CLIENT, &user(), sequence, watch()), None);
            bed.end(CLIENT, sequence, &Ok(Answer::Watching { from: BTreeMap::new() }));
        }
        assert!(bed.audit.open.is_empty() && bed.audit.room.used() == 0);
        bed.audit.end_of_watch(CLIENT, "192.0.2.1:1", (5, 9), &at("/car:cars"), &denied());
        bed.audit.gone(CLIENT);
        assert!(bed.audit.users.is_empty());
        let lines = bed.lines();
        let begun = lines.iter().filter(|(_, operation, outcome)| operation == "watch" && outcome == "allowed");
        assert_eq!(begun.count(), 5_000, "as few as these always find room in the queue");
        assert_eq!(lines.last(), Some(&(9, "end of watch".to_owned(), "denied".to_owned())));
    }

    #[test]
    fn lines_that_are_required_find_room_in_the_queue_however_slowly_others_are_written() {
        let mut bed = Bed::new(false, true);
        let count = QUEUE_LINES as u64 + 2_000;
        for sequence in 1..=count {
            assert_eq!(bed.begin(CLIENT, &user(), sequence, put()), None);
        }
        (1..=count).for_each(|id| bed.end(CLIENT, id, &Ok(Answer::Written { revision: id })));
        assert_eq!(bed.audit.figures().lost, 0);
        assert_eq!(bed.lines().len() as u64, count);
    }

    #[test]
    fn one_party_leaves_room_for_the_requests_of_others() {
        let mut bed = Bed::new(false, false);
        let change = |key: u64| Change::Put { at: at(&format!("/car:cars/car-entry={key}")), value: vec![1].into() };
        let changes: Vec<Change> = (0..10_000).map(change).collect();
        let long = || RequestBody::Write(Transaction { conditions: Vec::new(), changes: changes.clone() });
        let mut taken = 0;
        for client in (1..=20).map(ClientId) {
            while bed.begin(client, &user(), 1, long()).is_none() {
                taken += 1;
            }
        }
        assert!(taken > 8, "{taken}");
        let refusal = bed.begin(CLIENT, &user(), 1, long());
        let Some(Refusal::Overloaded { reason, .. }) = refusal else { panic!("{refusal:?}") };
        assert!(reason.contains("its user or host"), "{reason}");
        assert!(bed.audit.room.used() <= OPEN_BYTES / 2);
        let other = Party::Host("192.0.2.9".into());
        for _ in 0..1_000 {
            assert_eq!(bed.begin(ClientId(30), &other, 1, put()), None);
        }
        (1..=30).map(ClientId).for_each(|client| bed.audit.gone(client));
        assert!(bed.audit.open.is_empty() && bed.audit.room.used() == 0);
    }
}

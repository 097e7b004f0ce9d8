//! Who did what, and what came of it: one line of JSON each, in a file that is only appended to.
//!
//! ```text
//!   request --> begun --answer--> a line --> queue, bounded --> a thread --> FILE --full--> FILE.1 --> ... --> FILE.N
//! ```
//!
//! The event loop never waits: what finds no room in the queue is counted, and where every line is required, requests are
//! refused while there is none. Lines are written as they come and synced to the disk within [`SYNC_EVERY`]; a crash of the
//! machine may cost the lines of the last second, a crash of the process none that were written.

mod line;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use machine::ServerId;
use store::ClientId;
use store::protocol::{Answer, Error as Refusal, Request, RequestBody};

use super::Error;
use line::Event;

/// Lines that wait for the disk.
const QUEUE_LINES: usize = 8_192;

/// Bytes of these.
const QUEUE_BYTES: usize = 16 << 20;

/// Requests whose answer is not there yet; the server has a bound of its own.
const BEGUN_MAX: usize = 131_072;

/// What was written is synced within this.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How an audit log is kept.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// The file.
    pub file: PathBuf,
    /// Whether reads, lists and watches are noted as well. Those that were denied always are.
    pub reads: bool,
    /// Whether requests are refused while they cannot be noted.
    pub is_required: bool,
    /// Bytes of a file, after which another is begun.
    pub file_bytes: u64,
    /// Full files that are kept.
    pub keep: u32,
}

/// What the event loop and the thread share.
#[derive(Debug, Default)]
struct Shared {
    queued_bytes: AtomicUsize,
    /// Lines that are in no file.
    lost: AtomicU64,
    written: AtomicU64,
    /// The file cannot be written now.
    is_failing: AtomicBool,
}

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
    begun: HashMap<(ClientId, u64), Event>,
    lines: Option<SyncSender<String>>,
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
        let (lines, queue) = sync_channel(QUEUE_LINES);
        let thread = std::thread::Builder::new()
            .name("audit".into())
            .spawn(move || writer.run(&queue))
            .map_err(Error::system("make a thread"))?;
        Ok(Self { options, server, begun: HashMap::new(), lines: Some(lines), shared, thread: Some(thread) })
    }

    pub fn figures(&self) -> Figures {
        Figures {
            written: self.shared.written.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            is_failing: self.shared.is_failing.load(Ordering::Relaxed),
        }
    }

    /// A request has come. Gives why it cannot be taken, if it has to be noted and cannot.
    pub fn begin(&mut self, client: ClientId, address: &str, user: Option<&str>, request: &Request) -> Option<Refusal> {
        let event = Event::new(address, user, request);
        if self.options.is_required && (self.options.reads || !event.is_read()) {
            let why = if self.shared.is_failing.load(Ordering::Relaxed) {
                Some("it cannot be written")
            } else if self.is_full() {
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
        if let RequestBody::Unwatch { watch } = &request.body {
            self.begun.remove(&(client, *watch));
        }
        if self.begun.len() >= BEGUN_MAX {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        } else if let Some(before) = self.begun.insert((client, request.sequence), event)
            && !before.is_read()
        {
            // Nobody hides a request behind another of the same number.
            self.put(before.unanswered(self.server));
        }
        None
    }

    fn is_full(&self) -> bool {
        self.begun.len() >= BEGUN_MAX || self.shared.queued_bytes.load(Ordering::Relaxed) >= QUEUE_BYTES
    }

    /// A request was answered.
    pub fn end(&mut self, client: ClientId, sequence: u64, user: Option<&str>, result: &Result<Answer, Refusal>) {
        match self.begun.remove(&(client, sequence)) {
            Some(event) if event.is_read() && !self.options.reads && !matches!(result, Err(Refusal::Denied(_))) => {
                if matches!(result, Ok(Answer::Watching { .. })) {
                    // Its end, if somebody else ends it, is of interest.
                    self.note_watch(client, sequence, event);
                }
            }
            Some(event) => {
                let line = event.line(self.server, user, result);
                self.put(line);
                if matches!(result, Ok(Answer::Watching { .. })) {
                    self.note_watch(client, sequence, event);
                }
            }
            None => {}
        }
    }

    fn note_watch(&mut self, client: ClientId, sequence: u64, event: Event) {
        if self.begun.len() < BEGUN_MAX {
            self.begun.insert((client, sequence), event.of_running_watch());
        }
    }

    /// Somebody was not let in.
    pub fn refused(&mut self, address: &str, why: &str) {
        self.put(line::refused_log_in(self.server, address, why));
    }

    /// A client has gone: what it was not answered is noted as such.
    pub fn gone(&mut self, client: ClientId) {
        let of_client: Vec<_> = self.begun.keys().filter(|(of, _)| *of == client).copied().collect();
        for key in of_client {
            let Some(event) = self.begun.remove(&key) else { continue };
            if !event.is_read() {
                self.put(event.unanswered(self.server));
            }
        }
    }

    fn put(&mut self, line: String) {
        let bytes = line.len();
        let queued = self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let outcome = match &self.lines {
            Some(lines) if queued < QUEUE_BYTES => lines.try_send(line),
            _ => Err(TrySendError::Full(line)),
        };
        if outcome.is_err() {
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if self.shared.lost.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::error!("{}: lines of the audit log were lost", self.options.file.display());
            }
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

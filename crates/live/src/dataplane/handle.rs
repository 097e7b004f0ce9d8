//! The workers, seen from outside: the commands that they get, and what they answer, if they do.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::edge::Handed;
use super::poller::Waker;
use super::worker::{Command, Worker};

/// How long a worker may leave a command unanswered. It is between two bursts many times in a millisecond, unless the machine gives it no CPU, or something in it
/// never returns.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A running worker.
#[derive(Debug)]
pub struct Handle {
    number: usize,
    commands: Sender<Command>,
    pub waker: Arc<Waker>,
    pub outbox: SyncSender<Handed>,
    /// Ends with the thread, and says nothing before.
    ended: Receiver<Infallible>,
    thread: JoinHandle<()>,
    /// How many commands it has carried out.
    handled: Arc<AtomicU64>,
    /// How many that were when it left one unanswered: as long as that has not changed, nobody waits for it.
    silent_at: Cell<Option<u64>>,
}

impl Handle {
    /// Has a worker run in a thread of its own.
    pub fn start(
        number: usize,
        worker: Worker,
        (commands, handled): (Sender<Command>, Arc<AtomicU64>),
        (waker, outbox): (Arc<Waker>, SyncSender<Handed>),
    ) -> Self {
        let (end, ended) = mpsc::channel();
        let run = move || {
            worker.run();
            drop(end);
        };
        let thread = thread::Builder::new().name(format!("worker-{number}"));
        let thread = thread.spawn(run).expect("a thread can be made");
        Self { number, commands, waker, outbox, ended, thread, handled, silent_at: Cell::new(None) }
    }

    /// Sends it a command. It looks at it at its next look, or if it has been notified.
    pub fn send(&self, command: Command) {
        // A worker that is gone drops the command, and with it the reply: the receiver sees that.
        let _ = self.commands.send(command);
    }

    /// The way for commands to it, for another thread.
    pub fn commands(&self) -> Sender<Command> {
        self.commands.clone()
    }

    /// Has it look at its commands.
    pub fn notify(&self) {
        self.waker.notify();
    }

    /// Sends it a command that has a reply, and has it look at it.
    pub fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Receiver<T> {
        let (reply, answer) = mpsc::channel();
        self.send(command(reply));
        self.notify();
        answer
    }

    /// Waits for an answer until `deadline`; `None` if there is none, which is logged once.
    pub fn await_answer<T>(&self, answer: &Receiver<T>, deadline: Instant) -> Option<T> {
        let handled = self.handled.load(Ordering::Relaxed);
        let is_silent = self.silent_at.get() == Some(handled);
        let left = if is_silent { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
        match answer.recv_timeout(left) {
            Ok(answer) => Some(answer),
            // It has panicked; the daemon ends on that elsewhere.
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                if !is_silent {
                    self.silent_at.set(Some(self.handled.load(Ordering::Relaxed)));
                    tracing::error!("worker-{} does not answer: what it is at has not returned", self.number);
                }
                None
            }
        }
    }

    /// Waits until it has ended, until `deadline` at most; false if it has not.
    pub fn join(self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(
                "worker-{} has not ended within {} s: what it is at has not returned; it ends with the process",
                self.number,
                PATIENCE.as_secs()
            );
            return false;
        }
        self.thread.join().expect("a worker does not panic");
        true
    }
}

//! Standing in a queue for a lock, or to be elected, for programs that may block.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use machine::Control;
use machine::nanos::{Span, Step, Time};
use store::contender::{Contender, Contest, Input, Output};
use store::protocol::{Error as RequestError, RequestBody};
use tree::{LeaseId, Location};

use super::clock::{BootClock, random_bits};
use super::{Client, Error};

/// How often a watch looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What becomes of one in the queue.
#[derive(Clone, Debug)]
pub enum Turn {
    /// It holds the lock.
    Acquired {
        /// The fencing token.
        token: u64,
        /// Its entry in the queue.
        entry: Location,
    },
    /// It held the lock and perhaps does not any more; why. It is the end.
    Lost(String),
    /// It could not stand in the queue. It is the end.
    Failed(RequestError),
    /// It was released. It is the end.
    Released,
}

/// Gives the lock back, from whatever thread.
#[derive(Clone, Debug)]
pub struct Releaser(Sender<Input>);

impl Releaser {
    /// Leaves the queue. Does nothing when that is over.
    pub fn release(&self) {
        let _ = self.0.send(Input::Release);
    }
}

/// What [`contend`] listens to.
#[derive(Debug)]
pub struct Inbox(Receiver<Input>);

/// The two ends by which somebody leaves the queue.
pub fn queue() -> (Releaser, Inbox) {
    let (sender, receiver) = mpsc::channel();
    (Releaser(sender), Inbox(receiver))
}

/// A lease's number, at random.
pub fn random_lease() -> LeaseId {
    LeaseId(random_bits().max(1))
}

/// Stands in the queue until its end, which is the last thing that is reported; reports to `each` what becomes of it.
///
/// # Errors
/// [`Error::Request`] if nothing can be below the lock's path.
pub fn contend(
    client: &Client,
    contest: Contest,
    (releaser, inbox): (&Releaser, &Inbox),
    mut each: impl FnMut(Turn),
) -> Result<(), Error> {
    let invalid = |error: tree::PathError| Error::Request(RequestError::Invalid(error.to_string()));
    let mut contender = Contender::new(contest).map_err(invalid)?;
    let clock = BootClock::start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        loop {
            let wake = match contender.poll(clock.now()) {
                Step::Do(Output::Ask { ask, body, timeout }) => {
                    let (answers, over) = (releaser.0.clone(), &over);
                    scope.spawn(move || carry_out(client, ask, body, duration(timeout), &answers, over));
                    continue;
                }
                Step::Do(Output::Acquired { token, entry }) => {
                    each(Turn::Acquired { token, entry });
                    continue;
                }
                Step::Do(Output::Lost(reason)) => {
                    each(Turn::Lost(reason));
                    continue;
                }
                Step::Do(Output::Failed(error)) => {
                    each(Turn::Failed(error));
                    continue;
                }
                Step::Do(Output::Released) => {
                    each(Turn::Released);
                    continue;
                }
                Step::Wait(_) if contender.is_over() => break,
                Step::Wait(at) => at,
            };
            let input = if wake == Time::NEVER {
                inbox.0.recv().unwrap_or(Input::Release)
            } else {
                inbox.0.recv_timeout(duration(wake.since(clock.now()))).unwrap_or(Input::Tick)
            };
            contender.handle(clock.now(), input);
        }
        over.store(true, Ordering::Release);
    });
    Ok(())
}

/// A span, rounded up: what is waited for has come then.
fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ns().saturating_add(1))
}

fn carry_out(
    client: &Client,
    ask: u64,
    body: RequestBody,
    timeout: Duration,
    answers: &Sender<Input>,
    over: &AtomicBool,
) {
    let failed = |error: Error| match error {
        Error::Request(error) | Error::Unreachable { error, .. } => error,
        error => RequestError::Invalid(error.to_string()),
    };
    let RequestBody::Watch { at, from } = body else {
        let result = client.request(body, timeout).map_err(failed);
        // Nobody listens any more when it is over.
        let _ = answers.send(Input::Answer { ask, result });
        return;
    };
    match client.watch(at, from, timeout) {
        Err(error) => drop(answers.send(Input::Answer { ask, result: Err(failed(error)) })),
        Ok(mut watch) => {
            let from = watch.from.clone();
            let _ = answers.send(Input::Answer { ask, result: Ok(store::protocol::Answer::Watching { from }) });
            while !over.load(Ordering::Acquire) {
                if let Ok(events) = watch.next_within(LOOK_EVERY) {
                    let _ = answers.send(Input::Events(events));
                }
            }
        }
    }
}

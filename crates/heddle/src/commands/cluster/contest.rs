//! `cluster lock`, `cluster elect`: who does something that only one may do at a time.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use miette::{IntoDiagnostic, Report, miette};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use node::{Releaser, Turn, contend, queue, random_lease};
use serde_json::json;
use store::contender::{Contest, is_entry};
use store::protocol::{Answer, Consistency, LIST_MAX, RequestBody};
use tree::{Location, Path};

use super::access::Access;
use super::data::text_or_hex;
use super::lease::ttl;
use super::turn::Wait;
use super::watch::Changes;
use super::{explain, print_outcome};
use crate::Ending;
use crate::cli::Format;
use crate::cli::actions;
use crate::cli::recipes::{Elect, Lock};
use crate::output::put;

/// The exit status when the lock could not be had, or was lost.
const NO_LOCK: i32 = 125;
/// The exit status when somebody was not elected in time: that of every error.
const NOT_ELECTED: i32 = 2;
/// The exit status when there is no such command, and when it cannot be run: those of shells.
const NO_COMMAND: (i32, i32) = (127, 126);
/// How long a command may take to end when the lock was lost.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The command that runs while the lock is held.
type Running = Arc<Mutex<State>>;

/// How far it is with the command.
#[derive(Debug, Default)]
enum State {
    /// It has not been started.
    #[default]
    Waits,
    /// The command runs.
    Runs(Child),
    /// It has ended, or is not to be started any more.
    Over,
}

/// Signals that ask for an end come to one thread, which hands them on. To be called before any other thread is made.
fn take_signals() -> Result<SigSet, Report> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block().into_diagnostic()?;
    Ok(signals)
}

/// Holds a lock while a command runs.
pub fn lock(args: &actions::Access, lock: &Lock) -> Result<Ending, Report> {
    let signals = take_signals()?;
    let access = Access::open(args)?;
    let value = format!("process {}", std::process::id()).into_bytes();
    let contest = Contest { at: lock.at.location(), lease: random_lease(), ttl: ttl(lock.ttl)?, value };
    let lease = contest.lease;
    let (releaser, inbox) = queue();
    let running: Running = Arc::default();
    forward_signals(signals, running.clone(), releaser.clone());
    let late = args.timeout.map(|limit| {
        format!(
            "The lock at {} was not acquired within {limit:?}; hint: `heddle cluster list {0}` shows who is before, `heddle cluster alarms` whether its shard has a leader",
            lock.at.path
        )
    });
    let said = late.clone();
    let wait = Wait::begin(args.timeout, releaser.clone(), move || {
        eprintln!("{}", said.unwrap_or_default());
        std::process::exit(NO_LOCK);
    });
    let mut status = NO_LOCK;
    let ended: Arc<Mutex<Option<i32>>> = Arc::default();
    let outcome = contend(&access.client, contest, (&releaser, &inbox), |turn| match turn {
        // It is given back.
        Turn::Acquired { .. } if !wait.has_come() => {}
        Turn::Acquired { token, entry } if lock.command.is_empty() => {
            eprintln!("Holding the lock at {} with token {token}, entry {}", lock.at.path, entry.path);
            *ended.lock().expect("nobody panics with it") = Some(0);
        }
        Turn::Acquired { token, entry } => {
            let mut command = Command::new(&lock.command[0]);
            command.args(&lock.command[1..]);
            command.env("HEDDLE_LOCK_TOKEN", token.to_string());
            command.env("HEDDLE_LOCK_ENTRY", entry.path.as_str());
            command.env("HEDDLE_LOCK_LEASE", lease.to_string());
            // A signal that comes now waits, and goes to the command.
            let mut state = running.lock().expect("nobody panics with it");
            if matches!(*state, State::Over) {
                // One has come before. The lock is given back.
                return;
            }
            match live::unblock_signals(&mut command).spawn() {
                Ok(child) => {
                    *state = State::Runs(child);
                    await_end(running.clone(), ended.clone(), releaser.clone());
                }
                Err(error) => {
                    *state = State::Over;
                    drop(state);
                    eprintln!("cannot run {}: {error}", lock.command[0]);
                    let is_missing = error.kind() == std::io::ErrorKind::NotFound;
                    let status = if is_missing { NO_COMMAND.0 } else { NO_COMMAND.1 };
                    *ended.lock().expect("nobody panics with it") = Some(status);
                    releaser.release();
                }
            }
        }
        Turn::Lost(reason) => {
            eprintln!("The lock at {} is lost: {reason}", lock.at.path);
            *ended.lock().expect("nobody panics with it") = None;
            end(&running);
            status = NO_LOCK;
        }
        Turn::Failed(error) => eprintln!("The lock at {} cannot be had: {error}", lock.at.path),
        Turn::Released => status = ended.lock().expect("nobody panics with it").unwrap_or(NO_LOCK),
    });
    outcome.map_err(explain)?;
    drop(access);
    if wait.is_over() {
        eprintln!("{}", late.unwrap_or_default());
        status = NO_LOCK;
    }
    std::process::exit(status);
}

/// A signal goes to the command, which ends as it sees fit; without one, the lock is given back.
fn forward_signals(signals: SigSet, running: Running, releaser: Releaser) {
    thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            let mut state = running.lock().expect("nobody panics with it");
            match &*state {
                // It has not been waited for: the number is its own.
                State::Runs(child) => drop(kill(Pid::from_raw(child.id().cast_signed()), signal)),
                State::Waits | State::Over => {
                    *state = State::Over;
                    releaser.release();
                }
            }
        }
    });
}

/// Gives the lock back when the command has ended.
fn await_end(running: Running, ended: Arc<Mutex<Option<i32>>>, releaser: Releaser) {
    thread::spawn(move || {
        loop {
            let mut state = running.lock().expect("nobody panics with it");
            // Somebody else has waited for it: the lock was lost.
            let State::Runs(child) = &mut *state else { return };
            if let Ok(Some(status)) = child.try_wait() {
                *state = State::Over;
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                *ended.lock().expect("nobody panics with it") = Some(code);
                releaser.release();
                return;
            }
            drop(state);
            thread::sleep(LOOK_EVERY);
        }
    });
}

/// Ends the command: it may not go on without the lock.
fn end(running: &Running) {
    let before = std::mem::replace(&mut *running.lock().expect("nobody panics with it"), State::Over);
    let State::Runs(mut child) = before else { return };
    let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    let until = Instant::now() + GRACE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        thread::sleep(LOOK_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Stands for election, or follows who is elected.
pub fn elect(args: &actions::Access, elect: &Elect, format: Format) -> Result<Ending, Report> {
    let Some(name) = &elect.name else {
        return listen(&Access::open(args)?, &elect.at.location(), format);
    };
    let signals = take_signals()?;
    let access = Access::open(args)?;
    let value = name.clone().into_bytes();
    let contest = Contest { at: elect.at.location(), lease: random_lease(), ttl: ttl(elect.ttl)?, value };
    let (releaser, inbox) = queue();
    forward_signals(signals, Arc::default(), releaser.clone());
    let late = format!("{name} was not elected within {:?}", args.timeout.unwrap_or_default());
    let said = late.clone();
    let wait = Wait::begin(args.timeout, releaser.clone(), move || {
        eprintln!("{said}");
        std::process::exit(NOT_ELECTED);
    });
    let mut outcome = Ok(Ending::Passed);
    let contended = contend(&access.client, contest, (&releaser, &inbox), |turn| match turn {
        // Another one is elected in its place.
        Turn::Acquired { .. } if !wait.has_come() => {}
        Turn::Acquired { token, entry } => {
            let data = [("name", json!(name)), ("token", json!(token)), ("entry", json!(entry.path.as_str()))];
            let text = format!("{name} is elected with token {token}, entry {}", entry.path);
            if let Err(error) = print_outcome(format, &text, data) {
                outcome = Err(error);
                releaser.release();
            }
        }
        Turn::Lost(reason) => {
            outcome = Err(miette!(help = "stand for election again", "{name} is not elected any more: {reason}"));
        }
        Turn::Failed(error) => outcome = Err(miette!("{name} cannot stand for election: {error}")),
        Turn::Released => {}
    });
    contended.map_err(explain)?;
    if wait.is_over() {
        let hint = "without --timeout it waits as long as it takes; `elect --listen` shows who is elected";
        return Err(miette!(help = hint, "{late}"));
    }
    outcome
}

/// Prints who is elected, whenever that changes.
fn listen(access: &Access, at: &Location, format: Format) -> Result<Ending, Report> {
    let mut changes = Changes::begin(access, at.clone(), BTreeMap::new())?;
    let mut known = None;
    loop {
        let first = first(access, at)?;
        if known.as_ref() != Some(&first) {
            put(&line(first.as_ref(), format))?;
            known = Some(first);
        }
        changes.next()?;
    }
}

/// The elected: token and name.
type Elected = (u64, Vec<u8>);

fn first(access: &Access, at: &Location) -> Result<Option<Elected>, Report> {
    let (mut first, mut after): (Option<Elected>, Option<Path>) = (None, None);
    loop {
        let (at, consistency) = (at.clone(), Consistency::Linearizable);
        let lock = at.path.clone();
        let body = RequestBody::List { at, after: after.take(), limit: LIST_MAX, consistency };
        let Answer::Values { entries, more } = access.ask(body)? else { unreachable!("a list was asked for") };
        after = entries.last().map(|(path, ..)| path.clone());
        let queue =
            entries.into_iter().filter(|(path, ..)| is_entry(&lock, path)).map(|(_, etag, value)| (etag, value));
        first = queue.chain(first.take()).min();
        if !more || after.is_none() {
            return Ok(first);
        }
    }
}

fn line(elected: Option<&Elected>, format: Format) -> String {
    let name = elected.map(|(_, name)| text_or_hex("name", name).1);
    let text = name.as_ref().and_then(|name| name.as_str()).unwrap_or_default();
    match (elected, format) {
        (_, Format::Json) => json!({"name": name, "token": elected.map(|(token, _)| token)}).to_string() + "\n",
        (Some((token, _)), Format::Csv) => format!("{},{token}\n", lab::quoted(text)),
        (None, Format::Csv) => ",\n".to_owned(),
        (Some((token, _)), Format::Table) => format!("{text} is elected with token {token}\n"),
        (None, Format::Table) => "nobody is elected\n".to_owned(),
    }
}

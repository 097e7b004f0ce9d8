//! A probe by a program, which runs in the server's host.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::failure::Failure;
use super::probe::Host;
use super::stream::left;
use crate::command::{self, Seen};

/// Bytes of output that are kept; the rest is read and forgotten.
const OUTPUT_MAX: usize = 4 << 10;

/// Characters of the last line that are shown.
const LINE_MAX: usize = 120;

/// How often it is asked whether a program has ended that says nothing: its output may be open in a child of it.
const PERIOD: Duration = Duration::from_millis(10);

/// Runs a program until it ends, or its time is over: then it and what it has started are killed.
pub(super) fn check(arguments: &[String], host: &Host, port: u16, deadline: Instant) -> Result<(), Failure> {
    let [program, rest @ ..] = arguments else { return Err(Failure::Check("no program".to_owned())) };
    let (mut reader, writer) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    command.env("HEDDLE_SERVICE", &host.service).env("HEDDLE_SERVER", &host.name);
    command.env("HEDDLE_ADDRESS", host.address.to_string()).env("HEDDLE_PORT", port.to_string());
    if host.folder.is_dir() {
        command.current_dir(&host.folder);
    }
    let seen = Seen { hosts_file: &host.hosts_file, mounts: &host.mounts, root: None };
    let namespace = host.namespace.as_fd().try_clone_to_owned()?;
    command::enter(&mut command, &host.name, vec![namespace], seen)
        .map_err(|error| Failure::Check(error.to_string()))?;
    command::unblock_signals(&mut command);
    command::reset_umask(&mut command);
    command::end_with_parent(&mut command);
    let mut child = command.spawn().map_err(|error| Failure::Check(format!("{program}: {error}")))?;
    // The writing ends are the program's alone.
    drop(command);
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut output = Vec::new();
    let watched = watch(pid, &mut reader, &mut output, deadline);
    // As long as nobody has waited for it, its group is its own.
    let _ = killpg(pid, Signal::SIGKILL);
    let status = child.wait()?;
    watched?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Command { status: words(status), said: last_line(&output) })
}

/// Until the program ends.
fn watch(pid: Pid, reader: &mut io::PipeReader, output: &mut Vec<u8>, deadline: Instant) -> io::Result<()> {
    let mut is_open = true;
    loop {
        let wait = left(deadline)?.min(PERIOD);
        if is_open {
            let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
            let mut polled = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
            if matches!(poll(&mut polled, timeout), Ok(1..)) {
                is_open = keep(reader, output)?;
            }
        } else {
            std::thread::sleep(wait);
        }
        let ended = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT);
        match ended {
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    // What it said last is there.
    let mut polled = [PollFd::new(reader.as_fd(), PollFlags::POLLIN)];
    if is_open && matches!(poll(&mut polled, PollTimeout::ZERO), Ok(1..)) {
        keep(reader, output)?;
    }
    Ok(())
}

/// Reads what is there, and keeps the last of it. Whether more may come.
fn keep(reader: &mut io::PipeReader, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; OUTPUT_MAX];
    let read = reader.read(&mut piece)?;
    output.extend_from_slice(&piece[..read]);
    output.drain(..output.len().saturating_sub(OUTPUT_MAX));
    Ok(read > 0)
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its command exits with {code}"),
        (None, Some(signal)) => format!("its command was ended by signal {signal}"),
        (None, None) => "its command has failed".to_owned(),
    }
}

/// The last line of some output, as it may be shown.
fn last_line(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(LINE_MAX).flat_map(char::escape_debug).collect())
}

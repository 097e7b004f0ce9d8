//! Where a capture goes.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use live::capture::{CaptureError, create};
use live::sniffer::Direction;
use live::sniffer::pcapng::Block;
use miette::{Report, miette};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use serde_json::json;

use super::summary::{summary, time_of_day};
use crate::cli::Format;

/// So many bytes are written at once where somebody reads at the other end: a pipe that has room has room for them (`PIPE_BUF`).
const PIECE: usize = 4_096;

/// How long a reader may stand still once the capture is to end: so many waits of so many milliseconds.
const WAITS: u32 = 20;
const WAIT_MS: u16 = 50;

/// What becomes of the blocks of a capture.
#[derive(Debug)]
pub struct Output {
    form: Form,
    /// What is to be written next.
    buffer: Vec<u8>,
    sink: Sink,
}

#[derive(Debug)]
enum Form {
    Pcapng,
    /// A line a frame; with the ports' names.
    Text(Format, Vec<String>),
}

#[derive(Debug)]
enum Sink {
    Stdout,
    /// With its length as far as whole blocks go.
    File {
        file: File,
        path: PathBuf,
        length: u64,
    },
}

/// Whether it makes sense to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    All,
    /// The program that reads has ended.
    NobodyReads,
    /// The capture is to end, and the program that reads takes nothing.
    StandsStill,
}

impl Output {
    /// A line a frame, on standard output.
    pub fn text(format: Format) -> Self {
        let buffer =
            if format == Format::Csv { b"time_ns,port,direction,bytes,summary\n".to_vec() } else { Vec::new() };
        Self { form: Form::Text(format, Vec::new()), buffer, sink: Sink::Stdout }
    }

    /// Into this file, or else to standard output.
    pub fn open(path: Option<&Path>) -> Result<Self, Report> {
        let path = path.filter(|path| path.as_os_str() != "-");
        let sink = match path {
            None => Sink::Stdout,
            Some(path) => {
                let file = create(path).map_err(|error| explain(path, &error))?;
                Sink::File { file, path: path.to_owned(), length: 0 }
            }
        };
        Ok(Self { form: Form::Pcapng, buffer: Vec::new(), sink })
    }

    /// Adds a block.
    pub fn put(&mut self, whole: &[u8], block: &Block<'_>) {
        let Form::Text(format, ports) = &mut self.form else { return self.buffer.extend(whole) };
        if let Block::Interface { name } = block {
            ports.push((*name).to_owned());
        }
        let Block::Packet { interface, at_ns, direction, length, bytes } = *block else { return };
        let port = ports.get(interface as usize).map_or("", String::as_str);
        let summary = summary(bytes, length);
        let way = match direction {
            Some(Direction::Inbound) => "in",
            Some(Direction::Outbound) => "out",
            None => "",
        };
        let line = match format {
            Format::Table => format!("{} {port} {way:<3} {summary}\n", time_of_day(at_ns)),
            Format::Json => {
                let row =
                    json!({ "time_ns": at_ns, "port": port, "direction": way, "bytes": length, "summary": summary });
                format!("{row}\n")
            }
            Format::Csv => format!("{at_ns},{},{way},{length},{}\n", lab::quoted(port), lab::quoted(&summary)),
        };
        self.buffer.extend(line.as_bytes());
    }

    /// Writes what was added. What cannot be written whole is not in the file.
    pub fn flush(&mut self, interrupted: &AtomicBool) -> Result<Written, Report> {
        let buffer = std::mem::take(&mut self.buffer);
        let written = match &mut self.sink {
            Sink::Stdout => write_all(io::stdout().as_fd(), &buffer, interrupted),
            Sink::File { file, length, .. } => {
                let written = write_all(file.as_fd(), &buffer, interrupted);
                if matches!(written, Ok(Written::All)) {
                    *length += buffer.len() as u64;
                } else {
                    // Of a pipe nothing can be cut off.
                    let _ = file.set_len(*length);
                }
                written
            }
        };
        match written {
            Ok(written) => Ok(written),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Written::NobodyReads),
            Err(error) => Err(match &self.sink {
                Sink::Stdout => miette!("cannot write to standard output: {error}"),
                Sink::File { path, .. } => miette!(
                    help = "the file has what was captured until then",
                    "{}: cannot write it: {error}",
                    path.display()
                ),
            }),
        }
    }
}

/// Writes all, and hears of an interruption while whoever reads stands still: a write that has no room would wait for ever.
fn write_all(out: BorrowedFd<'_>, bytes: &[u8], interrupted: &AtomicBool) -> io::Result<Written> {
    let is_file = fstat(out).is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits());
    let piece = if is_file { bytes.len().max(1) } else { PIECE };
    let (mut rest, mut waits) = (bytes, 0);
    while !rest.is_empty() {
        let ready = match poll(&mut [PollFd::new(out, PollFlags::POLLOUT)], PollTimeout::from(WAIT_MS)) {
            Err(Errno::EINTR) => 0,
            ready => ready?,
        };
        if ready == 0 {
            waits = if interrupted.load(Ordering::Relaxed) { waits + 1 } else { 0 };
            if waits > WAITS {
                return Ok(Written::StandsStill);
            }
            continue;
        }
        match nix::unistd::write(out, &rest[..rest.len().min(piece)]) {
            Err(Errno::EINTR) => {}
            written => (rest, waits) = (&rest[written?..], 0),
        }
    }
    Ok(Written::All)
}

/// Why a file cannot be written, and what to do about it.
fn explain(path: &Path, error: &CaptureError) -> Report {
    let hint = match error {
        CaptureError::Write(error) if error.kind() == ErrorKind::NotFound => "make the folder first",
        CaptureError::Write(_) | CaptureError::Read(_) => "name a file that you may write",
        CaptureError::NotAFile => "name a file on a disk, or a pipe",
        other => other.hint(),
    };
    miette!(help = hint, "{}: {error}", path.display())
}

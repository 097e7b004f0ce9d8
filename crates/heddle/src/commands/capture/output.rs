//! Where a capture goes.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use live::capture::{CaptureError, create};
use live::sniffer::pcapng::Block;
use live::sniffer::{Direction, SNAPLEN_MAX};
use miette::{Report, miette};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};

use super::fields::{FIELDS, Seen, fields};
use super::summary::{summary, time_of_day};
use crate::cli::Format;
use crate::output::Rows;

/// So many bytes are written at once where somebody reads at the other end: a pipe that has room has room for them (`PIPE_BUF`).
const PIECE: usize = 4_096;

/// The first number of a file of libpcap whose times are in nanoseconds.
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// `LINKTYPE_ETHERNET`.
const ETHERNET: u32 = 1;

const NS_PER_S: u64 = 1_000_000_000;

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
    /// The older format of libpcap, with nanoseconds; whether its header is written.
    Pcap(bool),
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
        let buffer = if format == Format::Csv { format!("{}\n", FIELDS.join(",")).into() } else { Vec::new() };
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
        let is_pcap = path.is_some_and(|path| path.extension().is_some_and(|ending| ending == "pcap"));
        let form = if is_pcap { Form::Pcap(false) } else { Form::Pcapng };
        Ok(Self { form, buffer: Vec::new(), sink })
    }

    /// Adds a block in the older format: frames alone, of all ports one after the other.
    fn put_pcap(&mut self, block: &Block<'_>) {
        if matches!(self.form, Form::Pcap(false)) {
            self.form = Form::Pcap(true);
            // Version 2.4, in this machine's time.
            for field in [NANOSECONDS, 0x0004_0002, 0, 0, SNAPLEN_MAX, ETHERNET] {
                self.buffer.extend(field.to_le_bytes());
            }
        }
        let Block::Packet { at_ns, length, bytes, .. } = *block else { return };
        let (seconds, ns) = (at_ns / NS_PER_S, at_ns % NS_PER_S);
        for field in [seconds as u32, ns as u32, bytes.len() as u32, length] {
            self.buffer.extend(field.to_le_bytes());
        }
        self.buffer.extend(bytes);
    }

    /// Adds a block.
    pub fn put(&mut self, whole: &[u8], block: &Block<'_>) {
        let (format, ports) = match &mut self.form {
            Form::Pcapng => return self.buffer.extend(whole),
            Form::Pcap(_) => return self.put_pcap(block),
            Form::Text(format, ports) => (format, ports),
        };
        if let Block::Interface { name } = block {
            ports.push((*name).to_owned());
        }
        let Block::Packet { interface, at_ns, direction, length, bytes } = *block else { return };
        let port = ports.get(interface as usize).map_or("", String::as_str);
        let way = match direction {
            Some(Direction::Inbound) => "in",
            Some(Direction::Outbound) => "out",
            None => "",
        };
        let line = match format {
            Format::Table => format!("{} {port} {way:<3} {}\n", time_of_day(at_ns), summary(bytes, length)),
            Format::Json | Format::Csv => {
                let mut rows = Rows::new(&FIELDS);
                rows.push(fields(&Seen { at_ns, port, direction: way, length }, bytes));
                rows.lines_of_data(*format == Format::Csv)
            }
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

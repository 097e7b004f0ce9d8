//! `logs`: what programs of hosts have said.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use live::ProgramState;
use miette::{IntoDiagnostic as _, Report, WrapErr as _};
use serde_json::json;

use super::instance::{connect, running};
use super::program::programs_meant;
use crate::cli::{Format, Logs};
use crate::output::{Rows, put};

/// How long `--follow` waits before it looks for more.
const PAUSE: Duration = Duration::from_millis(100);

/// How long it takes `--follow` to hear of other programs, or of the network's end.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

const COLUMNS: [&str; 3] = ["host", "program", "line"];

/// Bytes of a line; what is longer comes in pieces.
const LINE_MAX: usize = 64 << 10;

/// Prints what programs have said, and with `--follow` what they go on to say.
pub fn logs(args: &Logs, format: Format) -> Result<(), Report> {
    let instance = connect(&running(args.network.name.as_deref(), "`heddle logs --name NETWORK [HOST [PROGRAM]]`")?)?;
    let programs = programs_meant(&instance, args.host.as_deref(), args.program.as_deref())?;
    let mut printer = Printer::new(format, args);
    let mut tails = Vec::new();
    for program in &programs {
        let mut tail = Tail::new(program);
        let lines = tail.begin(args.tail, args.follow)?;
        printer.print(&tail, lines)?;
        tails.push(tail);
    }
    if !args.follow {
        return printer.finish();
    }
    loop {
        let asked = Instant::now();
        let mut now = instance.programs().unwrap_or_default();
        now.retain(|program| is_meant(program, args));
        while asked.elapsed() < ASKED_AGAIN {
            for tail in &mut tails {
                let lines = tail.more(now.is_empty())?;
                printer.print(tail, lines)?;
            }
            // All have said what they had to say.
            if now.is_empty() {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        tails.extend(
            now.iter().map(Tail::new).filter(|new| !tails.iter().any(|tail| tail.is_of(new))).collect::<Vec<_>>(),
        );
    }
}

fn is_meant(program: &ProgramState, args: &Logs) -> bool {
    args.host.as_ref().is_none_or(|host| *host == program.host)
        && args.program.as_ref().is_none_or(|name| *name == program.program)
}

/// What one program says, as far as it has been read.
struct Tail {
    host: String,
    program: String,
    path: String,
    file: Option<File>,
    /// The line that has no end yet.
    line: Vec<u8>,
}

impl Tail {
    fn new(state: &ProgramState) -> Self {
        let ProgramState { host, program, output, .. } = state;
        Self { host: host.clone(), program: program.clone(), path: output.clone(), file: None, line: Vec::new() }
    }

    fn is_of(&self, other: &Self) -> bool {
        (&self.host, &self.program) == (&other.host, &other.program)
    }

    /// What was said so far, or as many lines of it. A line without an end stays for what follows, if it does.
    fn begin(&mut self, most: Option<usize>, is_followed: bool) -> Result<Vec<String>, Report> {
        self.file = self.open(&self.path)?;
        let current = self.file.take();
        // What was full before; it may have become that just now.
        self.file = self.open(&format!("{}.1", self.path))?;
        let mut lines = Vec::new();
        if self.inode() != inode(current.as_ref()) {
            lines.extend(self.read(false)?);
        }
        self.file = current;
        lines.extend(self.read(!is_followed)?);
        let left_out = most.map_or(0, |most| lines.len().saturating_sub(most));
        Ok(lines.into_iter().skip(left_out).collect())
    }

    /// What has been said since. `is_last`: nothing more will come.
    fn more(&mut self, is_last: bool) -> Result<Vec<String>, Report> {
        let mut lines = self.read(is_last)?;
        let next = self.open(&self.path)?;
        // The file was full, and another one has its name.
        if let Some(next) = next
            && inode(Some(&next)) != self.inode()
        {
            // What was written to it until then.
            lines.extend(self.read(false)?);
            self.file = Some(next);
            lines.extend(self.read(is_last)?);
        }
        Ok(lines)
    }

    fn inode(&self) -> Option<u64> {
        inode(self.file.as_ref())
    }

    /// The file, if it is there.
    fn open(&self, path: &str) -> Result<Option<File>, Report> {
        match File::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let Self { host, program, .. } = self;
                Err(error).into_diagnostic().wrap_err_with(|| format!("cannot read what {program} of {host} has said"))
            }
        }
    }

    /// The lines that have come; with `is_last` also one that has no end.
    fn read(&mut self, is_last: bool) -> Result<Vec<String>, Report> {
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file {
            file.read_to_end(&mut bytes).into_diagnostic().wrap_err("cannot read what a program has said")?;
        }
        let mut lines = Vec::new();
        for byte in bytes {
            if byte == b'\n' || self.line.len() == LINE_MAX {
                lines.push(text(&mut self.line));
            }
            if byte != b'\n' {
                self.line.push(byte);
            }
        }
        if is_last && !self.line.is_empty() {
            lines.push(text(&mut self.line));
        }
        if self.program == fabric::UPLINK {
            lines.retain(|line| !is_of_syslog(line));
        }
        Ok(lines)
    }
}

/// What pasta says before each line of its own where there is no syslog, whatever it is asked to log to besides.
fn is_of_syslog(line: &str) -> bool {
    line.strip_prefix("Failed to send ").is_some_and(|rest| rest.ends_with(" bytes to syslog"))
}

fn inode(file: Option<&File>) -> Option<u64> {
    Some(file?.metadata().ok()?.ino())
}

fn text(line: &mut Vec<u8>) -> String {
    String::from_utf8_lossy(&std::mem::take(line)).trim_end_matches('\r').to_owned()
}

/// Prints lines: those of one program as they are, those of several with their names in front.
struct Printer {
    format: Format,
    is_followed: bool,
    has_names: bool,
    /// Whether the header of rows that follow each other has been printed.
    has_header: bool,
    rows: Rows,
}

impl Printer {
    fn new(format: Format, args: &Logs) -> Self {
        let has_names = args.program.is_none();
        Self { format, is_followed: args.follow, has_names, has_header: false, rows: Rows::new(&COLUMNS) }
    }

    fn print(&mut self, of: &Tail, lines: Vec<String>) -> Result<(), Report> {
        let Tail { host, program, .. } = of;
        let mut text = String::new();
        for line in lines {
            match self.format {
                Format::Table if self.has_names => _ = writeln!(text, "{host}.{program} | {line}"),
                Format::Table => text.push_str(&(line + "\n")),
                // One object a line, since there is no end.
                Format::Json if self.is_followed => {
                    text.push_str(&(json!({ "host": host, "program": program, "line": line }).to_string() + "\n"));
                }
                Format::Json | Format::Csv => self.rows.push([json!(host), json!(program), json!(line)]),
            }
        }
        if self.format == Format::Csv && self.is_followed {
            let rows = self.take_rows().render(Format::Csv);
            // The header stands once.
            let header = rows.find('\n').map_or(0, |end| end + 1);
            text = if std::mem::replace(&mut self.has_header, true) { rows[header..].to_owned() } else { rows };
        }
        if text.is_empty() { Ok(()) } else { put(&text) }
    }

    fn finish(&mut self) -> Result<(), Report> {
        match self.format {
            Format::Table => Ok(()),
            Format::Json | Format::Csv => put(&self.take_rows().render(self.format)),
        }
    }

    fn take_rows(&mut self) -> Rows {
        std::mem::replace(&mut self.rows, Rows::new(&COLUMNS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_says_nothing_of_a_syslog() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("output");
        std::fs::write(&path, "Failed to send 51 bytes to syslog\nNo routable interface for IPv6\n")
            .expect("it is written");
        let said = |program: &str| {
            let (host, program, path) = ("h1".to_owned(), program.to_owned(), path.to_string_lossy().into_owned());
            Tail { host, program, path, file: None, line: Vec::new() }.begin(None, false).expect("it is read")
        };
        assert_eq!(said("uplink"), ["No routable interface for IPv6"]);
        assert_eq!(said("web").len(), 2, "another program may say what it likes");
    }
}

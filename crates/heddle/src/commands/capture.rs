//! `capture`: what crosses links of a network, running or simulated, for Wireshark and tcpdump, or a line a frame.

mod fields;
mod output;
mod simulated;
mod summary;

use std::io::{ErrorKind, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use live::sniffer::SNAPLEN_MAX;
use live::sniffer::pcapng::{Block, Blocks};
use live::{CaptureOptions, CaptureStream};
use miette::{Report, miette};

use self::output::{Output, Written};
use super::instance::{connect, running};
use super::{explain, signals};
use crate::cli::{Capture, Format};
use crate::output::harmless;

/// How soon a signal is heard while no frame comes.
const LISTEN: Duration = Duration::from_millis(50);

/// Ports that the first line names; more are counted.
const NAMED_MAX: usize = 6;

/// What is said where lines go where nobody looks at once, as into a file.
const LINES: &str = ", a line a frame (-w FILE writes pcapng)";

/// What is said where a capture goes to a pipe: who looks at it there would see bytes.
const BINARY: &str = " as pcapng (`| tcpdump -r -`; --text for lines)";

/// How a capture ended, and what came of it.
#[derive(Debug, Default)]
struct Outcome {
    frames: u64,
    lost: u64,
    /// Whether the network's process has ended it in order.
    is_complete: bool,
    /// Why it has, if nobody asked for it here.
    why_ended: String,
    /// Which frames passed that the filter did not let through.
    unmatched: String,
    /// Why not all is written, if so: nobody reads any more, or whoever does stands still.
    unwritten: Option<Written>,
}

/// Captures until a signal, so many frames, or the reader's end.
pub fn capture(args: &Capture, format: Format) -> Result<(), Report> {
    let is_text = args.write.is_none() && (args.text || format != Format::Table || !is_to_reader());
    if args.write.as_ref().is_some_and(|path| path.as_os_str() == "-") && std::io::stdout().is_terminal() {
        return Err(miette!(
            help = "name a file, `-w FILE`, or hand it on, `| tshark -r -`; without -w a terminal gets a line a frame",
            "a capture is no text, and standard output is a terminal"
        ));
    }
    let interrupted = Arc::default();
    signals::await_end(&interrupted)?;
    if let Some(file) = &args.simulated.sim {
        let open = || if is_text { Ok(Output::text(format)) } else { Output::open(args.write.as_deref()) };
        let outcome = simulated::capture(args, file, &open, &interrupted)?;
        report(&outcome, args, interrupted.load(Ordering::Relaxed));
        return Ok(());
    }
    let instance = connect(&running(args.network.name.as_deref(), "`heddle capture --name NETWORK ..`")?)?;
    let wanted = CaptureOptions {
        target: args.target.clone(),
        filter: args.filter.join(" "),
        snaplen: args.snaplen.unwrap_or(SNAPLEN_MAX),
        count: args.count,
    };
    let stream = instance.capture(&wanted).map_err(explain)?;
    // A file that is there stays as it is if there is nothing to capture.
    let mut output = if is_text { Output::text(format) } else { Output::open(args.write.as_deref())? };
    let hint = match (is_text, args.text || std::io::stdout().is_terminal()) {
        (false, _) if args.write.is_none() => BINARY,
        (true, false) if format == Format::Table => LINES,
        _ => "",
    };
    eprintln!("Capturing at {}{hint}; {}", listed(&stream.ports), how_it_ends(args));
    let outcome = copy(stream, &mut output, args.lasts, &interrupted)?;
    report(&outcome, args, interrupted.load(Ordering::Relaxed));
    Ok(())
}

/// Whether standard output is a pipe or a socket, whose reader may be Wireshark. Elsewhere there are lines, as of tcpdump without `-w`.
fn is_to_reader() -> bool {
    let file = std::io::stdout().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let kind = file.and_then(|file| file.metadata()).map(|found| found.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// The ports in one line.
fn listed(ports: &[String]) -> String {
    match ports {
        few if few.len() <= NAMED_MAX => few.join(", "),
        many => format!("{} and {} more ports", many[..NAMED_MAX].join(", "), many.len() - NAMED_MAX),
    }
}

/// Who writes into a file sees nothing go on, and may wait for an end that does not come.
fn how_it_ends(args: &Capture) -> &'static str {
    let is_bounded = args.lasts.is_some() || args.count.is_some();
    match &args.write {
        _ if is_bounded => "it ends by itself, or with Ctrl-C",
        Some(_) => "Ctrl-C ends it and closes the file (--for 10s or --count 100 end it by themselves)",
        None => "Ctrl-C ends it",
    }
}

/// Writes what comes, whole blocks only, until it is interrupted, or for so long.
fn copy(
    mut stream: CaptureStream,
    output: &mut Output,
    lasts: Option<Duration>,
    interrupted: &AtomicBool,
) -> Result<Outcome, Report> {
    let begun = Instant::now();
    let fails = |error: std::io::Error| miette!("the network's process can't be talked to: {error}");
    stream.set_patience(LISTEN).map_err(fails)?;
    let (mut blocks, mut buffer) = (Blocks::default(), vec![0; 256 << 10]);
    let mut outcome = Outcome::default();
    let mut is_stopped = false;
    loop {
        if lasts.is_some_and(|lasts| begun.elapsed() >= lasts) {
            // It ends as if somebody had asked for it now.
            interrupted.store(true, Ordering::Relaxed);
        }
        if interrupted.load(Ordering::Relaxed) && !is_stopped {
            stream.stop();
            is_stopped = true;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(outcome),
            Ok(bytes) => blocks.push(&buffer[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            // It has died.
            Err(_) => return Ok(outcome),
        }
        while let Some((whole, block)) = blocks.take_block().map_err(|error| miette!("{error}"))? {
            match block {
                Block::Packet { .. } => outcome.frames += u64::from(outcome.unwritten.is_none()),
                Block::Statistics { dropped, comment, unmatched } => {
                    outcome.unmatched.push_str(unmatched);
                    outcome.lost += dropped;
                    outcome.is_complete = true;
                    comment.clone_into(&mut outcome.why_ended);
                }
                Block::Interface { .. } | Block::Other => {}
            }
            if outcome.unwritten.is_none() {
                output.put(whole, &block);
            }
        }
        let written = output.flush(interrupted)?;
        if written != Written::All {
            // What is left to be read says how many frames were lost.
            outcome.unwritten = Some(written);
            stream.stop();
            is_stopped = true;
        }
    }
}

/// The closing line, for whoever looks at standard error.
fn report(outcome: &Outcome, args: &Capture, is_interrupted: bool) {
    let Outcome { frames, lost, is_complete, why_ended, unwritten, unmatched } = outcome;
    let plural = if *frames == 1 { "" } else { "s" };
    let lost = if *is_complete { format!(", {lost} lost by the capture") } else { String::new() };
    let is_asked_for = is_interrupted || args.count.is_some_and(|count| *frames >= count);
    let why = match (unwritten, is_asked_for) {
        (Some(Written::StandsStill), _) => "whoever reads them takes no more: the last of them are not written",
        (Some(_), _) | (None, true) => "",
        (None, false) if why_ended.is_empty() => "the network has ended",
        (None, false) => why_ended,
    };
    let mark = if why.is_empty() { "" } else { "; " };
    eprintln!("{frames} frame{plural} captured{lost}{mark}{}", harmless(why));
    if *frames == 0 && unwritten.is_none() && (*is_complete || args.simulated.sim.is_some()) {
        eprintln!("{}", why_empty(&args.filter.join(" "), unmatched));
    }
}

/// What went by where nothing was captured.
fn why_empty(filter: &str, unmatched: &str) -> String {
    match unmatched {
        "" => "No frame passed there meanwhile, of whatever kind".to_owned(),
        kinds => format!("Frames passed that the filter `{}` does not match: {}", harmless(filter), harmless(kinds)),
    }
}

#[cfg(test)]
mod tests {
    use super::why_empty;

    #[test]
    fn an_empty_capture_says_what_went_by() {
        let said = why_empty("udp port 53", "12 IPv4, 3 ARP");
        assert_eq!(said, "Frames passed that the filter `udp port 53` does not match: 12 IPv4, 3 ARP");
        assert!(why_empty("", "").starts_with("No frame passed there"));
    }
}

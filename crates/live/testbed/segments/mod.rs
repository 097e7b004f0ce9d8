//! The kernel's TCP against the machine's, segment by segment: each script is played between two hosts of this kernel, over a path of our own, and
//! between a simulated sender and a simulated receiver, over the same path.
//!
//! ```text
//!               write                                                   read
//!   kernel  (namespace) -- TAP --> path: drops, delays, ... --> TAP -- (namespace)     both traces: what was sent, and when
//!   machine    Sender  ----------> the same                 ---------->  Receiver
//! ```
//!
//! The kernel counts time in ticks, and timers fire at ticks that lie further apart the longer they wait. So the machines' clock shows what the kernel's does.

mod kernel;
mod path;
pub mod random;
mod script;
mod simulated;
mod trace;

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use machine::Span;
use script::Script;
use trace::{Difference, Trace};

/// A play is over when all has been acknowledged and nothing was sent for so long.
const QUIET: Span = Span::from_ms(100);
/// A play is over after this time whatever happens.
const LIMIT: Span = Span::from_secs(30);

const SCRIPTS: &str = include_str!("scripts.txt");

/// Plays of [`agree`] at most: a busy machine may be late in some.
const PLAYS_MAX: u32 = 20;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Plays all scripts whose names begin with `only`, or those of the file `only`, so often; with `shows`, prints both traces of each.
///
/// # Errors
/// If there are no hosts to be had.
pub fn run(only: &str, plays: u32, shows: bool) -> Result<ExitCode> {
    live::raise(true);
    println!("{:<28} {:>8} {:>6}  first difference of the others", "script", "segments", "same");
    let mut differ = 0;
    let (text, only) = if Path::new(only).extension().is_some_and(|extension| extension == "txt") {
        (Cow::Owned(std::fs::read_to_string(only)?), "")
    } else {
        (Cow::Borrowed(SCRIPTS), only)
    };
    for script in script::parse(&text)?.iter().filter(|script| script.name.starts_with(only)) {
        let (mut found, mut segments) = (Vec::new(), 0);
        for _ in 0..plays {
            let (live, simulated) = play(script)?;
            segments = live.events.len();
            if shows {
                println!("{}: {}\n{}", script.name, script.about, trace::side_by_side(&live, &simulated));
            }
            found.extend(trace::compare(&live, &simulated, true));
        }
        let same = plays - found.len() as u32;
        let first = found.first().map(Difference::to_string).unwrap_or_default();
        println!("{:<28} {segments:>8} {:>6}  {first}", script.name, format!("{same}/{plays}"));
        differ += u32::from(2 * same <= plays);
    }
    println!("{differ} scripts differ in most of their plays");
    Ok(ExitCode::from(u8::from(differ > 0)))
}

/// Plays a script until the kernel and the machine have sent the same segments in the same order, whenever that was.
///
/// # Errors
/// If they never do; if there are no hosts to be had.
pub fn agree(name: &str) -> Result<ExitCode> {
    live::raise(true);
    let scripts = script::parse(SCRIPTS)?;
    let script = scripts.iter().find(|script| script.name == name).ok_or_else(|| format!("no script {name}"))?;
    let mut last = None;
    for _ in 0..PLAYS_MAX {
        let (live, simulated) = play(script)?;
        last = trace::compare(&live, &simulated, false);
        if last.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Err(last.map_or_else(String::new, |found| found.to_string()).into())
}

fn play(script: &Script) -> Result<(Trace, Trace)> {
    let live = kernel::play(script).map_err(|error| error as Box<dyn Error>)?;
    let start = live.events.first().ok_or("the kernel has sent nothing")?.at;
    let simulated = simulated::play(script, start);
    Ok((live, simulated))
}

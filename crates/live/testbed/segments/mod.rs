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
mod script;
mod simulated;
mod trace;

use std::error::Error;
use std::process::ExitCode;

use machine::Span;
use trace::Difference;

/// A play is over when all has been acknowledged and nothing was sent for so long.
const QUIET: Span = Span::from_ms(100);
/// A play is over after this time whatever happens.
const LIMIT: Span = Span::from_secs(30);

const SCRIPTS: &str = include_str!("scripts.txt");

/// Plays all scripts whose names begin with `only`, so often; with `shows`, prints both traces of each.
///
/// # Errors
/// If there are no hosts to be had.
pub fn run(only: &str, plays: u32, shows: bool) -> Result<ExitCode, Box<dyn Error>> {
    let scripts = script::parse(SCRIPTS)?;
    live::raise(true);
    println!("{:<28} {:>8} {:>6}  {}", "script", "segments", "same", "first difference of the others");
    let mut differ = 0;
    for script in scripts.iter().filter(|script| script.name.starts_with(only)) {
        let mut found: Vec<Difference> = Vec::new();
        let mut segments = 0;
        for _ in 0..plays {
            let live = kernel::play(script).map_err(|error| error as Box<dyn Error>)?;
            let start = live.events.first().ok_or("the kernel has sent nothing")?.at;
            let simulated = simulated::play(script, start);
            segments = live.events.len();
            if shows {
                println!("{}: {}\n{}", script.name, script.about, trace::side_by_side(&live, &simulated));
            }
            found.extend(trace::compare(&live, &simulated));
        }
        let same = plays - found.len() as u32;
        println!("{:<28} {segments:>8} {:>6}  {}", script.name, format!("{same}/{plays}"), summary(&found));
        differ += u32::from(2 * same <= plays);
    }
    println!("{differ} scripts differ in most of their plays");
    Ok(ExitCode::from(u8::from(differ > 0)))
}

fn summary(found: &[Difference]) -> String {
    found.first().map(Difference::to_string).unwrap_or_default()
}

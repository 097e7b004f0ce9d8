//! One stream of frames and carrier events through the kernel's bond and through Heddle's: which member each frame leaves on.
//!
//!     bond_differential [FRAMES] [SEED] [OPTION]
//!
//! To be run as root in a guest of `scripts/uml.sh`, where the kernel has the bonding driver (`benches/linux-bond.sh differential` does it).
//! OPTION picks the cases whose options contain it. Prints a table; the exit status is 1 if there is a difference that has no reason.

mod frames;
mod kernel;

use std::collections::BTreeMap;
use std::process::ExitCode;

use bond::config::Config;
use bond::{Bond, Carrier, Kind, MemberId, Mode, Summary, Transmit};
use frames::Frames;
use kernel::{Kernel, Result};
use machine::{Rng, Time};

/// Frames of each case, unless said otherwise.
const FRAMES: usize = 3_000;
/// Frames between two carrier events.
const BETWEEN: usize = 100;
/// Differences without a reason that are shown whole.
const SHOWN_MAX: usize = 8;

/// What differs on purpose: the driver gives a failed member's turns to its successor, we share them among all.
const TURNS: &str = "a failed member's turn: its successor's there, shared by all here";

/// The kernel's dissector takes the first tag inside a tunnel for the one beside the frame, and reads on four bytes too early: one flow
/// would be spread by its packets' identifiers.
const INNER_TAG: &str = "a tag in a tunnel in a tagged frame: misread there, followed here";

struct Case {
    mode: Mode,
    /// Options as the kernel names them, for both.
    options: &'static str,
    primary: Option<&'static str>,
    members: usize,
}

#[derive(Default)]
struct Tally {
    frames: usize,
    events: usize,
    equal: usize,
    explained: BTreeMap<&'static str, usize>,
    unexplained: usize,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let frames = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(FRAMES);
    let seed = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(1);
    let only = args.next().unwrap_or_default();
    match compare_all(frames, seed, &only) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(n) => {
            println!("{n} frames left on another member without a reason");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bond_differential: {error}");
            ExitCode::from(2)
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |mode, options, primary, members| cases.push(Case { mode, options, primary, members });
    for members in 2..=4 {
        add(Mode::BalanceRr, "packets_per_slave 1", None, members);
    }
    add(Mode::BalanceRr, "packets_per_slave 2", None, 3);
    add(Mode::BalanceRr, "packets_per_slave 7", None, 4);
    add(Mode::ActiveBackup, "", None, 2);
    add(Mode::ActiveBackup, "", None, 4);
    for options in ["primary_reselect always", "primary_reselect better", "primary_reselect failure"] {
        add(Mode::ActiveBackup, options, Some("b1"), 3);
    }
    for members in [2, 3, 4] {
        for options in [
            "xmit_hash_policy layer2",
            "xmit_hash_policy layer2+3",
            "xmit_hash_policy layer3+4",
            "xmit_hash_policy encap2+3",
            "xmit_hash_policy encap3+4",
            "xmit_hash_policy vlan+srcmac",
        ] {
            add(Mode::BalanceXor, options, None, members);
        }
    }
    for members in [2, 3] {
        add(Mode::Broadcast, "", None, members);
    }
    cases
}

fn compare_all(frames: usize, seed: u64, only: &str) -> Result<usize> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("Linux {}, seed {seed}, a carrier event every {BETWEEN} frames\n", release.trim());
    println!(
        "{:<14} {:<26} {:>7} {:>7} {:>6} {:>7} {:>9} {:>11}",
        "mode", "options", "members", "frames", "events", "equal", "explained", "unexplained"
    );
    let (mut unexplained, mut shown, mut reasons) = (0, 0, BTreeMap::new());
    for case in cases().into_iter().filter(|case| case.options.contains(only)) {
        let tally = compare(&case, frames, seed, &mut shown)?;
        let options =
            case.primary.map_or(case.options.to_owned(), |_| case.options.replace("primary_reselect", "primary b1"));
        println!(
            "{:<14} {:<26} {:>7} {:>7} {:>6} {:>7} {:>9} {:>11}",
            case.mode.name(),
            options.trim_start_matches("xmit_hash_policy "),
            case.members,
            tally.frames,
            tally.events,
            tally.equal,
            tally.explained.values().sum::<usize>(),
            tally.unexplained
        );
        unexplained += tally.unexplained;
        for (reason, count) in tally.explained {
            *reasons.entry(reason).or_insert(0) += count;
        }
    }
    println!();
    for (reason, count) in reasons {
        println!("{count} frames: {reason}");
    }
    Ok(unexplained)
}

fn compare(case: &Case, frames: usize, seed: u64, shown: &mut usize) -> Result<Tally> {
    let mut kernel = Kernel::new(&format!("mode {} {}", case.mode.name(), case.options), case.primary, case.members)?;
    let mut bond = make_bond(case)?;
    let (mut stream, mut events) = (Frames::new(seed), Rng::new(seed).fork(1));
    let mut up = vec![true; case.members];
    let (mut tally, mut turns) = (Tally::default(), Turns::new(case));
    for number in 0..frames {
        if number % BETWEEN == BETWEEN - 1 {
            let member = events.below(case.members as u32) as usize;
            up[member] = !up[member];
            kernel.carrier(member, up[member])?;
            let carrier = if up[member] { Carrier::up(10_000) } else { Carrier::DOWN };
            bond.carrier(Time::from_ns(number as u64), MemberId::new(member), carrier);
            tally.events += 1;
        }
        let frame = stream.make();
        let (there, is_same) = kernel.transmit(&frame)?;
        if there != 0 && !is_same {
            return Err(format!("frame {number} was changed on its way: {frame:02x?}").into());
        }
        let successor = turns.next(&bond, &frame, &up);
        let here = bits(bond.transmit_frame(Time::from_ns(number as u64), &mut frame.clone()));
        tally.frames += 1;
        if here == there {
            tally.equal += 1;
        } else if successor == Some(there) {
            *tally.explained.entry(TURNS).or_insert(0) += 1;
        } else if case.options.contains("encap") && has_inner_tag(&frame) {
            *tally.explained.entry(INNER_TAG).or_insert(0) += 1;
        } else {
            tally.unexplained += 1;
            if *shown < SHOWN_MAX {
                *shown += 1;
                let bytes = frame.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
                println!("frame {number}, up {up:?}: members {there:#b} there, {here:#b} here: {bytes}");
            }
        }
    }
    Ok(tally)
}

fn make_bond(case: &Case) -> Result<Bond> {
    let mut options: Vec<&str> = case.options.split_whitespace().collect();
    options.extend(case.primary.iter().flat_map(|name| ["primary", *name]));
    let pairs: Vec<(&str, &str)> =
        options.chunks(2).map(|pair| (pair[0], pair[1])).chain([("mode", case.mode.name())]).collect();
    let mut bond = Bond::new(Time::ZERO, Config::from_options(&pairs)?, None, Rng::new(1));
    for member in 0..case.members {
        let mac = [2, 0, 0, 0, 1, member as u8];
        bond.add_member(Time::ZERO, &format!("b{member}"), mac, Carrier::up(10_000))?;
    }
    Ok(bond)
}

/// Whether a tagged frame has a tag again behind a tunnel's headers: an IP header and four bytes at least.
fn has_inner_tag(frame: &[u8]) -> bool {
    const TUNNEL: usize = 18 + 20 + 4;
    let is_tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
    is_tag(12) && (TUNNEL - 2..frame.len()).any(is_tag)
}

fn bits(transmit: Transmit) -> u32 {
    match transmit {
        Transmit::One(member) => 1 << member.index(),
        Transmit::All(members) => members.bits(),
        Transmit::None(_) => 0,
    }
}

/// The driver's balance-rr while members are missing, by its own rule: who has the turn, or the next one that can send.
struct Turns {
    in_turn: bool,
    packets: u32,
    /// Frames so far, IGMP left out, which stays on one member.
    count: u32,
}

impl Turns {
    fn new(case: &Case) -> Self {
        let packets = case.options.strip_prefix("packets_per_slave ").and_then(|number| number.parse().ok());
        Self { in_turn: case.mode == Mode::BalanceRr, packets: packets.unwrap_or(1), count: 0 }
    }

    /// Counts a frame. Where the driver sends it, if that may differ from where we do.
    fn next(&mut self, bond: &Bond, frame: &[u8], up: &[bool]) -> Option<u32> {
        // Without any member the bond has no carrier, and the kernel drops what is sent to it before the driver is asked.
        if !self.in_turn || !up.contains(&true) || Summary::of(bond.config(), frame).kind == Kind::Igmp {
            return None;
        }
        self.count += 1;
        let turn = (self.count / self.packets) as usize;
        let successor = (0..up.len()).map(|step| (turn + step) % up.len()).find(|&member| up[member]);
        (up.contains(&false)).then(|| successor.map_or(0, |member| 1 << member))
    }
}

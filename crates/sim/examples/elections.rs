//! A thousand elections in simulation, three ways: `elections [COUNT]`.
//!
//! The leader of three servers is killed, and the time until another leads is taken. With the delays of the published
//! study, votes take about as long to come back as an election timeout of 0.1 s lasts: without pre-vote and with that
//! timeout fixed, candidates time out before their votes are there, and elections repeat. A timeout that follows the
//! measured round trip does without.

use machine::Span;
use placement::{Strategy, TimeoutConfig};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sim::cluster::session::{Session, Setting};
use sim::cluster::{Quality, Speed};
use tree::Path;

/// The fixed timeout, and the least that a measured one may become.
const TIMEOUT: Span = Span::from_ms(100);

/// An election that takes longer is counted as so long.
const PATIENCE: Span = Span::from_secs(60);

/// One way of electing.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    fixed: bool,
    pre_vote: bool,
}

const WAYS: [Way; 3] = [
    Way { name: "0.1 s fixed, no pre-vote", fixed: true, pre_vote: false },
    Way { name: "0.1 s fixed, pre-vote", fixed: true, pre_vote: true },
    Way { name: "measured, from 0.1 s, pre-vote", fixed: false, pre_vote: true },
];

/// One way through the network, processing included: least and most, uniform between, in ms.
const DELAYS: [(u64, u64); 3] = [(1, 2), (5, 15), (30, 60)];

fn setting(way: Way, (least, most): (u64, u64)) -> Setting {
    let quality = Quality {
        delay_min: Span::from_ms(least),
        delay_more: Span::from_ms(most - least),
        lost_per_mille: 0,
        doubled_per_mille: 0,
        late_per_mille: 0,
        late: Span::ZERO,
    };
    let election = TimeoutConfig { min: TIMEOUT, max: Span::from_secs(10), fixed: way.fixed.then_some(TIMEOUT) };
    let speed = Speed { slow_per_mille: 0, ..Speed::default() };
    Setting { servers: 3, strategy: Strategy::Single, election, quality, speed, pre_vote: way.pre_vote }
}

/// Seconds from the leader's death to another's election; `None` if there was no leader to kill.
fn election(seed: u64, setting: &Setting) -> Option<f64> {
    let path = Path::parse("/car:cars").expect("it is a path");
    let mut session = Session::new(seed, setting);
    session.wait(PATIENCE, |session| session.leader(&path).is_some() && session.is_settled());
    // The round trips are measured by then.
    let warm = session.now() + Span::from_secs(5);
    session.wait(PATIENCE, |session| session.now() >= warm && session.leader(&path).is_some());
    let leader = session.leader(&path)?;
    let killed = session.now();
    session.kill(leader);
    session.wait(PATIENCE, |session| session.leader(&path).is_some());
    Some(session.now().since(killed).as_secs_f64())
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    println!(
        "{:<12} {:<32} {:>6} {:>7} {:>7} {:>7} {:>9}",
        "delay (ms)", "timeout", "min s", "mean s", "p99 s", "max s", "over 1 s"
    );
    for delay in DELAYS {
        for way in WAYS {
            let setting = setting(way, delay);
            let mut took: Vec<f64> = (0..count).into_par_iter().filter_map(|seed| election(seed, &setting)).collect();
            took.sort_by(f64::total_cmp);
            let (Some(min), Some(max)) = (took.first(), took.last()) else {
                println!("{:<12} {:<32} nobody was ever elected", format!("{}..{}", delay.0, delay.1), way.name);
                continue;
            };
            let mean = took.iter().sum::<f64>() / took.len() as f64;
            let p99 = took[(took.len() * 99).div_ceil(100) - 1];
            let over = took.iter().filter(|s| **s > 1.0).count();
            println!(
                "{:<12} {:<32} {min:>6.2} {mean:>7.2} {p99:>7.2} {max:>7.2} {:>9}",
                format!("{}..{}", delay.0, delay.1),
                way.name,
                format!("{over}/{}", took.len()),
            );
        }
    }
}

//! A thousand elections in simulation, three ways, over four networks: `elections [COUNT]`.
//!
//! The leader of three servers is killed after ten seconds of peace, and the time until another leads is taken. Where votes
//! take longer to come back than a fixed timeout of 0.1 s lasts, candidates give up before their votes are there, and
//! elections repeat: the published study found 1.19 / 3.80 / 6.24 s (least, mean, most). A timeout that follows the
//! measured round trip does without.

use machine::nanos::Span;
use placement::{Strategy, TimeoutConfig};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sim::cluster::election::{self, Election};
use sim::cluster::session::Setting;
use sim::cluster::{Quality, Speed};

/// The fixed timeout, and the least that a measured one may become.
const TIMEOUT: Span = Span::from_ms(100);

/// One method of electing.
#[derive(Clone, Copy)]
struct ElectionMethod {
    name: &'static str,
    fixed: bool,
    pre_vote: bool,
}

const METHODS: [ElectionMethod; 3] = [
    ElectionMethod { name: "0.1 s fixed, no pre-vote", fixed: true, pre_vote: false },
    ElectionMethod { name: "0.1 s fixed, pre-vote", fixed: true, pre_vote: true },
    ElectionMethod { name: "measured, from 0.1 s, pre-vote", fixed: false, pre_vote: true },
];

/// One path through the network, processing included: least and mean, in ms; what is above the least is exponential.
///
/// The first is the study's own: replication cost its writes 4.1 ms at least and 7.5 ms on average (its table A, three
/// nodes less one), there and back. The third is where 0.1 s without pre-vote takes as long as the study says it did.
const DELAYS: [(u64, u64); 4] = [(2, 4), (30, 60), (70, 80), (50, 100)];

fn setting(method: ElectionMethod, (least, mean): (u64, u64)) -> Setting {
    let quality = Quality::lossless(Span::from_ms(least), Span::from_ms(mean - least));
    let election = TimeoutConfig { min: TIMEOUT, max: Span::from_secs(10), fixed: method.fixed.then_some(TIMEOUT) };
    let speed = Speed { slow_per_mille: 0, ..Speed::default() };
    Setting { servers: 3, strategy: Strategy::Single, election, quality, speed, pre_vote: method.pre_vote }
}

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    println!(
        "{:<12} {:<32} {:>6} {:>7} {:>7} {:>7} {:>9} {:>10}",
        "delay (ms)", "timeout", "min s", "mean s", "p99 s", "max s", "over 1 s", "disturbed"
    );
    for (least, mean) in DELAYS {
        for method in METHODS {
            let setting = setting(method, (least, mean));
            let held: Vec<Election> =
                (0..count).into_par_iter().filter_map(|seed| election::hold(seed, &setting)).collect();
            let mut took: Vec<f64> = held.iter().map(|election| election.seconds).collect();
            took.sort_by(f64::total_cmp);
            let delay = format!("{least}, mean {mean}");
            let (Some(min), Some(max)) = (took.first(), took.last()) else {
                println!("{delay:<12} {:<32} nobody was ever elected", method.name);
                continue;
            };
            let average = took.iter().sum::<f64>() / took.len() as f64;
            let p99 = took[(took.len() * 99).div_ceil(100) - 1];
            let over = format!("{}/{}", took.iter().filter(|s| **s > 1.0).count(), took.len());
            let disturbed = held.iter().filter(|election| election.disturbed > 0).count();
            println!(
                "{delay:<12} {:<32} {min:>6.2} {average:>7.2} {p99:>7.2} {max:>7.2} {over:>9} {disturbed:>10}",
                method.name
            );
        }
    }
}

//! Elections where votes take longer to come back than 0.1 s: `cargo run --release -p heddle-sim --example elections` holds
//! thousands, over other networks, too.

use machine::nanos::Span;
use placement::{Strategy, TimeoutConfig};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use sim::cluster::election::{Election, hold};
use sim::cluster::session::Setting;
use sim::cluster::{Quality, Speed};

/// Elections of each kind.
const HELD: u64 = 16;

fn elections(fixed: bool, pre_vote: bool, count: u64) -> Vec<Election> {
    let least = Span::from_ms(100);
    let quality = Quality::lossless(Span::from_ms(70), Span::from_ms(10));
    let election = TimeoutConfig { min: least, max: Span::from_secs(10), fixed: fixed.then_some(least) };
    let setting =
        Setting { servers: 3, strategy: Strategy::Single, election, quality, speed: Speed::default(), pre_vote };
    (0..count).into_par_iter().filter_map(|seed| hold(seed, &setting)).collect()
}

#[test]
fn a_timeout_that_follows_the_round_trip_elects_within_a_second() {
    let held = elections(false, true, HELD);
    assert_eq!(held.len() as u64, HELD);
    for (seed, election) in held.iter().enumerate() {
        assert!(election.seconds < 1.0, "seed {seed}: {election:?}");
        assert_eq!(election.disturbed, 0, "seed {seed}: {election:?}");
    }
}

/// What the study found at 0.1 s: without it the test above would prove nothing.
#[test]
fn a_fixed_one_below_the_round_trip_repeats_its_elections() {
    let held = elections(true, false, HELD / 4);
    let mean = held.iter().map(|election| election.seconds).sum::<f64>() / held.len() as f64;
    assert!(mean > 2.0, "{mean} s");
    assert!(held.iter().filter(|election| election.disturbed > 0).count() > held.len() / 2);
}

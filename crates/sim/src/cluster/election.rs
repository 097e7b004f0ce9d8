//! One election in simulation: how long it takes from a leader's death until another leads.

use machine::nanos::Span;
use tree::Path;

use super::session::{Session, Setting};

/// How long nothing happens before a leader is killed.
const PEACE: Span = Span::from_secs(10);

/// An election that takes longer is counted as so long.
const PATIENCE: Span = Span::from_secs(60);

/// What came of killing a leader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Election {
    /// From its death until another was elected.
    pub seconds: f64,
    /// Terms that began in the time of peace before, when none should.
    pub disturbed: u64,
}

/// Kills the leader of a cluster that has been at peace. `None` if nobody led.
pub fn hold(seed: u64, setting: &Setting) -> Option<Election> {
    let path = Path::parse("/car:cars").expect("it is a path");
    let mut session = Session::new(seed, setting);
    session.wait(PATIENCE, |session| session.leader(&path).is_some() && session.has_converged());
    // The round trips are measured by then.
    let warm = session.now() + Span::from_secs(5);
    session.wait(PATIENCE, |session| session.now() >= warm && session.leader(&path).is_some());
    let (_, before) = session.leader_and_term(&path)?;
    let peace = session.now() + PEACE;
    session.wait(PATIENCE, |session| session.now() >= peace && session.leader(&path).is_some());
    let (leader, term) = session.leader_and_term(&path)?;
    let killed = session.now();
    session.kill(leader);
    session.wait(PATIENCE, |session| session.leader(&path).is_some());
    Some(Election { seconds: session.now().since(killed).as_secs_f64(), disturbed: term - before })
}

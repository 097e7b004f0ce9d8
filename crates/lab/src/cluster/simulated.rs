//! The same load on simulated controllers: their disks and their network take what a disk with a fast cache and a
//! network of 1 Gbit/s take, and nothing else goes wrong.

use fabric::{
    Case, ClusterLoad, Controllers, ElectionEnd, ElectionTimeout, MessageDelay, Operation, Role, ShardPlan, Target,
    Work,
};
use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::{Strategy, TimeoutConfig};
use sim::cluster::session::{Session, Setting};
use sim::cluster::{Quality, Speed};
use store::protocol::{Answer, Consistency, RequestBody};
use workload::entry::{Action, Change, Input, Leaf, Output};
use workload::{CARS, Cars, Layout, PEOPLE, container};

use super::history;
use super::history::Reader;
use super::recorder::Recorder;
use super::script::{Mode, Script};
use crate::measure::cluster_record::ClusterRecord;

/// One way through the network where the file says nothing of it: a switch, two kernels; and what single messages take
/// longer.
const QUALITY: Quality = Quality::lossless(Span::from_us(60), Span::from_us(20));
/// A write with its sync.
const SPEED: Speed =
    Speed { write_min: Span::from_us(300), write_more: Span::from_us(200), slow_per_mille: 0, slow: Span::ZERO };
/// One request.
const TIMEOUT: Span = Span::from_secs(60);
/// Before a leader is killed whose successor is waited for: a node that was restarted is back by then, and the round trips
/// are measured.
const PEACE: Span = Span::from_secs(15);
/// The longest wait for a leader.
const PATIENCE: Span = Span::from_secs(600);

/// Runs one case. The same seed gives the same record.
pub(crate) fn run(
    case: &Case,
    controllers: &Controllers,
    duration: machine::Span,
    seed: u64,
) -> Result<(ClusterRecord, f64), String> {
    let Work::Cluster(load) = &case.work else { unreachable!("the run asks controllers") };
    let mut session = Session::new(seed, &setting(controllers));
    if load.until == ElectionEnd::Leader {
        let record = leaders(&mut session, load)?;
        return Ok((record, session.now().since(Time::ZERO).as_secs_f64()));
    }
    wait_converged(&mut session, controllers)?;
    let first = session.running()[0];
    for module in [CARS, PEOPLE] {
        let change = tree::Change::Put { at: container(module), value: Cars::numbered(0).value(1) };
        let answer = session.ask(first, RequestBody::Write(tree::Transaction::of(change)), TIMEOUT);
        if !matches!(answer, Some(Ok(_))) {
            return Err(format!("the first write came to {answer:?}"));
        }
    }
    wait_converged(&mut session, controllers)?;
    let begun = session.now();
    let record = if load.is_election() {
        elections(&mut session, controllers, load)?
    } else {
        ask(&mut session, load, duration)?
    };
    Ok((record, session.now().since(begun).as_secs_f64()))
}

fn setting(controllers: &Controllers) -> Setting {
    let election = match controllers.election {
        ElectionTimeout::Fixed(timeout) => {
            let timeout = timeout.into();
            TimeoutConfig { min: timeout, max: timeout, fixed: Some(timeout) }
        }
        ElectionTimeout::Measured { min, max } => TimeoutConfig { min: min.into(), max: max.into(), fixed: None },
    };
    let strategy = if controllers.shards == ShardPlan::Distributed { Strategy::Distributed } else { Strategy::Single };
    Setting {
        servers: u64::from(controllers.nodes),
        strategy,
        election,
        quality: quality(controllers.delay),
        speed: SPEED,
        pre_vote: controllers.pre_vote,
    }
}

fn quality(delay: Option<MessageDelay>) -> Quality {
    match delay {
        Some(MessageDelay { min, mean }) => Quality {
            delay_min: min.into(),
            delay_more: machine::Span::from_ps(mean.as_ps() - min.as_ps()).into(),
            ..QUALITY
        },
        None => QUALITY,
    }
}

fn wait_converged(session: &mut Session, controllers: &Controllers) -> Result<(), String> {
    let timeout: Span = match controllers.election {
        ElectionTimeout::Fixed(timeout) => timeout,
        ElectionTimeout::Measured { max, .. } => max,
    }
    .into();
    let within = TIMEOUT + timeout * 6;
    let has_converged =
        session.wait(within, |session| session.has_converged() && session.leader(&container(CARS).path).is_some());
    has_converged.then_some(()).ok_or_else(|| format!("the simulated cluster has not converged within {within}"))
}

fn leader(session: &Session) -> Result<ServerId, String> {
    session.leader(&container(CARS).path).ok_or_else(|| "nobody leads the shard".to_owned())
}

fn ask(session: &mut Session, load: &ClusterLoad, duration: machine::Span) -> Result<ClusterRecord, String> {
    let leader = leader(session)?;
    let servers = session.running();
    let targets = match load.at {
        Role::Leader => vec![leader],
        Role::Follower => servers.iter().copied().filter(|server| *server != leader).take(1).collect(),
        Role::Any => servers,
    };
    let begun = session.now();
    let mut script = Script::new(load, Mode::InTurn, targets.len(), 0, (begun, duration.into()));
    session.drive(load.clients as usize, &targets, &mut script)?;
    let (mut recorder, _) = script.finish(session.now());
    history::read_all(&mut OneServer { session, server: leader }, &mut recorder)?;
    Ok(history::conclude(&recorder))
}

fn elections(session: &mut Session, controllers: &Controllers, load: &ClusterLoad) -> Result<ClusterRecord, String> {
    let mut recorder = Recorder::new(&[Operation::Election]);
    let mut happened = Vec::new();
    for number in 0..u64::from(load.requests) {
        wait_converged(session, controllers)?;
        let leader = leader(session)?;
        let servers = session.running();
        let victim = match load.victim {
            Target::Node(node) => ServerId(u64::from(node)),
            Target::Follower => *servers.iter().find(|server| **server != leader).ok_or("there is no follower")?,
            Target::Leader | Target::All => leader,
        };
        let survivor = *servers.iter().find(|server| **server != victim).ok_or("nobody would survive")?;
        write(session, &mut recorder, survivor, 2 * number + 1)?;
        let killed = session.now();
        session.kill(victim);
        write(session, &mut recorder, survivor, 2 * number + 2)?;
        let took = session.now().since(killed);
        recorder.took(Operation::Election, took);
        recorder.lasted(Operation::Election, took);
        happened.push(format!("{:.2} s: n{victim} killed", killed.since(Time::ZERO).as_secs_f64()));
        session.start(victim);
    }
    wait_converged(session, controllers)?;
    let server = leader(session)?;
    history::read_all(&mut OneServer { session, server }, &mut recorder)?;
    Ok(ClusterRecord { faults: happened, ..history::conclude(&recorder) })
}

/// From the death of a leader until another leads. Nothing is written: where elections follow each other without end,
/// there would be no time for it.
fn leaders(session: &mut Session, load: &ClusterLoad) -> Result<ClusterRecord, String> {
    let mut recorder = Recorder::new(&[Operation::Election]);
    let mut happened = Vec::new();
    let path = container(CARS).path;
    for _ in 0..load.requests {
        let peace = session.now() + PEACE;
        session.wait(PATIENCE, |session| session.now() >= peace && session.leader(&path).is_some());
        let (victim, term) = session.leader_and_term(&path).ok_or_else(|| nobody_leads(PATIENCE))?;
        let killed = session.now();
        session.kill(victim);
        // Somebody else may still think that it leads, in a term that is over.
        let is_new = |session: &Session| session.leader_and_term(&path).is_some_and(|(_, later)| later > term);
        if !session.wait(PATIENCE, is_new) {
            return Err(nobody_leads(PATIENCE));
        }
        let took = session.now().since(killed);
        recorder.took(Operation::Election, took);
        recorder.lasted(Operation::Election, took);
        happened.push(format!("{:.2} s: n{victim} killed", killed.since(Time::ZERO).as_secs_f64()));
        session.start(victim);
    }
    let operations = recorder.operations();
    Ok(ClusterRecord { operations, faults: happened, ..ClusterRecord::default() })
}

fn nobody_leads(within: Span) -> String {
    format!("nobody has led the simulated cluster for {within}")
}

fn write(session: &mut Session, recorder: &mut Recorder, server: ServerId, value: u64) -> Result<(), String> {
    let action = Action::Write { condition: None, change: Change::Put(Leaf::A, value) };
    let input = Input { entry: 0, action };
    let ticket = recorder.invoked(0, session.now(), input);
    match session.ask(server, Cars::numbered(0).request(input, Consistency::Linearizable), TIMEOUT) {
        Some(Ok(Answer::Written { revision })) => {
            recorder.returned(ticket, session.now(), Output::Written { revision });
            Ok(())
        }
        other => Err(format!("a write came to {other:?}")),
    }
}

/// Reads at one server.
struct OneServer<'a> {
    session: &'a mut Session,
    server: ServerId,
}

impl Reader for OneServer<'_> {
    fn now(&self) -> Time {
        self.session.now()
    }

    fn read(&mut self, body: RequestBody) -> Result<Answer, String> {
        match self.session.ask(self.server, body, TIMEOUT) {
            Some(answer) => answer.map_err(|error| error.to_string()),
            None => Err("no answer".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(text: &str) -> (Vec<Case>, fabric::Fabric) {
        let text = format!("controllers: {{ nodes: 3 }}\nexperiments: {{ it: {text} }}\n");
        let fabric = fabric::parse(&fabric::Source { name: "it".to_owned(), text }).unwrap();
        (fabric.experiments[0].cases(), fabric)
    }

    fn records(text: &str, seed: u64) -> Vec<ClusterRecord> {
        let (cases, fabric) = experiment(text);
        let one =
            |case: &Case| run(case, &crate::plan::controllers_of(&fabric, case), machine::Span::ZERO, seed).unwrap().0;
        cases.iter().map(one).collect()
    }

    const CRUD: &str = "{ cluster: { requests: 100 }, vary: { nodes: [1, 3], shards: [single, distributed], at: [leader, follower] } }";

    #[test]
    fn everything_asked_is_answered_and_holds_together() {
        let all = records(CRUD, 3);
        assert_eq!(all.len(), 6);
        for record in &all {
            assert_eq!(
                (record.failed, record.lost_writes, record.linearizable),
                (0, Some(0), Some(true)),
                "{record:?}"
            );
            assert!(record.operations.iter().all(|operation| operation.latencies.count == 100));
        }
        let mean = |record: &ClusterRecord, at: usize| {
            record.operations[at].latencies.statistic(fabric::Statistic::Mean).unwrap()
        };
        let (writes, reads): (Vec<f64>, Vec<f64>) = all.iter().map(|record| (mean(record, 0), mean(record, 1))).unzip();
        assert!(writes[2] > writes[0], "three nodes write more slowly than one: {writes:?}");
        assert!(reads[3] > reads[2] + 1e-4, "a follower asks the leader: {reads:?}");
    }

    #[test]
    fn elections_take_longer_with_longer_timeouts() {
        let text =
            "{ cluster: { operations: [election], requests: 3 }, vary: { election-timeout: [10s, 100ms, measured] } }";
        let all = records(text, 5);
        let most = |record: &ClusterRecord| record.operations[0].latencies.max_ns / 1_000_000;
        assert!((10_000..40_000).contains(&most(&all[0])), "{} ms", most(&all[0]));
        assert!(most(&all[1]) < 1_000 && most(&all[2]) < 1_000, "{} ms, {} ms", most(&all[1]), most(&all[2]));
        assert!(all.iter().all(|record| record.lost_writes == Some(0) && record.linearizable == Some(true)));
    }

    #[test]
    fn where_votes_take_longer_than_candidates_wait_a_measured_timeout_elects() {
        let text = "{ cluster: { operations: [election], until: leader, requests: 5 }, vary: { election-timeout: [100ms, measured], \
            pre-vote: [false, true], delay: [{ min: 70ms, mean: 80ms }] } }";
        let all = records(text, 11);
        let of = |case: usize, statistic| all[case].operations[0].latencies.statistic(statistic).unwrap();
        assert!(of(0, fabric::Statistic::Max) > 2.0, "0.1 s, no pre-vote: {:?}", all[0].operations);
        assert!(of(3, fabric::Statistic::Max) < 1.0, "measured, pre-vote: {:?}", all[3].operations);
        assert!(of(3, fabric::Statistic::Min) > 0.2, "no vote comes back before two ways: {:?}", all[3].operations);
        let counts = all.iter().map(|record| (record.operations[0].latencies.count, record.faults.len()));
        assert!(counts.clone().all(|counted| counted == (5, 5)), "{:?}", counts.collect::<Vec<_>>());
        assert!(
            all.iter().all(|record| record.lost_writes.is_none() && record.linearizable.is_none()),
            "nothing was asked"
        );
    }

    #[test]
    fn requests_take_as_long_as_the_delay_says() {
        let text = "{ cluster: { operations: [update], requests: 20 }, vary: { delay: [{ min: 5ms, mean: 5ms }, { min: 5ms, mean: 15ms }] } }";
        let all = records(text, 3);
        let mean = |case: usize| all[case].operations[0].latencies.statistic(fabric::Statistic::Mean).unwrap();
        // To the leader, to a follower and back, to the client; and the disks.
        assert!((0.020..0.022).contains(&mean(0)), "{} s", mean(0));
        assert!(mean(1) > 2.0 * mean(0), "{} s, {} s", mean(0), mean(1));
    }

    #[test]
    fn the_same_seed_gives_the_same_record() {
        let text = "{ cluster: { requests: 20, clients: 3, at: any } }";
        assert_eq!(records(text, 9), records(text, 9));
        assert_ne!(records(text, 9), records(text, 10));
    }
}

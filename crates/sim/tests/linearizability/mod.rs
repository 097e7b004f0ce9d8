//! The checker against histories that are right, wrong by plan, and random ones beside the obvious checker.

mod generate;

use machine::Rng;
use machine::nanos::Time;
use proptest::prelude::*;

use generate::{Error, generate};
use sim::linearizability::entry::{Action, Change, Condition, EntryModel, Expect, Input, Leaf, Output, Tagged};
use sim::linearizability::{Check, Limits, Model, Operation, Outcome, Verdict, check, entry};

type Step = Operation<Input, Output>;

/// An operation from a client's record, times in seconds.
fn done(client: u32, from: u64, to: u64, action: Action, output: Output) -> Step {
    let at = Time::from_ns(to * 1_000_000_000);
    Operation { outcome: Outcome::Returned { at, output }, ..lost(client, from, action) }
}

/// An operation of unknown outcome.
fn lost(client: u32, from: u64, action: Action) -> Step {
    let input = Input { entry: 17, action };
    Operation { client, invoked: Time::from_ns(from * 1_000_000_000), input, outcome: Outcome::Unknown }
}

fn put(value: u64) -> Action {
    Action::Write { condition: None, change: Change::Put(Leaf::A, value) }
}

fn put_if(expect: Expect, value: u64) -> Action {
    let condition = Some(Condition { leaf: Leaf::A, expect });
    Action::Write { condition, change: Change::Put(Leaf::A, value) }
}

const GET: Action = Action::Get(Leaf::A);

const fn written(revision: u64) -> Output {
    Output::Written { revision }
}

const fn found(value: u64, tag: u64) -> Output {
    Output::Leaf(Some(Tagged { value, tag }))
}

const ABSENT: Output = Output::Leaf(None);

fn verdict(history: &[Step]) -> Verdict<u32> {
    let verdict = check(&EntryModel, history, Limits::default()).verdict;
    let in_hindsight = entry::check(history, Limits::default()).verdict;
    assert_eq!(verdict.is_linearizable(), in_hindsight.is_linearizable(), "{verdict} in hindsight: {in_hindsight}");
    verdict
}

/// The counterexample of a history that must have one.
fn contradiction(history: &[Step]) -> String {
    match verdict(history) {
        Verdict::Illegal(counterexample) => counterexample.to_string(),
        other => panic!("expected a counterexample, got: {other}"),
    }
}

#[test]
fn nothing_happened() {
    assert_eq!(verdict(&[]), Verdict::Linearizable);
}

#[test]
fn concurrent_operations_may_take_effect_in_either_order() {
    let history = [
        done(1, 0, 10, put(1), written(2)),
        done(2, 0, 10, put(2), written(1)),
        done(3, 1, 2, GET, found(2, 1)),
        done(3, 3, 4, GET, found(1, 2)),
    ];
    assert_eq!(verdict(&history), Verdict::Linearizable);
}

#[test]
fn an_unknown_write_may_take_effect_late_or_never() {
    let late = [lost(1, 0, put(1)), done(2, 1, 2, GET, ABSENT), done(2, 9, 10, GET, found(1, 5))];
    assert_eq!(verdict(&late), Verdict::Linearizable);
    assert_eq!(verdict(&late[..2]), Verdict::Linearizable);
}

#[test]
fn an_unknown_write_takes_effect_once() {
    let history = [
        lost(1, 0, put(1)),
        done(2, 1, 2, GET, found(1, 1)),
        done(3, 3, 4, put(2), written(2)),
        done(2, 5, 6, GET, found(1, 3)),
    ];
    let text = contradiction(&history);
    assert!(text.contains("get a -> 1 (tag 3)   <- does not fit"), "{text}");
}

#[test]
fn a_stale_read_is_shown_with_the_write_that_it_missed_and_nothing_else() {
    let mut history: Vec<Step> = (0..100).map(|n| done(1, n * 10, n * 10 + 5, put(n), written(n + 1))).collect();
    history.extend((0..99).map(|n| done(2, n * 10 + 6, n * 10 + 7, GET, found(n, n + 1))));
    history.push(done(3, 2_000, 2_001, GET, found(98, 99)));
    let expected = "key 17: no order explains the results of these operations, whatever the 198 others did
  client 1     990.000000 s ..   995.000000 s  put a=99 -> written with tag 100
  client 3    2000.000000 s ..  2001.000000 s  get a -> 98 (tag 99)   <- does not fit";
    assert_eq!(contradiction(&history), expected);
}

#[test]
fn a_revision_grows_over_a_deletion() {
    let delete = Action::Write { condition: None, change: Change::Delete };
    let history = |last| {
        [
            done(1, 0, 1, put(1), written(7)),
            done(1, 2, 3, delete, written(8)),
            done(1, 4, 5, put_if(Expect::Absent, 2), written(last)),
        ]
    };
    assert_eq!(verdict(&history(9)), Verdict::Linearizable);
    assert!(contradiction(&history(1)).contains("put a=2 if a is absent -> written with tag 1 "));
}

#[test]
fn a_condition_that_held_is_not_refused() {
    let first = done(1, 0, 1, put(1), written(1));
    for (expect, text) in
        [(Expect::Tag(1), "a has tag 1"), (Expect::Value(1), "a is 1"), (Expect::Present, "a is present")]
    {
        let history = [first.clone(), done(1, 2, 3, put_if(expect, 2), Output::Refused)];
        let found = contradiction(&history);
        assert!(found.contains(&format!("put a=2 if {text} -> refused")), "{found}");
    }
}

#[test]
fn a_write_that_was_not_done_is_never_seen() {
    let history = [done(1, 0, 1, put(1), Output::NotDone), done(2, 0, 1, GET, found(1, 1))];
    assert!(contradiction(&history).contains("get a -> 1 "));
}

#[test]
fn half_a_transaction_is_never_seen() {
    let both = Action::Write { condition: None, change: Change::PutBoth { a: 3, b: 4 } };
    let (a, b) = (Some(Tagged { value: 3, tag: 1 }), Some(Tagged { value: 4, tag: 1 }));
    let history = [lost(1, 0, both), done(2, 1, 2, Action::List, Output::Leaves(a, None))];
    assert!(contradiction(&history).contains("a=3 (tag 1) b=absent"));
    let history = [lost(1, 0, both), done(2, 1, 2, Action::List, Output::Leaves(a, b))];
    assert_eq!(verdict(&history), Verdict::Linearizable);
}

#[test]
fn keys_do_not_mix() {
    let mut history = vec![done(1, 0, 1, put(1), written(1)), done(1, 2, 3, GET, ABSENT)];
    history[1].input.entry = 18;
    assert_eq!(verdict(&history), Verdict::Linearizable);
    let Check { keys, operations, .. } = check(&EntryModel, &history, Limits::default());
    assert_eq!((keys, operations), (2, 2));
}

#[test]
fn what_cannot_be_decided_is_said() {
    let history = generate(&mut Rng::new(3), 10, 1_000, None);
    let undecided = check(&EntryModel, &history, Limits { steps_a_key: 50 }).verdict;
    assert_eq!(undecided, Verdict::Unknown { keys: (0..5).collect() });
    assert_eq!(undecided.to_string(), "not decided within the limit of steps: 0 1 2 3 4");
}

#[test]
fn correct_histories_pass() {
    for seed in 0..200 {
        let history = generate(&mut Rng::new(seed), 1 + seed as u32 % 12, 500, None);
        assert_eq!(verdict(&history), Verdict::Linearizable, "seed {seed}");
    }
}

/// Most planted errors show; a few happen not to be seen by any client or could have happened without an error.
fn planted(error: Error, share: f64) {
    const SEEDS: u64 = 16;
    let mut found = 0;
    for seed in 0..SEEDS {
        let history = generate(&mut Rng::new(seed), 6, 400, Some(error));
        match verdict(&history) {
            Verdict::Illegal(counterexample) => {
                found += 1;
                assert!(counterexample.window.len() <= 24, "seed {seed}: {counterexample}");
            }
            Verdict::Linearizable => {}
            Verdict::Unknown { .. } => panic!("seed {seed}: not decided"),
        }
    }
    assert!(f64::from(found) >= share * SEEDS as f64, "{error:?}: {found} of {SEEDS} found");
}

#[test]
fn stale_reads_are_found() {
    planted(Error::StaleRead, 0.9);
}

#[test]
fn lost_updates_are_found() {
    planted(Error::LostUpdate, 0.9);
}

#[test]
fn doubled_writes_are_found() {
    planted(Error::DoubledWrite, 0.8);
}

#[test]
fn dirty_reads_are_found() {
    planted(Error::DirtyRead, 0.9);
}

#[test]
fn torn_transactions_are_found() {
    planted(Error::TornTransaction, 0.9);
}

#[test]
fn repeated_revisions_are_found() {
    planted(Error::RepeatedRevision, 0.9);
}

/// Steps stand for time here, which a test must not read: a million take a tenth of a second.
#[test]
fn ten_thousand_operations_of_ten_clients_take_few_steps() {
    for error in [None, Some(Error::StaleRead)] {
        let history = generate::on_one_key(&mut Rng::new(5), 10, 10_000, error);
        let Check { verdict, steps, .. } = entry::check(&history, Limits::default());
        assert_eq!(verdict.is_linearizable(), error.is_none(), "{verdict}");
        assert!(steps < 1_000_000, "{steps} steps");
    }
}

/// Tries every order, with none of the search's shortcuts.
fn brute_force(calls: &[&Step], placed: u32, state: &<EntryModel as Model>::State) -> bool {
    let returned = |call: &Step| match call.outcome {
        Outcome::Returned { at, .. } => Some(at),
        Outcome::Unknown => None,
    };
    let open = |index: usize| placed & 1 << index == 0;
    let Some(until) = (0..calls.len()).filter(|&i| open(i)).filter_map(|i| returned(calls[i])).min() else {
        return true;
    };
    (0..calls.len()).filter(|&i| open(i) && calls[i].invoked <= until).any(|index| {
        let output = match &calls[index].outcome {
            Outcome::Returned { output, .. } => Some(output),
            Outcome::Unknown => None,
        };
        let after = EntryModel.step(state, &calls[index].input, output);
        after.is_some_and(|after| brute_force(calls, placed | 1 << index, &after))
    })
}

fn action() -> impl Strategy<Value = Action> {
    let leaf = || prop_oneof![Just(Leaf::A), Just(Leaf::B)];
    let change = prop_oneof![
        3 => (leaf(), 1..4_u64).prop_map(|(leaf, value)| Change::Put(leaf, value)),
        1 => (leaf(), 1..4_u64).prop_map(|(leaf, value)| Change::Create(leaf, value)),
        1 => (leaf(), 1..4_u64).prop_map(|(leaf, value)| Change::Replace(leaf, value)),
        1 => (1..4_u64, 1..4_u64).prop_map(|(a, b)| Change::PutBoth { a, b }),
        1 => Just(Change::Delete),
        1 => Just(Change::Remove),
    ];
    let expect = prop_oneof![
        Just(Expect::Absent),
        Just(Expect::Present),
        (1..6_u64).prop_map(Expect::Tag),
        (1..4_u64).prop_map(Expect::Value),
    ];
    let condition = (leaf(), expect).prop_map(|(leaf, expect)| Condition { leaf, expect });
    prop_oneof![
        1 => leaf().prop_map(Action::Get),
        1 => Just(Action::List),
        3 => (proptest::option::of(condition), change).prop_map(|(condition, change)| Action::Write { condition, change }),
    ]
}

/// Operations with times but without outputs: (when, how long, action, share of the way at which it takes effect, kind of outcome).
type Plan = Vec<(u64, u64, Action, u64, u8)>;

fn plan() -> impl Strategy<Value = Plan> {
    proptest::collection::vec((0..16_u64, 0..8_u64, action(), 0..8_u64, 0..8_u8), 1..8)
}

/// Gives the planned operations the outputs of a single copy, then changes one if asked to.
fn carry_out(plan: &Plan, spoil: Option<(usize, Output)>) -> Vec<Step> {
    let mut order: Vec<usize> = (0..plan.len()).collect();
    order.sort_by_key(|&index| (plan[index].0 + plan[index].1.min(plan[index].3), index));
    let mut copy = generate::Copy::default();
    let mut history: Vec<Option<Step>> = vec![None; plan.len()];
    for index in order {
        let (from, length, action, _, kind) = plan[index];
        let output = if kind == 1 { Output::NotDone } else { copy.perform(action) };
        let step = done(index as u32, from, from + length, action, output);
        history[index] = Some(if kind == 0 { lost(index as u32, from, action) } else { step });
    }
    let mut history: Vec<Step> = history.into_iter().flatten().collect();
    if let Some((index, wrong)) = spoil {
        let index = index % history.len();
        if let Outcome::Returned { output, .. } = &mut history[index].outcome {
            *output = wrong;
        }
    }
    history
}

fn any_output() -> impl Strategy<Value = Output> {
    let seen = || proptest::option::of((1..4_u64, 1..6_u64).prop_map(|(value, tag)| Tagged { value, tag }));
    prop_oneof![
        seen().prop_map(Output::Leaf),
        (seen(), seen()).prop_map(|(a, b)| Output::Leaves(a, b)),
        (1..6_u64).prop_map(|revision| Output::Written { revision }),
        Just(Output::Refused),
        Just(Output::NotDone),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]
    #[test]
    fn agrees_with_brute_force(plan in plan(), spoil in proptest::option::weighted(0.7, (0..8_usize, any_output()))) {
        let history = carry_out(&plan, spoil);
        let calls: Vec<&Step> = history.iter().collect();
        // The values are not unique, so there is no hindsight.
        let verdict = check(&EntryModel, &history, Limits::default()).verdict;
        prop_assert_eq!(verdict.is_linearizable(), brute_force(&calls, 0, &EntryModel.initial(&17)), "{}", verdict);
        if let Verdict::Illegal(counterexample) = verdict {
            prop_assert_eq!(counterexample.window.iter().filter(|line| line.is_culprit).count(), 1);
        }
    }
}

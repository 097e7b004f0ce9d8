//! What is expected and cannot be: beyond what a metric can be at all, or at odds with what else is expected of it.

use fabric::{Bound, Expectation, Experiment, Unit};

use super::doubt::Doubt;

/// What of an experiment no run can meet.
pub(super) fn never_met(experiment: &Experiment) -> Vec<Doubt> {
    let at = |expectation: &Expectation, message, hint| {
        let metric = expectation.metric.word();
        let place = ["experiments", &experiment.name, "expect", metric].map(str::to_owned).to_vec();
        Doubt { place, message, hint }
    };
    let beyond = |expectation: &Expectation| {
        let most = most(expectation)?;
        let message =
            format!("`{} {}` will be missed: it is {most} at most", expectation.metric.word(), expectation.text);
        (ends(expectation.bound).0 > most).then(|| at(expectation, message, "expect a share from 0 to 1 (100 %)"))
    };
    let all = &experiment.expect;
    let at_odds = |(number, expectation): (usize, &Expectation)| {
        let other = all[..number].iter().find(|other| is_at_odds(other, expectation))?;
        let message = format!(
            "`{}` cannot be `{}` (line {}) and `{}` (line {}) in the same case: one will be missed",
            expectation.metric.word(),
            other.text,
            other.line,
            expectation.text,
            expectation.line
        );
        Some(at(expectation, message, "remove one of them, or tell by `where` in which cases each is expected"))
    };
    all.iter().filter_map(beyond).chain(all.iter().enumerate().filter_map(at_odds)).collect()
}

/// The most that a metric can be.
const fn most(expectation: &Expectation) -> Option<f64> {
    match expectation.metric.unit() {
        Unit::Index | Unit::Share => Some(1.0),
        _ => None,
    }
}

/// From where to where what was measured has to be.
const fn ends(bound: Bound) -> (f64, f64) {
    match bound {
        Bound::AtLeast(least) => (least, f64::INFINITY),
        Bound::AtMost(most) => (f64::NEG_INFINITY, most),
        Bound::Within { of, by } => (of - by, of + by),
    }
}

/// Whether a case of one is a case of the other, and nothing meets both there.
fn is_at_odds(one: &Expectation, other: &Expectation) -> bool {
    let holds_all = |of: &Expectation, those: &Expectation| those.only.iter().all(|label| of.only.contains(label));
    let have_driver = one.driver.is_none() || other.driver.is_none() || one.driver == other.driver;
    let have_case = one.metric == other.metric && have_driver && (holds_all(one, other) || holds_all(other, one));
    let [(from, to), (other_from, other_to)] = [one, other].map(|it| ends(it.bound));
    have_case && from.max(other_from) > to.min(other_to)
}

#[cfg(test)]
mod tests {
    use fabric::Source;

    use crate::doubts::doubts;

    #[test]
    fn what_no_run_can_meet_is_doubted() {
        let found = |expect: &str| {
            let text = format!(
                "topology: {{ single: {{ hosts: 2 }} }}\nlinks: {{ rate: 10 Mbit/s }}\nexperiments:\n  a:\n    traffic: {{ pattern: stride(1) }}\n    \
                 vary: {{ window: [4, 8] }}\n    for: 1s\n    repeat: 5\n    expect:\n      {expect}\n"
            );
            let doubts = doubts(&fabric::parse(&Source { name: "net".to_owned(), text }).unwrap());
            doubts.into_iter().map(|doubt| (doubt.place[2..].join("."), doubt.message)).collect::<Vec<_>>()
        };
        let one = |metric: &str, message: &str| vec![(format!("expect.{metric}"), message.to_owned())];
        for (expect, metric, text) in [
            ("fairness: '>= 2'", "fairness", ">= 2"),
            ("utilisation-max: '>= 300 %'", "utilisation-max", ">= 300 %"),
            ("fairness: '2 +- 10 %'", "fairness", "2 +- 10 %"),
        ] {
            assert_eq!(found(expect), one(metric, &format!("`{metric} {text}` will be missed: it is 1 at most")));
        }
        let twice = |first: &str, second: &str| format!("drops: [{{ {first}is: '<= 5' }}, {{ {second}is: '>= 6' }}]");
        let said = "`drops` cannot be `<= 5` (line 10) and `>= 6` (line 10) in the same case: one will be missed";
        for (first, second) in [
            ("", ""),
            ("where: { window: 4 }, ", "where: { window: 4 }, "),
            ("where: { window: 4 }, ", ""),
            ("where: { driver: sim }, ", "where: { window: 4 }, "),
        ] {
            assert_eq!(found(&twice(first, second)), one("drops", said), "{first} {second}");
        }
        for expect in [
            twice("where: { window: 4 }, ", "where: { window: 8 }, "),
            twice("where: { driver: sim }, ", "where: { driver: live }, "),
            twice("", "").replace(">= 6", ">= 5"),
            "fairness: '>= 1'".to_owned(),
            "utilisation-max: '99 % +- 2 %'".to_owned(),
        ] {
            assert_eq!(found(&expect), [], "{expect}");
        }
    }
}

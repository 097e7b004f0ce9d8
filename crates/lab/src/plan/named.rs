//! Cases that somebody names on the command line.

use fabric::Case;

use crate::error::Error;
use crate::labels::Labels;

/// How a case is named; the first way that any case is named in counts.
const WAYS: [fn(&Case, &str) -> bool; 3] = [is_named, has_value, has_part];

fn labels_of(case: &Case) -> Labels {
    Labels(case.labels.clone())
}

/// Leaves the cases that are named, and the experiments that have some; without a name, all.
pub(super) fn choose(cases: &mut Vec<(usize, Vec<Case>)>, names: &[String]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let mut ways = Vec::new();
    for name in names {
        let is_way = |way: &&fn(&Case, &str) -> bool| cases.iter().flat_map(|(_, all)| all).any(|case| way(case, name));
        match WAYS.iter().find(is_way) {
            Some(way) => ways.push((way, name)),
            None => return Err(Error::UnknownCase { case: name.clone(), known: known(cases) }),
        }
    }
    for (_, of_experiment) in cases.iter_mut() {
        of_experiment.retain(|case| ways.iter().any(|(way, name)| way(case, name)));
    }
    cases.retain(|(_, of_experiment)| !of_experiment.is_empty());
    Ok(())
}

fn is_named(case: &Case, name: &str) -> bool {
    labels_of(case).to_string() == name
}

fn has_value(case: &Case, name: &str) -> bool {
    labels_of(case).0.iter().any(|(axis, value)| {
        let of_axis = name.strip_prefix(axis.as_str()).and_then(|rest| rest.strip_prefix([' ', '=', ':']));
        value == name || of_axis.is_some_and(|rest| rest.trim() == value)
    })
}

fn has_part(case: &Case, name: &str) -> bool {
    labels_of(case).to_string().contains(name)
}

/// What there is, each once.
fn known(cases: &[(usize, Vec<Case>)]) -> String {
    const SHOWN: usize = 12;
    let mut known: Vec<String> = Vec::new();
    for case in cases.iter().flat_map(|(_, all)| all) {
        let name = labels_of(case).to_string();
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let more = known.len().saturating_sub(SHOWN);
    known.truncate(SHOWN);
    let more = if more > 0 { format!("; and {more} more (`heddle plan`)") } else { String::new() };
    known.join("; ") + &more
}

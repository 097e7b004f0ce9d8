//! Cases that somebody names on the command line.

use fabric::Case;

use super::labels_of;
use crate::error::Error;

/// How a case is named; the first way that any case is named in counts.
const WAYS: [fn(&Case, &str) -> bool; 3] = [is_named, has_value, has_part];

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

#[cfg(test)]
mod tests {
    fn chosen(names: &[&str]) -> Result<Vec<String>, String> {
        let text = "topology: { leaf-spine: { leaves: 2, spines: 2, hosts-per-leaf: 2 } }\n\
                    links: { rate: 10Mbit, delay: 1ms }\nexperiments:\n  \
                    a: { traffic: { pattern: stride(2) }, vary: { spread: [single, ecmp], window: [2, 20] }, for: 1s }\n  \
                    b: { traffic: { pattern: stride(2) }, for: 1s }\n";
        let source = fabric::Source { name: "net".to_owned(), text: text.to_owned() };
        let fabric = fabric::parse(&source).unwrap();
        let cases = names.iter().map(|&name| name.to_owned()).collect();
        let options = crate::Options { cases, ..crate::Options::default() };
        let plan = crate::plan(&fabric, &options).map_err(|error| error.to_string())?;
        Ok(plan
            .runs
            .iter()
            .filter(|run| run.repeat == 1)
            .map(|run| format!("{}: {}", run.experiment, run.labels))
            .collect())
    }

    #[test]
    fn cases_are_chosen_by_their_names_and_values() {
        assert_eq!(chosen(&[]).unwrap().len(), 5);
        assert_eq!(chosen(&["single, window 2"]).unwrap(), ["a: single, window 2"]);
        for name in ["window 2", "window=2", "window: 2", "2"] {
            assert_eq!(chosen(&[name]).unwrap(), ["a: single, window 2", "a: ecmp, window 2"], "{name}");
        }
        assert_eq!(chosen(&["ecmp"]).unwrap(), ["a: ecmp, window 2", "a: ecmp, window 20"]);
        assert_eq!(chosen(&["ecm"]).unwrap().len(), 2, "a part of a name");
        assert_eq!(chosen(&["all", "single, window 20"]).unwrap(), ["a: single, window 20", "b: all"]);
        let unknown = chosen(&["ecmp", "vlb"]).unwrap_err();
        assert!(unknown.contains("no case `vlb`; there are: single, window 2; "), "{unknown}");
    }
}

//! Cases of which something is expected.

use fabric::{Case, Expectation, Pattern};

/// Of how many cases of an experiment the links are looked at.
pub const CASES_MAX: usize = 200;

/// Whether something is expected of this case.
pub fn is_meant(expectation: &Expectation, case: &Case) -> bool {
    expectation.only.iter().all(|label| case.labels.contains(label))
}

/// Which case it is, in words; nothing of the only one.
pub fn of_case(case: &Case) -> String {
    let labels: Vec<String> = case.labels.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    if labels.is_empty() { String::new() } else { format!(" in the case {}", labels.join(", ")) }
}

/// Whether each run draws its own pairs, so that it is not known which they will be.
pub const fn is_drawn(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Random | Pattern::Staggered(..) | Pattern::Permutation)
}

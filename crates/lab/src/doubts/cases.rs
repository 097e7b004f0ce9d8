//! Cases of which something is expected.

use fabric::{Case, Expectation};

/// Whether something is expected of this case.
pub fn is_meant(expectation: &Expectation, case: &Case) -> bool {
    expectation.only.iter().all(|label| case.labels.contains(label))
}

/// Which case it is, in words; nothing of the only one.
pub fn of_case(case: &Case) -> String {
    let labels: Vec<String> = case.labels.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    if labels.is_empty() { String::new() } else { format!(" in the case {}", labels.join(", ")) }
}

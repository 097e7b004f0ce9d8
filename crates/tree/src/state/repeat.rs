//! Writes that come a second time.

use crate::{Change, Command, Outcome, Refusal};

/// The outcome that was kept of a write, with the place of what exists or is missing: that of the first change that can be meant.
pub(super) fn named(outcome: Outcome, command: &Command) -> Outcome {
    let (changes, otherwise): (&[Change], &[Change]) = match command {
        Command::Write { transaction, .. } => (&transaction.changes, &[]),
        Command::WriteOrElse { transaction, otherwise, .. } => (&transaction.changes, otherwise),
        _ => (&[], &[]),
    };
    let find = |is_meant: fn(&Change) -> bool| {
        changes.iter().chain(otherwise).find(|change| is_meant(change)).map(|change| change.at().clone())
    };
    match outcome {
        Err(Refusal::Exists { at }) => {
            Err(Refusal::Exists { at: find(|change| matches!(change, Change::Create { .. })).unwrap_or(at) })
        }
        Err(Refusal::Missing { at }) => {
            let is_meant = |change: &Change| matches!(change, Change::Replace { .. } | Change::Delete { .. });
            Err(Refusal::Missing { at: find(is_meant).unwrap_or(at) })
        }
        outcome => outcome,
    }
}

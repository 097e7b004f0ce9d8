//! The prefix below which a load writes: nobody else uses it, and nothing is there before and after.

use miette::{Report, miette};
use store::protocol::{Answer, Consistency, RequestBody};
use tree::{Change, Location, Path, Transaction};

use super::access::Access;
use crate::cli::{BENCH_PREFIX, CHECK_PREFIX};

/// Refuses a prefix with somebody's values; empties Heddle's own, where a load that was broken off may have left some.
pub fn prepare(access: &Access, prefix: &Path) -> Result<(), Report> {
    if prefix.is_root() || prefix.is_module() {
        return Err(miette!(
            help = format!("as in --prefix {BENCH_PREFIX}"),
            "--prefix {prefix} names no place for values: expected a path within a module"
        ));
    }
    if ![BENCH_PREFIX, CHECK_PREFIX].contains(&prefix.as_str()) {
        let body = RequestBody::List {
            at: Location::config(prefix.clone()),
            after: None,
            limit: 1,
            consistency: Consistency::Linearizable,
        };
        match access.ask(body)? {
            Answer::Values { entries, .. } if entries.is_empty() => {}
            _ => {
                let hint =
                    "name another path with --prefix, one that nobody uses: what is below it is taken away at the end";
                return Err(miette!(help = hint, "there are values below {prefix}: nothing was changed"));
            }
        }
    }
    // It makes the shard of the module, too.
    let put = Change::Put { at: Location::config(prefix.clone()), value: b"load".into() };
    access.ask(RequestBody::Write(Transaction::of(put)))?;
    empty(access, prefix)
}

/// Takes away all that is at and below a path.
pub fn empty(access: &Access, prefix: &Path) -> Result<(), Report> {
    let remove = Change::Remove { at: Location::config(prefix.clone()) };
    access.ask(RequestBody::Write(Transaction::of(remove))).map(drop)
}

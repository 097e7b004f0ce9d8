//! A number that nobody outside of this process can guess.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use fabric::Fabric;
use vswitch::Seeds;

/// The standard library takes the keys of this hash from the kernel's randomness.
static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));

/// Where the randomness of a network starts. The file's seed decides what `heddle path` foretells; what hosts and their peers must not foretell is drawn,
/// once, so that connections stay where they are when the file changes.
pub fn seeds(fabric: &Fabric) -> Seeds {
    Seeds { choices: fabric.seed, tables: *SECRET }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_does_not_say_where_connections_lie() {
        let text = "name: two\nseed: 7\nnodes: { a: host, b: host }\nlinks:\n  - between: [a, b]\n".to_owned();
        let fabric = fabric::parse(&fabric::Source { name: "test".to_owned(), text }).unwrap();
        let Seeds { choices, tables } = seeds(&fabric);
        assert_eq!((choices, tables), (7, seeds(&fabric).tables));
        assert_ne!(tables, choices);
    }
}

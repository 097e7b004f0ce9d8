//! Where what is drawn at random starts.

/// Where what a network draws at random starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// Of choices among paths and among members of groups, and of what links lose: whoever knows the file may foretell them.
    pub choices: u64,
    /// Of hashes by which tables find flows and connections, of cookies, and of choices among servers. Whoever can guess it fills one row of a table, or
    /// forges a cookie: live it is drawn by each process and never said.
    pub tables: u64,
}

/// All from one number: what is simulated comes out the same each time.
impl From<u64> for Seeds {
    fn from(seed: u64) -> Self {
        Self { choices: seed, tables: seed }
    }
}

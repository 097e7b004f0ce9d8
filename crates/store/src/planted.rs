//! Errors that are planted on purpose, to prove that simulations find them.
//!
//! Code that can be made wrong asks [`Planted::has`], and nothing else. Without the feature `planted-bugs`, which only tests of simulations
//! have, nothing can be planted, and the answer is a constant.

/// An error that a simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Term and vote are not written to the disk.
    VoteNotPersisted,
    /// A leader answers reads without a lease.
    ReadWithoutLease,
    /// Entries are acknowledged before they are synced.
    AckBeforeSync,
    /// A leader takes what it would promise itself for what all voters promise.
    LeaseOfOwnTimeout,
    /// Only the root of a list is looked at, when the request comes and when it is read: what of it has moved away is left out.
    ListRootOnly,
    /// Ticks that were due before an input came are counted after it.
    TicksAfterInput,
    /// raft-rs sees whatever peers send.
    UncheckedPeers,
}

/// The error that is planted in a server, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    #[cfg(feature = "planted-bugs")]
    bug: Option<Bug>,
}

impl Planted {
    /// Whether this error is planted.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn has(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Nothing is.
    #[cfg(not(feature = "planted-bugs"))]
    #[allow(clippy::unused_self, reason = "there is nothing to look at")]
    pub(crate) const fn has(self, _: Bug) -> bool {
        false
    }
}

#[cfg(feature = "planted-bugs")]
impl From<Bug> for Planted {
    fn from(bug: Bug) -> Self {
        Self { bug: Some(bug) }
    }
}

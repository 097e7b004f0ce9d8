//! The states of loss recovery.

/// Whether a loss is being repaired (`tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is amiss.
    Open,
    /// Something has come beyond a hole, or was sent again.
    Disorder,
    /// The window is being reduced without a loss to repair.
    Cwr,
    /// It is in fast recovery.
    Recovery,
    /// The timer has expired.
    Loss,
}

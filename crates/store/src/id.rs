//! Numbers that the driver gives.

/// A connection of a client, numbered by the driver; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// What a client has said, numbered by the driver: the answer says which it is for. A client chooses its sequences as it likes,
/// and may have two requests of one sequence under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

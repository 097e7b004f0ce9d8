//! What a frame with bytes carries besides them, as far as hosts' TCP cares: sequence numbers and times that no header has room for.

use transport::{Ack, Segment};

/// Which direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What is carried.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// A segment of the direction.
    Segment(Direction, Segment),
    /// An acknowledgement of what came in the direction.
    Ack(Direction, Ack),
    /// Nothing but the flags of its header, in the direction.
    Flags(Direction),
}

/// A packet of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// Which connection.
    pub(crate) connection: u32,
    /// The number of the connection among those that had this place.
    pub(crate) generation: u32,
    pub(crate) content: Content,
}

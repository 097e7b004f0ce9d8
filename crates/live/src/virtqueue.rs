//! The device's side of virtio-net's queues in a guest's memory (virtio 1.2, sections 2.7 and 5.1): what a vhost-user port reads and writes.
//!
//! The guest is hostile: whatever stands in its memory, [`Transmitq::read`] and [`Receiveq::write`] give a frame, none, or a [`RingError`], and [`Controlq::serve`] does commands, in bounded time and without a
//! write outside of that memory.
//!
//! | what | where |
//! |---|---|
//! | the guest's memory, mapped; files that are cut off | `memory.rs`, `sigbus.rs` |
//! | a ring of descriptors | `ring.rs` |
//! | frames in chains of buffers | `queue.rs` |
//! | commands of the guest | `control.rs` |
//! | lines of the cache that another core has | `prefetch.rs` |
//! | checksums and segments that one side has left undone | `offload.rs` |

mod control;
mod memory;
mod offload;
mod prefetch;
mod queue;
mod ring;
mod sigbus;

pub use control::Controlq;
pub use memory::{GuestMemory, MemoryError, OutOfMemory, Piece, RegionSpec};
pub use offload::{Finisher, OFFERED as OFFLOADS_OFFERED, Offloads};
pub use queue::{Call, Layout, Receiveq, Transmitq};
pub use ring::{Chain, Descriptor, Ring, RingError, RingSpec, SIZE_MAX};

#[cfg(test)]
mod tests;

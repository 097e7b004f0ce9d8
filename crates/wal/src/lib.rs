//! One write-ahead log for all Raft groups of a server.
//!
//! The log does no input or output: it turns what the groups write into [`Write`]s, lists of disk [`Operation`]s that a
//! driver carries out; `node` does so with files and `fdatasync` in a thread, `sim` with [`MemoryDisk`], which tears
//! what was not synced. All groups share one write and one sync (group commit): while a batch is under way, the next
//! one gathers.
//!
//! ```text
//!  groups                      Log                                driver
//!  append, hard_state,   +-------------+   take_batch   +-------------------------+
//!  snapshot, compact --->| next batch  |--------------->| write, sync, delete...  |
//!                        +-------------+                +-------------------------+
//!                               ^         done / failed             |
//!                               +-----------------------------------+
//!
//!  folder     identity                       whose folder it is (JSON)
//!             witness                        the last batch that is durable, once more
//!             log-0000000000000007           oldest segment in which an entry lives
//!             log-0000000000000008           the segment that is written
//!             snapshot-1-4e20-3              group 1 up to entry 0x4e20, file number 3
//!             *.part                         not complete; deleted by recovery
//!
//!  segment    +--------+-------------------------+-------+-------+-----+------------------+
//!             | header | batch: records, CHECKPT | batch | batch | ... | zeros, 0 or more |
//!             +--------+-------------------------+-------+-------+-----+------------------+
//!  header 64  "heddlelg" format(4) cluster(16) server(8) segment(8) first-batch(8) witnessed(1) zero(7) crc(4)
//!  batch 45+  d7 "bat" length(4) number(8) oldest-segment(8) mask(8) body-crc(4) header-crc(4) "hed" b5 | records | e7
//! ```
//!
//! Numbers are little endian; checksums are CRC-32 (IEEE 802.3). A batch's header checksum covers cluster, server,
//! segment and offset too. Records are described in `record.rs`; an entry of 200 bytes takes 205.
//!
//! # What always holds
//!
//! - A batch is written only after the one before it is durable. So only the last batch of the last segment may be
//!   torn, and recovery may discard it, as nobody saw it confirmed. Everything else that is not as it was
//!   written is [`Error::Corrupt`], and nothing is changed then. How torn and corrupt are distinguished: `batch.rs`.
//! - Each segment begins with a checkpoint of all groups' states, so an old segment is needed only for the entries in
//!   it. Batches name the oldest segment that is needed; older ones are deleted after the batch that says so is
//!   durable.
//! - Segments are deleted in order, so one entry that lives in the oldest keeps all later ones on the disk.
//!   [`Log::living_before`] names the groups that have such entries, [`Log::rewrite`] writes entries again at the end.
//! - Once a batch is durable its number is written to the `witness`, a file of two slots: recovery refuses a log that ends
//!   before it ([`Error::TailLost`]), and a folder without a witness if its segments were written beside one. Folders of
//!   before there were witnesses get one at their first batch. See `witness.rs`.
//! - Each start begins a segment. Its first batch makes durable what recovery found: the last batch may lie in the
//!   system's memory only, if the process was killed but the machine went on. [`Log::is_ready`] says when that is done.
//! - Zeros are written ahead of the batches, [`Config::allocate_bytes`] at a time, together with the batch that reaches
//!   the file's end. A batch that lies in them grows no file, so its sync takes no turn in the file system's journal.
//!   They are small steps in the log's own lane, not a large one beside it: thus only one thread ever writes a segment,
//!   and no batch waits for much. Recovery cuts off those that are left, and a segment that is full has none.
//! - Operations can be repeated. So a batch that found no room is written again as it was, over what is there of it.
//! - A sync that failed is never repeated ([`Log::failed`]).
//!
//! # What it can't find out
//!
//! The witness is written after each batch, and synced every now and then ([`Log::sync_witness`]; the store does so every
//! 200 ms). So whatever becomes of the process, a log that was cut, emptied or deleted from any byte on is noticed, to the last
//! batch that was confirmed, as long as the machine goes on. After a loss of power the system's memory is gone, and with it
//! what the witness said of the last 200 ms: if then the disk *also* loses batches of that time, which it had confirmed as
//! durable, as wholes or in sectors of the very last batch that read as zeros, they are missed by nobody. Nor is it noticed
//! if all files are those of an earlier moment: a copy of the folder that was put back, a disk that was restored.
#![forbid(unsafe_code)]

mod batch;
mod codec;
mod config;
mod disk;
mod entry;
mod error;
mod extents;
mod file_name;
mod group;
mod identity;
mod log;
mod memory;
mod record;
mod recovery;
mod replay;
mod snapshot;
mod witness;

#[doc(hidden)]
pub use batch::segment_with_records;
pub use config::{ALLOCATE_BYTES, BACKLOG_BYTES_MAX, Config, SEGMENT_BYTES};
pub use disk::{DiskError, Folder, Lane, Operation, SECTOR_BYTES, Write};
pub use entry::{Entries, Entry, HardState, Position, RecoveredGroup, SnapshotMark};
pub use error::Error;
pub use file_name::{FILE_NAME_BYTES_MAX, FileName, InvalidFileName, temporary_name};
pub use identity::{FORMAT, Identity, NAME_BYTES_MAX};
pub use log::Log;
pub use memory::MemoryDisk;
pub use recovery::Recovered;
pub use snapshot::{CHUNK_BYTES_MAX, SYNC_BYTES, SnapshotFile, SnapshotWriter};

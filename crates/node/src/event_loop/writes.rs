//! Writes on their way to the disk.

use machine::nanos::{Span, Time};
use store::Input;

use crate::disk::Disk;

/// For so long after a write the answers of disks and peers are near.
const WRITES_FOLLOW: Span = Span::from_ms(1);

/// What the server wants to have written, and how that goes.
#[derive(Default)]
pub(super) struct Writes {
    /// For the disk, once the messages to the others are sent.
    queue: Vec<wal::Write>,
    /// When the disk was given something last.
    last_at: Time,
    /// The last write failed, and why.
    trouble: Option<String>,
}

impl Writes {
    pub fn add(&mut self, write: wal::Write) {
        self.queue.push(write);
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Hands over what has gathered.
    pub fn submit(&mut self, now: Time, disk: &mut Disk) {
        self.last_at = now;
        for write in self.queue.drain(..) {
            disk.submit(write);
        }
    }

    /// Whether the disk was given something a moment ago.
    pub fn are_recent(&self, now: Time) -> bool {
        now < self.last_at + WRITES_FOLLOW
    }

    /// What became of the next write that the disk has ended.
    pub fn next_done(&mut self, disk: &mut Disk) -> Option<Input> {
        let done = disk.done()?;
        match done.result {
            Ok(()) => {
                if let Some(trouble) = self.trouble.take() {
                    tracing::info!("the disk takes writes again, after: {trouble}");
                }
                Some(Input::Written(done.id))
            }
            Err(error) => {
                if self.trouble.is_none() {
                    tracing::error!("a write failed: {error}");
                }
                self.trouble = Some(error.to_string());
                Some(Input::WriteFailed { write: done.id, error })
            }
        }
    }

    /// Why the disk takes no writes now, if so.
    pub fn trouble(&self, disk: &Disk) -> Option<String> {
        self.trouble.clone().or_else(|| disk.wants())
    }
}

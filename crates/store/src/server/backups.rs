//! The content of a moment, kept for a client that backs it up chunk by chunk.
//!
//! Keeping it costs nothing at first: content is shared until it changes. What has been written since the moment is what
//! the backup keeps alive, and is counted as held for its client.

use machine::nanos::{Span, Time};
use placement::ShardId;
use tree::State;

use super::backup::Backup;
use super::{Asked, ClientId, Server};
use crate::budget::{Kind, Owner};
use crate::protocol::{Answer, Error};
use crate::read::{Read, ReadResult};

/// Backups under way at a server at most.
const BACKUPS_MAX: usize = 16;

/// A backup that is not gone on with for so long is given up.
const KEPT: Span = Span::from_secs(60);

impl Server {
    /// Keeps the content of a shard, as it is now, for a client. With too many under way nothing is kept: its next request begins again.
    pub(super) fn hold_backup(&mut self, now: Time, client: ClientId, shard: ShardId, state: State) {
        let Some(group) = self.groups.get(&shard) else { return };
        if self.backups.len() >= BACKUPS_MAX && !self.backups.contains_key(&client) {
            self.budget.note_refused(Kind::Backups);
            return;
        }
        let written = group.written_bytes;
        self.drop_backup(client);
        self.backups.insert(client, Backup { shard, state, written, touched: now });
    }

    pub(super) fn drop_backup(&mut self, client: ClientId) {
        if self.backups.remove(&client).is_some() {
            self.budget.set(Owner::Client(client), Kind::Backups, 0);
        }
    }

    /// A backup goes on in the content of the moment at which it began.
    pub(super) fn next_backup_chunk(
        &mut self,
        now: Time,
        (client, asked): (ClientId, Asked),
        shard: ShardId,
        read: &Read,
    ) -> Result<(), Error> {
        let Some(backup) = self.backups.get_mut(&client).filter(|backup| backup.shard == shard) else {
            return Err(Error::Invalid(format!("no backup of shard {shard} is under way here: begin again")));
        };
        backup.touched = now;
        // A backup is of the present.
        let past = tree::Past::new(0, 0);
        let Ok(ReadResult::Exported(chunk)) = read.evaluate(&backup.state, &past) else {
            return Err(Error::Invalid("a backup reads all of a shard".into()));
        };
        let is_last = chunk.next.is_none();
        let answer = Answer::Chunk { entries: chunk.entries, next: chunk.next };
        let answer = self.fit_answer(now, client, Ok(answer))?;
        if is_last {
            self.drop_backup(client);
        }
        self.respond_ok(client, asked, answer);
        Ok(())
    }

    /// Counts what backups keep alive; gives up those that nobody goes on with, or that keep too much.
    pub(super) fn weigh_backups(&mut self, now: Time) {
        let mut over = Vec::new();
        for (client, backup) in &self.backups {
            let written = self.groups.get(&backup.shard).map_or(u64::MAX, |group| group.written_bytes);
            let changed = written.saturating_sub(backup.written).min(backup.state.tree.bytes() as u64) as usize;
            let owner = Owner::Client(*client);
            let more = changed.saturating_sub(self.budget.of(owner, Kind::Backups));
            if now.since(backup.touched) > KEPT || !self.budget.admits(owner, more) {
                over.push(*client);
            } else {
                self.budget.set(owner, Kind::Backups, changed);
            }
        }
        for client in over {
            self.budget.note_refused(Kind::Backups);
            self.drop_backup(client);
        }
    }
}

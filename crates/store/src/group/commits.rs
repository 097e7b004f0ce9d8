//! What is committed: followers hear of it with the next entries, and soon without any.
//!
//! An append that says nothing else would cost each follower a step and an answer, and a leader whose clients write one after another
//! as many messages as the entries do (decision 39). A client that asked this leader through a follower is answered behind it, so only those who
//! watch a follower, or read what is there, may notice.

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;

use super::replica::Group;
use crate::effects::{Asker, Effects};
use crate::message::RaftMessage;

/// How long an announcement to followers may be held back at most.
const HELD_MAX: Span = Span::from_ms(1);

impl Group {
    /// A message, with what was held back for the same follower; nothing, if it is held back itself.
    pub(super) fn hold_back(&mut self, to: ServerId, message: RaftMessage) -> Option<RaftMessage> {
        if !message.is_append() || self.id == ShardId::META {
            return Some(message);
        }
        let message = self.commits.join(to, message);
        if !message.entries.is_empty() {
            return Some(message);
        }
        self.commits.held.insert(to, message);
        None
    }

    /// Sends what has been held back for long enough; and if something is held back anew, that begins now.
    pub(super) fn announce_due(&mut self, now: Time, effects: &mut Effects) {
        if self.commits.held.is_empty() {
            self.commits.due = Time::NEVER;
        } else if self.commits.due == Time::NEVER {
            self.commits.due = now + HELD_MAX;
        } else if self.commits.due <= now {
            let held = std::mem::take(&mut self.commits).held;
            for (to, message) in held {
                self.push(to, message, effects);
            }
        }
    }

    /// Servers that get answers hear first what is committed: whoever has asked through them may look there next. `from`: where the new
    /// answers begin.
    pub(super) fn announce_to_askers(&mut self, from: usize, effects: &mut Effects) {
        if self.commits.held.is_empty() {
            return;
        }
        let askers = effects.answers[from..].iter().filter_map(|(asker, _)| match asker {
            Asker::There(server, ..) => Some(*server),
            Asker::Here(_) | Asker::Nobody => None,
        });
        for server in askers.collect::<Vec<_>>() {
            if let Some(message) = self.commits.held.remove(&server) {
                self.push(server, message, effects);
            }
        }
    }
}

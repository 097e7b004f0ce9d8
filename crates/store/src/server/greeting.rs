//! Decides which servers may speak as peers, which version of the protocol all servers speak, and on which secret they agree.
//!
//! ```text
//!   leader of meta                                   each other member
//!     all are live and speak version 2
//!     Secret(own)          ---------------------->   on its disk
//!                          <----------------------   SecretKept(digest)
//!     all have said so: RaiseProtocol { to, servers, secret: digest } into the log of meta
//! ```
//!
//! What another leader has handed over before is kept as well, so every member holds the secret that the log names, whichever that is:
//! no two servers can come to disagree. The command names the members of whom all this is known, and does nothing if there are others
//! by then.

use std::collections::BTreeSet;

use machine::ServerId;
use machine::nanos::{Span, Time};
use placement::ShardId;
use tree::{Command, PROTOCOL_WITH_AWAY_PARTS};

use super::membership::Membership;
use super::operations::{Origin, Route, Task};
use super::{Output, Server, Stop};
use crate::Secret;
use crate::group::Group;
use crate::peer::Item;
use crate::protocol::{VERSION, VERSION_MIN};

/// The rise of the protocol is proposed, and secrets are handed over, at most so often.
const RAISE_EVERY: Span = Span::from_secs(1);

impl Server {
    /// The version of the protocol that all servers of the cluster speak, as far as is known here. What needs a higher one is not for
    /// peers nor for the log.
    pub fn protocol(&self) -> u32 {
        self.view.map().protocol()
    }

    /// The secret that the map names is not there any more. A server that is alone in its cluster then puts its own in its place.
    pub fn note_secret_lost(&mut self) {
        self.greeting.secret_lost = true;
    }

    /// What another server is to this one.
    pub fn membership(&self, server: ServerId) -> Membership {
        if self.view.map().members().contains_key(&server) {
            return Membership::Member;
        }
        if !self.view.map().was_removed(server) {
            return Membership::Unknown;
        }
        let needed = self.groups.values().any(|group| group.members().has(server));
        if needed { Membership::Leaving } else { Membership::Removed }
    }

    /// Once every member speaks a higher version of the protocol than the map says, and holds the secret, the map shall say so. From
    /// then on no older program is let in, so each member must be there at this moment, and not have been some time ago.
    pub(super) fn raise_protocol(&mut self, now: Time) {
        if now < self.greeting.next_raise {
            return;
        }
        let me = self.config.server;
        let live = self.live_peers(now);
        let spoken = |id: &ServerId| match *id {
            id if id == me => Some(VERSION),
            id => self.peers.version(id).filter(|_| live.contains(&id)),
        };
        let servers: BTreeSet<ServerId> = self.view.map().members().keys().copied().collect();
        let all: Option<Vec<u32>> = servers.iter().map(spoken).collect();
        let to = all.and_then(|all| all.into_iter().min()).unwrap_or(VERSION_MIN);
        let digest = self.config.secret.as_ref().map(|secret| secret.digest);
        let alone = servers.iter().eq([&me]);
        let replaces = self.greeting.secret_lost && alone && self.view.map().secret().copied() != digest;
        if to < self.view.map().protocol() || (to == self.view.map().protocol() && !replaces) {
            return;
        }
        self.greeting.next_raise = now + RAISE_EVERY;
        // Once the cluster has agreed on a secret, a higher version changes nothing about it.
        let proposed = self.config.secret.clone().filter(|_| self.view.map().secret().is_none() || replaces);
        let digest = proposed.as_ref().map(|secret| secret.digest);
        if let Some(secret) = proposed {
            let lack = |id: &&ServerId| **id != me && self.greeting.kept.get(id) != Some(&secret.digest);
            let lack: Vec<ServerId> = servers.iter().filter(lack).copied().collect();
            for id in &lack {
                self.peers.push(*id, Item::Secret(secret.clone()));
            }
            if !lack.is_empty() {
                return;
            }
        }
        let command = placement::Command::RaiseProtocol { to, servers, secret: digest };
        let task = Task::Propose(command.encode().into());
        self.start(now, Origin::Upkeep, Route::Shard(ShardId::META), task, now + RAISE_EVERY);
    }

    /// Lets the logs of shards that are led here say which version all servers speak, if that changes what entries mean.
    pub(super) fn protocol_due(&mut self) {
        let version = self.protocol();
        for (shard, group) in &mut self.groups {
            if version >= PROTOCOL_WITH_AWAY_PARTS && group.say_protocol(version) {
                self.counters.proposals += 1;
                self.agenda.add(*shard);
            }
        }
    }

    /// A leader of meta hands its secret over. Once the map names one, there is nothing to be agreed on.
    pub(super) fn secret_proposed(&mut self, from: ServerId, secret: Secret) {
        if self.view.map().secret().is_none() && self.membership(from) == Membership::Member {
            self.outbox.push(Output::KeepSecret { from, secret });
        }
    }

    /// A secret is on the disk here.
    pub(super) fn secret_kept_here(&mut self, from: ServerId, digest: [u8; 32]) {
        if self.peers.version(from).is_some_and(|version| version > VERSION_MIN) {
            self.peers.push(from, Item::SecretKept(digest));
        }
    }

    /// A server that was removed while it was away is let in by nobody, and hears so. It ends when of each group that it remembers a
    /// majority of the others says that it is needed no more.
    pub(super) fn believe_that_disowned(&mut self) {
        if self.greeting.disowned_by.is_empty() {
            return;
        }
        let me = self.config.server;
        let said = &self.greeting.disowned_by;
        let agree = |group: &crate::group::Group| {
            let others = group.members().voters.iter().filter(|id| **id != me.0);
            let (all, agreeing) = others
                .fold((0, 0), |(all, agreeing), id| (all + 1, agreeing + usize::from(said.contains(&ServerId(*id)))));
            2 * agreeing > all
        };
        if self.groups.values().filter(|group| group.applied() > 0).all(agree) {
            self.stop(Stop::Removed(me));
        }
    }
}

impl Group {
    /// Has the log say that all servers speak this version, if this replica leads and the log says less; gives whether it did.
    fn say_protocol(&mut self, version: u32) -> bool {
        let is_said = self.content.state().is_none_or(|state| state.protocol >= version);
        !is_said && self.say(|group| &mut group.protocol_asked, &Command::Protocol { version })
    }
}

//! Servers come and go.

use std::collections::BTreeSet;

use machine::ServerId;

use super::{MEMBERS_MAX, Map, Outcome, REMOVED_MAX};
use crate::{Effect, Member, Refusal, Replicas, Shard};

/// From this protocol on the addresses of removed servers are in the map: all servers have to remember the same.
const REMEMBERS_ADDRESSES: u32 = 2;

impl Map {
    pub(super) fn add_server(
        &mut self,
        name: String,
        address: String,
        metrics: Option<String>,
        nonce: u64,
    ) -> Result<Outcome, Refusal> {
        if let Some(id) = self.known(nonce)? {
            return Ok(Outcome::unchanged(Effect::Server(id)));
        }
        self.check_free(&name, &address, None)?;
        if self.members.len() >= MEMBERS_MAX {
            return Err(Refusal::TooMany {
                what: "servers".to_owned(),
                max: MEMBERS_MAX as u64,
                hint: "remove one first: `heddle cluster remove`".to_owned(),
            });
        }
        Ok(Outcome::changed(Effect::Server(self.insert(name, address, metrics, nonce))))
    }

    /// The member with this nonce.
    fn known(&self, nonce: u64) -> Result<Option<ServerId>, Refusal> {
        match self.removed.iter().find(|(removed, _)| *removed == nonce) {
            Some((_, id)) => Err(Refusal::WasRemoved { id: *id }),
            None => Ok(self.members.values().find(|member| member.nonce == nonce).map(|member| member.id)),
        }
    }

    /// Refuses a name or an address that a server other than `except` has.
    fn check_free(&self, name: &str, address: &str, except: Option<ServerId>) -> Result<(), Refusal> {
        let others = || self.members.values().filter(|member| Some(member.id) != except);
        if let Some(by) = others().find(|member| member.address == address) {
            return Err(Refusal::AddressTaken { address: address.to_owned(), by: by.id });
        }
        match others().find(|member| member.name == name) {
            Some(by) => Err(Refusal::ServerNameTaken { name: name.to_owned(), by: by.id }),
            None => Ok(()),
        }
    }

    fn insert(&mut self, name: String, address: String, metrics: Option<String>, nonce: u64) -> ServerId {
        let id = ServerId(self.next_server);
        self.next_server += 1;
        self.members.insert(id, Member { id, name, address, metrics, nonce });
        id
    }

    /// Takes a member out and remembers that it was one.
    fn take(&mut self, id: ServerId) {
        let member = self.members.remove(&id).expect("the caller has looked it up");
        if self.removed.len() == REMOVED_MAX {
            self.removed.remove(0);
        }
        self.removed.push((member.nonce, id));
        if self.protocol >= REMEMBERS_ADDRESSES {
            while self.removed_addresses.len() >= REMOVED_MAX {
                self.removed_addresses.pop_first();
            }
            self.removed_addresses.insert(id, member.address);
        }
    }

    pub(super) fn remove_server(&mut self, id: ServerId) -> Result<Outcome, Refusal> {
        if self.removed.iter().any(|(_, removed)| *removed == id) {
            return Ok(Outcome::unchanged(Effect::Removed(id)));
        }
        self.check_member(id)?;
        if self.members.len() == 1 {
            return Err(Refusal::LastServer { id });
        }
        let only = BTreeSet::from([id]);
        let bereft = |shard: &&Shard| matches!(&shard.replicas, Replicas::Servers(servers) if *servers == only);
        let shards: Vec<String> = self.shards.values().filter(bereft).map(|shard| shard.name.clone()).collect();
        if !shards.is_empty() {
            return Err(Refusal::LastReplica { id, shards });
        }
        let name = self.members[&id].name.clone();
        self.access.withdraw_invitation(&name);
        self.take(id);
        for shard in self.shards.values_mut() {
            if let Replicas::Servers(servers) = &mut shard.replicas {
                servers.remove(&id);
            }
            shard.pinned = shard.pinned.filter(|pinned| *pinned != id);
        }
        Ok(Outcome::changed(Effect::Removed(id)))
    }

    /// Refuses a server that is no member.
    pub(super) fn check_member(&self, id: ServerId) -> Result<(), Refusal> {
        if self.members.contains_key(&id) { Ok(()) } else { Err(Refusal::NoSuchServer { id }) }
    }

    pub(super) fn update_address(
        &mut self,
        id: ServerId,
        address: String,
        metrics: Option<String>,
    ) -> Result<Outcome, Refusal> {
        let member = self.members.get(&id).ok_or(Refusal::NoSuchServer { id })?;
        if member.address == address && member.metrics == metrics {
            return Ok(Outcome::unchanged(Effect::Unchanged));
        }
        self.check_free(&member.name, &address, Some(id))?;
        let member = self.members.get_mut(&id).expect("it was there a moment ago");
        member.address = address;
        member.metrics = metrics;
        Ok(Outcome::changed(Effect::Changed))
    }

    pub(super) fn replace_server(
        &mut self,
        old: ServerId,
        name: String,
        address: String,
        metrics: Option<String>,
        nonce: u64,
    ) -> Result<Outcome, Refusal> {
        if let Some(new) = self.known(nonce)? {
            // The answer to a first request was lost: the old one is gone and the new one is here.
            let done = !self.members.contains_key(&old) && new != old;
            let effect = Effect::Replaced { old, new };
            return if done { Ok(Outcome::unchanged(effect)) } else { Err(Refusal::ServerNameTaken { name, by: new }) };
        }
        self.check_member(old)?;
        self.check_free(&name, &address, Some(old))?;
        self.take(old);
        let new = self.insert(name, address, metrics, nonce);
        for shard in self.shards.values_mut() {
            if let Replicas::Servers(servers) = &mut shard.replicas
                && servers.remove(&old)
            {
                servers.insert(new);
            }
            shard.pinned = shard.pinned.map(|pinned| if pinned == old { new } else { pinned });
        }
        Ok(Outcome::changed(Effect::Replaced { old, new }))
    }
}

//! Shards come and go, and who holds and leads them.

use std::collections::BTreeSet;

use machine::ServerId;

use super::{MOVES_MAX, Map, Outcome, PREFIXES_MAX, SHARDS_MAX};
use crate::prefix::is_identifier;
use crate::{Effect, Move, MoveId, Phase, Prefix, Refusal, Replicas, Shard, ShardId, Strategy};

impl Map {
    pub(super) fn set_strategy(&mut self, strategy: Strategy) -> Result<Outcome, Refusal> {
        if self.strategy == strategy {
            return Ok(Outcome::unchanged(Effect::Unchanged));
        }
        let gone = match strategy {
            Strategy::Distributed => Vec::new(),
            Strategy::Single => {
                let automatic = self.shards.values().filter(|shard| shard.automatic && !shard.deleting);
                self.delete_all(&automatic.map(|shard| shard.id).collect::<Vec<_>>())?
            }
        };
        self.strategy = strategy;
        Ok(Outcome::changed(if gone.is_empty() { Effect::Changed } else { Effect::ShardsGone(gone) }))
    }

    pub(super) fn ensure_module(&mut self, module: String) -> Result<Outcome, Refusal> {
        let prefix = Prefix::Module(module);
        let Prefix::Module(module) = &prefix else { unreachable!("made a line above") };
        let owner = self.routes.of_module(module);
        let under_way = self.move_of(&prefix).map(|it| (it.to, vec![it.id]));
        if self.strategy == Strategy::Single || owner != ShardId::DEFAULT || under_way.is_some() {
            let (id, moves) = under_way.unwrap_or((owner, Vec::new()));
            return Ok(Outcome::unchanged(Effect::Shard { id, moves }));
        }
        self.check_room(1, 1)?;
        let id = ShardId(self.next_shard);
        // No name that people give holds an "@".
        let name = if self.shard_named(module).is_some() { format!("{module}@{id}") } else { module.clone() };
        self.insert_shard(name, Replicas::All, true);
        let moves = self.begin_moves([prefix], id);
        Ok(Outcome::changed(Effect::Shard { id, moves }))
    }

    /// Whether [`Map::ensure_module`] would make a shard for this module, which `default` owns.
    pub(super) fn may_make_module(&self, module: &str) -> bool {
        is_identifier(module)
            && self.check_room(1, 1).is_ok()
            && self.move_of(&Prefix::Module(module.to_owned())).is_none()
    }

    pub(super) fn create_shard(
        &mut self,
        name: String,
        prefixes: BTreeSet<Prefix>,
        replicas: Replicas,
    ) -> Result<Outcome, Refusal> {
        if let Some(shard) = self.shard_named(&name) {
            return self.create_again(shard, &prefixes, &replicas);
        }
        self.check_room(1, prefixes.len())?;
        self.check_servers(&replicas)?;
        for prefix in &prefixes {
            self.check_at_rest(prefix)?;
        }
        let id = self.insert_shard(name, replicas, false);
        let moves = self.begin_moves(prefixes, id);
        Ok(Outcome::changed(Effect::Shard { id, moves }))
    }

    /// A shard of this name exists: fine if it is the one that is asked for.
    fn create_again(
        &self,
        shard: &Shard,
        prefixes: &BTreeSet<Prefix>,
        replicas: &Replicas,
    ) -> Result<Outcome, Refusal> {
        if shard.deleting {
            return Err(Refusal::Deleting { name: shard.name.clone() });
        }
        let coming = self.moves.values().filter(|it| it.to == shard.id);
        let moves: Vec<MoveId> = coming.clone().map(|it| it.id).collect();
        let all: BTreeSet<&Prefix> = shard.prefixes.iter().chain(coming.map(|it| &it.prefix)).collect();
        if shard.replicas == *replicas && all.into_iter().eq(prefixes) {
            Ok(Outcome::unchanged(Effect::Shard { id: shard.id, moves }))
        } else {
            Err(Refusal::ShardNameTaken { name: shard.name.clone(), by: shard.id })
        }
    }

    fn insert_shard(&mut self, name: String, replicas: Replicas, automatic: bool) -> ShardId {
        let id = ShardId(self.next_shard);
        self.next_shard += 1;
        let prefixes = BTreeSet::new();
        let founders = BTreeSet::new();
        let shard = Shard { id, name, prefixes, replicas, pinned: None, automatic, founders, deleting: false };
        self.shards.insert(id, shard);
        let founders = self.desired_replicas(id).voters;
        self.shards.get_mut(&id).expect("it was just made").founders = founders;
        id
    }

    /// Refuses to go beyond the bounds.
    pub(super) fn check_room(&self, shards: usize, prefixes: usize) -> Result<(), Refusal> {
        if self.shards.len() + shards > SHARDS_MAX {
            return Err(Refusal::too_many(
                "shards",
                SHARDS_MAX,
                "delete one that is not needed: `heddle cluster shards`",
            ));
        }
        let owned: usize = self.shards.values().map(|shard| shard.prefixes.len()).sum();
        if owned + self.moves.len() + prefixes > PREFIXES_MAX {
            return Err(Refusal::too_many(
                "prefixes",
                PREFIXES_MAX,
                "wait for moves to end, or give shards whole modules",
            ));
        }
        Ok(())
    }

    fn check_servers(&self, replicas: &Replicas) -> Result<(), Refusal> {
        let Replicas::Servers(servers) = replicas else { return Ok(()) };
        servers.iter().try_for_each(|id| self.check_member(*id))
    }

    /// A shard, unless it is unknown or being deleted.
    pub(super) fn shard_in_use(&self, id: ShardId) -> Result<&Shard, Refusal> {
        let shard = self.shards.get(&id).ok_or(Refusal::NoSuchShard { id })?;
        if shard.deleting { Err(Refusal::Deleting { name: shard.name.clone() }) } else { Ok(shard) }
    }

    pub(super) fn delete_shard(&mut self, id: ShardId) -> Result<Outcome, Refusal> {
        let shard = self.shards.get(&id).ok_or(Refusal::NoSuchShard { id })?;
        if id == ShardId::META || id == ShardId::DEFAULT {
            return Err(Refusal::BuiltIn {
                id,
                name: shard.name.clone(),
                what: "and cannot be deleted".to_owned(),
                hint: "delete shards that were made".to_owned(),
            });
        }
        if shard.deleting {
            return Ok(Outcome::unchanged(Effect::Unchanged));
        }
        let gone = self.delete_all(&[id])?;
        Ok(Outcome::changed(if gone.is_empty() { Effect::Changed } else { Effect::ShardsGone(gone) }))
    }

    /// Begins to delete these shards; returns those that are gone at once.
    fn delete_all(&mut self, ids: &[ShardId]) -> Result<Vec<ShardId>, Refusal> {
        let waiting = |it: &Move| it.phase == Phase::Queued && !it.back && ids.contains(&it.to);
        let coming = self.moves.values().filter(|it| ids.contains(&it.to) && !waiting(it)).map(|it| &it.prefix);
        let owned = self.shards.values().filter(|shard| ids.contains(&shard.id)).flat_map(|shard| &shard.prefixes);
        let back: BTreeSet<Prefix> = coming.chain(owned).cloned().collect();
        if self.moves.len() + back.len() > MOVES_MAX {
            return Err(Refusal::TooMany {
                what: "moves".to_owned(),
                max: MOVES_MAX as u64,
                hint: "wait for those under way, then ask again".to_owned(),
            });
        }
        self.moves.retain(|_, it| !waiting(it));
        for id in ids {
            self.shards.get_mut(id).expect("the caller has looked them up").deleting = true;
        }
        for prefix in back {
            self.push_move(prefix, ShardId::DEFAULT, true);
        }
        Ok(self.advance())
    }

    pub(super) fn set_replicas(&mut self, id: ShardId, replicas: Replicas) -> Result<Outcome, Refusal> {
        let shard = self.shard_in_use(id)?;
        if shard.replicas == replicas {
            return Ok(Outcome::unchanged(Effect::Unchanged));
        }
        if id == ShardId::META {
            return Err(Refusal::BuiltIn {
                id,
                name: shard.name.clone(),
                what: "on every server, and cannot be elsewhere".to_owned(),
                hint: "set the replicas of shards that hold data".to_owned(),
            });
        }
        self.check_servers(&replicas)?;
        if let (Replicas::Servers(servers), Some(server)) = (&replicas, shard.pinned)
            && !servers.contains(&server)
        {
            let hint = "it is pinned there: unpin it first".to_owned();
            return Err(Refusal::NotAReplica { server, shard: shard.name.clone(), hint });
        }
        self.shards.get_mut(&id).expect("it was there a moment ago").replicas = replicas;
        Ok(Outcome::changed(Effect::Changed))
    }

    pub(super) fn pin(&mut self, id: ShardId, server: ServerId) -> Result<Outcome, Refusal> {
        let shard = self.shard_in_use(id)?;
        self.check_member(server)?;
        if let Replicas::Servers(servers) = &shard.replicas
            && !servers.contains(&server)
        {
            let hint = "add it to the shard's replicas first, or pin to one of them".to_owned();
            return Err(Refusal::NotAReplica { server, shard: shard.name.clone(), hint });
        }
        Ok(self.set_pin(id, Some(server)))
    }

    pub(super) fn unpin(&mut self, id: ShardId) -> Result<Outcome, Refusal> {
        self.shard_in_use(id)?;
        Ok(self.set_pin(id, None))
    }

    fn set_pin(&mut self, id: ShardId, to: Option<ServerId>) -> Outcome {
        let pinned = &mut self.shards.get_mut(&id).expect("the caller has looked it up").pinned;
        if *pinned == to {
            return Outcome::unchanged(Effect::Unchanged);
        }
        *pinned = to;
        Outcome::changed(Effect::Changed)
    }
}

//! The map: members, shards, moves.

mod members;
mod moves;
mod sections;
mod shards;

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use serde::{Deserialize, Serialize};
use tree::Path;

use crate::access::Access;
use crate::command::{Effect, decode_front, encode};
use crate::route::Routes;
use crate::{
    Command, DecodeError, Member, Move, MoveId, Phase, Prefix, Refusal, Replicas, Shard, ShardId, SpansShards, Strategy,
};

/// The format that [`Map::encode`] writes.
const FORMAT: u8 = 1;

/// The protocol of a cluster that nobody has raised.
const FIRST_PROTOCOL: u32 = 1;

/// Most servers of a cluster.
pub const MEMBERS_MAX: usize = 64;
/// Most shards, with `meta` and `default`: each is a Raft group that every replica must tick.
pub const SHARDS_MAX: usize = 256;
/// Most prefixes that have owners of their own.
pub const PREFIXES_MAX: usize = 1_024;
/// Most unfinished moves.
pub const MOVES_MAX: usize = 2_048;
/// No counter gets as far: at a million commands a second it takes 140,000 years.
const COUNTER_MAX: u64 = u64::MAX >> 2;
/// So many removed servers are remembered, so that a late request of theirs does not bring them back.
pub const REMOVED_MAX: usize = 256;

/// The replicated state of group 0.
///
/// It starts empty on every server ([`Map::new`]) and changes by the log alone, the first command being the
/// [`Command::AddServer`] of the first server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredMap")]
pub struct Map {
    version: u64,
    applied: u64,
    strategy: Strategy,
    members: BTreeMap<ServerId, Member>,
    /// Nonces of servers that were removed, oldest first.
    removed: Vec<(u64, ServerId)>,
    shards: BTreeMap<ShardId, Shard>,
    moves: BTreeMap<MoveId, Move>,
    next_server: u64,
    next_shard: u64,
    next_move: u64,
    /// Not in what is sent to clients: those of version 1 do not know it. See `sections`.
    #[serde(skip)]
    protocol: u32,
    #[serde(skip)]
    secret: Option<[u8; 32]>,
    #[serde(skip)]
    removed_addresses: BTreeMap<ServerId, String>,
    /// Roles and users: not for everybody's eyes, so only [`Map::encode`] writes it.
    #[serde(skip)]
    access: Access,
    /// Follows from `shards`.
    #[serde(skip)]
    routes: Routes,
}

/// What is sent and stored of a map: everything but what follows from it.
#[derive(Deserialize)]
struct StoredMap {
    version: u64,
    applied: u64,
    strategy: Strategy,
    members: BTreeMap<ServerId, Member>,
    removed: Vec<(u64, ServerId)>,
    shards: BTreeMap<ShardId, Shard>,
    moves: BTreeMap<MoveId, Move>,
    next_server: u64,
    next_shard: u64,
    next_move: u64,
}

impl From<StoredMap> for Map {
    fn from(parts: StoredMap) -> Self {
        let StoredMap {
            version,
            applied,
            strategy,
            members,
            removed,
            shards,
            moves,
            next_server,
            next_shard,
            next_move,
        } = parts;
        let routes = Routes::new(shards.values());
        let access = Access::default();
        Self {
            version,
            applied,
            strategy,
            members,
            removed,
            shards,
            moves,
            next_server,
            next_shard,
            next_move,
            protocol: FIRST_PROTOCOL,
            secret: None,
            removed_addresses: BTreeMap::new(),
            access,
            routes,
        }
    }
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl Map {
    /// No servers yet, and everything in `default`: what the log of group 0 starts from.
    pub fn new() -> Self {
        let built_in = |id, name: &str, prefixes| Shard {
            id,
            name: name.to_owned(),
            prefixes,
            replicas: Replicas::All,
            pinned: None,
            automatic: false,
            founders: BTreeSet::new(),
            deleting: false,
        };
        let meta = built_in(ShardId::META, "meta", BTreeSet::new());
        let default = built_in(ShardId::DEFAULT, "default", BTreeSet::from([Prefix::Everything]));
        Self {
            version: 0,
            applied: 0,
            strategy: Strategy::Single,
            members: BTreeMap::new(),
            removed: Vec::new(),
            shards: BTreeMap::from([(meta.id, meta), (default.id, default)]),
            moves: BTreeMap::new(),
            next_server: 1,
            next_shard: 2,
            next_move: 1,
            protocol: FIRST_PROTOCOL,
            secret: None,
            removed_addresses: BTreeMap::new(),
            access: Access::default(),
            routes: Routes::default(),
        }
    }

    /// Carries out the command at `index` of the log. A command of an index that was applied already changes nothing.
    ///
    /// # Errors
    /// [`Refusal`]; then nothing but [`Map::applied`] has changed.
    pub fn apply(&mut self, index: u64, command: Command) -> Result<Effect, Refusal> {
        if index <= self.applied {
            return Ok(Effect::Unchanged);
        }
        self.applied = index;
        let command = command.canonical();
        command.check()?;
        let effect = self.carry_out(command)?;
        if effect.changed {
            self.version += 1;
        }
        Ok(effect.effect)
    }

    fn carry_out(&mut self, command: Command) -> Result<Outcome, Refusal> {
        match command {
            Command::AddServer { name, address, metrics, nonce } => self.add_server(name, address, metrics, nonce),
            Command::RemoveServer { id } => self.remove_server(id),
            Command::UpdateAddress { id, address, metrics } => self.update_address(id, address, metrics),
            Command::ReplaceServer { old, name, address, metrics, nonce } => {
                self.replace_server(old, name, address, metrics, nonce)
            }
            Command::SetStrategy { strategy } => self.set_strategy(strategy),
            Command::EnsureModule { module } => self.ensure_module(module),
            Command::CreateShard { name, prefixes, replicas } => self.create_shard(name, prefixes, replicas),
            Command::DeleteShard { id } => self.delete_shard(id),
            Command::SetReplicas { id, replicas } => self.set_replicas(id, replicas),
            Command::Pin { id, server } => self.pin(id, server),
            Command::Unpin { id } => self.unpin(id),
            Command::BeginMove { prefix, to } => self.begin_move(prefix, to),
            Command::MoveImported { id } => self.move_imported(id),
            Command::FinishMove { id } => self.finish_move(id),
            Command::MoveDropped { id } => self.move_dropped(id),
            Command::RaiseProtocol { to, servers, secret } => Ok(self.raise_protocol(to, &servers, secret)),
            Command::Access { revision, command } => {
                let changed = self.access.apply(revision, command)?;
                Ok(if changed { Outcome::changed(Effect::Changed) } else { Outcome::unchanged(Effect::Unchanged) })
            }
        }
    }

    /// Never lowers it: what a newer version has written, an older one may not understand.
    fn raise_protocol(&mut self, to: u32, servers: &BTreeSet<ServerId>, secret: Option<[u8; 32]>) -> Outcome {
        let for_all = self.members.keys().all(|id| servers.contains(id));
        let secret = secret.or(self.secret);
        if !for_all || to == FIRST_PROTOCOL || to < self.protocol || (to, secret) == (self.protocol, self.secret) {
            return Outcome::unchanged(Effect::Unchanged);
        }
        (self.protocol, self.secret) = (to, secret);
        Outcome::changed(Effect::Changed)
    }

    /// The digest of the secret by which servers know each other, once the protocol was raised with one.
    pub fn secret(&self) -> Option<&[u8; 32]> {
        self.secret.as_ref()
    }

    /// Addresses of servers that were removed since the protocol was raised to 2: those that are remembered.
    pub fn removed_addresses(&self) -> &BTreeMap<ServerId, String> {
        &self.removed_addresses
    }

    /// Whether a server of this number was a member and is none any more: numbers are never given again.
    pub fn was_removed(&self, id: ServerId) -> bool {
        id.0 < self.next_server && !self.members.contains_key(&id)
    }

    /// The version of the protocol that every server of the cluster speaks: nothing that needs a higher one may be sent to a server
    /// or written to a log. 1 until the leader of `meta` has raised it ([`Command::RaiseProtocol`]); it never falls.
    ///
    /// A map that a client got in a status does not say it, and gives 1.
    pub fn protocol(&self) -> u32 {
        self.protocol
    }

    /// Roles and users.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The number that the next shard gets: shards below it that are not in [`Map::shards`] are gone.
    pub fn next_shard(&self) -> ShardId {
        ShardId(self.next_shard)
    }

    /// How many commands have changed something.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The index of the last command that was applied, refused ones too.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// How modules are spread over shards.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The members of the cluster, by number.
    pub fn members(&self) -> &BTreeMap<ServerId, Member> {
        &self.members
    }

    /// The shards, `meta` and `default` among them.
    pub fn shards(&self) -> &BTreeMap<ShardId, Shard> {
        &self.shards
    }

    /// The shard of this name.
    pub fn shard_named(&self, name: &str) -> Option<&Shard> {
        self.shards.values().find(|shard| shard.name == name)
    }

    /// The server of this name.
    pub fn member_named(&self, name: &str) -> Option<&Member> {
        self.members.values().find(|member| member.name == name)
    }

    /// The unfinished moves, in the order in which they began.
    pub fn moves(&self) -> &BTreeMap<MoveId, Move> {
        &self.moves
    }

    /// The shard that owns `path`: the one with the longest prefix around it. Never [`ShardId::META`].
    pub fn route(&self, path: &Path) -> ShardId {
        self.routes.of(path)
    }

    /// The one shard of all these paths; [`ShardId::DEFAULT`] if there are none.
    ///
    /// # Errors
    /// [`SpansShards`] if they belong to more than one.
    pub fn shards_of<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> Result<ShardId, SpansShards> {
        let mut paths = paths.into_iter();
        let Some(first) = paths.next().map(|path| self.route(path)) else { return Ok(ShardId::DEFAULT) };
        let mut owners = BTreeSet::from([first]);
        for path in paths {
            let owner = self.route(path);
            if owner != first {
                owners.insert(owner);
            }
        }
        if owners.len() == 1 {
            return Ok(first);
        }
        let mut names: Vec<String> = owners.iter().map(|&id| self.name_of(id)).collect();
        names.sort();
        Err(SpansShards { names })
    }

    /// The shards that own something at or below `path`, sorted.
    pub fn shards_under(&self, path: &Path) -> Vec<ShardId> {
        self.routes.under(path)
    }

    /// The module that should get a shard of its own ([`Command::EnsureModule`]) before `path` is first written.
    pub fn module_to_ensure<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let module = path.module().filter(|_| self.strategy == Strategy::Distributed)?;
        let is_placed = self.routes.of_module(module) != ShardId::DEFAULT || !self.may_make_module(module);
        (!is_placed).then_some(module)
    }

    /// As bytes for a snapshot: a format number, then postcard, then what version 1 does not know, if there is any.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = encode(FORMAT, self);
        self.encode_sections(&mut bytes);
        bytes
    }

    /// From bytes of a snapshot, whoever sent them.
    ///
    /// # Errors
    /// [`DecodeError`] if they are not a map, or one that commands cannot have made.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut map, rest) = decode_front::<Self>("map", FORMAT, bytes)?;
        map.decode_sections(rest).map_err(|why| DecodeError::Malformed { what: "map", why })?;
        map.inconsistency().map_or(Ok(map), |why| Err(DecodeError::Malformed { what: "map", why }))
    }

    fn reindex(&mut self) {
        self.routes = Routes::new(self.shards.values());
    }

    fn name_of(&self, id: ShardId) -> String {
        self.shards.get(&id).map_or_else(|| id.to_string(), |shard| shard.name.clone())
    }

    /// What contradicts the rules by which commands change the map, if anything does.
    fn inconsistency(&self) -> Option<String> {
        let counters = [self.version, self.applied, self.next_server, self.next_shard, self.next_move];
        if counters.iter().any(|&counter| counter > COUNTER_MAX) {
            return Some("a number is larger than any log makes it".to_owned());
        }
        self.bad_member()
            .or_else(|| self.bad_shard())
            .or_else(|| self.bad_move())
            .or_else(|| self.access.inconsistency())
    }

    fn bad_member(&self) -> Option<String> {
        if self.members.len() > MEMBERS_MAX || self.removed.len() > REMOVED_MAX {
            return Some("too many servers".to_owned());
        }
        let known = |(id, member): (&ServerId, &Member)| *id == member.id && id.0 < self.next_server;
        (!self.members.iter().all(known)).then(|| "a server's number is not its own".to_owned())
    }

    fn bad_shard(&self) -> Option<String> {
        let meta_and_default = [ShardId::META, ShardId::DEFAULT].iter().all(|id| self.shards.contains_key(id));
        if !meta_and_default || self.shards.len() > SHARDS_MAX {
            return Some("shards are missing, or too many".to_owned());
        }
        let mut owned = BTreeSet::new();
        for (id, shard) in &self.shards {
            let built_in = *id == ShardId::META || *id == ShardId::DEFAULT;
            if *id != shard.id || id.0 >= self.next_shard || built_in && (shard.deleting || shard.automatic) {
                return Some(format!("shard {id} has another number, or one of meta or default"));
            }
            for prefix in &shard.prefixes {
                let default_all = *prefix == Prefix::Everything && *id == ShardId::DEFAULT;
                if *id == ShardId::META || !(default_all || prefix.is_claimable()) {
                    return Some(format!("shard {id} cannot own {prefix}"));
                }
                if !owned.insert(prefix) {
                    return Some(format!("{prefix} has two owners"));
                }
            }
            let strangers = match &shard.replicas {
                Replicas::Servers(servers) => servers.iter().any(|server| !self.members.contains_key(server)),
                Replicas::Count(n) => *n == 0,
                Replicas::All => false,
            };
            if strangers || shard.pinned.is_some_and(|pinned| !self.members.contains_key(&pinned)) {
                return Some(format!("the replicas of shard {id} are no servers of this cluster"));
            }
        }
        (!owned.contains(&Prefix::Everything) || owned.len() > PREFIXES_MAX + MOVES_MAX)
            .then(|| "prefixes are missing".to_owned())
    }

    fn bad_move(&self) -> Option<String> {
        if self.moves.len() > MOVES_MAX {
            return Some("too many moves".to_owned());
        }
        let wrong = |(id, it): (&MoveId, &Move)| {
            let known = self.shards.contains_key(&it.from) && self.shards.contains_key(&it.to);
            let data = it.from != ShardId::META && it.to != ShardId::META && it.prefix.is_claimable();
            *id != it.id || id.0 >= self.next_move || !(known && data) || !self.fits(it)
        };
        if let Some((id, _)) = self.moves.iter().find(|it| wrong(*it)) {
            return Some(format!("move {id} is not possible"));
        }
        let mut advanced = self.clone();
        advanced.advance();
        (advanced != *self).then(|| "a move should have begun, or a shard be gone".to_owned())
    }

    /// Whether a move that was started agrees with who owns what, and comes before all that it overlaps.
    fn fits(&self, it: &Move) -> bool {
        let owner = self.routes.of_prefix(&it.prefix);
        let first = !self.moves.range(..it.id).any(|(_, earlier)| earlier.prefix.overlaps(&it.prefix));
        match it.phase {
            Phase::Queued => true,
            Phase::Copying | Phase::Imported => {
                first && owner == it.from && it.from != it.to && it.except == self.routes.inside(&it.prefix)
            }
            Phase::Dropping => first && owner == it.to,
        }
    }
}

/// An effect, and whether it counts as a change.
struct Outcome {
    effect: Effect,
    changed: bool,
}

impl Outcome {
    fn changed(effect: Effect) -> Self {
        Self { effect, changed: true }
    }

    fn unchanged(effect: Effect) -> Self {
        Self { effect, changed: false }
    }
}

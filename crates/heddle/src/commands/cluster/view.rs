//! The cluster as its servers see it.

use std::collections::BTreeMap;

use machine::ServerId;
use miette::{Report, miette};
use placement::{Map, Member, Move, Prefix, Replicas, Shard, ShardId};
use store::status::{GroupStatus, RaftRole, Status, StoppedReplica};

use super::access::Access;

/// What every server that could be reached says.
pub struct View {
    /// The newest map that any of them has.
    pub map: Map,
    /// The cluster's number.
    pub cluster: u64,
    /// The server that was asked first.
    pub asked: ServerId,
    /// The status of each server that answered.
    pub servers: BTreeMap<ServerId, Status>,
    /// By server: replicas that have stopped.
    pub stopped: BTreeMap<ServerId, Vec<StoppedReplica>>,
}

impl View {
    /// Asks one server for the others, and then them, all at once.
    pub fn take(access: &Access) -> Result<Self, Report> {
        let first = access.status()?;
        let (asked, cluster) = (first.server, first.cluster);
        let others: Vec<Member> = first.map.members().values().filter(|it| it.id != asked).cloned().collect();
        let mut servers = BTreeMap::from([(asked, first)]);
        std::thread::scope(|scope| {
            let ask = |member: Member| (member.id, access.status_at(&member.address, member.id, cluster));
            let threads: Vec<_> = others.into_iter().map(|member| scope.spawn(move || ask(member))).collect();
            for thread in threads {
                if let (id, Some(status)) = thread.join().expect("a question does not panic") {
                    servers.insert(id, status);
                }
            }
        });
        let stopped = access.stopped_replicas(&servers);
        let newest = servers.values().max_by_key(|status| status.map.version()).expect("one has answered");
        Ok(Self { map: newest.map.clone(), cluster, asked, servers, stopped })
    }

    /// The servers that have answered.
    pub fn up(&self) -> impl Iterator<Item = &Member> {
        self.map.members().values().filter(|member| self.servers.contains_key(&member.id))
    }

    /// Whether a server has answered, or another hears from it.
    pub fn is_live(&self, server: ServerId) -> bool {
        let heard = |status: &Status| status.peers.iter().any(|peer| peer.server == server && peer.live);
        self.servers.contains_key(&server) || self.servers.values().any(heard)
    }

    /// The round trip to a server as the asked one measures it, in microseconds.
    pub fn round_trip_us(&self, server: ServerId) -> Option<u64> {
        let peers = &self.servers[&self.asked].peers;
        peers.iter().find(|peer| peer.server == server).and_then(|peer| peer.round_trip_us)
    }

    /// The leader of a shard: the one with the highest term, else the server that another one takes for it.
    pub fn leader(&self, shard: ShardId) -> Option<ServerId> {
        let leads =
            |(id, group): (ServerId, &GroupStatus)| (group.role == RaftRole::Leader).then_some((group.term, id));
        let leader = self.replicas(shard).filter_map(leads).max().map(|(_, id)| id);
        let shown =
            |status: &Status| status.leaders.get(&shard).copied().filter(|id| self.map.members().contains_key(id));
        leader.or_else(|| self.servers.values().find_map(shown))
    }

    /// All replicas of a shard that could be seen.
    pub fn replicas(&self, shard: ShardId) -> impl Iterator<Item = (ServerId, &GroupStatus)> {
        let of = move |status: &'_ Status| status.groups.iter().position(|group| group.shard == shard);
        self.servers.iter().filter_map(move |(id, status)| Some((*id, &status.groups[of(status)?])))
    }

    /// The replica that knows most of a shard: its leader's, else the one that is furthest.
    pub fn group(&self, shard: ShardId) -> Option<&GroupStatus> {
        let leader = self.leader(shard);
        self.replicas(shard).max_by_key(|(id, group)| (Some(*id) == leader, group.applied)).map(|(_, group)| group)
    }

    /// A server's name, or its number if it has gone.
    pub fn name(&self, server: ServerId) -> String {
        self.map.members().get(&server).map_or_else(|| server.to_string(), |member| member.name.clone())
    }

    /// Names of servers, with commas.
    pub fn names<'a>(&self, servers: impl IntoIterator<Item = &'a ServerId>) -> String {
        servers.into_iter().map(|server| self.name(*server)).collect::<Vec<_>>().join(", ")
    }
}

/// The server with this name or number.
pub fn server<'a>(map: &'a Map, text: &str) -> Result<&'a Member, Report> {
    let by_number = || map.members().get(&ServerId(text.parse().ok()?));
    map.member_named(text).or_else(by_number).ok_or_else(|| {
        let known: Vec<&str> = map.members().values().map(|member| member.name.as_str()).collect();
        miette!(help = format!("there are {}", known.join(", ")), "there is no server `{text}` in this cluster")
    })
}

/// The shard with this name or number.
pub fn shard<'a>(map: &'a Map, text: &str) -> Result<&'a Shard, Report> {
    let by_number = || map.shards().get(&ShardId(text.parse().ok()?));
    map.shard_named(text).or_else(by_number).ok_or_else(|| {
        let known: Vec<&str> = map.shards().values().map(|shard| shard.name.as_str()).collect();
        miette!(help = format!("there are {}", known.join(", ")), "there is no shard `{text}` in this cluster")
    })
}

/// Reads which servers are to hold a shard: `all`, a number of servers, or names of servers with commas.
pub fn replicas(map: &Map, text: &str) -> Result<Replicas, Report> {
    if text == "all" {
        return Ok(Replicas::All);
    }
    if let Ok(number) = text.parse::<u8>() {
        return Ok(Replicas::Count(number));
    }
    let names = text.split(',').filter(|name| !name.is_empty());
    let servers = names.map(|name| server(map, name).map(|member| member.id)).collect::<Result<_, _>>()?;
    Ok(Replicas::Servers(servers))
}

/// What a shard owns, in words.
pub fn prefixes(shard: &Shard) -> String {
    shard.prefixes.iter().map(Prefix::to_string).collect::<Vec<_>>().join(", ")
}

/// Moves to or from a shard, in words.
pub fn moves(map: &Map, shard: ShardId) -> String {
    let name = |id: ShardId| map.shards().get(&id).map_or_else(|| id.to_string(), |shard| shard.name.clone());
    let shown = |it: &Move| format!("{} from {} to {}: {}", it.prefix, name(it.from), name(it.to), it.phase);
    let concerned = map.moves().values().filter(|it| it.from == shard || it.to == shard);
    concerned.map(shown).collect::<Vec<_>>().join("; ")
}

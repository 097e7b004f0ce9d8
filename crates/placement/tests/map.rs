//! The map against a naive model of it: random commands, and moves that are driven, repeated and interrupted at random.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use placement::{Command, Effect, Map, MoveId, Mover, Phase, Prefix, Refusal, Replicas, ShardId, Step, Strategy};
use proptest::prelude::{Just, Strategy as _, any, prop_oneof};
use proptest::test_runner::Config;
use tree::Path;

/// Every path that the tests ask for: some nested, some alike at the beginning, in three modules.
const PATHS: [&str; 12] = [
    "/a:x",
    "/a:x/y",
    "/a:x/y/z",
    "/a:x/y-z",
    "/a:x/l=1",
    "/a:x/l=1/v",
    "/a:x/l=2",
    "/a:xy",
    "/b:x",
    "/b:x/y/z",
    "/b:w",
    "/c:x",
];

fn path(text: &str) -> Path {
    Path::parse(text).expect("the tests' paths are well-formed")
}

fn paths() -> Vec<Path> {
    PATHS.iter().map(|text| path(text)).collect()
}

fn prefixes() -> impl proptest::strategy::Strategy<Value = Prefix> {
    prop_oneof![
        (0..3_usize).prop_map(|n| Prefix::Module(["a", "b", "c"][n].to_owned())),
        (0..PATHS.len()).prop_map(|n| Prefix::Path(path(PATHS[n]))),
        Just(Prefix::Path(path("/a:x/l"))),
        Just(Prefix::Path(path("/a:"))),
        Just(Prefix::Everything),
        Just(Prefix::Path(Path::root())),
    ]
}

fn replicas() -> impl proptest::strategy::Strategy<Value = Replicas> {
    let servers = proptest::collection::btree_set((1..6_u64).prop_map(ServerId), 0..3);
    prop_oneof![Just(Replicas::All), (0..9_u8).prop_map(Replicas::Count), servers.prop_map(Replicas::Servers)]
}

fn commands() -> impl proptest::strategy::Strategy<Value = Command> {
    let server = || (1..6_u64).prop_map(ServerId);
    let shard = || (0..8_u64).prop_map(ShardId);
    let moving = || (0..12_u64).prop_map(MoveId);
    let address = |n: u64| format!("host{n}:7000");
    let wanted = proptest::collection::btree_set(prefixes(), 0..4);
    prop_oneof![
        4 => (1..9_u64).prop_map(move |n| Command::AddServer {
            name: format!("s{}", n % 6), address: address(n), metrics: None, nonce: n
        }),
        1 => server().prop_map(|id| Command::RemoveServer { id }),
        1 => (server(), 0..9_u64).prop_map(move |(id, n)| Command::UpdateAddress { id, address: address(n), metrics: Some(address(n)) }),
        1 => (server(), 1..9_u64).prop_map(move |(old, n)| Command::ReplaceServer {
            old, name: format!("s{n}"), address: address(n), metrics: None, nonce: n + 10
        }),
        1 => any::<bool>().prop_map(|single| Command::SetStrategy {
            strategy: if single { Strategy::Single } else { Strategy::Distributed }
        }),
        3 => (0..4_usize).prop_map(|n| Command::EnsureModule { module: ["a", "b", "c", "!"][n].to_owned() }),
        4 => (0..5_u8, wanted, replicas()).prop_map(|(n, prefixes, replicas)| {
            Command::CreateShard { name: format!("shard{n}"), prefixes, replicas }
        }),
        2 => shard().prop_map(|id| Command::DeleteShard { id }),
        2 => (shard(), replicas()).prop_map(|(id, replicas)| Command::SetReplicas { id, replicas }),
        2 => (shard(), server()).prop_map(|(id, server)| Command::Pin { id, server }),
        1 => shard().prop_map(|id| Command::Unpin { id }),
        5 => (prefixes(), shard()).prop_map(|(prefix, to)| Command::BeginMove { prefix, to }),
        1 => moving().prop_map(|id| Command::MoveImported { id }),
        1 => moving().prop_map(|id| Command::FinishMove { id }),
        1 => moving().prop_map(|id| Command::MoveDropped { id }),
        1 => (0..4_u32, any::<bool>()).prop_map(|(to, secret)| Command::RaiseProtocol {
            to, servers: (1..40).map(ServerId).collect(), secret: secret.then_some([7; 32])
        }),
    ]
}

/// The owner of a path by trying every prefix of every shard.
fn naive_route(map: &Map, path: &Path) -> ShardId {
    let depth = |prefix: &Prefix| match prefix {
        Prefix::Everything => 0,
        Prefix::Module(_) => 1,
        Prefix::Path(path) => 1 + path.as_str().len(),
    };
    let owned = map.shards().values().flat_map(|shard| shard.prefixes.iter().map(move |prefix| (prefix, shard.id)));
    let around: Vec<_> = owned.filter(|(prefix, _)| prefix.contains(path)).collect();
    let longest = around.iter().map(|(prefix, _)| depth(prefix)).max().expect("default owns everything");
    let owners: Vec<_> = around.iter().filter(|(prefix, _)| depth(prefix) == longest).collect();
    assert_eq!(owners.len(), 1, "{path} has one owner: {owners:?}");
    owners[0].1
}

fn check_routes(map: &Map) {
    for path in paths() {
        assert_eq!(map.route(&path), naive_route(map, &path), "{path}");
    }
}

/// A map, and what the shards hold of the paths of the tests.
struct World {
    map: Map,
    index: u64,
    held: BTreeMap<Path, BTreeSet<ShardId>>,
    log: Vec<Command>,
}

impl World {
    fn new() -> Self {
        let held = paths().into_iter().map(|path| (path, BTreeSet::from([ShardId::DEFAULT]))).collect();
        Self { map: Map::new(), index: 0, held, log: Vec::new() }
    }

    fn apply(&mut self, command: Command) -> Result<Effect, Refusal> {
        self.index += 1;
        self.log.push(command.clone());
        let before = self.map.clone();
        let result = self.map.apply(self.index, command);
        let changed = self.map.version() - before.version();
        assert!(changed <= 1);
        if changed == 0 {
            assert_eq!(self.map.shards(), before.shards(), "no change without a version");
            assert_eq!((self.map.moves(), self.map.members()), (before.moves(), before.members()));
        }
        if let Err(refusal) = &result {
            assert_eq!(changed, 0);
            assert!(refusal.to_string().contains("hint: "), "{refusal}");
        }
        self.check();
        result
    }

    /// What always holds.
    fn check(&self) {
        for (path, holders) in &self.held {
            let owner = self.map.route(path);
            assert_eq!(owner, naive_route(&self.map, path), "{path}");
            assert!(holders.contains(&owner), "{owner} owns {path}, but {holders:?} hold it");
            assert!(self.map.shards_under(path).contains(&owner));
        }
        let owners: BTreeSet<ShardId> = self.held.keys().map(|path| self.map.route(path)).collect();
        let under: BTreeSet<ShardId> = self.map.shards_under(&Path::root()).into_iter().collect();
        assert!(owners.is_subset(&under) && !under.contains(&ShardId::META));
        self.check_no_idle_prefix();
        let live: Vec<_> = self.map.moves().values().filter(|it| it.phase != Phase::Queued).collect();
        for (at, it) in live.iter().enumerate() {
            assert!(!live[at + 1..].iter().any(|other| other.prefix.overlaps(&it.prefix)), "two moves overlap");
        }
        for id in self.map.shards().keys() {
            let desired = self.map.desired_replicas(*id);
            assert_eq!(desired.voters.is_empty(), self.map.members().is_empty(), "shard {id}");
            assert!(desired.voters.is_disjoint(&desired.learners) && desired.voters.len() <= placement::VOTERS_MAX);
            assert!(desired.voters.iter().chain(&desired.learners).all(|id| self.map.members().contains_key(id)));
            let pinned = self.map.shards()[id].pinned;
            assert!(pinned.is_none_or(|pinned| desired.voters.contains(&pinned)), "the pinned server may lead");
        }
        assert_eq!(Map::decode(&self.map.encode()).as_ref(), Ok(&self.map));
    }

    /// Each prefix says something: what is around it has another owner.
    fn check_no_idle_prefix(&self) {
        let owned = || self.map.shards().values().flat_map(|shard| shard.prefixes.iter().map(move |it| (it, shard.id)));
        for (prefix, owner) in owned() {
            let around = owned().filter(|(outer, _)| *outer != prefix && outer.includes(prefix));
            let innermost = around.fold(None, |found: Option<(&Prefix, ShardId)>, next| match found {
                Some(found) if next.0.includes(found.0) => Some(found),
                _ => Some(next),
            });
            assert!(innermost.is_none_or(|(_, outer)| outer != owner), "{prefix} lies within what {owner} owns");
        }
    }

    fn moved(&self, it: &placement::Move) -> Vec<Path> {
        let moves = |path: &&Path| it.prefix.contains(path) && !it.except.iter().any(|except| except.contains(path));
        self.held.keys().filter(moves).cloned().collect()
    }

    /// Does a step as the leader of group 0 would.
    fn carry_out(&mut self, mover: &mut Mover, step: &Step) {
        match step {
            Step::Freeze(it) => mover.frozen(it.id),
            Step::Copy(it) => {
                for path in self.moved(it) {
                    let holders = self.held.get_mut(&path).expect("a path of the tests");
                    assert!(holders.contains(&it.from), "{path} is copied from one that holds it");
                    holders.insert(it.to);
                }
                self.apply(Command::MoveImported { id: it.id }).expect("it was copied");
            }
            Step::Finish(id) => drop(self.apply(Command::FinishMove { id: *id }).expect("it was imported")),
            Step::Drop(it) => {
                for path in self.moved(it) {
                    self.held.get_mut(&path).expect("a path of the tests").remove(&it.from);
                }
                self.apply(Command::MoveDropped { id: it.id }).expect("it was finished");
            }
        }
    }

    /// Drives all moves to their end.
    fn finish(&mut self) {
        let mut mover = Mover::new();
        for _ in 0..10_000 {
            let steps = mover.poll(&self.map);
            if steps.is_empty() {
                break;
            }
            for step in steps {
                self.carry_out(&mut mover, &step);
            }
        }
        assert!(self.map.moves().is_empty(), "moves end: {:?}", self.map.moves());
        assert!(!self.map.shards().values().any(|shard| shard.deleting), "deleted shards are gone");
        for (path, holders) in &self.held {
            assert_eq!(*holders, BTreeSet::from([self.map.route(path)]), "{path} is held by its owner alone");
        }
    }
}

/// A command that would lie about what shards hold: only [`World::carry_out`] may say so.
fn is_report(command: &Command) -> bool {
    matches!(command, Command::MoveImported { .. } | Command::FinishMove { .. } | Command::MoveDropped { .. })
}

proptest::proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    /// Commands come while moves are under way; their driver is replaced at random, and so repeats steps.
    #[test]
    fn nothing_is_lost_whatever_is_asked(plan in proptest::collection::vec((commands(), 0..4_u8, any::<bool>()), 1..60)) {
        let mut world = World::new();
        let mut mover = Mover::new();
        for (command, steps, replaced) in plan {
            if replaced {
                mover = Mover::new();
            }
            if !is_report(&command) {
                let _ = world.apply(command);
            }
            for step in mover.poll(&world.map).into_iter().take(steps.into()) {
                world.carry_out(&mut mover, &step);
            }
        }
        world.finish();
        let mut again = Map::new();
        for (at, command) in world.log.iter().enumerate() {
            let _ = again.apply(at as u64 + 1, Command::decode(&command.encode()).expect("it was encoded"));
        }
        assert_eq!(again, world.map);
    }

    /// Reports of steps that nobody took do no harm to the map itself.
    #[test]
    fn any_command_in_any_order_keeps_the_map_sound(plan in proptest::collection::vec(commands(), 1..80)) {
        let mut map = Map::new();
        for (at, command) in plan.into_iter().enumerate() {
            assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(&command));
            let _ = map.apply(at as u64 + 1, command);
            check_routes(&map);
            assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
            // Also within a larger message, a status for one: it must route there too. What version 1 does not know, and what is not for
            // everybody's eyes, is left out there.
            let bytes = postcard::to_stdvec(&map).expect("a Vec takes everything");
            let decoded: Map = postcard::from_bytes(&bytes).expect("it was encoded");
            check_routes(&decoded);
            assert_eq!(postcard::to_stdvec(&decoded).as_ref(), Ok(&bytes));
            assert_eq!((decoded.members(), decoded.shards(), decoded.moves()), (map.members(), map.shards(), map.moves()));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Command::decode(&bytes);
        let _ = Map::decode(&bytes);
    }

    /// A map with flipped bytes is refused, or one that commands can go on with.
    #[test]
    fn a_damaged_map_is_refused_or_sound(
        plan in proptest::collection::vec(commands(), 1..30), at in any::<u16>(), flip in 1..=255_u8,
        then in proptest::collection::vec(commands(), 1..30),
    ) {
        let mut world = World::new();
        plan.into_iter().filter(|command| !is_report(command)).for_each(|command| drop(world.apply(command)));
        let mut bytes = world.map.encode();
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= flip;
        if let Ok(mut map) = Map::decode(&bytes) {
            let start = map.applied();
            then.into_iter().enumerate().for_each(|(at, command)| drop(map.apply(start + 1 + at as u64, command)));
            check_routes(&map);
        }
    }
}

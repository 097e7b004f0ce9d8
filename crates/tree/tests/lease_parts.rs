//! Leases whose parts are in several shards: whoever follows the paths from the home comes to every value.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Shard, config, parse, value};
use crate::leases::{carry_but, have_what_is_theirs, with_lease};
use proptest::prelude::*;
use tree::{Bytes, Change, LeaseId, Location, Path, Refusal};

const SHARDS: usize = 4;
const LEASES: core::ops::Range<u64> = 1..3;
/// Few paths, so that the same ones move again and again; the first few move by themselves.
const PATHS: [&str; 6] = ["/m:a", "/m:b", "/m:a/c", "/m:d", "/m:a/c/e", "/m:b/f"];
const PREFIXES: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Grant(u64, Path),
    Put(Location, Bytes, u64),
    Delete(Location),
    Revoke(u64),
    /// All parts of a lease end that nobody comes to who follows the paths.
    Neglect(u64),
    Move(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let home = prop_oneof![Just("/"), prop::sample::select(&PATHS[..])].prop_map(parse);
    let at = || prop::sample::select(&PATHS[..]).prop_map(config);
    prop_oneof![
        2 => (LEASES, home).prop_map(|(lease, home)| Step::Grant(lease, home)),
        6 => (at(), value(), 0..LEASES.end).prop_map(|(at, value, lease)| Step::Put(at, value, lease)),
        2 => at().prop_map(Step::Delete),
        1 => LEASES.prop_map(Step::Revoke),
        1 => LEASES.prop_map(Step::Neglect),
        6 => (0..=PREFIXES, 0..SHARDS).prop_map(|(prefix, to)| Step::Move(prefix, to)),
    ]
}

/// Shards, and the map that says which of them has what.
struct Cluster {
    shards: Vec<Shard>,
    map: BTreeMap<Path, usize>,
    moves: u64,
}

impl Cluster {
    fn new() -> Self {
        let mut shards: Vec<Shard> = (0..SHARDS).map(|n| Shard { client: n as u64, ..Shard::default() }).collect();
        shards.iter_mut().for_each(Shard::speak);
        let map = PATHS[..PREFIXES].iter().copied().chain(["/"]).map(|prefix| (parse(prefix), 0)).collect();
        Self { shards, map, moves: 0 }
    }

    fn owner(&self, path: &Path) -> usize {
        let prefixes = self.map.iter().filter(|(prefix, _)| prefix.contains(path));
        prefixes.max_by_key(|(prefix, _)| prefix.as_str().len()).map(|(_, shard)| *shard).expect("the root has all")
    }

    fn at(&mut self, path: &Path) -> &mut Shard {
        let owner = self.owner(path);
        &mut self.shards[owner]
    }

    /// A prefix goes to another shard, without those in it that the map names too.
    fn carry(&mut self, prefix: &Path, to: usize, limit_bytes: usize) {
        let from = self.map[prefix];
        if from == to {
            return;
        }
        self.moves += 1;
        let except: Vec<Path> =
            self.map.keys().filter(|other| *other != prefix && prefix.contains(other)).cloned().collect();
        let [from, to_shard] = self.shards.get_disjoint_mut([from, to]).expect("two of them");
        carry_but(from, to_shard, (prefix, &except), self.moves, limit_bytes);
        self.map.insert(prefix.clone(), to);
    }

    fn parts(&self, lease: u64) -> BTreeSet<usize> {
        (0..SHARDS).filter(|shard| self.shards[*shard].state.leases.get(LeaseId(lease)).is_some()).collect()
    }

    /// The shards that a keeper comes to, as one does who asks for a lease at its home and then by each path that he is told.
    fn followed(&self, lease: u64, home: &Path) -> BTreeSet<usize> {
        let (mut known, mut waiting) = (BTreeSet::from([home.clone()]), vec![home.clone()]);
        let mut found = BTreeSet::new();
        while let Some(at) = waiting.pop() {
            let owner = self.owner(&at);
            let Some(part) = self.shards[owner].state.leases.get(LeaseId(lease)) else { continue };
            found.insert(owner);
            waiting.extend(part.other_parts().filter(|path| known.insert((*path).clone())).cloned());
        }
        found
    }
}

fn put(at: &str, lease: u64) -> Vec<Change> {
    vec![with_lease(&config(at), &"1".into(), lease)]
}

fn remove(at: &str) -> Vec<Change> {
    vec![Change::Remove { at: config(at) }]
}

#[test]
fn a_part_is_found_behind_the_one_that_the_way_to_it_has_moved_to() {
    let mut cluster = Cluster::new();
    cluster.at(&Path::root()).grant(1, &Path::root()).unwrap();
    cluster.at(&parse("/m:a")).write(put("/m:a", 1)).unwrap();
    cluster.carry(&parse("/m:a"), 1, 64);
    cluster.carry(&parse("/m:b"), 1, 64);
    cluster.at(&parse("/m:b")).write(put("/m:b", 1)).expect("home leads there by /m:a");
    cluster.at(&parse("/m:a")).write(remove("/m:a")).unwrap();
    cluster.carry(&parse("/m:a"), 2, 64);
    assert_eq!(cluster.followed(1, &Path::root()), BTreeSet::from([0, 1, 2]));
}

#[test]
fn a_part_without_values_whose_way_has_gone_takes_none() {
    let mut cluster = Cluster::new();
    cluster.at(&Path::root()).grant(1, &Path::root()).unwrap();
    cluster.at(&parse("/m:a")).write(put("/m:a", 1)).unwrap();
    cluster.carry(&parse("/m:a"), 1, 64);
    cluster.carry(&parse("/m:b"), 1, 64);
    cluster.at(&parse("/m:a")).write(remove("/m:a")).unwrap();
    cluster.at(&parse("/m:a")).write(put("/m:a", 1)).expect("home leads there by /m:a");
    cluster.at(&parse("/m:a")).write(remove("/m:a")).unwrap();
    cluster.carry(&parse("/m:a"), 2, 64);
    let refused = Err(Refusal::NoLease { lease: LeaseId(1) });
    assert_eq!(cluster.at(&parse("/m:b")).write(put("/m:b", 1)), refused);
    assert_eq!(cluster.followed(1, &Path::root()), BTreeSet::from([0]));
}

proptest! {
    #[test]
    fn whoever_follows_the_paths_from_the_home_comes_to_every_value(
        steps in prop::collection::vec(step(), 1..60), limit_bytes in 1..200_usize,
    ) {
        let mut cluster = Cluster::new();
        let mut model: BTreeMap<Location, (Bytes, u64)> = BTreeMap::new();
        let mut homes: BTreeMap<u64, Path> = BTreeMap::new();
        for step in steps {
            match step {
                // A number is drawn once.
                Step::Grant(lease, _) if !cluster.parts(lease).is_empty() => {}
                Step::Grant(lease, home) => {
                    cluster.at(&home).grant(lease, &home).unwrap();
                    homes.insert(lease, home);
                }
                Step::Put(at, value, 0) => {
                    cluster.at(&at.path).write(vec![Change::Put { at: at.clone(), value: value.clone() }]).unwrap();
                    model.insert(at, (value, 0));
                }
                Step::Put(at, value, lease) => {
                    let is_home = homes.get(&lease).is_some_and(|home| cluster.owner(home) == cluster.owner(&at.path));
                    let shard = cluster.at(&at.path);
                    let part = shard.state.leases.get(LeaseId(lease));
                    let has_some = part.is_some_and(|part| is_home || !part.values.is_empty());
                    let outcome = shard.write(vec![with_lease(&at, &value, lease)]);
                    prop_assert!(outcome.is_ok() || !has_some, "{:?}", outcome);
                    if outcome.is_ok() {
                        model.insert(at, (value, lease));
                    }
                }
                // A subtree of which a part is elsewhere cannot be deleted at once.
                Step::Delete(at) if cluster.map.keys().any(|prefix| at.path.contains(prefix)) => {}
                Step::Delete(at) => {
                    cluster.at(&at.path).write(vec![Change::Remove { at: at.clone() }]).unwrap();
                    model.retain(|other, _| !at.contains(other));
                }
                Step::Revoke(lease) => {
                    let Some(home) = homes.remove(&lease) else { continue };
                    for shard in cluster.followed(lease, &home) {
                        cluster.shards[shard].revoke(lease).unwrap();
                    }
                    model.retain(|_, (_, of)| *of != lease);
                    // What nobody comes to ends by itself, and takes nothing with it.
                    for shard in cluster.parts(lease) {
                        cluster.shards[shard].expire(lease);
                    }
                }
                Step::Neglect(lease) => {
                    let Some(home) = homes.get(&lease) else { continue };
                    let followed = cluster.followed(lease, home);
                    for shard in cluster.parts(lease).difference(&followed) {
                        cluster.shards[*shard].expire(lease);
                    }
                }
                Step::Move(prefix, to) => {
                    let prefix = PATHS[..PREFIXES].get(prefix).map_or_else(Path::root, |prefix| parse(prefix));
                    cluster.carry(&prefix, to, limit_bytes);
                }
            }
            have_what_is_theirs(&cluster.shards, &model, |path| cluster.owner(path), limit_bytes)?;
            for (lease, home) in &homes {
                let followed = cluster.followed(*lease, home);
                for (at, (_, of)) in &model {
                    prop_assert!(of != lease || followed.contains(&cluster.owner(&at.path)), "{lease} at {}", at.path);
                }
            }
        }
    }
}

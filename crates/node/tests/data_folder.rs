//! The data folder of a controller that was stopped: whatever is missing, cut or of an earlier day, it is noticed, or it
//! changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;

use crate::controllers::{
    Controller, PATIENCE, Refusal, at, client, command, eventually, get, put, status, wait_until_all_vote,
};
use nix::sys::signal::Signal;
use node::Client;
use store::protocol::{Admin, Answer, Consistency, RequestBody};
use store::status::DiskStatus;
use tree::{Location, Path};

type Files = BTreeMap<String, Vec<u8>>;

fn files(folder: &FilePath) -> Files {
    let file = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    fs::read_dir(folder).unwrap().map(|entry| file(entry.unwrap())).collect()
}

fn put_files(folder: &FilePath, files: &Files) {
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

fn disk(client: &Client, admin: Admin) -> DiskStatus {
    match client.request(RequestBody::Admin(admin), PATIENCE).expect("it answers") {
        Answer::Disk(disk) => disk,
        other => panic!("{other:?}"),
    }
}

/// Snapshots of everything, and one segment of the log.
fn defragment(client: &Client) {
    disk(client, Admin::Defragment);
    eventually("room is given back", || !disk(client, Admin::Disk).is_defragmenting);
}

fn terms(client: &Client) -> BTreeMap<u64, u64> {
    status(client).groups.iter().map(|group| (group.shard.0, group.term)).collect()
}

/// What may have happened to a file since the server was stopped.
fn damages(name: &str, bytes: &[u8], older: &Files) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let kind = name.split_once('-').map_or(name, |(kind, _)| kind);
    let older = older.iter().rfind(|(old, _)| *old == name || (kind != name && old.starts_with(kind)));
    let mut damages = vec![
        ("deleted", None),
        ("emptied", Some(Vec::new())),
        ("cut in half", Some(bytes[..bytes.len() / 2].to_vec())),
        ("cut by a byte", Some(bytes[..bytes.len().saturating_sub(1)].to_vec())),
    ];
    damages.extend(older.map(|(_, older)| ("replaced by an older copy", Some(older.clone()))));
    damages
}

/// Starts the server with each file damaged in each way. Gives what was noticed; `check` sees the others.
fn damage_all(
    whole: &Files,
    older: &Files,
    start: impl Fn(&FilePath) -> Result<Controller, Refusal>,
    check: impl Fn(&str, &Controller),
) -> Vec<String> {
    let mut noticed = Vec::new();
    for (name, bytes) in whole {
        for (what, content) in damages(name, bytes, older) {
            let what = format!("{name} {what}");
            let folder = tempfile::tempdir().unwrap();
            put_files(folder.path(), whole);
            match content {
                Some(content) => fs::write(folder.path().join(name), content).unwrap(),
                None => fs::remove_file(folder.path().join(name)).unwrap(),
            }
            match start(folder.path()) {
                Ok(controller) => check(&what, &controller),
                Err(refusal) => {
                    assert_eq!(refusal.status.code(), Some(1), "{what}: {}", refusal.text);
                    assert!(refusal.text.contains("hint: "), "{what}: {}", refusal.text);
                    noticed.push(what);
                }
            }
        }
    }
    noticed
}

#[test]
fn every_file_that_is_lost_cut_or_older_is_noticed_or_harmless() {
    let data = tempfile::tempdir().unwrap();
    let mut older = Files::new();
    let mut known = BTreeMap::new();
    // At the second start a copy is made; an election and a hundred writes come after it.
    for round in 0..2 {
        let controller = Controller::start(command("c1", data.path(), &[]));
        let client = client(&[&controller]);
        for key in 0..100 {
            put(&client, key, format!("{round} {key}").as_bytes(), PATIENCE).unwrap();
        }
        if round == 0 {
            defragment(&client);
        }
        known = terms(&client);
        controller.end(if round == 0 { Signal::SIGTERM } else { Signal::SIGKILL });
        if round == 0 {
            older = files(data.path());
        }
    }
    let whole = files(data.path());
    assert!(whole.keys().any(|name| name.starts_with("snapshot-")), "{:?}", whole.keys());
    let start = |folder: &FilePath| Controller::try_start(command("c1", folder, &[]));
    let noticed = damage_all(&whole, &older, start, |what, controller| {
        let client = client(&[controller]);
        for key in [0, 57, 99] {
            assert_eq!(get(&client, key).unwrap(), Some(format!("1 {key}").into_bytes()), "{what}");
        }
        let found = terms(&client);
        assert!(known.iter().all(|(shard, term)| found[shard] >= *term), "{what}: {found:?} after {known:?}");
    });
    let newest = whole.keys().rfind(|name| name.starts_with("log-")).unwrap();
    for what in ["deleted", "emptied", "replaced by an older copy"] {
        assert!(noticed.contains(&format!("{newest} {what}")), "{noticed:?}");
    }
}

#[test]
fn every_file_of_a_member_that_is_lost_cut_or_older_is_noticed_or_harmless() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let founder = Controller::start(command("c1", first.path(), &[]));
    let options = ["--join", &founder.address];
    let mut older = Files::new();
    // Two servers are no majority without each other: the founder has to find it again where it was.
    let mut address = "127.0.0.1:0".to_owned();
    for round in 0..2 {
        let member = Controller::start(at("c2", second.path(), &address, &options));
        address.clone_from(&member.address);
        wait_until_all_vote(&[&founder, &member], None);
        let client = client(&[&founder, &member]);
        for key in 0..50 {
            put(&client, key, format!("{round} {key}").as_bytes(), PATIENCE).unwrap();
        }
        member.end(if round == 0 { Signal::SIGTERM } else { Signal::SIGKILL });
        if round == 0 {
            older = files(second.path());
        }
    }
    let mut whole = files(second.path());
    let newest = whole.keys().rfind(|name| name.starts_with("log-")).unwrap().clone();
    let start = |folder: &FilePath| Controller::try_start(at("c2", folder, &address, &options));
    let all = whole.clone();
    // The others are as in the test above.
    whole.retain(|name, _| *name == newest || ["JOIN", "STARTED", "witness"].contains(&name.as_str()));
    let rest: Files = all.into_iter().filter(|(name, _)| !whole.contains_key(name)).collect();
    let start = |folder: &FilePath| {
        put_files(folder, &rest);
        start(folder)
    };
    let noticed = damage_all(&whole, &older, start, |what, member| {
        let client = client(&[&founder, member]);
        for key in [0, 49] {
            assert_eq!(get(&client, key).unwrap(), Some(format!("1 {key}").into_bytes()), "{what}");
        }
    });
    for what in ["deleted", "emptied", "replaced by an older copy"] {
        assert!(noticed.contains(&format!("{newest} {what}")), "{noticed:?}");
    }
}

/// What version 1 wrote (commit 2a0d034): three starts of a server alone, each with three writes.
#[test]
fn a_folder_of_version_1_is_opened() {
    let data = tempfile::tempdir().unwrap();
    put_files(data.path(), &files(&FilePath::new(env!("CARGO_MANIFEST_DIR")).join("testdata/folder-1")));
    for _ in 0..2 {
        let controller = Controller::start(command("c1", data.path(), &[]));
        assert_eq!(controller.cluster, "d457c2588a1644ef");
        let client = client(&[&controller]);
        for round in 1..=3 {
            for write in 1..=3 {
                let at = Location::config(Path::parse(&format!("/golden:values/value={round}-{write}")).unwrap());
                let body = RequestBody::Get { at, consistency: Consistency::Linearizable };
                let Answer::Value(Some((_, value))) = client.request(body, PATIENCE).unwrap() else {
                    panic!("value {round}-{write} is missing");
                };
                assert_eq!(value, format!("written by start {round}").into_bytes());
            }
        }
        controller.end(Signal::SIGKILL);
        assert!(data.path().join("witness").exists());
    }
}

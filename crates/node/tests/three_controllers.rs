//! Three controllers: one may be lost, whichever it is, and nothing that was confirmed goes with it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::controllers::{
    self, Controller, PATIENCE, at, car, client, client_with, command, eventually, get, put, status,
    wait_until_all_vote,
};
use machine::ServerId;
use nix::sys::signal::Signal;
use node::{Client, Tls, certificates};
use placement::ShardId;
use store::protocol::RequestBody;
use tempfile::TempDir;
use tree::Path;

struct Three {
    folders: Vec<TempDir>,
    controllers: Vec<Option<Controller>>,
}

impl Three {
    fn start(options: &[&str]) -> Self {
        let folders: Vec<TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let mut controllers: Vec<Option<Controller>> = Vec::new();
        for (n, folder) in folders.iter().enumerate() {
            let join = controllers.first().and_then(Option::as_ref).map(|first| first.address.clone());
            let mut all = options.to_vec();
            if let Some(join) = &join {
                all.extend(["--join", join]);
            }
            controllers.push(Some(Controller::start(command(&format!("c{}", n + 1), folder.path(), &all))));
        }
        Self { folders, controllers }
    }

    fn running(&self) -> Vec<&Controller> {
        self.controllers.iter().flatten().collect()
    }

    /// Which of them leads the shard of cars.
    fn leader(&self, client: &Client) -> Option<usize> {
        let status = status(client);
        let leader = status.leaders.get(&status.map.route(&car(1).path))?;
        self.controllers.iter().position(|it| it.as_ref().is_some_and(|it| ServerId(it.server) == *leader))
    }

    fn restart(&mut self, n: usize, address: &str) {
        let folder = self.folders[n].path();
        self.controllers[n] = Some(Controller::start(at(&format!("c{}", n + 1), folder, address, &[])));
    }
}

#[test]
fn the_leader_is_killed_and_comes_back() {
    let mut three = Three::start(&[]);
    wait_until_all_vote(&three.running(), None);
    let client = client(&three.running());
    for key in 0..50 {
        put(&client, key, b"before", PATIENCE).unwrap();
    }
    let leader = three.leader(&client).expect("it has just written");
    let killed = three.controllers[leader].take().unwrap();
    let (address, server) = (killed.address.clone(), ServerId(killed.server));
    killed.end(Signal::SIGKILL);
    // The client finds the new leader by itself.
    for key in 50..100 {
        put(&client, key, b"meanwhile", PATIENCE).unwrap();
    }
    for key in [0, 49, 50, 99] {
        assert!(get(&client, key).unwrap().is_some(), "car {key}");
    }
    three.restart(leader, &address);
    let back = client_with(three.controllers[leader].as_ref().unwrap(), None);
    eventually("it catches up", || {
        let status = status(&back);
        let cars = status.groups.iter().find(|group| group.shard == ShardId::DEFAULT);
        status.server == server && cars.is_some_and(|group| group.entries == 100 && group.applied == group.commit)
    });
    put(&back, 100, b"after", PATIENCE).unwrap();
    assert_eq!(get(&client, 100).unwrap(), Some(b"after".to_vec()));
}

#[test]
fn a_stopped_leader_is_replaced_and_believes_it_when_it_wakes() {
    let three = Three::start(&[]);
    wait_until_all_vote(&three.running(), None);
    let client = client(&three.running());
    put(&client, 1, b"old", PATIENCE).unwrap();
    let leader = three.leader(&client).expect("it has just written");
    let stopped = three.controllers[leader].as_ref().unwrap();
    stopped.signal(Signal::SIGSTOP);
    put(&client, 1, b"new", PATIENCE).unwrap();
    let at_the_stopped = client_with(stopped, None);
    stopped.signal(Signal::SIGCONT);
    assert_eq!(get(&at_the_stopped, 1).unwrap(), Some(b"new".to_vec()));
}

#[test]
fn an_ended_leader_hands_over() {
    // A follower that waits until a leader is silent for so long waits longer than this test.
    let mut three = Three::start(&["--election-timeout", "300"]);
    wait_until_all_vote(&three.running(), None);
    let client = client(&three.running());
    put(&client, 1, b"x", PATIENCE).unwrap();
    let leader = three.leader(&client).expect("it has just written");
    let ended = three.controllers[leader].take().unwrap().end(Signal::SIGTERM);
    assert_eq!(ended.code(), Some(0));
    put(&client, 2, b"y", PATIENCE).unwrap();
    let new = three.leader(&client).expect("it has just written");
    assert_ne!(new, leader);
}

#[test]
fn a_watch_survives_the_loss_of_its_server_and_misses_nothing() {
    let mut three = Three::start(&[]);
    wait_until_all_vote(&three.running(), None);
    let writer = client(&three.running());
    let mut endpoints = three.running();
    endpoints.rotate_left(1);
    let watcher = client(&endpoints);
    let cars = tree::Location::config(Path::parse("/car:cars").unwrap());
    let mut watch = watcher.watch(cars, BTreeMap::new(), PATIENCE).unwrap();
    let mut seen = Vec::new();
    for key in 0..60 {
        put(&writer, key, b"x", PATIENCE).unwrap();
        if key == 30 {
            // The one that the watcher asked first.
            three.controllers[1].take().unwrap().end(Signal::SIGKILL);
        }
    }
    while seen.len() < 60 {
        let batch = watch.next_within(PATIENCE).unwrap_or_else(|_| panic!("only {} of 60 events came", seen.len()));
        assert!(!batch.skipped, "{batch:?}");
        seen.extend(batch.events.iter().map(|event| event.at.path.clone()));
    }
    let expected: Vec<Path> = (0..60).map(|key| car(key).path).collect();
    assert_eq!(seen, expected, "each once and in order");
}

#[test]
fn an_rpc_is_called_wherever_its_provider_is() {
    let three = Three::start(&[]);
    wait_until_all_vote(&three.running(), None);
    let clients: Vec<Client> = three.running().iter().map(|controller| client_with(controller, None)).collect();
    let people = Path::parse("/people:people").unwrap();
    let offers = vec![("people:add-person".to_owned(), Some(people.clone()))];
    clients[2].serve(offers, PATIENCE, |call| Ok([b"hello ".as_slice(), &call.input].concat())).unwrap();
    for caller in &clients {
        let path = Some(people.child("person", &["ada"]).unwrap());
        let name = "people:add-person".to_owned();
        let body =
            || RequestBody::Call { name: name.clone(), path: path.clone(), input: b"ada".to_vec(), idempotent: true };
        eventually(
            "the offer is known everywhere",
            || matches!(caller.request(body(), PATIENCE), Ok(store::protocol::Answer::Output(output)) if output == b"hello ada"),
        );
    }
    // Nobody offers this one: a clear error at once.
    let body = RequestBody::Call { name: "people:nothing".into(), path: None, input: vec![], idempotent: true };
    let error = clients[0].request(body, PATIENCE).unwrap_err().to_string();
    assert!(error.contains("people:nothing"), "{error}");
}

#[test]
fn servers_need_certificates_of_each_other() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&own, &other] {
        certificates::make(folder.path(), &["127.0.0.1".to_owned()]).unwrap();
    }
    let folder = own.path().to_str().unwrap();
    let three = Three::start(&["--tls", folder, "127.0.0.1"]);
    let tls = Tls::load(&controllers::tls_files(own.path(), "client")).unwrap();
    let endpoints: Vec<String> = three.running().iter().map(|controller| controller.address.clone()).collect();
    wait_until_all_vote(&three.running(), Some(&tls));
    let client = Client::connect(&endpoints, Some(&tls)).unwrap();
    for key in 0..20 {
        put(&client, key, &vec![1; 100_000], PATIENCE).unwrap();
        assert_eq!(get(&client, key).unwrap().map(|value| value.len()), Some(100_000));
    }
    // The fourth has certificates of another authority: it waits in vain, and is not in the cluster.
    let data = tempfile::tempdir().unwrap();
    let other = other.path().to_str().unwrap();
    let mut command = command("c4", data.path(), &["--tls", other, "127.0.0.1", "--join", &endpoints[0]]);
    let mut fourth = command.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(status(&client).map.members().len(), 3);
    fourth.kill().unwrap();
    fourth.wait().unwrap();
}

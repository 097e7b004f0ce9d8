//! Users and roles: what is refused, and from when on.

use std::collections::{BTreeMap, BTreeSet};

use crate::bed::{self, CLIENT, Cluster, Setup, location as at, path};
use machine::nanos::Span;
use machine::{Rng, ServerId};
use placement::access::{Credentials, Grant, Invitation, Operation, ROOT, Scope, Token};
use placement::{AccessCommand, ShardId};
use store::protocol::{Admin, Answer, Consistency, Error, LeaseRequest, RequestBody};
use store::{About, Caller, ClientId, Input, RequestId};
use tree::{Change, Condition, Expect, LeaseId, Transaction};

/// The server's own process.
const OWN_CLIENT: ClientId = ClientId(0);
/// The client that has the role root.
const ROOT_CLIENT: ClientId = CLIENT;
/// Logged in as `ann`.
const ANN: ClientId = ClientId(2);
/// A client that has not logged in.
const STRANGER: ClientId = ClientId(3);

fn certificate(name: &str) -> Credentials {
    Credentials { certificate: Some(name.to_owned()), ..Credentials::default() }
}

impl Cluster {
    fn with_callers(servers: u64) -> Self {
        let mut cluster = Self::found(Setup { servers, ..Setup::default() });
        cluster.timeout_ms = 3_000;
        cluster.run(Span::from_secs(2));
        for (client, caller) in [
            (OWN_CLIENT, Caller::Server),
            (ROOT_CLIENT, Caller::Client(certificate("rita"))),
            (ANN, Caller::Client(certificate("ann"))),
        ] {
            cluster.call_by(client, &caller);
        }
        cluster
    }

    /// With users checked, and a role `drivers` that may do everything to cars' data but watch, which `ann` has.
    fn checked(servers: u64) -> Self {
        let mut cluster = Self::with_callers(servers);
        cluster.change(add_user("rita", &[ROOT]));
        cluster.change(AccessCommand::AddRole { role: "drivers".into() });
        cluster.change(grant(&[Operation::Read, Operation::Write, Operation::Delete], "/car:cars"));
        cluster.change(add_user("ann", &["drivers"]));
        cluster.change(AccessCommand::Enable);
        cluster.run(Span::from_ms(500));
        cluster
    }

    fn call_by(&mut self, client: ClientId, caller: &Caller) {
        for id in self.members.keys() {
            self.queue.push_back((*id, Input::Caller { client, caller: caller.clone() }));
        }
        self.run(Span::from_ms(1));
    }

    /// Changes users as root does, or as the server itself before there is one.
    #[allow(clippy::needless_pass_by_value, reason = "shorter where it is called")]
    fn change(&mut self, command: AccessCommand) {
        let is_enabled = self.server(1).map().access().is_enabled();
        let client = if is_enabled || command == AccessCommand::Enable { ROOT_CLIENT } else { OWN_CLIENT };
        let body = RequestBody::Admin(Admin::Placement(placement::Command::Access {
            revision: None,
            command: command.clone(),
        }));
        let answer = self.ask_as(client, 1, body);
        assert!(matches!(answer, Ok(Answer::Placed(_))), "{command:?}: {answer:?}");
    }

    fn put_as(&mut self, client: ClientId, to: u64, path: &str) -> Result<Answer, Error> {
        self.ask_as(client, to, put(path))
    }
}

fn add_user(user: &str, roles: &[&str]) -> AccessCommand {
    let roles = roles.iter().map(|&role| role.to_owned()).collect();
    AccessCommand::AddUser { user: user.to_owned(), roles, token: None }
}

fn data(operations: &[Operation], path: &str) -> Grant {
    let scope = Scope::Data { datastore: None, path: bed::path(path) };
    Grant { scope, operations: operations.iter().copied().collect() }
}

fn grant(operations: &[Operation], path: &str) -> AccessCommand {
    AccessCommand::Grant { role: "drivers".into(), grant: data(operations, path) }
}

fn revoke(operations: &[Operation], path: &str) -> AccessCommand {
    AccessCommand::Revoke { role: "drivers".into(), grant: data(operations, path) }
}

fn put(path: &str) -> RequestBody {
    bed::put(path, "x")
}

fn watch(path: &str) -> RequestBody {
    RequestBody::Watch { at: at(path), from: BTreeMap::new() }
}

fn is_denied(result: &Result<Answer, Error>) -> bool {
    matches!(result, Err(Error::Denied(_)))
}

/// One request of each kind. What is added to the enums does not compile here until it is added to the list as well.
fn one_of_each() -> Vec<RequestBody> {
    let [stale, fresh] = [Consistency::Stale, Consistency::Linearizable];
    let list = |consistency| RequestBody::List { at: at("/car:cars"), after: None, limit: 1, consistency };
    let admin = [
        Admin::Status,
        Admin::Join { name: "n9".into(), address: "10.0.0.9:6640".into(), nonce: 9, replaces: None },
        Admin::Placement(placement::Command::EnsureModule { module: "car".into() }),
        Admin::Placement(placement::Command::Access { revision: None, command: AccessCommand::Disable }),
        Admin::MoveLeader { shard: ShardId::DEFAULT, to: ServerId(1) },
        Admin::Backup { shard: ShardId::DEFAULT, after: None },
        Admin::Access,
        Admin::Disk,
        Admin::Defragment,
        Admin::BackupLasting { shard: ShardId::DEFAULT, after: None },
        Admin::StoppedReplicas,
        Admin::Health,
        Admin::Alarms,
        Admin::ForceRemove(ServerId(3)),
    ];
    for admin in &admin {
        match admin {
            Admin::Status
            | Admin::Join { .. }
            | Admin::Placement(_)
            | Admin::MoveLeader { .. }
            | Admin::Backup { .. }
            | Admin::Access
            | Admin::Disk
            | Admin::Defragment
            | Admin::BackupLasting { .. }
            | Admin::StoppedReplicas
            | Admin::Health
            | Admin::Alarms
            | Admin::ForceRemove(_) => {}
        }
    }
    let (home, lease) = (|| path("/car:cars"), LeaseId(7));
    let leases = [
        LeaseRequest::Grant { lease, ttl_ms: 1_000, home: home() },
        LeaseRequest::Revoke { lease, at: home() },
        LeaseRequest::KeepAlive { lease, at: home() },
        LeaseRequest::Show { lease, at: home() },
        LeaseRequest::List { shard: ShardId::DEFAULT, after: None },
    ];
    let mut all = vec![
        RequestBody::Get { at: at("/car:cars"), consistency: fresh },
        RequestBody::Get { at: at("/car:cars"), consistency: stale },
        list(fresh),
        list(stale),
        put("/car:cars/car-entry=1"),
        watch("/car:cars"),
        RequestBody::Unwatch { watch: 1 },
        RequestBody::Offer { offers: vec![("car:wash".into(), None)] },
        RequestBody::Call { name: "car:wash".into(), path: None, input: Vec::new(), idempotent: true },
        RequestBody::WhoAmI,
        RequestBody::WriteOrElse {
            transaction: Transaction::default(),
            otherwise: vec![Change::Remove { at: at("/car:cars") }],
        },
        RequestBody::GetAt { at: at("/car:cars"), revision: 1, consistency: fresh },
        RequestBody::ListAt { at: at("/car:cars"), after: None, limit: 1, revision: 1, consistency: stale },
        RequestBody::Window { at: home(), consistency: fresh },
    ];
    all.extend(leases.clone().map(RequestBody::Lease));
    for lease in leases {
        match lease {
            LeaseRequest::Grant { .. }
            | LeaseRequest::Revoke { .. }
            | LeaseRequest::KeepAlive { .. }
            | LeaseRequest::Show { .. }
            | LeaseRequest::List { .. } => {}
        }
    }
    for body in &all {
        match body {
            RequestBody::Get { .. }
            | RequestBody::List { .. }
            | RequestBody::Write(_)
            | RequestBody::Watch { .. }
            | RequestBody::Unwatch { .. }
            | RequestBody::Offer { .. }
            | RequestBody::Call { .. }
            | RequestBody::Admin(_)
            | RequestBody::WriteOrElse { .. }
            | RequestBody::GetAt { .. }
            | RequestBody::ListAt { .. }
            | RequestBody::Window { .. }
            | RequestBody::Lease(_)
            | RequestBody::WhoAmI => {}
        }
    }
    all.extend(admin.map(RequestBody::Admin));
    all
}

#[test]
fn nobody_may_do_anything_but_ask_who_he_is_and_root_may_do_all() {
    let mut cluster = Cluster::checked(3);
    for server in 1..=3 {
        for body in one_of_each() {
            let harmless = matches!(body, RequestBody::WhoAmI | RequestBody::Unwatch { .. });
            let answer = cluster.ask_as(STRANGER, server, body.clone());
            assert_eq!(is_denied(&answer), !harmless, "{body:?}: {answer:?}");
        }
    }
    let disable = |body: &RequestBody| {
        matches!(
            body,
            RequestBody::Admin(Admin::Placement(placement::Command::Access { command: AccessCommand::Disable, .. }))
        )
    };
    for body in one_of_each().into_iter().filter(|body| !disable(body)) {
        let answer = cluster.ask_as(ROOT_CLIENT, 2, body.clone());
        assert!(!is_denied(&answer), "{body:?}: {answer:?}");
    }
    assert!(cluster.members.values().all(|member| member.server.counters().denied > 0));
}

#[test]
fn roles_allow_what_they_say_and_no_more() {
    let mut cluster = Cluster::checked(3);
    let get = |path: &str| RequestBody::Get { at: at(path), consistency: Consistency::Linearizable };
    let list =
        |path: &str| RequestBody::List { at: at(path), after: None, limit: 9, consistency: Consistency::Linearizable };
    for server in 1..=3 {
        for body in [put("/car:cars/car-entry=1"), get("/car:cars/car-entry=1"), list("/car:cars")] {
            let answer = cluster.ask_as(ANN, server, body.clone());
            assert!(answer.is_ok(), "{body:?}: {answer:?}");
        }
        for body in [put("/car:carsharing"), get("/people:people"), list("/car:"), list("/"), watch("/car:cars")] {
            let answer = cluster.ask_as(ANN, server, body.clone());
            assert!(is_denied(&answer), "{body:?}: {answer:?}");
        }
    }
    // Of a transaction each change and each condition has to be allowed.
    let condition = |path: &str| Condition { at: at(path), expect: Expect::Absent };
    let change = || Change::Put { at: at("/car:cars/car-entry=2"), value: b"y"[..].into() };
    let elsewhere = Change::Remove { at: at("/people:people") };
    for (conditions, changes, allowed) in [
        (vec![condition("/car:cars/car-entry=3")], vec![change()], true),
        (vec![condition("/people:people")], vec![change()], false),
        (Vec::new(), vec![change(), elsewhere], false),
    ] {
        let answer = cluster.ask_as(ANN, 2, RequestBody::Write(Transaction { conditions, changes }));
        assert_eq!(answer.is_ok(), allowed, "{answer:?}");
        assert_eq!(is_denied(&answer), !allowed);
    }
    assert!(
        cluster.ask_as(ANN, 1, RequestBody::Admin(Admin::Status)).is_err_and(|error| error.to_string().contains("ann"))
    );
}

#[test]
fn an_error_says_nothing_of_rpcs_that_others_offer() {
    let mut cluster = Cluster::checked(3);
    let calls = Grant { scope: Scope::Rpc { name: "mal:".into(), path: None }, operations: [Operation::Call].into() };
    cluster.change(AccessCommand::Grant { role: "drivers".into(), grant: calls });
    let secret = ("mal:open".to_owned(), Some(path("/job:jobs/secret=launch")));
    let offers = ["pal:transfer", "zzz:far", "mal:hidden"].map(|name| (name.to_owned(), None));
    let offers = offers.into_iter().chain([secret]).collect();
    cluster.ask_as(ROOT_CLIENT, 2, RequestBody::Offer { offers }).unwrap();
    cluster.run(Span::from_secs(1));
    let call = |name: &str, at: Option<&str>| RequestBody::Call {
        name: name.to_owned(),
        path: at.map(path),
        input: Vec::new(),
        idempotent: true,
    };
    for (name, at) in [
        ("mal:transfer", None),
        ("mal:far", None),
        ("mal:hidden2", None),
        ("mal:open", None),
        ("mal:open", Some("/car:few/x")),
        ("mal:nothing-like-it", None),
    ] {
        let error = cluster.ask_as(ANN, 1, call(name, at)).expect_err("nobody offers it").to_string();
        let without = error.replace(name, "");
        let disclosed = ["pal", "zzz", "hidden", "open", "job", "launch"].iter().find(|word| without.contains(*word));
        assert_eq!(disclosed, None, "{error}");
    }
    // Where users are not checked, everybody may see what is offered.
    cluster.change(AccessCommand::Disable);
    cluster.run(Span::from_secs(1));
    let error = cluster.ask_as(ANN, 1, call("mal:hidden2", None)).expect_err("nobody offers it").to_string();
    assert!(error.contains("offered are mal:hidden"), "{error}");
}

#[test]
fn a_right_that_was_taken_away_is_gone_at_a_server_that_did_not_hear_of_it() {
    let mut cluster = Cluster::checked(3);
    let leader = (1..=3).find(|id| leads_meta(&cluster, *id)).unwrap();
    let away = (1..=3).rev().find(|id| *id != leader && *id != 1).unwrap();
    assert!(cluster.put_as(ANN, away, "/car:cars/car-entry=1").is_ok());
    cluster.cut_off.insert(ServerId(away));
    cluster.change(revoke(&[Operation::Read, Operation::Write], "/car:cars"));
    let get = RequestBody::Get { at: at("/car:cars/car-entry=1"), consistency: Consistency::Linearizable };
    for body in [put("/car:cars/car-entry=1"), get.clone()] {
        let answer = cluster.ask_as(ANN, away, body);
        assert!(matches!(answer, Err(Error::Timeout { .. })), "{answer:?}");
    }
    cluster.cut_off.clear();
    // At once: it asks how new its map has to be.
    for body in [put("/car:cars/car-entry=1"), get] {
        let answer = cluster.ask_as(ANN, away, body);
        assert!(is_denied(&answer) || answer.as_ref().is_err_and(Error::is_transient), "{answer:?}");
    }
    cluster.run(Span::from_secs(3));
    assert!(is_denied(&cluster.put_as(ANN, away, "/car:cars/car-entry=1")));
}

fn leads_meta(cluster: &Cluster, id: u64) -> bool {
    cluster.leader(ShardId::META) == Some(ServerId(id))
}

#[test]
fn a_watch_ends_when_the_right_to_it_does() {
    let mut cluster = Cluster::checked(3);
    cluster.change(grant(&[Operation::Watch], "/car:cars"));
    let sequence = cluster.send_as(ANN, 2, watch("/car:cars"));
    cluster.run(Span::from_ms(500));
    assert!(matches!(cluster.answer_to(ANN, sequence), Some(Ok(Answer::Watching { .. }))));
    cluster.put_as(ROOT_CLIENT, 1, "/car:cars/car-entry=1").unwrap();
    cluster.run(Span::from_ms(200));
    assert_eq!(cluster.events.len(), 1);
    // Either right is enough to end it.
    cluster.change(revoke(&[Operation::Read], "/car:cars"));
    cluster.run(Span::from_ms(500));
    assert!(is_denied(&cluster.answer_to(ANN, sequence).expect("the watch was ended")));
    cluster.put_as(ROOT_CLIENT, 1, "/car:cars/car-entry=2").unwrap();
    cluster.run(Span::from_ms(500));
    assert_eq!(cluster.events.len(), 1, "nothing is told any more");
}

#[test]
fn a_watch_ends_at_a_server_that_cannot_know_whether_it_may_go_on() {
    let mut cluster = Cluster::checked(3);
    cluster.change(grant(&[Operation::Watch], "/car:cars"));
    let away = (2..=3).find(|id| !leads_meta(&cluster, *id)).unwrap();
    let sequence = cluster.send_as(ANN, away, watch("/car:cars"));
    // The watch of the server's own process is nobody's business.
    let own = cluster.send_as(OWN_CLIENT, away, watch("/car:cars"));
    cluster.run(Span::from_secs(20));
    assert!(matches!(cluster.answer_to(ANN, sequence), Some(Ok(Answer::Watching { .. }))));
    assert!(matches!(cluster.answer_to(OWN_CLIENT, own), Some(Ok(Answer::Watching { .. }))));
    assert_eq!(cluster.answer_to(ANN, sequence), None, "it goes on while the leader is there");
    cluster.cut_off.insert(ServerId(away));
    cluster.run(Span::from_secs(8));
    assert!(matches!(cluster.answer_to(ANN, sequence), Some(Err(Error::Elsewhere { .. }))));
    assert_eq!(cluster.answer_to(OWN_CLIENT, own), None);
}

#[test]
fn an_open_connection_is_worth_nothing_when_its_user_or_token_is_gone() {
    let mut cluster = Cluster::checked(3);
    let token = |byte: u8, expires_s| Token { hash: [byte; 32], expires_s };
    let client = |byte: u8| Caller::Client(Credentials { token: Some([byte; 32]), ..Credentials::default() });
    let (bob, guest) = (ClientId(11), ClientId(12));
    let roles = BTreeSet::from(["drivers".to_owned()]);
    let add =
        |user: &str, token| AccessCommand::AddUser { user: user.into(), roles: roles.clone(), token: Some(token) };
    cluster.change(add("bob", token(1, None)));
    cluster.change(add("guest", token(2, Some(1_000))));
    cluster.call_by(bob, &client(1));
    cluster.call_by(guest, &client(2));
    assert!(cluster.put_as(bob, 3, "/car:cars/car-entry=1").is_ok());
    assert!(
        is_denied(&cluster.put_as(guest, 3, "/car:cars/car-entry=1")),
        "a server without a clock takes no token that expires"
    );
    cluster.queue.push_back((ServerId(3), Input::WallClock(990)));
    assert!(cluster.put_as(guest, 3, "/car:cars/car-entry=1").is_ok());
    cluster.run(Span::from_secs(11));
    assert!(is_denied(&cluster.put_as(guest, 3, "/car:cars/car-entry=1")), "it has expired");
    cluster.change(AccessCommand::SetToken { user: "bob".into(), token: Some(token(3, None)) });
    assert!(is_denied(&cluster.put_as(bob, 3, "/car:cars/car-entry=1")), "it has another token");
    assert!(cluster.bad_tokens.contains(&bob) && cluster.bad_tokens.contains(&guest));
    assert!(cluster.put_as(ANN, 2, "/car:cars/car-entry=1").is_ok());
    cluster.change(AccessCommand::DeleteUser { user: "ann".into() });
    assert!(is_denied(&cluster.put_as(ANN, 2, "/car:cars/car-entry=1")));
}

/// With clients of 50 users, who have several watches of a few paths each.
#[test]
fn a_change_of_rights_judges_each_path_of_a_user_once() {
    let mut cluster = Cluster::checked(1);
    cluster.change(grant(&[Operation::Watch], "/car:cars"));
    let clients: Vec<ClientId> = (100..300).map(ClientId).collect();
    for (client, user) in clients.iter().zip((0..50).cycle()) {
        if *client < ClientId(150) {
            cluster.change(add_user(&format!("user{user}"), &["drivers"]));
        }
        cluster.call_by(*client, &Caller::Client(certificate(&format!("user{user}"))));
        for n in 0..30 {
            cluster.send_as(*client, 1, watch(&format!("/car:cars/car-entry={}", n % 3)));
        }
    }
    cluster.run(Span::from_ms(100));
    let watching = |response: &&store::protocol::Response| matches!(response.result, Ok(Answer::Watching { .. }));
    assert_eq!(cluster.answers.values().filter(watching).count(), 6_000);
    let before = cluster.server(1).rights_judged();
    cluster.change(AccessCommand::AddRole { role: "other".into() });
    cluster.run(Span::from_ms(100));
    assert_eq!(cluster.server(1).rights_judged() - before, 150);
    cluster.answers.clear();
    cluster.change(revoke(&[Operation::Watch], "/car:cars"));
    cluster.run(Span::from_ms(100));
    assert_eq!(cluster.server(1).rights_judged() - before, 300);
    let denied = |response: &&store::protocol::Response| matches!(response.result, Err(Error::Denied(_)));
    assert_eq!(cluster.answers.values().filter(denied).count(), 6_000, "all of them end");
}

#[test]
fn what_was_opened_with_a_token_ends_when_it_expires() {
    let mut cluster = Cluster::checked(3);
    cluster.change(grant(&[Operation::Watch], "/car:cars"));
    let rpcs = Grant {
        scope: Scope::Rpc { name: "car:".into(), path: None },
        operations: [Operation::Offer, Operation::Call].into(),
    };
    cluster.change(AccessCommand::Grant { role: "drivers".into(), grant: rpcs });
    let (guest, other) = (ClientId(12), ClientId(13));
    let token = |byte: u8| Token { hash: [byte; 32], expires_s: Some(1_000 * u64::from(byte)) };
    for (user, byte, client) in [("guest", 1, guest), ("other", 2, other)] {
        cluster.change(AccessCommand::AddUser {
            user: user.into(),
            roles: ["drivers".to_owned()].into(),
            token: Some(token(byte)),
        });
        cluster.queue.push_back((ServerId(3), Input::WallClock(990)));
        cluster.call_by(client, &Caller::Client(Credentials { token: Some([byte; 32]), ..Credentials::default() }));
    }
    let watch_of = |cluster: &mut Cluster, client| {
        let sequence = cluster.send_as(client, 3, watch("/car:cars"));
        cluster.run(Span::from_ms(500));
        assert!(matches!(cluster.answer_to(client, sequence), Some(Ok(Answer::Watching { .. }))));
        sequence
    };
    let offered = |cluster: &Cluster| cluster.server(3).status(cluster.now).offers[&ServerId(3)].len();
    let watched = [watch_of(&mut cluster, guest), watch_of(&mut cluster, other)];
    cluster.ask_as(guest, 3, RequestBody::Offer { offers: vec![("car:wash".into(), None)] }).unwrap();
    cluster.run(Span::from_secs(5));
    assert_eq!((cluster.answer_to(guest, watched[0]), offered(&cluster)), (None, 1), "it is good still");
    cluster.run(Span::from_secs(6));
    assert!(is_denied(&cluster.answer_to(guest, watched[0]).expect("the watch has ended")));
    assert_eq!(offered(&cluster), 0);
    assert_eq!(cluster.answer_to(other, watched[1]), None, "another's token is good for longer");
    // The clock is set back: the token is good again, and expires again.
    cluster.queue.push_back((ServerId(3), Input::WallClock(995)));
    let again = watch_of(&mut cluster, guest);
    cluster.run(Span::from_secs(6));
    assert!(is_denied(&cluster.answer_to(guest, again).expect("the watch has ended")));
    cluster.queue.push_back((ServerId(3), Input::WallClock(2_000)));
    cluster.run(Span::from_ms(100));
    assert!(is_denied(&cluster.answer_to(other, watched[1]).expect("the watch has ended")));
}

#[test]
fn only_root_switches_it_on_and_an_invited_server_may_join_and_nothing_else() {
    let mut cluster = Cluster::with_callers(3);
    cluster.change(add_user("rita", &[ROOT]));
    let enable = RequestBody::Admin(Admin::Placement(placement::Command::Access {
        revision: None,
        command: AccessCommand::Enable,
    }));
    assert!(matches!(cluster.ask_as(STRANGER, 1, enable.clone()), Err(Error::Invalid(_))));
    assert!(cluster.ask_as(ROOT_CLIENT, 1, enable).is_ok());
    let invitation = Invitation { token: Token { hash: [5; 32], expires_s: None }, replaces: None };
    cluster.change(AccessCommand::Invite { server: "n4".into(), invitation });
    let joiner = ClientId(20);
    cluster.call_by(joiner, &Caller::Client(Credentials { token: Some([5; 32]), ..Credentials::default() }));
    let join = |name: &str, nonce, replaces| {
        RequestBody::Admin(Admin::Join { name: name.into(), address: format!("10.0.0.{nonce}:1"), nonce, replaces })
    };
    assert!(is_denied(&cluster.ask_as(joiner, 2, join("n5", 5, None))));
    assert!(is_denied(&cluster.ask_as(joiner, 2, join("n4", 4, Some(ServerId(1))))));
    assert!(is_denied(&cluster.ask_as(joiner, 2, RequestBody::Admin(Admin::Status))));
    assert!(is_denied(&cluster.ask_as(STRANGER, 2, join("n4", 4, None))));
    let joined = cluster.ask_as(joiner, 2, join("n4", 4, None));
    assert!(matches!(joined, Ok(Answer::Joined { .. })), "{joined:?}");
    // Again, because the answer was lost: the same. Another folder: its name is taken.
    assert_eq!(cluster.ask_as(joiner, 2, join("n4", 4, None)), joined);
    assert!(matches!(cluster.ask_as(joiner, 2, join("n4", 9, None)), Err(Error::Invalid(_))));
}

/// Random cuts, requests and changes of rights, many times: what was begun after the answer to a revocation, and before
/// the next grant was begun, must not succeed, and what was never revoked must.
#[test]
fn no_request_succeeds_that_began_after_its_right_was_taken_away() {
    let (mut succeeded, mut denied, mut timeouts) = (0, 0, 0);
    for seed in 0..7 {
        let mut rng = Rng::new(seed);
        let mut cluster = Cluster::checked(3);
        // Whether the right may be there: set before a grant is asked for, cleared when a revocation was answered.
        let mut may_be_granted = true;
        let mut change: Option<(u64, bool)> = None;
        let mut asked: BTreeMap<u64, bool> = BTreeMap::new();
        for _ in 0..250 {
            match rng.below(20) {
                0 => {
                    cluster.cut_off.insert(ServerId(1 + u64::from(rng.below(3))));
                    while cluster.cut_off.len() > 1 {
                        cluster.cut_off.pop_first();
                    }
                }
                1..3 => cluster.cut_off.clear(),
                3..6 if change.is_none() => {
                    let is_grant = rng.below(2) == 0;
                    may_be_granted |= is_grant;
                    if is_grant {
                        // Requests that still wait may be let through by it.
                        for may in asked.values_mut() {
                            *may = true;
                        }
                    }
                    let command = [revoke, grant][usize::from(is_grant)](&[Operation::Write], "/car:cars");
                    let body =
                        RequestBody::Admin(Admin::Placement(placement::Command::Access { revision: None, command }));
                    let to = 1 + u64::from(rng.below(3));
                    change = Some((cluster.send_as(ROOT_CLIENT, to, body), is_grant));
                }
                _ => {
                    let to = 1 + u64::from(rng.below(3));
                    let sequence = cluster.send_as(ANN, to, put("/car:cars/car-entry=1"));
                    asked.insert(sequence, may_be_granted);
                }
            }
            cluster.run(Span::from_ms(u64::from(1 + rng.below(120))));
            if let Some((sequence, is_grant)) = change
                && let Some(result) = cluster.answer_to(ROOT_CLIENT, sequence)
            {
                match result {
                    Ok(_) if !is_grant => may_be_granted = false,
                    // A grant that nobody knows whether it happened may happen yet: it is asked until it was answered.
                    Ok(_) => {}
                    Err(_) => may_be_granted = true,
                }
                change = None;
            }
            for (sequence, may) in std::mem::take(&mut asked) {
                match cluster.answer_to(ANN, sequence) {
                    None => drop(asked.insert(sequence, may)),
                    Some(Ok(_)) => {
                        assert!(may, "seed {seed}: request {sequence} began after the right to it was taken away");
                        succeeded += 1;
                    }
                    Some(Err(Error::Denied(_))) => denied += 1,
                    Some(Err(_)) => timeouts += 1,
                }
            }
        }
    }
    assert!(succeeded > 100 && denied > 100 && timeouts > 10, "{succeeded} {denied} {timeouts}");
}

#[test]
fn requests_that_wait_for_their_check_are_in_the_budget() {
    let mut cluster = Cluster::checked(3);
    let alone = (1..=3).find(|id| !leads_meta(&cluster, *id)).expect("one leads, and two don't");
    cluster.cut_off.insert(ServerId(alone));
    let value = vec![0; 900_000];
    let sent: Vec<u64> =
        (0..400).map(|key| cluster.send_as(ANN, alone, bed::put(&format!("/car:cars/car={key}"), &value))).collect();
    cluster.run(Span::from_ms(100));
    let memory = cluster.server(alone).memory();
    // As much as one client may hold, and answers to the others.
    assert!(memory.used_bytes < memory.limit_bytes / 3 && memory.used_bytes > memory.limit_bytes / 8, "{memory:?}");
    let refused = sent.iter().filter(|sequence| {
        let answer = cluster.answers.get(&(ANN, **sequence)).map(|response| &response.result);
        matches!(answer, Some(Err(Error::Overloaded { .. })))
    });
    assert!(refused.count() > 200);
    // Some have waited in vain, and some are gone with their client.
    cluster.queue.push_back((ServerId(alone), Input::ClientGone(ANN)));
    cluster.run(Span::from_secs(5));
    assert_eq!(cluster.server(alone).memory().used_bytes, 0);
}

#[test]
fn what_waits_is_counted_whatever_it_is() {
    let mut cluster = Cluster::checked(3);
    let alone = (1..=3).find(|id| !leads_meta(&cluster, *id)).expect("one leads, and two don't");
    cluster.cut_off.insert(ServerId(alone));
    let value = || vec![0; 900_000];
    let condition = Condition { at: at("/car:cars"), expect: Expect::NotValue(value().into()) };
    let transaction = Transaction { conditions: vec![condition], changes: Vec::new() };
    let name = "x".repeat(900_000);
    let command = placement::Command::EnsureModule { module: name.clone() };
    for body in [
        RequestBody::Write(transaction),
        RequestBody::Offer { offers: vec![(name.clone(), None)] },
        RequestBody::Call { name, path: None, input: Vec::new(), idempotent: false },
        RequestBody::Admin(Admin::Placement(command)),
    ] {
        let before = cluster.server(alone).memory().used_bytes;
        cluster.send_as(STRANGER, alone, body.clone());
        cluster.run(Span::from_ms(1));
        assert!(cluster.server(alone).memory().used_bytes >= before + 900_000, "{body:?}");
    }
}

#[test]
fn an_offer_that_is_made_a_million_times_is_one() {
    let mut cluster = Cluster::with_callers(1);
    let distinct: Vec<_> = (0..4_000).map(|n| (format!("car:stop{n}"), None)).collect();
    assert_eq!(cluster.ask(1, RequestBody::Offer { offers: distinct }), Ok(Answer::Done));
    let same = vec![("car:stop".to_owned(), None); 1_000_000];
    assert_eq!(cluster.ask(1, RequestBody::Offer { offers: same }), Ok(Answer::Done));
}

#[test]
fn an_entry_that_would_fit_no_message_is_refused() {
    let mut cluster = Cluster::with_callers(3);
    let leader = (1..=3).find(|id| leads_meta(&cluster, *id)).expect("one leads");
    let servers = (0..3_000_000).map(|n| ServerId(n + (1 << 40))).collect();
    let command =
        placement::Command::SetReplicas { id: ShardId::DEFAULT, replicas: placement::Replicas::Servers(servers) };
    let answer = cluster.ask_as(OWN_CLIENT, leader, RequestBody::Admin(Admin::Placement(command)));
    assert!(matches!(&answer, Err(Error::Invalid(text)) if text.contains("an entry of the log")), "{answer:?}");
    // And meta goes on.
    cluster.change(add_user("rita", &[ROOT]));
}

/// A client may give all its requests the same sequence, and a driver that keeps a log still learns what came of which.
#[test]
fn each_answer_says_which_request_it_is_for() {
    let mut cluster = Cluster::checked(1);
    cluster.change(grant(&[Operation::Watch], "/car:cars"));
    let get = |path: &str, consistency| RequestBody::Get { at: at(path), consistency };
    cluster.about.clear();
    let begun = cluster.requests;
    // The stale read is judged at once, and answered before those that came before it.
    let from = BTreeMap::new();
    for body in [
        put("/car:cars/car-entry=1"),
        get("/job:jobs", Consistency::Stale),
        get("/job:jobs", Consistency::Linearizable),
        RequestBody::Watch { at: at("/car:cars"), from },
        RequestBody::Unwatch { watch: 8 },
    ] {
        cluster.send_again(ANN, 7, 1, body);
    }
    cluster.run(Span::from_ms(500));
    let outcomes: BTreeMap<u64, bool> = (cluster.about.drain(..))
        .map(|(client, about, response)| match about {
            About::Request(RequestId(id)) if client == ANN => (id - begun, response.result.is_ok()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(outcomes, [(1, true), (2, false), (3, false), (4, true), (5, true)].into());
    // The end of the watch is no answer to anything.
    cluster.change(revoke(&[Operation::Watch], "/car:cars"));
    cluster.run(Span::from_ms(500));
    let (_, about, response) = cluster.about.iter().find(|(client, ..)| *client == ANN).expect("the watch has ended");
    assert_eq!(*about, About::EndOfWatch { session: ANN.0 + 1, at: at("/car:cars") });
    assert!(response.sequence == 7 && matches!(response.result, Err(Error::Denied(_))), "{response:?}");
}

/// A client that says nothing more is answered, and watches nothing: also what had to be checked first.
#[test]
fn who_is_silent_gets_answers_and_no_events() {
    let mut cluster = Cluster::checked(1);
    cluster.change(grant(&[Operation::Watch], "/car:cars"));
    let watch = || RequestBody::Watch { at: at("/car:cars"), from: BTreeMap::new() };
    assert!(cluster.ask_as(ANN, 1, watch()).is_ok());
    let read = RequestBody::Get { at: at("/car:cars/car-entry=1"), consistency: Consistency::Linearizable };
    let read = cluster.send_as(ANN, 1, read);
    cluster.queue.push_back((ServerId(1), Input::ClientSilent(ANN)));
    let late = cluster.send_as(ANN, 1, watch());
    cluster.run(Span::from_ms(500));
    assert_eq!(cluster.answer_to(ANN, read), Some(Ok(Answer::Value(None))));
    assert!(matches!(cluster.answer_to(ANN, late), Some(Err(Error::Invalid(_)))));
    assert!(!cluster.server(1).owes_answers(ANN));
    cluster.put(1, "/car:cars/car-entry=1", "red");
    cluster.run(Span::from_ms(500));
    assert!(cluster.events.is_empty() && cluster.server(1).watch_bytes() == 0);
}

//! Roles and users: what is allowed, against a slow model that is obviously right; what is refused; how it is kept.

use std::collections::{BTreeMap, BTreeSet};

use machine::ServerId;
use placement::access::{Credentials, Grant, Identity, Invitation, Need, Operation, ROOT, Scope, Token};
use placement::{AccessCommand, Command, Effect, Map, Refusal};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use tree::{Datastore, Location, Path};

const PATHS: [&str; 11] = [
    "/",
    "/car:",
    "/car:cars",
    "/car:carsharing",
    "/car:cars/car-entry",
    "/car:cars/car-entry=1",
    "/car:cars/car-entry=1/price",
    "/car:cars/car-entry=11",
    "/car:cars/car-entry-old=1",
    "/carpet:cars",
    "/people:people",
];

const RPCS: [&str; 4] = ["people:add-person", "people:add", "peoples:add", "car:wash"];

fn path(text: &str) -> Path {
    Path::parse(text).expect("the tests' paths are well-formed")
}

fn apply(map: &mut Map, command: AccessCommand) -> Result<Effect, Refusal> {
    map.apply(map.applied() + 1, whenever(command))
}

/// Whatever roles and users there are.
fn whenever(command: AccessCommand) -> Command {
    Command::Access { revision: None, command }
}

fn add_role(role: &str) -> AccessCommand {
    AccessCommand::AddRole { role: role.to_owned() }
}

fn add_user(user: &str, roles: &[&str], token: Option<Token>) -> AccessCommand {
    AccessCommand::AddUser { user: user.to_owned(), roles: roles.iter().map(|&role| role.to_owned()).collect(), token }
}

fn data(operations: &[Operation], datastore: Option<Datastore>, at: &str) -> Grant {
    let operations = operations.iter().copied().collect();
    Grant { scope: Scope::Data { datastore, path: path(at) }, operations }
}

fn token(byte: u8, expires_s: Option<u64>) -> Token {
    Token { hash: [byte; 32], expires_s }
}

fn invite(server: &str, byte: u8) -> AccessCommand {
    let invitation = Invitation { token: token(byte, None), replaces: Some(ServerId(7)) };
    AccessCommand::Invite { server: server.to_owned(), invitation }
}

fn with_token(byte: u8) -> Credentials {
    Credentials { token: Some([byte; 32]), ..Credentials::default() }
}

fn with_certificate(name: &str) -> Credentials {
    Credentials { certificate: Some(name.to_owned()), ..Credentials::default() }
}

/// Whether the user may do something to config's data.
fn may(map: &Map, user: &str, operation: Operation, at: &str) -> bool {
    map.access().allows(user, &Need::Data { operation, at: &Location::config(path(at)) })
}

#[test]
fn a_prefix_ends_where_a_segment_ends() {
    let mut map = Map::new();
    apply(&mut map, add_role("drivers")).unwrap();
    let grant = data(&[Operation::Read], None, "/car:cars");
    apply(&mut map, AccessCommand::Grant { role: "drivers".into(), grant }).unwrap();
    apply(&mut map, add_user("ann", &["drivers"], None)).unwrap();
    for inside in ["/car:cars", "/car:cars/car-entry=1", "/car:cars/car-entry"] {
        assert!(may(&map, "ann", Operation::Read, inside), "{inside}");
    }
    for outside in ["/", "/car:", "/car:carsharing", "/carpet:cars", "/people:people"] {
        assert!(!may(&map, "ann", Operation::Read, outside), "{outside}");
    }
    assert!(!may(&map, "ann", Operation::Write, "/car:cars"));
    assert!(!may(&map, "bob", Operation::Read, "/car:cars"));
}

#[test]
fn somebody_is_always_root_while_users_are_checked() {
    let mut map = Map::new();
    let refused =
        |result: Result<Effect, Refusal>| assert!(matches!(result, Err(Refusal::Access { .. })), "{result:?}");
    refused(apply(&mut map, AccessCommand::Enable));
    apply(&mut map, add_user("ann", &[ROOT], None)).unwrap();
    apply(&mut map, add_user("bob", &[], None)).unwrap();
    assert_eq!(apply(&mut map, AccessCommand::Enable), Ok(Effect::Changed));
    assert_eq!(apply(&mut map, AccessCommand::Enable), Ok(Effect::Unchanged));
    refused(apply(&mut map, AccessCommand::DeleteUser { user: "ann".into() }));
    refused(apply(&mut map, AccessCommand::Unassign { user: "ann".into(), role: ROOT.into() }));
    refused(apply(&mut map, AccessCommand::DeleteRole { role: ROOT.into() }));
    apply(&mut map, AccessCommand::Assign { user: "bob".into(), role: ROOT.into() }).unwrap();
    apply(&mut map, AccessCommand::DeleteUser { user: "ann".into() }).unwrap();
    assert!(map.access().is_enabled() && map.access().is_root("bob"));
    apply(&mut map, AccessCommand::Disable).unwrap();
    apply(&mut map, AccessCommand::DeleteUser { user: "bob".into() }).unwrap();
}

#[test]
fn a_deleted_role_is_gone_from_its_users_and_does_not_come_back_by_its_name() {
    let mut map = Map::new();
    apply(&mut map, add_role("a")).unwrap();
    apply(&mut map, add_user("ann", &["a"], None)).unwrap();
    apply(&mut map, AccessCommand::DeleteRole { role: "a".into() }).unwrap();
    apply(&mut map, add_role("a")).unwrap();
    let grant = data(&[Operation::Read], None, "/");
    apply(&mut map, AccessCommand::Grant { role: "a".into(), grant }).unwrap();
    assert!(!may(&map, "ann", Operation::Read, "/car:cars"));
}

#[test]
fn tokens_certificates_and_uids_name_users() {
    let mut map = Map::new();
    apply(&mut map, add_user("ann", &[], Some(token(1, Some(1_000))))).unwrap();
    apply(&mut map, add_user("uid:7", &[], None)).unwrap();
    let refused = apply(&mut map, add_user("bob", &[], Some(token(1, None))));
    assert!(matches!(refused, Err(Refusal::Access { .. })), "two have one token: {refused:?}");
    apply(&mut map, invite("c2", 2)).unwrap();
    let access = map.access();
    assert_eq!(access.identify(&with_token(1), Some(999)), Identity::User("ann"));
    assert_eq!(access.identify(&with_token(1), Some(1_000)), Identity::Nobody, "it has expired");
    assert_eq!(access.identify(&with_token(1), None), Identity::Nobody, "nobody knows the time");
    assert_eq!(access.identify(&with_token(2), None), Identity::Invited { name: "c2", replaces: Some(ServerId(7)) });
    assert_eq!(access.identify(&with_certificate("ann"), None), Identity::User("ann"));
    assert_eq!(access.identify(&with_certificate("uid:7"), None), Identity::Nobody, "a certificate is no uid");
    let uid = Credentials { uid: Some(7), ..Credentials::default() };
    assert_eq!(access.identify(&uid, None), Identity::User("uid:7"));
    let both = Credentials { token: Some([9; 32]), ..with_certificate("ann") };
    assert_eq!(access.identify(&both, None), Identity::Nobody, "a wrong token spoils the rest");
    assert_eq!(access.identify(&Credentials::default(), None), Identity::Nobody);
}

/// Beside a search through all, also after the map has been written and read.
#[test]
fn a_token_is_its_holders_as_long_as_he_has_it() {
    let mut map = Map::new();
    let holds = |map: &Map, holders: &[(u8, Identity<'_>)]| {
        for map in [map.clone(), Map::decode(&map.encode()).expect("it was written by a map")] {
            for byte in 0..9 {
                let held = holders.iter().find(|(of, _)| *of == byte).map_or(Identity::Nobody, |(_, who)| *who);
                assert_eq!(map.access().identify(&with_token(byte), None), held, "token {byte}");
            }
        }
    };
    let invited = |name| Identity::Invited { name, replaces: Some(ServerId(7)) };
    let set = |user: &str, token| AccessCommand::SetToken { user: user.into(), token };
    apply(&mut map, add_user("ann", &[], Some(token(1, None)))).unwrap();
    apply(&mut map, add_user("bob", &[], Some(token(2, None)))).unwrap();
    apply(&mut map, invite("c2", 3)).unwrap();
    holds(&map, &[(1, Identity::User("ann")), (2, Identity::User("bob")), (3, invited("c2"))]);
    apply(&mut map, set("ann", Some(token(4, None)))).unwrap();
    apply(&mut map, invite("c2", 5)).unwrap();
    holds(&map, &[(2, Identity::User("bob")), (4, Identity::User("ann")), (5, invited("c2"))]);
    apply(&mut map, AccessCommand::DeleteUser { user: "bob".into() }).unwrap();
    apply(&mut map, set("ann", None)).unwrap();
    holds(&map, &[(5, invited("c2"))]);
    apply(&mut map, add_user("bob", &[], Some(token(1, Some(1_000))))).unwrap();
    holds(&map, &[(5, invited("c2"))]);
    assert_eq!(map.access().expires_s(&with_token(1)), Some(1_000));
    assert_eq!(map.access().expires_s(&with_token(5)), None);
    assert_eq!(map.access().expires_s(&with_certificate("bob")), None, "a certificate has an end of its own");
}

#[test]
fn a_late_repetition_gives_no_right_back() {
    let mut map = Map::new();
    apply(&mut map, add_role("a")).unwrap();
    let read = || data(&[Operation::Read], None, "/");
    let revision = Some(map.access().revision());
    let command = Command::Access { revision, command: AccessCommand::Grant { role: "a".into(), grant: read() } };
    assert_eq!(map.apply(map.applied() + 1, command.clone()), Ok(Effect::Changed));
    assert_eq!(map.apply(map.applied() + 1, command.clone()), Ok(Effect::Unchanged), "its answer was lost");
    apply(&mut map, AccessCommand::Revoke { role: "a".into(), grant: read() }).unwrap();
    let before = map.access().clone();
    assert!(matches!(map.apply(map.applied() + 1, command), Err(Refusal::Access { .. })));
    assert_eq!(*map.access(), before);
    assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
}

#[test]
fn a_server_that_was_removed_needs_another_invitation() {
    let mut map = Map::new();
    for (index, name) in ["c1", "c2"].into_iter().enumerate() {
        let (address, nonce) = (format!("host:700{index}"), index as u64);
        map.apply(map.applied() + 1, Command::AddServer { name: name.into(), address, metrics: None, nonce }).unwrap();
    }
    apply(&mut map, invite("c2", 2)).unwrap();
    map.apply(map.applied() + 1, Command::RemoveServer { id: ServerId(2) }).unwrap();
    assert_eq!(map.access().identify(&with_token(2), None), Identity::Nobody);
}

#[test]
fn operations_have_to_fit_their_scope_and_names_be_names() {
    let rpc = |name: &str| Scope::Rpc { name: name.to_owned(), path: None };
    for grant in [
        data(&[], None, "/"),
        data(&[Operation::Call], None, "/"),
        Grant { scope: rpc("x:y"), operations: BTreeSet::from([Operation::Read]) },
        Grant { scope: rpc("x\ny"), operations: BTreeSet::from([Operation::Call]) },
        Grant { scope: Scope::Cluster, operations: BTreeSet::from([Operation::Read]) },
    ] {
        let command = whenever(AccessCommand::Grant { role: "a".into(), grant });
        assert!(command.check().unwrap_err().to_string().contains("hint: "), "{command:?}");
    }
    for user in ["", "uid:", "uid:+1", "uid:01", "uid:4294967296", "a b", "-a", "ä", "a\n", "a:b", &"a".repeat(129)] {
        assert!(whenever(add_user(user, &[], None)).check().is_err(), "{user:?}");
    }
    for user in ["ann", "ann.b@example.org", "uid:0", "127.0.0.1"] {
        assert_eq!(whenever(add_user(user, &[], None)).check(), Ok(()), "{user}");
    }
}

/// What version 1 wrote, byte for byte, as long as nobody has used roles.
#[test]
fn a_map_without_users_is_written_as_by_version_1() {
    #[derive(serde::Serialize)]
    struct Version1<'a>(&'a Map);
    let mut map = Map::new();
    let command = Command::AddServer { name: "c1".into(), address: "h:1".into(), metrics: None, nonce: 1 };
    map.apply(1, command).unwrap();
    let mut before = vec![1];
    before.extend(postcard::to_stdvec(&Version1(&map)).unwrap());
    assert_eq!(map.encode(), before);
    apply(&mut map, add_user("ann", &[ROOT], Some(token(3, None)))).unwrap();
    let bytes = map.encode();
    assert!(bytes.len() > before.len());
    assert_eq!(Map::decode(&bytes).as_ref(), Ok(&map));
    for cut in 0..bytes.len() {
        assert!(Map::decode(&bytes[..cut]).as_ref() != Ok(&map), "{cut} of {} bytes", bytes.len());
    }
    let shown = postcard::to_stdvec(&map).unwrap();
    assert!(!shown.windows(32).any(|bytes| bytes == [3; 32]), "a map that is shown holds no hash");
}

#[test]
fn a_part_of_a_newer_program_is_refused() {
    let mut bytes = Map::new().encode();
    bytes.extend(postcard::to_stdvec(&(9_999_u32, "x")).unwrap());
    assert!(Map::decode(&bytes).unwrap_err().to_string().contains("newer"));
}

// The model: what each user was granted, one path and one operation at a time.

/// A grant taken apart: role, datastore, path, operation.
type Atom = (String, Datastore, String, Operation);

#[derive(Default)]
struct Model {
    grants: BTreeSet<Atom>,
    rpcs: BTreeSet<(String, String, Option<String>, Operation)>,
    cluster: BTreeSet<(String, Operation)>,
    users: BTreeMap<String, BTreeSet<String>>,
}

/// Containment by walking up from the inner path, segment by segment, as a person would.
fn is_within(inner: &str, outer: &str) -> bool {
    let inner = path(inner);
    if outer == "/" || inner.as_str() == outer {
        return true;
    }
    if outer.ends_with(':') {
        return inner.as_str() != "/" && inner.module() == Some(&outer[1..outer.len() - 1]);
    }
    let mut at = Some(inner);
    while let Some(here) = at {
        let text = here.as_str().to_owned();
        // A list contains its entries.
        let last = text.rfind('/').unwrap_or(0);
        let without_keys = text[last..].split_once('=').map(|(name, _)| format!("{}{name}", &text[..last]));
        if text == outer || without_keys.as_deref() == Some(outer) {
            return true;
        }
        at = here.parent();
    }
    false
}

impl Model {
    fn note(&mut self, role: &str, grant: &Grant, is_granted: bool) {
        fn set<T: Ord>(set: &mut BTreeSet<T>, value: T, is_granted: bool) {
            if is_granted {
                set.insert(value);
            } else {
                set.remove(&value);
            }
        }
        for &operation in &grant.operations {
            match &grant.scope {
                Scope::Data { datastore, path } => {
                    let kept = format!("{}{}", if datastore.is_some() { "" } else { "*" }, path.as_str());
                    for each in Datastore::ALL.into_iter().filter(|each| datastore.is_none_or(|it| it == *each)) {
                        set(&mut self.grants, (role.to_owned(), each, kept.clone(), operation), is_granted);
                    }
                }
                Scope::Rpc { name, path } => {
                    let path = path.as_ref().map(ToString::to_string);
                    set(&mut self.rpcs, (role.to_owned(), name.clone(), path, operation), is_granted);
                }
                Scope::Cluster => set(&mut self.cluster, (role.to_owned(), operation), is_granted),
            }
        }
    }

    fn roles_of(&self, user: &str) -> BTreeSet<String> {
        self.users.get(user).cloned().unwrap_or_default()
    }

    fn may_data(&self, user: &str, operation: Operation, datastore: Datastore, at: &str) -> bool {
        let roles = self.roles_of(user);
        roles.contains(ROOT)
            || self.grants.iter().any(|(role, of, path, granted)| {
                let path = path.trim_start_matches('*');
                roles.contains(role) && *of == datastore && *granted == operation && is_within(at, path)
            })
    }

    fn may_call(&self, user: &str, operation: Operation, name: &str, routed: Option<&str>) -> bool {
        let roles = self.roles_of(user);
        roles.contains(ROOT)
            || self.rpcs.iter().any(|(role, of, path, granted)| {
                let module = name.split_once(':').map_or("", |(module, _)| module);
                let is_named = of.is_empty() || of == name || *of == format!("{module}:");
                let is_routed = match (path, routed) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(path), Some(routed)) => is_within(routed, path),
                };
                roles.contains(role) && *granted == operation && is_named && is_routed
            })
    }
}

fn operations(of: &'static [Operation]) -> impl Strategy<Value = BTreeSet<Operation>> {
    proptest::collection::btree_set(proptest::sample::select(of), 1..3)
}

fn grants() -> impl Strategy<Value = Grant> {
    const DATA: &[Operation] = &[Operation::Read, Operation::Write, Operation::Delete, Operation::Watch];
    const RPC: &[Operation] = &[Operation::Call, Operation::Offer];
    const CLUSTER: &[Operation] = &[Operation::Status, Operation::Members, Operation::Backup, Operation::Users];
    let datastore = || prop_oneof![Just(None), Just(Some(Datastore::Config)), Just(Some(Datastore::Operational))];
    let paths = || proptest::sample::select(&PATHS[..]).prop_map(path);
    let names = prop_oneof![
        proptest::sample::select(&RPCS[..]).prop_map(str::to_owned),
        Just(String::new()),
        Just("people:".to_owned())
    ];
    prop_oneof![
        4 => (datastore(), paths(), operations(DATA))
            .prop_map(|(datastore, path, operations)| Grant { scope: Scope::Data { datastore, path }, operations }),
        2 => (names, proptest::option::of(paths()), operations(RPC))
            .prop_map(|(name, path, operations)| Grant { scope: Scope::Rpc { name, path }, operations }),
        1 => operations(CLUSTER).prop_map(|operations| Grant { scope: Scope::Cluster, operations }),
    ]
}

fn commands() -> impl Strategy<Value = AccessCommand> {
    let role = || proptest::sample::select(&["a", "b", "c"][..]).prop_map(str::to_owned);
    let any_role = || proptest::sample::select(&["a", "b", "c", ROOT][..]).prop_map(str::to_owned);
    let user = || proptest::sample::select(&["ann", "bob", "uid:1"][..]).prop_map(str::to_owned);
    let roles = proptest::collection::btree_set(any_role(), 0..3);
    prop_oneof![
        3 => role().prop_map(|role| AccessCommand::AddRole { role }),
        1 => role().prop_map(|role| AccessCommand::DeleteRole { role }),
        6 => (role(), grants()).prop_map(|(role, grant)| AccessCommand::Grant { role, grant }),
        3 => (role(), grants()).prop_map(|(role, grant)| AccessCommand::Revoke { role, grant }),
        3 => (user(), roles).prop_map(|(user, roles)| AccessCommand::AddUser { user, roles, token: None }),
        1 => user().prop_map(|user| AccessCommand::DeleteUser { user }),
        3 => (user(), any_role()).prop_map(|(user, role)| AccessCommand::Assign { user, role }),
        2 => (user(), any_role()).prop_map(|(user, role)| AccessCommand::Unassign { user, role }),
        1 => any::<bool>().prop_map(|on| if on { AccessCommand::Enable } else { AccessCommand::Disable }),
    ]
}

/// What the model makes of a command that was carried out.
fn follow(model: &mut Model, command: AccessCommand) {
    match command {
        AccessCommand::DeleteRole { role } => {
            model.grants.retain(|(of, ..)| *of != role);
            model.rpcs.retain(|(of, ..)| *of != role);
            model.cluster.retain(|(of, _)| *of != role);
            for roles in model.users.values_mut() {
                roles.remove(&role);
            }
        }
        AccessCommand::Grant { role, grant } => model.note(&role, &grant, true),
        AccessCommand::Revoke { role, grant } => model.note(&role, &grant, false),
        AccessCommand::AddUser { user, roles, .. } => {
            model.users.insert(user, roles);
        }
        AccessCommand::DeleteUser { user } => {
            model.users.remove(&user);
        }
        AccessCommand::Assign { user, role } => {
            model.users.get_mut(&user).unwrap().insert(role);
        }
        AccessCommand::Unassign { user, role } => {
            model.users.get_mut(&user).unwrap().remove(&role);
        }
        AccessCommand::AddRole { .. }
        | AccessCommand::SetToken { .. }
        | AccessCommand::Invite { .. }
        | AccessCommand::Enable
        | AccessCommand::Disable => {}
    }
}

proptest::proptest! {
    #[test]
    fn what_is_allowed_is_what_was_granted_and_not_revoked(commands in proptest::collection::vec(commands(), 1..40)) {
        let (mut map, mut model) = (Map::new(), Model::default());
        for command in commands {
            let before = map.access().clone();
            match apply(&mut map, command.clone()) {
                Ok(effect) => {
                    let changed = effect == Effect::Changed;
                    assert_eq!(*map.access() != before, changed, "{command:?}");
                    assert_eq!(map.access().revision() - before.revision(), u64::from(changed));
                    // Done twice it comes to the same.
                    assert_eq!(apply(&mut map, command.clone()), Ok(Effect::Unchanged), "{command:?}");
                    follow(&mut model, command);
                }
                Err(refusal) => {
                    assert!(refusal.to_string().contains("hint: "));
                    assert_eq!(*map.access(), before);
                }
            }
            assert_eq!(Map::decode(&map.encode()).as_ref(), Ok(&map));
        }
        for user in ["ann", "bob", "uid:1", "nobody"] {
            for operation in Operation::ALL {
                if operation.is_of_data() {
                    for (datastore, at) in Datastore::ALL.into_iter().flat_map(|it| PATHS.map(|at| (it, at))) {
                        let location = Location { datastore, path: path(at) };
                        let allowed = map.access().allows(user, &Need::Data { operation, at: &location });
                        assert_eq!(allowed, model.may_data(user, operation, datastore, at), "{user} {operation} {location}");
                    }
                } else if operation.is_of_rpcs() {
                    for (name, at) in RPCS.into_iter().flat_map(|name| PATHS.map(Some).into_iter().chain([None]).map(move |at| (name, at))) {
                        let routed = at.map(path);
                        let allowed = map.access().allows(user, &Need::Rpc { operation, name, path: routed.as_ref() });
                        assert_eq!(allowed, model.may_call(user, operation, name, at), "{user} {operation} {name} {at:?}");
                    }
                } else {
                    let roles = model.roles_of(user);
                    let expected = roles.contains(ROOT) || model.cluster.iter().any(|(role, of)| roles.contains(role) && *of == operation);
                    assert_eq!(map.access().allows(user, &Need::Cluster(operation)), expected, "{user} {operation}");
                }
            }
        }
    }
}

#[test]
fn a_name_that_nobody_can_have_is_refused_before_it_is_in_a_log() {
    let long = "x".repeat(1 << 20);
    let (user, role) = (long.clone(), long.clone());
    for command in [
        AccessCommand::DeleteRole { role: long.clone() },
        AccessCommand::DeleteUser { user: long.clone() },
        AccessCommand::Assign { user: user.clone(), role: "drivers".into() },
        AccessCommand::Unassign { user: "ann".into(), role: role.clone() },
        AccessCommand::SetToken { user, token: None },
    ] {
        let refusal = Command::Access { revision: None, command }.check().unwrap_err().to_string();
        assert!(refusal.contains("too long for a name") && refusal.len() < 500, "{refusal}");
    }
}

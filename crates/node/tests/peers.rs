//! Processes that speak as a server and must not, and what comes of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path as FilePath;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::controllers::{
    Controller, PATIENCE, at, client, client_with, command, eventually, get, metrics, put, status, tls_files,
    wait_until_all_vote,
};
use machine::ServerId;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use node::{Client, Tls, TlsFiles, certificates};
use placement::ShardId;
use store::message::RaftMessage;
use store::peer::{Envelope, Item};
use store::protocol::{
    Admin, Answer, Error as Refused, Hello, Proof, RequestBody, Role, VERSION, Welcome, decode, encode_frame,
    split_frame,
};

/// A stream of frames, over TLS or not.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn say<T: serde::Serialize>(stream: &mut dyn Stream, message: &T) {
    let mut bytes = Vec::new();
    encode_frame(message, &mut bytes).unwrap();
    // A process that was refused already may find the connection closed.
    let _ = stream.write_all(&bytes);
}

/// The next message; none if the connection is closed first.
fn hear<T: serde::de::DeserializeOwned>(stream: &mut dyn Stream) -> Option<T> {
    let mut received = Vec::new();
    loop {
        if let Some((body, length)) = split_frame(&received).unwrap() {
            assert_eq!(length, received.len(), "one message at a time");
            return Some(decode(body).unwrap());
        }
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return None;
        }
        received.extend(byte);
    }
}

fn dial(to: &Controller) -> Box<dyn Stream> {
    let socket = TcpStream::connect(&to.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Box::new(socket)
}

fn dial_tls(to: &Controller, files: &TlsFiles) -> Box<dyn Stream> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let read = |path| CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap);
    let mut roots = rustls::RootCertStore::empty();
    read(&files.authority).for_each(|authority| roots.add(authority).unwrap());
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(read(&files.certificate).collect(), PrivateKeyDer::from_pem_file(&files.key).unwrap())
        .unwrap();
    let host = to.address.rsplit_once(':').unwrap().0.to_owned();
    let tls = rustls::ClientConnection::new(std::sync::Arc::new(config), host.try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(&to.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    Box::new(rustls::StreamOwned::new(tls, socket))
}

fn role(to: &Controller, server: u64) -> Role {
    let cluster = u64::from_str_radix(&to.cluster, 16).unwrap();
    Role::Peer { cluster, server: ServerId(server), to: ServerId(to.server) }
}

/// What is said to one who greets as this server.
fn greet(stream: &mut dyn Stream, to: &Controller, server: u64) -> Welcome {
    say(stream, &Hello::new(role(to, server)));
    hear(stream).expect("a welcome")
}

fn refusal(welcome: Option<Welcome>) -> String {
    match welcome {
        Some(Welcome::Refused(text) | Welcome::Removed(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// A heartbeat for meta of the highest term there is: whoever believes it can never elect anybody again.
fn last_heartbeat() -> Envelope {
    let none = Vec::<u8>::new();
    let fields = (5_u32, u64::MAX, (0_u64, 0_u64, &none), (0_u64, 0_u64, 0_u64), (false, 0_u64, &none), 0_i64, false);
    let mut bytes = Vec::new();
    encode_frame(&fields, &mut bytes).unwrap();
    let message: RaftMessage = decode(&bytes[store::protocol::FRAME_HEADER..]).unwrap();
    assert_eq!(message.term(), u64::MAX);
    let items = vec![Item::Raft { group: ShardId::META, message }];
    Envelope { stamp: machine::nanos::Time::ZERO, echo: None, promise: machine::nanos::Span::ZERO, items }
}

fn refused(controller: &Controller, reason: &str) -> u64 {
    let page = metrics(controller);
    let line = format!("heddle_peers_refused_total{{reason=\"{reason}\"}} ");
    page.lines().find_map(|text| text.strip_prefix(&line)).expect("it is counted").parse().unwrap()
}

const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];

/// Three controllers whose data are in folders of this one.
fn three(folder: &FilePath) -> [Controller; 3] {
    let first = Controller::start(command("c1", &folder.join("c1"), &HTTP));
    let join = ["--join", &first.address.clone(), HTTP[0], HTTP[1]];
    let second = Controller::start(command("c2", &folder.join("c2"), &join));
    let third = Controller::start(command("c3", &folder.join("c3"), &join));
    wait_until_all_vote(&[&first, &second, &third], None);
    [first, second, third]
}

#[test]
fn who_does_not_know_the_secret_is_no_peer() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = three(folder.path());
    let [first, second, third] = &cluster;
    let secret = folder.path().join("c1/SECRET");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    for to in [first, second, third] {
        let as_server = if to.server == 2 { 3 } else { 2 };
        // Without waiting for anything.
        let mut stream = dial(to);
        say(&mut *stream, &Hello::new(role(to, as_server)));
        say(&mut *stream, &last_heartbeat());
        // As a program of version 1 does.
        let mut stream = dial(to);
        say(&mut *stream, &Hello::in_version(role(to, as_server), 1));
        say(&mut *stream, &last_heartbeat());
        let text = refusal(hear(&mut *stream));
        assert!(text.contains(&format!("speak version {VERSION}")), "{text}");
        // Without a proof, with a wrong one, and with one by a secret of our own, as a member and as nobody knows whom.
        for server in [as_server, 9] {
            let mut digest = None;
            for proof in [None, Some([0; 32]), Some([1; 32])] {
                let mut stream = dial(to);
                let Welcome::Challenge { version: VERSION, secret, .. } = greet(&mut *stream, to, server) else {
                    panic!("no challenge")
                };
                let named = *digest.get_or_insert(secret.expect("the cluster has one"));
                let named = if proof == Some([1; 32]) { [7; 32] } else { named };
                say(&mut *stream, &Proof { nonce: [3; 32], proof: proof.map(|proof| (named, proof)) });
                say(&mut *stream, &last_heartbeat());
                let text = refusal(hear(&mut *stream));
                assert!(text.contains("secret"), "{text}");
            }
        }
        // What another was answered is of no use: each challenge is new.
        let nonce = |stream: &mut dyn Stream| match greet(stream, to, as_server) {
            Welcome::Challenge { nonce, .. } => nonce,
            other => panic!("{other:?}"),
        };
        assert_ne!(nonce(&mut *dial(to)), nonce(&mut *dial(to)));
        eventually("refusals are counted", || refused(to, "secret") >= 6 && refused(to, "version") >= 1);
    }
    let client = client(&[first, second, third]);
    put(&client, 1, b"red", PATIENCE).unwrap();
    assert_eq!(get(&client, 1).unwrap(), Some(b"red".to_vec()));
    let terms = status(&client).groups.into_iter().map(|group| group.term);
    assert!(terms.max().unwrap() < u64::MAX / 2);
}

/// The other program of `another_user_is_refused`, as another user: it greets and asks to join, and says what it hears.
#[test]
#[ignore = "a part of another test"]
fn stranger() {
    let Ok(target) = std::env::var("HEDDLE_STRANGER") else { return };
    let [address, cluster, server] = target.split(' ').collect::<Vec<_>>()[..] else { panic!("{target}") };
    let mut stream = TcpStream::connect(address).unwrap();
    let cluster = u64::from_str_radix(cluster, 16).unwrap();
    let to = ServerId(server.parse().unwrap());
    say(&mut stream, &Hello::new(Role::Peer { cluster, server: ServerId(9), to }));
    println!("PEER {:?}", hear::<Welcome>(&mut stream));
    let client = Client::connect(&[address.to_owned()], None).unwrap();
    let join = Admin::Join { name: "mallory".into(), address: "127.0.0.1:1".into(), nonce: 1, replaces: None };
    println!("JOIN {:?}", client.request(RequestBody::Admin(join), PATIENCE));
    println!("STATUS {}", client.request(RequestBody::Admin(Admin::Status), PATIENCE).is_ok());
}

#[test]
fn another_user_is_refused() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can start a program as another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", folder.path(), &HTTP));
    // Where it may read it. A child makes the copy: while this process had it open for writing, a test in another thread could start a program
    // of its own, which would hold it open until it calls exec; to run the copy meanwhile fails ("Text file busy").
    let program = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let copy = program.path().join("stranger");
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status().unwrap();
    assert!(copied.success(), "cp: {copied}");
    let output = Command::new(&copy)
        .args(["--ignored", "--exact", "peers::stranger", "--nocapture"])
        .env("HEDDLE_STRANGER", format!("{} {} {}", controller.address, controller.cluster, controller.server))
        .current_dir(program.path())
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line = |name: &str| said.lines().find_map(|line| line.split_once(name)).unwrap_or_else(|| panic!("{said}")).1;
    for what in ["PEER ", "JOIN "] {
        assert!(line(what).contains("process of user 65534"), "{said}");
    }
    assert_eq!(line("STATUS "), "true", "a client it may be");
    assert_eq!(refused(&controller, "user"), 2);
    assert_eq!(status(&client(&[&controller])).map.members().len(), 1);
}

#[test]
fn a_folder_without_the_secret_is_refused_unless_it_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, third] = three(folder.path());
    let (address, listen) = (first.address.clone(), second.address.clone());
    put(&client(&[&first]), 1, b"red", PATIENCE).unwrap();
    second.end(Signal::SIGTERM);
    let lost = folder.path().join("c2/SECRET");
    std::fs::remove_file(&lost).unwrap();
    let refusal = Controller::try_start(at("c2", &folder.path().join("c2"), &listen, &[])).err().expect("no start");
    assert!(refusal.text.contains("the secret of cluster") && refusal.text.contains("SECRET"), "{}", refusal.text);
    std::fs::copy(folder.path().join("c1/SECRET"), &lost).unwrap();
    std::fs::set_permissions(&lost, PermissionsExt::from_mode(0o644)).unwrap();
    let refusal = Controller::try_start(at("c2", &folder.path().join("c2"), &listen, &[])).err().expect("no start");
    assert!(!refusal.status.success() && refusal.text.contains("mode 644"), "{}", refusal.text);
    std::fs::set_permissions(&lost, PermissionsExt::from_mode(0o600)).unwrap();
    let second = Controller::start(at("c2", &folder.path().join("c2"), &listen, &[]));
    // It is a peer again: with it and without the third, there is a majority.
    third.end(Signal::SIGKILL);
    put(&client(&[&first, &second]), 2, b"blue", PATIENCE).unwrap();
    drop((first, second));

    let alone = tempfile::tempdir().unwrap();
    let only = Controller::start(command("d1", alone.path(), &[]));
    assert_ne!(only.address, address);
    only.end(Signal::SIGTERM);
    std::fs::remove_file(alone.path().join("SECRET")).unwrap();
    let only = Controller::start(command("d1", alone.path(), &[]));
    put(&client(&[&only]), 1, b"x", PATIENCE).unwrap();
    let other = tempfile::tempdir().unwrap();
    let joined = Controller::start(command("d2", other.path(), &["--join", &only.address]));
    wait_until_all_vote(&[&only, &joined], None);
}

#[test]
fn a_removed_server_cannot_come_back() {
    let tls = tempfile::tempdir().unwrap();
    let hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
    certificates::make(tls.path(), &hosts.map(str::to_owned)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = |n: usize, listen: &str, join: &[&str]| {
        let options = [&["--tls", tls.path().to_str().unwrap(), hosts[n]], &HTTP[..], join].concat();
        at(&format!("c{}", n + 1), &folder.path().join(n.to_string()), listen, &options)
    };
    let first = Controller::start(program(0, "127.0.0.1:0", &[]));
    let join = ["--join", &first.address.clone()];
    let second = Controller::start(program(1, "127.0.0.2:0", &join));
    let third = Controller::start(program(2, "127.0.0.3:0", &join));
    let identity = Tls::load(&tls_files(tls.path(), "client")).unwrap();
    wait_until_all_vote(&[&first, &second, &third], Some(&identity));
    let access = client_with(&first, Some(&identity));

    // A client's certificate lets nobody join, nor does that of another host.
    let join = |name: &str, address: &str| {
        let access = client_with(&first, Some(&Tls::load(&tls_files(tls.path(), name)).unwrap()));
        let join = Admin::Join { name: "c9".into(), address: address.into(), nonce: 9, replaces: None };
        match access.request(RequestBody::Admin(join), PATIENCE) {
            Err(node::Error::Request(Refused::Invalid(text))) => text,
            other => panic!("{other:?}"),
        }
    };
    assert!(join("client", "127.0.0.1:1").contains("not a server's"));
    assert!(join("127.0.0.3", "127.0.0.2:1").contains("its certificate is not for 127.0.0.2"));

    let (id, listen) = (third.server, third.address.clone());
    third.end(Signal::SIGKILL);
    let remove = placement::Command::RemoveServer { id: ServerId(id) };
    let removed = access.request(RequestBody::Admin(Admin::Placement(remove)), PATIENCE).unwrap();
    assert!(matches!(removed, Answer::Placed(_)), "{removed:?}");
    let files = tls_files(tls.path(), hosts[2]);
    for to in [&first, &second] {
        eventually("it is not needed any more", || {
            matches!(greet(&mut *dial_tls(to, &files), to, id), Welcome::Removed(_))
        });
        // Under a number that nobody knows: the secret it does have.
        let text = refusal(Some(greet(&mut *dial_tls(to, &files), to, 9)));
        assert!(text.contains("127.0.0.3, where server 3 was, which was removed"), "{text}");
        assert!(refused(to, "removed") >= 1 && refused(to, "certificate") >= 1);
    }
    // The program itself is told, and ends.
    let text = last_words(program(2, &listen, &[]));
    assert!(text.contains("was removed from the cluster"), "{text}");
    put(&access, 1, b"red", PATIENCE).unwrap();
}

/// Waits until a controller ends by itself; what it says then.
fn last_words(mut program: Command) -> String {
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let give_up = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > give_up {
            child.kill().unwrap();
            panic!("it goes on");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

/// A folder that the program of commit 2a0d034 has written.
#[test]
fn a_folder_of_version_1_goes_on_and_comes_to_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let from = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("testdata/version1");
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let controller = Controller::start(command("c1", folder.path(), &HTTP));
    let access = client(&[&controller]);
    for n in 0..20 {
        assert_eq!(get(&access, n).unwrap(), Some(format!("value {n}").into_bytes()));
    }
    eventually("it is raised", || metrics(&controller).contains(&format!("\nheddle_protocol_version {VERSION}\n")));
    // Others join with the secret that was made.
    let other = tempfile::tempdir().unwrap();
    let joined = Controller::start(command("c2", other.path(), &["--join", &controller.address]));
    wait_until_all_vote(&[&controller, &joined], None);
}

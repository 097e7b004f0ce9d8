//! A controller alone: what it was given is there when it comes back, and what it cannot be sure of it does not touch.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path as FilePath;
use std::time::Duration;

use crate::controllers::{
    self, Controller, PATIENCE, at, client, client_with, command, eventually, get, metric, metrics, put, status,
    tls_files,
};
use machine::nanos::Span;
use nix::sys::signal::Signal;
use node::{Client, Course, Error, Target, Tls, certificates};
use store::client::ClientConfig;
use store::protocol::Error as Refused;
use workload::{LoadConfig, Operation};

fn refusal(command: std::process::Command) -> String {
    let refusal = Controller::try_start(command).err().expect("it has to refuse");
    assert_eq!(refusal.status.code(), Some(1), "{}", refusal.text);
    refusal.text
}

/// Every file with its content.
fn content(folder: &FilePath) -> BTreeMap<String, Vec<u8>> {
    let file = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    let mut files: BTreeMap<_, _> = fs::read_dir(folder).unwrap().map(|entry| file(entry.unwrap())).collect();
    // Who holds it changes with each process that tries.
    files.remove("LOCK");
    files
}

fn newest_log(folder: &FilePath) -> std::path::PathBuf {
    let logs = content(folder).into_keys().filter(|name| name.starts_with("log-"));
    folder.join(logs.max().expect("there is a log"))
}

#[test]
fn what_was_written_is_there_after_every_end() {
    let data = tempfile::tempdir().unwrap();
    let (mut cluster, mut written) = (None, BTreeMap::new());
    for (round, signal) in (0_u64..).zip([Signal::SIGTERM, Signal::SIGKILL, Signal::SIGKILL, Signal::SIGINT]) {
        let controller = Controller::start(command("c1", data.path(), &[]));
        assert_eq!(*cluster.get_or_insert_with(|| controller.cluster.clone()), controller.cluster);
        let client = client(&[&controller]);
        for (key, value) in &written {
            assert_eq!(get(&client, *key).unwrap().as_ref(), Some(value), "round {round}");
        }
        for key in 0..20 {
            let value = format!("{round} {key}").into_bytes();
            put(&client, key * (round + 1), &value, PATIENCE).unwrap();
            written.insert(key * (round + 1), value);
        }
        let ended = controller.end(signal);
        assert_eq!(ended.code(), (signal != Signal::SIGKILL).then_some(0));
    }
}

#[test]
fn a_folder_is_used_by_one_process_of_one_node() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let text = refusal(command("c1", data.path(), &[]));
    assert!(text.contains(&format!("another controller (process {}) uses this folder", controller.pid())), "{text}");
    drop(controller);
    let text = refusal(command("other", data.path(), &[]));
    assert!(text.contains("this folder belongs to node `c1`, not to `other`"), "{text}");
    assert!(text.contains("hint: start it with --node c1"), "{text}");
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let entries = || fs::read_dir(root.path()).unwrap().count();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let data = root.path().join("deep/er");
    for (listen, options, option) in
        [(taken.as_str(), &[][..], "--listen"), ("127.0.0.1:0", &["--http", &taken][..], "--http")]
    {
        let text = refusal(at("c1", &data, listen, options));
        assert!(text.contains(&format!("cannot listen at {taken} ({option})")), "{text}");
        assert!(text.contains(&format!("choose another with {option} HOST:PORT")), "{text}");
        assert_eq!(entries(), 0, "{text}");
    }
    // What was empty is empty again.
    fs::create_dir_all(&data).unwrap();
    refusal(at("c1", &data, &taken, &[]));
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    fs::remove_dir_all(root.path().join("deep")).unwrap();
    // Nor does one stay that the cluster did not take in.
    let first = Controller::start(command("c1", &root.path().join("first"), &[]));
    let text = refusal(command("c1", &data, &["--join", &first.address]));
    assert!(text.contains("cannot join"), "{text}");
    assert_eq!(entries(), 1, "{text}");
}

#[test]
fn a_folder_of_another_cluster_is_refused() {
    let (own, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let controller = Controller::start(command("c1", own.path(), &[]));
    put(&client(&[&controller]), 1, b"precious", PATIENCE).unwrap();
    drop(controller);
    let before = content(own.path());
    let other = Controller::start(command("x1", others.path(), &[]));
    let text = refusal(command("c1", own.path(), &["--join", &other.address]));
    assert!(text.contains(&format!("to cluster {}; nothing was changed", other.cluster)), "{text}");
    assert_eq!(content(own.path()), before);
}

#[test]
fn a_damaged_log_is_refused_and_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let client = client(&[&controller]);
    for key in 0..50 {
        put(&client, key, &[7; 1_000], PATIENCE).unwrap();
    }
    controller.end(Signal::SIGTERM);
    let log = newest_log(data.path());
    let mut bytes = fs::read(&log).unwrap();
    // Far from the end, where a write may be torn.
    let middle = bytes.windows(100).position(|window| window == [7; 100]).expect("the values are in it") + 50;
    bytes[middle] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let before = content(data.path());
    let text = refusal(command("c1", data.path(), &[]));
    assert!(text.contains(&log.file_name().unwrap().to_string_lossy().into_owned()), "{text}");
    assert!(text.contains("corrupt at byte") && text.contains("Nothing was changed"), "{text}");
    assert_eq!(content(data.path()), before);
    // With the byte restored it goes on.
    bytes[middle] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    assert_eq!(get(&client_with(&controller, None), 49).unwrap(), Some(vec![7; 1_000]));
}

/// Moves all files of this beginning out of a folder.
fn lose(folder: &FilePath, beginning: &str) -> BTreeMap<String, Vec<u8>> {
    let mut lost = content(folder);
    lost.retain(|name, _| name.starts_with(beginning));
    assert!(!lost.is_empty(), "{beginning}");
    for name in lost.keys() {
        fs::remove_file(folder.join(name)).unwrap();
    }
    lost
}

fn put_back(folder: &FilePath, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// It would found the same cluster again, without its data, or as a member forget its vote.
#[test]
fn a_server_without_its_log_does_not_start() {
    let (data, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let controller = Controller::start(command("c1", data.path(), &[]));
    put(&client(&[&controller]), 1, b"precious", PATIENCE).unwrap();
    let member = Controller::start(command("c2", second.path(), &["--join", &controller.address]));
    let (address, join) = (controller.address.clone(), ["--join", &controller.address.clone()]);
    // Right after it was let in: what it has been sent by then does not matter.
    member.end(Signal::SIGKILL);
    controller.end(Signal::SIGKILL);
    for (name, folder, options) in [("c1", data.path(), &[][..]), ("c2", second.path(), &join[..])] {
        let log = lose(folder, "log-");
        let before = content(folder);
        let text = refusal(command(name, folder, options));
        assert!(
            text.contains("its log, files `log-...`, is missing") && text.contains("nothing was changed"),
            "{text}"
        );
        assert!(text.contains("hint: put the missing files back") && text.contains("heddle cluster replace"), "{text}");
        // Cut off instead of taken away.
        fs::write(folder.join(log.keys().next().unwrap()), b"").unwrap();
        assert!(refusal(command(name, folder, options)).contains("is missing"));
        lose(folder, "log-");
        let identity = lose(folder, "identity");
        let text = refusal(command(name, folder, options));
        assert!(text.contains("`identity` and its log, files `log-...`, are missing"), "{text}");
        put_back(folder, &identity);
        assert_eq!(content(folder), before);
        put_back(folder, &log);
    }
    let controller = Controller::start(at("c1", data.path(), &address, &[]));
    let member = Controller::start(command("c2", second.path(), &join));
    assert_eq!(get(&client(&[&controller, &member]), 1).unwrap(), Some(b"precious".to_vec()));
}

/// An identity file of another folder is put in.
#[test]
fn an_identity_of_another_server_is_refused() {
    let (data, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [data.path(), others.path()] {
        Controller::start(command("c1", folder, &[])).end(Signal::SIGTERM);
    }
    for beginning in ["log-", "identity", "witness"] {
        lose(data.path(), beginning);
        put_back(data.path(), &lose(others.path(), beginning));
    }
    let text = refusal(command("c1", data.path(), &[]));
    assert!(text.contains("`STARTED`") && text.contains("nothing was changed"), "{text}");
}

/// It stopped in the midst of founding or joining, before anybody knew of it: it does that again.
#[test]
fn a_start_that_was_broken_off_is_gone_on_with() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let cluster = controller.cluster.clone();
    controller.end(Signal::SIGKILL);
    for lost in ["STARTED", "log-", "witness"] {
        lose(data.path(), lost);
    }
    let controller = Controller::start(command("c1", data.path(), &[]));
    assert_eq!(controller.cluster, cluster);
    let second = tempfile::tempdir().unwrap();
    let join = ["--join", &controller.address];
    let member = Controller::start(command("c2", second.path(), &join));
    let server = member.server;
    member.end(Signal::SIGKILL);
    for lost in ["STARTED", "log-", "witness", "identity"] {
        lose(second.path(), lost);
    }
    assert_eq!(Controller::start(command("c2", second.path(), &join)).server, server);
    assert!(second.path().join("STARTED").exists());
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let data = tempfile::tempdir().unwrap();
    let text = refusal(command("c1", FilePath::new("/proc/nope"), &[]));
    assert!(
        text.contains("/proc/nope: cannot make this folder") && text.contains("hint: no folder can be made"),
        "{text}"
    );
    let file = data.path().join("file");
    fs::write(&file, b"").unwrap();
    for path in [file.clone(), file.join("deeper")] {
        let text = refusal(command("c1", &path, &[]));
        let named = text.starts_with(&format!("{}: cannot", path.display()));
        assert!(named && text.contains("hint: a part of this path is a file"), "{text}");
    }
    // Nothing is known of what is in it: nothing is written.
    Controller::start(command("c1", &data.path().join("own"), &[])).end(Signal::SIGTERM);
    std::os::unix::fs::symlink("nowhere", data.path().join("own/log-link")).unwrap();
    let text = refusal(command("c1", &data.path().join("own"), &[]));
    assert!(text.contains("the folder cannot be listed") && text.contains("log-link"), "{text}");
}

#[test]
fn nobody_lets_himself_in() {
    let data = tempfile::tempdir().unwrap();
    let text = refusal(at("c1", data.path(), "127.0.0.1:7", &["--join", "127.0.0.1:7"]));
    assert!(text.contains("127.0.0.1:7 after --join is where this controller listens itself"), "{text}");
    assert!(text.contains("hint: say after --join where another server"), "{text}");
    assert!(content(data.path()).is_empty());
}

#[test]
fn a_newer_format_is_refused() {
    let data = tempfile::tempdir().unwrap();
    Controller::start(command("c1", data.path(), &[])).end(Signal::SIGTERM);
    let identity = data.path().join("identity");
    let text = fs::read_to_string(&identity).unwrap();
    fs::write(&identity, text.replacen("\"format\": 1", "\"format\": 2", 1)).unwrap();
    let text = refusal(command("c1", data.path(), &[]));
    assert!(text.contains("has format 2; this program knows formats up to 1"), "{text}");
}

/// The limit of a file's size stands for a disk that is full: both come from a write, and are the same to the log.
#[test]
fn a_full_disk_takes_no_writes_and_loses_none() {
    let data = tempfile::tempdir().unwrap();
    let plain = command("c1", data.path(), &["--http", "127.0.0.1:0"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 2000; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    let controller = Controller::start(limited);
    let client = client(&[&controller]);
    let mut confirmed = Vec::new();
    let mut refused = String::new();
    for key in 0..5_000 {
        // A client that is refused tries again until this time is over.
        match put(&client, key, &[key as u8; 2_000], Duration::from_secs(5)) {
            Ok(_) => confirmed.push(key),
            Err(error) if error.to_string().contains("disk") => {
                refused = error.to_string();
                break;
            }
            // The machine was too busy to say so in time.
            Err(_) => {}
        }
    }
    // It says whose disk, where, how much room there is, and what to do; nobody is asked about a majority.
    assert!(refused.contains("the disk of server c1 takes no writes: no space left"), "{refused}");
    let folder = data.path().display().to_string();
    assert!(refused.contains(&format!("; hint: make room for {folder}")) && refused.contains("MiB free"), "{refused}");
    assert!(!refused.contains("majority"), "{refused}");
    assert!(confirmed.len() > 100, "{}", confirmed.len());
    // Reads go on; who watches over it is told.
    assert_eq!(get(&client, confirmed[0]).unwrap(), Some(vec![confirmed[0] as u8; 2_000]));
    let (code, text) = controller.page("/healthz");
    assert_eq!(code, 503, "{text}");
    assert!(text.contains("no space left"), "{text}");
    drop(client);
    controller.end(Signal::SIGKILL);
    let controller = Controller::start(plain_again(data.path()));
    let client = client_with(&controller, None);
    for key in confirmed {
        assert_eq!(get(&client, key).unwrap(), Some(vec![key as u8; 2_000]), "car {key}");
    }
    put(&client, 9_999, b"there is room again", PATIENCE).unwrap();
}

fn plain_again(data: &FilePath) -> std::process::Command {
    command("c1", data, &[])
}

#[test]
fn only_holders_of_a_certificate_get_in() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hosts = ["127.0.0.1,localhost".to_owned()];
    let made = certificates::make(own.path(), &hosts).unwrap();
    assert_eq!(made.len(), 6, "authority, server and client, with their keys: {made:?}");
    certificates::make(other.path(), &hosts).unwrap();
    let folder = own.path().to_str().unwrap();
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--tls", folder, "127.0.0.1"]));

    let tls = Tls::load(&tls_files(own.path(), "client")).unwrap();
    let good = client_with(&controller, Some(&tls));
    put(&good, 1, &vec![b'x'; 300_000], PATIENCE).unwrap();
    assert_eq!(get(&good, 1).unwrap().map(|value| value.len()), Some(300_000));

    let short = Duration::from_secs(1);
    let stranger = Tls::load(&tls_files(other.path(), "client")).unwrap();
    let as_stranger = client_with(&controller, Some(&stranger));
    eventually("a stranger hears why", || {
        put(&as_stranger, 2, b"x", short).unwrap_err().to_string().contains("invalid peer certificate")
    });
    // The cluster's authority, and another authority's certificate: the server refuses.
    let mut mixed = tls_files(other.path(), "client");
    mixed.authority = own.path().join("ca.pem");
    let mixed = Tls::load(&mixed).unwrap();
    let error = put(&client_with(&controller, Some(&mixed)), 2, b"x", short).unwrap_err().to_string();
    assert!(error.contains("no answer within 1000 ms"), "{error}");
    let error = put(&client_with(&controller, None), 2, b"x", short).unwrap_err().to_string();
    assert!(error.contains("no answer within 1000 ms"), "{error}");
    assert_eq!(get(&good, 2).unwrap(), None);
    // A file that cannot be used is named, with what it should be.
    let gone = node::TlsFiles { key: own.path().join("gone.key"), ..tls_files(own.path(), "client") };
    let swapped = node::TlsFiles { key: own.path().join("ca.pem"), ..tls_files(own.path(), "client") };
    for (files, said) in [(gone, "cannot read it: No such file"), (swapped, "there is no private key in it")] {
        let error = Tls::load(&files).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&files.key.display().to_string()) && text.contains("(--tls-key)"), "{text}");
        assert!(text.contains(said) && error.hint().is_some_and(|hint| hint.contains("certificates --out")), "{text}");
    }
    // By a name that is not in the certificate.
    let port = controller.address.rsplit_once(':').unwrap().1;
    let misnamed = Client::connect(&[format!("127.0.0.2:{port}")], Some(&tls)).unwrap();
    assert!(put(&misnamed, 2, b"x", short).is_err());
}

#[test]
fn without_certificates_it_stays_on_loopback() {
    let data = tempfile::tempdir().unwrap();
    let text = refusal(at("c1", data.path(), "0.0.0.0:0", &[]));
    assert!(text.contains("0.0.0.0:0 is not loopback") && text.contains("heddle controller certificates"), "{text}");
    let text = refusal(command("c1", data.path(), &["--http", "0.0.0.0:0"]));
    assert!(text.contains("is not loopback"), "{text}");
    for wrong in ["nonsense", "127.0.0.1", "127.0.0.1:99999", ":1"] {
        let text = refusal(at("c1", data.path(), wrong, &[]));
        assert!(text.contains("expected HOST:PORT"), "{text}");
    }
    let text = refusal(command("c 1", data.path(), &[]));
    assert!(text.contains("cannot name a node"), "{text}");
}

#[test]
fn who_speaks_something_else_is_answered_or_cut_off() {
    use std::io::{Read, Write};
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    for first in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &[0; 64], &[0xff; 64], &[4, 0, 0, 0, 1, 2, 3, 4]] {
        let mut stream = std::net::TcpStream::connect(&controller.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(first).unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 1_000);
    }
    put(&client_with(&controller, None), 1, b"still there", PATIENCE).unwrap();
}

/// Whoever leaves answers unread is not heard further, and when he reads, he is.
#[test]
fn who_does_not_read_waits_for_himself() {
    use std::io::{Read, Write};
    use store::protocol::{ClientMessage, Consistency, Hello, Request, RequestBody, Role, encode_frame};
    const REQUESTS: u64 = 100;
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--http", "127.0.0.1:0"]));
    let client = client(&[&controller]);
    put(&client, 1, &vec![b'v'; 1 << 20], PATIENCE).unwrap();
    let mut bytes = Vec::new();
    encode_frame(&Hello::new(Role::Client { session: 1 }), &mut bytes).unwrap();
    for sequence in 1..=REQUESTS {
        let body = RequestBody::Get { at: controllers::car(1), consistency: Consistency::Linearizable };
        let request = Request { session: 1, sequence, acknowledged: sequence, timeout_ms: 600_000, body };
        encode_frame(&ClientMessage::Request(request), &mut bytes).unwrap();
    }
    let mut stream = std::net::TcpStream::connect(&controller.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&bytes).unwrap();
    let unread = || metric(&controller, "heddle_memory_bytes{kind=\"answers\"}");
    eventually("answers wait", || unread() > 1 << 20);
    // Others are served.
    assert_eq!(get(&client, 1).unwrap().map(|value| value.len()), Some(1 << 20));
    assert!(unread() < (REQUESTS - 1) << 20, "all of it is answered, and nobody reads");
    let mut answers = vec![0; (REQUESTS << 20) as usize];
    stream.read_exact(&mut answers).unwrap();
    eventually("nothing waits", || {
        stream.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        let _ = stream.read(&mut answers);
        unread() == 0
    });
}

#[test]
fn a_watcher_that_does_not_look_learns_that_it_skipped() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let client = client(&[&controller]);
    let cars = tree::Location::config(tree::Path::parse("/car:cars").unwrap());
    let mut watch = client.watch(cars, BTreeMap::new(), PATIENCE).unwrap();
    let mut last = 0;
    for _ in 0..1_500 {
        // The same client: its requests don't wait for the watch.
        last = put(&client, 1, b"x", PATIENCE).unwrap();
    }
    let (mut events, mut skips) = (0, 0);
    loop {
        let batch = watch.next_within(PATIENCE).expect("there is more");
        events += batch.events.len();
        skips += u64::from(batch.skipped);
        if batch.revision >= last {
            break;
        }
    }
    assert!(events < 1_500 && skips > 0, "{events} events, {skips} skips");
    put(&client, 2, b"seen", PATIENCE).unwrap();
    let batch = watch.next_within(PATIENCE).expect("it goes on");
    assert_eq!((batch.skipped, batch.events.len()), (false, 1));
}

/// Whoever sends it requests would have writes fail.
#[test]
fn a_server_that_takes_no_writes_is_not_ready() {
    let data = tempfile::tempdir().unwrap();
    let quota = (1 << 20).to_string();
    let options = ["--http", "127.0.0.1:0", "--quota", &quota];
    let controller = Controller::start(command("c1", data.path(), &options));
    let client = client(&[&controller]);
    let refused = (0..1_000).find_map(|key| put(&client, key, &vec![7; 100_000], PATIENCE).err());
    assert!(matches!(refused, Some(Error::Request(Refused::Refused(tree::Refusal::Full)))), "{refused:?}");
    let (code, text) = controller.page("/readyz");
    assert!(code == 503 && text.starts_with("[-]quota failed: the data of server c1 take 1."), "{text}");
    assert!(text.contains("hint:") && text.ends_with("\nnot ready\n"), "{text}");
    assert!(metrics(&controller).contains("\nheddle_ready 0\n"));
    assert_eq!(controller.page("/healthz").0, 200);
    // As of etcd: whoever only reads leaves that out.
    assert_eq!(controller.page("/readyz?exclude=quota"), (200, "ready\n".to_owned()));
}

#[test]
fn those_who_watch_over_it_can_ask() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &["--http", "127.0.0.1:0"]));
    let client = client(&[&controller]);
    put(&client, 1, b"x", PATIENCE).unwrap();
    assert_eq!(controller.page("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(controller.page("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(controller.page("/nowhere").0, 404);
    let (code, text) = controller.page("/readyz?verbose&exclude=disk");
    assert_eq!((code, text.as_str()), (200, "[+]leader ok\n[+]replicas ok\n[+]stopped ok\n[+]quota ok\nready\n"));
    for wrong in ["/readyz?exclude=luck", "/readyz?quiet"] {
        assert_eq!(controller.page(wrong).0, 400);
    }
    let text = metrics(&controller);
    let info = format!("node=\"c1\",server=\"1\",cluster=\"{}\"", controller.cluster);
    assert!(text.contains(&info), "{text}");
    assert!(text.contains("\nheddle_shard_leader{shard=\"default\",group=\"1\"} 1\n"), "{text}");
    // Each sample's family is described before it.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        // A histogram's samples have endings of their own.
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|ending| name.strip_suffix(ending));
        let is_histogram = family.is_some_and(|family| text.contains(&format!("# TYPE {family} histogram\n")));
        assert!(is_histogram || text.contains(&format!("# TYPE {name} ")), "{line}");
    }
    // The map learns where the metrics are.
    controllers::eventually("the map names the metrics", || {
        let member = status(&client).map.members().values().next().cloned().unwrap();
        member.metrics.as_deref() == Some(controller.http.as_str())
    });
}

#[test]
fn load_is_measured() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(command("c1", data.path(), &[]));
    let on = Target { endpoints: vec![controller.address.clone()], client: ClientConfig::default() };
    let mut config = LoadConfig {
        clients: 8,
        requests: 403,
        value_bytes: 200,
        operation: Operation::Create,
        keys: u32::MAX,
        below: None,
        every: Span::ZERO,
        timeout: Span::from_ns(PATIENCE.as_nanos() as u64),
    };
    for (operation, failed) in [
        (Operation::Create, 0),
        (Operation::Read, 0),
        (Operation::Create, 403),
        (Operation::Update, 0),
        (Operation::Delete, 0),
        (Operation::Read, 403),
    ] {
        config.operation = operation;
        let mut seen = 0;
        let tally = node::load(&config, &on, None, |tally| {
            seen = tally.answered();
            Course::GoOn
        });
        let tally = tally.unwrap();
        assert_eq!(tally.failures.count, failed, "{operation:?}: {:?}", tally.failures.first);
        assert_eq!((tally.answered(), seen), (403, 403));
    }
    let nobody = Client::connect(&["127.0.0.1:1".to_owned()], None).unwrap();
    let error = put(&nobody, 1, b"x", Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error.request(), Some(Refused::Timeout { timeout_ms: 300, .. })), "{error}");
    assert!(matches!(&error, Error::Unreachable { address, .. } if address == "127.0.0.1:1"), "{error:?}");
}

/// Says over TLS, with this certificate, to be a server; what it is told.
fn claim(to: &Controller, files: &node::TlsFiles, server: u64) -> store::protocol::Welcome {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::io::{Read, Write};
    use store::protocol::{Hello, Role, decode, encode_frame, split_frame};
    let read = |path| CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap);
    let mut roots = rustls::RootCertStore::empty();
    read(&files.authority).for_each(|authority| roots.add(authority).unwrap());
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(read(&files.certificate).collect(), key)
        .unwrap();
    let name = "127.0.0.1".try_into().unwrap();
    let tls = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
    let socket = std::net::TcpStream::connect(&to.address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = rustls::StreamOwned::new(tls, socket);
    let cluster = u64::from_str_radix(&to.cluster, 16).unwrap();
    let role = Role::Peer { cluster, server: machine::ServerId(server), to: machine::ServerId(to.server) };
    let mut bytes = Vec::new();
    encode_frame(&Hello::new(role), &mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut received = Vec::new();
    loop {
        if let Some((body, _)) = split_frame(&received).unwrap() {
            return decode(body).unwrap();
        }
        let mut more = [0; 1_024];
        let read = stream.read(&mut more).unwrap();
        assert!(read > 0, "it has closed without a word");
        received.extend(&more[..read]);
    }
}

/// A client may ask for everything; what a server says is believed, so it takes a server's certificate, and its own.
#[test]
fn no_client_passes_for_a_server() {
    use store::protocol::Welcome;
    let tls = tempfile::tempdir().unwrap();
    certificates::make(tls.path(), &["127.0.0.1".to_owned(), "other.example".to_owned()]).unwrap();
    let files = |name| tls_files(tls.path(), name);
    let options = ["--tls", tls.path().to_str().unwrap(), "127.0.0.1"];
    let (data, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let controller = Controller::start(command("c1", data.path(), &options));
    let join = [&options[..], &["--join", &controller.address]].concat();
    let member = Controller::start(command("c2", second.path(), &join));
    let refused = |name, server| match claim(&controller, &files(name), server) {
        Welcome::Refused(reason) => reason,
        _ => panic!("{name} was taken for server {server}"),
    };
    // As a server that is there, and as one that may have joined a moment ago.
    for server in [member.server, 9] {
        let reason = refused("client", server);
        assert!(reason.contains("not a server's") && reason.contains(&format!("server {server}")), "{reason}");
    }
    let reason = refused("other.example", member.server);
    assert!(reason.contains("its certificate is not for 127.0.0.1"), "{reason}");
    // Then it has to prove the cluster's secret.
    assert!(matches!(claim(&controller, &files("127.0.0.1"), member.server), Welcome::Challenge { .. }));
    assert!(matches!(claim(&controller, &files("other.example"), 9), Welcome::Challenge { .. }));
    // It still may ask.
    let tls = Tls::load(&files("client")).unwrap();
    put(&client_with(&controller, Some(&tls)), 1, b"x", PATIENCE).unwrap();
}

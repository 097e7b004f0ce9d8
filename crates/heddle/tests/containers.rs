//! Functions of service chains that are OCI bundles, by the program: what passes frames on in them is Heddle itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chains::{await_that, signal};
use crate::live::{Guard, may_run};
use crate::program::Desk;

/// Two hosts, and a function between them.
fn lab(on_failure: &str) -> String {
    format!(
        "\
nodes: {{ h1: host, h2: host, s1: switch }}
links: [{{ between: [h1, s1] }}, {{ between: [h2, s1] }}]
functions: {{ fw: {{ at: s1, bundle: fw }} }}
chains: {{ all: {{ from: h1, to: h2, functions: fw, on-failure: {on_failure} }} }}
"
    )
}

/// The first of these programs that is installed.
fn installed(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    names.iter().find_map(|name| all.iter().map(|folder| folder.join(name)).find(|program| program.is_file()))
}

/// Whether containers can be run here.
fn may_contain() -> bool {
    if !may_run() {
        return false;
    }
    let may = installed(&["crun", "runc"]).is_some();
    if !may {
        eprintln!("SKIPPED: it needs crun or runc (Debian's packages are called so)");
    }
    may
}

/// What `crun spec` writes, for a program that sends and receives frames.
fn config() -> Value {
    let tmpfs = |place: &str, mode: &str| json!({ "destination": place, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", mode] });
    let capabilities = json!(["CAP_NET_RAW", "CAP_NET_ADMIN"]);
    json!({
        "ociVersion": "1.0.0",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/bin/heddle", "forward", "eth0", "eth1"],
            "env": ["PATH=/bin"],
            "cwd": "/",
            "capabilities": { "bounding": capabilities, "effective": capabilities, "permitted": capabilities },
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs", "readonly": false },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            tmpfs("/dev", "mode=755"),
            { "destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666", "mode=0620", "gid=5"] },
            tmpfs("/dev/shm", "mode=1777"),
            { "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"] },
            { "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"] },
        ],
        "hooks": {},
        "linux": {
            "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
            "namespaces": [{ "type": "pid" }, { "type": "network" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" }],
        },
    })
}

/// Makes a bundle of Heddle and the libraries that it needs.
fn make_bundle(folder: &Path) {
    let program = env!("CARGO_BIN_EXE_heddle");
    let put = |from: &Path, to: PathBuf| {
        fs::create_dir_all(to.parent().expect("a folder")).expect("it can be made");
        fs::copy(from, to).expect("it can be copied");
    };
    let root = folder.join("rootfs");
    put(program.as_ref(), root.join("bin/heddle"));
    let needed = Command::new("ldd").arg(program).output().expect("there is ldd").stdout;
    for word in String::from_utf8_lossy(&needed).split_whitespace().filter(|word| word.starts_with('/')) {
        put(word.as_ref(), root.join(word.trim_start_matches('/')));
    }
    fs::write(folder.join("config.json"), config().to_string()).expect("it can be written");
}

fn up(text: &str) -> Guard {
    let desk = Desk::new();
    desk.write("lab.fabric.yaml", text);
    make_bundle(&desk.path().join("fw"));
    let guard = Guard(desk);
    guard.0.expect(0, &["up", "lab.fabric.yaml"]);
    guard
}

fn answers(desk: &Desk) -> bool {
    desk.heddle(&["exec", "h1", "ping", "-c", "1", "-W", "1", "h2"]).status.success()
}

fn rows(desk: &Desk, what: &str) -> Vec<Value> {
    let text = desk.expect(0, &["show", what, "-o", "json"]).0;
    serde_json::from_str::<Value>(&text).expect("it is JSON").as_array().expect("rows").clone()
}

/// A cell of each instance of the function.
fn hops(desk: &Desk, column: &str) -> Vec<Value> {
    let rows = rows(desk, "chains");
    let own = rows
        .iter()
        .filter(|row| row["course"] == "forward" && row["hop"].as_str().is_some_and(|hop| hop.starts_with("fw")));
    own.map(|row| row[column].clone()).collect()
}

/// Whether any instance has counted some of this.
fn has_counted(desk: &Desk, column: &str) -> bool {
    hops(desk, column).iter().any(|count| count.as_u64().is_some_and(|count| count > 0))
}

fn are_up(desk: &Desk) -> bool {
    hops(desk, "state").iter().all(|state| state == "up")
}

/// What an error says, without its frame.
fn unframed(said: &str) -> String {
    said.replace("\n  │ ", " ")
}

/// The runtime of an instance, and the first process of its container, once they are there.
fn processes(desk: &Desk, instance: &str) -> [String; 2] {
    let mut found = None;
    await_that("a container", || {
        let rows = rows(desk, "programs");
        let row = rows.iter().find(|row| row["host"] == instance && row["program"] == "bundle");
        let runtime = row.and_then(|row| row["pid"].as_i64()).map(|pid| pid.to_string());
        found = runtime.and_then(|runtime| Some([runtime.clone(), child(&runtime)?]));
        found.is_some()
    });
    found.expect("it was found")
}

/// The child of a runtime that runs Heddle. Any of the runtime's threads may have started it.
fn child(runtime: &str) -> Option<String> {
    let runs =
        |pid: &&str| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"/bin/heddle\0"));
    let threads = fs::read_dir(format!("/proc/{runtime}/task")).ok()?;
    threads.filter_map(Result::ok).find_map(|thread| {
        let all = fs::read_to_string(thread.path().join("children")).ok()?;
        all.split_whitespace().find(runs).map(str::to_owned)
    })
}

fn is_alive(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// All below a folder, with lengths.
fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("it can be read").map(|entry| entry.expect("it can be read")) {
        let about = entry.metadata().expect("it is there");
        all.push((entry.path(), if about.is_file() { about.len() } else { 0 }));
        if about.is_dir() {
            all.extend(listing(&entry.path()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_container_is_a_function_that_dies_hangs_and_comes_back() {
    if !may_contain() {
        return;
    }
    let Guard(desk) = &up(&lab("block"));
    let bundle = desk.path().join("fw");
    let before = listing(&bundle);
    await_that("an answer through the container", || answers(desk));
    assert!(has_counted(desk, "out-packets"));
    let [runtime, first] = processes(desk, "fw");
    // It is in the function's network, and in nothing else of the machine's.
    let namespace = |pid: &str, kind: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("it runs");
    for (kind, is_same) in [("net", true), ("pid", false), ("mnt", false), ("ipc", false), ("uts", false)] {
        assert_eq!(namespace(&first, kind) == namespace(&runtime, kind), is_same, "{kind}");
    }
    assert!(!Path::new(&format!("/proc/{first}/root/usr/share")).exists());
    let hosts = fs::read_to_string(format!("/proc/{first}/root/etc/hosts")).expect("it is there");
    assert!(hosts.contains(" h2\n"), "{hosts}");
    // What `exec` starts is in it as well: its files, its processes, its status.
    let (said, _) = desk.expect(0, &["exec", "fw", "--", "heddle", "--version"]);
    assert!(said.starts_with("heddle "), "{said}");
    let (said, _) = desk.expect(2, &["exec", "fw", "--", "/bin/heddle", "check", "/etc/hosts"]);
    assert_eq!(said, "", "the file that it sees is none of a network");
    assert!(!desk.heddle(&["exec", "fw", "--", "/bin/ls"]).status.success(), "the machine's programs are not there");
    // One that dies is down until another one runs.
    signal(&first, "-KILL");
    await_that("a failure", || {
        answers(desk);
        has_counted(desk, "failures")
    });
    await_that("an answer", || answers(desk) && are_up(desk));
    // A runtime that is killed leaves nothing behind.
    let [runtime, second] = processes(desk, "fw");
    assert_ne!(first, second);
    signal(&runtime, "-KILL");
    await_that("the container's end", || !is_alive(&second));
    await_that("an answer", || answers(desk) && are_up(desk));
    // Where there is no container, nothing can begin in it.
    desk.expect(0, &["program", "stop", "fw"]);
    let said = unframed(&desk.expect(2, &["exec", "fw", "--", "/bin/heddle", "--version"]).1);
    assert!(said.contains("the container of function fw does not run"), "{said}");
    desk.expect(0, &["program", "start", "fw"]);
    await_that("an answer", || answers(desk) && are_up(desk));
    let [runtime, last] = processes(desk, "fw");
    let (log, _) = desk.expect(0, &["logs", "fw"]);
    assert!(log.contains("it is started again"), "{log}");
    desk.expect(0, &["down"]);
    await_that("its end", || !is_alive(&runtime) && !is_alive(&last));
    assert_eq!(listing(&bundle), before, "a bundle is not written to");
    let left = Command::new("find").args(["/sys/fs/cgroup", "-name", "heddle-*-fw"]).output().expect("there is find");
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));
}

#[test]
fn a_container_that_hangs_is_passed_by_and_instances_share_flows() {
    if !may_contain() {
        return;
    }
    let Guard(desk) = &up(&lab("bypass").replace("bundle: fw", "bundle: fw, instances: 2"));
    await_that("an answer through the containers", || answers(desk) && has_counted(desk, "out-packets"));
    let all = ["fw-1", "fw-2"].map(|instance| processes(desk, instance)[1].clone());
    for pid in &all {
        signal(pid, "-STOP");
    }
    await_that("an answer past them", || answers(desk) && !are_up(desk));
    for pid in &all {
        signal(pid, "-CONT");
    }
    await_that("both", || answers(desk) && are_up(desk));
    // What changes in the file elsewhere, they do not notice; with another configuration they are others.
    desk.write("lab.fabric.yaml", &lab("block").replace("bundle: fw", "bundle: fw, instances: 2"));
    desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert_eq!(["fw-1", "fw-2"].map(|instance| processes(desk, instance)[1].clone()), all);
    let mut config = config();
    config["process"]["env"] = json!(["PATH=/bin", "OTHER=yes"]);
    desk.write("fw/config.json", &config.to_string());
    let (said, _) = desk.expect(0, &["up", "lab.fabric.yaml"]);
    assert!(said.ends_with("; restarted bundle of fw-1, bundle of fw-2\n"), "{said}");
    await_that("their end", || !all.iter().any(|pid| is_alive(pid)));
    await_that("an answer", || answers(desk));
    let pid = processes(desk, "fw-2")[1].clone();
    let (_, noted) = desk.expect(0, &["program", "stop", "fw-1"]);
    assert!(noted.contains("go to fw-2; if none of those is up, they are dropped (on-failure: block)"), "{noted}");
    let variables = fs::read_to_string(format!("/proc/{pid}/environ")).expect("it runs");
    assert!(variables.contains("OTHER=yes") && !variables.contains("CARGO_MANIFEST_DIR"), "{variables}");
}

/// A network whose process was killed leaves containers, which `heddle clean` ends.
#[test]
fn containers_of_a_network_that_was_killed_are_cleaned_away() {
    if !may_contain() {
        return;
    }
    let Guard(desk) = &up(&lab("block"));
    let [_, container] = processes(desk, "fw");
    let (list, _) = desk.expect(0, &["list", "-o", "json"]);
    let list: Value = serde_json::from_str(&list).expect("it is JSON");
    signal(&list[0]["pid"].as_i64().expect("a process").to_string(), "-KILL");
    await_that("what is left", || {
        desk.expect(0, &["clean"]);
        !is_alive(&container)
    });
}

#[test]
fn what_is_no_bundle_is_refused_at_its_line() {
    let Guard(desk) = &Guard(Desk::new());
    desk.write("lab.fabric.yaml", &lab("block"));
    desk.write("image.fabric.yaml", &lab("block").replace("bundle: fw", "image: fw"));
    fs::create_dir_all(desk.path().join("fw/rootfs")).expect("it can be made");
    let mut hooked = config();
    hooked["hooks"] = json!({ "prestart": [{ "path": "/bin/touch", "args": ["touch", "hooked"] }] });
    let mut outside = config();
    outside["mounts"] = json!([{ "destination": "/x", "type": "bind", "source": "/etc" }]);
    let mut none = config();
    none["process"] = Value::Null;
    for (config, reason) in [
        ("text".to_owned(), "is not one of an OCI bundle"),
        (hooked.to_string(), "has `hooks`"),
        (outside.to_string(), "outside of the bundle"),
        (none.to_string(), "starts nothing"),
    ] {
        desk.write("fw/config.json", &config);
        let said = unframed(&desk.expect(2, &["check", "lab.fabric.yaml"]).1);
        assert!(
            said.contains("lab.fabric.yaml:3:") && said.contains("function fw: cannot run the bundle fw"),
            "{said}"
        );
        assert!(said.contains(reason), "{reason}: {said}");
    }
    let said = unframed(&desk.expect(2, &["check", "image.fabric.yaml"]).1);
    assert!(said.contains("function fw: cannot have the image fw: it is no image"), "{said}");
    if may_run() {
        desk.write("fw/config.json", &hooked.to_string());
        let said = unframed(&desk.expect(2, &["up", "lab.fabric.yaml"]).1);
        assert!(said.contains("lab.fabric.yaml:3:") && said.contains("has `hooks`"), "{said}");
        desk.write("fw/config.json", &config().to_string());
        let mut command = desk.command(&["up", "lab.fabric.yaml"]);
        let output = command.env("PATH", desk.path()).output().expect("the program runs");
        let said = unframed(&String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success() && said.contains("crun or runc, and neither is installed"), "{said}");
        assert!(said.contains("sudo apt install crun"), "{said}");
    }
    assert!(!desk.path().join("hooked").exists());
}

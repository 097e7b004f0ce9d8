//! An ordinary user brings a network up.

use crate::bed;
use crate::images::has_busybox;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const NOBODY: u32 = 65_534;

/// Gives /dev/net/tun the mode that Debian's udev rules give it, for as long as this lives.
///
/// Tests run side by side, each in a process of its own: the lock keeps one from changing the mode under another.
struct OpenTun {
    before: fs::Permissions,
    _alone: fs::File,
}

impl OpenTun {
    fn new() -> io::Result<Self> {
        let alone = fs::File::create(std::env::temp_dir().join("heddle-tests-tun.lock"))?;
        alone.lock()?;
        let before = fs::metadata("/dev/net/tun")?.permissions();
        fs::set_permissions("/dev/net/tun", fs::Permissions::from_mode(0o666))?;
        Ok(Self { before, _alone: alone })
    }
}

impl Drop for OpenTun {
    fn drop(&mut self) {
        fs::set_permissions("/dev/net/tun", self.before.clone()).unwrap();
    }
}

/// Copies the program to where `nobody` can read it.
///
/// A child does it. While this process had the copy open for writing, a test in another thread could start a program of its own, which would
/// hold that file open until it calls exec; to run the copy meanwhile fails ("Text file busy").
fn copy_program(folder: &Path) {
    let copied = Command::new("cp").arg(bed::program()).arg(folder.join("program")).status().unwrap();
    assert!(copied.success(), "cp: {copied}");
}

/// A command that `nobody` runs, with the copied program.
fn as_nobody(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    command.arg(folder.join("program")).args(args).env("XDG_RUNTIME_DIR", folder).current_dir("/");
    command
}

fn run(mut command: Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn an_ordinary_user_needs_nothing_but_the_tun_device() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: this test runs programs as another user and changes a device's mode, which needs root");
        return;
    }
    let tun = OpenTun::new().expect("root may open /dev/net/tun to all");
    let folder = tempfile::Builder::new().prefix("heddle").tempdir_in("/tmp").unwrap();
    copy_program(folder.path());
    let file = folder.path().join("pair.fabric.yaml");
    fs::write(
        &file,
        "name: pair\nnodes: { h1: host, h2: host, h3: { kind: host, devices: ['vhost-user:'] }, s1: switch }\nlinks: [ { between: [h1, s1] }, { between: [s1, h2] }, { between: [s1, h3] } ]\nservices: { web: { address: '10.1.0.80:80', servers: [h2], kernel: yes } }\n",
    )
    .unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let nobody = |args: &[&str]| run(as_nobody(folder.path(), args));

    let (up, text) = nobody(&["up", "net", file.to_str().unwrap()]);
    assert!(up, "{text}");
    let (reached, text) = nobody(&["exec", "net", "h1", "ping", "-c", "2", "-i", "0.2", "-w", "60", "h2"]);
    assert!(reached, "{text}");
    let (_, text) = nobody(&["exec", "net", "h1", "sh", "-c", "hostname; ls /sys/class/net; grep h2 /etc/hosts"]);
    assert!(text.starts_with("h1\neth0\nlo\n10.0.0.2"), "{text}");
    // Only root may load programs into the kernel.
    let (_, text) = nobody(&["counters", "net"]);
    assert!(text.contains("path: \"user-space (it needs CAP_BPF and CAP_NET_ADMIN)\""), "{text}");
    let (down, text) = nobody(&["down", "net"]);
    assert!(down, "{text}");
    assert!(fs::read_dir(folder.path().join("heddle")).unwrap().next().is_none());

    // Without the device he gets a hint what to do.
    fs::set_permissions("/dev/net/tun", fs::Permissions::from_mode(0o600)).unwrap();
    let (up, text) = nobody(&["up", "net", file.to_str().unwrap()]);
    assert!(!up && text.contains("cannot open /dev/net/tun") && text.contains("hint: allow it with"), "{text}");
    drop(tun);
}

/// With a range of ids, programs of hosts can become other users, as tcpdump does, and are ended with the network all the same.
#[test]
fn an_ordinary_users_programs_may_become_other_users() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: this test runs programs as another user and gives him ids, which needs root");
        return;
    }
    if Command::new("newuidmap").output().is_err() || !Path::new("/etc/subuid").exists() {
        eprintln!("SKIPPED: newuidmap is missing (Debian's package uidmap), or /etc/subuid");
        return;
    }
    let tun = OpenTun::new().expect("root may open /dev/net/tun to all");
    let folder = tempfile::Builder::new().prefix("heddle").tempdir_in("/tmp").unwrap();
    copy_program(folder.path());
    let file = folder.path().join("one.fabric.yaml");
    fs::write(&file, "name: one\nnodes: { h1: host, s1: switch }\nlinks: [ { between: [h1, s1] } ]\n").unwrap();
    fs::write(folder.path().join("ids"), "nobody:200000:65536\n").unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // In a mount namespace of his own the machine says that they are his.
    let nobody = |args: &[&str]| {
        let script = "mount --bind ids /etc/subuid && mount --bind ids /etc/subgid && cd / && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", "setpriv", "--reuid", "65534", "--regid", "65534"]);
        command.args(["--clear-groups", "--"]).arg(folder.path().join("program")).args(args);
        command.env("XDG_RUNTIME_DIR", folder.path()).current_dir(folder.path());
        run(command)
    };
    let (up, text) = nobody(&["up", "net", file.to_str().unwrap()]);
    assert!(up, "{text}");
    let become_other = "exec setpriv --reuid 100 --regid 101 --groups 102 sh -c 'id; cat /etc/hosts'";
    let (became, text) = nobody(&["exec", "net", "h1", "sh", "-c", become_other]);
    assert!(became && text.contains("uid=100") && text.contains("h1"), "{text}");
    let background = "setpriv --reuid 100 --regid 101 --clear-groups sleep 1000 > /dev/null 2>&1 & echo $!";
    let (started, text) = nobody(&["exec", "net", "h1", "sh", "-c", background]);
    assert!(started, "{text}");
    let process = Path::new("/proc").join(text.trim());
    assert!(process.exists(), "{text}");
    let (down, text) = nobody(&["down", "net"]);
    assert!(down, "{text}");
    assert!(fs::read_dir(folder.path().join("heddle")).unwrap().next().is_none());
    // It is nobody's child any more, and may be a zombie for a moment.
    let status = fs::read_to_string(process.join("stat")).unwrap_or_default();
    assert!(status.is_empty() || status.contains(") Z "), "{status}");
    drop(tun);
}

#[test]
fn a_runtime_folder_is_found_where_the_variable_names_none() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: this test runs a program as another user, which needs root");
        return;
    }
    let folder = tempfile::Builder::new().prefix("heddle").tempdir_in("/tmp").unwrap();
    copy_program(folder.path());
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for unusable in ["/nowhere/run", "/root"] {
        let mut command = as_nobody(folder.path(), &["clean"]);
        command.env("XDG_RUNTIME_DIR", unusable);
        let (cleaned, text) = run(command);
        assert!(cleaned, "{unusable}: {text}");
        let found = fs::symlink_metadata("/tmp/heddle-65534").unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o700);
    }
    // Somebody's networks may be up there.
    let _ = fs::remove_dir("/tmp/heddle-65534");
}

#[test]
fn a_container_that_cannot_write_proc_sys_gets_a_hint() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: this test mounts, which needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.fabric.yaml");
    fs::write(&file, "name: pair\nnodes: { h1: host, h2: host }\nlinks: [ { between: [h1, h2] } ]\n").unwrap();
    let script = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec \"$0\" up net \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(bed::program()).arg(&file);
    let (up, text) = run({
        command.env("XDG_RUNTIME_DIR", folder.path());
        command
    });
    let mut down = Command::new(bed::program());
    down.args(["down", "net"]).env("XDG_RUNTIME_DIR", folder.path());
    let (ended, last) = run(down);
    assert!(!up && text.contains("set up IPv6") && text.contains("systempaths=unconfined"), "{text}");
    assert!(ended, "{last}");
}

/// A function that is an OCI bundle runs as an ordinary user's, too.
#[test]
fn an_ordinary_users_function_may_be_a_container() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: this test runs programs as another user and changes a device's mode, which needs root");
        return;
    }
    if !has_busybox() {
        return;
    }
    if Command::new("crun").arg("--version").output().is_err()
        && Command::new("runc").arg("--version").output().is_err()
    {
        eprintln!("SKIPPED: it needs crun or runc (Debian's packages are called so)");
        return;
    }
    let tun = OpenTun::new().expect("root may open /dev/net/tun to all");
    let folder = tempfile::Builder::new().prefix("heddle").tempdir_in("/tmp").unwrap();
    copy_program(folder.path());
    let make = "mkdir -p fw/rootfs/bin && cp \"$(command -v busybox)\" fw/rootfs/bin/busybox && chmod -R a+rX fw";
    let made = Command::new("sh").args(["-c", make]).current_dir(folder.path()).status().unwrap();
    assert!(made.success());
    let words =
        ["touch /written", "brctl addbr br0", "brctl addif br0 eth0", "brctl addif br0 eth1", "ip link set br0 up"];
    let script = words.map(|word| format!("busybox {word}; ")).concat() + "exec busybox sleep 1000";
    // As `crun spec` has it: a mount of devices with a group that this user has not.
    let config = format!(
        r#"{{
  "ociVersion": "1.0.0",
  "process": {{ "user": {{ "uid": 0, "gid": 0 }}, "args": ["/bin/busybox", "sh", "-c", "{script}"], "env": ["PATH=/bin"], "cwd": "/",
    "capabilities": {{ "bounding": ["CAP_NET_ADMIN"], "effective": ["CAP_NET_ADMIN"], "permitted": ["CAP_NET_ADMIN"] }} }},
  "root": {{ "path": "rootfs" }},
  "mounts": [
    {{ "destination": "/proc", "type": "proc", "source": "proc" }},
    {{ "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] }},
    {{ "destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666", "gid=5"] }},
    {{ "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"] }}
  ],
  "linux": {{
    "uidMappings": [{{ "containerID": 0, "hostID": 65534, "size": 1 }}],
    "namespaces": [{{ "type": "user" }}, {{ "type": "network" }}, {{ "type": "pid" }}, {{ "type": "mount" }}] }}
}}"#
    );
    fs::write(folder.path().join("fw/config.json"), config).unwrap();
    let file = folder.path().join("net.fabric.yaml");
    let text = "name: net\nnodes: { h1: host, h2: host, s1: switch }\nlinks: [{ between: [h1, s1] }, { between: [h2, s1] }]\nfunctions: { fw: { at: s1, bundle: fw } }\nchains: { all: { from: h1, to: h2, functions: fw } }\n";
    fs::write(&file, text).unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let nobody = |args: &[&str]| run(as_nobody(folder.path(), args));
    let (up, text) = nobody(&["up", "net", file.to_str().unwrap()]);
    assert!(up, "{text}");
    let (reached, text) = nobody(&["exec", "net", "h1", "ping", "-c", "2", "-i", "0.2", "-w", "60", "h2"]);
    let log = fs::read_to_string(folder.path().join("heddle/net/output/fw/bundle.log")).unwrap_or_default();
    assert!(reached, "{text}{log}");
    let (down, text) = nobody(&["down", "net"]);
    assert!(down, "{text}");
    assert!(fs::read_dir(folder.path().join("heddle")).unwrap().next().is_none());
    assert!(!folder.path().join("fw/rootfs/written").exists() && !folder.path().join("fw/rootfs/etc").exists());
    drop(tun);
}

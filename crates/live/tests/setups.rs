//! Programs, files and sysctls of hosts.

use std::path::Path;

use crate::bed::{self, Bed, output, source};
use fabric::{Overrides, Source};
use live::{Instance, Phase, ProgramState};

const NETWORK: &str = "
name: setups
nodes:
  h1:
    kind: host
    programs:
      steady: { run: [sleep, '1000'] }
      greets: 'cat /etc/heddle-test/greeting /etc/hostname; hostname; cat /proc/sys/net/ipv4/ip_forward; cat here.txt; exec sleep 1000'
      fails: 'echo no; exit 3'
      once: { run: 'true', restart: always }
    files:
      /etc/heddle-test/greeting: hello from a file
      /etc/hostname: covered
    sysctls: { net.ipv4.ip_forward: 1, net.ipv4.conf.eth0.rp_filter: 2 }
  h2: host
links: [ { between: [h1, h2] } ]
";

fn up(bed: &Bed, text: &str) -> Instance {
    let network = bed.up("setups", "name: setups\nnodes: { h1: host, h2: host }\nlinks: [{ between: [h1, h2] }]\n");
    std::fs::write(bed.folder.path().join("here.txt"), "beside the file\n").unwrap();
    apply(&network, bed.folder.path(), text).unwrap();
    network
}

fn apply(network: &Instance, folder: &Path, text: &str) -> Result<live::Applied, live::Error> {
    let name = folder.join("net.fabric.yaml").display().to_string();
    network.apply(&Source { name, text: text.to_owned() }, &Overrides::default())
}

fn state(network: &Instance, program: &str) -> ProgramState {
    let all = network.programs().unwrap();
    all.into_iter().find(|state| state.program == program).unwrap_or_else(|| panic!("{program} is there"))
}

fn said(network: &Instance, program: &str) -> String {
    std::fs::read_to_string(state(network, program).output).unwrap()
}

fn read(network: &Instance, host: &str, path: &str) -> String {
    output(network.command(host, "cat", [path]))
}

#[test]
fn a_host_has_its_programs_files_and_sysctls_and_others_do_not() {
    let Some(bed) = Bed::new() else { return };
    let network = up(&bed, NETWORK);
    bed::wait_until("it has read its files", || said(&network, "greets").contains("beside the file"));
    let lines = said(&network, "greets");
    let lines: Vec<&str> = lines.lines().skip(1).collect();
    assert_eq!(lines, ["hello from a file", "covered", "h1", "1", "beside the file"]);
    assert_eq!(read(&network, "h1", "/etc/heddle-test/greeting"), "hello from a file\n");
    assert_eq!(read(&network, "h1", "/proc/sys/net/ipv4/conf/eth0/rp_filter"), "2\n");
    assert_ne!(read(&network, "h2", "/etc/hostname"), "covered\n");
    assert!(!Path::new("/etc/heddle-test").exists());
    // Names of hosts are there still.
    assert!(read(&network, "h1", "/etc/hosts").contains(" h2\n"));
    network.down().unwrap();
    assert!(bed.is_empty());
}

#[test]
fn what_fails_is_started_again_and_what_is_stopped_is_not() {
    let Some(bed) = Bed::new() else { return };
    let network = up(&bed, NETWORK);
    bed::wait_until("what fails has been started again", || state(&network, "fails").starts > 1);
    assert_eq!(state(&network, "fails").last.unwrap(), "exit status: 3");
    bed::wait_until("so has what ends", || state(&network, "once").starts > 1);
    bed::wait_until("what goes on runs", || state(&network, "steady").phase == Phase::Running);
    let steady = state(&network, "steady");
    assert_eq!(steady.starts, 1);
    // Who kills it has it started again.
    let killed = nix::unistd::Pid::from_raw(steady.pid.unwrap());
    nix::sys::signal::kill(killed, nix::sys::signal::Signal::SIGKILL).unwrap();
    bed::wait_until("it runs again", || {
        let state = state(&network, "steady");
        state.phase == Phase::Running && state.starts == 2
    });
    // Another file: what is in both goes on, what is changed is another process, what is not there has ended.
    bed::wait_until("it greets", || state(&network, "greets").pid.is_some());
    let greets = state(&network, "greets").pid;
    let pid = state(&network, "steady").pid.unwrap();
    let other = NETWORK.replace("echo no; exit 3", "exit 0").replace("      steady: { run: [sleep, '1000'] }\n", "");
    let applied = apply(&network, bed.folder.path(), &other).unwrap();
    assert_eq!((applied.changed, applied.kept), (vec!["h1".to_owned()], 2));
    assert_eq!(state(&network, "greets").pid, greets);
    bed::wait_until("what ends well is left", || state(&network, "fails").phase == Phase::Ended);
    assert!(!bed::alive(pid) && network.programs().unwrap().len() == 3);
    network.down().unwrap();
    assert!(!bed::alive(greets.unwrap()));
}

#[test]
fn what_a_new_file_leaves_out_is_as_it_was() {
    let Some(bed) = Bed::new() else { return };
    let network = up(&bed, NETWORK);
    let before = read(&network, "h2", "/proc/sys/net/ipv4/conf/eth0/rp_filter");
    let other = NETWORK.replace("hello from", "good bye from").replace(", net.ipv4.conf.eth0.rp_filter: 2", "");
    apply(&network, bed.folder.path(), &other).unwrap();
    assert_eq!(read(&network, "h1", "/proc/sys/net/ipv4/conf/eth0/rp_filter"), before);
    assert_eq!(read(&network, "h1", "/etc/heddle-test/greeting"), "good bye from a file\n");
    bed::wait_until("programs see it", || said(&network, "greets").contains("good bye"));
    network
        .apply(
            &source("name: setups\nnodes: { h1: host, h2: host }\nlinks: [{ between: [h1, h2] }]\n"),
            &Overrides::default(),
        )
        .unwrap();
    assert!(network.programs().unwrap().is_empty());
    assert_eq!(
        read(&network, "h1", "/proc/sys/net/ipv4/ip_forward"),
        read(&network, "h2", "/proc/sys/net/ipv4/ip_forward")
    );
}

#[test]
fn what_no_host_can_have_is_refused_and_changes_nothing() {
    let Some(bed) = Bed::new() else { return };
    let network = up(&bed, NETWORK);
    bed::wait_until("it runs", || state(&network, "steady").pid.is_some());
    let pid = state(&network, "steady").pid;
    let beside = bed.folder.path().with_file_name("heddle-beside-it").display().to_string();
    for (from, to, at, reason) in [
        ("/etc/hostname", &*beside, vec!["nodes", "h1", "files", &*beside], "Heddle's runtime folder is in it"),
        ("/etc/hostname", "/no/such/folder", vec!["nodes", "h1", "files", "/no/such/folder"], "no folder for it"),
        ("ip_forward: 1", "no_such: 1", vec!["nodes", "h1", "sysctls"], "cannot set the sysctl net/ipv4/no_such"),
        ("ip_forward: 1", "ip_forward: x", vec!["nodes", "h1", "sysctls"], "to `x`"),
    ] {
        let error = apply(&network, bed.folder.path(), &NETWORK.replace(from, to)).unwrap_err();
        let live::Error::Refused { message, hint, at: place } = error else { panic!("{error}") };
        assert!(message.contains(reason) && hint.is_some(), "{message} {hint:?}");
        assert_eq!(place, at);
    }
    assert_eq!(state(&network, "steady").pid, pid);
    assert_eq!(read(&network, "h1", "/proc/sys/net/ipv4/ip_forward"), "1\n");
}

/// The kernel stacks two covers at most.
#[test]
fn new_files_may_be_in_folders_within_each_other() {
    let Some(bed) = Bed::new() else { return };
    let paths = ["/usr/heddle-1", "/usr/share/heddle-2", "/usr/share/doc/heddle-3", "/usr/share/doc/heddle-4/deep"];
    let files = paths.map(|path| format!("      {path}: this is {path}\n")).concat();
    let text = format!(
        "name: setups\nnodes:\n  h1:\n    kind: host\n    files:\n{files}  h2: host\nlinks: [{{ between: [h1, h2] }}]\n"
    );
    let network = up(&bed, &text);
    for path in paths {
        assert_eq!(read(&network, "h1", path), format!("this is {path}\n"));
        assert!(!Path::new(path).exists());
    }
    // What was there is there still.
    let names = |text: String| text.lines().filter(|line| !line.starts_with("heddle-")).map(str::to_owned).collect();
    let listed: Vec<String> = names(output(network.command("h1", "ls", ["/usr/share"])));
    let expected: Vec<String> = names(output(network.command("h2", "ls", ["/usr/share"])));
    assert_eq!(listed, expected);
    network.down().unwrap();
}

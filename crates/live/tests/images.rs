//! Images of containers as roots of hosts.

use std::path::Path;
use std::process::Command;

use fabric::{Overrides, Source};
use live::{Error, Instance};

use crate::bed::{self, Bed, output};

/// Writes `image.tar` as `docker save` does: busybox and a few files, one of them removed by the second layer.
const MAKE: &str = r#"
set -e
mkdir -p first/bin first/etc first/srv first/tmp second/etc
cp "$(command -v busybox)" first/bin/busybox
for name in sh cat ls hostname sleep touch id ping; do ln -s busybox first/bin/$name; done
echo 'this is an image' > first/etc/motd
echo gone > first/etc/gone
ln -s /nowhere/resolv.conf first/etc/resolv.conf
touch second/etc/.wh.gone
for layer in first second; do tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C $layer -cf $layer.tar .; done
id() { sha256sum "$1" | cut -d ' ' -f 1; }
echo "{\"config\": {\"Env\": [\"PATH=/bin\", \"WHERE=image\"], \"WorkingDir\": \"/srv\"}, \"rootfs\": {\"diff_ids\": [\"sha256:$(id first.tar)\", \"sha256:$(id second.tar)\"]}}" > config.json
echo '[{"Config": "config.json", "Layers": ["first.tar", "second.tar"]}]' > manifest.json
tar -cf image.tar manifest.json config.json first.tar second.tar
"#;

const NETWORK: &str = "
name: images
nodes:
  h1:
    kind: host
    image: image.tar
    programs: { says: 'cat /etc/motd /etc/greeting; pwd; echo $WHERE; export -p; echo written > /tmp/by-program; exec sleep 1000' }
    files: { /etc/greeting: hello, /etc/resolv.conf: nameserver 10.0.0.53 }
  h2: host
links: [ { between: [h1, h2] } ]
";

/// Whether there is a busybox that runs anywhere; if not, it says so.
pub fn has_busybox() -> bool {
    let is_static = Command::new("busybox").output().is_ok()
        && Command::new("sh")
            .args(["-c", "! ldd \"$(command -v busybox)\" >/dev/null 2>&1"])
            .status()
            .is_ok_and(|s| s.success());
    if !is_static {
        eprintln!("SKIPPED: it needs a static busybox (Debian's package busybox-static)");
    }
    is_static
}

/// `None` where there is no busybox that runs anywhere.
fn up(bed: &Bed) -> Option<Instance> {
    up_with(bed, MAKE)
}

fn up_with(bed: &Bed, script: &str) -> Option<Instance> {
    if !has_busybox() {
        return None;
    }
    let made = Command::new("bash").args(["-c", script]).current_dir(bed.folder.path()).status().unwrap();
    assert!(made.success());
    // The daemon has the environment of whoever starts it.
    let options = bed.options("images");
    let network = Instance::start(&options).unwrap_or_else(|error| panic!("{error} {:?}", error.hint()));
    Some(network)
}

fn apply(network: &Instance, folder: &Path, text: &str) -> Result<live::Applied, Error> {
    let name = folder.join("net.fabric.yaml").display().to_string();
    network.apply(&Source { name, text: text.to_owned() }, &Overrides::default())
}

fn said(network: &Instance) -> String {
    let state = network.programs().unwrap().into_iter().find(|state| state.program == "says").unwrap();
    std::fs::read_to_string(state.output).unwrap()
}

#[test]
fn programs_of_a_host_run_in_its_image() {
    let Some(bed) = Bed::new() else { return };
    let Some(network) = up(&bed) else { return };
    apply(&network, bed.folder.path(), NETWORK).unwrap_or_else(|error| panic!("{error} {:?}", error.hint()));
    bed::wait_until("it has said all", || {
        let said = said(&network);
        said.contains("/srv\nimage\n") && said.contains("WHERE=")
    });
    assert!(said(&network).contains("this is an image\nhello\n"), "{}", said(&network));
    let in_image = |script: &str| output(network.command_of_host("h1", "sh", ["-c", script]));
    assert_eq!(
        in_image("hostname; cat /etc/resolv.conf; cat /etc/hosts | grep -c ' h2$' || true").lines().next(),
        Some("h1")
    );
    assert!(in_image("cat /etc/resolv.conf").contains("10.0.0.53"));
    bed::wait_until("one sees what the other writes", || {
        in_image("cat /tmp/by-program 2>/dev/null || true") == "written\n"
    });
    let found = in_image("ls /; ls /etc; ls -d /proc/self /dev/null /sys/class/net/eth0");
    assert!(!found.contains("gone") && !found.contains("usr") && found.contains("/sys/class/net/eth0"), "{found}");
    // The environment is the image's alone, of what starts with the network and of what is run later. Whoever runs tests has variables of its own.
    let of_machine = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(of_machine).is_some(), "cargo has not run this test");
    for shown in [in_image("export -p"), said(&network)] {
        assert!(shown.contains("WHERE='image'") && !shown.contains(of_machine), "{shown}");
    }
    // The machine's programs see the machine, in the same network.
    assert!(output(network.command("h1", "ls", ["/usr"])).contains("bin"));
    bed::ping(&network, "h1", &["-4"], 1, "h2");
    // What it wrote stays as long as the image and its files stay, and is nowhere else.
    apply(&network, bed.folder.path(), &NETWORK.replace("sleep 1000", "sleep 2000")).unwrap();
    bed::wait_until("its program, begun anew, has written it again", || in_image("cat /tmp/by-program") == "written\n");
    apply(&network, bed.folder.path(), &NETWORK.replace("greeting: hello", "greeting: other")).unwrap();
    assert_eq!(in_image("cat /etc/greeting"), "other\n");
    // Without the image it is a host as others are.
    apply(&network, bed.folder.path(), "name: images\nnodes: { h1: host, h2: host }\nlinks: [{ between: [h1, h2] }]\n")
        .unwrap();
    assert!(output(network.command_of_host("h1", "ls", ["/usr"])).contains("bin"));
    network.down().unwrap();
    assert!(bed.is_empty());
}

#[test]
fn what_is_no_image_is_refused_and_changes_nothing() {
    let Some(bed) = Bed::new() else { return };
    let Some(network) = up(&bed) else { return };
    std::fs::write(bed.folder.path().join("text.tar"), "no archive").unwrap();
    for (image, reason) in [
        ("missing.tar", "there is no "),
        ("text.tar", "text.tar"),
        ("first.tar", "neither index.json nor manifest.json"),
    ] {
        let error = apply(&network, bed.folder.path(), &NETWORK.replace("image.tar", image)).unwrap_err();
        let Error::Refused { message, hint, at } = error else { panic!("{error}") };
        assert!(message.contains(reason) && hint.is_some(), "{message}");
        assert_eq!(at, ["nodes", "h1", "image"]);
    }
    network.down().unwrap();
}

/// A bridge between the two devices of a function, which its image makes by itself. Who begins again finds it.
const BRIDGE: &str = "brctl addbr br0; brctl addif br0 eth0; brctl addif br0 eth1; ip link set br0 up; ip link; cat /etc/motd; exec sleep 1000";

const FUNCTION: &str = "
name: images
nodes: { h1: host, h2: host, s1: switch }
links: [ { between: [h1, s1] }, { between: [h2, s1] } ]
functions: { fw: { at: s1, instances: 2, image: image.tar } }
chains: { all: { from: h1, to: h2, functions: fw } }
";

#[test]
fn a_function_runs_what_its_image_starts() {
    let Some(bed) = Bed::new() else { return };
    // The shell that writes the configuration takes the backslashes away.
    let start = format!(r#"{{\"config\": {{\"Entrypoint\": [\"sh\", \"-c\"], \"Cmd\": [\"{BRIDGE}\"], "#);
    let script = MAKE.replace(r#"{\"config\": {"#, &start);
    let script = script.replace("for name in sh", "for name in brctl ip sh");
    assert_ne!(script, MAKE);
    let Some(network) = up_with(&bed, &script) else { return };
    apply(&network, bed.folder.path(), FUNCTION).unwrap_or_else(|error| panic!("{error} {:?}", error.hint()));
    // What is asked before the bridge is there is lost.
    let answers = || {
        let mut ping = network.command("h1", "ping", ["-4", "-c", "1", "-W", "1", "h2"]).unwrap();
        ping.output().is_ok_and(|output| output.status.success())
    };
    bed::wait_until("an answer", answers);
    let programs = network.programs().unwrap();
    let names: Vec<_> = programs.iter().map(|state| (state.host.as_str(), state.program.as_str())).collect();
    assert_eq!(names, [("fw-1", "image"), ("fw-2", "image")]);
    let said = std::fs::read_to_string(&programs[0].output).unwrap();
    assert!(said.contains("eth1") && said.contains("this is an image"), "{said}");
    // With `programs:` it does what they say, in the image.
    let own = FUNCTION
        .replace("image: image.tar", &format!("image: image.tar, programs: {{ own: 'echo $WHERE; {BRIDGE}' }}"));
    apply(&network, bed.folder.path(), &own).unwrap();
    bed::wait_until("an answer", answers);
    let programs = network.programs().unwrap();
    assert_eq!(programs.iter().map(|state| state.program.as_str()).collect::<Vec<_>>(), ["own", "own"]);
    bed::wait_until("it says where it is", || {
        std::fs::read_to_string(&programs[0].output).unwrap().contains("image\n")
    });
    network.down().unwrap();
    assert!(bed.is_empty());
}

#[test]
fn a_function_with_an_image_that_starts_nothing_is_refused() {
    let Some(bed) = Bed::new() else { return };
    let Some(network) = up(&bed) else { return };
    let error = apply(&network, bed.folder.path(), FUNCTION).unwrap_err();
    let Error::Refused { message, hint, at } = error else { panic!("{error}") };
    assert!(message.contains("function fw: cannot have the image image.tar: it starts nothing itself"), "{message}");
    assert!(hint.is_some_and(|hint| hint.contains("programs:")));
    assert_eq!(at, ["functions", "fw", "image"]);
    let source = Source { name: "net.fabric.yaml".to_owned(), text: FUNCTION.to_owned() };
    let found = live::check_named_files(&fabric::parse(&source).unwrap(), bed.folder.path());
    assert_eq!(found.len(), 1, "once, not for each instance: {found:?}");
    network.down().unwrap();
}

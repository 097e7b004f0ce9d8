//! OCI bundles as functions of chains: what of a bundle's `config.json` is taken, and what is refused.
//!
//! A bundle is somebody else's, and a runtime does what its configuration says with the rights of who calls it. So the keys below are read and no others, what would reach out of the
//! container is refused, and the runtime gets a configuration that is written anew.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::image::{Blobs, Unusable, is_first_user_namespace};

/// What a runtime reads.
pub const CONFIG: &str = "config.json";

const AS_USER: &str =
    "call `heddle up` as an ordinary user: what root may in a container is then nothing outside of it";
const WRITE_ONE: &str = "`crun spec` or `runc spec` writes one, `umoci unpack` makes a bundle of an image";
const WITHIN: &str = "copy what is needed into the bundle's folder";

/// File systems that show nothing of the machine's files.
const HARMLESS: [&str; 5] = ["proc", "sysfs", "tmpfs", "devpts", "mqueue"];

/// Those of control groups: the container has none of its own, and sees none.
const OF_CGROUPS: [&str; 2] = ["cgroup", "cgroup2"];

/// Files of the machine that containers are often given, and that are of no use in a function's network.
const OF_MACHINE: [&str; 3] = ["/etc/hosts", "/etc/resolv.conf", "/etc/hostname"];

/// Namespaces that a container has in any case.
const NAMESPACES: [&str; 4] = ["pid", "mount", "ipc", "uts"];

/// Namespaces that it gets from its function: the network, of which its ports are, and what it is alone in.
const OF_FUNCTION: [&str; 3] = ["network", "cgroup", "user"];

/// Devices that any container may have: null, zero, full, random, urandom, tty, ptmx and tun.
const DEVICES: [(i64, i64); 8] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (10, 200)];

/// Files of the kernel that root of a container must not read, and those that it must not write, who is root of the machine as well.
const MASKED: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What root of a container may be allowed who is root of the machine as well: no way from there to anything outside is known that the kernel takes for right. Those of Docker, without making
/// devices, and what networks need.
const CAPABILITIES: [&str; 15] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_ADMIN",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// A bundle, and what of its configuration is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Its root file system: a folder within it.
    pub root: PathBuf,
    config: Config,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    oci_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<Process>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<RootFs>,
    #[serde(default)]
    hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mounts: Option<Vec<Mount>>,
    #[serde(default)]
    linux: Linux,
    #[serde(skip_serializing)]
    hooks: Option<Value>,
}

/// What runs. There is no terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    #[serde(default)]
    user: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<Vec<String>>,
    cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Capabilities>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rlimits: Option<Vec<Value>>,
    #[serde(default)]
    no_new_privileges: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    apparmor_profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selinux_label: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Capabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    bounding: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inheritable: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permitted: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ambient: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RootFs {
    path: String,
    #[serde(default)]
    readonly: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mount {
    destination: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linux {
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<Vec<Namespace>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Vec<Device>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    masked_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readonly_paths: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seccomp: Option<Map<String, Value>>,
    #[serde(skip_serializing)]
    sysctl: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Namespace {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing)]
    path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    major: i64,
    minor: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_mode: Option<u32>,
}

/// Reads a bundle. `folder` is what its path is relative to. Nothing is written.
///
/// # Errors
/// If it is no bundle, can't be read, or asks for what would reach out of its container.
pub fn read(written: &str, folder: &Path) -> Result<Bundle, Unusable> {
    let path = folder.join(written);
    let path = path.canonicalize().map_err(|error| missing(&path, &error))?;
    if !path.is_dir() {
        let reason = format!("{} is a file, and a bundle is a folder with config.json in it", path.display());
        return Err(Unusable::new(reason, WRITE_ONE));
    }
    let document = Blobs::Folder(path.clone()).document(CONFIG);
    let document = document.map_err(|error| cannot("its config.json cannot be read", &error))?;
    let is_root = nix::unistd::geteuid().is_root() && is_first_user_namespace();
    take(&document, &path, is_root)
}

fn cannot(what: &str, error: &std::io::Error) -> Unusable {
    Unusable::new(format!("{what}: {error}"), WRITE_ONE)
}

/// Why nothing is found at a path.
fn missing(path: &Path, error: &std::io::Error) -> Unusable {
    Unusable::new(not_found(path, error), WRITE_ONE)
}

fn not_found(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no {}", path.display()),
        _ => format!("{}: {error}", path.display()),
    }
}

fn wrong(reason: impl Into<String>, hint: &'static str) -> Unusable {
    Unusable::new("its config.json ".to_owned() + &reason.into(), hint)
}

/// What of a configuration is taken. `bundle` is the bundle's folder, as an absolute path without symbolic links. `is_root`: whether root of its container would be the machine's.
///
/// # Errors
/// As [`read()`].
pub fn take(document: &[u8], bundle: &Path, is_root: bool) -> Result<Bundle, Unusable> {
    let config: Result<Config, _> = serde_json::from_slice(document);
    let mut config = config.map_err(|error| wrong(format!("is not one of an OCI bundle: {error}"), WRITE_ONE))?;
    if config.hooks.take().is_some_and(|hooks| holds_something(&hooks)) {
        let reason = "has `hooks`: programs that its runtime would start outside of the container";
        return Err(wrong(reason, "remove them; start what is needed beside it as a program of a host"));
    }
    check_process(config.process.as_ref(), is_root)?;
    let root = config.root.as_ref().map_or("rootfs", |root| &root.path);
    let root = within(bundle, root, "`root.path`")?;
    if !root.is_dir() {
        return Err(wrong(format!("has `root.path`, and {} is no folder", root.display()), WRITE_ONE));
    }
    let mut mounts = config.mounts.take().unwrap_or_default();
    mounts.retain(|mount| {
        let is_of_machine =
            mount.source.as_ref() == Some(&mount.destination) && OF_MACHINE.contains(&&*mount.destination);
        !is_of_machine && mount.kind.as_deref().is_none_or(|kind| !OF_CGROUPS.contains(&kind))
    });
    for mount in &mut mounts {
        take_mount(mount, bundle, is_root)?;
    }
    config.mounts = Some(mounts);
    config.linux.take(is_root)?;
    Ok(Bundle { root, config })
}

/// Whether there is anything in a value but empty lists.
fn holds_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(all) => !all.is_empty(),
        Value::Object(all) => all.values().any(holds_something),
        _ => true,
    }
}

fn check_process(process: Option<&Process>, is_root: bool) -> Result<(), Unusable> {
    let args = process.and_then(|process| process.args.as_ref());
    if args.and_then(|args| args.first()).is_none_or(String::is_empty) {
        return Err(wrong("starts nothing", "name a program in `process.args`: `[\"/bin/firewall\"]`"));
    }
    let Some(Process { capabilities: Some(all), .. }) = process.filter(|_| is_root) else { return Ok(()) };
    let Capabilities { bounding, effective, inheritable, permitted, ambient } = all;
    let all = [bounding, effective, inheritable, permitted, ambient].into_iter().flatten().flatten();
    match all.into_iter().find(|asked| !CAPABILITIES.contains(&asked.as_str())) {
        Some(asked) => {
            let reason = format!("asks for {}, with which root gets out of a container", shown(asked));
            Err(wrong(reason, AS_USER))
        }
        None => Ok(()),
    }
}

/// The path of something that has to be in the bundle, with all links followed.
fn within(bundle: &Path, written: &str, key: &str) -> Result<PathBuf, Unusable> {
    let path = bundle.join(written);
    let found = path.canonicalize();
    let path = found.map_err(|error| {
        wrong(format!("has {key} `{}`, and {}", shown(written), not_found(&path, &error).escape_debug()), WRITE_ONE)
    })?;
    if path.starts_with(bundle) {
        return Ok(path);
    }
    Err(wrong(format!("has {key} `{}`, which is outside of the bundle", shown(written)), WITHIN))
}

/// What is mounted into the container is of the bundle, to read only, or shows nothing of the machine.
fn take_mount(mount: &mut Mount, bundle: &Path, is_root: bool) -> Result<(), Unusable> {
    let options = mount.options.get_or_insert_default();
    let kind = mount.kind.get_or_insert_default();
    if mount.source.as_deref() == Some("/sys") && mount.destination == "/sys" {
        // So for users whose network is the machine's. Here it is the function's.
        "sysfs".clone_into(kind);
        *options = ["nosuid", "noexec", "nodev", "ro"].map(str::to_owned).into();
    } else if kind == "bind" || options.iter().any(|option| option == "bind" || option == "rbind") {
        let source = within(bundle, mount.source.as_deref().unwrap_or_default(), "the source of a mount")?;
        "bind".clone_into(kind);
        mount.source = Some(source.to_string_lossy().into_owned());
        *options = ["bind", "ro"].map(str::to_owned).into();
    } else if !HARMLESS.contains(&kind.as_str()) {
        let reason = format!("mounts a file system `{}` at {}", shown(kind), shown(&mount.destination));
        return Err(wrong(reason, "a container has proc, sysfs, tmpfs, devpts, mqueue, and what is in its bundle"));
    } else if kind == "devpts" && !is_root {
        // A network of an ordinary user may have one group alone.
        options.retain(|option| !option.starts_with("gid="));
    } else if is_root && (kind == "proc" || kind == "sysfs") {
        // Elsewhere they would not be masked.
        let place = if kind == "proc" { "/proc" } else { "/sys" };
        if mount.destination != place {
            return Err(wrong(format!("mounts {kind} at {}", shown(&mount.destination)), "mount it at /proc or /sys"));
        }
        // Of the bundle's own none are taken: which of them take `ro` back (`rrw` of crun may) is a runtime's affair.
        *options = ["nosuid", "noexec", "nodev"].map(str::to_owned).into();
        if kind == "sysfs" {
            options.push("ro".to_owned());
        }
    }
    Ok(())
}

impl Linux {
    fn take(&mut self, is_root: bool) -> Result<(), Unusable> {
        let mut namespaces = self.namespaces.take().unwrap_or_default();
        if let Some(namespace) = namespaces.iter().find(|namespace| namespace.path.is_some()) {
            let reason = format!("would have the container in another's namespace (`{}`)", shown(&namespace.kind));
            return Err(wrong(reason, "remove its `path`; its network is the function's by itself"));
        }
        // That of an ordinary user's network is one already.
        if is_root && namespaces.iter().any(|namespace| namespace.kind == "user") {
            let reason = "asks for a user namespace, whose root could do nothing with the function's ports";
            return Err(wrong(reason, "remove it, or call `heddle up` as an ordinary user"));
        }
        namespaces.retain(|namespace| !OF_FUNCTION.contains(&namespace.kind.as_str()));
        for kind in NAMESPACES {
            if !namespaces.iter().any(|namespace| namespace.kind == kind) {
                namespaces.push(Namespace { kind: kind.to_owned(), path: None });
            }
        }
        self.namespaces = Some(namespaces);
        if is_root {
            self.masked_paths.get_or_insert_default().extend(MASKED.map(str::to_owned));
            self.readonly_paths.get_or_insert_default().extend(READ_ONLY.map(str::to_owned));
        }
        let is_known = |device: &&Device| device.kind == "c" && DEVICES.contains(&(device.major, device.minor));
        if let Some(device) = self.devices.iter().flatten().find(|device| !is_known(device)) {
            return Err(wrong(
                format!("has the device {} of the machine", shown(&device.path)),
                "remove it: a container has null, zero, full, random, tty and tun",
            ));
        }
        if self.sysctl.as_ref().is_some_and(|all| !all.is_empty()) {
            return Err(wrong("sets `sysctl`", "write them into the fabric file: `sysctls:` of the function"));
        }
        // Another process would decide.
        if let Some(seccomp) = &mut self.seccomp {
            seccomp.retain(|key, _| !key.starts_with("listener"));
        }
        Ok(())
    }
}

/// Text of a bundle in a message.
fn shown(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}

impl Bundle {
    /// What its configuration says of its process, as a runtime is given it.
    pub fn process(&self) -> Value {
        serde_json::to_value(&self.config.process).expect("text and numbers can be written")
    }

    /// The configuration that a runtime is given: `root` is the root file system, `name` the function's, and `hosts_file` what is seen as `/etc/hosts`.
    pub fn config(&self, root: &Path, name: &str, hosts_file: &Path) -> String {
        let mut config = self.config.clone();
        let path = root.to_string_lossy().into_owned();
        config.root = Some(RootFs { path, readonly: config.root.is_some_and(|root| root.readonly) });
        name.clone_into(&mut config.hostname);
        // Last, so that nothing covers it: by it processes are known as this network's.
        config.mounts.get_or_insert_default().push(Mount {
            destination: "/etc/hosts".to_owned(),
            kind: Some("bind".to_owned()),
            source: Some(hosts_file.to_string_lossy().into_owned()),
            options: Some(["bind", "ro"].map(str::to_owned).into()),
        });
        serde_json::to_string_pretty(&config).expect("text and numbers can be written")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    /// A bundle's folder, with what `crun spec` writes, as far as it matters here.
    fn folder() -> (tempfile::TempDir, Value) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("rootfs/bin")).unwrap();
        fs::create_dir(folder.path().join("rules")).unwrap();
        symlink("/etc", folder.path().join("away")).unwrap();
        let config = json!({
            "ociVersion": "1.0.0",
            "process": {
                "terminal": true,
                "user": { "uid": 0, "gid": 0 },
                "args": ["/bin/firewall"],
                "env": ["PATH=/bin"],
                "cwd": "/",
                "capabilities": { "bounding": ["CAP_NET_ADMIN"], "ambient": null },
                "oomScoreAdj": -1000,
            },
            "root": { "path": "rootfs", "readonly": true },
            "hostname": "theirs",
            "mounts": [
                { "destination": "/proc", "type": "proc", "source": "proc" },
                { "destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["gid=5", "newinstance"] },
                { "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["rw", "rrw"] },
                { "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup" },
                { "destination": "/rules", "type": "none", "source": "rules", "options": ["rbind", "rw"] },
                { "destination": "/etc/resolv.conf", "type": "bind", "source": "/etc/resolv.conf", "options": ["rbind"] },
                { "destination": "/sys", "type": "none", "source": "/sys", "options": ["rbind"] },
            ],
            "annotations": { "run.oci.handler": "krun" },
            "hooks": { "prestart": [] },
            "linux": {
                "cgroupsPath": "/theirs",
                "resources": { "devices": [{ "allow": true }] },
                "namespaces": [{ "type": "network" }, { "type": "pid" }, { "type": "cgroup" }],
                "devices": [{ "type": "c", "path": "/dev/net/tun", "major": 10, "minor": 200, "fileMode": 438 }],
                "seccomp": { "defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/run/listener" },
                "maskedPaths": null,
            },
        });
        (folder, config)
    }

    fn take_of(folder: &Path, config: &Value, is_root: bool) -> Result<Bundle, Unusable> {
        take(config.to_string().as_bytes(), &folder.canonicalize().unwrap(), is_root)
    }

    #[test]
    fn a_runtime_is_given_what_is_harmless_and_nothing_else() {
        let (folder, config) = folder();
        let path = folder.path().canonicalize().unwrap();
        for is_root in [true, false] {
            let bundle = take_of(folder.path(), &config, is_root).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(bundle.root, path.join("rootfs"));
            let text = bundle.config(Path::new("/run/fw/root"), "fw", Path::new("/run/hosts-mark"));
            let given: Value = serde_json::from_str(&text).unwrap();
            for gone in [
                "krun",
                "theirs",
                "/run/listener",
                "cgroup",
                "network",
                "resources",
                "oomScoreAdj",
                "null",
                "hooks",
                "resolv.conf",
                "rbind",
            ] {
                assert!(!text.contains(gone), "{gone}: {text}");
            }
            assert_eq!(given["root"], json!({ "path": "/run/fw/root", "readonly": true }));
            assert_eq!((&given["hostname"], &given["process"]["args"]), (&json!("fw"), &json!(["/bin/firewall"])));
            let mounts = given["mounts"].as_array().unwrap();
            let hosts = json!({ "destination": "/etc/hosts", "type": "bind", "source": "/run/hosts-mark", "options": ["bind", "ro"] });
            assert_eq!(mounts.last(), Some(&hosts));
            // What is of the bundle cannot be written to.
            assert_eq!(
                (&mounts[3]["source"], &mounts[3]["options"]),
                (&json!(path.join("rules")), &json!(["bind", "ro"]))
            );
            assert_eq!(mounts[1]["options"].as_array().unwrap().contains(&json!("gid=5")), is_root);
            // What the bundle asks for is not held against `ro`.
            let of_sysfs = if is_root { json!(["nosuid", "noexec", "nodev", "ro"]) } else { json!(["rw", "rrw"]) };
            assert_eq!(mounts[2]["options"], of_sysfs);
            assert_eq!((&mounts[4]["type"], &mounts[4]["source"]), (&json!("sysfs"), &json!("/sys")));
            let kinds: Vec<&Value> =
                given["linux"]["namespaces"].as_array().unwrap().iter().map(|namespace| &namespace["type"]).collect();
            assert_eq!(kinds, ["pid", "mount", "ipc", "uts"]);
            let masked = given["linux"]["readonlyPaths"].as_array();
            assert_eq!(masked.is_some_and(|all| all.contains(&json!("/proc/sys"))), is_root);
        }
    }

    /// Each is refused with these words.
    #[test]
    fn what_reaches_out_of_a_container_is_refused() {
        let (folder, sound) = folder();
        let hook = json!([{ "path": "/bin/sh", "args": ["sh", "-c", "touch /tmp/out"] }]);
        let mount = |mount: Value| json!([mount]);
        let device = |kind: &str, major: i64| json!([{ "type": kind, "path": "/dev/sda", "major": major, "minor": 0 }]);
        let bind = |source: &str| mount(json!({ "destination": "/x", "type": "bind", "source": source }));
        for (place, value, reason) in [
            ("/hooks/prestart", hook.clone(), "has `hooks`"),
            ("/hooks/createRuntime", hook, "has `hooks`"),
            ("/process", Value::Null, "starts nothing"),
            ("/process/args", json!([]), "starts nothing"),
            ("/process/args", json!([""]), "starts nothing"),
            ("/process/args", json!("sh"), "is not one of an OCI bundle"),
            ("/root/path", json!("/"), "outside of the bundle"),
            ("/root/path", json!("../.."), "outside of the bundle"),
            ("/root/path", json!("away"), "outside of the bundle"),
            ("/root/path", json!("gone"), "has `root.path` `gone`, and there is no "),
            ("/mounts", bind("/"), "outside of the bundle"),
            ("/mounts", bind("../"), "outside of the bundle"),
            ("/mounts", bind("away/shadow"), "outside of the bundle"),
            (
                "/mounts",
                mount(json!({ "destination": "/x", "source": "/etc", "options": ["rbind"] })),
                "outside of the bundle",
            ),
            (
                "/mounts",
                mount(json!({ "destination": "/x", "type": "overlay", "options": ["lowerdir=/:/etc"] })),
                "mounts a file system `overlay`",
            ),
            (
                "/mounts",
                mount(json!({ "destination": "/x", "type": "ext4", "source": "/dev/sda1" })),
                "mounts a file system `ext4`",
            ),
            ("/linux/namespaces", json!([{ "type": "mount", "path": "/proc/1/ns/mnt" }]), "another's namespace"),
            ("/linux/devices", device("b", 8), "the device /dev/sda"),
            ("/linux/devices", device("c", 8), "the device /dev/sda"),
            ("/linux/sysctl", json!({ "net.ipv4.ip_forward": "1" }), "sets `sysctl`"),
        ] {
            let mut config = sound.clone();
            let (section, key) = place.rsplit_once('/').unwrap();
            config.pointer_mut(section).unwrap()[key] = value.clone();
            for is_root in [true, false] {
                let error = take_of(folder.path(), &config, is_root).expect_err(place);
                assert!(error.reason.contains(reason) && error.reason.contains(CONFIG), "{place} {value}: {error}");
            }
        }
    }

    #[test]
    fn root_of_the_machine_is_not_given_to_containers() {
        let (folder, sound) = folder();
        for (place, value, reason) in [
            ("/process/capabilities/bounding", json!(["CAP_KILL", "CAP_SYS_ADMIN"]), "asks for CAP_SYS_ADMIN"),
            ("/process/capabilities/ambient", json!(["CAP_MKNOD"]), "asks for CAP_MKNOD"),
            ("/linux/namespaces", json!([{ "type": "user" }]), "asks for a user namespace"),
            ("/mounts", json!([{ "destination": "/p", "type": "proc" }]), "mounts proc at /p"),
            ("/mounts", json!([{ "destination": "/proc/../s", "type": "sysfs" }]), "mounts sysfs at /proc/../s"),
        ] {
            let mut config = sound.clone();
            *config.pointer_mut(place).unwrap() = value;
            let error = take_of(folder.path(), &config, true).expect_err(place);
            assert!(error.reason.contains(reason), "{place}: {error}");
            // Root of a network of an ordinary user is nobody outside of it.
            take_of(folder.path(), &config, false).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("file"), "").unwrap();
        fs::create_dir(path.join("empty")).unwrap();
        fs::create_dir(path.join("text")).unwrap();
        fs::write(path.join("text/config.json"), "text").unwrap();
        for (written, reason) in [
            ("gone", "there is no "),
            ("file", "file is a file, and a bundle is a folder"),
            ("empty", "empty/config.json"),
            ("text", "its config.json is not one of an OCI bundle"),
        ] {
            let error = read(written, path).expect_err(written);
            assert!(error.reason.contains(reason) && !error.hint.is_empty(), "{written}: {error}");
        }
    }
}

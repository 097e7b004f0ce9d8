//! Configurations of OCI bundles: any bytes are refused, or become a configuration with which a container has nothing of the machine but what every container has. The first byte says whether its
//! root would be the machine's.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::{Value, json};

/// The folder of a bundle: a root file system, something to mount, and a way out.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("heddle-fuzz-{}/bundle", std::process::id()));
    fs::create_dir_all(folder.join("rootfs")).expect("a temporary folder");
    fs::create_dir_all(folder.join("rules")).expect("a temporary folder");
    if !folder.join("away").is_symlink() {
        std::os::unix::fs::symlink("/etc", folder.join("away")).expect("a symbolic link");
    }
    folder.canonicalize().expect("it is there")
});

/// The texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().expect("a text")).collect()
}

fn check_mount(mount: &Value, is_root: bool) {
    let (kind, options) = (mount["type"].as_str().expect("a type"), texts(&mount["options"]));
    if kind == "bind" {
        let source = Path::new(mount["source"].as_str().expect("a source"));
        assert!(source.starts_with(&*FOLDER) && source.canonicalize().is_ok_and(|real| real == source), "{mount}");
        assert_eq!(options, ["bind", "ro"]);
        return;
    }
    assert!(["proc", "sysfs", "tmpfs", "devpts", "mqueue"].contains(&kind), "{mount}");
    assert!(!options.contains(&"bind") && !options.contains(&"rbind"), "{mount}");
    if is_root && kind == "sysfs" {
        assert_eq!((&mount["destination"], options), (&json!("/sys"), vec!["nosuid", "noexec", "nodev", "ro"]));
    }
}

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((first, document)) = input.split_first() else { return Corpus::Reject };
    let is_root = first % 2 == 1;
    let bundle = match live::bundle::take(document, &FOLDER, is_root) {
        Ok(bundle) => bundle,
        Err(error) => {
            assert!(error.reason.starts_with("its config.json ") && !error.hint.is_empty());
            // A reason stands in one line of a terminal.
            assert!(!error.reason.contains(char::is_control), "{:?}", error.reason);
            return Corpus::Keep;
        }
    };
    assert!(bundle.root.starts_with(&*FOLDER) && bundle.root.is_dir());
    let text = bundle.config(Path::new("/run/fw/root"), "fw", Path::new("/run/hosts"));
    let given: Value = serde_json::from_str(&text).expect("what is written is JSON");
    let keys: Vec<&String> = given.as_object().expect("a map").keys().collect();
    let known = ["ociVersion", "process", "root", "hostname", "mounts", "linux"];
    assert!(keys.iter().all(|key| known.contains(&key.as_str())), "{keys:?}");
    assert_eq!((&given["root"]["path"], &given["hostname"]), (&json!("/run/fw/root"), &json!("fw")));
    assert!(!texts(&given["process"]["args"]).is_empty());
    let mounts = given["mounts"].as_array().expect("a list");
    let (last, own) = mounts.split_last().expect("that of /etc/hosts");
    assert_eq!((&last["destination"], &last["source"]), (&json!("/etc/hosts"), &json!("/run/hosts")));
    own.iter().for_each(|mount| check_mount(mount, is_root));
    let linux = &given["linux"];
    let namespaces = linux["namespaces"].as_array().expect("a list");
    let kinds: Vec<&str> = namespaces.iter().map(|namespace| namespace["type"].as_str().expect("a text")).collect();
    assert!(["pid", "mount", "ipc", "uts"].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    assert!(!["network", "cgroup", "user"].iter().any(|kind| kinds.contains(kind)), "{kinds:?}");
    assert!(namespaces.iter().all(|namespace| namespace.get("path").is_none()));
    for device in linux["devices"].as_array().into_iter().flatten() {
        let known = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (10, 200)]
            .map(|(major, minor)| json!([major, minor]));
        assert!(device["type"] == "c" && known.contains(&json!([device["major"], device["minor"]])), "{device}");
    }
    if is_root {
        let masked = texts(&linux["maskedPaths"]);
        let to_read = texts(&linux["readonlyPaths"]);
        assert!(masked.contains(&"/proc/kcore") && to_read.contains(&"/proc/sys"), "{linux}");
        assert!(!given["process"]["capabilities"].to_string().contains("CAP_SYS_ADMIN"), "{given}");
    }
    Corpus::Keep
});

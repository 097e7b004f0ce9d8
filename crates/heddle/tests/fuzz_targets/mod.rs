//! The targets of `fuzz/targets`, compiled with everything else and run over their seeds: who changes what they call learns it here,
//! and not only when somebody fuzzes next.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use machine::Rng;

/// Inputs of random bytes for each target, besides its seeds.
const RANDOM_INPUTS: u32 = 64;

/// What a target says about its input: whether it is worth keeping.
pub enum Corpus {
    Keep,
    Reject,
}

macro_rules! targets {
    ($($name:ident)+) => {
        #[path = "../../../../fuzz/targets"]
        // They are programs, of which these are modules.
        #[allow(missing_docs, unused_attributes, unused_doc_comments, clippy::pedantic, clippy::duplicate_mod)]
        mod targets {
            $(pub mod $name;)+
        }

        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), targets::$name::run)),+];
    };
}

targets! {
    agent_text
    bond_hash
    bundle_config
    capture
    capture_filter
    certificate_name
    connection_sync
    conntrack
    control_message
    countries
    external_partner
    fabric_file
    flow
    greeting
    health_answer
    image_layer
    import
    ingress
    iperf_report
    lacp
    name_query
    peer_envelope
    placement
    requests
    results_folder
    rpc_message
    segmentation
    set_field
    spanning_tree
    store_backup
    store_client
    switch_port
    tree_command
    tree_path
    tree_snapshot
    vhost_message
    vhost_queues
    virtqueue
    wal_folder
    wire_headers
}

/// In place of libFuzzer's: makes the target a function that a test can call. (It stands below them, so that they import it.)
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| -> Corpus $body:block) => {
        pub(crate) fn run(bytes: &[u8]) {
            fn judge($input: &[u8]) -> Corpus $body
            let (Corpus::Keep | Corpus::Reject) = judge(bytes);
        }
    };
    (|$input:ident: &[u8]| $body:block) => {
        pub(crate) fn run($input: &[u8]) $body
    };
    (|$input:ident: &str| $body:block) => {
        pub(crate) fn run(bytes: &[u8]) {
            fn read($input: &str) $body
            if let Ok(text) = std::str::from_utf8(bytes) {
                read(text);
            }
        }
    };
}
pub(crate) use fuzz_target;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a folder, if there is one.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

#[test]
fn every_fuzz_target_is_run_here_and_by_cargo_fuzz() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|&(name, _)| name.to_owned()).collect();
    let entries = fs::read_dir(root().join("fuzz/targets")).expect("the targets are there");
    let found: BTreeSet<String> = entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(listed, found, "the list in {} and the files of fuzz/targets", file!());
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("a manifest");
    let programs: BTreeSet<String> = manifest
        .lines()
        .filter_map(|line| Some(line.strip_prefix("path = \"targets/")?.strip_suffix(".rs\"")?.to_owned()))
        .collect();
    assert_eq!(programs, found, "the programs of fuzz/Cargo.toml and the files of fuzz/targets");
}

#[test]
fn no_fuzz_target_fails_with_its_seeds() {
    for &(name, run) in TARGETS {
        let mut seeds = files(&root().join("fuzz/seeds").join(name));
        if name == "fabric_file" {
            // As `scripts/fuzz.sh` does: the examples are its seeds.
            seeds.extend(files(&root().join("fabrics")));
        }
        for seed in seeds {
            println!("{name}: {}", seed.display());
            run(&fs::read(&seed).expect("a seed can be read"));
        }
        let mut rng = Rng::new(1);
        for number in 0..RANDOM_INPUTS {
            println!("{name}: random input {number}");
            let bytes: Vec<u8> = (0..rng.below(512)).map(|_| rng.below(256) as u8).collect();
            run(&bytes);
        }
    }
    // Where the target of results folders writes its input.
    let folder = std::env::temp_dir().join(format!("heddle-fuzz-{}", std::process::id()));
    fs::remove_dir_all(&folder).expect("the target has made it");
}

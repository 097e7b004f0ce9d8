//! A results folder that somebody wrote or that was cut off: results, whose report can be made, or an error.
//! The input is the folder's three files, with a byte 0xFF between them.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<std::path::PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("heddle-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
});

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |&byte| byte == 0xff);
    for name in ["samples.jsonl", "summary.json", "machine.json"] {
        std::fs::write(FOLDER.join(name), parts.next().unwrap_or_default()).expect("a file can be written");
    }
    match lab::load(&FOLDER) {
        Ok(results) => assert!(!results.html().is_empty() && results.table().len() < 1 << 24),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

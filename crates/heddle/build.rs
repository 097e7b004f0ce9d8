//! Finds out which commit the program is made of, for `heddle --version`: `0.1.0 (abc1234, 2026-11-26)`.
//!
//! Only this crate is compiled anew for another commit. Where there is no git, or the sources come from an archive, the version stands alone;
//! whoever packs those says what commit they are in `HEDDLE_COMMIT` (`abc1234, 2026-11-26`).

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HEDDLE_COMMIT");
    let number = env!("CARGO_PKG_VERSION");
    let version = match said().or_else(known_to_git) {
        Some(commit) => format!("{number} ({commit})"),
        None => number.to_owned(),
    };
    println!("cargo::rustc-env=HEDDLE_VERSION={version}");
}

/// What the environment says. A line break would end cargo's instruction.
fn said() -> Option<String> {
    std::env::var("HEDDLE_COMMIT").ok().filter(|commit| !commit.is_empty() && !commit.contains(char::is_control))
}

fn known_to_git() -> Option<String> {
    // An archive that was unpacked inside of another project's repository is not of that one's commit.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    // Each commit and each checkout adds a line to the log of HEAD. A file that is not there would have cargo run this each time.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["log", "-1", "--abbrev=7", "--format=%h, %cs"])
}

/// What git prints, from this folder.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}

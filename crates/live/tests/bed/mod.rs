//! A runtime folder of its own for each test, and the networks in it.

use std::process::Command;

use fabric::{Overrides, Source};
use live::{Instance, StartOptions};

/// Tests of one file run one after another: each measures time, or sets the process's environment.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

pub struct Bed {
    pub folder: tempfile::TempDir,
    _turn: std::sync::MutexGuard<'static, ()>,
}

impl Bed {
    #[allow(unsafe_code)]
    pub fn new() -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: tests of this program run one after another, by the lock above, and nothing else here reads the environment.
        unsafe { std::env::set_var("XDG_RUNTIME_DIR", folder.path()) };
        Self { folder, _turn: turn }
    }

    pub fn options(name: &str) -> StartOptions {
        let program = env!("CARGO_BIN_EXE_heddle-live-testbed").into();
        StartOptions { name: name.to_owned(), ephemeral: true, program }
    }

    pub fn up(&self, name: &str, text: &str) -> Instance {
        let network = Instance::start(&Self::options(name)).unwrap_or_else(|error| panic!("{error} {:?}", error.hint()));
        network.apply(&source(text), &Overrides::default()).unwrap_or_else(|error| panic!("{error}"));
        network
    }
}

pub fn source(text: &str) -> Source {
    Source { name: "test.fabric.yaml".to_owned(), text: text.to_owned() }
}

/// What a command prints, if it succeeds.
pub fn output(command: Result<Command, live::Error>) -> String {
    let mut command = command.unwrap();
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

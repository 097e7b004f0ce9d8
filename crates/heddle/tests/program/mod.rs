//! Runs the program as a user does, in a folder of its own and with networks of its own.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A folder to work in; its networks are not seen elsewhere.
pub struct Desk {
    folder: TempDir,
}

impl Desk {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).expect("the file can be written");
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
        command.args(args).current_dir(self.path()).env("XDG_RUNTIME_DIR", self.path()).env("NO_COLOR", "1");
        command.env_remove("HEDDLE_LOG").env_remove("HEDDLE_NETWORK");
        command
    }

    pub fn heddle(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    /// Runs a command that must end with `status`; returns what it wrote to standard output and standard error.
    pub fn expect(&self, status: i32, args: &[&str]) -> (String, String) {
        let output = self.heddle(args);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(status), "heddle {args:?}\n{stdout}\n{stderr}");
        (stdout, stderr)
    }
}

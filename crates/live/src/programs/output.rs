//! What a program says, in a file of bounded length.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes of a file; one that is full is kept beside the next one, with `.1` at its name's end.
const BYTES_MAX: u64 = 1 << 20;

/// The output of one program.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: Mutex<(File, u64)>,
}

impl Output {
    /// In this file, behind what is there. Its folder is made.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(open(path)?) })
    }

    /// Adds what the program has said. What can't be written is lost: the program must not wait for it.
    pub fn write(&self, bytes: &[u8]) {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.1 + bytes.len() as u64 > BYTES_MAX && guard.1 > 0 {
            let _ = fs::rename(&self.path, old(&self.path));
            if let Ok(next) = open(&self.path) {
                *guard = next;
            }
        }
        if guard.0.write_all(bytes).is_ok() {
            guard.1 += bytes.len() as u64;
        }
    }

    /// Adds what Heddle says about it.
    pub fn note(&self, text: &str) {
        self.write(format!("-- {text}\n").as_bytes());
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

fn old(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_hold_the_last_of_what_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h1.web.log");
        let output = Output::open(&path).unwrap();
        let line = vec![b'x'; 64 << 10];
        for _ in 0..40 {
            output.write(&line);
        }
        output.note("ended");
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert_eq!(length(&old(&path)), BYTES_MAX);
        assert!(length(&path) <= BYTES_MAX && fs::read_to_string(&path).unwrap().ends_with("x-- ended\n"));
        // Who begins again goes on behind it.
        let before = length(&path);
        Output::open(&path).unwrap().note("started");
        assert_eq!(length(&path), before + 11);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

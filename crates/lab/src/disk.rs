//! Files of results: read up to a limit, written whole or not at all, with errors that name them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;

/// No file of results is read beyond this: 1 GiB, some thousand runs of a thousand flows.
const FILE_MAX: u64 = 1 << 30;

/// Reads a file of results.
pub(crate) fn read_results(path: &Path) -> Result<String, Error> {
    read(path, FILE_MAX)
}

fn read(path: &Path, limit: u64) -> Result<String, Error> {
    let mut text = String::new();
    fs::metadata(path)
        // Who opens a pipe waits for another who writes to it.
        .and_then(|file| if file.is_file() { Ok(()) } else { Err(io::Error::other("it is no regular file")) })
        .and_then(|()| File::open(path))
        .and_then(|file| file.take(limit + 1).read_to_string(&mut text))
        .map_err(|source| failed("reading", path, source))?;
    if text.len() as u64 > limit { Err(Error::TooLarge { path: path.to_owned(), limit }) } else { Ok(text) }
}

/// Writes beside the file and renames: a reader never sees half of it.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Error> {
    let beside = path.with_extension("part");
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|source| {
        // Half of it is of no use to anybody, and takes room that others need.
        let _ = fs::remove_file(&beside);
        failed("writing", path, source)
    })
}

/// A power cut takes away what was added for so long at most, if anything is added after it.
const SYNCED_EACH: Duration = Duration::from_secs(1);

/// A file to which lines are added: each is there as a whole, or not at all.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: File,
    /// Where the last whole line ends.
    len: u64,
    /// What kept a line from being added: there are none after it.
    broken: Option<io::ErrorKind>,
    synced: Instant,
}

impl Lines {
    /// Adds to a file that has so many bytes.
    pub(crate) fn new(path: PathBuf, file: File, len: u64) -> Self {
        Self { path, file, len, broken: None, synced: Instant::now() }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), Error> {
        let added = match self.broken {
            Some(kind) => Err(kind.into()),
            None => self.try_to_add(line),
        };
        added.map_err(|source| {
            self.broken = Some(source.kind());
            // If that fails as well, the half line is the last one, which readers leave out.
            let _ = self.file.set_len(self.len);
            failed("writing", &self.path, source)
        })
    }

    fn try_to_add(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        self.file.write_all(line.as_bytes())?;
        if self.synced.elapsed() >= SYNCED_EACH {
            self.file.sync_data()?;
            self.synced = Instant::now();
        }
        self.len += line.len() as u64;
        Ok(())
    }
}

/// Something that was done with a file has failed.
pub(crate) fn failed(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that is full: what is written to it is refused.
    #[test]
    fn no_line_follows_one_that_could_not_be_added() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut lines = Lines::new(path.clone(), File::create(&path).unwrap(), 0);
        lines.add("first").unwrap();
        let file = std::mem::replace(&mut lines.file, File::options().write(true).open("/dev/full").unwrap());
        let error = lines.add("second").unwrap_err().to_string();
        assert!(error.contains("journal.jsonl") && error.contains("No space left"), "{error}");
        lines.file = file;
        let error = lines.add("third").unwrap_err().to_string();
        assert!(error.contains("journal.jsonl") && error.contains("no storage space"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.json");
        write_whole(&path, "old").unwrap();
        fs::create_dir(folder.path().join("summary.part")).unwrap();
        assert!(write_whole(&path, "new").unwrap_err().to_string().contains("summary.json"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), "12345");
        assert!(read(folder.path(), 5).unwrap_err().to_string().contains("no regular file"));
        let error = read(&path, 4).unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 4, .. }) && error.to_string().contains("samples.jsonl"));
    }
}

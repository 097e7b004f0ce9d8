//! Files of results as they are read: up to a limit, with an error that names them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::Error;

/// No file of results is read beyond this: 1 GiB, some thousand runs of a thousand flows.
const FILE_MAX: u64 = 1 << 30;

/// Reads a file of results.
pub(crate) fn read_results(path: &Path) -> Result<String, Error> {
    read(path, FILE_MAX)
}

fn read(path: &Path, limit: u64) -> Result<String, Error> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_string(&mut text))
        .map_err(|source| failed("reading", path, source))?;
    if text.len() as u64 > limit { Err(Error::TooLarge { path: path.to_owned(), limit }) } else { Ok(text) }
}

/// Something that was done with a file has failed.
pub(crate) fn failed(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), "12345");
        let error = read(&path, 4).unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit: 4, .. }) && error.to_string().contains("samples.jsonl"));
    }
}

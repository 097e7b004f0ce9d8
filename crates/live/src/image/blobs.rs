//! Where the parts of an image lie: in a folder, or in an archive.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::tar::{Archive, Kind};

/// Files of an archive of an image.
const FILES_MAX: usize = 10_000;

/// Bytes of a manifest, an index or a configuration.
pub const DOCUMENT_MAX: u64 = 8 << 20;

/// The parts of an image, by their paths: those of the OCI's image layout, or those that `docker save` writes.
#[derive(Debug)]
pub enum Blobs {
    /// A folder.
    Folder(PathBuf),
    /// An archive, by its path: where the bytes of each file begin, and how many there are.
    Archive { path: PathBuf, file: File, files: BTreeMap<String, (u64, u64)> },
}

impl Blobs {
    /// Opens what is at a path.
    ///
    /// # Errors
    /// If it can't be read, or is no archive.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let file = open_file(path)?;
        let (mut files, mut links) = (BTreeMap::new(), Vec::new());
        let mut archive = Archive::new(io::BufReader::new(&file));
        let cut_off = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(ErrorKind::InvalidData, "it is no tar archive, or was cut off"),
            _ => error,
        };
        while let Some(entry) = archive.next_entry().map_err(cut_off)? {
            let Ok(path) = String::from_utf8(entry.path) else { continue };
            let path = path.trim_start_matches("./").to_owned();
            match entry.kind {
                Kind::File => drop(files.insert(path, (archive.offset(), entry.size))),
                // Layers that are alike are links to each other in old archives of `docker save`.
                Kind::Symlink(target) | Kind::HardLink(target) => links.push((path, target)),
                Kind::Folder | Kind::Special => {}
            }
            if files.len() + links.len() > FILES_MAX {
                return Err(io::Error::new(ErrorKind::InvalidData, "it has too many files for an image"));
            }
        }
        for (path, target) in links {
            let Ok(target) = String::from_utf8(target) else { continue };
            let below = target.trim_start_matches("../").trim_start_matches("./");
            let beside = Path::new(&path).with_file_name(below).to_string_lossy().into_owned();
            if let Some(place) = files.get(below).or_else(|| files.get(&beside)).copied() {
                files.insert(path, place);
            }
        }
        Ok(Self::Archive { path: path.to_owned(), file, files })
    }

    /// Why one can't be had, with the place where it was looked for.
    fn without(&self, path: &str, error: &io::Error) -> io::Error {
        let place = match self {
            Self::Folder(folder) => folder.join(path).display().to_string(),
            Self::Archive { path: archive, .. } => format!("{path} in {}", archive.display()),
        };
        let reason = match error.kind() {
            ErrorKind::NotFound => format!("there is no {place}"),
            _ => format!("{place}: {error}"),
        };
        io::Error::new(error.kind(), reason)
    }

    /// The folder or the archive.
    pub fn place(&self) -> &Path {
        let (Self::Folder(path) | Self::Archive { path, .. }) = self;
        path
    }

    /// Whether it has a file or a folder of this name.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Folder(folder) => folder.join(name).exists(),
            Self::Archive { files, .. } => files
                .keys()
                .any(|path| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))),
        }
    }

    /// The bytes of one.
    ///
    /// # Errors
    /// If it is not there.
    pub fn read(&self, path: &str) -> io::Result<Box<dyn Read + '_>> {
        if Path::new(path).components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(ErrorKind::InvalidInput.into());
        }
        match self {
            Self::Folder(folder) => {
                let file = open_file(&folder.join(path)).map_err(|error| self.without(path, &error))?;
                Ok(Box::new(file))
            }
            Self::Archive { file, files, .. } => {
                let place = files.get(path).copied();
                let (offset, size) = place.ok_or_else(|| self.without(path, &ErrorKind::NotFound.into()))?;
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(offset))?;
                Ok(Box::new(file.take(size)))
            }
        }
    }

    /// All of a small one.
    ///
    /// # Errors
    /// If it is not there, or too large.
    pub fn document(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read(path)?.take(DOCUMENT_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > DOCUMENT_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("{path} is too large")));
        }
        Ok(bytes)
    }
}

/// Opens a file, and waits for nobody who would have to write into it.
fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is neither a folder nor a file"))
}

//! Files that programs of a host see and nobody else does: laid over those of the machine when a program enters the host, in its own mount namespace.
//!
//! A file that the machine has is covered by another one (a bind mount). Where it has none, the folder is covered by one that has both what was there and the
//! new file (overlayfs, which users may mount in a user namespace since Linux 5.11): such a folder can't be written to. Covers never lie in each other, since the
//! kernel stacks two at most: what is new in a folder below a covered one is in the same cover.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fabric::HostFile;
use serde::{Deserialize, Serialize};

use crate::Error;

/// What is mounted in a host before a program starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileMount {
    /// A file over a file.
    File {
        /// What is seen.
        source: String,
        /// Where.
        target: String,
    },
    /// A folder with what is in another one, and more.
    Folder {
        /// What is added, and counts where both have something.
        source: String,
        /// Where.
        target: String,
    },
}

/// Lays out the files of one host below `root`, in place of what is there: what is to be mounted, in this order.
///
/// # Errors
/// If one can't be written, or there is no place for it.
pub fn lay_out(root: &Path, host: &str, files: &[HostFile]) -> Result<Vec<FileMount>, Error> {
    let mut by_folder: BTreeMap<PathBuf, Vec<(&HostFile, PathBuf)>> = BTreeMap::new();
    let mut mounts = Vec::new();
    let own = nearest(root);
    for (number, file) in files.iter().enumerate() {
        match place(host, file)? {
            FilePlace::OverFile => {
                let source = root.join("files").join(number.to_string());
                write(&source, &file.text).map_err(Error::path(&source, "write a host's file"))?;
                mounts.push(FileMount::File { source: text_of(&source), target: file.path.clone() });
            }
            FilePlace::InFolder { folder, inside } => {
                if own.as_ref().is_some_and(|own| own.starts_with(&folder)) {
                    let reason = format!("{} would be covered, and Heddle's runtime folder is in it", folder.display());
                    let hint = "put it below another folder that this machine has, as /etc; or have XDG_RUNTIME_DIR name a folder elsewhere";
                    return Err(refused(host, file, reason, hint));
                }
                by_folder.entry(folder).or_default().push((file, inside));
            }
        }
    }
    let mut covers: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut modes: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for (folder, files) in by_folder {
        // Folders come before those that are in them.
        let outer = covers.iter().find(|(outer, _)| folder.starts_with(outer));
        let (outer, layer) = outer.cloned().unwrap_or_else(|| {
            let cover = (folder.clone(), root.join("folders").join(covers.len().to_string()));
            covers.push(cover.clone());
            cover
        });
        let below = folder.strip_prefix(&outer).unwrap_or(Path::new(""));
        if device(&folder) != device(&outer)
            && let Some((file, _)) = files.first()
        {
            let reason =
                format!("{} would be covered, and another file system is at {}", outer.display(), folder.display());
            return Err(refused(host, file, reason, "leave out the file that is new on the outer one, or this one"));
        }
        for (file, inside) in files {
            let path = layer.join(below).join(inside);
            write(&path, &file.text).map_err(Error::path(&path, "write a host's file"))?;
        }
        let models = folder.ancestors().take_while(|model| model.starts_with(&outer));
        modes.extend(models.map(|model| {
            let of = layer.join(model.strip_prefix(&outer).unwrap_or(Path::new("")));
            (model.to_owned(), of)
        }));
    }
    // What is in both has the mode of what was there: inner ones first, since an outer one may forbid to enter it.
    for (model, of) in modes.iter().rev() {
        as_its_model(of, model).map_err(Error::path(of, "give a host's folder its mode"))?;
    }
    let mut folders: Vec<FileMount> = covers
        .iter()
        .map(|(folder, layer)| FileMount::Folder { source: text_of(layer), target: text_of(folder) })
        .collect();
    // Files last: what is covered later is seen.
    folders.extend(mounts);
    Ok(folders)
}

/// Where a file of a host is to be seen.
enum FilePlace {
    /// A file is there.
    OverFile,
    /// There is a folder for it, or one in which its own is made.
    InFolder {
        /// That folder, whatever links lead there.
        folder: PathBuf,
        /// The path from there on.
        inside: PathBuf,
    },
}

/// Notes a file of a host for which this machine has no place.
///
/// # Errors
/// [`Error::HostFile`] says why.
pub fn check(host: &str, file: &HostFile) -> Result<(), Error> {
    place(host, file).map(|_| ())
}

fn place(host: &str, file: &HostFile) -> Result<FilePlace, Error> {
    let path = Path::new(&file.path);
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(FilePlace::OverFile),
        Ok(_) => {
            let hint = "name a file in it, or another path";
            Err(refused(host, file, "this machine has a folder or a device there".to_owned(), hint))
        }
        Err(_) => {
            let hint = "put it below a folder that this machine has, as /etc";
            let no_folder = || refused(host, file, "this machine has no folder for it".to_owned(), hint);
            let there = nearest_folder(path).ok_or_else(no_folder)?;
            let inside = path.strip_prefix(&there).unwrap_or(Path::new("")).to_owned();
            let folder = there.canonicalize().map_err(|_| no_folder())?;
            Ok(FilePlace::InFolder { folder, inside })
        }
    }
}

fn refused(host: &str, file: &HostFile, reason: String, hint: &'static str) -> Error {
    Error::HostFile { host: host.to_owned(), path: file.path.clone(), reason, hint }
}

/// The deepest folder on the way to a path that is there, whatever links lead to it.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|folder| folder.canonicalize().ok())
}

/// The file system that a folder is on.
fn device(folder: &Path) -> Option<u64> {
    Some(fs::metadata(folder).ok()?.dev())
}

/// Paths of files are text of the fabric file, and the runtime folder's name is shown in messages.
fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The deepest folder on the way to a file that is there, unless that is the root.
fn nearest_folder(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().skip(1).find(|folder| folder.is_dir())?;
    // What is below a file has no place.
    let is_free = path.ancestors().skip(1).take_while(|folder| *folder != there).all(|folder| !folder.exists());
    (is_free && there != Path::new("/")).then(|| there.to_owned())
}

/// A file, with the folders on the way to it; everybody may read it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut missing: Vec<&Path> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
    while let Some(folder) = missing.pop() {
        DirBuilder::new().mode(0o755).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())
}

/// What covers a folder has its mode.
fn as_its_model(layer: &Path, folder: &Path) -> io::Result<()> {
    fs::set_permissions(layer, fs::metadata(folder)?.permissions())
}

/// An option of overlayfs: colons part its folders, and commas its options.
pub(crate) fn lower_folders(source: &str, target: &str) -> String {
    let escaped = |path: &str| path.replace('\\', "\\\\").replace(':', "\\:").replace(',', "\\,");
    format!("lowerdir={}:{}", escaped(source), escaped(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path) -> HostFile {
        HostFile { path: text_of(path), text: "text\n".to_owned() }
    }

    #[test]
    fn a_file_covers_a_file_and_a_folder_covers_a_folder() {
        let (machine, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let of_machine = |name: &str| machine.path().join(name);
        fs::write(of_machine("there"), "other\n").unwrap();
        fs::create_dir(of_machine("folder")).unwrap();
        fs::set_permissions(of_machine("folder"), fs::Permissions::from_mode(0o711)).unwrap();
        let files = ["there", "new", "folder/a", "frr/more/b"].map(|name| file(&of_machine(name)));
        let mounts = lay_out(root.path(), "h1", &files).unwrap();
        let targets: Vec<_> = mounts
            .iter()
            .map(|mount| match mount {
                FileMount::File { source, target } => (false, fs::metadata(source).unwrap().is_file(), target.clone()),
                FileMount::Folder { source, target } => (true, fs::metadata(source).unwrap().is_dir(), target.clone()),
            })
            .collect();
        let at = |name: &str| text_of(&of_machine(name));
        let outer = text_of(machine.path());
        assert_eq!(targets, [(true, true, outer), (false, true, at("there"))]);
        let layer = root.path().join("folders/0");
        for name in ["new", "folder/a", "frr/more/b"] {
            assert_eq!(fs::read_to_string(layer.join(name)).unwrap(), "text\n");
        }
        let mode = |name: &str| fs::metadata(layer.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("frr"), mode("folder")), (0o755, 0o711));
        // The machine's own are as they were.
        assert_eq!(fs::read_to_string(of_machine("there")).unwrap(), "other\n");
        assert!(!of_machine("new").exists());
    }

    #[test]
    fn what_has_no_place_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for (path, reason) in [
            ("/no-such-folder/x", "has no folder for it"),
            ("/etc", "has a folder or a device there"),
            ("/etc/hostname/x", "has no folder for it"),
        ] {
            let error = lay_out(root.path(), "h1", &[file(Path::new(path))]).unwrap_err();
            assert!(error.to_string().contains(reason), "{path}: {error}");
        }
    }

    #[test]
    fn the_runtime_folder_is_not_covered() {
        let machine = tempfile::tempdir().unwrap();
        let root = machine.path().join("run/heddle/net/files/h1.1");
        fs::create_dir_all(machine.path().join("run/heddle")).unwrap();
        std::os::unix::fs::symlink(machine.path().join("run"), machine.path().join("link")).unwrap();
        for path in ["new", "run/new", "run/heddle/new", "link/new"] {
            let error = lay_out(&root, "h1", &[file(&machine.path().join(path))]).unwrap_err().to_string();
            assert!(error.contains("Heddle's runtime folder is in it"), "{path}: {error}");
        }
        fs::create_dir(machine.path().join("etc")).unwrap();
        assert_eq!(lay_out(&root, "h1", &[file(&machine.path().join("etc/new"))]).unwrap().len(), 1);
    }

    #[test]
    fn names_of_folders_are_no_options() {
        assert_eq!(lower_folders("/a:b,c\\", "/etc"), "lowerdir=/a\\:b\\,c\\\\:/etc");
    }
}

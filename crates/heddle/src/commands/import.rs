//! `import`: a fabric file of another tool's.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::Path;

use fabric::{Imported, Source};
use miette::{Report, WrapErr as _, miette};

use super::file;
use crate::cli::{Format, Import};
use crate::output::{harmless, put, put_written};

/// The longest file that goes into the fabric file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The text of a file that another one names, relative to its folder; `None`: there is none, or it is no text, or a long one.
fn text_beside(file: &Path, path: &str) -> Option<String> {
    let path = file.parent().unwrap_or(Path::new("")).join(path);
    let found = std::fs::metadata(&path).ok().filter(|found| found.is_file() && found.len() <= FILE_BYTES_MAX)?;
    let mut text = String::new();
    std::fs::File::open(&path).ok()?.take(found.len()).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Makes a fabric file of another tool's, and says what is not in it.
pub fn import(args: &Import, format: Format) -> Result<(), Report> {
    let source = file::read_text(&args.file)?;
    let Imported { text, notes } =
        fabric::import_with(&source, args.topo.as_deref(), &|path| text_beside(&args.file, path))?;
    let stem = |path: &str| Source { name: path.to_owned(), text: String::new() }.stem();
    let path = args.write.clone().unwrap_or_else(|| format!("{}.fabric.yaml", stem(&source.name)));
    let made = Source { name: path.clone(), text };
    let checked = fabric::parse(&made).map_err(Report::new);
    checked.wrap_err_with(|| format!("what {} says is no network that Heddle can have", harmless(&source.name)))?;
    for note in &notes {
        let line = note.line.map_or_else(String::new, |line| format!(":{line}"));
        eprintln!("{}{line}: {}: {}", harmless(&source.name), note.kind.words(), note.message);
    }
    if path == "-" {
        return put(&made.text);
    }
    let mut options = OpenOptions::new();
    let options = if args.force { options.create(true).truncate(true) } else { options.create_new(true) };
    let written = options.write(true).open(&path).and_then(|mut file| file.write_all(made.text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            miette!(help = "name another file with -w, or overwrite it with --force", "{path} is there already")
        }
        _ => miette!("cannot write {path}: {error}"),
    })?;
    eprintln!("Wrote {path}. Next: heddle up {path}");
    put_written(&path, format)
}

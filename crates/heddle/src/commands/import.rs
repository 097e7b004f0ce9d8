//! `import`: a fabric file of another tool's.

use std::fs::OpenOptions;
use std::io::Write as _;

use fabric::{Imported, Source};
use miette::{Report, WrapErr as _, miette};

use super::file;
use crate::cli::Import;
use crate::output::{harmless, put};

/// Makes a fabric file of another tool's, and says what is not in it.
pub fn import(args: &Import) -> Result<(), Report> {
    let source = file::read_text(&args.file)?;
    let Imported { text, notes } = fabric::import(&source)?;
    let stem = |path: &str| Source { name: path.to_owned(), text: String::new() }.stem();
    let path = args.write.clone().unwrap_or_else(|| format!("{}.fabric.yaml", stem(&source.name)));
    let made = Source { name: path.clone(), text };
    let checked = fabric::parse(&made).map_err(Report::new);
    checked.wrap_err_with(|| format!("what {} says is no network that Heddle can have", harmless(&source.name)))?;
    for note in &notes {
        let line = note.line.map_or_else(String::new, |line| format!(":{line}"));
        eprintln!("{}{line}: not as there: {}", harmless(&source.name), note.message);
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
    Ok(())
}

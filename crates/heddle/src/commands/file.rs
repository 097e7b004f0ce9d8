//! Reads the fabric file that a command names.

use std::io::Read;
use std::path::Path;

use fabric::{Fabric, Source};
use miette::{IntoDiagnostic, Report, miette};

use crate::cli::FileOrTopo;

/// No fabric file comes near this size; a larger one is not read into memory.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads and checks a file; `-` is standard input.
pub fn read(path: &Path) -> Result<(Source, Fabric), Report> {
    let (source, fabric) = check(path)?;
    Ok((source, fabric?))
}

/// Reads and checks a file, or makes the one of a network in a word, which is called `name` then, or by its shape.
pub fn read_or_make(args: &FileOrTopo, name: Option<&str>) -> Result<(Source, Fabric), Report> {
    match (&args.file, &args.topo) {
        (Some(path), _) => read(path),
        (None, Some(word)) => make(word, name),
        (None, None) => Err(miette!(help = "`heddle new NAME` writes one to start from", "neither a file nor --topo")),
    }
}

/// Makes the file of a network in a word, which is called `name`, or by its shape.
pub fn make(word: &str, name: Option<&str>) -> Result<(Source, Fabric), Report> {
    Ok(fabric::topology_of(name, word)?)
}

/// Reads a file, and what came of checking it.
///
/// # Errors
/// If it can't be read.
pub fn check(path: &Path) -> Result<(Source, Result<Fabric, Report>), Report> {
    let source = read_text(path)?;
    let fabric = fabric::parse(&source).map_err(Report::new);
    Ok((source, fabric))
}

/// Reads a file's text; `-` is standard input.
pub fn read_text(path: &Path) -> Result<Source, Report> {
    Ok(Source { name: path.display().to_string(), text: text_of(path)? })
}

fn text_of(path: &Path) -> Result<String, Report> {
    let mut bytes = Vec::new();
    let outcome = if path.as_os_str() == "-" {
        std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    outcome.map_err(|error| {
        let text = format!("cannot read {}: {error}", path.display());
        // A folder of results, or another program's file, is not written by that.
        let mut longer = path.as_os_str().to_owned();
        longer.push(".fabric.yaml");
        if error.kind() == std::io::ErrorKind::NotFound && Path::new(&longer).is_file() {
            return miette!(help = format!("there is {}", Path::new(&longer).display()), "{text}");
        }
        let is_fabric = path.extension().is_some_and(|ending| ending == "yaml") && !text.contains(".clab.");
        if is_fabric {
            miette!(help = "`heddle new NAME` writes a file to start from", "{text}")
        } else {
            miette!("{text}")
        }
    })?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(miette!("{} is larger than {FILE_BYTES_MAX} bytes: is it a fabric file?", path.display()));
    }
    String::from_utf8(bytes)
        .into_diagnostic()
        .map_err(|error| error.wrap_err(format!("{} is not UTF-8 text", path.display())))
}

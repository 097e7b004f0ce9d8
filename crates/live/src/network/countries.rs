//! Lists of countries that services name: they are read when a file is applied.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use balance::{CountryList, SourceFilter};
use datapath::Service;
use fabric::Fabric;
use nix::fcntl::OFlag;

use crate::Error;

/// Bytes of a list: those of all networks that there are have half of it.
const FILE_MAX: u64 = 64 << 20;

/// Reads the lists of countries that services name, relative to the fabric file's folder.
///
/// # Errors
/// If one can't be read.
pub fn with_countries(mut fabric: Fabric, folder: &Path) -> Result<Fabric, Error> {
    for service in &mut fabric.services {
        if let Some(filter) = filter(service, folder)? {
            service.spec.filter = Some(Arc::new(filter));
        }
    }
    Ok(fabric)
}

/// Which clients a service lets in that has a list of countries.
pub fn filter(service: &Service, folder: &Path) -> Result<Option<SourceFilter>, Error> {
    let Some(countries) = &service.countries else { return Ok(None) };
    let path = folder.join(&countries.file);
    let failed =
        |why: String| Error::Countries { service: service.name.clone(), why: format!("{}: {why}", path.display()) };
    let mut text = String::new();
    let read = open(&path).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > FILE_MAX {
        return Err(failed("it has more than 64 MiB".to_owned()));
    }
    let list = CountryList::parse(&text).map_err(|error| failed(error.to_string()))?;
    let filter = service.spec.filter.as_deref().cloned().unwrap_or_default();
    Ok(Some(filter.with_countries(&list, &countries.rules)))
}

/// Opens a list, and waits for nobody who would have to write into it.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"))
}

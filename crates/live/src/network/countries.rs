//! Lists of countries that services name: they are read when a file is applied.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use balance::CountryList;
use fabric::Fabric;

use crate::Error;

/// Bytes of a list: those of all networks that there are have half of it.
const FILE_MAX: u64 = 64 << 20;

/// Reads the lists of countries that services name, relative to the fabric file's folder.
pub(super) fn load(mut fabric: Fabric, folder: &Path) -> Result<Fabric, Error> {
    for service in &mut fabric.services {
        let Some(countries) = &service.countries else { continue };
        let path = folder.join(&countries.file);
        let failed =
            |why: String| Error::Countries { service: service.name.clone(), why: format!("{}: {why}", path.display()) };
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text));
        read.map_err(|error| failed(error.to_string()))?;
        if text.len() as u64 > FILE_MAX {
            return Err(failed("it has more than 64 MiB".to_owned()));
        }
        let list = CountryList::parse(&text).map_err(|error| failed(error.to_string()))?;
        let filter = service.spec.filter.as_deref().cloned().unwrap_or_default();
        service.spec.filter = Some(Arc::new(filter.with_countries(&list, &countries.rules)));
    }
    Ok(fabric)
}

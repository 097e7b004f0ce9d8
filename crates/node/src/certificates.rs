//! Makes an authority and the certificates of a cluster's servers and clients.
//!
//! ```text
//!   DIR/ca.pem      the authority: every program gets it
//!   DIR/ca.key      its key: keep it where no server is, if you can
//!   DIR/NAME.pem    for each server, and `client` for programs, which no server takes for a server's
//!   DIR/NAME.key    its key, for its owner's eyes only
//! ```

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use super::Error;

/// How long an authority is valid.
const AUTHORITY_LASTS: Duration = Duration::from_secs(20 * 365 * 86_400);

/// How long other certificates are valid.
const CERTIFICATE_LASTS: Duration = Duration::from_secs(5 * 365 * 86_400);

/// Clocks of other machines may be behind.
const ALLOWANCE: Duration = Duration::from_secs(86_400);

/// Name of the certificate for programs that talk to the cluster.
const CLIENT: &str = "client";

/// Makes certificates in `folder`: an authority if there is none yet, one certificate for each of `hosts`, and one for clients if
/// there is none.
///
/// A host is one name or address, or several with commas between them, by which one server is reached; the first one
/// names the files. Says which files were made.
///
/// # Errors
/// [`Error::Path`] if a file is there already (nothing is overwritten) or cannot be written, [`Error::Making`] if a host
/// cannot be in a certificate.
pub fn make(folder: &Path, hosts: &[String]) -> Result<Vec<PathBuf>, Error> {
    make_with_users(folder, hosts, &[])
}

/// The same, and a certificate for each of `users`, whose common name is the user's.
///
/// # Errors
/// As for [`make`].
pub fn make_with_users(folder: &Path, hosts: &[String], users: &[String]) -> Result<Vec<PathBuf>, Error> {
    match DirBuilder::new().mode(0o700).recursive(true).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::path(folder, "make this folder")(error));
        }
        _ => {}
    }
    let mut made = Vec::new();
    let authority = match read_authority(folder)? {
        Some(authority) => authority,
        None => make_authority(folder, &mut made)?,
    };
    let has_client = folder.join(format!("{CLIENT}.pem")).exists();
    let client = (!has_client).then(|| CLIENT.to_owned());
    // A server is a client of its peers.
    let server = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let of_clients = [ExtendedKeyUsagePurpose::ClientAuth];
    // All or none: what is there already is found before anything is made.
    for host in hosts.iter().chain(users) {
        let name = host.split(',').next().unwrap_or_default().trim();
        for path in places(folder, name) {
            if path.exists() {
                return Err(Error::path(&path, "write it")(io::ErrorKind::AlreadyExists.into()));
            }
        }
    }
    let hosts = hosts.iter().map(|host| (host, &server[..]));
    for (host, usages) in hosts.chain(client.iter().chain(users).map(|client| (client, &of_clients[..]))) {
        let names: Vec<String> = host.split(',').map(|name| name.trim().to_owned()).collect();
        let certificate = sign(&authority, &names, usages).map_err(|error| failed(host, &error))?;
        made.extend(certificate.write(folder, &names[0])?);
    }
    Ok(made)
}

/// Where a certificate and its key go.
fn places(folder: &Path, name: &str) -> [PathBuf; 2] {
    ["pem", "key"].map(|ending| folder.join(format!("{}.{ending}", name.replace(['/', ':', '*'], "_"))))
}

struct Made {
    certificate: String,
    key: String,
}

impl Made {
    /// Writes both files, or fails because one of them is there.
    fn write(&self, folder: &Path, name: &str) -> Result<[PathBuf; 2], Error> {
        let [certificate, key] = places(folder, name);
        for (path, text, mode) in [(&key, &self.key, 0o600), (&certificate, &self.certificate, 0o644)] {
            let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
            file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::path(path, "write it"))?;
        }
        Ok([certificate, key])
    }
}

fn failed(host: &str, error: &rcgen::Error) -> Error {
    Error::Making { host: host.to_owned(), reason: error.to_string() }
}

fn read_authority(folder: &Path) -> Result<Option<Issuer<'static, KeyPair>>, Error> {
    let (certificate, key) = (folder.join("ca.pem"), folder.join("ca.key"));
    let text = match std::fs::read_to_string(&key) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(Error::path(&key, "read it"))?,
    };
    let bad = |path: &Path, error: &rcgen::Error| Error::Certificate {
        path: path.to_owned(),
        what: "the authority",
        reason: error.to_string(),
    };
    let pair = KeyPair::from_pem(&text).map_err(|error| bad(&key, &error))?;
    if !certificate.exists() {
        return Err(Error::Certificate {
            path: certificate,
            what: "the authority",
            reason: "it is missing, while its key is there".into(),
        });
    }
    // Certificates are tied to the authority by its name and key, which are all that a signature takes from it.
    Ok(Some(Issuer::new(authority_parameters(), pair)))
}

fn make_authority(folder: &Path, made: &mut Vec<PathBuf>) -> Result<Issuer<'static, KeyPair>, Error> {
    let pair = KeyPair::generate().map_err(|error| failed("the authority", &error))?;
    let parameters = authority_parameters();
    let certificate = parameters.self_signed(&pair).map_err(|error| failed("the authority", &error))?;
    let files = Made { certificate: certificate.pem(), key: pair.serialize_pem() };
    made.extend(files.write(folder, "ca")?);
    Ok(Issuer::new(parameters, pair))
}

fn authority_parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "Heddle cluster authority");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    last(&mut parameters, AUTHORITY_LASTS);
    parameters
}

fn last(parameters: &mut CertificateParams, span: Duration) {
    let now = SystemTime::now();
    parameters.not_before = (now - ALLOWANCE).into();
    parameters.not_after = (now + span).into();
}

fn sign(
    authority: &Issuer<'_, KeyPair>,
    names: &[String],
    usages: &[ExtendedKeyUsagePurpose],
) -> Result<Made, rcgen::Error> {
    // Names that are addresses become address entries.
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name.push(DnType::CommonName, names[0].as_str());
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = usages.to_vec();
    parameters.use_authority_key_identifier_extension = true;
    last(&mut parameters, CERTIFICATE_LASTS);
    let pair = KeyPair::generate()?;
    let certificate = parameters.signed_by(&pair, authority)?;
    Ok(Made { certificate: certificate.pem(), key: pair.serialize_pem() })
}

//! TLS 1.3 (RFC 8446) with certificates on both sides, all signed by the cluster's own authority.
//!
//! Whoever holds a certificate of the authority may talk to the cluster: there is no further password. A server's certificate has to
//! name the host by which it is reached (RFC 9525), and to be for servers (extended key usage, RFC 5280, 4.2.1.12): no client can
//! pass for one, neither to those who connect to it nor to those it connects to.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::Error;

/// Where the certificates are: PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our own, and what leads from it to the authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The certificate of the authority.
    pub authority: PathBuf,
}

/// What both ends of a connection need. A clone shares it.
#[derive(Clone, Debug)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    roots: Arc<RootCertStore>,
}

impl Tls {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// [`Error::Certificate`] with the file that cannot be used.
    pub fn load(files: &TlsFiles) -> Result<Self, Error> {
        let own: Vec<CertificateDer<'static>> = certificates(&files.certificate, CERTIFICATE)?;
        let bytes = read(&files.key, KEY)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| bad(&files.key, KEY, &in_words(&error)))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.authority, AUTHORITY)? {
            roots.add(authority).map_err(|error| bad(&files.authority, AUTHORITY, &error))?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| bad(&files.authority, AUTHORITY, &error))?;
        let versions = [&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .expect("ring knows TLS 1.3")
            .with_client_cert_verifier(verifier)
            .with_single_cert(own.clone(), key.clone_key())
            .map_err(|error| bad(&files.key, KEY, &error))?;
        // A connection lasts: there is nothing to resume.
        server.send_tls13_tickets = 0;
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .expect("ring knows TLS 1.3")
            .with_root_certificates(Arc::clone(&roots))
            .with_client_auth_cert(own, key)
            .map_err(|error| bad(&files.key, KEY, &error))?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), roots })
    }

    /// The end of a connection that was accepted.
    pub(super) fn accept(&self) -> Result<rustls::Connection, String> {
        ServerConnection::new(Arc::clone(&self.server)).map(Into::into).map_err(|error| error.to_string())
    }

    /// The end of a connection that was made to `host`.
    pub(super) fn connect(&self, host: &str) -> Result<rustls::Connection, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
        ClientConnection::new(Arc::clone(&self.client), name).map(Into::into).map_err(|error| error.to_string())
    }

    /// Whether who has connected to us showed a server's certificate; and one for `host`, if it is known where that server is.
    ///
    /// # Errors
    /// What is wrong with it, for a log.
    pub(super) fn check_server(&self, shown: Option<&[CertificateDer<'_>]>, host: Option<&str>) -> Result<(), String> {
        let Some((own, chain)) = shown.and_then(<[_]>::split_first) else {
            return Err("it has shown no certificate".into());
        };
        let certificate = ParsedCertificate::try_from(own).map_err(|error| error.to_string())?;
        let algorithms = self.server.crypto_provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, chain, UnixTime::now(), algorithms)
            .map_err(|error| format!("its certificate is not a server's: {error}"))?;
        let Some(host) = host else { return Ok(()) };
        let name = ServerName::try_from(host).map_err(|error| format!("{host}: {error}"))?;
        verify_server_name(&certificate, &name).map_err(|error| format!("its certificate is not for {host}: {error}"))
    }

    /// Whether the certificate that was shown is for this host.
    pub(super) fn is_for(shown: Option<&[CertificateDer<'_>]>, host: &str) -> bool {
        let certificate = shown.and_then(<[_]>::first).and_then(|own| ParsedCertificate::try_from(own).ok());
        let name = ServerName::try_from(host).ok();
        certificate.zip(name).is_some_and(|(certificate, name)| verify_server_name(&certificate, &name).is_ok())
    }

    /// For those who accept by other means.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }
}

/// What each file is for, with its option.
const CERTIFICATE: &str = "the certificate (--tls-cert)";
const KEY: &str = "the certificate's private key (--tls-key)";
const AUTHORITY: &str = "the authority's certificate (--tls-ca)";

/// Keys and chains are a few kilobytes: what is longer is no file of them.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = read(path, what)?;
    let all: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| bad(path, what, &in_words(&error)))?;
    if all.is_empty() {
        return Err(bad(path, what, &"there is no certificate in it, expected PEM: -----BEGIN CERTIFICATE-----"));
    }
    Ok(all)
}

fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, Error> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| bad(path, what, &format!("cannot read it: {error}")))?;
    Ok(bytes)
}

/// The library names a file without a key in words of its own.
fn in_words(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::NoItemsFound => {
            "there is no private key in it, expected PEM: -----BEGIN PRIVATE KEY-----".to_owned()
        }
        error => error.to_string(),
    }
}

fn bad(path: &Path, what: &'static str, reason: &dyn Display) -> Error {
    Error::Certificate { path: path.to_owned(), what, reason: reason.to_string() }
}

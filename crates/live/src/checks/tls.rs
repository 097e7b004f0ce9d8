//! Whose certificates are good for a probe by TLS.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use balance::health::Trust;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned};

use super::failure::Failure;
use super::stream::DeadlineStream;

/// Bytes of a file of certificates: all that browsers trust have a fifth of that.
const FILE_MAX: u64 = 1 << 20;

/// What is in the file of whose certificates are good, which is relative to `folder`; nothing if anybody's are.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn read(trust: &Trust, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    let Trust::Authorities(file) = trust else { return Ok(None) };
    let path = folder.join(file);
    let unusable = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let mut text = Vec::new();
    let opened = File::open(&path).and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut text));
    opened.map_err(|error| unusable(&error))?;
    if text.len() as u64 > FILE_MAX {
        return Err(unusable(&"it has more than 1 MiB"));
    }
    roots(&text).map_err(|error| unusable(&error))?;
    Ok(Some(text))
}

fn roots(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("there is no certificate in it: one begins with -----BEGIN CERTIFICATE-----".to_owned());
    }
    Ok(roots)
}

/// What a probe by TLS needs, by what [`read`] has returned.
///
/// # Errors
/// What is wrong with the certificates.
pub(super) fn configure(authorities: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = match authorities {
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))).with_no_client_auth(),
        Some(text) => builder.with_root_certificates(roots(text)?).with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// Shakes hands with a server, which is `name`, or what its address says.
pub(super) fn connect(
    config: &Arc<ClientConfig>,
    name: Option<&str>,
    (at, mut stream): (SocketAddr, DeadlineStream),
) -> Result<StreamOwned<ClientConnection, DeadlineStream>, Failure> {
    let name = match name {
        Some(name) => {
            let host = name.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(name, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            ServerName::try_from(host).map_err(|_| Failure::Check(format!("`{name}` is no name of a server")))?
        }
        None => ServerName::IpAddress(at.ip().into()),
    };
    let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(Failure::Tls)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Takes every certificate, whoever has signed it, but holds the other side to have its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

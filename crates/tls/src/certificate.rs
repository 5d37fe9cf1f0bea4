//! Certificates and keys: read from files, and the one that is shown to a client.

use crate::error::TlsError;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use webpki::EndEntityCert;

/// Files of this many bytes at most are read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a certificate, its key, and what is known of its revocation are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFiles {
    /// The certificate and those that lead to one that clients know, PEM, the server's own first.
    pub chain: PathBuf,
    /// Its key, PEM: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// An OCSP response (DER) that is shown with it; `None`: none is.
    pub ocsp: Option<PathBuf>,
}

/// A file's bytes.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::File { path: path.to_owned(), error };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        let remedy = "Name a file of one MiB at most.";
        return Err(TlsError::Content { path: path.to_owned(), what: format!("it has {length} bytes"), remedy });
    }
    std::fs::read(path).map_err(failed)
}

/// All certificates of a file; there is one at least.
pub(crate) fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let wrong = |what| TlsError::Content {
        path: path.to_owned(),
        what,
        remedy: "It is to be PEM: -----BEGIN CERTIFICATE-----, the server's own certificate first.",
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(format!("a certificate in it can't be read ({error})")))?;
    if chain.is_empty() { Err(wrong("there is no certificate in it".to_owned())) } else { Ok(chain) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| TlsError::Content {
        path: path.to_owned(),
        what: format!("there is no key in it ({error})"),
        remedy: "It is to be PEM, without a passphrase: -----BEGIN PRIVATE KEY-----, RSA PRIVATE KEY or EC PRIVATE KEY.",
    })
}

/// The certificates of a server. The one that a client is shown is of the name that it asks for, and of a kind of key that it understands.
#[derive(Debug)]
pub(crate) struct Certificates(Vec<Arc<CertifiedKey>>);

impl Certificates {
    /// Reads them.
    pub(crate) fn read(files: &[CertificateFiles]) -> Result<Certificates, TlsError> {
        files.iter().map(certified_of).collect::<Result<_, _>>().map(Certificates)
    }

    /// One that was made.
    pub(crate) fn made(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Certificates, TlsError> {
        certified(chain, key, None).map(|one| Certificates(vec![one]))
    }
}

fn certified_of(files: &CertificateFiles) -> Result<Arc<CertifiedKey>, TlsError> {
    let ocsp = files.ocsp.as_deref().map(read).transpose()?;
    certified(chain(&files.chain)?, key(&files.key)?, ocsp).map_err(|error| match error {
        TlsError::Setup(error) => TlsError::Content {
            path: files.key.clone(),
            what: format!("the key does not serve for {} ({error})", files.chain.display()),
            remedy: "Certificate and key belong together; keys are RSA, ECDSA (P-256, P-384, P-521) or Ed25519.",
        },
        other => other,
    })
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    ocsp: Option<Vec<u8>>,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let mut certified = CertifiedKey::new(chain, any_supported_type(&key)?);
    match certified.keys_match() {
        // Of some kinds of keys that can't be told.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(error) => return Err(error.into()),
    }
    certified.ocsp = ocsp;
    Ok(Arc::new(certified))
}

/// Whether a certificate is for a name.
fn is_for(certified: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let own = certified.cert.first().and_then(|own| EndEntityCert::try_from(own).ok());
    own.is_some_and(|own| own.verify_is_valid_for_subject_name(name).is_ok())
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let serves = |one: &&Arc<CertifiedKey>| one.key.choose_scheme(hello.signature_schemes()).is_some();
        let is_asked_for = |one: &&Arc<CertifiedKey>| name.as_ref().is_some_and(|name| is_for(one, name));
        // A client that asks for a name that is not ours is shown what there is, and decides.
        let chosen = self.0.iter().filter(is_asked_for).find(serves).or_else(|| self.0.iter().find(serves));
        chosen.cloned()
    }
}

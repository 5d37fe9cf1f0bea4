//! [`TlsSettings`]: what a server is to use, and what is made of it.

use crate::certificate::{CertificateFiles, Certificates, chain};
use crate::error::TlsError;
use crate::key_log::KeyLogFile;
use crate::self_signed::SelfSigned;
use crate::ticket::Tickets;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, version};
use std::path::PathBuf;
use std::sync::Arc;

/// The oldest version that is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MinimumVersion {
    /// TLS 1.2, with the suites that have forward secrecy and authenticated encryption.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// What a server is to use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsSettings {
    /// Its certificates. If there is none, one is made for [`names`](TlsSettings::names).
    pub certificates: Vec<CertificateFiles>,
    /// Names and addresses of a certificate that is made.
    pub names: Vec<String>,
    /// See [`MinimumVersion`].
    pub minimum_version: MinimumVersion,
    /// Protocols that may be spoken on a connection (ALPN), the best one first.
    pub protocols: Vec<String>,
    /// Certificates (PEM) of those who vouch for clients: only clients with a certificate of theirs are served.
    pub client_authorities: Option<PathBuf>,
    /// Files with keys of tickets; see [`Tickets::new`].
    pub ticket_keys: Vec<PathBuf>,
    /// A file for the secrets of connections. Whoever reads it can read all that was sent.
    pub key_log: Option<PathBuf>,
}

impl TlsSettings {
    /// Reads all files, and makes a configuration. `tickets`: the keys of the configuration before this one, so that tickets of before are
    /// still good; they are not used if there are files with keys.
    ///
    /// # Errors
    /// [`TlsError`]: the file, and what is wrong with it.
    pub fn load(&self, tickets: Option<&Arc<Tickets>>) -> Result<Loaded, TlsError> {
        let certificates = if self.certificates.is_empty() {
            let SelfSigned { der: (certificate, key), .. } = SelfSigned::new(&self.names)?;
            Certificates::made(vec![certificate], key)?
        } else {
            Certificates::read(&self.certificates)?
        };
        let tickets = match tickets.filter(|_| self.ticket_keys.is_empty()) {
            Some(tickets) => Arc::clone(tickets),
            None => Tickets::new(&self.ticket_keys)?,
        };
        let versions: &[&rustls::SupportedProtocolVersion] = match self.minimum_version {
            MinimumVersion::Tls12 => &[&version::TLS13, &version::TLS12],
            MinimumVersion::Tls13 => &[&version::TLS13],
        };
        let provider = Arc::new(provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let builder = match &self.client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let wrong = |what| TlsError::Content {
                    path: path.clone(),
                    what,
                    remedy: "It is to have the certificates of authorities, PEM.",
                };
                let mut roots = RootCertStore::empty();
                for authority in chain(path)? {
                    roots.add(authority).map_err(|error| wrong(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(|error| wrong(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config.ticketer = tickets.clone();
        // What is to be remembered is in the tickets.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ignore_client_order = true;
        // Records are ours after the handshake.
        config.enable_secret_extraction = true;
        if let Some(path) = &self.key_log {
            config.key_log = Arc::new(KeyLogFile::open(path)?);
        }
        Ok(Loaded { config: Arc::new(config), tickets })
    }

    /// All files that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let certificates =
            self.certificates.iter().flat_map(|files| [&files.chain, &files.key].into_iter().chain(&files.ocsp));
        certificates.chain(&self.client_authorities).chain(&self.ticket_keys)
    }
}

/// What was made of settings.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// For connections that begin.
    pub config: Arc<ServerConfig>,
    /// The keys of tickets, for the next configuration.
    pub tickets: Arc<Tickets>,
}

/// The suites: AES-128-GCM first, for it costs least where a processor has AES.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let first = |suite: &rustls::SupportedCipherSuite| suite.suite() != rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(first);
    provider
}

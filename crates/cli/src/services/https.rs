//! What a service over TLS is told: certificates, versions, and the rest.

use crate::host::attach::{Scheme, url};
use crate::host::privilege::paths::directory_of;
use crate::log;
use clap::{Args, ValueEnum};
use qanat::PROTOCOL_TCP;
use qanat_nic::af_xdp::PortRange;
use qanat_tls::{CertificateFiles, Loaded, MinimumVersion, TlsSettings};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Names that a certificate of ours has besides the service's addresses.
const OWN_NAMES: [&str; 1] = ["localhost"];

/// Options of TLS.
#[derive(Args)]
#[command(next_help_heading = "HTTPS")]
pub struct HttpsArguments {
    /// Serve by HTTPS: TLS 1.3 and 1.2. Without a certificate, with one that is made at each start, for trying
    #[arg(long)]
    pub https: bool,
    /// Certificate and those that lead to one that clients know, PEM; may be repeated: clients get the one of the name that they ask
    /// for, and of a kind of key that they understand
    #[arg(long, value_name = "FILE", requires = "https", requires = "key")]
    certificate: Vec<PathBuf>,
    /// Key of each certificate, in the same order, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Vec<PathBuf>,
    /// OCSP response (DER) of each certificate, in the same order, shown with it
    #[arg(long, value_name = "FILE", requires = "certificate")]
    ocsp: Vec<PathBuf>,
    /// Port where plain HTTP is told to ask by HTTPS; 0: none
    #[arg(long, value_name = "PORT", default_value_t = 80, requires = "https")]
    redirect_port: u16,
    /// Browsers that were here once ask by HTTPS alone for so many seconds (Strict-Transport-Security); 0: they are not told to
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "https")]
    hsts: u64,
    /// Requests that a client may have open at once on a connection of HTTP/2; 0: HTTP/1.1 alone is spoken
    #[arg(long, value_name = "COUNT", default_value_t = 128, value_parser = clap::value_parser!(u32).range(..=1_024), requires = "https")]
    http2_streams: u32,
    /// The oldest version that is spoken
    #[arg(long, value_enum, default_value_t = Version::V1_2, requires = "https")]
    tls_minimum: Version,
    /// Serve only clients with a certificate of one of these authorities, PEM
    #[arg(long, value_name = "FILE", requires = "https")]
    client_ca: Option<PathBuf>,
    /// Key of 80 random bytes for tickets, which servers and restarts may share; may be repeated: the first one makes tickets, all open
    /// them (default: the process's own, changed once a day)
    #[arg(long, value_name = "FILE", requires = "https")]
    ticket_key: Vec<PathBuf>,
    /// Append each connection's secrets to this file, for Wireshark: whoever reads it can read all that was sent
    #[arg(long, value_name = "FILE", requires = "https")]
    key_log: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "1.2")]
    V1_2,
    #[value(name = "1.3")]
    V1_3,
}

impl HttpsArguments {
    /// The port where plain HTTP is redirected, if there is one.
    pub fn redirect_port(&self) -> Option<u16> {
        Some(self.redirect_port).filter(|port| self.https && *port != 0)
    }

    fn scheme(&self) -> Scheme {
        if self.https { Scheme::Https } else { Scheme::Http }
    }

    /// The port to listen on: the one that was said, or the usual one.
    pub fn port(&self, said: Option<u16>) -> u16 {
        let usual = match self.scheme() {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        said.unwrap_or(usual)
    }

    /// All ports that are listened on.
    pub fn ports(&self, said: Option<u16>) -> Vec<PortRange> {
        let ports = [Some(self.port(said)), self.redirect_port()].into_iter().flatten();
        ports.map(|port| PortRange { protocol: PROTOCOL_TCP, first: port, last: port }).collect()
    }

    /// What browsers are told to go to.
    pub fn urls(&self, said: Option<u16>, addresses: &[IpAddr]) -> Vec<String> {
        addresses.iter().map(|address| url(self.scheme(), *address, self.port(said))).collect()
    }

    /// What the service is to be for browsers.
    pub fn web(&self, tls: Loaded) -> qanat_web::Https {
        qanat_web::Https {
            tls,
            redirect_port: self.redirect_port(),
            hsts_seconds: self.hsts,
            http2_streams: self.http2_streams,
        }
    }

    fn settings(&self) -> Result<TlsSettings, String> {
        let (certificates, keys, responses) = (self.certificate.len(), self.key.len(), self.ocsp.len());
        if certificates != keys || responses > certificates {
            return Err(format!(
                "{certificates} times --certificate, {keys} times --key, {responses} times --ocsp: each certificate has its key, in the same order"
            ));
        }
        let files = self.certificate.iter().zip(&self.key).enumerate();
        Ok(TlsSettings {
            certificates: files
                .map(|(index, (chain, key))| CertificateFiles {
                    chain: chain.clone(),
                    key: key.clone(),
                    ocsp: self.ocsp.get(index).cloned(),
                })
                .collect(),
            names: OWN_NAMES.map(str::to_owned).to_vec(),
            minimum_version: match self.tls_minimum {
                Version::V1_2 => MinimumVersion::Tls12,
                Version::V1_3 => MinimumVersion::Tls13,
            },
            protocols: ["h2", "http/1.1"].map(str::to_owned)[usize::from(self.http2_streams == 0)..].to_vec(),
            client_authorities: self.client_ca.clone(),
            ticket_keys: self.ticket_key.clone(),
            key_log: self.key_log.clone(),
        })
    }

    /// Whether its certificate is made.
    pub fn is_self_signed(&self) -> bool {
        self.https && self.certificate.is_empty()
    }

    /// What a service over TLS begins with; `None`: it is none.
    pub fn secrets(&self) -> Result<Option<Arc<Secrets>>, String> {
        if !self.https {
            return Ok(None);
        }
        Ok(Some(Arc::new(Secrets { settings: self.settings()?, loaded: Mutex::new(None) })))
    }
}

/// Certificates and keys, as they were read last.
pub struct Secrets {
    settings: TlsSettings,
    loaded: Mutex<Option<Loaded>>,
}

impl Secrets {
    /// Where files are read again. They are replaced by others of their names, and links lead elsewhere.
    pub fn read(&self) -> Vec<PathBuf> {
        let files: Vec<&PathBuf> = self.settings.files().collect();
        let real = files.iter().filter_map(|path| std::fs::canonicalize(path).ok()).map(|path| directory_of(&path));
        files.iter().map(|path| directory_of(path)).chain(real).collect()
    }

    /// Where files are written.
    pub fn write(&self) -> Vec<PathBuf> {
        self.settings.key_log.iter().map(|path| directory_of(path)).collect()
    }

    /// Reads what there is, while there are the rights to.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn open(&self) -> Result<(), String> {
        if self.settings.certificates.is_empty() { Ok(()) } else { self.load(&[]).map(drop) }
    }

    /// What was read. A certificate that is to be made is made for these addresses, once.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn load(&self, addresses: &[IpAddr]) -> Result<Loaded, String> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = &*loaded {
            return Ok(loaded.clone());
        }
        let mut settings = self.settings.clone();
        settings.names.extend(addresses.iter().map(IpAddr::to_string));
        let new = settings.load(None).map_err(|error| error.to_string())?;
        Ok(loaded.insert(new).clone())
    }

    /// Reads everything again; `None`, and a warning, if that can't be: then what was read before stays. So does a certificate that was
    /// made.
    pub fn reload(&self) -> Option<Loaded> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let tickets = loaded.as_ref().filter(|_| !self.settings.certificates.is_empty())?.tickets.clone();
        match self.settings.load(Some(&tickets)) {
            Ok(new) => Some(loaded.insert(new).clone()),
            Err(error) => {
                log::warning!(
                    "certificates",
                    "{error} What was read before goes on. The user that serves reads it again (see --user), and needs the right to."
                );
                None
            }
        }
    }
}

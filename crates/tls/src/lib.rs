//! TLS for services: a layer between the stack and a service, which knows nothing of it.
//!
//! ```text
//!             handshake, TLS 1.2          after the handshake, TLS 1.3
//!  TlsLayer ──► Foreign (rustls) ──keys──► Established ──► RecordKey (aws-lc)
//! ```
//! * [`TlsSettings`] reads certificates and makes a configuration; [`SelfSigned`] makes a certificate to try things with.
//! * [`TlsLayer`] is what a service puts between the stack and itself.
//!
//! rustls does handshakes, and keeps the secrets that new keys are made of. Records of TLS 1.3 are sealed here, on the way from where the
//! content lies to the memory that is sent, and opened on the way from the frame that came to the one that the service gets. So content is
//! moved once in each direction, and by the cipher itself.
//!
//! # What is not supported
//! Data before the handshake is over (0-RTT), renegotiation, TLS 1.1 and older, records of TLS 1.2 without a copy, and fetching of
//! OCSP responses.
#![forbid(unsafe_code)]

mod alert;
mod certificate;
mod error;
mod established;
mod figures;
mod foreign;
mod key;
mod key_log;
mod layer;
mod record;
mod self_signed;
mod session;
mod settings;
mod ticket;

#[cfg(test)]
mod tests;

pub use certificate::CertificateFiles;
pub use error::TlsError;
pub use figures::TlsFigures;
pub use layer::{Over, TlsLayer};
pub use record::{CONTENT_BYTES_MAX, OVERHEAD_BYTES};
pub use self_signed::{LAST_YEAR, SelfSigned};
pub use settings::{Loaded, MinimumVersion, TlsSettings};
pub use ticket::{TICKET_KEY_BYTES, Tickets};

//! What can be wrong with the settings.

use std::path::PathBuf;

/// Why the settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("{}: {error}. Name a file that whoever starts the server may read.", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A file has something else than what is needed.
    #[error("{}: {what}. {remedy}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// rustls does not take the settings.
    #[error("TLS can't be set up: {0}.")]
    Setup(#[from] rustls::Error),
    /// A certificate can't be made.
    #[error("a certificate can't be made: {0}. Names are those of hosts, or addresses.")]
    Certificate(#[from] rcgen::Error),
}

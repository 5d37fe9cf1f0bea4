//! What is wrong with a policy, or keeps it from being read.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What is wrong with a policy, or keeps it from being read.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// Its file can't be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// Something is wrong in its file.
    #[error("{}: {error}", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        error: Box<PolicyError>,
    },
    /// The text is no policy.
    #[error(transparent)]
    Syntax(#[from] toml::de::Error),
    /// The text says what can't be.
    #[error("{0}")]
    Wrong(String),
    /// No thread could be started to look names up.
    #[error("start a thread for names: {0}")]
    NoThread(#[source] io::Error),
    /// The machine's name service does not answer.
    #[error(
        "group \"{group}\": this machine's name service has not answered for {seconds} s: see nsswitch.conf(5), or give the \
         group by number"
    )]
    NoAnswer {
        /// The group that it was asked for.
        group: String,
        /// How long it was waited for.
        seconds: u64,
    },
}

/// For programs whose errors are texts.
impl From<PolicyError> for String {
    fn from(error: PolicyError) -> String {
        error.to_string()
    }
}

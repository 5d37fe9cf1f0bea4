//! Why the daemon can't do something.

use crate::policy::PolicyError;
use qanat_control::refusal::Refusal;
use std::error::Error;

/// Why the daemon can't do something: in words, with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The system did not do a step.
    #[error("{step}: {error}")]
    System {
        /// What was to be done.
        step: String,
        /// What the system says.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
    /// The kernel did not do what was asked of programs and tables.
    #[error("{0}")]
    Kernel(String),
    /// The policy can't be followed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Something is not as it must be.
    #[error("{0}")]
    Unfit(String),
}

impl From<String> for DaemonError {
    fn from(text: String) -> DaemonError {
        DaemonError::Unfit(text)
    }
}

impl From<&str> for DaemonError {
    fn from(text: &str) -> DaemonError {
        DaemonError::Unfit(text.to_owned())
    }
}

/// For programs whose errors are texts.
impl From<DaemonError> for String {
    fn from(error: DaemonError) -> String {
        error.to_string()
    }
}

/// Tells a client why its request can't be done.
impl From<DaemonError> for Refusal {
    fn from(error: DaemonError) -> Refusal {
        error.to_string().into()
    }
}

/// What the system says of a step.
pub(crate) fn say(step: &str, error: impl Into<Box<dyn Error + Send + Sync>>) -> DaemonError {
    DaemonError::System { step: step.to_owned(), error: error.into() }
}

/// What the kernel says of programs and tables: an error with its causes, and the remedy for the usual one.
pub(crate) fn explain(what: &str, error: &(dyn Error + 'static)) -> DaemonError {
    let mut text = format!("{what}: {error}");
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(system) = current.downcast_ref::<std::io::Error>() {
            text = format!("{what}: {system}");
            if system.kind() == std::io::ErrorKind::PermissionDenied {
                text += &format!("; {}", qanat_nic::privilege::remedy());
            }
        }
        cause = current.source();
    }
    DaemonError::Kernel(text)
}

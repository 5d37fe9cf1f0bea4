//! [`StartError`]: why a service can't start.

use qanat_api::CommandError;
use std::error::Error;
use std::net::SocketAddr;

/// Why a service can't start. It is written for the user, so it should name what is in the way and the remedy.
///
/// A refused command becomes one by `?`. [`at`](StartError::at) adds the address that was asked for, and
/// [`of`](StartError::of) takes an error of the service's own.
///
/// ```
/// use qanat::{Commands, Context, ListenOptions, StartError};
/// use std::net::{Ipv4Addr, SocketAddr};
///
/// fn start(zones: &str, context: &mut Context<'_>) -> Result<(), StartError> {
///     std::fs::metadata(zones).map_err(StartError::of)?;
///     let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 53));
///     context.bind_udp(local)?;
///     context.listen(local, ListenOptions::default()).map_err(StartError::at(local))?;
///     Ok(())
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A command was refused.
    #[error("{0}")]
    Refused(#[from] CommandError),
    /// A command for an address was refused.
    #[error("{address}: {error}")]
    RefusedAt {
        /// The address: one's own to listen on or to bind, or the peer's to connect to.
        address: SocketAddr,
        /// Why.
        #[source]
        error: CommandError,
    },
    /// An error of the service's own.
    #[error(transparent)]
    Service(#[from] Box<dyn Error + Send + Sync>),
}

impl StartError {
    /// Names the address of a refused command: `context.listen(local, options).map_err(StartError::at(local))?`.
    pub fn at(address: SocketAddr) -> impl Fn(CommandError) -> StartError {
        move |error| StartError::RefusedAt { address, error }
    }

    /// An error of the service's own: `Catalog::open(path).map_err(StartError::of)?`.
    pub fn of(error: impl Error + Send + Sync + 'static) -> StartError {
        StartError::Service(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts as a service does: by `?` alone.
    fn plain(outcome: Result<(), CommandError>) -> Result<(), StartError> {
        outcome?;
        Ok(())
    }

    #[test]
    fn each_says_what_a_user_needs_and_keeps_its_source() {
        let refused = plain(Err(CommandError::InUse)).unwrap_err();
        assert_eq!(refused.to_string(), "the address or port is in use");
        assert!(refused.source().is_some_and(|source| source.is::<CommandError>()));

        let local = SocketAddr::from(([10, 77, 0, 2], 53));
        let refused = StartError::at(local)(CommandError::InUse);
        assert_eq!(refused.to_string(), "10.77.0.2:53: the address or port is in use");
        assert!(refused.source().is_some_and(|source| source.is::<CommandError>()));

        let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "zones.conf: create it");
        assert_eq!(StartError::of(missing).to_string(), "zones.conf: create it");
    }
}

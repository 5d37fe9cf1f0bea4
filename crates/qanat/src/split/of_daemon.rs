//! Net cores that a daemon has ([net] cores of its policy).

use crate::split::service::error::Refusal;
use crate::split::service::options::Connector;
use qanat_control::client::{ClientError, Session};
use qanat_control::protocol::{StackWish, VnicWish};
use std::io;
use std::path::Path;

/// A connector to a net core of the daemon at `daemon`, on which a card of `card` is made. `None`: it has no net cores.
///
/// # Errors
/// There is no daemon, or it refuses.
pub fn daemons_net_core(daemon: &Path, card: VnicWish, stack: StackWish) -> Result<Option<Connector>, ClientError> {
    let daemon = daemon.to_owned();
    let ask = move || Session::connect(&daemon)?.attach_net_core(card.clone(), stack.clone());
    let Some(first) = ask()? else { return Ok(None) };
    let mut first = Some(first);
    // The next time it is another net core, or the same one started again, with a new card.
    let again = move || match ask() {
        Ok(Some(socket)) => Ok(socket),
        Ok(None) => Err(io::Error::other("the daemon has no net cores any more ([net] cores of its policy)")),
        Err(error) if error.is_forbidden() => Err(io::Error::other(Refusal(error.to_string()))),
        Err(error) => Err(io::Error::other(error)),
    };
    Ok(Some(Box::new(move || first.take().map_or_else(&again, Ok))))
}

//! Types of clients (`CLIENT LIST TYPE`, `CLIENT KILL TYPE`).

use crate::engine::fault::Fault;
use crate::engine::session::Session;

/// Whether a client is of a type that Redis knows. There are no replicas here.
///
/// # Errors
/// There is no such type.
pub fn is_of(session: &Session, kind: &[u8]) -> Result<bool, Fault> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(session.subscriptions() == 0),
        b"pubsub" => Ok(session.subscriptions() > 0),
        b"master" | b"replica" | b"slave" => Ok(false),
        _ => Err(Fault::Told(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(kind)))),
    }
}

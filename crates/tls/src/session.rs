//! [`Session`]: how far the TLS of one connection is.

use crate::alert::Alert;
use crate::established::Established;
use crate::figures::TlsFigures;
use crate::foreign::Foreign;
use rustls::ServerConfig;
use std::sync::Arc;

/// See the module.
pub(crate) enum Session {
    /// The handshake goes on.
    Handshake(Box<Foreign>),
    /// TLS 1.2, and its handshake is over: its records stay with rustls.
    Foreign(Box<Foreign>),
    /// TLS 1.3, and its handshake is over.
    Established(Box<Established>),
    /// It failed, or there is no memory for it.
    Over,
}

impl Session {
    /// A new connection.
    pub(crate) fn new(config: &Arc<ServerConfig>) -> Session {
        Foreign::new(config).map_or(Session::Over, |foreign| Session::Handshake(Box::new(foreign)))
    }

    /// The handshake is over, and all that rustls had to say was taken. Returns what came behind the handshake's last message.
    pub(crate) fn establish(&mut self, figures: &mut TlsFigures) -> Result<Vec<u8>, Alert> {
        let Session::Handshake(foreign) = std::mem::replace(self, Session::Over) else {
            return Err(Alert::InternalError);
        };
        figures.handshakes += 1;
        figures.handshakes_resumed += u64::from(foreign.is_resumed());
        if !foreign.is_tls13() {
            figures.handshakes_tls12 += 1;
            *self = Session::Foreign(foreign);
            return Ok(Vec::new());
        }
        let (connection, gathered) = foreign.into_parts();
        *self = Session::Established(Box::new(Established::new(connection).ok_or(Alert::InternalError)?));
        Ok(gathered)
    }

    /// Whether content may be sent.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Session::Foreign(_) | Session::Established(_))
    }
}

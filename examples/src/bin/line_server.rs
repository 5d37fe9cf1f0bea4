//! A line server: it answers each line with its number of bytes, and ends the connection after `quit`.
//!
//! ```text
//!  cargo run --package qanat-examples --bin line_server
//!  nc 10.77.0.2 7007
//! ```
//! TCP carries bytes, not lines: a line may come in several chunks, and a chunk may have several lines. So what has come of an
//! unfinished line is kept for each connection. It lies in a vector at [`ConnectionId::index`]: these numbers are small and
//! are used again.
#![forbid(unsafe_code)]

use qanat::{Bytes, Commands, ConnectionId, Context, Event, ListenOptions, PROTOCOL_TCP, Service, StartError};
use std::net::{Ipv4Addr, SocketAddr};

const PORT: u16 = 7_007;
/// A longer line ends the connection. So no peer can make the server gather without bounds.
const LINE_BYTES_MAX: usize = 1_024;

/// What each connection has sent of a line that has not ended yet.
#[derive(Default)]
struct LineServer {
    gathered: Vec<Vec<u8>>,
}

impl LineServer {
    /// Answers all whole lines that have come. Gives `false` if it has ended the connection.
    fn answer(&mut self, connection: ConnectionId, context: &mut Context<'_>) -> bool {
        let Some(gathered) = self.gathered.get_mut(connection.index()) else { return false };
        while let Some(end) = gathered.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = gathered.drain(..=end).collect();
            let line = line.trim_ascii();
            if line == b"quit" {
                // What was sent before goes out first.
                let _ = context.close(connection);
                return false;
            }
            let answer = Bytes::from(format!("{}\n", line.len()));
            if context.send(connection, answer).is_err() {
                let _ = context.abort(connection);
                return false;
            }
        }
        if gathered.len() > LINE_BYTES_MAX {
            let _ = context.abort(connection);
            return false;
        }
        true
    }
}

impl Service for LineServer {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        context.listen(local, ListenOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Accepted { connection, .. } => {
                let slot = connection.index();
                if self.gathered.len() <= slot {
                    self.gathered.resize_with(slot + 1, Vec::new);
                }
                // The slot may have been an earlier connection's.
                self.gathered[slot].clear();
            }
            Event::Data { connection, chunk } => {
                if let Some(gathered) = self.gathered.get_mut(connection.index()) {
                    gathered.extend_from_slice(chunk.bytes());
                }
                context.consume(connection, chunk);
                self.answer(connection, context);
            }
            Event::PeerClosed { connection } => _ = context.close(connection),
            _ => {}
        }
    }
}

fn main() -> Result<(), String> {
    qanat_examples::serve(LineServer::default(), &[(PROTOCOL_TCP, PORT)])
}

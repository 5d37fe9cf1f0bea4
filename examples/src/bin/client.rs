//! A client: it sends a text to a server, and prints what comes back until the server closes the connection.
//!
//! ```text
//!  cargo run --package qanat-examples --bin client -- 10.77.0.2/24 10.77.0.1:9000 hello
//! ```
//! The first argument is the client's own address, the second the server's address and port. A client is a service, too: it
//! opens its connection in `start`, and everything else comes as events. After ten seconds it gives up.
#![forbid(unsafe_code)]

use qanat::{Bytes, CloseReason, Commands, ConnectOptions, Context, Event, Service, StartError};
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

struct Client {
    server: SocketAddr,
    text: Bytes,
}

impl Service for Client {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        context.connect(self.server, ConnectOptions::default())?;
        context.set_timer(PATIENCE, 0)?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                // These fail only if the connection has ended. `Event::Closed` then says why.
                let _ = context.send(connection, self.text.clone());
                let _ = context.shutdown(connection);
            }
            Event::Data { connection, chunk } => {
                let written = std::io::stdout().write_all(chunk.bytes());
                context.consume(connection, chunk);
                if written.is_err() {
                    std::process::exit(1);
                }
            }
            // The server has sent everything. `Event::Closed` follows.
            Event::PeerClosed { connection } => _ = context.close(connection),
            Event::Closed { why: CloseReason::Finished, .. } => std::process::exit(0),
            Event::Closed { why, .. } => {
                eprintln!("{}: {why}", self.server);
                std::process::exit(1);
            }
            Event::Timer { .. } => {
                eprintln!("{}: no end after {} s", self.server, PATIENCE.as_secs());
                std::process::exit(1);
            }
            _ => {}
        }
    }
}

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().collect();
    let [_, _, server, text] = words.as_slice() else {
        return Err("usage: client ADDRESS/LENGTH SERVER:PORT TEXT".to_owned());
    };
    let server = server.parse().map_err(|error| format!("{server}: {error}"))?;
    qanat_examples::serve(Client { server, text: text.clone().into() }, &[])
}

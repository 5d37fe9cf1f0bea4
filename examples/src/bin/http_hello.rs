//! An HTTP server without files: it answers every request with the same page.
//!
//! ```text
//!  cargo run --package qanat-examples --bin http_hello
//!  curl http://10.77.0.2:8080/
//! ```
//! The page is lent to the stack as [`Bytes`], and never copied into a socket buffer. The stack keeps a reference until the
//! client has acknowledged it. A request may come in any number of chunks, or several requests in one: all that this server
//! looks for is the empty line that ends a head. A server that reads the head is in `services/web`.
#![forbid(unsafe_code)]

use qanat::{Bytes, Commands, Context, Event, ListenOptions, PROTOCOL_TCP, Service, Setting, StartError};
use std::net::{Ipv4Addr, SocketAddr};

const PORT: u16 = 8_080;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

struct Hello {
    page: Bytes,
    /// For each connection, by its slot: how many bytes of the end of a head have come in a row.
    matched: Vec<usize>,
}

impl Hello {
    fn new() -> Hello {
        let body = "It flows.\n";
        let page =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        Hello { page: page.into(), matched: Vec::new() }
    }
}

impl Service for Hello {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        context.listen(local, ListenOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Accepted { connection, .. } => {
                let slot = connection.index();
                if self.matched.len() <= slot {
                    self.matched.resize(slot + 1, 0);
                }
                self.matched[slot] = 0;
                // An answer is short. Without this it might wait for more to fill a segment (Nagle's algorithm).
                let _ = context.set(connection, Setting::NoDelay(true));
            }
            Event::Data { connection, chunk } => {
                let Some(matched) = self.matched.get_mut(connection.index()) else { return };
                let mut requests = 0;
                for byte in chunk.bytes() {
                    *matched = match END_OF_HEAD.get(*matched) == Some(byte) {
                        true => *matched + 1,
                        false => usize::from(*byte == b'\r'),
                    };
                    if *matched == END_OF_HEAD.len() {
                        (*matched, requests) = (0, requests + 1);
                    }
                }
                context.consume(connection, chunk);
                for _ in 0..requests {
                    // A clone is a reference to the same bytes.
                    if context.send(connection, self.page.clone()).is_err() {
                        let _ = context.abort(connection);
                        return;
                    }
                }
            }
            Event::PeerClosed { connection } => _ = context.close(connection),
            _ => {}
        }
    }
}

fn main() -> Result<(), String> {
    qanat_examples::serve(Hello::new(), &[(PROTOCOL_TCP, PORT)])
}

//! Sends back what comes, over TCP and UDP, at port 7 (RFC 862). This is the shortest service there is.
//!
//! ```text
//!  cargo run --package qanat-examples --bin echo
//!  nc 10.77.0.2 7                                     # what is typed comes back; `nc -u` for datagrams
//! ```
//! Received bytes lie in a frame of the card, a [`qanat::Chunk`]. A service owns a chunk until it gives it back: by sending
//! it, by `consume`, or by dropping a datagram's. As long as it keeps chunks of a stream, the peer's window stays shut by as
//! much.
#![forbid(unsafe_code)]

use qanat::{Bytes, Commands, Context, Event, ListenOptions, PROTOCOL_TCP, PROTOCOL_UDP, Service, StartError};
use std::net::{Ipv4Addr, SocketAddr};

const PORT: u16 = 7;

struct Echo;

impl Service for Echo {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        context.listen(local, ListenOptions::default())?;
        context.bind_udp(local)?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        // If a command is refused, the peer is gone. Then there is nobody to answer.
        match event {
            // The datagram goes back in the frame it came in.
            Event::Datagram { socket, peer, chunk } => _ = context.send_chunk_to(socket, peer, chunk),
            Event::Data { connection, chunk } => {
                let copy = Bytes::copy_from_slice(chunk.bytes());
                // The chunk is given back at once, so the peer may send more. A peer that never reads its echo fills our side
                // of the connection. Then `send` fails, and the connection is aborted.
                context.consume(connection, chunk);
                if context.send(connection, copy).is_err() {
                    let _ = context.abort(connection);
                }
            }
            Event::PeerClosed { connection } => _ = context.close(connection),
            _ => {}
        }
    }
}

fn main() -> Result<(), String> {
    qanat_examples::serve(Echo, &[(PROTOCOL_TCP, PORT), (PROTOCOL_UDP, PORT)])
}

//! Sends back what comes: TCP and UDP, port 7 (RFC 862). The shortest service there is.
#![forbid(unsafe_code)]

use qanat::{Bytes, Commands, Context, Event, ListenOptions, PROTOCOL_TCP, PROTOCOL_UDP, Service};
use std::net::{Ipv4Addr, SocketAddr};

const PORT: u16 = 7;

struct Echo;

impl Service for Echo {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let local = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
        context.listen(local, ListenOptions::default()).map_err(|error| error.to_string())?;
        context.bind_udp(local).map(drop).map_err(|error| error.to_string())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        // A refusal means that the peer is gone. Then there is nobody to answer.
        match event {
            // The datagram goes back in the frame it came in.
            Event::Datagram { socket, peer, chunk } => _ = context.send_chunk_to(socket, peer, chunk),
            Event::Data { connection, chunk } => {
                let copy = Bytes::copy_from_slice(chunk.bytes());
                // Given back at once, so the window opens: a peer that never reads what it sent is cut off by `Full`.
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

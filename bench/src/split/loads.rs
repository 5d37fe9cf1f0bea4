//! What is asked of a server when its costs are measured.

use super::player::{PORT, Player};
use qanat::{Bytes, Context, Event, ListenOptions, Service};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Keys of the cache, and how many are asked for in one go.
const KEYS: usize = 100_000;
const PIPELINE: usize = 4;

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// So many bytes there, and as many back: a service that does nothing.
    Echo(usize),
    /// As memcached's USR: keys of less than 20 bytes, values of 2, all of it GET, four in one go.
    Usr,
}

impl Load {
    /// The client's side.
    pub fn client(self, server: IpAddr, connections: usize) -> Player {
        match self {
            Load::Echo(size) => Player::client(server, size, false, connections),
            Load::Usr => {
                let ask = |index: usize| format!("get {}\r\n", key((index * 7_919) % KEYS));
                let request: String = (0..PIPELINE).map(ask).collect();
                Player::asking(SocketAddr::new(server, PORT), request.into(), connections)
            }
        }
    }
}

fn key(number: usize) -> String {
    format!("user:{number:012}")
}

/// A cache as memcached: of its text protocol, GET of one key.
pub struct Cache {
    values: HashMap<Vec<u8>, [u8; 2]>,
}

impl Cache {
    pub fn new() -> Cache {
        Cache { values: (0..KEYS).map(|number| (key(number).into_bytes(), *b"ok")).collect() }
    }
}

impl Service for Cache {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT);
        context.listen(local, ListenOptions::default()).map(drop).map_err(|error| error.to_string())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        let Event::Data { connection, chunk } = event else { return };
        let mut answer = Vec::with_capacity(256);
        for line in chunk.bytes().split(|byte| *byte == b'\n') {
            let Some(key) = line.strip_prefix(b"get ").and_then(|rest| rest.strip_suffix(b"\r")) else { continue };
            if let Some(value) = self.values.get(key) {
                answer.extend_from_slice(b"VALUE ");
                answer.extend_from_slice(key);
                answer.extend_from_slice(b" 0 2\r\n");
                answer.extend_from_slice(value);
                answer.extend_from_slice(b"\r\n");
            }
            answer.extend_from_slice(b"END\r\n");
        }
        context.consume(connection, chunk);
        // Refused: the connection has ended, of which an event tells.
        let _ = context.send(connection, Bytes::from(answer));
    }
}

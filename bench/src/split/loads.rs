//! What is asked of a server when its costs are measured.

use super::error::ServerError;
use super::player::{PORT, Player};
use crate::harness::HarnessError;
use crate::harness::scratch::Scratch;
use qanat::{Bytes, Commands, Context, Event, ListenOptions, Service, StartError};
use qanat_web::{CopyMode, WebConfig, WebService};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Keys of the cache, and how many are asked for in one go.
const KEYS: usize = 100_000;
const PIPELINE: usize = 4;
const HTTP_PORT: u16 = 80;
const FILE_BYTES: usize = 1 << 10;

/// A load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// So many bytes there, and as many back: a service that does nothing.
    Echo(usize),
    /// `qanat web`: a file of 1 KiB.
    Web,
    /// As memcached's USR: keys of less than 20 bytes, values of 2, all of it GET, four in one go.
    Usr,
}

impl Load {
    /// What the server needs on disk.
    pub fn files(self) -> Result<Option<Scratch>, HarnessError> {
        if self != Load::Web {
            return Ok(None);
        }
        let directory = Scratch::create("split-web")?;
        directory.write("file", vec![b'x'; FILE_BYTES])?;
        // A file of this very second may yet change, and is not prepared.
        std::thread::sleep(Duration::from_millis(1_100));
        Ok(Some(directory))
    }

    /// The client's side.
    pub fn client(self, server: IpAddr, connections: usize) -> Player {
        match self {
            Load::Echo(size) => Player::client(server, size, false, connections),
            Load::Web => {
                let request = format!("GET /file HTTP/1.1\r\nHost: {server}\r\n\r\n");
                Player::asking(SocketAddr::new(server, HTTP_PORT), request.into(), connections)
            }
            Load::Usr => {
                let ask = |index: usize| format!("get {}\r\n", key((index * 7_919) % KEYS));
                let request: String = (0..PIPELINE).map(ask).collect();
                Player::asking(SocketAddr::new(server, PORT), request.into(), connections)
            }
        }
    }
}

/// `qanat web` over `directory`.
pub fn web(directory: &Path) -> Result<WebService, ServerError> {
    let mut config = WebConfig::new(directory);
    // In either placement the same: the split one has no frames of the device to keep ready.
    (config.copy_mode, config.preload, config.check_files) = (CopyMode::PerSend, true, false);
    Ok(WebService::new(config)?)
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
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT);
        context.listen(local, ListenOptions::default())?;
        Ok(())
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

//! Requests of a store: a value read from memory, and one written durably on a simulated disk.

use super::{CONNECTIONS, PORT, SERVER, counted_turn, other_turn, runtimes};
use qanat::{AreaId, Bytes, Commands, ConnectOptions, Context, Event, Runtime, Service, StartError, StorageArea};
use qanat_disk::{Media, Sim, SimConfig};
use qanat_kv::{Durability, KvConfig, KvService, Operating, Settings};
use qanat_nic::Region;
use std::net::SocketAddr;

/// The simulated disk, in blocks of 4 KiB.
const BLOCKS: u64 = 1 << 15;
/// Of the log: as the command has them.
const BUFFERS: (u32, u32) = (64, 64 << 10);

/// Sets its key, and then sends one request after the other.
struct Asker {
    set: Bytes,
    request: Bytes,
    answers: u64,
}

impl Service for Asker {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in 0..CONNECTIONS {
            context.connect(SocketAddr::new(SERVER, PORT), ConnectOptions::default())?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => drop(context.send(connection, self.set.clone())),
            Event::Data { connection, chunk } => {
                // An answer fits one segment.
                context.consume(connection, chunk);
                self.answers += 1;
                let _ = context.send(connection, self.request.clone());
            }
            _ => {}
        }
    }
}

fn give_disk(runtime: &mut Runtime) {
    let (count, bytes) = BUFFERS;
    let media = Media::new(BLOCKS, 4_096);
    let config = SimConfig { depth: count, transfer_bytes_max: bytes, volatile_cache: true, seed: None };
    let pool = Region::new(count, bytes).expect("memory").pool(count).expect("all of it");
    runtime.add_area(StorageArea::new(Box::new(Sim::new(&media, config)), pool));
}

/// Values of 1 KiB: read without a log, or written and answered when they are durable.
pub fn keys(is_set: bool, count: u64) -> u64 {
    let [mut client, mut server] = runtimes();
    if is_set {
        give_disk(&mut server);
    }
    let settings = Settings {
        has_log: is_set,
        durability: Durability::Always,
        clients_max: 2 * CONNECTIONS,
        port: PORT,
        timeout_s: 0,
        operating: Operating::default(),
    };
    let area = AreaId::new(0, 0);
    let mut kv = KvService::new(KvConfig {
        area,
        serves_six: false,
        settings,
        identity: [7; 16],
        seed: 7,
        password: None,
        users: Vec::new(),
        users_file: None,
    });
    let value = "x".repeat(1_024);
    let set = Bytes::from(format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1024\r\n{value}\r\n"));
    let get = Bytes::from_static(b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    let mut asker = Asker { request: if is_set { set.clone() } else { get }, set, answers: 0 };
    server.with_context(|context| kv.start(context)).expect("listening");
    client.with_context(|context| asker.start(context)).expect("connecting");
    while asker.answers < count / 4 {
        other_turn(&mut client, &mut asker);
        other_turn(&mut server, &mut kv);
    }
    // What is asked before the log has been looked for is refused (LOADING).
    let (before, refused) = (asker.answers, kv.figures().errors);
    while asker.answers - before < count {
        other_turn(&mut client, &mut asker);
        counted_turn(&mut server, &mut kv);
    }
    assert_eq!(kv.figures().errors, refused, "each request is answered well");
    asker.answers - before
}

//! The service over the real stack, on the in-process pair of devices: client and server in one thread.

use qanat::nic::{MemoryPlan, PairConfig, pair};
use qanat::{Bytes, Commands, Config, ConnectOptions, ConnectionId, Context, Event, Runtime, Service, StartError};
use qanat_web::{CopyMode, WebConfig, WebService};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

const SERVER: &str = "10.0.0.2";
const CLIENT: &str = "10.0.0.1";

/// Sends its request on each new connection and keeps what comes.
struct Client {
    server: SocketAddr,
    connections: usize,
    request: Vec<u8>,
    /// Expected bytes of each answer.
    received: Vec<Vec<u8>>,
    slots: Vec<Option<usize>>,
    opened: usize,
    finished: usize,
}

impl Client {
    fn new(connections: usize, request: &str) -> Client {
        Client {
            server: SocketAddr::new(SERVER.parse().unwrap(), 80),
            connections,
            request: request.as_bytes().to_vec(),
            received: Vec::new(),
            slots: Vec::new(),
            opened: 0,
            finished: 0,
        }
    }

    fn number(&mut self, id: ConnectionId) -> usize {
        if self.slots.len() <= id.index() {
            self.slots.resize(id.index() + 1, None);
        }
        *self.slots[id.index()].get_or_insert_with(|| {
            self.received.push(Vec::new());
            self.received.len() - 1
        })
    }
}

impl Service for Client {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in 0..self.connections {
            context.connect(self.server, ConnectOptions::default())?;
            self.opened += 1;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                self.number(connection);
                context.send(connection, Bytes::from(self.request.clone())).unwrap();
            }
            Event::Data { connection, chunk } => {
                let number = self.number(connection);
                self.received[number].extend_from_slice(chunk.bytes());
                context.consume(connection, chunk);
            }
            Event::PeerClosed { connection } => {
                context.close(connection).unwrap();
            }
            Event::Closed { connection, .. } => {
                self.slots[connection.index()] = None;
                self.finished += 1;
            }
            _ => {}
        }
    }
}

fn run(copy_mode: CopyMode, mtu: u16, connections: usize, path: &str, body: &[u8]) -> qanat_web::Figures {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("small"), &body[..body.len().min(1000)]).unwrap();
    std::fs::write(directory.path().join("file"), body).unwrap();
    let mut config = WebConfig::new(directory.path());
    config.copy_mode = copy_mode;
    config.object_bytes_max = 1_000_000;
    config.window_bytes = 64 * 1024;
    config.windows_max = 16;
    let mut web = WebService::new(config).unwrap();

    let (first, second) = pair(PairConfig { mtu, ..PairConfig::default() }).unwrap();
    let plan = MemoryPlan { prepared_frames: 2048, ..MemoryPlan::default() };
    let (client_nic, server_nic) = (first.open(plan).unwrap(), second.open(plan).unwrap());
    let address = |text: &str| Config::new(text.parse::<IpAddr>().unwrap(), 24);
    let mut client_side = Runtime::new(Box::new(client_nic), address(CLIENT), [1; 32]);
    let mut server_side = Runtime::new(Box::new(server_nic), address(SERVER), [2; 32]);

    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut client = Client::new(connections, &request);
    server_side.with_context(|context| web.start(context)).unwrap();
    client_side.with_context(|context| client.start(context)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while client.finished < connections {
        client_side.turn(&mut client);
        server_side.turn(&mut web);
        server_side.with_context(|context| web.doorbell(0, context));
        assert!(Instant::now() < deadline, "{} of {connections} finished: {:?}", client.finished, web.figures());
    }
    assert_eq!(client.received.len(), connections);
    for received in &client.received {
        let end = received.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        let head = std::str::from_utf8(&received[..end]).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(received[end..] == *body, "{} of {} bytes", received.len() - end, body.len());
    }
    let figures = web.figures();
    drop(web);
    // What is left in the stack holds no frame of ours.
    drop(client_side);
    drop(server_side);
    figures
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 + index / 255) as u8).collect()
}

#[test]
fn prepared_frames_are_used() {
    let figures = run(CopyMode::Pre, 1500, 20, "/file", &content(100_000));
    assert_eq!((figures.requests, figures.responses[1]), (20, 20));
    assert!(figures.ready_hits > figures.ready_misses, "{figures:?}");
}

#[test]
fn copies_per_send() {
    let figures = run(CopyMode::PerSend, 1500, 20, "/file", &content(100_000));
    assert_eq!((figures.responses[1], figures.ready_hits), (20, 0));
}

#[test]
fn small_packets() {
    run(CopyMode::Pre, 576, 10, "/file", &content(50_000));
}

#[test]
fn one_segment() {
    run(CopyMode::Pre, 1500, 200, "/file", &content(700));
}

#[test]
fn from_disk() {
    let figures = run(CopyMode::Pre, 1500, 20, "/file", &content(1_500_000));
    assert!(figures.windows_read >= 20 * 23);
    assert_eq!(figures.windows_in_use, 0, "all windows came home");
}

//! The loader against a small server on the other end of an in-process link: the real stack on both, no root.

use super::*;
use crate::load::http::HttpLoadOptions;
use qanat::nic::{MemoryPlan, PairConfig, pair};
use qanat::{Config, ListenOptions};
use std::collections::HashMap;

const BODY_BYTES: usize = 10_000;

/// Answers every request head with a fixed body; closes after it if asked to.
struct Server {
    seen: HashMap<usize, Vec<u8>>,
    answer: Bytes,
}

impl Service for Server {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let all = std::net::SocketAddr::from(([0, 0, 0, 0], 80));
        context.listen(all, ListenOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Accepted { connection, .. } => drop(self.seen.insert(connection.index(), Vec::new())),
            Event::Data { connection, chunk } => {
                let seen = self.seen.entry(connection.index()).or_default();
                seen.extend_from_slice(chunk.bytes());
                while let Some(end) = memchr::memmem::find(seen, b"\r\n\r\n") {
                    let close = memchr::memmem::find(&seen[..end], b"Connection: close").is_some();
                    seen.drain(..end + 4);
                    context.send(connection, self.answer.clone()).unwrap();
                    if close {
                        context.shutdown(connection).unwrap();
                    }
                }
                context.consume(connection, chunk);
            }
            Event::PeerClosed { connection } => drop(context.close(connection)),
            _ => {}
        }
    }
}

fn runtime(vnic: Box<dyn qanat::nic::Vnic>, addresses: &[&str], seed: u8) -> Runtime {
    let mut config = Config::new(addresses[0].parse().unwrap(), 24);
    config.addresses = addresses.iter().map(|address| (address.parse().unwrap(), 24)).collect();
    config.connections_max = 1_024;
    config.time_wait_max = 1_024;
    Runtime::new(vnic, config, [seed; 32])
}

fn load(change: impl FnOnce(&mut HttpLoadOptions)) -> Report {
    let (first, second) = pair(PairConfig::default()).unwrap();
    let plan = MemoryPlan { receive_frames: 2_048, transmit_frames: 2_048, ..MemoryPlan::default() };
    let mut client = runtime(Box::new(first.open(plan).unwrap()), &["10.9.0.1", "10.9.0.9"], 1);
    let mut server = runtime(Box::new(second.open(plan).unwrap()), &["10.9.0.2"], 2);
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n").into_bytes();
    answer.extend((0..BODY_BYTES).map(|index| index as u8));
    let mut service = Server { seen: HashMap::new(), answer: Bytes::from(answer) };
    server.with_context(|context| service.start(context)).unwrap();
    let mut options = HttpLoadOptions {
        urls: vec!["http://10.9.0.2/x".to_owned()],
        connections: 8,
        duration: Duration::from_millis(200),
        warm_up: Duration::from_millis(20),
        verify: true,
        sources: vec!["10.9.0.1".parse().unwrap(), "10.9.0.9".parse().unwrap()],
        ..HttpLoadOptions::default()
    };
    change(&mut options);
    let plan = HttpPlan::new(&options).unwrap();
    let mut load = HttpLoad::new(plan.engine, plan.peer, plan.sources, plan.connections);
    client.with_context(|context| load.start(context)).unwrap();
    // As under a plain `Runtime::run`: arrivals come with the timer.
    while !load.engine.is_over() {
        client.turn(&mut load);
        server.turn(&mut service);
    }
    load.engine.take_report().unwrap()
}

#[test]
fn loads_over_the_real_stack() {
    let report = load(|_| {});
    assert!(report.requests > 0 && report.errors_total == 0, "{report}");
    assert_eq!(report.connections_opened, 8);
    // At the window's end answers are under way.
    assert!(report.received_bytes + 8 * BODY_BYTES as u64 * 2 > report.requests * BODY_BYTES as u64);
    let report = load(|options| options.pipeline = 4);
    assert!(report.requests > 0 && report.errors_total == 0, "{report}");
}

#[test]
fn a_connection_per_request_over_the_real_stack() {
    let report = load(|options| options.close = true);
    assert!(report.requests > 0 && report.errors_total == 0, "{report}");
    assert!(report.connections_opened >= report.requests);
}

#[test]
fn a_rate_over_the_real_stack() {
    for close in [false, true] {
        let report = load(|options| (options.close, options.rate_per_s) = (close, Some(1_000.0)));
        let open = report.open_loop.unwrap();
        assert_eq!((report.errors_total, open.dropped), (0, 0), "{report}");
        // At either end of the window some are under way: on a busy machine many.
        assert!(report.requests > 0 && open.scheduled > 0, "{report}");
    }
}

#[test]
fn nobody_listening_refuses() {
    let report = load(|options| options.urls = vec!["http://10.9.0.2:81/".to_owned()]);
    assert!(report.requests == 0 && report.errors.connect_refused > 0, "{report}");
}

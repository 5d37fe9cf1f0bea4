//! After warm-up nothing on the data path allocates: requests on kept connections, through both stacks and the service.

use qanat::nic::{MemoryPlan, PairConfig, pair};
use qanat::{Bytes, Commands, Config, ConnectOptions, Context, Event, Runtime, Service, StartError};
use qanat_web::{CopyMode, WebConfig, WebService};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::net::{IpAddr, SocketAddr};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: test\r\n\r\n";
const CONNECTIONS: usize = 8;

/// Asks again and again on kept connections.
struct Asker {
    server: SocketAddr,
    answers: u64,
}

impl Service for Asker {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in 0..CONNECTIONS {
            context.connect(self.server, ConnectOptions::default())?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => context.send(connection, Bytes::from_static(REQUEST)).unwrap(),
            Event::Data { connection, chunk } => {
                assert!(chunk.bytes().starts_with(b"HTTP/1.1 200 OK\r\n"));
                context.consume(connection, chunk);
                self.answers += 1;
                context.send(connection, Bytes::from_static(REQUEST)).unwrap();
            }
            _ => {}
        }
    }
}

/// Allocations during 5,000 requests after as many to warm up.
fn allocations(copy_mode: CopyMode) -> usize {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), [b'x'; 1_000]).unwrap();
    let mut config = WebConfig::new(directory.path());
    config.preload = true;
    config.check_files = false;
    config.copy_mode = copy_mode;
    let mut web = WebService::new(config).unwrap();
    let addresses: [IpAddr; 2] = ["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
    let (client, server) = pair(PairConfig::default()).unwrap();
    let mut runtimes = [(client, addresses[0]), (server, addresses[1])].map(|(port, address)| {
        let plan = MemoryPlan { prepared_frames: 256, ..MemoryPlan::default() };
        Runtime::new(Box::new(port.open(plan).unwrap()), Config::new(address, 24), [3; 32])
    });
    let [client, server] = &mut runtimes;
    let mut asker = Asker { server: SocketAddr::new(addresses[1], 80), answers: 0 };
    server.with_context(|context| web.start(context)).unwrap();
    client.with_context(|context| asker.start(context)).unwrap();
    let mut run_until = |answers: u64| {
        let mut turns = 0;
        while asker.answers < answers {
            client.turn(&mut asker);
            server.turn(&mut web);
            turns += 1;
            assert!(turns < 10_000_000, "stuck at {} answers", asker.answers);
        }
    };
    run_until(5_000);
    let region = Region::new(ALLOCATOR);
    run_until(10_000);
    let change = region.change();
    change.allocations + change.reallocations
}

/// The periodic work of the service (its tick, a new second's `Date`) may allocate a little; a request may not.
#[test]
fn requests_allocate_nothing() {
    for copy_mode in [CopyMode::Pre, CopyMode::PerSend] {
        let allocations = allocations(copy_mode);
        assert!(allocations < 10, "{copy_mode:?}: {allocations} allocations in 5,000 requests");
    }
}

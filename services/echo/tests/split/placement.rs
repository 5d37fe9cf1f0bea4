//! What works: services on a net core, and what happens when either side ends.

use crate::support::{Client, Core, Serving, datagram_returns, run_until, stream_returns};
use qanat::split::{SplitError, SplitOptions, SplitRuntime};
use qanat::{CloseReason, Commands, Context, Event, ListenOptions, Service, StartError};
use qanat_echo::{EchoConfig, EchoService};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};

fn echo() -> EchoService {
    EchoService::new(EchoConfig::default())
}

#[test]
fn datagrams_and_streams_come_back_and_everything_home() {
    let core = Core::start(1);
    let mut client_side = core.client(0);
    for copies in [false, true] {
        let path = core.path.clone();
        let serving = Serving::start(
            move || attach_again(&path),
            move || EchoService::new(EchoConfig { copies, ..EchoConfig::default() }),
        );
        let mut client = Client::new(0, 3_000_000);
        client_side.with_context(|context| client.start(context)).unwrap();
        for length in [1, 2, 63, 64, 65, 512, 1_472] {
            datagram_returns(&mut client_side, &mut client, &vec![length as u8; length]);
        }
        stream_returns(&mut client_side, &mut client);
        client_side.with_context(|context| context.close_udp(client.socket())).unwrap();
        let home = || {
            let status = core.status();
            let service = status.cards.first().and_then(|card| card.service.clone()).unwrap_or_default();
            (service.credits_used, service.connections, service.events_waiting.1, status.cut_off) == (0, 0, 0, 0)
        };
        while !home() {
            client_side.turn(&mut client);
        }
        serving.end();
    }
}

/// Blocks in its handler until it is told not to.
struct Blocking {
    go_on: Receiver<()>,
    blocked: bool,
}

impl Service for Blocking {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 7);
        context.listen(local, ListenOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Data { connection, chunk } = event {
            context.consume(connection, chunk);
            if !std::mem::replace(&mut self.blocked, true) {
                self.go_on.recv().expect("the test goes on");
            }
        }
    }
}

/// Linked, this would wait for ever: nobody else would acknowledge.
#[test]
fn a_service_that_blocks_does_not_keep_acknowledgements_back() {
    let core = Core::start(1);
    let mut client_side = core.client(0);
    let runtime_of = core.path.clone();
    let (go_on, waits) = channel();
    let serving = Serving::start(move || attach_again(&runtime_of), move || Blocking { go_on: waits, blocked: false });
    let mut client = Client::new(0, 40_000);
    client_side.with_context(|context| client.start(context)).unwrap();
    client.start_stream(&mut client_side);
    run_until(&mut client_side, &mut client, "acknowledgements", |_, _| {}, |client| client.acknowledged == 40_000);
    go_on.send(()).unwrap();
    serving.end();
}

#[test]
fn a_service_that_dies_resets_its_connections_and_the_next_may_come() {
    let core = Core::start(1);
    let mut client_side = core.client(0);
    let mut client = Client::new(0, 100_000_000);
    client_side.with_context(|context| client.start(context)).unwrap();
    for _ in 0..3 {
        let path = core.path.clone();
        let serving = Serving::start(move || attach_again(&path), echo);
        client.start_stream(&mut client_side);
        run_until(&mut client_side, &mut client, "the first bytes", |_, _| {}, |client| client.received > 100_000);
        serving.end();
        run_until(&mut client_side, &mut client, "the reset", |_, _| {}, |client| client.over.is_some());
        assert_eq!(client.over, Some(CloseReason::ResetByPeer));
    }
}

/// Once the service before is seen to have left.
fn attach_again(path: &std::path::Path) -> SplitRuntime {
    let options = SplitOptions { connections_max: 64, ..SplitOptions::new("test") };
    loop {
        match SplitRuntime::attach(SplitRuntime::at(path.to_owned()), options.clone()) {
            Err(SplitError::Refused(_)) => std::thread::yield_now(),
            outcome => return outcome.expect("a net core"),
        }
    }
}

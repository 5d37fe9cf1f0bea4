//! One service on several net cores, each with a card of its own: it sees one stack, and what dies is one net core's alone.

use crate::support::{Client, Core, Serving, datagram_returns, run_until, server, stream_returns};
use qanat::split::{SplitError, SplitOptions, SplitRuntime};
use qanat::{CloseReason, CommandError, Commands, ConnectionId, Context, Event, ListenOptions, Service, StartError};
use qanat_echo::{EchoConfig, EchoService};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

fn attach(paths: [&PathBuf; 2]) -> impl FnOnce() -> SplitRuntime + Send + use<> {
    let paths = paths.map(Clone::clone);
    move || {
        let connectors = paths.map(|path| (SplitRuntime::at(path), None)).into();
        SplitRuntime::attach_all(connectors, SplitOptions::new("echo")).expect("both net cores")
    }
}

/// What the service was told.
#[derive(Default)]
struct Told {
    accepted: BTreeSet<(usize, u32)>,
    closed: Vec<(ConnectionId, CloseReason)>,
}

/// An echo that tells.
struct Telling {
    echo: EchoService,
    told: Arc<Mutex<Told>>,
}

impl Service for Telling {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        // A listener on one card's address alone, and one that is nobody's: both leave handles as they are to be.
        let own = context.listen(SocketAddr::new(server(1), 9), ListenOptions::default()).expect("an own address");
        let nobodys = SocketAddr::from(([192, 0, 2, 1], 9));
        let outcome = context.listen(nobodys, ListenOptions::default());
        assert_eq!(outcome, Err(CommandError::Unreachable));
        let again = context.listen(SocketAddr::new(server(1), 9), ListenOptions::default());
        assert_eq!(again, Err(CommandError::InUse), "of one net core, and nothing is left of the attempt elsewhere");
        context.close_listener(own).expect("a listener");
        self.echo.start(context)
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        let mut told = self.told.lock().expect("no panic");
        match &event {
            Event::Accepted { connection, .. } => {
                let is_new = told.accepted.insert((connection.index(), connection.generation()));
                assert!(is_new, "a handle is one connection's, whichever net core's it is");
            }
            Event::Closed { connection, why } => told.closed.push((*connection, *why)),
            _ => {}
        }
        drop(told);
        self.echo.handle(event, context);
    }

    fn turn_ended(&mut self, context: &mut Context<'_>) {
        self.echo.turn_ended(context);
    }
}

#[test]
fn a_service_on_two_net_cores_serves_on_both_and_goes_on_when_one_dies() {
    let (first, second) = (Core::with_card(0), Core::with_card(1));
    let mut sides = [first.client(0), second.client(1)];
    let mut clients = [Client::new(0, 2_000_000), Client::new(1, 2_000_000)];
    for (side, client) in sides.iter_mut().zip(&mut clients) {
        side.with_context(|context| client.start(context)).unwrap();
    }
    for copies in [false, true] {
        let told = Arc::new(Mutex::new(Told::default()));
        let its = Arc::clone(&told);
        let echo = move || EchoService::new(EchoConfig { copies, ..EchoConfig::default() });
        let serving = loop {
            // The one before has left when both say so.
            let is_free = [&first, &second].iter().all(|core| core.status().cards[0].service.is_none());
            if is_free {
                break Serving::start(attach([&first.path, &second.path]), move || Telling { echo: echo(), told: its });
            }
        };
        for (side, client) in sides.iter_mut().zip(&mut clients) {
            // An answer that left by the other card would never come.
            for length in [1, 64, 1_400] {
                datagram_returns(side, client, &vec![length as u8; length]);
            }
            stream_returns(side, client);
        }
        assert_eq!(told.lock().unwrap().accepted.len(), 2);
        serving.end();
    }

    // Streams on both; one net core ends, and comes again.
    let told = Arc::new(Mutex::new(Told::default()));
    let its = Arc::clone(&told);
    while [&first, &second].iter().any(|core| core.status().cards[0].service.is_some()) {}
    let echo = || EchoService::new(EchoConfig::default());
    let serving = Serving::start(attach([&first.path, &second.path]), move || Telling { echo: echo(), told: its });
    let (mut side, mut other) = sides.into();
    let mut other_client = Client::new(1, 1 << 24);
    other_client.start_stream(&mut other);
    run_until(&mut other, &mut other_client, "the first bytes", |_, _| {}, |client| client.received > 10_000);
    let [client, _] = &mut clients;
    client.start_stream(&mut side);
    run_until(&mut side, client, "the first bytes", |_, _| {}, |client| client.received > 10_000);
    let path = second.path.clone();
    drop((second, other));
    run_until(&mut side, client, "the rest of the stream", |_, _| {}, |client| client.over.is_some());
    assert_eq!((client.over, client.received), (Some(CloseReason::Finished), 2_000_000), "every byte came back");
    while told.lock().unwrap().closed.len() < 2 {
        side.turn(client);
    }
    let whys: BTreeSet<String> = told.lock().unwrap().closed.iter().map(|(_, why)| format!("{why:?}")).collect();
    assert_eq!(whys, ["Aborted", "Finished"].map(str::to_owned).into(), "the other's was closed, and no other");

    let again = Core::with_card_at(1, path);
    let mut other = again.client(1);
    let mut other_client = Client::new(1, 100_000);
    other.with_context(|context| other_client.start(context)).unwrap();
    datagram_returns(&mut other, &mut other_client, b"it is back");
    stream_returns(&mut other, &mut other_client);
    stream_returns(&mut side, client);
    serving.end();
}

#[test]
fn a_net_core_that_is_not_there_is_said_at_the_start() {
    let first = Core::with_card(0);
    let _side = first.client(0);
    let nowhere = PathBuf::from("@qanat-test-nowhere");
    let connectors = vec![(SplitRuntime::at(first.path.clone()), None), (SplitRuntime::at(nowhere), None)];
    let outcome = SplitRuntime::attach_all(connectors, SplitOptions::new("echo"));
    assert!(matches!(outcome, Err(SplitError::Unreachable(_))));
    let unspecified = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 7);
    let mut runtime = loop {
        match SplitRuntime::attach_all(vec![(SplitRuntime::at(first.path.clone()), None)], SplitOptions::new("echo")) {
            Err(SplitError::Refused(_)) => {}
            outcome => break outcome.expect("the one that is there"),
        }
    };
    assert!(runtime.with_context(|context| context.listen(unspecified, ListenOptions::default())).is_ok());
}

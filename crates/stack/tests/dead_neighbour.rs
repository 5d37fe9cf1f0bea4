//! A next hop that has gone silent: connections through it end by their own time-outs, with everything given back.

use bytes::Bytes;
use qanat_nic::{Clock, ManualClock, MemoryPlan, Pair, PairConfig, Vnic, pair};
use qanat_stack::{CloseReason, Config, ConnectOptions, ConnectionId, Event, ListenOptions, Stack};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

struct Host {
    stack: Stack,
    vnic: Pair,
}

fn turn(host: &mut Host, clock: &ManualClock) -> Vec<Event> {
    host.stack.receive(clock.now(), &mut host.vnic);
    let events = std::iter::from_fn(|| host.stack.next_event()).collect();
    host.stack.transmit(clock.now(), &mut host.vnic);
    events
}

/// A client with an open connection to a server that nobody polls any more, and whose address has been forgotten.
fn stranded(clock: &ManualClock) -> (Host, ConnectionId) {
    let (near, far) = pair(PairConfig::default()).unwrap();
    let [mut client, mut server] = [(near, "10.0.0.1"), (far, "10.0.0.2")].map(|(port, address)| {
        let vnic = port.open(MemoryPlan::default()).unwrap();
        let mut config = Config::new(address.parse().unwrap(), 24);
        (config.connections_max, config.timers_max) = (8, 8);
        config.tcp.retransmissions_max = 4;
        Host { stack: Stack::new(config, [1; 32], &vnic, clock.now()), vnic }
    });
    let target = SocketAddr::new(IpAddr::from([10, 0, 0, 2]), 80);
    server.stack.listen(target, ListenOptions::default()).unwrap();
    let connection = client.stack.connect(clock.now(), target, ConnectOptions::default()).unwrap();
    let mut connected = false;
    for _ in 0..20 {
        clock.advance(Duration::from_millis(1));
        connected |= turn(&mut client, clock).iter().any(|event| matches!(event, Event::Connected { .. }));
        turn(&mut server, clock);
    }
    assert!(connected);
    clock.advance(Duration::from_secs(3_600));
    (client, connection)
}

fn until_closed(host: &mut Host, clock: &ManualClock) -> CloseReason {
    for _ in 0..100_000 {
        for event in turn(host, clock) {
            if let Event::Closed { why, .. } = event {
                let usage = host.stack.usage();
                assert_eq!((usage.connections, usage.flows, usage.timers), (0, 0, 0));
                assert_eq!(host.vnic.transmit_pool().in_use_count(), 0);
                return why;
            }
        }
        let deadline = host.stack.next_deadline().expect("something is still to come");
        clock.advance(Duration::from_micros(1));
        clock.advance_to(deadline);
    }
    panic!("the connection never ends: {:?}", host.stack.usage());
}

#[test]
fn what_is_sent_times_out() {
    let clock = ManualClock::new();
    let (mut client, connection) = stranded(&clock);
    client.stack.send(clock.now(), connection, Bytes::from_static(b"anybody?")).unwrap();
    assert_eq!(until_closed(&mut client, &clock), CloseReason::TimedOut);
}

#[test]
fn an_abort_ends() {
    let clock = ManualClock::new();
    let (mut client, connection) = stranded(&clock);
    client.stack.abort(clock.now(), connection).unwrap();
    assert_eq!(until_closed(&mut client, &clock), CloseReason::Aborted);
}

//! TCP Fast Open (RFC 7413) between two stacks: cookies, data on SYNs, and what a server lets strangers cost it.

use bytes::Bytes;
use qanat_nic::{Clock, ManualClock, MemoryPlan, PairConfig, Vnic, pair};
use qanat_stack::tcp::{CookieKeys, State};
use qanat_stack::{
    Config, ConnectOptions, ConnectionId, Event, FastOpenOptions, FastOpenRequest, ListenOptions, ListenerId, Stack,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

struct Host {
    stack: Stack,
    vnic: Box<dyn Vnic>,
    /// What the last turns brought.
    accepted: Vec<ConnectionId>,
    received: Vec<u8>,
    acknowledged: u32,
}

struct Pair {
    clock: ManualClock,
    client: Host,
    server: Host,
    target: SocketAddr,
    listener: ListenerId,
}

const OPTIONS: FastOpenOptions = FastOpenOptions { queue_max: 16, without_cookie: false, keys: None };

impl Host {
    fn new(port: qanat_nic::PairPort, address: IpAddr, seed: u8, clock: &ManualClock) -> Host {
        let vnic = port.open(MemoryPlan::default()).unwrap();
        let mut config = Config::new(address, if address.is_ipv4() { 24 } else { 64 });
        config.connections_max = 64;
        let stack = Stack::new(config, [seed; 32], &vnic, clock.now());
        Host { stack, vnic: Box::new(vnic), accepted: Vec::new(), received: Vec::new(), acknowledged: 0 }
    }

    fn receive(&mut self, clock: &ManualClock) {
        self.stack.receive(clock.now(), self.vnic.as_mut());
        while let Some(event) = self.stack.next_event() {
            match event {
                Event::Accepted { connection, .. } => self.accepted.push(connection),
                Event::Data { connection, chunk } => {
                    self.received.extend_from_slice(chunk.bytes());
                    self.stack.consume(clock.now(), connection, chunk);
                }
                Event::Acked { bytes, .. } => self.acknowledged += bytes,
                _ => {}
            }
        }
    }

    fn transmit(&mut self, clock: &ManualClock) {
        self.stack.transmit(clock.now(), self.vnic.as_mut());
    }
}

impl Pair {
    fn new(addresses: [&str; 2], options: FastOpenOptions) -> Pair {
        let clock = ManualClock::new();
        let (a, b) = pair(PairConfig::default()).unwrap();
        let [client, server] = addresses.map(|address| address.parse().unwrap());
        let target = SocketAddr::new(server, 80);
        let client = Host::new(a, client, 1, &clock);
        let mut server = Host::new(b, server, 2, &clock);
        let listener = server.stack.listen(target, ListenOptions::default()).unwrap();
        server.stack.set_fast_open(listener, Some(options)).unwrap();
        Pair { clock, client, server, target, listener }
    }

    /// Opens a connection and gives it `text` before its SYN leaves.
    fn open(&mut self, fast_open: FastOpenRequest, text: &'static str) -> ConnectionId {
        let options = ConnectOptions { fast_open, ..ConnectOptions::default() };
        let connection = self.client.stack.connect(self.clock.now(), self.target, options).unwrap();
        self.client.stack.send(self.clock.now(), connection, Bytes::from_static(text.as_bytes())).unwrap();
        connection
    }

    /// What the client has to say reaches the server, which is not heard.
    fn one_way(&mut self) {
        for _ in 0..3 {
            self.clock.advance(Duration::from_micros(50));
            self.client.transmit(&self.clock);
            self.server.receive(&self.clock);
        }
    }

    fn run(&mut self, time: Duration) {
        for _ in 0..20 {
            self.one_way();
            self.server.transmit(&self.clock);
            self.client.receive(&self.clock);
        }
        self.clock.advance(time);
    }

    /// The client has a cookie.
    fn warm(addresses: [&str; 2], options: FastOpenOptions) -> Pair {
        let mut pair = Pair::new(addresses, options);
        assert!(!pair.client.stack.has_cookie(pair.clock.now(), pair.target, None));
        pair.open(FastOpenRequest::WithCookie, "first");
        pair.run(Duration::ZERO);
        assert_eq!(pair.server.received, b"first");
        assert!(pair.client.stack.has_cookie(pair.clock.now(), pair.target, None));
        pair.server.received.clear();
        pair.server.accepted.clear();
        pair.client.acknowledged = 0;
        pair
    }

    fn has_syn_data(host: &Host, connection: ConnectionId) -> bool {
        host.stack.connection_info(connection).unwrap().2.syn_data
    }
}

#[test]
fn data_goes_with_the_syn_and_answers_with_the_syn_ack() {
    for addresses in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
        let mut pair = Pair::warm(addresses, OPTIONS);
        let connection = pair.open(FastOpenRequest::WithCookie, "second");
        pair.one_way();
        assert_eq!(pair.server.received, b"second", "before the handshake is over");
        let accepted = pair.server.accepted[0];
        let state = |pair: &Pair| pair.server.stack.connection_info(accepted).unwrap().2.state;
        assert_eq!(state(&pair), State::SynReceived);
        pair.server.stack.send(pair.clock.now(), accepted, Bytes::from_static(b"answer")).unwrap();
        pair.server.transmit(&pair.clock);
        pair.client.receive(&pair.clock);
        assert_eq!((&pair.client.received[..], pair.client.acknowledged), (&b"answer"[..], 6));
        pair.run(Duration::from_millis(50));
        assert_eq!(state(&pair), State::Established);
        assert!(Pair::has_syn_data(&pair.client, connection) && Pair::has_syn_data(&pair.server, accepted));
        assert_eq!(pair.server.acknowledged, 6);
        assert_eq!(pair.client.stack.tcp_counters().segments_retransmitted, 0);
    }
}

#[test]
fn more_than_the_syn_carries_follows() {
    let mut pair = Pair::warm(["10.0.0.1", "10.0.0.2"], OPTIONS);
    let connection = pair.open(FastOpenRequest::WithCookie, "begin");
    assert_eq!(pair.client.stack.syn_room(connection), 1_420);
    let rest: Bytes = (0..20_000).map(|index| (index % 251) as u8).collect::<Vec<u8>>().into();
    pair.client.stack.send(pair.clock.now(), connection, rest.clone()).unwrap();
    pair.one_way();
    assert_eq!(pair.server.received.len(), 1_420);
    pair.run(Duration::ZERO);
    pair.run(Duration::ZERO);
    assert_eq!(pair.server.received, [b"begin", &rest[..]].concat());
    assert_eq!(pair.client.acknowledged, 20_005);
}

#[test]
fn a_wrong_cookie_makes_an_ordinary_handshake() {
    let mut pair = Pair::warm(["10.0.0.1", "10.0.0.2"], OPTIONS);
    let keys = CookieKeys { first: [7; 16], second: None };
    pair.server.stack.set_fast_open(pair.listener, Some(FastOpenOptions { keys: Some(keys), ..OPTIONS })).unwrap();
    // A flood of them: nothing is accepted, nothing delivered.
    for _ in 0..40 {
        pair.open(FastOpenRequest::WithCookie, "forged");
    }
    pair.one_way();
    assert!(pair.server.accepted.is_empty() && pair.server.received.is_empty());
    let counters = pair.server.stack.tcp_counters();
    assert_eq!((counters.fast_open_cookies_wrong, counters.fast_open_passive), (40, 0));
    // The data is sent again when the handshake has shown that it failed, and the new cookie counts.
    pair.run(Duration::ZERO);
    assert_eq!(pair.server.received.len(), 40 * 6);
    pair.server.received.clear();
    pair.open(FastOpenRequest::WithCookie, "right");
    pair.one_way();
    assert_eq!(pair.server.received, b"right");
}

#[test]
fn an_old_key_is_believed_and_replaced() {
    let mut pair = Pair::warm(
        ["10.0.0.1", "10.0.0.2"],
        FastOpenOptions { keys: Some(CookieKeys { first: [1; 16], second: None }), ..OPTIONS },
    );
    for (first, second) in [(2, 1), (3, 2), (4, 3)] {
        let keys = CookieKeys { first: [first; 16], second: Some([second; 16]) };
        pair.server.stack.set_fast_open(pair.listener, Some(FastOpenOptions { keys: Some(keys), ..OPTIONS })).unwrap();
        pair.server.received.clear();
        pair.open(FastOpenRequest::WithCookie, "data");
        pair.one_way();
        assert_eq!(pair.server.received, b"data", "{first}");
        pair.run(Duration::ZERO);
    }
}

#[test]
fn connections_whose_handshake_is_not_over_are_few() {
    let mut pair = Pair::warm(["10.0.0.1", "10.0.0.2"], FastOpenOptions { queue_max: 3, ..OPTIONS });
    for _ in 0..10 {
        pair.open(FastOpenRequest::WithCookie, "x");
    }
    pair.one_way();
    assert_eq!(pair.server.accepted.len(), 3);
    assert_eq!(pair.server.stack.tcp_counters().fast_open_queue_full, 7);
    // The others' handshakes go on as ever, and then there is room again.
    pair.run(Duration::ZERO);
    assert_eq!((pair.server.accepted.len(), pair.server.received.len()), (10, 10));
    // Who was refused does not try at once again (RFC 7413 section 4.1.3.1).
    pair.run(Duration::from_secs(2_000));
    pair.open(FastOpenRequest::WithCookie, "y");
    pair.one_way();
    assert_eq!(pair.server.accepted.len(), 11);
}

#[test]
fn those_that_are_reset_count_for_a_minute() {
    let mut pair = Pair::warm(["10.0.0.1", "10.0.0.2"], FastOpenOptions { queue_max: 1, ..OPTIONS });
    let connection = pair.open(FastOpenRequest::WithCookie, "x");
    pair.one_way();
    // Whoever it was that sent it: the address knows nothing of it, and resets.
    pair.client.stack.abort(pair.clock.now(), connection).unwrap();
    pair.run(Duration::ZERO);
    let accepted = pair.server.accepted[0];
    assert!(pair.server.stack.connection_info(accepted).is_none());
    pair.open(FastOpenRequest::WithCookie, "y");
    pair.one_way();
    assert_eq!(pair.server.accepted.len(), 1);
    pair.run(Duration::from_secs(61));
    assert_eq!(pair.server.accepted.len(), 2, "by an ordinary handshake");
    pair.run(Duration::from_secs(60));
    pair.open(FastOpenRequest::WithCookie, "z");
    pair.one_way();
    assert_eq!(pair.server.accepted.len(), 3);
}

/// RFC 7413 section 4.1.3.1: "the client MUST cache negative responses": the data not acknowledged, and no answer at all.
#[test]
fn a_server_that_does_not_take_the_data_is_given_none_for_a_while() {
    for (request, without_cookie) in [(FastOpenRequest::WithCookie, false), (FastOpenRequest::WithoutCookie, true)] {
        let options = FastOpenOptions { without_cookie, ..OPTIONS };
        let mut pair = Pair::new(["10.0.0.1", "10.0.0.2"], options);
        pair.open(FastOpenRequest::WithCookie, "");
        pair.run(Duration::ZERO);
        pair.server.stack.set_fast_open(pair.listener, None).unwrap();
        pair.open(request, "refused");
        pair.run(Duration::ZERO);
        assert_eq!(pair.server.received, b"refused", "after the handshake");
        pair.server.stack.set_fast_open(pair.listener, Some(options)).unwrap();
        let room = |pair: &mut Pair| {
            let connection = pair.open(request, "next");
            let room = pair.client.stack.syn_room(connection);
            pair.run(Duration::ZERO);
            room
        };
        assert_eq!(room(&mut pair), 0, "{request:?}");
        pair.run(Duration::from_secs(100));
        assert_eq!(room(&mut pair), 0);
        pair.run(Duration::from_secs(30));
        assert!(room(&mut pair) > 0, "tried again, and taken");
        assert!(room(&mut pair) > 0);
    }
}

#[test]
fn a_server_that_does_not_answer_syns_with_data_is_given_none() {
    let mut pair = Pair::warm(["10.0.0.1", "10.0.0.2"], OPTIONS);
    for has_room in [true, true, false] {
        let connection = pair.open(FastOpenRequest::WithCookie, "x");
        assert_eq!(pair.client.stack.syn_room(connection) > 0, has_room);
        // Nobody hears it, until it is given up.
        while pair.client.stack.connection_info(connection).is_some() {
            pair.client.transmit(&pair.clock);
            pair.clock.advance(Duration::from_millis(500));
            pair.client.receive(&pair.clock);
        }
    }
}

/// What is counted of a listener is bounded, however many it is told to take: by the stack's connections, 64 here.
#[test]
fn a_queue_has_no_more_places_than_there_are_connections() {
    let mut pair = Pair::warm(["10.0.0.1", "10.0.0.2"], FastOpenOptions { queue_max: usize::MAX, ..OPTIONS });
    for _ in 0..64 {
        let connection = pair.open(FastOpenRequest::WithCookie, "x");
        pair.one_way();
        pair.client.stack.abort(pair.clock.now(), connection).unwrap();
        pair.run(Duration::ZERO);
    }
    assert_eq!((pair.server.accepted.len(), pair.server.stack.tcp_counters().fast_open_queue_full), (64, 0));
    pair.open(FastOpenRequest::WithCookie, "y");
    pair.one_way();
    assert_eq!((pair.server.accepted.len(), pair.server.stack.tcp_counters().fast_open_queue_full), (64, 1));
}

#[test]
fn without_cookies_if_both_say_so() {
    let mut pair = Pair::new(["10.0.0.1", "10.0.0.2"], FastOpenOptions { without_cookie: true, ..OPTIONS });
    // The neighbours get to know each other.
    pair.open(FastOpenRequest::No, "");
    pair.run(Duration::ZERO);
    pair.open(FastOpenRequest::WithoutCookie, "at once");
    pair.one_way();
    assert_eq!(pair.server.received, b"at once");
    // A server that wants cookies takes nothing, and has it again.
    pair.run(Duration::ZERO);
    pair.server.received.clear();
    pair.server.stack.set_fast_open(pair.listener, Some(OPTIONS)).unwrap();
    pair.open(FastOpenRequest::WithoutCookie, "later");
    pair.one_way();
    assert!(pair.server.received.is_empty());
    pair.run(Duration::ZERO);
    assert_eq!(pair.server.received, b"later");
    pair.server.stack.set_fast_open(pair.listener, None).unwrap();
    pair.open(FastOpenRequest::WithCookie, "again");
    pair.run(Duration::ZERO);
    assert_eq!(pair.server.received, b"lateragain");
}

#[test]
fn a_syn_ack_that_is_lost_comes_again_and_is_given_up_at_last() {
    let mut pair = Pair::warm(["10.0.0.1", "10.0.0.2"], OPTIONS);
    pair.open(FastOpenRequest::WithCookie, "x");
    pair.one_way();
    let accepted = pair.server.accepted[0];
    pair.server.stack.send(pair.clock.now(), accepted, Bytes::from_static(b"nobody hears it")).unwrap();
    // The server speaks, but not to the client; which says nothing, either.
    let mut turns = 0;
    while pair.server.stack.connection_info(accepted).is_some() {
        pair.server.transmit(&pair.clock);
        pair.clock.advance(Duration::from_millis(500));
        turns += 1;
        assert!(turns < 1_000, "it is not for ever");
        while pair.server.stack.next_event().is_some() {}
    }
    let counters = pair.server.stack.tcp_counters();
    assert_eq!((counters.syn_ack_retransmissions, counters.syn_acks_expired), (6, 1));
    assert_eq!(counters.segments_retransmitted, 0, "no data before the handshake is over");
}

/// RFC 7413 says nothing of it: each side's SYN is answered as an ordinary one (RFC 9293 section 3.5), and its data goes once more.
#[test]
fn both_open_at_once_with_data() {
    let mut pair = Pair::new(["10.0.0.1", "10.0.0.2"], FastOpenOptions { without_cookie: true, ..OPTIONS });
    pair.open(FastOpenRequest::No, "");
    pair.run(Duration::ZERO);
    let ends = [SocketAddr::new("10.0.0.1".parse().unwrap(), 4_000), SocketAddr::new(pair.target.ip(), 4_001)];
    let now = pair.clock.now();
    let open = |host: &mut Host, local: SocketAddr, peer: SocketAddr, text: &'static [u8]| {
        let fast_open = FastOpenRequest::WithoutCookie;
        let options = ConnectOptions { local: Some(local), fast_open, ..ConnectOptions::default() };
        let connection = host.stack.connect(now, peer, options).unwrap();
        host.stack.send(now, connection, Bytes::from_static(text)).unwrap();
        connection
    };
    let ours = open(&mut pair.client, ends[0], ends[1], b"from the client");
    let theirs = open(&mut pair.server, ends[1], ends[0], b"from the server");
    // They cross.
    pair.client.transmit(&pair.clock);
    pair.server.transmit(&pair.clock);
    pair.client.receive(&pair.clock);
    for _ in 0..8 {
        pair.run(Duration::from_millis(300));
    }
    assert_eq!((&pair.server.received[..], pair.client.acknowledged), (&b"from the client"[..], 15));
    assert_eq!((&pair.client.received[..], pair.server.acknowledged), (&b"from the server"[..], 15));
    let state = |host: &Host, connection| host.stack.connection_info(connection).unwrap().2.state;
    assert_eq!((state(&pair.client, ours), state(&pair.server, theirs)), (State::Established, State::Established));
}

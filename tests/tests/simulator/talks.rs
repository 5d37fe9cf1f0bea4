//! Fast Open (RFC 7413) and urgent data (RFC 6093) between two of our stacks: data on SYNs that are lost, doubled, cut and
//! overtaken, with cookies and without, while the server's keys change; each byte compared, each urgent byte one that was marked.

use super::streams::{any_tcp, config};
use qanat::{Bytes, Chunk, CloseReason, CommandError, ConnectOptions, ConnectionId, Event, ListenOptions, ListenerId};
use qanat_nic::Time;
use qanat_stack::tcp::{CookieKeys, Counters};
use qanat_stack::{FastOpenOptions, FastOpenRequest, Stack, Usage};
use qanat_tests::random::Random;
use qanat_tests::sim::streams::{FlowPlan, PORT, client_port, flow_of_port, own_address};
use qanat_tests::sim::{Device, Network, Node, Run, World, pattern, seeds};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(3_600);
const DRAIN: Duration = Duration::from_secs(1_800);
/// Bytes given to the stack and not acknowledged: the urgent pointer reaches no further.
const AHEAD_BYTES_MAX: u64 = 32_768;

/// Where urgent bytes are: flow, side, offset.
type Marks = Rc<RefCell<HashSet<(usize, usize, u64)>>>;

/// One side of a flow.
#[derive(Default, Debug)]
struct Talk {
    connection: Option<ConnectionId>,
    /// The client's port: which attempt it is.
    port: u16,
    handed: u64,
    acked: u64,
    received: u64,
    shut: bool,
    closed: Option<CloseReason>,
}

struct Talker {
    stack: Stack,
    side: usize,
    server: SocketAddr,
    plans: Vec<FlowPlan>,
    talks: Vec<Talk>,
    by_connection: HashMap<ConnectionId, usize>,
    marks: Marks,
    random: Random,
    began: Time,
    request: FastOpenRequest,
    listener: Option<(ListenerId, FastOpenOptions)>,
    urgent_told: u64,
}

impl Talker {
    fn new(
        stack: Stack,
        side: usize,
        server: IpAddr,
        plans: &[FlowPlan],
        marks: &Marks,
        seed: u64,
        now: Time,
    ) -> Talker {
        Talker {
            stack,
            side,
            server: SocketAddr::new(server, PORT),
            plans: plans.to_vec(),
            talks: plans.iter().map(|_| Talk::default()).collect(),
            by_connection: HashMap::new(),
            marks: Rc::clone(marks),
            random: Random::new(seed),
            began: now,
            request: FastOpenRequest::No,
            listener: None,
            urgent_told: 0,
        }
    }

    fn connect(&mut self, now: Time, index: usize) {
        let port = self.talks[index].port.max(client_port(index) - 1) + 1;
        assert_eq!(flow_of_port(port), index, "too many attempts");
        let local = Some(SocketAddr::new(own_address(self.server.ip()), port));
        let options = ConnectOptions { local, fast_open: self.request, ..ConnectOptions::default() };
        let connection = self.stack.connect(now, self.server, options).expect("a connection can be begun");
        self.talks[index] = Talk { connection: Some(connection), port, ..Talk::default() };
        self.by_connection.insert(connection, index);
        // Some of it before the SYN leaves, some behind it.
        self.push(now, index);
    }

    fn push(&mut self, now: Time, index: usize) {
        let (side, plan, talk) = (self.side, self.plans[index], &mut self.talks[index]);
        let Some(connection) = talk.connection.filter(|_| !talk.shut) else { return };
        while talk.handed < plan.bytes[side] && talk.handed - talk.acked < AHEAD_BYTES_MAX {
            let most = plan.piece_bytes_max.min(AHEAD_BYTES_MAX);
            let length = self.random.between(1, most).min(plan.bytes[side] - talk.handed);
            let mut bytes = vec![0; length as usize];
            pattern::fill(FlowPlan::salt(index, side), talk.handed, &mut bytes);
            match self.stack.send(now, connection, Bytes::from(bytes)) {
                Ok(()) => talk.handed += length,
                Err(CommandError::Full | CommandError::Stale) => return,
                Err(error) => panic!("flow {index} side {side}: send: {error}"),
            }
            if self.random.one_in(3) && self.stack.mark_urgent(now, connection).is_ok() {
                self.marks.borrow_mut().insert((index, side, talk.handed - 1));
            }
        }
        if talk.handed == plan.bytes[side] {
            talk.shut = true;
            // Gone, and `Closed` waits behind what is being handled.
            let _ = self.stack.shutdown(now, connection);
        }
    }

    fn accept(&mut self, now: Time, connection: ConnectionId, peer: SocketAddr) {
        let index = flow_of_port(peer.port());
        let talk = &mut self.talks[index];
        // A SYN with data that comes again when its connection is over makes another, as section 2.1 says.
        if talk.closed == Some(CloseReason::Finished) || peer.port() < talk.port {
            let _ = self.stack.abort(now, connection);
            return;
        }
        // Who has given an attempt up makes another, whatever the server had of the first.
        let before =
            std::mem::replace(talk, Talk { connection: Some(connection), port: peer.port(), ..Talk::default() });
        if let Some(before) = before.connection {
            self.by_connection.remove(&before);
            let _ = self.stack.abort(now, before);
        }
        self.by_connection.insert(connection, index);
        self.push(now, index);
    }

    fn take(&mut self, now: Time, connection: ConnectionId, chunk: Chunk) {
        if let Some(&index) = self.by_connection.get(&connection) {
            let (talk, other) = (&mut self.talks[index], 1 - self.side);
            let salt = FlowPlan::salt(index, other);
            let wrong = pattern::first_difference(salt, talk.received, chunk.bytes());
            assert_eq!(wrong, None, "flow {index} side {}: from byte {} on", self.side, talk.received);
            talk.received += chunk.len() as u64;
            assert!(talk.received <= self.plans[index].bytes[other], "flow {index}: more than was sent");
        }
        self.stack.consume(now, connection, chunk);
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Accepted { connection, peer, .. } => self.accept(now, connection, peer),
            Event::Connected { connection } => {
                if let Some(&index) = self.by_connection.get(&connection) {
                    self.push(now, index);
                }
            }
            Event::Data { connection, chunk } => self.take(now, connection, chunk),
            Event::Acked { connection, bytes } => {
                if let Some(&index) = self.by_connection.get(&connection) {
                    let talk = &mut self.talks[index];
                    talk.acked += u64::from(bytes);
                    assert!(talk.acked <= talk.handed, "acknowledged more than was sent: {talk:?}");
                    self.push(now, index);
                }
            }
            Event::Urgent { connection, ahead } => {
                if let Some(&index) = self.by_connection.get(&connection) {
                    let place = (index, 1 - self.side, self.talks[index].received + u64::from(ahead));
                    assert!(self.marks.borrow().contains(&place), "{place:?} is not urgent");
                    self.urgent_told += 1;
                }
            }
            Event::Closed { connection, why } => {
                let Some(index) = self.by_connection.remove(&connection) else { return };
                let talk = &mut self.talks[index];
                (talk.connection, talk.closed) = (None, Some(why));
                if why == CloseReason::Finished {
                    let [ours, theirs] = [self.side, 1 - self.side].map(|side| self.plans[index].bytes[side]);
                    assert_eq!((talk.acked, talk.received), (ours, theirs), "flow {index} side {}", self.side);
                } else if self.side == 0 {
                    self.connect(now, index);
                }
            }
            Event::PeerClosed { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    /// The server's keys change from time to time; the last ones are still believed.
    fn change_keys(&mut self) {
        if let Some((listener, options)) = &mut self.listener
            && self.random.one_in(100)
        {
            let fresh = [0; 16].map(|_: u8| self.random.draw() as u8);
            options.keys = Some(CookieKeys { first: fresh, second: options.keys.map(|keys| keys.first) });
            self.stack.set_fast_open(*listener, Some(*options)).expect("a listener");
        }
    }
}

impl Node for Talker {
    fn poll(&mut self, now: Time, device: &mut Device) -> bool {
        let mut moved = self.stack.receive(now, device) > 0;
        self.change_keys();
        while let Some(event) = self.stack.next_event() {
            moved = true;
            self.handle(now, event);
        }
        for index in 0..self.talks.len() {
            if self.side == 0 && self.talks[index].port == 0 && now >= self.began + self.plans[index].start {
                self.connect(now, index);
                moved = true;
            }
        }
        self.stack.transmit(now, device);
        moved
    }

    fn next_deadline(&mut self, _now: Time) -> Option<Time> {
        let starts = self.plans.iter().zip(&self.talks).filter(|(_, talk)| self.side == 0 && talk.port == 0);
        starts.map(|(plan, _)| self.began + plan.start).chain(self.stack.next_deadline()).min()
    }

    fn is_finished(&self) -> bool {
        self.talks.iter().all(|talk| talk.closed == Some(CloseReason::Finished))
    }

    fn leftovers(&self) -> Option<String> {
        let usage = self.stack.usage();
        let clean = Usage { neighbours: usage.neighbours, ..Usage::default() };
        (usage != clean).then(|| format!("{usage:?}"))
    }
}

fn scenario(run: &Run) -> (Counters, u64) {
    let mut random = Random::new(run.seed);
    let network = Network::any(&mut random);
    let bytes_max = random.pick(&[1_000, 20_000, 100_000]);
    let mut plans: Vec<FlowPlan> = (0..random.between(2, 8)).map(|_| FlowPlan::any(&mut random, bytes_max)).collect();
    // The first has no cookie yet.
    for plan in plans.iter_mut().skip(1) {
        plan.start += Duration::from_millis(random.pick(&[0, 200, 2_000]));
    }
    let server: IpAddr = random.pick(&["10.0.0.2", "fd00::2"]).parse().unwrap();
    let start = Time::from_millis(random.between(0, 1 << 33));
    let marks = Marks::default();
    let without_cookie = random.one_in(3);
    let mut talker = |side: usize, device: &mut Device, now| {
        let mut tcp = any_tcp(&mut random);
        tcp.urgent_data = !random.one_in(4);
        let address = if side == 0 { own_address(server) } else { server };
        let stack = Stack::new(config(address, tcp), random.entropy(), device, now);
        let mut talker = Talker::new(stack, side, server, &plans, &marks, random.draw(), now);
        let queue_max = random.pick(&[1, 2, 64]);
        if side == 0 {
            talker.request = if without_cookie { FastOpenRequest::WithoutCookie } else { FastOpenRequest::WithCookie };
        } else {
            let listener = talker.stack.listen(talker.server, ListenOptions::default()).expect("a listener");
            let options = FastOpenOptions { queue_max, without_cookie, keys: None };
            talker.stack.set_fast_open(listener, Some(options)).expect("a listener");
            talker.listener = Some((listener, options));
        }
        talker
    };
    let cell = RefCell::new(&mut talker);
    let mut world = World::new(
        run,
        start,
        &network,
        |device, now| (cell.borrow_mut())(0, device, now),
        |device, now| (cell.borrow_mut())(1, device, now),
    );
    let outcome = world.run(world.now_plus(LIMIT), |a, b| a.is_finished() && b.is_finished());
    let [a, b] = [&world.a.node, &world.b.node];
    assert!(a.is_finished() && b.is_finished(), "{outcome:?} after {LIMIT:?}: {:#?} {:#?}", a.talks, b.talks);
    let told = a.urgent_told + b.urgent_told;
    let counters = *b.stack.tcp_counters();
    world.drain(DRAIN);
    world.check_frames();
    (counters, told)
}

#[test]
fn data_on_syns_and_urgent_bytes_under_faults() {
    let (early, wrong, told) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    seeds::for_each("data_on_syns_and_urgent_bytes_under_faults", 200, |run| {
        let (counters, urgent) = scenario(run);
        early.fetch_add(counters.fast_open_passive, Ordering::Relaxed);
        wrong.fetch_add(counters.fast_open_cookies_wrong, Ordering::Relaxed);
        told.fetch_add(urgent, Ordering::Relaxed);
    });
    println!("{early:?} connections by their SYN's data, {wrong:?} wrong cookies, {told:?} urgent bytes told of");
    let is_replay = std::env::var_os("QANAT_SEED").is_some();
    assert!(is_replay || early.into_inner() > 50 && told.into_inner() > 50, "they have come to pass");
}

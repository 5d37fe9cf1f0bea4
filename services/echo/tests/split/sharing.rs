//! Several services on one card: every policy of accepting, who dies, who hoards, who names another's connection.

use crate::attacker::Attacker;
use crate::support::{Core, Serving, server, stream_byte};
use qanat::split::{AcceptPolicy, ServiceStatus, SplitOptions, SplitRuntime};
use qanat::{Commands, ConnectOptions, ConnectionId, Context, Event, Runtime, Service, StartError};
use qanat_abi::message::Range;
use qanat_abi::{Command, Event as Said, Id};
use qanat_echo::{EchoConfig, EchoService};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn attach(path: PathBuf, leave_patience: Duration) -> impl FnOnce() -> SplitRuntime + Send {
    move || {
        let options = SplitOptions { share: true, leave_patience, ..SplitOptions::new("echo") };
        SplitRuntime::attach(SplitRuntime::at(path), options).expect("a share of a card")
    }
}

/// One that ends as if it were killed.
fn sharer(core: &Core) -> Serving {
    Serving::start(attach(core.path.clone(), Duration::ZERO), || EchoService::new(EchoConfig::default()))
}

/// One that gives its connections up.
fn leaver(core: &Core) -> Serving {
    Serving::start(attach(core.path.clone(), PATIENCE), || EchoService::new(EchoConfig::default()))
}

/// The services on the first card.
pub fn services(core: &Core) -> Vec<ServiceStatus> {
    let card = core.status().cards.into_iter().next().expect("a card");
    card.service.into_iter().chain(card.sharing).collect()
}

#[derive(Default)]
pub struct Stream {
    sent: usize,
    received: usize,
    is_open: bool,
    is_over: bool,
}

/// Many streams to an echo, each byte of which is checked.
#[derive(Default)]
pub struct Many {
    pub streams: BTreeMap<usize, Stream>,
    /// Bytes to be under way on each stream, whatever has come back.
    ahead: usize,
}

impl Many {
    fn open(&mut self, runtime: &mut Runtime, count: usize) {
        for _ in 0..count {
            let to = SocketAddr::new(server(0), 7);
            let connection = runtime.with_context(|context| context.connect(to, ConnectOptions::default()));
            self.streams.insert(connection.expect("a connection").index(), Stream::default());
        }
    }

    /// Sends so many bytes on every stream.
    fn say(&mut self, runtime: &mut Runtime, bytes: usize) {
        for connection in runtime.stack().connections().collect::<Vec<_>>() {
            let stream = self.streams.get_mut(&connection.index()).expect("one of ours");
            if stream.is_open && !stream.is_over {
                runtime.with_context(|context| say(stream, connection, bytes, context));
            }
        }
    }

    pub fn run(&mut self, runtime: &mut Runtime, what: &str, done: impl Fn(&Many) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "{what}: not in half a minute: {} open", self.open_count());
            if !runtime.turn(self) {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
    }

    pub fn open_count(&self) -> usize {
        self.streams.values().filter(|stream| stream.is_open && !stream.is_over).count()
    }

    /// Everything sent has come back, on those that are not over.
    pub fn is_even(&self) -> bool {
        self.streams.values().all(|stream| stream.is_over || (stream.is_open && stream.received == stream.sent))
    }
}

fn say(stream: &mut Stream, connection: ConnectionId, bytes: usize, context: &mut Context<'_>) {
    let text: Vec<u8> = (stream.sent..stream.sent + bytes).map(stream_byte).collect();
    context.send(connection, text.into()).expect("sending");
    stream.sent += bytes;
}

impl Service for Many {
    fn start(&mut self, _: &mut Context<'_>) -> Result<(), StartError> {
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                self.streams.get_mut(&connection.index()).expect("one of ours").is_open = true;
            }
            Event::Data { connection, chunk } => {
                let stream = self.streams.get_mut(&connection.index()).expect("one of ours");
                let right = chunk.bytes().iter().zip(stream.received..).all(|(byte, at)| *byte == stream_byte(at));
                assert!(right, "the stream's bytes, from {} on", stream.received);
                stream.received += chunk.len();
                context.consume(connection, chunk);
                let missing = (stream.received + self.ahead).saturating_sub(stream.sent);
                if self.ahead > 0 && missing > 0 {
                    say(stream, connection, missing, context);
                }
            }
            Event::Closed { connection, .. } => {
                self.streams.get_mut(&connection.index()).expect("one of ours").is_over = true;
            }
            _ => {}
        }
    }
}

#[test]
fn a_listener_is_shared_by_every_policy_and_the_share_of_who_dies_is_the_others() {
    for policy in [AcceptPolicy::RoundRobin, AcceptPolicy::LeastLoaded, AcceptPolicy::Queue] {
        let core = Core::accepting(1, policy);
        let mut runtime = core.client(0);
        let mut many = Many::default();
        let (first, second) = (sharer(&core), sharer(&core));
        many.open(&mut runtime, 24);
        many.run(&mut runtime, "connections", |many| many.open_count() == 24);
        for _ in 0..10 {
            many.say(&mut runtime, 3_000);
            many.run(&mut runtime, "echoes", Many::is_even);
        }
        let shares: Vec<u64> = services(&core).iter().map(|service| service.connections).collect();
        assert_eq!((shares.len(), shares.iter().sum::<u64>()), (2, 24), "{policy:?}: {shares:?}");
        match policy {
            AcceptPolicy::Queue => assert!(shares.iter().all(|share| *share >= 4), "{policy:?}: {shares:?}"),
            _ => assert_eq!(shares, [12, 12], "{policy:?}"),
        }
        assert!(services(&core).iter().all(|service| service.credits == 512), "the frames are shared out");
        // The first dies: its connections are reset, the others' go on, and new ones are the other's.
        let left = shares[1] as usize;
        first.end();
        many.run(&mut runtime, "resets", |many| many.open_count() == left);
        many.say(&mut runtime, 100_000);
        many.run(&mut runtime, "the other's go on", Many::is_even);
        let before = many.open_count();
        many.open(&mut runtime, 8);
        many.run(&mut runtime, "new connections", |many| many.open_count() == before + 8);
        many.say(&mut runtime, 1_000);
        many.run(&mut runtime, "all are the other's", Many::is_even);
        let rest = services(&core);
        assert_eq!((rest.len(), rest[0].connections), (1, before as u64 + 8));
        // Another comes, and has its share again.
        let third = sharer(&core);
        many.open(&mut runtime, 8);
        many.run(&mut runtime, "more connections", |many| many.open_count() == before + 16);
        if policy == AcceptPolicy::RoundRobin {
            assert_eq!(services(&core).iter().map(|service| service.connections).max(), Some(before as u64 + 12));
        }
        second.end();
        third.end();
        assert_eq!(core.status().cut_off, 0);
    }
}

// Attack: identity and names: another service's listener shared without its wish
#[test]
fn who_does_not_say_so_shares_nothing() {
    let core = Core::start(1);
    let _runtime = core.client(0);
    let serving = sharer(&core);
    let alone = SplitRuntime::attach(SplitRuntime::at(core.path.clone()), SplitOptions::new("alone"));
    assert!(alone.is_err_and(|error| error.to_string().contains("every such card")));
    serving.end();
}

/// An honest sharer with connections, and one that lies beside it, with connections as well.
fn beside_an_attacker() -> (Core, Runtime, Many, Serving, Attacker) {
    let core = Core::start(1);
    let mut runtime = core.client(0);
    let mut many = Many::default();
    let honest = sharer(&core);
    many.open(&mut runtime, 4);
    many.run(&mut runtime, "the honest one's connections", |many| many.open_count() == 4);
    let mut attacker = Attacker::sharing(&core.path, 0);
    let local = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 7);
    assert!(attacker.say(Command::Listen { request: 1, local, backlog: 0 }));
    many.open(&mut runtime, 8);
    many.run(&mut runtime, "connections of both", |many| many.open_count() == 12);
    (core, runtime, many, honest, attacker)
}

// Attack: identity and names: connections and frames of another service of the same card
#[test]
fn a_sharer_cannot_name_anothers_connections_or_frames() {
    let (core, mut runtime, mut many, honest, mut attacker) = beside_an_attacker();
    let honest_has = services(&core)[0].connections as usize;
    let mut own = Vec::new();
    while own.len() < 12 - honest_has {
        if let Some(Said::Accepted { connection, .. }) = attacker.hear() {
            own.push(connection.slot);
        }
    }
    let range = Range { offset: 0, length: 64 };
    for slot in (0..16).filter(|slot| !own.contains(slot)) {
        for generation in 0..4 {
            let connection = Id { slot, generation };
            assert!(attacker.say(Command::Send { connection, range, consumed: None }));
            for command in
                [Command::Shutdown { connection }, Command::Close { connection }, Command::Abort { connection }]
            {
                assert!(attacker.say(command));
            }
        }
    }
    // Theirs alone are unharmed; the control: its own it may end.
    assert_eq!(many.open_count(), 12);
    for slot in &own {
        for generation in 0..4 {
            assert!(attacker.say(Command::Abort { connection: Id { slot: *slot, generation } }));
        }
    }
    many.run(&mut runtime, "its own are ended", |many| many.open_count() == honest_has);
    many.say(&mut runtime, 50_000);
    many.run(&mut runtime, "the honest one's go on", Many::is_even);
    // A frame it was not lent.
    attacker.say(Command::Consume { connection: Id { slot: 0, generation: 0 }, frame: 3 });
    attacker.wait_until_cut_off();
    many.say(&mut runtime, 50_000);
    many.run(&mut runtime, "the honest one's go on still", Many::is_even);
    assert_eq!((core.status().cut_off, services(&core).len()), (1, 1));
    honest.end();
}

// Attack: time and cost: frames of a shared card hoarded
#[test]
fn a_sharer_that_hoards_loses_alone() {
    let (core, mut runtime, mut many, honest, attacker) = beside_an_attacker();
    // It takes nothing and gives nothing back, of much; a wave each for the honest one's to go on meanwhile.
    let honest_has = services(&core)[0].connections as usize;
    let mut evened = 0;
    for _ in 0..30 {
        many.say(&mut runtime, 60_000);
        let even = |many: &Many| {
            let even = |stream: &&Stream| stream.is_open && stream.received == stream.sent;
            many.streams.values().filter(even).count() >= honest_has
        };
        many.run(&mut runtime, "the honest one's echoes", even);
        evened += 1;
    }
    let all = services(&core);
    let hoarder = all.iter().find(|service| service.name == "attacker").expect("it is there still");
    assert!(hoarder.credits_used <= hoarder.credits + 64, "{hoarder:?}");
    assert_eq!(evened, 30);
    drop(attacker);
    many.run(&mut runtime, "the hoarder's are reset", |many| many.open_count() == honest_has);
    many.say(&mut runtime, 60_000);
    many.run(&mut runtime, "all comes home", Many::is_even);
    honest.end();
}

#[test]
fn connections_move_under_load_and_every_byte_comes_back() {
    for policy in [AcceptPolicy::RoundRobin, AcceptPolicy::LeastLoaded, AcceptPolicy::Queue] {
        let core = Core::accepting(1, policy);
        let mut runtime = core.client(0);
        let mut many = Many { ahead: 30_000, ..Many::default() };
        let mut serving = vec![leaver(&core), leaver(&core)];
        many.open(&mut runtime, 16);
        many.run(&mut runtime, "connections", |many| many.open_count() == 16);
        many.say(&mut runtime, 30_000);
        let mut moved = 0;
        // One comes, the oldest leaves, and nobody's stream stops: each connection moves more than once.
        for _ in 0..4 {
            let before = services(&core)[0].connections;
            serving.push(leaver(&core));
            let goal = many.streams.values().map(|stream| stream.received).sum::<usize>() + 2_000_000;
            let leaves = serving.remove(0);
            let left = std::thread::spawn(move || leaves.end());
            let total = |many: &Many| many.streams.values().map(|stream| stream.received).sum::<usize>();
            many.run(&mut runtime, "streams go on", |many| total(many) >= goal && left.is_finished());
            left.join().expect("who leaves");
            moved += before;
            assert_eq!((many.open_count(), services(&core).len()), (16, 2), "{policy:?}: nobody's is reset");
        }
        assert!(moved >= 16, "{policy:?}: {moved} moves");
        many.ahead = 0;
        many.run(&mut runtime, "all is even", Many::is_even);
        let (all, status) = (services(&core), core.status());
        assert_eq!((all.iter().map(|service| service.connections).sum::<u64>(), status.cut_off), (16, 0), "{all:?}");
        // The last leaves nobody behind who could have them: they are reset, as when there is no other from the start.
        serving.into_iter().for_each(Serving::end);
        many.run(&mut runtime, "resets", |many| many.open_count() == 0);
    }
}

//! `qanat delay` between two Linux kernels: what it is asked to do to packets happens to them, and nothing else does.
//!
//! Each test has two namespaces of its own, joined only through the emulator. Needs root; says so loudly when it can't
//! run, and fails instead with `QANAT_REQUIRE_ROOT=1`.
#![forbid(unsafe_code)]

use qanat_delay::{DelayConfig, Emulator, Figures, Impairments, Lab, LabConfig, QueueLimit, Rate, RunningEmulator};
use qanat_nic::link;
use qanat_tests::e2e::{PATIENCE, Program, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

const MILLISECOND: Duration = Duration::from_millis(1);
const PORT: u16 = 7;

/// Two namespaces and the emulator between them.
struct Path {
    emulator: RunningEmulator,
    lab: Lab,
}

fn delayed(delay: Duration) -> Impairments {
    Impairments { bands: vec![delay], ..Impairments::default() }
}

impl Path {
    fn new(forward: Impairments, backward: Impairments) -> Path {
        Path::with_queues(forward, backward, 1)
    }

    fn with_queues(forward: Impairments, backward: Impairments, queues: u32) -> Path {
        let lab = Lab::create(LabConfig { queues, ..LabConfig::default() }).expect("a lab");
        let [first, second] = lab.ports();
        let mut config = DelayConfig::new("", "");
        config.ports = [first, second];
        (config.forward, config.backward, config.queues, config.seed) = (forward, backward, queues, 42);
        let emulator = Emulator::start(&config).expect("an emulator");
        assert!(emulator.shares_memory(), "two veth devices share memory");
        Path { emulator, lab }
    }

    fn address(number: usize) -> IpAddr {
        Lab::ADDRESSES[number].into()
    }

    /// A kernel UDP socket of the first (0) or second (1) namespace.
    fn socket(&self, number: usize, address: IpAddr, port: u16) -> UdpSocket {
        let open = || UdpSocket::bind((address, port)).expect("a UDP socket");
        let socket = self.lab.namespaces()[number].within(open).expect("entering the namespace");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        socket
    }

    fn connection(&self) -> (TcpStream, TcpStream) {
        let [first, second] = self.lab.namespaces();
        let address = SocketAddr::new(Path::address(1), PORT);
        let listener = second.within(|| TcpListener::bind(address)).expect("entering").expect("a listener");
        let client = first.within(|| TcpStream::connect(address)).expect("entering").expect("a connection");
        let (server, _) = listener.accept().expect("a client");
        (client, server)
    }

    /// Lets the kernels find each other's Ethernet addresses: they queue only a few packets until then.
    fn introduce(&self) {
        introduce(&self.socket(0, Path::address(0), 0), &self.socket(1, Path::address(1), PORT));
    }

    /// The figures once nothing is held any more.
    fn settled(&self) -> Figures {
        let mut before = Figures::default();
        eventually("nothing is on the way", Duration::from_secs(5), || {
            std::thread::sleep(120 * MILLISECOND);
            let figures = self.emulator.figures();
            let at_rest = figures.forward.held == 0 && figures.backward.held == 0 && figures == before;
            before = figures;
            at_rest
        });
        before
    }
}

/// Sends until something comes.
fn introduce(client: &UdpSocket, server: &UdpSocket) {
    server.set_read_timeout(Some(200 * MILLISECOND)).expect("a timeout");
    eventually("a packet gets through", Duration::from_secs(10), || {
        client.send_to(b"?", (Path::address(1), PORT)).expect("sending");
        server.recv(&mut [0; 16]).is_ok()
    });
    // Those sent before it was.
    while server.recv(&mut [0; 16]).is_ok() {}
    server.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
}

/// Sends back what comes, as long as something comes every second.
fn echo<'scope>(scope: &'scope Scope<'scope, '_>, socket: UdpSocket) {
    scope.spawn(move || {
        let mut bytes = [0; 2_048];
        while let Ok((length, peer)) = socket.recv_from(&mut bytes) {
            socket.send_to(&bytes[..length], peer).expect("sending back");
        }
    });
}

fn round_trips(socket: &UdpSocket, count: usize) -> Vec<Duration> {
    let mut bytes = [0; 64];
    let mut trips: Vec<Duration> = (0..count)
        .map(|_| {
            let start = Instant::now();
            socket.send(&bytes).expect("sending");
            socket.recv(&mut bytes).expect("an answer");
            start.elapsed()
        })
        .collect();
    trips.sort_unstable();
    trips
}

#[test]
fn a_round_trip_takes_twice_the_delay_by_ipv4_and_ipv6() {
    scenario(|| {
        let path = Path::new(delayed(20 * MILLISECOND), delayed(20 * MILLISECOND));
        let v6 = |number: usize| IpAddr::from(Lab::ADDRESSES_V6[number]);
        for addresses in [[Path::address(0), Path::address(1)], [v6(0), v6(1)]] {
            std::thread::scope(|scope| {
                echo(scope, path.socket(1, addresses[1], PORT));
                let client = path.socket(0, addresses[0], 0);
                client.connect((addresses[1], PORT)).expect("connecting");
                let trips = round_trips(&client, 15);
                assert!(trips[0] >= 40 * MILLISECOND, "{trips:?}");
                // On a busy machine one takes longer; none would be that short if it were delayed twice.
                eventually("a round trip of one delay each way", PATIENCE, || {
                    round_trips(&client, 15)[0] < 60 * MILLISECOND
                });
            });
        }
        let figures = path.emulator.stop();
        assert!(figures.forward.checksums_finished >= 30, "a veth's kernel leaves them: {figures:?}");
        assert!(figures.jitter.median_ns > 0);
    });
}

#[test]
fn losses_are_near_their_chance_and_counted_exactly() {
    scenario(|| {
        const COUNT: u64 = 2_000;
        let path = Path::new(Impairments { loss_ppm: 100_000, ..Impairments::default() }, Impairments::default());
        let (sender, receiver) = (path.socket(0, Path::address(0), 0), path.socket(1, Path::address(1), PORT));
        let received = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while receiver.recv(&mut [0; 64]).is_ok() {
                    received.fetch_add(1, Ordering::Relaxed);
                }
            });
            for number in 0..COUNT {
                sender.send_to(&number.to_be_bytes(), (Path::address(1), PORT)).expect("sending");
                if number % 16 == 0 {
                    std::thread::sleep(MILLISECOND);
                }
            }
        });
        let figures = path.settled().forward;
        let (received, lost) = (received.into_inner(), figures.lost);
        // A little ARP and multicast of the kernels is among what was seen, and perhaps lost.
        let others = figures.received - COUNT;
        assert!(others < 60, "{figures:?}");
        assert!((COUNT - lost..=COUNT - lost + others).contains(&received), "{received} received, {figures:?}");
        assert!((130..270).contains(&lost), "{figures:?}");
        assert_eq!(figures.received, figures.sent + figures.lost, "{figures:?}");
    });
}

#[test]
fn each_flow_has_its_own_delay_and_keeps_its_order() {
    scenario(|| {
        const FLOWS: usize = 16;
        const DATAGRAMS: u64 = 200;
        let (short, long) = (5 * MILLISECOND, 40 * MILLISECOND);
        let path =
            Path::new(Impairments { bands: vec![short, long], ..Impairments::default() }, Impairments::default());
        path.introduce();
        let receiver = path.socket(1, Path::address(1), PORT);
        let senders: Vec<UdpSocket> = (0..FLOWS).map(|_| path.socket(0, Path::address(0), 0)).collect();
        let start = Instant::now();
        let mut flows: BTreeMap<u16, (u64, Duration)> = BTreeMap::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..DATAGRAMS {
                    for sender in &senders {
                        let mut bytes = number.to_be_bytes().to_vec();
                        bytes.extend((start.elapsed().as_nanos() as u64).to_be_bytes());
                        sender.send_to(&bytes, (Path::address(1), PORT)).expect("sending");
                    }
                    std::thread::sleep(MILLISECOND);
                }
            });
            let mut bytes = [0; 16];
            while let Ok((16, peer)) = receiver.recv_from(&mut bytes) {
                let (number, sent) = bytes.split_at(8);
                let number = u64::from_be_bytes(number.try_into().expect("8 bytes"));
                let sent = Duration::from_nanos(u64::from_be_bytes(sent.try_into().expect("8 bytes")));
                let (next, least) = flows.entry(peer.port()).or_insert((0, Duration::MAX));
                assert_eq!(number, *next, "order of the flow from port {}", peer.port());
                *next += 1;
                *least = (*least).min(start.elapsed() - sent);
            }
        });
        assert_eq!(flows.len(), FLOWS);
        assert!(flows.values().all(|(count, _)| *count == DATAGRAMS), "{flows:?}");
        let longer = flows.values().filter(|(_, least)| *least >= long).count();
        assert!(flows.values().all(|(_, least)| *least >= short), "{flows:?}");
        assert!((1..FLOWS).contains(&longer), "both bands are used: {flows:?}");
    });
}

/// Sends `length` bytes of a pattern that no shift leaves alike, and compares them at the other end.
fn transfer(path: &Path, length: usize) -> Duration {
    let (mut client, mut server) = path.connection();
    let pattern = |index: usize| (index.wrapping_mul(2_654_435_761) >> 13) as u8;
    let sent: Vec<u8> = (0..length).map(pattern).collect();
    server.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let start = Instant::now();
    let mut received = Vec::with_capacity(length);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&sent).expect("sending");
            client.shutdown(std::net::Shutdown::Write).expect("closing");
        });
        server.read_to_end(&mut received).expect("receiving");
    });
    assert!(received == sent, "{} bytes of {length}, damaged or not whole", received.len());
    start.elapsed()
}

#[test]
fn tcp_between_kernels_survives_everything_at_once() {
    scenario(|| {
        let bad = Impairments {
            bands: vec![3 * MILLISECOND],
            loss_ppm: 10_000,
            reorder_ppm: 20_000,
            duplicate_ppm: 20_000,
            corrupt_ppm: 10_000,
            ..Impairments::default()
        };
        let path = Path::new(bad.clone(), bad);
        transfer(&path, 2_000_000);
        let figures = path.settled().forward;
        let all = [figures.lost, figures.reordered, figures.duplicated, figures.corrupted];
        assert!(all.iter().all(|count| *count > 0), "{figures:?}");
        assert_eq!((figures.copy_failed, figures.held_full, figures.oversize), (0, 0, 0), "{figures:?}");
    });
}

#[test]
fn damage_is_not_made_good_by_checksum_offload() {
    scenario(|| {
        let path = Path::new(Impairments { corrupt_ppm: 1_000_000, ..Impairments::default() }, Impairments::default());
        let (sender, receiver) = (path.socket(0, Path::address(0), 0), path.socket(1, Path::address(1), PORT));
        for _ in 0..200 {
            sender.send_to(&[0x55; 100], (Path::address(1), PORT)).expect("sending");
        }
        assert!(receiver.recv(&mut [0; 200]).is_err(), "a damaged datagram got through");
        let figures = path.settled().forward;
        assert!(figures.corrupted >= 200 && figures.checksums_finished >= 200, "{figures:?}");
    });
}

#[test]
fn a_rate_holds_and_its_queue_is_bounded() {
    scenario(|| {
        let narrow =
            Impairments { rate: Some(Rate(20_000_000)), queue: QueueLimit::Bytes(64_000), ..delayed(5 * MILLISECOND) };
        let path = Path::new(narrow, delayed(5 * MILLISECOND));
        // 5 MB take 2 s at 20 Mbit/s, and their headers some 4 % more.
        let taken = transfer(&path, 5_000_000);
        assert!(taken >= Duration::from_millis(1_950), "{taken:?}");
        let (sender, receiver) = (path.socket(0, Path::address(0), 0), path.socket(1, Path::address(1), PORT));
        let before = path.settled().forward;
        // 300 kB at once: what doesn't fit 64 kB is lost, but for what leaves meanwhile.
        for _ in 0..200 {
            sender.send_to(&[0; 1_458], (Path::address(1), PORT)).expect("sending");
        }
        let mut count = 0;
        while receiver.recv(&mut [0; 2_000]).is_ok() {
            count += 1;
        }
        let full = path.settled().forward.queue_full - before.queue_full;
        assert!(count >= 40 && full > 0, "{count} came, {full} found the queue full");
        assert!((198..=200).contains(&(count + full)), "{count} came, {full} found the queue full");
    });
}

#[test]
fn two_queues_share_the_work() {
    scenario(|| {
        let path = Path::with_queues(delayed(MILLISECOND), Impairments::default(), 2);
        path.introduce();
        let unowned = || path.emulator.interfaces()[0].verdicts().expect("counters").no_socket;
        let unowned_before = unowned();
        path.introduce();
        let receiver = path.socket(1, Path::address(1), PORT);
        let senders: Vec<UdpSocket> = (0..32).map(|_| path.socket(0, Path::address(0), 0)).collect();
        let mut flows: BTreeMap<u16, u64> = BTreeMap::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0u64..50 {
                    for sender in &senders {
                        sender.send_to(&number.to_be_bytes(), (Path::address(1), PORT)).expect("sending");
                    }
                    std::thread::sleep(MILLISECOND);
                }
            });
            let mut bytes = [0; 8];
            while let Ok((8, peer)) = receiver.recv_from(&mut bytes) {
                let next = flows.entry(peer.port()).or_default();
                assert_eq!(u64::from_be_bytes(bytes), *next, "order of the flow from port {}", peer.port());
                *next += 1;
            }
        });
        assert!(flows.len() == 32 && flows.values().all(|count| *count == 50), "{flows:?}");
        assert_eq!(unowned(), unowned_before);
        path.settled();
        let queues = path.emulator.queue_figures();
        assert!(queues.len() == 2 && queues.iter().all(|queue| queue.forward.sent > 50), "{queues:?}");
    });
}

/// The XDP program on each of the lab's inner interfaces.
fn programs(lab: &Lab) -> Vec<Option<u32>> {
    let look = |name: &str| link::link(name).expect("an interface").xdp_program;
    lab.ends().iter().map(|end| end.namespace().within(|| look(&end.device().name)).expect("entering")).collect()
}

#[test]
fn the_command_gives_the_interfaces_back_however_it_ends() {
    scenario(|| {
        let lab = Lab::create(LabConfig::default()).expect("a lab");
        let path = |number: usize| {
            let namespace = lab.ends()[number].namespace();
            format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd())
        };
        let name = lab.ends()[0].device().name.clone();
        let (first, second) = (path(0), path(1));
        for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
            let arguments = ["delay", &name, &name, "--netns1", &first, "--netns2", &second, "--delay", "10ms"];
            let running = Program::new(qanat()).arguments(arguments).start();
            eventually("it is attached", Duration::from_secs(5), || programs(&lab).iter().all(Option::is_some));
            std::thread::scope(|scope| {
                let socket = |number: usize, port: u16| {
                    let open = || UdpSocket::bind((Path::address(number), port)).expect("a socket");
                    let socket = lab.namespaces()[number].within(open).expect("entering");
                    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
                    socket
                };
                let (client, server) = (socket(0, 0), socket(1, PORT));
                introduce(&client, &server);
                echo(scope, server);
                client.connect((Path::address(1), PORT)).expect("connecting");
                assert!(round_trips(&client, 3)[0] >= 20 * MILLISECOND);
            });
            let id = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process");
            kill_process(id, signal).expect("a signal sent");
            let outcome = running.wait(Duration::from_secs(5));
            assert_eq!(outcome.code, if signal == Signal::KILL { None } else { Some(0) }, "{outcome:?}");
            assert_eq!(outcome.text().contains("Sent later than due"), signal != Signal::KILL, "{outcome:?}");
            eventually("no program is left", Duration::from_secs(2), || programs(&lab).iter().all(Option::is_none));
        }
    });
}

/// A veth device is made with a queue for each processor, and uses one of them.
#[test]
fn queues_that_are_not_in_use_are_left_alone() {
    scenario(|| {
        for pair in [["left0", "left1"], ["right0", "right1"]] {
            let words = ["link", "add", pair[0], "type", "veth", "peer", "name", pair[1]];
            Program::new("ip").arguments(words).succeeds();
            for end in pair {
                Program::new("ip").arguments(["link", "set", end, "up"]).succeeds();
            }
        }
        let has_program = |name: &str| link::link(name).expect("an interface").xdp_program.is_some();
        let running = Program::new(qanat()).arguments(["delay", "left0", "right0"]).start();
        eventually("it is attached", Duration::from_secs(15), || has_program("left0") && has_program("right0"));
        drop(running);
        // Whoever wants more of them is told how to have them.
        let allocated = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let wanted = "2";
        let refused = Program::new(qanat()).arguments(["delay", "left0", "right0", "--queues", wanted]).run();
        assert!(refused.stderr.contains("left0 uses 1 queues, not 2"), "{refused:?}");
        if allocated > 1 {
            for end in ["left0", "right0"] {
                Program::new("ethtool").arguments(["-L", end, "rx", wanted, "tx", wanted]).succeeds();
            }
            let running = Program::new(qanat()).arguments(["delay", "left0", "right0", "--queues", wanted]).start();
            eventually("it is attached", Duration::from_secs(15), || has_program("left0") && has_program("right0"));
            drop(running);
        }
    });
}

#[test]
fn what_is_wrong_is_said() {
    scenario(|| {
        for (arguments, said) in [
            (vec!["delay", "lo", "lo", "--loss", "101%"], "percentage"),
            (vec!["delay", "nosuch0", "nosuch1"], "nosuch0"),
            (vec!["delay", "nosuch0"], "IF2"),
            (vec!["delay", "a", "b", "--netns1", "nosuchns"], "ip netns list"),
        ] {
            let outcome = Program::new(qanat()).arguments(&arguments).run();
            assert!(outcome.code.is_some_and(|code| code != 0), "{outcome:?}");
            assert!(outcome.stderr.contains(said) && !outcome.stderr.contains("panicked"), "{outcome:?}");
        }
    });
}

//! Whatever is done to either end of the link under load: afterwards a kernel's client has its answers again, in batches without
//! socket buffers where the other end takes them, and what was sent is what arrived and what is counted as lost.

use crate::helpers::{answer, require_root};
use crate::{DEVICE, HOST, assert_all_home, open, whole};
use qanat_nic::af_xdp::Injection;
use qanat_nic::link::{self, Namespace};
use qanat_nic::veth::{self, Veth, VethConfig};
use qanat_nic::{AfXdp, MemoryPlan, Vnic};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2048, receive_frames: 2048, transmit_frames: 1024, prepared_frames: 0 };
/// Answers of one flush: enough to be injected.
const BATCH: u32 = 48;
/// For whatever must happen sooner or later.
const PATIENCE: Duration = Duration::from_secs(20);

/// The two ends of a link, and what is done to them.
struct Ends {
    veth: Veth,
    elsewhere: Namespace,
    /// A program that lets everything pass.
    passing: OwnedFd,
}

impl Ends {
    fn new() -> Ends {
        let host_namespace = Some(Namespace::anonymous().unwrap());
        let host_addresses = vec![(IpAddr::V4(HOST), 24)];
        let config = VethConfig { host_addresses, host_namespace, queues: 2, ..VethConfig::default() };
        let veth = veth::create(&config).unwrap();
        let elsewhere = Namespace::anonymous().unwrap();
        let mut injection = Injection::load().unwrap();
        let batch = Injection::make_batch().unwrap();
        let passing = injection.hand_over(0, batch, 1, &elsewhere).unwrap().program;
        Ends { veth, elsewhere, passing }
    }

    /// Runs commands at the peer's end, or, `own:`, at ours; `there:`, where the peer has gone to.
    fn run(&self, commands: &[&str]) {
        for command in commands {
            let (namespace, words) = match (command.strip_prefix("own: "), command.strip_prefix("there: ")) {
                (Some(words), _) => (self.veth.namespace(), words),
                (_, Some(words)) => (&self.elsewhere, words),
                _ => (self.veth.host_namespace(), *command),
            };
            let here = format!("/proc/{}/fd/", std::process::id());
            let path = |namespace: &Namespace| format!("{here}{}", namespace.as_fd().as_raw_fd());
            let words = words.replace("PEER", self.veth.host_name()).replace("OWN", &self.veth.device().name);
            let words =
                words.replace("THERE", &path(&self.elsewhere)).replace("HERE", &path(self.veth.host_namespace()));
            let mut words = words.split(' ');
            let output = namespace
                .within(|| Command::new(words.next().unwrap_or_default()).args(words.by_ref()).output())
                .unwrap()
                .unwrap_or_else(|error| panic!("{command}: {error}"));
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    fn with_peer(&self, act: impl FnOnce(u32) -> std::io::Result<()> + Send) {
        self.veth.host_namespace().within(|| act(self.veth.host().index)).unwrap().unwrap();
    }
}

/// Answers that have not come by then may be lost.
const SHORT: Duration = Duration::from_millis(5);

/// A client of the kernel's at one end, and what echoes at the other.
struct Bench {
    ends: Arc<Ends>,
    nic: AfXdp,
    client: UdpSocket,
    number: u32,
    /// Answers that were sent, and that arrived. What else was sent is ARP's.
    answered: u64,
    arrived: u64,
}

impl Bench {
    fn new() -> Bench {
        let ends = Arc::new(Ends::new());
        // What the client sends comes by the first queue, which is the one that is read. Without GRO it is the program at the peer's
        // end that has it take frames.
        ends.run(&["ethtool -L PEER tx 1 rx 2", "own: ethtool -L OWN tx 1 rx 2", "ethtool -K PEER gro off"]);
        ends.with_peer(|index| link::set_xdp(index, ends.passing.as_fd()));
        let client = ends.veth.host_namespace().within(|| UdpSocket::bind((HOST, 5_000))).unwrap().unwrap();
        client.connect((DEVICE, 7)).unwrap();
        client.set_nonblocking(true).unwrap();
        let bytes = 8i32 << 20;
        // A frame that comes without a socket buffer counts as a whole page there.
        // SAFETY: an integer, with its length.
        let set = unsafe {
            let value = (&raw const bytes).cast();
            libc::setsockopt(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, 4)
        };
        assert_eq!(set, 0);
        let nic = open(&ends.veth.attach(whole()).unwrap(), PLAN);
        assert!(nic.injects(), "a kernel that can't inject: frames go by the ring, and this test shows nothing");
        Bench { ends, nic, client, number: 0, answered: 0, arrived: 0 }
    }

    /// Sends requests, and answers what comes. How many of these requests were answered.
    fn exchange(&mut self, patience: Duration) -> u32 {
        let first = self.number;
        for _ in 0..BATCH {
            // The link may be down, and there may be no route: then it isn't sent.
            let _ = self.client.send(&self.number.to_be_bytes().repeat(8));
            self.number += 1;
        }
        let mut frames = Vec::new();
        self.nic.receive(&mut frames, 4 * BATCH as usize);
        for frame in frames.drain(..) {
            self.answered += u64::from(answer(&mut self.nic, frame, DEVICE));
        }
        self.nic.flush();
        let (mut bytes, mut fresh) = ([0; 64], 0);
        // They have arrived when the call that sent them comes back, but for those that another processor is busy with.
        let end = Instant::now() + patience;
        while fresh < BATCH && Instant::now() < end {
            let Ok(length) = self.client.recv(&mut bytes) else { continue };
            assert_eq!((length, &bytes[..4]), (32, &bytes[4..8]), "an answer is damaged");
            self.arrived += 1;
            let number = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            fresh += u32::from(number >= first);
        }
        fresh
    }

    /// Turns a knob while requests go to and fro.
    fn turn(&mut self, knob: impl FnOnce(&Ends) + Send + 'static) {
        let ends = Arc::clone(&self.ends);
        let turning = thread::spawn(move || knob(&ends));
        while !turning.is_finished() {
            self.exchange(SHORT);
        }
        turning.join().expect("the knob can be turned");
    }

    /// All requests are answered again, `injects`: and the answers leave without socket buffers.
    fn recovers(&mut self, what: &str, injects: bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let before = self.nic.statistics().transmit_injected;
            let count = self.exchange(10 * SHORT);
            let injected = self.nic.statistics().transmit_injected - before;
            if count == BATCH && (injected >= u64::from(BATCH)) == injects {
                break;
            }
            let statistics = self.nic.statistics();
            assert!(Instant::now() < end, "{what}: {count} answers, {injected} of them injected, {statistics:?}");
        }
        assert!((0..20).all(|_| self.exchange(PATIENCE) == BATCH), "{what}: it stays so");
    }

    /// What was sent and did not arrive is counted as lost; `is_told`: the client has been told of all that arrived.
    fn balances(&mut self, what: &str, is_told: bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let statistics = self.nic.statistics();
            let unanswered = statistics.transmit_frames - self.answered;
            let missing = self.answered - self.arrived;
            // Of the few ARP answers it is not known which arrived.
            let least = if is_told { missing } else { 0 };
            if (least..=missing + unanswered).contains(&statistics.transmit_lost) {
                println!("{what}: {} sent, {missing} missing, {} counted", self.answered, statistics.transmit_lost);
                return;
            }
            assert!(Instant::now() < end, "{what}: {missing} of {} are missing: {statistics:?}", self.answered);
            thread::sleep(Duration::from_millis(30));
        }
    }
}

/// Turns each knob there and back.
fn turn_all(bench: &mut Bench, knobs: &[(&str, &'static [&'static str], &'static [&'static str], bool)]) {
    for (what, there, back, is_told) in knobs.iter().copied() {
        bench.turn(move |ends| ends.run(there));
        for _ in 0..50 {
            bench.exchange(SHORT);
        }
        bench.turn(move |ends| ends.run(back));
        bench.recovers(what, true);
        bench.balances(what, is_told);
    }
}

#[test]
fn programs_come_and_go_at_the_other_end() {
    require_root!();
    let mut bench = Bench::new();
    bench.recovers("a program at the other end", true);
    for round in 0..3 {
        bench.turn(|ends| ends.with_peer(link::clear_xdp));
        bench.recovers("without it", false);
        bench.balances("without it", true);
        bench.turn(|ends| ends.with_peer(|index| link::set_generic_xdp(index, ends.passing.as_fd())));
        bench.recovers("a generic one", false);
        bench.turn(|ends| ends.run(&["ip link set PEER xdpgeneric off"]));
        match round {
            0 => bench.turn(|ends| ends.run(&["ethtool -K PEER gro on"])),
            _ => bench.turn(|ends| ends.with_peer(|index| link::set_xdp(index, ends.passing.as_fd()))),
        }
        bench.recovers("frames are taken again", true);
        bench.balances("frames are taken again", true);
        if round == 0 {
            bench.turn(|ends| ends.run(&["ethtool -K PEER gro off"]));
            bench.recovers("GRO is off", false);
        }
    }
    assert_all_home(&mut bench.nic);
}

#[test]
fn either_end_changes() {
    require_root!();
    let mut bench = Bench::new();
    bench.recovers("before", true);
    turn_all(
        &mut bench,
        &[
            ("the peer goes down", &["ip link set PEER down"], &["ip link set PEER up"], true),
            ("our end goes down", &["own: ip link set OWN down"], &["own: ip link set OWN up"], true),
            ("the peer's MTU", &["ip link set PEER mtu 1300"], &["ip link set PEER mtu 1500"], true),
            ("our MTU", &["own: ip link set OWN mtu 1300"], &["own: ip link set OWN mtu 1500"], true),
            ("offloads", &["ethtool -K PEER tx off tso off gso off"], &["ethtool -K PEER tx on tso on gso on"], true),
            ("our offloads", &["own: ethtool -K OWN tx off gso off"], &["own: ethtool -K OWN tx on gso on"], true),
            (
                "the peer's Ethernet address",
                &["ip link set PEER address 02:00:00:00:99:01"],
                &["ip link set PEER address 02:00:00:00:99:02"],
                false,
            ),
            ("the address", &["ip addr del 10.99.0.1/24 dev PEER"], &["ip addr add 10.99.0.1/24 dev PEER"], false),
            (
                "the peer's namespace",
                &["ip link set PEER netns THERE", "there: ip link set PEER up"],
                &["there: ip link set PEER netns HERE", "ip addr add 10.99.0.1/24 dev PEER", "ip link set PEER up"],
                false,
            ),
            // A device forgets what a queue has counted that is not in use.
            ("the peer's queues", &["ethtool -L PEER rx 1"], &["ethtool -L PEER rx 2"], false),
        ],
    );
    assert_all_home(&mut bench.nic);
}

//! Net cores that lie: a service trusts one with its packets, but neither with its memory nor with its life. It takes such a
//! net core for lost: its connections are closed, and it looks for another.

use qanat::split::{SplitOptions, SplitRuntime};
use qanat_abi::message::Window;
use qanat_abi::{Command, Consumer, ControlMemory, Event, Id, Message, Producer, Rings, SharedMemory};
use qanat_control::protocol::{receive, send};
use qanat_echo::{EchoConfig, EchoService};
use qanat_nic::MemoryPlan;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const CONNECTIONS: u32 = 64;
const PLAN: MemoryPlan = MemoryPlan { frame_size: 2048, receive_frames: 4, transmit_frames: 2, prepared_frames: 0 };

/// A net core that says what it likes.
struct Liar {
    socket: OwnedFd,
    events: Producer<ControlMemory>,
    commands: Consumer<ControlMemory>,
}

impl Liar {
    /// Attaches whoever is at the other end.
    fn new(socket: OwnedFd) -> Liar {
        let mut buffer = vec![0; 16_384];
        let (_, _) = receive::<Value>(socket.as_fd(), &mut buffer).expect("a wish");
        let (rings, control) = Rings::create(64).expect("rings");
        let (_, frames) = PLAN.allocate_lendable().expect("frames");
        let block = |size: usize| SharedMemory::create(2 * size).expect("blocks");
        let (small, large) = (block(2_048), block(65_536));
        let attached = json!({ "Attached": {
            "addresses": [["10.9.0.2", 24]], "mac": [2, 0, 0, 0, 0, 1], "mtu": 1_500, "interface": "", "driver": "",
            "receive_frames": 4, "frame_size": 2_048, "small_blocks": 2, "large_blocks": 2,
        } });
        let files = [control.as_fd(), frames.receive.as_fd(), small.as_fd(), large.as_fd()];
        send(socket.as_fd(), &attached, &files).expect("an answer");
        Liar { socket, events: Producer::new(rings.events), commands: Consumer::new(rings.commands) }
    }

    fn say(&mut self, event: Event) {
        assert_eq!(self.events.push(event.encode()), Ok(true));
        self.events.publish();
        if self.events.must_wake() {
            rustix::net::send(&self.socket, &[1], rustix::net::SendFlags::DONTWAIT).expect("a bell");
        }
    }

    /// Answers what is asked until nothing more is.
    fn answer(&mut self, count: u32) {
        let mut answered = 0;
        while answered < count {
            let Some(words) = self.commands.pop() else {
                std::thread::yield_now();
                continue;
            };
            let request = match Command::decode(words).expect("a command") {
                Command::Listen { request, .. } | Command::BindUdp { request, .. } => request,
                _ => continue,
            };
            self.say(Event::Answer { request, error: 0, id: Id { slot: 0, generation: 0 } });
            answered += 1;
        }
    }
}

/// What became of an echo whose net core, after an honest start, says `lies`: net cores lost.
fn lost_after(lies: Vec<Event>) -> u64 {
    let (ours, its) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
    let (told, is_told) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let net_core = std::thread::spawn(move || {
        let mut liar = Liar::new(its);
        // A socket and a listener for each family.
        liar.answer(4);
        lies.into_iter().for_each(|lie| liar.say(lie));
        told.send(()).expect("the service");
        // Not gone before the service has heard all: that would be a loss, too.
        let _ = is_done.recv();
    });
    let mut once = Some(ours);
    let connector = Box::new(move || once.take().ok_or(std::io::ErrorKind::NotFound.into()));
    let options = SplitOptions { connections_max: CONNECTIONS as usize, ..SplitOptions::new("echo") };
    let mut runtime = SplitRuntime::attach(connector, options).expect("a net core");
    let mut service = EchoService::new(EchoConfig::default());
    runtime.with_context(|context| qanat::Service::start(&mut service, context)).expect("a start");
    is_told.recv_timeout(Duration::from_secs(30)).expect("the net core");
    while runtime.turn(&mut service) {}
    drop(done);
    net_core.join().expect("the net core");
    runtime.figures().net_cores_lost
}

// Attack: fields and memory: a net core that lies to its service
#[test]
fn slots_and_frames_that_cannot_be_are_the_net_cores_end() {
    let peer = SocketAddr::from(([10, 9, 0, 1], 9));
    let accepted = |slot| Event::Accepted { connection: Id { slot, generation: 0 }, listener: 0, peer };
    let data = |frame, start, length| Event::Data {
        connection: Id { slot: 0, generation: 0 },
        window: Window { frame, start, length },
        acked: 0,
    };
    let honest = vec![accepted(0), data(0, 0, 64), accepted(CONNECTIONS - 1), data(1, 2_000, 48)];
    assert_eq!(lost_after(honest), 0, "the control");
    for lie in [accepted(CONNECTIONS), accepted(u32::MAX), data(4, 0, 1), data(u32::MAX, 0, 1), data(0, 2_047, 2)] {
        assert_eq!(lost_after(vec![accepted(0), lie]), 1, "{lie:?}");
    }
    assert_eq!(lost_after(vec![accepted(0), data(0, 0, 1), data(0, 0, 1)]), 1, "a frame lent twice");
    // Of what is gone, or never was: no offence in either direction.
    let gone = Id { slot: 7, generation: 3 };
    let crossed = vec![
        Event::Acked { connection: gone, bytes: u32::MAX },
        Event::Acked { connection: Id { slot: u32::MAX, generation: 0 }, bytes: 1 },
        Event::PeerClosed { connection: gone },
        Event::Closed { connection: gone, why: u8::MAX },
        Event::Answer { request: 77, error: 255, id: gone },
        accepted(0),
        Event::Acked { connection: Id { slot: 0, generation: 0 }, bytes: u32::MAX },
        Event::Acked { connection: Id { slot: 0, generation: 0 }, bytes: u32::MAX },
        Event::Data { connection: gone, window: Window { frame: 0, start: 0, length: 1 }, acked: u32::MAX },
    ];
    assert_eq!(lost_after(crossed), 0);
}

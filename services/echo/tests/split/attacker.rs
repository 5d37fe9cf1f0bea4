//! A service that lies, and what is watched while it does: a neighbour, the net core's status, the next service.

use crate::support::{Client, Core, Serving, datagram_returns, report, server, stream_returns};
use qanat::Commands;
use qanat::split::{SplitError, SplitOptions, SplitRuntime};
use qanat_abi::{Command, Consumer, ControlMemory, Event, Message, Producer, Rings};
use qanat_control::protocol::{receive, send};
use qanat_echo::{EchoConfig, EchoService};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::{Value, json};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// A service without a client library: it says what it likes.
pub struct Attacker {
    pub socket: OwnedFd,
    /// Control, received frames, small and large blocks.
    pub files: Vec<OwnedFd>,
    pub attached: Value,
    commands: Producer<ControlMemory>,
    events: Consumer<ControlMemory>,
}

pub fn dial(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
    let name = path.to_str().and_then(|name| name.strip_prefix('@')).expect("an abstract name");
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name")).expect("a net core");
    socket
}

pub fn ask(socket: &OwnedFd, wish: &Value) -> (Value, Vec<OwnedFd>) {
    send(socket.as_fd(), wish, &[]).expect("a wish");
    let mut buffer = vec![0; 16_384];
    receive(socket.as_fd(), &mut buffer).expect("an answer")
}

pub fn wish(card: u8) -> Value {
    json!({ "Attach": {
        "version": qanat_abi::VERSION, "layout": format!("{:016x}", qanat_abi::LAYOUT_HASH), "name": "attacker",
        "address": server(card), "connections": 64,
    } })
}

impl Attacker {
    pub fn new(path: &Path, card: u8) -> Attacker {
        Attacker::wishing(path, &wish(card))
    }

    /// Beside an honest one, on its card.
    pub fn sharing(path: &Path, card: u8) -> Attacker {
        let mut wish = wish(card);
        wish["Attach"]["share"] = true.into();
        Attacker::wishing(path, &wish)
    }

    fn wishing(path: &Path, wish: &Value) -> Attacker {
        loop {
            let socket = dial(path);
            let (reply, files) = ask(&socket, wish);
            // The one before may not be seen to have left yet.
            let Some(attached) = reply.get("Attached").cloned() else {
                std::thread::yield_now();
                continue;
            };
            let rings = Rings::open(files[0].as_fd()).expect("rings");
            return Attacker {
                socket,
                files,
                attached,
                commands: Producer::new(rings.commands),
                events: Consumer::new(rings.events),
            };
        }
    }

    /// Says it and waits until it has been heard, or the attacker is cut off: whether it still has its ear.
    pub fn say(&mut self, command: Command) -> bool {
        self.say_words(command.encode())
    }

    pub fn say_words(&mut self, words: [u64; 4]) -> bool {
        // Not for ever: it may have lied to itself about the room there is.
        for _ in 0..100_000 {
            match self.commands.push(words) {
                Ok(true) => break,
                Ok(false) => {}
                Err(_) => return false,
            }
            self.ring();
            if self.is_cut_off() {
                return false;
            }
            std::thread::yield_now();
        }
        self.commands.publish();
        self.ring();
        true
    }

    /// Waits until all it said has been heard; false: it is cut off, or its ring is no good any more.
    pub fn is_heard(&mut self) -> bool {
        loop {
            match self.commands.depth() {
                Ok(0) => return !self.is_cut_off(),
                Ok(_) if !self.is_cut_off() => std::thread::yield_now(),
                _ => return false,
            }
        }
    }

    /// The next event, if there is one.
    pub fn hear(&mut self) -> Option<Event> {
        let words = self.events.pop()?;
        self.events.release();
        Some(Event::decode(words).expect("a message"))
    }

    pub fn ring(&self) {
        let _ =
            rustix::net::send(&self.socket, &[1], rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL);
    }

    pub fn is_cut_off(&self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match rustix::net::recv(&self.socket, &mut bytes, rustix::net::RecvFlags::DONTWAIT) {
                Ok((0, _)) => return true,
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    }

    pub fn wait_until_cut_off(&self) {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while !self.is_cut_off() {
            assert!(std::time::Instant::now() < deadline, "it is still served");
            self.ring();
            std::thread::yield_now();
        }
    }
}

/// A neighbour's echo and its client.
pub struct Neighbour {
    runtime: qanat::Runtime,
    client: Client,
    pub serving: Serving,
    count: u64,
    times: Vec<Duration>,
}

/// Looks at a neighbour before anything is done to others.
const UNDISTURBED: usize = 100;

pub fn echo() -> EchoService {
    EchoService::new(EchoConfig::default())
}

pub fn serve(path: &Path, card: u8) -> Serving {
    let path = path.to_owned();
    let options = SplitOptions { address: Some(server(card)), connections_max: 64, ..SplitOptions::new("honest") };
    let attach = move || loop {
        match SplitRuntime::attach(SplitRuntime::at(path.clone()), options.clone()) {
            Err(SplitError::Refused(_)) => std::thread::yield_now(),
            outcome => return outcome.expect("a net core"),
        }
    };
    Serving::start(attach, echo)
}

impl Neighbour {
    pub fn new(core: &Core, card: u8, runtime: qanat::Runtime) -> Neighbour {
        let serving = serve(&core.path, card);
        let (client, times) = (Client::new(card, 300_000), Vec::new());
        let mut neighbour = Neighbour { runtime, client, serving, count: 0, times };
        let Neighbour { runtime, client, .. } = &mut neighbour;
        runtime.with_context(|context| qanat::Service::start(client, context)).unwrap();
        (0..UNDISTURBED).for_each(|_| neighbour.is_well());
        report("undisturbed", std::mem::take(&mut neighbour.times));
        neighbour
    }

    /// So much comes back.
    pub fn says(&mut self, payload: &[u8]) {
        datagram_returns(&mut self.runtime, &mut self.client, payload);
    }

    /// It is served as if nothing happened.
    pub fn is_well(&mut self) {
        self.count += 1;
        let (payload, sent) = (self.count.to_le_bytes(), std::time::Instant::now());
        datagram_returns(&mut self.runtime, &mut self.client, &payload);
        self.times.push(sent.elapsed());
    }

    /// The test's end: what it saw meanwhile.
    pub fn end(self) {
        report("while others were attacked", self.times);
        self.serving.end();
    }
}

/// Two cards; the attacker's is the first.
pub fn scene() -> (Core, qanat::Runtime, Neighbour) {
    let core = Core::start(2);
    let (attackers_peer, neighbours_peer) = (core.client(0), core.client(1));
    let neighbour = Neighbour::new(&core, 1, neighbours_peer);
    (core, attackers_peer, neighbour)
}

/// After an attack: an honest service on the attacker's card is served.
pub fn card_is_good(core: &Core, peer: &mut qanat::Runtime) {
    let serving = serve(&core.path, 0);
    let mut client = Client::new(0, 100_000);
    peer.with_context(|context| qanat::Service::start(&mut client, context)).unwrap();
    datagram_returns(peer, &mut client, b"good");
    stream_returns(peer, &mut client);
    peer.with_context(|context| context.close_udp(client.socket())).unwrap();
    serving.end();
}

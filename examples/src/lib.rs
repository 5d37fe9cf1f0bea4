//! What the examples share: a card, and a runtime that drives it until Ctrl-C. Each example is one file in `src/bin`.
//!
//! To run one:
//!
//! ```text
//!  sudo qanat up &                                    # a daemon, so that the examples need no root
//!  cargo run --package qanat-examples --bin http_hello
//!  curl http://10.77.0.2:8080/                        # in another terminal
//! ```
//! Without a daemon an example makes a card of its own, and for that it needs root. The first argument is the example's
//! address. The default is `10.77.0.2/24`. Programs on the same host reach it there.
//!
//! To read them, begin with the shortest:
//!
//! | example | what it shows |
//! |---|---|
//! | `echo` | the two protocols, and who owns received bytes |
//! | `line_server` | state of a connection, and its bounds |
//! | `http_hello` | answers that are never copied |
//! | `telemetry_sink` | datagrams and timers |
//! | `client` | connections that the service itself opens |
//! | `diskmap` | a disk without a service: the interface of diskmap, in [`diskmap`] |
//!
//! A service of your own is a type that implements [`Service`]. `start` listens. `handle` gets every event, one after the
//! other, on one thread, and must not block. It answers by commands to its [`Context`](qanat::Context).
#![forbid(unsafe_code)]

pub mod diskmap;

use qanat::control::{Address, Session, default_socket};
use qanat::nic::{MemoryPlan, PortRange};
use qanat::{AttachOptions, Attachment, CardSource, DaemonCard, Runtime, RuntimeOptions, Service, StopHandle, entropy};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const ADDRESS: &str = "10.77.0.2/24";

/// Serves until Ctrl-C or SIGTERM, at the address of the first argument. `ports` has the protocol and port of everything that
/// is served. A client gives none, and may use all ports.
///
/// # Errors
/// There is no card, or the service could not start. The text names the remedy.
pub fn serve(mut service: impl Service, ports: &[(u8, u16)]) -> Result<(), String> {
    let text = std::env::args().nth(1).unwrap_or_else(|| ADDRESS.to_owned());
    let (address, length) = Address::parse_prefixed(&text).map_err(|error| error.to_string())?;
    let mut options = AttachOptions::new(address.ip(), length);
    let range = |(protocol, port): &(u8, u16)| PortRange { protocol: *protocol, first: *port, last: *port };
    options.services = ports.iter().map(range).collect();
    // A card of the daemon's if one runs, else one of our own.
    let socket = default_socket();
    if Session::connect(&socket).is_ok() {
        options.source = CardSource::Daemon(DaemonCard::new(socket));
    }
    let attachment = Attachment::open(&options).map_err(|error| error.to_string())?;
    // The card's first queue, with memory for frames as large as the link carries.
    let frame_size = MemoryPlan::frame_size_for(attachment.mtu());
    let plan = MemoryPlan { frame_size, ..MemoryPlan::default() };
    let queue = attachment.open_queue(0, plan).map_err(|error| error.to_string())?;
    // The stack draws its sequence numbers, ports and hash keys from this seed.
    let seed = entropy().map_err(|error| format!("no entropy: {error}"))?;
    let mut runtime = Runtime::new(Box::new(queue), attachment.config().clone(), seed);
    // A thread waits for signals and asks the runtime to stop. The runtime then lets the service finish.
    let stop = StopHandle::new().map_err(|error| error.to_string())?;
    let asked = stop.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("signals: {error}"))?;
    std::thread::spawn(move || signals.forever().for_each(|_| asked.request()));
    runtime.start(&mut service).map_err(|error| error.to_string())?;
    println!("{} serves at {}", std::env::args().next().unwrap_or_default(), address.ip());
    runtime.run(&mut service, &stop, RuntimeOptions::default(), &mut |_, _| {}).map_err(|error| error.to_string())
}

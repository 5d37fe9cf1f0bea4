//! What the examples share: a card, and a runtime on it until Ctrl-C. Each example is one file in `src/bin`.
//!
//! ```text
//!  sudo qanat up &                                    # a daemon: then the examples need no root
//!  cargo run --package qanat-examples --bin http_hello
//!  curl http://10.77.0.2:8080/
//! ```
//! Without a daemon an example makes a card of its own, as root. The first argument is its address, `10.77.0.2/24` unless given.
#![forbid(unsafe_code)]

use qanat::control::address::Address;
use qanat::control::client::{Session, default_socket};
use qanat::nic::MemoryPlan;
use qanat::nic::af_xdp::PortRange;
use qanat::{AttachOptions, Attachment, CardSource, DaemonCard, Runtime, RuntimeOptions, Service, StopHandle, entropy};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const ADDRESS: &str = "10.77.0.2/24";

/// Serves until Ctrl-C or SIGTERM, at the address of the first argument. `ports`: protocol and port of each thing served, or nothing
/// for a client, which may use all.
///
/// # Errors
/// Why there is no card, or why the service could not start, with the remedy.
pub fn serve(mut service: impl Service, ports: &[(u8, u16)]) -> Result<(), String> {
    let text = std::env::args().nth(1).unwrap_or_else(|| ADDRESS.to_owned());
    let (address, length) = Address::parse_prefixed(&text).map_err(|error| error.to_string())?;
    let mut options = AttachOptions::new(address.ip(), length);
    let range = |(protocol, port): &(u8, u16)| PortRange { protocol: *protocol, first: *port, last: *port };
    options.services = ports.iter().map(range).collect();
    let socket = default_socket();
    if Session::connect(&socket).is_ok() {
        options.source = CardSource::Daemon(DaemonCard::new(socket));
    }
    let attachment = Attachment::open(&options).map_err(|error| error.to_string())?;
    let frame_size = MemoryPlan::frame_size_for(attachment.mtu());
    let plan = MemoryPlan { frame_size, ..MemoryPlan::default() };
    let queue = attachment.open_queue(0, plan).map_err(|error| error.to_string())?;
    let seed = entropy().map_err(|error| format!("no entropy: {error}"))?;
    let mut runtime = Runtime::new(Box::new(queue), attachment.config().clone(), seed);
    let stop = StopHandle::new().map_err(|error| error.to_string())?;
    let asked = stop.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("signals: {error}"))?;
    std::thread::spawn(move || signals.forever().for_each(|_| asked.request()));
    runtime.start(&mut service).map_err(|error| error.to_string())?;
    println!("{} serves at {}", std::env::args().next().unwrap_or_default(), address.ip());
    runtime.run(&mut service, &stop, RuntimeOptions::default(), &mut |_, _| {}).map_err(|error| error.to_string())
}

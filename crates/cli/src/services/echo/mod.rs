//! `qanat echo`: what comes in goes back, four ways.

use crate::host::addresses::AddressWatch;
use crate::host::app_cores;
use crate::host::attach::AttachArguments;
use crate::host::card::{self, Card, Failure};
use crate::host::net_core_watch::NetCoreWatch;
use crate::host::placement::{PlacementArguments, Request};
use crate::host::privilege::{Privilege, PrivilegeArguments};
use crate::host::report::stack_report;
use crate::live::{Printer, grouped};
use crate::log;
use crate::signals::{Signals, hangups};
use clap::{Args, ValueEnum};
use qanat::confine::Places;
use qanat::nic::af_xdp::PortRange;
use qanat::nic::breakdown;
use qanat::nic::memif::MemifLink;
use qanat::nic::{MemoryPlan, Vnic};
use qanat::{Config, PROTOCOL_TCP, PROTOCOL_UDP, Runtime, RuntimeOptions, StopHandle, entropy};
use qanat_echo::kernel::{self, KernelMode};
use qanat_echo::{EchoConfig, EchoService, Figures, LinkChoice, OpenLink, RawEcho, own_mac};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a memif connection and signals are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Send back what comes: to measure stacks, links and drivers by
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat echo                               UDP and TCP at 10.77.0.2:7, on a virtual interface of its own
  sudo qanat echo --raw                         in the driver: addresses swapped, no stack
  sudo qanat echo --placement split             the stack in a process of its own, a net core
  sudo qanat echo --user echo                   as that user (default: who called sudo, or nobody), without root's rights
  qanat echo --link memif:/tmp/echo.sock        over shared memory with another process: no root, no kernel
  qanat echo --kernel epoll --port 7007         over kernel sockets, to compare with: a datagram a call
  qanat echo --kernel uring --batch --port 7007  by io_uring, as many as there are in a call
  qanat load udp 10.77.0.2:7 --link memif-slave:/tmp/echo.sock     the other end
Signal USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause.
The kernel on the other end of a veth leaves its checksums to the peer, and --raw only swaps: for kernel clients
`ethtool -K qanat0 tx off` first.")]
pub struct Arguments {
    /// In the driver itself: addresses swapped, the buffer sent back
    #[arg(long, conflicts_with_all = ["copies", "kernel", "udp", "tcp"])]
    raw: bool,
    /// Copy each payload out of its frame and into a new one, as a POSIX interface would
    #[arg(long, conflicts_with = "kernel")]
    copies: bool,
    /// UDP only
    #[arg(long, conflicts_with = "tcp")]
    udp: bool,
    /// TCP only
    #[arg(long)]
    tcp: bool,
    /// Over a kernel socket (UDP)
    #[arg(long, value_enum)]
    kernel: Option<Kernel>,
    /// With --kernel: up to 64 datagrams a system call
    #[arg(long, requires = "kernel")]
    batch: bool,
    /// Link: veth, memif:SOCKET (this end listens), memif-slave:SOCKET (it connects)
    #[arg(long, value_name = "LINK", default_value = "veth")]
    link: LinkChoice,
    /// Descriptors of a memif ring, as a power of two (the slave's choice)
    #[arg(long, value_name = "LOG2", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=14))]
    ring: u8,
    /// Port
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Figures as JSON, a line each second
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    attach: AttachArguments,
    #[command(flatten)]
    placement: PlacementArguments,
    #[command(flatten)]
    privilege: PrivilegeArguments,
    /// Connections and counters were asked for, by a signal.
    #[arg(skip)]
    report: Arc<AtomicBool>,
}

/// How kernel sockets are used.
#[derive(Clone, Copy, ValueEnum)]
enum Kernel {
    /// Behind epoll: recvfrom and sendto, or recvmmsg and sendmmsg
    Epoll,
    /// io_uring: one receive that goes on, buffers the kernel takes itself
    Uring,
}

/// Prints what is done, and stops when told.
struct Show {
    printer: Printer,
    before: Figures,
    /// By devices that are gone.
    ended: Figures,
    at: Instant,
}

impl Show {
    fn announce(&self, what: &str, address: &str, link: &str) {
        if self.printer.is_json() {
            let line = serde_json::json!({ "event": "echoing", "what": what, "address": address, "link": link });
            self.printer.lasting(line.to_string());
        } else {
            self.printer.lasting(format!("Echoing {what} at {address} over {link}  (Ctrl-C stops)"));
        }
    }

    fn say(&self, text: &str) {
        if self.printer.is_json() {
            self.printer.lasting(serde_json::json!({ "event": "link", "text": text }).to_string());
        } else {
            self.printer.lasting(text.to_owned());
        }
    }

    /// One device's part is over.
    fn ends(&mut self, figures: &Figures) {
        self.ended = Figures { connections: 0, ..self.with_ended(figures) };
    }

    fn with_ended(&self, figures: &Figures) -> Figures {
        Figures {
            echoed: figures.echoed + self.ended.echoed,
            bytes: figures.bytes + self.ended.bytes,
            dropped: figures.dropped + self.ended.dropped,
            connections: figures.connections,
        }
    }

    fn figures(&mut self, figures: &Figures) {
        let figures = &self.with_ended(figures);
        let elapsed_s = self.at.elapsed().as_secs_f64();
        if elapsed_s < SHOW_INTERVAL.as_secs_f64() {
            return;
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed_s;
        let packets_per_s = rate(figures.echoed, self.before.echoed);
        let gbit_per_s = rate(figures.bytes, self.before.bytes) * 8e-9;
        if self.printer.is_json() {
            let line = serde_json::json!({
                "event": "figures", "packets_per_s": packets_per_s, "gbit_per_s": gbit_per_s, "echo": figures,
            });
            self.printer.live(line.to_string());
        } else if packets_per_s > 0.0 || self.before == Figures::default() {
            self.printer.live(format!(
                "{} packets/s  {gbit_per_s:.2} Gbit/s  {} echoed  {} dropped  {} connections",
                grouped(packets_per_s as u64),
                grouped(figures.echoed),
                grouped(figures.dropped),
                figures.connections,
            ));
        }
        self.before = *figures;
        self.at = Instant::now();
    }

    fn finish(&self) {
        let figures = &self.ended;
        if self.printer.is_json() {
            let mut line = serde_json::json!({ "event": "stopped", "echo": figures });
            if let Some(counted) = breakdown::report() {
                let phases = counted.phases_ns.iter().map(|(phase, ns)| (phase.name().to_owned(), (*ns).into()));
                line["breakdown"] = serde_json::json!({
                    "turns": counted.turns,
                    "own_cost_ns": counted.own_cost_ns,
                    "phases_ns": serde_json::Map::from_iter(phases),
                });
            }
            self.printer.last(line.to_string());
        } else {
            self.printer.last(format!(
                "Echoed {} packets, {} bytes, dropped {}.",
                grouped(figures.echoed),
                grouped(figures.bytes),
                grouped(figures.dropped)
            ));
        }
    }
}

/// How packets come.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// By a card, which is told of when they can.
    Veth(&'a Card),
    /// Its peers come and go, and are told of.
    Memif(&'a MemifLink),
}

impl Way<'_> {
    fn is_up(self) -> bool {
        match self {
            Way::Veth(_) => true,
            Way::Memif(link) => link.is_up(),
        }
    }
}

impl Arguments {
    fn config(&self) -> EchoConfig {
        EchoConfig { port: self.port, udp: !self.tcp, tcp: !self.udp, copies: self.copies }
    }

    /// Of an address shared with the kernel.
    fn services(&self) -> [PortRange; 2] {
        [PROTOCOL_UDP, PROTOCOL_TCP].map(|protocol| PortRange { protocol, first: self.port, last: self.port })
    }

    fn what(&self) -> &'static str {
        match (self.raw, self.udp, self.tcp) {
            (true, ..) => "everything",
            (_, true, _) => "UDP",
            (_, _, true) => "TCP",
            _ => "UDP and TCP",
        }
    }

    fn memory(&self) -> MemoryPlan {
        let frame_size = MemoryPlan::frame_size_for(self.attach.mtu);
        MemoryPlan { frame_size, receive_frames: 4_096, transmit_frames: 4_096, prepared_frames: 0 }
    }

    /// Echoes over one device until told to stop, or its link or card is gone.
    fn serve<V: Vnic + 'static>(
        &self,
        vnic: V,
        config: Config,
        way: Way<'_>,
        stop: &StopHandle,
        show: &mut Show,
    ) -> Result<(), Failure> {
        // Costs nothing, and does nothing, unless built to count cycles.
        let vnic = breakdown::metered(vnic);
        let announce = |show: &Show| match way {
            Way::Veth(card) if !card.tell_return() => {
                show.announce(self.what(), &self.place(card), card.attachment.driver());
            }
            Way::Veth(_) | Way::Memif(_) => {}
        };
        if self.raw {
            announce(show);
            return self.serve_raw(vnic, way, stop, show);
        }
        let mut service = EchoService::new(self.config());
        let given: Vec<IpAddr> = config.addresses.iter().map(|(address, _)| *address).collect();
        let seed = entropy().map_err(|error| format!("no entropy: {error}"))?;
        let mut runtime = Runtime::new(Box::new(vnic), config, seed);
        // Ends this session: by the user, or with the link.
        let session = StopHandle::new().map_err(|error| format!("doorbell: {error}"))?;
        let options =
            RuntimeOptions { spin: self.attach.spin.into(), observe_every: LOOK_INTERVAL, grace: Duration::ZERO };
        let mut watch = AddressWatch::new(&given);
        if let Way::Veth(card) = way {
            card.watch(&mut runtime)?;
        }
        runtime.start(&mut service)?;
        announce(show);
        let outcome = runtime.run(&mut service, &session, options, &mut |service, runtime| {
            watch.show(&show.printer, runtime);
            if self.report.swap(false, Ordering::Acquire) {
                // By a thread of its own: standard error may block, the data path must not.
                let text = stack_report(runtime, None);
                std::thread::spawn(move || log::report(&text));
            }
            show.figures(&service.figures());
            if stop.is_requested() || !way.is_up() {
                session.request();
            }
        });
        show.ends(&service.figures());
        Ok(outcome?)
    }

    /// In the driver.
    fn serve_raw<V: Vnic>(&self, vnic: V, way: Way<'_>, stop: &StopHandle, show: &mut Show) -> Result<(), Failure> {
        let mut echo = RawEcho::new(vnic);
        let looked_at = Cell::new(Instant::now());
        let lost = Cell::new(None);
        let goes_on = |vnic: &V| {
            if looked_at.get().elapsed() >= LOOK_INTERVAL {
                looked_at.set(Instant::now());
                lost.set(match way {
                    Way::Veth(card) if card.is_lost(vnic) => Some(card),
                    _ => None,
                });
            }
            way.is_up() && lost.get().is_none()
        };
        let outcome = echo.run(stop, self.attach.spin.into(), &goes_on, &mut |figures| show.figures(figures));
        show.ends(&echo.figures());
        outcome.map_err(|error| Failure::Other(format!("waiting for packets: {error}")))?;
        lost.get().map_or(Ok(()), |card| Err(card.failure()))
    }

    /// Where it is reached.
    fn place(&self, card: &Card) -> String {
        let address = card.attachment.addresses().first().map_or_else(String::new, |address| address.to_string());
        format!("{address}:{}", self.port)
    }
}

/// Runs the echo until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    if arguments.placement.app_cores > 1 {
        // Its processes give up their rights, each by itself.
        Privilege::of(&arguments.privilege, "echo", false)?;
        return app_cores::run(&arguments.placement, &arguments.attach, &arguments.services(), hangups()?);
    }
    let stop = StopHandle::new().map_err(|error| format!("doorbell: {error}"))?;
    let mut signals = Some(hangups()?.of_led(arguments.placement.app_core));
    let mut obey = || signals.take().map_or(Ok(()), |signals| stop_on_signals(signals, stop.clone()));
    flag::register(SIGUSR1, Arc::clone(&arguments.report)).map_err(|error| format!("handling signals: {error}"))?;
    let printer = Printer::new(arguments.json);
    let mut show = Show { printer, before: Figures::default(), ended: Figures::default(), at: Instant::now() };
    if arguments.placement.is_split() {
        run_split(arguments, &stop, &mut show, &mut obey)?
    } else if let Some(mode) = arguments.kernel {
        obey()?;
        run_kernel(arguments, mode, &stop, &mut show)?
    } else {
        match &arguments.link {
            LinkChoice::Veth => run_veth(arguments, &stop, &mut show, &mut obey)?,
            LinkChoice::Memif { socket, master } => {
                obey()?;
                let link = OpenLink::memif(
                    socket.clone(),
                    *master,
                    own_mac(true),
                    arguments.attach.mtu as u16,
                    arguments.ring,
                    arguments.memory(),
                )?;
                run_memif(arguments, &link, &stop, &mut show)?
            }
            LinkChoice::Pair => {
                return Err("a pair's two ends are in one process: `qanat load udp 10.77.0.2:7 --link pair` has the \
                            echo in it"
                    .to_owned());
            }
        }
    }
    show.finish();
    Ok(())
}

/// INT, TERM and a closed terminal end it. It has nothing to reload.
fn stop_on_signals(mut signals: Signals, stop: StopHandle) -> Result<(), String> {
    signals.also_handle(&[SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            if stop.is_requested() {
                crate::exit::by_signal(signal);
            }
            stop.request();
        }
    });
    Ok(())
}

fn run_kernel(arguments: &Arguments, mode: Kernel, stop: &StopHandle, show: &mut Show) -> Result<(), String> {
    let mode = match (mode, arguments.batch) {
        (Kernel::Epoll, false) => KernelMode::Single,
        (Kernel::Epoll, true) => KernelMode::Batch,
        (Kernel::Uring, false) => KernelMode::UringSingle,
        (Kernel::Uring, true) => KernelMode::UringBatch,
    };
    let polls = arguments.attach.spin == crate::host::attach::Spin::Always;
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), arguments.port);
    let shared = std::cell::RefCell::new(&mut *show);
    let mut ready = |address: SocketAddr| shared.borrow().announce("UDP", &address.to_string(), "kernel sockets");
    let mut observe = |figures: &Figures| shared.borrow_mut().figures(figures);
    let figures = kernel::run(local, mode, polls, stop, &mut ready, &mut observe);
    show.ends(&figures.map_err(|error| format!("port {local}: {error}"))?);
    Ok(())
}

/// `obey` begins to heed signals, by a thread: once the rights are given up.
fn run_veth(
    arguments: &Arguments,
    stop: &StopHandle,
    show: &mut Show,
    obey: &mut dyn FnMut() -> Result<(), String>,
) -> Result<(), String> {
    let privilege = Privilege::of(&arguments.privilege, "echo", arguments.placement.app_core)?;
    let services = arguments.services().to_vec();
    card::serve(&arguments.attach, services, 1, &|| stop.is_requested(), |card| {
        let attachment = &card.attachment;
        let vnic = attachment.open_queue(0, arguments.memory()).map_err(|error| error.to_string())?;
        privilege.give_up(Places::default())?;
        obey()?;
        arguments.serve(vnic, attachment.config().clone(), Way::Veth(card), stop, show)
    })
}

/// The stack on a net core: the service is the same.
fn run_split(
    arguments: &Arguments,
    stop: &StopHandle,
    show: &mut Show,
    obey: &mut dyn FnMut() -> Result<(), String>,
) -> Result<(), String> {
    if arguments.raw || arguments.kernel.is_some() || arguments.link != LinkChoice::Veth {
        return Err("the split placement is for the stack over veth: without --raw, --kernel and --link".to_owned());
    }
    let services = arguments.services();
    let privilege = Privilege::of(&arguments.privilege, "echo", arguments.placement.app_core)?;
    let request = Request::new("echo", &services, 16_384);
    let mut placed = arguments.placement.attach(&arguments.attach, &request, &privilege)?;
    privilege.give_up(Places::default())?;
    obey()?;
    let address = placed.runtime.addresses().first().map_or_else(String::new, |address| address.to_string());
    let mut service = EchoService::new(arguments.config());
    placed.runtime.start(&mut service).map_err(|error| error.to_string())?;
    show.announce(arguments.what(), &format!("{address}:{}", arguments.port), "a net core's veth");
    let options =
        RuntimeOptions { spin: arguments.attach.spin.into(), observe_every: LOOK_INTERVAL, grace: Duration::ZERO };
    let mut watch = NetCoreWatch::new();
    let outcome = placed.runtime.run(&mut service, stop, options, &mut |service, runtime| {
        watch.show(runtime);
        show.figures(&service.figures());
    });
    watch.show(&placed.runtime);
    drop(placed);
    show.ends(&service.figures());
    outcome.map_err(|error| error.to_string())
}

fn run_memif(arguments: &Arguments, link: &OpenLink, stop: &StopHandle, show: &mut Show) -> Result<(), String> {
    let own = arguments.attach.address;
    show.announce(arguments.what(), &format!("{}:{}", own.address, arguments.port), "memif");
    while !stop.is_requested() {
        let Some(device) = link.next(LOOK_INTERVAL, &mut |text| show.say(&text))? else { continue };
        let fate = device.link().clone();
        show.say(&format!("memif: {} is connected", fate.peer()));
        let vnic = device.open().map_err(|error| error.to_string())?;
        let config = Config::new(own.address, own.length);
        arguments.serve(vnic, config, Way::Memif(&fate), stop, show).map_err(Failure::text)?;
        if let Some(reason) = fate.reason() {
            show.say(&format!("memif: {reason}"));
        }
        if !link.is_master() {
            break;
        }
    }
    Ok(())
}

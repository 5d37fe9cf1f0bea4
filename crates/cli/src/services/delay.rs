//! `qanat delay`: a network emulator between two interfaces.

use crate::daemon::short;
use crate::host::attach::namespace;
use crate::live::{Printer, grouped};
use crate::signals;
use clap::Args;
use qanat_delay::{
    Bursts, DelayConfig, Emulator, Figures, Impairments, Lab, LabConfig, LaneFigures, ParseError, Port, QueueLimit,
    Rate, RunningEmulator, Spin, bands, bursts, duration, percentage, queue_limit, rate,
};
use qanat_nic::link;
use signal_hook::flag;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often signals are looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// Emulate a network between two interfaces: delay, loss, rate
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat delay eth1 eth2 --delay 20ms                   a round trip of 40 ms between what is behind them
  sudo qanat delay eth1 eth2 --delay 10ms..40ms             each flow its own constant delay, by a hash
  sudo qanat delay eth1 eth2 --delay 50ms --rate 100mbit --queue 64kb --loss 0.1%
  sudo qanat delay eth1 eth2 --backward-delay 30ms          only from eth2 to eth1
  sudo qanat delay v1 v2 --netns1 left --netns2 right       interfaces of two network namespaces
  sudo qanat delay --lab --delay 20ms                       two new namespaces with it between them, to try
Each option holds for both directions; --forward-… (first to second interface) and --backward-… hold for one.
Everything that arrives at one interface leaves by the other; the kernel sees none of it.")]
pub struct Arguments {
    /// First interface
    #[arg(required_unless_present = "lab", value_name = "IF1")]
    first: Option<String>,
    /// Second interface
    #[arg(required_unless_present = "lab", value_name = "IF2")]
    second: Option<String>,
    /// Network namespace of the first interface: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAME")]
    netns1: Option<String>,
    /// Network namespace of the second interface
    #[arg(long, value_name = "NAME")]
    netns2: Option<String>,
    /// Make two namespaces joined through the emulator, and say how to enter them
    #[arg(long, conflicts_with_all = ["first", "second", "netns1", "netns2"])]
    lab: bool,
    /// Queues, a thread for each (default: as many as both interfaces have)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    queues: Option<u32>,
    /// Of all chances, and of the hash that chooses a flow's delay
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Packets held at most, per direction and queue
    #[arg(long, value_name = "PACKETS", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    held: u32,
    /// When an idle thread sleeps: always spinning adds the least jitter
    #[arg(long, value_enum, default_value_t)]
    spin: crate::host::attach::Spin,
    /// Figures as JSON, a line each second
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    both: Both,
    #[command(flatten)]
    forward: Forward,
    #[command(flatten)]
    backward: Backward,
}

/// `clap` takes a plain `Vec` for an option that may be repeated.
#[derive(Clone, Debug)]
struct Bands(Vec<Duration>);

fn parse_bands(text: &str) -> Result<Bands, ParseError> {
    bands(text).map(Bands)
}

/// The same options three times: for both directions, and for each.
macro_rules! impairments {
    ($name:ident, $prefix:literal, $heading:literal, $hide:literal) => {
        #[derive(Args, Clone)]
        #[command(next_help_heading = $heading)]
        struct $name {
            /// One-way delay; several (10ms,40ms) or a range (10ms..40ms): each flow gets one by a hash
            #[arg(id = concat!($prefix, "delay"), long = concat!($prefix, "delay"), value_name = "TIME", value_parser = parse_bands, hide_short_help = $hide)]
            delay: Option<Bands>,
            /// Chance to lose a packet
            #[arg(id = concat!($prefix, "loss"), long = concat!($prefix, "loss"), value_name = "PERCENT", value_parser = percentage, hide_short_help = $hide)]
            loss: Option<u32>,
            /// Losses in bursts (Gilbert-Elliott): chances that a burst begins, and ends; loss within one (100%), outside (0%)
            #[arg(id = concat!($prefix, "bursts"), long = concat!($prefix, "bursts"), value_name = "BEGIN,END[,IN[,OUT]]", value_parser = bursts, hide_short_help = $hide)]
            bursts: Option<Bursts>,
            /// Chance to hold a packet back, so that later ones overtake it
            #[arg(id = concat!($prefix, "reorder"), long = concat!($prefix, "reorder"), value_name = "PERCENT", value_parser = percentage, hide_short_help = $hide)]
            reorder: Option<u32>,
            /// How long such a packet is held back (1ms)
            #[arg(id = concat!($prefix, "reorder-by"), long = concat!($prefix, "reorder-by"), value_name = "TIME", value_parser = duration, hide_short_help = $hide)]
            reorder_by: Option<Duration>,
            /// Chance to send a packet twice
            #[arg(id = concat!($prefix, "duplicate"), long = concat!($prefix, "duplicate"), value_name = "PERCENT", value_parser = percentage, hide_short_help = $hide)]
            duplicate: Option<u32>,
            /// Chance to change a bit of a packet
            #[arg(id = concat!($prefix, "corrupt"), long = concat!($prefix, "corrupt"), value_name = "PERCENT", value_parser = percentage, hide_short_help = $hide)]
            corrupt: Option<u32>,
            /// Rate of the bottleneck, as in 100mbit
            #[arg(id = concat!($prefix, "rate"), long = concat!($prefix, "rate"), value_name = "RATE", value_parser = rate, hide_short_help = $hide)]
            rate: Option<Rate>,
            /// What may wait for the bottleneck: packets (1000) or bytes (64kb); what finds it full is lost
            #[arg(id = concat!($prefix, "queue"), long = concat!($prefix, "queue"), value_name = "LENGTH", value_parser = queue_limit, hide_short_help = $hide)]
            queue: Option<QueueLimit>,
        }

        impl $name {
            /// Puts what was asked for over `base`.
            fn over(&self, mut base: Impairments) -> Impairments {
                if let Some(Bands(bands)) = &self.delay {
                    base.bands.clone_from(bands);
                }
                base.loss_ppm = self.loss.unwrap_or(base.loss_ppm);
                base.bursts = self.bursts.or(base.bursts);
                base.reorder_ppm = self.reorder.unwrap_or(base.reorder_ppm);
                base.reorder_by = self.reorder_by.unwrap_or(base.reorder_by);
                base.duplicate_ppm = self.duplicate.unwrap_or(base.duplicate_ppm);
                base.corrupt_ppm = self.corrupt.unwrap_or(base.corrupt_ppm);
                base.rate = self.rate.or(base.rate);
                base.queue = self.queue.unwrap_or(base.queue);
                base
            }
        }
    };
}

impairments!(Both, "", "Both directions", false);
impairments!(Forward, "forward-", "From IF1 to IF2 only", true);
impairments!(Backward, "backward-", "From IF2 to IF1 only", true);

impl Arguments {
    fn ports(&self, lab: Option<&Lab>) -> Result<[Port; 2], String> {
        if let Some(lab) = lab {
            return Ok(lab.ports());
        }
        let port = |interface: &Option<String>, netns: &Option<String>| -> Result<Port, String> {
            let interface = interface.clone().unwrap_or_default();
            Ok(Port { interface, namespace: namespace(netns.as_deref())? })
        };
        Ok([port(&self.first, &self.netns1)?, port(&self.second, &self.netns2)?])
    }

    fn config(&self, lab: Option<&Lab>) -> Result<DelayConfig, String> {
        let mut config = DelayConfig::new("", "");
        config.ports = self.ports(lab)?;
        let both = self.both.over(Impairments::default());
        config.forward = self.forward.over(both.clone());
        config.backward = self.backward.over(both);
        config.queues = match self.queues {
            Some(count) => count,
            None => config.ports.iter().map(receive_queues).min().unwrap_or(1),
        };
        config.seed = self.seed;
        config.held_frames_max = self.held;
        config.spin = match self.spin {
            crate::host::attach::Spin::Adaptive => Spin::Adaptive,
            crate::host::attach::Spin::Always => Spin::Always,
            crate::host::attach::Spin::Never => Spin::Never,
        };
        Ok(config)
    }
}

/// Receive queues of an interface; 1 if there is none: attaching says what is wrong.
fn receive_queues(port: &Port) -> u32 {
    let look = || link::link(&port.interface).map_or(1, |link| link.receive_queues);
    let count = match &port.namespace {
        Some(namespace) => namespace.within(look).unwrap_or(1),
        None => look(),
    };
    count.clamp(1, 64)
}

/// Runs the emulator until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let lab = match arguments.lab {
        true => {
            let config = LabConfig { queues: arguments.queues.unwrap_or(1), ..LabConfig::default() };
            Some(Lab::create(config).map_err(|error| error.to_string())?)
        }
        false => None,
    };
    let config = arguments.config(lab.as_ref())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals::ends() {
        flag::register(signal, Arc::clone(&stop)).map_err(|error| format!("handling signals: {error}"))?;
    }
    let emulator = Emulator::start(&config).map_err(|error| error.to_string())?;
    let printer = Printer::new(arguments.json);
    announce(&printer, &config, &emulator, lab.as_ref());
    let mut meter = Meter { before: Figures::default(), at: Instant::now() };
    while !stop.load(Ordering::Relaxed) && emulator.is_running() {
        std::thread::sleep(LOOK_INTERVAL);
        if meter.at.elapsed() >= SHOW_INTERVAL {
            meter.show(&printer, &emulator.figures());
        }
    }
    let was_told = stop.load(Ordering::Relaxed);
    finish(&printer, &emulator.stop());
    if was_told { Ok(()) } else { Err("a forwarding thread died: please report it".to_owned()) }
}

fn announce(printer: &Printer, config: &DelayConfig, emulator: &RunningEmulator, lab: Option<&Lab>) {
    let names = emulator.interfaces().each_ref().map(|interface| interface.link().name.clone());
    let paths: Option<[String; 2]> = lab.map(|lab| {
        let path =
            |number: usize| format!("/proc/{}/fd/{}", std::process::id(), lab.namespaces()[number].as_fd().as_raw_fd());
        [path(0), path(1)]
    });
    if printer.is_json() {
        let line = serde_json::json!({
            "event": "forwarding", "interfaces": names, "queues": config.queues, "seed": config.seed,
            "shares_memory": emulator.shares_memory(), "namespaces": paths,
        });
        printer.lasting(line.to_string());
        return;
    }
    printer.lasting(format!("Forwarding between {} and {}  (Ctrl-C stops)", names[0], names[1]));
    if let Some([first, second]) = paths {
        printer.lasting(format!("  {}: nsenter --net={first}", Lab::ADDRESSES[0]));
        printer.lasting(format!("  {}: nsenter --net={second}", Lab::ADDRESSES[1]));
    }
    if !emulator.shares_memory() {
        printer.lasting("  The interfaces can't share memory: each frame is copied once.".to_owned());
    }
    for interface in emulator.interfaces() {
        let link = interface.link();
        if link.receive_queues > config.queues {
            printer.lasting(format!(
                "  {} has {} receive queues: what comes by the last {} is not forwarded; use --queues or `ethtool -L`",
                link.name,
                link.receive_queues,
                link.receive_queues - config.queues,
            ));
        }
    }
}

/// Turns counters into rates.
struct Meter {
    before: Figures,
    at: Instant,
}

impl Meter {
    fn show(&mut self, printer: &Printer, figures: &Figures) {
        let elapsed_s = self.at.elapsed().as_secs_f64().max(1e-3);
        let rates = |now: &LaneFigures, before: &LaneFigures| {
            let packets_per_s = (now.sent - before.sent) as f64 / elapsed_s;
            let mbit_per_s = (now.sent_bytes - before.sent_bytes) as f64 * 8e-6 / elapsed_s;
            (packets_per_s, mbit_per_s)
        };
        let forward = rates(&figures.forward, &self.before.forward);
        let backward = rates(&figures.backward, &self.before.backward);
        if printer.is_json() {
            let line = serde_json::json!({
                "event": "figures",
                "forward_packets_per_s": forward.0, "forward_mbit_per_s": forward.1,
                "backward_packets_per_s": backward.0, "backward_mbit_per_s": backward.1,
                "delay": figures,
            });
            printer.live(line.to_string());
        } else {
            let way = |arrow: &str, (packets_per_s, mbit_per_s): (f64, f64), lane: &LaneFigures| {
                format!(
                    "{arrow} {} packets/s {}bit/s {} lost",
                    short(packets_per_s as u64),
                    short((mbit_per_s * 1e6) as u64),
                    short(lost(lane)),
                )
            };
            printer
                .live(format!("{}  {}", way("→", forward, &figures.forward), way("←", backward, &figures.backward),));
        }
        self.before = *figures;
        self.at = Instant::now();
    }
}

/// Lost by chance or by the queue: what was asked for.
fn lost(lane: &LaneFigures) -> u64 {
    lane.lost + lane.lost_in_bursts + lane.queue_full
}

/// Lost by shortage: what was not asked for.
fn dropped(lane: &LaneFigures) -> u64 {
    lane.held_full + lane.oversize + lane.copy_failed + lane.receive_dropped + lane.transmit_lost
}

fn micros(nanos: u64) -> String {
    format!("{:.1} µs", nanos as f64 / 1e3)
}

fn finish(printer: &Printer, figures: &Figures) {
    if printer.is_json() {
        printer.last(serde_json::json!({ "event": "stopped", "delay": figures }).to_string());
        return;
    }
    for (arrow, lane) in [("→", &figures.forward), ("←", &figures.backward)] {
        printer.last(format!(
            "{arrow} {} packets in, {} out: {} lost, {} in bursts, {} at the full queue; {} doubled, {} held back, \
             {} damaged; {} dropped for want of room",
            grouped(lane.received),
            grouped(lane.sent),
            grouped(lane.lost),
            grouped(lane.lost_in_bursts),
            grouped(lane.queue_full),
            grouped(lane.duplicated),
            grouped(lane.reordered),
            grouped(lane.corrupted),
            grouped(dropped(lane)),
        ));
    }
    let jitter = figures.jitter;
    printer.last(format!(
        "Sent later than due: median {}, 99% {}, 99.9% {}, most {}",
        micros(jitter.median_ns),
        micros(jitter.p99_ns),
        micros(jitter.p999_ns),
        micros(jitter.max_ns),
    ));
}

//! The emulator as a whole: attached, started, watched, stopped.

use crate::bottleneck::Bottleneck;
use crate::config::{ConfigError, DelayConfig, Impairments};
use crate::figures::{Figures, LaneFigures, Lateness, Report};
use crate::forwarder::Forwarder;
use crate::lane::SharedBottleneck;
use qanat_nic::af_xdp::{AttachConfig, Interface, QueueOpener, Rule};
use qanat_nic::{AfXdp, DeviceError, MemoryPlan, MonotonicClock, open_pair};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Frames beyond those held: in the kernel's hands, and in the receive ring.
const RING_FRAMES: u32 = 4_096;
/// For copies, of which few are under way unless duplicates are asked for.
const COPY_FRAMES: u32 = 2_048;
/// Longest MTU that fits a frame of 4,096 bytes behind the kernel's 256 bytes of headroom, link header included.
const MTU_MAX: u32 = 3_498;

/// Why the emulator could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum DelayError {
    /// A number is out of its range.
    #[error("{0}")]
    Config(ConfigError),
    /// An interface can't be had.
    #[error("{0}")]
    Device(DeviceError),
    /// Something else of the system fails.
    #[error("{0}")]
    System(String),
}

impl From<DeviceError> for DelayError {
    fn from(error: DeviceError) -> DelayError {
        DelayError::Device(error)
    }
}

/// Starts emulators.
pub struct Emulator;

/// A running emulator. Dropping it stops it and gives both interfaces back.
pub struct RunningEmulator {
    interfaces: [Interface; 2],
    threads: Vec<JoinHandle<()>>,
    reports: Vec<Arc<Mutex<Report>>>,
    stop: Arc<AtomicBool>,
    shares_memory: bool,
}

impl Emulator {
    /// Attaches to both interfaces and forwards, on a thread for each queue.
    ///
    /// # Errors
    /// A number out of range; those of [`Interface::attach`] and [`QueueOpener::open`]; an MTU above 3,498.
    pub fn start(config: &DelayConfig) -> Result<RunningEmulator, DelayError> {
        config.check().map_err(DelayError::Config)?;
        let [first, second] = &config.ports;
        let attach = |port: &crate::config::Port| {
            Interface::attach(AttachConfig {
                interface: port.interface.clone(),
                namespace: port.namespace.clone(),
                queues: config.queues,
                rules: vec![Rule::everything()],
                injection: false,
                ..AttachConfig::default()
            })
        };
        let interfaces = [attach(first)?, attach(second)?];
        for interface in &interfaces {
            let link = interface.link();
            if link.mtu > MTU_MAX {
                let (name, mtu) = (&link.name, link.mtu);
                return Err(DelayError::System(format!(
                    "the MTU of {name} is {mtu}: at most {MTU_MAX}; lower it with `ip link set {name} mtu 1500`"
                )));
            }
        }
        let plan = plan(config, interfaces.iter().map(|interface| interface.link().mtu).max().unwrap_or(1_500));
        let bottlenecks = [bottleneck(&config.forward), bottleneck(&config.backward)];
        let mut running = RunningEmulator {
            threads: Vec::new(),
            reports: Vec::new(),
            stop: Arc::new(AtomicBool::new(false)),
            shares_memory: true,
            interfaces,
        };
        let clock = MonotonicClock::new();
        let openers = running.interfaces[0].openers().into_iter().zip(running.interfaces[1].openers());
        for (queue, pair) in openers.enumerate() {
            let (ready, started) = sync_channel(1);
            let work = Work {
                config: config.clone(),
                queue: queue as u32,
                openers: pair.into(),
                plan,
                bottlenecks: bottlenecks.clone(),
                clock,
                stop: Arc::clone(&running.stop),
                report: Arc::new(Mutex::new(Report::new())),
            };
            running.reports.push(Arc::clone(&work.report));
            let thread = std::thread::Builder::new().name(format!("qanat-delay-{queue}"));
            let thread = thread.spawn(move || work.run(&ready));
            running.threads.push(thread.map_err(|error| DelayError::System(format!("starting a thread: {error}")))?);
            let died = |_| DelayError::System("a forwarding thread died at its start".to_owned());
            running.shares_memory &= started.recv().map_err(died)??;
        }
        Ok(running)
    }
}

/// What a thread takes with it.
struct Work {
    config: DelayConfig,
    queue: u32,
    openers: [QueueOpener; 2],
    plan: MemoryPlan,
    bottlenecks: [Option<SharedBottleneck>; 2],
    clock: MonotonicClock,
    stop: Arc<AtomicBool>,
    report: Arc<Mutex<Report>>,
}

impl Work {
    fn run(self, ready: &SyncSender<Result<bool, DelayError>>) {
        // The default of 50 µs would be added to every sleep. Without it there is just more jitter.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let (vnics, shares_memory) = match open(self.openers, self.plan) {
            Ok(opened) => opened,
            Err(error) => {
                let _ = ready.send(Err(error.into()));
                return;
            }
        };
        let mut forwarder = Forwarder::new(&self.config, self.queue, vnics, self.bottlenecks, self.clock);
        let _ = ready.send(Ok(shares_memory));
        forwarder.run(self.config.spin, &self.stop, &self.report);
    }
}

/// Opens both queues, over one memory if the devices can.
fn open(openers: [QueueOpener; 2], plan: MemoryPlan) -> Result<([AfXdp; 2], bool), DeviceError> {
    let [first, second] = openers;
    match open_pair(first.clone(), second.clone(), plan) {
        Ok(pair) => Ok((pair.into(), true)),
        // Whatever is really wrong shows again.
        Err(_) => Ok(([first.open(plan)?, second.open(plan)?], false)),
    }
}

fn plan(config: &DelayConfig, mtu: u32) -> MemoryPlan {
    let copies = [&config.forward, &config.backward].iter().any(|impairments| impairments.duplicate_ppm > 0);
    MemoryPlan {
        frame_size: if mtu > 1_750 { 4_096 } else { 2_048 },
        receive_frames: config.held_frames_max + RING_FRAMES,
        transmit_frames: if copies { config.held_frames_max.max(COPY_FRAMES) } else { COPY_FRAMES },
        prepared_frames: 0,
    }
}

fn bottleneck(impairments: &Impairments) -> Option<SharedBottleneck> {
    impairments.rate.map(|rate| Arc::new(Mutex::new(Bottleneck::new(rate, impairments.queue))))
}

impl RunningEmulator {
    /// Counters and jitter, up to 100 ms old.
    pub fn figures(&self) -> Figures {
        let mut lanes = [LaneFigures::default(); 2];
        let mut lateness = Lateness::new();
        for report in &self.reports {
            let report = report.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.iter_mut().zip(&report.lanes).for_each(|(sum, lane)| sum.add(lane));
            lateness.add(&report.lateness);
        }
        Figures { forward: lanes[0], backward: lanes[1], jitter: lateness.figures() }
    }

    /// The same, of each queue by itself.
    pub fn queue_figures(&self) -> Vec<Figures> {
        let read = |report: &Arc<Mutex<Report>>| {
            let report = report.lock().unwrap_or_else(PoisonError::into_inner);
            Figures { forward: report.lanes[0], backward: report.lanes[1], jitter: report.lateness.figures() }
        };
        self.reports.iter().map(read).collect()
    }

    /// Whether frames go from one interface to the other without being copied by this process.
    pub fn shares_memory(&self) -> bool {
        self.shares_memory
    }

    /// The two interfaces.
    pub fn interfaces(&self) -> &[Interface; 2] {
        &self.interfaces
    }

    /// Whether all threads are at work. They end only by a bug.
    pub fn is_running(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Stops. What is held is dropped. The last figures.
    pub fn stop(mut self) -> Figures {
        self.join();
        self.figures()
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for RunningEmulator {
    fn drop(&mut self) {
        self.join();
    }
}

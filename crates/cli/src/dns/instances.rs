//! The instances of one server, each on a thread, with a stack and a queue of the card of its own. All answer from the same
//! catalogs and secrets; the first is the calling thread's, and speaks for all.

use crate::report::stack_report;
use qanat::nic::MemoryPlan;
use qanat::{Attachment, DuplicateAddressDetection, Runtime, RuntimeOptions, StopHandle, entropy};
use qanat_dns::service::{CatalogPublisher, DnsConfig, DnsService, Figures};
use qanat_dns::transfer::{PORTS, TransferFigures, Transfers};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

pub const DOORBELL_TOKEN: u64 = 1;
const RECEIVE_FRAMES: u32 = 8_192;
const TRANSMIT_FRAMES: u32 = 8_192;
/// Connections the stack takes beyond the service's limit, for the service to reset at once.
pub const REFUSALS: usize = 256;
/// Stands for the error of another instance.
const SEE_OTHERS: &str = "another queue's instance did not start";
/// Messages about transfers of the further instances that wait for the first.
const MESSAGES_MAX: usize = 256;

/// What an instance has done, as of its last look, at most a second ago.
#[derive(Clone, Copy, Default)]
pub struct Done {
    pub dns: Figures,
    pub transfers: TransferFigures,
}

impl Done {
    pub fn of(service: &mut DnsService) -> Done {
        Done { dns: service.figures(), transfers: service.transfers().figures() }
    }
}

/// What the instances of a server are made from.
pub struct Plan<'a> {
    pub attachment: &'a Attachment,
    pub publisher: &'a CatalogPublisher,
    pub config: &'a DnsConfig,
    /// Frames taken from the device at once.
    pub batch: usize,
    pub options: RuntimeOptions,
    /// The rate limiters'.
    pub secret: [u8; 16],
    pub control: Control,
}

/// What other threads have to do with the instances.
#[derive(Clone)]
pub struct Control {
    stops: Arc<[StopHandle]>,
    reports: Arc<AtomicU32>,
    done: Arc<[Mutex<Done>]>,
}

impl Control {
    /// Of so many instances.
    pub fn new(queues: u32) -> Result<Control, String> {
        let stops: Result<Vec<StopHandle>, _> = (0..queues).map(|_| StopHandle::new()).collect();
        Ok(Control {
            stops: stops.map_err(|error| format!("doorbell: {error}"))?.into(),
            reports: Arc::default(),
            done: (0..queues).map(|_| Mutex::default()).collect(),
        })
    }

    /// Asks all to stop; false: they were asked before.
    pub fn stop(&self) -> bool {
        let first = !self.stops.iter().any(StopHandle::is_requested);
        self.stops.iter().for_each(StopHandle::request);
        first
    }

    /// Of the first instance.
    pub fn first(&self) -> Result<&StopHandle, String> {
        self.stops.first().ok_or_else(|| "no queue".to_owned())
    }

    /// Asks all for a report on standard error.
    pub fn report(&self) {
        self.reports.fetch_add(1, Ordering::Release);
    }

    /// Of each instance.
    pub fn done(&self) -> Vec<Done> {
        self.done.iter().map(|done| *done.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    pub fn put(&self, queue: usize, now: Done) {
        if let Some(done) = self.done.get(queue) {
            *done.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }
}

/// Ends all when one ends, however it does.
struct EndsAll<'a>(&'a Control);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Sums.
pub fn sum(all: &[Done]) -> Done {
    let mut sum = Done::default();
    for done in all {
        sum.dns.add(&done.dns);
        sum.transfers.add(&done.transfers);
    }
    sum
}

/// What the first instance's thread is called back with about once a second.
pub struct Look<'a> {
    pub runtime: &'a Runtime,
    /// Of each instance.
    pub done: Vec<Done>,
    /// About transfers, for the operator.
    pub messages: Vec<String>,
    /// A report is wanted, of which each instance gives its stack's part.
    pub report: bool,
}

impl Plan<'_> {
    fn queues(&self) -> usize {
        self.control.stops.len()
    }

    /// Starts the further instances, calls `ready`, and runs until all have stopped; messages of the end are given back.
    /// `transfers` are the first instance's; `look` is quick.
    pub fn run(
        &self,
        transfers: Option<Transfers>,
        ready: impl FnOnce(),
        mut look: impl FnMut(&Look<'_>),
    ) -> Result<Vec<String>, String> {
        let siblings: Vec<Option<Transfers>> =
            (1..self.queues()).map(|_| transfers.as_ref().map(Transfers::sibling)).collect();
        let plan = self;
        let (messages, incoming) = sync_channel(MESSAGES_MAX);
        std::thread::scope(|scope| {
            let _ends_all = EndsAll(&plan.control);
            let further = Further::start(plan, siblings, &messages, scope);
            let outcome = further.and_then(|further| {
                let first = Instance::open(plan, 0, transfers).and_then(|first| {
                    further.wait_until_open()?;
                    ready();
                    first.run(plan, &incoming, &mut look)
                });
                plan.control.stop();
                // An instance's own error tells more than that another stopped because of it.
                let others = further.join();
                match first {
                    Err(error) if error != SEE_OTHERS => Err(error),
                    first => others.and(first),
                }
            });
            outcome.map(|mut last| {
                last.extend(incoming.try_iter());
                last
            })
        })
    }
}

struct Further<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Result<(), String>>>,
    opened: Receiver<()>,
}

impl<'scope> Further<'scope> {
    fn start<'env>(
        plan: &'scope Plan<'env>,
        siblings: Vec<Option<Transfers>>,
        messages: &SyncSender<String>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<Further<'scope>, String> {
        let (open, opened) = sync_channel(siblings.len());
        let mut threads = Vec::with_capacity(siblings.len());
        for (queue, transfers) in (1..).zip(siblings) {
            let (open, messages) = (open.clone(), messages.clone());
            let thread =
                std::thread::Builder::new().name(format!("qanat-dns-{queue}")).spawn_scoped(scope, move || {
                    let _ends_all = EndsAll(&plan.control);
                    let instance = Instance::open(plan, queue, transfers)?;
                    let _ = open.send(());
                    drop(open);
                    instance.run_further(plan, &messages)
                });
            threads.push(thread.map_err(|error| format!("starting a thread: {error}"))?);
        }
        Ok(Further { threads, opened })
    }

    /// All have opened their queue, or one has ended, whose error is told by [`join`](Further::join).
    fn wait_until_open(&self) -> Result<(), String> {
        // None fails but by the end of threads that did not get so far.
        let opened = self.threads.iter().map_while(|_| self.opened.recv().ok()).count();
        if opened == self.threads.len() { Ok(()) } else { Err(SEE_OTHERS.to_owned()) }
    }

    fn join(self) -> Result<(), String> {
        let mut outcome = Ok(());
        for (queue, thread) in (1..).zip(self.threads) {
            let ended = thread.join().unwrap_or_else(|_| Err("its thread died".to_owned()));
            outcome = outcome.and(ended.map_err(|error| format!("queue {queue}: {error}")));
        }
        outcome
    }
}

struct Instance {
    queue: usize,
    runtime: Runtime,
    service: DnsService,
}

impl Instance {
    /// On the thread that runs it.
    fn open(plan: &Plan<'_>, queue: usize, transfers: Option<Transfers>) -> Result<Instance, String> {
        let attachment = plan.attachment;
        let memory = MemoryPlan {
            frame_size: MemoryPlan::frame_size_for(attachment.mtu()),
            receive_frames: RECEIVE_FRAMES,
            transmit_frames: TRANSMIT_FRAMES,
            prepared_frames: 0,
        };
        let vnic = attachment.open_queue(queue as u32, memory).map_err(|error| error.to_string())?;
        let seed = entropy().map_err(|error| format!("no entropy: {error}"))?;
        let mut config = attachment.config().clone();
        config.receive_batch = plan.batch;
        config.connections_max = plan.config.tcp.connections_max + REFUSALS;
        config.ephemeral_ports = PORTS;
        // What a neighbour answers to us may come by another's queue.
        config.neighbours_by_traffic = plan.queues() > 1;
        if queue > 0 {
            // Once for the address is enough.
            config.duplicate_address_detection = DuplicateAddressDetection::Off;
            config.multicast_listener_reports = false;
        }
        let mut runtime = Runtime::new(Box::new(vnic), config, seed);
        let reader = plan.publisher.reader().map_err(|error| format!("doorbell: {error}"))?;
        runtime.watch(reader.doorbell_fd(), DOORBELL_TOKEN).map_err(|error| format!("watching for zones: {error}"))?;
        let mut service = DnsService::new(plan.config.clone(), reader, plan.secret)?;
        if let Some(transfers) = transfers {
            service = service.with_transfers(transfers);
        }
        runtime.start(&mut service).map_err(|error| error.to_string())?;
        Ok(Instance { queue, runtime, service })
    }

    /// Of the first; messages of the end are given back.
    fn run(
        mut self,
        plan: &Plan<'_>,
        incoming: &Receiver<String>,
        look: &mut dyn FnMut(&Look<'_>),
    ) -> Result<Vec<String>, String> {
        let stop = plan.control.first()?;
        let mut reports = plan.control.reports.load(Ordering::Acquire);
        let outcome = self.runtime.run(&mut self.service, stop, plan.options, &mut |service, runtime| {
            plan.control.put(self.queue, Done::of(service));
            let messages = service.transfers().take_log().chain(incoming.try_iter().take(MESSAGES_MAX)).collect();
            let wanted = plan.control.reports.load(Ordering::Acquire);
            let report = std::mem::replace(&mut reports, wanted) != wanted;
            look(&Look { runtime, done: plan.control.done(), messages, report });
        });
        plan.control.put(self.queue, Done::of(&mut self.service));
        outcome.map_err(|error| error.to_string())?;
        Ok(self.service.transfers().take_log().collect())
    }

    /// Of the others.
    fn run_further(mut self, plan: &Plan<'_>, messages: &SyncSender<String>) -> Result<(), String> {
        let stop = plan.control.stops.get(self.queue).ok_or("there is no such queue")?;
        let mut reports = plan.control.reports.load(Ordering::Acquire);
        let queue = self.queue;
        let outcome = self.runtime.run(&mut self.service, stop, plan.options, &mut |service, runtime| {
            plan.control.put(queue, Done::of(service));
            // Too many: the first instance does not get to tell them, and they are no more than news.
            service.transfers().take_log().for_each(|text| drop(messages.try_send(text)));
            let wanted = plan.control.reports.load(Ordering::Acquire);
            if std::mem::replace(&mut reports, wanted) != wanted {
                // By a thread of its own: standard error may block, the data path must not.
                let text = format!("queue {queue}:\n{}", stack_report(runtime, None));
                std::thread::spawn(move || eprint!("{text}"));
            }
        });
        plan.control.put(queue, Done::of(&mut self.service));
        self.service.transfers().take_log().for_each(|text| drop(messages.try_send(text)));
        outcome.map_err(|error| error.to_string())
    }
}

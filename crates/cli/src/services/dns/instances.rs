//! The instances of one server, each on a thread, with a stack and a queue of the card of its own. All answer from the same
//! catalogs and secrets; the first is the calling thread's, and speaks for all.

use crate::host::card::{Card, Failure};
use crate::host::privilege::Privilege;
use crate::host::privilege::access::Need;
use crate::host::report::stack_report;
use qanat::nic::MemoryPlan;
use qanat::{DuplicateAddressDetection, Runtime, RuntimeOptions, StopHandle, entropy};
use qanat_dns::service::{CatalogPublisher, DnsConfig, DnsService, Figures};
use qanat_dns::transfer::{PORTS, TransferFigures, Transfers};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    pub card: &'a Card,
    /// Given up by each instance's thread, once its queue is open.
    pub privilege: &'a Privilege,
    /// Files that whoever goes on must be able to use.
    pub needs: &'a [Need],
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
    /// Of the instances on the card that there is now.
    stops: Arc<Mutex<Vec<StopHandle>>>,
    /// The server is to stop.
    stopped: Arc<AtomicBool>,
    reports: Arc<AtomicU32>,
    done: Arc<[Mutex<Count>]>,
}

/// What a queue's instances have done.
#[derive(Clone, Copy, Default)]
struct Count {
    /// Those whose card is gone.
    ended: Done,
    /// All.
    all: Done,
}

impl Control {
    /// Of so many instances.
    pub fn new(queues: u32) -> Result<Control, String> {
        let done: Arc<[Mutex<Count>]> = (0..queues).map(|_| Mutex::default()).collect();
        let control = Control { stops: Arc::default(), stopped: Arc::default(), reports: Arc::default(), done };
        control.begin()?;
        Ok(control)
    }

    /// Instances begin, in place of those whose card is gone.
    pub fn begin(&self) -> Result<(), String> {
        let stops: Result<Vec<StopHandle>, _> = self.done.iter().map(|_| StopHandle::new()).collect();
        *self.stops() = stops.map_err(|error| format!("doorbell: {error}"))?;
        for done in self.done.iter() {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.all.dns.connections_open = 0;
            done.ended = done.all;
        }
        if self.is_stopped() {
            self.end();
        }
        Ok(())
    }

    fn stops(&self) -> MutexGuard<'_, Vec<StopHandle>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the server to stop; false: it was asked before.
    pub fn stop(&self) -> bool {
        let first = !self.stopped.swap(true, Ordering::AcqRel);
        self.end();
        first
    }

    /// Whether the server was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends the instances that there are.
    fn end(&self) {
        self.stops().iter().for_each(StopHandle::request);
    }

    /// An instance's.
    pub fn of(&self, queue: usize) -> Result<StopHandle, String> {
        self.stops().get(queue).cloned().ok_or_else(|| format!("there is no queue {queue}"))
    }

    /// Asks all for a report on standard error.
    pub fn report(&self) {
        self.reports.fetch_add(1, Ordering::Release);
    }

    /// Of each instance.
    pub fn done(&self) -> Vec<Done> {
        self.done.iter().map(|done| done.lock().unwrap_or_else(PoisonError::into_inner).all).collect()
    }

    pub fn put(&self, queue: usize, now: Done) {
        if let Some(done) = self.done.get(queue) {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.all = sum(&[done.ended, now]);
        }
    }
}

/// Ends all when one ends, however it does.
struct EndsAll<'a>(&'a Control);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.end();
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
        self.control.done.len()
    }

    /// Starts the further instances, calls `ready`, and runs until all have stopped; messages of the end are given back.
    /// `transfers` are the first instance's; `look` is quick.
    pub fn run(
        &self,
        transfers: Option<Transfers>,
        ready: impl FnOnce() -> Result<(), String>,
        mut look: impl FnMut(&Look<'_>),
    ) -> Result<Vec<String>, Failure> {
        let siblings: Vec<Option<Transfers>> =
            (1..self.queues()).map(|_| transfers.as_ref().map(Transfers::sibling)).collect();
        let plan = self;
        let (messages, incoming) = sync_channel(MESSAGES_MAX);
        std::thread::scope(|scope| {
            let _ends_all = EndsAll(&plan.control);
            let further = Further::start(plan, siblings, &messages, scope);
            let outcome = further.map_err(Failure::Other).and_then(|further| {
                let first = Instance::open(plan, 0, transfers).and_then(|first| {
                    further.wait_until_open()?;
                    ready()?;
                    first.run(plan, &incoming, &mut look)
                });
                plan.control.end();
                // An instance's own error tells more than that another stopped because of it.
                let others = further.join();
                match first {
                    Err(Failure::Other(text)) if text == SEE_OTHERS => others.and(Err(Failure::Other(text))),
                    Err(failure) => Err(failure),
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
    threads: Vec<ScopedJoinHandle<'scope, Result<(), Failure>>>,
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

    fn join(self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for (queue, thread) in (1..).zip(self.threads) {
            let ended = thread.join().unwrap_or_else(|_| Err("its thread died".to_owned().into()));
            outcome = outcome.and(ended.map_err(|failure| match failure {
                Failure::CardGone => failure,
                Failure::Other(text) => Failure::Other(format!("queue {queue}: {text}")),
            }));
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
    fn open(plan: &Plan<'_>, queue: usize, transfers: Option<Transfers>) -> Result<Instance, Failure> {
        let attachment = &plan.card.attachment;
        let memory = MemoryPlan {
            frame_size: MemoryPlan::frame_size_for(attachment.mtu()),
            receive_frames: RECEIVE_FRAMES,
            transmit_frames: TRANSMIT_FRAMES,
            prepared_frames: 0,
        };
        let vnic = attachment.open_queue(queue as u32, memory).map_err(|error| error.to_string())?;
        if !plan.privilege.is_given_up() {
            plan.privilege.give_up_here()?;
            plan.privilege.check(plan.needs)?;
        }
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
        plan.card.watch(&mut runtime)?;
        runtime.start(&mut service)?;
        Ok(Instance { queue, runtime, service })
    }

    /// Of the first; messages of the end are given back.
    fn run(
        mut self,
        plan: &Plan<'_>,
        incoming: &Receiver<String>,
        look: &mut dyn FnMut(&Look<'_>),
    ) -> Result<Vec<String>, Failure> {
        let stop = plan.control.of(self.queue)?;
        let mut reports = plan.control.reports.load(Ordering::Acquire);
        let outcome = self.runtime.run(&mut self.service, &stop, plan.options, &mut |service, runtime| {
            plan.control.put(self.queue, Done::of(service));
            let messages = service.transfers().take_log().chain(incoming.try_iter().take(MESSAGES_MAX)).collect();
            let wanted = plan.control.reports.load(Ordering::Acquire);
            let report = std::mem::replace(&mut reports, wanted) != wanted;
            look(&Look { runtime, done: plan.control.done(), messages, report });
        });
        plan.control.put(self.queue, Done::of(&mut self.service));
        outcome?;
        Ok(self.service.transfers().take_log().collect())
    }

    /// Of the others.
    fn run_further(mut self, plan: &Plan<'_>, messages: &SyncSender<String>) -> Result<(), Failure> {
        let stop = plan.control.of(self.queue)?;
        let mut reports = plan.control.reports.load(Ordering::Acquire);
        let queue = self.queue;
        let outcome = self.runtime.run(&mut self.service, &stop, plan.options, &mut |service, runtime| {
            plan.control.put(queue, Done::of(service));
            // Too many: the first instance does not get to tell them, and they are no more than news.
            service.transfers().take_log().for_each(|text| drop(messages.try_send(text)));
            let wanted = plan.control.reports.load(Ordering::Acquire);
            if std::mem::replace(&mut reports, wanted) != wanted {
                // By a thread of its own: standard error may block, the data path must not.
                let text = format!("queue {queue}:\n{}", stack_report(runtime, None));
                std::thread::spawn(move || crate::log::report(&text));
            }
        });
        plan.control.put(queue, Done::of(&mut self.service));
        self.service.transfers().take_log().for_each(|text| drop(messages.try_send(text)));
        Ok(outcome?)
    }
}

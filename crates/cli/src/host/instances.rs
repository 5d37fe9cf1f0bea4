//! The instances of one linked service, each on a thread, with a stack and a queue of the card of its own. The first is the calling
//! thread's, and speaks for all.

use crate::host::application::Application;
use crate::host::card::{Card, Failure};
use crate::host::control::Control;
use crate::host::hosted::{Hosted, watch};
use crate::host::place_figures::of_ended;
use crate::host::report::stack_report;
use crate::log;
use qanat::{Crossing, DuplicateAddressDetection, Runtime, RuntimeError, Storage, entropy};
use qanat_nic::{MemoryPlan, Vnic, metered};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

/// Connections the stack takes beyond the service's limit, for the service to reset at once: with the stack full, a client's handshake
/// would succeed by cookie and nothing ever answer it.
pub const REFUSALS: usize = 256;
/// Stands for the error of another instance.
const SEE_OTHERS: &str = "another queue's instance did not start";
/// News of the further instances that wait for the first.
const NOTES_MAX: usize = 256;

/// Ends all when one ends, however it does.
struct EndsAll<'a, A: Application>(&'a Control<A::Figures>);

impl<A: Application> Drop for EndsAll<'_, A> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What the first instance's thread is called back with about once a second.
pub struct Look<'a> {
    pub runtime: &'a Runtime,
    /// For the operator.
    pub notes: Vec<String>,
    /// A report is wanted, of which each instance gives its stack's part.
    pub report: bool,
}

/// Starts the further instances, calls `ready`, and runs until all have stopped; news of the end is given back. `look` is quick. The
/// storage is the first instance's while it runs.
pub fn run<A: Application>(
    hosted: &Hosted<'_, A>,
    card: &Card,
    storage: &mut Storage,
    ready: impl FnOnce() -> Result<(), String>,
    mut look: impl FnMut(&Look<'_>),
) -> Result<Vec<String>, Failure> {
    let (notes, incoming) = sync_channel(NOTES_MAX);
    std::thread::scope(|scope| {
        let _ends_all = EndsAll::<A>(&hosted.control);
        let further = Further::start(hosted, card, &notes, scope);
        let outcome = further.map_err(Failure::Other).and_then(|further| {
            let first = Instance::open(hosted, card, 0).and_then(|mut first| {
                first.runtime.use_storage(std::mem::take(storage));
                let outcome = first.start().and_then(|()| {
                    further.wait_until_open()?;
                    ready()?;
                    first.run(&incoming, &mut look)
                });
                *storage = first.runtime.take_storage();
                outcome
            });
            hosted.control.end();
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

struct Further<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Result<(), Failure>>>,
    opened: Receiver<()>,
}

impl<'scope> Further<'scope> {
    fn start<'env, A: Application>(
        hosted: &'scope Hosted<'env, A>,
        card: &'scope Card,
        notes: &SyncSender<String>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<Further<'scope>, String> {
        let (open, opened) = sync_channel(hosted.requirements.queues as usize);
        let mut threads = Vec::new();
        for queue in 1..hosted.requirements.queues {
            let (open, notes) = (open.clone(), notes.clone());
            let name = format!("qanat-{}-{queue}", A::NAME);
            let thread = std::thread::Builder::new().name(name).spawn_scoped(scope, move || {
                let _ends_all = EndsAll::<A>(&hosted.control);
                let mut instance = Instance::open(hosted, card, queue)?;
                instance.start()?;
                let _ = open.send(());
                drop(open);
                instance.run_further(&notes)
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

struct Instance<'a, 'b, A: Application> {
    hosted: &'a Hosted<'b, A>,
    queue: u32,
    runtime: Runtime,
    service: A::Service,
    /// Those that were asked for until now.
    reports: u32,
}

/// A queue as a device, whose calls are charged to the driver if cycles are counted.
fn device(queue: impl Vnic + 'static) -> Box<dyn Vnic> {
    match cfg!(feature = "breakdown") {
        true => Box::new(metered(queue)),
        false => Box::new(queue),
    }
}

impl<'a, 'b, A: Application> Instance<'a, 'b, A> {
    /// On the thread that runs it.
    fn open(hosted: &'a Hosted<'b, A>, card: &Card, queue: u32) -> Result<Instance<'a, 'b, A>, Failure> {
        let (attachment, privilege, needs) = (&card.attachment, &hosted.privilege, &hosted.requirements);
        let frame_size = MemoryPlan::frame_size_for(attachment.mtu());
        let plan = MemoryPlan {
            frame_size,
            receive_frames: needs.frames,
            transmit_frames: needs.frames,
            prepared_frames: hosted.application.prepared_frames(frame_size),
        };
        let vnic = attachment.open_queue(queue, plan).map_err(|error| error.to_string())?;
        if !privilege.is_given_up() {
            privilege.give_up_here()?;
            privilege.check(&hosted.files.needs)?;
        }
        let service = hosted.application.service(&card.place(queue))?;
        let mut config = attachment.config().clone();
        if let Some(most) = needs.connections_max {
            config.connections_max = most + REFUSALS;
        }
        config.receive_batch = needs.receive_batch.unwrap_or(config.receive_batch);
        config.ephemeral_ports = needs.ephemeral_ports.clone().unwrap_or(config.ephemeral_ports);
        // What a neighbour answers to us may come by another's queue.
        config.neighbours_by_traffic = needs.queues > 1;
        if queue > 0 {
            // Once for the address is enough.
            config.duplicate_address_detection = DuplicateAddressDetection::Off;
            config.multicast_listener_reports = false;
        }
        let seed = entropy().map_err(|error| format!("no entropy: {error}"))?;
        let mut runtime = Runtime::new(device(vnic), config, seed);
        watch::<A, _>(&service, &mut runtime)?;
        card.watch(&mut runtime)?;
        Ok(Instance { hosted, queue, runtime, service, reports: hosted.control.reports() })
    }

    fn start(&mut self) -> Result<(), Failure> {
        Ok(match self.hosted.options.placement.emulate_crossing {
            true => self.runtime.start(&mut Crossing(&mut self.service)),
            false => self.runtime.start(&mut self.service),
        }?)
    }

    /// Until it has stopped.
    fn serve(&mut self, observe: &mut dyn FnMut(&mut A::Service, &Runtime)) -> Result<(), Failure> {
        let (stop, options) = (self.hosted.control.stop_of(self.queue)?, self.hosted.options.runtime());
        let outcome: Result<(), RuntimeError> = match self.hosted.options.placement.emulate_crossing {
            true => self.runtime.run(&mut Crossing(&mut self.service), &stop, options, &mut |crossing, runtime| {
                observe(crossing.0, runtime);
            }),
            false => self.runtime.run(&mut self.service, &stop, options, observe),
        };
        Ok(outcome?)
    }

    /// Of the first; news of the end is given back.
    fn run(&mut self, incoming: &Receiver<String>, look: &mut dyn FnMut(&Look<'_>)) -> Result<Vec<String>, Failure> {
        let (hosted, queue, mut reports) = (self.hosted, self.queue, self.reports);
        let outcome = self.serve(&mut |service, runtime| {
            hosted.control.put(queue, A::figures(service));
            let notes = A::notes(service).into_iter().chain(incoming.try_iter().take(NOTES_MAX)).collect();
            let report = hosted.control.wants_report(&mut reports);
            look(&Look { runtime, notes, report });
        });
        hosted.control.put(queue, A::figures(&mut self.service));
        hosted.ends(|| of_ended(&self.runtime));
        outcome?;
        Ok(A::notes(&mut self.service))
    }

    /// Of the others.
    fn run_further(mut self, notes: &SyncSender<String>) -> Result<(), Failure> {
        let (hosted, queue, mut reports) = (self.hosted, self.queue, self.reports);
        // Too many: the first instance does not get to tell them, and they are no more than news.
        let pass_on = |news: Vec<String>| news.into_iter().for_each(|text| drop(notes.try_send(text)));
        let outcome = self.serve(&mut |service, runtime| {
            hosted.control.put(queue, A::figures(service));
            pass_on(A::notes(service));
            if hosted.control.wants_report(&mut reports) {
                // By a thread of its own: standard error may block, the data path must not.
                let text = format!("queue {queue}:\n{}", stack_report(runtime, None));
                std::thread::spawn(move || log::report(&text));
            }
        });
        hosted.control.put(queue, A::figures(&mut self.service));
        pass_on(A::notes(&mut self.service));
        outcome
    }
}

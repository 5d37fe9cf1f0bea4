//! Reader threads: everything that may block on a disk happens here, so the service's thread never waits.

use crate::content::resource::{Found, LookupRules, OpenFile, Root, look_up};
use crate::content::window::Buffer;
use qanat::{Bytes, Doorbell};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Work for a reader. There is at most one look-up and one piece per connection under way: the queue is bounded.
#[derive(Debug)]
pub enum Job {
    /// Find and read a file.
    LookUp {
        /// Counts reloads: an answer from before one is not used.
        epoch: u64,
        /// Index of the root.
        root_index: usize,
        /// The root.
        root: Arc<Root>,
        /// Path below it.
        path: Box<[u8]>,
        /// The time, seconds since 1970.
        now_seconds: u64,
    },
    /// Read a piece of a streamed file.
    Read {
        /// Which reading.
        token: usize,
        /// The file.
        file: Arc<OpenFile>,
        /// The first byte.
        start: u64,
        /// How many bytes, at most the buffer's.
        length: usize,
        /// Where they go.
        buffer: Buffer,
    },
}

/// Work done.
#[derive(Debug)]
pub enum Done {
    /// The result of [`Job::LookUp`].
    LookUp {
        /// As in the job.
        epoch: u64,
        /// As in the job.
        root_index: usize,
        /// As in the job.
        path: Box<[u8]>,
        /// What was found.
        found: Found,
    },
    /// The result of [`Job::Read`].
    Read {
        /// As in the job.
        token: usize,
        /// The bytes asked for, all of them.
        bytes: io::Result<Bytes>,
    },
}

#[derive(Debug, Default)]
struct Results {
    queue: Mutex<Vec<Done>>,
    /// Something is in the queue: looked at without taking the lock.
    any: AtomicBool,
}

/// The threads and their queues.
#[derive(Debug)]
pub struct Readers {
    jobs: Option<Sender<Job>>,
    results: Arc<Results>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts `count` threads, which ring `doorbell` when work is done.
    ///
    /// # Errors
    /// What the system says to a new thread.
    pub fn start(count: usize, rules: LookupRules, doorbell: &Doorbell) -> io::Result<Readers> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let results = Arc::new(Results::default());
        let rules = Arc::new(rules);
        let mut readers = Readers { jobs: Some(sender), results: Arc::clone(&results), threads: Vec::new() };
        for number in 0..count.max(1) {
            let (receiver, results) = (Arc::clone(&receiver), Arc::clone(&results));
            let (rules, doorbell) = (Arc::clone(&rules), doorbell.clone());
            let thread = std::thread::Builder::new()
                .name(format!("web-reader-{number}"))
                .spawn(move || run(&receiver, &results, &rules, &doorbell))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Hands `job` over; `false` if no thread is left to do it.
    pub fn submit(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Takes what is done, if anything is.
    #[inline]
    pub fn take_done(&self) -> Vec<Done> {
        if !self.results.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut queue = self.results.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.results.any.store(false, Ordering::Release);
        std::mem::take(&mut queue)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing to say here.
            let _ = thread.join();
        }
    }
}

fn run(jobs: &Mutex<Receiver<Job>>, results: &Results, rules: &LookupRules, doorbell: &Doorbell) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let done = perform(job, rules);
        let mut queue = results.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push(done);
        results.any.store(true, Ordering::Release);
        drop(queue);
        doorbell.ring();
    }
}

fn perform(job: Job, rules: &LookupRules) -> Done {
    match job {
        Job::LookUp { epoch, root_index, root, path, now_seconds } => {
            let found = look_up(&root, &path, rules, now_seconds);
            Done::LookUp { epoch, root_index, path, found }
        }
        Job::Read { token, file, start, length, mut buffer } => {
            let bytes = file.read(start, length, buffer.target()).map(|()| buffer.into_bytes(length));
            Done::Read { token, bytes }
        }
    }
}

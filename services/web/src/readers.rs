//! Reader threads: everything that may block on a disk happens here, so the service's thread never waits.

use crate::content::resource::{Found, LookUp, LookupRules, OpenFile, Root, SiteRules};
use crate::content::window::Buffer;
use crate::http::authorization::Credentials;
use crate::rules::Passwords;
use qanat::{Bytes, Doorbell};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Who says to be whom, where.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Guess {
    /// Counts reloads: an answer from before one is not used.
    pub epoch: u64,
    /// Index of the site.
    pub site: usize,
    /// Index of the protection space.
    pub space: usize,
    /// What was said.
    pub credentials: Credentials,
}

/// Work for a reader. There is at most one look-up, one guess and one piece per connection under way: the queues are bounded.
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
        /// Rules of its site.
        rules: Arc<SiteRules>,
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
    /// See whether a password is right: by a thread that does nothing else.
    Verify {
        /// What was said.
        guess: Guess,
        /// Where it is looked up.
        passwords: Arc<Passwords>,
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
    /// The result of [`Job::Verify`].
    Verified {
        /// As in the job.
        guess: Guess,
        /// Whether it is.
        is_right: bool,
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
    /// Those that are about passwords.
    guesses: Option<Sender<Job>>,
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
        let (guesses, to_verify) = channel();
        let to_verify = Arc::new(Mutex::new(to_verify));
        let results = Arc::new(Results::default());
        let rules = Arc::new(rules);
        let mut readers =
            Readers { jobs: Some(sender), guesses: Some(guesses), results: Arc::clone(&results), threads: Vec::new() };
        let names = (0..count.max(1)).map(|number| (format!("web-reader-{number}"), &receiver));
        for (name, receiver) in names.chain([("web-passwords".to_owned(), &to_verify)]) {
            let (receiver, results) = (Arc::clone(receiver), Arc::clone(&results));
            let (rules, doorbell) = (Arc::clone(&rules), doorbell.clone());
            let thread =
                std::thread::Builder::new().name(name).spawn(move || run(&receiver, &results, &rules, &doorbell))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Hands `job` over; `false` if no thread is left to do it.
    pub fn submit(&self, job: Job) -> bool {
        let queue = if matches!(job, Job::Verify { .. }) { &self.guesses } else { &self.jobs };
        queue.as_ref().is_some_and(|queue| queue.send(job).is_ok())
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
        (self.jobs, self.guesses) = (None, None);
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
        Job::LookUp { epoch, root_index, root, rules: site, path, now_seconds } => {
            let found = LookUp { root: &root, path: &path, rules, site: &site, now_seconds }.find();
            Done::LookUp { epoch, root_index, path, found }
        }
        Job::Read { token, file, start, length, mut buffer } => {
            let bytes = file.read(start, length, buffer.target()).map(|()| buffer.into_bytes(length));
            Done::Read { token, bytes }
        }
        Job::Verify { guess, passwords } => {
            let is_right = passwords.is_right(&guess.credentials.user, &guess.credentials.password);
            Done::Verified { guess, is_right }
        }
    }
}

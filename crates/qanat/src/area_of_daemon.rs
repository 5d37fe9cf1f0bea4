//! [`DaemonArea`]: a storage area of one of the daemon's disks, for a service. Its memory is shared with the disk's core, or it is a partition
//! or file of its own, which is driven without the core.
//!
//! ```text
//!  service ── commands ──▶ queue pair in shared memory ──▶ disk core ──▶ disk
//!     │ lost: everything under way ends with `Gone`
//!     └─ begin ──▶ a thread: asks the daemon until it has the area again ── memory, doorbell ──▶ next: brings it up
//! ```
//! A core that dies is started again by the daemon for the first who asks, so an area is back within some ten milliseconds. The thread
//! asks, so that the service's loop never waits for the daemon.

use crate::renewal::{QueuePair, Renewal};
use crate::storage::StorageArea;
use crate::wait_set::Doorbell;
use qanat_control::client::{ClientError, OpenedArea, OwnArea, Session};
use qanat_control::protocol::{AreaFence, AreaPath, AreaStatus, AreaWish};
use qanat_disk::OpenError;
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::shared::{SharedArea, SharedError, SharedLayout};
use qanat_nic::{MonotonicClock, Region};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two questions after the area: at first, and at most.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Before the area is asked for again that could not be brought up.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// The memory that a service shares with a disk core.
#[derive(Clone, Copy, Debug)]
pub struct AreaBuffers {
    /// How many. Of requests as many are under way at once, or [`DEPTH_MAX`](AreaBuffers::DEPTH_MAX).
    pub count: u32,
    /// Bytes of each: a power of two from 4,096 to 131,072. One transfer has as many at most.
    pub bytes: u32,
}

impl AreaBuffers {
    /// Requests that may be under way at once.
    pub const DEPTH_MAX: u32 = 256;

    /// Requests that are under way at once, at most.
    pub fn depth(&self) -> u32 {
        self.count.min(AreaBuffers::DEPTH_MAX)
    }
}

/// Why an area of the daemon's can't be had.
#[derive(Debug, thiserror::Error)]
pub enum DaemonAreaError {
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// The queue pair.
    #[error("the area {path}: {error}")]
    QueuePair {
        /// Which.
        path: AreaPath,
        /// What is wrong with it.
        error: SharedError,
    },
    /// Its own descriptor.
    #[error("the area {path}: {error}")]
    Descriptor {
        /// Which.
        path: AreaPath,
        /// What is wrong with it.
        error: OpenError,
    },
    /// Out of descriptors.
    #[error("a doorbell for the area: {0}")]
    Doorbell(io::Error),
}

/// What becomes of an area while a service has it. The text is for the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AreaNews {
    /// The disk core has ended, or is of no use. What was under way has ended with an error.
    Lost,
    /// It can't be had again yet, and why. It is asked for again.
    Waiting(String),
    /// It is there again, after so long.
    Back(Duration),
    /// It never will be, and why: commands end with an error from now on.
    Gone(String),
}

/// Hears what becomes of an area, on any thread. It must be quick.
pub type AreaListener = Arc<dyn Fn(&AreaNews) + Send + Sync>;

/// What is asked for, and of whom.
#[derive(Clone)]
struct Asked {
    daemon: PathBuf,
    wish: AreaWish,
    listener: AreaListener,
    /// The area's number: another one by the same name is another area.
    number: u64,
}

impl Asked {
    fn tell(&self, news: &AreaNews) {
        (self.listener)(news);
    }

    /// Asks until there is an answer. `None`: nobody waits for it any more, or there never will be.
    fn ask_until_answered(&self, first_pause: Duration, is_over: &AtomicBool) -> Option<SharedArea> {
        let (mut pause, mut told) = (PAUSE, String::new());
        sleep(first_pause);
        while !is_over.load(Ordering::Acquire) {
            let opened = Session::connect(&self.daemon).and_then(|session| session.open_area(self.wish.clone()));
            match opened {
                Ok((AreaStatus { number, .. }, OpenedArea::Shared(shared))) if number == self.number => {
                    return Some(shared);
                }
                Ok(_) => {
                    let path = &self.wish.path;
                    let why = format!("{path} has been deleted, and what has its name now is another area");
                    self.tell(&AreaNews::Gone(why));
                    return None;
                }
                Err(error) => {
                    let why = error.to_string();
                    // The first times a new core is on its way, or a new daemon.
                    if pause > PAUSE_AFTER_FAILURE && told != why {
                        self.tell(&AreaNews::Waiting(why.clone()));
                        told = why;
                    }
                }
            }
            sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        None
    }
}

/// An area of one of the daemon's disks. One that its core serves comes back when the disk's core, or the daemon, was started again.
pub struct DaemonArea {
    asked: Asked,
    options: NvmeOptions,
    incoming: Option<Receiver<SharedArea>>,
    bell: Doorbell,
    is_over: Arc<AtomicBool>,
    lost_at: Instant,
}

impl fmt::Debug for DaemonArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DaemonArea({})", self.asked.wish.path)
    }
}

fn options(buffers: AreaBuffers) -> NvmeOptions {
    NvmeOptions { depth: buffers.depth(), transfer_bytes_max: buffers.bytes, ..NvmeOptions::default() }
}

fn bring_up(path: &AreaPath, shared: SharedArea, options: NvmeOptions) -> Result<QueuePair, DaemonAreaError> {
    let opened = shared.open(MonotonicClock::new(), options);
    let (vsic, pool) = opened.map_err(|error| DaemonAreaError::QueuePair { path: path.clone(), error })?;
    Ok((Box::new(vsic), pool))
}

/// An area by a descriptor of its own.
fn own_area(
    path: &AreaPath,
    own: OwnArea,
    buffers: AreaBuffers,
    fence: AreaFence,
) -> Result<StorageArea, DaemonAreaError> {
    let AreaBuffers { count, bytes } = buffers;
    let memory = |error: io::Error| OpenError::Memory { bytes: count as usize * bytes as usize, error };
    let opened = || -> Result<StorageArea, OpenError> {
        let region = Region::new(count, bytes).map_err(memory)?;
        let (uring, lease) = own.open(path, buffers.depth(), &region)?;
        let pool = region.pool(count).ok_or_else(|| memory(io::ErrorKind::OutOfMemory.into()))?;
        Ok(StorageArea::new(Box::new(uring), pool).with_lease(lease, fence))
    };
    opened().map_err(|error| DaemonAreaError::Descriptor { path: path.clone(), error })
}

impl DaemonArea {
    /// Opens an area of the daemon at `daemon`, for the calling thread, which is the one that runs the service. A service that gives up its
    /// rights does so afterwards; its [steward](qanat_control::steward) may ask for this area again, and for no other. `listener` is
    /// told what becomes of it.
    ///
    /// An area that the kernel fences ([`StorageArea::fence`]) is used by io_uring in the calling thread, without the disk's core. It goes on
    /// whatever becomes of the daemon.
    ///
    /// # Errors
    /// [`DaemonAreaError`]: the daemon's refusals name the remedy.
    pub fn open(
        daemon: PathBuf,
        path: AreaPath,
        buffers: AreaBuffers,
        listener: AreaListener,
    ) -> Result<StorageArea, DaemonAreaError> {
        let options = options(buffers);
        let layout = SharedLayout::new(&options, buffers.count, buffers.bytes);
        let wish = AreaWish { path, read_only: false, layout };
        let (status, opened) = Session::connect(&daemon)?.open_area(wish.clone())?;
        let shared = match opened {
            OpenedArea::Shared(shared) => shared,
            // Neither the daemon's end nor a core's concerns it.
            OpenedArea::Own(own) => return own_area(&wish.path, own, buffers, status.fence),
        };
        let (vsic, pool) = bring_up(&wish.path, shared, options)?;
        let asked = Asked { daemon, wish, listener, number: status.number };
        let bell = Doorbell::new().map_err(DaemonAreaError::Doorbell)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let renewal = DaemonArea { asked, options, incoming: None, bell, is_over, lost_at: Instant::now() };
        Ok(StorageArea::new(vsic, pool).with_renewal(Box::new(renewal)))
    }

    /// Has a thread ask for the area.
    fn ask(&mut self, first_pause: Duration) {
        let (sender, incoming): (SyncSender<SharedArea>, _) = sync_channel(1);
        let (asked, bell, is_over) = (self.asked.clone(), self.bell.clone(), Arc::clone(&self.is_over));
        let work = move || {
            if let Some(shared) = asked.ask_until_answered(first_pause, &is_over) {
                // Who does not take it has ended; the doorbell is closed with it.
                let _ = sender.send(shared);
                bell.ring();
            }
        };
        self.incoming = match std::thread::Builder::new().name("qanat-area".to_owned()).spawn(work) {
            Ok(_) => Some(incoming),
            Err(error) => {
                self.asked.tell(&AreaNews::Gone(format!("a thread that asks for it: {error}")));
                None
            }
        };
    }
}

impl Renewal for DaemonArea {
    fn begin(&mut self) {
        self.lost_at = Instant::now();
        self.asked.tell(&AreaNews::Lost);
        self.ask(Duration::ZERO);
    }

    fn next(&mut self) -> Option<QueuePair> {
        match self.incoming.as_ref()?.try_recv() {
            Ok(shared) => {
                self.bell.take();
                self.incoming = None;
                match bring_up(&self.asked.wish.path, shared, self.options) {
                    Ok(pair) => {
                        self.asked.tell(&AreaNews::Back(self.lost_at.elapsed()));
                        Some(pair)
                    }
                    Err(error) => {
                        self.asked.tell(&AreaNews::Waiting(error.to_string()));
                        self.ask(PAUSE_AFTER_FAILURE);
                        None
                    }
                }
            }
            Err(TryRecvError::Empty) => None,
            // The thread has said why.
            Err(TryRecvError::Disconnected) => {
                self.incoming = None;
                None
            }
        }
    }

    fn doorbell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Its thread, if there is one, ends with its next question.
impl Drop for DaemonArea {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

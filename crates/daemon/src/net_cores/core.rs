//! One net core, as the daemon knows it.

use qanat_control::net_core::CardNumber;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

/// A net core that dies sooner than this after its start is started again only then.
const SHORT_LIFE: Duration = Duration::from_millis(500);
/// After so many failed starts in a row its cards are for other net cores, until a start succeeds.
pub(super) const FAILURES_MAX: u32 = 3;
/// Each further one doubles the time to the next start, so many times.
const DOUBLINGS_MAX: u32 = 3;

/// Starts a net core for a processor, which takes its orders from the socket.
pub type Starter = Box<dyn Fn(u32, OwnedFd) -> io::Result<Child> + Send>;

/// What a net core is to its processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Started for it, and started again.
    AtHome,
    /// Removed from another, this one: it takes no more cards, and ends when its own have moved.
    Guest(u32),
    /// It has ended, and is not started again: its place is the next one's.
    Gone,
}

/// One net core.
pub(crate) struct NetCore {
    pub(crate) processor: u32,
    pub(crate) standing: Standing,
    /// Its process and our end of its socket; `None`: to be started again, if it is at home.
    pub(crate) running: Option<(Child, OwnedFd)>,
    pub(crate) started: Instant,
    pub(super) restarts: u64,
    /// Starts in a row that failed.
    pub(super) failures: u32,
    /// Queues of VNICs that it serves.
    pub(crate) cards: Vec<CardNumber>,
    /// Those of `cards` that services share.
    pub(crate) shared: Vec<CardNumber>,
    /// Those that have come from other net cores.
    pub(crate) cards_moved: u64,
}

impl NetCore {
    /// Not yet running.
    pub(crate) fn new(processor: u32) -> NetCore {
        NetCore {
            processor,
            standing: Standing::AtHome,
            running: None,
            started: Instant::now(),
            restarts: 0,
            failures: 0,
            cards: Vec::new(),
            shared: Vec::new(),
            cards_moved: 0,
        }
    }

    /// The processor it was started for.
    pub(crate) fn home(&self) -> u32 {
        if let Standing::Guest(from) = self.standing { from } else { self.processor }
    }

    pub(crate) fn is_at_home(&self) -> bool {
        self.standing == Standing::AtHome
    }

    /// Whether it dies at each start: it is not waited for.
    pub(super) fn is_failing(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// Whether it can be given cards.
    pub(crate) fn takes_cards(&self) -> bool {
        self.is_at_home() && self.running.is_some() && !self.is_failing()
    }

    /// When, after its last start, it is to be started again.
    pub(super) fn pause(&self) -> Duration {
        SHORT_LIFE * (1 << self.failures.saturating_sub(FAILURES_MAX).min(DOUBLINGS_MAX))
    }

    /// How many of a VNIC's queues it serves.
    pub(super) fn queues_of(&self, vnic: u32) -> usize {
        self.cards.iter().filter(|card| card.vnic == vnic).count()
    }
}

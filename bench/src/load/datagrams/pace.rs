//! How many datagrams are on their way at once, how fast they are sent, and for how long.

use crate::load::http::LoadError;
use std::time::Duration;

/// Most datagrams on their way at once.
pub const WINDOW_MAX: usize = 1 << 16;

/// How many at once, how fast, how long.
#[derive(Clone, Debug)]
pub struct Pace {
    /// On their way at once; in an open loop the most there may be.
    pub window: usize,
    /// Open loop: so many a second, due at even intervals.
    pub rate_per_s: Option<f64>,
    /// How long to count.
    pub duration: Duration,
    /// How long to load before counting.
    pub warm_up: Duration,
    /// A packet that is not back by then is lost.
    pub timeout: Duration,
    /// A process whose CPU time to report.
    pub watch_process: Option<u32>,
    /// Sleep while nothing has come, instead of polling (in a closed loop).
    pub sleeps: bool,
}

impl Default for Pace {
    /// One after the other, for three seconds.
    fn default() -> Pace {
        Pace {
            window: 1,
            rate_per_s: None,
            duration: Duration::from_secs(3),
            warm_up: Duration::from_millis(300),
            timeout: Duration::from_millis(200),
            watch_process: None,
            sleeps: false,
        }
    }
}

impl Pace {
    /// Refuses what can't be done.
    ///
    /// # Errors
    /// [`LoadError::Option`], with what may be.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |message: String| Err(LoadError::Option(message));
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return wrong(format!("--window {}: from 1 to {WINDOW_MAX}", self.window));
        }
        if self.rate_per_s.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            return wrong("--rate: a positive number per second, at most a thousand million".to_owned());
        }
        if self.sleeps && self.rate_per_s.is_some() {
            return wrong("--sleep: an open loop has no time to sleep; leave out --rate".to_owned());
        }
        Ok(())
    }
}

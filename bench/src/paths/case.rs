//! The emulated paths, and what is measured on them.

use qanat_delay::{DelayConfig, Impairments, Lab, QueueLimit, Rate};
use std::time::Duration;

/// An emulated path and what goes over it; both directions are alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathCase {
    pub round_trip_ms: u64,
    pub loss_ppm: u32,
    pub reorder_ppm: u32,
    pub duplicate_ppm: u32,
    pub rate_mbit: u64,
    pub queue_packets: u32,
    /// Connections at once. A path that loses at random holds back each for itself, so several are several samples; no more than
    /// the processors bear with ease.
    pub connections: usize,
    /// Length of a run.
    pub seconds: u64,
    pub is_quick: bool,
}

const BASE: PathCase = PathCase {
    round_trip_ms: 40,
    loss_ppm: 0,
    reorder_ppm: 0,
    duplicate_ppm: 0,
    rate_mbit: 100,
    queue_packets: 1_000,
    connections: 1,
    seconds: 4,
    is_quick: false,
};

/// A path that loses packets at random, fast enough for all `connections`.
const fn lossy(round_trip_ms: u64, loss_ppm: u32, connections: usize, seconds: u64) -> PathCase {
    PathCase { round_trip_ms, loss_ppm, rate_mbit: 400, connections, seconds, ..BASE }
}

/// Goodput from one side to the other.
const GOODPUT: [PathCase; 14] = [
    lossy(10, 1_000, 2, 3),
    PathCase { is_quick: true, ..lossy(10, 10_000, 8, 3) },
    lossy(10, 50_000, 16, 3),
    lossy(50, 1_000, 6, 4),
    lossy(50, 10_000, 24, 4),
    lossy(200, 1_000, 8, 6),
    PathCase { is_quick: true, ..lossy(200, 10_000, 32, 6) },
    lossy(200, 50_000, 64, 6),
    BASE,
    PathCase { queue_packets: 20, connections: 4, seconds: 5, is_quick: true, ..BASE },
    PathCase { queue_packets: 20, connections: 4, seconds: 6, rate_mbit: 20, ..BASE },
    PathCase { round_trip_ms: 10, rate_mbit: 50, queue_packets: 20, connections: 4, ..BASE },
    PathCase { round_trip_ms: 20, reorder_ppm: 10_000, ..BASE },
    PathCase { round_trip_ms: 20, duplicate_ppm: 10_000, ..BASE },
];

/// A flow of ours beside one of Linux'.
const FAIRNESS: [PathCase; 3] = [
    PathCase { round_trip_ms: 20, rate_mbit: 40, queue_packets: 20, seconds: 12, ..BASE },
    PathCase { round_trip_ms: 20, rate_mbit: 40, queue_packets: 100, seconds: 12, is_quick: true, ..BASE },
    // A queue of 300 ms, in which shares change slowly.
    PathCase { round_trip_ms: 20, rate_mbit: 40, queue_packets: 1_000, seconds: 24, ..BASE },
];

/// 80 clients who download 1 MiB each, again and again.
const DOWNLOADS: [PathCase; 1] = [PathCase {
    round_trip_ms: 100,
    loss_ppm: 10_000,
    rate_mbit: 400,
    connections: 80,
    seconds: 4,
    is_quick: true,
    ..BASE
}];

impl PathCase {
    pub(super) fn name(&self) -> String {
        let percent = |ppm: u32| f64::from(ppm) / 1e4;
        let mut name = format!("{} ms", self.round_trip_ms);
        for (ppm, what) in [(self.loss_ppm, "loss"), (self.reorder_ppm, "late"), (self.duplicate_ppm, "twice")] {
            if ppm > 0 {
                name += &format!(", {} % {what}", percent(ppm));
            }
        }
        name += &format!(", {} Mbit/s, queue {}", self.rate_mbit, self.queue_packets);
        if self.connections > 1 {
            name += &format!(", {} connections", self.connections);
        }
        name
    }

    pub(super) fn config(&self, lab: &Lab, seed: u64) -> DelayConfig {
        let way = Impairments {
            bands: vec![Duration::from_millis(self.round_trip_ms) / 2],
            loss_ppm: self.loss_ppm,
            reorder_ppm: self.reorder_ppm,
            reorder_by: Duration::from_millis(self.round_trip_ms) / 8,
            duplicate_ppm: self.duplicate_ppm,
            rate: Some(Rate(self.rate_mbit * 1_000_000)),
            queue: QueueLimit::Packets(self.queue_packets),
            ..Impairments::default()
        };
        let mut config = DelayConfig::new("", "");
        config.ports = lab.ports();
        (config.forward, config.backward, config.seed) = (way.clone(), way, seed);
        config
    }
}

/// One kind of measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Goodput,
    Downloads,
    Fairness,
}

impl Kind {
    pub(super) fn cases(self) -> &'static [PathCase] {
        match self {
            Kind::Goodput => &GOODPUT,
            Kind::Downloads => &DOWNLOADS,
            Kind::Fairness => &FAIRNESS,
        }
    }

    pub(super) fn name(self, case: &PathCase) -> String {
        match self {
            Kind::Goodput => case.name(),
            Kind::Downloads => format!("downloads of 1 MiB: {}", case.name()),
            Kind::Fairness => format!("side by side: {}", case.name()),
        }
    }

    /// What takes turns.
    pub(super) fn peers(self) -> &'static [&'static str] {
        match self {
            Kind::Goodput | Kind::Downloads => &["Linux → Linux", "Qanat → Linux", "Linux → Qanat"],
            Kind::Fairness => &["Linux beside Linux", "Qanat beside Linux"],
        }
    }
}

//! Counters and the added jitter.

use hdrhistogram::Histogram;
use qanat_nic::VnicStatistics;
use serde::Serialize;

/// Longer than this late is counted as this late: 10 s.
const LATENESS_MAX_NS: u64 = 10_000_000_000;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first to the second interface.
    Forward,
    /// From the second to the first interface.
    Backward,
}

/// Packets of one direction since the start, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LaneFigures {
    /// Received.
    pub received: u64,
    /// Bytes in them.
    pub received_bytes: u64,
    /// Sent, copies included.
    pub sent: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// Lost singly, as asked.
    pub lost: u64,
    /// Lost in bursts, as asked.
    pub lost_in_bursts: u64,
    /// Sent twice, as asked.
    pub duplicated: u64,
    /// Held back, as asked.
    pub reordered: u64,
    /// With a bit changed, as asked.
    pub corrupted: u64,
    /// Lost because the bottleneck's queue was full, as asked.
    pub queue_full: u64,
    /// Held now.
    pub held: u64,
    /// Dropped: more were to be held than there is room for. Raise `--held`.
    pub held_full: u64,
    /// Dropped: longer than the other interface's MTU, or in several buffers.
    pub oversize: u64,
    /// Copies not made: no frame was free.
    pub copy_failed: u64,
    /// Dropped by the driver before we saw them: no buffer was free, or the receive ring was full.
    pub receive_dropped: u64,
    /// Lost by the device after we sent them: its other end was full.
    pub transmit_lost: u64,
    /// Copied to be sent, since the interfaces could not share memory.
    pub copied: u64,
    /// Transport checksums that were not finished, and were finished here or by the device.
    pub checksums_finished: u64,
}

impl LaneFigures {
    pub(crate) fn add(&mut self, other: &LaneFigures) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.lost += other.lost;
        self.lost_in_bursts += other.lost_in_bursts;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.queue_full += other.queue_full;
        self.held += other.held;
        self.held_full += other.held_full;
        self.oversize += other.oversize;
        self.copy_failed += other.copy_failed;
        self.receive_dropped += other.receive_dropped;
        self.transmit_lost += other.transmit_lost;
        self.copied += other.copied;
        self.checksums_finished += other.checksums_finished;
    }

    /// Takes over what the drivers of the two interfaces know.
    pub(crate) fn with_devices(mut self, ingress: &VnicStatistics, egress: &VnicStatistics) -> LaneFigures {
        self.receive_dropped = ingress.receive_no_buffer.saturating_add(ingress.receive_ring_full);
        self.transmit_lost = egress.transmit_lost.saturating_add(egress.transmit_invalid);
        self
    }
}

/// How much later than due packets were sent, nanoseconds: the jitter the emulator itself adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JitterFigures {
    /// Half were less late.
    pub median_ns: u64,
    /// 99 in 100 were less late.
    pub p99_ns: u64,
    /// 999 in 1,000 were less late.
    pub p999_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

/// All of it, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// From the first to the second interface.
    pub forward: LaneFigures,
    /// From the second to the first interface.
    pub backward: LaneFigures,
    /// Of both.
    pub jitter: JitterFigures,
}

/// What one thread tells: replaced as a whole, some ten times a second.
#[derive(Clone)]
pub(crate) struct Report {
    pub(crate) lanes: [LaneFigures; 2],
    pub(crate) lateness: Lateness,
}

impl Report {
    pub(crate) fn new() -> Report {
        Report { lanes: [LaneFigures::default(); 2], lateness: Lateness::new() }
    }
}

/// A histogram of send time − due time, to two digits.
#[derive(Clone)]
pub(crate) struct Lateness {
    histogram: Option<Histogram<u64>>,
}

impl Lateness {
    pub(crate) fn new() -> Lateness {
        // The bounds are right by construction; without a histogram there are just no figures.
        Lateness { histogram: Histogram::new_with_bounds(1, LATENESS_MAX_NS, 2).ok() }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(nanos);
        }
    }

    pub(crate) fn add(&mut self, other: &Lateness) {
        if let (Some(sum), Some(part)) = (&mut self.histogram, &other.histogram) {
            let _ = sum.add(part); // the same bounds
        }
    }

    /// Takes over another's counts, without allocation: the bounds are the same.
    pub(crate) fn copy_from(&mut self, other: &Lateness) {
        if let Some(histogram) = &mut self.histogram {
            histogram.reset();
        }
        self.add(other);
    }

    pub(crate) fn figures(&self) -> JitterFigures {
        let Some(histogram) = self.histogram.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return JitterFigures::default();
        };
        JitterFigures {
            median_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

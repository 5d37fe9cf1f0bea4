//! The model (“The Case Against User-Level Networking”, section V): how many records a second, by their size, and how many fewer if each call
//! enters the kernel.
//!
//! ```text
//!  throughput(b) = min( 1 / (g + G·b),  1 / (a + o(b)) )      PD = δ / (a + o(b)),  o(b) with the crossing in it
//! ```
//! The paper leaves `g` to large records (its footnote 6); here it is what the other host and the link need for a record of no bytes.

/// A cost that grows with the size of a record, ns.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Cost {
    /// Of each record.
    pub fixed: f64,
    /// Of each of its bytes.
    pub per_byte: f64,
}

impl Cost {
    /// Through two measured points, each of bytes and what they cost.
    pub(super) fn through(small: (f64, f64), large: (f64, f64)) -> Cost {
        let per_byte = (large.1 - small.1) / (large.0 - small.0);
        Cost { fixed: small.1 - per_byte * small.0, per_byte }
    }

    pub(super) fn of(self, bytes: f64) -> f64 {
        (self.fixed + self.per_byte * bytes).max(0.0)
    }
}

/// What one host's application does, and over what.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Model {
    /// g and G: what other host, link and device need from one record to the next.
    pub gap: Cost,
    /// o(b) of the application's host, without a crossing: at best, when there is always something to do, so that nobody sleeps and what
    /// the device is told is told for many records at once.
    pub best: Cost,
    /// At worst: each record is waited for asleep, and the device interrupts.
    pub worst: Cost,
    /// Calls of the application for a record: events received and commands.
    pub calls: Cost,
    /// One way into the kernel and back.
    pub call_ns: f64,
}

impl Model {
    /// The same application over a link that carries so many bits a second, whose other host is never late.
    pub(super) fn over(self, bits_per_s: f64) -> Model {
        Model { gap: Cost { fixed: 0.0, per_byte: 8e9 / bits_per_s }, ..self }
    }

    /// The same over a device that does so many records a second, of any size.
    pub(super) fn over_device(self, records_per_s: f64) -> Model {
        Model { gap: Cost { fixed: 1e9 / records_per_s, per_byte: 0.0 }, ..self }
    }

    /// δ: what crossing costs for a record. Nothing is checked on the way and no policy asked.
    pub(super) fn crossing_ns(&self, bytes: f64) -> f64 {
        self.calls.of(bytes) * self.call_ns
    }

    /// a + o(b): of the host's processor for a record.
    pub(super) fn host_ns(&self, bytes: f64, application_ns: f64, crosses: bool) -> f64 {
        application_ns + self.best.of(bytes) + if crosses { self.crossing_ns(bytes) } else { 0.0 }
    }

    /// The same at worst. One record at a time never fills a processor, so it is this that tells what crossing takes.
    pub(super) fn worst_ns(&self, bytes: f64, crosses: bool) -> f64 {
        self.worst.of(bytes) + if crosses { self.crossing_ns(bytes) } else { 0.0 }
    }

    /// Records a second.
    pub(super) fn throughput(&self, bytes: f64, application_ns: f64, crosses: bool) -> f64 {
        1e9 / self.gap.of(bytes).max(self.host_ns(bytes, application_ns, crosses))
    }

    /// PD: the part of the throughput that crossing takes.
    pub(super) fn degradation(&self, bytes: f64, application_ns: f64) -> f64 {
        1.0 - self.throughput(bytes, application_ns, true) / self.throughput(bytes, application_ns, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four calls of 100 ns beside 600 ns and 1 ns a byte; the other side takes 0.5 ns a byte and 100 ns.
    const MODEL: Model = Model {
        gap: Cost { fixed: 100.0, per_byte: 0.5 },
        best: Cost { fixed: 600.0, per_byte: 1.0 },
        worst: Cost { fixed: 9_600.0, per_byte: 1.0 },
        calls: Cost { fixed: 4.0, per_byte: 0.0 },
        call_ns: 100.0,
    };

    #[test]
    fn a_line_goes_through_its_points() {
        let cost = Cost::through((512.0, 1_112.0), (4_096.0, 4_696.0));
        assert_eq!(cost, Cost { fixed: 600.0, per_byte: 1.0 });
        assert_eq!(Cost { fixed: -50.0, per_byte: 0.1 }.of(100.0), 0.0);
    }

    #[test]
    fn a_full_processor_pays_for_each_crossing() {
        assert_eq!(MODEL.throughput(400.0, 0.0, false), 1e6);
        // δ / (a + o(b)), with the crossing in o(b).
        assert!((MODEL.degradation(400.0, 0.0) - 400.0 / 1_400.0).abs() < 1e-9);
        assert_eq!((MODEL.worst_ns(400.0, false), MODEL.worst_ns(400.0, true)), (10_000.0, 10_400.0));
        assert!((MODEL.degradation(400.0, 98_600.0) - 0.004).abs() < 1e-9, "a busy application hardly feels it");
    }

    #[test]
    fn a_full_link_hides_it() {
        let slow = MODEL.over(1e9);
        assert_eq!(slow.throughput(4_000.0, 0.0, true), 31_250.0);
        assert_eq!(slow.degradation(4_000.0, 0.0), 0.0);
        assert!(MODEL.over(400e9).degradation(4_000.0, 0.0) > 0.05);
        assert_eq!(MODEL.over_device(1e5).degradation(400.0, 0.0), 0.0);
    }
}

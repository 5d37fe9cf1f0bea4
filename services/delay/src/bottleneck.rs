//! A link of a fixed rate with a bounded queue before it. What doesn't fit is lost (tail drop).
//!
//! Nothing waits here: as the order is first come, first served, the time each packet will have left the link is known
//! when it arrives. The queue is the list of those times that have not come yet.

use crate::config::{QueueLimit, Rate};
use qanat_nic::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// One direction's bottleneck, shared by its queues.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    bits_per_s: u64,
    limit: QueueLimit,
    /// When the link will have sent all it has taken.
    free_at: Time,
    /// When each waiting packet will have been sent, and its length; oldest first. Empty if the limit is in bytes.
    departures: VecDeque<Time>,
}

impl Bottleneck {
    pub(crate) fn new(rate: Rate, limit: QueueLimit) -> Bottleneck {
        let room = match limit {
            QueueLimit::Packets(count) => count as usize,
            QueueLimit::Bytes(_) => 0,
        };
        Bottleneck {
            bits_per_s: rate.0.max(1),
            limit,
            free_at: Time::ZERO,
            // All the memory it will ever use.
            departures: VecDeque::with_capacity(room),
        }
    }

    fn time_of(&self, length: u64) -> Duration {
        let nanos = u128::from(length) * 8 * 1_000_000_000 / u128::from(self.bits_per_s);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// When a packet of `length` bytes that comes now will have been sent; `None`: the queue is full.
    pub(crate) fn admit(&mut self, length: usize, now: Time) -> Option<Time> {
        match self.limit {
            QueueLimit::Packets(count) => {
                while self.departures.front().is_some_and(|departure| *departure <= now) {
                    self.departures.pop_front();
                }
                if self.departures.len() >= count as usize {
                    return None;
                }
            }
            QueueLimit::Bytes(limit) => {
                let backlog_nanos = self.free_at.since(now).as_nanos();
                let backlog = (backlog_nanos * u128::from(self.bits_per_s) / 8_000_000_000) as u64;
                if backlog.saturating_add(length as u64) > limit {
                    return None;
                }
            }
        }
        let departure = self.free_at.max(now) + self.time_of(length as u64);
        self.free_at = departure;
        if matches!(self.limit, QueueLimit::Packets(_)) {
            self.departures.push_back(departure);
        }
        Some(departure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_at_the_rate_and_the_queue_is_bounded() {
        // 1,000 bytes take 1 ms.
        let mut link = Bottleneck::new(Rate(8_000_000), QueueLimit::Packets(3));
        let at = Time::from_millis;
        assert_eq!(link.admit(1_000, at(10)), Some(at(11)));
        assert_eq!(link.admit(1_000, at(10)), Some(at(12)));
        assert_eq!(link.admit(1_000, at(10)), Some(at(13)));
        assert_eq!(link.admit(1_000, at(10)), None);
        assert_eq!(link.admit(1_000, at(11)), Some(at(14)), "one has left");
        assert_eq!(link.admit(500, at(20)), Some(at(20) + Duration::from_micros(500)), "idle since 14");
    }

    #[test]
    fn bytes_are_counted_as_they_leave() {
        let mut link = Bottleneck::new(Rate(8_000_000), QueueLimit::Bytes(2_500));
        let at = Time::from_millis;
        assert_eq!(link.admit(1_500, at(0)), Some(Time::from_micros(1_500)));
        assert!(link.admit(1_500, at(0)).is_none());
        assert!(link.admit(1_000, at(0)).is_some());
        assert!(link.admit(1_000, at(0)).is_none());
        assert!(link.admit(1_000, at(1)).is_some());
    }
}

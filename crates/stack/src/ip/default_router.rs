//! Default routers learnt from advertisements (RFC 4861 section 6.3): off unless configured, at most a few, each for the
//! lifetime it tells. A configured gateway goes before them.

use qanat_nic::Time;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Routers remembered. RFC 4861 section 6.3.4: "a host MUST retain at least two".
const ROUTERS_MAX: usize = 4;
/// MAX_RTR_SOLICITATIONS and RTR_SOLICITATION_INTERVAL.
const SOLICITATIONS_MAX: u8 = 3;
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);

/// Routers, the one in use first, and the search for them.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct DefaultRouters {
    /// Advertisements count.
    enabled: bool,
    routers: Vec<(Ipv6Addr, Time)>,
    solicitations_left: u8,
    next_solicitation: Time,
}

impl DefaultRouters {
    pub(crate) fn new(enabled: bool, now: Time) -> DefaultRouters {
        let solicitations_left = if enabled { SOLICITATIONS_MAX } else { 0 };
        DefaultRouters { enabled, routers: Vec::new(), solicitations_left, next_solicitation: now }
    }

    /// The router to use.
    #[inline]
    pub(crate) fn first(&self) -> Option<Ipv6Addr> {
        self.routers.first().map(|(router, _)| *router)
    }

    /// Whether advertisements count.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Forgets routers whose time is over. Gives whether to ask for some, at the start; that counts as done.
    pub(super) fn poll(&mut self, now: Time) -> bool {
        self.routers.retain(|(_, expires)| *expires > now);
        if self.solicitations_left == 0 || self.next_solicitation > now {
            return false;
        }
        self.solicitations_left -= 1;
        self.next_solicitation = now + SOLICITATION_INTERVAL;
        true
    }

    /// Takes an advertisement, already checked (section 6.1.2). Gives whether the router is one of ours now.
    pub(super) fn advertised(&mut self, router: Ipv6Addr, lifetime: Duration, now: Time) -> bool {
        let known = self.routers.iter().position(|(address, _)| *address == router);
        match known {
            Some(index) if lifetime == Duration::ZERO => {
                self.routers.remove(index);
                return false;
            }
            Some(index) => {
                if let Some((_, expires)) = self.routers.get_mut(index) {
                    *expires = now + lifetime;
                }
            }
            None if lifetime == Duration::ZERO || self.routers.len() >= ROUTERS_MAX => return false,
            None => self.routers.push((router, now + lifetime)),
        }
        self.solicitations_left = 0;
        true
    }

    /// A router does not answer: the others go first (section 6.3.6).
    pub(crate) fn failed(&mut self, router: Ipv6Addr) {
        if let Some(index) = self.routers.iter().position(|(address, _)| *address == router) {
            let entry = self.routers.remove(index);
            self.routers.push(entry);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let expiry = self.routers.iter().map(|(_, expires)| *expires).min();
        let solicitation = (self.solicitations_left > 0).then_some(self.next_solicitation);
        [expiry, solicitation].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_rotated() {
        let router = |last: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last);
        let mut routers = DefaultRouters::new(true, Time::ZERO);
        let minute = Duration::from_secs(60);
        for last in 1..=9 {
            assert_eq!(routers.advertised(router(last), minute, Time::ZERO), last <= 4);
        }
        assert_eq!(routers.first(), Some(router(1)));
        routers.failed(router(1));
        assert_eq!(routers.first(), Some(router(2)));
        assert!(!routers.advertised(router(2), Duration::ZERO, Time::ZERO), "lifetime 0: no longer a router");
        assert_eq!(routers.first(), Some(router(3)));
        assert_eq!(routers.next_deadline(), Some(Time::ZERO + minute));
    }
}

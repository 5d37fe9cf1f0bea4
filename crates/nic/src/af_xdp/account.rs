//! [`Account`]: what has left a device of what was sent, and so what was lost.
//!
//! Frames that are redirected to a veth device whose other end has just stopped taking them are lost without a count: the call that
//! redirects them succeeds. But the device counts what arrives at its other end. What had been sent by the last look, and has not
//! left by this one, will not come.

use crate::link::Departures;

/// Looks after which what is missing all the time is not under way any more, but lost.
const LOOKS_UNTIL_LOST: u32 = 4;

/// Sent and departed, from look to look.
///
/// The kernel may send by the device too. What it sends makes up for what of ours was lost between the same looks, so the count is of
/// what was certainly lost.
#[derive(Debug)]
pub(super) struct Account {
    sent: u64,
    departed: Departures,
    /// Sent and not departed: under way, or lost.
    missing: u64,
    /// The least of it that one of the last looks found, and how many these are.
    least: u64,
    looks: u32,
    lost: u64,
}

impl Account {
    /// Of a device that has counted `now` when `sent` frames had been sent.
    pub(super) fn open(sent: u64, now: Departures) -> Account {
        Account { sent, departed: now, missing: 0, least: u64::MAX, looks: 0, lost: 0 }
    }

    /// Notes how things are: `sent` frames so far, and what the device says.
    pub(super) fn look(&mut self, sent: u64, now: Departures) {
        let before = std::mem::replace(&mut self.departed, now);
        let newly_sent = sent.saturating_sub(std::mem::replace(&mut self.sent, sent));
        let dropped = now.dropped.checked_sub(before.dropped);
        match now.packets.checked_sub(before.packets).zip(dropped) {
            Some((packets, dropped)) => {
                self.lost += dropped;
                // More may have left than was sent: the rest is the kernel's.
                self.missing = (self.missing + newly_sent).saturating_sub(packets.saturating_add(dropped));
            }
            // A device that has fewer queues than before forgets what these have counted, and how much that was is unknown.
            None => self.missing = 0,
        }
        self.least = self.least.min(self.missing);
        self.looks += 1;
        if self.looks >= LOOKS_UNTIL_LOST {
            self.lost += self.least;
            self.missing -= self.least;
            (self.least, self.looks) = (self.missing, 0);
        }
    }

    /// What was lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(packets: u64, dropped: u64) -> Departures {
        Departures { packets, dropped }
    }

    /// Looks so often that nothing can be under way any more.
    fn settle(account: &mut Account, sent: u64, now: Departures) {
        (0..2 * LOOKS_UNTIL_LOST).for_each(|_| account.look(sent, now));
    }

    #[test]
    fn what_never_leaves_is_lost_also_while_more_is_sent() {
        let mut account = Account::open(50, departures(1_000, 7));
        account.look(150, departures(1_100, 7));
        // Fifty are under way, and come.
        account.look(250, departures(1_150, 7));
        account.look(350, departures(1_300, 7));
        settle(&mut account, 350, departures(1_300, 7));
        assert_eq!(account.lost(), 0);
        // Of the next hundred forty don't come, all that is sent later does.
        (0..20).for_each(|look| account.look(450 + look * 100, departures(1_360 + look * 100, 7)));
        assert_eq!(account.lost(), 40);
    }

    #[test]
    fn what_the_device_drops_is_counted_once() {
        let mut account = Account::open(0, departures(0, 5));
        account.look(100, departures(90, 15));
        assert_eq!(account.lost(), 10);
        settle(&mut account, 100, departures(90, 15));
        assert_eq!(account.lost(), 10);
    }

    #[test]
    fn what_the_kernel_sends_hides_no_later_loss() {
        let mut account = Account::open(0, departures(0, 0));
        account.look(10, departures(1_010, 0));
        account.look(20, departures(5_020, 0));
        settle(&mut account, 120, departures(5_020, 0));
        assert_eq!(account.lost(), 100);
    }

    #[test]
    fn counts_that_go_back_begin_anew() {
        let mut account = Account::open(0, departures(0, 0));
        account.look(500, departures(400, 100));
        account.look(600, departures(50, 20));
        assert_eq!(account.lost(), 100, "what was known stays");
        settle(&mut account, 700, departures(140, 30));
        assert_eq!(account.lost(), 110);
    }
}

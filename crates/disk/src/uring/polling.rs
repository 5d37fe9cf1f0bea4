//! [`Polling`]: how a disk's completions are noticed, and why.

use std::fmt::{Display, Formatter};

/// How completions of a disk are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// They are polled for in the device's own queue: nothing interrupts, and while requests are under way nobody sleeps.
    Used,
    /// The device interrupts: its queue has nothing to poll (`/sys/block/…/queue/io_poll` is 0).
    NotOffered,
    /// The device interrupts: its queue can be polled, but what lies over it can't. The error number of the kernel's.
    Refused(i32),
}

impl Display for Polling {
    /// A clause.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Polling::Used => f.write_str("completions are polled for in the device's queue"),
            Polling::NotOffered => f.write_str(
                "completions come by interrupts, not polled: the device's queue offers no polling (NVMe does with nvme.poll_queues=1)",
            ),
            Polling::Refused(number) => {
                let error = std::io::Error::from_raw_os_error(*number);
                write!(f, "completions come by interrupts, not polled: the file system refuses it ({error})")
            }
        }
    }
}

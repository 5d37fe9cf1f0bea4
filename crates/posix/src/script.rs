//! A world without a card: IP packets are handed in and out by a script, and time passes when the script says so. What
//! `libqanat_packetdrill.so` (crates/packetdrill) runs the sockets on.
//!
//! ```text
//!  script's thread ── send(packet) ──▶ Wire ▶ stack ▶ sockets ◀── accept, read, … ── a second thread, asleep in the kernel
//!                  ◀─ receive() ──────  ◀        │                                   until its waker wakes it
//!                  ── sleep(time) ──▶ timers ────┘
//! ```
//! Time goes from one deadline to the next, of the stack's or of a sleeping call's, never past one; and it stands still while a
//! call that was woken has not come back to the script ([`clock`] is what it asks first).

use crate::lifecycle::attach::attach;
pub use crate::world::script::{Setup, clock, receive, send, sleep, start};

/// Makes the world, with the settings of the kernel's network namespace as they are now, if there is none yet.
pub fn begin() -> bool {
    attach(None)
}

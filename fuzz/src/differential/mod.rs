//! Our TCP and smoltcp's, each serving the same model of a peer by the same script: segments in order and not, again and
//! overlapping, data, windows, acknowledgements, time, FIN and RST from the peer; reads, writes, shutdown and abort by the
//! application. Where both must agree they are compared: the bytes delivered and sent, and how the connection ends.
//!
//! ```text
//!                 ┌ Peer (sequence numbers, window, what it sent and got) ── Ours: our stack over a pair
//!  input ─ script ┤
//!                 └ Peer ─────────────────────────────────────────────────── Theirs: smoltcp
//! ```
//! What must hold for ours alone: acknowledgements never go back, the window's edge never moves left, nothing is sent
//! beyond the peer's, and in the end every buffer, slot and timer is back.

mod host;
mod ours;
mod peer;
mod side;
mod streams;
mod theirs;

use host::{End, Host};
use ours::Ours;
use qanat_nic::Time;
use side::{Side, Step};
use std::time::Duration;
use theirs::Theirs;

/// Virtual time the script may take: less than any time-out that ends a connection.
const SCRIPT_TIME_MAX: Duration = Duration::from_secs(30);

/// The first byte configures, then pairs of bytes are steps.
pub fn differential(data: &[u8]) {
    let Some((&flags, rest)) = data.split_first() else { return };
    let start = Time::from_millis(1_000);
    let Some(ours) = Ours::new(flags, start) else { return };
    let mut ours = Side::new(ours, start, flags, true);
    let mut theirs = Side::new(Theirs::new(flags, start), start, flags, false);
    for pair in rest.chunks_exact(2) {
        let step = Step::of(pair[0], pair[1]);
        if ours.now.since(start) > SCRIPT_TIME_MAX && matches!(step, Step::Wait(_)) {
            continue;
        }
        ours.step(step);
        theirs.step(step);
    }
    ours.conclude();
    theirs.conclude();
    ours.check();
    theirs.check();
    let end = ours.host.end();
    assert_eq!(end, theirs.host.end(), "ours, smoltcp's");
    assert_eq!(ours.peer.is_reset(), theirs.peer.is_reset(), "the peer sees a reset: ours, smoltcp's");
    if end == Some(End::Finished) {
        let delivered = (ours.host.delivered().len(), theirs.host.delivered().len());
        assert_eq!(delivered.0, delivered.1, "bytes delivered: ours, smoltcp's");
        assert_eq!(ours.peer.received(), theirs.peer.received(), "bytes sent: ours, smoltcp's");
    }
    ours.host.finish(ours.now);
}

//! The bell of either side: the socket they met on, a byte to wake who sleeps. Each call says by itself that it does not wait:
//! flags of the socket are the other side's to change.

use crate::split::handshake::Reply;
use qanat_control::protocol::{Envelope, VERSION};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::OwnedFd;

/// Bells taken at one look; each is up to [`BYTES`] rings.
const BELLS_PER_LOOK: usize = 16;
const BYTES: usize = 16;

/// Wakes the other side.
pub(crate) fn ring(socket: &OwnedFd) {
    // Full: it has enough to wake up for. Gone: its end is seen at the next look.
    let _ = send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// What was heard of the other side.
pub(crate) enum Heard {
    /// Rings, or nothing.
    Rings,
    /// Words, which are longer than any rings.
    Words(Vec<u8>),
    /// It is gone.
    Nobody,
}

/// Words at most.
const WORDS: usize = 1_024;

/// Silences the bell of who may say something, too.
pub(crate) fn listen(socket: &OwnedFd) -> Heard {
    let mut bytes = [0u8; WORDS];
    for _ in 0..BELLS_PER_LOOK {
        match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Heard::Nobody,
            Ok((length, _)) if length > BYTES => {
                return Heard::Words(bytes.get(..length).unwrap_or_default().to_vec());
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Heard::Rings,
            Err(_) => return Heard::Nobody,
        }
    }
    Heard::Rings
}

/// Says a last word to who may be asleep.
pub(crate) fn say(socket: &OwnedFd, word: Reply) {
    // No word has a part that can't be written.
    let text = serde_json::to_vec(&Envelope { version: VERSION, body: word }).unwrap_or_default();
    let _ = send(socket, &text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Silences the bell; false: the other side is gone.
pub(crate) fn silence(socket: &OwnedFd) -> bool {
    let mut bytes = [0u8; BYTES];
    for _ in 0..BELLS_PER_LOOK {
        match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
    true
}

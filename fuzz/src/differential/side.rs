//! A host, its peer, and the script that both follow.

use super::host::{End, Host};
use super::peer::Peer;
use super::streams::{APPLICATION_SALT, PEER_SALT, STREAM_BYTES_MAX, bytes};
use qanat_nic::Time;
use std::time::Duration;

/// Rounds in which everything must be delivered, acknowledged and closed once nothing holds it back.
const ROUNDS_MAX: u32 = 2_000;
/// By then all that was received is acknowledged.
const DELAYED_ACK_MAX: Duration = Duration::from_millis(250);
const ROUND: Duration = Duration::from_millis(20);

/// One step of the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Send { length: u32 },
    SendReversed { length: u32 },
    SendAgain { back: u32, length: u32 },
    Acknowledge,
    Window(u16),
    Wait(Duration),
    PeerShutdown,
    Reset,
    Read,
    Write { length: u32 },
    Shutdown,
    Abort,
}

impl Step {
    pub(super) fn of(kind: u8, value: u8) -> Step {
        let (length, pick) = (u32::from(value), usize::from(value & 3));
        match kind % 16 {
            0..=2 => Step::Send { length: length * 6 + 1 },
            3 => Step::SendReversed { length: length * 2 + 1 },
            4 | 5 => Step::SendAgain { back: length * 5, length: length * 7 % 1_400 + 1 },
            6 | 7 => Step::Acknowledge,
            8 => Step::Window([500, 1_460, 4_000, 60_000][pick]),
            9 => Step::Wait(Duration::from_micros(1 << (value % 22))),
            10 | 11 => Step::Read,
            12 => Step::Write { length: length * 12 + 1 },
            13 if value < 32 => Step::PeerShutdown,
            14 if value < 32 => Step::Shutdown,
            15 if value < 2 => Step::Reset,
            15 if value < 4 => Step::Abort,
            _ => Step::Acknowledge,
        }
    }
}

/// A host, its peer and their time.
pub(super) struct Side<H> {
    pub(super) host: H,
    pub(super) peer: Peer,
    pub(super) now: Time,
    /// Bytes the application has written.
    written: u32,
    is_shut: bool,
    is_aborted: bool,
}

impl<H: Host> Side<H> {
    pub(super) fn new(host: H, start: Time, flags: u8, strict: bool) -> Side<H> {
        let peer = Peer::new(host.macs(), flags, strict);
        let mut side = Side { host, peer, now: start, written: 0, is_shut: false, is_aborted: false };
        side.peer.connect();
        for _ in 0..4 {
            side.exchange();
        }
        assert!(side.peer.is_connected(), "no handshake");
        side
    }

    /// Until neither has more to say at this moment.
    fn exchange(&mut self) {
        for _ in 0..64 {
            let frames = self.peer.take_outbox();
            let answers = self.host.exchange(self.now, &frames);
            if frames.is_empty() && answers.is_empty() {
                return;
            }
            let sent = (self.written, self.is_shut);
            answers.iter().for_each(|frame| self.peer.take(frame, sent));
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        let is_over = self.host.end().is_some() || self.peer.is_reset();
        // Where both have closed, RFC 9293 has a reset end it without a word, and smoltcp doesn't; and the two need not be
        // equally far.
        let may_break = !(is_over || self.is_shut && self.peer.is_shut());
        match step {
            Step::Send { length } => self.peer.send(length),
            Step::SendReversed { length } => self.peer.send_reversed(length),
            Step::SendAgain { back, length } => self.peer.send_again(back, length),
            Step::Acknowledge => self.peer.acknowledge(),
            Step::Window(window) => self.peer.set_window(window),
            Step::Wait(duration) => self.now += duration,
            Step::PeerShutdown => self.peer.shutdown(),
            Step::Reset if may_break => {
                // What has been acknowledged must be delivered; it is read before, as a reset may destroy it.
                self.host.read(self.now);
                self.exchange();
                // The reset must be where the host expects the next byte: its last acknowledgement says where.
                self.now += DELAYED_ACK_MAX;
                self.exchange();
                self.peer.reset();
            }
            Step::Read => self.host.read(self.now),
            Step::Write { length } if !self.is_shut && !is_over => {
                let length = length.min(STREAM_BYTES_MAX - self.written);
                self.host.write(self.now, &bytes(APPLICATION_SALT, self.written, length));
                self.written += length;
            }
            Step::Shutdown if !is_over => self.shut_down(),
            Step::Abort if may_break => {
                self.host.abort(self.now);
                self.is_aborted = true;
            }
            Step::Reset | Step::Write { .. } | Step::Shutdown | Step::Abort => {}
        }
        self.exchange();
    }

    fn shut_down(&mut self) {
        if !std::mem::replace(&mut self.is_shut, true) {
            self.host.shutdown(self.now);
        }
    }

    /// Lets everything get through, and both close.
    pub(super) fn conclude(&mut self) {
        self.peer.set_window(60_000);
        for _ in 0..ROUNDS_MAX {
            self.host.read(self.now);
            if self.host.end().is_some() && (self.peer.is_reset() || self.peer.is_finished()) {
                return;
            }
            if self.host.end().is_none() && !self.is_aborted {
                self.shut_down();
            }
            self.peer.go_on();
            self.exchange();
            self.now += ROUND;
            self.exchange();
        }
        let (end, closed, count) = (self.host.end(), self.host.peer_closed(), self.host.delivered().len());
        panic!("never over: host {end:?}, FIN seen {closed}, {count} bytes; {:?}, wrote {}", self.peer, self.written);
    }

    /// What must hold whoever it is.
    pub(super) fn check(&self) {
        let delivered = self.host.delivered();
        let count = delivered.len() as u32;
        assert!(delivered == bytes(PEER_SALT, 0, count), "delivered what was not sent");
        assert!(count <= self.peer.sent(), "more delivered than was sent");
        if !self.is_aborted {
            assert!(count >= self.peer.acknowledged(), "{count} delivered of {:?}", self.peer);
        }
        if self.host.end() == Some(End::Finished) {
            assert_eq!(count, self.peer.sent(), "finished with bytes missing");
            assert_eq!(self.peer.received(), self.written, "finished with bytes of the application missing");
            assert!(self.host.peer_closed());
        }
    }
}

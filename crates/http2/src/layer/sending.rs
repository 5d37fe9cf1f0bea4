//! What services gave is sent on a carrier, stream by stream in turns.

use super::carrier::{Carrier, Phase};
use super::ledger::Owner;
use super::shared::Ground;
use super::stream::{Progress, Stream};
use crate::error::ErrorCode::Internal;
use crate::frame::{Header, flag, kind, write_block};
use crate::response::{NoResponse, encode_head};
use crate::settings::FRAME_BYTES;
use qanat_api::{CloseReason, Commands, ConnectionId, Event, Piece};

/// Content given to the connection ahead of what its windows let go.
const UNSENT_BYTES: i64 = 64 << 10;
/// Bytes of a response that are looked at for its head, at first and at last.
const HEAD_BYTES: [usize; 2] = [1_024, 32 << 10];
/// A status that another one follows is less.
const FINAL_STATUS: u16 = 200;

/// What became of a stream's turn.
enum Turn {
    /// It sent so many bytes, and may have more.
    Sent(usize),
    /// It has nothing that can be sent now.
    Paused,
    /// It is done with, and gone.
    Gone,
}

impl Carrier {
    /// Sends what can be sent now, and ends what is to end.
    pub(super) fn send<C: Commands>(&mut self, ground: &mut Ground<'_>, below: &mut C) {
        if self.phase == Phase::Over {
            return;
        }
        let is_free = self.flush(below);
        if self.is_heard() && is_free {
            self.serve_ready(ground, below);
        }
        let is_flushed = self.flush(below);
        let is_last = match self.phase {
            Phase::Failed => true,
            Phase::GoingAway => self.streams.count() == 0,
            Phase::Open | Phase::Over => false,
        };
        if is_last && is_flushed {
            self.phase = Phase::Over;
            self.drop_output();
            // Refused only if it is gone already: then `Closed` is on its way.
            let _ = below.close(self.below);
        }
    }

    fn serve_ready<C: Commands>(&mut self, ground: &mut Ground<'_>, below: &mut C) {
        let mut room = self.room(UNSENT_BYTES, below);
        // Ends: a stream that sends nothing leaves the list, and each that does takes of the room.
        while room > 0
            && !self.is_held_up()
            && let Some(id) = self.ready.pop_front()
        {
            match self.turn(id, ground, below) {
                Turn::Sent(bytes) => {
                    room -= bytes as i64;
                    self.ready.push_back(id);
                }
                Turn::Paused => {
                    if let Some(stream) = ground.slots.stream_mut(id) {
                        stream.is_ready = false;
                    }
                }
                Turn::Gone => {}
            }
        }
    }

    /// A stream sends its head, or a frame of content, or both.
    fn turn<C: Commands>(&mut self, id: ConnectionId, ground: &mut Ground<'_>, below: &mut C) -> Turn {
        let Some(stream) = ground.slots.stream_mut(id) else { return Turn::Gone };
        if stream.is_over {
            return self.settle(id, ground);
        }
        let number = stream.number;
        let mut frames = Vec::new();
        let mut text = std::mem::take(&mut ground.shared.text);
        let mut block = std::mem::take(&mut ground.shared.block);
        let head = write_head(stream, &mut text, &mut block, &mut frames);
        (ground.shared.text, ground.shared.block) = (text, block);
        let head_bytes = match head {
            Ok(bytes) => bytes,
            Err(NoResponse::Partial) if !stream.is_closing => return Turn::Paused,
            Err(_) => {
                self.reset(number, Internal, ground);
                return Turn::Gone;
            }
        };
        let count = self.content_now(stream);
        if let Progress::Content(left) = stream.progress {
            let is_last = match left {
                Some(left) => count == left,
                None => stream.is_closing && count == stream.queue.bytes(),
            };
            // It closed before it gave what it had promised.
            if stream.is_closing && left.is_some_and(|left| left > stream.queue.bytes()) {
                self.reset(number, Internal, ground);
                return Turn::Gone;
            }
            if count > 0 || is_last {
                let flags = if is_last { flag::END_STREAM } else { 0 };
                let header = Header { length: count as usize, kind: kind::DATA, flags, stream: number };
                frames.extend_from_slice(&header.bytes());
                stream.progress =
                    if is_last { Progress::Ended } else { Progress::Content(left.map(|left| left - count)) };
            }
        }
        if frames.is_empty() {
            return Turn::Paused;
        }
        let sent = frames.len() + count as usize;
        stream.window -= count as i64;
        stream.unacknowledged += sent;
        self.window -= count as i64;
        self.guard.was_useful(sent);
        self.ledger.note(frames.len(), Owner::Stream(id, head_bytes));
        self.give(Piece::Bytes(frames.into()), below);
        let mut left = count;
        while left > 0
            && let Some(piece) = stream.queue.take(left)
        {
            let bytes = piece.length();
            left -= bytes;
            self.ledger.note(bytes as usize, Owner::Stream(id, bytes));
            self.give(piece, below);
        }
        if stream.progress == Progress::Ended {
            stream.is_over = true;
            self.open -= 1;
            let is_ended = stream.is_ended;
            self.end_half(number, is_ended);
        }
        Turn::Sent(sent)
    }

    /// Bytes of content that a stream can send in one frame now.
    fn content_now(&self, stream: &Stream) -> u64 {
        let Progress::Content(left) = stream.progress else { return 0 };
        let window = stream.window.min(self.window).max(0) as u64;
        window.min(FRAME_BYTES as u64).min(stream.queue.bytes()).min(left.unwrap_or(u64::MAX))
    }

    /// A stream on which both sides have said everything: it is gone when its service has closed it, and the peer has all of it.
    fn settle(&mut self, id: ConnectionId, ground: &mut Ground<'_>) -> Turn {
        let Some(stream) = ground.slots.stream(id) else { return Turn::Gone };
        if !stream.is_done() {
            return Turn::Paused;
        }
        self.end_stream(id, CloseReason::Finished, ground);
        Turn::Gone
    }

    /// The peer acknowledged so many bytes more.
    pub(super) fn on_acknowledged(&mut self, bytes: u32, ground: &mut Ground<'_>) {
        self.note_acknowledged(bytes as usize);
        let mut ledger = std::mem::take(&mut self.ledger);
        // What one stream is told of together.
        let mut told: Option<(ConnectionId, u64)> = None;
        let mut done = Vec::new();
        ledger.acknowledged(bytes as usize, |bytes, owner| {
            let Owner::Stream(id, content) = owner else { return };
            let Some(stream) = ground.slots.stream_mut(id) else { return };
            stream.unacknowledged -= bytes;
            if stream.is_done() {
                done.push(id);
            }
            if let Some((last, count)) = &mut told
                && *last == id
            {
                *count += content;
            } else if let Some(before) = told.replace((id, content)) {
                tell(before, ground);
            }
        });
        self.ledger = ledger;
        if let Some(last) = told {
            tell(last, ground);
        }
        for id in done {
            self.settle(id, ground);
        }
    }
}

/// Tells a service what its peer has.
fn tell((connection, bytes): (ConnectionId, u64), ground: &mut Ground<'_>) {
    if bytes > 0 {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        ground.shared.events.push_back(Event::Acked { connection, bytes });
    }
}

/// Writes the frames of a response's head, if they are not sent yet. Returns how many bytes of what the service gave that are.
fn write_head(
    stream: &mut Stream,
    text: &mut Vec<u8>,
    block: &mut Vec<u8>,
    frames: &mut Vec<u8>,
) -> Result<u64, NoResponse> {
    let mut taken = 0;
    while stream.progress == Progress::Head {
        let waiting = usize::try_from(stream.queue.bytes()).unwrap_or(usize::MAX);
        let mut response = Err(NoResponse::Partial);
        for most in HEAD_BYTES {
            text.resize(waiting.min(most), 0);
            stream.queue.copy(text);
            block.clear();
            response = encode_head(text, block);
            if response != Err(NoResponse::Partial) || waiting <= most {
                break;
            }
        }
        let is_too_long = waiting > HEAD_BYTES[1];
        let response = match response {
            Err(NoResponse::Partial) if is_too_long => Err(NoResponse::Malformed),
            // Something was sent before it.
            Err(NoResponse::Partial) if taken > 0 => return Ok(taken),
            other => other,
        }?;
        stream.queue.skip(response.head_length);
        taken += response.head_length as u64;
        let has_content = !stream.is_head && !matches!(response.status, 204 | 304);
        let left = if has_content { response.content_length } else { Some(0) };
        let is_final = response.status >= FINAL_STATUS;
        let is_last = is_final && left == Some(0);
        write_block(stream.number, block, is_last, frames);
        if is_last {
            stream.progress = Progress::Ended;
        } else if is_final {
            stream.progress = Progress::Content(left);
        }
    }
    Ok(taken)
}

//! What comes on a carrier: frames, and what each of them does (RFC 9113, 4 to 6).

use super::carrier::{Block, Carrier, Phase};
use super::shared::Ground;
use super::streams::Number;
use crate::error::ErrorCode::{
    EnhanceYourCalm, FlowControl, FrameSize, Internal, Protocol, RefusedStream, StreamClosed,
};
use crate::error::{ErrorCode, Fault};
use crate::frame::{Frame, HEADER_BYTES, Header, flag, kind, parse};
use crate::settings::{FRAME_BYTES, WINDOW, WINDOW_MAX, initial_window};
use qanat_api::{CloseReason, ConnectionId, Event};

/// The window of all streams is opened again by so much at once.
const WINDOW_STEP: i64 = WINDOW / 2;
/// Frames of one block of fields.
const BLOCK_FRAMES_MAX: usize = 32;
/// Memory for the beginning of a frame that an idle connection keeps.
const INPUT_BYTES_KEPT: usize = 1_024;

impl Carrier {
    /// Takes the next bytes of the connection.
    pub(super) fn feed(&mut self, bytes: &[u8], ground: &mut Ground<'_>) {
        let mut rest = bytes;
        while !rest.is_empty() && self.is_heard() {
            if self.input.is_empty()
                && let Some(header) = Header::read(rest)
                && header.length <= FRAME_BYTES
                && let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + header.length)
            {
                // The usual case: it is whole where it lies.
                rest = rest.get(HEADER_BYTES + header.length..).unwrap_or_default();
                self.on_frame(header, payload, ground);
                continue;
            }
            let wanted = self.wanted();
            let (part, more) = rest.split_at(rest.len().min(wanted));
            rest = more;
            self.input.extend_from_slice(part);
            let Some(header) = Header::read(&self.input) else { continue };
            if header.length > FRAME_BYTES {
                self.fail(FrameSize, ground);
            } else if self.wanted() == 0 {
                let mut input = std::mem::take(&mut self.input);
                self.on_frame(header, input.get(HEADER_BYTES..).unwrap_or_default(), ground);
                input.clear();
                input.shrink_to(INPUT_BYTES_KEPT);
                self.input = input;
            }
        }
    }

    /// Bytes that are missing to the header of the frame that began, or to the frame.
    fn wanted(&self) -> usize {
        let whole = Header::read(&self.input).map_or(HEADER_BYTES, |header| HEADER_BYTES + header.length);
        whole.saturating_sub(self.input.len())
    }

    fn on_frame(&mut self, header: Header, payload: &[u8], ground: &mut Ground<'_>) {
        self.guard.came(HEADER_BYTES + payload.len());
        let outcome = self.check_order(header).and_then(|()| {
            let frame = parse(header, payload)?;
            self.take(frame, ground)
        });
        match outcome {
            Ok(()) => {}
            Err(Fault::Connection(code)) => return self.fail(code, ground),
            // What has not begun can't be reset.
            Err(Fault::Stream(number, code)) if self.streams.find(number) == Number::Idle => self.fail(code, ground),
            Err(Fault::Stream(number, code)) => {
                // Who has too many at once may not know yet how many it may have.
                if code != RefusedStream {
                    self.guard.stream_ended_early();
                }
                self.reset(number, code, ground);
            }
        }
        if self.is_heard() && (self.guard.is_flood() || self.owes_too_many_answers()) {
            self.fail(EnhanceYourCalm, ground);
        }
    }

    /// The first frame is of settings (3.4), and nothing is between the frames of one block (4.3).
    fn check_order(&mut self, header: Header) -> Result<(), Fault> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let is_expected = match &self.block {
            Some(block) => header.kind == kind::CONTINUATION && header.stream == block.stream,
            None => header.kind != kind::CONTINUATION,
        };
        if is_first && (header.kind != kind::SETTINGS || header.flags & flag::ACK != 0) || !is_expected {
            return Err(Fault::Connection(Protocol));
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame<'_>, ground: &mut Ground<'_>) -> Result<(), Fault> {
        match frame {
            Frame::Data { stream, content, counted, is_last } => {
                self.on_data(stream, content.len(), counted, is_last, ground)
            }
            Frame::Headers { stream, block, is_last, ends_block } => {
                self.guard.was_useful(block.len());
                if ends_block {
                    return self.on_block(stream, is_last, block, ground);
                }
                self.block = Some(Block { stream, is_last, bytes: block.to_vec(), frames: 1 });
                Ok(())
            }
            Frame::Continuation { block, ends_block, .. } => self.on_continuation(block, ends_block, ground),
            Frame::Reset { stream } => self.on_reset(stream, ground),
            Frame::Settings(settings) => self.on_settings(settings, ground),
            Frame::Ping(opaque) => {
                self.answer(kind::PING, flag::ACK, 0, &opaque);
                Ok(())
            }
            Frame::WindowUpdate { stream: 0, increment } => self.on_window_update_of_all(increment, ground),
            Frame::WindowUpdate { stream, increment } => self.on_window_update(stream, increment, ground),
            Frame::SettingsTaken | Frame::Ignored => Ok(()),
        }
    }

    fn on_continuation(&mut self, part: &[u8], ends_block: bool, ground: &mut Ground<'_>) -> Result<(), Fault> {
        let Some(mut block) = self.block.take() else { return Err(Fault::Connection(Protocol)) };
        block.bytes.extend_from_slice(part);
        block.frames += 1;
        // What is left out would be missing from the decoder's table, so there is no going on.
        if block.frames > BLOCK_FRAMES_MAX || block.bytes.len() > 2 * ground.shared.limits.head_bytes_max + FRAME_BYTES
        {
            return Err(Fault::Connection(EnhanceYourCalm));
        }
        self.guard.was_useful(part.len());
        if ends_block {
            return self.on_block(block.stream, block.is_last, &block.bytes, ground);
        }
        self.block = Some(block);
        Ok(())
    }

    /// Content of a request: it is counted, and dropped.
    fn on_data(
        &mut self,
        number: u32,
        length: usize,
        counted: usize,
        is_last: bool,
        ground: &mut Ground<'_>,
    ) -> Result<(), Fault> {
        let counted = counted as i64;
        self.receive_window -= counted;
        if self.receive_window < 0 {
            return Err(Fault::Connection(FlowControl));
        }
        if WINDOW - self.receive_window >= WINDOW_STEP {
            let increment = WINDOW - self.receive_window;
            self.receive_window = WINDOW;
            self.answer(kind::WINDOW_UPDATE, 0, 0, &(increment as u32).to_be_bytes());
        }
        let id = match self.streams.find(number) {
            Number::Known(id) => id,
            Number::Idle => return Err(Fault::Connection(Protocol)),
            Number::Reset => return Ok(()),
            Number::Closed => return Err(Fault::Stream(number, StreamClosed)),
        };
        let Some(stream) = ground.slots.stream_mut(id) else { return Err(Fault::Connection(Internal)) };
        if stream.is_ended {
            return Err(Fault::Stream(number, StreamClosed));
        }
        self.guard.was_useful(length);
        stream.receive_window -= counted;
        stream.content_bytes += length as u64;
        if stream.receive_window < 0 {
            return Err(Fault::Stream(number, FlowControl));
        }
        let is_too_long = stream.content_length.is_some_and(|said| stream.content_bytes > said);
        let is_too_short = is_last && stream.content_length.is_some_and(|said| stream.content_bytes < said);
        if is_too_long || is_too_short {
            return Err(Fault::Stream(number, Protocol));
        }
        // A window is not opened again: who has more to say is answered before it is said.
        if is_last {
            self.end_request(id, ground);
        } else if stream.receive_window == 0 {
            self.dispatch(id, ground);
        }
        Ok(())
    }

    fn on_reset(&mut self, number: u32, ground: &mut Ground<'_>) -> Result<(), Fault> {
        match self.streams.find(number) {
            Number::Idle => Err(Fault::Connection(Protocol)),
            Number::Reset | Number::Closed => Ok(()),
            Number::Known(id) => {
                if ground.slots.stream(id).is_some_and(|stream| !stream.is_over) {
                    ground.shared.figures.streams_reset_by_peer += 1;
                    self.guard.stream_ended_early();
                    self.end_stream(id, CloseReason::ResetByPeer, ground);
                }
                Ok(())
            }
        }
    }

    fn on_settings(&mut self, settings: &[u8], ground: &mut Ground<'_>) -> Result<(), Fault> {
        if let Some(window) = initial_window(settings)? {
            let change = window - self.initial_window;
            self.initial_window = window;
            for id in self.streams.ids().collect::<Vec<_>>() {
                self.widen(id, change, ground).map_err(|()| Fault::Connection(FlowControl))?;
            }
        }
        self.answer(kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(())
    }

    fn on_window_update_of_all(&mut self, increment: i64, ground: &mut Ground<'_>) -> Result<(), Fault> {
        let was_shut = self.window <= 0;
        self.window += increment;
        if self.window > WINDOW_MAX {
            return Err(Fault::Connection(FlowControl));
        }
        if was_shut {
            for id in self.streams.ids().collect::<Vec<_>>() {
                if let Some(stream) = ground.slots.stream_mut(id) {
                    self.make_ready(stream, id);
                }
            }
        }
        Ok(())
    }

    fn on_window_update(&mut self, number: u32, increment: i64, ground: &mut Ground<'_>) -> Result<(), Fault> {
        match self.streams.find(number) {
            Number::Idle => Err(Fault::Connection(Protocol)),
            Number::Reset | Number::Closed => Ok(()),
            Number::Known(id) => self.widen(id, increment, ground).map_err(|()| Fault::Stream(number, FlowControl)),
        }
    }

    /// So many bytes more may be sent on a stream. Fails if that is more than any window can be.
    fn widen(&mut self, id: ConnectionId, change: i64, ground: &mut Ground<'_>) -> Result<(), ()> {
        let Some(stream) = ground.slots.stream_mut(id).filter(|stream| !stream.is_over) else { return Ok(()) };
        stream.window += change;
        if stream.window > WINDOW_MAX {
            return Err(());
        }
        self.make_ready(stream, id);
        Ok(())
    }

    /// This side resets a stream: the peer, or the service, did what it must not.
    pub(super) fn reset(&mut self, number: u32, code: ErrorCode, ground: &mut Ground<'_>) {
        ground.shared.figures.streams_reset += 1;
        self.say_reset(number, code);
        if let Number::Known(id) = self.streams.find(number) {
            self.end_stream(id, CloseReason::Aborted, ground);
        }
    }

    /// A stream is gone at once; its service is told, if it knows of it.
    pub(super) fn end_stream(&mut self, id: ConnectionId, why: CloseReason, ground: &mut Ground<'_>) {
        let Some(stream) = ground.slots.stream(id) else { return };
        let (number, is_known) = (stream.number, stream.is_known);
        self.waiting_bytes -= stream.request.as_ref().map_or(0, |head| head.len());
        self.open -= u32::from(!stream.is_over);
        self.streams.remove(number);
        ground.slots.remove(id);
        if is_known {
            ground.shared.events.push_back(Event::Closed { connection: id, why });
        }
    }

    /// The peer sends no more: what is not whole never will be.
    pub(super) fn on_peer_closed(&mut self, ground: &mut Ground<'_>) {
        if self.phase == Phase::Open {
            self.phase = Phase::GoingAway;
        }
        for id in self.streams.ids().collect::<Vec<_>>() {
            if ground.slots.stream(id).is_some_and(|stream| !stream.is_ended && !stream.is_over) {
                self.end_stream(id, CloseReason::ResetByPeer, ground);
            }
        }
    }

    /// All streams are gone.
    pub(super) fn end_all_streams(&mut self, why: CloseReason, ground: &mut Ground<'_>) {
        for id in self.streams.take_all() {
            self.end_stream(id, why, ground);
        }
    }

    /// The connection can't go on: the peer is told why, and the service of the ends of its streams.
    pub(super) fn fail(&mut self, code: ErrorCode, ground: &mut Ground<'_>) {
        ground.shared.figures.carriers_failed += 1;
        ground.shared.figures.floods += u64::from(code == EnhanceYourCalm);
        self.say_goodbye(code);
        self.phase = Phase::Failed;
        self.end_all_streams(CloseReason::Aborted, ground);
        self.ready.clear();
        (self.input, self.block) = (Vec::new(), None);
    }
}

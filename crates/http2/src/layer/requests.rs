//! A block of fields becomes a request, and a connection of the service (RFC 9113, 8.1 and 8.3).

use super::carrier::{Carrier, Phase};
use super::shared::Ground;
use super::slots::Slot;
use super::stream::Stream;
use super::streams::Number;
use crate::error::ErrorCode::{Compression, Internal, Protocol, RefusedStream, StreamClosed};
use crate::error::{ErrorCode, Fault};
use crate::frame::write_block;
use crate::hpack::{encode, encode_status};
use crate::request::{Request, Wrong};
use qanat_api::{Chunk, ConnectionId, Event};

impl Carrier {
    /// A block is whole.
    pub(super) fn on_block(
        &mut self,
        number: u32,
        is_last: bool,
        block: &[u8],
        ground: &mut Ground<'_>,
    ) -> Result<(), Fault> {
        let found = self.streams.find(number);
        if number.is_multiple_of(2) {
            return Err(Fault::Connection(Protocol));
        }
        if found == Number::Closed {
            return Err(Fault::Connection(StreamClosed));
        }
        // Whatever becomes of it: what it says belongs in the table.
        let (head, bytes_max) = (&mut ground.shared.head, ground.shared.limits.head_bytes_max);
        head.begin();
        let read = self.decoder.decode(block, |name, value| head.field(name, value, bytes_max));
        read.map_err(|_| Fault::Connection(Compression))?;
        match found {
            Number::Known(id) => self.on_trailers(number, is_last, id, ground),
            // Trailers of a stream that was reset.
            Number::Reset | Number::Closed => Ok(()),
            Number::Idle => self.on_request(number, is_last, ground),
        }
    }

    /// Fields behind the content.
    fn on_trailers(
        &mut self,
        number: u32,
        is_last: bool,
        id: ConnectionId,
        ground: &mut Ground<'_>,
    ) -> Result<(), Fault> {
        let Some(stream) = ground.slots.stream(id) else { return Err(Fault::Connection(Internal)) };
        if stream.is_ended {
            return Err(Fault::Stream(number, StreamClosed));
        }
        let is_whole = stream.content_length.is_none_or(|said| stream.content_bytes == said);
        if !is_last || !is_whole || !ground.shared.head.is_trailer() {
            return Err(Fault::Stream(number, Protocol));
        }
        self.end_request(id, ground);
        Ok(())
    }

    fn on_request(&mut self, number: u32, is_last: bool, ground: &mut Ground<'_>) -> Result<(), Fault> {
        self.streams.begin(number);
        self.guard.stream_began();
        let figures = &mut ground.shared.figures;
        let streams_max = ground.shared.limits.streams_max;
        // As many again may be over, with their ends not acknowledged yet.
        let is_too_many = self.open >= streams_max || self.streams.count() >= 2 * streams_max as usize;
        if self.phase != Phase::Open || is_too_many {
            figures.requests_refused += 1;
            return Err(Fault::Stream(number, RefusedStream));
        }
        let request = match ground.shared.head.end() {
            Ok(request) => request,
            Err(Wrong::Malformed) => {
                figures.requests_malformed += 1;
                return Err(Fault::Stream(number, Protocol));
            }
            Err(why) => {
                figures.requests_answered += 1;
                self.answer_request(number, is_last, if why == Wrong::Connect { 501 } else { 431 });
                return Ok(());
            }
        };
        if is_last && request.content_length.is_some_and(|said| said > 0) {
            figures.requests_malformed += 1;
            return Err(Fault::Stream(number, Protocol));
        }
        self.begin_stream(number, is_last, request, ground);
        Ok(())
    }

    fn begin_stream(&mut self, number: u32, is_last: bool, request: Request, ground: &mut Ground<'_>) {
        let head = written(ground);
        self.waiting_bytes += head.len();
        let id = ground.slots.insert(|_| {
            let stream = Stream::new(self.id, number, self.initial_window, head);
            Slot::Stream(Stream { content_length: request.content_length, is_head: request.is_head, ..stream })
        });
        self.streams.insert(number, id);
        self.open += 1;
        self.requests = self.requests.saturating_add(1);
        if ground.shared.limits.requests_max != 0 && self.requests >= ground.shared.limits.requests_max {
            self.go_away();
        }
        if is_last {
            self.end_request(id, ground);
        } else if self.waiting_bytes > ground.shared.limits.head_bytes_max {
            // As much may wait as of one head: who has more to say is answered before it is said.
            self.dispatch(id, ground);
        }
    }

    /// The connection is to end: requests that wait for their content are answered before it comes.
    pub(super) fn dispatch_all(&mut self, ground: &mut Ground<'_>) {
        for id in self.streams.ids().collect::<Vec<_>>() {
            self.dispatch(id, ground);
        }
    }

    /// The peer has sent all of a request.
    pub(super) fn end_request(&mut self, id: ConnectionId, ground: &mut Ground<'_>) {
        if let Some(stream) = ground.slots.stream_mut(id) {
            stream.is_ended = true;
        }
        self.dispatch(id, ground);
    }

    /// Gives a request to the service, if it has not got it.
    pub(super) fn dispatch(&mut self, id: ConnectionId, ground: &mut Ground<'_>) {
        let Some(stream) = ground.slots.stream_mut(id) else { return };
        let Some(head) = stream.request.take() else { return };
        self.waiting_bytes -= head.len();
        let Some(frame) = ground.shared.frame(&head) else {
            let number = stream.number;
            ground.shared.figures.requests_refused += 1;
            return self.reset(number, RefusedStream, ground);
        };
        stream.is_known = true;
        ground.shared.figures.requests += 1;
        let (listener, peer) = (self.listener, self.peer);
        ground.shared.events.push_back(Event::Accepted { connection: id, listener, peer });
        ground.shared.events.push_back(Event::Data { connection: id, chunk: Chunk::new(frame) });
    }

    /// A response of the layer's own, without content.
    fn answer_request(&mut self, number: u32, is_last: bool, status: u16) {
        let mut block = Vec::new();
        encode_status(status, &mut block);
        encode(b"content-length", b"0", &mut block);
        write_block(number, &block, true, self.answers());
        self.end_half(number, is_last);
    }

    /// The response is sent. If the request is not, the peer is told that it need not go on (8.1).
    pub(super) fn end_half(&mut self, number: u32, is_ended: bool) {
        if !is_ended {
            self.say_reset(number, ErrorCode::NoError);
        }
    }
}

/// The head. It may have to wait, so it is in memory of its own; a stream is no more than a connection, and has some, too.
fn written(ground: &mut Ground<'_>) -> Box<[u8]> {
    let mut text = std::mem::take(&mut ground.shared.text);
    text.clear();
    ground.shared.head.write(&mut text);
    let head = text.as_slice().into();
    ground.shared.text = text;
    head
}

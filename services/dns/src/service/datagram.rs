//! Datagrams, answered in the frame that they came in.

use super::rate_limit::Decision;
use super::server::{DnsService, written};
use crate::answer::question::flags;
use crate::answer::{self, Fate, Origin, Outcome, Transport, edns};
use crate::message::HEADER_LENGTH;
use crate::transfer::Way;
use qanat::{Chunk, Commands, Context, Time, UdpSocketId};
use std::net::SocketAddr;

impl DnsService {
    /// Answers a datagram of any kind.
    #[inline]
    pub(super) fn any_datagram(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut chunk: Chunk,
        context: &mut Context<'_>,
    ) {
        let length = chunk.len();
        let plain = self.catalog.only().and_then(|zone| answer::plain_datagram(zone, &mut chunk, self.plain_max));
        if let Some(outcome) = plain {
            // What is known of such an outcome needs no looking at.
            if self.limiter.is_some() || self.log.is_some() {
                return self.send(outcome, length, socket, peer, chunk, context);
            }
            self.figures.count(&outcome, length);
            self.figures.not_sent += u64::from(context.send_chunk_to(socket, peer, chunk).is_err());
            return;
        }
        self.other_datagram(socket, peer, chunk, context);
    }

    /// Answers a datagram that is no plain question for a ready answer.
    #[inline]
    pub(super) fn other_datagram(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut chunk: Chunk,
        context: &mut Context<'_>,
    ) {
        let length = chunk.len();
        let whole = length.saturating_add(chunk.room()).min(self.payload_max.max(length));
        let Some(message) = chunk.resize(whole) else { return };
        let outcome = self.unusual_datagram(message, length, peer, context);
        self.send(outcome, length, socket, peer, chunk, context);
    }

    #[inline(never)]
    fn unusual_datagram(
        &mut self,
        message: &mut [u8],
        length: usize,
        peer: SocketAddr,
        context: &mut Context<'_>,
    ) -> Outcome {
        let transport = Transport::Udp { payload_max: self.payload_max };
        let origin = Origin { transport, peer: peer.ip(), now_s: self.now_s };
        let outcome = self.responder.answer_in_place(&self.catalog, message, length, &origin);
        match outcome.fate {
            Fate::Answered => outcome,
            Fate::Silence => {
                self.transfers.answered(message.get(..length).unwrap_or_default(), peer);
                outcome
            }
            _ => {
                let request = message.get(..length).unwrap_or_default().to_vec();
                let reply = self.elsewhere(&request, peer, Way::Udp(self.payload_max));
                self.transfers.poll(context);
                written(reply, &request, message)
            }
        }
    }

    /// Sends the answer in `chunk` to a request of `length` bytes, unless there are too many such.
    #[inline(never)]
    fn send(
        &mut self,
        mut outcome: Outcome,
        length: usize,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut chunk: Chunk,
        context: &mut Context<'_>,
    ) {
        if let Some(limiter) = &mut self.limiter
            && outcome.length > 0
        {
            let now_ms = (context.now().since(Time::ZERO).as_millis() & u128::from(u32::MAX)) as u32;
            // A copy: what nobody points to stays in registers.
            match limiter.decide(&{ outcome }, peer.ip(), now_ms) {
                Decision::Send => {}
                Decision::Slip => {
                    if let Some(message) = chunk.resize(outcome.length) {
                        outcome = truncate(message, outcome);
                    }
                    self.figures.slipped += 1;
                }
                Decision::Drop => {
                    self.figures.limited += 1;
                    self.figures.requests += 1;
                    return;
                }
            }
        }
        self.figures.count(&outcome, length);
        if let Some(log) = &mut self.log {
            log.query(&outcome, chunk.bytes(), peer, Transport::Udp { payload_max: self.payload_max });
        }
        if outcome.length == 0 {
            return;
        }
        if chunk.len() > outcome.length {
            chunk.truncate(outcome.length);
        }
        if context.send_chunk_to(socket, peer, chunk).is_err() {
            self.figures.not_sent += 1;
        }
    }

    /// Answers a datagram together with others of this turn.
    #[inline]
    pub(super) fn datagram_in_group(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
        context: &mut Context<'_>,
    ) {
        if self.look_ahead.add(socket, peer, chunk) {
            self.answer_group(context);
        }
    }

    /// Answers those that wait, if any.
    pub(super) fn answer_group(&mut self, context: &mut Context<'_>) {
        if self.look_ahead.is_empty() {
            return;
        }
        let mut group = self.look_ahead.take(&self.catalog);
        for (socket, peer, chunk) in group.drain(..) {
            self.any_datagram(socket, peer, chunk, context);
        }
        self.look_ahead.give_back(group);
    }
}

/// Takes the records out of an answer and sets TC, so that the client comes by TCP. OPT stays (RFC 6891 section 6.1.1).
fn truncate(message: &mut [u8], outcome: Outcome) -> Outcome {
    let opt = edns::locate(message);
    let question_end = outcome.question_end.min(outcome.length);
    if let Some(header) = message.first_chunk_mut::<HEADER_LENGTH>() {
        header[2] |= flags::TC;
        header[6..].copy_from_slice(&[0, 0, 0, 0, 0, u8::from(opt.is_some())]);
    }
    let length = opt.map_or(question_end, |opt| {
        // It is the last record.
        message.copy_within(opt..outcome.length, question_end);
        question_end + outcome.length - opt
    });
    Outcome { length, truncated: true, ..outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slips_keeps_its_opt() {
        let question = b"\x12\x34\x84\0\0\x01\0\x01\0\0\0\0\x03www\0\0\x01\0\x01";
        let record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
        let opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\x06\0\x03\0\x02me";
        for (with_opt, counts) in [(false, [0; 6]), (true, [0, 0, 0, 0, 0, 1])] {
            let mut message = [&question[..], record, if with_opt { opt } else { b"" }].concat();
            message[11] = u8::from(with_opt);
            let length = message.len();
            let outcome = Outcome { length, question_end: question.len(), ..Outcome::of(Fate::Answered) };
            message.extend_from_slice(&[0xff; 20]);
            let outcome = truncate(&mut message, outcome);
            let expected = [&question[..], if with_opt { opt } else { b"" }].concat();
            assert_eq!((outcome.truncated, outcome.length), (true, expected.len()));
            assert_eq!(message[12..outcome.length], expected[12..]);
            assert_eq!((message[2], &message[6..12]), (0x86, &counts[..]));
        }
    }
}

//! What came is opened, record by record, as far as the service takes it.

use super::link::{Link, Stage};
use super::shared::{EXTRA_RECORDS_MAX, Shared};
use crate::alert::Alert;
use crate::established::{Established, Opened};
use crate::foreign::Step;
use crate::record::{HEADER_BYTES, RECORD_BYTES_MAX, record_bytes};
use crate::session::Session;
use bytes::Bytes;
use qanat_api::{Chunk, Commands, Event, Filled, FilledBlock};
use qanat_nic::Frame;

/// Bytes by which a request of plain HTTP is told from a handshake.
const JUDGED_BYTES: usize = 4;
/// The answer to such a request.
const PLAIN_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 73\r\n\r\n\
This port speaks HTTPS, not plain HTTP: ask again with https:// in front\n";

/// Whether a method of HTTP begins like that.
fn is_plain_http(first: &[u8]) -> bool {
    [b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC", b"PRI "]
        .iter()
        .any(|method| first.starts_with(*method))
}

impl Link {
    /// Opens what came.
    pub(crate) fn receive<C: Commands>(&mut self, shared: &mut Shared, below: &mut C) {
        let is_over = match self.stage {
            Stage::Open | Stage::ShuttingDown | Stage::ShutDown => false,
            Stage::Closing | Stage::Over => true,
        };
        if is_over || self.is_end_told {
            return self.drop_received(below);
        }
        // In TLS 1.2 the end of one side is that of both (RFC 5246, 7.2.1): nothing is read any more.
        if self.stage == Stage::ShutDown && matches!(self.session, Session::Foreign(_)) {
            self.drop_received(below);
        }
        let mut can_go_on = true;
        // Ends: each round takes something of what came, or of what rustls has to say about it.
        while can_go_on && self.stage != Stage::Over && !self.is_end_told {
            can_go_on = match self.session {
                Session::Handshake(_) | Session::Foreign(_) => self.receive_foreign(shared, below),
                Session::Established(_) => match self.open_next(shared, below) {
                    Ok(can_go_on) => can_go_on,
                    Err(alert) => {
                        self.fail(alert, shared, below);
                        false
                    }
                },
                Session::Over => {
                    self.fail(Alert::InternalError, shared, below);
                    false
                }
            };
        }
        // The peer ended without saying so. What it sent is whole as far as it goes: who serves judges that.
        if self.is_ended && self.held.is_empty() && !self.is_starved && self.stage != Stage::Over {
            self.tell_end(shared);
        }
    }

    fn tell_end(&mut self, shared: &mut Shared) {
        if !std::mem::replace(&mut self.is_end_told, true) {
            shared.events.push_back(Event::PeerClosed { connection: self.id });
        }
    }

    /// Gives back what is not opened any more.
    pub(crate) fn drop_received<C: Commands>(&mut self, below: &mut C) {
        self.gathered = Vec::new();
        for (chunk, _) in self.held.drain(..) {
            below.consume(self.id, chunk);
        }
    }

    /// Memory for a record's content, if the service has not too much already.
    fn frame(&mut self, shared: &mut Shared) -> Option<Frame> {
        let is_first = self.lent == 0;
        let may_have = is_first || (self.lent <= EXTRA_RECORDS_MAX && shared.pool.free_count() > shared.reserved);
        let frame = if may_have { shared.pool.allocate(0) } else { None };
        if frame.is_none() && !std::mem::replace(&mut self.is_starved, true) {
            shared.figures.receive_waits += 1;
            shared.starved.push_back(self.id);
        }
        frame
    }

    fn tell_data(&mut self, frame: Frame, shared: &mut Shared) {
        self.lent += 1;
        shared.events.push_back(Event::Data { connection: self.id, chunk: Chunk::from_parts(frame, 0, 0) });
    }

    /// One step of rustls. Whether there may be another.
    fn receive_foreign<C: Commands>(&mut self, shared: &mut Shared, below: &mut C) -> bool {
        // What it reads next may be content.
        let Some(mut frame) = self.frame(shared) else { return false };
        let is_judged = self.is_judged;
        let (Session::Handshake(foreign) | Session::Foreign(foreign)) = &mut self.session else { return false };
        let step = if is_judged { foreign.step() } else { Step::Wait };
        match step {
            Step::Send(bytes) => self.give(FilledBlock(Filled::Own(Bytes::from(bytes))), 0, below),
            Step::Data(bytes) => {
                if frame.append_bytes(&bytes).is_none() {
                    self.fail(Alert::RecordOverflow, shared, below);
                } else if !bytes.is_empty() {
                    shared.figures.records_opened += 1;
                    self.tell_data(frame, shared);
                }
            }
            Step::Closed => self.tell_end(shared),
            Step::Ready if let Session::Handshake(foreign) = &self.session => {
                self.protocol = foreign.protocol().map(Box::from);
                match self.session.establish(&mut shared.figures) {
                    Ok(gathered) => self.gathered = gathered,
                    Err(alert) => self.fail(alert, shared, below),
                }
            }
            Step::Ready | Step::Wait => return self.feed(shared, below),
            Step::Failed(_, last_words) => {
                if matches!(self.session, Session::Handshake(_)) {
                    shared.figures.handshakes_failed += 1;
                } else {
                    shared.figures.connections_failed += 1;
                }
                self.give(FilledBlock(Filled::Own(Bytes::from(last_words))), 0, below);
                self.close(below);
            }
        }
        true
    }

    /// Gives rustls what came next. Whether there was something.
    fn feed<C: Commands>(&mut self, shared: &mut Shared, below: &mut C) -> bool {
        let (Session::Handshake(foreign) | Session::Foreign(foreign)) = &mut self.session else { return false };
        let Some((chunk, from)) = self.held.pop_front() else { return false };
        let is_room = foreign.receive(chunk.bytes().get(from..).unwrap_or_default());
        below.consume(self.id, chunk);
        if !is_room {
            shared.figures.handshakes_failed += 1;
            self.close(below);
            return false;
        }
        let first = foreign.first_bytes();
        if !self.is_judged && first.len() >= JUDGED_BYTES {
            self.is_judged = true;
            if is_plain_http(first) {
                shared.figures.handshakes_failed += 1;
                shared.figures.plain_requests += 1;
                self.give(FilledBlock(Filled::Own(Bytes::from_static(PLAIN_ANSWER))), 0, below);
                self.close(below);
                return false;
            }
        }
        true
    }

    /// Opens the next record. Whether there may be another.
    fn open_next<C: Commands>(&mut self, shared: &mut Shared, below: &mut C) -> Result<bool, Alert> {
        // The bytes are put together first if the record began in an earlier chunk.
        if !self.gathered.is_empty() {
            if !self.gather(below)? {
                return Ok(false);
            }
            let length = record_bytes(&self.gathered).unwrap_or_default();
            let Some(frame) = self.frame(shared) else { return Ok(false) };
            let record = std::mem::take(&mut self.gathered);
            let whole = record.get(..length).unwrap_or_default();
            let is_more = self.open(whole, frame, shared)?;
            // More than one record is there only right after the handshake.
            self.gathered.extend_from_slice(record.get(length..).unwrap_or_default());
            return Ok(is_more);
        }
        let Some((chunk, from)) = self.held.front_mut() else { return Ok(false) };
        let rest = chunk.bytes().get(*from..).unwrap_or_default();
        let length = record_bytes(rest).filter(|length| *length <= rest.len());
        if let Some(length) = record_bytes(rest) {
            Established::check_length(length)?;
        }
        let Some(length) = length else {
            self.gathered.reserve_exact(RECORD_BYTES_MAX.min(record_bytes(rest).unwrap_or(rest.len())));
            self.gathered.extend_from_slice(rest);
            self.give_back_front(below);
            return Ok(true);
        };
        let Some(frame) = self.frame(shared) else { return Ok(false) };
        // The chunk is out of the list while its record is opened.
        let Some((chunk, from)) = self.held.pop_front() else { return Ok(false) };
        let to = from + length;
        let opened = self.open(chunk.bytes().get(from..to).unwrap_or_default(), frame, shared);
        if to < chunk.len() && opened.is_ok() {
            self.held.push_front((chunk, to));
        } else {
            below.consume(self.id, chunk);
        }
        opened
    }

    fn give_back_front<C: Commands>(&mut self, below: &mut C) {
        if let Some((chunk, _)) = self.held.pop_front() {
            below.consume(self.id, chunk);
        }
    }

    /// Completes the record that was begun; whether it is whole.
    fn gather<C: Commands>(&mut self, below: &mut C) -> Result<bool, Alert> {
        loop {
            let known = record_bytes(&self.gathered);
            if let Some(length) = known {
                Established::check_length(length)?;
            }
            let missing = known.unwrap_or(HEADER_BYTES).saturating_sub(self.gathered.len());
            if missing == 0 {
                return Ok(true);
            }
            let Some((chunk, from)) = self.held.front_mut() else { return Ok(false) };
            let rest = chunk.bytes().get(*from..).unwrap_or_default();
            let some = rest.get(..missing).unwrap_or(rest);
            self.gathered.extend_from_slice(some);
            *from += some.len();
            if *from >= chunk.len() {
                self.give_back_front(below);
            }
        }
    }

    /// Opens a whole record. Whether there may be another.
    fn open(&mut self, record: &[u8], mut frame: Frame, shared: &mut Shared) -> Result<bool, Alert> {
        let Session::Established(established) = &mut self.session else { return Err(Alert::InternalError) };
        let room = frame.tailroom();
        let target = frame.append(record.len().min(room)).unwrap_or_default();
        match established.open(record, target)? {
            Opened::Data(length) => {
                frame.truncate(length);
                shared.figures.records_opened += 1;
                self.tell_data(frame, shared);
            }
            Opened::Nothing => {}
            Opened::NewKey => shared.figures.key_updates += 1,
            Opened::Closed => {
                self.tell_end(shared);
                return Ok(false);
            }
            Opened::Failed => {
                shared.figures.alerts_received += 1;
                self.tell_end(shared);
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_answer_is_as_long_as_it_says() {
        let answer = std::str::from_utf8(PLAIN_ANSWER).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }

    #[test]
    fn handshakes_are_no_requests() {
        assert!(is_plain_http(b"GET / HTTP/1.1\r\n") && is_plain_http(b"PRI * HTTP/2.0"));
        assert!(!is_plain_http(&[22, 3, 1, 2]) && !is_plain_http(b"GETS"));
    }
}

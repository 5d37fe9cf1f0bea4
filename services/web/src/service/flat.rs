//! Content of a library, as Atlas sends it (thesis, chapter 4): no socket buffer, and no cache unless one is asked for.
//!
//! ```text
//!  Acked ──► room for 10 segments? ──► read of a piece ──► Read ──► (sealed) ──► sent ──► Acked …
//! ```
//! What an acknowledgement frees is read from the disk then, and sent when it has come. So a connection holds what its window has, and
//! nothing more. What was sent lies in memory until it is acknowledged, as everything that is given to the stack.

use super::connection::Piece;
use super::desk::{Arrived, Desk, LibraryState};
use super::flat_range::FlatRange;
use super::respond::Exchange;
use super::{Commands, WebService};
use crate::content::{FlatObject, Shelf};
use crate::http::target::{self, TargetError};
use qanat::{CommandError, ConnectionId, StorageCommands};

/// Less room than that is not worth a read, if something is on its way already: ten full segments (thesis, section 4.3).
const READ_BYTES_MIN: u64 = 10 * 1_448;
/// Nor is less than a quarter of what is on its way, up to this: four pieces that are asked for together are one request of the disk.
const READ_BYTES_WORTH_MAX: u64 = 64 * 1024;
/// Bytes that are sent ahead of what is acknowledged where the room is not known (in the split placement).
const AHEAD_BYTES: u64 = 256 * 1024;

/// What came of asking for pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    /// Some were kept, and can be sent.
    Here,
    /// Some will come, or there is no room.
    Waits,
    /// There is nothing more to ask for.
    AllSent,
}

impl WebService {
    /// Answers from the library.
    pub(super) fn on_get_flat<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, head: &[u8], context: &mut C) {
        let (path, _) = target::split_query(exchange.request.path_and_query);
        let path = match target::resolve(path, false) {
            Ok(path) => path,
            Err(TargetError::Malformed) => return self.refuse(exchange, 400, "This is no path.", context),
            Err(TargetError::NotFound) => return self.missing(exchange, 404, context),
        };
        let Some(desk) = &mut self.desk else { return };
        match desk.state() {
            LibraryState::Open => {}
            LibraryState::Opening => {
                desk.wait(exchange.id);
                self.wait(exchange.id, head, context);
                return;
            }
            LibraryState::Failed => return self.refuse(exchange, 503, "The library can't be read.", context),
        }
        match desk.find(&path) {
            Shelf::Holds(variant) => self.serve_variant(exchange, &variant, context),
            Shelf::Directory => self.redirect(exchange, &path, context),
            Shelf::Empty => self.missing(exchange, 404, context),
        }
    }

    /// Sends a range of an object.
    pub(super) fn send_flat<C: Commands>(
        &mut self,
        id: ConnectionId,
        object: FlatObject,
        (first, length): (u64, u64),
        context: &mut C,
    ) {
        match self.desk.as_mut().and_then(|desk| desk.hold(object)) {
            Some(hold) => self.send(id, Piece::Flat(FlatRange::new(hold, first, length)), context),
            None => {
                self.figures.stream_errors += 1;
                self.abort(id, context);
            }
        }
    }

    /// Sends what has come of the range that is first in the output, and asks for more. Whether the range is sent.
    pub(super) fn pump_flat<C: Commands>(&mut self, id: ConnectionId, context: &mut C) -> bool {
        // Ends: every round sends a piece, or asks for some while there is room for them.
        loop {
            let Some(connection) = self.connections.get(id) else { return false };
            let Some(Piece::Flat(range)) = connection.extra.as_mut().and_then(|extra| extra.output.front_mut()) else {
                return false;
            };
            let Some(block) = range.take() else {
                match self.ask_for_pieces(id, context) {
                    Asked::Here => continue,
                    Asked::Waits => return false,
                    Asked::AllSent => return true,
                }
            };
            match context.send_block(id, block.clone()) {
                Ok(()) => {
                    connection.unacknowledged += block.bytes().len() as u64;
                    connection.holds_windows = true;
                }
                Err(CommandError::Full) => {
                    range.put_back(block);
                    return false;
                }
                Err(_) => {
                    self.give_up(id, context);
                    return false;
                }
            }
        }
    }

    /// Asks for as many pieces as there is room for.
    fn ask_for_pieces<C: Commands>(&mut self, id: ConnectionId, context: &mut C) -> Asked {
        let (Some(connection), Some(desk)) = (self.connections.get(id), &mut self.desk) else { return Asked::Waits };
        let (peer, unacknowledged) = (connection.peer.ip().into(), connection.unacknowledged);
        let Some(extra) = connection.extra.as_mut() else { return Asked::Waits };
        let Some(Piece::Flat(range)) = extra.output.front_mut() else { return Asked::Waits };
        if range.length() == 0 {
            return Asked::AllSent;
        }
        let mut outcome = Asked::Waits;
        let asked = range.asked_bytes();
        let room = context.send_room(id).unwrap_or(AHEAD_BYTES as i64 - unacknowledged as i64);
        // If nothing is on its way, nothing would ask again.
        let mut is_needed = unacknowledged == 0 && asked == 0;
        let mut left = room - asked as i64;
        let worth = ((unacknowledged + asked) / 4).clamp(READ_BYTES_MIN, READ_BYTES_WORTH_MAX) as i64;
        let is_worth = left >= worth;
        while is_needed || is_worth && left >= READ_BYTES_MIN as i64 {
            let before = range.asked_bytes();
            let Some(piece) = range.next_piece() else { break };
            if !desk.has_room(peer) {
                self.figures.window_share_waits += u64::from(desk.has_any());
                if !std::mem::replace(&mut extra.queued_for_window, true) {
                    self.window_queue.push_back(id);
                }
                break;
            }
            desk.took(peer);
            connection.pieces += 1;
            range.asked();
            match desk.kept(range.object(), piece) {
                Some(come) => {
                    range.arrived(piece, come);
                    outcome = Asked::Here;
                }
                None => desk.ask(id, range.object(), piece),
            }
            left -= (range.asked_bytes() - before) as i64;
            is_needed = false;
        }
        outcome
    }

    /// What a connection does not need any more of the pieces it had goes to others.
    pub(super) fn settle_pieces(&mut self, id: ConnectionId) {
        let (Some(connection), Some(desk)) = (self.connections.get(id), &mut self.desk) else { return };
        let asked = match connection.extra.as_ref().and_then(|extra| extra.output.front()) {
            Some(Piece::Flat(range)) => range.asked_bytes(),
            _ => 0,
        };
        let needed = (connection.unacknowledged + asked).div_ceil(crate::content::PIECE_BYTES);
        // The ends of ranges are shorter than pieces, so it may need more than it has.
        let spare = u64::from(connection.pieces).saturating_sub(needed) as u32;
        connection.pieces -= spare;
        desk.gave_back(connection.peer.ip().into(), spare);
    }

    /// A connection is gone, and what it had.
    pub(super) fn forget_pieces(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get(id) {
            (connection.unacknowledged, connection.extra) = (0, None);
        }
        self.settle_pieces(id);
    }

    /// A piece has come.
    pub(super) fn on_arrived<C: Commands>(&mut self, arrived: Arrived, context: &mut C) {
        let Arrived { connection: id, piece, result } = arrived;
        let now_ms = super::milliseconds(context.now());
        // If it has ended meanwhile, nobody wants it.
        let Some(connection) = self.connections.get(id) else { return };
        if connection.extra.is_none() {
            return;
        }
        let come = match result {
            Ok(come) => come,
            Err(error) => {
                // The promised bytes can't be had, and a reset is the only way to say so (RFC 9112, 8).
                self.figures.stream_errors += 1;
                self.desk.iter_mut().for_each(|desk| desk.note(&error));
                return self.abort(id, context);
            }
        };
        let is_first = connection.pieces == 1;
        self.figures.stalls += u64::from(connection.unacknowledged == 0 && !is_first);
        let Some(extra) = connection.extra.as_mut() else { return };
        let Some(Piece::Flat(range)) = extra.output.front_mut() else { return };
        range.arrived(piece, come);
        connection.since_ms = now_ms;
        self.advance(id, context);
    }

    /// At the end of a turn: what the library has read is sent, and what was asked for is read.
    pub(super) fn turn_library<C: Commands + StorageCommands>(&mut self, below: &mut C) {
        loop {
            let Some(desk) = &mut self.desk else { return };
            if let Some(arrived) = desk.submit(below).or_else(|| desk.next(below)) {
                self.arrived_over(arrived, below);
                continue;
            }
            let waiting = desk.take_waiting();
            if waiting.is_empty() {
                return;
            }
            self.opened_over(waiting, below);
        }
    }

    /// The library is open, or will never be: those who asked before are answered.
    pub(super) fn on_opened<C: Commands>(&mut self, waiting: Vec<ConnectionId>, context: &mut C) {
        for id in waiting {
            self.go_on_waiting(id, context, WebService::on_get_flat);
        }
    }

    /// What the operator is to know of the content, since it was asked last.
    pub fn take_notes(&mut self) -> Vec<String> {
        let of_library = self.desk.as_mut().map(Desk::take_notes).unwrap_or_default();
        of_library.into_iter().chain(self.file_reads.take_note()).collect()
    }
}

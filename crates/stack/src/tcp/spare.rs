//! The queues of ended connections, kept for those that begin: a server of short connections allocates nothing for them.

use crate::tcp::connection::Connection;
use crate::tcp::recovery::scoreboard::Records;
use crate::tcp::send::queue::Pieces;

/// Empty queues with the small capacity an idle connection keeps.
#[derive(Default)]
pub struct Queues {
    records: Records,
    pieces: Pieces,
}

impl Connection {
    /// Takes over an ended connection's queues. This is for connections that have sent nothing yet.
    pub fn adopt(&mut self, queues: Queues) {
        self.board.adopt(queues.records);
        self.queue.adopt(queues.pieces);
    }

    /// Gives up the queues for another connection. Whatever they held is released.
    pub fn retire(&mut self) -> Queues {
        Queues { records: self.board.retire(), pieces: self.queue.retire() }
    }
}

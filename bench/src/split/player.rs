//! Ping and pong, after NetPIPE: a message of a size goes, and when all of it is there, one of that size comes back.

use qanat::{
    Block, Bytes, Commands, ConnectOptions, ConnectionId, Context, Event, FilledBlock, ListenOptions, Service,
    StartError,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

pub const PORT: u16 = 5_001;
/// Of one block.
const BLOCK_BYTES: usize = 65_536;

/// Either end. Over several connections messages must fit a segment.
pub struct Player {
    /// Where to; `None`: it listens.
    server: Option<SocketAddr>,
    /// Bytes of what comes.
    size: usize,
    /// What comes is whole as it comes, whatever its size.
    each_chunk: bool,
    /// What comes is copied out, and what goes is made of it; else what goes is the same bytes each time.
    copies: bool,
    connections: usize,
    /// Sleeps this long at the first bytes.
    blocks: Duration,
    received: usize,
    /// What came, copied into what is to be sent; the last is not yet full.
    copied: Vec<Block>,
    payload: Bytes,
    /// The payload where it is sent from.
    blocks_to_send: Vec<FilledBlock>,
    sent_at: Option<Instant>,
    /// The client begins no new round.
    pub rests: bool,
    pub connected: Vec<ConnectionId>,
    pub rounds: u64,
    pub acknowledged: usize,
    pub round_trips_ns: Vec<u64>,
    /// Bytes of the first answer.
    answer: usize,
    /// Chunks of another length: they were not an answer each, and what was counted is wrong.
    pub odd: u64,
}

impl Player {
    pub fn server(size: usize, copies: bool) -> Player {
        Player {
            server: None,
            size,
            each_chunk: false,
            copies,
            connections: 0,
            blocks: Duration::ZERO,
            received: 0,
            copied: Vec::new(),
            payload: vec![b'q'; size].into(),
            blocks_to_send: Vec::new(),
            sent_at: None,
            rests: false,
            connected: Vec::new(),
            rounds: 0,
            acknowledged: 0,
            round_trips_ns: Vec::new(),
            answer: 0,
            odd: 0,
        }
    }

    /// Takes all, and answers nothing.
    pub fn sink(blocks: Duration) -> Player {
        Player { size: usize::MAX, blocks, ..Player::server(0, false) }
    }

    /// Plays with a player at `server`, over so many connections.
    pub fn client(server: IpAddr, size: usize, copies: bool, connections: usize) -> Player {
        Player { server: Some(SocketAddr::new(server, PORT)), connections, ..Player::server(size, copies) }
    }

    /// Asks the same again and again. An answer comes in one piece.
    pub fn asking(server: SocketAddr, request: Bytes, connections: usize) -> Player {
        Player { server: Some(server), each_chunk: true, connections, payload: request, ..Player::server(0, false) }
    }

    fn send(&mut self, connection: ConnectionId, context: &mut Context<'_>) {
        // Refused: the connection has ended, of which an event tells.
        if self.copies && !self.copied.is_empty() {
            for block in self.copied.drain(..) {
                let _ = context.send_block(connection, block.filled());
            }
            return;
        }
        for block in &self.blocks_to_send {
            let _ = context.send_block(connection, block.clone());
        }
    }

    /// Copies into blocks.
    fn copy(copied: &mut Vec<Block>, mut bytes: &[u8], expected: usize, context: &mut Context<'_>) {
        while !bytes.is_empty() {
            let taken = copied.last_mut().map_or(0, |block| block.append(bytes));
            bytes = bytes.get(taken..).unwrap_or_default();
            if !bytes.is_empty() {
                copied.push(context.block(expected.max(bytes.len()).min(BLOCK_BYTES)));
            }
        }
    }

    fn whole(&mut self, connection: ConnectionId, context: &mut Context<'_>) {
        self.rounds += 1;
        if self.server.is_some() {
            let now = Instant::now();
            let sent_at = self.sent_at.replace(now);
            if self.connections == 1 && !self.rests {
                self.round_trips_ns.extend(sent_at.map(|sent| now.duration_since(sent).as_nanos() as u64));
            }
        }
        if !self.rests {
            self.send(connection, context);
        }
    }
}

impl Service for Player {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let payload = self.payload.clone();
        let mut blocks = Vec::new();
        Player::copy(&mut blocks, &payload, payload.len(), context);
        self.blocks_to_send = blocks.into_iter().map(Block::filled).collect();
        let Some(server) = self.server else {
            let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT);
            context.listen(local, ListenOptions::default())?;
            return Ok(());
        };
        for _ in 0..self.connections {
            context.connect(server, ConnectOptions::default())?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                self.connected.push(connection);
                if !self.rests {
                    self.sent_at = Some(Instant::now());
                    self.send(connection, context);
                }
            }
            Event::Data { connection, chunk } => {
                if !self.blocks.is_zero() {
                    std::thread::sleep(std::mem::take(&mut self.blocks));
                }
                self.received += chunk.len();
                if self.copies {
                    let expected = self.size.saturating_sub(self.received - chunk.len());
                    Player::copy(&mut self.copied, chunk.bytes(), expected, context);
                }
                let length = chunk.len();
                context.consume(connection, chunk);
                if self.each_chunk {
                    self.answer = if self.answer == 0 { length } else { self.answer };
                    self.odd += u64::from(length != self.answer);
                    return self.whole(connection, context);
                }
                while self.received >= self.size {
                    self.received -= self.size;
                    self.whole(connection, context);
                }
            }
            Event::Acked { bytes, .. } => self.acknowledged += bytes as usize,
            _ => {}
        }
    }
}

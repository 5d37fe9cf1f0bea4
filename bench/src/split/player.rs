//! Ping and pong, after NetPIPE: a message of a size goes, and when all of it is there, one of that size comes back.

use super::scene::SERVER;
use qanat::{Bytes, ConnectOptions, ConnectionId, Context, Event, ListenOptions, Service};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const PORT: u16 = 5_001;

/// Either end. Over several connections messages must fit a segment.
#[derive(Clone)]
pub struct Player {
    size: usize,
    /// What comes is copied out, and what goes is made of it; else what goes is the same bytes each time.
    copies: bool,
    connections: usize,
    is_client: bool,
    /// Sleeps this long at the first bytes.
    blocks: Duration,
    received: usize,
    buffer: Vec<u8>,
    payload: Bytes,
    sent_at: Option<Instant>,
    /// The client begins no new round.
    pub rests: bool,
    pub connected: Vec<ConnectionId>,
    pub rounds: u64,
    pub acknowledged: usize,
    pub round_trips_ns: Vec<u64>,
}

impl Player {
    pub fn server(size: usize, copies: bool) -> Player {
        Player {
            size,
            copies,
            connections: 0,
            is_client: false,
            blocks: Duration::ZERO,
            received: 0,
            buffer: Vec::new(),
            payload: vec![b'q'; size].into(),
            sent_at: None,
            rests: false,
            connected: Vec::new(),
            rounds: 0,
            acknowledged: 0,
            round_trips_ns: Vec::new(),
        }
    }

    /// Takes all, and answers nothing.
    pub fn sink(blocks: Duration) -> Player {
        Player { size: usize::MAX, blocks, ..Player::server(0, false) }
    }

    pub fn client(size: usize, copies: bool, connections: usize) -> Player {
        Player { is_client: true, connections, ..Player::server(size, copies) }
    }

    fn send(&mut self, connection: ConnectionId, context: &mut Context<'_>) {
        let bytes = match self.copies && self.buffer.len() >= self.size {
            true => std::mem::take(&mut self.buffer).into(),
            false => self.payload.clone(),
        };
        // Refused: the connection has ended, of which an event tells.
        let _ = context.send(connection, bytes);
    }

    fn whole(&mut self, connection: ConnectionId, context: &mut Context<'_>) {
        self.rounds += 1;
        if self.is_client {
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
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        let failed = |error: qanat::CommandError| error.to_string();
        if !self.is_client {
            let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT);
            return context.listen(local, ListenOptions::default()).map(drop).map_err(failed);
        }
        for _ in 0..self.connections {
            context.connect(SocketAddr::new(SERVER, PORT), ConnectOptions::default()).map_err(failed)?;
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
                    self.buffer.extend_from_slice(chunk.bytes());
                }
                context.consume(connection, chunk);
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

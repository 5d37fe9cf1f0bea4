//! [`CacheService`]: connections, datagrams, bounds and time.

mod connection;
mod datagrams;
mod streams;

use crate::config::CacheConfig;
use crate::engine::state::Engine;
use crate::figures::Figures;
use crate::output::Output;
use connection::Connection;
use qanat::{
    Chunk, Commands, ConnectionId, Context, Event, ListenOptions, ListenerId, Service, StartError, UdpSocketId,
};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often the time is looked at, items that have ended go, and connections are looked after.
const TICK: Duration = Duration::from_millis(100);
const TICK_TOKEN: u64 = 1;

/// A cache.
#[derive(Debug)]
pub struct CacheService {
    config: CacheConfig,
    engine: Engine,
    /// Where answers are written, of one client after the other.
    output: Output,
    connections: Vec<Connection>,
    listeners: Vec<ListenerId>,
    /// Connections that had to let others go first.
    unfinished: VecDeque<ConnectionId>,
    /// An answer by datagrams, and one of them.
    answer: Vec<u8>,
    datagram: Vec<u8>,
    datagrams: u64,
    datagrams_malformed: u64,
    datagrams_unanswered: u64,
    idle_closed: u64,
}

fn time_of_day_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

impl CacheService {
    /// One with the items that were left, if any were; else empty.
    pub fn new(config: CacheConfig) -> CacheService {
        let left = config.kept.take().map(Engine::moved);
        let engine = left.unwrap_or_else(|| Engine::new(config.settings.clone(), time_of_day_s()));
        CacheService {
            config,
            engine,
            output: Output::default(),
            connections: Vec::new(),
            listeners: Vec::new(),
            unfinished: VecDeque::new(),
            answer: Vec::new(),
            datagram: Vec::new(),
            datagrams: 0,
            datagrams_malformed: 0,
            datagrams_unanswered: 0,
            idle_closed: 0,
        }
    }

    /// What it has done.
    pub fn figures(&self) -> Figures {
        let Engine { counts, connections, items, .. } = &self.engine;
        Figures {
            gets: counts.get_commands + counts.touch_commands,
            hits: counts.get_hits + counts.touch_hits,
            sets: counts.set_commands,
            items: items.len() as u64,
            memory_bytes: items.memory(),
            evicted: items.evicted,
            reclaimed: counts.reclaimed,
            stores_refused: counts.store_too_large + counts.store_no_memory,
            connections: connections.total,
            connections_open: connections.open,
            refused: connections.rejected,
            slow_closed: connections.slow,
            idle_closed: self.idle_closed,
            input_bytes: connections.input_bytes,
            output_bytes: connections.output_bytes,
            datagrams: self.datagrams,
            datagrams_malformed: self.datagrams_malformed,
            datagrams_unanswered: self.datagrams_unanswered,
        }
    }

    fn tick(&mut self, context: &mut impl Commands) {
        self.engine.set_time(time_of_day_s());
        self.engine.sweep();
        self.resume(context);
        self.look_after(context);
        // A stack without timers left has more than this one to wait for.
        let _ = context.set_timer(TICK, TICK_TOKEN);
    }

    fn on(&mut self, event: Event, context: &mut impl Commands) {
        match event {
            Event::Accepted { connection, .. } => self.accepted(connection, context),
            Event::Data { connection, chunk } => self.data(connection, chunk, context),
            Event::Acked { connection, bytes } => self.acknowledged(connection, bytes, context),
            Event::PeerClosed { connection } => self.peer_closed(connection, context),
            Event::Closed { connection, .. } => self.closed(connection),
            Event::Datagram { socket, peer, chunk } => self.datagram(socket, peer, chunk, context),
            Event::Timer { token: TICK_TOKEN, .. } => self.tick(context),
            _ => {}
        }
    }
}

impl Drop for CacheService {
    fn drop(&mut self) {
        // Half of what clients were saying, and what they were owed, goes first.
        self.connections.clear();
        self.config.kept.leave(std::mem::replace(&mut self.engine, Engine::hollow()));
    }
}

impl Service for CacheService {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        addresses.extend(self.config.serves_six.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)));
        for address in addresses {
            let local = SocketAddr::new(address, self.config.port);
            self.listeners.push(context.listen(local, ListenOptions::default()).map_err(StartError::at(local))?);
            if let Some(datagrams) = &self.config.datagrams {
                let local = SocketAddr::new(address, datagrams.port);
                context.bind_udp(local).map_err(StartError::at(local))?;
            }
        }
        self.tick(context);
        Ok(())
    }

    #[inline]
    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.on(event, context);
    }

    fn datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk, context: &mut Context<'_>) {
        CacheService::datagram(self, socket, peer, chunk, context);
    }

    fn turn_ended(&mut self, context: &mut Context<'_>) {
        if !self.unfinished.is_empty() {
            self.resume(context);
        }
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        for listener in std::mem::take(&mut self.listeners) {
            // It is there, or the card is gone.
            let _ = context.close_listener(listener);
        }
        for connection in &mut self.connections {
            if let (Some(id), false) = (connection.id, connection.is_closing) {
                connection.is_closing = true;
                let _ = context.close(id);
            }
        }
    }

    /// Clients have what they were owed. Whether they close is theirs.
    fn is_finished(&self) -> bool {
        self.connections.iter().all(|connection| connection.backlog() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Kept;
    use crate::engine::settings::Settings;
    use crate::session::Session;

    #[test]
    fn a_service_that_takes_anothers_place_has_its_items() {
        let config = CacheConfig {
            port: 11_211,
            serves_six: false,
            datagrams: None,
            settings: Settings::default(),
            kept: Kept::default(),
        };
        let says = |service: &mut CacheService, request: &[u8]| {
            let mut answer = Vec::new();
            Session::new(true).feed(request, &mut service.engine, &mut service.output);
            service.output.flatten(&mut answer);
            String::from_utf8(answer).unwrap()
        };
        let mut first = CacheService::new(config.clone());
        assert_eq!(says(&mut first, b"set a 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(first.figures().sets, 1);
        drop(first);
        let mut next = CacheService::new(config.clone());
        assert_eq!((next.figures().sets, next.figures().items), (0, 1), "its counts are its own");
        assert_eq!(says(&mut next, b"get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
        let second = CacheService::new(config);
        assert_eq!(second.figures().items, 0, "nothing was left");
    }
}

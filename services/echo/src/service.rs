//! The echo as a service of the native API.

use crate::figures::Figures;
use qanat::nic::breakdown::{Phase, span};
use qanat::{Chunk, CommandError, Commands, ConnectionId, Context, Event, ListenOptions, Service, StartError};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What to echo.
#[derive(Clone, Copy, Debug)]
pub struct EchoConfig {
    /// Port of both protocols.
    pub port: u16,
    /// Datagrams.
    pub udp: bool,
    /// Streams.
    pub tcp: bool,
    /// Copy each payload out of its frame and into a new one, as a POSIX interface would.
    pub copies: bool,
}

impl Default for EchoConfig {
    fn default() -> EchoConfig {
        EchoConfig { port: 7, udp: true, tcp: true, copies: false }
    }
}

/// A stream: received bytes wait until their echo is acknowledged, and keep the receive window closed by as much. So a
/// client that doesn't read holds no more than its window.
#[derive(Default)]
struct Stream {
    open: bool,
    /// The peer has said all; when that is on its way back it is told the same.
    peer_closed: bool,
    /// Received, and not yet sent: the connection took no more.
    unsent: VecDeque<Chunk>,
    /// Sent, and not yet acknowledged.
    waiting: VecDeque<Chunk>,
    /// Acknowledged bytes of the first waiting chunk.
    acknowledged: usize,
}

/// The service.
pub struct EchoService {
    config: EchoConfig,
    figures: Figures,
    /// State of streams, by the connection's slot.
    streams: Vec<Stream>,
    copy: Vec<u8>,
}

impl EchoService {
    /// Not yet listening.
    pub fn new(config: EchoConfig) -> EchoService {
        EchoService { config, figures: Figures::default(), streams: Vec::new(), copy: Vec::with_capacity(65_536) }
    }

    /// What it has done.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    fn stream(&mut self, connection: ConnectionId) -> Option<&mut Stream> {
        self.streams.get_mut(connection.index()).filter(|stream| stream.open)
    }

    fn data(&mut self, connection: ConnectionId, chunk: Chunk, context: &mut Context<'_>) {
        match self.stream(connection) {
            Some(stream) => stream.unsent.push_back(chunk),
            None => return context.consume(connection, chunk),
        }
        self.send(connection, context);
    }

    /// Sends what has been received, as much as the connection takes. The rest goes when some of what it has is acknowledged: a stream
    /// has no holes. Until then it counts as not read, so the peer's window closes.
    fn send(&mut self, connection: ConnectionId, context: &mut Context<'_>) {
        let Some(stream) = self.streams.get_mut(connection.index()).filter(|stream| stream.open) else { return };
        while let Some(chunk) = stream.unsent.pop_front() {
            // What is sent of a stream is not what was received: an echo is one copy, to where it is sent from.
            let mut block = context.block(chunk.len());
            let taken = block.append(chunk.bytes());
            debug_assert_eq!(taken, chunk.len(), "a block is larger than a frame");
            if context.send_block(connection, block.filled()).is_ok() {
                self.figures.echoed += 1;
                self.figures.bytes += chunk.len() as u64;
                stream.waiting.push_back(chunk);
                continue;
            }
            stream.unsent.push_front(chunk);
            if stream.waiting.is_empty() {
                // Nothing will be acknowledged, so nothing would ever be sent again.
                self.figures.dropped += 1;
                let _ = context.abort(connection);
            }
            return;
        }
        if stream.peer_closed {
            // What was echoed goes out first. A handle that is gone needs no closing.
            let _ = context.close(connection);
        }
    }

    fn acknowledged(&mut self, connection: ConnectionId, bytes: usize, context: &mut Context<'_>) {
        let Some(stream) = self.stream(connection) else { return };
        stream.acknowledged += bytes;
        while let Some(first) = stream.waiting.front()
            && stream.acknowledged >= first.len()
        {
            stream.acknowledged -= first.len();
            if let Some(chunk) = stream.waiting.pop_front() {
                context.consume(connection, chunk);
            }
        }
        if !stream.unsent.is_empty() {
            self.send(connection, context);
        }
    }
}

impl Service for EchoService {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        let port = self.config.port;
        // The stack's unspecified addresses stand for one family each.
        for address in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let local = SocketAddr::new(address, port);
            if self.config.udp {
                context.bind_udp(local).map_err(StartError::at(local))?;
            }
            if self.config.tcp {
                context.listen(local, ListenOptions::default()).map_err(StartError::at(local))?;
            }
        }
        Ok(())
    }

    fn leave(&mut self, connection: ConnectionId, context: &mut Context<'_>) -> bool {
        let Some(stream) = self.stream(connection).filter(|stream| stream.unsent.is_empty()) else { return false };
        // All of it is on its way back.
        let stream = std::mem::take(stream);
        stream.waiting.into_iter().for_each(|chunk| context.consume(connection, chunk));
        self.figures.connections -= 1;
        true
    }

    // Always: an event that meets its handler where it is made needs no place in memory.
    #[inline(always)]
    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        let Event::Datagram { socket, peer, chunk } = event else { return self.handle_stream(event, context) };
        let length = chunk.len() as u64;
        if self.config.copies {
            self.copy_out(chunk);
            // Made anew, so that only here it must be in memory.
            let peer = SocketAddr::new(peer.ip(), peer.port());
            let sent = context.send_to(socket, peer, &self.copy);
            self.count(length, sent);
        } else {
            let sent = context.send_chunk_to(socket, peer, chunk);
            self.count(length, sent);
        }
    }
}

impl EchoService {
    #[inline]
    fn count(&mut self, length: u64, sent: Result<(), CommandError>) {
        match sent {
            Ok(()) => {
                self.figures.echoed += 1;
                self.figures.bytes += length;
            }
            Err(_) => self.figures.dropped += 1,
        }
    }

    #[inline(never)]
    fn copy_out(&mut self, chunk: Chunk) {
        let _copying = span(Phase::CopyOut);
        self.copy.clear();
        self.copy.extend_from_slice(chunk.bytes());
    }

    #[inline(never)]
    fn handle_stream(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Accepted { connection, .. } => {
                if self.streams.len() <= connection.index() {
                    self.streams.resize_with(connection.index() + 1, Stream::default);
                }
                if let Some(stream) = self.streams.get_mut(connection.index()) {
                    *stream = Stream { open: true, ..Stream::default() };
                }
                self.figures.connections += 1;
            }
            Event::Data { connection, chunk } => self.data(connection, chunk, context),
            Event::Acked { connection, bytes } => self.acknowledged(connection, bytes as usize, context),
            Event::PeerClosed { connection } => {
                if let Some(stream) = self.stream(connection) {
                    stream.peer_closed = true;
                }
                self.send(connection, context);
            }
            Event::Closed { connection, .. } => {
                if let Some(stream) = self.stream(connection) {
                    *stream = Stream::default();
                    self.figures.connections -= 1;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat::nic::{MemoryPlan, PairConfig, pair};
    use qanat::{CloseReason, Config, ConnectOptions, Runtime, UdpSocketId};

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[derive(Default)]
    struct Client {
        socket: Option<UdpSocketId>,
        datagrams: Vec<Vec<u8>>,
        stream: Vec<u8>,
        over: Option<CloseReason>,
    }

    const STREAM_BYTES: usize = 200_000;

    impl Service for Client {
        fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
            self.socket = context.bind_udp(SocketAddr::new(CLIENT, 5_000)).ok();
            context.connect(SocketAddr::new(SERVER, 7), ConnectOptions::default())?;
            Ok(())
        }

        fn handle(&mut self, event: Event, context: &mut Context<'_>) {
            match event {
                Event::Connected { connection } => {
                    let bytes: Vec<u8> = (0..STREAM_BYTES).map(|index| index as u8).collect();
                    context.send(connection, bytes.into()).unwrap();
                    context.shutdown(connection).unwrap();
                }
                Event::Data { connection, chunk } => {
                    self.stream.extend_from_slice(chunk.bytes());
                    context.consume(connection, chunk);
                }
                Event::Datagram { chunk, .. } => self.datagrams.push(chunk.bytes().to_vec()),
                Event::Closed { why, .. } => self.over = Some(why),
                _ => {}
            }
        }
    }

    #[test]
    fn datagrams_and_streams_come_back() {
        for copies in [false, true] {
            let (one, other) = pair(PairConfig::default()).unwrap();
            let open = |port: qanat::nic::PairPort, address| {
                let vnic = Box::new(port.open(MemoryPlan::default()).unwrap());
                Runtime::new(vnic, Config::new(address, 24), [3; 32])
            };
            let (mut client_side, mut server_side) = (open(one, CLIENT), open(other, SERVER));
            let mut echo = EchoService::new(EchoConfig { copies, ..EchoConfig::default() });
            let mut client = Client::default();
            server_side.with_context(|context| echo.start(context)).unwrap();
            client_side.with_context(|context| client.start(context)).unwrap();
            let mut sent = 0usize;
            for turn in 0..20_000 {
                if turn % 4 == 0 && sent < 100 {
                    let socket = client.socket.unwrap();
                    let payload = vec![sent as u8; 1 + sent * 14];
                    client_side.with_context(|context| {
                        context.send_to(socket, SocketAddr::new(SERVER, 7), &payload).unwrap();
                    });
                    sent += 1;
                }
                client_side.turn(&mut client);
                server_side.turn(&mut echo);
                if client.over.is_some() && client.datagrams.len() == 100 {
                    break;
                }
            }
            assert_eq!(client.datagrams.len(), 100);
            for (index, datagram) in client.datagrams.iter().enumerate() {
                assert_eq!(*datagram, vec![index as u8; 1 + index * 14]);
            }
            assert_eq!(client.over, Some(CloseReason::Finished));
            assert!(client.stream.iter().enumerate().all(|(index, byte)| *byte == index as u8));
            assert_eq!(client.stream.len(), STREAM_BYTES);
            assert_eq!((echo.figures().connections, echo.figures().dropped), (0, 0));
            let vnic = server_side.vnic();
            assert_eq!(vnic.transmit_pool().in_use_count(), 0, "every frame is home");
        }
    }
}

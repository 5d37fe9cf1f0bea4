//! Our stack as sender, receiver, server and client.

use super::ends::{DOWNLOAD_BYTES, Failure, OURS, PORT};
use super::watch::Watch;
use qanat::nic::MemoryPlan;
use qanat::{
    AttachOptions, Attachment, Bytes, CardSource, Commands, ConnectOptions, ConnectionId, Context, Event,
    ListenOptions, Runtime, RuntimeOptions, Service, StartError, StopHandle, entropy,
};
use qanat_delay::Lab;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Lent to our stack at once for each connection: more than any path here holds.
const LENT_PIECES: u32 = 16;
const PIECE_BYTES: u32 = 1 << 20;

/// Runs our stack in the first namespace, beside the kernel's.
pub(super) fn run(lab: &Lab, mut service: impl Service, stop: &StopHandle) -> Result<(), Failure> {
    let mut options = AttachOptions::new(IpAddr::V4(OURS), 24);
    options.source = CardSource::interface(lab.ends()[0].host_name(), Some(lab.namespaces()[0].clone()));
    let attachment = Attachment::open(&options)?;
    // Enough for everything on the longest path.
    let plan = MemoryPlan { receive_frames: 16_384, transmit_frames: 16_384, ..MemoryPlan::default() };
    let vnic = attachment.open_queue(0, plan)?;
    let seed = entropy()?;
    let mut runtime = Runtime::new(Box::new(vnic), attachment.config().clone(), seed);
    let options = RuntimeOptions { grace: Duration::ZERO, ..RuntimeOptions::default() };
    Ok(runtime.run(&mut service, stop, options, &mut |_, _| {})?)
}

/// As [`Service::start`].
fn listen(context: &mut Context<'_>) -> Result<(), StartError> {
    let local = SocketAddr::new(IpAddr::V4(OURS), PORT);
    context.listen(local, ListenOptions::default())?;
    Ok(())
}

/// Sends as much as it may.
pub(super) struct Sender {
    to: SocketAddr,
    connections: usize,
    piece: Bytes,
    /// Of each connection: acknowledged bytes not yet followed by new ones.
    credits: HashMap<ConnectionId, u32>,
}

impl Sender {
    pub(super) fn new(to: SocketAddr, connections: usize) -> Sender {
        Sender { to, connections, piece: Bytes::from(vec![0x5a; PIECE_BYTES as usize]), credits: HashMap::new() }
    }

    fn send(&mut self, connection: ConnectionId, bytes: u32, context: &mut Context<'_>) {
        let credit = self.credits.entry(connection).or_default();
        *credit += bytes;
        while *credit >= PIECE_BYTES && context.send(connection, self.piece.clone()).is_ok() {
            *credit -= PIECE_BYTES;
        }
    }
}

impl Service for Sender {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in 0..self.connections {
            context.connect(self.to, ConnectOptions::default())?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => self.send(connection, LENT_PIECES * PIECE_BYTES, context),
            Event::Acked { connection, bytes } => self.send(connection, bytes, context),
            _ => {}
        }
    }
}

/// Takes what comes.
pub(super) struct Receiver<'a> {
    pub watch: &'a Watch,
}

impl Service for Receiver<'_> {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        listen(context)
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Data { connection, chunk } = event {
            self.watch.add(chunk.len());
            context.consume(connection, chunk);
        }
    }
}

/// Answers every connection with a download.
pub(super) struct DownloadServer {
    bytes: Bytes,
}

impl DownloadServer {
    pub(super) fn new() -> DownloadServer {
        DownloadServer { bytes: Bytes::from(vec![0x5a; DOWNLOAD_BYTES]) }
    }
}

impl Service for DownloadServer {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        listen(context)
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Accepted { connection, .. } = event {
            // A connection gone meanwhile is told of by its `Closed`.
            let _ = context.send(connection, self.bytes.clone());
            let _ = context.close(connection);
        }
    }
}

/// Clients, each downloading again and again: like the kernel's, the next connection opens when the last download has ended,
/// not a round trip later when its FIN is acknowledged.
pub(super) struct DownloadClients<'a> {
    to: SocketAddr,
    count: usize,
    watch: &'a Watch,
    /// Connections whose download has ended: they have a successor.
    ended: HashSet<ConnectionId>,
}

impl<'a> DownloadClients<'a> {
    pub(super) fn new(to: SocketAddr, count: usize, watch: &'a Watch) -> DownloadClients<'a> {
        DownloadClients { to, count, watch, ended: HashSet::new() }
    }

    fn connect(&self, context: &mut Context<'_>) {
        // No room for it is told by a lower number of downloads.
        let _ = context.connect(self.to, ConnectOptions::default());
    }
}

impl Service for DownloadClients<'_> {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in 0..self.count {
            context.connect(self.to, ConnectOptions::default())?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Data { connection, chunk } => {
                self.watch.add(chunk.len());
                context.consume(connection, chunk);
            }
            Event::PeerClosed { connection } => {
                let _ = context.close(connection);
                self.ended.insert(connection);
                self.connect(context);
            }
            // Without an end of its download: reset, or never connected.
            Event::Closed { connection, .. } if !self.ended.remove(&connection) => self.connect(context),
            _ => {}
        }
    }
}

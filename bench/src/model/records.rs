//! The application of the paper's experiment: it reads records, of one size, from another host or from a disk, so many under way at once,
//! and does some work with each.

use qanat::{
    AreaId, Bytes, Commands, ConnectOptions, Context, Event, ListenOptions, Service, StartError, StorageCommands,
};
use qanat_nic::Random;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const PORT: u16 = 5_002;
/// A request for a record.
const REQUEST: &[u8] = &[b'?'; 16];

/// What an application has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub records: u64,
    /// Events received and commands given: what crosses, if it is to.
    pub calls: u64,
}

/// An application that counts.
pub(super) trait Application: Service {
    fn tally(&self) -> Tally;
    /// A request failed.
    fn has_failed(&self) -> bool;
}

/// Steps of work that nobody needs: what an application does with a record.
pub(super) fn work(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

/// The other host: it sends a record for each request, the same bytes each time. One connection.
pub(super) struct Source {
    record: Bytes,
    received: usize,
}

impl Source {
    pub(super) fn new(bytes: usize) -> Source {
        Source { record: vec![b'r'; bytes].into(), received: 0 }
    }
}

impl Service for Source {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        context.listen(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT), ListenOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        if let Event::Data { connection, chunk } = event {
            self.received += chunk.len();
            context.consume(connection, chunk);
            while self.received >= REQUEST.len() {
                self.received -= REQUEST.len();
                // Refused: the connection has ended, of which an event tells.
                let _ = context.send(connection, self.record.clone());
            }
        }
    }
}

/// Reads records from a [`Source`].
pub(super) struct Reader {
    server: IpAddr,
    bytes: usize,
    depth: u32,
    work_steps: u64,
    received: usize,
    tally: Tally,
    has_failed: bool,
}

impl Reader {
    pub(super) fn new(server: IpAddr, bytes: usize, depth: u32, work_steps: u64) -> Reader {
        Reader { server, bytes, depth, work_steps, received: 0, tally: Tally::default(), has_failed: false }
    }
}

impl Service for Reader {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        context.connect(SocketAddr::new(self.server, PORT), ConnectOptions::default())?;
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.tally.calls += 1;
        let (connection, asked) = match event {
            Event::Connected { connection } => (connection, self.depth),
            Event::Data { connection, chunk } => {
                self.received += chunk.len();
                self.tally.calls += 1;
                context.consume(connection, chunk);
                let mut whole = 0;
                while self.received >= self.bytes {
                    self.received -= self.bytes;
                    work(self.work_steps);
                    whole += 1;
                }
                self.tally.records += u64::from(whole);
                (connection, whole)
            }
            Event::Closed { .. } => {
                self.has_failed = true;
                return;
            }
            _ => return,
        };
        for _ in 0..asked {
            self.tally.calls += 1;
            self.has_failed |= context.send(connection, Bytes::from_static(REQUEST)).is_err();
        }
    }
}

impl Application for Reader {
    fn tally(&self) -> Tally {
        self.tally
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }
}

/// Reads records from anywhere on an area.
pub(super) struct DiskReader {
    area: AreaId,
    bytes: usize,
    depth: u32,
    places: u64,
    work_steps: u64,
    random: Random,
    tally: Tally,
    has_failed: bool,
}

impl DiskReader {
    /// `places`: records that the area has room for.
    pub(super) fn new(area: AreaId, bytes: usize, depth: u32, places: u64, work_steps: u64) -> DiskReader {
        let (random, tally) = (Random::new(1), Tally::default());
        DiskReader { area, bytes, depth, places, work_steps, random, tally, has_failed: false }
    }

    fn read(&mut self, context: &mut Context<'_>) {
        self.tally.calls += 1;
        let offset = self.random.below(self.places) * self.bytes as u64;
        self.has_failed |= context.read(self.area, offset, self.bytes, 0).is_err();
    }
}

impl Service for DiskReader {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        (0..self.depth).for_each(|_| self.read(context));
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.tally.calls += 1;
        let Event::Read { result, .. } = event else { return };
        self.has_failed |= result.is_err();
        // The next one's buffer.
        drop(result);
        work(self.work_steps);
        self.tally.records += 1;
        self.read(context);
    }
}

impl Application for DiskReader {
    fn tally(&self) -> Tally {
        self.tally
    }

    fn has_failed(&self) -> bool {
        self.has_failed
    }
}

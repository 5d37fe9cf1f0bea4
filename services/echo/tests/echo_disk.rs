//! The echo by way of a disk: a client over a pair of devices in memory, and a disk in memory that ends requests in an order of its own.
#![forbid(unsafe_code)]

use qanat::disk::{Fault, FaultRates, Media, Sim, SimConfig, Vsic};
use qanat::nic::{MemoryPlan, PairConfig, Region, pair};
use qanat::{
    AreaId, Bytes, CloseReason, Commands, Config, ConnectOptions, ConnectionId, Context, Event, Pool, Runtime, Service,
    StartError, StorageArea,
};
use qanat_echo::DiskEcho;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 3));
const PORT: u16 = 7;
const BUFFERS: u32 = 8;
/// Retransmissions and delayed acknowledgements take their time. This is for a machine that is very busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Connects several times, says something on each connection, and hears.
struct Caller {
    says: Vec<Bytes>,
    heard: Vec<(ConnectionId, Vec<u8>)>,
    over: Vec<CloseReason>,
}

impl Caller {
    fn new(says: Vec<Bytes>) -> Caller {
        Caller { says, heard: Vec::new(), over: Vec::new() }
    }
}

impl Service for Caller {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in &self.says {
            let connection = context.connect(SocketAddr::new(SERVER, PORT), ConnectOptions::default())?;
            self.heard.push((connection, Vec::new()));
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                let place = self.heard.iter().position(|(known, _)| *known == connection).expect("one of ours");
                context.send(connection, self.says[place].clone()).expect("room");
                context.shutdown(connection).expect("open");
            }
            Event::Data { connection, chunk } => {
                let (_, heard) = self.heard.iter_mut().find(|(known, _)| *known == connection).expect("one of ours");
                heard.extend_from_slice(chunk.bytes());
                context.consume(connection, chunk);
            }
            Event::Closed { why, .. } => self.over.push(why),
            _ => {}
        }
    }
}

fn words(length: usize, salt: u8) -> Bytes {
    (0..length).map(|index| (index / 7) as u8 ^ salt).collect::<Vec<u8>>().into()
}

/// An area of a disk, and its buffers.
fn area(disk: impl Vsic + 'static) -> (StorageArea, Pool) {
    let pool = Region::new(BUFFERS, 16 << 10).expect("memory").pool(BUFFERS).expect("buffers");
    (StorageArea::new(Box::new(disk), pool.clone()), pool)
}

/// Both run until every connection of the client's is over.
fn converse(disk: impl Vsic + 'static, says: Vec<Bytes>) -> (Caller, qanat_echo::Figures) {
    converse_in_turn(disk, vec![says]).pop().expect("one")
}

/// The same with one client after the other, and what the echo had counted after each.
fn converse_in_turn(disk: impl Vsic + 'static, clients: Vec<Vec<Bytes>>) -> Vec<(Caller, qanat_echo::Figures)> {
    let (left, right) = pair(PairConfig::default()).expect("a wire");
    let plan = MemoryPlan { frame_size: 2_048, receive_frames: 256, transmit_frames: 256, prepared_frames: 0 };
    let mut server = Runtime::new(Box::new(left.open(plan).expect("memory")), Config::new(SERVER, 24), [1; 32]);
    let mut client = Runtime::new(Box::new(right.open(plan).expect("memory")), Config::new(CLIENT, 24), [2; 32]);
    let (area, pool) = area(disk);
    let area = server.add_area(area);
    assert_eq!(area, AreaId::new(0, 0));
    let mut echo = DiskEcho::new(PORT, area, BUFFERS as usize);
    server.start(&mut echo).expect("started");
    let is_over = |caller: &Caller, echo: &DiskEcho| {
        caller.over.len() == caller.says.len() && echo.figures().connections == 0 && pool.in_use_count() == 0
    };
    let talk = |says| {
        let (mut caller, begun) = (Caller::new(says), Instant::now());
        client.start(&mut caller).expect("started");
        while !is_over(&caller, &echo) {
            server.turn(&mut echo);
            client.turn(&mut caller);
            let in_use = pool.in_use_count();
            assert!(begun.elapsed() < PATIENCE, "no end: {in_use} buffers, {:?}", echo.figures());
        }
        (caller, echo.figures())
    };
    clients.into_iter().map(talk).collect()
}

#[test]
fn what_comes_is_stored_and_sent_back() {
    for seed in 0..20 {
        let media = Media::new(512, 4_096);
        let says: Vec<Bytes> = [0, 1, 511, 512, 513, 20_000, 150_000].map(|length| words(length, seed as u8)).to_vec();
        let disk = Sim::new(&media, SimConfig { depth: BUFFERS, seed: Some(seed), ..SimConfig::default() });
        let (caller, figures) = converse(disk, says.clone());
        for ((_, heard), said) in caller.heard.iter().zip(&says) {
            assert!(heard == said, "seed {seed}: {} bytes of {}", heard.len(), said.len());
        }
        assert!(caller.over.iter().all(|why| *why == CloseReason::Finished), "seed {seed}: {:?}", caller.over);
        assert_eq!(figures.bytes, says.iter().map(|said| said.len() as u64).sum::<u64>());
        assert_eq!(figures.dropped, 0, "seed {seed}");
    }
}

#[test]
fn what_the_disk_fails_is_never_answered() {
    let mut resets = 0;
    for seed in 0..40 {
        let media = Media::new(512, 4_096);
        let disk = Sim::new(&media, SimConfig { depth: BUFFERS, seed: Some(seed), ..SimConfig::default() });
        let rates = FaultRates { error_ppm: 50_000, ..FaultRates::default() };
        let says: Vec<Bytes> = (0..7).map(|salt| words(30_000, salt)).collect();
        let (caller, figures) = converse(Fault::new(disk, rates, seed), says.clone());
        for ((_, heard), said) in caller.heard.iter().zip(&says) {
            assert!(said.starts_with(heard), "seed {seed}: nothing else comes back");
        }
        let reset = caller.over.iter().filter(|why| **why != CloseReason::Finished).count() as u64;
        assert_eq!(reset, figures.dropped, "seed {seed}: {:?}", caller.over);
        resets += reset;
    }
    assert!(resets > 20, "the disk failed {resets} times only");
}

#[test]
fn connections_are_as_many_as_buffers() {
    let media = Media::new(512, 4_096);
    let says: Vec<Bytes> = (0..12).map(|salt| words(40_000, salt)).collect();
    let disk = Sim::new(&media, SimConfig { depth: BUFFERS, seed: Some(1), ..SimConfig::default() });
    let (caller, figures) = converse(disk, says.clone());
    assert_eq!(figures.dropped, 12 - u64::from(BUFFERS));
    let whole = caller.heard.iter().zip(&says).filter(|((_, heard), said)| heard == *said).count();
    assert_eq!(whole, BUFFERS as usize);
}

/// A disk that takes one request at a time refuses the others: their connections are reset, and make room for others all the same.
#[test]
fn a_request_that_is_refused_costs_no_connection_for_good() {
    let media = Media::new(512, 4_096);
    let disk = Sim::new(&media, SimConfig { depth: 1, seed: Some(3), ..SimConfig::default() });
    let mut clients: Vec<Vec<Bytes>> = (0..20).map(|salt| vec![words(5_000, salt); 4]).collect();
    // Those who say nothing ask nothing of the disk: there is room for as many of them as at first.
    clients.push(vec![Bytes::new(); BUFFERS as usize]);
    let ended = converse_in_turn(disk, clients);
    let (_, before) = &ended[ended.len() - 2];
    assert!(before.dropped > u64::from(BUFFERS), "the disk refused {} requests only", before.dropped);
    let (last, after) = &ended[ended.len() - 1];
    assert_eq!(after.dropped, before.dropped);
    assert!(last.over.iter().all(|why| *why == CloseReason::Finished), "{:?}", last.over);
}

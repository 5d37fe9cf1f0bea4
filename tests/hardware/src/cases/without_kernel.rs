//! Disk to network without the kernel: a service with its area on an NVMe function of its own, and with a virtual function of the network
//! card. What it sends has come from the disk, and the kernel's client sees whether it is that. `strace` counts its system calls.

use super::card::{OURS, PORT, card};
use super::rig::plain;
use crate::kernel::{bind, eventually};
use crate::program::{Started, run};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Connections at once, and pieces on each, one after the other.
const CONNECTIONS: usize = 16;
const PIECES: usize = 60;
const PIECE_BYTES: usize = 2_000;
/// Requests to the disk for each: a durable write, and a read.
const REQUESTS: usize = 2 * CONNECTIONS * PIECES;
/// What `strace` writes.
const COUNTS: &str = "/tmp/counts";

/// The namespace with room for areas.
pub const NAMESPACE: u32 = 3;

fn connect(to: SocketAddr) -> TcpStream {
    eventually("it serves", || {
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        Some(stream)
    })
}

/// Pieces there and back on a connection, each with bytes of its own.
fn talk(stream: &mut TcpStream, number: usize, pieces: usize) {
    let mut heard = vec![0; PIECE_BYTES];
    for piece in 0..pieces {
        let said: Vec<u8> = (0..PIECE_BYTES).map(|index| (index * 7 + number * 31 + piece * 13) as u8).collect();
        stream.write_all(&said).expect("it takes all");
        stream.read_exact(&mut heard).expect("it comes back");
        assert!(heard == said, "connection {number}, piece {piece}: other bytes came back");
    }
}

/// System calls of a process, by name, while `busy` runs.
fn calls_of(process: u32, busy: impl FnOnce()) -> Vec<(String, usize)> {
    let _ = fs::remove_file(COUNTS);
    let tracer = Started::new(&format!("strace -f -c -o {COUNTS} -p {process}"));
    let is_traced = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("TracerPid:")).filter(|id| id.trim() != "0").map(drop)
    };
    eventually("it is traced", is_traced);
    busy();
    tracer.interrupt();
    let counts = fs::read_to_string(COUNTS).expect("what it counted");
    // "% time, seconds, µs a call, calls, errors if any, name"
    let call = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some(((*words.last()?).to_owned(), words.get(3)?.parse().ok()?))
    };
    counts.lines().filter_map(call).filter(|(name, _)| name != "total").collect()
}

pub fn no_call_a_request() {
    let (_, function) = card();
    bind(plain(), "vfio-pci");
    let disk = format!("pci:{}/{NAMESPACE}", plain());
    run(&format!("qanat disk prepare {disk}"));
    run(&format!("qanat disk create logs --on {disk} --size 1M"));
    let mut service = Started::new(&format!(
        "qanat echo-disk logs --on {disk} --interface vf:{function} --address 10.9.0.2/24 --dad off --spin always"
    ));
    let to = SocketAddr::from((OURS, PORT));
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(to)).collect();
    streams.iter_mut().enumerate().for_each(|(number, stream)| talk(stream, number, 1));
    let calls = calls_of(service.id(), || {
        std::thread::scope(|scope| {
            for (number, stream) in streams.iter_mut().enumerate() {
                scope.spawn(move || talk(stream, number, PIECES));
            }
        });
    });
    // The loop looks at its descriptors once in so many turns, to hear that it is to stop: that is seen, and it is for no request.
    let is_look = |name: &str| name.contains("poll");
    let (looks, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(name, _)| is_look(name));
    let sum = |calls: &[(String, usize)]| calls.iter().map(|(_, count)| count).sum::<usize>();
    println!("hardware: {REQUESTS} requests to the disk; system calls: {others:?}, and looks: {looks:?}");
    assert!(sum(&looks) > 0 && sum(&others) * 20 < REQUESTS, "{others:?}");
    service.is_running();
    drop(service);
    // The kernel's driver finds on the namespace what the service was told.
    let area = run(&format!("qanat disk list --on {disk}"));
    assert!(area.contains("logs") && area.contains("function's own queue"), "{area}");
    bind(plain(), "nvme");
    let bytes = fs::read(crate::kernel::block_device(plain(), NAMESPACE)).expect("the device");
    let first: Vec<u8> = (0..PIECE_BYTES).map(|index| (index * 7) as u8).collect();
    assert!(bytes.chunks(512).any(|block| block == &first[..512]), "the first piece of the first connection is on it");
}

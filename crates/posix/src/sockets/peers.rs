//! The addresses of each connection, as plain words beside the stack. They can still be read when a process was killed in the middle of the
//! stack's work and nothing else can be trusted ([`crash_reset`](crate::lifecycle::crash_reset)).

use qanat::ConnectionId;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Entries made at a time, and how often.
const CHUNK: usize = 1_024;
const CHUNKS_MAX: usize = 1_024;

/// One connection, in the place its handle names. Everything before `name` is written before it.
#[derive(Default)]
struct Entry {
    local: [AtomicU64; 2],
    peer: [AtomicU64; 2],
    ports: AtomicU64,
    /// The handle's generation, and whether there is one.
    name: AtomicU64,
}

const IS_THERE: u64 = 1 << 32;

pub(crate) struct Peers {
    /// Made when they are needed first, and never given up.
    chunks: Box<[AtomicPtr<Entry>]>,
}

impl Default for Peers {
    fn default() -> Peers {
        Peers { chunks: (0..CHUNKS_MAX).map(|_| AtomicPtr::default()).collect() }
    }
}

fn words(address: IpAddr) -> [u64; 2] {
    let bits = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

fn address(words: &[AtomicU64; 2]) -> IpAddr {
    let [high, low] = words.each_ref().map(|word| u128::from(word.load(Ordering::Relaxed)));
    IpAddr::V6((high << 64 | low).into()).to_canonical()
}

impl Peers {
    fn entry(&self, index: usize) -> Option<&Entry> {
        let chunk = self.chunks.get(index / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: null, or so many entries that stay.
        unsafe { chunk.as_ref().map(|_| &*chunk.add(index % CHUNK)) }
    }

    /// Notes a connection; to be called with the lock held.
    pub(crate) fn insert(&self, connection: ConnectionId, local: SocketAddr, peer: SocketAddr) {
        let Some(chunk) = self.chunks.get(connection.index() / CHUNK) else { return };
        if chunk.load(Ordering::Relaxed).is_null() {
            let entries: Box<[Entry]> = (0..CHUNK).map(|_| Entry::default()).collect();
            chunk.store(Box::into_raw(entries).cast(), Ordering::Release);
        }
        let Some(entry) = self.entry(connection.index()) else { return };
        entry.name.store(0, Ordering::Release);
        for (words_of, socket) in [(&entry.local, local), (&entry.peer, peer)] {
            for (cell, word) in words_of.iter().zip(words(socket.ip())) {
                cell.store(word, Ordering::Release);
            }
        }
        entry.ports.store(u64::from(local.port()) << 16 | u64::from(peer.port()), Ordering::Release);
        entry.name.store(IS_THERE | u64::from(connection.generation()), Ordering::Release);
    }

    /// The connection is over.
    pub(crate) fn remove(&self, connection: ConnectionId) {
        let is_its = |entry: &&Entry| entry.name.load(Ordering::Relaxed) as u32 == connection.generation();
        if let Some(entry) = self.entry(connection.index()).filter(is_its) {
            entry.name.store(0, Ordering::Release);
        }
    }

    /// All connections: both ends of each, ours first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
        let entries = (0..CHUNK * CHUNKS_MAX).step_by(CHUNK).filter_map(|first| self.entry(first).map(|_| first));
        let entries = entries.flat_map(|first| first..first + CHUNK).filter_map(|index| self.entry(index));
        entries.filter(|entry| entry.name.load(Ordering::Acquire) != 0).map(|entry| {
            let ports = entry.ports.load(Ordering::Relaxed);
            let end = |words, port| SocketAddr::new(address(words), port);
            (end(&entry.local, (ports >> 16) as u16), end(&entry.peer, ports as u16))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_there_is_told_until_it_is_over() {
        let peers = Peers::default();
        let (here, there) = ("10.77.0.2:80".parse().unwrap(), "10.77.0.1:4321".parse().unwrap());
        let (six, other) = ("[fd00::2]:80".parse().unwrap(), "[fd00::1]:65535".parse().unwrap());
        peers.insert(ConnectionId::new(3, 1), here, there);
        peers.insert(ConnectionId::new(5_000, 7), six, other);
        assert_eq!(peers.iter().collect::<Vec<_>>(), [(here, there), (six, other)]);
        // The place is another's by now.
        peers.insert(ConnectionId::new(3, 2), six, other);
        peers.remove(ConnectionId::new(3, 1));
        assert_eq!(peers.iter().next(), Some((six, other)));
        peers.remove(ConnectionId::new(3, 2));
        assert_eq!(peers.iter().collect::<Vec<_>>(), [(six, other)]);
        // Beyond what is noted nothing is.
        peers.insert(ConnectionId::new(u32::MAX, 1), here, there);
        assert_eq!(peers.iter().count(), 1);
    }
}

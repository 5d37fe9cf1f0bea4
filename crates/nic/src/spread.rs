//! Which of a card's queues a flow comes by, where a card of the daemon's has several.
//!
//! Twin of `hash` and `choose_queue` in `crates/daemon/bpf/gate.c`: who makes a connection by one of several queues chooses its
//! port so that the answers come back there. Filters that name a queue are not known here.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// One of the queues that a card's flows are spread over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueueShare {
    /// Its number, from 0.
    pub queue: u32,
    /// How many there are; 0 and 1: it has all flows.
    pub queues: u32,
}

/// IPv4 as `::ffff:a.b.c.d`.
fn words(address: IpAddr) -> [u64; 2] {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let [a, b, c, d, e, f, g, h, rest @ ..] = octets;
    [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes(rest)]
}

impl QueueShare {
    /// Whether packets of that flow come by this queue. `protocol`: as in the IP header; `local`: the card's side.
    pub fn has(&self, protocol: u8, local: SocketAddr, peer: SocketAddr) -> bool {
        self.queues <= 1 || queue_of(protocol, local, peer, self.queues) == self.queue
    }
}

/// The queue, of so many (not 0), by which a flow comes.
fn queue_of(protocol: u8, local: SocketAddr, peer: SocketAddr, queues: u32) -> u32 {
    let ethertype: u16 = if local.is_ipv4() { 0x0800 } else { 0x86dd };
    let [a, b] = local.port().to_ne_bytes();
    let [c, d] = peer.port().to_ne_bytes();
    let [e, f] = u16::from(protocol).to_ne_bytes();
    let [g, h] = ethertype.to_ne_bytes();
    let ([first, second], [third, fourth]) = (words(local.ip()), words(peer.ip()));
    let parts = [first, second, third, fourth, u64::from_ne_bytes([a, b, c, d, e, f, g, h])];
    let mix = |sum: u64, part: u64| {
        let sum = (sum ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^ sum >> 32
    };
    (parts.into_iter().fold(0x9e37_79b9_7f4a_7c15, mix) >> 16) as u32 % queues
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_one_queue_and_each_queue_its_share() {
        let peer = SocketAddr::from(([10, 77, 0, 1], 80));
        let mut counts = [0; 4];
        for port in 10_000..12_000 {
            let local = SocketAddr::from(([10, 77, 0, 2], port));
            let has = |queue: &u32| QueueShare { queue: *queue, queues: 4 }.has(6, local, peer);
            let [only] = (0..4).filter(has).collect::<Vec<_>>()[..] else { panic!("one queue") };
            counts[only as usize] += 1;
            assert!(QueueShare { queue: 0, queues: 1 }.has(6, local, peer));
        }
        assert!(counts.iter().all(|count| (400..600).contains(count)), "{counts:?}");
    }
}

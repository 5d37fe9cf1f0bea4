//! Which of the services on one card gets what: listeners and sockets that they share, and whose each connection is. A policy pins
//! a connection when it is accepted. No other service can name it after that.
//!
//! ```text
//!   listener 10.77.0.2:80 ── seats 0, 1, 2 ── round robin ▶ 0 1 2 0 …
//!                                             least loaded ▶ the one with the fewest connections
//!                                             queue        ▶ table[RSS hash of the flow mod 128]
//! ```
//! A service that leaves or dies leaves all its listeners. Its share is the others' from then on.

use qanat_stack::{ConnectionId, ListenerId, UdpSocketId};
use std::net::{IpAddr, SocketAddr};

/// Services on one card at most.
pub(crate) const SEATS_MAX: usize = 16;
/// Entries of the indirection table, as NICs have it.
const TABLE_ENTRIES: u32 = 128;
/// Nobody's.
const NOBODY: u8 = u8::MAX;

/// Which of the services that share a listener gets the next connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptPolicy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with the fewest connections.
    LeastLoaded,
    /// By the flow, as a NIC would choose a queue (RSS).
    Queue,
}

/// Something several services have.
#[derive(serde::Serialize, serde::Deserialize)]
struct Shared<Id> {
    id: Id,
    local: SocketAddr,
    seats: Vec<u8>,
    /// The seat whose turn is next.
    next: usize,
}

/// The owner of a slot's connection: the slot's generation, and the service's seat.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Owner {
    generation: u32,
    seat: u8,
}

/// All that is shared on one card, and who owns what.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Owners {
    policy: AcceptPolicy,
    /// By slot.
    connections: Vec<Owner>,
    /// Connections whose slot is another's already, while their end is not yet told.
    ghosts: Vec<(ConnectionId, u8)>,
    listeners: Vec<Shared<ListenerId>>,
    sockets: Vec<Shared<UdpSocketId>>,
    /// Connections, by seat.
    loads: [u32; SEATS_MAX],
    /// Seats whose services take no events: chosen only if there is no other.
    pub(crate) slow: [bool; SEATS_MAX],
}

impl Owners {
    pub(crate) fn new(policy: AcceptPolicy) -> Owners {
        Owners {
            policy,
            connections: Vec::new(),
            ghosts: Vec::new(),
            listeners: Vec::new(),
            sockets: Vec::new(),
            loads: [0; SEATS_MAX],
            slow: [false; SEATS_MAX],
        }
    }

    /// Whose a connection is.
    #[inline]
    pub(crate) fn of(&self, connection: ConnectionId) -> Option<usize> {
        let owner = self.connections.get(connection.index())?;
        if owner.generation == connection.generation() && owner.seat != NOBODY {
            return Some(usize::from(owner.seat));
        }
        self.ghosts.iter().find(|(ghost, _)| *ghost == connection).map(|(_, seat)| usize::from(*seat))
    }

    #[inline]
    pub(crate) fn is_of(&self, connection: ConnectionId, seat: usize) -> bool {
        self.of(connection) == Some(seat)
    }

    /// A connection is a service's from now on.
    pub(crate) fn give(&mut self, connection: ConnectionId, seat: usize) {
        self.forget(connection);
        if self.connections.len() <= connection.index() {
            self.connections.resize(connection.index() + 1, Owner { generation: 0, seat: NOBODY });
        }
        let (place, load) = (self.connections.get_mut(connection.index()), self.loads.get_mut(seat));
        let (Some(owner), Some(load)) = (place, load) else { return };
        if owner.seat != NOBODY {
            // As many as slots are used again before their ends are told: few.
            self.ghosts.push((ConnectionId::new(connection.index() as u32, owner.generation), owner.seat));
        }
        *owner = Owner { generation: connection.generation(), seat: seat as u8 };
        *load += 1;
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        let Some(seat) = self.of(connection) else { return };
        match self.connections.get_mut(connection.index()) {
            Some(owner) if owner.generation == connection.generation() => owner.seat = NOBODY,
            _ => self.ghosts.retain(|(ghost, _)| *ghost != connection),
        }
        if let Some(load) = self.loads.get_mut(seat) {
            *load = load.saturating_sub(1);
        }
    }

    /// A service's connections.
    pub(crate) fn load(&self, seat: usize) -> u32 {
        self.loads.get(seat).copied().unwrap_or(0)
    }

    /// Lets a service have its share of a listener that is there already; its handle.
    pub(crate) fn join_listener(&mut self, local: SocketAddr, seat: usize) -> Option<ListenerId> {
        join(&mut self.listeners, local, seat)
    }

    pub(crate) fn add_listener(&mut self, id: ListenerId, local: SocketAddr, seat: usize) {
        self.listeners.push(Shared { id, local, seats: vec![seat as u8], next: 0 });
    }

    pub(crate) fn join_socket(&mut self, local: SocketAddr, seat: usize) -> Option<UdpSocketId> {
        join(&mut self.sockets, local, seat)
    }

    pub(crate) fn add_socket(&mut self, id: UdpSocketId, local: SocketAddr, seat: usize) {
        self.sockets.push(Shared { id, local, seats: vec![seat as u8], next: 0 });
    }

    /// A service has no share in a listener any more; whether that was the last.
    pub(crate) fn leave_listener(&mut self, id: ListenerId, seat: usize) -> bool {
        leave(&mut self.listeners, |shared| shared.id == id, seat).pop().is_some()
    }

    pub(crate) fn leave_socket(&mut self, id: UdpSocketId, seat: usize) -> bool {
        leave(&mut self.sockets, |shared| shared.id == id, seat).pop().is_some()
    }

    /// A service leaves everything: listeners and sockets that are nobody's now.
    pub(crate) fn leave_all(&mut self, seat: usize) -> (Vec<ListenerId>, Vec<UdpSocketId>) {
        (leave(&mut self.listeners, |_| true, seat), leave(&mut self.sockets, |_| true, seat))
    }

    /// Whether a flow's own address matters to whom it goes.
    pub(crate) fn is_by_flow(&self) -> bool {
        self.policy == AcceptPolicy::Queue
    }

    /// The service that gets a new connection of a listener. `None`: there is none.
    pub(crate) fn choose(&mut self, id: ListenerId, local: Option<SocketAddr>, peer: SocketAddr) -> Option<usize> {
        let shared = self.listeners.iter_mut().find(|shared| shared.id.index() == id.index())?;
        let local = local.unwrap_or(shared.local);
        choose(shared, self.policy, &self.loads, &self.slow, || rss_hash(peer, local))
    }

    /// The service that gets a datagram of a socket.
    pub(crate) fn choose_for_datagram(&mut self, id: UdpSocketId, peer: SocketAddr) -> Option<usize> {
        let shared = self.sockets.iter_mut().find(|shared| shared.id == id)?;
        let local = shared.local;
        choose(shared, self.policy, &self.loads, &self.slow, || rss_hash(peer, local))
    }

    /// How many others have a share in some listener.
    pub(crate) fn others(&self, seat: usize) -> u32 {
        let is_other = |other: &usize| {
            *other != seat && self.listeners.iter().any(|shared| shared.seats.contains(&(*other as u8)))
        };
        (0..SEATS_MAX).filter(is_other).count() as u32
    }

    /// Another seat that could have a connection accepted at `local`, which `seat` is to lose.
    pub(crate) fn choose_other(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        seat: usize,
    ) -> Option<(ListenerId, usize)> {
        let serves = |at: &SocketAddr| at.port() == local.port() && (at.ip() == local.ip() || at.ip().is_unspecified());
        let shared = self.listeners.iter_mut().find(|shared| serves(&shared.local))?;
        // Its own share, if it still has one, is left out.
        let place = shared.seats.iter().position(|own| usize::from(*own) == seat);
        let removed = place.map(|place| (place, shared.seats.remove(place)));
        let chosen = choose(shared, self.policy, &self.loads, &self.slow, || rss_hash(peer, local));
        if let Some((place, own)) = removed {
            shared.seats.insert(place, own);
        }
        chosen.map(|chosen| (shared.id, chosen))
    }
}

fn join<Id: Copy>(all: &mut [Shared<Id>], local: SocketAddr, seat: usize) -> Option<Id> {
    let shared = all.iter_mut().find(|shared| shared.local == local)?;
    // Its own, once more: in use, as it would be without others.
    if shared.seats.contains(&(seat as u8)) {
        return None;
    }
    shared.seats.push(seat as u8);
    Some(shared.id)
}

/// Takes a seat out; what nobody has any more.
fn leave<Id: Copy>(all: &mut Vec<Shared<Id>>, which: impl Fn(&Shared<Id>) -> bool, seat: usize) -> Vec<Id> {
    let mut over = Vec::new();
    all.retain_mut(|shared| {
        if which(shared) {
            shared.seats.retain(|own| usize::from(*own) != seat);
        }
        if shared.seats.is_empty() {
            over.push(shared.id);
        }
        !shared.seats.is_empty()
    });
    over
}

fn choose<Id>(
    shared: &mut Shared<Id>,
    policy: AcceptPolicy,
    loads: &[u32; SEATS_MAX],
    slow: &[bool; SEATS_MAX],
    hash: impl FnOnce() -> u32,
) -> Option<usize> {
    let seats = &shared.seats;
    let count = seats.len();
    if count <= 1 {
        return seats.first().map(|seat| usize::from(*seat));
    }
    let at = |place: usize| seats.get(place % count).map_or(0, |seat| usize::from(*seat));
    let is_slow = |place: usize| slow.get(at(place)).copied().unwrap_or(false);
    let start = match policy {
        AcceptPolicy::RoundRobin => shared.next,
        // Ties go round.
        AcceptPolicy::LeastLoaded => {
            let load = |place: &usize| (is_slow(*place), loads.get(at(*place)).copied().unwrap_or(0));
            (shared.next..shared.next + count).min_by_key(load).unwrap_or(0)
        }
        AcceptPolicy::Queue => (hash() % TABLE_ENTRIES) as usize,
    };
    let place = (start..start + count).find(|place| !is_slow(*place)).unwrap_or(start);
    shared.next = (place + 1) % count;
    Some(at(place))
}

/// Microsoft's key, which drivers use unless told otherwise.
const RSS_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// The Toeplitz hash of a flow, as a NIC computes it: source, destination, and their ports.
fn rss_hash(source: SocketAddr, destination: SocketAddr) -> u32 {
    let mut input = [0u8; 36];
    let mut length = 0;
    let mut put = |bytes: &[u8]| {
        for byte in bytes {
            if let Some(place) = input.get_mut(length) {
                *place = *byte;
                length += 1;
            }
        }
    };
    for address in [source.ip(), destination.ip()] {
        match address {
            IpAddr::V4(address) => put(&address.octets()),
            IpAddr::V6(address) => put(&address.octets()),
        }
    }
    put(&source.port().to_be_bytes());
    put(&destination.port().to_be_bytes());
    let mut window = u64::from_be_bytes([
        RSS_KEY[0], RSS_KEY[1], RSS_KEY[2], RSS_KEY[3], RSS_KEY[4], RSS_KEY[5], RSS_KEY[6], RSS_KEY[7],
    ]);
    let mut hash = 0;
    for (index, byte) in input.iter().take(length).enumerate() {
        for bit in 0..8 {
            if byte & (0x80 >> bit) != 0 {
                hash ^= (window >> 32) as u32;
            }
            window <<= 1;
        }
        // Eight bits have gone out at the top.
        window |= u64::from(RSS_KEY.get(index + 8).copied().unwrap_or(0));
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_hash_is_the_one_nics_compute() {
        // Microsoft's verification suite.
        assert_eq!(rss_hash(at("66.9.149.187:2794"), at("161.142.100.80:1766")), 0x51cc_c178);
        assert_eq!(rss_hash(at("199.92.111.2:14230"), at("65.69.140.83:4739")), 0xc626_b0ea);
        assert_eq!(rss_hash(at("[3ffe:2501:200:1fff::7]:2794"), at("[3ffe:2501:200:3::1]:1766")), 0x4020_7d3d);
    }

    fn shares(policy: AcceptPolicy, owners: &mut Owners, connections: u32) -> Vec<u32> {
        let (listener, local) = (ListenerId::new(0, 0), at("10.0.0.1:80"));
        let mut counts = vec![0; 4];
        for number in 0..connections {
            let peer = SocketAddr::from(([10, 0, 1, (number % 200) as u8], 1_000 + (number / 3) as u16));
            let seat = owners.choose(listener, Some(local), peer).unwrap();
            assert_eq!(owners.policy, policy);
            owners.give(ConnectionId::new(number, 7), seat);
            counts[seat] += 1;
        }
        counts
    }

    #[test]
    fn every_policy_shares_and_the_shares_of_who_leaves_are_the_others() {
        for policy in [AcceptPolicy::RoundRobin, AcceptPolicy::LeastLoaded, AcceptPolicy::Queue] {
            let mut owners = Owners::new(policy);
            let (listener, local) = (ListenerId::new(0, 0), at("10.0.0.1:80"));
            owners.add_listener(listener, local, 0);
            assert_eq!(owners.join_listener(local, 1), Some(listener));
            assert_eq!(owners.join_listener(local, 2), Some(listener));
            assert_eq!(owners.join_listener(at("10.0.0.1:81"), 2), None);
            let counts = shares(policy, &mut owners, 300);
            let expected = if policy == AcceptPolicy::Queue { 60..=140 } else { 100..=100 };
            assert!(counts[..3].iter().all(|count| expected.contains(count)), "{policy:?}: {counts:?}");
            assert_eq!((0..3).map(|seat| owners.load(seat)).sum::<u32>(), 300);
            // The same flow, the same choice: what RSS is for.
            if policy == AcceptPolicy::Queue {
                let peer = at("10.0.1.9:4711");
                let first = owners.choose(listener, Some(local), peer);
                assert!((0..9).all(|_| owners.choose(listener, Some(local), peer) == first));
            }
            assert_eq!(owners.leave_all(1), (vec![], vec![]));
            let counts = shares(policy, &mut owners, 200);
            assert!(counts[1] == 0 && counts[0] > 50 && counts[2] > 50, "{policy:?}: {counts:?}");
            assert!(!owners.leave_listener(listener, 0), "somebody has it still");
            assert_eq!(owners.leave_all(2).0, vec![listener], "nobody has it any more");
            assert_eq!(owners.choose(listener, Some(local), at("10.0.1.1:1")), None);
        }
    }

    #[test]
    fn the_slow_are_left_out_while_there_are_others_and_the_least_loaded_come_first() {
        let mut owners = Owners::new(AcceptPolicy::LeastLoaded);
        owners.add_listener(ListenerId::new(0, 0), at("10.0.0.1:80"), 0);
        owners.join_listener(at("10.0.0.1:80"), 1);
        for number in 0..5 {
            owners.give(ConnectionId::new(number, 1), 0);
        }
        assert_eq!(shares(AcceptPolicy::LeastLoaded, &mut owners, 5)[..2], [0, 5]);
        owners.slow[1] = true;
        assert_eq!(shares(AcceptPolicy::LeastLoaded, &mut owners, 5)[..2], [5, 0]);
        owners.slow[0] = true;
        assert_eq!(shares(AcceptPolicy::LeastLoaded, &mut owners, 10).iter().sum::<u32>(), 10);
    }

    #[test]
    fn a_connection_is_its_owners_alone_and_only_that_one() {
        let mut owners = Owners::new(AcceptPolicy::RoundRobin);
        let (old, new) = (ConnectionId::new(3, 1), ConnectionId::new(3, 2));
        owners.give(old, 1);
        assert!(owners.is_of(old, 1) && !owners.is_of(old, 0) && !owners.is_of(new, 1));
        owners.forget(new);
        assert_eq!(owners.load(1), 1, "another of the slot's");
        owners.forget(old);
        owners.forget(old);
        owners.give(new, 0);
        assert_eq!((owners.of(old), owners.of(new), owners.load(0), owners.load(1)), (None, Some(0), 1, 0));
        // Its slot is another's before its end is told.
        let newer = ConnectionId::new(3, 3);
        owners.give(newer, 1);
        assert_eq!((owners.of(new), owners.of(newer)), (Some(0), Some(1)));
        owners.forget(new);
        assert_eq!((owners.of(new), owners.of(newer), owners.load(0), owners.load(1)), (None, Some(1), 0, 1));
    }
}

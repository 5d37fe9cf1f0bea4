//! Frames, built by hand: the parts an attacker would change are arguments.

/// The attacker's card.
pub const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Its victim's, on the same switch.
pub const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The kernel's end.
pub const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xff];
/// The attacker's address.
pub const OWN: [u8; 4] = [10, 77, 0, 2];
/// Its victim's.
pub const OTHER: [u8; 4] = [10, 77, 0, 3];
/// The kernel's.
pub const HOST: [u8; 4] = [10, 77, 0, 1];
pub const OWN_6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
pub const OTHER_6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
pub const HOST_6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub const BROADCAST: [u8; 6] = [0xff; 6];
pub const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

pub fn ethernet(destination: [u8; 6], source: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// To the kernel, from our own card.
pub fn sent(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(HOST_MAC, OWN_MAC, ethertype, payload)
}

pub struct Ipv4 {
    pub source: [u8; 4],
    pub destination: [u8; 4],
    pub protocol: u8,
    pub fragment: u16,
    pub options: Vec<u8>,
}

impl Ipv4 {
    pub fn own(protocol: u8) -> Ipv4 {
        Ipv4 { source: OWN, destination: HOST, protocol, fragment: 0, options: Vec::new() }
    }

    /// From the kernel to our own card.
    pub fn back(protocol: u8) -> Ipv4 {
        Ipv4 { source: HOST, destination: OWN, ..Ipv4::own(protocol) }
    }

    pub fn with(&self, payload: &[u8]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut packet = vec![0x40 | (header / 4) as u8, 0];
        packet.extend(((header + payload.len()) as u16).to_be_bytes());
        packet.extend([0, 1]);
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([64, self.protocol, 0, 0]);
        packet.extend(self.source);
        packet.extend(self.destination);
        packet.extend(&self.options);
        packet.extend(payload);
        packet
    }
}

pub struct Ipv6 {
    pub source: [u8; 16],
    pub destination: [u8; 16],
    pub next: u8,
    pub hops: u8,
}

impl Ipv6 {
    pub fn own(next: u8) -> Ipv6 {
        Ipv6 { source: OWN_6, destination: HOST_6, next, hops: 255 }
    }

    /// From the kernel to our own card.
    pub fn back(next: u8) -> Ipv6 {
        Ipv6 { source: HOST_6, destination: OWN_6, next, hops: 255 }
    }

    pub fn with(&self, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([self.next, self.hops]);
        packet.extend(self.source);
        packet.extend(self.destination);
        packet.extend(payload);
        packet
    }
}

pub fn tcp(source: u16, destination: u16) -> Vec<u8> {
    let mut segment = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    segment.extend([0; 8]);
    segment.extend([5 << 4, 2, 255, 255, 0, 0, 0, 0]);
    segment
}

pub fn udp(source: u16, destination: u16) -> Vec<u8> {
    let mut datagram = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    datagram.extend([0, 12, 0, 0]);
    datagram.extend(*b"data");
    datagram
}

pub fn icmp(kind: u8) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0, 1, 0, 1];
    message.extend([0; 28]);
    message
}

/// An ICMP error of either version with what it quotes.
pub fn icmp_error(kind: u8, quote: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 2, 0x58];
    message.extend(quote);
    message
}

pub fn arp(operation: u16, sender_mac: [u8; 6], sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4];
    packet.extend(operation.to_be_bytes());
    packet.extend(sender_mac);
    packet.extend(sender);
    packet.extend(HOST_MAC);
    packet.extend(target);
    packet.extend([0; 18]);
    packet
}

/// A neighbour solicitation (135) or advertisement (136) with one option.
pub fn neighbour(kind: u8, target: [u8; 16], option: u8, mac: [u8; 6]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend(target);
    message.extend([option, 1]);
    message.extend(mac);
    message
}

/// Puts a VLAN tag after the addresses of a frame.
pub fn tagged(frame: &[u8], ethertype: u16, vlan: u16) -> Vec<u8> {
    let mut longer = frame[..12].to_vec();
    longer.extend(ethertype.to_be_bytes());
    longer.extend(vlan.to_be_bytes());
    longer.extend(&frame[12..]);
    longer
}

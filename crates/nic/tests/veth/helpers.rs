//! A kernel UDP client in a namespace, and a hand-made echo server on frames.

use qanat_nic::link::Namespace;
use qanat_nic::{ChecksumOffload, Frame, TransmitBuffer, TransmitOptions, Vnic};
use std::collections::HashSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

macro_rules! require_root {
    () => {
        // SAFETY: takes no arguments.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!("SKIPPED (needs root): {}", module_path!());
            assert!(
                std::env::var_os("QANAT_REQUIRE_ROOT").is_none(),
                "QANAT_REQUIRE_ROOT is set, and this is not root"
            );
            return;
        }
    };
}
pub(crate) use require_root;

/// A kernel UDP socket in `namespace`, bound to port 5000.
pub struct Peer {
    socket: UdpSocket,
}

impl Peer {
    pub const PORT: u16 = 5000;

    pub fn new(namespace: &Namespace, own: Ipv4Addr, other: Ipv4Addr) -> Peer {
        Peer::on_port(namespace, own, other, Peer::PORT)
    }

    pub fn on_port(namespace: &Namespace, own: Ipv4Addr, other: Ipv4Addr, port: u16) -> Peer {
        let open = || {
            let socket = UdpSocket::bind((own, port))?;
            socket.connect((other, 7))?;
            socket.set_read_timeout(Some(Duration::from_secs(30)))?;
            Ok::<_, std::io::Error>(socket)
        };
        Peer { socket: namespace.within(open).unwrap().unwrap() }
    }

    pub fn send(&self, bytes: &[u8]) {
        self.socket.send(bytes).unwrap();
    }

    /// Whether something has come; it is left there.
    pub fn has_answer(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let has = self.socket.peek(&mut [0; 1]).is_ok();
        self.socket.set_nonblocking(false).unwrap();
        has
    }

    pub fn receive(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = [0; 65_536];
        let length = self.socket.recv(&mut bytes)?;
        Ok(bytes[..length].to_vec())
    }

    /// Sends `count` datagrams, at most `window` unanswered; returns how many came back intact, each once. The kernel has a queue for each
    /// processor, so two datagrams of a thread that moved between them may overtake each other.
    pub fn ping(&self, count: usize, window: usize, length: usize) -> usize {
        let payload = |number: usize| {
            let mut bytes = vec![(number % 251) as u8; length];
            bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
            bytes
        };
        let (mut sent, mut answered, mut unanswered) = (0, 0, HashSet::new());
        while answered < count {
            while sent < count && unanswered.len() < window {
                self.socket.send(&payload(sent)).unwrap();
                unanswered.insert(sent);
                sent += 1;
            }
            let bytes = self.receive().unwrap_or_else(|error| panic!("{error}: no answer to any of {unanswered:?}"));
            let number = bytes.first_chunk().map_or(0, |number| u64::from_be_bytes(*number)) as usize;
            assert!(unanswered.remove(&number), "answer {number} was not waited for, but {unanswered:?}");
            assert!(bytes == payload(number), "answer {number} is damaged");
            answered += 1;
        }
        answered
    }
}

/// Receives a batch and sends ARP replies and UDP echoes, with the checksum left to the device, or left out.
pub fn echo_once(nic: &mut impl Vnic, own: Ipv4Addr) {
    let mut frames = Vec::with_capacity(64);
    nic.receive(&mut frames, 64);
    let mac = nic.capabilities().mac.0;
    let mut first = true;
    for mut frame in frames {
        let continues = frame.continues();
        let mut options = TransmitOptions { continues, checksum: None };
        if first {
            options.checksum = turn_round(frame.bytes_mut(), mac, own, nic.capabilities().transmit_checksum);
        }
        first = !continues;
        nic.transmit(TransmitBuffer::Owned(frame), options).expect("room for a batch");
    }
    nic.flush();
}

/// Sends the answer to a packet of one frame, which was UDP or ARP; whether it was UDP.
pub fn answer(nic: &mut impl Vnic, mut frame: Frame, own: Ipv4Addr) -> bool {
    let is_udp = frame.bytes()[12..14] == [8, 0];
    let (mac, offload) = (nic.capabilities().mac.0, nic.capabilities().transmit_checksum);
    let checksum = turn_round(frame.bytes_mut(), mac, own, offload);
    let sent = nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions { continues: false, checksum });
    // While our end is down nothing leaves, and the ring fills.
    is_udp && sent.is_ok()
}

/// Makes a request its answer.
fn turn_round(bytes: &mut [u8], mac: [u8; 6], own: Ipv4Addr, offload: bool) -> Option<ChecksumOffload> {
    let (source, is_arp) = (bytes[6..12].to_vec(), bytes[12..14] == [8, 6]);
    bytes[..6].copy_from_slice(&source);
    bytes[6..12].copy_from_slice(&mac);
    if is_arp {
        answer_arp(bytes, mac, own);
        return None;
    }
    for offset in 0..4 {
        bytes.swap(26 + offset, 30 + offset);
    }
    bytes.swap(34, 36);
    bytes.swap(35, 37);
    // 0: UDP over IPv4 without a checksum.
    let field = if offload { pseudo_header_sum(bytes) } else { 0 };
    bytes[40..42].copy_from_slice(&field.to_be_bytes());
    offload.then_some(ChecksumOffload { start: 34, offset: 6 })
}

fn answer_arp(bytes: &mut [u8], mac: [u8; 6], own: Ipv4Addr) {
    assert_eq!(bytes[38..42], own.octets(), "ARP for someone else was taken");
    bytes[21] = 2;
    let sender = bytes[22..32].to_vec();
    bytes[22..28].copy_from_slice(&mac);
    bytes[28..32].copy_from_slice(&own.octets());
    bytes[32..42].copy_from_slice(&sender);
}

fn pseudo_header_sum(bytes: &[u8]) -> u16 {
    let mut sum = 17 + u32::from(u16::from_be_bytes([bytes[38], bytes[39]]));
    for word in bytes[26..34].chunks_exact(2) {
        sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

pub fn send(nic: &mut impl Vnic, bytes: &[u8]) {
    let mut frame: Frame = nic.transmit_pool().allocate(64).unwrap();
    frame.append(bytes.len()).unwrap().copy_from_slice(bytes);
    nic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).unwrap();
    nic.flush();
}

pub fn wait(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(2);
    while !done() {
        assert!(Instant::now() < deadline, "nothing came within 2 s");
    }
}

/// Frames made by hand.
pub mod frame_bytes {
    use super::pseudo_header_sum;
    use qanat_wire::ethernet::MacAddress;
    use std::net::{Ipv4Addr, Ipv6Addr};

    pub fn arp_request(mac: MacAddress, own: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
        let mut bytes = vec![0xff; 6];
        bytes.extend(mac.0);
        bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        bytes.extend(mac.0);
        bytes.extend(own.octets());
        bytes.extend([0; 6]);
        bytes.extend(target.octets());
        bytes
    }

    /// An ICMP message of `kind` that quotes a UDP packet which `destination` sent from `quoted_port`.
    pub fn icmp(
        mac: MacAddress,
        source: Ipv4Addr,
        target_mac: MacAddress,
        target: Ipv4Addr,
        kind: u8,
        quoted_port: u16,
    ) -> Vec<u8> {
        let quoted = udp((target_mac, target, quoted_port), (mac, source, 9), b"");
        let mut bytes = udp((mac, source, 0), (target_mac, target, 0), &quoted[14..]);
        bytes[23] = 1;
        bytes[34..42].copy_from_slice(&[kind, 3, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    pub fn neighbour_solicitation(mac: MacAddress, target: Ipv6Addr) -> Vec<u8> {
        let tail = &target.octets()[13..];
        let mut bytes = vec![0x33, 0x33, 0xff, tail[0], tail[1], tail[2]];
        bytes.extend(mac.0);
        bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, 255]);
        bytes.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        bytes.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, tail[0], tail[1], tail[2]]);
        bytes.extend([135, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(target.octets());
        bytes
    }

    type End = (MacAddress, Ipv4Addr, u16);

    pub fn udp(source: End, destination: End, payload: &[u8]) -> Vec<u8> {
        let mut bytes = destination.0.0.to_vec();
        bytes.extend(source.0.0);
        bytes.extend([8, 0, 0x45, 0]);
        bytes.extend((28 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend(source.1.octets());
        bytes.extend(destination.1.octets());
        bytes.extend(source.2.to_be_bytes());
        bytes.extend(destination.2.to_be_bytes());
        bytes.extend((8 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0]); // UDP without checksum
        bytes.extend(payload);
        let mut sum: u32 =
            bytes[14..34].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        sum = (sum & 0xffff) + (sum >> 16);
        bytes[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        debug_assert!(pseudo_header_sum(&bytes) != 0);
        bytes
    }
}

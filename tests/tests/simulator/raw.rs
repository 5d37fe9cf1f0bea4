//! A node that is no stack: it keeps the frames it gets, answers ARP, and sends what the test makes up.

use qanat_nic::{Frame, Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_tests::sim::{Device, Node};
use qanat_wire::{checksum, ethernet, ipv4, tcp};
use std::net::Ipv4Addr;

/// The addresses used in these tests: the server's, and the client's who is also its gateway.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// See [`SERVER`].
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// As the pair gives them.
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A TCP segment to make.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// From.
    pub source: (Ipv4Addr, u16),
    /// To.
    pub destination: (Ipv4Addr, u16),
    /// SEG.SEQ.
    pub sequence: u32,
    /// SEG.ACK.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: u8,
    /// As it stands in the header.
    pub window: u16,
    /// Encoded, of a length that is a multiple of 4.
    pub options: &'a [u8],
    /// Data.
    pub payload: &'a [u8],
}

/// A received segment.
#[derive(Clone, Debug)]
pub struct Got {
    /// SEG.SEQ.
    pub sequence: u32,
    /// SEG.ACK.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: u8,
    /// TSval.
    pub timestamp: Option<u32>,
    /// Data.
    pub payload: Vec<u8>,
}

/// The frame of an IPv4 packet.
pub fn packet(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(34 + body.len());
    bytes.extend(if destination == CLIENT { CLIENT_MAC } else { SERVER_MAC });
    bytes.extend(if destination == CLIENT { SERVER_MAC } else { CLIENT_MAC });
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend(((20 + body.len()) as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    let sum = checksum::finish(checksum::sum(&bytes[14..34]));
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The frame of a segment.
pub fn segment(segment: &Segment<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(60 + segment.payload.len());
    body.extend(segment.source.1.to_be_bytes());
    body.extend(segment.destination.1.to_be_bytes());
    body.extend(segment.sequence.to_be_bytes());
    body.extend(segment.acknowledgment.to_be_bytes());
    body.extend([((20 + segment.options.len()) as u8 / 4) << 4, segment.flags]);
    body.extend(segment.window.to_be_bytes());
    body.extend([0; 4]);
    body.extend(segment.options);
    body.extend(segment.payload);
    let mut pseudo = Vec::with_capacity(12);
    pseudo.extend(segment.source.0.octets());
    pseudo.extend(segment.destination.0.octets());
    pseudo.extend([0, 6]);
    pseudo.extend((body.len() as u16).to_be_bytes());
    let sum = checksum::finish(checksum::combine(checksum::sum(&pseudo), checksum::sum(&body)));
    body[16..18].copy_from_slice(&sum.to_be_bytes());
    packet(segment.source.0, segment.destination.0, 6, &body)
}

/// Puts a frame on the wire.
pub fn inject(device: &mut Device, bytes: &[u8]) {
    let mut frame = device.transmit_pool().allocate(0).expect("a free frame");
    frame.append(bytes.len()).expect("room").copy_from_slice(bytes);
    device.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).expect("room in the ring");
    device.flush();
}

/// See the module.
#[derive(Default)]
pub struct RawNode {
    /// Segments received and not looked at.
    pub segments: Vec<Got>,
    frames: Vec<Frame>,
}

impl RawNode {
    fn take(&mut self, bytes: &[u8], macs: [[u8; 6]; 2], device: &mut Device) {
        let [own, other] = macs;
        let Ok(frame) = ethernet::Frame::parse(bytes) else { return };
        if frame.ethertype() == ethernet::EtherType::ARP {
            // Who has: the answer is the question with sides changed.
            let Some(question) = bytes.get(14..42).filter(|arp| arp[7] == 1) else { return };
            let mut answer = Vec::from(other);
            answer.extend(own);
            answer.extend([8, 6]);
            answer.extend(&question[..7]);
            answer.push(2);
            answer.extend(own);
            answer.extend(&question[24..28]);
            answer.extend(&question[8..18]);
            inject(device, &answer);
            return;
        }
        let Ok(ip) = ipv4::Packet::parse(frame.payload()) else { return };
        let Ok(segment) = tcp::Segment::parse(ip.payload()) else { return };
        let options = qanat_wire::tcp_options::Options::parse(segment.options()).expect("sound options");
        self.segments.push(Got {
            sequence: segment.sequence().0,
            acknowledgment: segment.acknowledgment().0,
            flags: segment.flags().0,
            timestamp: options.timestamps.map(|timestamps| timestamps.value),
            payload: segment.payload().to_vec(),
        });
    }
}

impl RawNode {
    fn poll_with(&mut self, macs: [[u8; 6]; 2], device: &mut Device) -> bool {
        let mut frames = std::mem::take(&mut self.frames);
        let moved = device.receive(&mut frames, 256) > 0;
        for frame in frames.drain(..) {
            self.take(frame.bytes(), macs, device);
        }
        self.frames = frames;
        moved
    }
}

impl Node for RawNode {
    fn poll(&mut self, _now: Time, device: &mut Device) -> bool {
        let own = device.capabilities().mac.0;
        let macs = if own == CLIENT_MAC { [CLIENT_MAC, SERVER_MAC] } else { [SERVER_MAC, CLIENT_MAC] };
        self.poll_with(macs, device)
    }

    fn next_deadline(&mut self, _now: Time) -> Option<Time> {
        None
    }

    fn is_finished(&self) -> bool {
        true
    }

    fn leftovers(&self) -> Option<String> {
        None
    }
}

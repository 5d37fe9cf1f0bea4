//! [`Wire`]: a device whose other end is a script. IP packets without Ethernet headers go in and out, and every neighbour there may be
//! answers for itself.

use crate::memory::Frame;
use crate::plan::FrameMemory;
use crate::statistics::VnicStatistics;
use crate::vnic::{Capabilities, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::{EtherType, MacAddress};
use qanat_wire::{arp, checksum};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const NEIGHBOUR: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const ETHERNET: usize = 14;
/// ICMPv6's next header, and where in a packet without extension headers its message is.
const ICMPV6: u8 = 58;
const IPV6_HEADER: usize = 40;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// A device whose other end is its owner: a script, or a test. Both ends are in one thread.
pub struct Wire {
    memory: FrameMemory,
    mtu: u16,
    /// Frames on their way in.
    arrived: VecDeque<Vec<u8>>,
    /// IP packets that have left.
    departed: Vec<Vec<u8>>,
    statistics: VnicStatistics,
}

impl Wire {
    /// A device with this MTU, over these frames.
    pub fn new(mtu: u16, memory: FrameMemory) -> Wire {
        let (arrived, departed) = (VecDeque::new(), Vec::new());
        Wire { memory, mtu, arrived, departed, statistics: VnicStatistics::default() }
    }

    /// Lets an IP packet arrive.
    pub fn arrive(&mut self, packet: &[u8]) {
        let is_six = packet.first().is_some_and(|first| first >> 4 == 6);
        self.put(if is_six { EtherType::IPV6 } else { EtherType::IPV4 }, packet);
    }

    /// Takes the IP packets that have left, in order.
    pub fn departed(&mut self) -> impl Iterator<Item = Vec<u8>> {
        self.departed.drain(..)
    }

    /// Whether something has arrived that was not received yet.
    pub fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    fn put(&mut self, kind: EtherType, payload: &[u8]) {
        let header = [OWN.0.as_slice(), NEIGHBOUR.0.as_slice(), kind.0.to_be_bytes().as_slice()].concat();
        self.arrived.push_back([header.as_slice(), payload].concat());
    }

    /// Sorts what the stack sends: a question for a neighbour is answered, everything else has left.
    fn take(&mut self, frame: &[u8]) {
        let Some((header, payload)) = frame.split_at_checked(ETHERNET) else { return };
        match [header[12], header[13]].map(u16::from) {
            [high, low] if high << 8 | low == EtherType::ARP.0 => {
                let Ok(question) = arp::Packet::parse(payload) else { return };
                let mut answer = [0; arp::PACKET_LENGTH];
                if question.operation() == arp::Operation::REQUEST
                    && arp::Header::parse(&question).reply(NEIGHBOUR).emit(&mut answer).is_ok()
                {
                    self.put(EtherType::ARP, &answer);
                }
            }
            [high, low] if high << 8 | low == EtherType::IPV6.0 => match advertisement(payload) {
                Some(answer) => self.put(EtherType::IPV6, &answer),
                None => self.departed.push(payload.to_vec()),
            },
            _ => self.departed.push(payload.to_vec()),
        }
    }
}

/// The answer to a neighbour solicitation (RFC 4861 section 4.4).
fn advertisement(packet: &[u8]) -> Option<Vec<u8>> {
    let message = packet.get(IPV6_HEADER..)?;
    if packet.get(6) != Some(&ICMPV6) || message.first() != Some(&NEIGHBOUR_SOLICITATION) {
        return None;
    }
    let (asking, target) = (packet.get(8..24)?, message.get(8..24)?);
    // Solicited, override; target; its link-layer address.
    let mut body = [&[NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, 0x60, 0, 0, 0], target, &[2, 1], &NEIGHBOUR.0].concat();
    let length = (body.len() as u16).to_be_bytes();
    let pseudo = [target, asking, &[0, 0], &length, &[0, 0, 0, ICMPV6], &body].concat();
    let sum = (!checksum::sum(&pseudo)).to_be_bytes();
    body[2..4].copy_from_slice(&sum);
    let header = [&[0x60, 0, 0, 0], &length[..], &[ICMPV6, 255], target, asking].concat();
    Some([header, body].concat())
}

impl Vnic for Wire {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mac: OWN,
            mtu: self.mtu,
            transmit_checksum: false,
            receive_checksum: ReceiveChecksum::Verify,
            transmit_buffers_max: 1,
            transmit_headroom: 0,
        }
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        let frame_size = self.memory.region.frame_size() as usize;
        let mut taken = 0;
        while let Some(packet) = self.arrived.front() {
            let pieces = packet.len().div_ceil(frame_size).max(1);
            if taken + pieces > frames_max || self.memory.receive.free_count() < pieces as u32 {
                break;
            }
            let Some(packet) = self.arrived.pop_front() else { break };
            let mut rest = packet.chunks(frame_size).peekable();
            while let Some(piece) = rest.next() {
                let Some(mut frame) = self.memory.receive.allocate(0) else { break };
                if frame.append_bytes(piece).is_some() {
                    frame.set_continues(rest.peek().is_some());
                    frames.push(frame);
                    taken += 1;
                }
            }
            self.statistics.receive_frames += 1;
        }
        taken
    }

    fn transmit_room(&mut self) -> usize {
        1_024
    }

    fn transmit(&mut self, buffer: TransmitBuffer, _: TransmitOptions) -> Result<(), TransmitBuffer> {
        self.statistics.transmit_frames += 1;
        self.take(buffer.frame().bytes());
        Ok(())
    }

    fn flush(&mut self) {}

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn statistics(&self) -> VnicStatistics {
        self.statistics
    }
}

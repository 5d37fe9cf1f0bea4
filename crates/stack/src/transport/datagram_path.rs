//! UDP over a remembered path ([`crate::ip::path`]): in and out in a straight line, each header read and written as a whole.
//!
//! Nothing is decided here: a packet that is not exactly what the path was remembered for goes the slow way, which made the
//! decisions. A property test holds the two ways against each other (`tests/remembered_paths.rs`).

use crate::ip::packet::checksum_may_be_partial;
use crate::ip::path::{AddressPair, HEADERS, Path, mac_word};
use crate::stack::Stack;
use crate::transport::udp_socket::UdpSocket;
use qanat_api::{Chunk, UdpSocketId};
use qanat_nic::{ChecksumOffload, Frame, Time, TransmitOptions};
use qanat_wire::ethernet::EtherType;
use qanat_wire::ip::Protocol;
use qanat_wire::{checksum, ethernet, field, ipv4, udp};
use std::net::{SocketAddr, SocketAddrV4};

const IP: usize = ethernet::HEADER_LENGTH;
const UDP: usize = IP + ipv4::HEADER_LENGTH;
/// UDP's number as it stands in the pseudo-header, as in memory.
const PROTOCOL: u64 = u16::from_ne_bytes([0, Protocol::UDP.0]) as u64;

/// A datagram that a remembered path takes.
pub(crate) struct Known {
    socket: UdpSocketId,
    peer: SocketAddrV4,
    /// Bytes of it in the frame, after the headers.
    payload_length: usize,
    /// As in [`Chunk`].
    sum: u64,
    /// As in [`Chunk`].
    path: usize,
}

impl Known {
    /// The socket that the datagram in `frame` belongs to, its sender, and its payload.
    #[inline(always)]
    pub(crate) fn into_parts(self, mut frame: Frame) -> (UdpSocketId, SocketAddrV4, Chunk) {
        // True, since the frame is the one that was looked at; to say so here costs less than to be asked at each step.
        let is_whole = frame.narrow(HEADERS, self.payload_length);
        debug_assert!(is_whole);
        (self.socket, self.peer, Chunk::from_parts(frame, self.sum, self.path))
    }
}

/// What a datagram's checksum covers besides addresses, ports and payload: the pseudo-header's protocol and length, and the
/// length once more, `raw_length` as in memory.
#[inline(always)]
fn fixed_sum(raw_length: u16) -> u64 {
    u64::from(raw_length) * 2 + PROTOCOL
}

impl Stack {
    /// What there is to deliver of a packet that is a datagram over a remembered path. `CONFIRMS` may be false if no path
    /// [confirms](Path::confirms) anything.
    #[inline(always)]
    pub(crate) fn input_remembered<const CONFIRMS: bool>(&mut self, now: Time, frame: &Frame) -> Option<Known> {
        if frame.continues() { None } else { self.known_datagram::<CONFIRMS>(now, frame.bytes()) }
    }

    #[inline(always)]
    fn known_datagram<const CONFIRMS: bool>(&mut self, now: Time, bytes: &[u8]) -> Option<Known> {
        let header = bytes.first_chunk::<HEADERS>()?;
        // To us; untagged IPv4 without options; not a fragment; UDP.
        if mac_word(field::raw_u64_at::<0, _>(header)) != self.network.paths.mac
            || field::u16_at::<12, _>(header) != EtherType::IPV4.0
            || field::u8_at::<IP, _>(header) != 0x45
            || field::u16_at::<{ IP + 6 }, _>(header) & 0x3fff != 0
            || field::u8_at::<{ IP + 9 }, _>(header) != Protocol::UDP.0
        {
            return None;
        }
        let addresses = AddressPair::received(field::raw_u64_at::<{ IP + 12 }, _>(header));
        let (index, path) = self.network.paths.find(addresses, self.network.version())?;
        if !path.takes(field::raw_u16_at::<{ UDP + 2 }, _>(header)) {
            return None;
        }
        // IPv4's checksum.
        let time_protocol_checksum = u64::from(field::raw_u32_at::<{ IP + 8 }, _>(header));
        let first = field::raw_u64_at::<IP, _>(header);
        if !checksum::is_valid_unfolded(checksum::add_u64(first, time_protocol_checksum + path.sum())) {
            return None;
        }
        // The datagram fills the packet, and is all here.
        let total_length = usize::from(field::u16_at::<{ IP + 2 }, _>(header));
        let payload_length = total_length.checked_sub(HEADERS - IP)?;
        let packet = bytes.get(..total_length + IP)?;
        let length = (payload_length + udp::HEADER_LENGTH) as u16;
        if field::raw_u16_at::<{ UDP + 4 }, _>(header) != length.to_be() {
            return None;
        }
        // Without a checksum (0) it is as good as with a right one.
        let field = field::raw_u16_at::<{ UDP + 6 }, _>(header);
        let pseudo_header = || checksum::fold(path.sum() + PROTOCOL + u64::from(length.to_be()));
        let sum = if checksum_may_be_partial(self.receive_checksum, field, pseudo_header) {
            0
        } else {
            let sum = checksum::add_u64(checksum::raw_sum_from(packet, HEADERS)?, fixed_sum(length.to_be()));
            let ports = u64::from(field::raw_u32_at::<UDP, _>(header));
            if !checksum::is_valid_unfolded(checksum::add_u64(sum, path.sum() + ports + u64::from(field))) {
                return None;
            }
            sum
        };
        let socket = path.socket();
        if CONFIRMS && let Some(hint) = path.confirms() {
            if !path.leads_out(now) || !path.is_mac(field::raw_u64_at::<6, _>(header)) {
                return None;
            }
            self.network.neighbours.confirm(now, hint);
        }
        let peer = SocketAddrV4::new(addresses.remote(), field::u16_at::<UDP, _>(header));
        Some(Known { socket, peer, payload_length, sum, path: index })
    }

    /// Whether the path from `socket` to `peer` is remembered.
    #[inline]
    pub(crate) fn is_remembered(&self, now: Time, socket: &UdpSocket, peer: &SocketAddr) -> bool {
        let SocketAddr::V4(peer) = peer else { return false };
        self.remembered_path(now, socket, peer).is_some()
    }

    /// The path from `socket` to `peer`, if it is remembered.
    #[inline(always)]
    fn remembered_path(&self, now: Time, socket: &UdpSocket, peer: &SocketAddrV4) -> Option<&Path> {
        if !socket.is_v4 {
            return None;
        }
        let source = if u32::from_ne_bytes(socket.source.octets()) != 0 {
            socket.source
        } else {
            self.network.routes.source_for_v4(*peer.ip())?
        };
        self.network.path_to(now, *peer.ip(), source)
    }

    /// Writes the headers of the datagram whose payload is in `frame`, if its path is remembered. Gives what the device must do
    /// about its checksum. `sum` is as in [`Chunk`].
    #[inline(always)]
    pub(crate) fn write_remembered(
        &self,
        now: Time,
        socket: &UdpSocket,
        peer: &SocketAddr,
        frame: &mut Frame,
        mut sum: u64,
    ) -> Option<TransmitOptions> {
        let SocketAddr::V4(peer) = peer else { return None };
        let path = self.remembered_path(now, socket, peer)?;
        if sum == 0 && !self.network.link.offload {
            sum = payload_sum(frame.bytes());
        }
        self.write_datagram(path, socket.raw_port, peer.port(), frame, sum)
    }

    /// The same for an answer on the path `index` that its question came on. The sum is known or not needed. This calls nothing,
    /// so that the compiler can make it a part of the service.
    #[inline(always)]
    pub(crate) fn write_answer(
        &self,
        now: Time,
        socket: UdpSocketId,
        peer: SocketAddrV4,
        frame: &mut Frame,
        (sum, index): (u64, usize),
    ) -> Option<TransmitOptions> {
        let path = self.network.paths.at(index)?;
        if !path.leads_back(socket, *peer.ip(), self.network.version()) || !path.leads_out(now) {
            return None;
        }
        self.write_datagram(path, path.raw_port(), peer.port(), frame, sum)
    }

    /// Writes the headers of a datagram over `path`. `None`: it is too long, has no room before it, or no sum, which is for
    /// the slow way to see to.
    #[inline(always)]
    fn write_datagram(
        &self,
        path: &Path,
        raw_port: u16,
        peer_port: u16,
        frame: &mut Frame,
        sum: u64,
    ) -> Option<TransmitOptions> {
        let link = &self.network.link;
        let payload_length = frame.len();
        if payload_length > link.datagram_max {
            return None;
        }
        // Less than the MTU, which has 16 bits.
        let length = (payload_length + udp::HEADER_LENGTH) as u16;
        let ports = u32::from(raw_port) | u32::from(peer_port.to_be()) << 16;
        let ports = if cfg!(target_endian = "little") { ports } else { ports.rotate_left(16) };
        let (checksum, offload) = if link.offload {
            let offload = ChecksumOffload { start: UDP as u16, offset: udp::CHECKSUM_OFFSET as u16 };
            (checksum::fold(path.sum() + PROTOCOL + u64::from(length.to_be())), Some(offload))
        } else if sum == 0 {
            return None;
        } else {
            let sum = checksum::add_u64(sum, path.sum() + u64::from(ports));
            (checksum::finish_unfolded(sum), None)
        };
        let header = frame.prepend_array::<HEADERS>(link.device_headroom)?;
        path.write_headers(header, length + ipv4::HEADER_LENGTH as u16);
        field::put_raw_u32_at::<UDP, _>(header, ports);
        field::put_raw_u16_at::<{ UDP + 4 }, _>(header, length.to_be());
        field::put_raw_u16_at::<{ UDP + 6 }, _>(header, checksum);
        Some(TransmitOptions { continues: false, checksum: offload })
    }
}

/// As in [`Chunk`], taken now.
#[inline]
pub(crate) fn payload_sum(payload: &[u8]) -> u64 {
    sum_with(payload.len(), checksum::sum(payload))
}

/// As in [`Chunk`], of a payload of `length` bytes whose folded sum is `sum`.
#[inline(always)]
pub(crate) fn sum_with(length: usize, sum: u16) -> u64 {
    u64::from(sum.to_be()) + fixed_sum(((length + udp::HEADER_LENGTH) as u16).to_be())
}

#[cfg(test)]
mod tests;

//! UDP (RFC 768; RFC 8200 section 8.1 for its checksum over IPv6).

use crate::input::Received;
use crate::network::IpMeta;
use crate::path::AddressPair;
use crate::stack::{CommandError, Stack};
use crate::{Chunk, Event, UdpSocketId};
use qanat_nic::breakdown::{Phase, span};
use qanat_nic::{Frame, Time, TransmitBuffer, Vnic};
use qanat_wire::ip::Protocol;
use qanat_wire::{checksum, udp};
use std::net::{IpAddr, SocketAddr};

/// A bound socket.
pub(crate) struct UdpSocket {
    local: SocketAddr,
}

/// Sockets by port. Few enough to be walked; the first byte compared nearly always decides.
impl Stack {
    fn udp_socket_for(&self, destination: SocketAddr) -> Option<u32> {
        let matching = |local: SocketAddr| {
            local.port() == destination.port()
                && local.is_ipv4() == destination.is_ipv4()
                && (local.ip() == destination.ip() || local.ip().is_unspecified())
        };
        self.udp_sockets.iter().find(|(_, socket)| matching(socket.local)).map(|(slot, _)| slot)
    }

    /// Opens a UDP socket on `local` (an unspecified address: all own addresses of its family).
    ///
    /// # Errors
    /// [`CommandError::Full`], [`CommandError::InUse`], [`CommandError::Unreachable`] for a foreign address.
    pub fn bind_udp(&mut self, local: SocketAddr) -> Result<UdpSocketId, CommandError> {
        if !local.ip().is_unspecified() && !self.network.routes.is_own(local.ip()) {
            return Err(CommandError::Unreachable);
        }
        if self.udp_socket_for(local).is_some() {
            return Err(CommandError::InUse);
        }
        self.network.paths.version += 1;
        match self.udp_sockets.insert(UdpSocket { local }) {
            Ok((slot, generation)) => Ok(UdpSocketId::new(slot, generation)),
            Err(_) => Err(CommandError::Full),
        }
    }

    /// Closes a UDP socket.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        self.udp_sockets.get(socket.index(), socket.generation()).ok_or(CommandError::Stale)?;
        self.udp_sockets.remove(socket.index() as u32);
        self.network.paths.version += 1;
        Ok(())
    }

    /// Sends one datagram. Lost, and counted, if the device has no room.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::TooLong`] beyond the link's MTU, [`CommandError::Unreachable`].
    pub fn send_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        payload: &[u8],
    ) -> Result<(), CommandError> {
        let local = self.udp_sockets.get(socket.index(), socket.generation()).ok_or(CommandError::Stale)?.local;
        if !self.is_remembered(now, &local, &peer) {
            self.datagram_meta(local, peer, payload.len())?;
        }
        let Some(mut frame) = self.network.frame(vnic) else { return Ok(()) };
        let Some(bytes) = frame.append(payload.len()) else { return Err(CommandError::TooLong) };
        // One copy: a datagram's bytes are the caller's only during this call.
        let sum = {
            let _copying = span(Phase::CopyIn);
            if self.network.link.offload {
                bytes.copy_from_slice(payload);
                0
            } else {
                u32::from(checksum::copy_and_sum(payload, bytes).to_be())
            }
        };
        self.send_frame_to(now, vnic, socket, peer, frame, sum)
    }

    /// What goes around a datagram of `payload_length` bytes.
    fn datagram_meta(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        payload_length: usize,
    ) -> Result<IpMeta, CommandError> {
        let source = if local.ip().is_unspecified() {
            self.network.routes.source_for(peer.ip()).ok_or(CommandError::Unreachable)?
        } else {
            local.ip()
        };
        if source.is_ipv4() != peer.is_ipv4() {
            return Err(CommandError::Unreachable);
        }
        let meta = IpMeta::new(source, peer.ip(), Protocol::UDP);
        if payload_length + udp::HEADER_LENGTH + meta.header_length() > usize::from(self.network.link.mtu) {
            return Err(CommandError::TooLong);
        }
        Ok(meta)
    }

    /// Sends received bytes on, or back, in the frame they came in: headers are written before them, nothing is copied.
    /// Else as [`send_to`](Stack::send_to).
    ///
    /// # Errors
    /// As [`send_to`](Stack::send_to).
    pub fn send_chunk_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut chunk: Chunk,
    ) -> Result<(), CommandError> {
        let local = &self.udp_sockets.get(socket.index(), socket.generation()).ok_or(CommandError::Stale)?.local;
        let sum = chunk.sum();
        // What was in front of the payload is room enough, but for what came in several frames or from another device.
        if chunk.frame_mut().headroom() < self.network.link.headroom {
            return self.send_to(now, vnic, socket, peer, chunk.bytes());
        }
        let Some(options) = self.write_remembered(now, local, &peer, chunk.frame_mut(), sum) else {
            let local = *local;
            return self.send_frame_slowly(now, vnic, local, peer, chunk.into_frame(), sum);
        };
        self.network.counters.udp_sent += 1;
        self.network.transmit(vnic, TransmitBuffer::Owned(chunk.into_frame()), options);
        Ok(())
    }

    /// Sends the datagram whose payload is in `frame`; `sum`: the payload's, as in [`Chunk`].
    #[inline(always)]
    fn send_frame_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut frame: Frame,
        sum: u32,
    ) -> Result<(), CommandError> {
        let local = &self.udp_sockets.get(socket.index(), socket.generation()).ok_or(CommandError::Stale)?.local;
        let Some(options) = self.write_remembered(now, local, &peer, &mut frame, sum) else {
            let local = *local;
            return self.send_frame_slowly(now, vnic, local, peer, frame, sum);
        };
        self.network.counters.udp_sent += 1;
        self.network.transmit(vnic, TransmitBuffer::Owned(frame), options);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn send_frame_slowly(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        local: SocketAddr,
        peer: SocketAddr,
        mut frame: Frame,
        sum: u32,
    ) -> Result<(), CommandError> {
        let payload_length = frame.len();
        let meta = self.datagram_meta(local, peer, payload_length)?;
        let length = udp::HEADER_LENGTH + payload_length;
        let offload = self.network.link.offload;
        let pseudo = meta.pseudo_header_sum(length);
        let sum = match sum {
            _ if offload => 0,
            0 => checksum::sum(frame.bytes()),
            sum => checksum::native_to_big(checksum::fold(u64::from(sum))),
        };
        let header = udp::Header { source_port: local.port(), destination_port: peer.port(), payload_length };
        frame.set_continues(false);
        let Some(head) = frame.prepend(udp::HEADER_LENGTH) else { return Ok(()) };
        header.emit(head).map_err(|_| CommandError::TooLong)?;
        if offload {
            if let Some(field) = head.get_mut(udp::CHECKSUM_OFFSET..udp::HEADER_LENGTH) {
                field.copy_from_slice(&pseudo.to_be_bytes());
            }
        } else {
            udp::write_checksum(head, pseudo, sum).map_err(|_| CommandError::TooLong)?;
        }
        self.network.counters.udp_sent += 1;
        let checksum_offset = offload.then_some(udp::CHECKSUM_OFFSET as u16);
        self.network.send_with(now, vnic, meta, frame, checksum_offset);
        Ok(())
    }

    /// A datagram arrived: `frame` is the whole frame, `received` says where the parts are.
    pub(crate) fn input_udp(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        received: Received,
        mut frame: Frame,
        tail: &[Frame],
    ) {
        let meta = received.meta;
        let mut received = received;
        if !tail.is_empty() {
            // A datagram is one chunk: what the device spread over several frames is copied together.
            let Some(whole) = self.gather(&received, &frame, tail) else {
                self.network.counters.udp_invalid += 1;
                return;
            };
            let length = whole.len();
            frame = whole;
            received = Received { ip_offset: 0, layer4_offset: 0, layer4_length: length, ..received };
        }
        let bytes = received.layer4(&frame);
        let Ok(datagram) = udp::Datagram::parse(bytes) else {
            self.network.counters.udp_invalid += 1;
            return;
        };
        let pseudo = meta.pseudo_header_sum(datagram.length());
        let valid = if datagram.has_checksum() {
            self.checksum_may_be_partial(datagram.checksum(), pseudo) || datagram.checksum_is_valid(pseudo)
        } else {
            // RFC 8200 section 8.1: without one only over IPv4.
            meta.source.is_ipv4()
        };
        if !valid {
            self.network.counters.udp_checksum += 1;
            return;
        }
        let destination = SocketAddr::new(meta.destination, datagram.destination_port());
        let Some(slot) = self.udp_socket_for(destination) else {
            self.network.counters.udp_no_port += 1;
            if let Some(packet) = frame.bytes().get(received.ip_offset..received.layer4_offset + received.layer4_length)
            {
                self.network.send_unreachable(now, vnic, meta, packet, true);
            }
            return;
        };
        let peer = SocketAddr::new(meta.source, datagram.source_port());
        let length = datagram.payload().len();
        frame.trim_front(received.layer4_offset + udp::HEADER_LENGTH);
        frame.truncate(length);
        self.network.counters.udp_received += 1;
        let socket = UdpSocketId::new(slot, self.udp_sockets.generation(slot));
        if let (IpAddr::V4(remote), IpAddr::V4(local)) = (meta.source, meta.destination) {
            let confirms = self.network.neighbours_by_traffic && self.network.routes.next_hop(meta.source).is_some();
            let (addresses, version) = (AddressPair::new(remote, local), self.network.version());
            self.network.paths.remember_socket(addresses, version, destination.port(), socket, confirms);
        }
        self.events.push_back(Event::Datagram { socket, peer, chunk: Chunk::new(frame) });
    }

    /// The layer-4 bytes of all frames of a packet in one large frame.
    fn gather(&self, received: &Received, first: &Frame, tail: &[Frame]) -> Option<Frame> {
        let mut whole = self.reassembly.large_frame()?;
        let parts = std::iter::once(received.layer4(first)).chain(tail.iter().map(Frame::bytes));
        for part in parts {
            let count = part.len().min(received.total_length.saturating_sub(whole.len()));
            whole.append(count)?.copy_from_slice(part.get(..count)?);
        }
        Some(whole)
    }
}

//! UDP (RFC 768; RFC 8200 section 8.1 for its checksum over IPv6).

use crate::ip::icmp_message::IcmpError;
use crate::ip::packet::{IpMeta, Received};
use crate::ip::path::AddressPair;
use crate::stack::Stack;
use crate::transport::datagram_path::sum_with;
use crate::transport::udp_socket::{UdpError, UdpSocket};
use qanat_api::{Chunk, CommandError, Event, UdpSocketId};
use qanat_nic::breakdown::{Phase, span};
use qanat_nic::{Frame, Time, TransmitBuffer, Vnic};
use qanat_wire::ip::Protocol;
use qanat_wire::{checksum, field, udp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Errors that wait to be told, at most; further ones are lost, as ICMP messages may be.
const ERRORS_MAX: usize = 64;

/// The header of a datagram over either version of IP. `payload_sum`: `None` if the device completes the checksum.
fn header(
    meta: &IpMeta,
    local: SocketAddr,
    peer: SocketAddr,
    payload_length: usize,
    payload_sum: Option<u16>,
) -> Result<[u8; udp::HEADER_LENGTH], CommandError> {
    let header = udp::Header { source_port: local.port(), destination_port: peer.port(), payload_length };
    let mut head = [0; udp::HEADER_LENGTH];
    header.emit(&mut head).map_err(|_| CommandError::TooLong)?;
    let pseudo = meta.pseudo_header_sum(udp::HEADER_LENGTH + payload_length);
    match payload_sum {
        Some(sum) => udp::write_checksum(&mut head, pseudo, sum).map_err(|_| CommandError::TooLong)?,
        None => field::put_u16_at::<{ udp::CHECKSUM_OFFSET }, _>(&mut head, pseudo),
    }
    Ok(head)
}

/// Sockets by port. They are few enough to be walked: the first byte compared nearly always decides.
impl Stack {
    #[inline(always)]
    fn udp_socket(&self, socket: UdpSocketId) -> Result<&UdpSocket, CommandError> {
        self.udp_sockets.get(socket.index(), socket.generation()).ok_or(CommandError::Stale)
    }

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
        match self.udp_sockets.insert(UdpSocket::new(local)) {
            Ok((slot, generation)) => Ok(UdpSocketId::new(slot, generation)),
            Err(_) => Err(CommandError::Full),
        }
    }

    /// Closes a UDP socket.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn close_udp(&mut self, socket: UdpSocketId) -> Result<(), CommandError> {
        self.udp_socket(socket)?;
        self.udp_sockets.remove(socket.index() as u32);
        self.network.paths.version += 1;
        Ok(())
    }

    /// The next error of a datagram, if [`Config::udp_errors`](crate::Config::udp_errors) asks for them.
    #[inline]
    pub fn next_udp_error(&mut self) -> Option<UdpError> {
        self.udp_errors.pop_front()
    }

    /// ICMP tells of a datagram that begins with `payload`. Gives whether it is one of ours.
    pub(crate) fn input_udp_error(&mut self, error: IcmpError, quoted: IpMeta, payload: &[u8]) -> bool {
        let Some((header, payload)) = payload.split_first_chunk::<{ udp::HEADER_LENGTH }>() else { return false };
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let Some(slot) = self.udp_socket_for(SocketAddr::new(quoted.source, port(0))) else { return false };
        if let IcmpError::Unreachable { why, hard } = error
            && self.tells_udp_errors
            && self.udp_errors.len() < ERRORS_MAX
        {
            let socket = UdpSocketId::new(slot, self.udp_sockets.generation(slot));
            let peer = SocketAddr::new(quoted.destination, port(2));
            self.udp_errors.push_back(UdpError { socket, peer, why, is_hard: hard, payload: payload.to_vec() });
        }
        true
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
        let from = self.udp_socket(socket)?;
        if !self.is_remembered(now, from, &peer) {
            self.datagram_meta(from.local, peer, payload.len())?;
        }
        let Some(mut frame) = self.network.frame(vnic) else { return Ok(()) };
        let Some(bytes) = frame.append(payload.len()) else {
            return self.send_beyond_a_frame(now, vnic, socket, peer, payload, frame);
        };
        // One copy: a datagram's bytes are the caller's only during this call.
        let sum = {
            let _copying = span(Phase::CopyIn);
            if self.network.link.offload {
                bytes.copy_from_slice(payload);
                0
            } else {
                sum_with(payload.len(), checksum::copy_and_sum(payload, bytes))
            }
        };
        self.send_frame_to(now, vnic, socket, peer, frame, sum)
    }

    /// Sends one datagram, in fragments if it is longer than the link's MTU.
    ///
    /// # Errors
    /// [`CommandError::Stale`], [`CommandError::TooLong`] beyond what UDP or IP can say, [`CommandError::Unreachable`];
    /// [`CommandError::Full`]: the device has not room for all fragments, and none was sent.
    pub fn send_in_fragments(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        payload: &[u8],
    ) -> Result<(), CommandError> {
        let local = self.udp_socket(socket)?.local;
        let meta = self.datagram_addresses(local, peer)?;
        if payload.len() + udp::HEADER_LENGTH + meta.header_length() <= usize::from(self.network.link.mtu) {
            return self.send_to(now, vnic, socket, peer, payload);
        }
        self.fragment(now, vnic, local, peer, payload)
    }

    /// Sends a datagram within a large MTU that `frame`, which goes back, and no other frame holds.
    #[cold]
    #[inline(never)]
    fn send_beyond_a_frame(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        payload: &[u8],
        frame: Frame,
    ) -> Result<(), CommandError> {
        drop(frame);
        let local = self.udp_socket(socket)?.local;
        self.datagram_meta(local, peer, payload.len())?;
        match self.fragment(now, vnic, local, peer, payload) {
            // Lost, and counted.
            Err(CommandError::Full) => Ok(()),
            sent => sent,
        }
    }

    fn fragment(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        local: SocketAddr,
        peer: SocketAddr,
        payload: &[u8],
    ) -> Result<(), CommandError> {
        let meta = self.datagram_addresses(local, peer)?;
        let length = payload.len() + udp::HEADER_LENGTH;
        // IPv4's total length counts its header.
        let most = usize::from(u16::MAX) - if peer.is_ipv4() { meta.header_length() } else { 0 };
        if length > most {
            return Err(CommandError::TooLong);
        }
        // No device sums over packets: the whole is summed here.
        let head = header(&meta, local, peer, payload.len(), Some(checksum::sum(payload)))?;
        if !self.network.send_fragments(now, vnic, meta, [&head, payload]) {
            return Err(CommandError::Full);
        }
        self.network.counters.udp_sent += 1;
        Ok(())
    }

    /// The address a datagram leaves with.
    fn sends_from(&self, socket: &UdpSocket, remote: Ipv4Addr) -> Option<Ipv4Addr> {
        if socket.source.is_unspecified() { self.network.routes.source_for_v4(remote) } else { Some(socket.source) }
    }

    /// What goes around a datagram of `payload_length` bytes.
    fn datagram_meta(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        payload_length: usize,
    ) -> Result<IpMeta, CommandError> {
        let meta = self.datagram_addresses(local, peer)?;
        if payload_length + udp::HEADER_LENGTH + meta.header_length() > usize::from(self.network.link.mtu) {
            return Err(CommandError::TooLong);
        }
        Ok(meta)
    }

    /// What goes around any datagram.
    fn datagram_addresses(&self, local: SocketAddr, peer: SocketAddr) -> Result<IpMeta, CommandError> {
        let source = if local.ip().is_unspecified() {
            self.network.routes.source_for(peer.ip()).ok_or(CommandError::Unreachable)?
        } else {
            local.ip()
        };
        if source.is_ipv4() != peer.is_ipv4() {
            return Err(CommandError::Unreachable);
        }
        Ok(IpMeta::new(source, peer.ip(), Protocol::UDP))
    }

    /// Sends received bytes on, or back, in the frame they came in: headers are written before them, and nothing is copied.
    /// Otherwise it does what [`send_to`](Stack::send_to) does.
    ///
    /// # Errors
    /// As [`send_to`](Stack::send_to).
    #[inline(always)]
    pub fn send_chunk_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
    ) -> Result<(), CommandError> {
        let SocketAddr::V4(peer) = peer else { return self.send_any_chunk_to(now, vnic, socket, peer, chunk) };
        let (mut frame, sum, path) = chunk.into_parts();
        let Some(options) = self.write_answer(now, socket, peer, &mut frame, (sum, path)) else {
            let chunk = Chunk::from_parts(frame, sum, path);
            return self.send_other_chunk_to(now, vnic, socket, peer, chunk);
        };
        self.network.counters.udp_sent += 1;
        self.network.transmit(vnic, TransmitBuffer::Owned(frame), options);
        Ok(())
    }

    /// The same for a chunk that isn't an answer to the datagram it came in. (Not one function with the next: an address of either
    /// family is passed in memory, and would be put there even if this is never called.)
    #[inline(never)]
    fn send_other_chunk_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddrV4,
        chunk: Chunk,
    ) -> Result<(), CommandError> {
        self.send_any_chunk_to(now, vnic, socket, SocketAddr::V4(peer), chunk)
    }

    #[inline]
    fn send_any_chunk_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
    ) -> Result<(), CommandError> {
        let (frame, sum, _) = chunk.into_parts();
        // What was in front of the payload is room enough, but for what came in several frames or from another device.
        if frame.headroom() < self.network.link.headroom {
            return self.send_to(now, vnic, socket, peer, frame.bytes());
        }
        self.send_frame_to(now, vnic, socket, peer, frame, sum)
    }

    /// Sends the datagram whose payload is in `frame`. `sum` is as in [`Chunk`].
    #[inline(always)]
    fn send_frame_to(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        socket: UdpSocketId,
        peer: SocketAddr,
        mut frame: Frame,
        sum: u64,
    ) -> Result<(), CommandError> {
        let from = self.udp_socket(socket)?;
        let Some(options) = self.write_remembered(now, from, &peer, &mut frame, sum) else {
            let local = from.local;
            return self.send_frame_slowly(now, vnic, local, peer, frame);
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
    ) -> Result<(), CommandError> {
        let payload_length = frame.len();
        let meta = self.datagram_meta(local, peer, payload_length)?;
        let offload = self.network.link.offload;
        let payload_sum = (!offload).then(|| checksum::sum(frame.bytes()));
        let head = header(&meta, local, peer, payload_length, payload_sum)?;
        frame.set_continues(false);
        let Some(place) = frame.prepend(udp::HEADER_LENGTH) else { return Ok(()) };
        place.copy_from_slice(&head);
        self.network.counters.udp_sent += 1;
        let checksum_offset = offload.then_some(udp::CHECKSUM_OFFSET as u16);
        self.network.send_with(now, vnic, meta, frame, checksum_offset);
        Ok(())
    }

    /// A datagram arrived: `frame` is the whole frame, `received` says where the parts are.
    pub(crate) fn input_udp(&mut self, now: Time, vnic: &mut dyn Vnic, received: Received, mut frame: Frame) {
        let meta = received.meta;
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
            let answers =
                self.udp_sockets.at(slot).is_some_and(|socket| self.sends_from(socket, remote) == Some(local));
            self.network.paths.remember_socket(addresses, version, destination.port(), socket, confirms, answers);
        }
        self.events.push_back(Event::Datagram { socket, peer, chunk: Chunk::new(frame) });
    }
}

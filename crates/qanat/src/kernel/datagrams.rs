//! Datagrams, received and sent.

use super::state::Kernel;
use bytes::Bytes;
use qanat_api::{Chunk, CommandError, Event, UdpSocketId};
use qanat_nic::sockets::{Lent, ReceivedDatagram};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The longest payload of UDP over IPv4.
const PAYLOAD_MAX: usize = 65_507;

impl Kernel {
    pub(super) fn datagram(&mut self, endpoint: u32, outcome: Result<Option<ReceivedDatagram>, Errno>, goes_on: bool) {
        let error = match outcome {
            Ok(Some(ReceivedDatagram { frame, peer, own })) => {
                if let Some((socket, has_several)) = self.socket_of(endpoint) {
                    self.figures.datagrams_received += 1;
                    if has_several {
                        self.way_back.remember(socket.index() as u32, peer, endpoint, own);
                    }
                    self.events.push_back(Event::Datagram { socket, peer, chunk: Chunk::new(frame) });
                }
                None
            }
            Ok(None) => {
                self.figures.datagrams_too_long += 1;
                None
            }
            Err(error) => {
                self.figures.frames_exhausted += u64::from(error == Errno::NOBUFS);
                Some(error)
            }
        };
        if !goes_on {
            self.datagrams_ended(endpoint, error);
        }
    }

    /// Sends a payload, which is lent.
    fn send_lent(&mut self, socket: UdpSocketId, peer: SocketAddr, payload: Lent) -> Result<(), CommandError> {
        if payload.bytes().len() > PAYLOAD_MAX {
            return Err(CommandError::TooLong);
        }
        let endpoints = self.sockets.get((socket.index(), socket.generation())).ok_or(CommandError::Stale)?;
        let first = *endpoints.first().ok_or(CommandError::Unreachable)?;
        let (number, own) = match self.socket_of(first) {
            Some((_, true)) => self.way_back.of(socket.index() as u32, peer).unwrap_or((first, None)),
            _ => (first, None),
        };
        let endpoint = self.endpoints.at(number).ok_or(CommandError::Stale)?;
        if endpoint.local.is_ipv4() != peer.is_ipv4() {
            return Err(CommandError::Unreachable);
        }
        if !self.ring.send_datagram(endpoint.socket.as_fd(), peer, own, payload) {
            self.figures.datagrams_lost += 1;
        }
        Ok(())
    }

    pub(crate) fn send_to(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        payload: &[u8],
    ) -> Result<(), CommandError> {
        let frame = self.transmit.allocate(0).and_then(|mut frame| {
            frame.append(payload.len())?.copy_from_slice(payload);
            Some(Lent::Frame(frame))
        });
        // A long one, or one of very many, has memory of its own.
        self.send_lent(socket, peer, frame.unwrap_or_else(|| Lent::Bytes(Bytes::copy_from_slice(payload))))
    }

    pub(crate) fn send_chunk_to(
        &mut self,
        socket: UdpSocketId,
        peer: SocketAddr,
        chunk: Chunk,
    ) -> Result<(), CommandError> {
        self.send_lent(socket, peer, Lent::Frame(chunk.into_frame()))
    }
}

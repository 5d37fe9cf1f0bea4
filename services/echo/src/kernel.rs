//! Echo over kernel sockets, to compare with: datagram by datagram behind epoll, or in batches.

use crate::Figures;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use qanat::StopHandle;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Datagrams of one batch.
const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 2_048;
const SLEEP_MS: u16 = 50;
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);

/// How to use the sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelMode {
    /// One datagram a call.
    Single,
    /// `recvmmsg`, `sendmmsg`.
    Batch,
}

/// Echoes datagrams at `local` until `stop` is requested; never sleeps if `polls`. `ready` is told the address.
///
/// # Errors
/// What the system says.
pub fn run(
    local: SocketAddr,
    mode: KernelMode,
    polls: bool,
    stop: &StopHandle,
    ready: &mut dyn FnMut(SocketAddr),
    observe: &mut dyn FnMut(&Figures),
) -> io::Result<Figures> {
    let socket = UdpSocket::bind(local)?;
    socket.set_nonblocking(true)?;
    ready(socket.local_addr()?);
    let mut figures = Figures::default();
    let mut observed = Instant::now();
    let mut batch = Batch::new();
    let mut turns = 0u32;
    loop {
        let busy = match mode {
            KernelMode::Single => single(&socket, &mut figures)?,
            KernelMode::Batch => batch.turn(&socket, &mut figures)?,
        };
        turns = turns.wrapping_add(1);
        if busy && !turns.is_multiple_of(256) {
            continue;
        }
        if !busy && !polls {
            let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::from(SLEEP_MS)) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if stop.is_requested() {
            return Ok(figures);
        }
        if (turns.is_multiple_of(256) || !polls) && observed.elapsed() >= OBSERVE_INTERVAL {
            observe(&figures);
            observed = Instant::now();
        }
    }
}

fn single(socket: &UdpSocket, figures: &mut Figures) -> io::Result<bool> {
    let mut bytes = [0u8; DATAGRAM_BYTES];
    match socket.recv_from(&mut bytes) {
        Ok((length, peer)) => {
            match socket.send_to(bytes.get(..length).unwrap_or_default(), peer) {
                Ok(_) => {
                    figures.echoed += 1;
                    figures.bytes += length as u64;
                }
                Err(_) => figures.dropped += 1,
            }
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        // A peer that is gone answers with an ICMP error: not ours to end for.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(error) => Err(error),
    }
}

struct Batch {
    bytes: Vec<[u8; DATAGRAM_BYTES]>,
    receive: MultiHeaders<SockaddrStorage>,
    send: MultiHeaders<SockaddrStorage>,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            bytes: vec![[0; DATAGRAM_BYTES]; BATCH],
            receive: MultiHeaders::preallocate(BATCH, None),
            send: MultiHeaders::preallocate(BATCH, None),
        }
    }

    fn turn(&mut self, socket: &UdpSocket, figures: &mut Figures) -> io::Result<bool> {
        let mut got: Vec<(usize, Option<SockaddrStorage>)> = Vec::with_capacity(BATCH);
        {
            let mut vectors: Vec<[IoSliceMut<'_>; 1]> =
                self.bytes.iter_mut().map(|bytes| [IoSliceMut::new(bytes)]).collect();
            let outcome =
                recvmmsg(socket.as_raw_fd(), &mut self.receive, vectors.iter_mut(), MsgFlags::MSG_DONTWAIT, None);
            match outcome {
                Ok(messages) => got.extend(messages.map(|message| (message.bytes, message.address))),
                Err(nix::Error::EAGAIN) => return Ok(false),
                Err(nix::Error::ECONNREFUSED) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        let vectors: Vec<[IoSlice<'_>; 1]> = self
            .bytes
            .iter()
            .zip(&got)
            .map(|(bytes, (length, _))| [IoSlice::new(bytes.get(..*length).unwrap_or_default())])
            .collect();
        let peers: Vec<Option<SockaddrStorage>> = got.iter().map(|(_, peer)| *peer).collect();
        let sent = sendmmsg(socket.as_raw_fd(), &mut self.send, &vectors, &peers, [], MsgFlags::MSG_DONTWAIT);
        let sent = sent.map_or(0, |messages| messages.count());
        figures.echoed += sent as u64;
        figures.dropped += (got.len() - sent) as u64;
        figures.bytes += got.iter().take(sent).map(|(length, _)| *length as u64).sum::<u64>();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_modes_echo() {
        for mode in [KernelMode::Single, KernelMode::Batch] {
            let stop = StopHandle::new().unwrap();
            let (sender, receiver) = std::sync::mpsc::channel();
            let handle = stop.clone();
            let server = std::thread::spawn(move || {
                let mut ready = |address| sender.send(address).unwrap();
                run("127.0.0.1:0".parse().unwrap(), mode, false, &handle, &mut ready, &mut |_| {})
            });
            let address = receiver.recv().unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            for value in 0..100u8 {
                client.send_to(&[value; 20], address).unwrap();
                let mut bytes = [0; 64];
                assert_eq!(client.recv(&mut bytes).unwrap(), 20);
                assert_eq!(bytes[..20], [value; 20]);
            }
            stop.request();
            assert_eq!(server.join().unwrap().unwrap().echoed, 100);
        }
    }
}

//! Echo over kernel sockets, to compare with: behind epoll or by io_uring, datagram by datagram or in batches.

use crate::figures::Figures;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use qanat::StopHandle;
use qanat_nic::uring::DatagramRing;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Datagrams of one batch.
const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 2_048;
const SLEEP_MS: u16 = 50;
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);

/// How to use the sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelMode {
    /// Behind epoll, one datagram a call.
    Single,
    /// Behind epoll, `recvmmsg` and `sendmmsg`.
    Batch,
    /// io_uring, one datagram a system call.
    UringSingle,
    /// io_uring, as many as there are in one system call.
    UringBatch,
}

/// One way of using a socket.
trait Way {
    /// Answers what is there, at most a batch; waits for it if there is nothing and `sleeps`. Whether there was any.
    fn turn(&mut self, sleeps: bool, figures: &mut Figures) -> io::Result<bool>;
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
    let address = socket.local_addr()?;
    let mut way: Box<dyn Way> = match mode {
        KernelMode::Single => Box::new(ByEpoll::new(socket, None)?),
        KernelMode::Batch => Box::new(ByEpoll::new(socket, Some(Batch::new()))?),
        KernelMode::UringSingle => Box::new(ByUring { ring: DatagramRing::new(socket)?, batch_max: 1 }),
        KernelMode::UringBatch => Box::new(ByUring { ring: DatagramRing::new(socket)?, batch_max: BATCH }),
    };
    ready(address);
    let mut figures = Figures::default();
    let mut observed = Instant::now();
    let mut turns = 0u32;
    loop {
        let busy = way.turn(!polls, &mut figures)?;
        turns = turns.wrapping_add(1);
        if busy && !turns.is_multiple_of(256) {
            continue;
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

struct ByUring {
    ring: DatagramRing,
    batch_max: usize,
}

impl Way for ByUring {
    fn turn(&mut self, sleeps: bool, figures: &mut Figures) -> io::Result<bool> {
        let patience = sleeps.then_some(Duration::from_millis(SLEEP_MS.into()));
        let turn = self.ring.turn(self.batch_max, patience, &mut |_| true)?;
        figures.echoed += turn.sent;
        figures.bytes += turn.sent_bytes;
        figures.dropped += turn.dropped;
        Ok(turn.received > 0)
    }
}

struct ByEpoll {
    socket: UdpSocket,
    epoll: Epoll,
    batch: Option<Batch>,
}

impl ByEpoll {
    fn new(socket: UdpSocket, batch: Option<Batch>) -> io::Result<ByEpoll> {
        socket.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        Ok(ByEpoll { socket, epoll, batch })
    }
}

impl Way for ByEpoll {
    fn turn(&mut self, sleeps: bool, figures: &mut Figures) -> io::Result<bool> {
        let busy = match &mut self.batch {
            None => single(&self.socket, figures)?,
            Some(batch) => batch.turn(&self.socket, figures)?,
        };
        if !busy && sleeps {
            match self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(SLEEP_MS)) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(busy)
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
    fn all_modes_echo() {
        // io_uring may be switched off (containers do that); epoll is always there.
        let has_uring = UdpSocket::bind("127.0.0.1:0").is_ok_and(|socket| DatagramRing::new(socket).is_ok());
        let modes = [KernelMode::Single, KernelMode::Batch, KernelMode::UringSingle, KernelMode::UringBatch];
        for mode in modes.into_iter().take(if has_uring { 4 } else { 2 }) {
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

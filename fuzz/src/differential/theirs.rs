//! smoltcp as a host.

use super::host::{End, HOST, Host, PORT, receive_window};
use super::streams::STREAM_BYTES_MAX;
use qanat_nic::Time;
use qanat_tests::smoltcp_device::{Frames, instant};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];

/// Of Ethernet.
const MTU: usize = 1_500;

/// Where a TCP header's flags are in a frame without IP options, and RST there.
const FLAGS_AT: usize = 14 + 20 + 13;
const RST: u8 = 4;

pub(super) struct Theirs {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    frames: Frames,
    delivered: Vec<u8>,
    peer_closed: bool,
    is_aborted: bool,
    is_reset: bool,
}

impl Theirs {
    pub(super) fn new(flags: u8, now: Time) -> Theirs {
        let mut frames = Frames::new(MTU);
        let mut interface = Interface::new(Config::new(EthernetAddress(MACS[0]).into()), &mut frames, instant(now));
        interface.update_ip_addrs(|addresses| {
            addresses
                .push(IpCidr::new(IpAddress::from(std::net::Ipv4Addr::from(HOST)), 24))
                .expect("room for an address");
        });
        let buffer = |length: u32| SocketBuffer::new(vec![0; length as usize]);
        let mut socket = Socket::new(buffer(receive_window(flags)), buffer(STREAM_BYTES_MAX));
        socket.set_nagle_enabled(flags & 64 != 0);
        socket.set_ack_delay(Some(Duration::from_millis(40)));
        socket.listen(PORT).expect("a listener");
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        let (delivered, peer_closed, is_aborted) = (Vec::new(), false, false);
        Theirs { interface, sockets, handle, frames, delivered, peer_closed, is_aborted, is_reset: false }
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

impl Host for Theirs {
    fn macs(&self) -> [[u8; 6]; 2] {
        MACS
    }

    fn exchange(&mut self, now: Time, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.frames.inbox.extend(frames.iter().cloned());
        let was_open = self.socket().is_open();
        self.interface.poll(instant(now), &mut self.frames, &mut self.sockets);
        let is_reset = frames.iter().any(|frame| frame.get(FLAGS_AT).is_some_and(|flags| flags & RST != 0));
        self.is_reset |= was_open && !self.socket().is_open() && is_reset;
        std::mem::take(&mut self.frames.outbox)
    }

    fn read(&mut self, _now: Time) {
        let mut piece = [0; 4_096];
        loop {
            match self.socket().recv_slice(&mut piece) {
                Ok(0) => return,
                Ok(count) => self.delivered.extend_from_slice(&piece[..count]),
                Err(RecvError::Finished) => {
                    self.peer_closed = true;
                    return;
                }
                Err(RecvError::InvalidState) => return,
            }
        }
    }

    fn write(&mut self, _now: Time, bytes: &[u8]) {
        let sent = self.socket().send_slice(bytes).expect("an open socket");
        assert_eq!(sent, bytes.len(), "its buffer holds the whole stream");
    }

    fn shutdown(&mut self, _now: Time) {
        self.socket().close();
    }

    fn abort(&mut self, _now: Time) {
        self.socket().abort();
        self.is_aborted = true;
    }

    fn delivered(&self) -> &[u8] {
        &self.delivered
    }

    fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    fn end(&self) -> Option<End> {
        match self.sockets.get::<Socket>(self.handle).state() {
            State::TimeWait => Some(End::Finished),
            State::Closed if self.is_aborted => Some(End::Aborted),
            State::Closed if self.is_reset => Some(End::Reset),
            State::Closed if self.peer_closed => Some(End::Finished),
            _ => None,
        }
    }
}

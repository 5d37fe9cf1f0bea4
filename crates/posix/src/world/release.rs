//! What happens to a socket, or an instance of `epoll`, when nothing refers to it any more.

use crate::sockets::epoll::NESTED;
use crate::sockets::socket::{Kind, Socket};
use crate::sys::descriptor::{self, Entry};
use crate::world::lock::Guard;
use libc::c_int;
use qanat::Time;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Guard {
    /// A descriptor of a socket is gone; with the last the socket is.
    pub(crate) fn release(&mut self, number: u32) {
        let Some(socket) = self.sockets.get_mut(number) else { return };
        socket.references = socket.references.saturating_sub(1);
        if socket.references > 0 {
            return;
        }
        if matches!(socket.kind, Kind::Listener(_)) {
            // A peer may have connected that has not been seen yet. It is told that nobody will accept.
            self.drive_now();
        }
        let Some(socket) = self.sockets.remove(number) else { return };
        self.sockets.unwatch_all(&socket);
        // Rung when the number is gone in the kernel too, or they find it there still.
        self.sockets.to_wake.extend_from_slice(&socket.waiters);
        let now = self.clock_now();
        self.dispose(now, number, socket);
        self.sent(now);
    }

    fn dispose(&mut self, now: Time, number: u32, socket: Socket) {
        match socket.kind {
            Kind::Bound => {}
            Kind::Listener(listener) => {
                let world = &mut **self;
                for id in listener.listeners {
                    world.sockets.disown_listener(id, number, &mut world.stack);
                }
                let mut children: Vec<u32> = listener.pending.into();
                if socket.options.defer_accept {
                    children.extend(self.sockets.deferred_by(number));
                }
                for child in children {
                    if let Some(Socket { kind: Kind::Stream(stream), .. }) = self.sockets.remove(child)
                        && let Some(connection) = stream.connection
                    {
                        self.sockets.disown_connection(connection);
                        let _ = self.stack.abort(now, connection);
                    }
                }
            }
            Kind::Stream(stream) => {
                let Some(connection) = stream.connection else { return };
                self.sockets.disown_connection(connection);
                // RFC 1122 section 4.2.2.13: if not everything was read, the peer is told by a reset.
                if stream.unread > 0 || socket.linger == Some(Duration::ZERO) {
                    let _ = self.stack.abort(now, connection);
                } else {
                    let _ = self.stack.close(now, connection);
                }
            }
            Kind::Datagram(datagram) => {
                for id in datagram.sockets {
                    if self.sockets.disown_datagrams(id, number) {
                        let _ = self.stack.close_udp(id);
                    }
                }
            }
        }
    }

    /// A descriptor of an instance of `epoll` is gone.
    pub(crate) fn release_epoll(&mut self, number: u32) {
        let slot = self.sockets.epolls.get_mut(number as usize);
        let Some(epoll) = slot.and_then(Option::as_mut) else { return };
        epoll.references = epoll.references.saturating_sub(1);
        if epoll.references > 0 {
            return;
        }
        let Some(epoll) = self.sockets.epolls.get_mut(number as usize).and_then(Option::take) else { return };
        for (socket, place) in epoll.all() {
            if let Some(socket) = self.sockets.get_mut(socket) {
                socket.watchers.retain(|watcher| *watcher != (number, place));
            }
        }
        if let Some(waker) = epoll.waker {
            self.wakers.give_back(waker);
        }
        if epoll.is_nested {
            NESTED.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// `fd` is the kernel's again.
    pub(crate) fn forget(&mut self, fd: c_int, number: u32) {
        descriptor::set(fd, Entry::Kernel);
        self.release(number);
    }

    /// Gives up sockets that have been lost on their way.
    pub(crate) fn expire_references(&mut self) {
        let now = self.clock_now();
        while let Some(number) = self.transit.take_lost(now) {
            self.release(number);
        }
    }
}

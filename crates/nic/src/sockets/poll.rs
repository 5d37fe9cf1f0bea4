//! [`SocketPoll`]: the same by `epoll`, where io_uring is forbidden (Docker's usual seccomp profile) or too old.
//!
//! A socket is registered once, for the edges of both of its directions (epoll(7), `EPOLLET`): what is known of it between two edges is
//! kept here. What was asked for is tried when the kernel is called, so each accept, receive and send is a system call of its own.

use super::address::{CONTROL_BYTES, Control, NAME_BYTES, Name, address_of, own_address_of};
use super::completion::{Completion, ReceivedDatagram};
use super::message::Message;
use super::outgoing::{Lent, Outgoing};
use crate::memory::Pool;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, connect, recv, sockopt};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Edges that one system call tells of at most.
const EDGES_MAX: usize = 1_024;
/// So often one thing is done for a socket before others have their turn.
const TURNS_AT_ONCE: usize = 16;
/// After so many calls without a look at edges there is one: who is busy is to hear of others, too.
const CALLS_BETWEEN_LOOKS: u32 = 8;
/// In an edge's data: it is of a descriptor of somebody else's.
const WATCHED: u64 = 1 << 32;
/// Messages that are kept to be used again.
const SPARE_MAX: usize = 256;

/// Control messages begin at a multiple of 8 (cmsg(3)).
#[repr(align(8))]
struct Aligned([u8; CONTROL_BYTES]);

/// What is asked for on a socket, by the tokens of who asked, and what is known of the socket.
#[derive(Default)]
struct Socket {
    accepts: Option<u32>,
    receives: Option<u32>,
    receives_datagrams: Option<u32>,
    connects: Option<u32>,
    sends: Option<Message>,
    /// The kernel has said so, and has not said since that there is nothing.
    is_readable: bool,
    is_writable: bool,
    /// Its peer sends no more, or it has failed: it is readable to the end.
    has_ended: bool,
    is_queued: bool,
}

impl Socket {
    fn can_work(&self) -> bool {
        let reads = self.accepts.or(self.receives).or(self.receives_datagrams).is_some();
        let writes = self.connects.is_some() || self.sends.is_some();
        reads && self.is_readable || writes && self.is_writable
    }

    fn askings(&self) -> u64 {
        let tokens = [self.accepts, self.receives, self.receives_datagrams, self.connects];
        tokens.iter().flatten().count() as u64 + u64::from(self.sends.is_some())
    }
}

/// Sockets of the kernel's, by an epoll instance. What it promises is what [`SocketRing`](super::SocketRing) promises.
pub struct SocketPoll {
    epoll: OwnedFd,
    pool: Pool,
    /// By the number of the descriptor.
    sockets: Vec<Option<Box<Socket>>>,
    /// Those that something can be done for.
    queue: VecDeque<RawFd>,
    completions: VecDeque<Completion>,
    spare: Vec<Message>,
    edges: Vec<epoll::Event>,
    calls: u64,
    calls_since_look: u32,
}

impl std::fmt::Debug for SocketPoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SocketPoll({} under way, {:?})", self.under_way(), self.pool)
    }
}

fn number_of(socket: BorrowedFd<'_>) -> usize {
    usize::try_from(socket.as_raw_fd()).unwrap_or_default()
}

/// The descriptor that an asking named.
///
/// # Safety
/// It is open: whoever asks keeps it until the last completion.
unsafe fn borrowed<'a>(socket: RawFd) -> BorrowedFd<'a> {
    // SAFETY: by this function's contract.
    unsafe { BorrowedFd::borrow_raw(socket) }
}

impl SocketPoll {
    /// One that receives into frames of `pool`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(pool: Pool) -> io::Result<SocketPoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(SocketPoll {
            epoll,
            pool,
            sockets: Vec::new(),
            queue: VecDeque::new(),
            completions: VecDeque::new(),
            spare: Vec::new(),
            edges: Vec::with_capacity(EDGES_MAX),
            calls: 0,
            calls_since_look: 0,
        })
    }

    /// Where received bytes are.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Frames to receive into that nobody has.
    pub fn frames_free(&self) -> u32 {
        self.pool.free_count()
    }

    /// Whether there are completions that have not been looked at.
    pub fn has_completions(&self) -> bool {
        !self.completions.is_empty()
    }

    /// Askings that have not ended.
    pub fn under_way(&self) -> u64 {
        self.sockets.iter().flatten().map(|socket| socket.askings()).sum()
    }

    /// System calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// What is known of a socket, which is registered when it is first asked for.
    fn socket(&mut self, socket: BorrowedFd<'_>) -> Result<&mut Socket, Errno> {
        let number = number_of(socket);
        if number >= self.sockets.len() {
            self.sockets.resize_with(number + 1, || None);
        }
        let place = self.sockets.get_mut(number).ok_or(Errno::BADF)?;
        if place.is_none() {
            let flags =
                epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            self.calls += 1;
            epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number as u64), flags)?;
            // Until the kernel says otherwise, to try is the quickest way to know.
            *place = Some(Box::new(Socket { is_readable: true, is_writable: true, ..Socket::default() }));
        }
        place.as_deref_mut().ok_or(Errno::BADF)
    }

    /// Asks for something. If nothing could be heard of the socket (no memory, or as many watches as the user may have), it fails at once.
    fn ask(&mut self, socket: BorrowedFd<'_>, what: impl FnOnce(&mut Socket)) {
        match self.socket(socket) {
            Ok(known) => {
                what(known);
                self.queue(socket.as_raw_fd());
            }
            Err(error) => {
                let mut asked = Socket::default();
                what(&mut asked);
                self.end(&mut asked, error);
            }
        }
    }

    /// Ends all that is asked for on a socket, for this reason: completions say so.
    fn end(&mut self, socket: &mut Socket, error: Errno) {
        let sends = socket.sends.take();
        let ended = [
            socket.receives.take().map(|token| Completion::Received { token, outcome: Err(error), goes_on: false }),
            socket.accepts.take().map(|token| Completion::Accepted { token, outcome: Err(error), goes_on: false }),
            socket.receives_datagrams.take().map(|token| Completion::Datagram {
                token,
                outcome: Err(error),
                goes_on: false,
            }),
            socket.connects.take().map(|token| Completion::Connected { token, outcome: Err(error) }),
            sends.as_ref().map(|message| Completion::Sent { token: message.token, outcome: Err(error) }),
        ];
        self.completions.extend(ended.into_iter().flatten());
        sends.into_iter().for_each(|message| self.release(message));
    }

    fn queue(&mut self, number: RawFd) {
        let Some(Some(socket)) = self.sockets.get_mut(number as usize) else { return };
        if socket.can_work() && !std::mem::replace(&mut socket.is_queued, true) {
            self.queue.push_back(number);
        }
    }

    /// Accepts connections until it fails.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, token: u32) {
        self.ask(listener, |socket| socket.accepts = Some(token));
    }

    /// Receives a stream until it fails, or there is no frame to receive into.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, token: u32) {
        self.ask(socket, |socket| socket.receives = Some(token));
    }

    /// Receives datagrams until it fails, or there is no frame to receive into.
    pub fn receive_datagrams(&mut self, socket: BorrowedFd<'_>, token: u32) {
        self.ask(socket, |socket| socket.receives_datagrams = Some(token));
    }

    /// Sends on a stream what `fill` puts together; `false`: it was nothing.
    pub fn send(&mut self, socket: BorrowedFd<'_>, token: u32, fill: impl FnOnce(&mut Outgoing)) -> bool {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        fill(&mut message.outgoing);
        if message.outgoing.bytes() == 0 {
            self.release(message);
            return false;
        }
        message.token = token;
        self.ask(socket, |socket| socket.sends = Some(message));
        true
    }

    /// Sends a datagram, from an own address if that is said; `false`: the kernel has no room, and it is lost.
    pub fn send_datagram(
        &mut self,
        socket: BorrowedFd<'_>,
        peer: SocketAddr,
        own: Option<IpAddr>,
        payload: Lent,
    ) -> bool {
        let mut message = self.spare.pop().unwrap_or_else(Message::new);
        message.outgoing.lend(payload);
        let outcome =
            self.send_now(socket.as_raw_fd(), &mut message, Name::new(peer), own.map_or(Control::NONE, Control::from));
        self.release(message);
        if outcome == Err(Errno::AGAIN) {
            return false;
        }
        self.completions.push_back(Completion::DatagramSent { outcome: outcome.map(drop) });
        true
    }

    fn send_now(&mut self, socket: RawFd, message: &mut Message, name: Name, control: Control) -> Result<usize, Errno> {
        let header = message.make(name, control);
        self.calls += 1;
        // SAFETY: the message and what it names live until the call has ended.
        let sent = unsafe { libc::sendmsg(socket, header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        usize::try_from(sent).map_err(|_| last_error())
    }

    fn release(&mut self, mut message: Message) {
        message.outgoing.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(message);
        }
    }

    /// Connects a socket.
    pub fn connect(&mut self, socket: BorrowedFd<'_>, token: u32, peer: SocketAddr) {
        self.calls += 1;
        match connect(socket, &peer) {
            // The end of it is an edge.
            Err(Errno::INPROGRESS) => {
                self.ask(socket, |socket| (socket.connects, socket.is_writable) = (Some(token), false))
            }
            outcome => self.completions.push_back(Completion::Connected { token, outcome }),
        }
    }

    /// Ends the receiving of a stream: a completion says so.
    pub fn stop_receiving(&mut self, socket: BorrowedFd<'_>) {
        let known = self.sockets.get_mut(number_of(socket)).and_then(Option::as_mut);
        if let Some(token) = known.and_then(|socket| socket.receives.take()) {
            self.completions.push_back(Completion::Received { token, outcome: Err(Errno::CANCELED), goes_on: false });
        }
    }

    /// Ends all that is under way on a socket: completions say so.
    pub fn cancel(&mut self, socket: BorrowedFd<'_>) {
        let number = number_of(socket);
        let Some(mut known) = self.sockets.get_mut(number).and_then(Option::take) else { return };
        self.end(&mut known, Errno::CANCELED);
        if let Some(place) = self.sockets.get_mut(number) {
            *place = Some(known);
        }
    }

    /// Tells once when a descriptor of somebody else's is readable.
    pub fn watch(&mut self, other: BorrowedFd<'_>) {
        let data = || epoll::EventData::new_u64(WATCHED | number_of(other) as u64);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        self.calls += 1;
        // It is there from the last time, or new.
        if epoll::modify(&self.epoll, other, data(), flags).is_err() {
            self.calls += 1;
            let _ = epoll::add(&self.epoll, other, data(), flags);
        }
    }

    /// Forgets a watched descriptor.
    pub fn forget(&mut self, other: RawFd) {
        self.calls += 1;
        // SAFETY: it is only a number to the kernel here, which says so if it is none.
        let _ = epoll::delete(&self.epoll, unsafe { borrowed(other) });
    }

    /// Closes a socket that nothing is under way on.
    pub fn close(&mut self, socket: OwnedFd) {
        if let Some(place) = self.sockets.get_mut(socket.as_raw_fd() as usize) {
            *place = None;
        }
        self.calls += 1;
        drop(socket);
    }

    /// Whether the kernel has to be called: something was asked for.
    pub fn wants_enter(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Calls the kernel for what was asked for. Never blocks.
    pub fn enter(&mut self) {
        self.calls_since_look += 1;
        if self.calls_since_look > CALLS_BETWEEN_LOOKS {
            self.look(Duration::ZERO);
        }
        self.work();
    }

    /// As [`enter`](SocketPoll::enter), and waits until something has happened, for so long at most.
    pub fn sleep(&mut self, most: Duration) {
        let waits = self.queue.is_empty() && self.completions.is_empty();
        self.look(if waits { most } else { Duration::ZERO });
        self.work();
    }

    /// What the kernel has done, in order.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Takes edges in.
    fn look(&mut self, most: Duration) {
        (self.calls, self.calls_since_look) = (self.calls + 1, 0);
        let most = Timespec::try_from(most).ok();
        let mut edges = std::mem::take(&mut self.edges);
        // EINTR: nothing has happened. All else is met again by the next call.
        let _ = epoll::wait(&self.epoll, spare_capacity(&mut edges), most.as_ref());
        for edge in edges.drain(..) {
            let (data, flags) = (edge.data.u64(), edge.flags);
            let number = data as u32 as RawFd;
            if data & WATCHED != 0 {
                self.completions.push_back(Completion::Readable { other: number });
                continue;
            }
            let Some(Some(socket)) = self.sockets.get_mut(number as usize) else { continue };
            let has_failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            socket.has_ended |= has_failed || flags.contains(epoll::EventFlags::RDHUP);
            socket.is_readable |= socket.has_ended || flags.contains(epoll::EventFlags::IN);
            socket.is_writable |= has_failed || flags.contains(epoll::EventFlags::OUT);
            self.queue(number);
        }
        self.edges = edges;
    }

    /// Does what can be done, once for each socket.
    fn work(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(number) = self.queue.pop_front() else { return };
            let Some(mut socket) = self.sockets.get_mut(number as usize).and_then(Option::take) else { continue };
            socket.is_queued = false;
            self.work_on(number, &mut socket);
            if let Some(place) = self.sockets.get_mut(number as usize) {
                *place = Some(socket);
            }
            self.queue(number);
        }
    }

    fn work_on(&mut self, number: RawFd, socket: &mut Socket) {
        // SAFETY: something is asked for on it.
        let descriptor = unsafe { borrowed(number) };
        if let Some(token) = socket.connects.filter(|_| socket.is_writable) {
            self.calls += 1;
            socket.connects = None;
            let outcome = sockopt::socket_error(descriptor).and_then(|outcome| outcome);
            self.completions.push_back(Completion::Connected { token, outcome });
        }
        if socket.is_writable
            && let Some(mut message) = socket.sends.take()
        {
            match self.send_now(number, &mut message, Name::NONE, Control::NONE) {
                Err(Errno::AGAIN) => (socket.is_writable, socket.sends) = (false, Some(message)),
                outcome => {
                    self.completions.push_back(Completion::Sent { token: message.token, outcome });
                    self.release(message);
                }
            }
        }
        for _ in 0..TURNS_AT_ONCE {
            if !socket.is_readable {
                return;
            }
            self.calls += 1;
            if let Some(token) = socket.accepts {
                self.accept_one(descriptor, (token, socket));
            } else if let Some(token) = socket.receives {
                self.receive_some(descriptor, (token, socket));
            } else if let Some(token) = socket.receives_datagrams {
                self.receive_one(number, (token, socket));
            } else {
                return;
            }
        }
    }

    fn accept_one(&mut self, listener: BorrowedFd<'_>, (token, socket): (u32, &mut Socket)) {
        let outcome = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        if outcome.as_ref().is_err_and(|error| *error == Errno::AGAIN) {
            socket.is_readable = false;
            return;
        }
        let goes_on = outcome.is_ok();
        socket.accepts = socket.accepts.filter(|_| goes_on);
        self.completions.push_back(Completion::Accepted { token, outcome, goes_on });
    }

    fn receive_some(&mut self, descriptor: BorrowedFd<'_>, (token, socket): (u32, &mut Socket)) {
        let Some(mut frame) = self.pool.allocate(0) else {
            socket.receives = None;
            let outcome = Err(Errno::NOBUFS);
            return self.completions.push_back(Completion::Received { token, outcome, goes_on: false });
        };
        let room = frame.tailroom();
        let target = frame.append(room).unwrap_or_default();
        let outcome = match recv(descriptor, target, RecvFlags::DONTWAIT).map(|(count, _)| count) {
            Err(Errno::AGAIN) => {
                // An end would have been told of.
                socket.is_readable = false;
                return;
            }
            Ok(0) => Ok(None),
            Ok(count) => {
                // Less than there is room for is all that there was. But an edge tells of an end once.
                socket.is_readable = count == room || socket.has_ended;
                frame.truncate(count);
                Ok(Some(frame))
            }
            Err(error) => Err(error),
        };
        let goes_on = matches!(outcome, Ok(Some(_)));
        socket.receives = socket.receives.filter(|_| goes_on);
        self.completions.push_back(Completion::Received { token, outcome, goes_on });
    }

    fn receive_one(&mut self, descriptor: RawFd, (token, socket): (u32, &mut Socket)) {
        let Some(mut frame) = self.pool.allocate(0) else {
            socket.receives_datagrams = None;
            let outcome = Err(Errno::NOBUFS);
            return self.completions.push_back(Completion::Datagram { token, outcome, goes_on: false });
        };
        let (mut name, mut control) = ([0; NAME_BYTES], Aligned([0; CONTROL_BYTES]));
        let room = frame.tailroom();
        let target = frame.append(room).unwrap_or_default();
        let mut vector = libc::iovec { iov_base: target.as_mut_ptr().cast(), iov_len: target.len() };
        // SAFETY: zeroes are a message header.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_name, header.msg_namelen) = (name.as_mut_ptr().cast(), NAME_BYTES as u32);
        (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_BYTES);
        (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
        // SAFETY: all that the header names lives until the call has ended, and is as long as it says.
        let count = unsafe { libc::recvmsg(descriptor, &raw mut header, libc::MSG_DONTWAIT) };
        let outcome = match usize::try_from(count).map_err(|_| last_error()) {
            Err(Errno::AGAIN) => {
                socket.is_readable = false;
                return;
            }
            Ok(_) if header.msg_flags & libc::MSG_TRUNC != 0 => Ok(None),
            Ok(count) => {
                frame.truncate(count);
                let own = control.0.get(..header.msg_controllen).and_then(own_address_of);
                let peer = name.get(..header.msg_namelen as usize).and_then(address_of);
                Ok(peer.map(|peer| ReceivedDatagram { frame, peer, own }))
            }
            Err(error) => Err(error),
        };
        let goes_on = outcome.is_ok();
        socket.receives_datagrams = socket.receives_datagrams.filter(|_| goes_on);
        self.completions.push_back(Completion::Datagram { token, outcome, goes_on });
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;

    #[test]
    fn what_nothing_can_be_heard_of_fails_at_once() {
        let pool = Region::new(64, 4_096).unwrap().pool(64).unwrap();
        let mut poll = SocketPoll::new(pool).unwrap();
        // Refused as if there were no memory for it: this is no instance of epoll.
        poll.epoll = std::fs::File::open("/dev/null").unwrap().into();
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let socket = std::os::fd::AsFd::as_fd(&one);
        poll.receive(socket, 3);
        assert!(matches!(
            poll.next_completion(),
            Some(Completion::Received { token: 3, outcome: Err(_), goes_on: false })
        ));
        assert!(poll.send(socket, 4, |outgoing| outgoing.copy(1).into_iter().for_each(|target| target.fill(1))));
        assert!(matches!(poll.next_completion(), Some(Completion::Sent { token: 4, outcome: Err(_) })));
        assert_eq!((poll.under_way(), poll.wants_enter(), poll.spare.len()), (0, false, 1));
    }
}

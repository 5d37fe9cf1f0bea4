//! [`SocketRing`]: asks the kernel, and tells what it has done.

use super::address::{CONTROL_BYTES, Control, NAME_BYTES, Name, address_of, own_address_of};
use super::buffers::Buffers;
use super::completion::{Completion, ReceivedDatagram};
use super::message::Message;
use super::outgoing::{Lent, Outgoing};
use crate::memory::{Frame, Pool};
use io_uring::register::Restriction;
use io_uring::types::{CancelBuilder, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Entries that one system call starts at most.
const ENTRIES: u32 = 1_024;
/// Completions that wait to be looked at, at most; further ones are kept by the kernel.
const COMPLETIONS: u32 = 8 * ENTRIES;
/// The only group of buffers.
const GROUP: u16 = 0;
/// Messages that are kept to be used again.
const SPARE_MAX: usize = 1_024;
/// Datagrams that are on their way to the kernel at most.
const DATAGRAMS_MAX: u32 = 4_096;
/// How long the kernel may take to let go of memory at the end.
const PATIENCE_S: u64 = 2;
/// What `io_uring_recvmsg_out` takes before a datagram's address.
const OUT_BYTES: usize = 16;
/// Where a datagram's payload begins.
const PAYLOAD_OFFSET: usize = OUT_BYTES + NAME_BYTES + CONTROL_BYTES;

/// What is asked for, in the upper bits of `user_data`; whose it is stands in the lower ones.
mod kind {
    pub(super) const ACCEPT: u64 = 1 << 32;
    pub(super) const RECEIVE: u64 = 2 << 32;
    pub(super) const RECEIVE_DATAGRAMS: u64 = 3 << 32;
    /// The lower bits are a message's number.
    pub(super) const SEND: u64 = 4 << 32;
    pub(super) const CONNECT: u64 = 5 << 32;
    pub(super) const WATCH: u64 = 6 << 32;
    /// Of no interest to anybody: cancelling and closing.
    pub(super) const ASIDE: u64 = 7 << 32;
    pub(super) const MASK: u64 = 0xffff_ffff << 32;
}

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum SocketRingError {
    /// The kernel is too old.
    #[error("io_uring of this kernel can't do what is needed ({0}): Linux 6.1 or later has it (`uname -r`)")]
    Old(#[source] io::Error),
    /// It is switched off.
    #[error(
        "io_uring is switched off here ({0}): `sysctl kernel.io_uring_disabled=0` allows it; a container's seccomp profile has to \
         allow io_uring_setup, io_uring_enter and io_uring_register (docker run --security-opt seccomp=PROFILE)"
    )]
    Forbidden(#[source] io::Error),
    /// Anything else.
    #[error("io_uring: {0}")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for SocketRingError {
    fn from(error: io::Error) -> SocketRingError {
        match error.raw_os_error() {
            Some(libc::EINVAL) => SocketRingError::Old(error),
            Some(libc::ENOSYS | libc::EPERM | libc::EACCES) => SocketRingError::Forbidden(error),
            _ => SocketRingError::Failed(error),
        }
    }
}

/// Sockets of the kernel's, by one ring. It belongs to the thread that made it. Whoever asks names the socket, which has to stay open until
/// the last completion of what was asked for.
pub struct SocketRing {
    ring: IoUring,
    buffers: ManuallyDrop<Buffers>,
    messages: ManuallyDrop<Vec<Message>>,
    spare: Vec<u32>,
    /// What every datagram is received after: how much room there is for its address. Never moved.
    header: ManuallyDrop<Box<libc::msghdr>>,
    /// What found no room in the ring.
    waiting: VecDeque<squeue::Entry>,
    /// Askings whose last completion has not come.
    under_way: u64,
    datagrams_under_way: u32,
    /// System calls.
    enters: u64,
}

impl std::fmt::Debug for SocketRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SocketRing({} under way, {:?})", self.under_way, self.buffers.pool())
    }
}

/// All that the ring may ever be asked for: what it could do besides, no filter of system calls would see.
fn restrictions() -> Vec<Restriction> {
    let operations = [
        opcode::AcceptMulti::CODE,
        opcode::RecvMulti::CODE,
        opcode::RecvMsgMulti::CODE,
        opcode::SendMsg::CODE,
        opcode::Connect::CODE,
        opcode::Close::CODE,
        opcode::AsyncCancel2::CODE,
        opcode::PollAdd::CODE,
    ];
    let mut all: Vec<_> = operations.iter().map(|code| Restriction::sqe_op(*code)).collect();
    all.push(Restriction::sqe_flags_allowed(squeue::Flags::BUFFER_SELECT.bits()));
    all
}

impl SocketRing {
    /// A ring that receives into frames of `pool`, which has all of its region.
    ///
    /// # Errors
    /// [`SocketRingError`].
    pub fn new(pool: Pool) -> Result<SocketRing, SocketRingError> {
        // Completions are made when they are asked for, not by interrupts into this thread, and a flag says that there are some.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(COMPLETIONS)
            .setup_r_disabled()
            .build(ENTRIES)?;
        let mut buffers = Buffers::new(pool)?;
        // SAFETY: so many entries, page-aligned, that live until the kernel has let go of them (see `drop`).
        unsafe { ring.submitter().register_buf_ring_with_flags(buffers.address(), buffers.count(), GROUP, 0)? };
        ring.submitter().register_restrictions(&mut restrictions())?;
        ring.submitter().register_enable_rings()?;
        buffers.refill();
        // SAFETY: zeroes are a message header.
        let mut header: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        (header.msg_namelen, header.msg_controllen) = (NAME_BYTES as u32, CONTROL_BYTES);
        Ok(SocketRing {
            ring,
            buffers: ManuallyDrop::new(buffers),
            messages: ManuallyDrop::default(),
            spare: Vec::new(),
            header: ManuallyDrop::new(header),
            waiting: VecDeque::new(),
            under_way: 0,
            datagrams_under_way: 0,
            enters: 0,
        })
    }

    /// Where received bytes are.
    pub fn pool(&self) -> &Pool {
        self.buffers.pool()
    }

    /// Frames to receive into that nobody has.
    #[inline]
    pub fn frames_free(&self) -> u32 {
        self.buffers.pool().free_count() + u32::from(self.buffers.lent())
    }

    /// Whether there are completions that have not been looked at.
    #[inline]
    pub fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Askings that have not ended.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// System calls so far.
    pub fn calls(&self) -> u64 {
        self.enters
    }

    fn ask(&mut self, entry: squeue::Entry, data: u64) {
        self.under_way += 1;
        self.push(entry.user_data(data));
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: what the entry names lives until its completion: buffers and messages are kept here, descriptors by whoever asks.
        let has_room = self.waiting.is_empty() && unsafe { self.ring.submission().push(&entry) }.is_ok();
        if !has_room {
            self.waiting.push_back(entry);
        }
    }

    /// Accepts connections until it fails.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, token: u32) {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
        self.ask(entry.build(), kind::ACCEPT | u64::from(token));
    }

    /// Receives a stream until it fails, or there is no frame to receive into.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, token: u32) {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.ask(entry, kind::RECEIVE | u64::from(token));
    }

    /// Receives datagrams until it fails, or there is no frame to receive into.
    pub fn receive_datagrams(&mut self, socket: BorrowedFd<'_>, token: u32) {
        let header = &raw const **self.header;
        let entry = opcode::RecvMsgMulti::new(Fd(socket.as_raw_fd()), header, GROUP).build();
        self.ask(entry, kind::RECEIVE_DATAGRAMS | u64::from(token));
    }

    /// Sends on a stream what `fill` puts together; `false`: it was nothing. There is one send at a time on a stream: what a second one
    /// sent would come before what is left of the first.
    pub fn send(&mut self, socket: BorrowedFd<'_>, token: u32, fill: impl FnOnce(&mut Outgoing)) -> bool {
        let number = self.spare_message();
        let Some(message) = self.messages.get_mut(number as usize) else { return false };
        fill(&mut message.outgoing);
        if message.outgoing.bytes() == 0 {
            self.release(number);
            return false;
        }
        (message.token, message.is_datagram) = (token, false);
        let header = message.make(Name::NONE, Control::NONE);
        self.send_message(socket.as_raw_fd(), number, header);
        true
    }

    /// Sends a datagram, from an own address if that is said; `false`: too many are on their way already, and it is lost.
    pub fn send_datagram(
        &mut self,
        socket: BorrowedFd<'_>,
        peer: SocketAddr,
        own: Option<IpAddr>,
        payload: Lent,
    ) -> bool {
        if self.datagrams_under_way >= DATAGRAMS_MAX {
            return false;
        }
        let number = self.spare_message();
        let Some(message) = self.messages.get_mut(number as usize) else { return false };
        message.is_datagram = true;
        message.outgoing.lend(payload);
        let header = message.make(Name::new(peer), own.map_or(Control::NONE, Control::from));
        self.datagrams_under_way += 1;
        self.send_message(socket.as_raw_fd(), number, header);
        true
    }

    fn send_message(&mut self, socket: RawFd, number: u32, header: *const libc::msghdr) {
        let entry = opcode::SendMsg::new(Fd(socket), header).flags(libc::MSG_NOSIGNAL as u32).build();
        self.ask(entry, kind::SEND | u64::from(number));
    }

    fn spare_message(&mut self) -> u32 {
        self.spare.pop().unwrap_or_else(|| {
            self.messages.push(Message::new());
            self.messages.len() as u32 - 1
        })
    }

    /// The kernel is done with it, or was never given it.
    fn release(&mut self, number: u32) {
        let Some(message) = self.messages.get_mut(number as usize) else { return };
        message.outgoing.clear();
        self.spare.push(number);
        if self.spare.len() == self.messages.len() && self.messages.len() > SPARE_MAX {
            // None is with the kernel.
            self.messages.truncate(SPARE_MAX);
            self.spare = (0..SPARE_MAX as u32).collect();
        }
    }

    /// Connects a socket.
    pub fn connect(&mut self, socket: BorrowedFd<'_>, token: u32, peer: SocketAddr) {
        // The kernel copies an address when it is given the entry.
        let number = self.spare_message();
        let Some(message) = self.messages.get_mut(number as usize) else { return };
        message.token = token;
        let header = message.make(Name::new(peer), Control::NONE);
        // SAFETY: made just now, of this message.
        let (name, length) = unsafe { ((*header).msg_name, (*header).msg_namelen) };
        let entry = opcode::Connect::new(Fd(socket.as_raw_fd()), name.cast_const().cast(), length).build();
        self.ask(entry, kind::CONNECT | u64::from(number));
    }

    /// Ends the receiving of a stream: a completion says so.
    pub fn stop_receiving(&mut self, token: u32) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(kind::RECEIVE | u64::from(token))).build();
        self.ask(entry, kind::ASIDE);
    }

    /// Ends all that is under way on a socket: completions say so.
    pub fn cancel(&mut self, socket: BorrowedFd<'_>) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(socket.as_raw_fd())).all()).build();
        self.ask(entry, kind::ASIDE);
    }

    /// Tells once when a descriptor of somebody else's is readable.
    pub fn watch(&mut self, other: BorrowedFd<'_>) {
        let number = other.as_raw_fd();
        let entry = opcode::PollAdd::new(Fd(number), libc::POLLIN as u32).build();
        self.ask(entry, kind::WATCH | u64::from(number as u32));
    }

    /// Forgets a watched descriptor.
    pub fn forget(&mut self, other: RawFd) {
        let entry =
            opcode::AsyncCancel2::new(CancelBuilder::user_data(kind::WATCH | u64::from(other as u32)).all()).build();
        self.ask(entry, kind::ASIDE);
    }

    /// Closes a socket that nothing is under way on.
    pub fn close(&mut self, socket: OwnedFd) {
        let entry = opcode::Close::new(Fd(socket.into_raw_fd())).build();
        self.ask(entry, kind::ASIDE);
    }

    /// Whether the kernel has to be called: something was asked for, or something has happened.
    #[inline]
    pub fn wants_enter(&mut self) -> bool {
        let submission = self.ring.submission();
        !submission.is_empty() || submission.taskrun() || submission.cq_overflow() || !self.waiting.is_empty()
    }

    /// Calls the kernel: what was asked for starts, and what has happened is told by completions. Never blocks.
    pub fn enter(&mut self) {
        self.buffers.refill();
        loop {
            let queued = self.ring.submission().len() as u32;
            self.enters += 1;
            // SAFETY: no argument is given with it.
            let outcome = unsafe { self.ring.submitter().enter::<()>(queued, 0, EnterFlags::GETEVENTS.bits(), None) };
            // EBUSY: completions have to be looked at first. EINTR, EAGAIN: the next call does it.
            if outcome.is_err() || self.waiting.is_empty() {
                return;
            }
            while let Some(entry) = self.waiting.front() {
                // SAFETY: as in `push`.
                if unsafe { self.ring.submission().push(entry) }.is_err() {
                    break;
                }
                self.waiting.pop_front();
            }
        }
    }

    /// As [`enter`](SocketRing::enter), and waits until something has happened, for so long at most.
    pub fn sleep(&mut self, most: Duration) {
        if !self.waiting.is_empty() || self.has_completions() {
            return self.enter();
        }
        self.buffers.refill();
        self.enters += 1;
        let patience = Timespec::from(most);
        // ETIME: nothing has happened. All else is met again by the next call.
        let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&patience));
    }

    /// What the kernel has done, in order.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring.completion().next()?;
            let goes_on = cqueue::more(entry.flags());
            if !goes_on {
                self.under_way -= 1;
            }
            if let Some(completion) = self.completion(&entry, goes_on) {
                return Some(completion);
            }
        }
    }

    /// The frame that came with a completion, with so many bytes.
    #[inline]
    fn frame(&mut self, entry: &cqueue::Entry) -> Option<Frame> {
        let number = cqueue::buffer_select(entry.flags())?;
        let length = usize::try_from(entry.result()).unwrap_or(0);
        // SAFETY: this completion names it, and is looked at once.
        Some(unsafe { self.buffers.take(number, length) })
    }

    #[inline]
    fn completion(&mut self, entry: &cqueue::Entry, goes_on: bool) -> Option<Completion> {
        let (data, token) = (entry.user_data(), entry.user_data() as u32);
        let result = entry.result();
        let failure = || Errno::from_raw_os_error(-result);
        let frame = self.frame(entry);
        Some(match data & kind::MASK {
            kind::ACCEPT => {
                // SAFETY: the kernel has just made this descriptor for us.
                let outcome = if result < 0 { Err(failure()) } else { Ok(unsafe { OwnedFd::from_raw_fd(result) }) };
                Completion::Accepted { token, outcome, goes_on }
            }
            kind::RECEIVE => {
                let outcome = if result < 0 { Err(failure()) } else { Ok(frame.filter(|frame| !frame.is_empty())) };
                Completion::Received { token, outcome, goes_on }
            }
            kind::RECEIVE_DATAGRAMS => {
                let outcome = match frame {
                    _ if result < 0 => Err(failure()),
                    frame => Ok(frame.and_then(|frame| self.datagram(frame))),
                };
                Completion::Datagram { token, outcome, goes_on }
            }
            kind::SEND => {
                let message = self.messages.get(token as usize)?;
                let (owner, is_datagram) = (message.token, message.is_datagram);
                self.release(token);
                let outcome = usize::try_from(result).map_err(|_| failure());
                if is_datagram {
                    self.datagrams_under_way -= 1;
                    return Some(Completion::DatagramSent { outcome: outcome.map(drop) });
                }
                Completion::Sent { token: owner, outcome }
            }
            kind::CONNECT => {
                let owner = self.messages.get(token as usize)?.token;
                self.release(token);
                let outcome = if result < 0 { Err(failure()) } else { Ok(()) };
                Completion::Connected { token: owner, outcome }
            }
            // Nobody waits for it any more, and its number may be another one's.
            kind::WATCH if result == -Errno::CANCELED.raw_os_error() => return None,
            kind::WATCH => Completion::Readable { other: token as RawFd },
            _ => return None,
        })
    }

    /// A datagram that lies in a frame with its address before it. `None`: it is not whole.
    fn datagram(&self, mut frame: Frame) -> Option<ReceivedDatagram> {
        let out = RecvMsgOut::parse(frame.bytes(), &self.header).ok()?;
        if out.is_payload_truncated() || out.is_name_data_truncated() {
            return None;
        }
        let (peer, own) = (address_of(out.name_data())?, own_address_of(out.control_data()));
        let length = out.payload_data().len();
        frame.narrow(PAYLOAD_OFFSET, length).then_some(ReceivedDatagram { frame, peer, own })
    }
}

impl Drop for SocketRing {
    fn drop(&mut self) {
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.ask(everything, kind::ASIDE);
        let patience = Timespec::new().sec(PATIENCE_S);
        while self.under_way > 0 {
            self.enter();
            while let Some(completion) = self.next_completion() {
                drop(completion);
            }
            if self.under_way == 0 {
                break;
            }
            let waited = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&patience));
            if waited.is_err_and(|error| error.raw_os_error() != Some(libc::EINTR)) {
                break;
            }
        }
        if self.under_way > 0 {
            // The kernel may still read and write it: it is never freed.
            std::mem::forget(self.buffers.pool().clone());
            return;
        }
        // SAFETY: dropped once, here. Nothing is under way, and the ring is asked for nothing any more.
        unsafe {
            ManuallyDrop::drop(&mut self.messages);
            ManuallyDrop::drop(&mut self.header);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}

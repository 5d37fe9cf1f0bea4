//! Datagrams over a kernel socket by io_uring: the fastest way Linux offers to answer them, to be compared with.
//!
//! ```text
//!   one receive that goes on (multishot) ─ the kernel takes a buffer from the ring of buffers ─▶ completion
//!        ▲                                                                            answered in the same buffer
//!        └── buffer back to its ring ◀── completion ◀── sendmsg: address and payload as they were received
//! ```
//! No copy besides the kernel's own two; completions are reaped, sends submitted and receives waited for in one system
//! call. It is here because the kernel is handed addresses of memory, which takes `unsafe`: no maintained crate has a
//! safe multishot receive of datagrams, and a peer slower than need be would flatter us.

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Buffers, and entries of their ring: as many datagrams may be on their way through here.
const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 2_048;
const PAGE_BYTES: usize = 4_096;
/// Bytes the kernel sets aside for a sender's address.
const NAME_BYTES: usize = size_of::<libc::sockaddr_storage>();
/// What `io_uring_recvmsg_out` takes before it.
const OUT_BYTES: usize = 16;
const GROUP: u16 = 0;
/// Marks the receive; sends are marked with their buffer.
const RECEIVE: u64 = u64::MAX;

/// The message a send points to.
#[repr(C)]
struct Message {
    header: libc::msghdr,
    vector: libc::iovec,
}

/// Memory the kernel is told the address of: page-aligned, zeroed, never moved.
struct Memory {
    base: NonNull<u8>,
    layout: Layout,
}

const MESSAGES_OFFSET: usize = PAGE_BYTES;
const MESSAGES_BYTES: usize = (BUFFERS as usize * size_of::<Message>()).next_multiple_of(PAGE_BYTES);
const RECEIVE_OFFSET: usize = MESSAGES_OFFSET + MESSAGES_BYTES;
const BUFFERS_OFFSET: usize = RECEIVE_OFFSET + PAGE_BYTES;
const MEMORY_BYTES: usize = BUFFERS_OFFSET + BUFFERS as usize * BUFFER_BYTES;
const _: () = assert!(BUFFERS as usize * size_of::<BufRingEntry>() <= PAGE_BYTES && BUFFERS.is_power_of_two());

impl Memory {
    fn new() -> io::Result<Memory> {
        let layout = Layout::from_size_align(MEMORY_BYTES, PAGE_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        match NonNull::new(base) {
            Some(base) => Ok(Memory { base, layout }),
            None => handle_alloc_error(layout),
        }
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        // SAFETY: callers' offsets are constants, or of a buffer below BUFFERS: within the allocation.
        unsafe { self.base.add(offset).cast() }
    }

    fn buffer(&self, number: u16) -> NonNull<u8> {
        self.at(BUFFERS_OFFSET + usize::from(number % BUFFERS) * BUFFER_BYTES)
    }

    fn message(&self, number: u16) -> NonNull<Message> {
        self.at(MESSAGES_OFFSET + usize::from(number % BUFFERS) * size_of::<Message>())
    }

    /// What every receive is made after: room for an address, nothing else.
    fn receive_header(&self) -> NonNull<libc::msghdr> {
        self.at(RECEIVE_OFFSET)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and the ring that knew of it is gone (see `DatagramRing::drop`).
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// What a turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramTurn {
    /// Datagrams received.
    pub received: u64,
    /// Answers the kernel has taken.
    pub sent: u64,
    /// Bytes in them.
    pub sent_bytes: u64,
    /// Answers it refused, and datagrams it could not give whole.
    pub dropped: u64,
}

/// A UDP socket and the ring it is used by.
pub struct DatagramRing {
    ring: IoUring,
    /// `None` only once the kernel would not let go of it: then it is never freed.
    memory: Option<Memory>,
    socket: UdpSocket,
    /// Of the ring of buffers: entries given to the kernel so far.
    given: u16,
    receiving: bool,
}

impl std::fmt::Debug for DatagramRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatagramRing({:?})", self.socket)
    }
}

impl DatagramRing {
    /// Over `socket`.
    ///
    /// # Errors
    /// What the kernel says: `ENOSYS` or `EPERM` where io_uring is switched off, `EINVAL` before Linux 6.1.
    pub fn new(socket: UdpSocket) -> io::Result<DatagramRing> {
        // Completions are made when asked for, not by interrupts into this thread, and a flag says that there are some:
        // polling takes no system call.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_cqsize(4 * u32::from(BUFFERS))
            .build(2 * u32::from(BUFFERS))?;
        let memory = Memory::new()?;
        // SAFETY: within the memory, aligned; zeroes are a message header.
        unsafe { (*memory.receive_header().as_ptr()).msg_namelen = NAME_BYTES as u32 };
        // SAFETY: a page of BUFFERS entries that lives until the kernel has let go of it (see `drop`).
        unsafe {
            ring.submitter().register_buf_ring_with_flags(memory.base.as_ptr() as u64, BUFFERS, GROUP, 0)?;
        }
        let mut ring = DatagramRing { ring, memory: Some(memory), socket, given: 0, receiving: false };
        (0..BUFFERS).for_each(|number| ring.give(number));
        Ok(ring)
    }

    /// The socket.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Hands a buffer to the kernel, to receive into.
    fn give(&mut self, number: u16) {
        let Some(memory) = &self.memory else { return };
        let slot = usize::from(self.given % BUFFERS);
        let entry = memory.at::<BufRingEntry>(slot * size_of::<BufRingEntry>());
        // SAFETY: an entry of the ring of buffers that the kernel doesn't look at before the tail has passed it. Entry 0
        // holds the tail in its last field, which none of these setters writes.
        unsafe {
            let entry = &mut *entry.as_ptr();
            entry.set_addr(memory.buffer(number).as_ptr() as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
        }
        self.given = self.given.wrapping_add(1);
        // SAFETY: the address of the first entry; its tail is aligned, and only this thread writes it.
        unsafe {
            let tail = BufRingEntry::tail(memory.base.as_ptr().cast());
            // Release: the entry before the tail that shows it.
            (*tail.cast::<AtomicU16>()).store(self.given, Ordering::Release);
        }
    }

    /// One turn: datagrams that have come are shown to `answer`; those it says yes to go back to their sender with the
    /// bytes it left. At most `batch_max` are taken. Waits for something to happen if `patience` is given.
    ///
    /// # Errors
    /// What the kernel says, besides errors of single datagrams.
    pub fn turn(
        &mut self,
        batch_max: usize,
        patience: Option<Duration>,
        answer: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<DatagramTurn> {
        let mut turn = DatagramTurn::default();
        let mut completions = 0;
        while completions < 2 * batch_max {
            let Some(entry) = self.ring.completion().next() else { break };
            completions += 1;
            if entry.user_data() == RECEIVE {
                self.received(&entry, answer, &mut turn)?;
                if turn.received >= batch_max as u64 {
                    break;
                }
            } else {
                match entry.result() {
                    bytes @ 0.. => {
                        turn.sent += 1;
                        turn.sent_bytes += bytes as u64;
                    }
                    _ => turn.dropped += 1,
                }
                self.give(entry.user_data() as u16);
            }
        }
        if !self.receiving {
            self.receive();
        }
        let wants = usize::from(completions == 0 && patience.is_some());
        let outcome = match patience {
            Some(patience) if wants > 0 => {
                let limit = Timespec::from(patience);
                self.ring.submitter().submit_with_args(wants, &SubmitArgs::new().timespec(&limit))
            }
            _ => self.ring.submit(),
        };
        match outcome {
            Ok(_) => Ok(turn),
            Err(error) if is_passing(&error) => Ok(turn),
            Err(error) => Err(error),
        }
    }

    fn received(
        &mut self,
        entry: &cqueue::Entry,
        answer: &mut dyn FnMut(&mut [u8]) -> bool,
        turn: &mut DatagramTurn,
    ) -> io::Result<()> {
        self.receiving = cqueue::more(entry.flags());
        let number = cqueue::buffer_select(entry.flags());
        let (Some(number), length @ 0..) = (number, entry.result()) else {
            return match -entry.result() {
                // No buffer is free: it is received when one is. A peer that is gone answers by ICMP: not ours to end for.
                libc::ENOBUFS | libc::ECONNREFUSED | libc::EINTR | libc::EAGAIN => Ok(()),
                code => Err(io::Error::from_raw_os_error(code)),
            };
        };
        turn.received += 1;
        if !self.answer(number, length as usize, answer) {
            turn.dropped += 1;
            self.give(number);
        }
        Ok(())
    }

    /// Shows a received datagram to `answer` and sends the answer off. Whether it is on its way.
    fn answer(&mut self, number: u16, length: usize, answer: &mut dyn FnMut(&mut [u8]) -> bool) -> bool {
        let Some(memory) = &self.memory else { return false };
        let buffer = memory.buffer(number);
        let length = length.min(BUFFER_BYTES);
        let (name_length, payload) = {
            // SAFETY: the kernel has given this buffer back with `length` bytes in it, and nobody else refers to it.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr(), length) };
            // SAFETY: written once, at the beginning.
            let header = unsafe { memory.receive_header().as_ref() };
            let Ok(out) = RecvMsgOut::parse(bytes, header) else { return false };
            if out.is_payload_truncated() || out.is_name_data_truncated() {
                return false;
            }
            (out.incoming_name_len(), out.payload_data().len())
        };
        // SAFETY: parsed just now: name and payload lie within the buffer.
        let start = unsafe { buffer.add(OUT_BYTES + NAME_BYTES) };
        // SAFETY: `payload` bytes of the buffer, which is ours until it is sent.
        if !answer(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), payload) }) {
            return false;
        }
        let message = memory.message(number);
        // SAFETY: a message of our memory that no send refers to: this buffer's last one is done. Zeroes are a message.
        unsafe {
            let message = &mut *message.as_ptr();
            message.vector = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: payload };
            message.header.msg_name = buffer.add(OUT_BYTES).as_ptr().cast();
            message.header.msg_namelen = name_length;
            message.header.msg_iov = &raw mut message.vector;
            message.header.msg_iovlen = 1;
        }
        let header = message.cast::<libc::msghdr>().as_ptr();
        let send = opcode::SendMsg::new(Fd(self.socket.as_raw_fd()), header).build().user_data(u64::from(number));
        // SAFETY: message and buffer stay as they are until the send's completion gives them back, or `drop` has
        // cancelled it.
        unsafe { self.ring.submission().push(&send) }.is_ok()
    }

    /// Starts the receive that goes on until it fails.
    fn receive(&mut self) {
        let Some(memory) = &self.memory else { return };
        let header = memory.receive_header().as_ptr();
        let fd = Fd(self.socket.as_raw_fd());
        let receive = opcode::RecvMsgMulti::new(fd, header, GROUP).build().user_data(RECEIVE);
        // SAFETY: the header and the buffers live until `drop` has cancelled this.
        self.receiving = unsafe { self.ring.submission().push(&receive) }.is_ok();
    }
}

fn is_passing(error: &io::Error) -> bool {
    // ETIME: patience ran out. EBUSY: completions are to be taken first.
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

impl Drop for DatagramRing {
    fn drop(&mut self) {
        let cancelled = self.ring.submitter().register_sync_cancel(Some(Timespec::new().sec(1)), CancelBuilder::any());
        let is_idle = match &cancelled {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        if !is_idle {
            // The kernel may still write to it.
            std::mem::forget(self.memory.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_lets_go() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let mut ring = match DatagramRing::new(socket) {
            Ok(ring) => ring,
            Err(error) => {
                eprintln!("\nSKIPPED (io_uring: {error}): answers_and_lets_go\n");
                return;
            }
        };
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut total = DatagramTurn::default();
        for round in 0..2 * u32::from(BUFFERS) {
            let length = 1 + round as usize % 1_500;
            client.send_to(&vec![round as u8; length], address).unwrap();
            let batch_max = if round % 2 == 0 { 1 } else { 64 };
            let until = total.received + 1;
            while total.received < until {
                let patience = Some(Duration::from_millis(50));
                let turn = ring.turn(batch_max, patience, &mut |bytes| {
                    bytes[0] ^= 1;
                    true
                });
                let turn = turn.unwrap();
                total.received += turn.received;
                total.sent += turn.sent;
                total.dropped += turn.dropped;
            }
            let mut bytes = [0; 2_048];
            assert_eq!(client.recv(&mut bytes).unwrap(), length);
            assert_eq!(bytes[0], round as u8 ^ 1);
            assert!(bytes[1..length].iter().all(|byte| *byte == round as u8));
        }
        // Too long for a buffer: lost, and nothing else is.
        client.send_to(&[9; 4_000], address).unwrap();
        client.send_to(&[9; 10], address).unwrap();
        while total.received < 2 * u64::from(BUFFERS) + 2 {
            let turn = ring.turn(64, Some(Duration::from_millis(50)), &mut |_| true).unwrap();
            total.received += turn.received;
            total.dropped += turn.dropped;
        }
        assert_eq!(total.dropped, 1);
        assert_eq!(client.recv(&mut [0; 64]).unwrap(), 10);
        drop(ring);
        // The kernel takes a ring apart behind our back.
        let closed = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            UdpSocket::bind(address).is_ok()
        });
        assert!(closed, "the socket is closed");
    }
}

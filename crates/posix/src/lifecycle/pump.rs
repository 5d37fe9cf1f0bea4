//! A pump: a process that moves bytes between a connection of ours and one end of a pair of Unix sockets, whose other end goes to a program
//! that cannot use our sockets. The keeper forks the pump, so it has nothing of the program's but the connection, and it is no child of any
//! of the program's processes.

use crate::lifecycle::registry;
use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::world::lock::lock;
use crate::world::membership;
use libc::{c_int, pollfd};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Moved at a time.
const PIECE: usize = 64 * 1024;
/// How often it is asked whether a connection that others have too is this program's alone.
const LOOK_MS: c_int = 10;
/// The connection's descriptor in a pump.
pub(crate) const CONNECTION: RawFd = 0;

/// What the keeper is to fork a pump for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    /// The pump's record among processes.
    pub(crate) record: u32,
    /// The connection.
    pub(crate) number: u32,
    pub(crate) takes: bool,
}

impl Order {
    const LENGTH: usize = 9;

    fn bytes(self) -> [u8; Order::LENGTH] {
        let mut bytes = [u8::from(self.takes); Order::LENGTH];
        bytes[..4].copy_from_slice(&self.record.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.number.to_ne_bytes());
        bytes
    }

    /// As it comes to the keeper.
    pub(crate) fn read(bytes: &[u8]) -> Option<Order> {
        let bytes: [u8; Order::LENGTH] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(Order { record: word(0), number: word(4), takes: bytes[8] != 0 })
    }
}

/// Gives a descriptor, closed by `exec`, that is as good as connection `number`. `takes`: it is the program's standard input or output,
/// so what comes is meant for it. Else nothing is taken as long as other processes have the connection, because they may want it.
///
/// # Errors
/// Out of descriptors, or there is no keeper.
pub(crate) fn start(number: u32, takes: bool) -> Result<RawFd, Errno> {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) } != 0 {
        return Err(libc_next::errno());
    }
    let [theirs, ours] = ends.map(crate::sys::wakers::out_of_the_way);
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    let ours = unsafe { OwnedFd::from_raw_fd(ours) };
    start_with(number, takes, &ours).map(|()| theirs).inspect_err(|_| {
        // SAFETY: the descriptor was made just now, and nobody else owns it.
        unsafe { libc_next::close(theirs) };
    })
}

/// As [`start`], with an end that there is already.
///
/// # Errors
/// There is no keeper.
pub(crate) fn start_with(number: u32, takes: bool, ours: &OwnedFd) -> Result<(), Errno> {
    let mut guard = lock()?;
    let registry = guard.processes.registry;
    let record = guard.record_with(CONNECTION, Entry::Socket(number));
    drop(guard);
    let order = Order { record, number, takes };
    let text = [crate::lifecycle::registry::PUMP.to_ne_bytes().as_slice(), &order.bytes()].concat();
    registry::say_to_keeper(registry, &text, ours).inspect_err(|_| {
        if let Ok(mut guard) = lock() {
            guard.process_ended(record);
        }
    })
}

/// Pumps, in a process that the keeper has forked for it. The process has the world's descriptors and these.
pub(crate) fn run(order: Order, unix: &OwnedFd, lifeline: RawFd) {
    // SAFETY: the call takes no pointers.
    unsafe { libc::setsid() };
    // Nobody asks the kernel anything of what stands in for the connection.
    let Ok(stand_in) = crate::sys::wakers::new_event() else { return };
    // SAFETY: the call takes no pointers.
    unsafe { libc_next::dup2(stand_in, CONNECTION) };
    let Ok(guard) = lock() else { return };
    let Some(Some(record)) = guard.processes.records.get(order.record as usize) else { return };
    membership::become_process(order.record, lifeline, record);
    drop(guard);
    descriptor::set(CONNECTION, Entry::Socket(order.number));
    let (socket, number, unix, takes) = (CONNECTION, order.number, unix.as_raw_fd(), order.takes);
    Pump { socket, number, unix, takes, out: Buffer::new(), back: Buffer::new() }.run();
}

/// Bytes on their way.
struct Buffer {
    bytes: Vec<u8>,
    done: usize,
    length: usize,
    /// No more come.
    is_over: bool,
    /// And the other side has been told.
    is_told: bool,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer { bytes: vec![0; PIECE], done: 0, length: 0, is_over: false, is_told: false }
    }

    fn is_empty(&self) -> bool {
        self.done == self.length
    }

    /// Fills it from `fd`; `false`: that is broken.
    fn fill(&mut self, fd: RawFd) -> bool {
        // SAFETY: the pointer is to as many writable bytes as the length says.
        let count = unsafe { libc::recv(fd, self.bytes.as_mut_ptr().cast(), PIECE, libc::MSG_DONTWAIT) };
        match count {
            1.. => (self.done, self.length) = (0, count as usize),
            0 => self.is_over = true,
            _ => return matches!(libc_next::errno(), Errno::AGAIN | Errno::INTR),
        }
        true
    }

    /// Empties it into `fd`; `false`: that is broken.
    fn drain(&mut self, fd: RawFd) -> bool {
        let rest = self.bytes.get(self.done..self.length).unwrap_or_default();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer is to as many readable bytes as the length says.
        let count = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
        if count < 0 {
            return matches!(libc_next::errno(), Errno::AGAIN | Errno::INTR);
        }
        self.done += count as usize;
        true
    }

    /// Tells `fd` of the end, once.
    fn tell_end(&mut self, fd: RawFd) {
        if self.is_over && self.is_empty() && !std::mem::replace(&mut self.is_told, true) {
            // SAFETY: the call takes no pointers.
            unsafe { libc::shutdown(fd, libc::SHUT_WR) };
        }
    }
}

struct Pump {
    socket: c_int,
    number: u32,
    unix: RawFd,
    takes: bool,
    /// To the program, and from it.
    out: Buffer,
    back: Buffer,
}

impl Pump {
    /// Whether what comes is for the program.
    fn may_take(&self) -> bool {
        self.takes
            || lock().is_ok_and(|guard| guard.sockets.get(self.number).is_some_and(|socket| socket.references <= 1))
    }

    fn run(mut self) {
        loop {
            let may_take = self.may_take();
            let wants = |is_wanted: bool, events| if is_wanted { events } else { 0 };
            let from_socket = may_take && self.out.is_empty() && !self.out.is_over;
            let from_unix = self.back.is_empty() && !self.back.is_over;
            let mut fds = [
                pollfd {
                    fd: if from_socket || !self.back.is_empty() { self.socket } else { -1 },
                    events: wants(from_socket, libc::POLLIN) | wants(!self.back.is_empty(), libc::POLLOUT),
                    revents: 0,
                },
                pollfd {
                    fd: self.unix,
                    events: wants(from_unix, libc::POLLIN) | wants(!self.out.is_empty(), libc::POLLOUT),
                    revents: 0,
                },
            ];
            let patience = if may_take { -1 } else { LOOK_MS };
            // SAFETY: the array has two elements.
            unsafe { libc::poll(fds.as_mut_ptr(), 2, patience) };
            // The program has closed its end altogether.
            let is_gone = fds[1].revents & libc::POLLHUP != 0;
            let mut is_well = true;
            if from_unix && fds[1].revents != 0 {
                is_well &= self.back.fill(self.unix);
            }
            if !self.back.is_empty() {
                is_well &= self.back.drain(self.socket);
            }
            if is_gone && self.back.is_over && self.back.is_empty() || !is_well {
                return;
            }
            self.back.tell_end(self.socket);
            if from_socket && fds[0].revents != 0 {
                is_well &= self.out.fill(self.socket);
            }
            if !self.out.is_empty() && !is_gone {
                is_well &= self.out.drain(self.unix);
            }
            self.out.tell_end(self.unix);
            let is_done = self.out.is_told && self.back.is_told;
            if is_done || !is_well {
                return;
            }
        }
    }
}

//! A connection of ours for a program that is not: it gets one end of a pair of the kernel's Unix sockets, and a process that
//! has the connection moves what comes at either to the other.

use crate::descriptor::{self, Entry};
use crate::lock::lock;
use crate::process;
use crate::real;
use libc::{c_int, pollfd};
use std::os::fd::RawFd;

/// Moved at a time.
const PIECE: usize = 64 * 1024;
/// How often it is asked whether a connection that others have too is this program's alone.
const LOOK_MS: c_int = 10;

/// Gives a descriptor, closed by `exec`, that is as good as connection `number`, which `fd` is here. `takes`: it is the
/// program's standard input or output, so what comes is meant for it; else nothing is taken as long as others have the
/// connection, who may want it.
///
/// # Errors
/// Out of descriptors or processes.
pub(crate) fn start(fd: c_int, number: u32, takes: bool) -> Result<RawFd, i32> {
    let mut ends = [-1; 2];
    // SAFETY: room for two.
    if unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) } != 0 {
        return Err(real::errno());
    }
    let [theirs, ours] = ends.map(crate::bells::out_of_the_way);
    start_with(fd, number, takes, ours).map(|()| theirs).inspect_err(|_| {
        // SAFETY: made just now.
        unsafe { real::close(theirs) };
    })
}

/// As [`start`], with an end that there is already, and is closed here.
///
/// # Errors
/// Out of processes.
pub(crate) fn start_with(fd: c_int, number: u32, takes: bool, ours: RawFd) -> Result<(), i32> {
    // SAFETY: the child does what a forked one may.
    match unsafe { process::fork() } {
        0 => {
            // Twice, so that the program has no child it doesn't know of.
            // SAFETY: as above.
            if unsafe { process::fork() } == 0 {
                become_pump(fd, ours);
                let pump = Pump { socket: fd, number, unix: ours, takes, out: Buffer::new(), back: Buffer::new() };
                pump.run();
            }
            // SAFETY: ends the process without the program's handlers.
            unsafe { libc::_exit(0) }
        }
        child => {
            let error = real::errno();
            let mut status = 0;
            // SAFETY: ours, of which the child has copies; a child of ours.
            unsafe {
                real::close(ours);
                if child < 0 {
                    return Err(error);
                }
                libc::waitpid(child, &raw mut status, 0);
            }
            Ok(())
        }
    }
}

/// Lets go of all that is the program's, but for the connection.
fn become_pump(fd: c_int, unix: RawFd) {
    // SAFETY: none takes pointers but constants and sets.
    unsafe {
        libc::setsid();
        for signal in 1..32 {
            let fatal = matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGABRT | libc::SIGFPE);
            libc::signal(signal, if fatal { libc::SIG_DFL } else { libc::SIG_IGN });
        }
        libc::prctl(libc::PR_SET_NAME, c"qanat-pump".as_ptr());
        libc::chdir(c"/".as_ptr());
    }
    let last = descriptor::DESCRIPTORS_MAX as c_int;
    let close_run = |first: c_int, end: c_int| {
        if first < end {
            // SAFETY: takes no pointers. Nobody else is in this process.
            unsafe { real::close_range(first as u32, end as u32 - 1, 0) };
        }
    };
    let mut run = 0;
    for other in 0..last {
        let entry = descriptor::get(other);
        // The library's own stay open by themselves.
        if other == fd || other == unix || entry == Entry::Own {
            close_run(run, other);
            run = other + 1;
        } else if entry != Entry::Kernel {
            // SAFETY: takes no pointers.
            unsafe { libc::close(other) };
        }
    }
    close_run(run, c_int::MAX);
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
        // SAFETY: so many writable bytes.
        let count = unsafe { libc::recv(fd, self.bytes.as_mut_ptr().cast(), PIECE, libc::MSG_DONTWAIT) };
        match count {
            1.. => (self.done, self.length) = (0, count as usize),
            0 => self.is_over = true,
            _ => return matches!(real::errno(), libc::EAGAIN | libc::EINTR),
        }
        true
    }

    /// Empties it into `fd`; `false`: that is broken.
    fn drain(&mut self, fd: RawFd) -> bool {
        let rest = self.bytes.get(self.done..self.length).unwrap_or_default();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: so many readable bytes.
        let count = unsafe { libc::send(fd, rest.as_ptr().cast(), rest.len(), flags) };
        if count < 0 {
            return matches!(real::errno(), libc::EAGAIN | libc::EINTR);
        }
        self.done += count as usize;
        true
    }

    /// Tells `fd` of the end, once.
    fn tell_end(&mut self, fd: RawFd) {
        if self.is_over && self.is_empty() && !std::mem::replace(&mut self.is_told, true) {
            // SAFETY: takes no pointers.
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
            // SAFETY: two of them.
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

//! The side of the process that porters work for. Nothing here waits.

use super::process::{
    self, ACCEPTED, BURY, BUSY, DONE, FILES_MAX, HELLO, Order, RIGHTS_MAX, Said, WANT_MEMORY, WANT_NOTHING,
    WANT_SOCKET, give, take,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes of orders that wait for a porter, descriptors not counted.
const QUEUE_BYTES: usize = 256 * 1_024;

/// Where porters come from: a process that was forked before there was anything to be closed in it. Porters end when their
/// [`Porter`] is dropped, the lodge with this.
#[derive(Debug)]
pub struct Lodge {
    line: OwnedFd,
}

/// A process that receives descriptors for this one, and closes them.
#[derive(Debug)]
pub struct Porter {
    line: OwnedFd,
    /// `None`: it has not said yet which process it is.
    process: Option<OwnedFd>,
}

/// What a request takes beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing: whatever comes is refused.
    Nothing,
    /// One memory file, or two.
    Memory,
    /// One Unix socket, as proof that the sender has it.
    Socket,
}

/// What was sent.
#[derive(Debug)]
pub enum Sent {
    /// Memory files. The porter keeps copies until it is told [`done`](Porter::done), so that none is closed last here.
    Memory(Vec<OwnedFd>),
    /// A Unix socket with this inode and cookie.
    Socket {
        /// Of its file.
        inode: u64,
        /// `SO_COOKIE`.
        cookie: u64,
    },
    /// Not what was wanted: so many descriptors.
    Other(u8),
    /// It keeps as many memory files as it can.
    Busy,
}

/// What a porter has received.
#[derive(Debug)]
pub struct Delivery {
    /// The number it was asked with.
    pub number: u64,
    /// What came.
    pub sent: Sent,
}

pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

impl Lodge {
    /// Forks it. Best done early: before there is memory that would be copied.
    ///
    /// # Errors
    /// What the system says.
    pub fn open() -> io::Result<Lodge> {
        let (line, its) = pair()?;
        process::start(its.as_raw_fd()).map_err(io::Error::from_raw_os_error)?;
        Ok(Lodge { line })
    }

    /// A new porter. Orders given before it runs wait for it.
    ///
    /// # Errors
    /// What the system says; `EPIPE`: the lodge is gone.
    pub fn porter(&self) -> io::Result<Porter> {
        let (line, its) = pair()?;
        // If this fails, fewer orders can wait.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&line, QUEUE_BYTES);
        give(self.line.as_raw_fd(), &[1], &[its.as_raw_fd()], libc::MSG_DONTWAIT)
            .map_err(io::Error::from_raw_os_error)?;
        Ok(Porter { line, process: None })
    }
}

/// Readable when the porter has something to say, or has ended.
impl AsFd for Porter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

impl Porter {
    fn order(&self, what: u8, number: u64, beside: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut order = Order { number, what, pad: [0; 7] };
        let mut rights = [-1; 1];
        rights.iter_mut().zip(beside).for_each(|(place, fd)| *place = fd.as_raw_fd());
        let rights = rights.get(..beside.len().min(1)).unwrap_or(&[]);
        give(self.line.as_raw_fd(), order.bytes(), rights, libc::MSG_DONTWAIT).map_err(io::Error::from_raw_os_error)
    }

    /// Has it receive the next message of `socket`, whose text is of no interest, and say what came beside it.
    ///
    /// # Errors
    /// `EAGAIN`: it has more to do than it can note; `EPIPE`: it is gone.
    pub fn receive(&self, socket: BorrowedFd<'_>, wanted: Wanted, number: u64) -> io::Result<()> {
        let what = match wanted {
            Wanted::Nothing => WANT_NOTHING,
            Wanted::Memory => WANT_MEMORY,
            Wanted::Socket => WANT_SOCKET,
        };
        self.order(what, number, &[socket])
    }

    /// Memory files that came with this number are of no use any more; those here have been closed.
    ///
    /// # Errors
    /// As [`receive`](Porter::receive).
    pub fn done(&self, number: u64) -> io::Result<()> {
        self.order(DONE, number, &[])
    }

    /// Has it close `fd` when it comes to it, as the last to have it.
    ///
    /// # Errors
    /// It can't be told: the descriptor is given back.
    pub fn bury(&self, fd: OwnedFd) -> Result<(), OwnedFd> {
        if self.order(BURY, 0, &[fd.as_fd()]).is_err() {
            return Err(fd);
        }
        drop(fd);
        // It keeps the descriptor until it is told something else, so that it isn't closed last here. If there is no room for
        // this, what is told next serves as well.
        let _ = self.order(DONE, 0, &[]);
        Ok(())
    }

    /// What it has received next; `None`: nothing yet.
    ///
    /// # Errors
    /// It has ended.
    pub fn hear(&mut self) -> io::Result<Option<Delivery>> {
        loop {
            let (mut said, mut rights) = (Said::default(), [-1; RIGHTS_MAX]);
            let count = match take(self.line.as_raw_fd(), said.bytes(), &mut rights, libc::MSG_DONTWAIT) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, count)) => count,
                Err(libc::EAGAIN) => return Ok(None),
                Err(libc::EINTR) => continue,
                Err(error) => return Err(io::Error::from_raw_os_error(error)),
            };
            // SAFETY: received just now, and nobody else's.
            let files: Vec<OwnedFd> =
                rights.iter().take(count.min(FILES_MAX)).map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) }).collect();
            if said.what == HELLO {
                self.process = self.pidfd(said.number);
                continue;
            }
            let sent = match said.what {
                ACCEPTED if !files.is_empty() => Sent::Memory(files),
                ACCEPTED => Sent::Socket { inode: said.inode, cookie: said.cookie },
                BUSY => Sent::Busy,
                _ => Sent::Other(said.count),
            };
            return Ok(Some(Delivery { number: said.number, sent }));
        }
    }

    fn pidfd(&self, process: u64) -> Option<OwnedFd> {
        let process = Pid::from_raw(i32::try_from(process).ok()?)?;
        let fd = rustix::process::pidfd_open(process, PidfdFlags::empty()).ok()?;
        // As long as its line is open the process lives, and the number is its own.
        let mut looked = [PollFd::new(&self.line, PollFlags::empty())];
        rustix::event::poll(&mut looked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
        (!looked[0].revents().contains(PollFlags::HUP)).then_some(fd)
    }

    /// Kills it: what it waits for it then closes without waiting, as far as the kernel can. Whether it was told; it is gone when
    /// [`hear`](Porter::hear) says so.
    pub fn kill(&self) -> bool {
        let Some(process) = &self.process else { return false };
        rustix::process::pidfd_send_signal(process, Signal::KILL).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{peer_groups, refuse_rights};
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    fn heard(porter: &mut Porter) -> Delivery {
        loop {
            if let Some(delivery) = porter.hear().expect("it lives") {
                return delivery;
            }
            let mut looked = libc::pollfd { fd: porter.line.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one writable entry.
            unsafe { libc::poll(&raw mut looked, 1, 10_000) };
        }
    }

    fn memory(length: i64) -> OwnedFd {
        // SAFETY: a constant string; the descriptor is nobody else's.
        unsafe {
            let fd = OwnedFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC));
            assert_eq!(libc::ftruncate(fd.as_raw_fd(), length), 0);
            fd
        }
    }

    /// A socket that takes its time to be closed: there is something to be sent, and its peer takes nothing.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut socket = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let (peer, _) = listener.accept().expect("a peer");
        socket.set_nonblocking(true).expect("flags");
        while socket.write(&[0; 65_536]).is_ok() {}
        let linger = libc::linger { l_onoff: 1, l_linger: 3_600 };
        // SAFETY: the option's value outlives the call.
        unsafe {
            let (value, length) = (&raw const linger, size_of::<libc::linger>() as libc::socklen_t);
            assert_eq!(
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value.cast(), length),
                0
            );
            // A description that waits, as the close does.
            assert_eq!(libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, libc::O_RDWR), 0);
        }
        (socket, peer)
    }

    fn send(to: &OwnedFd, beside: &[BorrowedFd<'_>]) {
        let rights: Vec<i32> = beside.iter().map(AsRawFd::as_raw_fd).collect();
        give(to.as_raw_fd(), b"text", &rights, 0).expect("sent");
    }

    #[test]
    fn what_is_wanted_is_told_from_everything_else() {
        let lodge = Lodge::open().expect("a lodge");
        let mut porter = lodge.porter().expect("a porter");
        let (ours, theirs) = pair().expect("a pair");
        let file = memory(4_096);
        let null = std::fs::File::open("/dev/null").expect("a file");
        send(&theirs, &[file.as_fd()]);
        porter.receive(ours.as_fd(), Wanted::Memory, 7).expect("ordered");
        let Delivery { number: 7, sent: Sent::Memory(files) } = heard(&mut porter) else { panic!("a memory file") };
        assert_eq!(files.len(), 1);
        drop(files);
        porter.done(7).expect("ordered");
        send(&theirs, &[theirs.as_fd()]);
        porter.receive(ours.as_fd(), Wanted::Socket, 8).expect("ordered");
        let Sent::Socket { inode, cookie } = heard(&mut porter).sent else { panic!("a socket") };
        assert!(inode > 0 && cookie > 0);
        for (wanted, beside) in [
            (Wanted::Memory, vec![null.as_fd()]),
            (Wanted::Memory, vec![file.as_fd(), null.as_fd()]),
            (Wanted::Memory, vec![file.as_fd(); 3]),
            (Wanted::Memory, vec![]),
            (Wanted::Memory, vec![theirs.as_fd()]),
            (Wanted::Socket, vec![file.as_fd()]),
            (Wanted::Socket, vec![theirs.as_fd(), theirs.as_fd()]),
            (Wanted::Nothing, vec![file.as_fd()]),
            (Wanted::Nothing, vec![null.as_fd(); RIGHTS_MAX]),
        ] {
            send(&theirs, &beside);
            porter.receive(ours.as_fd(), wanted, 9).expect("ordered");
            let sent = heard(&mut porter).sent;
            assert!(matches!(sent, Sent::Other(count) if count as usize == beside.len()), "{wanted:?}: {sent:?}");
        }
    }

    #[test]
    fn one_that_is_kept_waiting_keeps_nobody_else_waiting() {
        let lodge = Lodge::open().expect("a lodge");
        let (mut stuck, mut other) = (lodge.porter().expect("a porter"), lodge.porter().expect("another"));
        let (ours, theirs) = pair().expect("a pair");
        let (socket, _peer) = lingering();
        send(&theirs, &[socket.as_fd()]);
        drop(socket);
        stuck.receive(ours.as_fd(), Wanted::Memory, 1).expect("ordered");
        assert!(matches!(heard(&mut stuck).sent, Sent::Other(1)), "it answers before it closes");
        send(&theirs, &[theirs.as_fd()]);
        stuck.receive(ours.as_fd(), Wanted::Socket, 2).expect("ordered");
        std::thread::sleep(Duration::from_millis(100));
        assert!(stuck.hear().expect("it lives").is_none(), "it waits for the socket to be closed");
        let (our, their) = pair().expect("a pair");
        send(&their, &[their.as_fd()]);
        other.receive(our.as_fd(), Wanted::Socket, 3).expect("ordered");
        assert!(matches!(heard(&mut other).sent, Sent::Socket { .. }), "another goes on");
        // A dying process does not linger.
        assert!(stuck.kill());
        while stuck.hear().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_socket_that_takes_none_is_sent_none() {
        let (ours, theirs) = pair().expect("a pair");
        match refuse_rights(ours.as_fd()) {
            // Before Linux 6.16.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT)),
            Ok(()) => {
                let refused = give(theirs.as_raw_fd(), b"x", &[theirs.as_raw_fd()], 0);
                assert_eq!(refused, Err(libc::EPERM));
                assert_eq!(give(theirs.as_raw_fd(), b"x", &[], 0), Ok(()));
            }
        }
        assert!(peer_groups(ours.as_fd()).is_ok());
    }
}

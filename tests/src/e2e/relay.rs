//! Between a daemon and those who ask it.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than the control protocol has in one message.
const BYTES: usize = 1 << 20;
const DESCRIPTORS: usize = 8;

/// Listens where programs look for a daemon. It passes on all that they and the daemon say to each other, with the descriptors beside it.
/// At one request, counted over all connections, it hangs up instead. Its threads end with the test.
#[derive(Debug)]
pub struct Relay {
    requests: Arc<AtomicUsize>,
}

impl Relay {
    /// Listens at `path`, for the daemon that listens at `daemon`. `lost`: how many requests are passed on before the one that is not.
    ///
    /// # Panics
    /// It can't listen there.
    pub fn new(path: &Path, daemon: PathBuf, lost: usize) -> Relay {
        let _ = std::fs::remove_file(path);
        let listener = seqpacket();
        bind(&listener, &SocketAddrUnix::new(path).expect("a short path")).expect("a place for a socket");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, open).expect("its mode");
        listen(&listener, 64).expect("a listener");
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        std::thread::spawn(move || {
            while let Ok(program) = accept_with(&listener, SocketFlags::CLOEXEC) {
                let (daemon, count) = (daemon.clone(), Arc::clone(&count));
                std::thread::spawn(move || pass_on(&program, &daemon, &count, lost));
            }
        });
        Relay { requests }
    }

    /// Requests so far, with the one that was not passed on.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

fn seqpacket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket")
}

/// One conversation, until either side ends it.
fn pass_on(program: &OwnedFd, daemon: &Path, count: &AtomicUsize, lost: usize) {
    let beyond = seqpacket();
    if connect(&beyond, &SocketAddrUnix::new(daemon).expect("a short path")).is_err() {
        return;
    }
    let mut buffer = vec![0; BYTES];
    loop {
        let mut both = [PollFd::new(program, PollFlags::IN), PollFd::new(&beyond, PollFlags::IN)];
        if poll(&mut both, None).is_err() {
            return;
        }
        let [asks, answers] = both.map(|fd| !fd.revents().is_empty());
        let goes_on = if asks {
            message(program, &beyond, &mut buffer, || count.fetch_add(1, Ordering::Relaxed) != lost)
        } else {
            !answers || message(&beyond, program, &mut buffer, || true)
        };
        if !goes_on {
            return;
        }
    }
}

/// Takes one message, and passes it on if `may_pass` says so. False at the end of the conversation.
fn message(from: &impl AsFd, to: &impl AsFd, buffer: &mut [u8], may_pass: impl FnOnce() -> bool) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let taken = recvmsg(from, &mut [IoSliceMut::new(buffer)], &mut beside, RecvFlags::CMSG_CLOEXEC);
    let length = taken.map_or(0, |taken| taken.bytes);
    if length == 0 || !may_pass() {
        return false;
    }
    let mut rights: Vec<OwnedFd> = Vec::new();
    for part in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            rights.extend(some);
        }
    }
    let rights: Vec<_> = rights.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    assert!(rights.is_empty() || beside.push(SendAncillaryMessage::ScmRights(&rights)), "room for descriptors");
    let bytes = buffer.get(..length).unwrap_or_default();
    sendmsg(to, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL).is_ok()
}

//! What clients send beside their words: descriptors of all kinds, in messages of all kinds, to a socket that is looked at, read by
//! a porter, and closed, as the daemon does it. A model knows what must come of each; afterwards every descriptor is gone, and
//! nobody has waited.
//!
//! An input is a list of steps, two bytes each: what is sent or done, and with what.

use qanat_control::protocol::{Fault, Request, glance};
use qanat_nic::foreign::{Lodge, Porter, Sent, Wanted, part, skip};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, memfd_create, open};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, sendmsg,
    shutdown, socketpair, sockopt,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

/// Steps of one input.
const STEPS_MAX: usize = 24;
/// A porter that has not answered by then is kept waiting by what it was sent.
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

thread_local! {
    /// Of this thread: it goes from input to input until something keeps it waiting.
    static PORTER: RefCell<Option<Porter>> = const { RefCell::new(None) };
}

fn lodge() -> &'static Lodge {
    static LODGE: OnceLock<Lodge> = OnceLock::new();
    LODGE.get_or_init(|| Lodge::open().expect("a lodge"))
}

/// What the model knows of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    UnixSocket,
    Other,
}

/// Whoever closes it last waits; ended by its peer.
struct Weapon {
    _peer: TcpStream,
}

/// Something to send, as the number says.
fn thing(number: u8, weapons: &mut Vec<Weapon>) -> (Kind, OwnedFd) {
    let other = |fd: OwnedFd| (Kind::Other, fd);
    let pair = || socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a pair");
    let memory = |flags| memfd_create("fuzz", flags | MemfdFlags::CLOEXEC).expect("a memory file");
    match number % 12 {
        0 => (Kind::Memory, memory(MemfdFlags::empty())),
        1 => {
            let file = memory(MemfdFlags::ALLOW_SEALING);
            fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("seals");
            (Kind::Memory, file)
        }
        2 => (Kind::UnixSocket, pair().0),
        3 => other(eventfd(1, EventfdFlags::CLOEXEC).expect("an eventfd")),
        4 => other(open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("a path")),
        5 => other(rustix::pipe::pipe().expect("a pipe").0),
        6 => {
            // Instances that watch each other.
            let (one, two) = (epoll::create(epoll::CreateFlags::CLOEXEC), epoll::create(epoll::CreateFlags::CLOEXEC));
            let (one, two) = (one.expect("an epoll"), two.expect("an epoll"));
            epoll::add(&one, &two, epoll::EventData::new_u64(0), epoll::EventFlags::IN).expect("watched");
            let _ = epoll::add(&two, &one, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
            other(one)
        }
        7 => other(UdpSocket::bind("127.0.0.1:0").expect("a socket").into()),
        8 => {
            let me = rustix::process::getpid();
            other(rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).expect("a process"))
        }
        9 => other(TcpListener::bind("127.0.0.1:0").expect("a listener").into()),
        10 => {
            let (socket, weapon) = lingering();
            weapons.push(weapon);
            other(socket.into())
        }
        _ => other(std::fs::File::open("/dev/zero").expect("a file").into()),
    }
}

fn lingering() -> (TcpStream, Weapon) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut socket = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    let (peer, _) = listener.accept().expect("a peer");
    sockopt::set_socket_send_buffer_size(&socket, 8_192).expect("a small buffer");
    sockopt::set_socket_recv_buffer_size(&peer, 4_096).expect("a small buffer");
    socket.set_nonblocking(true).expect("flags");
    while socket.write(&[0; 65_536]).is_ok() {}
    socket.set_nonblocking(false).expect("flags");
    sockopt::set_socket_linger(&socket, Some(Duration::from_secs(3_600))).expect("to linger");
    // Whoever waits goes on when the peer is dropped: what it has not read resets the connection.
    (socket, Weapon { _peer: peer })
}

fn text(number: u8) -> &'static [u8] {
    match number % 6 {
        0 => br#"{"version":3,"body":"status"}"#,
        1 => br#"{"version":3,"body":"reclaim"}"#,
        2 => br#"{"version":1,"body":"status"}"#,
        3 => b"",
        4 => b"\xff",
        _ => b"{\"version\":3,\"body\":{\"open-queue\":{\"queue\":0,\"frame_size\":2048,\"receive_frames\":1,\"transmit_frames\":1,\"prepared_frames\":0}}}",
    }
}

fn send(to: &OwnedFd, text: &[u8], beside: &[OwnedFd]) -> bool {
    let fds: Vec<BorrowedFd<'_>> = beside.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&fds)), "room");
    sendmsg(to, &[IoSlice::new(text)], &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_ok()
}

fn heard(porter: &mut Porter) -> Sent {
    loop {
        if let Some(delivery) = porter.hear().expect("the porter lives") {
            return delivery.sent;
        }
        let mut fds = [PollFd::new(porter, PollFlags::IN)];
        assert_eq!(poll(&mut fds, Some(&PATIENCE)), Ok(1), "the porter answers before it closes anything");
    }
}

/// A message under way.
struct Message {
    text: &'static [u8],
    kinds: Vec<Kind>,
}

fn check(sent: &Sent, wanted: Wanted, kinds: &[Kind]) {
    let is_right = match (wanted, sent) {
        (Wanted::Memory, Sent::Memory(files)) => {
            files.len() == kinds.len() && kinds.len() <= 2 && kinds.iter().all(|kind| *kind == Kind::Memory)
        }
        (Wanted::Socket, Sent::Socket { inode, cookie }) => *kinds == [Kind::UnixSocket] && *inode > 0 && *cookie > 0,
        (Wanted::Memory, Sent::Other(_)) => {
            !(1..=2).contains(&kinds.len()) || kinds.iter().any(|kind| *kind != Kind::Memory)
        }
        (Wanted::Socket, Sent::Other(_)) => *kinds != [Kind::UnixSocket],
        (Wanted::Nothing, Sent::Other(count)) => usize::from(*count) == kinds.len(),
        _ => false,
    };
    assert!(is_right, "{wanted:?} of {} descriptors: {sent:?}", kinds.len());
}

fn open_here() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// The input as what a client sends.
pub fn descriptors(data: &[u8]) {
    let mut porter = PORTER.take().unwrap_or_else(|| lodge().porter().expect("a porter"));
    // What it has to say first is heard before descriptors are counted.
    let (own, its) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
    assert!(send(&its, b"x", &[]));
    porter.receive(own.as_fd(), Wanted::Nothing, 0).expect("ordered");
    check(&heard(&mut porter), Wanted::Nothing, &[]);
    drop((own, its));
    let before = open_here();
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
    let (mut under_way, mut weapons, mut is_kept_waiting) = (VecDeque::<Message>::new(), Vec::new(), false);
    for (number, step) in data.chunks_exact(2).take(STEPS_MAX).enumerate() {
        let [what, which] = [step[0], step[1]];
        match what % 4 {
            0 | 1 => {
                let count = usize::from(what >> 2) % 7;
                let things: Vec<(Kind, OwnedFd)> =
                    (0..count).map(|more| thing(which.wrapping_add(more as u8 * 5), &mut weapons)).collect();
                let (kinds, fds): (Vec<Kind>, Vec<OwnedFd>) = things.into_iter().unzip();
                let text = text(which >> 4);
                if send(&theirs, text, &fds) {
                    under_way.push_back(Message { text, kinds });
                }
                // Nobody here is to close what makes wait: another does, who has it when this is gone.
                fds.into_iter().for_each(|fd| porter.bury(fd).expect("buried"));
                is_kept_waiting |= !weapons.is_empty();
            }
            _ => take_one(&ours, &mut under_way, &mut porter, (number as u64 + 1, which), is_kept_waiting),
        }
        if is_kept_waiting {
            break;
        }
    }
    let has_rights = under_way.iter().any(|message| !message.kinds.is_empty());
    if what_is_last(data) {
        let _ = shutdown(&theirs, Shutdown::Write);
    }
    assert_eq!(part(ours.as_fd()), !has_rights, "a queue with descriptors is told from others");
    porter.bury(ours).expect("buried");
    drop(theirs);
    assert_eq!(open_here() - weapons.len(), before, "all descriptors are gone");
    if !is_kept_waiting {
        PORTER.set(Some(porter));
    }
    // Those who wait go on, and the porter ends when it has closed all.
}

fn what_is_last(data: &[u8]) -> bool {
    data.last().is_some_and(|byte| byte & 1 == 1)
}

/// Looks at the next message, and has it received.
fn take_one(
    ours: &OwnedFd,
    under_way: &mut VecDeque<Message>,
    porter: &mut Porter,
    (number, which): (u64, u8),
    is_kept_waiting: bool,
) {
    let mut buffer = [0; 4_096];
    let seen = glance::<Request>(ours.as_fd(), &mut buffer);
    let Some(message) = under_way.front() else {
        return assert!(matches!(seen, Err(Fault::Empty)), "nothing is there");
    };
    match seen {
        Ok(seen) => assert_eq!(seen.has_rights, !message.kinds.is_empty(), "descriptors are seen where they are"),
        // One without bytes and descriptors reads as the end.
        Err(Fault::Closed) => assert!(message.text.is_empty() && message.kinds.is_empty()),
        Err(fault) => panic!("{fault}"),
    }
    if message.kinds.is_empty() {
        skip(ours.as_fd());
    } else if !is_kept_waiting {
        let wanted = [Wanted::Nothing, Wanted::Memory, Wanted::Socket][usize::from(which) % 3];
        porter.receive(ours.as_fd(), wanted, number).expect("ordered");
        let sent = heard(porter);
        check(&sent, wanted, &message.kinds);
        if let Sent::Memory(files) = sent {
            drop(files);
            porter.done(number).expect("ordered");
        }
    }
    under_way.pop_front();
}

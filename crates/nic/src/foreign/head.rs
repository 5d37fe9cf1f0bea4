//! What waits at the head of a socket's queue, without receiving it: so descriptors beside it stay where they are.

use super::process::{Space, errno};
use rustix::net::{RecvFlags, Shutdown};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages that are thrown away before a socket is closed at most: more than a queue holds.
const THROWN_AWAY_MAX: usize = 4_096;

/// The head of a socket's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Nothing is there now.
    Nothing,
    /// The other side has closed.
    End,
    /// A message.
    Message {
        /// Bytes of it that the buffer took.
        bytes: usize,
        /// It has more.
        is_longer: bool,
        /// There are descriptors beside it.
        has_rights: bool,
    },
}

/// Looks at the next message of a `SOCK_SEQPACKET` socket, which stays where it is. Does not wait. A message without bytes and
/// without descriptors reads as the end does.
///
/// # Errors
/// What `recvmsg` says.
pub fn head(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Head> {
    loop {
        return match peek(socket, buffer, false) {
            Ok(Peeked { bytes: 0, is_cut: false, .. }) => Ok(Head::End),
            Ok(Peeked { bytes, is_longer, is_cut: has_rights, .. }) => {
                Ok(Head::Message { bytes, is_longer, has_rights })
            }
            Err(libc::EAGAIN) => Ok(Head::Nothing),
            Err(libc::EINTR) => continue,
            Err(libc::ECONNRESET | libc::ENOTCONN) => Ok(Head::End),
            Err(error) => Err(io::Error::from_raw_os_error(error)),
        };
    }
}

/// Throws the next message away. Not for one that has descriptors beside it: they would be closed here.
pub fn skip(socket: BorrowedFd<'_>) {
    let _ = rustix::net::recv(socket, &mut [0u8; 1], RecvFlags::DONTWAIT);
}

/// Ends the conversation on a Unix socket that nobody else reads, and throws away what nobody has read; whether it can be closed
/// here: false if descriptors wait in its queue, which would be closed with it.
pub fn part(socket: BorrowedFd<'_>) -> bool {
    // With every message comes its sender, so that one without bytes is told from the end.
    let _ = rustix::net::sockopt::set_socket_passcred(socket, true);
    // From here on nothing is added to the queue.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
    for _ in 0..THROWN_AWAY_MAX {
        match peek(socket, &mut [0; 1], true) {
            Ok(Peeked { bytes: 0, is_cut: false, says_who: false, .. }) => return true,
            Ok(Peeked { is_cut: true, .. }) => return false,
            Ok(_) => skip(socket),
            // Said once.
            Err(libc::EINTR | libc::ECONNRESET) => {}
            Err(_) => return false,
        }
    }
    false
}

struct Peeked {
    bytes: usize,
    is_longer: bool,
    /// There was no room for something beside it.
    is_cut: bool,
    says_who: bool,
}

fn peek(socket: BorrowedFd<'_>, buffer: &mut [u8], who: bool) -> Result<Peeked, i32> {
    let mut space = Space::new();
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: of the header's type all zeros are a value; what it points to outlives the call. Of a message that is only looked
    // at the kernel closes nothing: what it has no room for is still in the queue.
    let (bytes, header) = unsafe {
        let mut header: libc::msghdr = MaybeUninit::zeroed().assume_init();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        if who {
            // For the sender, and for nothing else.
            header.msg_control = (&raw mut space).cast();
            header.msg_controllen = libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) as _;
        }
        (libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_PEEK | libc::MSG_DONTWAIT), header)
    };
    let bytes = usize::try_from(bytes).map_err(|_| errno())?;
    Ok(Peeked {
        bytes,
        is_longer: header.msg_flags & libc::MSG_TRUNC != 0,
        is_cut: header.msg_flags & libc::MSG_CTRUNC != 0,
        says_who: who && header.msg_controllen > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::porter::pair;
    use super::super::process::give;
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_head_is_told_and_stays() {
        let (ours, theirs) = pair().expect("a pair");
        let mut buffer = [0; 8];
        assert_eq!(head(ours.as_fd(), &mut buffer).unwrap(), Head::Nothing);
        give(theirs.as_raw_fd(), b"plain", &[], 0).unwrap();
        give(theirs.as_raw_fd(), b"longer than eight", &[theirs.as_raw_fd(); 3], 0).unwrap();
        for _ in 0..2 {
            let plain = Head::Message { bytes: 5, is_longer: false, has_rights: false };
            assert_eq!(head(ours.as_fd(), &mut buffer).unwrap(), plain);
        }
        skip(ours.as_fd());
        let with = Head::Message { bytes: 8, is_longer: true, has_rights: true };
        assert_eq!(head(ours.as_fd(), &mut buffer).unwrap(), with);
        skip(ours.as_fd());
        drop(theirs);
        assert_eq!(head(ours.as_fd(), &mut buffer).unwrap(), Head::End);
    }

    #[test]
    fn a_queue_with_descriptors_is_found_behind_anything() {
        let rights = |theirs: &std::os::fd::OwnedFd| vec![theirs.as_raw_fd()];
        for before in [&[][..], &[&b""[..]], &[&b""[..], b"", b"x"], &[&b"text"[..]; 40]] {
            for is_closed in [false, true] {
                let (ours, theirs) = pair().expect("a pair");
                before.iter().for_each(|text| give(theirs.as_raw_fd(), text, &[], 0).unwrap());
                give(theirs.as_raw_fd(), b"", &rights(&theirs), 0).unwrap();
                give(theirs.as_raw_fd(), b"", &[], 0).unwrap();
                let theirs = (!is_closed).then_some(theirs);
                assert!(!part(ours.as_fd()), "{before:?}");
                let Some(theirs) = theirs else { continue };
                assert_eq!(give(theirs.as_raw_fd(), b"x", &[], 0), Err(libc::EPIPE), "nothing is added");
            }
            let (ours, theirs) = pair().expect("a pair");
            before.iter().for_each(|text| give(theirs.as_raw_fd(), text, &[], 0).unwrap());
            assert!(part(ours.as_fd()), "{before:?}");
        }
    }
}

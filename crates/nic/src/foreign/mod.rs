//! Descriptors that others send to a process of ours over Unix sockets.
//!
//! To close a descriptor can take as long as whoever sent it likes: a TCP socket lingers, a file of a FUSE server is flushed,
//! a large memory file is torn down. It happens in the thread that holds the last copy, and the kernel does it too, in the
//! thread that receives: when a message has more descriptors than there is room for, and when a socket is closed in whose
//! queue they wait. So a thread that serves others does none of these:
//!
//! * A socket that expects none takes none: [`refuse_rights`].
//! * Where they are expected, a [`Porter`] receives them: a process for one user that serves nobody else.
//!
//! What is asked of a descriptor before it is accepted, all of it by the porter:
//!
//! | call | why it does not run the file's own code |
//! |---|---|
//! | `fcntl(F_GET_SEALS)` | the kernel compares the file's operations with those of shmem and hugetlbfs; for any other file it says `EINVAL`, for `O_PATH` `EBADF` |
//! | `getsockopt(SO_DOMAIN)` | the kernel compares the file's operations with those of sockets; for any other file it says `ENOTSOCK` |
//! | `getsockopt(SO_COOKIE)`, `fstat` | only on what is a Unix socket by then |
//!
//! `fstat`, `statx`, `fcntl(F_SETFL)`, `ioctl`, `lseek`, `poll`, `read` and `mmap` do run it: a FUSE server answers when it likes.
//! `F_GETFL` and `readlink` of `/proc/self/fd` don't, but say nothing that could be relied on.
//!
//! A memory file that has passed is shmem or hugetlbfs: mapping it and touching its pages waits for memory and nothing else.
//! A `userfaultfd` of the sender's is of the sender's own mappings, and does not see ours. Memory of `memfd_secret` and of
//! `udmabuf` has no seals, and is refused.

mod head;
mod porter;
mod process;

pub use head::{Head, head, part, skip};
pub use porter::{Delivery, Lodge, Porter, Sent, Wanted};

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SO_PASSRIGHTS`, of Linux 6.16 and later; not yet in `libc`.
const SO_PASSRIGHTS: libc::c_int = 83;
/// Groups of a peer at most: the kernel's own limit.
const GROUPS_MAX: usize = 65_536;

/// Has the kernel refuse descriptors that are sent to this Unix socket: the sender is told `EPERM`. Sockets accepted from a
/// listening one inherit it. The process at the other end can't undo it.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.16.
pub fn refuse_rights(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (no, length) = (0 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the option's value is one readable integer, which outlives the call.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, (&raw const no).cast(), length)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Supplementary groups that the peer of a Unix socket had when it connected, as the kernel knows them: nobody is asked by name.
///
/// # Errors
/// What `getsockopt` says.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = libc::socklen_t::try_from(size_of_val(groups.as_slice())).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: so many writable bytes; `gid_t` is `u32`, of which any bytes are a value.
        let got = unsafe {
            let value = groups.as_mut_ptr().cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, value, &raw mut length)
        };
        let count = length as usize / size_of::<u32>();
        if got == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // The kernel says how much room there has to be.
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() || count > GROUPS_MAX {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

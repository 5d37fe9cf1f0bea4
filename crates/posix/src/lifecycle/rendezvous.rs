//! Where programs of one user find each other's keepers: listening sockets in a directory that only this user may use. If anybody could
//! take the name, as with an abstract name, another user could stand in for the keeper or keep everybody out.

use crate::sys::sleep::{readable, sleep};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a keeper to which others connect at the same time may take to accept a connection.
const PATIENCE_TO_CONNECT: Duration = Duration::from_secs(2);

/// How many directories in `/tmp` are tried, as others may have taken the first ones.
const TRIED: u32 = 1_024;

/// How a directory's name in `/tmp` begins; `qanat status` looks there.
const TEMPORARY: &str = "/tmp/qanat-run";

/// This user's directory. `None`: it cannot be made.
fn directory() -> Option<PathBuf> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return own(Path::new("/run/qanat-run").to_owned(), user);
    }
    let session = PathBuf::from(format!("/run/user/{}", user.as_raw()));
    if is_own(&session, user) {
        return own(session.join("qanat-run"), user);
    }
    // Files of other users there cannot be removed.
    (0..TRIED).find_map(|number| own(PathBuf::from(format!("{TEMPORARY}-{}-{number}", user.as_raw())), user))
}

/// Whether `path` is a directory that nobody else may look into.
fn is_own(path: &Path, user: rustix::process::Uid) -> bool {
    rustix::fs::lstat(path).is_ok_and(|file| {
        FileType::from_raw_mode(file.st_mode) == FileType::Directory
            && file.st_uid == user.as_raw()
            && file.st_mode & 0o077 == 0
    })
}

/// `path`, made if it isn't there.
fn own(path: PathBuf, user: rustix::process::Uid) -> Option<PathBuf> {
    match rustix::fs::mkdir(&path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(_) => return None,
    }
    is_own(&path, user).then_some(path)
}

/// The file for `address` in this network namespace.
fn place(address: IpAddr, ending: &str) -> Option<PathBuf> {
    let namespace = rustix::fs::stat("/proc/self/ns/net").ok()?.st_ino;
    Some(directory()?.join(format!("{namespace}-{address}{ending}")))
}

fn unix_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// A connection to the keeper that listens for `address`. `NOENT` or `CONNREFUSED`: none does.
///
/// # Errors
/// What `connect` says.
fn connect(address: IpAddr) -> Result<OwnedFd, Errno> {
    let path = place(address, "").ok_or(Errno::NOENT)?;
    let socket = unix_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(&path)?)?;
    Ok(socket)
}

/// A socket under the name of `address`. `None`: there is no directory for it, or another keeper has the name.
pub(crate) fn bind(address: IpAddr) -> Option<OwnedFd> {
    let path = place(address, "")?;
    let socket = unix_socket().ok()?;
    let name = SocketAddrUnix::new(&path).ok()?;
    if rustix::net::bind(&socket, &name).is_err() {
        // Its keeper has ended, and could not take the file away.
        if connect(address).err() != Some(Errno::CONNREFUSED) {
            return None;
        }
        rustix::fs::unlink(&path).ok()?;
        rustix::net::bind(&socket, &name).ok()?;
    }
    Some(socket)
}

/// Takes the lock of `address`: only its holder may find out whether the address is free or can be shared. It is held while the file is
/// open. `None`: another process holds it.
pub(crate) fn lock_address(address: IpAddr) -> Option<OwnedFd> {
    let path = place(address, ".turn")?;
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Why a keeper can't be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RendezvousError {
    #[error(transparent)]
    System(#[from] Errno),
    #[error("of another user")]
    OtherUser,
}

/// A connection to the keeper of the program that has `address`, of the same user.
///
/// # Errors
/// It does not answer, or it is another user's. That user could change what is shared.
pub(crate) fn connect_to_keeper(address: IpAddr) -> Result<Option<OwnedFd>, RendezvousError> {
    let start = std::time::Instant::now();
    let socket = loop {
        match connect(address) {
            Ok(socket) => break socket,
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
            // Others connect at the same time.
            Err(Errno::AGAIN | Errno::INTR) if start.elapsed() < PATIENCE_TO_CONNECT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error.into()),
        }
    };
    let peer = rustix::net::sockopt::socket_peercred(&socket)?;
    if peer.uid == rustix::process::geteuid() { Ok(Some(socket)) } else { Err(RendezvousError::OtherUser) }
}

/// Asks the keeper of a program that has ended to give up `address`. Returns whether there was such a keeper and it has gone.
pub(crate) fn ask_to_give_up(address: IpAddr, patience: Duration) -> bool {
    let Ok(socket) = connect(address) else { return false };
    // Such a keeper ends without an answer. The keeper of a program that still runs answers with a refusal.
    let _ = rustix::net::send(&socket, b"knock", SendFlags::NOSIGNAL);
    let mut fds = [readable(socket.as_raw_fd())];
    let hears = sleep(&mut fds, Some(patience), std::ptr::null()).is_ok_and(|count| count > 0);
    hears && !rustix::net::recv(&socket, &mut [0; 1], RecvFlags::DONTWAIT).is_ok_and(|(_, count)| count > 0)
}

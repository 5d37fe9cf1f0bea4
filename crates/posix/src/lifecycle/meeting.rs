//! Where programs of one user find each other's keepers: sockets in a directory that is this user's alone. A name that anybody may take,
//! as an abstract one is, would let another user stand in for the keeper, or keep everybody out.

use crate::sys::sleep::{readable, sleep};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a keeper that others knock at may take to hear of who comes.
const PATIENCE_AT_DOOR: Duration = Duration::from_secs(2);

/// Directories looked at in `/tmp`, where others may have taken the first ones.
const TRIED: u32 = 1_024;

/// What is to come before a directory's name in `/tmp`; `qanat status` looks there.
const TEMPORARY: &str = "/tmp/qanat-run";

/// This user's directory; `None`: there is none, and can be none here.
fn directory() -> Option<PathBuf> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return own(Path::new("/run/qanat-run").to_owned(), user);
    }
    let session = PathBuf::from(format!("/run/user/{}", user.as_raw()));
    if is_own(&session, user) {
        return own(session.join("qanat-run"), user);
    }
    // Nobody takes away what is another's there.
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

/// A connection to who listens for `address`; `NOENT` or `CONNREFUSED`: nobody does.
///
/// # Errors
/// What `connect` says.
fn connect(address: IpAddr) -> Result<OwnedFd, Errno> {
    let path = place(address, "").ok_or(Errno::NOENT)?;
    let socket = unix_socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(&path)?)?;
    Ok(socket)
}

/// A socket at which to be found for `address`. `None`: there is no place for it, or another keeper is there.
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

/// The right to look, alone, whether an address is there to be had or shared: as long as it is open. `None`: somebody else has it.
pub(crate) fn turn(address: IpAddr) -> Option<OwnedFd> {
    let path = place(address, ".turn")?;
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// A connection to the keeper of the program that has `address`, of the same user.
///
/// # Errors
/// It does not answer, or is another user's: what is shared with it, it can change.
pub(crate) fn line_to(address: IpAddr) -> Result<Option<OwnedFd>, String> {
    let start = std::time::Instant::now();
    let say = |error: Errno| error.to_string();
    let socket = loop {
        match connect(address) {
            Ok(socket) => break socket,
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(None),
            // Others are at the door.
            Err(Errno::AGAIN | Errno::INTR) if start.elapsed() < PATIENCE_AT_DOOR => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(say(error)),
        }
    };
    let peer = rustix::net::sockopt::socket_peercred(&socket).map_err(say)?;
    if peer.uid == rustix::process::geteuid() { Ok(Some(socket)) } else { Err("of another user".to_owned()) }
}

/// The keeper of a program that has ended, and had `address`, is asked to give it up; whether there was one, and it is gone.
pub(crate) fn succeed(address: IpAddr, patience: Duration) -> bool {
    let Ok(socket) = connect(address) else { return false };
    // It says nothing: it ends. That of a program that has not ended refuses this.
    let _ = rustix::net::send(&socket, b"knock", SendFlags::NOSIGNAL);
    let mut fds = [readable(socket.as_raw_fd())];
    let hears = sleep(&mut fds, Some(patience), std::ptr::null()).is_ok_and(|count| count > 0);
    hears && !rustix::net::recv(&socket, &mut [0; 1], RecvFlags::DONTWAIT).is_ok_and(|(_, count)| count > 0)
}

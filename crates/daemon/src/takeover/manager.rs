//! A service manager (`sd_notify(3)`): it is told when clients find the daemon (`Type=notify`), and its store of descriptors
//! (`FileDescriptorStoreMax=`) keeps the cards' namespace over a crash where a mount does not, in a unit with file systems of its own.
//! When the process becomes its successor, it keeps the namespace itself.

use qanat_nic::link::Namespace;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, sendmsg, socket_with,
};
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Names the descriptor of the cards' namespace to the program that this process becomes.
pub const HEIR: &str = "QANAT_ENDS";
/// The first descriptor a manager hands over.
const FIRST: u32 = 3;
/// Handed over at most.
const DESCRIPTORS_MAX: u32 = 16;

/// Gives a copy of `namespace` to the manager, if there is one; false: there is none.
///
/// # Errors
/// What the system says.
pub(crate) fn keep(namespace: &Namespace) -> io::Result<bool> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(manager) => give(&manager, namespace.as_fd()).map(|()| true),
        None => Ok(false),
    }
}

/// Tells the manager, if there is one, that clients find the daemon now.
///
/// # Errors
/// What the system says.
pub fn tell_ready() -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(manager) => tell(&line_to(&manager)?, b"READY=1", SendAncillaryBuffer::default()),
        None => Ok(()),
    }
}

fn line_to(manager: &OsStr) -> io::Result<OwnedFd> {
    let address = match manager.as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
        _ => SocketAddrUnix::new(manager)?,
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

fn tell(manager: &OwnedFd, text: &[u8], mut beside: SendAncillaryBuffer<'_, '_, '_>) -> io::Result<()> {
    sendmsg(manager, &[IoSlice::new(text)], &mut beside, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn give(manager: &OsStr, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let manager = line_to(manager)?;
    let (mut space, given) = ([MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))], [descriptor]);
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&given));
    // The same name again would be kept twice: what is there is removed first.
    tell(&manager, b"FDSTOREREMOVE=1\nFDNAME=ends", SendAncillaryBuffer::default())?;
    tell(&manager, b"FDSTORE=1\nFDNAME=ends", beside)
}

/// Namespaces among the descriptors this process was started with: by the manager, or by the daemon it was. All are taken, so that
/// no net core inherits one.
pub(crate) fn given_back() -> Vec<Namespace> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0).min(DESCRIPTORS_MAX);
    let all = number(HEIR).into_iter().chain(FIRST..FIRST + count);
    all.filter_map(|descriptor| Namespace::inherited(descriptor).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvFlags, bind, recvmsg};
    use std::io::IoSliceMut;

    #[test]
    fn a_manager_is_told() {
        let path = std::env::temp_dir().join(format!("qanat-manager-{}", std::process::id()));
        let manager = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&manager, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        give(path.as_os_str(), file.as_fd()).unwrap();
        let (mut bytes, mut texts) = ([0; 256], Vec::new());
        for _ in 0..2 {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let got = recvmsg(&manager, &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::empty()).unwrap();
            texts.push((String::from_utf8_lossy(&bytes[..got.bytes]).into_owned(), beside.drain().count()));
        }
        assert_eq!(texts[0], ("FDSTOREREMOVE=1\nFDNAME=ends".to_owned(), 0));
        assert_eq!(texts[1], ("FDSTORE=1\nFDNAME=ends".to_owned(), 1));
        std::fs::remove_file(path).unwrap();
    }
}

//! [`LinkWatch`]: which interfaces of a namespace have changed.

use super::netlink::{self, u16_at, u32_at};
use rustix::net::RecvFlags;
use rustix::net::netlink::SocketAddrNetlink;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Datagrams of one look. A process that changes links without end delays nobody for longer.
const DATAGRAMS_MAX: usize = 64;
/// The kernel's datagrams to a group have one message, of a few kilobytes.
const DATAGRAM_BYTES_MAX: usize = 32 * 1024;
const HEADER: usize = 16;

/// Interfaces that have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkChanges {
    /// Their numbers.
    pub indexes: BTreeSet<u32>,
    /// More than that: all have to be looked at.
    pub are_more: bool,
}

/// A descriptor that is readable when an interface has come, gone or changed, in the namespace it was opened in.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
}

impl LinkWatch {
    /// Of the calling thread's namespace. Queueing disciplines and classifiers count too.
    ///
    /// # Errors
    /// What the system says.
    pub fn open() -> io::Result<LinkWatch> {
        let socket = netlink::open(libc::NETLINK_ROUTE)?;
        let groups = (libc::RTMGRP_LINK | libc::RTMGRP_TC) as u32;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(LinkWatch { socket })
    }

    /// What has changed since the last call; does not wait. What is left tells again that it is there.
    pub fn changes(&self) -> LinkChanges {
        let mut changes = LinkChanges::default();
        let mut buffer = vec![0u8; DATAGRAM_BYTES_MAX];
        for _ in 0..DATAGRAMS_MAX {
            match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => read(buffer.get(..length).unwrap_or(&[]), &mut changes),
                Err(rustix::io::Errno::NOBUFS) => changes.are_more = true,
                Err(_) => break,
            }
        }
        changes
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn read(mut rest: &[u8], changes: &mut LinkChanges) {
    while let Some(length) = u32_at(rest, 0).map(|length| length as usize) {
        let Some(message) = rest.get(..length).filter(|_| length >= HEADER) else {
            changes.are_more = true;
            return;
        };
        // The number of the interface is at the same place in all of them.
        let links = [libc::RTM_NEWLINK, libc::RTM_DELLINK];
        let classifiers = [libc::RTM_DELQDISC, libc::RTM_NEWTFILTER, libc::RTM_DELTFILTER];
        if u16_at(message, 4).is_some_and(|kind| links.contains(&kind) || classifiers.contains(&kind)) {
            changes.indexes.extend(u32_at(message, HEADER + 4));
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_and_garbage_means_all() {
        let message = |kind: u16, index: u32| {
            let mut bytes = 32u32.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 14]);
            bytes.extend(index.to_ne_bytes());
            bytes.extend([0; 8]);
            bytes
        };
        let mut changes = LinkChanges::default();
        let bytes = [message(libc::RTM_NEWLINK, 7), message(libc::RTM_NEWADDR, 8), message(libc::RTM_DELLINK, 9)];
        read(&bytes.concat(), &mut changes);
        assert_eq!((changes.indexes.iter().copied().collect::<Vec<_>>(), changes.are_more), (vec![7, 9], false));
        read(&[200, 0, 0, 0, 1], &mut changes);
        assert!(changes.are_more);
    }
}

//! Network namespaces, held by descriptor.

use crate::base::inherited::inherited_file;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// A network namespace. An anonymous one lives exactly as long as something refers to it: a descriptor, a process, a
/// socket. Clones are the same namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

impl Namespace {
    /// The calling thread's.
    ///
    /// # Errors
    /// What opening `/proc/thread-self/ns/net` says.
    pub fn current() -> io::Result<Namespace> {
        Namespace::open("/proc/thread-self/ns/net")
    }

    /// The one at `path`: `/run/netns/NAME` (made by `ip netns add`) or `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// What opening the file says.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Namespace> {
        // Close-on-exec, as all files of the standard library: a child process must not keep an anonymous one alive.
        Ok(Namespace { fd: Arc::new(File::open(path)?.into()) })
    }

    /// One whose descriptor this process was started with. No program that this process starts gets that descriptor.
    ///
    /// # Errors
    /// There is no such descriptor.
    pub fn inherited(descriptor: u32) -> io::Result<Namespace> {
        Ok(Namespace { fd: Arc::new(inherited_file(descriptor)?.into()) })
    }

    /// A new, empty one without a name: nothing of it outlives this process, however it ends.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_ADMIN.
    pub fn anonymous() -> io::Result<Namespace> {
        let create = || {
            // SAFETY: only the network namespace changes, and only this helper thread's. No memory or descriptor is unshared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Namespace::current()
        };
        on_helper_thread(create)?
    }

    /// Runs `work` on a thread inside the namespace. Sockets made there stay in it and may be used from anywhere.
    ///
    /// # Errors
    /// What `setns` says.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let fd = self.fd.as_fd();
        on_helper_thread(move || {
            enter(fd)?;
            Ok(work())
        })?
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `work` on a thread inside the network namespace `fd`.
///
/// # Errors
/// What `setns` says.
pub fn in_namespace<T: Send>(fd: BorrowedFd<'_>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_helper_thread(move || {
        enter(fd)?;
        Ok(work())
    })?
}

fn enter(fd: BorrowedFd<'_>) -> io::Result<()> {
    // It affects only the calling helper thread.
    Ok(move_into_link_name_space(fd, Some(LinkNameSpaceType::Network))?)
}

/// A thread of its own, so that the caller's namespace never changes, not even on panic.
fn on_helper_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let handle = std::thread::Builder::new().name("qanat-netns".to_owned()).spawn_scoped(scope, work)?;
        handle.join().map_err(|_| io::Error::other("the namespace helper thread panicked"))
    })
}

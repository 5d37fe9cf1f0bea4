//! Both ends' beginning: the socket a master listens on, and how a slave gets to it.

use super::config::MemifConfig;
use super::control;
use super::device::MemifDevice;
use super::error::MemifError;
use super::handshake;
use crate::base::left_socket::bind_in_place;
use rustix::net::SocketFlags;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// A master's socket. Removed when dropped.
#[derive(Debug)]
pub struct MemifListener {
    config: MemifConfig,
    socket: OwnedFd,
}

impl MemifListener {
    /// Listens on the configured socket. One that a program left behind is replaced.
    ///
    /// # Errors
    /// [`MemifError::Occupied`], [`MemifError::Socket`], [`MemifError::Invalid`].
    pub fn bind(config: MemifConfig) -> Result<MemifListener, MemifError> {
        handshake::check_config(&config)?;
        let path = &config.socket;
        let fail = |what, source| MemifError::Socket { path: path.clone(), what, source };
        let address = control::address(path)?;
        let socket = control::new_socket().map_err(|error| fail("make it", error))?;
        let bound = bind_in_place(path, || Ok(rustix::net::bind(&socket, &address)?));
        if bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) && dial(path).is_ok() {
            return Err(MemifError::Occupied { path: path.clone() });
        }
        bound.map_err(|error| fail("bind to it", error))?;
        rustix::net::listen(&socket, 16).map_err(|error| fail("listen on it", error.into()))?;
        Ok(MemifListener { config, socket })
    }

    /// Waits for a slave, at most `timeout`, and shakes hands with it. A listener may accept again and again. A slave that connects is
    /// kept waiting until then.
    ///
    /// # Errors
    /// [`MemifError::Silent`] if no slave came; else what was wrong with the one that came. The caller may accept the next.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<MemifDevice, MemifError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        if !handshake::await_peer(&self.socket, deadline)? {
            return Err(MemifError::Silent);
        }
        let peer = rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let peer = peer.map_err(|error| MemifError::system("accept a memif peer", error.into()))?;
        handshake::greet(peer, &self.config)
    }

    /// A descriptor that polls readable when a slave waits.
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for MemifListener {
    fn drop(&mut self) {
        // Gone already, or not ours any more: nothing to be done.
        let _ = std::fs::remove_file(&self.config.socket);
    }
}

/// A connection to the socket at `path`.
pub(super) fn dial(path: &Path) -> Result<OwnedFd, MemifError> {
    let address = control::address(path)?;
    let fail = |what, source| MemifError::Socket { path: path.to_owned(), what, source };
    let socket = control::new_socket().map_err(|error| fail("make it", error))?;
    rustix::net::connect(&socket, &address).map_err(|error| fail("connect to it", error.into()))?;
    Ok(socket)
}

/// Connects to a master as its slave. While nobody listens, it tries again for `patience`.
///
/// # Errors
/// [`MemifError::Socket`] if there is no master; else what was wrong with it.
pub fn connect(config: &MemifConfig, patience: Duration) -> Result<MemifDevice, MemifError> {
    handshake::check_config(config)?;
    let deadline = Instant::now() + patience;
    loop {
        match dial(&config.socket) {
            Ok(socket) => return handshake::introduce(socket, config),
            Err(MemifError::Socket { source, .. })
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
}

//! Endpoints: the kernel's sockets that a listener or a socket for datagrams has, one for each address.

use super::endpoint::{Endpoint, Owner};
use super::state::Kernel;
use qanat_api::{CommandError, Event, UdpSocketId};
use qanat_nic::Time;
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A listener that could not accept, because there are no descriptors or no memory, tries again after so long.
const REST: Duration = Duration::from_millis(100);
/// The same of whoever finds no frame when the turn ends: sends that are under way have them.
const FRAMES_REST: Duration = Duration::from_millis(1);

fn refusal(error: &io::Error) -> CommandError {
    match Errno::from_io_error(error) {
        Some(Errno::ADDRINUSE) => CommandError::InUse,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => CommandError::Full,
        _ => CommandError::Unreachable,
    }
}

impl Kernel {
    /// Sockets for all addresses that are meant by one of the service's.
    pub(super) fn open_endpoints(
        &mut self,
        is_stream: bool,
        local: SocketAddr,
        backlog: usize,
    ) -> Result<Vec<(OwnedFd, SocketAddr)>, CommandError> {
        let addresses = self.options.meant_by(local);
        let open = |address: SocketAddr| {
            let socket = self.prepared.take(is_stream, address, backlog).map_err(|error| refusal(&error))?;
            Ok((socket, address))
        };
        addresses.into_iter().map(open).collect()
    }

    /// They are used from now on.
    pub(super) fn add_endpoints(&mut self, sockets: Vec<(OwnedFd, SocketAddr)>, owner: Owner) -> Vec<u32> {
        let add = |(socket, local)| {
            let endpoint =
                Endpoint { socket, local, owner, is_armed: false, is_closing: false, rests_until: Some(Time::ZERO) };
            self.endpoints.add(endpoint).0
        };
        let endpoints: Vec<u32> = sockets.into_iter().map(add).collect();
        endpoints.iter().for_each(|number| self.arm(*number));
        endpoints
    }

    fn arm(&mut self, number: u32) {
        let Some(endpoint) = self.endpoints.at(number) else { return };
        (endpoint.is_armed, endpoint.rests_until) = (true, None);
        match endpoint.owner {
            Owner::Listener(_) => self.ring.accept(endpoint.socket.as_fd(), number),
            Owner::Datagrams(_) => self.ring.receive_datagrams(endpoint.socket.as_fd(), number),
        }
    }

    /// They are used no more.
    pub(super) fn close_endpoints(&mut self, numbers: Vec<u32>) {
        for number in numbers {
            let Some(endpoint) = self.endpoints.at(number) else { continue };
            endpoint.is_closing = true;
            if endpoint.is_armed {
                self.ring.cancel(endpoint.socket.as_fd());
            } else {
                self.remove_endpoint(number);
            }
        }
    }

    fn remove_endpoint(&mut self, number: u32) {
        if let Some(endpoint) = self.endpoints.remove(number) {
            self.ring.close(endpoint.socket);
        }
    }

    /// The kernel accepts or receives no more at an endpoint, because of `error`, if there is one.
    fn disarmed(&mut self, number: u32, error: Option<Errno>) {
        let now = self.now;
        let Some(endpoint) = self.endpoints.at(number) else { return };
        endpoint.is_armed = false;
        if endpoint.is_closing {
            return self.remove_endpoint(number);
        }
        let is_for_datagrams = matches!(endpoint.owner, Owner::Datagrams(_));
        endpoint.rests_until = match error {
            // There were more datagrams in one turn than frames. Some are home when the turn ends.
            Some(Errno::NOBUFS) if is_for_datagrams => Some(now),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Some(now + REST),
            _ => return self.arm(number),
        };
    }

    pub(super) fn accepted(&mut self, number: u32, outcome: Result<OwnedFd, Errno>, goes_on: bool) {
        let owner = self.endpoints.at(number).filter(|endpoint| !endpoint.is_closing).map(|endpoint| endpoint.owner);
        let error = match outcome {
            Ok(socket) => {
                match owner {
                    Some(Owner::Listener(listener)) => {
                        if let Some((connection, peer)) = self.admit(socket) {
                            self.events.push_back(Event::Accepted { connection, listener, peer });
                        }
                    }
                    _ => self.ring.close(socket),
                }
                None
            }
            Err(error) => {
                self.figures.accept_failures += u64::from(error != Errno::CANCELED);
                Some(error)
            }
        };
        if !goes_on {
            self.disarmed(number, error);
        }
    }

    /// The socket for datagrams that an endpoint is of, and whether it has several addresses.
    pub(super) fn socket_of(&mut self, number: u32) -> Option<(UdpSocketId, bool)> {
        let endpoint = self.endpoints.at(number).filter(|endpoint| !endpoint.is_closing)?;
        let is_any = endpoint.local.ip().is_unspecified();
        let Owner::Datagrams(socket) = endpoint.owner else { return None };
        let endpoints = self.sockets.get((socket.index(), socket.generation()))?;
        Some((socket, is_any || endpoints.len() > 1))
    }

    /// Datagrams are received at an endpoint no more.
    pub(super) fn datagrams_ended(&mut self, number: u32, error: Option<Errno>) {
        self.disarmed(number, error);
    }

    /// Endpoints that have rested.
    pub(super) fn wake_endpoints(&mut self) {
        if self.next_endpoint_wake().is_none_or(|at| at > self.now) {
            return;
        }
        let rested = |endpoint: &Endpoint| endpoint.rests_until.is_some_and(|at| at <= self.now);
        let numbers: Vec<u32> = self.endpoints.each().filter(|(_, it)| rested(it)).map(|(number, _)| number).collect();
        for number in numbers {
            match self.endpoints.at(number) {
                Some(endpoint) if self.ring.frames_free() == 0 => endpoint.rests_until = Some(self.now + FRAMES_REST),
                _ => self.arm(number),
            }
        }
    }

    /// When the next one has.
    pub(super) fn next_endpoint_wake(&self) -> Option<Time> {
        self.endpoints.each().filter_map(|(_, endpoint)| endpoint.rests_until).min()
    }
}

//! The start, the end and the orders of net cores.

use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::log::Event;
use crate::net_cores::core::{FAILURES_MAX, NetCore, Standing, Starter};
use qanat_control::net_core::{ORDER_BYTES_MAX, Order};
use qanat_control::protocol::send;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// One that has lived for so long has started.
const STARTED: Duration = Duration::from_secs(2);
/// How long one that has been killed may keep its cards: the kernel tells of their end when it ends.
const DYING_PATIENCE: Duration = Duration::from_secs(1);

impl Daemon {
    /// Starts the net cores of the policy.
    ///
    /// # Errors
    /// What the system says.
    pub fn start_net_cores(&mut self, starter: Starter) -> Result<(), DaemonError> {
        self.net_cores.starter = Some(starter);
        for processor in self.policy.net.cores.clone() {
            self.net_cores.cores.push(NetCore::new(processor));
            self.start_net_core(self.net_cores.cores.len() - 1)?;
        }
        Ok(())
    }

    pub(crate) fn start_net_core(&mut self, index: usize) -> Result<(), DaemonError> {
        let Some(core) = self.net_cores.cores.get_mut(index) else { return Ok(()) };
        let Some(starter) = &self.net_cores.starter else { return Ok(()) };
        let failed = |error: Errno| say("start a net core", error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed)?;
        // Orders wait here while it starts.
        sockopt::set_socket_send_buffer_size(&ours, 64 * ORDER_BYTES_MAX).map_err(failed)?;
        let watched = ours.try_clone().map_err(|error| say("start a net core", error))?;
        core.started = Instant::now();
        let child = starter(core.processor, its).map_err(|error| say("start a net core", error))?;
        let peer = Peer::new(0, 0, i32::try_from(child.id()).unwrap_or(0));
        core.running = Some((child, ours));
        let text = format!("processor {}", core.processor);
        self.watch(watched, Role::NetCore(index), peer, None)?;
        (self.log)(&Event::new("net-core-start", "done", text).by(peer));
        Ok(())
    }

    /// Handles a dying net core held may be closed before its socket is: a look at that comes first.
    pub(crate) fn look_for_dead_net_cores(&mut self) {
        let sockets = self.endpoints.iter().filter_map(|(token, endpoint)| match endpoint.role {
            Role::NetCore(index) => Some((*token, index, &endpoint.fd)),
            _ => None,
        });
        let is_closed = |fd: &OwnedFd| {
            let mut looked = [PollFd::new(fd, PollFlags::RDHUP)];
            matches!(poll(&mut looked, Some(&Timespec::default())), Ok(1..))
        };
        let dead: Vec<(u64, usize)> =
            sockets.filter(|(.., fd)| is_closed(fd)).map(|(token, index, _)| (token, index)).collect();
        for (token, index) in dead {
            // What it said last counts.
            self.attend_net_core(token, index);
        }
    }

    /// A net core says something, or is gone.
    pub(crate) fn attend_net_core(&mut self, token: u64, index: usize) {
        let socket = self.endpoints.get(&token).and_then(|endpoint| endpoint.fd.try_clone().ok());
        if !socket.is_some_and(|socket| self.hear_net_core(&socket, index)) {
            self.net_core_ended(token, index);
        }
    }

    /// Its socket says that a net core is gone.
    fn net_core_ended(&mut self, token: u64, index: usize) {
        self.close(token);
        let Some(core) = self.net_cores.cores.get_mut(index) else { return };
        let Some((child, _socket)) = core.running.take() else { return };
        // It has closed its socket: it is dead, or of no use.
        self.end_moves_of(index);
        let Some(core) = self.net_cores.cores.get_mut(index) else { return };
        let cards = std::mem::take(&mut core.cards);
        core.shared.clear();
        let text = match core.standing {
            Standing::AtHome => {
                core.restarts += 1;
                core.failures = if core.started.elapsed() < STARTED { core.failures + 1 } else { 0 };
                format!("processor {}, started again for the {}. time", core.processor, core.restarts)
            }
            _ => {
                core.standing = Standing::Gone;
                format!("a guest on processor {}", core.processor)
            }
        };
        self.net_cores.end(child, &cards, Event::new("net-core-end", "failed", text));
        self.tell_of_failing(index);
        self.look_after_net_cores();
    }

    /// Sees to processes that have been killed: they are given their time, but not their cards.
    pub(crate) fn look_after_dying(&mut self) {
        let mut left = Vec::new();
        for mut dying in std::mem::take(&mut self.net_cores.dying) {
            let how = match dying.child.try_wait() {
                Ok(Some(status)) => Some(status.to_string()),
                Ok(None) if dying.since.elapsed() < DYING_PATIENCE => None,
                Ok(None) => Some("it has been killed, and hangs in the kernel".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            let Some(how) = how else {
                left.push(dying);
                continue;
            };
            if let Some(event) = dying.event.take() {
                (self.log)(&Event { detail: format!("{}: {how}", event.detail), ..event });
            }
            if matches!(dying.child.try_wait(), Ok(None)) {
                // It holds them for nothing: their addresses are for whoever asks.
                std::mem::take(&mut dying.handles).into_iter().for_each(|token| self.close(token));
                left.push(dying);
            }
        }
        self.net_cores.dying.extend(left);
    }

    /// Says, once, that a net core is not waited for any more.
    fn tell_of_failing(&self, index: usize) {
        if let Some(core) = self.net_cores.cores.get(index).filter(|core| core.failures == FAILURES_MAX) {
            let text = format!(
                "processor {}: it dies at each start: its cards are for others until it does not",
                core.processor
            );
            (self.log)(&Event::new("net-core-fail", "failed", text));
        }
    }

    /// Starts net cores again that have died, but for one that died at once.
    pub(crate) fn look_after_net_cores(&mut self) {
        self.end_idle_guests();
        if self.has_guests() {
            self.move_cards_of_guests(false);
        }
        let which = |wanted: &dyn Fn(&NetCore) -> bool| -> Vec<usize> {
            let all = self.net_cores.cores.iter().enumerate();
            all.filter(|(_, core)| core.is_at_home() && wanted(core)).map(|(index, _)| index).collect()
        };
        let due = which(&|core| core.running.is_none() && core.started.elapsed() >= core.pause());
        let lives = |core: &NetCore| core.running.is_some() && core.started.elapsed() >= STARTED;
        let recovered = which(&|core| core.failures > 0 && lives(core));
        for index in due {
            if let Err(error) = self.start_net_core(index) {
                if let Some(core) = self.net_cores.cores.get_mut(index) {
                    core.started = Instant::now();
                    core.failures += 1;
                }
                (self.log)(&Event::new("net-core-start", "failed", error));
                self.tell_of_failing(index);
            }
        }
        for index in recovered {
            let Some(core) = self.net_cores.cores.get_mut(index) else { continue };
            if std::mem::take(&mut core.failures) >= FAILURES_MAX {
                let text = format!("processor {}: it lives again, and has cards of others", core.processor);
                self.share_cards_with(index);
                (self.log)(&Event::new("net-core-fail", "done", text));
            }
        }
    }

    /// Says something to a net core. One that does not listen is not waited for.
    pub(crate) fn order(&self, index: usize, order: Order, beside: &[BorrowedFd<'_>]) -> Result<(), DaemonError> {
        let core = self.net_cores.cores.get(index).ok_or("there is no such net core")?;
        let (_, socket) = core.running.as_ref().ok_or("the net core has just died: it is started again in a moment")?;
        send(socket.as_fd(), order, beside)
            .map_err(|fault| format!("the net core on processor {} takes no orders: {fault}", core.processor).into())
    }
}

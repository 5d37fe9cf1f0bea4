//! Which sockets the instances of `epoll` watch, and what they tell of them.

use crate::sockets::epoll::{BESIDE_EXCLUSIVE, Change, EXCLUSIVE, Epoll, ready};
use crate::sockets::socket::{Place, Socket};
use crate::sockets::table::Sockets;
use crate::sys::wakers::Waker;
use libc::{c_int, epoll_event};
use rustix::io::Errno;

impl Sockets {
    pub(crate) fn epoll_mut(&mut self, number: u32) -> Option<&mut Epoll> {
        self.epolls.get_mut(number as usize)?.as_mut()
    }

    /// `epoll_ctl` of `socket` under `fd`: returns the waker of the thread that is to be woken.
    ///
    /// # Errors
    /// As the call's.
    pub(crate) fn control(
        &mut self,
        instance: u32,
        operation: c_int,
        (socket, fd): (u32, c_int),
        event: Option<epoll_event>,
    ) -> Result<Option<Waker>, Errno> {
        let place = self.epoll_mut(instance).ok_or(Errno::BADF)?.place(socket, fd);
        if operation == libc::EPOLL_CTL_DEL {
            self.unwatch(instance, socket, place.ok_or(Errno::NOENT)?);
            return Ok(None);
        }
        let event = event.ok_or(Errno::FAULT)?;
        let is_exclusive = event.events & EXCLUSIVE != 0;
        match (operation, place) {
            (libc::EPOLL_CTL_ADD, _) if is_exclusive && event.events & !BESIDE_EXCLUSIVE != 0 => Err(Errno::INVAL),
            (libc::EPOLL_CTL_MOD, _) if is_exclusive => Err(Errno::INVAL),
            (libc::EPOLL_CTL_ADD, Some(_)) => Err(Errno::EXIST),
            (libc::EPOLL_CTL_ADD, None) => {
                let place = self.epoll_mut(instance).ok_or(Errno::BADF)?.add(socket, fd, event);
                if let Some(socket) = self.get_mut(socket) {
                    // The last one is told first, and exclusive ones after all others.
                    let at = if is_exclusive { 0 } else { socket.watchers.len() };
                    socket.watchers.insert(at, (instance, place));
                }
                Ok(self.look_again(instance, socket, place))
            }
            (libc::EPOLL_CTL_MOD, None) => Err(Errno::NOENT),
            (libc::EPOLL_CTL_MOD, Some(place)) => {
                let interest = self.epoll_mut(instance).and_then(|epoll| epoll.get_mut(place)).ok_or(Errno::NOENT)?;
                if interest.events & EXCLUSIVE != 0 {
                    return Err(Errno::INVAL);
                }
                (interest.events, interest.data, interest.is_spent) = (event.events, event.u64, false);
                Ok(self.look_again(instance, socket, place))
            }
            _ => Err(Errno::INVAL),
        }
    }

    /// An interest is new, or another: it is queued if there is something to tell already, so that others are told in the
    /// order in which they become ready. A thread that sleeps there has something now.
    fn look_again(&mut self, instance: u32, socket: u32, place: Place) -> Option<Waker> {
        let ready = self.get(socket).map_or(0, ready);
        let epoll = self.epoll_mut(instance)?;
        let is_new = epoll.queue(place, Change(ready));
        epoll.waker.filter(|_| is_new && (epoll.waiters > 0 || epoll.is_nested))
    }

    fn unwatch(&mut self, instance: u32, socket: u32, place: Place) {
        if let Some(epoll) = self.epoll_mut(instance) {
            epoll.remove(place);
        }
        if let Some(socket) = self.get_mut(socket) {
            socket.watchers.retain(|watcher| *watcher != (instance, place));
        }
    }

    /// A socket is gone, with all interests in it.
    pub(crate) fn unwatch_all(&mut self, socket: &Socket) {
        for (instance, place) in &socket.watchers {
            if let Some(epoll) = self.epoll_mut(*instance) {
                epoll.remove(*place);
            }
        }
    }

    /// Tells `out` what is ready in `instance`: how many, and the datagrams behind them.
    pub(crate) fn tell(&mut self, instance: u32, out: &mut [epoll_event]) -> (usize, usize) {
        let Some(mut epoll) = self.epolls.get_mut(instance as usize).and_then(Option::take) else { return (0, 0) };
        let mut behind = 0;
        let count = epoll.collect(out, |number| {
            let socket = self.get(number);
            behind += socket.map_or(0, Socket::datagrams_behind);
            socket
        });
        epoll.waits = epoll.waits.wrapping_add(1);
        self.epolls[instance as usize] = Some(epoll);
        (count, behind)
    }
}

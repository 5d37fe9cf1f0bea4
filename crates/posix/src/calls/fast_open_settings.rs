//! What a program has said of TCP Fast Open (RFC 7413): what listeners are told of it, and whether connecting waits for data.

use crate::calls::ports::free_port;
use crate::sockets::socket::Kind;
use crate::sys::kernel_socket::kernel_structure;
use crate::sys::libc_next;
use crate::sys::wishes::contains;
use crate::world::lock::Guard;
use crate::world::state::World;
use libc::{c_int, socklen_t};
use qanat_stack::tcp::CookieKeys;
use qanat_stack::{FastOpenOptions, FastOpenRequest};
use std::net::SocketAddr;

/// The keys of cookies that the kernel has of a socket, or of all.
pub(super) fn keys(fd: c_int) -> Option<CookieKeys> {
    let both: Option<[[u8; 16]; 2]> = kernel_structure(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY);
    if let Some([first, second]) = both {
        return Some(CookieKeys { first, second: Some(second) });
    }
    let mut first = [0; 16];
    let mut length = first.len() as socklen_t;
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status = unsafe {
        libc_next::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY, first.as_mut_ptr().cast(), &raw mut length)
    };
    (status == 0 && length as usize == first.len()).then_some(CookieKeys { first, second: None })
}

/// Tells the stack of what listening socket `number` has been told.
pub(super) fn set_listener(world: &mut World, number: u32) {
    let Some(socket) = world.sockets.get(number) else { return };
    let Kind::Listener(listener) = &socket.kind else { return };
    let (asked, general) = (socket.options.fast_open, crate::world::sysctl::fast_open());
    let queue_max = match asked.queue {
        0 if general.listens => listener.backlog,
        queue => queue as usize,
    };
    let without_cookie = asked.without_cookie || general.server_without_cookie;
    let options = FastOpenOptions { queue_max, without_cookie, keys: asked.keys.or(general.keys) };
    for id in &listener.listeners {
        // It is there as long as the socket listens.
        let _ = world.stack.set_fast_open(*id, Some(options).filter(|_| general.server));
    }
}

/// How socket `number` would send data with its SYN.
pub(super) fn request(guard: &Guard, number: u32) -> FastOpenRequest {
    let asked = guard.sockets.get(number).is_some_and(|socket| socket.options.fast_open.without_cookie);
    if asked || crate::world::sysctl::fast_open().client_without_cookie {
        FastOpenRequest::WithoutCookie
    } else {
        FastOpenRequest::WithCookie
    }
}

/// Whether connecting `number` to `peer` waits for what is sent first, to go with it.
pub(super) fn defers(guard: &mut Guard, number: u32, peer: SocketAddr) -> bool {
    let now = guard.clock_now();
    let Some(socket) = guard.sockets.get(number) else { return false };
    if !socket.options.fast_open.connects {
        return false;
    }
    let local = Some(socket.local.ip());
    let can = request(guard, number) == FastOpenRequest::WithoutCookie || guard.stack.has_cookie(now, peer, local);
    let port = free_port(guard);
    let own = guard.addresses.iter().find(|prefix| contains(**prefix, peer.ip())).map(|(own, _)| *own);
    if let Some(socket) = guard.sockets.get_mut(number).filter(|_| can) {
        (socket.deferred, socket.has_failed) = (Some(peer), false);
        // It has a name by now, as on Linux.
        let local = socket.local;
        let ip = own.filter(|_| local.ip().is_unspecified()).unwrap_or(local.ip());
        socket.local = SocketAddr::new(ip, if local.port() == 0 { port } else { local.port() });
    }
    can
}

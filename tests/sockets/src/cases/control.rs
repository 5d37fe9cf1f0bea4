//! `ioctl` and `fcntl`.

use crate::case::{ready, until};
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::{names, sys};
use libc::{F_GETFD, F_GETFL, F_GETOWN, F_SETFD, F_SETFL, F_SETOWN, FIONBIO, FIONREAD, O_NONBLOCK, TIOCOUTQ};

/// Not in the `libc` crate.
const SIOCATMARK: u64 = 0x8905;

pub fn add(suite: &mut Suite) {
    suite.add(EACH, "unread_bytes", |t| {
        let (fd, peer) = t.accepted();
        t.see("none", sys::ioctl(fd, FIONREAD, 7).1);
        peer.say("hello");
        t.see("arrive", until(|| sys::ioctl(fd, FIONREAD, 0).1 == 5));
        sys::recv(fd, &mut [0; 2], 0);
        t.see("left", sys::ioctl(fd, FIONREAD, 0).1);
        peer.close();
        ready(fd, libc::POLLRDHUP);
        t.see("behind_the_end", sys::ioctl(fd, FIONREAD, 0).1);
        sys::recv(fd, &mut [0; 8], 0);
        t.see("nothing", sys::ioctl(fd, FIONREAD, 9).1);
    });
    suite.add(BOTH, "unread_bytes_of_others", |t| {
        let see = |what, (ret, value): (sys::Ret, i32)| {
            t.see(what, if ret.is_ok() { value.to_string() } else { ret.to_string() });
        };
        see("fresh", sys::ioctl(t.tcp(), FIONREAD, 9));
        see("listener", sys::ioctl(t.listener().0, FIONREAD, 9));
        let (fd, port) = t.udp_bound();
        see("datagram", sys::ioctl(fd, FIONREAD, 9));
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 50);
        peer.to(t.here_ip(), port, 20);
        ready(fd, libc::POLLIN);
        see("first_datagram", sys::ioctl(fd, FIONREAD, 9));
        sys::recv(fd, &mut [0; 80], 0);
        ready(fd, libc::POLLIN);
        see("second_datagram", sys::ioctl(fd, FIONREAD, 9));
    });
    suite.add(BOTH, "unsent_bytes", |t| {
        let (fd, peer) = t.accepted();
        t.see("none", sys::ioctl(fd, TIOCOUTQ, 7).1);
        sys::send(fd, b"hello", 0);
        t.see("acknowledged", until(|| sys::ioctl(fd, TIOCOUTQ, 0).1 == 0));
        t.see("peer", peer.hear(5));
        t.see("listener", sys::ioctl(t.listener().0, TIOCOUTQ, 0).0);
        t.see("fresh", sys::ioctl(t.tcp(), TIOCOUTQ, 7).1);
        t.see("datagram", sys::ioctl(t.udp(), TIOCOUTQ, 7).1);
    });
    suite.add(BOTH, "unsent_bytes_behind_a_small_window", |t| {
        let (fd, peer) = t.accepted_small();
        t.nonblocking(fd);
        let ret = sys::send(fd, &crate::pattern::bytes(100_000), 0);
        until(|| peer.unread() > 1000);
        t.see("some", sys::ioctl(fd, TIOCOUTQ, 0).1 > 0);
        let told = peer.read(ret.count());
        t.see("peer", told == format!("{} intact full", ret.count()));
        t.see("then_none", until(|| sys::ioctl(fd, TIOCOUTQ, 0).1 == 0));
    });
    suite.add(BOTH, "at_mark", |t| {
        let (fd, peer) = t.accepted();
        t.see("fresh", sys::ioctl(fd, SIOCATMARK, 7).1);
        peer.say("ab");
        peer.say_with("!", libc::MSG_OOB);
        ready(fd, libc::POLLPRI);
        t.see("before", sys::ioctl(fd, SIOCATMARK, 7).1);
        sys::recv(fd, &mut [0; 8], 0);
        t.see("at", sys::ioctl(fd, SIOCATMARK, 7).1);
    });
    suite.add(BOTH, "nonblocking_by_ioctl", |t| {
        let (fd, _peer) = t.accepted();
        t.see("set", sys::ioctl(fd, FIONBIO, 1).0);
        t.see("status", names::status_flags(sys::fcntl(fd, F_GETFL, 0).value));
        t.see("recv", sys::recv(fd, &mut [0; 1], 0));
        t.see("other_value", sys::ioctl(fd, FIONBIO, -7).0);
        t.see("status", names::status_flags(sys::fcntl(fd, F_GETFL, 0).value));
        t.see("clear", sys::ioctl(fd, FIONBIO, 0).0);
        t.see("status", names::status_flags(sys::fcntl(fd, F_GETFL, 0).value));
    });
    suite.add(BOTH, "close_on_exec_by_ioctl", |t| {
        let fd = t.tcp();
        t.see("set", sys::ioctl(fd, libc::FIOCLEX, 0).0);
        t.see("get", sys::fcntl(fd, F_GETFD, 0));
        t.see("clear", sys::ioctl(fd, libc::FIONCLEX, 0).0);
        t.see("get", sys::fcntl(fd, F_GETFD, 0));
    });
    suite.add(V4, "asynchronous", |t| {
        let fd = t.tcp();
        t.see("own", sys::fcntl(fd, F_GETOWN, 0));
        t.see("set", sys::ioctl(fd, libc::FIOASYNC, 1).0);
        t.see("status", names::status_flags(sys::fcntl(fd, F_GETFL, 0).value));
        t.see("clear", sys::ioctl(fd, libc::FIOASYNC, 0).0);
        t.see("status", names::status_flags(sys::fcntl(fd, F_GETFL, 0).value));
    });
    suite.add(V4, "owner", |t| {
        let fd = t.tcp();
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        t.see("set", sys::fcntl(fd, F_SETOWN, own));
        t.see("get", sys::fcntl(fd, F_GETOWN, 0).value == i64::from(own));
        t.see("clear", sys::fcntl(fd, F_SETOWN, 0));
        t.see("get", sys::fcntl(fd, F_GETOWN, 0));
    });
    suite.add(V4, "unknown_requests", |t| {
        for fd in [t.tcp(), t.udp()] {
            t.see("ioctl", sys::ioctl(fd, 0x1234_5678, 0).0);
            t.see("terminal", sys::ioctl(fd, libc::TCGETS, 0).0);
            t.see("fcntl", sys::fcntl(fd, 9999, 0));
        }
    });
    suite.add(BOTH, "status_flags", |t| {
        let (fd, _peer) = t.accepted();
        let get = || names::status_flags(sys::fcntl(fd, F_GETFL, 0).value);
        t.see("get", get());
        t.see("nonblock", sys::fcntl(fd, F_SETFL, O_NONBLOCK));
        t.see("get", get());
        t.see("recv", sys::recv(fd, &mut [0; 1], 0));
        t.see("append", sys::fcntl(fd, F_SETFL, libc::O_APPEND));
        t.see("get", get());
        t.see("access_is_ignored", sys::fcntl(fd, F_SETFL, libc::O_WRONLY));
        t.see("get", get());
        t.see("none", sys::fcntl(fd, F_SETFL, 0));
        t.see("get", get());
    });
    suite.add(BOTH, "descriptor_flags", |t| {
        let fd = t.tcp();
        t.see("get", sys::fcntl(fd, F_GETFD, 0));
        t.see("set", sys::fcntl(fd, F_SETFD, libc::FD_CLOEXEC));
        t.see("get", sys::fcntl(fd, F_GETFD, 0));
        t.see("other_bits", sys::fcntl(fd, F_SETFD, 0xfe));
        t.see("get", sys::fcntl(fd, F_GETFD, 0));
    });
    suite.add(V4, "seek", |t| {
        let (fd, _peer) = t.accepted();
        t.see("seek", sys::seek(fd, 0));
        t.see("position", sys::position(fd));
    });
    suite.add(V4, "locks_and_sizes_are_for_files", |t| {
        let (fd, _peer) = t.accepted();
        t.see("pipe_size", sys::fcntl(fd, libc::F_GETPIPE_SZ, 0));
        t.see("seals", sys::fcntl(fd, libc::F_GET_SEALS, 0));
    });
}

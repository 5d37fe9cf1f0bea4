//! `connect` in its ways and states.

use crate::address::Address;
use crate::case::{ALL, LONG_MS, now, ready, set_int, set_time};
use crate::suite::{BOTH, EACH, Suite, V4, V6};
use crate::{names, sys};
use libc::{POLLIN, POLLOUT, SOCK_NONBLOCK};
use std::time::Instant;

pub fn add(suite: &mut Suite) {
    blocking(suite);
    nonblocking(suite);
    refused(suite);
    datagrams(suite);
}

fn blocking(suite: &mut Suite) {
    suite.add(EACH, "blocking", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        let peer = listener.accept();
        t.see("own", t.whose(&sys::getsockname(fd).1));
        t.see("peer", t.whose(&sys::getpeername(fd).1));
        t.see("ports", sys::getsockname(fd).1.port() == peer.ports().1);
        t.see("now", now(fd, ALL));
        t.see("again", sys::connect(fd, &t.there(port)));
        t.see("error", t.error_of(fd));
    });
    // What was set holds whoever set it, by whatever way to the same socket.
    suite.add(BOTH, "what_was_set_before_holds", |t| {
        type Set = fn(sys::Fd);
        let set: [(&str, Set); 4] = [
            ("itself", |fd| _ = set_time(fd, libc::SO_RCVTIMEO, 60)),
            ("child", |fd| _ = sys::wait(sys::fork(|| i32::from(!set_time(fd, libc::SO_RCVTIMEO, 60).is_ok())).fd())),
            ("copy", |fd| _ = set_time(sys::dup(fd).fd(), libc::SO_RCVTIMEO, 60)),
            ("nonblocking", |fd| _ = sys::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK)),
        ];
        for (how, set) in set {
            let (listener, port) = t.peer_listens();
            let fd = t.tcp();
            set(fd);
            t.see(how, sys::connect(fd, &t.there(port)));
            let _peer = listener.accept();
            t.see(how, ready(fd, POLLOUT));
            t.see(how, sys::recv(fd, &mut [0; 8], 0));
        }
    });
    suite.add(BOTH, "wrong_addresses", |t| {
        let fd = t.tcp();
        t.see("port_0", sys::connect(fd, &t.there(0)));
        t.see("length_0", sys::connect(fd, &t.there(9).cut(0)));
        t.see("length_1", sys::connect(fd, &t.there(9).cut(1)));
        t.see("length_8", sys::connect(fd, &t.there(9).cut(8)));
        t.see("length_15", sys::connect(fd, &t.there(9).cut(15)));
        t.see("family", sys::connect(fd, &t.there(9).with_family(77)));
        t.see("unix", sys::connect(fd, &t.there(9).with_family(libc::AF_UNIX)));
        t.see("nowhere", sys::connect_nowhere(fd, 16));
        t.see("unspecified", sys::connect(fd, &Address::family_only(libc::AF_UNSPEC)));
        t.see("peer", sys::getpeername(fd).0);
    });
    suite.add(V4, "v6_address_on_a_v4_socket", |t| {
        t.see("connect", sys::connect(t.tcp(), &Address::new(t.world.there6.into(), 9)));
    });
    suite.add(V6, "v4_address_on_a_v6_socket", |t| {
        let (_, port) = t.peer_listens();
        t.see("connect", sys::connect(t.tcp(), &Address::new(t.world.there4.into(), port)));
    });
    suite.add(V6, "mapped_address_on_an_only_v6_socket", |t| {
        let fd = t.tcp();
        set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
        t.see("connect", sys::connect(fd, &Address::new(t.world.there4.to_ipv6_mapped().into(), 9)));
    });
    suite.add(BOTH, "send_timeout_bounds_it", |t| {
        let port = t.peer_is_deaf();
        let fd = t.tcp();
        set_time(fd, libc::SO_SNDTIMEO, 100);
        let start = Instant::now();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("waited", start.elapsed().as_millis() >= 95);
        t.see("then", sys::connect(fd, &t.there(port)));
        t.see("peer", sys::getpeername(fd).0);
    });
    suite.add(BOTH, "user_timeout_ends_it", |t| {
        let port = t.peer_is_deaf();
        let fd = t.tcp();
        set_int(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 300);
        t.see("connect", sys::connect(fd, &t.there(port)));
    });
    suite.add(BOTH, "disconnect_and_connect_again", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        let first = listener.accept();
        t.see("unspecified", sys::connect(fd, &Address::family_only(libc::AF_UNSPEC)));
        t.see("first", first.poll(ALL, LONG_MS));
        t.see("peer", sys::getpeername(fd).0);
        t.see("connect", sys::connect(fd, &t.there(port)));
        let second = listener.accept();
        sys::send(fd, b"again", 0);
        t.see("second", second.hear(5));
    });
    suite.add(BOTH, "many_at_once", |t| {
        let (listener, port) = t.peer_listens_with(64, 0);
        let fds: Vec<i32> = (0..32).map(|_| t.tcp()).collect();
        let good = fds.iter().filter(|fd| sys::connect(**fd, &t.there(port)).is_ok()).count();
        t.see("connected", good);
        for fd in &fds {
            sys::send(*fd, b"x", 0);
        }
        let heard = fds.iter().filter(|_| listener.accept().hear(1) == "\"x\" full").count();
        t.see("heard", heard);
    });
}

fn nonblocking(suite: &mut Suite) {
    suite.add(EACH, "in_progress_then_writable", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp_nonblocking();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("ready", ready(fd, POLLOUT | POLLIN));
        t.see("error", t.error_of(fd));
        t.see("again", sys::connect(fd, &t.there(port)));
        t.see("again", sys::connect(fd, &t.there(port)));
        let peer = listener.accept();
        t.see("send", sys::send(fd, b"hello", 0));
        t.see("peer", peer.hear(5));
    });
    suite.add(BOTH, "under_way", |t| {
        let port = t.peer_is_deaf();
        let fd = t.tcp_nonblocking();
        t.see("fresh", now(fd, ALL));
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("again", sys::connect(fd, &t.there(port)));
        t.see("now", now(fd, ALL));
        t.see("error", t.error_of(fd));
        t.see("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("peer", sys::getpeername(fd).0);
        t.see("own", t.whose(&sys::getsockname(fd).1));
        t.see("listen", sys::listen(fd, 1));
        let (_, info) = sys::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, 8);
        t.see("state", names::tcp_state(info.first().copied().unwrap_or(0)));
        t.see("close", sys::close(fd));
    });
    suite.add(BOTH, "shutdown_while_under_way", |t| {
        let port = t.peer_is_deaf();
        let fd = t.tcp_nonblocking();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("shutdown", sys::shutdown(fd, libc::SHUT_RDWR));
        t.see("now", now(fd, ALL));
        t.see("error", t.error_of(fd));
        t.see("peer", sys::getpeername(fd).0);
    });
    suite.add(BOTH, "refused", |t| {
        let port = t.peer_closed_port();
        let fd = t.tcp_nonblocking();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("ready", ready(fd, ALL));
        t.see("error", t.error_of(fd));
        t.see("error", t.error_of(fd));
        t.see("now", now(fd, ALL));
        t.see("peer", sys::getpeername(fd).0);
    });
    suite.add(BOTH, "refused_told_by_connect", |t| {
        let port = t.peer_closed_port();
        let fd = t.tcp_nonblocking();
        t.see("connect", sys::connect(fd, &t.there(port)));
        ready(fd, POLLOUT);
        t.see("again", sys::connect(fd, &t.there(port)));
        let (listener, port) = t.peer_listens();
        t.see("elsewhere", sys::connect(fd, &t.there(port)));
        t.see("ready", ready(fd, POLLOUT));
        t.see("error", t.error_of(fd));
        sys::send(fd, b"x", 0);
        t.see("peer", listener.accept().hear(1));
    });
    suite.add(BOTH, "refused_told_by_send", |t| {
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(t.peer_closed_port()));
        ready(fd, POLLOUT);
        t.see("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
        t.see("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
    });
    suite.add(BOTH, "refused_told_by_recv", |t| {
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(t.peer_closed_port()));
        ready(fd, POLLOUT);
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("error", t.error_of(fd));
    });
    suite.add(BOTH, "blocking_send_waits_for_it", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(port));
        sys::fcntl(fd, libc::F_SETFL, 0);
        t.see("send", sys::send(fd, b"hello", 0));
        t.see("peer", listener.accept().hear(5));
    });
    suite.add(V4, "nonblocking_by_ioctl", |t| {
        let port = t.peer_is_deaf();
        let fd = t.tcp();
        t.see("ioctl", sys::ioctl(fd, libc::FIONBIO, 1).0);
        t.see("connect", sys::connect(fd, &t.there(port)));
    });
}

fn refused(suite: &mut Suite) {
    suite.add(EACH, "refused_blocking", |t| {
        let port = t.peer_closed_port();
        let fd = t.tcp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("error", t.error_of(fd));
        t.see("peer", sys::getpeername(fd).0);
        t.see("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("now", now(fd, ALL));
    });
    suite.add(BOTH, "refused_then_elsewhere", |t| {
        let fd = t.tcp();
        t.see("connect", sys::connect(fd, &t.there(t.peer_closed_port())));
        let (listener, port) = t.peer_listens();
        t.see("connect", sys::connect(fd, &t.there(port)));
        sys::send(fd, b"x", 0);
        t.see("peer", listener.accept().hear(1));
    });
    suite.add(BOTH, "closed_by_the_peer_at_once", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        listener.accept().close();
        t.see("ready", ready(fd, libc::POLLRDHUP));
        t.see_recv("recv", fd, 4, 0);
    });
    suite.add(BOTH, "reset_by_the_peer_at_once", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        listener.accept().abort();
        t.see("ready", ready(fd, libc::POLLRDHUP));
        t.see_recv("recv", fd, 4, 0);
        t.see_recv("recv", fd, 4, 0);
    });
}

fn datagrams(suite: &mut Suite) {
    suite.add(EACH, "udp_and_back", |t| {
        let (_, port) = t.peer_udp();
        let fd = t.udp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("own", t.whose(&sys::getsockname(fd).1));
        t.see("peer", t.whose(&sys::getpeername(fd).1));
        t.see("unspecified", sys::connect(fd, &Address::family_only(libc::AF_UNSPEC)));
        t.see("peer", sys::getpeername(fd).0);
        t.see("own", t.whose(&sys::getsockname(fd).1));
    });
    suite.add(BOTH, "udp_elsewhere", |t| {
        let (first, port) = t.peer_udp();
        let (second, other) = t.peer_udp();
        let fd = t.udp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        sys::send(fd, b"", 0);
        t.see("first", first.from().0);
        t.see("connect", sys::connect(fd, &t.there(other)));
        sys::send(fd, b"", 0);
        t.see("second", second.from().0);
    });
    suite.add(BOTH, "udp_port_kept_when_bound", |t| {
        let (_, port) = t.peer_udp();
        let (fd, own) = t.udp_bound();
        sys::connect(fd, &t.there(port));
        sys::connect(fd, &Address::family_only(libc::AF_UNSPEC));
        t.see("kept", sys::getsockname(fd).1.port() == own);
        t.see("own", t.whose(&sys::getsockname(fd).1));
    });
    suite.add(BOTH, "udp_wrong_addresses", |t| {
        let fd = t.udp();
        t.see("port_0", sys::connect(fd, &t.there(0)));
        t.see("peer", sys::getpeername(fd).0);
        t.see("length_8", sys::connect(fd, &t.there(9).cut(8)));
        t.see("family", sys::connect(fd, &t.there(9).with_family(77)));
    });
    suite.add(BOTH, "udp_refused", |t| {
        let (gone, port) = t.peer_udp();
        gone.close();
        let fd = t.udp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("send", sys::send(fd, b"x", 0));
        t.see("ready", ready(fd, POLLIN));
        t.see("error", t.error_of(fd));
        t.see("now", now(fd, POLLIN | POLLOUT));
        t.see("send", sys::send(fd, b"x", 0));
        t.see("ready", ready(fd, POLLIN));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("send", sys::send(fd, b"x", 0));
        t.see("ready", ready(fd, POLLIN));
        t.see("send", sys::send(fd, b"x", 0));
        let fresh = SOCK_NONBLOCK;
        let unconnected = sys::socket(t.domain(), libc::SOCK_DGRAM | fresh, 0).fd();
        t.see("sendto", sys::sendto(unconnected, b"x", 0, &t.there(port)));
        // The refusal of this comes behind that of the other.
        sys::send(fd, b"x", 0);
        ready(fd, POLLIN);
        t.see("unconnected_is_not_told", sys::recv(unconnected, &mut [0; 4], 0));
    });
}

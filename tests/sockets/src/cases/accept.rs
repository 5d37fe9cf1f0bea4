//! `listen`, `accept`, `accept4`.

use crate::address::Address;
use crate::case::{ALL, Case, LONG_MS, PATIENCE, int_option, now, ready, set_int, set_time, until};
use crate::suite::{BOTH, EACH, Suite, V6};
use crate::{names, sys};
use libc::{EAGAIN, IPPROTO_TCP, POLLIN, SO_REUSEPORT, SOCK_CLOEXEC, SOCK_NONBLOCK, SOL_SOCKET, TCP_NODELAY};
use std::time::Instant;

fn see_ends(t: &Case, fd: i32) {
    t.see("own", t.whose(&sys::getsockname(fd).1));
    t.see("peer", t.whose(&sys::getpeername(fd).1));
}

const FLAGS: [(&str, i32); 6] = [
    ("none", 0),
    ("nonblock", SOCK_NONBLOCK),
    ("cloexec", SOCK_CLOEXEC),
    ("both", SOCK_NONBLOCK | SOCK_CLOEXEC),
    ("unknown", 1),
    ("unknown_beside", SOCK_NONBLOCK | 0x1000_0000),
];

pub fn add(suite: &mut Suite) {
    suite.add(EACH, "one", |t| {
        let (listener, port) = t.listener();
        t.see("accepting", int_option(listener, SOL_SOCKET, libc::SO_ACCEPTCONN).1);
        let peer = t.peer_connects(port);
        t.see("listener", ready(listener, ALL));
        let ret = sys::accept(listener);
        t.see("accept", ret.done());
        see_ends(t, ret.fd());
        t.see("ports_agree", sys::getpeername(ret.fd()).1.port() == peer.ports().0);
        t.see("listener", now(listener, ALL));
        t.see("accepting", int_option(ret.fd(), SOL_SOCKET, libc::SO_ACCEPTCONN).1);
    });
    suite.add(EACH, "address_given", |t| {
        let (listener, port) = t.listener();
        for room in [128, 8, 0] {
            let _peer = t.peer_connects(port);
            let (ret, name, length) = sys::accept_from(listener, room);
            t.see("accept", format!("{} length {length} got {}", ret.done(), name.bytes().len()));
            if room == 128 {
                t.see("from", t.whose(&name));
            }
        }
    });
    for (name, flags) in FLAGS {
        suite.add(BOTH, &format!("flags_{name}"), move |t| {
            let (listener, port) = t.listener_with(SOCK_NONBLOCK | SOCK_CLOEXEC, 4);
            let _peer = t.peer_connects(port);
            ready(listener, POLLIN);
            let ret = sys::accept4(listener, flags);
            t.see("accept4", ret.done());
            t.see("status", names::status_flags(sys::fcntl(ret.fd(), libc::F_GETFL, 0).value));
            t.see("descriptor", sys::fcntl(ret.fd(), libc::F_GETFD, 0));
        });
    }
    suite.add(BOTH, "flags_not_inherited", |t| {
        let (listener, port) = t.listener_with(SOCK_NONBLOCK | SOCK_CLOEXEC, 4);
        let _peer = t.peer_connects(port);
        ready(listener, POLLIN);
        let fd = sys::accept(listener).fd();
        t.see("status", names::status_flags(sys::fcntl(fd, libc::F_GETFL, 0).value));
        t.see("descriptor", sys::fcntl(fd, libc::F_GETFD, 0));
    });
    suite.add(BOTH, "options_inherited", |t| {
        let (listener, port) = t.listener();
        set_int(listener, IPPROTO_TCP, TCP_NODELAY, 1);
        set_int(listener, SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        set_int(listener, IPPROTO_TCP, libc::TCP_KEEPIDLE, 77);
        set_time(listener, libc::SO_RCVTIMEO, 1500);
        let _peer = t.peer_connects(port);
        let fd = sys::accept(listener).fd();
        t.see("nodelay", int_option(fd, IPPROTO_TCP, TCP_NODELAY).1);
        t.see("keepalive", int_option(fd, SOL_SOCKET, libc::SO_KEEPALIVE).1);
        t.see("keepidle", int_option(fd, IPPROTO_TCP, libc::TCP_KEEPIDLE).1);
        let (_, time) = sys::getsockopt(fd, SOL_SOCKET, libc::SO_RCVTIMEO, 16);
        t.see("receive_timeout", format!("{time:?}"));
    });
    suite.add(BOTH, "nothing_there", |t| {
        let (listener, _) = t.listener_with(SOCK_NONBLOCK, 4);
        t.see("accept", sys::accept(listener).done());
        t.see("accept4", sys::accept4(listener, SOCK_NONBLOCK).done());
    });
    suite.add(BOTH, "timeout", |t| {
        let (listener, _) = t.listener();
        set_time(listener, libc::SO_RCVTIMEO, 60);
        let start = Instant::now();
        let ret = sys::accept(listener);
        t.see("accept", ret.done());
        t.see("waited", start.elapsed().as_millis() >= 55 && start.elapsed() < PATIENCE);
        t.see("would_block", ret.errno == EAGAIN);
    });
    suite.add(BOTH, "not_listening", |t| {
        let fd = t.tcp();
        t.see("fresh", sys::accept(fd).done());
        sys::bind(fd, &t.here(0));
        t.see("bound", sys::accept(fd).done());
        let (connection, _peer) = t.accepted();
        t.see("connection", sys::accept(connection).done());
        t.see("datagram", sys::accept(t.udp()).done());
        t.see("listen_datagram", sys::listen(t.udp(), 1));
        t.see("listen_connection", sys::listen(connection, 1));
    });
    suite.add(BOTH, "listen_unbound", |t| {
        let fd = t.tcp();
        t.see("listen", sys::listen(fd, 4));
        t.see("name", t.whose(&sys::getsockname(fd).1));
        let peer = t.peer_tries(sys::getsockname(fd).1.port());
        t.see("reached", peer.parse::<u32>().is_ok());
        t.see("accept", sys::accept(fd).done());
    });
    suite.add(BOTH, "listen_twice", |t| {
        let (listener, port) = t.listener();
        t.see("again", sys::listen(listener, 64));
        t.see("smaller", sys::listen(listener, 0));
        t.see("negative", sys::listen(listener, -1));
        let _peer = t.peer_connects(port);
        t.see("accept", sys::accept(listener).done());
    });
    suite.add(BOTH, "in_order", |t| {
        let (listener, port) = t.listener();
        let peers: Vec<_> = (0..5).map(|_| t.peer_connects(port)).collect();
        let ports: Vec<u16> = (0..5).map(|_| sys::accept_from(listener, 128).1.port()).collect();
        t.see("in_order", peers.iter().map(|peer| peer.ports().0).eq(ports.iter().copied()));
        t.see("listener", now(listener, ALL));
    });
    suite.add(EACH, "data_before_accept", |t| {
        let (listener, port) = t.listener();
        let peer = t.peer_connects(port);
        t.see("say", peer.say("early"));
        until(|| peer.unsent() == 0);
        let fd = sys::accept(listener).fd();
        t.see_recv("recv", fd, 16, 0);
    });
    suite.add(BOTH, "closed_before_accept", |t| {
        let (listener, port) = t.listener();
        let peer = t.peer_connects(port);
        peer.say("bye");
        peer.close();
        let ret = sys::accept(listener);
        t.see("accept", ret.done());
        see_ends(t, ret.fd());
        t.see_recv("recv", ret.fd(), 16, 0);
        t.see_recv("recv", ret.fd(), 16, 0);
    });
    suite.add(BOTH, "reset_before_accept", |t| {
        let (listener, port) = t.listener();
        let first = t.peer_connects(port);
        let second = t.peer_connects(port);
        first.abort();
        // The second one's answer comes behind the first one's reset.
        second.say("x");
        until(|| second.unsent() == 0);
        let ret = sys::accept(listener);
        t.see("accept", ret.done());
        t.see("peer", sys::getpeername(ret.fd()).0);
        t.see_recv("recv", ret.fd(), 16, 0);
        t.see_recv("recv", ret.fd(), 16, 0);
        t.see("next", sys::accept(listener).done());
    });
    suite.add(BOTH, "listener_closed_with_some_waiting", |t| {
        let (listener, port) = t.listener();
        let peer = t.peer_connects(port);
        sys::close(listener);
        t.see("peer", peer.poll(ALL, LONG_MS));
        t.see("error", peer.error());
        t.see("next", t.peer_tries(port));
    });
    suite.add(BOTH, "listener_shut", |t| {
        let (listener, port) = t.listener_with(SOCK_NONBLOCK, 4);
        t.see("shutdown", sys::shutdown(listener, libc::SHUT_RD));
        t.see("accept", sys::accept(listener).done());
        t.see("peer", t.peer_tries(port));
        t.see("listen", sys::listen(listener, 4));
        t.see("accept", sys::accept(listener).done());
        // The port was given up with the shutdown, since it had been chosen by the system.
        let again = sys::getsockname(listener).1.port();
        t.see("peer", t.peer_tries(again).parse::<u32>().is_ok());
    });
    suite.add(BOTH, "listener_cannot_connect_or_send", |t| {
        let (listener, _) = t.listener();
        t.see("connect", sys::connect(listener, &t.there(9)));
        t.see("send", sys::send(listener, b"x", libc::MSG_NOSIGNAL));
        t.see("recv", sys::recv(listener, &mut [0; 4], 0));
        t.see("peer", sys::getpeername(listener).0);
        t.see("unread", sys::ioctl(listener, libc::FIONREAD, 0).0);
    });
    suite.add(BOTH, "reuseport_each_connection_once", |t| {
        let one = sys::socket(t.domain(), libc::SOCK_STREAM | SOCK_NONBLOCK, 0).fd();
        let two = sys::socket(t.domain(), libc::SOCK_STREAM | SOCK_NONBLOCK, 0).fd();
        set_int(one, SOL_SOCKET, SO_REUSEPORT, 1);
        set_int(two, SOL_SOCKET, SO_REUSEPORT, 1);
        sys::bind(one, &t.here(0));
        let port = sys::getsockname(one).1.port();
        t.see("bind", sys::bind(two, &t.here(port)));
        t.see("listen", format!("{} {}", sys::listen(one, 16), sys::listen(two, 16)));
        let _peers: Vec<_> = (0..12).map(|_| t.peer_connects(port)).collect();
        let mut found = 0;
        until(|| {
            found += [one, two].iter().filter(|fd| sys::accept(**fd).is_ok()).count();
            found >= 12
        });
        t.see("found", found);
        t.see("then", format!("{} {}", sys::accept(one).done(), sys::accept(two).done()));
    });
    suite.add(V6, "v4_peer_of_a_v6_listener", |t| {
        let listener = t.tcp();
        sys::bind(listener, &t.any(0));
        sys::listen(listener, 4);
        let port = sys::getsockname(listener).1.port();
        let world = t.world;
        let peer = crate::case::ask(&format!("connect {} {port} {} 0", world.here4, world.there4));
        t.see("connect", peer.parse::<u32>().is_ok());
        let ret = sys::accept(listener);
        see_ends(t, ret.fd());
        let v6 = t.peer_connects(port);
        let ret = sys::accept(listener);
        see_ends(t, ret.fd());
        v6.close();
    });
    suite.add(V6, "v4_peer_of_an_only_v6_listener", |t| {
        let listener = t.tcp();
        set_int(listener, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
        sys::bind(listener, &t.any(0));
        sys::listen(listener, 4);
        let port = sys::getsockname(listener).1.port();
        t.see("v4", crate::case::ask(&format!("connect {} {port} {} 0", t.world.here4, t.world.there4)));
        t.see("v6", t.peer_tries(port).parse::<u32>().is_ok());
    });
    suite.add(BOTH, "v4_and_v6_listeners_on_one_port", |t| {
        let (mut four, mut six, mut port) = (-1, -1, 0);
        // A connection of the past may hold a port in one of the families alone, so another one is tried then.
        let bound = until(|| {
            four = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).fd();
            sys::bind(four, &Address::new(t.world.here4.into(), 0));
            port = sys::getsockname(four).1.port();
            six = sys::socket(libc::AF_INET6, libc::SOCK_STREAM, 0).fd();
            set_int(six, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
            sys::bind(six, &Address::new(t.world.here6.into(), port)).is_ok()
        });
        t.see("bind", bound);
        t.see("listen", format!("{} {}", sys::listen(four, 4), sys::listen(six, 4)));
        let _peer = t.peer_connects(port);
        let (_, told) = sys::poll(&[(four, POLLIN), (six, POLLIN)], LONG_MS);
        t.see("four", told[0]);
        t.see("six", told[1]);
    });
    suite.add(BOTH, "defer_accept", |t| {
        let (listener, port) = t.listener_with(SOCK_NONBLOCK, 4);
        t.see("set", set_int(listener, IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 5));
        let peer = t.peer_connects(port);
        t.see("not_yet", now(listener, ALL));
        t.see("accept", sys::accept(listener).done());
        peer.say("now");
        t.see("listener", ready(listener, ALL));
        let fd = sys::accept(listener).fd();
        t.see_recv("recv", fd, 16, 0);
    });
}

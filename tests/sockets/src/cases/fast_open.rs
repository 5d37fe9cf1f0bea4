//! TCP Fast Open (RFC 7413). The machine's settings allow both sides of it (`net.ipv4.tcp_fastopen=3`); whether a cookie is known
//! already depends on the cases before, so each asks for one first.

use crate::case::{ALL, Case, LONG_MS, Peer, now, ready, set_int, until};
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Fd};
use libc::{
    IPPROTO_TCP, MSG_DONTWAIT, MSG_FASTOPEN, MSG_NOSIGNAL, POLLIN, POLLOUT, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT,
    TCP_FASTOPEN_KEY, TCP_FASTOPEN_NO_COOKIE,
};

/// Whether data on the SYN was acknowledged with it, as `TCP_INFO` says.
fn has_syn_data(fd: Fd) -> bool {
    let (_, info) = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, 8);
    info.get(5).is_some_and(|options| options & 0x20 != 0)
}

/// A listener of the subject's that takes data on SYNs.
fn listener(t: &Case, queue: i32) -> (Fd, u16) {
    let (fd, port) = t.listener();
    t.see("set", set_int(fd, IPPROTO_TCP, TCP_FASTOPEN, queue));
    (fd, port)
}

/// One of the peer's, whose cookie the subject has.
fn known_listener(t: &Case) -> (Peer, u16) {
    let (peer, port) = t.peer_listens();
    t.see("peer_set", peer.set(IPPROTO_TCP, TCP_FASTOPEN, 5));
    let fd = t.tcp();
    t.see("first", sys::sendto(fd, b"first", MSG_FASTOPEN, &t.there(port)));
    t.see("peer", peer.accept().hear(5));
    (peer, port)
}

pub fn add(suite: &mut Suite) {
    server(suite);
    client(suite);
    errors(suite);
    deferred(suite);
}

fn server(suite: &mut Suite) {
    suite.add(BOTH, "server", |t| {
        let (fd, port) = listener(t, 5);
        let first = t.peer_connects_with(port, "first", false);
        let accepted = sys::accept(fd).fd();
        t.see_recv("recv", accepted, 9, 0);
        let second = t.peer_connects_with(port, "second", false);
        let again = sys::accept(fd).fd();
        t.see("syn_data", has_syn_data(again));
        t.see_recv("recv", again, 9, 0);
        for (fd, peer) in [(accepted, first), (again, second)] {
            t.see("send", sys::send(fd, b"answer", 0));
            t.see("peer", peer.hear(6));
        }
    });
    suite.add(BOTH, "server_that_was_not_asked_to", |t| {
        let (fd, port) = t.listener();
        for _ in 0..2 {
            let peer = t.peer_connects_with(port, "hello", false);
            let accepted = sys::accept(fd).fd();
            t.see_recv("recv", accepted, 9, 0);
            t.see("syn_data", has_syn_data(accepted));
            peer.close();
        }
    });
    suite.add(BOTH, "server_without_cookies", |t| {
        let (fd, port) = listener(t, 5);
        t.see("set", set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1));
        let peer = t.peer_connects_with(port, "at once", true);
        let accepted = sys::accept(fd).fd();
        t.see("syn_data", has_syn_data(accepted));
        t.see_recv("recv", accepted, 9, 0);
        peer.shut(libc::SHUT_WR);
        t.see_recv("end", accepted, 9, 0);
    });
    suite.add(BOTH, "server_with_keys", |t| {
        let key = *b"a key of 16 byte";
        let (fd, port) = listener(t, 5);
        t.see("set", sys::setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, &key));
        t.see("short", sys::setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, &key[..8]));
        let (ret, told) = sys::getsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_KEY, 16);
        t.see("get", format!("{ret} {}", told == key));
        t.peer_connects_with(port, "first", false);
        t.peer_connects_with(port, "second", false);
        // Another one with the same key believes its cookies.
        let (other, other_port) = listener(t, 5);
        sys::setsockopt(other, IPPROTO_TCP, TCP_FASTOPEN_KEY, &key);
        t.peer_connects_with(other_port, "third", false);
        let accepted = sys::accept(other).fd();
        t.see("syn_data", has_syn_data(accepted));
        t.see_recv("recv", accepted, 9, 0);
    });
    suite.add(V4, "server_queue_of_none", |t| {
        let (fd, port) = listener(t, 0);
        t.peer_connects_with(port, "first", true);
        let accepted = sys::accept(fd).fd();
        t.see("syn_data", has_syn_data(accepted));
        t.see_recv("recv", accepted, 9, 0);
    });
}

fn client(suite: &mut Suite) {
    suite.add(EACH, "client", |t| {
        let (listener, port) = known_listener(t);
        let fd = t.tcp();
        t.see("second", sys::sendto(fd, b"second", MSG_FASTOPEN, &t.there(port)));
        let peer = listener.accept();
        t.see("peer", peer.hear(6));
        t.see("syn_data", has_syn_data(fd));
        t.see("from", peer.ports().1 == sys::getsockname(fd).1.port());
        peer.say("answer");
        t.see_recv("recv", fd, 9, 0);
        t.see("third", sys::sendto(fd, b"third", MSG_FASTOPEN, &t.there(port)));
    });
    suite.add(BOTH, "client_by_sendmsg", |t| {
        let (listener, port) = known_listener(t);
        let fd = t.tcp();
        t.see("sendmsg", sys::sendmsg(fd, &[b"se", b"", b"cond"], Some(&t.there(port)), &[], MSG_FASTOPEN));
        t.see("peer", listener.accept().hear(6));
        t.see("syn_data", has_syn_data(fd));
    });
    suite.add(BOTH, "client_of_much", |t| {
        let (listener, port) = known_listener(t);
        let fd = t.tcp();
        let bytes = crate::pattern::bytes(100_000);
        t.see("sendto", sys::sendto(fd, &bytes, MSG_FASTOPEN, &t.there(port)));
        t.see("peer", listener.accept().read(100_000));
        t.see("syn_data", has_syn_data(fd));
    });
    suite.add(BOTH, "client_not_waiting", |t| {
        let (listener, port) = known_listener(t);
        let fd = t.tcp_nonblocking();
        t.see("sendto", sys::sendto(fd, b"second", MSG_FASTOPEN, &t.there(port)));
        t.see("ready", ready(fd, POLLOUT));
        let peer = listener.accept();
        t.see("peer", peer.hear(6));
        t.see("syn_data", has_syn_data(fd));
        // Once it is told in this way that the connection is there.
        t.see("again", sys::sendto(fd, b"again", MSG_FASTOPEN, &t.there(port)));
        t.see("peer", peer.hear(5));
        t.see("and_again", sys::sendto(fd, b"x", MSG_FASTOPEN, &t.there(port)));
        let other = t.tcp();
        t.see("dontwait", sys::sendto(other, b"third", MSG_FASTOPEN | MSG_DONTWAIT, &t.there(port)));
        t.see("peer", listener.accept().hear(5));
    });
    suite.add(BOTH, "client_without_cookie", |t| {
        let (listener, port) = t.peer_listens();
        listener.set(IPPROTO_TCP, TCP_FASTOPEN, 5);
        listener.set(IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1);
        let fd = t.tcp();
        t.see("set", set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1));
        t.see("sendto", sys::sendto(fd, b"at once", MSG_FASTOPEN, &t.there(port)));
        t.see("peer", listener.accept().hear(7));
        t.see("syn_data", has_syn_data(fd));
    });
    suite.add(BOTH, "client_of_a_server_that_does_not", |t| {
        // It knows a cookie of the address, and goes on without.
        known_listener(t);
        let (listener, port) = t.peer_listens();
        for _ in 0..2 {
            let fd = t.tcp();
            t.see("sendto", sys::sendto(fd, b"hello", MSG_FASTOPEN, &t.there(port)));
            t.see("peer", listener.accept().hear(5));
            t.see("syn_data", has_syn_data(fd));
        }
    });
}

fn errors(suite: &mut Suite) {
    suite.add(BOTH, "errors", |t| {
        let fd = t.tcp();
        t.see("nowhere", sys::send(fd, b"x", MSG_FASTOPEN | MSG_NOSIGNAL));
        let nobody = t.there(9).with_family(libc::AF_UNSPEC);
        t.see("nobody", sys::sendto(fd, b"x", MSG_FASTOPEN | MSG_NOSIGNAL, &nobody));
        let port = t.peer_closed_port();
        t.see("refused", sys::sendto(fd, b"x", MSG_FASTOPEN | MSG_NOSIGNAL, &t.there(port)));
        let (listener, _) = t.listener();
        t.see("listener", sys::sendto(listener, b"x", MSG_FASTOPEN | MSG_NOSIGNAL, &t.there(port)).is_ok());
    });
    suite.add(BOTH, "option_of_a_connection", |t| {
        let (fd, _peer) = t.connected();
        for name in [TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_NO_COOKIE] {
            t.see("set", set_int(fd, IPPROTO_TCP, name, 1));
        }
    });
}

fn deferred(suite: &mut Suite) {
    suite.add(BOTH, "connect_waits_for_data", |t| {
        let (listener, port) = known_listener(t);
        let fd = t.tcp();
        t.see("set", set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1));
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("now", now(fd, ALL));
        let (_, name) = sys::getsockname(fd);
        t.see("has_port", name.port() != 0);
        t.see("is_here", name.parts().is_some_and(|parts| parts.ip() == t.here_ip()));
        t.see("nothing_yet", listener.poll(POLLIN, 30));
        t.see("write", sys::write(fd, b"second"));
        let peer = listener.accept();
        t.see("peer", peer.hear(6));
        t.see("syn_data", has_syn_data(fd));
        t.see("peer_name", t.whose(&sys::getpeername(fd).1));
    });
    suite.add(BOTH, "connect_waits_for_data_without_waiting", |t| {
        let (listener, port) = known_listener(t);
        let fd = t.tcp_nonblocking();
        set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("again", sys::connect(fd, &t.there(port)));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        let (_, told) = sys::poll(&[(fd, POLLOUT)], LONG_MS);
        t.see("writable", told[0] & POLLOUT != 0);
        t.see("send", sys::send(fd, b"second", 0));
        let peer = listener.accept();
        t.see("peer", peer.hear(6));
        peer.say("answer");
        t.see("ready", until(|| now(fd, POLLIN) == "IN"));
        t.see_recv("recv", fd, 9, 0);
    });
    suite.add(BOTH, "connect_that_waits_and_is_closed", |t| {
        let (listener, port) = known_listener(t);
        let fd = t.tcp();
        set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("close", sys::close(fd));
        t.see("nothing", listener.poll(POLLIN, 30));
    });
    suite.add(BOTH, "connect_without_a_cookie", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
        set_int(fd, IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, 1);
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("write", sys::write(fd, b"hello"));
        let peer = listener.accept();
        t.see("peer", peer.hear(5));
    });
}

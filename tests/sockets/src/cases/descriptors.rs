//! `dup`, `dup2`, `dup3`, `F_DUPFD`: two numbers for one socket.

use crate::case::{ALL, Case, SHORT_MS, now};
use crate::names;
use crate::suite::{BOTH, Suite, V4};
use crate::sys::{self, Fd};
use libc::{F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, O_CLOEXEC, POLLIN, POLLRDHUP};

type Doubling = fn(Fd) -> sys::Ret;

const WAYS: [(&str, Doubling); 5] = [
    ("dup", sys::dup),
    ("dup2", |fd| sys::dup2(fd, 300)),
    ("dup3", |fd| sys::dup3(fd, 301, O_CLOEXEC)),
    ("fcntl", |fd| sys::fcntl(fd, F_DUPFD, 302)),
    ("fcntl_cloexec", |fd| sys::fcntl(fd, F_DUPFD_CLOEXEC, 303)),
];

fn both_work(t: &Case, one: Fd, two: Fd, peer: crate::case::Peer) {
    sys::send(one, b"one", 0);
    sys::send(two, b"two", 0);
    t.see("peer", peer.hear(6));
    peer.say("abcd");
    t.arrived(one, 4);
    t.see_recv("one", one, 2, 0);
    t.see_recv("two", two, 2, 0);
}

pub fn add(suite: &mut Suite) {
    for (name, doubling) in WAYS {
        suite.add(BOTH, &format!("{name}_of_a_connection"), move |t| {
            let (fd, peer) = t.accepted();
            let ret = doubling(fd);
            let second = ret.fd();
            t.see("double", if ret.value >= 300 { ret.to_string() } else { ret.done().to_owned() });
            t.see("flags", sys::fcntl(second, F_GETFD, 0));
            both_work(t, fd, second, peer);
            t.see("close", sys::close(fd));
            t.see("peer_sees", peer.poll(POLLIN | POLLRDHUP, SHORT_MS));
            sys::send(second, b"still", 0);
            t.see("peer", peer.hear(5));
            t.see("close", sys::close(second));
            t.see("peer", peer.hear(1));
        });
        suite.add(V4, &format!("{name}_of_a_listener"), move |t| {
            let (fd, port) = t.listener();
            let second = doubling(fd).fd();
            sys::close(fd);
            let _peer = t.peer_connects(port);
            t.see("accept", sys::accept(second).done());
            sys::close(second);
            t.see("then", t.peer_tries(port));
        });
        suite.add(V4, &format!("{name}_of_a_datagram_socket"), move |t| {
            let (fd, port) = t.udp_bound();
            let second = doubling(fd).fd();
            let (peer, _) = t.peer_udp();
            peer.to(t.here_ip(), port, 5);
            t.see("recv", sys::recv(second, &mut [0; 9], 0));
            sys::close(fd);
            peer.to(t.here_ip(), port, 6);
            t.see("recv", sys::recv(second, &mut [0; 9], 0));
        });
    }
    suite.add(BOTH, "status_flags_are_shared", |t| {
        let (fd, _peer) = t.accepted();
        let second = sys::dup(fd).fd();
        t.nonblocking(second);
        t.see("status", names::status_flags(sys::fcntl(fd, F_GETFL, 0).value));
        t.see("recv", sys::recv(fd, &mut [0; 1], 0));
        sys::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        t.see("descriptor", sys::fcntl(second, F_GETFD, 0));
    });
    suite.add(BOTH, "shutdown_is_shared", |t| {
        let (fd, peer) = t.accepted();
        let second = sys::dup(fd).fd();
        sys::shutdown(second, libc::SHUT_WR);
        t.see("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "before_connect", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        let second = sys::dup(fd).fd();
        t.see("connect", sys::connect(second, &t.there(port)));
        sys::close(second);
        sys::send(fd, b"x", 0);
        t.see("peer", listener.accept().hear(1));
    });
    suite.add(BOTH, "onto_a_connection", |t| {
        let (first, first_peer) = t.accepted();
        let (second, second_peer) = t.accepted();
        t.see("dup2", sys::dup2(first, second).value == i64::from(second));
        t.see("second_peer", second_peer.hear(1));
        sys::send(second, b"x", 0);
        t.see("first_peer", first_peer.hear(1));
    });
    suite.add(V4, "onto_a_pipe", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        t.see("dup2", sys::dup2(fd, writing).value == i64::from(writing));
        t.see("pipe_ended", sys::read(reading, &mut [0; 1]));
        t.see("write", sys::write(writing, b"x"));
        t.see("peer", peer.hear(1));
        t.see("kind", sys::kind_of(writing));
    });
    suite.add(BOTH, "a_pipe_onto_a_connection", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        t.see("dup2", sys::dup2(writing, fd).value == i64::from(fd));
        t.see("peer", peer.hear(1));
        t.see("write", sys::write(fd, b"piped"));
        let mut bytes = [0; 8];
        let ret = sys::read(reading, &mut bytes);
        t.see_text("read", ret, &bytes);
        t.see("send", sys::send(fd, b"x", 0));
        t.see("kind", sys::kind_of(fd));
    });
    suite.add(BOTH, "onto_itself", |t| {
        let (fd, peer) = t.accepted();
        t.see("dup2", sys::dup2(fd, fd).value == i64::from(fd));
        t.see("dup3", sys::dup3(fd, fd, 0));
        sys::send(fd, b"x", 0);
        t.see("peer", peer.hear(1));
    });
    suite.add(V4, "wrong_ones", |t| {
        let fd = t.tcp();
        t.see("dup", sys::dup(-1));
        t.see("dup2_from_nothing", sys::dup2(1_000_000, 200));
        t.see("dup2_to_negative", sys::dup2(fd, -1));
        t.see("dup2_to_too_large", sys::dup2(fd, i32::MAX));
        t.see("dup3_flags", sys::dup3(fd, 200, 1));
        t.see("fcntl_negative", sys::fcntl(fd, F_DUPFD, -1));
        t.see("still_there", sys::kind_of(fd));
    });
    suite.add(BOTH, "as_standard_input", |t| {
        // As inetd and its like do; the number is taken from a saved one afterwards.
        let (fd, peer) = t.accepted();
        let saved = sys::dup(0).fd();
        t.see("dup2", sys::dup2(fd, 0));
        sys::close(fd);
        peer.say("in");
        let mut bytes = [0; 8];
        let ret = sys::read(0, &mut bytes);
        t.see_text("read", ret, &bytes);
        t.see("restore", sys::dup2(saved, 0));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "many_numbers", |t| {
        let (fd, peer) = t.accepted();
        let all: Vec<Fd> = (0..50).map(|_| sys::dup(fd).fd()).collect();
        for double in &all {
            sys::send(*double, b"x", 0);
        }
        t.see("peer", peer.hear(50).len());
        sys::close(fd);
        for double in &all[1..] {
            sys::close(*double);
        }
        t.see("open", now(all[0], ALL));
        sys::close(all[0]);
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "closed_in_another_order", |t| {
        let (fd, peer) = t.accepted();
        let second = sys::dup(fd).fd();
        let third = sys::dup(second).fd();
        sys::close(second);
        sys::close(fd);
        peer.say("x");
        t.see_recv("recv", third, 4, 0);
        t.see("first", sys::recv(fd, &mut [0; 1], 0));
        let fresh = t.tcp();
        t.see("number_taken_again", fresh == fd);
        t.see("recv", sys::recv(fresh, &mut [0; 1], 0));
    });
}

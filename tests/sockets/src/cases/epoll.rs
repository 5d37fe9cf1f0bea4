//! `epoll`: level, edge, once; sets of ours and of the kernel's; nested, doubled, closed.

use crate::case::{Case, LONG_MS, Peer, SHORT_MS, joined, now, ready, until, waiting};
use crate::names;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Disposition, Fd};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI,
    EPOLLRDHUP, POLLIN, POLLRDHUP, SHUT_WR,
};

/// Waits and tells events with their data, those of one wait in the order of their data.
fn told(epoll: Fd, timeout_ms: i32) -> String {
    let (ret, mut events) = sys::epoll_wait(epoll, 16, timeout_ms);
    events.sort_by_key(|(_, data)| *data);
    let all: Vec<String> = events.iter().map(|(events, data)| format!("{data}:{}", names::events(*events))).collect();
    if ret.is_ok() { format!("[{}]", all.join(" ")) } else { ret.to_string() }
}

fn set() -> Fd {
    sys::epoll_create(0).fd()
}

/// A connection in a set of its own.
fn watched(t: &Case, events: i32) -> (Fd, Fd, Peer) {
    let (fd, peer) = t.accepted();
    let epoll = set();
    t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, events, 7));
    (epoll, fd, peer)
}

pub fn add(suite: &mut Suite) {
    control(suite);
    level(suite);
    edge(suite);
    sets(suite);
    lives(suite);
    waits(suite);
}

fn control(suite: &mut Suite) {
    suite.add(V4, "create", |t| {
        let fd = set();
        t.see("flags", sys::fcntl(fd, libc::F_GETFD, 0));
        let closing = sys::epoll_create(libc::EPOLL_CLOEXEC);
        t.see("cloexec", sys::fcntl(closing.fd(), libc::F_GETFD, 0));
        t.see("unknown", sys::epoll_create(1).done());
        t.see("close", sys::close(fd));
        t.see("wait", sys::epoll_wait(fd, 1, 0).0);
    });
    suite.add(BOTH, "ctl_errors", |t| {
        let epoll = set();
        let fd = t.tcp();
        t.see("mod_missing", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN, 0));
        t.see("del_missing", sys::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0));
        t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 0));
        t.see("add_twice", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 0));
        t.see("unknown", sys::epoll_ctl(epoll, 9, fd, EPOLLIN, 0));
        t.see("itself", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, epoll, EPOLLIN, 0));
        t.see("not_an_epoll", sys::epoll_ctl(fd, EPOLL_CTL_ADD, epoll, EPOLLIN, 0));
        t.see("closed", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, 1_000_000, EPOLLIN, 0));
        t.see("file", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, sys::file(b"x"), EPOLLIN, 0));
        t.see("del", sys::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0));
        t.see("del_twice", sys::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0));
        t.see("wait_on_a_socket", sys::epoll_wait(fd, 1, 0).0);
        t.see("room_0", sys::epoll_wait(epoll, 0, 0).0);
    });
    suite.add(BOTH, "exclusive_rules", |t| {
        let epoll = set();
        let fd = t.tcp();
        let add = |events| sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, events, 0);
        t.see("with_oneshot", add(EPOLLEXCLUSIVE | EPOLLONESHOT | EPOLLIN));
        t.see("with_rdhup", add(EPOLLEXCLUSIVE | EPOLLRDHUP | EPOLLIN));
        t.see("plain", add(EPOLLEXCLUSIVE | EPOLLIN));
        t.see("mod", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN, 0));
        let other = t.tcp();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, other, EPOLLIN, 0);
        t.see("mod_into", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, other, EPOLLIN | EPOLLEXCLUSIVE, 0));
    });
    suite.add(BOTH, "exclusive_rules_of_a_connection", |t| {
        let (epoll, fd, _peer) = watched(t, EPOLLIN);
        let control = |operation, events| sys::epoll_ctl(epoll, operation, fd, events, 0);
        t.see("mod_into", control(EPOLL_CTL_MOD, EPOLLIN | EPOLLEXCLUSIVE));
        t.see("del", control(EPOLL_CTL_DEL, 0));
        t.see("with_oneshot", control(EPOLL_CTL_ADD, EPOLLEXCLUSIVE | EPOLLONESHOT | EPOLLIN));
        t.see("with_rdhup", control(EPOLL_CTL_ADD, EPOLLEXCLUSIVE | EPOLLRDHUP | EPOLLIN));
        t.see("plain", control(EPOLL_CTL_ADD, EPOLLEXCLUSIVE | EPOLLIN));
        t.see("mod", control(EPOLL_CTL_MOD, EPOLLIN));
    });
    suite.add(BOTH, "added_again_at_once", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        peer.say("x");
        ready(fd, POLLIN);
        sys::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 8);
        t.see("wait", told(epoll, 0));
    });
    suite.add(BOTH, "number_taken_over", |t| {
        let (_, port) = t.peer_listens();
        let (fd, other) = (t.tcp_nonblocking(), t.tcp_nonblocking());
        let epoll = set();
        t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 1));
        t.see("dup2", sys::dup2(other, fd).done());
        sys::connect(fd, &t.there(port));
        until(|| now(fd, libc::POLLOUT) == "OUT");
        t.see("wait", told(epoll, 0));
        t.see("add_again", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLOUT, 2));
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "data_is_kept", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        peer.say("x");
        t.see("wait", told(epoll, LONG_MS));
        t.see("mod", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN, u64::MAX - 3));
        t.see("wait", told(epoll, LONG_MS));
        t.see("mod_events", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLOUT, 5));
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "added_when_ready", |t| {
        let (fd, peer) = t.accepted();
        peer.say("x");
        ready(fd, POLLIN);
        let epoll = set();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1);
        t.see("wait", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
    });
    suite.add(BOTH, "removed_while_ready", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        peer.say("x");
        ready(fd, POLLIN);
        t.see("del", sys::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0));
        t.see("wait", told(epoll, 0));
        t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 8));
        t.see("wait", told(epoll, 0));
    });
}

fn level(suite: &mut Suite) {
    suite.add(EACH, "level", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        t.see("idle", told(epoll, 0));
        peer.say("ab");
        t.see("wait", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
        t.arrived(fd, 2);
        sys::recv(fd, &mut [0; 1], 0);
        t.see("partly_read", told(epoll, 0));
        sys::recv(fd, &mut [0; 1], 0);
        t.see("all_read", told(epoll, 0));
    });
    suite.add(BOTH, "level_out", |t| {
        let (epoll, _, _peer) = watched(t, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI);
        t.see("wait", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
    });
    suite.add(BOTH, "the_end", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN | EPOLLRDHUP);
        peer.shut(SHUT_WR);
        t.see("wait", told(epoll, LONG_MS));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("after_reading_it", told(epoll, 0));
        sys::shutdown(fd, SHUT_WR);
        t.see("both", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "the_end_unasked", |t| {
        let (epoll, _, peer) = watched(t, 0);
        peer.shut(SHUT_WR);
        t.see("end", told(epoll, SHORT_MS));
    });
    suite.add(BOTH, "reset", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
        peer.abort();
        ready(fd, POLLRDHUP);
        t.see("wait", told(epoll, LONG_MS));
        t.error_of(fd);
        t.see("after_the_error", told(epoll, 0));
    });
    suite.add(BOTH, "reset_unasked", |t| {
        let (epoll, _, peer) = watched(t, 0);
        peer.abort();
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "urgent", |t| {
        let (epoll, _, peer) = watched(t, EPOLLPRI);
        peer.say_with("!", libc::MSG_OOB);
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(EACH, "listener", |t| {
        let (fd, port) = t.listener();
        let epoll = set();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
        t.see("idle", told(epoll, 0));
        let _one = t.peer_connects(port);
        let _two = t.peer_connects(port);
        t.see("wait", told(epoll, LONG_MS));
        sys::accept(fd);
        t.see("one_left", told(epoll, 0));
        sys::accept(fd);
        t.see("none_left", told(epoll, 0));
    });
    suite.add(BOTH, "connecting", |t| {
        let (_, port) = t.peer_listens();
        let fd = t.tcp_nonblocking();
        let epoll = set();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 1);
        t.see("fresh", told(epoll, 0));
        sys::connect(fd, &t.there(port));
        t.see("connected", {
            until(|| now(fd, libc::POLLOUT) == "OUT");
            told(epoll, LONG_MS)
        });
        let deaf = t.tcp_nonblocking();
        sys::connect(deaf, &t.there(t.peer_is_deaf()));
        let other = set();
        sys::epoll_ctl(other, EPOLL_CTL_ADD, deaf, EPOLLIN | EPOLLOUT, 1);
        t.see("under_way", told(other, 0));
    });
    suite.add(BOTH, "refused", |t| {
        let epoll = set();
        let fd = t.tcp_nonblocking();
        let port = t.peer_closed_port();
        sys::connect(fd, &t.there(port));
        ready(fd, libc::POLLOUT);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "datagrams", |t| {
        let (fd, port) = t.udp_bound();
        let epoll = set();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 1);
        t.see("idle", told(epoll, 0));
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 0);
        t.see("wait", told(epoll, LONG_MS));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("then", told(epoll, 0));
    });
}

fn edge(suite: &mut Suite) {
    suite.add(EACH, "edge", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN | EPOLLET);
        t.see("idle", told(epoll, 0));
        peer.say("ab");
        t.see("wait", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
        peer.say("c");
        t.arrived(fd, 3);
        t.see("more_came", told(epoll, LONG_MS));
        sys::recv(fd, &mut [0; 1], 0);
        t.see("partly_read", told(epoll, 0));
        peer.shut(SHUT_WR);
        t.see("the_end", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "edge_first_state", |t| {
        let (epoll, fd, _peer) = watched(t, EPOLLIN | EPOLLOUT | EPOLLET);
        t.see("wait", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
        t.see("mod", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLET, 7));
        t.see("rearmed", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
    });
    suite.add(BOTH, "edge_listener", |t| {
        let (fd, port) = t.listener();
        let epoll = set();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1);
        let _one = t.peer_connects(port);
        t.see("one", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
        let _two = t.peer_connects(port);
        t.see("two", told(epoll, LONG_MS));
        t.see("accept", sys::accept(fd).done());
        t.see("then", told(epoll, 0));
    });
    suite.add(BOTH, "edge_writable_again", |t| {
        let (fd, peer) = t.accepted_small();
        crate::case::set_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 20_000);
        let epoll = set();
        let bytes = crate::pattern::bytes(4000);
        until(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            !sys::send(fd, &bytes, libc::MSG_DONTWAIT).is_ok()
        });
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 1);
        // The last write has to be one that found no room: that is what asks for the edge.
        until(|| !sys::send(fd, &bytes, libc::MSG_DONTWAIT).is_ok());
        peer.begin_read(1 << 20);
        t.see("wait", told(epoll, LONG_MS));
        sys::close(fd);
        crate::case::finish();
    });
    suite.add(BOTH, "once", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN | EPOLLONESHOT);
        peer.say("x");
        t.see("wait", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
        peer.say("y");
        t.arrived(fd, 2);
        t.see("not_armed", told(epoll, 0));
        t.see("mod", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 9));
        t.see("armed", told(epoll, LONG_MS));
        sys::recv(fd, &mut [0; 4], 0);
        sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 9);
        t.see("nothing_there", told(epoll, 0));
        peer.say("z");
        t.see("later", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "once_with_the_end", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT);
        peer.say("x");
        t.see("data", told(epoll, LONG_MS));
        peer.abort();
        ready(fd, POLLRDHUP);
        t.see("not_armed", told(epoll, 0));
        sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, 3);
        t.see("armed", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "edge_datagrams", |t| {
        let (fd, port) = t.udp_bound();
        let epoll = set();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 1);
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 1);
        t.see("one", told(epoll, LONG_MS));
        t.see("again", told(epoll, 0));
        peer.to(t.here_ip(), port, 2);
        t.see("two", told(epoll, LONG_MS));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("then", told(epoll, 0));
    });
}

fn sets(suite: &mut Suite) {
    suite.add(BOTH, "mixed_with_the_kernel's", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        let (reading, writing) = sys::pipe(0);
        let event = sys::eventfd(0, 0);
        for (fd, data) in [(reading, 1), (event, 2)] {
            t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, data));
        }
        t.see("idle", told(epoll, 0));
        sys::write(writing, b"x");
        t.see("pipe", told(epoll, LONG_MS));
        peer.say("x");
        ready(fd, POLLIN);
        t.see("and_socket", told(epoll, LONG_MS));
        sys::write(event, &1_u64.to_ne_bytes());
        t.see("and_event", told(epoll, LONG_MS));
        sys::read(reading, &mut [0; 4]);
        t.see("without_the_pipe", told(epoll, LONG_MS));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("without_the_socket", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "a_timer_beside_a_socket", |t| {
        let (epoll, _, _peer) = watched(t, EPOLLIN);
        let timer = sys::timerfd(20);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, timer, EPOLLIN, 1);
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "several_ready", |t| {
        let (listener, port) = t.listener();
        let epoll = set();
        let peers: Vec<Peer> = (0..6).map(|_| t.peer_connects(port)).collect();
        let fds: Vec<Fd> = (0..6).map(|_| sys::accept(listener).fd()).collect();
        for (fd, data) in fds.iter().zip(0..) {
            sys::epoll_ctl(epoll, EPOLL_CTL_ADD, *fd, EPOLLIN, data);
        }
        for at in [4, 1, 3] {
            peers[at].say("x");
            ready(fds[at], POLLIN);
        }
        let order = |count| {
            let (_, events) = sys::epoll_wait(epoll, count, LONG_MS);
            events.iter().map(|(_, data)| data.to_string()).collect::<Vec<_>>().join(",")
        };
        t.see("in_the_order_they_came", order(8));
        t.see("one_at_a_time", format!("{} {} {} {}", order(1), order(1), order(1), order(1)));
    });
    suite.add(BOTH, "fewer_places_than_events", |t| {
        let (listener, port) = t.listener();
        let epoll = set();
        for data in 0..8 {
            t.peer_connects(port).say("x");
            let fd = sys::accept(listener).fd();
            ready(fd, POLLIN);
            sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, data);
        }
        let mut seen: Vec<u64> =
            (0..4).flat_map(|_| sys::epoll_wait(epoll, 2, LONG_MS).1).map(|(_, data)| data).collect();
        seen.sort_unstable();
        t.see("each_once", format!("{seen:?}"));
    });
    suite.add(BOTH, "two_sets", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        let other = set();
        sys::epoll_ctl(other, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 8);
        peer.say("x");
        t.see("one", told(epoll, LONG_MS));
        t.see("other", told(other, LONG_MS));
        t.see("one", told(epoll, 0));
        t.see("other", told(other, 0));
    });
    suite.add(BOTH, "nested", |t| {
        let (inner, fd, peer) = watched(t, EPOLLIN);
        let outer = set();
        t.see("add", sys::epoll_ctl(outer, EPOLL_CTL_ADD, inner, EPOLLIN, 1));
        t.see("idle", told(outer, 0));
        peer.say("x");
        t.see("outer", told(outer, LONG_MS));
        t.see("inner", told(inner, 0));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("then", told(outer, 0));
        t.see("loop", sys::epoll_ctl(inner, EPOLL_CTL_ADD, outer, EPOLLIN, 1));
    });
    suite.add(BOTH, "polled", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        t.see("idle", now(epoll, POLLIN));
        peer.say("x");
        t.see("poll", ready(epoll, POLLIN));
        let (ret, sets) = sys::select([&[epoll], &[], &[]], Some(LONG_MS.into()));
        t.see("select", format!("{ret} {}", sets[0] == [epoll]));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("then", now(epoll, POLLIN));
    });
    suite.add(BOTH, "polled_while_waiting", |t| {
        let (epoll, _, peer) = watched(t, EPOLLIN);
        let polling = waiting(move || sys::poll(&[(epoll, POLLIN)], LONG_MS).0);
        peer.say("x");
        t.see("poll", joined(polling));
    });
    suite.add(BOTH, "hundreds", |t| {
        let epoll = set();
        let (fd, peer) = t.accepted();
        for data in 0..300 {
            let idle = t.tcp();
            sys::bind(idle, &t.here(0));
            sys::listen(idle, 1);
            sys::epoll_ctl(epoll, EPOLL_CTL_ADD, idle, EPOLLIN, data);
        }
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 1000);
        t.see("idle", told(epoll, 0));
        peer.say("x");
        t.see("wait", told(epoll, LONG_MS));
    });
}

fn lives(suite: &mut Suite) {
    suite.add(BOTH, "closing_takes_it_out", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        peer.say("x");
        ready(fd, POLLIN);
        sys::close(fd);
        t.see("wait", told(epoll, 0));
        let (again, _second) = t.accepted();
        t.see("new_one_is_not_in", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, again, EPOLLIN, 0));
        t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, again, EPOLLIN, 0));
    });
    suite.add(BOTH, "a_double_keeps_it_in", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        let double = sys::dup(fd).fd();
        sys::close(fd);
        peer.say("x");
        t.see("wait", told(epoll, LONG_MS));
        t.see("by_the_double", sys::epoll_ctl(epoll, EPOLL_CTL_DEL, double, 0, 0));
        t.see("by_the_number", sys::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0));
        sys::close(double);
        t.see("gone", told(epoll, 0));
    });
    suite.add(BOTH, "a_double_is_another_entry", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN);
        let double = sys::dup(fd).fd();
        t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, double, EPOLLIN, 8));
        peer.say("x");
        ready(fd, POLLIN);
        t.see("wait", told(epoll, LONG_MS));
        t.see("del", sys::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, 0, 0));
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "a_double_of_the_set", |t| {
        let (epoll, _, peer) = watched(t, EPOLLIN);
        let double = sys::dup(epoll).fd();
        sys::close(epoll);
        peer.say("x");
        t.see("wait", told(double, LONG_MS));
    });
    suite.add(BOTH, "added_to_while_waited_on", |t| {
        let (fd, peer) = t.accepted();
        let epoll = set();
        let polling = waiting(move || told(epoll, LONG_MS));
        t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 3));
        peer.say("x");
        t.see("wait", joined(polling));
    });
    suite.add(BOTH, "added_ready_while_waited_on", |t| {
        let (fd, _peer) = t.accepted();
        let epoll = set();
        let polling = waiting(move || told(epoll, LONG_MS));
        t.see("add", sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLOUT, 3));
        t.see("wait", joined(polling));
    });
    suite.add(BOTH, "changed_while_waited_on", |t| {
        let (epoll, fd, _peer) = watched(t, EPOLLIN);
        let polling = waiting(move || told(epoll, LONG_MS));
        t.see("mod", sys::epoll_ctl(epoll, EPOLL_CTL_MOD, fd, EPOLLOUT, 4));
        t.see("wait", joined(polling));
    });
    suite.add(BOTH, "added_before_listen", |t| {
        let fd = t.tcp();
        sys::bind(fd, &t.here(0));
        let epoll = set();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, 3);
        t.see("bound", told(epoll, 0));
        sys::listen(fd, 4);
        t.see("listening", told(epoll, 0));
        let _peer = t.peer_connects(sys::getsockname(fd).1.port());
        t.see("wait", told(epoll, LONG_MS));
    });
    suite.add(BOTH, "exclusive_wakes", |t| {
        let (fd, port) = t.listener_with(libc::SOCK_NONBLOCK, 16);
        let sets: Vec<Fd> = (0..3).map(|_| set()).collect();
        for epoll in &sets {
            sys::epoll_ctl(*epoll, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLEXCLUSIVE, 1);
        }
        let polls: Vec<_> = sets.iter().copied().map(|epoll| waiting(move || told(epoll, 300))).collect();
        let _peer = t.peer_connects(port);
        let woken = polls.into_iter().map(joined).filter(|told| told == "[1:IN]").count();
        // At least one; how many more is the kernel's affair.
        t.see("somebody", woken >= 1);
        t.see("accept", sys::accept(fd).done());
    });
}

fn waits(suite: &mut Suite) {
    suite.add(BOTH, "timeout", |t| {
        let (epoll, _, _peer) = watched(t, EPOLLIN);
        let start = std::time::Instant::now();
        t.see("wait", told(epoll, 60));
        t.see("waited", start.elapsed().as_millis() >= 59);
        t.see("empty_set", told(set(), 10));
    });
    suite.add(BOTH, "woken", |t| {
        let (epoll, _, peer) = watched(t, EPOLLIN);
        let polling = waiting(move || told(epoll, -1));
        t.see("waits", !polling.is_finished());
        peer.say("x");
        t.see("wait", joined(polling));
    });
    suite.add(BOTH, "woken_by_the_kernel's", |t| {
        let (epoll, _, _peer) = watched(t, EPOLLIN);
        let event = sys::eventfd(0, 0);
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, event, EPOLLIN, 1);
        let polling = waiting(move || told(epoll, -1));
        sys::write(event, &1_u64.to_ne_bytes());
        t.see("wait", joined(polling));
    });
    suite.add(BOTH, "pwait_lets_a_signal_in", |t| {
        let (epoll, _, peer) = watched(t, EPOLLIN);
        sys::on_signal(libc::SIGUSR1, Disposition::Count(0));
        sys::block_signal(libc::SIGUSR1, true);
        sys::signal_thread(sys::this_thread(), libc::SIGUSR1);
        t.see("wait", told(epoll, 10));
        t.see("caught", sys::caught(libc::SIGUSR1));
        t.see("pwait", sys::epoll_pwait(epoll, 4, LONG_MS, libc::SIGUSR1).0);
        t.see("caught", sys::caught(libc::SIGUSR1));
        peer.say("x");
        t.see("ready", sys::epoll_pwait(epoll, 4, LONG_MS, libc::SIGUSR1).0);
    });
    suite.add(BOTH, "two_threads_one_event", |t| {
        let (epoll, fd, peer) = watched(t, EPOLLIN | EPOLLET);
        let one = waiting(move || told(epoll, 400));
        let two = waiting(move || told(epoll, 400));
        peer.say("x");
        let mut both = [joined(one), joined(two)];
        both.sort();
        t.see("one_of_them", both.join(" "));
        t.see_recv("recv", fd, 4, 0);
    });
}

//! `poll` and `ppoll`: every edge of readiness.

use crate::case::{ALL, LONG_MS, PATIENCE, Peer, joined, now, ready, set_int, until, waiting};
use crate::names;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Disposition, Ret};
use libc::{MSG_DONTWAIT, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, SHUT_RD, SHUT_WR};
use std::time::{Duration, Instant};

fn told((ret, told): &(Ret, Vec<i16>)) -> String {
    let all: Vec<String> = told.iter().map(|events| names::events(u32::from(events.cast_unsigned()))).collect();
    format!("{ret} [{}]", all.join(" "))
}

pub fn add(suite: &mut Suite) {
    states(suite);
    edges(suite);
    sets(suite);
    waits(suite);
}

fn states(suite: &mut Suite) {
    suite.add(EACH, "fresh", |t| {
        t.see("tcp", now(t.tcp(), ALL));
        t.see("udp", now(t.udp(), ALL));
        let bound = t.tcp();
        sys::bind(bound, &t.here(0));
        t.see("bound", now(bound, ALL));
        t.see("listener", now(t.listener().0, ALL));
        t.see("udp_bound", now(t.udp_bound().0, ALL));
    });
    suite.add(EACH, "open_connection", |t| {
        let (fd, _peer) = t.accepted();
        t.see("all", now(fd, ALL));
        t.see("in", now(fd, POLLIN));
        t.see("out", now(fd, POLLOUT));
        t.see("none", now(fd, 0));
        t.see("normal", now(fd, POLLRDNORM | POLLWRNORM));
    });
    suite.add(EACH, "readable", |t| {
        let (fd, peer) = t.connected();
        peer.say("x");
        t.see("ready", ready(fd, POLLIN));
        t.see("all", now(fd, ALL | POLLRDNORM | POLLWRNORM));
        t.see("out_only", now(fd, POLLOUT));
        t.see("none", now(fd, 0));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("then", now(fd, ALL));
    });
    suite.add(EACH, "listener_readable", |t| {
        let (fd, port) = t.listener();
        let _peer = t.peer_connects(port);
        t.see("ready", ready(fd, POLLIN));
        t.see("all", now(fd, ALL | POLLRDNORM));
        sys::accept(fd);
        t.see("then", now(fd, ALL));
    });
    for (name, how) in [("read", SHUT_RD), ("write", SHUT_WR)] {
        suite.add(BOTH, &format!("own_shutdown_{name}"), move |t| {
            let (fd, _peer) = t.accepted();
            sys::shutdown(fd, how);
            t.see("all", now(fd, ALL));
            t.see("none", now(fd, 0));
        });
    }
    suite.add(BOTH, "peer_ended", |t| {
        let (fd, peer) = t.accepted();
        peer.shut(SHUT_WR);
        t.see("ready", ready(fd, POLLRDHUP));
        t.see("in", now(fd, POLLIN));
        t.see("all", now(fd, ALL));
        t.see("none", now(fd, 0));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("after_reading_it", now(fd, ALL));
        sys::shutdown(fd, SHUT_WR);
        t.see("both", now(fd, ALL));
        t.see("both_none", now(fd, 0));
    });
    suite.add(BOTH, "peer_ended_behind_data", |t| {
        let (fd, peer) = t.accepted();
        peer.say("x");
        peer.close();
        t.see("ready", ready(fd, POLLRDHUP));
        t.see("all", now(fd, ALL));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("then", now(fd, ALL));
    });
    suite.add(BOTH, "reset", |t| {
        let (fd, peer) = t.accepted();
        peer.abort();
        t.see("ready", ready(fd, POLLRDHUP));
        t.see("none", now(fd, 0));
        t.see("in", now(fd, POLLIN));
        t.see("out", now(fd, POLLOUT));
        t.see("all", now(fd, ALL));
        t.error_of(fd);
        t.see("after_the_error", now(fd, ALL));
    });
    suite.add(BOTH, "urgent", |t| {
        let (fd, peer) = t.accepted();
        peer.say_with("!", libc::MSG_OOB);
        t.see("ready", ready(fd, POLLPRI));
        t.see("all", now(fd, ALL));
        sys::recv(fd, &mut [0; 1], libc::MSG_OOB);
        t.see("then", now(fd, ALL));
    });
    suite.add(BOTH, "datagram", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 0);
        t.see("empty_one", ready(fd, POLLIN));
        t.see("all", now(fd, ALL));
        sys::recv(fd, &mut [0; 4], 0);
        t.see("then", now(fd, ALL));
    });
    suite.add(BOTH, "connecting", |t| {
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(t.peer_is_deaf()));
        t.see("all", now(fd, ALL));
        t.see("none", now(fd, 0));
        let (listener, port) = t.peer_listens();
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(port));
        t.see("ready", ready(fd, POLLOUT));
        t.see("all", now(fd, ALL));
        listener.close();
    });
    suite.add(BOTH, "full", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 20_000);
        let bytes = crate::pattern::bytes(4000);
        let fill = || {
            let mut total = 0;
            loop {
                let ret = sys::send(fd, &bytes, MSG_DONTWAIT);
                if !ret.is_ok() {
                    return total;
                }
                total += ret.count();
            }
        };
        until(|| {
            std::thread::sleep(Duration::from_millis(40));
            fill() == 0
        });
        t.see("full", now(fd, ALL));
        peer.begin_read(1 << 20);
        t.see("ready", ready(fd, POLLOUT));
        sys::close(fd);
        crate::case::finish();
    });
}

/// What the peer does to wake a poll.
type Wake = fn(Peer);

fn edges(suite: &mut Suite) {
    let wakes: [(&str, i16, Wake); 5] = [
        ("data", POLLIN, |peer| drop(peer.say("x"))),
        ("the_end", POLLIN, |peer| drop(peer.shut(SHUT_WR))),
        ("the_end_alone", POLLRDHUP, |peer| drop(peer.shut(SHUT_WR))),
        ("a_reset", 0, |peer| drop(peer.abort())),
        ("urgent_data", POLLPRI, |peer| drop(peer.say_with("!", libc::MSG_OOB))),
    ];
    for (name, events, wake) in wakes {
        suite.add(BOTH, &format!("woken_by_{name}"), move |t| {
            let (fd, peer) = t.accepted();
            let polling = waiting(move || sys::poll(&[(fd, events)], LONG_MS));
            t.see("waits", !polling.is_finished());
            wake(peer);
            t.see("poll", told(&joined(polling)));
        });
    }
    suite.add(BOTH, "woken_by_a_connection", |t| {
        let (fd, port) = t.listener();
        let polling = waiting(move || sys::poll(&[(fd, POLLIN)], LONG_MS));
        let _peer = t.peer_connects(port);
        t.see("poll", told(&joined(polling)));
    });
    suite.add(BOTH, "woken_by_a_datagram", |t| {
        let (fd, port) = t.udp_bound();
        let polling = waiting(move || sys::poll(&[(fd, POLLIN)], LONG_MS));
        t.peer_udp().0.to(t.here_ip(), port, 3);
        t.see("poll", told(&joined(polling)));
    });
    suite.add(BOTH, "woken_by_a_refusal", |t| {
        let fd = t.tcp_nonblocking();
        let port = t.peer_closed_port();
        sys::connect(fd, &t.there(port));
        t.see("poll", told(&sys::poll(&[(fd, POLLOUT)], LONG_MS)));
    });
    suite.add(BOTH, "woken_by_a_pipe_beside_a_socket", |t| {
        let (fd, _peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        let polling = waiting(move || sys::poll(&[(fd, POLLIN), (reading, POLLIN)], LONG_MS));
        sys::write(writing, b"x");
        t.see("poll", told(&joined(polling)));
    });
    suite.add(BOTH, "woken_by_a_socket_beside_a_pipe", |t| {
        let (fd, peer) = t.accepted();
        let (reading, _writing) = sys::pipe(0);
        let polling = waiting(move || sys::poll(&[(reading, POLLIN), (fd, POLLIN)], LONG_MS));
        peer.say("x");
        t.see("poll", told(&joined(polling)));
    });
    suite.add(V4, "two_threads_poll_one_socket", |t| {
        let (fd, peer) = t.accepted();
        let one = waiting(move || sys::poll(&[(fd, POLLIN)], LONG_MS));
        let two = waiting(move || sys::poll(&[(fd, POLLIN)], LONG_MS));
        peer.say("x");
        t.see("one", told(&joined(one)));
        t.see("two", told(&joined(two)));
    });
}

fn sets(suite: &mut Suite) {
    suite.add(BOTH, "mixed", |t| {
        let (fd, peer) = t.accepted();
        let (udp, _) = t.udp_bound();
        let (reading, writing) = sys::pipe(0);
        let event = sys::eventfd(1, 0);
        let file = sys::file(b"abc");
        peer.say("x");
        t.arrived(fd, 1);
        let entries = [(fd, ALL), (udp, ALL), (reading, ALL), (writing, ALL), (event, ALL), (file, ALL)];
        t.see("poll", told(&sys::poll(&entries, 0)));
        sys::write(writing, b"x");
        t.see("poll", told(&sys::poll(&entries, LONG_MS)));
        sys::close(writing);
        t.see("poll", told(&sys::poll(&[(fd, POLLIN), (reading, POLLIN)], 0)));
    });
    suite.add(BOTH, "same_one_twice", |t| {
        let (fd, peer) = t.accepted();
        peer.say("x");
        ready(fd, POLLIN);
        t.see("poll", told(&sys::poll(&[(fd, POLLIN), (fd, POLLOUT), (fd, 0)], LONG_MS)));
    });
    suite.add(BOTH, "invalid_and_negative", |t| {
        let (fd, _peer) = t.accepted();
        let closed = t.tcp();
        sys::close(closed);
        t.see("closed", told(&sys::poll(&[(closed, ALL)], LONG_MS)));
        t.see("negative", told(&sys::poll(&[(-1, ALL), (-7, ALL)], 0)));
        t.see("mixed", told(&sys::poll(&[(-1, ALL), (fd, ALL), (closed, ALL)], LONG_MS)));
        t.see("closed_no_events", told(&sys::poll(&[(closed, 0)], LONG_MS)));
    });
    suite.add(V4, "empty", |t| {
        t.see("at_once", told(&sys::poll(&[], 0)));
        t.see("later", told(&sys::poll(&[], 10)));
    });
    suite.add(BOTH, "many", |t| {
        let (listener, port) = t.listener_with(0, 64);
        let peers: Vec<_> = (0..40).map(|_| t.peer_connects(port)).collect();
        let entries: Vec<(i32, i16)> = (0..40).map(|_| (sys::accept(listener).fd(), POLLIN)).collect();
        for at in [3, 17, 39] {
            peers[at].say("x");
            ready(entries[at].0, POLLIN);
        }
        let (ret, told) = sys::poll(&entries, LONG_MS);
        let which: Vec<usize> = (0..40).filter(|at| told[*at] != 0).collect();
        t.see("poll", format!("{ret} {which:?}"));
    });
}

fn waits(suite: &mut Suite) {
    suite.add(BOTH, "timeout", |t| {
        let (fd, _peer) = t.accepted();
        let start = Instant::now();
        t.see("poll", told(&sys::poll(&[(fd, POLLIN)], 60)));
        t.see("waited", start.elapsed() >= Duration::from_millis(59) && start.elapsed() < PATIENCE);
        t.see("at_once", told(&sys::poll(&[(fd, POLLIN)], 0)));
    });
    suite.add(BOTH, "ppoll", |t| {
        let (fd, peer) = t.accepted();
        t.see("timeout", told(&sys::ppoll(&[(fd, POLLIN)], Some(30), None)));
        t.see("at_once", told(&sys::ppoll(&[(fd, ALL)], Some(0), None)));
        peer.say("x");
        t.see("ready", told(&sys::ppoll(&[(fd, POLLIN)], None, None)));
        t.see("negative_time", told(&sys::ppoll(&[(fd, POLLIN)], Some(-5000), None)));
    });
    suite.add(BOTH, "ppoll_lets_a_signal_in", |t| {
        let (fd, _peer) = t.accepted();
        sys::on_signal(libc::SIGUSR1, Disposition::Count(0));
        sys::block_signal(libc::SIGUSR1, true);
        sys::signal_thread(sys::this_thread(), libc::SIGUSR1);
        t.see("blocked", sys::caught(libc::SIGUSR1));
        t.see("poll", told(&sys::poll(&[(fd, POLLIN)], 10)));
        t.see("still_blocked", sys::caught(libc::SIGUSR1));
        t.see("ppoll", told(&sys::ppoll(&[(fd, POLLIN)], Some(LONG_MS.into()), Some(libc::SIGUSR1))));
        t.see("came", sys::caught(libc::SIGUSR1));
    });
    suite.add(BOTH, "ready_while_a_signal_waits", |t| {
        let (fd, peer) = t.accepted();
        peer.say("x");
        ready(fd, POLLIN);
        sys::on_signal(libc::SIGUSR1, Disposition::Count(0));
        sys::block_signal(libc::SIGUSR1, true);
        sys::signal_thread(sys::this_thread(), libc::SIGUSR1);
        t.see("ppoll", told(&sys::ppoll(&[(fd, POLLIN)], Some(LONG_MS.into()), Some(libc::SIGUSR1))));
    });
}

//! `select` and `pselect`.

use crate::case::{Case, LONG_MS, joined, ready, until, waiting};
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Disposition, Fd, Ret, Sets};
use libc::{POLLIN, POLLRDHUP, SHUT_WR};

const LONG: Option<i64> = Some(LONG_MS as i64);

fn see(t: &Case, what: &str, names: &[(Fd, &str)], (ret, sets): &(Ret, [Vec<Fd>; 3])) {
    let name = |fd: &Fd| names.iter().find(|(known, _)| known == fd).map_or("?", |(_, name)| name);
    let list = |fds: &Vec<Fd>| fds.iter().map(name).collect::<Vec<_>>().join(",");
    if ret.is_ok() {
        t.see(what, format!("{ret} r[{}] w[{}] x[{}]", list(&sets[0]), list(&sets[1]), list(&sets[2])));
    } else {
        t.see(what, ret);
    }
}

fn of_one(t: &Case, what: &str, fd: Fd, timeout_ms: Option<i64>) {
    see(t, what, &[(fd, "it")], &sys::select([&[fd], &[fd], &[fd]], timeout_ms));
}

pub fn add(suite: &mut Suite) {
    suite.add(EACH, "open_connection", |t| {
        let (fd, peer) = t.accepted();
        of_one(t, "idle", fd, Some(0));
        peer.say("x");
        ready(fd, POLLIN);
        of_one(t, "readable", fd, None);
        sys::recv(fd, &mut [0; 4], 0);
        see(t, "timeout", &[], &sys::select([&[fd], &[], &[]], Some(30)));
    });
    suite.add(BOTH, "ends", |t| {
        let (fd, peer) = t.accepted();
        peer.shut(SHUT_WR);
        ready(fd, POLLRDHUP);
        of_one(t, "peer_ended", fd, None);
        let (fd, peer) = t.accepted();
        peer.abort();
        ready(fd, POLLRDHUP);
        of_one(t, "reset", fd, None);
    });
    suite.add(BOTH, "states", |t| {
        of_one(t, "fresh", t.tcp(), Some(0));
        of_one(t, "udp", t.udp(), Some(0));
        of_one(t, "listener", t.listener().0, Some(0));
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(t.peer_is_deaf()));
        of_one(t, "connecting", fd, Some(0));
    });
    suite.add(BOTH, "connects", |t| {
        let (_, port) = t.peer_listens();
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(port));
        see(t, "done", &[(fd, "it")], &sys::select([&[], &[fd], &[]], LONG));
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(t.peer_closed_port()));
        see(t, "refused", &[(fd, "it")], &sys::select([&[fd], &[fd], &[fd]], LONG));
        t.see("error", t.error_of(fd));
    });
    suite.add(BOTH, "urgent", |t| {
        let (fd, peer) = t.accepted();
        peer.say_with("!", libc::MSG_OOB);
        see(t, "exception", &[(fd, "it")], &sys::select([&[], &[], &[fd]], LONG));
    });
    suite.add(BOTH, "mixed", |t| {
        let (fd, peer) = t.accepted();
        let (listener, port) = t.listener();
        let (reading, writing) = sys::pipe(0);
        let event = sys::eventfd(3, 0);
        let names = [(fd, "fd"), (listener, "listener"), (reading, "pipe"), (writing, "writing"), (event, "event")];
        let reads = [fd, listener, reading, event];
        let sets: Sets<'_> = [&reads, &[fd, writing], &[fd]];
        see(t, "first", &names, &sys::select(sets, LONG));
        peer.say("x");
        ready(fd, POLLIN);
        sys::write(writing, b"x");
        let _second = t.peer_connects(port);
        ready(listener, POLLIN);
        see(t, "all", &names, &sys::select(sets, LONG));
        sys::recv(fd, &mut [0; 4], 0);
        sys::read(event, &mut [0; 8]);
        see(t, "some", &names, &sys::select([&reads, &[], &[]], LONG));
    });
    suite.add(BOTH, "wrong_ones", |t| {
        let (fd, _peer) = t.accepted();
        let closed = t.tcp();
        sys::close(closed);
        see(t, "closed", &[], &sys::select([&[fd, closed], &[], &[]], Some(0)));
        see(t, "negative_time", &[], &sys::select([&[fd], &[], &[]], Some(-1000)));
        see(t, "empty", &[], &sys::select([&[], &[], &[]], Some(10)));
    });
    suite.add(BOTH, "woken", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        let names = [(fd, "fd"), (reading, "pipe")];
        let selecting = waiting(move || sys::select([&[fd, reading], &[], &[]], None));
        peer.say("x");
        see(t, "by_the_socket", &names, &joined(selecting));
        sys::recv(fd, &mut [0; 4], 0);
        let selecting = waiting(move || sys::select([&[fd, reading], &[], &[]], None));
        sys::write(writing, b"x");
        see(t, "by_the_pipe", &names, &joined(selecting));
    });
    suite.add(BOTH, "woken_by_a_connection", |t| {
        let (fd, port) = t.listener();
        let selecting = waiting(move || sys::select([&[fd], &[], &[]], None));
        let _peer = t.peer_connects(port);
        see(t, "select", &[(fd, "it")], &joined(selecting));
    });
    suite.add(BOTH, "pselect", |t| {
        let (fd, peer) = t.accepted();
        see(t, "timeout", &[], &sys::pselect([&[fd], &[], &[]], Some(30), None));
        sys::on_signal(libc::SIGUSR1, Disposition::Count(0));
        sys::block_signal(libc::SIGUSR1, true);
        sys::signal_thread(sys::this_thread(), libc::SIGUSR1);
        see(t, "signal", &[], &sys::pselect([&[fd], &[], &[]], LONG, Some(libc::SIGUSR1)));
        t.see("came", sys::caught(libc::SIGUSR1));
        peer.say("x");
        until(|| sys::ioctl(fd, libc::FIONREAD, 0).1 > 0);
        see(t, "ready", &[(fd, "it")], &sys::pselect([&[fd], &[], &[]], None, None));
    });
    suite.add(V4, "high_number", |t| {
        let (fd, peer) = t.accepted();
        let high = sys::dup2(fd, 1000).fd();
        peer.say("x");
        see(t, "select", &[(high, "it")], &sys::select([&[high], &[], &[]], LONG));
    });
    suite.add(BOTH, "many", |t| {
        let (listener, port) = t.listener_with(0, 64);
        let peers: Vec<_> = (0..30).map(|_| t.peer_connects(port)).collect();
        let fds: Vec<Fd> = (0..30).map(|_| sys::accept(listener).fd()).collect();
        for at in [0, 15, 29] {
            peers[at].say("x");
            ready(fds[at], POLLIN);
        }
        let (ret, sets) = sys::select([&fds, &fds, &[]], LONG);
        let which: Vec<usize> = (0..30).filter(|at| sets[0].contains(&fds[*at])).collect();
        t.see("select", format!("{ret} {which:?} {}", sets[1].len()));
    });
}

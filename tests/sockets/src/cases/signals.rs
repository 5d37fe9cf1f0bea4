//! Signals while a call waits: EINTR, or the call goes on (`SA_RESTART`), as signal(7) has it.

use crate::case::{Case, LONG_MS, joined, set_int, set_time, until, waiting};
use crate::suite::{BOTH, Suite, V4};
use crate::sys::{self, Disposition, Fd, Ret};
use libc::{POLLIN, SA_RESTART, SIGUSR1};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs a call in a thread that gets signals until it comes back, or until some were caught and `end` was done.
fn interrupted<T: Send + 'static>(
    flags: i32,
    end: impl FnOnce(),
    call: impl FnOnce() -> T + Send + 'static,
) -> (T, bool) {
    sys::on_signal(SIGUSR1, Disposition::Count(flags));
    sys::block_signal(SIGUSR1, true);
    let who = Arc::new(AtomicU64::new(0));
    let is_back = Arc::new(AtomicBool::new(false));
    let (told, back) = (Arc::clone(&who), Arc::clone(&is_back));
    let calling = waiting(move || {
        told.store(sys::this_thread(), Ordering::SeqCst);
        sys::block_signal(SIGUSR1, false);
        let given = call();
        // From here a signal would meet another call.
        sys::block_signal(SIGUSR1, true);
        back.store(true, Ordering::SeqCst);
        // The number stays this thread's until it is joined.
        given
    });
    let mut end = Some(end);
    until(|| {
        if is_back.load(Ordering::SeqCst) {
            return true;
        }
        sys::signal_thread(who.load(Ordering::SeqCst), SIGUSR1);
        if flags == SA_RESTART
            && sys::caught(SIGUSR1) >= 3
            && let Some(end) = end.take()
        {
            end();
        }
        false
    });
    (joined(calling), sys::caught(SIGUSR1) > 0)
}

fn see(t: &Case, what: &str, (ret, is_caught): (Ret, bool)) {
    t.see(what, format!("{ret} caught {is_caught}"));
}

/// A call that waits, for a connection, a listener and a deaf peer.
const MODES: [(&str, i32); 2] = [("plain", 0), ("restart", SA_RESTART)];

type Waits = fn(Fd) -> Ret;

const RECEIVING: [(&str, Waits); 6] = [
    ("recv", |fd| sys::recv(fd, &mut [0; 8], 0)),
    ("read", |fd| sys::read(fd, &mut [0; 8])),
    ("recvfrom", |fd| sys::recvfrom(fd, &mut [0; 8], 0).0),
    ("recvmsg", |fd| sys::recvmsg(fd, &mut [&mut [0; 8]], 0, 0).ret),
    ("readv", |fd| sys::readv(fd, &mut [&mut [0; 8]])),
    ("peek", |fd| sys::recv(fd, &mut [0; 8], libc::MSG_PEEK)),
];

const POLLING: [(&str, Waits); 4] = [
    ("poll", |fd| sys::poll(&[(fd, POLLIN)], LONG_MS).0),
    ("ppoll", |fd| sys::ppoll(&[(fd, POLLIN)], Some(LONG_MS.into()), Some(SIGUSR1)).0),
    ("select", |fd| sys::select([&[fd], &[], &[]], Some(LONG_MS.into())).0),
    ("epoll_wait", |fd| {
        let epoll = sys::epoll_create(0).fd();
        sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, 1);
        sys::epoll_wait(epoll, 1, LONG_MS).0
    }),
];

pub fn add(suite: &mut Suite) {
    for (mode, flags) in MODES {
        for (name, call) in RECEIVING {
            suite.add(V4, &format!("{name}_{mode}"), move |t| {
                let (fd, peer) = t.accepted();
                see(t, name, interrupted(flags, || drop(peer.say("data")), move || call(fd)));
            });
        }
        for (name, call) in POLLING {
            suite.add(BOTH, &format!("{name}_{mode}"), move |t| {
                let (fd, _peer) = t.accepted();
                // These come back whatever the handler's flags are.
                see(t, name, interrupted(flags, || {}, move || call(fd)));
            });
        }
        suite.add(BOTH, &format!("accept_{mode}"), move |t| {
            let (fd, port) = t.listener();
            let (ret, is_caught) = interrupted(flags, || drop(t.peer_tries(port)), move || sys::accept(fd));
            t.see("accept", format!("{} caught {is_caught}", ret.done()));
        });
        suite.add(BOTH, &format!("datagram_{mode}"), move |t| {
            let (fd, port) = t.udp_bound();
            let (peer, _) = t.peer_udp();
            let ip = t.here_ip();
            see(t, "recv", interrupted(flags, || drop(peer.to(ip, port, 5)), move || sys::recv(fd, &mut [0; 8], 0)));
        });
        suite.add(BOTH, &format!("with_a_timeout_{mode}"), move |t| {
            let (fd, _peer) = t.accepted();
            set_time(fd, libc::SO_RCVTIMEO, 30_000);
            // A timeout makes it come back in either mode.
            see(t, "recv", interrupted(flags, || {}, move || sys::recv(fd, &mut [0; 8], 0)));
        });
        suite.add(BOTH, &format!("waitall_{mode}"), move |t| {
            let (fd, peer) = t.accepted();
            peer.say("abc");
            t.arrived(fd, 3);
            // What came is given back, in either mode.
            let call = move || sys::recv(fd, &mut [0; 8], libc::MSG_WAITALL);
            see(t, "recv", interrupted(flags, || {}, call));
        });
        suite.add(BOTH, &format!("send_{mode}"), move |t| {
            let (fd, peer) = t.accepted_small();
            set_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 20_000);
            let size = 4 << 20;
            let call = move || sys::send(fd, &crate::pattern::bytes(size), 0);
            let (ret, is_caught) = interrupted(flags, || {}, call);
            // Part of it went, so that is told, in either mode.
            t.see("send", format!("{} caught {is_caught}", ret.count() > 0 && ret.count() < size));
            let told = peer.read(ret.count());
            t.see("peer", told == format!("{} intact full", ret.count()));
        });
    }
    suite.add(BOTH, "connect_plain", |t| {
        let fd = t.tcp();
        let there = t.there(t.peer_is_deaf());
        see(t, "connect", interrupted(0, || {}, move || sys::connect(fd, &there)));
        t.see("now", crate::case::now(fd, crate::case::ALL));
        let there = t.there(9);
        t.nonblocking(fd);
        t.see("again", sys::connect(fd, &there));
    });
    suite.add(BOTH, "ignored_ones_do_nothing", |t| {
        let (fd, peer) = t.accepted();
        sys::on_signal(SIGUSR1, Disposition::Ignore);
        let who = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&who);
        let receiving = waiting(move || {
            told.store(sys::this_thread(), Ordering::SeqCst);
            sys::recv(fd, &mut [0; 8], 0)
        });
        for _ in 0..5 {
            sys::signal_thread(who.load(Ordering::SeqCst), SIGUSR1);
        }
        t.see("waits", !receiving.is_finished());
        peer.say("data");
        t.see("recv", joined(receiving));
    });
    suite.add(BOTH, "blocked_ones_do_nothing", |t| {
        let (fd, peer) = t.accepted();
        sys::on_signal(SIGUSR1, Disposition::Count(0));
        sys::block_signal(SIGUSR1, true);
        let who = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&who);
        let receiving = waiting(move || {
            told.store(sys::this_thread(), Ordering::SeqCst);
            sys::recv(fd, &mut [0; 8], 0)
        });
        sys::signal_thread(who.load(Ordering::SeqCst), SIGUSR1);
        t.see("waits", !receiving.is_finished());
        peer.say("data");
        t.see("recv", joined(receiving));
        t.see("caught", sys::caught(SIGUSR1));
    });
}

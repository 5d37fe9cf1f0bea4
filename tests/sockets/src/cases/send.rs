//! `write`, `writev`, `send`, `sendto` on connections, with each flag.

use crate::case::{ALL, Case, LONG_MS, Peer, joined, now, ready, set_int, set_time, until, waiting};
use crate::pattern;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Disposition, Fd};
use libc::{MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, MSG_OOB, POLLOUT, SIGPIPE, SOL_SOCKET};
use std::time::Duration;

/// A connection whose peer is gone and has said so.
fn broken(t: &Case) -> (Fd, Peer) {
    let (fd, peer) = t.accepted();
    peer.abort();
    ready(fd, libc::POLLRDHUP);
    t.error_of(fd);
    (fd, peer)
}

/// Sends the pattern from `start` until no more goes, and then still doesn't when acknowledgements have come; how much
/// went, and why no more.
fn fill(fd: Fd, start: usize) -> (usize, &'static str) {
    let mut total = start;
    let mut bytes = vec![0; 10_000];
    let mut was_full_at = None;
    loop {
        pattern::fill(&mut bytes, total);
        let ret = sys::send(fd, &bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if ret.errno != libc::EAGAIN || was_full_at == Some(total) {
            if !ret.is_ok() || total > 64 << 20 {
                return (total, ret.done());
            }
            total += ret.count();
        } else {
            was_full_at = Some(total);
            std::thread::sleep(Duration::from_millis(40));
        }
    }
}

pub fn add(suite: &mut Suite) {
    simple(suite);
    flags(suite);
    full(suite);
    broken_ones(suite);
}

fn simple(suite: &mut Suite) {
    suite.add(EACH, "write", |t| {
        let (fd, peer) = t.accepted();
        t.see("write", sys::write(fd, b"hello "));
        t.see("write", sys::write(fd, b"world"));
        t.see("peer", peer.hear(11));
    });
    suite.add(EACH, "send", |t| {
        let (fd, peer) = t.connected();
        t.see("send", sys::send(fd, b"hello", 0));
        t.see("peer", peer.hear(5));
    });
    suite.add(BOTH, "writev", |t| {
        let (fd, peer) = t.accepted();
        t.see("writev", sys::writev(fd, &[b"hello", b"", b" ", b"world"]));
        t.see("nothing", sys::writev(fd, &[]));
        t.see("empty", sys::writev(fd, &[b"", b""]));
        let many: Vec<&[u8]> = vec![b"x"; 1025];
        t.see("too_many", sys::writev(fd, &many));
        t.see("as_many_as_may_be", sys::writev(fd, &many[..1024]));
        t.see("peer", peer.hear(11));
        t.see("peer_has", peer.has(1024));
    });
    suite.add(BOTH, "zero_length", |t| {
        let (fd, peer) = t.accepted();
        t.see("write", sys::write(fd, b""));
        t.see("send", sys::send(fd, b"", 0));
        sys::send(fd, b"x", 0);
        t.see("peer", peer.hear(1));
        t.see("peer_has_more", peer.unread());
    });
    suite.add(BOTH, "sendto_on_a_connection", |t| {
        let (fd, peer) = t.accepted();
        t.see("there", sys::sendto(fd, b"a", 0, &t.there(9)));
        t.see("elsewhere", sys::sendto(fd, b"b", 0, &t.here(9)));
        t.see("peer", peer.hear(2));
    });
    suite.add(BOTH, "not_connected", |t| {
        let fd = t.tcp();
        t.see("send", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("write", sys::write(fd, b"x"));
        t.see("sendto", sys::sendto(fd, b"x", MSG_NOSIGNAL, &t.there(9)));
        t.see("empty", sys::send(fd, b"", MSG_NOSIGNAL));
    });
    suite.add(BOTH, "from_nowhere", |t| {
        let (fd, peer) = t.accepted();
        t.see("send", sys::send_nothing(fd, 5));
        t.see("nothing", sys::send_nothing(fd, 0));
        sys::send(fd, b"x", 0);
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "a_megabyte_blocking", |t| {
        let (fd, peer) = t.accepted();
        peer.begin_read(1 << 20);
        t.see("send", sys::send(fd, &pattern::bytes(1 << 20), 0));
        t.see("peer", crate::case::finish());
    });
    suite.add(BOTH, "a_megabyte_in_pieces", |t| {
        let (fd, peer) = t.connected();
        peer.begin_read(1 << 20);
        let bytes = pattern::bytes(1 << 20);
        let parts: Vec<&[u8]> = bytes.chunks(5000).collect();
        t.see("writev", sys::writev(fd, &parts));
        t.see("peer", crate::case::finish());
    });
}

fn flags(suite: &mut Suite) {
    suite.add(BOTH, "more_is_held_back", |t| {
        let (fd, peer) = t.accepted();
        t.see("send", sys::send(fd, b"hello ", MSG_MORE));
        t.see("send", sys::send(fd, b"world", 0));
        t.see("peer", peer.hear(11));
    });
    suite.add(BOTH, "more_waits", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        t.see("send", sys::send(fd, b"begin", MSG_MORE));
        t.see("nothing_yet", peer.poll(libc::POLLIN, 60));
        t.see("send", sys::send(fd, b"end", 0));
        t.see("peer", peer.hear(8));
        // Behind it: any acknowledgement lets go what waits.
        t.see("acknowledged", until(|| sys::ioctl(fd, libc::TIOCOUTQ, 0).1 == 0));
        t.see("send", sys::send(fd, b"again", MSG_MORE));
        t.see("nothing_yet", peer.poll(libc::POLLIN, 60));
        t.see("no_delay", set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1));
        t.see("peer", peer.hear(5));
    });
    suite.add(BOTH, "more_comes_at_last", |t| {
        let (fd, peer) = t.accepted();
        t.see("send", sys::send(fd, b"alone", MSG_MORE));
        // Nothing else is sent; Linux lets it go after 200 ms.
        t.see("peer", peer.hear(5));
    });
    suite.add(BOTH, "more_then_close", |t| {
        let (fd, peer) = t.accepted();
        sys::send(fd, b"last", MSG_MORE);
        sys::close(fd);
        t.see("peer", peer.hear(5));
    });
    suite.add(BOTH, "cork", |t| {
        let (fd, peer) = t.accepted();
        t.see("cork", set_int(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1));
        sys::send(fd, b"hello ", 0);
        sys::send(fd, b"world", 0);
        t.see("uncork", set_int(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 0));
        t.see("peer", peer.hear(11));
    });
    suite.add(BOTH, "cork_then_shutdown", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        sys::send(fd, b"held", 0);
        t.see("shutdown", sys::shutdown(fd, libc::SHUT_WR));
        t.see("peer", peer.hear(5));
    });
    suite.add(V4, "dontwait_with_room", |t| {
        let (fd, peer) = t.accepted();
        t.see("send", sys::send(fd, b"x", MSG_DONTWAIT));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "urgent", |t| {
        let (fd, peer) = t.accepted();
        t.see("send", sys::send(fd, b"ab", 0));
        t.see("urgent", sys::send(fd, b"!", MSG_OOB));
        t.see("peer", peer.poll(libc::POLLPRI, LONG_MS));
        t.see("send", sys::send(fd, b"cd", 0));
        t.see("peer", peer.hear(2));
        t.see("peer", peer.hear(2));
    });
    suite.add(V4, "confirm_and_dontroute", |t| {
        let (fd, peer) = t.accepted();
        t.see("confirm", sys::send(fd, b"a", libc::MSG_CONFIRM));
        t.see("dontroute", sys::send(fd, b"b", libc::MSG_DONTROUTE));
        t.see("eor", sys::send(fd, b"c", libc::MSG_EOR));
        t.see("peer", peer.hear(3));
    });
}

fn full(suite: &mut Suite) {
    suite.add(EACH, "full_then_writable_again", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, SOL_SOCKET, libc::SO_SNDBUF, 32 * 1024);
        let (total, end) = fill(fd, 0);
        t.see("end", end);
        t.see("some_went", total > 0);
        t.see("now", now(fd, ALL));
        let told = peer.read(total);
        t.see("all_came", told == format!("{total} intact full"));
        t.see("ready", ready(fd, POLLOUT));
        t.see("send", sys::send(fd, b"x", 0));
    });
    suite.add(BOTH, "full_partial_write", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, SOL_SOCKET, libc::SO_SNDBUF, 32 * 1024);
        let bytes = pattern::bytes(8 << 20);
        let ret = sys::send(fd, &bytes, MSG_DONTWAIT);
        t.see("partial", ret.is_ok() && ret.count() > 0 && ret.count() < bytes.len());
        let (total, end) = fill(fd, ret.count());
        t.see("then", end);
        let told = peer.read(total);
        t.see("came", told == format!("{total} intact full"));
    });
    suite.add(BOTH, "full_blocks_until_read", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, SOL_SOCKET, libc::SO_SNDBUF, 32 * 1024);
        let sending = waiting(move || sys::send(fd, &pattern::bytes(2 << 20), 0));
        until(|| peer.unread() > 1000);
        t.see("waits", !sending.is_finished());
        t.see("peer", peer.read(2 << 20));
        t.see("send", joined(sending));
    });
    suite.add(BOTH, "full_timeout", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, SOL_SOCKET, libc::SO_SNDBUF, 32 * 1024);
        set_time(fd, libc::SO_SNDTIMEO, 60);
        let ret = sys::send(fd, &pattern::bytes(8 << 20), 0);
        t.see("partial", ret.is_ok() && ret.count() > 0 && ret.count() < 8 << 20);
        let told = peer.read(ret.count());
        t.see("came", told == format!("{} intact full", ret.count()));
    });
    suite.add(BOTH, "full_then_the_peer_resets", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, SOL_SOCKET, libc::SO_SNDBUF, 32 * 1024);
        let sending = waiting(move || {
            // What went before the reset may be told first.
            let first = sys::send(fd, &pattern::bytes(2 << 20), MSG_NOSIGNAL);
            if first.is_ok() { sys::send(fd, b"x", MSG_NOSIGNAL) } else { first }
        });
        until(|| peer.unread() > 1000);
        peer.abort();
        t.see("send", joined(sending));
    });
}

fn broken_ones(suite: &mut Suite) {
    suite.add(BOTH, "pipe_signal", |t| {
        sys::on_signal(SIGPIPE, Disposition::Count(0));
        let (fd, _peer) = broken(t);
        t.see("send", sys::send(fd, b"x", 0));
        t.see("signals", sys::caught(SIGPIPE));
        t.see("nosignal", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("signals", sys::caught(SIGPIPE));
        t.see("write", sys::write(fd, b"x"));
        t.see("signals", sys::caught(SIGPIPE));
        t.see("writev", sys::writev(fd, &[b"x"]));
        t.see("signals", sys::caught(SIGPIPE));
        t.see("sendmsg", sys::sendmsg(fd, &[b"x"], None, &[], 0));
        t.see("signals", sys::caught(SIGPIPE));
    });
    suite.add(BOTH, "pipe_signal_ignored", |t| {
        let (fd, _peer) = broken(t);
        t.see("send", sys::send(fd, b"x", 0));
        t.see("write", sys::write(fd, b"x"));
    });
    suite.add(V4, "pipe_signal_kills", |t| {
        let (fd, _peer) = broken(t);
        let child = sys::fork(|| {
            sys::on_signal(SIGPIPE, Disposition::Default);
            sys::write(fd, b"x");
            7
        });
        t.see("child", sys::wait(child.fd()).1);
    });
    suite.add(BOTH, "after_own_shutdown", |t| {
        sys::on_signal(SIGPIPE, Disposition::Count(0));
        let (fd, peer) = t.accepted();
        sys::shutdown(fd, libc::SHUT_WR);
        t.see("send", sys::send(fd, b"x", 0));
        t.see("signals", sys::caught(SIGPIPE));
        t.see("empty", sys::send(fd, b"", MSG_NOSIGNAL));
        t.see("now", now(fd, ALL));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "to_a_closed_peer", |t| {
        let (fd, peer) = t.accepted();
        peer.close();
        ready(fd, libc::POLLRDHUP);
        t.see("first", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("reset_comes", until(|| now(fd, ALL).contains("HUP") && now(fd, 0).contains("HUP")));
        t.see("now", now(fd, ALL));
        t.see("second", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("third", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
    });
    suite.add(BOTH, "reset_told_by_send", |t| {
        let (fd, peer) = t.accepted();
        peer.abort();
        ready(fd, libc::POLLRDHUP);
        t.see("first", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("second", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
    });
}

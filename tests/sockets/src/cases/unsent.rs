//! `TCP_NOTSENT_LOWAT` and `MSG_EOR`: how much a stream takes that it can't send, and where its segments end.

use crate::case::{ALL, Case, LONG_MS, Peer, SHORT_MS, int_option, joined, now, ready, set_int, until, waiting};
use crate::names;
use crate::pattern;
use crate::suite::{BOTH, Suite, V4};
use crate::sys::{self, Fd};
use libc::{EPOLL_CTL_ADD, EPOLLET, EPOLLOUT, IPPROTO_TCP, MSG_DONTWAIT, MSG_EOR, POLLIN, POLLOUT, TCP_CORK};

const TCP_NOTSENT_LOWAT: i32 = 25;
/// What the window of a peer with a small buffer, and the buffers that are begun below a mark, take at most.
const MOST: usize = 300_000;

/// Sends the pattern until no more goes; how much went.
fn fill(fd: Fd) -> usize {
    let (mut total, mut was_full_at) = (0, None);
    let mut bytes = vec![0; 10_000];
    loop {
        pattern::fill(&mut bytes, total);
        let ret = sys::send(fd, &bytes, MSG_DONTWAIT);
        if ret.is_ok() {
            total += ret.count();
        } else if was_full_at.replace(total) == Some(total) || total > 64 << 20 {
            return total;
        } else {
            std::thread::sleep(std::time::Duration::from_millis(40));
        }
    }
}

/// A connection with a mark, full.
fn filled(t: &Case, mark: i32) -> (Fd, Peer, usize) {
    let (fd, peer) = t.accepted_small();
    t.see("set", set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, mark));
    let total = fill(fd);
    t.see("is_little", total < MOST);
    (fd, peer, total)
}

fn told(epoll: Fd, timeout_ms: i32) -> String {
    let (ret, events) = sys::epoll_wait(epoll, 4, timeout_ms);
    let all: Vec<String> = events.iter().map(|(events, _)| names::events(*events)).collect();
    format!("{ret} {}", all.join(" "))
}

pub fn add(suite: &mut Suite) {
    suite.add(BOTH, "option", |t| {
        let (fd, peer) = t.accepted();
        let get = |fd| int_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT).1;
        t.see("at_first", get(fd));
        for value in [4_000, 0, -1, 1] {
            t.see("set", set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, value));
            t.see("get", get(fd));
        }
        t.see("short", sys::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, b"x"));
        t.see("now", now(fd, ALL));
        t.see("send", sys::send(fd, b"all the same", 0));
        t.see("peer", peer.hear(12));
        t.see("of_datagrams", set_int(t.udp(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1));
    });
    suite.add(BOTH, "inherited", |t| {
        let (listener, port) = t.listener();
        set_int(listener, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 2_000);
        let peer = t.peer_connects_small(port);
        let fd = sys::accept(listener).fd();
        t.see("get", int_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT).1);
        let total = fill(fd);
        t.see("is_little", total < MOST);
        t.see("peer", peer.read(total) == format!("{total} intact full"));
    });
    suite.add(BOTH, "set_before_connecting", |t| {
        let (listener, port) = t.peer_listens_with(16, 4_096);
        let fd = t.tcp();
        set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 2_000);
        sys::connect(fd, &t.there(port));
        let peer = listener.accept();
        let total = fill(fd);
        t.see("is_little", total < MOST);
        t.see("peer", peer.read(total) == format!("{total} intact full"));
    });
    suite.add(BOTH, "full_then_writable_again", |t| {
        let (fd, peer, total) = filled(t, 4_000);
        t.see("now", now(fd, ALL));
        t.see("send", sys::send(fd, b"x", MSG_DONTWAIT));
        t.see("peer", peer.read(total) == format!("{total} intact full"));
        t.see("ready", ready(fd, POLLOUT));
    });
    suite.add(BOTH, "poll_waits_for_it", |t| {
        let (fd, peer, total) = filled(t, 4_000);
        let polling = waiting(move || ready(fd, POLLOUT));
        t.see("waits", !polling.is_finished());
        t.see("peer", peer.read(total) == format!("{total} intact full"));
        t.see("poll", joined(polling));
    });
    suite.add(BOTH, "epoll_edge", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 4_000);
        let epoll = sys::epoll_create(0).fd();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 1);
        t.see("at_first", told(epoll, LONG_MS));
        t.see("once", told(epoll, 0));
        let total = fill(fd);
        t.see("full", told(epoll, SHORT_MS));
        t.see("peer", peer.read(total) == format!("{total} intact full"));
        t.see("again", told(epoll, LONG_MS));
        t.see("once", told(epoll, SHORT_MS));
        sys::send(fd, b"a little", 0);
        t.see("little_is_no_edge", told(epoll, SHORT_MS));
    });
    suite.add(BOTH, "send_waits", |t| {
        let (fd, peer) = t.accepted_small();
        set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 2_000);
        let sending = waiting(move || sys::send(fd, &pattern::bytes(1 << 20), 0));
        until(|| peer.unread() > 1_000);
        t.see("waits", !sending.is_finished());
        t.see("peer", peer.read(1 << 20));
        t.see("send", joined(sending));
    });
    suite.add(BOTH, "no_mark_any_more", |t| {
        let (fd, _peer, _) = filled(t, 4_000);
        let epoll = sys::epoll_create(0).fd();
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 1);
        t.see("full", told(epoll, SHORT_MS));
        t.see("clear", set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0));
        t.see("writable", told(epoll, LONG_MS));
        t.see("send", sys::send(fd, b"x", MSG_DONTWAIT));
    });
    records(suite);
}

fn records(suite: &mut Suite) {
    suite.add(BOTH, "record_is_not_gone_on_with", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
        t.see("record", sys::send(fd, b"one", MSG_EOR));
        t.see("held_back", peer.poll(POLLIN, 40));
        t.see("send", sys::send(fd, b"two", 0));
        // What the next one can't join waits for nothing.
        t.see("peer", peer.hear(3));
        t.see("held_back", peer.poll(POLLIN, 40));
        t.see("uncork", set_int(fd, IPPROTO_TCP, TCP_CORK, 0));
        t.see("peer", peer.hear(3));
    });
    suite.add(V4, "without_records", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
        sys::send(fd, b"one", 0);
        sys::send(fd, b"two", 0);
        t.see("held_back", peer.poll(POLLIN, 40));
        set_int(fd, IPPROTO_TCP, TCP_CORK, 0);
        t.see("peer", peer.hear(6));
    });
    suite.add(BOTH, "record_by_sendmsg", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, IPPROTO_TCP, TCP_CORK, 1);
        t.see("record", sys::sendmsg(fd, &[b"o", b"ne"], None, &[], MSG_EOR));
        t.see("nothing", sys::send(fd, b"", MSG_EOR));
        t.see("send", sys::sendmsg(fd, &[b"two"], None, &[], 0));
        t.see("peer", peer.hear(3));
        t.see("held_back", peer.poll(POLLIN, 40));
        sys::close(fd);
        t.see("peer", peer.hear(4));
    });
    suite.add(BOTH, "many_records", |t| {
        let (fd, peer) = t.accepted();
        let bytes = pattern::bytes(50_000);
        for record in bytes.chunks(3_000) {
            if sys::send(fd, record, MSG_EOR).count() != record.len() {
                t.see("send", "less");
            }
        }
        t.see("peer", peer.read(50_000));
    });
}

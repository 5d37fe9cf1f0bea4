//! `sendfile` and `splice`: to sockets of ours from files and pipes, and back.

use crate::case::{Case, LONG_MS, ready, until};
use crate::pattern;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys;
use libc::{POLLIN, SPLICE_F_MORE, SPLICE_F_NONBLOCK};

fn see(t: &Case, what: &str, (ret, offset): (sys::Ret, i64)) {
    t.see(what, format!("{ret} at {offset}"));
}

pub fn add(suite: &mut Suite) {
    sending(suite);
    splicing(suite);
}

fn sending(suite: &mut Suite) {
    suite.add(EACH, "sendfile_from_its_position", |t| {
        let (fd, peer) = t.accepted();
        let file = sys::file(&pattern::bytes(10_000));
        see(t, "sendfile", sys::sendfile(fd, file, None, 4000));
        t.see("position", sys::position(file));
        see(t, "rest", sys::sendfile(fd, file, None, 1 << 20));
        t.see("position", sys::position(file));
        see(t, "end", sys::sendfile(fd, file, None, 100));
        t.see("peer", peer.read(10_000));
    });
    suite.add(EACH, "sendfile_from_an_offset", |t| {
        let (fd, peer) = t.connected();
        let file = sys::file(&pattern::bytes(10_000));
        see(t, "first", sys::sendfile(fd, file, Some(0), 6000));
        see(t, "second", sys::sendfile(fd, file, Some(6000), 6000));
        t.see("position", sys::position(file));
        see(t, "past_the_end", sys::sendfile(fd, file, Some(20_000), 10));
        see(t, "negative", sys::sendfile(fd, file, Some(-5), 10));
        see(t, "nothing", sys::sendfile(fd, file, Some(0), 0));
        t.see("peer", peer.read(10_000));
    });
    suite.add(BOTH, "sendfile_large", |t| {
        let (fd, peer) = t.accepted();
        let file = sys::file(&pattern::bytes(2 << 20));
        peer.begin_read(2 << 20);
        let mut total = 0;
        while total < 2 << 20 {
            let (ret, _) = sys::sendfile(fd, file, None, (2 << 20) - total);
            if ret.value <= 0 {
                t.see("failed", ret);
                break;
            }
            total += ret.count();
        }
        t.see("total", total);
        t.see("peer", crate::case::finish());
    });
    suite.add(BOTH, "sendfile_behind_a_header", |t| {
        let (fd, peer) = t.accepted();
        let file = sys::file(b" the file");
        t.see("header", sys::send(fd, b"header,", libc::MSG_MORE));
        see(t, "sendfile", sys::sendfile(fd, file, None, 100));
        t.see("peer", peer.hear(16));
    });
    suite.add(BOTH, "sendfile_corked", |t| {
        let (fd, peer) = t.accepted();
        let file = sys::file(b" the file");
        crate::case::set_int(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 1);
        sys::write(fd, b"header,");
        see(t, "sendfile", sys::sendfile(fd, file, None, 100));
        crate::case::set_int(fd, libc::IPPROTO_TCP, libc::TCP_CORK, 0);
        t.see("peer", peer.hear(16));
    });
    suite.add(BOTH, "sendfile_nonblocking_partial", |t| {
        let (fd, peer) = t.accepted_small();
        crate::case::set_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 20_000);
        t.nonblocking(fd);
        let file = sys::file(&pattern::bytes(8 << 20));
        let (ret, offset) = sys::sendfile(fd, file, Some(0), 8 << 20);
        t.see("partial", ret.count() > 0 && ret.count() < 8 << 20);
        t.see("offset_agrees", offset == ret.value);
        let mut at = offset;
        t.see(
            "then_full",
            until(|| {
                let (ret, next) = sys::sendfile(fd, file, Some(at), 8 << 20);
                at = next;
                ret.errno == libc::EAGAIN
            }),
        );
        let total = usize::try_from(at).unwrap_or(0);
        t.see("peer", peer.read(total) == format!("{total} intact full"));
    });
    suite.add(BOTH, "sendfile_wrong_ones", |t| {
        let (fd, _peer) = t.accepted();
        let file = sys::file(b"abc");
        see(t, "not_connected", sys::sendfile(t.tcp(), file, None, 3));
        see(t, "from_a_socket", sys::sendfile(fd, fd, None, 3));
        see(t, "from_nothing", sys::sendfile(fd, 1_000_000, None, 3));
        see(t, "to_nothing", sys::sendfile(1_000_000, file, None, 3));
        t.see("position", sys::position(file));
    });
    suite.add(BOTH, "sendfile_to_a_peer_that_is_gone", |t| {
        let (fd, peer) = t.accepted();
        peer.abort();
        ready(fd, libc::POLLRDHUP);
        let file = sys::file(b"abc");
        see(t, "sendfile", sys::sendfile(fd, file, None, 3));
        see(t, "again", sys::sendfile(fd, file, None, 3));
    });
    suite.add(V4, "sendfile_as_a_datagram", |t| {
        let (peer, port) = t.peer_udp();
        let fd = t.udp();
        sys::connect(fd, &t.there(port));
        let file = sys::file(&pattern::bytes(500));
        see(t, "sendfile", sys::sendfile(fd, file, None, 500));
        t.see("peer", peer.from().0);
    });
}

fn splicing(suite: &mut Suite) {
    suite.add(EACH, "splice_into_a_socket", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        sys::write(writing, &pattern::bytes(5000));
        t.see("splice", sys::splice(reading, fd, 3000, 0));
        t.see("rest", sys::splice(reading, fd, 1 << 20, SPLICE_F_MORE));
        sys::close(writing);
        t.see("end", sys::splice(reading, fd, 100, 0));
        sys::shutdown(fd, libc::SHUT_WR);
        t.see("peer", peer.drain());
    });
    suite.add(EACH, "splice_from_a_socket", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        peer.say("spliced");
        t.arrived(fd, 7);
        t.see("splice", sys::splice(fd, writing, 100, 0));
        let mut bytes = [0; 16];
        let ret = sys::read(reading, &mut bytes);
        t.see_text("read", ret, &bytes);
        peer.close();
        ready(fd, libc::POLLRDHUP);
        t.see("end", sys::splice(fd, writing, 100, 0));
    });
    suite.add(BOTH, "splice_through_a_pipe", |t| {
        let (from, sender) = t.accepted();
        let (to, receiver) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        sender.send(40_000);
        sender.shut(libc::SHUT_WR);
        let mut total = 0;
        loop {
            sys::poll(&[(from, POLLIN)], LONG_MS);
            let ret = sys::splice(from, writing, 16_384, 0);
            if ret.value <= 0 {
                t.see("last", ret);
                break;
            }
            let mut left = ret.count();
            while left > 0 {
                let out = sys::splice(reading, to, left, 0);
                if out.value <= 0 {
                    t.see("out", out);
                    break;
                }
                left -= out.count();
            }
            total += ret.count();
        }
        t.see("total", total);
        t.see("receiver", receiver.read(40_000));
    });
    suite.add(BOTH, "splice_wrong_ones", |t| {
        let (fd, _peer) = t.accepted();
        let (other, _second) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        t.see("no_pipe", sys::splice(fd, other, 10, 0));
        t.see("wrong_end", sys::splice(fd, reading, 10, 0));
        t.see("empty", sys::splice(reading, fd, 10, SPLICE_F_NONBLOCK));
        t.see("none_wanted", sys::splice(fd, writing, 0, 0));
        sys::write(writing, b"x");
        t.see("not_connected", sys::splice(reading, t.tcp(), 10, 0));
        t.see("from_not_connected", sys::splice(t.tcp(), writing, 10, 0));
    });
    suite.add(BOTH, "splice_nonblocking_socket", |t| {
        let (fd, peer) = t.accepted();
        let (_reading, writing) = sys::pipe(0);
        t.nonblocking(fd);
        t.see("nothing", sys::splice(fd, writing, 10, 0));
        peer.say("abc");
        t.arrived(fd, 3);
        t.see("some", sys::splice(fd, writing, 10, 0));
    });
}

//! `read`, `readv`, `recv`, `recvfrom` on connections, with each flag.

use crate::case::{ALL, PATIENCE, joined, now, ready, set_int, set_time, until, waiting};
use crate::pattern::is_intact;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::{names, sys};
use libc::{MSG_DONTWAIT, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLLIN, POLLRDHUP};
use std::time::Instant;

pub fn add(suite: &mut Suite) {
    simple(suite);
    flags(suite);
    blocking(suite);
    ends(suite);
}

fn simple(suite: &mut Suite) {
    suite.add(EACH, "read", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello world");
        t.arrived(fd, 11);
        let mut bytes = [0; 32];
        let ret = sys::read(fd, &mut bytes[..5]);
        t.see_text("read", ret, &bytes);
        let ret = sys::read(fd, &mut bytes);
        t.see_text("read", ret, &bytes);
    });
    suite.add(EACH, "recv", |t| {
        let (fd, peer) = t.connected();
        peer.say("hello world");
        t.arrived(fd, 11);
        t.see_recv("recv", fd, 5, 0);
        t.see_recv("recv", fd, 32, 0);
    });
    suite.add(BOTH, "recvfrom", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello");
        t.arrived(fd, 5);
        let mut bytes = [0; 32];
        let (ret, from) = sys::recvfrom(fd, &mut bytes, 0);
        t.see_text("recvfrom", ret, &bytes);
        t.see("address_length", if from.bytes().iter().all(|byte| *byte == 0) { 0 } else { from.bytes().len() });
    });
    suite.add(BOTH, "readv", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello world");
        t.arrived(fd, 11);
        let (mut one, mut two, mut three) = ([0; 3], [0; 4], [0; 16]);
        let ret = sys::readv(fd, &mut [&mut one, &mut [], &mut two, &mut three]);
        t.see("readv", ret);
        t.see_text("one", sys_len(3), &one);
        t.see_text("two", sys_len(4), &two);
        t.see_text("three", sys_len(4), &three);
    });
    suite.add(BOTH, "readv_without_pieces", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello");
        t.arrived(fd, 5);
        t.see("readv", sys::readv(fd, &mut []));
        let mut many: Vec<[u8; 1]> = vec![[0]; 1025];
        let mut all: Vec<&mut [u8]> = many.iter_mut().map(<[u8; 1]>::as_mut_slice).collect();
        t.see("too_many", sys::readv(fd, &mut all));
        t.see_recv("recv", fd, 8, 0);
    });
    suite.add(BOTH, "zero_length", |t| {
        let (fd, peer) = t.accepted();
        t.nonblocking(fd);
        t.see("recv_empty", sys::recv(fd, &mut [], 0));
        t.see("read_empty", sys::read(fd, &mut []));
        peer.say("x");
        t.arrived(fd, 1);
        t.see("recv", sys::recv(fd, &mut [], 0));
        t.see("read", sys::read(fd, &mut []));
        t.see_recv("then", fd, 8, 0);
    });
    suite.add(BOTH, "nowhere", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello");
        t.arrived(fd, 5);
        t.see("recv", sys::recv_nowhere(fd, 5, 0));
        t.see("readv", sys::readv_nowhere(fd, 3));
        t.see_recv("then", fd, 8, 0);
    });
    suite.add(BOTH, "not_connected", |t| {
        let fd = t.tcp();
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("read", sys::read(fd, &mut [0; 4]));
        t.see("peek", sys::recv(fd, &mut [0; 4], MSG_PEEK));
        t.see("dontwait", sys::recv(fd, &mut [0; 4], MSG_DONTWAIT));
        t.see("bound", sys::bind(fd, &t.here(0)));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
    });
    suite.add(BOTH, "in_small_pieces", |t| {
        let (fd, peer) = t.accepted();
        peer.send(5000);
        t.arrived(fd, 5000);
        let (mut total, mut calls, mut intact) = (0, 0, true);
        while total < 5000 {
            let mut bytes = [0; 7];
            let ret = sys::recv(fd, &mut bytes, 0);
            intact &= ret.is_ok() && is_intact(&bytes[..ret.count()], total);
            total += ret.count();
            calls += 1;
            if !ret.is_ok() {
                break;
            }
        }
        t.see("total", total);
        t.see("calls", calls);
        t.see("intact", intact);
    });
}

fn sys_len(value: i64) -> sys::Ret {
    sys::Ret { value, errno: 0 }
}

fn flags(suite: &mut Suite) {
    suite.add(EACH, "peek", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello");
        t.arrived(fd, 5);
        t.see_recv("peek", fd, 3, MSG_PEEK);
        t.see_recv("peek", fd, 32, MSG_PEEK);
        t.see("unread", sys::ioctl(fd, libc::FIONREAD, 0).1);
        t.see_recv("recv", fd, 2, 0);
        t.see_recv("peek", fd, 32, MSG_PEEK);
        t.see_recv("recv", fd, 32, 0);
        t.see_recv("peek_nothing", fd, 32, MSG_PEEK | MSG_DONTWAIT);
    });
    suite.add(BOTH, "peek_at_the_end", |t| {
        let (fd, peer) = t.accepted();
        peer.say("x");
        peer.close();
        ready(fd, POLLRDHUP);
        t.see_recv("peek", fd, 8, MSG_PEEK);
        t.see_recv("recv", fd, 8, 0);
        t.see_recv("peek", fd, 8, MSG_PEEK);
        t.see_recv("recv", fd, 8, 0);
    });
    suite.add(BOTH, "peek_waits_for_all", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hel");
        t.arrived(fd, 3);
        let peeking = waiting(move || sys::recv(fd, &mut [0; 5], MSG_PEEK | MSG_WAITALL));
        peer.say("lo");
        t.see("peek", joined(peeking));
        t.see_recv("recv", fd, 8, 0);
    });
    suite.add(BOTH, "dontwait", |t| {
        let (fd, peer) = t.accepted();
        t.see_recv("nothing", fd, 8, MSG_DONTWAIT);
        peer.say("x");
        t.arrived(fd, 1);
        t.see_recv("something", fd, 8, MSG_DONTWAIT);
        t.see_recv("nothing", fd, 8, MSG_DONTWAIT);
    });
    suite.add(BOTH, "nonblocking", |t| {
        let (fd, peer) = t.accepted();
        t.nonblocking(fd);
        t.see("read", sys::read(fd, &mut [0; 8]));
        t.see("recv", sys::recv(fd, &mut [0; 8], 0));
        t.see("waitall", sys::recv(fd, &mut [0; 8], MSG_WAITALL));
        t.see("readv", sys::readv(fd, &mut [&mut [0; 8]]));
        peer.say("hey");
        t.arrived(fd, 3);
        t.see_recv("waitall", fd, 8, MSG_WAITALL);
        peer.close();
        ready(fd, POLLRDHUP);
        t.see("read", sys::read(fd, &mut [0; 8]));
    });
    suite.add(EACH, "waitall", |t| {
        let (fd, peer) = t.accepted();
        peer.say("12345");
        t.arrived(fd, 5);
        let receiving = waiting(move || {
            let mut bytes = [0; 10];
            (sys::recv(fd, &mut bytes, MSG_WAITALL), bytes)
        });
        peer.say("67890");
        let (ret, bytes) = joined(receiving);
        t.see_text("waitall", ret, &bytes);
    });
    suite.add(BOTH, "waitall_cut_short_by_the_end", |t| {
        let (fd, peer) = t.accepted();
        peer.say("123");
        peer.close();
        t.see_recv("waitall", fd, 10, MSG_WAITALL);
        t.see_recv("waitall", fd, 10, MSG_WAITALL);
    });
    suite.add(BOTH, "waitall_cut_short_by_a_timeout", |t| {
        let (fd, peer) = t.accepted();
        peer.say("123");
        t.arrived(fd, 3);
        set_time(fd, libc::SO_RCVTIMEO, 60);
        t.see_recv("waitall", fd, 10, MSG_WAITALL);
        t.see_recv("waitall", fd, 10, MSG_WAITALL);
    });
    suite.add(BOTH, "waitall_large", |t| {
        let (fd, peer) = t.accepted();
        peer.begin_send(300_000);
        let mut bytes = vec![0; 300_000];
        t.see("waitall", sys::recv(fd, &mut bytes, MSG_WAITALL));
        t.see("intact", is_intact(&bytes, 0));
        t.see("peer", crate::case::finish());
    });
    suite.add(BOTH, "trunc_discards", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello world");
        t.arrived(fd, 11);
        t.see("peek", sys::recv_nowhere(fd, 4, MSG_PEEK | MSG_TRUNC));
        t.see("trunc", sys::recv_nowhere(fd, 6, MSG_TRUNC));
        t.see_recv("then", fd, 32, 0);
    });
    suite.add(V4, "error_queue_is_empty", |t| {
        let (fd, _peer) = t.accepted();
        t.see("errqueue", sys::recv(fd, &mut [0; 8], libc::MSG_ERRQUEUE));
    });
    suite.add(V4, "unknown_flags", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello");
        t.arrived(fd, 5);
        t.see_recv("recv", fd, 32, 0x0080_0000);
    });
    suite.add(BOTH, "urgent", |t| {
        let (fd, peer) = t.accepted();
        t.see("none", sys::recv(fd, &mut [0; 1], MSG_OOB));
        peer.say("ab");
        peer.say_with("!", MSG_OOB);
        t.see("ready", ready(fd, libc::POLLPRI));
        t.see_recv("urgent", fd, 1, MSG_OOB);
        t.see("again", sys::recv(fd, &mut [0; 1], MSG_OOB));
        peer.say("cd");
        t.arrived(fd, 2);
        t.see_recv("recv", fd, 8, 0);
        t.see_recv("recv", fd, 8, 0);
    });
    suite.add(BOTH, "urgent_ends_a_read", |t| {
        let (fd, peer) = t.accepted();
        peer.say("ab");
        peer.say_with("!", MSG_OOB);
        ready(fd, libc::POLLPRI);
        peer.say("cd");
        t.arrived(fd, 2);
        t.see("unread", sys::ioctl(fd, libc::FIONREAD, 0).1);
        t.see_recv("peek", fd, 8, MSG_PEEK);
        t.see_recv("all", fd, 4, MSG_WAITALL);
        t.see_recv("urgent_peek", fd, 1, MSG_OOB | MSG_PEEK);
        until(|| now(fd, POLLIN) == "IN");
        t.see_recv("peek_behind", fd, 8, MSG_PEEK);
        t.see_recv("urgent", fd, 1, MSG_OOB);
        t.see_recv("behind", fd, 8, 0);
        t.see("passed", sys::recv(fd, &mut [0; 1], MSG_OOB));
    });
    suite.add(BOTH, "urgent_again", |t| {
        let (fd, peer) = t.accepted();
        for byte in ["x", "y"] {
            peer.say_with(byte, MSG_OOB);
            ready(fd, libc::POLLPRI);
            t.see_recv("urgent", fd, 1, MSG_OOB);
        }
        peer.say("z");
        until(|| now(fd, POLLIN) == "IN");
        t.see_recv("recv", fd, 8, 0);
    });
    suite.add(BOTH, "urgent_by_message", |t| {
        let (fd, peer) = t.accepted();
        peer.say_with("!", MSG_OOB);
        ready(fd, libc::POLLPRI);
        let mut byte = [0; 1];
        let message = sys::recvmsg(fd, &mut [&mut byte], 0, MSG_OOB);
        t.see("recvmsg", format!("{} {:?} {:#x}", message.ret, byte, message.flags));
    });
    suite.add(BOTH, "urgent_signal", |t| {
        sys::on_signal(libc::SIGURG, sys::Disposition::Count(0));
        let (fd, peer) = t.accepted();
        t.see("own", sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32));
        peer.say_with("!", MSG_OOB);
        until(|| sys::caught(libc::SIGURG) > 0);
        t.see("caught", sys::caught(libc::SIGURG));
    });
    suite.add(BOTH, "urgent_signal_set_before", |t| {
        sys::on_signal(libc::SIGURG, sys::Disposition::Count(0));
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        t.see("own", sys::fcntl(fd, libc::F_SETOWN, std::process::id() as i32));
        t.see("connect", sys::connect(fd, &t.there(port)));
        listener.accept().say_with("!", MSG_OOB);
        until(|| sys::caught(libc::SIGURG) > 0);
        t.see("caught", sys::caught(libc::SIGURG));
    });
    suite.add(BOTH, "urgent_inline", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1);
        peer.say("ab");
        peer.say_with("!", MSG_OOB);
        ready(fd, libc::POLLPRI);
        t.see("urgent", sys::recv(fd, &mut [0; 1], MSG_OOB));
        t.see_recv("recv", fd, 8, 0);
        t.see_recv("recv", fd, 8, 0);
    });
}

fn blocking(suite: &mut Suite) {
    suite.add(EACH, "blocks_until_data", |t| {
        let (fd, peer) = t.accepted();
        let receiving = waiting(move || sys::recv(fd, &mut [0; 8], 0));
        t.see("waits", !receiving.is_finished());
        peer.say("now");
        t.see("recv", joined(receiving));
    });
    suite.add(BOTH, "timeout", |t| {
        let (fd, peer) = t.accepted();
        set_time(fd, libc::SO_RCVTIMEO, 60);
        let start = Instant::now();
        t.see("recv", sys::recv(fd, &mut [0; 8], 0));
        t.see("waited", start.elapsed().as_millis() >= 55 && start.elapsed() < PATIENCE);
        t.see("read", sys::read(fd, &mut [0; 8]));
        peer.say("x");
        t.arrived(fd, 1);
        t.see_recv("recv", fd, 8, 0);
        set_time(fd, libc::SO_RCVTIMEO, 0);
        peer.say("y");
        t.see_recv("recv", fd, 8, 0);
    });
    suite.add(BOTH, "low_water_mark", |t| {
        let (fd, peer) = t.accepted();
        t.see("set", set_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4));
        peer.say("ab");
        t.arrived(fd, 2);
        t.see("below", now(fd, POLLIN));
        t.see_recv("dontwait", fd, 8, MSG_DONTWAIT);
        peer.say("cdefg");
        t.arrived(fd, 5);
        t.see("above", ready(fd, POLLIN));
        t.see_recv("recv", fd, 8, 0);
    });
}

fn ends(suite: &mut Suite) {
    suite.add(EACH, "end", |t| {
        let (fd, peer) = t.accepted();
        peer.say("last");
        peer.close();
        t.see("ready", ready(fd, POLLRDHUP));
        t.see_recv("recv", fd, 16, 0);
        t.see_recv("recv", fd, 16, 0);
        t.see_recv("recv", fd, 16, 0);
        t.see("read", sys::read(fd, &mut [0; 4]));
        t.see("error", t.error_of(fd));
    });
    suite.add(EACH, "reset", |t| {
        let (fd, peer) = t.accepted();
        peer.abort();
        t.see("ready", ready(fd, ALL));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("now", now(fd, ALL));
        t.see("error", t.error_of(fd));
        t.see("peer", sys::getpeername(fd).0);
        t.see("own", t.whose(&sys::getsockname(fd).1));
    });
    suite.add(BOTH, "reset_behind_data", |t| {
        let (fd, peer) = t.accepted();
        peer.say("data");
        t.arrived(fd, 4);
        peer.abort();
        ready(fd, POLLRDHUP);
        t.see("unread", sys::ioctl(fd, libc::FIONREAD, 0).1);
        t.see_recv("recv", fd, 16, 0);
        t.see_recv("recv", fd, 16, 0);
        t.see_recv("recv", fd, 16, 0);
    });
    suite.add(BOTH, "reset_while_blocked", |t| {
        let (fd, peer) = t.accepted();
        let receiving = waiting(move || sys::recv(fd, &mut [0; 8], 0));
        peer.abort();
        t.see("recv", joined(receiving));
    });
    suite.add(BOTH, "end_while_blocked", |t| {
        let (fd, peer) = t.accepted();
        let receiving = waiting(move || sys::recv(fd, &mut [0; 8], 0));
        peer.close();
        t.see("recv", joined(receiving));
    });
    suite.add(BOTH, "error_is_told_once", |t| {
        let (fd, peer) = t.accepted();
        peer.abort();
        ready(fd, POLLRDHUP);
        t.see("error", t.error_of(fd));
        t.see("error", t.error_of(fd));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
    });
    suite.add(BOTH, "end_then_answer", |t| {
        let (fd, peer) = t.accepted();
        peer.say("question");
        peer.shut(libc::SHUT_WR);
        ready(fd, POLLRDHUP);
        t.see_recv("recv", fd, 16, 0);
        t.see_recv("recv", fd, 16, 0);
        t.see("send", sys::send(fd, b"answer", 0));
        t.see("peer", peer.hear(6));
        sys::close(fd);
        t.see("peer", peer.hear(1));
    });
    suite.add(V4, "seen_twice_by_peers", |t| {
        let (fd, peer) = t.accepted();
        peer.say("ab");
        until(|| peer.unsent() == 0);
        t.see("unread", sys::ioctl(fd, libc::FIONREAD, 0).1);
        t.see("events", names::events(u32::from(sys::poll(&[(fd, ALL)], 0).1[0].cast_unsigned())));
    });
}

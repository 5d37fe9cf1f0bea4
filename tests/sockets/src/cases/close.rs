//! `close`, lingering or not, and what the peer sees of it.

use crate::case::{ALL, LONG_MS, joined, set_int, set_linger, until, waiting};
use crate::pattern;
use crate::suite::{BOTH, EACH, Suite};
use crate::sys;
use libc::{SHUT_WR, SOL_SOCKET};

pub fn add(suite: &mut Suite) {
    suite.add(EACH, "plain", |t| {
        let (fd, peer) = t.accepted();
        t.see("close", sys::close(fd));
        t.see("peer", peer.poll(ALL, LONG_MS));
        t.see("peer", peer.hear(1));
        t.see("peer_state", peer.state());
    });
    suite.add(EACH, "with_data_unread", |t| {
        let (fd, peer) = t.accepted();
        peer.say("unread");
        t.arrived(fd, 6);
        t.see("close", sys::close(fd));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "with_data_partly_read", |t| {
        let (fd, peer) = t.accepted();
        peer.say("unread");
        t.arrived(fd, 6);
        t.see_recv("recv", fd, 3, 0);
        sys::close(fd);
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "with_data_all_read", |t| {
        let (fd, peer) = t.accepted();
        peer.say("all");
        t.see_recv("recv", fd, 3, libc::MSG_WAITALL);
        sys::close(fd);
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "data_comes_behind_it", |t| {
        let (fd, peer) = t.accepted();
        sys::close(fd);
        t.see("peer", peer.hear(1));
        t.see("say", peer.say("late"));
        t.see("reset", until(|| peer.poll(ALL, 0).contains("HUP|RDHUP")));
        t.see("error", peer.error());
    });
    suite.add(BOTH, "with_data_unsent", |t| {
        let (fd, peer) = t.accepted_small();
        t.nonblocking(fd);
        let ret = sys::send(fd, &pattern::bytes(200_000), 0);
        t.see("send", ret.is_ok());
        t.see("close", sys::close(fd));
        let all = peer.read(1 << 20);
        t.see("peer", all == format!("{} intact end", ret.value));
    });
    suite.add(BOTH, "linger_0_resets", |t| {
        let (fd, peer) = t.accepted();
        t.see("set", set_linger(fd, 1, 0));
        t.see("close", sys::close(fd));
        t.see("peer", peer.poll(ALL, LONG_MS));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "linger_0_behind_a_shutdown", |t| {
        let (fd, peer) = t.accepted();
        sys::shutdown(fd, SHUT_WR);
        t.see("peer", peer.hear(1));
        set_linger(fd, 1, 0);
        sys::close(fd);
        t.see("peer", until(|| peer.poll(ALL, 0).contains("ERR")));
        t.see("error", peer.error());
    });
    suite.add(BOTH, "linger_waits_for_the_data", |t| {
        let (fd, peer) = t.accepted_small();
        set_linger(fd, 1, 10);
        peer.begin_read(300_001);
        t.see("send", sys::send(fd, &pattern::bytes(300_000), 0));
        t.see("close", sys::close(fd));
        t.see("peer", crate::case::finish());
    });
    suite.add(BOTH, "twice", |t| {
        let (fd, _peer) = t.accepted();
        t.see("close", sys::close(fd));
        t.see("close", sys::close(fd));
        t.see("negative", sys::close(-1));
        t.see("large", sys::close(1_000_000));
    });
    suite.add(BOTH, "both_sides", |t| {
        let (fd, peer) = t.accepted();
        peer.close();
        crate::case::ready(fd, libc::POLLRDHUP);
        t.see("close", sys::close(fd));
        let (fd, peer) = t.connected();
        sys::shutdown(fd, SHUT_WR);
        t.see("peer", peer.hear(1));
        peer.close();
        t.see("recv", sys::recv(fd, &mut [0; 1], 0));
        t.see("close", sys::close(fd));
    });
    suite.add(BOTH, "unconnected", |t| {
        t.see("fresh", sys::close(t.tcp()));
        t.see("listener", sys::close(t.listener().0));
        let fd = t.tcp_nonblocking();
        sys::connect(fd, &t.there(t.peer_is_deaf()));
        t.see("under_way", sys::close(fd));
        t.see("udp", sys::close(t.udp_bound().0));
    });
    suite.add(BOTH, "while_another_waits_in_recv", |t| {
        let (fd, peer) = t.accepted();
        let receiving = waiting(move || sys::recv(fd, &mut [0; 8], 0));
        t.see("close", sys::close(fd));
        // The call under way holds the connection, so it is open still.
        t.see("peer", peer.poll(libc::POLLIN | libc::POLLRDHUP, 60));
        t.see("say", peer.say("late"));
        t.see("recv", joined(receiving));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "while_another_waits_in_accept", |t| {
        let (fd, port) = t.listener();
        let accepting = waiting(move || sys::accept(fd));
        t.see("close", sys::close(fd));
        t.see("peer", t.peer_tries(port).parse::<u32>().is_ok());
        t.see("accept", joined(accepting).done());
        t.see("next", t.peer_tries(port));
    });
    suite.add(BOTH, "while_another_polls", |t| {
        let (fd, peer) = t.accepted();
        let polling = waiting(move || sys::poll(&[(fd, libc::POLLIN)], 400));
        t.see("close", sys::close(fd));
        peer.say("x");
        let (ret, told) = joined(polling);
        t.see("poll", format!("{ret} {told:?}"));
    });
    suite.add(BOTH, "number_is_reused", |t| {
        let (fd, first) = t.accepted();
        sys::close(fd);
        t.see("first", first.hear(1));
        let (again, second) = t.accepted();
        second.say("second");
        t.see_recv("recv", again, 16, 0);
        let (pipe, _) = sys::pipe(0);
        sys::close(again);
        sys::close(pipe);
        t.see("second", second.hear(1));
    });
    suite.add(BOTH, "keepalive_and_user_timeout_do_no_harm", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        set_int(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 1000);
        sys::send(fd, b"last", 0);
        sys::close(fd);
        t.see("peer", peer.hear(5));
    });
}

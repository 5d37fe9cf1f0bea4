//! `shutdown` in each direction and state.

use crate::address::Address;
use crate::case::{ALL, LONG_MS, joined, now, ready, until, waiting};
use crate::suite::{BOTH, EACH, Suite};
use crate::{names, sys};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, POLLRDHUP, SHUT_RD, SHUT_RDWR, SHUT_WR};

const WAYS: [(&str, i32); 3] = [("read", SHUT_RD), ("write", SHUT_WR), ("both", SHUT_RDWR)];

pub fn add(suite: &mut Suite) {
    for (name, how) in WAYS {
        suite.add(EACH, &format!("{name}_of_a_connection"), move |t| {
            let (fd, peer) = t.accepted();
            t.see("shutdown", sys::shutdown(fd, how));
            t.see("now", now(fd, ALL));
            t.see("recv", sys::recv(fd, &mut [0; 4], MSG_DONTWAIT));
            t.see("send", sys::send(fd, b"x", MSG_NOSIGNAL));
            t.see("again", sys::shutdown(fd, how));
            t.see("peer_of", sys::getpeername(fd).0);
            if how != SHUT_RD {
                t.see("peer", peer.hear(1));
            }
        });
        suite.add(BOTH, &format!("{name}_with_data_waiting"), move |t| {
            let (fd, peer) = t.accepted();
            peer.say("data");
            t.arrived(fd, 4);
            t.see("shutdown", sys::shutdown(fd, how));
            t.see_recv("recv", fd, 8, MSG_DONTWAIT);
            t.see_recv("recv", fd, 8, MSG_DONTWAIT);
        });
        suite.add(BOTH, &format!("{name}_of_a_fresh_socket"), move |t| {
            t.see("tcp", sys::shutdown(t.tcp(), how));
            t.see("udp", sys::shutdown(t.udp(), how));
            let (listener, _) = t.listener();
            t.see("listener", sys::shutdown(listener, how));
            t.see("accept", {
                t.nonblocking(listener);
                sys::accept(listener).done()
            });
        });
        suite.add(BOTH, &format!("{name}_behind_the_peer's_end"), move |t| {
            let (fd, peer) = t.accepted();
            peer.shut(SHUT_WR);
            ready(fd, POLLRDHUP);
            t.see("shutdown", sys::shutdown(fd, how));
            t.see("now", now(fd, ALL));
            t.see("recv", sys::recv(fd, &mut [0; 4], MSG_DONTWAIT));
            if how != SHUT_RD {
                t.see("peer", peer.hear(1));
                t.see("peer_state", peer.state());
            }
        });
        suite.add(BOTH, &format!("{name}_of_a_connected_datagram_socket"), move |t| {
            let (_, port) = t.peer_udp();
            let fd = t.udp();
            sys::connect(fd, &t.there(port));
            t.see("shutdown", sys::shutdown(fd, how));
            t.see("now", now(fd, ALL));
            t.see("recv", sys::recv(fd, &mut [0; 4], MSG_DONTWAIT));
            t.see("send", sys::send(fd, b"x", MSG_NOSIGNAL));
        });
        suite.add(BOTH, &format!("{name}_behind_a_reset"), move |t| {
            let (fd, peer) = t.accepted();
            peer.abort();
            ready(fd, POLLRDHUP);
            t.see("shutdown", sys::shutdown(fd, how));
            t.see("error", t.error_of(fd));
        });
    }
    suite.add(BOTH, "unknown_way", |t| {
        let (fd, _peer) = t.accepted();
        t.see("3", sys::shutdown(fd, 3));
        t.see("-1", sys::shutdown(fd, -1));
        t.see("fresh", sys::shutdown(t.tcp(), 7));
    });
    suite.add(EACH, "write_then_the_answer", |t| {
        let (fd, peer) = t.connected();
        sys::send(fd, b"question", 0);
        sys::shutdown(fd, SHUT_WR);
        t.see("peer", peer.hear(9));
        peer.say("answer");
        peer.close();
        t.see_recv("recv", fd, 16, libc::MSG_WAITALL);
        t.see_recv("recv", fd, 16, 0);
        t.see("now", now(fd, ALL));
    });
    suite.add(BOTH, "both_in_two_steps", |t| {
        let (fd, peer) = t.accepted();
        t.see("read", sys::shutdown(fd, SHUT_RD));
        t.see("now", now(fd, ALL));
        t.see("write", sys::shutdown(fd, SHUT_WR));
        t.see("now", now(fd, ALL));
        t.see("peer", peer.hear(1));
        peer.close();
        t.see("closed", until(|| sys::getpeername(fd).0.errno == libc::ENOTCONN));
        t.see("shutdown", sys::shutdown(fd, SHUT_RDWR));
    });
    suite.add(BOTH, "read_end_takes_what_comes_later", |t| {
        let (fd, peer) = t.accepted();
        sys::shutdown(fd, SHUT_RD);
        t.see("before", sys::recv(fd, &mut [0; 4], 0));
        peer.say("late");
        until(|| peer.unsent() == 0);
        t.see_recv("after", fd, 8, 0);
        t.see_recv("then", fd, 8, 0);
        t.see("send", sys::send(fd, b"still", 0));
        t.see("peer", peer.hear(5));
    });
    suite.add(BOTH, "wakes_a_blocked_recv", |t| {
        let (fd, _peer) = t.accepted();
        let receiving = waiting(move || sys::recv(fd, &mut [0; 4], 0));
        t.see("shutdown", sys::shutdown(fd, SHUT_RD));
        t.see("recv", joined(receiving));
    });
    suite.add(BOTH, "wakes_a_blocked_accept", |t| {
        let (fd, _) = t.listener();
        let accepting = waiting(move || sys::accept(fd));
        t.see("shutdown", sys::shutdown(fd, SHUT_RD));
        t.see("accept", joined(accepting).done());
    });
    suite.add(BOTH, "wakes_a_blocked_poll", |t| {
        let (fd, _peer) = t.accepted();
        let polling = waiting(move || sys::poll(&[(fd, libc::POLLIN)], LONG_MS).1[0]);
        t.see("shutdown", sys::shutdown(fd, SHUT_RD));
        t.see("poll", names::events(u32::from(joined(polling).cast_unsigned())));
    });
    suite.add(BOTH, "wakes_a_blocked_datagram_recv", |t| {
        let (_, port) = t.peer_udp();
        let fd = t.udp();
        sys::connect(fd, &t.there(port));
        let receiving = waiting(move || sys::recv(fd, &mut [0; 4], 0));
        t.see("shutdown", sys::shutdown(fd, SHUT_RD));
        t.see("recv", joined(receiving));
    });
    suite.add(BOTH, "states_seen_by_tcp_info", |t| {
        let state = |fd| {
            let (_, info) = sys::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, 8);
            names::tcp_state(info.first().copied().unwrap_or(0))
        };
        let (fd, peer) = t.accepted();
        t.see("open", state(fd));
        sys::shutdown(fd, SHUT_WR);
        t.see("shut", until(|| state(fd) == "FIN_WAIT2"));
        peer.close();
        t.see("closed", until(|| ["TIME_WAIT", "CLOSE"].contains(&state(fd))));
        let (fd, peer) = t.accepted();
        peer.shut(SHUT_WR);
        t.see("peer_shut", until(|| state(fd) == "CLOSE_WAIT"));
        sys::shutdown(fd, SHUT_WR);
        t.see("closed", until(|| state(fd) == "CLOSE"));
        t.see("fresh", state(t.tcp()));
        t.see("listener", state(t.listener().0));
    });
    suite.add(BOTH, "then_connect_again", |t| {
        let (fd, peer) = t.connected();
        sys::shutdown(fd, SHUT_RDWR);
        t.see("peer", peer.hear(1));
        let (listener, port) = t.peer_listens();
        t.see("connect", sys::connect(fd, &t.there(port)));
        t.see("unspecified", sys::connect(fd, &Address::family_only(libc::AF_UNSPEC)));
        t.see("connect", sys::connect(fd, &t.there(port)));
        sys::send(fd, b"x", 0);
        t.see("peer", listener.accept().hear(1));
    });
}

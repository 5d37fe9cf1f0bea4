//! Which of several things comes first: data, ends, resets, of one connection and of several.

use crate::case::{ALL, LONG_MS, Peer, now, ready, until};
use crate::suite::{BOTH, Suite};
use crate::sys;
use libc::{MSG_NOSIGNAL, POLLIN, POLLRDHUP, SHUT_WR};

pub fn add(suite: &mut Suite) {
    suite.add(BOTH, "data_then_end_in_one_go", |t| {
        let (fd, peer) = t.accepted();
        sys::send(fd, b"bye", 0);
        sys::close(fd);
        t.see("peer", peer.hear(8));
        t.see("then", peer.hear(1));
    });
    suite.add(BOTH, "simultaneous_ends", |t| {
        let (fd, peer) = t.accepted();
        sys::shutdown(fd, SHUT_WR);
        peer.shut(SHUT_WR);
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("peer", peer.hear(1));
        t.see("now", now(fd, ALL));
        t.see("error", t.error_of(fd));
    });
    suite.add(BOTH, "half_open_both_ways", |t| {
        let (fd, peer) = t.accepted();
        peer.shut(SHUT_WR);
        ready(fd, POLLRDHUP);
        t.see("send", sys::send(fd, b"one", 0));
        t.see("peer", peer.hear(3));
        t.see("send", sys::send(fd, b"two", 0));
        sys::shutdown(fd, SHUT_WR);
        t.see("peer", peer.hear(4));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
    });
    suite.add(BOTH, "reset_discards_what_was_not_sent", |t| {
        let (fd, peer) = t.accepted();
        peer.abort();
        ready(fd, POLLRDHUP);
        t.see("send", sys::send(fd, b"x", MSG_NOSIGNAL));
        t.see("unsent", sys::ioctl(fd, libc::TIOCOUTQ, 0).1);
    });
    suite.add(BOTH, "peer_closes_with_data_unread", |t| {
        let (fd, peer) = t.accepted();
        sys::send(fd, b"unread", 0);
        t.see("has", peer.has(6));
        peer.close();
        t.see("ready", ready(fd, POLLRDHUP));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
    });
    suite.add(BOTH, "reset_of_a_listening_peers_queue", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        t.see("connect", sys::connect(fd, &t.there(port)));
        listener.close();
        t.see("ready", ready(fd, POLLRDHUP));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
    });
    suite.add(BOTH, "two_connections_do_not_mix", |t| {
        let (listener, port) = t.listener();
        let peers: Vec<Peer> = (0..4).map(|_| t.peer_connects(port)).collect();
        let fds: Vec<i32> = (0..4).map(|_| sys::accept(listener).fd()).collect();
        for (at, peer) in peers.iter().enumerate() {
            peer.say(&format!("to {at}"));
        }
        for (at, fd) in fds.iter().enumerate() {
            sys::send(*fd, format!("from {at}").as_bytes(), 0);
        }
        for (peer, fd) in peers.iter().zip(&fds) {
            t.see("peer", peer.hear(6));
            t.see_recv("recv", *fd, 4, libc::MSG_WAITALL);
        }
    });
    suite.add(BOTH, "one_reset_leaves_the_others", |t| {
        let (listener, port) = t.listener();
        let peers: Vec<Peer> = (0..3).map(|_| t.peer_connects(port)).collect();
        let fds: Vec<i32> = (0..3).map(|_| sys::accept(listener).fd()).collect();
        peers[1].abort();
        ready(fds[1], POLLRDHUP);
        for fd in &fds {
            t.see("now", now(*fd, ALL));
        }
        sys::close(fds[1]);
        for at in [0, 2] {
            t.see("send", sys::send(fds[at], b"x", 0));
            t.see("peer", peers[at].hear(1));
        }
    });
    suite.add(BOTH, "request_and_response", |t| {
        let (fd, peer) = t.accepted();
        let good = (0..50)
            .filter(|round| {
                let text = format!("request {round:02}");
                peer.say(&text);
                let mut bytes = [0; 10];
                let ret = sys::recv(fd, &mut bytes, libc::MSG_WAITALL);
                sys::send(fd, &bytes[..ret.count()], 0);
                peer.hear(10) == format!("{text:?} full")
            })
            .count();
        t.see("rounds", good);
    });
    suite.add(BOTH, "data_keeps_its_order", |t| {
        let (fd, peer) = t.accepted();
        for number in 0..100 {
            sys::send(fd, format!("{number:02}").as_bytes(), 0);
        }
        let all: String = (0..100).map(|number| format!("{number:02}")).collect();
        t.see("in_order", peer.hear(200) == format!("{all:?} full"));
    });
    suite.add(BOTH, "datagrams_keep_their_order", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        for size in 1..=20 {
            peer.to(t.here_ip(), port, size);
        }
        let sizes: Vec<usize> = (1..=20)
            .map(|_| {
                sys::poll(&[(fd, POLLIN)], LONG_MS);
                sys::recv(fd, &mut [0; 64], 0).count()
            })
            .collect();
        t.see("in_order", sizes.iter().copied().eq(1..=20));
    });
    suite.add(BOTH, "closed_port_answers_with_a_reset", |t| {
        let (listener, port) = t.listener();
        t.see("open", t.peer_tries(port).parse::<u32>().is_ok());
        sys::close(listener);
        t.see("closed", t.peer_tries(port));
        let fd = t.tcp();
        t.see("bind", sys::bind(fd, &t.here(0)));
        t.see("bound_only", t.peer_tries(sys::getsockname(fd).1.port()));
    });
    suite.add(BOTH, "peer_sees_window_open_again", |t| {
        let (fd, peer) = t.accepted();
        peer.begin_send(3 << 20);
        until(|| sys::ioctl(fd, libc::FIONREAD, 0).1 > 60_000);
        let mut total = 0;
        let mut bytes = vec![0; 65_536];
        while total < 3 << 20 {
            let ret = sys::recv(fd, &mut bytes, 0);
            if ret.value <= 0 {
                break;
            }
            total += ret.count();
        }
        t.see("total", total);
        t.see("peer", crate::case::finish());
    });
}

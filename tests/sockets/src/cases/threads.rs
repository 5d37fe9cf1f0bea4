//! Any thread may use any descriptor.

use crate::case::{joined, ready, until, waiting};
use crate::pattern::{self, is_intact};
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Fd};
use libc::{MSG_WAITALL, POLLIN};
use std::thread::spawn;

pub fn add(suite: &mut Suite) {
    suite.add(EACH, "listen_in_one_accept_in_another", |t| {
        let (listener, port) = t.listener();
        let accepting = waiting(move || sys::accept(listener).fd());
        let peer = t.peer_connects(port);
        let fd = joined(accepting);
        let sending = spawn(move || sys::send(fd, b"from a third", 0));
        t.see("peer", peer.hear(12));
        t.see("send", joined(sending));
        peer.say("answer");
        t.see_recv("recv", fd, 6, MSG_WAITALL);
    });
    suite.add(BOTH, "made_in_one_used_in_another", |t| {
        let domain = t.domain();
        let fd = joined(spawn(move || sys::socket(domain, libc::SOCK_STREAM, 0).fd()));
        let (listener, port) = t.peer_listens();
        let there = t.there(port);
        t.see("connect", joined(spawn(move || sys::connect(fd, &there))));
        let peer = listener.accept();
        t.see("send", joined(spawn(move || sys::send(fd, b"hello", 0))));
        t.see("peer", peer.hear(5));
        t.see("close", joined(spawn(move || sys::close(fd))));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "two_accept", |t| {
        let (listener, port) = t.listener();
        let one = waiting(move || sys::accept(listener).fd());
        let two = waiting(move || sys::accept(listener).fd());
        let (first, second) = (t.peer_connects(port), t.peer_connects(port));
        let (one, two) = (joined(one), joined(two));
        t.see("differ", one >= 0 && two >= 0 && one != two);
        let mut found = [sys::getpeername(one).1.port(), sys::getpeername(two).1.port()];
        let mut known = [first.ports().0, second.ports().0];
        found.sort_unstable();
        known.sort_unstable();
        t.see("each_once", found == known);
    });
    suite.add(BOTH, "two_receive", |t| {
        let (fd, peer) = t.accepted();
        let one = waiting(move || sys::recv(fd, &mut [0; 1], 0).count());
        let two = waiting(move || sys::recv(fd, &mut [0; 1], 0).count());
        peer.say("ab");
        t.see("both", joined(one) + joined(two));
    });
    suite.add(BOTH, "two_receive_one_end", |t| {
        let (fd, peer) = t.accepted();
        let one = waiting(move || sys::recv(fd, &mut [0; 1], 0));
        let two = waiting(move || sys::recv(fd, &mut [0; 1], 0));
        peer.close();
        t.see("one", joined(one));
        t.see("two", joined(two));
    });
    suite.add(BOTH, "one_sends_while_one_receives", |t| {
        let (fd, peer) = t.accepted();
        let receiving = waiting(move || {
            let mut bytes = vec![0; 200_000];
            let ret = sys::recv(fd, &mut bytes, MSG_WAITALL);
            (ret, is_intact(&bytes, 0))
        });
        t.see("send", sys::send(fd, b"asked", 0));
        t.see("peer", peer.hear(5));
        peer.send(200_000);
        let (ret, intact) = joined(receiving);
        t.see("recv", format!("{ret} {intact}"));
    });
    suite.add(BOTH, "both_ways_at_once", |t| {
        let (fd, peer) = t.accepted();
        let size = 1 << 20;
        let receiving = spawn(move || {
            let mut bytes = vec![0; size];
            let ret = sys::recv(fd, &mut bytes, MSG_WAITALL);
            (ret, is_intact(&bytes, 0))
        });
        let sending = spawn(move || sys::send(fd, &pattern::bytes(size), 0));
        // The peer is one thread: it takes all, then gives all, while we do both.
        peer.begin_read(size);
        t.see("peer", crate::case::finish());
        t.see("peer", peer.send(size));
        t.see("send", joined(sending));
        let (ret, intact) = joined(receiving);
        t.see("recv", format!("{ret} {intact}"));
    });
    suite.add(BOTH, "many_send", |t| {
        let (fd, peer) = t.accepted();
        let all: Vec<_> = (0..8_u8)
            .map(|who| spawn(move || (0..50).filter(|_| sys::send(fd, &[b'a' + who; 4], 0).value == 4).count()))
            .collect();
        let text = peer.hear(8 * 50 * 4);
        t.see("sent", all.into_iter().map(joined).sum::<usize>());
        let letters: String = text.chars().filter(char::is_ascii_lowercase).take(1600).collect();
        let whole = letters.as_bytes().chunks(4).all(|four| four.iter().all(|letter| *letter == four[0]));
        t.see("each_in_one_piece", whole);
        t.see("of_each", (b'a'..=b'h').all(|who| letters.bytes().filter(|letter| *letter == who).count() == 200));
    });
    suite.add(BOTH, "many_connections", |t| {
        let (listener, port) = t.listener();
        let echoing: Vec<_> = (0..8)
            .map(|_| {
                spawn(move || {
                    let fd = sys::accept(listener).fd();
                    let mut bytes = [0; 16];
                    loop {
                        let ret = sys::recv(fd, &mut bytes, 0);
                        if ret.value <= 0 {
                            return sys::close(fd).is_ok();
                        }
                        sys::send(fd, &bytes[..ret.count()], 0);
                    }
                })
            })
            .collect();
        let peers: Vec<_> = (0..8).map(|_| t.peer_connects(port)).collect();
        let mut good = 0;
        for round in 0..5 {
            for (at, peer) in peers.iter().enumerate() {
                let text = format!("{round}/{at}");
                peer.say(&text);
                good += usize::from(peer.hear(3) == format!("{text:?} full"));
            }
        }
        t.see("good", good);
        for peer in &peers {
            peer.shut(libc::SHUT_WR);
        }
        t.see("ended", echoing.into_iter().map(joined).filter(|ok| *ok).count());
    });
    suite.add(BOTH, "handed_to_a_third", |t| {
        let (listener, port) = t.listener();
        let (hand, take) = std::sync::mpsc::channel::<Fd>();
        let third = spawn(move || take.recv().map_or(-1, |fd| sys::send(fd, b"third", 0).value));
        let second = waiting(move || hand.send(sys::accept(listener).fd()).is_ok());
        let peer = t.peer_connects(port);
        t.see("peer", peer.hear(5));
        t.see("second", joined(second));
        t.see("third", joined(third));
    });
    suite.add(BOTH, "datagrams_from_many", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        let there = t.there(port);
        let all: Vec<_> = (0..4)
            .map(|_| {
                let there = there.clone();
                spawn(move || (0..10).filter(|_| sys::sendto(fd, &pattern::bytes(20), 0, &there).value == 20).count())
            })
            .collect();
        t.see("sent", all.into_iter().map(joined).sum::<usize>());
        t.see("came", (0..40).filter(|_| peer.from().0 == "20 intact").count());
    });
    suite.add(BOTH, "shutdown_by_another_while_sending", |t| {
        let (fd, peer) = t.accepted_small();
        crate::case::set_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 20_000);
        let sending = waiting(move || {
            // What went before is told first.
            let first = sys::send(fd, &pattern::bytes(4 << 20), libc::MSG_NOSIGNAL);
            if first.is_ok() { sys::send(fd, b"x", libc::MSG_NOSIGNAL) } else { first }
        });
        t.see("shutdown", sys::shutdown(fd, libc::SHUT_RDWR));
        t.see("send", joined(sending));
        peer.abort();
    });
    suite.add(V4, "thread_ends_socket_stays", |t| {
        let (listener, port) = t.listener();
        let accepting = spawn(move || sys::accept(listener).fd());
        let peer = t.peer_connects(port);
        let fd = joined(accepting);
        peer.say("x");
        t.see("ready", ready(fd, POLLIN));
        t.see_recv("recv", fd, 4, 0);
    });
    suite.add(BOTH, "options_by_another", |t| {
        let (fd, peer) = t.accepted();
        let receiving = waiting(move || sys::recv(fd, &mut [0; 8], 0));
        crate::case::set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        t.see("name", sys::getpeername(fd).0);
        t.nonblocking(fd);
        t.see("still_waits", !receiving.is_finished());
        peer.say("data");
        t.see("recv", joined(receiving));
        t.see("next", sys::recv(fd, &mut [0; 8], 0));
    });
    suite.add(BOTH, "opened_and_closed_all_over", |t| {
        let domain = t.domain();
        let here = t.here(0);
        let all: Vec<_> = (0..4)
            .map(|_| {
                let here = here.clone();
                spawn(move || {
                    (0..100)
                        .filter(|_| {
                            let fd = sys::socket(domain, libc::SOCK_STREAM, 0).fd();
                            sys::bind(fd, &here).is_ok() && sys::close(fd).is_ok()
                        })
                        .count()
                })
            })
            .collect();
        t.see("good", all.into_iter().map(joined).sum::<usize>());
        let (fd, peer) = t.accepted();
        peer.say("x");
        until(|| sys::ioctl(fd, libc::FIONREAD, 0).1 == 1);
        t.see_recv("recv", fd, 4, 0);
    });
}

//! A megabyte each way, by several ways of calling; nothing lost, doubled or moved.

use crate::case::{Case, LONG_MS, Net, Peer, finish, joined, set_int};
use crate::pattern::{self, is_intact};
use crate::suite::{BOTH, EACH, Suite};
use crate::sys::{self, Fd};
use libc::{MSG_DONTWAIT, POLLIN, POLLOUT};
use std::thread::spawn;

const SIZE: usize = 1 << 20;

type Opens = fn(&Case) -> (Fd, Peer);

const SIDES: [(&str, Opens); 2] = [("accepted", Case::accepted), ("connected", Case::connected)];

/// Receives `SIZE` bytes in pieces of `piece`; how many came and whether they were right.
fn take(fd: Fd, piece: usize) -> String {
    let mut bytes = vec![0; piece];
    let (mut total, mut intact) = (0, true);
    while total < SIZE {
        let ret = sys::recv(fd, &mut bytes, 0);
        if ret.value <= 0 {
            return format!("{total} then {ret}");
        }
        intact &= is_intact(&bytes[..ret.count()], total);
        total += ret.count();
    }
    format!("{total} {}", if intact { "intact" } else { "garbled" })
}

/// Sends `SIZE` bytes in pieces.
fn give(fd: Fd, piece: usize) -> String {
    let all = pattern::bytes(SIZE);
    for bytes in all.chunks(piece) {
        let ret = sys::send(fd, bytes, 0);
        if ret.count() != bytes.len() {
            return ret.to_string();
        }
    }
    "all".to_owned()
}

/// Both at once in one thread, as event loops do: not blocking, with poll.
fn both_by_poll(fd: Fd) -> String {
    let all = pattern::bytes(SIZE);
    let mut bytes = vec![0; 10_000];
    let (mut sent, mut received, mut intact) = (0, 0, true);
    while sent < SIZE || received < SIZE {
        let events = if sent < SIZE { POLLIN | POLLOUT } else { POLLIN };
        let (_, told) = sys::poll(&[(fd, events)], LONG_MS);
        if told[0] & POLLOUT != 0 {
            let ret = sys::send(fd, &all[sent..(sent + 30_000).min(SIZE)], MSG_DONTWAIT);
            if !ret.is_ok() && ret.errno != libc::EAGAIN {
                return format!("sent {sent} then {ret}");
            }
            sent += ret.count();
        }
        if told[0] & POLLIN != 0 {
            let ret = sys::recv(fd, &mut bytes, MSG_DONTWAIT);
            if ret.value == 0 || (!ret.is_ok() && ret.errno != libc::EAGAIN) {
                return format!("received {received} then {ret}");
            }
            intact &= is_intact(&bytes[..ret.count()], received);
            received += ret.count();
        }
    }
    format!("{sent} {received} {intact}")
}

/// The same by epoll, edge-triggered: each is done until it would block.
fn both_by_epoll(fd: Fd) -> String {
    let all = pattern::bytes(SIZE);
    let mut bytes = vec![0; 10_000];
    let (mut sent, mut received, mut intact) = (0, 0, true);
    let epoll = sys::epoll_create(0).fd();
    sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET, 1);
    while sent < SIZE || received < SIZE {
        let (ret, _) = sys::epoll_wait(epoll, 4, LONG_MS);
        if ret.value <= 0 {
            return format!("sent {sent} received {received} then {ret}");
        }
        while sent < SIZE {
            let ret = sys::send(fd, &all[sent..], MSG_DONTWAIT);
            if !ret.is_ok() {
                break;
            }
            sent += ret.count();
        }
        loop {
            let ret = sys::recv(fd, &mut bytes, MSG_DONTWAIT);
            if ret.value <= 0 {
                break;
            }
            intact &= is_intact(&bytes[..ret.count()], received);
            received += ret.count();
        }
    }
    format!("{sent} {received} {intact}")
}

pub fn add(suite: &mut Suite) {
    for (side, open) in SIDES {
        suite.add(EACH, &format!("in_{side}"), move |t| {
            let (fd, peer) = open(t);
            peer.begin_send(SIZE);
            t.see("recv", take(fd, 16_384));
            t.see("peer", finish());
        });
        suite.add(EACH, &format!("out_{side}"), move |t| {
            let (fd, peer) = open(t);
            peer.begin_read(SIZE);
            t.see("send", give(fd, 16_384));
            t.see("peer", finish());
        });
        suite.add(BOTH, &format!("out_then_end_{side}"), move |t| {
            let (fd, peer) = open(t);
            peer.begin_read(SIZE + 1);
            t.see("send", give(fd, 100_000));
            sys::close(fd);
            t.see("peer", finish());
        });
        suite.add(BOTH, &format!("half_closed_{side}"), move |t| {
            let (fd, peer) = open(t);
            peer.shut(libc::SHUT_WR);
            peer.begin_read(SIZE + 1);
            t.see("send", give(fd, 50_000));
            sys::shutdown(fd, libc::SHUT_WR);
            t.see("peer", finish());
            t.see("recv", sys::recv(fd, &mut [0; 1], 0));
        });
        type Both = fn(Fd) -> String;
        for (way, both) in [("poll", both_by_poll as Both), ("epoll", both_by_epoll)] {
            suite.add(BOTH, &format!("both_by_{way}_{side}"), move |t| {
                let (fd, peer) = open(t);
                let flowing = spawn(move || both(fd));
                peer.begin_read(SIZE);
                t.see("peer", finish());
                peer.begin_send(SIZE);
                t.see("peer", finish());
                t.see("both", joined(flowing));
            });
        }
    }
    for piece in [7, 100, 1460, 65_536, SIZE] {
        suite.add(&[Net::V4], &format!("in_pieces_of_{piece}"), move |t| {
            let (fd, peer) = t.accepted();
            peer.begin_send(SIZE);
            t.see("recv", take(fd, piece));
            t.see("peer", finish());
        });
        // A megabyte by sevens takes long on a busy machine and tells no more than by hundreds.
        if piece > 7 {
            suite.add(&[Net::V4], &format!("out_pieces_of_{piece}"), move |t| {
                let (fd, peer) = t.accepted();
                peer.begin_read(SIZE);
                t.see("send", give(fd, piece));
                t.see("peer", finish());
            });
        }
    }
    suite.add(BOTH, "out_without_delay", |t| {
        let (fd, peer) = t.accepted();
        set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        peer.begin_read(SIZE);
        t.see("send", give(fd, 3000));
        t.see("peer", finish());
    });
    suite.add(BOTH, "out_through_a_small_window", |t| {
        let (fd, peer) = t.accepted_small();
        peer.begin_read(SIZE / 4);
        let all = pattern::bytes(SIZE / 4);
        t.see("send", sys::send(fd, &all, 0));
        t.see("peer", finish());
    });
    suite.add(BOTH, "in_through_a_small_window", |t| {
        let (listener, port) = t.listener();
        set_int(listener, libc::SOL_SOCKET, libc::SO_RCVBUF, 8192);
        let peer = t.peer_connects(port);
        let fd = sys::accept(listener).fd();
        peer.begin_send(SIZE);
        t.see("recv", take(fd, 4096));
        t.see("peer", finish());
    });
    suite.add(BOTH, "several_at_once", |t| {
        let flows: Vec<_> = (0..4)
            .map(|_| {
                let (fd, peer) = t.accepted();
                (spawn(move || give(fd, 20_000)), peer)
            })
            .collect();
        for (flow, peer) in flows {
            t.see("peer", peer.read(SIZE));
            t.see("send", joined(flow));
        }
    });
}

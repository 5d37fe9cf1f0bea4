//! `fork`, `exec`, `posix_spawn`, `vfork`, descriptors handed over Unix sockets.

use crate::case::{Case, Peer, SHORT_MS, ready};
use crate::pattern;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Fd, Ret};
use libc::{FD_CLOEXEC, MSG_WAITALL, POLLIN, POLLRDHUP, SOL_SOCKET};

/// Waits for a child and tells how it ended.
fn ended(t: &Case, child: Ret) {
    if child.is_ok() {
        t.see("child", sys::wait(child.fd()).1);
    } else {
        t.see("fork", child);
    }
}

/// The count of a call as an exit code; 200 after a failure.
fn code(ret: Ret) -> i32 {
    i32::try_from(ret.value).ok().filter(|value| (0..200).contains(value)).unwrap_or(200)
}

/// Whether the peer has seen no end yet.
fn is_open(peer: Peer) -> bool {
    peer.poll(POLLIN | POLLRDHUP, SHORT_MS) == "-"
}

pub fn add(suite: &mut Suite) {
    forks(suite);
    listeners(suite);
    programs(suite);
    handed(suite);
}

fn forks(suite: &mut Suite) {
    suite.add(EACH, "child_uses_a_connection", |t| {
        let (fd, peer) = t.accepted();
        peer.say("question");
        let child = sys::fork(|| {
            let mut bytes = [0; 8];
            let ret = sys::recv(fd, &mut bytes, MSG_WAITALL);
            sys::send(fd, b"answer", 0);
            code(ret)
        });
        sys::close(fd);
        t.see("peer", peer.hear(7));
        ended(t, child);
    });
    suite.add(BOTH, "parent_closes_child_keeps_it_open", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        let child = sys::fork(|| {
            sys::close(writing);
            sys::read(reading, &mut [0; 1]);
            code(sys::send(fd, b"child", 0))
        });
        t.see("close", sys::close(fd));
        t.see("open", is_open(peer));
        sys::close(writing);
        t.see("peer", peer.hear(6));
        ended(t, child);
    });
    suite.add(BOTH, "child_ends_parent_keeps_it_open", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::fork(|| code(sys::send(fd, b"child", 0)));
        ended(t, child);
        t.see("peer", peer.hear(5));
        t.see("open", is_open(peer));
        t.see("send", sys::send(fd, b"parent", 0));
        t.see("peer", peer.hear(6));
        sys::close(fd);
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "child_is_killed", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        let child = sys::fork(|| {
            sys::close(writing);
            code(sys::read(reading, &mut [0; 1]))
        });
        sys::kill(child.fd(), libc::SIGKILL);
        ended(t, child);
        t.see("open", is_open(peer));
        t.see("send", sys::send(fd, b"parent", 0));
        t.see("peer", peer.hear(6));
    });
    suite.add(BOTH, "child_shuts_it_for_both", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::fork(|| code(sys::shutdown(fd, libc::SHUT_WR)));
        ended(t, child);
        t.see("peer", peer.hear(1));
        t.see("send", sys::send(fd, b"x", libc::MSG_NOSIGNAL));
    });
    suite.add(BOTH, "both_use_it_in_turn", |t| {
        let (fd, peer) = t.accepted();
        let (go, told) = sys::pipe(0);
        let child = sys::fork(|| {
            sys::read(go, &mut [0; 1]);
            sys::send(fd, b"two", 0);
            let mut bytes = [0; 4];
            code(sys::recv(fd, &mut bytes, MSG_WAITALL))
        });
        sys::send(fd, b"one", 0);
        sys::write(told, b"x");
        t.see("peer", peer.hear(6));
        peer.say("four");
        ended(t, child);
        peer.say("five!");
        t.see_recv("recv", fd, 5, MSG_WAITALL);
    });
    suite.add(BOTH, "flags_and_options_are_shared", |t| {
        let (fd, _peer) = t.accepted();
        let child = sys::fork(|| {
            t.nonblocking(fd);
            code(crate::case::set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1))
        });
        ended(t, child);
        t.see("recv", sys::recv(fd, &mut [0; 1], 0));
        t.see("nodelay", crate::case::int_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY).1);
    });
    suite.add(BOTH, "child_of_a_child", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::fork(|| {
            let inner = sys::fork(|| code(sys::send(fd, b"inner", 0)));
            sys::wait(inner.fd()).1
        });
        ended(t, child);
        t.see("peer", peer.hear(5));
        sys::close(fd);
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "child_makes_its_own", |t| {
        let (listener, port) = t.peer_listens();
        let there = t.there(port);
        let child = sys::fork(|| {
            let fd = t.tcp();
            let ret = sys::connect(fd, &there);
            if ret.is_ok() { code(sys::send(fd, b"child", 0)) } else { 201 }
        });
        let peer = listener.accept();
        t.see("peer", peer.hear(6));
        ended(t, child);
        let (fd, other) = t.connected();
        sys::send(fd, b"parent", 0);
        t.see("other", other.hear(6));
    });
    suite.add(BOTH, "child_receives_datagrams", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        let child = sys::fork(|| code(sys::recv(fd, &mut [0; 64], 0)));
        peer.to(t.here_ip(), port, 33);
        ended(t, child);
        peer.to(t.here_ip(), port, 44);
        t.see("parent", sys::recv(fd, &mut [0; 64], 0));
    });
    suite.add(BOTH, "large_answer_by_a_child", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::fork(|| i32::from(sys::send(fd, &pattern::bytes(500_000), 0).value != 500_000));
        sys::close(fd);
        t.see("peer", peer.drain());
        ended(t, child);
    });
    suite.add(V4, "child_waits_with_an_epoll_of_its_own", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::fork(|| {
            let epoll = sys::epoll_create(0).fd();
            sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, 1);
            sys::epoll_wait(epoll, 1, crate::case::LONG_MS);
            code(sys::recv(fd, &mut [0; 8], 0))
        });
        peer.say("abc");
        ended(t, child);
    });
}

fn listeners(suite: &mut Suite) {
    suite.add(EACH, "child_accepts", |t| {
        let (listener, port) = t.listener();
        let child = sys::fork(|| {
            let fd = sys::accept(listener).fd();
            code(sys::send(fd, b"child", 0))
        });
        let peer = t.peer_connects(port);
        t.see("peer", peer.hear(6));
        ended(t, child);
        let second = t.peer_connects(port);
        let fd = sys::accept(listener).fd();
        sys::send(fd, b"parent", 0);
        t.see("second", second.hear(6));
    });
    suite.add(BOTH, "workers_share_a_listener", |t| {
        let (listener, port) = t.listener();
        let children: Vec<Ret> = (0..3)
            .map(|_| {
                sys::fork(|| {
                    let fd = sys::accept(listener).fd();
                    code(sys::send(fd, b"work", 0))
                })
            })
            .collect();
        sys::close(listener);
        for _ in 0..3 {
            t.see("peer", t.peer_connects(port).hear(5));
        }
        for child in children {
            ended(t, child);
        }
        t.see("then", t.peer_tries(port));
    });
    suite.add(BOTH, "listener_outlives_many_children", |t| {
        let (listener, port) = t.listener();
        let (reading, writing) = sys::pipe(0);
        // All at once, and more than there are descriptors open.
        let children: Vec<Ret> = (0..24)
            .map(|_| {
                sys::fork(|| {
                    sys::close(writing);
                    code(sys::read(reading, &mut [0; 1]))
                })
            })
            .collect();
        sys::close(writing);
        for child in children {
            ended(t, child);
        }
        let peer = t.peer_connects(port);
        let fd = sys::accept(listener);
        t.see("accept", fd.done());
        t.see("send", sys::send(fd.fd(), b"still there", 0));
        t.see("peer", peer.hear(11));
    });
    suite.add(BOTH, "listener_outlives_its_maker", |t| {
        let (ours, theirs) = {
            let (_, one, two) = sys::socketpair(libc::SOCK_STREAM);
            (one, two)
        };
        let child = sys::fork(|| {
            let (listener, port) = t.listener();
            let grandchild = sys::fork(|| {
                sys::close(ours);
                let fd = sys::accept(listener).fd();
                sys::send(fd, b"served", 0);
                sys::write(theirs, b"done");
                0
            });
            sys::write(theirs, &port.to_ne_bytes());
            i32::from(!grandchild.is_ok())
        });
        let mut port = [0; 2];
        sys::read(ours, &mut port);
        ended(t, child);
        let peer = t.peer_connects(u16::from_ne_bytes(port));
        t.see("peer", peer.hear(6));
        t.see("served", sys::read(ours, &mut [0; 4]));
    });
    suite.add(BOTH, "process_per_connection", |t| {
        let (listener, port) = t.listener();
        for _ in 0..3 {
            let peer = t.peer_connects(port);
            let fd = sys::accept(listener).fd();
            let child = sys::fork(|| {
                sys::close(listener);
                let mut bytes = [0; 4];
                sys::recv(fd, &mut bytes, MSG_WAITALL);
                code(sys::send(fd, &bytes, 0))
            });
            sys::close(fd);
            peer.say("echo");
            t.see("peer", peer.hear(5));
            ended(t, child);
        }
    });
}

fn programs(suite: &mut Suite) {
    suite.add(EACH, "spawn_cat", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::spawn(&["cat"], fd, fd);
        sys::close(fd);
        peer.say("through cat");
        t.see("peer", peer.hear(11));
        peer.shut(libc::SHUT_WR);
        t.see("peer", peer.hear(1));
        ended(t, child);
    });
    suite.add(BOTH, "fork_and_exec_cat", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::fork(|| {
            sys::exec(&["cat"], fd, fd);
            202
        });
        sys::close(fd);
        peer.say("through cat");
        t.see("peer", peer.hear(11));
        peer.shut(libc::SHUT_WR);
        t.see("peer", peer.hear(1));
        ended(t, child);
    });
    suite.add(BOTH, "vfork_and_exec_cat", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::vfork_exec(&["cat"], fd, fd);
        sys::close(fd);
        peer.say("through cat");
        t.see("peer", peer.hear(11));
        peer.shut(libc::SHUT_WR);
        t.see("peer", peer.hear(1));
        ended(t, child);
    });
    suite.add(BOTH, "spawn_echo_with_data_waiting", |t| {
        let (fd, peer) = t.accepted();
        peer.say("first line\nsecond line\n");
        peer.shut(libc::SHUT_WR);
        ready(fd, POLLRDHUP);
        let child = sys::spawn(&["cat"], fd, fd);
        ended(t, child);
        sys::close(fd);
        t.see("peer", peer.hear(40));
    });
    suite.add(BOTH, "spawn_with_output_only", |t| {
        let (fd, peer) = t.connected();
        let child = sys::spawn(&["echo", "hello"], 0, fd);
        ended(t, child);
        sys::close(fd);
        t.see("peer", peer.hear(10));
    });
    suite.add(BOTH, "close_on_exec", |t| {
        let (fd, peer) = t.accepted();
        sys::fcntl(fd, libc::F_SETFD, FD_CLOEXEC);
        let (reading, writing) = sys::pipe(libc::O_CLOEXEC);
        let child = sys::spawn(&["cat"], reading, 1);
        sys::close(fd);
        // The program has no copy of it, so it is closed although the program runs.
        t.see("peer", peer.hear(1));
        sys::close(writing);
        ended(t, child);
    });
    suite.add(BOTH, "kept_over_exec", |t| {
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(libc::O_CLOEXEC);
        let child = sys::spawn(&["cat"], reading, 1);
        sys::close(fd);
        t.see("open", is_open(peer));
        sys::close(writing);
        ended(t, child);
        t.see("peer", peer.hear(1));
    });
    suite.add(V4, "spawn_fails", |t| {
        let (fd, peer) = t.accepted();
        t.see("spawn", sys::spawn(&["no-such-program-here"], fd, fd));
        sys::send(fd, b"x", 0);
        t.see("peer", peer.hear(1));
    });
    suite.add(V4, "a_program_moves_much", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::spawn(&["cat"], fd, fd);
        sys::close(fd);
        peer.send(50_000);
        t.see("peer", peer.read(50_000));
        peer.shut(libc::SHUT_WR);
        t.see("peer", peer.drain());
        ended(t, child);
    });
}

fn handed(suite: &mut Suite) {
    let pass = |over: Fd, fds: &[Fd]| {
        let data: Vec<u8> = fds.iter().flat_map(|fd| fd.to_ne_bytes()).collect();
        sys::sendmsg(over, &[b"!"], None, &[(SOL_SOCKET, libc::SCM_RIGHTS, data)], 0)
    };
    let take = |over: Fd, flags: i32| {
        let message = sys::recvmsg(over, &mut [&mut [0; 4]], 128, flags);
        let data = message.control.first().map(|(_, _, data)| data.clone()).unwrap_or_default();
        data.chunks_exact(4).map(|four| i32::from_ne_bytes(four.try_into().unwrap_or_default())).collect::<Vec<Fd>>()
    };
    suite.add(EACH, "connection_over_a_unix_socket", move |t| {
        let (_, one, two) = sys::socketpair(libc::SOCK_STREAM);
        let (fd, peer) = t.accepted();
        t.see("pass", pass(one, &[fd]));
        sys::close(fd);
        t.see("open", is_open(peer));
        let taken = take(two, 0);
        t.see("taken", taken.len());
        sys::send(taken[0], b"handed", 0);
        t.see("peer", peer.hear(6));
        sys::close(taken[0]);
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "connection_to_a_child", move |t| {
        let (_, one, two) = sys::socketpair(libc::SOCK_STREAM);
        let child = sys::fork(move || {
            let taken = take(two, 0);
            taken.first().map_or(203, |fd| code(sys::send(*fd, b"child", 0)))
        });
        let (fd, peer) = t.accepted();
        t.see("pass", pass(one, &[fd]));
        sys::close(fd);
        t.see("peer", peer.hear(6));
        ended(t, child);
    });
    suite.add(BOTH, "listener_to_a_child", move |t| {
        let (_, one, two) = sys::socketpair(libc::SOCK_STREAM);
        let child = sys::fork(move || {
            let taken = take(two, 0);
            let fd = taken.first().map_or(-1, |fd| sys::accept(*fd).fd());
            code(sys::send(fd, b"child", 0))
        });
        let (listener, port) = t.listener();
        t.see("pass", pass(one, &[listener]));
        sys::close(listener);
        t.see("peer", t.peer_connects(port).hear(6));
        ended(t, child);
    });
    suite.add(BOTH, "several_with_others_between", move |t| {
        let (_, one, two) = sys::socketpair(libc::SOCK_DGRAM);
        let (fd, peer) = t.accepted();
        let (reading, writing) = sys::pipe(0);
        t.see("pass", pass(one, &[fd, writing, fd]));
        let taken = take(two, libc::MSG_CMSG_CLOEXEC);
        t.see("taken", taken.len());
        t.see("flags", sys::fcntl(taken[0], libc::F_GETFD, 0));
        sys::send(taken[0], b"a", 0);
        sys::write(taken[1], b"b");
        sys::send(taken[2], b"c", 0);
        t.see("peer", peer.hear(2));
        t.see("pipe", sys::read(reading, &mut [0; 4]));
    });
    suite.add(V4, "unix_sockets_are_the_kernel's", |t| {
        let (ret, one, two) = sys::socketpair(libc::SOCK_STREAM);
        t.see("pair", ret);
        t.see("send", sys::send(one, b"hello", 0));
        t.see_recv("recv", two, 8, 0);
        sys::close(one);
        t.see_recv("end", two, 8, 0);
    });
}

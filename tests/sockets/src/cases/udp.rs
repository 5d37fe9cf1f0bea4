//! Datagram sockets.

use crate::address::Address;
use crate::case::{ALL, LONG_MS, Net, now, ready, set_int, set_time, until};
use crate::pattern::{self, is_intact};
use crate::suite::{BOTH, EACH, Suite, V4, V6};
use crate::sys;
use libc::{MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, POLLIN, SOL_SOCKET};

/// Lengths around those of headers, segments and fragments.
const SIZES: [usize; 9] = [0, 1, 9, 512, 1431, 1473, 4000, 20_000, 60_000];

pub fn add(suite: &mut Suite) {
    for size in SIZES {
        suite.add(EACH, &format!("both_ways_{size}"), move |t| {
            let (fd, port) = t.udp_bound();
            let (peer, peer_port) = t.peer_udp();
            t.see("sendto", sys::sendto(fd, &pattern::bytes(size), 0, &t.there(peer_port)));
            let (told, from) = peer.from();
            t.see("peer", format!("{told} {}", from == port));
            peer.to(t.here_ip(), port, size);
            let mut bytes = vec![0; 65_536];
            let (ret, from) = sys::recvfrom(fd, &mut bytes, 0);
            t.see("recvfrom", format!("{ret} {}", is_intact(&bytes[..ret.count()], 0)));
            t.see("from", format!("{} {}", t.whose(&from), from.port() == peer_port));
        });
    }
    sizes(suite);
    addresses(suite);
    connected(suite);
    receiving(suite);
}

fn sizes(suite: &mut Suite) {
    suite.add(BOTH, "largest", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        // The length field counts the UDP header; in IPv4 the IP header too.
        let largest = if t.net == Net::V4 { 65_507 } else { 65_527 };
        t.see("too_large", sys::sendto(fd, &pattern::bytes(largest + 1), 0, &t.there(port)));
        t.see("much_too_large", sys::sendto(fd, &pattern::bytes(100_000), 0, &t.there(port)));
        t.see("largest", sys::sendto(fd, &pattern::bytes(largest), 0, &t.there(port)));
        t.see("peer", peer.from().0);
        let plugged = t.udp();
        sys::connect(plugged, &t.there(port));
        t.see("too_large", sys::send(plugged, &pattern::bytes(largest + 1), 0));
    });
    suite.add(BOTH, "not_in_fragments", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        let (level, discover) = match t.net {
            Net::V4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            _ => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        for (name, how) in [("want", 1), ("do", 2), ("probe", 3), ("dont", 0)] {
            set_int(fd, level, discover, how);
            t.see(name, sys::sendto(fd, &pattern::bytes(4_000), 0, &t.there(port)));
            t.see("fits", sys::sendto(fd, &pattern::bytes(1_400), 0, &t.there(port)));
        }
        for length in ["4000", "1400", "1400", "1400", "4000", "1400"] {
            t.see(length, peer.from().0);
        }
    });
    suite.add(V6, "dont_fragment", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        t.see("set", set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1));
        t.see("refused", sys::sendto(fd, &pattern::bytes(4_000), 0, &t.there(port)));
        t.see("clear", set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0));
        t.see("sent", sys::sendto(fd, &pattern::bytes(4_000), 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "many_in_fragments", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        for number in 0..20 {
            t.see("sendto", sys::sendto(fd, &pattern::bytes(30_000 + number), 0, &t.there(port)));
            t.see("peer", peer.from().0);
        }
    });
    suite.add(BOTH, "cut", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 100);
        t.see("recv", sys::recv(fd, &mut [0; 10], 0));
        t.see("rest_is_gone", sys::recv(fd, &mut [0; 10], MSG_DONTWAIT));
        peer.to(t.here_ip(), port, 100);
        t.see("trunc", sys::recv(fd, &mut [0; 10], MSG_TRUNC));
        peer.to(t.here_ip(), port, 100);
        t.see("peek", sys::recv(fd, &mut [0; 10], MSG_PEEK));
        t.see("peek_trunc", sys::recv(fd, &mut [0; 10], MSG_PEEK | MSG_TRUNC));
        t.see("empty_buffer", sys::recv(fd, &mut [], 0));
        t.see("gone", sys::recv(fd, &mut [0; 10], MSG_DONTWAIT));
    });
    suite.add(BOTH, "nowhere", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 100);
        t.see("ready", ready(fd, POLLIN));
        t.see("trunc", sys::recv_nowhere(fd, 10, MSG_TRUNC));
        t.see("gone", sys::recv(fd, &mut [0; 10], MSG_DONTWAIT));
    });
    suite.add(BOTH, "empty_ones", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, peer_port) = t.peer_udp();
        peer.to(t.here_ip(), port, 0);
        peer.to(t.here_ip(), port, 3);
        t.see("ready", ready(fd, POLLIN));
        t.see("recv", sys::recv(fd, &mut [0; 9], 0));
        t.see("recv", sys::recv(fd, &mut [0; 9], 0));
        t.see("sendto", sys::sendto(fd, b"", 0, &t.there(peer_port)));
        t.see("peer", peer.from().0);
        sys::connect(fd, &t.there(peer_port));
        t.see("write", sys::write(fd, b""));
        t.see("send", sys::send(fd, b"", 0));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "many_queued", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        for size in 0..60 {
            peer.to(t.here_ip(), port, size);
        }
        let good = (0..60)
            .filter(|size| {
                ready(fd, POLLIN);
                sys::recv(fd, &mut [0; 80], MSG_DONTWAIT).value == i64::from(*size)
            })
            .count();
        t.see("in_order", good);
        t.see("then", sys::recv(fd, &mut [0; 80], MSG_DONTWAIT));
    });
}

fn addresses(suite: &mut Suite) {
    suite.add(BOTH, "nowhere_to", |t| {
        let fd = t.udp();
        t.see("send", sys::send(fd, b"x", 0));
        t.see("write", sys::write(fd, b"x"));
        t.see("port_0", sys::sendto(fd, b"x", 0, &t.there(0)));
        t.see("short", sys::sendto(fd, b"x", 0, &t.there(9).cut(8)));
        t.see("family", sys::sendto(fd, b"x", 0, &t.there(9).with_family(77)));
        t.see("from_nowhere", sys::send_nothing(fd, 1));
    });
    suite.add(V4, "unspecified_family_is_v4", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        let there = t.there(port).with_family(libc::AF_UNSPEC);
        t.see("sendto", sys::sendto(fd, b"", 0, &there));
        t.see("peer", peer.from().0);
    });
    suite.add(V6, "to_a_mapped_address", |t| {
        let fd = t.udp();
        let answer = crate::case::ask(&format!("udp {} 0", t.world.there4));
        let peer = crate::case::Peer::of(&answer);
        let port = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let mapped = Address::new(t.world.there4.to_ipv6_mapped().into(), port);
        t.see("sendto", sys::sendto(fd, b"", 0, &mapped));
        t.see("peer", peer.from().0);
        set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
        let only = t.udp();
        set_int(only, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
        t.see("only_v6", sys::sendto(only, b"", 0, &mapped));
        t.see("plain_v4", sys::sendto(fd, b"", 0, &Address::new(t.world.there4.into(), port)));
    });
    suite.add(V4, "v6_address_on_a_v4_socket", |t| {
        t.see("sendto", sys::sendto(t.udp(), b"x", 0, &Address::new(t.world.there6.into(), 9)));
    });
    suite.add(V4, "broadcast_needs_leave", |t| {
        let fd = t.udp();
        // Of a network of 256 addresses, which is what the cases are run in.
        let [a, b, c, _] = t.world.here4.octets();
        let everybody = Address::new(std::net::Ipv4Addr::new(a, b, c, 255).into(), 9);
        t.see("sendto", sys::sendto(fd, b"x", 0, &everybody));
        t.see("connect", sys::connect(fd, &everybody));
        t.see("leave", set_int(fd, SOL_SOCKET, libc::SO_BROADCAST, 1));
        t.see("sendto", sys::sendto(fd, b"x", 0, &everybody));
    });
    suite.add(BOTH, "bound_by_sending", |t| {
        let fd = t.udp();
        let (peer, port) = t.peer_udp();
        t.see("name", t.whose(&sys::getsockname(fd).1));
        sys::sendto(fd, b"", 0, &t.there(port));
        t.see("name", t.whose(&sys::getsockname(fd).1));
        let (told, from) = peer.from();
        t.see("peer", format!("{told} {}", from == sys::getsockname(fd).1.port()));
        peer.to(t.here_ip(), from, 4);
        t.see("answer", sys::recv(fd, &mut [0; 9], 0));
    });
    suite.add(V6, "both_families_on_one_socket", |t| {
        let fd = t.udp();
        sys::bind(fd, &t.any(0));
        let port = sys::getsockname(fd).1.port();
        let (six, _) = t.peer_udp();
        let four = crate::case::Peer::of(&crate::case::ask(&format!("udp {} 0", t.world.there4)));
        for (peer, ip) in [(six, t.world.here6.into()), (four, t.world.here4.into())] {
            peer.to(ip, port, 7);
            let (ret, from) = sys::recvfrom(fd, &mut [0; 9], 0);
            t.see("recvfrom", format!("{ret} {}", t.whose(&from)));
            t.see("answer", sys::sendto(fd, b"", 0, &from));
            t.see("peer", peer.from().0);
        }
    });
    suite.add(BOTH, "two_sockets_two_ports", |t| {
        let (one, one_port) = t.udp_bound();
        let (two, two_port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), two_port, 2);
        peer.to(t.here_ip(), one_port, 1);
        t.see("one", sys::recv(one, &mut [0; 9], 0));
        t.see("two", sys::recv(two, &mut [0; 9], 0));
        t.see("one_empty", sys::recv(one, &mut [0; 9], MSG_DONTWAIT));
    });
    suite.add(BOTH, "reuseport_each_datagram_once", |t| {
        let sockets: Vec<i32> = (0..3).map(|_| t.udp()).collect();
        for fd in &sockets {
            set_int(*fd, SOL_SOCKET, libc::SO_REUSEPORT, 1);
        }
        sys::bind(sockets[0], &t.here(0));
        let port = sys::getsockname(sockets[0]).1.port();
        t.see("bind", sys::bind(sockets[1], &t.here(port)));
        t.see("bind", sys::bind(sockets[2], &t.here(port)));
        for _ in 0..12 {
            t.peer_udp().0.to(t.here_ip(), port, 1);
        }
        let mut found = 0;
        until(|| {
            found += sockets.iter().filter(|fd| sys::recv(**fd, &mut [0; 9], MSG_DONTWAIT).is_ok()).count();
            found >= 12
        });
        t.see("found", found);
    });
}

fn connected(suite: &mut Suite) {
    suite.add(EACH, "connected_filters_senders", |t| {
        let (fd, port) = t.udp_bound();
        let (friend, friend_port) = t.peer_udp();
        let (stranger, _) = t.peer_udp();
        sys::connect(fd, &t.there(friend_port));
        stranger.to(t.here_ip(), port, 3);
        friend.to(t.here_ip(), port, 5);
        t.see("recv", sys::recv(fd, &mut [0; 9], 0));
        t.see("then", sys::recv(fd, &mut [0; 9], MSG_DONTWAIT));
        sys::connect(fd, &Address::family_only(libc::AF_UNSPEC));
        let (again, port) = t.udp_bound();
        stranger.to(t.here_ip(), port, 4);
        t.see("unconnected", sys::recv(again, &mut [0; 9], 0));
    });
    suite.add(BOTH, "connected_queue_is_kept", |t| {
        let (fd, port) = t.udp_bound();
        let (early, _) = t.peer_udp();
        let (friend, friend_port) = t.peer_udp();
        early.to(t.here_ip(), port, 3);
        ready(fd, POLLIN);
        sys::connect(fd, &t.there(friend_port));
        friend.to(t.here_ip(), port, 5);
        t.see("first", sys::recv(fd, &mut [0; 9], 0));
        t.see("second", sys::recv(fd, &mut [0; 9], 0));
    });
    suite.add(BOTH, "connected_sends", |t| {
        let (peer, port) = t.peer_udp();
        let (other, other_port) = t.peer_udp();
        let fd = t.udp();
        sys::connect(fd, &t.there(port));
        t.see("send", sys::send(fd, &pattern::bytes(5), 0));
        t.see("write", sys::write(fd, &pattern::bytes(6)));
        let all = pattern::bytes(7);
        t.see("writev", sys::writev(fd, &[&all[..3], &all[3..]]));
        for _ in 0..3 {
            t.see("peer", peer.from().0);
        }
        t.see("sendto_elsewhere", sys::sendto(fd, b"", 0, &t.there(other_port)));
        t.see("other", other.from().0);
    });
    suite.add(BOTH, "refused_error_reaches_read_and_write", |t| {
        let (gone, port) = t.peer_udp();
        gone.close();
        let fd = t.udp();
        sys::connect(fd, &t.there(port));
        sys::send(fd, b"x", 0);
        t.see("ready", ready(fd, POLLIN));
        t.see("all", now(fd, ALL));
        t.see("read", sys::read(fd, &mut [0; 9]));
        sys::send(fd, b"x", 0);
        ready(fd, POLLIN);
        t.see("write", sys::write(fd, b"x"));
        // That told the error and sent nothing.
        t.see("error", t.error_of(fd));
        t.see("all", now(fd, ALL));
    });
}

fn receiving(suite: &mut Suite) {
    suite.add(BOTH, "nothing_there", |t| {
        let (fd, _) = t.udp_bound();
        t.see("dontwait", sys::recv(fd, &mut [0; 9], MSG_DONTWAIT));
        t.see("recvfrom", sys::recvfrom(fd, &mut [0; 9], MSG_DONTWAIT).0);
        set_time(fd, libc::SO_RCVTIMEO, 40);
        t.see("timeout", sys::recv(fd, &mut [0; 9], 0));
        t.nonblocking(fd);
        t.see("nonblocking", sys::recv(fd, &mut [0; 9], 0));
        t.see("read", sys::read(fd, &mut [0; 9]));
        t.see("unbound", sys::recv(t.udp(), &mut [0; 9], MSG_DONTWAIT));
    });
    suite.add(BOTH, "peek_then_take", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, peer_port) = t.peer_udp();
        peer.to(t.here_ip(), port, 10);
        let (ret, from) = sys::recvfrom(fd, &mut [0; 20], MSG_PEEK);
        t.see("peek", format!("{ret} {}", from.port() == peer_port));
        t.see("peek", sys::recv(fd, &mut [0; 20], MSG_PEEK));
        t.see("recv", sys::recv(fd, &mut [0; 20], 0));
        t.see("then", sys::recv(fd, &mut [0; 20], MSG_DONTWAIT));
    });
    suite.add(BOTH, "waitall_is_one_datagram", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 5);
        peer.to(t.here_ip(), port, 6);
        t.see("recv", sys::recv(fd, &mut [0; 20], libc::MSG_WAITALL));
        t.see("recv", sys::recv(fd, &mut [0; 20], libc::MSG_WAITALL));
    });
    suite.add(BOTH, "readv_is_one_datagram", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 12);
        let (mut one, mut two) = ([0; 5], [0; 50]);
        t.see("readv", sys::readv(fd, &mut [&mut one, &mut two]));
        t.see("intact", is_intact(&[&one[..], &two[..7]].concat(), 0));
    });
    suite.add(BOTH, "tcp_only_calls", |t| {
        let (fd, _) = t.udp_bound();
        t.see("accept", sys::accept(fd).done());
        t.see("listen", sys::listen(fd, 1));
        t.see("shutdown", sys::shutdown(fd, libc::SHUT_RDWR));
        t.see("oob", sys::send(fd, b"x", libc::MSG_OOB));
        t.see("recv_oob", sys::recv(fd, &mut [0; 1], libc::MSG_OOB | MSG_DONTWAIT));
    });
    suite.add(BOTH, "closed_port_is_refused", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.plug(t.here_ip(), port);
        sys::close(fd);
        peer.say("x");
        t.see("peer", peer.poll(POLLIN, LONG_MS));
        t.see("error", peer.error());
    });
    suite.add(BOTH, "receive_buffer_bounds_the_queue", |t| {
        let (fd, port) = t.udp_bound();
        set_int(fd, SOL_SOCKET, libc::SO_RCVBUF, 8000);
        let (peer, _) = t.peer_udp();
        let sent = (0..100).filter(|_| peer.to(t.here_ip(), port, 1000) == "1000").count();
        t.see("sent", sent);
        ready(fd, POLLIN);
        let (fence, fence_port) = t.udp_bound();
        peer.to(t.here_ip(), fence_port, 1);
        sys::recv(fence, &mut [0; 9], 0);
        let kept = (0..100).take_while(|_| sys::recv(fd, &mut [0; 2000], MSG_DONTWAIT).is_ok()).count();
        t.see("kept_some", (1..100).contains(&kept));
        peer.to(t.here_ip(), port, 5);
        t.see("room_again", sys::recv(fd, &mut [0; 9], 0));
    });
    suite.add(BOTH, "question_and_answer", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, peer_port) = t.peer_udp();
        let good = (0..50)
            .filter(|round| {
                peer.to(t.here_ip(), port, 10 + round);
                let mut bytes = [0; 100];
                let (ret, from) = sys::recvfrom(fd, &mut bytes, 0);
                sys::sendto(fd, &bytes[..ret.count()], 0, &from);
                from.port() == peer_port && peer.from().0 == format!("{} intact", 10 + round)
            })
            .count();
        t.see("rounds", good);
    });
}

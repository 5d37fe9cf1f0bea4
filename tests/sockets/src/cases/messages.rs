//! `sendmsg`, `recvmsg`, `sendmmsg`, `recvmmsg`: pieces, addresses, ancillary data.

use crate::case::{Case, PATIENCE, ready, set_int, set_time};
use crate::pattern::{self, is_intact};
use crate::suite::{BOTH, EACH, Suite, V4, V6};
use crate::sys::{self, Message};
use crate::{case, names};
use libc::{IPPROTO_IP, IPPROTO_IPV6, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, SOL_SOCKET};
use std::time::Instant;

fn see_message(t: &Case, what: &str, message: &Message) {
    if !message.ret.is_ok() {
        t.see(what, message.ret);
        return;
    }
    let from = if message.from.bytes().is_empty() { "nobody".to_owned() } else { t.whose(&message.from) };
    let mut control: Vec<String> =
        message.control.iter().map(|(level, kind, data)| format!("{level}/{kind}:{}", data.len())).collect();
    control.sort();
    let flags = names::message_flags(message.flags);
    t.see(what, format!("{} from {from} flags {flags} control [{}]", message.ret, control.join(" ")));
}

/// The ancillary message's data.
fn data_of(message: &Message, level: i32, kind: i32) -> Option<&[u8]> {
    message.control.iter().find(|(l, k, _)| (*l, *k) == (level, kind)).map(|(_, _, data)| data.as_slice())
}

pub fn add(suite: &mut Suite) {
    streams(suite);
    datagrams(suite);
    ancillary(suite);
    several(suite);
}

fn streams(suite: &mut Suite) {
    suite.add(EACH, "stream_pieces", |t| {
        let (fd, peer) = t.accepted();
        t.see("sendmsg", sys::sendmsg(fd, &[b"one ", b"", b"two ", b"three"], None, &[], 0));
        t.see("peer", peer.hear(13));
        peer.say("four five six");
        t.arrived(fd, 13);
        let (mut one, mut two) = ([0; 5], [0; 32]);
        let message = sys::recvmsg(fd, &mut [&mut one, &mut two], 64, 0);
        see_message(t, "recvmsg", &message);
        t.see("text", String::from_utf8_lossy(&[&one[..], &two[..8]].concat()));
    });
    suite.add(BOTH, "stream_flags", |t| {
        let (fd, peer) = t.accepted();
        see_message(t, "nothing", &sys::recvmsg(fd, &mut [&mut [0; 8]], 0, MSG_DONTWAIT));
        peer.say("hello");
        t.arrived(fd, 5);
        see_message(t, "peek", &sys::recvmsg(fd, &mut [&mut [0; 3]], 0, MSG_PEEK));
        see_message(t, "peek", &sys::recvmsg(fd, &mut [&mut [0; 3], &mut [0; 8]], 0, MSG_PEEK));
        see_message(t, "no_pieces", &sys::recvmsg(fd, &mut [], 0, MSG_DONTWAIT));
        peer.shut(libc::SHUT_WR);
        see_message(t, "waitall", &sys::recvmsg(fd, &mut [&mut [0; 3], &mut [0; 8]], 0, MSG_WAITALL));
        see_message(t, "end", &sys::recvmsg(fd, &mut [&mut [0; 3]], 0, 0));
    });
    suite.add(BOTH, "stream_with_an_address", |t| {
        let (fd, peer) = t.accepted();
        t.see("there", sys::sendmsg(fd, &[b"a"], Some(&t.there(9)), &[], 0));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "stream_no_pieces", |t| {
        let (fd, peer) = t.accepted();
        t.see("sendmsg", sys::sendmsg(fd, &[], None, &[], 0));
        t.see("empty", sys::sendmsg(fd, &[b""], None, &[], 0));
        sys::send(fd, b"x", 0);
        t.see("peer", peer.hear(1));
        let many: Vec<&[u8]> = vec![b"x"; 1025];
        t.see("too_many", sys::sendmsg(fd, &many, None, &[], 0));
    });
    suite.add(BOTH, "stream_timestamps", |t| {
        let (fd, peer) = t.accepted();
        t.see("set", set_int(fd, SOL_SOCKET, libc::SO_TIMESTAMP, 1));
        // Linux begins to stamp some time after it was asked to.
        let mut last = None;
        case::until(|| {
            peer.say("hello");
            t.arrived(fd, 5);
            let message = sys::recvmsg(fd, &mut [&mut [0; 5]], 64, 0);
            let is_stamped = !message.control.is_empty();
            last = Some(message);
            is_stamped
        });
        if let Some(message) = last {
            see_message(t, "recvmsg", &message);
        }
    });
    suite.add(BOTH, "stream_in_queue", |t| {
        let (fd, peer) = t.accepted();
        t.see("set", set_int(fd, libc::IPPROTO_TCP, libc::TCP_INQ, 1));
        peer.say("hello");
        t.arrived(fd, 5);
        let message = sys::recvmsg(fd, &mut [&mut [0; 2]], 64, 0);
        see_message(t, "recvmsg", &message);
        t.see("left", format!("{:?}", data_of(&message, libc::IPPROTO_TCP, libc::TCP_INQ)));
    });
    suite.add(V4, "rights_on_a_network_socket", |t| {
        let (fd, _peer) = t.accepted();
        let rights = (SOL_SOCKET, libc::SCM_RIGHTS, fd.to_ne_bytes().to_vec());
        t.see("sendmsg", sys::sendmsg(fd, &[b"x"], None, &[rights], 0));
    });
    suite.add(BOTH, "not_connected", |t| {
        let fd = t.tcp();
        see_message(t, "recvmsg", &sys::recvmsg(fd, &mut [&mut [0; 8]], 0, 0));
        t.see("sendmsg", sys::sendmsg(fd, &[b"x"], None, &[], 0));
        see_message(t, "datagram", &sys::recvmsg(t.udp(), &mut [&mut [0; 8]], 0, MSG_DONTWAIT));
        t.see("datagram", sys::sendmsg(t.udp(), &[b"x"], None, &[], 0));
    });
}

fn datagrams(suite: &mut Suite) {
    suite.add(EACH, "datagram_pieces", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, peer_port) = t.peer_udp();
        let bytes = pattern::bytes(100);
        t.see("sendmsg", sys::sendmsg(fd, &[&bytes[..30], &bytes[30..]], Some(&t.there(peer_port)), &[], 0));
        t.see("peer", peer.from().0);
        peer.to(t.here_ip(), port, 50);
        let (mut one, mut two) = ([0; 20], [0; 100]);
        let message = sys::recvmsg(fd, &mut [&mut one, &mut two], 0, 0);
        see_message(t, "recvmsg", &message);
        t.see("port", message.from.port() == peer_port);
        t.see("intact", is_intact(&[&one[..], &two[..30]].concat(), 0));
    });
    suite.add(BOTH, "datagram_cut", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        for flags in [0, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_PEEK] {
            peer.to(t.here_ip(), port, 50);
            see_message(t, "recvmsg", &sys::recvmsg(fd, &mut [&mut [0; 5], &mut [0; 6]], 0, flags));
        }
        see_message(t, "whole", &sys::recvmsg(fd, &mut [&mut [0; 80]], 0, MSG_DONTWAIT));
    });
    suite.add(BOTH, "datagram_no_pieces", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, peer_port) = t.peer_udp();
        t.see("sendmsg", sys::sendmsg(fd, &[], Some(&t.there(peer_port)), &[], 0));
        t.see("peer", peer.from().0);
        peer.to(t.here_ip(), port, 5);
        see_message(t, "recvmsg", &sys::recvmsg(fd, &mut [], 0, 0));
        see_message(t, "next", &sys::recvmsg(fd, &mut [], 0, MSG_DONTWAIT));
    });
}

/// Options that have a datagram come with ancillary data: level, option, level and type of the data.
const ASKED_V4: [(&str, i32, i32); 6] = [
    ("timestamp", SOL_SOCKET, libc::SO_TIMESTAMP),
    ("timestamp_ns", SOL_SOCKET, libc::SO_TIMESTAMPNS),
    ("pktinfo", IPPROTO_IP, libc::IP_PKTINFO),
    ("ttl", IPPROTO_IP, libc::IP_RECVTTL),
    ("tos", IPPROTO_IP, libc::IP_RECVTOS),
    ("original_destination", IPPROTO_IP, libc::IP_RECVORIGDSTADDR),
];
const ASKED_V6: [(&str, i32, i32); 5] = [
    ("timestamp", SOL_SOCKET, libc::SO_TIMESTAMP),
    ("timestamp_ns", SOL_SOCKET, libc::SO_TIMESTAMPNS),
    ("pktinfo", IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    ("hop_limit", IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    ("traffic_class", IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
];

fn ask_for(suite: &mut Suite, nets: &[case::Net], list: &'static [(&'static str, i32, i32)]) {
    for (name, level, option) in list {
        suite.add(nets, &format!("asked_{name}"), move |t| {
            let fd = t.udp();
            t.see("set", set_int(fd, *level, *option, 1));
            sys::bind(fd, &t.any(0));
            let (peer, _) = t.peer_udp();
            peer.to(t.here_ip(), sys::getsockname(fd).1.port(), 9);
            let message = sys::recvmsg(fd, &mut [&mut [0; 80]], 256, 0);
            see_message(t, "recvmsg", &message);
            for (l, k, data) in &message.control {
                if (*l, *k) != (SOL_SOCKET, libc::SCM_TIMESTAMP) && data.len() <= 4 {
                    t.see("value", format!("{data:?}"));
                }
            }
        });
    }
}

fn ancillary(suite: &mut Suite) {
    ask_for(suite, V4, &ASKED_V4);
    ask_for(suite, V6, &ASKED_V6);
    suite.add(BOTH, "pktinfo_tells_the_address", |t| {
        let fd = t.udp();
        let (level, option) = if t.net == case::Net::V4 {
            (IPPROTO_IP, libc::IP_PKTINFO)
        } else {
            (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
        };
        set_int(fd, level, option, 1);
        sys::bind(fd, &t.any(0));
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), sys::getsockname(fd).1.port(), 9);
        let message = sys::recvmsg(fd, &mut [&mut [0; 80]], 256, 0);
        let found = message.control.first().map(|(_, _, data)| data.clone()).unwrap_or_default();
        let address: Vec<u8> = if t.net == case::Net::V4 {
            found.get(8..12).unwrap_or_default().to_vec()
        } else {
            found.get(..16).unwrap_or_default().to_vec()
        };
        let own: Vec<u8> =
            if t.net == case::Net::V4 { t.world.here4.octets().to_vec() } else { t.world.here6.octets().to_vec() };
        t.see("ours", address == own);
    });
    suite.add(BOTH, "control_cut", |t| {
        let fd = t.udp();
        set_int(fd, SOL_SOCKET, libc::SO_TIMESTAMP, 1);
        sys::bind(fd, &t.here(0));
        let (peer, _) = t.peer_udp();
        let port = sys::getsockname(fd).1.port();
        peer.to(t.here_ip(), port, 9);
        see_message(t, "no_room", &sys::recvmsg(fd, &mut [&mut [0; 80]], 0, 0));
        peer.to(t.here_ip(), port, 9);
        see_message(t, "little_room", &sys::recvmsg(fd, &mut [&mut [0; 80]], 24, 0));
    });
    suite.add(V4, "send_from_an_address", |t| {
        let fd = t.udp();
        sys::bind(fd, &t.any(0));
        let (peer, port) = t.peer_udp();
        let info = |ip: std::net::Ipv4Addr| {
            let mut data = vec![0; 4];
            data.extend_from_slice(&ip.octets());
            data.extend_from_slice(&[0; 4]);
            (IPPROTO_IP, libc::IP_PKTINFO, data)
        };
        t.see("ours", sys::sendmsg(fd, &[b""], Some(&t.there(port)), &[info(t.world.here4)], 0));
        t.see("peer", peer.from().0);
        t.see("foreign", sys::sendmsg(fd, &[b""], Some(&t.there(port)), &[info(t.world.there4)], 0));
    });
    suite.add(V4, "control_unknown", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        let unknown = (IPPROTO_IP, 9999, vec![0; 4]);
        t.see("unknown", sys::sendmsg(fd, &[b""], Some(&t.there(port)), &[unknown], 0));
        let elsewhere = (4321, 1, vec![0; 4]);
        t.see("another_level", sys::sendmsg(fd, &[b""], Some(&t.there(port)), &[elsewhere], 0));
        t.see("peer", peer.from().0);
    });
    suite.add(V4, "control_of_any_length", |t| {
        let (fd, _) = t.udp_bound();
        let (_peer, port) = t.peer_udp();
        for length in [0, 15, 25, 1 << 31, usize::MAX - 24, usize::MAX - 15, usize::MAX] {
            t.see("length", sys::sendmsg_with_control_of(fd, b"", &t.there(port), length));
        }
    });
    suite.add(BOTH, "refused_with_its_queue", |t| {
        let (gone, port) = t.peer_udp();
        gone.close();
        let fd = t.udp();
        let (level, option) =
            if t.net == case::Net::V4 { (IPPROTO_IP, libc::IP_RECVERR) } else { (IPPROTO_IPV6, libc::IPV6_RECVERR) };
        t.see("set", set_int(fd, level, option, 1));
        t.see("sendto", sys::sendto(fd, b"abc", 0, &t.there(port)));
        t.see("ready", ready(fd, libc::POLLIN));
        let mut bytes = [0; 16];
        let message = sys::recvmsg(fd, &mut [&mut bytes], 256, libc::MSG_ERRQUEUE);
        t.see("recvmsg", format!("{} {}", message.ret, names::message_flags(message.flags)));
        let error = data_of(&message, level, option).unwrap_or_default();
        t.see("error", error.get(..4).map_or("nothing", |four| names::errno(four[0].into())));
        t.see("origin", error.get(4).copied().unwrap_or(0));
        t.see("again", sys::recvmsg(fd, &mut [&mut bytes], 256, libc::MSG_ERRQUEUE).ret);
    });
}

fn several(suite: &mut Suite) {
    suite.add(EACH, "sendmmsg", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        let bytes = pattern::bytes(300);
        let (ret, lengths) = sys::sendmmsg(fd, &[&bytes[..10], &bytes[..0], &bytes], Some(&t.there(port)), 0);
        t.see("sendmmsg", format!("{ret} {lengths:?}"));
        for _ in 0..3 {
            t.see("peer", peer.from().0);
        }
    });
    suite.add(BOTH, "sendmmsg_partly", |t| {
        let (fd, _) = t.udp_bound();
        let (peer, port) = t.peer_udp();
        let large = vec![0; 70_000];
        let (ret, lengths) = sys::sendmmsg(fd, &[b"", &large, b""], Some(&t.there(port)), 0);
        t.see("sendmmsg", format!("{ret} {lengths:?}"));
        t.see("peer", peer.from().0);
        t.see("first_wrong", sys::sendmmsg(fd, &[&large, b""], Some(&t.there(port)), 0).0);
        t.see("none", sys::sendmmsg(fd, &[], Some(&t.there(port)), 0).0);
        t.see("nowhere", sys::sendmmsg(fd, &[b"x"], None, 0).0);
    });
    suite.add(BOTH, "by_their_numbers", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, peers_port) = t.peer_udp();
        t.see("connect", sys::connect(fd, &t.there(peers_port)));
        t.see("sendmmsg", sys::sendmmsg_by_number(fd, &pattern::bytes(5)));
        t.see("peer", peer.from().0);
        peer.to(t.here_ip(), port, 7);
        t.see("readable", ready(fd, libc::POLLIN));
        t.see("recvmmsg", sys::recvmmsg_by_number(fd, 64));
        t.see("nothing", sys::recvmmsg_by_number(fd, 64));
        let (connection, other) = t.accepted();
        t.see("close", sys::close_by_number(connection));
        t.see("end", other.hear(1));
        t.see("closed", sys::close_by_number(connection));
    });
    suite.add(BOTH, "sendmmsg_on_a_connection", |t| {
        let (fd, peer) = t.accepted();
        let (ret, lengths) = sys::sendmmsg(fd, &[b"hello ", b"world"], None, 0);
        t.see("sendmmsg", format!("{ret} {lengths:?}"));
        t.see("peer", peer.hear(11));
    });
    suite.add(EACH, "recvmmsg", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        for size in [5, 0, 40, 12] {
            peer.to(t.here_ip(), port, size);
        }
        let see = |what, (ret, all): (sys::Ret, Vec<Vec<u8>>)| {
            let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
            t.see(what, format!("{ret} {lengths:?}"));
        };
        case::until(|| sys::recvmmsg(fd, 4, 64, MSG_PEEK | MSG_DONTWAIT, None).0.is_ok());
        see("two", sys::recvmmsg(fd, 2, 64, 0, None));
        see("cut", sys::recvmmsg(fd, 1, 10, 0, None));
        see("rest", sys::recvmmsg(fd, 4, 64, libc::MSG_WAITFORONE, None));
        see("nothing", sys::recvmmsg(fd, 4, 64, MSG_DONTWAIT, None));
    });
    suite.add(BOTH, "recvmmsg_timeouts", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        set_time(fd, libc::SO_RCVTIMEO, 60);
        let start = Instant::now();
        t.see("nothing", sys::recvmmsg(fd, 4, 64, 0, None).0);
        t.see("in_time", start.elapsed() < PATIENCE);
        peer.to(t.here_ip(), port, 5);
        t.see("one", sys::recvmmsg(fd, 4, 64, 0, None).0);
        t.see("none_wanted", sys::recvmmsg(fd, 0, 64, MSG_DONTWAIT, None).0);
    });
    suite.add(BOTH, "recvmmsg_time_is_looked_at_behind_each", |t| {
        let (fd, port) = t.udp_bound();
        let (peer, _) = t.peer_udp();
        peer.to(t.here_ip(), port, 5);
        peer.to(t.here_ip(), port, 6);
        ready(fd, libc::POLLIN);
        // No time at all: what is there first is given, then time is up.
        t.see("no_time", sys::recvmmsg(fd, 4, 64, 0, Some(0)).0);
        t.see("next", sys::recvmmsg(fd, 1, 64, 0, Some(1000)).0);
    });
    suite.add(BOTH, "recvmmsg_on_a_connection", |t| {
        let (fd, peer) = t.accepted();
        peer.say("hello");
        t.arrived(fd, 5);
        let (ret, all) = sys::recvmmsg(fd, 2, 3, MSG_DONTWAIT, None);
        t.see("recvmmsg", format!("{ret} {:?}", all.iter().map(Vec::len).collect::<Vec<_>>()));
    });
}

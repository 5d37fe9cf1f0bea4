//! Socket options: the default, what setting does, wrong lengths, levels, options that are not there.

use crate::case::{Case, int_option, set_int, set_linger, set_time};
use crate::suite::{BOTH, Suite, V4, V6};
use crate::sys::{self, Fd};
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, SOL_SOCKET};

/// An option of type int: name, level, number, values to set.
type Row = (&'static str, i32, i32, &'static [i32]);

const SOCKET: [Row; 18] = [
    ("type", SOL_SOCKET, libc::SO_TYPE, &[1]),
    ("protocol", SOL_SOCKET, libc::SO_PROTOCOL, &[6]),
    ("domain", SOL_SOCKET, libc::SO_DOMAIN, &[2]),
    ("error", SOL_SOCKET, libc::SO_ERROR, &[0]),
    ("accepting", SOL_SOCKET, libc::SO_ACCEPTCONN, &[1]),
    ("reuseaddr", SOL_SOCKET, libc::SO_REUSEADDR, &[1, 5, 0, -1]),
    ("reuseport", SOL_SOCKET, libc::SO_REUSEPORT, &[1, 5, 0]),
    ("keepalive", SOL_SOCKET, libc::SO_KEEPALIVE, &[1, 3, 0]),
    ("broadcast", SOL_SOCKET, libc::SO_BROADCAST, &[1, 2, 0]),
    ("dontroute", SOL_SOCKET, libc::SO_DONTROUTE, &[1, 0]),
    ("oobinline", SOL_SOCKET, libc::SO_OOBINLINE, &[1, 0]),
    ("receive_low_water", SOL_SOCKET, libc::SO_RCVLOWAT, &[4, 0]),
    ("send_low_water", SOL_SOCKET, libc::SO_SNDLOWAT, &[4]),
    ("priority", SOL_SOCKET, libc::SO_PRIORITY, &[3, 0]),
    ("timestamp", SOL_SOCKET, libc::SO_TIMESTAMP, &[1, 0]),
    ("timestamp_ns", SOL_SOCKET, libc::SO_TIMESTAMPNS, &[1, 0]),
    ("no_check", SOL_SOCKET, libc::SO_NO_CHECK, &[1, 0]),
    ("select_error_queue", SOL_SOCKET, libc::SO_SELECT_ERR_QUEUE, &[1, 0]),
];

const TCP: [Row; 16] = [
    ("nodelay", IPPROTO_TCP, libc::TCP_NODELAY, &[1, 7, 0]),
    ("cork", IPPROTO_TCP, libc::TCP_CORK, &[1, 7, 0]),
    ("keepidle", IPPROTO_TCP, libc::TCP_KEEPIDLE, &[10, 32_767, 0, -1, 32_768]),
    ("keepintvl", IPPROTO_TCP, libc::TCP_KEEPINTVL, &[10, 32_767, 0, 32_768]),
    ("keepcnt", IPPROTO_TCP, libc::TCP_KEEPCNT, &[3, 127, 0, 128]),
    ("user_timeout", IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &[1000, 0, -1]),
    ("defer_accept", IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &[1, 5, 30, 0]),
    ("syncnt", IPPROTO_TCP, libc::TCP_SYNCNT, &[3, 127, 0, 128]),
    ("linger2", IPPROTO_TCP, libc::TCP_LINGER2, &[10, 0, -1, 100_000]),
    ("window_clamp", IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &[10_000]),
    ("thin_linear", IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, &[1, 2, 0]),
    ("save_syn", IPPROTO_TCP, libc::TCP_SAVE_SYN, &[1, 0, 3]),
    ("notsent_lowat", IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &[16_384, 0]),
    ("fastopen_connect", IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, &[1, 0, 2]),
    ("in_queue", IPPROTO_TCP, libc::TCP_INQ, &[1, 0, 2]),
    ("no_such_option", IPPROTO_TCP, 9999, &[1]),
];

const IP: [Row; 12] = [
    ("tos", IPPROTO_IP, libc::IP_TOS, &[0x10, 0xb8, 0xff, 256, 0]),
    ("ttl", IPPROTO_IP, libc::IP_TTL, &[5, 255, 0, 256, -1]),
    ("pktinfo", IPPROTO_IP, libc::IP_PKTINFO, &[1, 0]),
    ("recvttl", IPPROTO_IP, libc::IP_RECVTTL, &[1, 0]),
    ("recvtos", IPPROTO_IP, libc::IP_RECVTOS, &[1, 0]),
    ("recverr", IPPROTO_IP, libc::IP_RECVERR, &[1, 0]),
    ("freebind", IPPROTO_IP, libc::IP_FREEBIND, &[1, 0]),
    ("mtu_discover", IPPROTO_IP, libc::IP_MTU_DISCOVER, &[0, 2, 9]),
    ("multicast_ttl", IPPROTO_IP, libc::IP_MULTICAST_TTL, &[3, 256]),
    ("multicast_loop", IPPROTO_IP, libc::IP_MULTICAST_LOOP, &[0, 1]),
    ("bind_address_no_port", IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &[1, 0]),
    ("no_such_ip_option", IPPROTO_IP, 9999, &[1]),
];

const IPV6: [Row; 9] = [
    ("v6only", IPPROTO_IPV6, libc::IPV6_V6ONLY, &[1, 0]),
    ("unicast_hops", IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &[5, 255, 256, -1]),
    ("traffic_class", IPPROTO_IPV6, libc::IPV6_TCLASS, &[0x10, 255, 256, -1]),
    ("recvpktinfo", IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &[1, 0]),
    ("recvtclass", IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &[1, 0]),
    ("recvhoplimit", IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &[1, 0]),
    ("recverr6", IPPROTO_IPV6, libc::IPV6_RECVERR, &[1, 0]),
    ("multicast_hops", IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, &[3, 256]),
    ("no_such_v6_option", IPPROTO_IPV6, 9999, &[1]),
];

fn value_of(fd: Fd, level: i32, option: i32) -> String {
    let (ret, value) = int_option(fd, level, option);
    if ret.is_ok() { value.to_string() } else { ret.to_string() }
}

fn walk(t: &Case, fd: Fd, level: i32, option: i32, values: &[i32]) {
    t.see("default", value_of(fd, level, option));
    for value in values {
        t.see(&format!("set {value}"), set_int(fd, level, option, *value));
        t.see("get", value_of(fd, level, option));
    }
    t.see("set short", sys::setsockopt(fd, level, option, &[1, 0]));
    t.see("set empty", sys::setsockopt(fd, level, option, &[]));
    t.see("set long", sys::setsockopt(fd, level, option, &[0; 12]));
    let (ret, bytes) = sys::getsockopt(fd, level, option, 1);
    t.see("get short", format!("{ret} {bytes:?}"));
    let (ret, bytes) = sys::getsockopt(fd, level, option, 12);
    t.see("get long", format!("{ret} {bytes:?}"));
    let (ret, bytes) = sys::getsockopt(fd, level, option, 0);
    t.see("get empty", format!("{ret} {}", bytes.len()));
}

pub fn add(suite: &mut Suite) {
    for (name, level, option, values) in SOCKET {
        suite.add(V4, &format!("tcp_{name}"), move |t| walk(t, t.tcp(), level, option, values));
        suite.add(V4, &format!("udp_{name}"), move |t| walk(t, t.udp(), level, option, values));
    }
    for (name, level, option, values) in TCP {
        suite.add(V4, &format!("tcp_{name}"), move |t| walk(t, t.tcp(), level, option, values));
    }
    for (name, level, option, values) in [TCP[0], TCP[2], TCP[5]] {
        suite.add(V4, &format!("udp_{name}"), move |t| walk(t, t.udp(), level, option, values));
        suite.add(V6, &format!("connection_{name}"), move |t| walk(t, t.accepted().0, level, option, values));
    }
    for (name, level, option, values) in IP {
        suite.add(V4, &format!("udp_{name}"), move |t| walk(t, t.udp(), level, option, values));
    }
    for (name, level, option, values) in &IP[..3] {
        suite.add(BOTH, &format!("tcp_{name}"), move |t| walk(t, t.tcp(), *level, *option, values));
    }
    for (name, level, option, values) in IPV6 {
        suite.add(V6, &format!("udp_{name}"), move |t| walk(t, t.udp(), level, option, values));
    }
    for (name, level, option, values) in &IPV6[..3] {
        suite.add(BOTH, &format!("tcp_{name}"), move |t| walk(t, t.tcp(), *level, *option, values));
    }
    structured(suite);
    special(suite);
}

fn structured(suite: &mut Suite) {
    suite.add(V4, "linger", |t| {
        let fd = t.tcp();
        let see = |what| t.see(what, format!("{:?}", sys::getsockopt(fd, SOL_SOCKET, libc::SO_LINGER, 8).1));
        see("default");
        for (on, seconds) in [(1, 7), (1, 0), (0, 9), (5, 3)] {
            t.see("set", set_linger(fd, on, seconds));
            see("get");
        }
        t.see("short", sys::setsockopt(fd, SOL_SOCKET, libc::SO_LINGER, &[1, 0, 0, 0]));
        t.see("get short", format!("{:?}", sys::getsockopt(fd, SOL_SOCKET, libc::SO_LINGER, 4)));
    });
    for (name, option) in [("receive_timeout", libc::SO_RCVTIMEO), ("send_timeout", libc::SO_SNDTIMEO)] {
        suite.add(V4, name, move |t| {
            let fd = t.tcp();
            let see = |what| t.see(what, format!("{:?}", sys::getsockopt(fd, SOL_SOCKET, option, 16).1));
            see("default");
            t.see("set", set_time(fd, option, 2500));
            see("get");
            t.see("zero", set_time(fd, option, 0));
            see("get");
            let time = |seconds: i64, microseconds: i64| {
                [seconds, microseconds].iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()
            };
            t.see("negative", sys::setsockopt(fd, SOL_SOCKET, option, &time(-1, 0)));
            see("get");
            t.see("too_many_microseconds", sys::setsockopt(fd, SOL_SOCKET, option, &time(0, 1_000_000)));
            t.see("short", sys::setsockopt(fd, SOL_SOCKET, option, &[0; 8]));
        });
    }
    for (name, option) in [("receive_buffer", libc::SO_RCVBUF), ("send_buffer", libc::SO_SNDBUF)] {
        suite.add(V4, name, move |t| {
            for fd in [t.tcp(), t.udp()] {
                t.see("default_is_large", int_option(fd, SOL_SOCKET, option).1 > 8000);
                t.see("set", set_int(fd, SOL_SOCKET, option, 20_000));
                t.see("doubled", int_option(fd, SOL_SOCKET, option).1);
                t.see("tiny", set_int(fd, SOL_SOCKET, option, 1));
                t.see("at_least", int_option(fd, SOL_SOCKET, option).1 > 1000);
                t.see("huge", set_int(fd, SOL_SOCKET, option, 1 << 30));
                t.see("at_most", int_option(fd, SOL_SOCKET, option).1 < 1 << 30);
                t.see("short", sys::setsockopt(fd, SOL_SOCKET, option, &[1]));
            }
        });
    }
    suite.add(V4, "congestion", |t| {
        let fd = t.tcp();
        let (ret, name) = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, 16);
        t.see("default", format!("{ret} length {} letters {}", name.len(), name.iter().any(u8::is_ascii_lowercase)));
        t.see("reno", sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, b"reno"));
        let (_, name) = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, 16);
        t.see("get", String::from_utf8_lossy(&name).trim_end_matches('\0'));
        t.see("unknown", sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, b"no-such-thing"));
        t.see("empty", sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, b""));
        let (ret, name) = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, 3);
        t.see("short", format!("{ret} {:?}", String::from_utf8_lossy(&name)));
    });
    suite.add(V4, "congestion_of_accepted", |t| {
        let (listener, port) = t.listener();
        t.see("reno", sys::setsockopt(listener, IPPROTO_TCP, libc::TCP_CONGESTION, b"reno"));
        let _peer = t.peer_connects(port);
        let fd = sys::accept(listener).fd();
        let name = || {
            let (_, name) = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, 16);
            String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
        };
        t.see("inherited", name());
        t.see("cubic", sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_CONGESTION, b"cubic"));
        t.see("changed", name());
    });
    suite.add(BOTH, "tcp_info", |t| {
        let (fd, _peer) = t.accepted();
        let (ret, info) = sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, 104);
        t.see("get", format!("{ret} {}", info.len()));
        t.see("state", info.first().copied().unwrap_or(0));
        let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().unwrap_or_default());
        t.see("rto_is_there", word(8) > 0);
        t.see("mss_is_there", word(16) > 500);
        t.see("unacknowledged", word(24));
        t.see("set", sys::setsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, &[0; 8]));
        t.see("one_byte", sys::getsockopt(fd, IPPROTO_TCP, libc::TCP_INFO, 1).1.len());
        t.see("udp", sys::getsockopt(t.udp(), IPPROTO_TCP, libc::TCP_INFO, 8).0);
    });
    suite.add(BOTH, "largest_segment", |t| {
        let fd = t.tcp();
        t.see("default", value_of(fd, IPPROTO_TCP, libc::TCP_MAXSEG));
        t.see("set", set_int(fd, IPPROTO_TCP, libc::TCP_MAXSEG, 1000));
        t.see("get", value_of(fd, IPPROTO_TCP, libc::TCP_MAXSEG));
        t.see("too_small", set_int(fd, IPPROTO_TCP, libc::TCP_MAXSEG, 20));
        t.see("too_large", set_int(fd, IPPROTO_TCP, libc::TCP_MAXSEG, 100_000));
        let (connection, _peer) = t.accepted();
        let (_, value) = int_option(connection, IPPROTO_TCP, libc::TCP_MAXSEG);
        t.see("of_a_connection", (1000..=1460).contains(&value));
    });
}

fn special(suite: &mut Suite) {
    suite.add(BOTH, "quickack", |t| {
        let (fd, _peer) = t.accepted();
        t.see("set", set_int(fd, IPPROTO_TCP, libc::TCP_QUICKACK, 1));
        t.see("get", value_of(fd, IPPROTO_TCP, libc::TCP_QUICKACK));
        t.see("set", set_int(fd, IPPROTO_TCP, libc::TCP_QUICKACK, 0));
        t.see("get", value_of(fd, IPPROTO_TCP, libc::TCP_QUICKACK));
    });
    suite.add(BOTH, "fastopen_on_a_listener", |t| {
        let (listener, _) = t.listener();
        t.see("set", set_int(listener, IPPROTO_TCP, libc::TCP_FASTOPEN, 5));
        t.see("negative", set_int(listener, IPPROTO_TCP, libc::TCP_FASTOPEN, -1));
        let (fd, _peer) = t.accepted();
        t.see("connection", set_int(fd, IPPROTO_TCP, libc::TCP_FASTOPEN, 5));
    });
    suite.add(BOTH, "no_such_level", |t| {
        for fd in [t.tcp(), t.udp()] {
            t.see("set", set_int(fd, 4242, 1, 1));
            t.see("get", int_option(fd, 4242, 1).0);
            t.see("set", set_int(fd, SOL_SOCKET, 9999, 1));
            t.see("get", int_option(fd, SOL_SOCKET, 9999).0);
        }
    });
    suite.add(BOTH, "other_family's_level", |t| {
        let level = if t.domain() == libc::AF_INET { IPPROTO_IPV6 } else { IPPROTO_IP };
        for fd in [t.tcp(), t.udp()] {
            for option in [libc::IP_TTL, libc::IP_TOS, libc::IPV6_V6ONLY] {
                t.see("get", int_option(fd, level, option).0);
                t.see("set", set_int(fd, level, option, 1));
            }
        }
    });
    suite.add(V4, "level_of_udp", |t| {
        t.see("udp_cork", value_of(t.udp(), IPPROTO_UDP, libc::UDP_CORK));
        t.see("udp_segment", value_of(t.udp(), IPPROTO_UDP, libc::UDP_SEGMENT));
        t.see("udp_gro", value_of(t.udp(), IPPROTO_UDP, libc::UDP_GRO));
        t.see("unknown", value_of(t.udp(), IPPROTO_UDP, 9999));
        t.see("on_tcp", value_of(t.tcp(), IPPROTO_UDP, libc::UDP_CORK));
    });
    suite.add(V4, "values_nowhere", |t| {
        let fd = t.tcp();
        t.see("bind_to_device_empty", sys::setsockopt(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, b""));
        t.see("bind_to_device_unknown", sys::setsockopt(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, b"no-such-card"));
        t.see("device", sys::getsockopt(fd, SOL_SOCKET, libc::SO_BINDTODEVICE, 16).0);
    });
    suite.add(BOTH, "kept_through_connect", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        set_int(fd, IPPROTO_TCP, libc::TCP_NODELAY, 1);
        set_int(fd, SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        set_int(fd, IPPROTO_TCP, libc::TCP_KEEPCNT, 4);
        sys::connect(fd, &t.there(port));
        listener.accept();
        t.see("nodelay", value_of(fd, IPPROTO_TCP, libc::TCP_NODELAY));
        t.see("keepalive", value_of(fd, SOL_SOCKET, libc::SO_KEEPALIVE));
        t.see("keepcnt", value_of(fd, IPPROTO_TCP, libc::TCP_KEEPCNT));
    });
    suite.add(V4, "tos_on_the_wire_is_harmless", |t| {
        let (fd, peer) = t.accepted();
        t.see("set", set_int(fd, IPPROTO_IP, libc::IP_TOS, 0x10));
        t.see("send", sys::send(fd, b"x", 0));
        t.see("peer", peer.hear(1));
    });
    suite.add(V4, "mtu_of_a_connection", |t| {
        let (fd, _peer) = t.accepted();
        t.see("mtu", int_option(fd, IPPROTO_IP, libc::IP_MTU).1);
        t.see("unconnected", value_of(t.tcp(), IPPROTO_IP, libc::IP_MTU));
    });
}

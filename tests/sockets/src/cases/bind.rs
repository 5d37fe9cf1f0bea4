//! `bind` and `getsockname`.

use crate::address::Address;
use crate::case::{Case, set_int, until};
use crate::suite::{BOTH, EACH, Suite, V6};
use crate::sys::{self, Fd};
use libc::{IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SO_REUSEPORT, SOL_SOCKET};

fn see_name(t: &Case, what: &str, fd: Fd) {
    let (ret, name) = sys::getsockname(fd);
    t.see(what, format!("{ret} {}", t.whose(&name)));
}

const KINDS: [(&str, i32); 2] = [("tcp", libc::SOCK_STREAM), ("udp", libc::SOCK_DGRAM)];

/// Two sockets with options, both bound to one port.
const SHARED: [(&str, Option<i32>, Option<i32>); 7] = [
    ("plain", None, None),
    ("reuseaddr", Some(SO_REUSEADDR), Some(SO_REUSEADDR)),
    ("reuseaddr_first", Some(SO_REUSEADDR), None),
    ("reuseaddr_second", None, Some(SO_REUSEADDR)),
    ("reuseport", Some(SO_REUSEPORT), Some(SO_REUSEPORT)),
    ("reuseport_first", Some(SO_REUSEPORT), None),
    ("reuseport_second", None, Some(SO_REUSEPORT)),
];

pub fn add(suite: &mut Suite) {
    for (kind_name, kind) in KINDS {
        suite.add(EACH, &format!("{kind_name}_port_0"), move |t| {
            let fd = sys::socket(t.domain(), kind, 0).fd();
            t.see("bind", sys::bind(fd, &t.here(0)));
            see_name(t, "name", fd);
            t.see("peer", sys::getpeername(fd).0);
        });
        suite.add(BOTH, &format!("{kind_name}_any"), move |t| {
            let fd = sys::socket(t.domain(), kind, 0).fd();
            t.see("bind", sys::bind(fd, &t.any(0)));
            see_name(t, "name", fd);
        });
        suite.add(BOTH, &format!("{kind_name}_twice"), move |t| {
            let fd = sys::socket(t.domain(), kind, 0).fd();
            t.see("bind", sys::bind(fd, &t.here(0)));
            t.see("again", sys::bind(fd, &t.here(0)));
        });
        suite.add(EACH, &format!("{kind_name}_foreign_address"), move |t| {
            let fd = sys::socket(t.domain(), kind, 0).fd();
            t.see("bind", sys::bind(fd, &t.nobody(0)));
            see_name(t, "name", fd);
            t.see("then_ours", sys::bind(fd, &t.here(0)));
        });
        suite.add(BOTH, &format!("{kind_name}_wrong_lengths"), move |t| {
            let fd = sys::socket(t.domain(), kind, 0).fd();
            for length in [0, 2, 8, 15, 20] {
                t.see(&length.to_string(), sys::bind(fd, &t.here(0).cut(length)));
            }
        });
        suite.add(BOTH, &format!("{kind_name}_other_family"), move |t| {
            let fd = sys::socket(t.domain(), kind, 0).fd();
            t.see("unknown", sys::bind(fd, &t.here(0).with_family(77)));
            t.see("unspecified", sys::bind(fd, &t.here(0).with_family(libc::AF_UNSPEC)));
            t.see("unix", sys::bind(fd, &t.here(0).with_family(libc::AF_UNIX)));
            t.see(
                "other",
                if t.domain() == libc::AF_INET {
                    sys::bind(fd, &Address::new(t.world.here6.into(), 0))
                } else {
                    sys::bind(fd, &Address::new(t.world.here4.into(), 0))
                },
            );
        });
        for (name, first, second) in SHARED {
            suite.add(BOTH, &format!("{kind_name}_shared_{name}"), move |t| {
                let one = sys::socket(t.domain(), kind, 0).fd();
                let two = sys::socket(t.domain(), kind, 0).fd();
                for (fd, option) in [(one, first), (two, second)] {
                    if let Some(option) = option {
                        t.see("set", set_int(fd, SOL_SOCKET, option, 1));
                    }
                }
                t.see("first", sys::bind(one, &t.here(0)));
                let port = sys::getsockname(one).1.port();
                t.see("second", sys::bind(two, &t.here(port)));
                t.see("listen_first", sys::listen(one, 4));
                t.see("listen_second", sys::listen(two, 4));
            });
        }
        suite.add(BOTH, &format!("{kind_name}_any_beside_address"), move |t| {
            let one = sys::socket(t.domain(), kind, 0).fd();
            t.see("address", sys::bind(one, &t.here(0)));
            let two = sys::socket(t.domain(), kind, 0).fd();
            t.see("any", sys::bind(two, &t.any(sys::getsockname(one).1.port())));
        });
        suite.add(BOTH, &format!("{kind_name}_free_after_close"), move |t| {
            let one = sys::socket(t.domain(), kind, 0).fd();
            sys::bind(one, &t.here(0));
            let port = sys::getsockname(one).1.port();
            sys::close(one);
            let two = sys::socket(t.domain(), kind, 0).fd();
            t.see("bind", sys::bind(two, &t.here(port)));
            t.see("same_port", sys::getsockname(two).1.port() == port);
        });
    }
    suite.add(BOTH, "tcp_and_udp_share_a_number", |t| {
        let one = t.tcp();
        sys::bind(one, &t.here(0));
        let two = t.udp();
        t.see("bind", sys::bind(two, &t.here(sys::getsockname(one).1.port())));
    });
    suite.add(BOTH, "reuseaddr_beside_a_listener", |t| {
        let (listener, port) = t.listener();
        let fd = t.tcp();
        t.see("set", set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1));
        t.see("bind", sys::bind(fd, &t.here(port)));
        sys::close(listener);
        t.see("after_close", sys::bind(fd, &t.here(port)));
    });
    suite.add(BOTH, "listener_again_beside_its_connections", |t| {
        let (listener, port) = t.listener();
        let peer = t.peer_connects(port);
        let fd = sys::accept(listener).fd();
        sys::close(listener);
        let plain = t.tcp();
        t.see("plain", sys::bind(plain, &t.here(port)));
        let reuse = t.tcp();
        set_int(reuse, SOL_SOCKET, SO_REUSEADDR, 1);
        t.see("reuse", sys::bind(reuse, &t.here(port)));
        t.see("still_there", sys::send(fd, b"x", 0));
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "reuse_for_a_restarted_server", |t| {
        let listener = t.tcp();
        set_int(listener, SOL_SOCKET, SO_REUSEADDR, 1);
        sys::bind(listener, &t.here(0));
        sys::listen(listener, 4);
        let port = sys::getsockname(listener).1.port();
        let peer = t.peer_connects(port);
        let fd = sys::accept(listener).fd();
        sys::close(listener);
        let next = t.tcp();
        set_int(next, SOL_SOCKET, SO_REUSEADDR, 1);
        t.see("bind", sys::bind(next, &t.here(port)));
        t.see("listen", sys::listen(next, 4));
        let second = t.peer_connects(port);
        let other = sys::accept(next);
        t.see("accept", other.done());
        second.say("new");
        peer.say("old");
        t.see_recv("new", other.fd(), 8, 0);
        t.see_recv("old", fd, 8, 0);
    });
    suite.add(BOTH, "after_connect", |t| {
        let (fd, _peer) = t.connected();
        see_name(t, "name", fd);
        t.see("bind", sys::bind(fd, &t.here(0)));
    });
    suite.add(BOTH, "before_connect", |t| {
        let (listener, port) = t.peer_listens();
        let fd = t.tcp();
        sys::bind(fd, &t.here(0));
        let own = sys::getsockname(fd).1.port();
        t.see("connect", sys::connect(fd, &t.there(port)));
        let peer = listener.accept();
        t.see("port_kept", peer.ports().1 == own);
    });
    suite.add(V6, "only_v6", |t| {
        let one = t.tcp();
        t.see("set", set_int(one, IPPROTO_IPV6, IPV6_V6ONLY, 1));
        t.see("mapped", sys::bind(one, &Address::new(t.world.here4.to_ipv6_mapped().into(), 0)));
        t.see("any", sys::bind(one, &t.any(0)));
        // A connection of the past may hold a port in one of the families alone, so another one is tried then.
        let beside = until(|| {
            let six = t.tcp();
            set_int(six, IPPROTO_IPV6, IPV6_V6ONLY, 1);
            sys::bind(six, &t.any(0));
            let port = sys::getsockname(six).1.port();
            let four = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).fd();
            sys::bind(four, &Address::new(t.world.here4.into(), port)).is_ok()
        });
        t.see("v4_beside_it", beside);
        t.see("set_late", set_int(one, IPPROTO_IPV6, IPV6_V6ONLY, 0));
    });
    suite.add(V6, "any_v6_takes_v4_too", |t| {
        let one = t.tcp();
        sys::bind(one, &t.any(0));
        let port = sys::getsockname(one).1.port();
        let two = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).fd();
        t.see("v4_beside_it", sys::bind(two, &Address::new(t.world.here4.into(), port)));
    });
    suite.add(BOTH, "name_in_a_short_room", |t| {
        let (fd, _) = t.listener();
        for room in [0, 2, 8, 16, 28] {
            let (ret, name, length) = sys::getsockname_in(fd, room);
            t.see(&room.to_string(), format!("{ret} length {length} got {}", name.bytes().len()));
        }
    });
}

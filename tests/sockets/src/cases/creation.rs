//! `socket`: which are made, with which flags; `getsockopt` tells what they are.

use crate::case::int_option;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::{names, sys};
use libc::{
    AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, IPPROTO_UDP, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM,
};

const MADE: [(&str, i32, i32, i32); 21] = [
    ("stream", AF_INET, SOCK_STREAM, 0),
    ("stream_tcp", AF_INET, SOCK_STREAM, IPPROTO_TCP),
    ("stream_udp", AF_INET, SOCK_STREAM, IPPROTO_UDP),
    ("datagram", AF_INET, SOCK_DGRAM, 0),
    ("datagram_udp", AF_INET, SOCK_DGRAM, IPPROTO_UDP),
    ("datagram_tcp", AF_INET, SOCK_DGRAM, IPPROTO_TCP),
    ("stream6", AF_INET6, SOCK_STREAM, 0),
    ("stream6_tcp", AF_INET6, SOCK_STREAM, IPPROTO_TCP),
    ("stream6_udp", AF_INET6, SOCK_STREAM, IPPROTO_UDP),
    ("datagram6", AF_INET6, SOCK_DGRAM, 0),
    ("datagram6_tcp", AF_INET6, SOCK_DGRAM, IPPROTO_TCP),
    ("type_0", AF_INET, 0, 0),
    ("type_of_all_bits", AF_INET, 15, 0),
    ("type_sequenced", AF_INET, libc::SOCK_SEQPACKET, 0),
    ("type_reliable", AF_INET, libc::SOCK_RDM, 0),
    ("flag_unknown", AF_INET, SOCK_STREAM | 0x1000_0000, 0),
    ("domain_unknown", 255, SOCK_STREAM, 0),
    ("domain_negative", -1, SOCK_STREAM, 0),
    ("protocol_negative", AF_INET, SOCK_STREAM, -1),
    ("protocol_too_large", AF_INET, SOCK_STREAM, 300),
    ("unix", AF_UNIX, SOCK_STREAM, 0),
];

const FLAGS: [(&str, i32); 4] = [
    ("none", 0),
    ("nonblock", SOCK_NONBLOCK),
    ("cloexec", SOCK_CLOEXEC),
    ("nonblock_cloexec", SOCK_NONBLOCK | SOCK_CLOEXEC),
];

pub fn add(suite: &mut Suite) {
    for (name, domain, kind, protocol) in MADE {
        suite.add(V4, &format!("made_{name}"), move |t| {
            let ret = sys::socket(domain, kind, protocol);
            t.see("socket", ret.done());
            for option in [libc::SO_DOMAIN, libc::SO_TYPE, libc::SO_PROTOCOL] {
                let (known, value) = int_option(ret.fd(), libc::SOL_SOCKET, option);
                t.see("option", if known.is_ok() { value.to_string() } else { known.to_string() });
            }
        });
    }
    for (kind_name, kind) in [("tcp", SOCK_STREAM), ("udp", SOCK_DGRAM)] {
        for (name, flags) in FLAGS {
            suite.add(BOTH, &format!("flags_{kind_name}_{name}"), move |t| {
                let fd = sys::socket(t.domain(), kind | flags, 0).fd();
                t.see("status", names::status_flags(sys::fcntl(fd, libc::F_GETFL, 0).value));
                t.see("descriptor", sys::fcntl(fd, libc::F_GETFD, 0));
                t.see("kind", sys::kind_of(fd));
            });
        }
    }
    suite.add(EACH, "names_of_a_fresh_socket", |t| {
        let fd = t.tcp();
        let (ret, name) = sys::getsockname(fd);
        t.see("name", format!("{ret} {}", t.whose(&name)));
        t.see("peer", sys::getpeername(fd).0);
        t.see("accepting", int_option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).1);
    });
    suite.add(V4, "lowest_number", |t| {
        let (reading, writing) = sys::pipe(0);
        sys::close(reading);
        let fd = t.tcp();
        t.see("took_the_free_one", fd == reading);
        let next = t.tcp();
        t.see("next_is_larger", next > writing);
        sys::close(fd);
        let (third, _) = sys::pipe(0);
        t.see("a_pipe_takes_a_closed_socket's", third == fd);
    });
    suite.add(BOTH, "many", |t| {
        let all: Vec<i32> = (0..200).map(|_| t.tcp()).collect();
        t.see("all", all.iter().all(|fd| *fd >= 0));
        let closed = all.iter().filter(|fd| sys::close(**fd).is_ok()).count();
        t.see("closed", closed);
    });
    suite.add(BOTH, "closed_is_gone", |t| {
        let fd = t.tcp();
        t.see("close", sys::close(fd));
        t.see("again", sys::close(fd));
        t.see("bind", sys::bind(fd, &t.here(0)));
        t.see("listen", sys::listen(fd, 1));
        t.see("accept", sys::accept(fd).done());
        t.see("connect", sys::connect(fd, &t.there(1)));
        t.see("send", sys::send(fd, b"x", 0));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("shutdown", sys::shutdown(fd, libc::SHUT_RD));
        t.see("name", sys::getsockname(fd).0);
        t.see("option", int_option(fd, libc::SOL_SOCKET, libc::SO_TYPE).0);
        t.see("fcntl", sys::fcntl(fd, libc::F_GETFL, 0));
        t.see("dup", sys::dup(fd));
        t.see("read", sys::read(fd, &mut [0; 4]));
        t.see("write", sys::write(fd, b"x"));
    });
    suite.add(V4, "socket_calls_on_a_pipe", |t| {
        let (fd, _) = sys::pipe(0);
        t.see("bind", sys::bind(fd, &t.here(0)));
        t.see("listen", sys::listen(fd, 1));
        t.see("accept", sys::accept(fd).done());
        t.see("connect", sys::connect(fd, &t.there(1)));
        t.see("send", sys::send(fd, b"x", 0));
        t.see("recv", sys::recv(fd, &mut [0; 4], 0));
        t.see("shutdown", sys::shutdown(fd, libc::SHUT_RD));
        t.see("name", sys::getsockname(fd).0);
        t.see("option", int_option(fd, libc::SOL_SOCKET, libc::SO_TYPE).0);
    });
}

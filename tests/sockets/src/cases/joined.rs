//! `MSG_MORE` and `UDP_CORK` of datagrams: several calls, one datagram.

use crate::case::{Case, Net, Peer, int_option, set_int};
use crate::pattern;
use crate::suite::{BOTH, EACH, Suite, V4, V6};
use crate::sys::{self, Fd};
use libc::{IPPROTO_UDP, MSG_MORE, POLLIN};

const UDP_CORK: i32 = 1;

/// A socket of ours and one of the peer's.
fn two(t: &Case) -> (Fd, Peer, u16) {
    let (fd, _) = t.udp_bound();
    let (peer, port) = t.peer_udp();
    (fd, peer, port)
}

pub fn add(suite: &mut Suite) {
    more(suite);
    cork(suite);
    limits(suite);
}

fn more(suite: &mut Suite) {
    suite.add(EACH, "more", |t| {
        let (fd, peer, port) = two(t);
        let bytes = pattern::bytes(100);
        t.see("more", sys::sendto(fd, &bytes[..30], MSG_MORE, &t.there(port)));
        t.see("more", sys::sendto(fd, &bytes[30..60], MSG_MORE, &t.there(port)));
        t.see("nothing_yet", peer.poll(POLLIN, 30));
        t.see("last", sys::sendto(fd, &bytes[60..], 0, &t.there(port)));
        t.see("peer", peer.from().0);
        t.see("alone", sys::sendto(fd, &bytes[..10], 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "more_connected", |t| {
        let (fd, peer, port) = two(t);
        sys::connect(fd, &t.there(port));
        let bytes = pattern::bytes(90);
        t.see("more", sys::send(fd, &bytes[..30], MSG_MORE));
        t.see("more", sys::sendmsg(fd, &[&bytes[30..40], &bytes[40..60]], None, &[], MSG_MORE));
        t.see("write", sys::write(fd, &bytes[60..]));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "more_at_once", |t| {
        let (fd, peer, port) = two(t);
        let bytes = pattern::bytes(30);
        let parts: Vec<&[u8]> = bytes.chunks(10).collect();
        t.see("sendmmsg", sys::sendmmsg(fd, &parts[..2], Some(&t.there(port)), MSG_MORE).0);
        t.see("nothing_yet", peer.poll(POLLIN, 30));
        t.see("last", sys::sendto(fd, parts[2], 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "nothing_in_it", |t| {
        let (fd, peer, port) = two(t);
        t.see("more", sys::sendto(fd, b"", MSG_MORE, &t.there(port)));
        t.see("last", sys::sendto(fd, b"", 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "goes_where_it_began", |t| {
        let (fd, peer, port) = two(t);
        let (other, other_port) = t.peer_udp();
        let bytes = pattern::bytes(20);
        sys::sendto(fd, &bytes[..10], MSG_MORE, &t.there(port));
        t.see("elsewhere", sys::sendto(fd, &bytes[10..], 0, &t.there(other_port)));
        t.see("peer", peer.from().0);
        t.see("other", other.poll(POLLIN, 30));
    });
    suite.add(BOTH, "goes_on_to_nowhere", |t| {
        let (fd, peer, port) = two(t);
        let bytes = pattern::bytes(40);
        sys::sendto(fd, &bytes[..10], MSG_MORE, &t.there(port));
        t.see("unsaid", sys::send(fd, &bytes[10..20], MSG_MORE));
        t.see("short", sys::sendto(fd, &bytes[20..30], MSG_MORE, &t.there(port).cut(8)));
        t.see("family", sys::sendto(fd, &bytes[20..30], MSG_MORE, &t.there(port).with_family(77)));
        t.see("last", sys::send(fd, b"", 0));
        t.see("peer", peer.from().0.split(' ').next().unwrap_or_default());
    });
    suite.add(BOTH, "begins_nowhere", |t| {
        let (fd, peer, port) = two(t);
        t.see("more", sys::send(fd, b"x", MSG_MORE));
        t.see("port_0", sys::sendto(fd, b"x", MSG_MORE, &t.there(0)));
        t.see("alone", sys::sendto(fd, &pattern::bytes(5), 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "closed_before_its_end", |t| {
        let (fd, peer, port) = two(t);
        t.see("more", sys::sendto(fd, b"lost", MSG_MORE, &t.there(port)));
        t.see("close", sys::close(fd));
        t.see("peer", peer.poll(POLLIN, 30));
    });
    suite.add(V4, "urgent", |t| {
        let (fd, _peer, port) = two(t);
        t.see("more", sys::sendto(fd, b"x", MSG_MORE | libc::MSG_OOB, &t.there(port)));
    });
}

fn cork(suite: &mut Suite) {
    suite.add(EACH, "cork", |t| {
        let (fd, peer, port) = two(t);
        let get = || int_option(fd, IPPROTO_UDP, UDP_CORK).1;
        t.see("at_first", get());
        t.see("cork", set_int(fd, IPPROTO_UDP, UDP_CORK, 1));
        t.see("get", get());
        let bytes = pattern::bytes(90);
        for part in bytes.chunks(30) {
            t.see("sendto", sys::sendto(fd, part, 0, &t.there(port)));
        }
        t.see("nothing_yet", peer.poll(POLLIN, 30));
        t.see("uncork", set_int(fd, IPPROTO_UDP, UDP_CORK, 0));
        t.see("get", get());
        t.see("peer", peer.from().0);
        t.see("alone", sys::sendto(fd, &bytes[..10], 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "cork_and_more", |t| {
        let (fd, peer, port) = two(t);
        let bytes = pattern::bytes(30);
        sys::sendto(fd, &bytes[..10], MSG_MORE, &t.there(port));
        t.see("cork", set_int(fd, IPPROTO_UDP, UDP_CORK, 1));
        sys::sendto(fd, &bytes[10..20], 0, &t.there(port));
        t.see("nothing_yet", peer.poll(POLLIN, 30));
        sys::sendto(fd, &bytes[20..], MSG_MORE, &t.there(port));
        t.see("uncork", set_int(fd, IPPROTO_UDP, UDP_CORK, 0));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "cork_set_at_first", |t| {
        let (peer, port) = t.peer_udp();
        let fd = t.udp();
        t.see("cork", set_int(fd, IPPROTO_UDP, UDP_CORK, 1));
        t.see("uncork_nothing", set_int(fd, IPPROTO_UDP, UDP_CORK, 0));
        t.see("cork", set_int(fd, IPPROTO_UDP, UDP_CORK, 7));
        let bytes = pattern::bytes(20);
        sys::sendto(fd, &bytes[..10], 0, &t.there(port));
        sys::sendto(fd, &bytes[10..], 0, &t.there(port));
        t.see("nothing_yet", peer.poll(POLLIN, 30));
        t.see("uncork", set_int(fd, IPPROTO_UDP, UDP_CORK, 0));
        t.see("peer", peer.from().0);
    });
    suite.add(V4, "cork_of_a_stream", |t| {
        t.see("set", set_int(t.tcp(), IPPROTO_UDP, UDP_CORK, 1));
        t.see("short", sys::setsockopt(t.udp(), IPPROTO_UDP, UDP_CORK, b"x"));
    });
}

fn limits(suite: &mut Suite) {
    suite.add(BOTH, "longer_than_the_link_takes", |t| {
        let (fd, peer, port) = two(t);
        let bytes = pattern::bytes(20_000);
        for part in bytes.chunks(1_000) {
            sys::sendto(fd, part, MSG_MORE, &t.there(port));
        }
        t.see("last", sys::sendto(fd, b"", 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "largest", |t| {
        let (fd, peer, port) = two(t);
        let largest = if t.net == Net::V4 { 65_507 } else { 65_527 };
        let bytes = pattern::bytes(largest + 1);
        t.see("more", sys::sendto(fd, &bytes[..60_000], MSG_MORE, &t.there(port)));
        t.see("last", sys::sendto(fd, &bytes[60_000..largest], 0, &t.there(port)));
        t.see("peer", peer.from().0);
        t.see("more", sys::sendto(fd, &bytes[..60_000], MSG_MORE, &t.there(port)));
        t.see("too_much", sys::sendto(fd, &bytes[60_000..], MSG_MORE, &t.there(port)));
        t.see("nothing", peer.poll(POLLIN, 30));
        // All of it is gone.
        t.see("alone", sys::sendto(fd, &bytes[..10], 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(BOTH, "not_in_fragments", |t| {
        let (fd, peer, port) = two(t);
        let (level, discover) = match t.net {
            Net::V4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            _ => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        set_int(fd, level, discover, 2);
        let bytes = pattern::bytes(2_000);
        t.see("more", sys::sendto(fd, &bytes[..1_000], MSG_MORE, &t.there(port)));
        t.see("too_much", sys::sendto(fd, &bytes[1_000..], 0, &t.there(port)));
        t.see("alone", sys::sendto(fd, &bytes[..10], 0, &t.there(port)));
        t.see("peer", peer.from().0);
    });
    suite.add(V6, "whole_by_option", |t| {
        let (fd, _peer, port) = two(t);
        set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1);
        let bytes = pattern::bytes(2_000);
        t.see("more", sys::sendto(fd, &bytes[..1_000], MSG_MORE, &t.there(port)));
        t.see("too_much", sys::sendto(fd, &bytes[1_000..], MSG_MORE, &t.there(port)));
    });
}

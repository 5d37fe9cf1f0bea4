//! Control messages: what is told with what is received, and what is asked for with what is sent.

use crate::calls::interfaces::INDEX;
use crate::sockets::messages::{Asked, Wanted};
use crate::sockets::socket::{Kind, Socket};
use crate::sys::program_memory::is_nowhere;
use crate::world::lock::lock;
use libc::{c_int, c_uint, cmsghdr, msghdr, timespec};
use qanat::{Chunk, CloseReason};
use rustix::io::Errno;
use std::net::{IpAddr, SocketAddr};

/// What there is to tell.
#[derive(Clone, Copy)]
pub(in crate::calls) enum Metadata {
    Datagram {
        destination: SocketAddr,
        hop_limit: u8,
        traffic_class: u8,
    },
    Stream {
        unread: usize,
    },
    /// Of a datagram that did not arrive.
    Error {
        peer: SocketAddr,
        why: CloseReason,
    },
}

/// What is told of an error. The address of the host that reported it comes behind.
#[derive(Clone, Copy)]
#[repr(C)]
struct Told<T> {
    error: libc::sock_extended_err,
    offender: T,
}

/// A datagram that came in pieces has no header any more: what Linux sends with by default.
const HOP_LIMIT: u8 = 64;

impl Metadata {
    /// Of a datagram from `peer` to a socket bound to `local`: its header lies before its bytes, as it came.
    pub(in crate::calls) fn of_datagram(
        addresses: &[(IpAddr, u8)],
        local: SocketAddr,
        peer: SocketAddr,
        chunk: Chunk,
    ) -> (Metadata, Chunk) {
        const UDP: usize = 8;
        let own = addresses.iter().map(|(own, _)| *own).find(|own| own.is_ipv4() == peer.is_ipv4());
        let own = if local.ip().is_unspecified() { own.unwrap_or(local.ip()) } else { local.ip() };
        let mut destination = SocketAddr::new(own, local.port());
        let (mut hop_limit, mut traffic_class) = (HOP_LIMIT, 0);
        let mut frame = chunk.into_frame();
        let length = frame.len() + UDP;
        let header_length = if peer.is_ipv4() { 20 } else { 40 };
        if let Some(header) = frame.prepend(header_length + UDP) {
            let word = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
            // What lies there may be anything, of a datagram that was put together or had options.
            if peer.is_ipv4() && header[0] == 0x45 && word(2) == length + header_length && header[9] == 17 {
                (hop_limit, traffic_class) = (header[8], header[1]);
                let four: [u8; 4] = header[16..20].try_into().unwrap_or_default();
                destination.set_ip(IpAddr::from(four));
            } else if peer.is_ipv6() && header[0] >> 4 == 6 && word(4) == length && header[6] == 17 {
                (hop_limit, traffic_class) = (header[7], header[0] << 4 | header[1] >> 4);
                let six: [u8; 16] = header[24..40].try_into().unwrap_or_default();
                destination.set_ip(IpAddr::from(six));
            }
            frame.trim_front(header_length + UDP);
        }
        (Metadata::Datagram { destination, hop_limit, traffic_class }, Chunk::new(frame))
    }

    /// Of a stream of which so many bytes have been taken.
    pub(in crate::calls) fn of_stream(socket: &Socket, length: usize) -> Option<Metadata> {
        let Kind::Stream(stream) = &socket.kind else { return None };
        (length > 0 && socket.options.control_messages.any()).then_some(Metadata::Stream { unread: stream.unread })
    }
}

/// Writes what the program asked for.
///
/// # Safety
/// The message's control buffer is writable, or null.
pub(in crate::calls) unsafe fn tell(number: u32, metadata: Option<Metadata>, message: &mut msghdr) {
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let mut writer = ControlWriter { at: message.msg_control.cast(), room, written: 0, is_cut: false };
    let asked = || {
        let guard = lock().ok()?;
        let socket = guard.sockets.get(number)?;
        Some((socket.options.control_messages, socket.family))
    };
    if let Some(metadata) = metadata
        && let Some((asked, family)) = asked()
    {
        match metadata {
            Metadata::Error { peer, why } => writer.put_error(family, peer, why),
            _ => writer.put_time(asked),
        }
        match metadata {
            Metadata::Stream { unread } if asked.in_queue => {
                const TCP_CM_INQ: c_int = libc::TCP_INQ;
                writer.put(libc::IPPROTO_TCP, TCP_CM_INQ, unread as c_int);
            }
            Metadata::Stream { .. } | Metadata::Error { .. } => {}
            Metadata::Datagram { destination, hop_limit, traffic_class } => {
                writer.put_header(asked, family, destination, (hop_limit, traffic_class));
            }
        }
    }
    message.msg_controllen = writer.written as _;
    if writer.is_cut {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
}

/// Writes control messages, cut to the room there is as Linux does.
struct ControlWriter {
    at: *mut u8,
    room: usize,
    written: usize,
    is_cut: bool,
}

impl ControlWriter {
    /// The time it is taken at.
    fn put_time(&mut self, asked: Asked) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        if asked.timestamp_ns {
            let time = timespec { tv_sec: now.as_secs() as i64, tv_nsec: i64::from(now.subsec_nanos()) };
            self.put(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, time);
        } else if asked.timestamp {
            let time = libc::timeval { tv_sec: now.as_secs() as i64, tv_usec: i64::from(now.subsec_micros()) };
            self.put(libc::SOL_SOCKET, libc::SO_TIMESTAMP, time);
        }
    }

    /// What ICMP said, in its own numbers, and which host said it (RFC 792, RFC 4443).
    fn put_error(&mut self, family: c_int, peer: SocketAddr, why: CloseReason) {
        const OF_ICMP: u8 = 2;
        const OF_ICMPV6: u8 = 3;
        let (kind, code) = match (why, peer.is_ipv4()) {
            (CloseReason::Refused, true) => (3, 3),
            (CloseReason::ProtocolUnreachable, true) => (3, 2),
            (CloseReason::NetworkUnreachable, true) => (3, 0),
            (CloseReason::Prohibited, true) => (3, 13),
            (CloseReason::HopLimitExceeded, true) => (11, 0),
            (_, true) => (3, 1),
            (CloseReason::Refused, false) => (1, 4),
            (CloseReason::NetworkUnreachable, false) => (1, 0),
            (CloseReason::Prohibited, false) => (1, 1),
            (CloseReason::HopLimitExceeded, false) => (3, 0),
            (_, false) => (1, 3),
        };
        let error = libc::sock_extended_err {
            ee_errno: crate::sockets::socket::errno_of(why).map_or(0, Errno::raw_os_error) as u32,
            ee_origin: if peer.is_ipv4() { OF_ICMP } else { OF_ICMPV6 },
            ee_type: kind,
            ee_code: code,
            ee_pad: 0,
            ee_info: 0,
            ee_data: 0,
        };
        let (storage, _) = crate::sys::address::encode(SocketAddr::new(peer.ip(), 0), family);
        if family == libc::AF_INET {
            // SAFETY: the storage is larger, and of this family.
            let four: libc::sockaddr_in = unsafe { (&raw const storage).cast::<libc::sockaddr_in>().read() };
            self.put(libc::IPPROTO_IP, libc::IP_RECVERR, Told { error, offender: four });
        } else {
            // SAFETY: the storage is larger, and of this family.
            let six: libc::sockaddr_in6 = unsafe { (&raw const storage).cast::<libc::sockaddr_in6>().read() };
            self.put(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, Told { error, offender: six });
        }
    }

    /// What a datagram's headers say: its destination, its hop limit and traffic class. In Linux' order.
    fn put_header(&mut self, asked: Asked, family: c_int, to: SocketAddr, (hop_limit, traffic_class): (u8, u8)) {
        let (storage, _) = crate::sys::address::encode(to, family);
        if let (libc::AF_INET, IpAddr::V4(ip)) = (family, to.ip()) {
            let address = libc::in_addr { s_addr: ip.to_bits().to_be() };
            if asked.packet_info {
                let info = libc::in_pktinfo { ipi_ifindex: INDEX as c_int, ipi_spec_dst: address, ipi_addr: address };
                self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            if asked.hop_limit {
                self.put(libc::IPPROTO_IP, libc::IP_TTL, c_int::from(hop_limit));
            }
            if asked.traffic_class {
                self.put(libc::IPPROTO_IP, libc::IP_TOS, traffic_class);
            }
            if asked.destination {
                // SAFETY: the storage is larger, and of this family.
                let four: libc::sockaddr_in = unsafe { (&raw const storage).cast::<libc::sockaddr_in>().read() };
                self.put(libc::IPPROTO_IP, libc::IP_ORIGDSTADDR, four);
            }
            return;
        }
        let six = match to.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        if asked.packet_info {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: six.octets() }, ipi6_ifindex: INDEX };
            self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        if asked.hop_limit {
            self.put(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, c_int::from(hop_limit));
        }
        if asked.traffic_class {
            self.put(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, c_int::from(traffic_class));
        }
        if asked.destination {
            // SAFETY: the storage is larger, and of this family.
            let address: libc::sockaddr_in6 = unsafe { (&raw const storage).cast::<libc::sockaddr_in6>().read() };
            self.put(libc::IPPROTO_IPV6, libc::IPV6_ORIGDSTADDR, address);
        }
    }

    fn put<T: Copy>(&mut self, level: c_int, kind: c_int, value: T) {
        let head = size_of::<cmsghdr>();
        // SAFETY: the macro computes a length, without memory.
        let (length, space) = unsafe {
            (libc::CMSG_LEN(size_of::<T>() as c_uint) as usize, libc::CMSG_SPACE(size_of::<T>() as c_uint) as usize)
        };
        let left = self.room - self.written;
        if left < head {
            self.is_cut = true;
            return;
        }
        let fits = length.min(left);
        self.is_cut |= fits < length;
        let header = cmsghdr { cmsg_len: fits as _, cmsg_level: level, cmsg_type: kind };
        // SAFETY: within the room the program says it has; nothing needs alignment.
        unsafe {
            self.at.add(self.written).cast::<cmsghdr>().write_unaligned(header);
            let body = self.at.add(self.written + head);
            std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), body, fits - head);
        }
        self.written += space.min(left);
    }
}

/// Reads the control messages of what is to be sent.
///
/// # Errors
/// As Linux': `EINVAL` for one that is cut, or unknown of its level, `ENOBUFS` for a length that is no `int`, `EFAULT`.
///
/// # Safety
/// The message's control buffer is readable, or null.
pub(in crate::calls) unsafe fn wanted(message: &msghdr, is_datagram: bool) -> Result<Wanted, Errno> {
    const HEAD: usize = size_of::<cmsghdr>();
    let mut wanted = Wanted::default();
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    if room > c_int::MAX as usize {
        return Err(Errno::NOBUFS);
    }
    if room > 0 && is_nowhere(message.msg_control) {
        return Err(Errno::FAULT);
    }
    let mut at = 0;
    while at + HEAD <= room {
        // SAFETY: within the buffer; nothing needs alignment.
        let header = unsafe { message.msg_control.byte_add(at).cast::<cmsghdr>().read_unaligned() };
        let length = header.cmsg_len;
        // The program's number may be anything: nothing is added to it.
        if length < HEAD || length > room - at {
            return Err(Errno::INVAL);
        }
        // SAFETY: the bytes are within the buffer.
        let body =
            unsafe { std::slice::from_raw_parts(message.msg_control.cast::<u8>().add(at + HEAD), length - HEAD) };
        read(&mut wanted, (header.cmsg_level, header.cmsg_type), body, is_datagram)?;
        at += length.next_multiple_of(size_of::<usize>());
    }
    Ok(wanted)
}

/// Takes over what one message asks for.
fn read(wanted: &mut Wanted, kind: (c_int, c_int), body: &[u8], is_datagram: bool) -> Result<(), Errno> {
    match kind {
        // Handed on over Unix sockets alone; elsewhere nothing comes of it.
        (libc::SOL_SOCKET, libc::SCM_RIGHTS | libc::SCM_CREDENTIALS) => {}
        // Priority, mark and departure time have no effect.
        (libc::SOL_SOCKET, libc::SO_MARK | libc::SCM_TXTIME | libc::SO_TIMESTAMPING | libc::SO_PRIORITY) => {}
        (libc::SOL_SOCKET, _) => return Err(Errno::INVAL),
        _ if !is_datagram => {}
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let address: [u8; 4] = body.get(4..8).and_then(|four| four.try_into().ok()).ok_or(Errno::INVAL)?;
            wanted.source = Some(IpAddr::from(address)).filter(|source| !source.is_unspecified());
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let address: [u8; 16] = body.get(..16).and_then(|six| six.try_into().ok()).ok_or(Errno::INVAL)?;
            let source = std::net::Ipv6Addr::from(address);
            let source = source.to_ipv4_mapped().map_or(IpAddr::V6(source), IpAddr::V4);
            wanted.source = Some(source).filter(|source| !source.is_unspecified());
        }
        (libc::IPPROTO_UDP, qanat_launch::support::UDP_SEGMENT) => {
            let length: [u8; 2] = body.try_into().map_err(|_| Errno::INVAL)?;
            wanted.segment = Some(u16::from_ne_bytes(length).into()).filter(|length| *length > 0);
        }
        // Hop limit and traffic class have no effect.
        (libc::IPPROTO_IP, libc::IP_TTL | libc::IP_TOS | libc::IP_RETOPTS) => {}
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT | libc::IPV6_TCLASS) => {}
        (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG) => {
            let value: [u8; 4] = body.try_into().map_err(|_| Errno::INVAL)?;
            wanted.dont_fragment = Some(c_int::from_ne_bytes(value) != 0);
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6 | libc::IPPROTO_UDP, _) => return Err(Errno::INVAL),
        _ => {}
    }
    Ok(())
}

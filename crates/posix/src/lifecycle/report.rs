//! What `qanat status` tells of a program: its sockets, descriptor by descriptor, as lines of JSON. The keeper answers.

use crate::sockets::socket::{Kind, Socket};
use crate::sys::descriptor::{Entry, decode};
use crate::world::lock::{Guard, lock};
use qanat_stack::tcp::State;
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// Descriptors told of at most; how many there are is told in any case.
const ROWS_MAX: usize = 1_000;
/// Bytes of a line at most.
const LINE: usize = 400;
/// Bytes of a message about.
const MESSAGE: usize = 16 * 1_024;
/// Bytes on their way at once.
const ROOM: usize = 1 << 20;

/// Says it on `line`, a message of some lines at a time.
pub(crate) fn report(line: BorrowedFd<'_>) {
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(line, ROOM);
    let mut text = String::new();
    // Not in the arena: its memory would be the stack's.
    if text.try_reserve(ROWS_MAX * 256).is_err() {
        return;
    }
    let Ok(guard) = lock() else { return };
    // Writing to a string with room for it takes no memory.
    write_all(&guard, &mut text);
    drop(guard);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = rest.get(..MESSAGE).and_then(|piece| piece.rfind('\n')).map_or(rest.len(), |end| end + 1);
        let (piece, after) = rest.split_at(end);
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        if rustix::net::send(line, piece.as_bytes(), flags).is_err() {
            return;
        }
        rest = after;
    }
}

/// Whether `text` has room for a line more.
fn has_room(text: &str, capacity: usize) -> bool {
    text.len() + LINE < capacity
}

/// One line for all, one for each descriptor of each process, one for each socket that is known to be the kernel's.
fn write_all(guard: &Guard, text: &mut String) {
    let capacity = text.capacity();
    let (sockets, processes) = (guard.sockets.iter().count(), guard.processes.count());
    let _ = write!(text, "{{\"program\":\"");
    let is_plain = |letter: &char| !letter.is_control() && !matches!(letter, '"' | '\\');
    text.extend(crate::sys::this_process::program::program().chars().filter(is_plain).take(64));
    let _ = write!(text, "\",\"addresses\":[");
    for (at, (address, _)) in guard.addresses.iter().enumerate() {
        let _ = write!(text, "{}\"{address}\"", if at > 0 { "," } else { "" });
    }
    let _ = write!(
        text,
        "],\"processes\":{processes},\"sockets\":{sockets},\"connections\":{},\"fallbacks\":{},\"datagrams_dropped\":{},\
         \"backlog_full\":{},\"counters\":{{",
        guard.stack.usage().connections,
        guard.fallbacks.count,
        guard.sockets.datagrams_dropped,
        guard.sockets.backlog_full,
    );
    let device = guard.vnic.look().statistics();
    let counters = guard.stack.counters().iter().chain(guard.stack.tcp_counters().iter()).chain(device.iter());
    for (at, (name, count)) in counters.filter(|(_, count)| *count > 0).enumerate() {
        let _ = write!(text, "{}\"{name}\":{count}", if at > 0 { "," } else { "" });
    }
    text.push_str("}}\n");
    for record in guard.processes.records.iter().flatten() {
        let process = record.id.load(Ordering::Relaxed);
        for (fd, word) in record.table.iter().enumerate() {
            let Entry::Socket(number) = decode(word.load(Ordering::Relaxed)) else { continue };
            let Some(socket) = guard.sockets.get(number).filter(|_| has_room(text, capacity)) else { continue };
            let _ = write!(text, "{{\"process\":{process},\"descriptor\":{fd},\"owner\":\"stack\",");
            write_socket(guard, socket, text);
        }
    }
    for fallback in guard.fallbacks.last.iter() {
        let record = guard.processes.records.get(fallback.process as usize).and_then(Option::as_ref);
        let Some(record) = record.filter(|_| has_room(text, capacity)) else { continue };
        let _ = writeln!(
            text,
            "{{\"process\":{},\"descriptor\":{},\"owner\":\"kernel\",\"call\":\"{}\",\"address\":\"{}\",\"why\":\"{}\"}}",
            record.id.load(Ordering::Relaxed),
            fallback.fd,
            fallback.call.text(),
            fallback.address,
            fallback.why.text(),
        );
    }
}

fn write_socket(guard: &Guard, socket: &Socket, text: &mut String) {
    let (protocol, state) = match &socket.kind {
        Kind::Bound => ("tcp", "bound"),
        Kind::Listener(_) => ("tcp", "listen"),
        Kind::Datagram(_) => ("udp", if socket.peer.is_some() { "connected" } else { "bound" }),
        Kind::Stream(stream) => {
            let known = stream.connection.and_then(|id| guard.stack.connection_info(id));
            ("tcp", known.map_or("closed", |(_, _, info)| state_name(info.state)))
        }
    };
    let also = if socket.is_dual { ",\"also_kernel\":true" } else { "" };
    let _ = write!(text, "\"protocol\":\"{protocol}\",\"state\":\"{state}\",\"local\":\"{}\"{also}", socket.local);
    if let Some(peer) = socket.peer {
        let _ = write!(text, ",\"peer\":\"{peer}\"");
    }
    let (receive, send) = match &socket.kind {
        Kind::Bound => (0, 0),
        // As `ss` has it: connections to be accepted, and how many there may be.
        Kind::Listener(listener) => (listener.pending.len(), listener.backlog),
        Kind::Stream(stream) => (stream.unread, stream.unacknowledged),
        Kind::Datagram(datagram) => (datagram.queue.iter().map(|(_, chunk)| chunk.len()).sum(), 0),
    };
    let _ = writeln!(text, ",\"receive_queue\":{receive},\"send_queue\":{send}}}");
}

fn state_name(state: State) -> &'static str {
    match state {
        State::SynSent => "syn-sent",
        State::SynReceived => "syn-received",
        State::Established => "established",
        State::FinWait1 => "fin-wait-1",
        State::FinWait2 => "fin-wait-2",
        State::CloseWait => "close-wait",
        State::Closing => "closing",
        State::LastAck => "last-ack",
        State::Closed => "closed",
    }
}

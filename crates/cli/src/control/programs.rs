//! Programs under `qanat run`, for `qanat status`: their keepers are asked.

use crate::live::grouped;
use qanat_control::name::printable;
use qanat_nic::foreign::refuse_rights;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files looked at in a directory.
const ENTRIES_MAX: usize = 10_000;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long all of them may.
pub const PATIENCE_IN_ALL: Duration = Duration::from_secs(10);
/// Lines shown of one.
const ROWS_MAX: usize = 10_000;
/// Answers taken from one, and from all, bytes. What they mean takes some times as much.
const ANSWER_MAX: usize = 4 << 20;
const ANSWERS_MAX: usize = 16 << 20;

/// How counters end that people look for when something is missing; `--json` has them all.
const LOSSES: [&str; 11] = [
    "_dropped",
    "_full",
    "_lost",
    "_buffer",
    "_invalid",
    "_checksum",
    "_overflow",
    "_failed",
    "_limited",
    "_port",
    "_conflicts",
];

/// What each program in this network namespace that may be asked tells: of itself, with its sockets.
pub fn programs() -> Vec<Value> {
    let Ok(namespace) = std::fs::metadata("/proc/self/ns/net") else { return Vec::new() };
    let prefix = format!("{}-", namespace.ino());
    let is_here = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with(&prefix) && std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
    };
    let mut places: Vec<(PathBuf, u32)> = Vec::new();
    for (directory, user) in directories() {
        places.extend(entries(&directory).into_iter().filter(is_here).map(|place| (place, user)));
    }
    places.sort_unstable();
    let begun = Instant::now();
    // However many there are that do not answer.
    let in_time = places.into_iter().take_while(|_| begun.elapsed() < PATIENCE_IN_ALL);
    let mut left = ANSWERS_MAX;
    in_time.filter_map(|(place, user)| ask(&place, user, &mut left)).collect()
}

/// Whether a program of this user's under `qanat run` has `address` in this network namespace: others of his may share its card.
pub fn has_program_at(address: IpAddr) -> bool {
    let Ok(namespace) = std::fs::metadata("/proc/self/ns/net") else { return false };
    let name = format!("{}-{address}", namespace.ino());
    let own = rustix::process::geteuid().as_raw();
    // If a keeper was killed, its socket is left, and nobody listens.
    directories().into_iter().any(|(directory, user)| user == own && reach(&directory.join(&name)).is_some())
}

/// What there is in a directory; nothing if it can't be looked at.
fn entries(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES_MAX).map(|entry| entry.path()).collect()
}

/// Where users' keepers are to be found, of whom this one may ask, and whose each is. As the library has it.
fn directories() -> Vec<(PathBuf, u32)> {
    let own = rustix::process::geteuid();
    let mut found: Vec<PathBuf> = vec![PathBuf::from("/run/qanat-run")];
    found.extend(entries(Path::new("/run/user")).into_iter().map(|session| session.join("qanat-run")));
    let is_one =
        |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("qanat-run-"));
    found.extend(entries(Path::new("/tmp")).into_iter().filter(is_one));
    let owned = found.into_iter().filter_map(|path| {
        let file = std::fs::symlink_metadata(&path).ok()?;
        let is_private = file.is_dir() && file.mode() & 0o077 == 0;
        (is_private && (own.is_root() || file.uid() == own.as_raw())).then_some((path, file.uid()))
    });
    owned.collect()
}

/// A connection to the keeper at `place`, if one listens there.
fn reach(place: &Path) -> Option<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()?;
    // Whoever answers may be anybody: only words are taken. Before Linux 6.16 the kernel can't refuse descriptors for us.
    let _ = refuse_rights(socket.as_fd());
    // A keeper that accepts nobody, or says only a little at a time, holds nobody up.
    for way in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, way, Some(PATIENCE)).ok()?;
    }
    connect(&socket, &SocketAddrUnix::new(place).ok()?).ok()?;
    Some(socket)
}

/// `left`: bytes that are taken of this one and of all after it.
fn ask(place: &Path, owner: u32, left: &mut usize) -> Option<Value> {
    let start = Instant::now();
    let socket = reach(place)?;
    // Whoever listens there may say anything: the kernel tells whose word it is.
    let user = rustix::net::sockopt::socket_peercred(&socket).ok()?.uid;
    if user.as_raw() != owner {
        return None;
    }
    send(&socket, b"status", SendFlags::NOSIGNAL).ok()?;
    let mut answer = Vec::new();
    let mut piece = vec![0; 64 * 1_024];
    while answer.len() < ANSWER_MAX.min(*left) && start.elapsed() < PATIENCE {
        match recv(&socket, &mut *piece, RecvFlags::empty()) {
            Ok((_, count)) if count > 0 => answer.extend_from_slice(&piece[..count]),
            _ => break,
        }
    }
    *left = left.saturating_sub(answer.len());
    let mut lines = answer.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut program = lines.next().filter(|line| line["program"].is_string())?;
    program["user"] = user.as_raw().into();
    program["descriptors"] = lines.take(ROWS_MAX).map(named).collect();
    Some(program)
}

/// With the process's name, which the kernel knows.
fn named(mut line: Value) -> Value {
    if let Some(process) = line["process"].as_i64() {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        line["name"] = name.trim().into();
    }
    line
}

/// What a program says of itself is its own choice: nothing of it may draw on the terminal of who asks.
fn shown(value: &Value) -> Value {
    match value {
        Value::String(text) => printable(text).into(),
        Value::Array(values) => values.iter().map(shown).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (printable(key).into_owned(), shown(value))).collect()
        }
        other => other.clone(),
    }
}

/// A program and its sockets, a line each.
pub fn text(program: &Value) -> String {
    let program = &shown(program);
    let addresses: Vec<&str> =
        program["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let count = |name: &str| grouped(program[name].as_u64().unwrap_or_default());
    let mut text = format!(
        "Program \"{}\"{} under qanat run on {}: {} processes, {} sockets, {} connections; {} sockets left to the kernel; dropped: {} \
         datagrams for want of room, {} connections beyond the backlog\n",
        program["program"].as_str().unwrap_or_default(),
        program["user"].as_u64().filter(|user| *user != 0).map_or_else(String::new, |user| format!(" of user {user}")),
        addresses.join(" "),
        count("processes"),
        count("sockets"),
        count("connections"),
        count("fallbacks"),
        count("datagrams_dropped"),
        count("backlog_full"),
    );
    let counters = program["counters"].as_object().into_iter().flatten();
    let losses = counters.filter(|(name, _)| LOSSES.iter().any(|word| name.ends_with(word)));
    let losses: Vec<String> = losses.map(|(name, count)| format!("{name} {count}")).collect();
    if !losses.is_empty() {
        let _ = writeln!(text, "  counted by stack and card: {}", losses.join(", "));
    }
    let descriptors = program["descriptors"].as_array().map(Vec::as_slice).unwrap_or_default();
    for line in descriptors {
        // Writing to a String cannot fail.
        let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let place = format!("{} {} fd {}", word("name"), line["process"], line["descriptor"]);
        if word("owner") == "kernel" {
            let _ = writeln!(text, "  {place:<28} kernel: {} {}: {}", word("call"), word("address"), word("why"));
            continue;
        }
        let peer = line["peer"].as_str().map_or_else(String::new, |peer| format!(" from {peer}"));
        let also = if line["also_kernel"] == true { ", and the kernel's for its own addresses" } else { "" };
        let queues = format!("{} in, {} out", line["receive_queue"], line["send_queue"]);
        let _ = writeln!(
            text,
            "  {place:<28} {} {:<12} {}{peer}: {queues}{also}",
            word("protocol"),
            word("state"),
            word("local"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_a_line_each() {
        let program = serde_json::json!({
            "program": "redis-server", "addresses": ["10.77.0.2"], "processes": 1, "sockets": 2, "connections": 1, "fallbacks": 1,
            "counters": {"device_transmit_frames": 9, "device_transmit_lost": 2, "udp_no_port": 1},
            "descriptors": [
                {"process": 7, "name": "redis", "descriptor": 6, "owner": "stack", "protocol": "tcp", "state": "listen",
                 "local": "0.0.0.0:6379", "receive_queue": 0, "send_queue": 511, "also_kernel": true},
                {"process": 7, "name": "redis", "descriptor": 8, "owner": "stack", "protocol": "tcp", "state": "established",
                 "local": "10.77.0.2:6379", "peer": "10.77.0.1:40000", "receive_queue": 3, "send_queue": 0},
                {"process": 7, "name": "redis", "descriptor": 9, "owner": "kernel", "call": "connect", "address": "1.1.1.1:53",
                 "why": "not on the card's link"},
            ],
        });
        let text = text(&program);
        assert!(
            text.contains("tcp listen       0.0.0.0:6379: 0 in, 511 out, and the kernel's for its own addresses"),
            "{text}"
        );
        assert!(text.contains("tcp established  10.77.0.2:6379 from 10.77.0.1:40000: 3 in, 0 out"), "{text}");
        assert!(text.contains("kernel: connect 1.1.1.1:53: not on the card's link"), "{text}");
        assert!(text.contains("  counted by stack and card: device_transmit_lost 2, udp_no_port 1\n"), "{text}");
        assert_eq!(text.lines().count(), 5);
        let forged = serde_json::json!({
            "program": "a\x1b[2J\nNet core", "addresses": ["\x1b[1m"],
            "descriptors": [{"name": "\u{202e}", "owner": "kernel", "call": "\r", "address": "\x07", "why": "\n\n"}],
        });
        let text = super::text(&forged);
        assert_eq!(text.lines().count(), 2, "{text:?}");
        assert!(
            text.chars().all(|letter| letter == '\n' || (!letter.is_control() && letter != '\u{202e}')),
            "{text:?}"
        );
    }
}

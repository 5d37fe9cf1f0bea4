//! The other end: bare kernel sockets that do what the subject says over a Unix socket, one line for one answer.

use crate::address::Address;
use crate::names;
use crate::pattern::{fill, is_intact};
use crate::sys::{self, Fd, Ret};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// After this a blocked call of the peer's gives up, seconds: later than any case does.
const PATIENCE_S: i64 = 20;
const CHUNK: usize = 64 * 1024;

/// Serves subjects until it is killed.
///
/// # Errors
/// The control socket can't be made.
pub fn serve(control: &Path) -> io::Result<()> {
    sys::on_signal(libc::SIGPIPE, sys::Disposition::Ignore);
    match std::fs::remove_file(control) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(control)?;
    println!("ready");
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            // A subject that went away needs no answer.
            let _ = Peer::default().serve(&stream);
        });
    }
    Ok(())
}

#[derive(Default)]
struct Peer {
    sockets: BTreeMap<u32, Held>,
    last: u32,
}

/// A socket with its places in the two streams of pattern bytes.
struct Held {
    fd: Fd,
    sent: usize,
    received: usize,
}

type Words<'a> = std::str::SplitAsciiWhitespace<'a>;

fn number(words: &mut Words<'_>) -> Result<i64, String> {
    words.next().and_then(|word| word.parse().ok()).ok_or_else(|| "a number is missing".to_owned())
}

fn size(words: &mut Words<'_>) -> Result<usize, String> {
    number(words).map(|value| usize::try_from(value).unwrap_or(0))
}

fn small(words: &mut Words<'_>) -> Result<i32, String> {
    number(words).map(|value| i32::try_from(value).unwrap_or(0))
}

fn address(words: &mut Words<'_>) -> Result<Address, String> {
    let ip = words.next().and_then(|word| word.parse().ok()).ok_or_else(|| "an address is missing".to_owned())?;
    Ok(Address::new(ip, u16::try_from(number(words)?).unwrap_or(0)))
}

fn good(ret: Ret) -> Result<Ret, String> {
    if ret.is_ok() { Ok(ret) } else { Err(names::errno(ret.errno).to_owned()) }
}

fn option(fd: Fd, level: i32, name: i32, value: i32) -> Ret {
    sys::setsockopt(fd, level, name, &value.to_ne_bytes())
}

fn patient(fd: Fd) {
    let time: Vec<u8> = [PATIENCE_S, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    for name in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        sys::setsockopt(fd, libc::SOL_SOCKET, name, &time);
    }
}

fn domain(address: &Address) -> i32 {
    if address.parts().is_some_and(|parts| parts.is_ipv6()) { libc::AF_INET6 } else { libc::AF_INET }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes of hexadecimal text.
pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .filter_map(|at| text.get(at * 2..at * 2 + 2).and_then(|two| u8::from_str_radix(two, 16).ok()))
        .collect()
}

fn abort(fd: Fd) {
    let now: Vec<u8> = [1_i32, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &now);
    sys::close(fd);
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.reset();
    }
}

impl Peer {
    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let mut stream = stream;
        while let Some(line) = lines.next().transpose()? {
            let answer = self.answer(&line).unwrap_or_else(|error| error);
            stream.write_all(format!("{answer}\n").as_bytes())?;
        }
        Ok(())
    }

    fn reset(&mut self) {
        for held in std::mem::take(&mut self.sockets).into_values() {
            abort(held.fd);
        }
    }

    fn hold(&mut self, fd: Fd) -> u32 {
        patient(fd);
        self.last += 1;
        self.sockets.insert(self.last, Held { fd, sent: 0, received: 0 });
        self.last
    }

    fn held(&mut self, words: &mut Words<'_>) -> Result<&mut Held, String> {
        let handle = u32::try_from(number(words)?).unwrap_or(0);
        self.sockets.get_mut(&handle).ok_or_else(|| "no such socket".to_owned())
    }

    fn answer(&mut self, line: &str) -> Result<String, String> {
        let mut words = line.split_ascii_whitespace();
        let command = words.next().unwrap_or_default();
        let words = &mut words;
        match command {
            "reset" => {
                self.reset();
                Ok("ok".to_owned())
            }
            "listen" => self.listen(words),
            "accept" => {
                let fd = good(sys::accept(self.held(words)?.fd))?.fd();
                Ok(self.hold(fd).to_string())
            }
            "connect" => self.connect(words),
            "fast" => self.fast(words),
            "option" => {
                let fd = self.held(words)?.fd;
                let (level, name, value) = (small(words)?, small(words)?, small(words)?);
                Ok(option(fd, level, name, value).done().to_owned())
            }
            "udp" => self.udp(words),
            "plug" => {
                let fd = self.held(words)?.fd;
                Ok(sys::connect(fd, &address(words)?).done().to_owned())
            }
            "say" => {
                let fd = self.held(words)?.fd;
                let bytes = unhex(words.next().unwrap_or_default());
                let flags = small(words)?;
                Ok(sys::send(fd, &bytes, flags | libc::MSG_NOSIGNAL).to_string())
            }
            "hear" => self.hear(words),
            "send" => self.send(words),
            "read" => self.read(words),
            "to" => {
                let fd = self.held(words)?.fd;
                let to = address(words)?;
                let mut bytes = vec![0; size(words)?];
                fill(&mut bytes, 0);
                Ok(sys::sendto(fd, &bytes, 0, &to).to_string())
            }
            "from" => {
                let fd = self.held(words)?.fd;
                let mut bytes = vec![0; 70_000];
                let (ret, from) = sys::recvfrom(fd, &mut bytes, 0);
                let count = good(ret)?.count();
                let state = if is_intact(&bytes[..count], 0) { "intact" } else { "garbled" };
                Ok(format!("{count} {state} {}", from.port()))
            }
            _ => self.answer_about(command, words),
        }
    }

    /// Commands about the state of one socket.
    fn answer_about(&mut self, command: &str, words: &mut Words<'_>) -> Result<String, String> {
        match command {
            "shut" => {
                let fd = self.held(words)?.fd;
                Ok(sys::shutdown(fd, small(words)?).done().to_owned())
            }
            "close" | "abort" => {
                let handle = u32::try_from(number(words)?).unwrap_or(0);
                let held = self.sockets.remove(&handle).ok_or("no such socket")?;
                if command == "close" {
                    sys::close(held.fd);
                } else {
                    abort(held.fd);
                }
                Ok("ok".to_owned())
            }
            "state" => {
                let fd = self.held(words)?.fd;
                let (_, info) = sys::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, 8);
                Ok(names::tcp_state(info.first().copied().unwrap_or(0)).to_owned())
            }
            "poll" => {
                let fd = self.held(words)?.fd;
                let (events, timeout_ms) = (small(words)?, small(words)?);
                let (_, told) = sys::poll(&[(fd, i16::try_from(events).unwrap_or(0))], timeout_ms);
                Ok(names::events(u32::from(told[0].cast_unsigned())))
            }
            "unread" => {
                let fd = self.held(words)?.fd;
                Ok(sys::ioctl(fd, libc::FIONREAD, 0).1.to_string())
            }
            "unsent" => {
                let fd = self.held(words)?.fd;
                Ok(sys::ioctl(fd, libc::TIOCOUTQ, 0).1.to_string())
            }
            "ports" => {
                let fd = self.held(words)?.fd;
                Ok(format!("{} {}", sys::getsockname(fd).1.port(), sys::getpeername(fd).1.port()))
            }
            "error" => {
                let fd = self.held(words)?.fd;
                let (_, value) = sys::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, 4);
                Ok(names::errno(i32::from_ne_bytes(value.try_into().unwrap_or_default())).to_owned())
            }
            _ => Err(format!("no such command: {command}")),
        }
    }

    /// `listen IP PORT BACKLOG RECEIVE-BUFFER` (0: the default one) → handle and port.
    fn listen(&mut self, words: &mut Words<'_>) -> Result<String, String> {
        let address = address(words)?;
        let (backlog, room) = (small(words)?, small(words)?);
        let fd = good(sys::socket(domain(&address), libc::SOCK_STREAM, 0))?.fd();
        let handle = self.hold(fd);
        if room > 0 {
            option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, room);
        }
        good(sys::bind(fd, &address))?;
        good(sys::listen(fd, backlog))?;
        Ok(format!("{handle} {}", sys::getsockname(fd).1.port()))
    }

    /// `connect IP PORT FROM-IP RECEIVE-BUFFER` → handle.
    fn connect(&mut self, words: &mut Words<'_>) -> Result<String, String> {
        let to = address(words)?;
        let from = words.next().and_then(|word| word.parse().ok()).ok_or("an address is missing")?;
        let room = small(words)?;
        let fd = good(sys::socket(domain(&to), libc::SOCK_STREAM, 0))?.fd();
        let handle = self.hold(fd);
        option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
        if room > 0 {
            option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, room);
        }
        good(sys::bind(fd, &Address::new(from, 0)))?;
        good(sys::connect(fd, &to))?;
        Ok(handle.to_string())
    }

    /// `fast IP PORT FROM-IP BYTES NO-COOKIE` → handle, and how many of the bytes (hexadecimal text) went by `MSG_FASTOPEN`.
    fn fast(&mut self, words: &mut Words<'_>) -> Result<String, String> {
        let to = address(words)?;
        let from = words.next().and_then(|word| word.parse().ok()).ok_or("an address is missing")?;
        let bytes = unhex(words.next().unwrap_or_default());
        let without_cookie = small(words)?;
        let fd = good(sys::socket(domain(&to), libc::SOCK_STREAM, 0))?.fd();
        let handle = self.hold(fd);
        option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_NO_COOKIE, without_cookie);
        good(sys::bind(fd, &Address::new(from, 0)))?;
        let sent = good(sys::sendto(fd, &bytes, libc::MSG_FASTOPEN, &to))?;
        Ok(format!("{handle} {sent}"))
    }

    /// `udp IP PORT` → handle and port.
    fn udp(&mut self, words: &mut Words<'_>) -> Result<String, String> {
        let address = address(words)?;
        let fd = good(sys::socket(domain(&address), libc::SOCK_DGRAM, 0))?.fd();
        let handle = self.hold(fd);
        good(sys::bind(fd, &address))?;
        Ok(format!("{handle} {}", sys::getsockname(fd).1.port()))
    }

    /// `hear HANDLE COUNT` → what came as hexadecimal text, then why no more.
    fn hear(&mut self, words: &mut Words<'_>) -> Result<String, String> {
        let fd = self.held(words)?.fd;
        let wanted = size(words)?;
        let mut all = Vec::new();
        let end = loop {
            if all.len() == wanted {
                break "full";
            }
            let mut bytes = vec![0; wanted - all.len()];
            let ret = sys::recv(fd, &mut bytes, 0);
            match ret.count() {
                0 if ret.is_ok() => break "end",
                0 => break names::errno(ret.errno),
                count => all.extend_from_slice(&bytes[..count]),
            }
        };
        Ok(format!("{}- {end}", hex(&all)))
    }

    /// `send HANDLE COUNT` → how many bytes of the pattern went, and why no more.
    fn send(&mut self, words: &mut Words<'_>) -> Result<String, String> {
        let held = self.held(words)?;
        let wanted = size(words)?;
        let mut bytes = vec![0; CHUNK];
        let mut done = 0;
        while done < wanted {
            let piece = &mut bytes[..CHUNK.min(wanted - done)];
            fill(piece, held.sent);
            let ret = sys::send(held.fd, piece, libc::MSG_NOSIGNAL);
            if !ret.is_ok() {
                return Ok(format!("{done} {}", names::errno(ret.errno)));
            }
            done += ret.count();
            held.sent += ret.count();
        }
        Ok(format!("{done} all"))
    }

    /// `read HANDLE COUNT` → how many bytes came, whether they were the pattern's, and why no more.
    fn read(&mut self, words: &mut Words<'_>) -> Result<String, String> {
        let held = self.held(words)?;
        let wanted = size(words)?;
        let mut bytes = vec![0; CHUNK];
        let (mut done, mut intact) = (0, true);
        let end = loop {
            if done == wanted {
                break "full";
            }
            let ret = sys::recv(held.fd, &mut bytes[..CHUNK.min(wanted - done)], 0);
            let count = ret.count();
            if count == 0 {
                break if ret.is_ok() { "end" } else { names::errno(ret.errno) };
            }
            intact &= is_intact(&bytes[..count], held.received);
            held.received += count;
            done += count;
        };
        Ok(format!("{done} {} {end}", if intact { "intact" } else { "garbled" }))
    }
}

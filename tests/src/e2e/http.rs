//! A small HTTP client over a kernel socket: it sends exactly the bytes it is told to, and believes nothing.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    pending: Vec<u8>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Field values by lower-case name; the last of several.
    pub fields: BTreeMap<String, String>,
    /// Content.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of field `name` (lower case), or nothing.
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Client {
    /// Connects; every wait for an answer is bounded by 10 s.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, pending: Vec::new() })
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// What the system says.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Asks for `path`.
    ///
    /// # Errors
    /// What the system says, or `InvalidData` for an answer that is no HTTP.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())?;
        self.answer()
    }

    /// Reads one response to a request that was not HEAD.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn answer(&mut self) -> io::Result<Answer> {
        let end = loop {
            if let Some(at) = self.pending.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if self.pending.len() > 64 * 1024 {
                return Err(malformed("no end of the head"));
            }
            self.more()?;
        };
        let head = String::from_utf8(self.pending.drain(..end + 4).collect()).map_err(|_| malformed("head"))?;
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap_or_default();
        let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| malformed("status line"))?;
        let fields: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = match fields.get("content-length") {
            Some(length) => length.parse().map_err(|_| malformed("content-length"))?,
            None => 0,
        };
        while self.pending.len() < length {
            self.more()?;
        }
        Ok(Answer { status, fields, body: self.pending.drain(..length).collect() })
    }

    /// All bytes until the server closes.
    ///
    /// # Errors
    /// What the system says; a reset too.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = std::mem::take(&mut self.pending);
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Reads at most `count` bytes of what comes.
    ///
    /// # Errors
    /// What the system says.
    pub fn some(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.pending.is_empty() {
            self.more()?;
        }
        let count = count.min(self.pending.len());
        Ok(self.pending.drain(..count).collect())
    }

    /// Sends no more.
    ///
    /// # Errors
    /// What the system says.
    pub fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    fn more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 65_536];
        let count = self.stream.read(&mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.pending.extend_from_slice(&bytes[..count]);
        Ok(())
    }
}

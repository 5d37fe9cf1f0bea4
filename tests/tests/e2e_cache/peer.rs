//! A connection to a cache, and what it answers.

use qanat_tests::e2e::{PATIENCE, Server};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// Where `qanat cache` is.
pub const OURS: &str = "10.77.0.2:11211";

/// `qanat cache` with these options.
pub fn serve(options: &[&str]) -> Server {
    Server::try_start_as("cache", options).unwrap_or_else(|error| panic!("{error}"))
}

/// A connection.
pub struct Peer {
    stream: TcpStream,
    address: String,
}

impl Peer {
    /// To a cache that listens.
    pub fn new(address: &str) -> Peer {
        let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.set_nodelay(true).expect("an option");
        Peer { stream, address: address.to_owned() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it takes requests");
    }

    /// All that it answers to these requests. The last of them is one of ours, whose answer nothing else ends with.
    pub fn ask(&mut self, requests: &[u8]) -> Vec<u8> {
        // A value may end with it, too, but then more follows.
        self.send(&[requests, b"mn\r\nmg no-such-key Oend-of-answer\r\n"].concat());
        const END: &[u8] = b"MN\r\nEN Oend-of-answer\r\n";
        let mut answer = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        while !answer.ends_with(END) {
            let read = self.stream.read(&mut buffer);
            let asked = || String::from_utf8_lossy(&requests[..requests.len().min(300)]).into_owned();
            let shown = || String::from_utf8_lossy(&answer[answer.len().saturating_sub(300)..]).into_owned();
            let length =
                read.unwrap_or_else(|error| panic!("{}: {error} after {:?} of {:?}", self.address, shown(), asked()));
            assert!(length > 0, "it closed the connection after {:?} of {:?}", shown(), asked());
            answer.extend_from_slice(&buffer[..length]);
        }
        answer.truncate(answer.len() - END.len());
        answer
    }

    /// The same, as text.
    pub fn says(&mut self, requests: &str) -> String {
        String::from_utf8_lossy(&self.ask(requests.as_bytes())).into_owned()
    }

    /// So many bytes of an answer.
    pub fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("an answer");
        bytes
    }

    /// All until it closes the connection.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut bytes) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{}: it does not end", self.address);
        }
        bytes
    }
}

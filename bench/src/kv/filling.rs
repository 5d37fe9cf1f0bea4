//! Keys made by one client on the kernel's sockets, many requests at once; and what a store says of itself.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Requests that are sent before their answers are read.
pub(super) const AT_ONCE: u64 = 500;
/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// All answers to what makes a key, `+OK` and `:10`, have so many bytes.
const ANSWER_BYTES: usize = 5;
/// What INFO says is no longer.
const SAID_BYTES_MAX: usize = 1 << 20;

/// Writes the request that makes the key of a number.
pub(super) type Request = fn(&mut Vec<u8>, u64);

/// Adds a word to a request.
pub(super) fn word(request: &mut Vec<u8>, word: &str) {
    // Writing to a vector does not fail.
    let _ = write!(request, "${}\r\n{word}\r\n", word.len());
}

/// Makes so many keys, from the first on.
///
/// # Errors
/// The connection breaks, or the store refuses: with what it said.
pub(super) fn fill(address: SocketAddr, request: Request, keys: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut requests = Vec::new();
    for first in (0..keys).step_by(AT_ONCE as usize) {
        requests.clear();
        let count = AT_ONCE.min(keys - first);
        (first..first + count).for_each(|number| request(&mut requests, number));
        stream.write_all(&requests)?;
        let mut answers = vec![0; count as usize * ANSWER_BYTES];
        stream.read_exact(&mut answers)?;
        if answers.contains(&b'-') {
            return Err(io::Error::other(String::from_utf8_lossy(&answers).into_owned()));
        }
    }
    Ok(())
}

/// Asks one thing, in words, and gives the answer without its last line break: of a bulk string its content.
///
/// # Errors
/// The connection breaks, or the answer is longer than any that is wanted here.
pub(super) fn ask(address: SocketAddr, words: &[&str]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|text| word(&mut request, text));
    stream.write_all(&request)?;
    let mut heard = Vec::new();
    loop {
        if let Some(answer) = whole(&heard) {
            return Ok(answer);
        }
        let mut piece = [0; 4_096];
        let count = stream.read(&mut piece)?;
        heard.extend_from_slice(piece.get(..count).unwrap_or_default());
        if count == 0 || heard.len() > SAID_BYTES_MAX {
            return Err(io::Error::other(format!("{words:?} is not answered")));
        }
    }
}

/// The answer, if all of it has come.
fn whole(heard: &[u8]) -> Option<String> {
    let end = heard.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (heard.get(..end)?, heard.get(end + 2..)?);
    let text = match line.strip_prefix(b"$") {
        None => line,
        Some(length) => {
            let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
            rest.get(..length).filter(|_| rest.len() >= length + 2)?
        }
    };
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_until_it_is_whole() {
        for (heard, answer) in [
            ("+OK\r\n", Some("+OK")),
            (":7\r\n", Some(":7")),
            ("+O", None),
            ("$5\r\nab\r\nc\r\n", Some("ab\r\nc")),
            ("$5\r\nab\r\nc\r", None),
            ("$5\r\n", None),
        ] {
            assert_eq!(whole(heard.as_bytes()).as_deref(), answer, "{heard:?}");
        }
    }
}

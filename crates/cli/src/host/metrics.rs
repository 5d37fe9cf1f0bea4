//! Figures for Prometheus, over a kernel socket: monitoring is no business of the data path.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A reader that takes longer is left.
const PATIENCE: Duration = Duration::from_secs(2);

/// Listens at `address`.
///
/// # Errors
/// Another process listens there, or it is no address of the kernel's.
pub fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address)
        .map_err(|error| format!("metrics at {address}: {error}; choose an address of the kernel's"))
}

/// Answers scrapes with `text` on a thread of its own, one after the other, as long as the process lives.
///
/// # Errors
/// There is no thread to be had.
pub fn serve(listener: TcpListener, name: &str, text: impl Fn() -> String + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().name(format!("{name}-metrics")).spawn(move || {
        for stream in listener.incoming().flatten() {
            // A reader that goes away is no error of ours.
            let _ = reply(stream, &text());
        }
    });
    thread.map(drop).map_err(|error| format!("metrics: {error}; raise `ulimit -u`"))
}

fn reply(mut stream: TcpStream, text: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Whatever is asked for, there is only this.
    let _ = stream.read(&mut [0; 4_096])?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

//! Linux' TCP as sender, receiver, server and client: a thread for each connection.

use super::ends::{DOWNLOAD_BYTES, Failure};
use super::watch::Watch;
use qanat_delay::Lab;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// How soon a thread sees that it is over.
const TICK: Duration = Duration::from_millis(100);
/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);

/// A listener in namespace `side`.
pub(super) fn listen(lab: &Lab, side: usize, address: SocketAddr) -> Result<TcpListener, Failure> {
    // CUBIC is inherited by what it accepts.
    let listen = || -> std::io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_tcp_congestion(b"cubic")?;
        socket.bind(&address.into())?;
        socket.listen(256)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    let listener = lab.namespaces()[side].within(listen).and_then(|result| result);
    listener.map_err(|error| Failure::Listen(address, error))
}

fn connect(lab: &Lab, from: usize, to: SocketAddr) -> Result<TcpStream, Failure> {
    let connect = || -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_tcp_congestion(b"cubic")?;
        socket.set_write_timeout(Some(TICK))?;
        socket.set_read_timeout(Some(TICK))?;
        socket.connect_timeout(&to.into(), CONNECT_TIME_MAX)?;
        Ok(socket.into())
    };
    let stream = lab.namespaces()[from].within(connect).and_then(|result| result);
    stream.map_err(|error| Failure::Connect(to, error))
}

fn is_tick(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Accepts until it is over, with a thread of `serve` for each connection.
pub(super) fn accept(
    listener: &TcpListener,
    watch: &Watch,
    serve: impl Fn(TcpStream, &Watch) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        while !watch.is_over() {
            match listener.accept() {
                Ok((stream, _)) => {
                    let set_up = stream.set_nonblocking(false);
                    let set_up = set_up.and_then(|()| stream.set_read_timeout(Some(TICK)));
                    set_up.and_then(|()| stream.set_write_timeout(Some(TICK)))?;
                    scope.spawn(|| serve(stream, watch));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        Ok(())
    })
}

/// Counts what comes until the end or until it is over; whether the end has come.
fn read_all(stream: &mut TcpStream, watch: &Watch, bytes: &mut [u8]) -> Result<bool, Failure> {
    while !watch.is_over() {
        match stream.read(bytes) {
            Ok(0) => return Ok(true),
            Ok(count) => watch.add(count),
            Err(error) if is_tick(&error) => {}
            Err(error) => return Err(Failure::Receive(error)),
        }
    }
    Ok(false)
}

/// Sends `bytes` or until it is over; how many were sent.
fn write_some(stream: &mut TcpStream, watch: &Watch, bytes: &[u8]) -> Result<usize, Failure> {
    let mut sent = 0;
    while sent < bytes.len() && !watch.is_over() {
        match stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if is_tick(&error) => {}
            Err(error) => return Err(Failure::Send(error)),
        }
    }
    Ok(sent)
}

/// Takes what comes.
pub(super) fn receive(mut stream: TcpStream, watch: &Watch) -> Result<(), Failure> {
    read_all(&mut stream, watch, &mut vec![0; 1 << 17]).map(|_| ())
}

/// Sends from namespace `from` over `count` connections until it is over.
pub(super) fn send(lab: &Lab, from: usize, to: SocketAddr, count: usize, watch: &Watch) -> Result<(), Failure> {
    let bytes = vec![0x5a; 1 << 17];
    each(count, || {
        let mut stream = connect(lab, from, to)?;
        while !watch.is_over() {
            write_some(&mut stream, watch, &bytes)?;
        }
        let _ = stream.shutdown(Shutdown::Both);
        Ok(())
    })
}

/// Answers a connection with a download.
pub(super) fn serve_download(mut stream: TcpStream, watch: &Watch) -> Result<(), Failure> {
    write_some(&mut stream, watch, &vec![0x5a; DOWNLOAD_BYTES])?;
    let _ = stream.shutdown(Shutdown::Write);
    while !watch.is_over() {
        match stream.read(&mut [0; 64]) {
            Err(error) if is_tick(&error) => {}
            _ => break,
        }
    }
    Ok(())
}

/// `count` clients, each downloading again and again.
pub(super) fn download(lab: &Lab, from: usize, to: SocketAddr, count: usize, watch: &Watch) -> Result<(), Failure> {
    each(count, || {
        let mut bytes = vec![0; 1 << 16];
        while !watch.is_over() {
            // Over already while it connected: no failure.
            let mut stream = match connect(lab, from, to) {
                Err(_) if watch.is_over() => return Ok(()),
                result => result?,
            };
            read_all(&mut stream, watch, &mut bytes)?;
        }
        Ok(())
    })
}

/// `count` threads of `work`; their first failure.
fn each(count: usize, work: impl Fn() -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(&work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Failure::ThreadDied)))
    })
}

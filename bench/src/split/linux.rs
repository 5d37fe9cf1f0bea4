//! The same game over kernel sockets, both ends polling: on loopback, which has no device and no driver, or over a veth.

use crate::harness::topology::{SERVER_KERNEL, Topology};
use crate::harness::{HarnessError, cpu};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn prepared(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// All of a message, one way; false: it is over.
fn whole(over: &AtomicBool, length: usize, mut some: impl FnMut(usize) -> io::Result<usize>) -> io::Result<bool> {
    let mut done = 0;
    while done < length {
        match some(done) {
            Ok(0) => return Ok(false),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if over.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                std::hint::spin_loop();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Round trips of messages of `size` bytes, for a while; nanoseconds.
pub fn ping_pong(
    topology: Option<&Topology>,
    size: usize,
    warm_up: Duration,
    duration: Duration,
) -> Result<Vec<u64>, HarnessError> {
    let play = || -> io::Result<Vec<u64>> {
        let (listener, connect): (_, Box<dyn FnOnce(SocketAddr) -> io::Result<TcpStream>>) = match topology {
            None => (TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, Box::new(TcpStream::connect)),
            Some(topology) => {
                let listener = topology.server().within(|| TcpListener::bind((SERVER_KERNEL, 0)))??;
                (listener, Box::new(|address| topology.client().within(move || TcpStream::connect(address))?))
            }
        };
        let address = listener.local_addr()?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| -> io::Result<()> {
                let _ = cpu::pin(0);
                let (mut stream, _) = listener.accept()?;
                prepared(&stream)?;
                let mut bytes = vec![0; size];
                while whole(&over, size, |done| stream.read(&mut bytes[done..]))? {
                    if !whole(&over, size, |done| stream.write(&bytes[done..]))? {
                        break;
                    }
                }
                Ok(())
            });
            let _ = cpu::pin(1);
            let mut stream = connect(address)?;
            prepared(&stream)?;
            let (mut bytes, mut times, never) = (vec![7; size], Vec::new(), AtomicBool::new(false));
            let started = Instant::now();
            while started.elapsed() < warm_up + duration {
                let sent = Instant::now();
                whole(&never, size, |done| stream.write(&bytes[done..]))?;
                whole(&never, size, |done| stream.read(&mut bytes[done..]))?;
                if started.elapsed() > warm_up {
                    times.push(sent.elapsed().as_nanos() as u64);
                }
            }
            over.store(true, Ordering::Relaxed);
            drop(stream);
            server.join().map_err(|_| io::Error::other("the server's thread"))??;
            Ok(times)
        })
    };
    play().map_err(|error| HarnessError::system("play over kernel sockets", error))
}

//! The ring, with a peer on an ordinary socket.

use super::{Completion, Lent, SocketRing, datagram_socket, listening_socket};
use crate::memory::{Pool, Region};
use bytes::Bytes;
use rustix::net::getsockname;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// A ring, or a loud word.
fn ring(frames: u32) -> Option<(SocketRing, Pool)> {
    let pool = Region::new(frames, 4_096).unwrap().pool(frames).unwrap();
    match SocketRing::new(pool.clone()) {
        Ok(ring) => Some((ring, pool)),
        Err(error) => {
            eprintln!("\nSKIPPED ({error}): the ring of sockets\n");
            None
        }
    }
}

/// The next completion, however long it takes.
fn next(ring: &mut SocketRing) -> Completion {
    loop {
        if let Some(completion) = ring.next_completion() {
            return completion;
        }
        ring.sleep(Duration::from_millis(50));
    }
}

fn accepted(ring: &mut SocketRing) -> OwnedFd {
    match next(ring) {
        Completion::Accepted { token: 7, outcome: Ok(socket), goes_on: true } => socket,
        other => panic!("{other:?}"),
    }
}

/// Where a socket is.
fn port_of(socket: &OwnedFd) -> u16 {
    SocketAddr::try_from(getsockname(socket).unwrap()).unwrap().port()
}

/// A client, and the stream that is received for it. The listener goes on accepting.
fn connected(ring: &mut SocketRing) -> (OwnedFd, TcpStream, OwnedFd) {
    let listener = listening_socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0).unwrap();
    ring.accept(listener.as_fd(), 7);
    ring.enter();
    let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port_of(&listener))).unwrap();
    let socket = accepted(ring);
    ring.receive(socket.as_fd(), 3);
    ring.enter();
    (listener, client, socket)
}

#[test]
fn a_stream_comes_and_goes_and_every_frame_comes_home() {
    let Some((mut ring, pool)) = ring(64) else { return };
    let (_listener, mut client, socket) = connected(&mut ring);
    client.write_all(&[9; 10_000]).unwrap();
    let mut came = 0;
    while came < 10_000 {
        match next(&mut ring) {
            Completion::Received { token: 3, outcome: Ok(Some(frame)), goes_on: true } => {
                assert!(frame.bytes().iter().all(|byte| *byte == 9));
                came += frame.len();
            }
            other => panic!("{other:?}"),
        }
    }
    // Copied first, then lent, in one send.
    assert!(!ring.send(socket.as_fd(), 3, |_| {}), "nothing is not sent");
    let sent = ring.send(socket.as_fd(), 3, |outgoing| {
        outgoing.copy(5).unwrap().copy_from_slice(b"head ");
        assert!(outgoing.lend(Lent::Bytes(Bytes::from_static(b"and body"))));
        assert!(outgoing.copy(1).is_none(), "the order would be lost");
    });
    assert!(sent);
    let mut text = [0; 13];
    match next(&mut ring) {
        Completion::Sent { token: 3, outcome: Ok(13) } => client.read_exact(&mut text).unwrap(),
        other => panic!("{other:?}"),
    }
    assert_eq!(&text, b"head and body");
    drop(client);
    match next(&mut ring) {
        Completion::Received { token: 3, outcome: Ok(None), goes_on: false } => ring.close(socket),
        other => panic!("{other:?}"),
    }
    ring.enter();
    assert!(ring.next_completion().is_none(), "a close is nobody's affair");
    assert_eq!((ring.under_way(), ring.frames_free()), (1, 64), "the accepting goes on");
    drop(ring);
    assert!(pool.in_use_count() <= 64);
}

#[test]
fn without_frames_it_is_told_and_nothing_is_lost() {
    let Some((mut ring, _)) = ring(4) else { return };
    let (_listener, mut client, socket) = connected(&mut ring);
    client.write_all(&[5; 40_000]).unwrap();
    let (mut held, mut came) = (Vec::new(), 0);
    while came < 40_000 {
        match next(&mut ring) {
            Completion::Received { outcome: Ok(Some(frame)), goes_on, .. } => {
                came += frame.len();
                held.push(frame);
                if !goes_on {
                    held.clear();
                    ring.receive(socket.as_fd(), 3);
                }
            }
            Completion::Received { outcome: Err(rustix::io::Errno::NOBUFS), goes_on: false, .. } => {
                held.clear();
                ring.receive(socket.as_fd(), 3);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(came, 40_000);
}

#[test]
fn datagrams_are_told_with_both_addresses_and_long_ones_are_lost() {
    let Some((mut ring, _)) = ring(64) else { return };
    let socket = datagram_socket(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
    let port = port_of(&socket);
    ring.receive_datagrams(socket.as_fd(), 5);
    ring.enter();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client.send(&[1; 10_000]).unwrap();
    client.send(b"question").unwrap();
    match next(&mut ring) {
        Completion::Datagram { token: 5, outcome: Ok(None), goes_on: true } => {}
        other => panic!("{other:?}"),
    }
    let Completion::Datagram { token: 5, outcome: Ok(Some(datagram)), goes_on: true } = next(&mut ring) else {
        panic!("a datagram")
    };
    assert_eq!(datagram.frame.bytes(), b"question");
    assert_eq!((datagram.peer, datagram.own), (client.local_addr().unwrap(), Some(Ipv4Addr::LOCALHOST.into())));
    assert!(ring.send_datagram(socket.as_fd(), datagram.peer, datagram.own, Lent::Frame(datagram.frame)));
    match next(&mut ring) {
        Completion::DatagramSent { outcome: Ok(()) } => {}
        other => panic!("{other:?}"),
    }
    let mut answer = [0; 20];
    assert_eq!(client.recv(&mut answer).unwrap(), 8);
    ring.cancel(socket.as_fd());
    match next(&mut ring) {
        Completion::Datagram { token: 5, outcome: Err(rustix::io::Errno::CANCELED), goes_on: false } => {}
        other => panic!("{other:?}"),
    }
}

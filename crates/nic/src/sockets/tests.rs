//! Either engine, with a peer on an ordinary socket.

use super::{Completion, Lent, PortUse, SocketEngine, connecting_socket, datagram_socket, listening_socket};
use crate::memory::{Pool, Region};
use bytes::Bytes;
use rustix::net::getsockname;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Both engines, each with a pool of so many frames; or a loud word.
fn engines(frames: u32) -> Vec<(SocketEngine, Pool)> {
    let pool = || Region::new(frames, 4_096).unwrap().pool(frames).unwrap();
    let (of_ring, of_poll) = (pool(), pool());
    let mut engines = vec![(SocketEngine::poll(of_poll.clone()).unwrap(), of_poll)];
    match SocketEngine::ring(of_ring.clone()) {
        Ok(ring) => engines.push((ring, of_ring)),
        Err(error) => eprintln!("\nSKIPPED ({error}): the ring of sockets\n"),
    }
    engines
}

/// The next completion, however long it takes.
fn next(ring: &mut SocketEngine) -> Completion {
    loop {
        if let Some(completion) = ring.next_completion() {
            return completion;
        }
        ring.sleep(Duration::from_millis(50));
    }
}

fn accepted(ring: &mut SocketEngine) -> OwnedFd {
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
fn connected(ring: &mut SocketEngine) -> (OwnedFd, TcpStream, OwnedFd) {
    let listener = listening_socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0, PortUse::Alone).unwrap();
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
    for (mut ring, pool) in engines(64) {
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
}

#[test]
fn without_frames_it_is_told_and_nothing_is_lost() {
    for (mut ring, _) in engines(4) {
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
}

#[test]
fn datagrams_are_told_with_both_addresses_and_long_ones_are_lost() {
    for (mut ring, _) in engines(64) {
        let socket = datagram_socket(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), PortUse::Alone).unwrap();
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
}

#[test]
fn a_connection_is_made_or_refused_and_a_descriptor_of_somebody_elses_is_watched() {
    for (mut ring, _pool) in engines(64) {
        let listener = listening_socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 0, PortUse::Alone).unwrap();
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, port_of(&listener)));
        let socket = connecting_socket(local, None).unwrap();
        ring.connect(socket.as_fd(), 4, local);
        match next(&mut ring) {
            Completion::Connected { token: 4, outcome: Ok(()) } => {}
            other => panic!("{other:?}"),
        }
        drop(listener);
        let refused = connecting_socket(local, None).unwrap();
        ring.connect(refused.as_fd(), 5, local);
        match next(&mut ring) {
            Completion::Connected { token: 5, outcome: Err(rustix::io::Errno::CONNREFUSED) } => {}
            other => panic!("{other:?}"),
        }
        // Once for each watching.
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        for _ in 0..2 {
            ring.watch(one.as_fd());
            ring.enter();
            other.write_all(b"!").unwrap();
            match next(&mut ring) {
                Completion::Readable { other } => assert_eq!(other, one.as_raw_fd()),
                other => panic!("{other:?}"),
            }
            (&one).read_exact(&mut [0]).unwrap();
            other.write_all(b"!").unwrap();
            ring.sleep(Duration::from_millis(1));
            assert!(ring.next_completion().is_none(), "it is not watched any more");
            (&one).read_exact(&mut [0]).unwrap();
        }
        // It may be told of once more.
        ring.watch(one.as_fd());
        ring.forget(one.as_raw_fd());
        ring.close(socket);
        ring.close(refused);
    }
}

#[test]
fn what_is_under_way_ends_if_it_is_cancelled_and_a_full_socket_is_waited_for() {
    for (mut ring, pool) in engines(64) {
        let (listener, mut client, socket) = connected(&mut ring);
        // More than the kernel takes, until somebody reads.
        let much = Bytes::from(vec![7; 1 << 20]);
        let (mut given, mut taken, mut read) = (0, 0, vec![0; 1 << 20]);
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        while given == taken && given < 64 << 20 {
            assert!(ring.send(socket.as_fd(), 3, |outgoing| assert!(outgoing.lend(Lent::Bytes(much.clone())))));
            given += much.len();
            ring.enter();
            ring.sleep(Duration::from_millis(20));
            while let Some(Completion::Sent { token: 3, outcome }) = ring.next_completion() {
                taken += outcome.unwrap();
                given = given.min(taken);
            }
        }
        // It waits; what is read makes room.
        client.read_exact(&mut read).unwrap();
        let mut left = taken - read.len();
        while left > 0 {
            let count = left.min(read.len());
            client.read_exact(&mut read[..count]).unwrap();
            left -= count;
        }
        match next(&mut ring) {
            Completion::Sent { token: 3, outcome: Ok(count) } => assert!(count > 0),
            other => panic!("{other:?}"),
        }
        // Cancelled, each asking ends with a word.
        ring.cancel(socket.as_fd());
        ring.cancel(listener.as_fd());
        let mut ended = Vec::new();
        while ring.under_way() > 0 || ended.len() < 2 {
            ended.push(next(&mut ring));
        }
        assert_eq!(ended.len(), 2, "{ended:?}");
        drop((ring, ended));
        assert!(pool.in_use_count() <= 64);
    }
}

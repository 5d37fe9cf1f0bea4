//! Clients who mean ill: others are served all the same, and memory stays within its bound.

use super::peer::{OURS, Peer, serve};
use qanat_tests::e2e::{PATIENCE, eventually, resident_kib, scenario};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

fn figure(peer: &mut Peer, name: &str) -> u64 {
    let said = peer.says("stats\r\n");
    let line = said.lines().find_map(|line| line.strip_prefix("STAT ")?.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|figure| figure.trim().parse().ok()).unwrap_or_else(|| panic!("{name} in {said}"))
}

fn is_within_its_bound(peer: &mut Peer) {
    let (used, most) = (figure(peer, "memory_in_use"), figure(peer, "limit_maxbytes"));
    assert!(used <= most, "{used} of {most}");
}

/// Clients who ask for much and read nothing: each is owed a bounded amount, and when others need the memory they are closed.
#[test]
fn those_who_never_read_leave_memory_for_others() {
    scenario(|| {
        let server = serve(&["-m", "16M"]);
        let mut peer = Peer::new(OURS);
        let value = "v".repeat(1_000_000);
        let mut slow = Vec::new();
        for number in 0..40 {
            // Of each a value of its own: what is lent to one is not another's.
            // Until some of those before are closed there may be none.
            eventually("there is room", PATIENCE, || {
                peer.says(&format!("set slow{number} 0 0 1000000\r\n{value}\r\n")) == "STORED\r\n"
            });
            let mut stream = TcpStream::connect(OURS).expect("a connection");
            // Those who were closed meanwhile take nothing.
            let _ = stream.write_all(format!("get slow{number}\r\n").repeat(50).as_bytes());
            slow.push(stream);
            is_within_its_bound(&mut peer);
        }
        assert!(figure(&mut peer, "slow_connections_closed") > 0, "all of it was there at once");
        is_within_its_bound(&mut peer);
        drop((slow, peer));
        assert_eq!(server.stop().code, Some(0));
    });
}

/// Values that are announced and never come: memory is taken by what comes, and given back.
#[test]
fn values_that_never_come_leave_memory_for_others() {
    scenario(|| {
        let server = serve(&["-m", "16M"]);
        let mut peer = Peer::new(OURS);
        let part = "p".repeat(150_000);
        let mut waiting = Vec::new();
        for number in 0..400 {
            let mut stream = TcpStream::connect(OURS).expect("a connection");
            let _ = stream.write_all(format!("set never{number} 0 0 1000000\r\n{part}").as_bytes());
            waiting.push(stream);
            is_within_its_bound(&mut peer);
        }
        eventually("there is room again", PATIENCE, || {
            peer.says(&format!("set other 0 0 100000\r\n{}\r\n", "v".repeat(100_000))) == "STORED\r\n"
        });
        drop(waiting);
        eventually("all of it is back", PATIENCE, || figure(&mut peer, "memory_in_flight") == 0);
        drop(peer);
        assert_eq!(server.stop().code, Some(0));
    });
}

/// Lines that have no end are memory, too.
#[test]
fn lines_that_never_end_leave_memory_for_others() {
    scenario(|| {
        let server = serve(&["-m", "16M"]);
        let before_kib = resident_kib(server.id());
        let mut peer = Peer::new(OURS);
        let keys = "key ".repeat(200_000);
        let mut waiting = Vec::new();
        // 320 MB, if all of it were kept.
        for _ in 0..400 {
            let mut stream = TcpStream::connect(OURS).expect("a connection");
            let _ = stream.write_all(format!("get {keys}").as_bytes());
            waiting.push(stream);
            is_within_its_bound(&mut peer);
        }
        let grown_kib = resident_kib(server.id()) - before_kib;
        println!("{grown_kib} KiB more than at first");
        // Besides the bound there are frames that are used for the first time, and what the allocator keeps.
        assert!(grown_kib < 64 << 10, "{grown_kib} KiB more than at first");
        eventually("there is room again", PATIENCE, || peer.says("set other 0 0 2\r\nhi\r\n") == "STORED\r\n");
        drop(waiting);
        eventually("all of it is back", PATIENCE, || figure(&mut peer, "memory_in_flight") == 0);
        drop(peer);
        assert_eq!(server.stop().code, Some(0));
    });
}

/// Requests that take long are answered in parts: others are served meanwhile, and all of it comes.
#[test]
fn long_requests_let_others_go_first() {
    scenario(|| {
        let server = serve(&["-m", "64M"]);
        let mut peer = Peer::new(OURS);
        let stored: String = (0..30_000).map(|number| format!("set key{number} 0 0 2 noreply\r\nhi\r\n")).collect();
        assert_eq!(peer.says(&stored), "");
        let absent = "a ".repeat(500_000);
        let mut greedy = Peer::new(OURS);
        greedy.send(format!("get {absent}key7\r\nlru_crawler metadump all\r\n").as_bytes());
        assert_eq!(peer.says("get key1\r\n"), "VALUE key1 0 2\r\nhi\r\nEND\r\n");
        let got = "VALUE key7 0 2\r\nhi\r\nEND\r\n";
        assert_eq!(String::from_utf8_lossy(&greedy.read(got.len())), got);
        let dump = greedy.says("");
        let lines: std::collections::BTreeSet<&str> = dump.lines().filter(|line| line.starts_with("key=key")).collect();
        assert_eq!(lines.len(), 30_000);
        assert!(dump.ends_with("END\r\n"), "{}", &dump[dump.len() - 80..]);
        // All of them gone, and none of them met: a list is short, and takes as many steps.
        assert_eq!(peer.says("flush_all\r\n"), "OK\r\n");
        assert_eq!(peer.says("lru_crawler metadump all\r\n"), "END\r\n");
        drop((peer, greedy));
        assert_eq!(server.stop().code, Some(0));
    });
}

/// The bound is one of the process's memory, whatever the sizes of what comes and goes.
#[test]
fn memory_stays_within_its_bound() {
    scenario(|| {
        let server = serve(&["-m", "64M"]);
        let before_kib = resident_kib(server.id());
        let mut peer = Peer::new(OURS);
        let mut random = fastrand::Rng::with_seed(5);
        let bytes = "b".repeat(100_000);
        for round in 0..60 {
            let mut requests = String::new();
            for _ in 0..500 {
                // Sizes that change with time are what allocators find hardest.
                let length = random.usize(..[100, 2_000, 20_000, 60][round / 15]) + round;
                let key = random.u32(..200_000);
                requests += &format!("set key{key} 0 0 {length} noreply\r\n{}\r\n", &bytes[..length]);
            }
            assert_eq!(peer.says(&requests.repeat(4)), "");
            is_within_its_bound(&mut peer);
        }
        let grown_kib = resident_kib(server.id()) - before_kib;
        println!("{grown_kib} KiB more than at first; {} evicted", figure(&mut peer, "evictions"));
        assert!(grown_kib < 80 << 10, "{grown_kib} KiB more than at first");
        drop(peer);
        assert_eq!(server.stop().code, Some(0));
    });
}

#[test]
fn what_is_no_request_ends_its_connection() {
    scenario(|| {
        let mut server = serve(&["--connections", "8"]);
        for bytes in [
            "x".repeat(4_000),
            format!("{}get a", " ".repeat(3_000)),
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
            "quit\r\nget a\r\n".to_owned(),
        ] {
            let mut peer = Peer::new(OURS);
            peer.send(bytes.as_bytes());
            assert_eq!(String::from_utf8_lossy(&peer.read_to_end()), "", "{:?}", &bytes[..10]);
        }
        // A header of the binary protocol whose lengths contradict each other is told so.
        let mut peer = Peer::new(OURS);
        peer.send(&[&[0x80, 0x00, 0x00, 0x10, 0x00, 0, 0, 0, 0, 0, 0, 1][..], &[7; 12], b"sixteen bytes..."].concat());
        let answer = peer.read_to_end();
        assert_eq!(answer.get(..8), Some(&[0x81, 0x00, 0, 0, 0, 0, 0, 0x81][..]), "{answer:?}");
        drop(peer);
        server.figures_when("all are closed", |figures| figures["cache"]["connections_open"] == 0);
        // More connections than there may be: the last is refused, and the others go on.
        let mut peers: Vec<Peer> = (0..8).map(|_| Peer::new(OURS)).collect();
        peers.iter_mut().for_each(|peer| assert_eq!(peer.says("get a\r\n"), "END\r\n"));
        // It may be told so before its call to connect has returned.
        if let Ok(mut late) = TcpStream::connect(OURS) {
            let outcome = late.read(&mut [0; 1]).map_err(|error| error.kind());
            assert!(matches!(outcome, Ok(0) | Err(ErrorKind::ConnectionReset)), "{outcome:?}");
        }
        assert_eq!(peers[0].says("get a\r\n"), "END\r\n");
        drop(peers);
        assert_eq!(server.stop().code, Some(0));
    });
}

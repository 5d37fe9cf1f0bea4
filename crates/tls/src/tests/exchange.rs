//! What is sent arrives, in both versions, however it is cut and however slowly it is taken.

use super::bench::{Bench, Files, Handler, Offsets, echo};
use crate::layer::{AHEAD_BYTES_MAX, AHEAD_BYTES_MIN, UNSENT_BYTES};
use bytes::Bytes;
use qanat_api::{Chunk, Commands, Event};
use rustls::version::{TLS12, TLS13};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

#[test]
fn what_is_sent_comes_back_in_both_versions_however_it_is_cut() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    for version in [&TLS13, &TLS12] {
        let client = Arc::new(files.client(&[version]));
        for cut in [1, 3, 4, 5, 7, 100, 1_448, 2_048] {
            let mut bench = Bench::new(&loaded, &client, echo());
            bench.cut = cut;
            bench.say(b"hello");
            assert_eq!((bench.read.as_slice(), &bench.failure), (b"hello".as_slice(), &None), "in chunks of {cut}");
            let long: Vec<u8> = (0..100_000).map(|at| Offsets::byte(at * 7)).collect();
            bench.read.clear();
            bench.say(&long);
            assert!(bench.read == long, "in chunks of {cut}");
            bench.client.send_close_notify();
            bench.run();
            assert!(bench.told().is_closed);
            let figures = bench.layer.figures();
            assert_eq!((figures.handshakes, figures.handshakes_failed, figures.connections_failed), (1, 0, 0));
            assert_eq!(figures.handshakes_tls12, u64::from(version == &TLS12));
            bench.end();
        }
    }
}

/// Answers each byte with a prepared object of so many bytes.
fn objects(length: u64, acknowledged: &Rc<RefCell<u64>>) -> Handler {
    let acknowledged = Rc::clone(acknowledged);
    Box::new(move |event, commands| match event {
        Event::Data { connection, chunk } => {
            for _ in 0..chunk.len() {
                commands.send(connection, Bytes::from_static(b"head")).unwrap();
                commands.send_prepared(connection, Rc::new(Offsets), 0, 5, length).unwrap();
                let mut block = commands.block(4);
                block.append(b"tail");
                commands.send_block(connection, block.filled()).unwrap();
            }
            commands.consume(connection, chunk);
        }
        Event::Acked { bytes, .. } => *acknowledged.borrow_mut() += u64::from(bytes),
        _ => {}
    })
}

#[test]
fn prepared_objects_blocks_and_bytes_are_sealed_in_order_and_acknowledged_by_content() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let body: Vec<u8> = (5..5 + 70_000).map(Offsets::byte).collect();
    let expected = [b"head".as_slice(), &body, b"tail"].concat().repeat(2);
    for version in [&TLS13, &TLS12] {
        for pieces_max in [1, 2, usize::MAX] {
            let client = Arc::new(files.client(&[version]));
            let acknowledged = Rc::default();
            let mut bench = Bench::new(&loaded, &client, objects(70_000, &acknowledged));
            // The stack is full now and then.
            bench.stack.pieces_max = pieces_max;
            bench.say(b"..");
            assert!(bench.read == expected, "{} bytes", bench.read.len());
            assert_eq!(*acknowledged.borrow(), expected.len() as u64);
        }
    }
}

#[test]
fn no_more_is_sealed_than_may_be_ahead_of_a_peer_that_takes_nothing() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let client = Arc::new(files.client(&[&TLS13]));
    let length = 8 << 20;
    let mut bench = Bench::new(&loaded, &client, objects(length, &Rc::default()));
    bench.run();
    use std::io::Write;
    bench.client.writer().write_all(b".").unwrap();
    let mut out = Vec::new();
    bench.client.write_tls(&mut out).unwrap();
    bench.data(&out);
    let waiting = |bench: &Bench| bench.told().sent.iter().map(|sent| sent.length() as usize).sum::<usize>();
    let first = waiting(&bench);
    assert!((AHEAD_BYTES_MIN..AHEAD_BYTES_MIN + 40_000).contains(&first), "{first}");
    // It grows with what is taken, up to a bound.
    let mut most = 0;
    loop {
        let bytes = bench.sent();
        if bytes.is_empty() {
            break;
        }
        bench.client_takes(&bytes);
        most = most.max(waiting(&bench));
    }
    assert!((AHEAD_BYTES_MIN * 2..=AHEAD_BYTES_MAX + 40_000).contains(&most), "{most}");
    assert_eq!(bench.read.len() as u64, length + 8);
}

#[test]
fn what_is_sealed_is_what_the_windows_let_go() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let length = 1 << 20;
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), objects(length, &Rc::default()));
    bench.run();
    let window = 50_000;
    bench.stack.window = Some(window);
    use std::io::Write;
    bench.client.writer().write_all(b".").unwrap();
    let mut out = Vec::new();
    bench.client.write_tls(&mut out).unwrap();
    bench.data(&out);
    loop {
        let waiting: i64 = bench.told().sent.iter().map(|sent| sent.length() as i64).sum();
        assert!(waiting < window + UNSENT_BYTES + 20_000, "{waiting}");
        let bytes = bench.sent();
        if bytes.is_empty() {
            break;
        }
        bench.client_takes(&bytes);
    }
    assert_eq!((bench.read.len() as u64, &bench.failure), (length + 8, &None));
}

#[test]
fn a_service_that_takes_nothing_keeps_the_window_shut() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    for version in [&TLS13, &TLS12] {
        let client = Arc::new(files.client(&[version]));
        let held: Rc<RefCell<Vec<Chunk>>> = Rc::default();
        let keeper = Rc::clone(&held);
        let mut bench = Bench::new(
            &loaded,
            &client,
            Box::new(move |event, _| {
                if let Event::Data { chunk, .. } = event {
                    keeper.borrow_mut().push(chunk);
                }
            }),
        );
        bench.run();
        use std::io::Write;
        bench.client.writer().write_all(&vec![7; 100 << 10]).unwrap();
        let mut out = Vec::new();
        while bench.client.wants_write() {
            bench.client.write_tls(&mut out).unwrap();
        }
        bench.data(&out);
        let lent = held.borrow().len();
        assert!((1..=4).contains(&lent), "{lent} records are with the service");
        if version == &TLS13 {
            // rustls reads ahead what it has been given; our own records are not opened.
            assert!(bench.receive.in_use_count() > 0, "the rest is not consumed");
        }
        assert!(bench.layer.figures().receive_waits > 0);
        let mut seen = 0;
        while let Some(chunk) = { held.borrow_mut().pop() } {
            seen += chunk.len();
            let id = bench.id;
            bench.command(|commands| commands.consume(id, chunk));
        }
        assert_eq!((seen, bench.receive.in_use_count()), (100 << 10, 0));
        bench.end();
    }
}

#[test]
fn keys_change_when_either_side_wants() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), echo());
    bench.say(b"first");
    bench.client.refresh_traffic_keys().unwrap();
    bench.say(b"second");
    // The client asks for new keys of ours with its own.
    assert_eq!((bench.read.as_slice(), bench.layer.figures().key_updates), (b"firstsecond".as_slice(), 2));
    bench.layer.wear(bench.id);
    bench.say(b"third");
    assert_eq!((bench.read.as_slice(), bench.layer.figures().key_updates), (b"firstsecondthird".as_slice(), 3));
    assert_eq!(bench.failure, None);
}

#[test]
fn each_side_may_end_first_and_the_other_goes_on() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    for version in [&TLS13, &TLS12] {
        let client = Arc::new(files.client(&[version]));
        // The service ends: what it gave before comes, then the end.
        let handler: Handler = Box::new(|event, commands| {
            if let Event::Data { connection, chunk } = event {
                commands.consume(connection, chunk);
                commands.send(connection, Bytes::from(vec![1; 300_000])).unwrap();
                commands.shutdown(connection).unwrap();
                assert!(commands.send(connection, Bytes::from_static(b"more")).is_err());
            }
        });
        let mut bench = Bench::new(&loaded, &client, handler);
        bench.say(b"x");
        assert_eq!((bench.read.len(), &bench.failure), (300_000, &None));
        assert!(bench.told().is_shut_down && !bench.told().is_closed);
        let id = bench.id;
        bench.command(|commands| commands.close(id).unwrap());
        assert!(bench.told().is_closed);
        bench.end();
        // The client ends, and is answered still.
        let handler: Handler = Box::new(|event, commands| {
            if let Event::PeerClosed { connection } = event {
                commands.send(connection, Bytes::from_static(b"last")).unwrap();
                commands.close(connection).unwrap();
            }
        });
        let mut bench = Bench::new(&loaded, &client, handler);
        bench.run();
        bench.client.send_close_notify();
        bench.run();
        assert_eq!((bench.read.as_slice(), bench.told().is_closed), (b"last".as_slice(), true));
        bench.end();
    }
}

#[test]
fn an_end_without_a_word_is_told_once() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    let ends = Rc::new(RefCell::new(0));
    let count = Rc::clone(&ends);
    let handler: Handler = Box::new(move |event, _| {
        if let Event::PeerClosed { .. } = event {
            *count.borrow_mut() += 1;
        }
    });
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), handler);
    bench.run();
    bench.client.send_close_notify();
    bench.run();
    bench.event(Event::PeerClosed { connection: bench.id });
    assert_eq!(*ends.borrow(), 1);
}

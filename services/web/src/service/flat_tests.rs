//! Content of a library: pieces are read as the peer takes them, in any order, and nobody holds the memory that others need.

use super::WebService;
use super::testing::{Bench, START_SECONDS, responses};
use crate::config::{Caching, WallClock, WebConfig};
use crate::content::{
    Content, FlatObject, Library, LibraryError, LibraryEvent, PIECE_BYTES, Representation, Shelf, Variant,
};
use qanat::double::StorageDouble;
use qanat::{AreaId, Block, ConnectionId, Event, StorageCommands};
use qanat_store::PolicyKind;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const OBJECT_BYTES: u64 = 40 * PIECE_BYTES + 777;

fn byte(at: u64) -> u8 {
    (at % 253) as u8 ^ (at / PIECE_BYTES) as u8
}

/// What a disk would do, done when the test says so.
#[derive(Debug, Default)]
struct Disk {
    asked: VecDeque<(u64, u64)>,
    told: VecDeque<LibraryEvent>,
    held: i64,
    reads: u64,
}

#[derive(Debug)]
struct OneFilm(Rc<RefCell<Disk>>);

impl Library for OneFilm {
    fn open(&mut self, _: &mut dyn StorageCommands) -> Result<(), LibraryError> {
        Ok(())
    }

    fn handle(&mut self, event: Event, _: &mut dyn StorageCommands) -> Option<Event> {
        Some(event)
    }

    fn next(&mut self, _: &mut dyn StorageCommands) -> Option<LibraryEvent> {
        self.0.borrow_mut().told.pop_front()
    }

    fn find(&mut self, path: &[u8]) -> Shelf {
        let representation = Representation {
            media_type: "video/mp4",
            etag: "\"1\"".to_owned(),
            last_modified: START_SECONDS - 10,
            coding: None,
            varies: false,
            cache_control: None,
            common: String::new(),
        };
        match path {
            b"film" => Shelf::Directory,
            b"film/x.mp4" => {
                Shelf::Holds(Rc::new(Variant::of_library(representation, Content::Flat(FlatObject(5)), OBJECT_BYTES)))
            }
            _ => Shelf::Empty,
        }
    }

    fn hold(&mut self, object: FlatObject) -> bool {
        self.0.borrow_mut().held += 1;
        object == FlatObject(5)
    }

    fn release(&mut self, _: FlatObject) {
        self.0.borrow_mut().held -= 1;
    }

    fn read(&mut self, _: FlatObject, piece: u64, token: u64, _: &mut dyn StorageCommands) -> Result<(), LibraryError> {
        let mut disk = self.0.borrow_mut();
        disk.asked.push_back((piece, token));
        disk.reads += 1;
        Ok(())
    }
}

struct Cinema {
    bench: Bench,
    disk: Rc<RefCell<Disk>>,
    storage: StorageDouble,
}

impl Cinema {
    fn new(pieces_max: usize) -> Cinema {
        Cinema::keeping(pieces_max, 0)
    }

    /// One that keeps so many pieces besides.
    fn keeping(pieces_max: usize, kept_max: usize) -> Cinema {
        let disk = Rc::new(RefCell::new(Disk::default()));
        let mut config = WebConfig::new("");
        config.wall_clock = WallClock::FromZero(START_SECONDS);
        config.rules.allow_origin = Some("*".to_owned());
        if kept_max > 0 {
            let bytes = kept_max * PIECE_BYTES as usize;
            config.read_cache = Caching::Own { bytes, policy: PolicyKind::default() };
        }
        let library = Box::new(OneFilm(Rc::clone(&disk)));
        let bench = Bench::of(WebService::of_library(config, library, pieces_max).unwrap());
        let storage = StorageDouble::new(AreaId::new(0, 0), 1 << 20).unwrap();
        let mut cinema = Cinema { bench, disk, storage };
        // Who asks before it is open waits.
        let early = cinema.ask("HEAD /film/x.mp4 HTTP/1.1\r\nHost: example\r\n\r\n");
        assert_eq!(cinema.serve(early), b"");
        cinema.disk.borrow_mut().told.push_back(LibraryEvent::Open);
        cinema.turn();
        assert_eq!(responses(&cinema.serve(early), &[true]).remove(0).status, 200);
        cinema.bench.end(early);
        cinema
    }

    fn turn(&mut self) {
        loop {
            let Some(desk) = &mut self.bench.service.desk else { return };
            let arrived = desk.submit(&mut self.storage).or_else(|| desk.next(&mut self.storage));
            if let Some(arrived) = arrived {
                self.bench.service.arrived_over(arrived, &mut self.bench.stack);
                continue;
            }
            let waiting = desk.take_waiting();
            if waiting.is_empty() {
                return;
            }
            self.bench.service.opened_over(waiting, &mut self.bench.stack);
        }
    }

    /// The disk has read all that it was asked for, the last first.
    fn read_all(&mut self) -> usize {
        let asked: Vec<(u64, u64)> = self.disk.borrow_mut().asked.drain(..).collect();
        for (piece, token) in asked.iter().rev() {
            let bytes: Vec<u8> = (piece * PIECE_BYTES..OBJECT_BYTES.min((piece + 1) * PIECE_BYTES)).map(byte).collect();
            let mut block = Block::own(bytes.len());
            block.append(&bytes);
            self.disk.borrow_mut().told.push_back(LibraryEvent::Read { token: *token, result: Ok(block) });
        }
        self.turn();
        asked.len()
    }

    fn ask(&mut self, request: &str) -> ConnectionId {
        let id = self.bench.open();
        self.bench.data(id, request);
        self.turn();
        id
    }

    fn serve(&mut self, id: ConnectionId) -> Vec<u8> {
        loop {
            let read = self.read_all();
            let taken = self.take(id);
            if read == 0 && taken == 0 {
                return self.bench.peer.streams.get(&id).cloned().unwrap_or_default();
            }
        }
    }

    fn take(&mut self, id: ConnectionId) -> u64 {
        let bytes = self.bench.transmit(id);
        if bytes > 0 {
            self.bench.event(Event::Acked { connection: id, bytes: bytes as u32 });
        }
        self.turn();
        bytes
    }

    fn held(&self) -> usize {
        self.bench.service.desk.as_ref().unwrap().held_count()
    }
}

const WHOLE: &str = "GET /film/x.mp4 HTTP/1.1\r\nHost: example\r\n\r\n";

#[test]
fn an_object_and_its_ranges_come_as_they_are_and_nothing_is_kept() {
    let mut cinema = Cinema::new(64);
    let cases = [
        ("", 0, OBJECT_BYTES),
        ("bytes=1-1", 1, 2),
        ("bytes=16383-16384", 16_383, 16_385),
        ("bytes=-778", OBJECT_BYTES - 778, OBJECT_BYTES),
    ];
    for (range, first, end) in cases {
        let field = if range.is_empty() { String::new() } else { format!("Range: {range}\r\n") };
        let id = cinema.ask(&format!("GET /film/x.mp4?x=1 HTTP/1.1\r\nHost: example\r\n{field}\r\n"));
        let stream = cinema.serve(id);
        let response = responses(&stream, &[false]).remove(0);
        assert_eq!(response.status, if range.is_empty() { 200 } else { 206 });
        assert!(response.body == (first..end).map(byte).collect::<Vec<u8>>(), "{range}");
        assert_eq!(response.field("access-control-allow-origin"), Some("*"));
        cinema.bench.end(id);
        cinema.turn();
        assert_eq!((cinema.held(), cinema.disk.borrow().held), (0, 0));
    }
    let several =
        cinema.ask("GET /film/x.mp4 HTTP/1.1\r\nHost: example\r\nRange: bytes=0-9,50000-50009,100-100\r\n\r\n");
    let text = String::from_utf8_lossy(&cinema.serve(several)).into_owned();
    assert!(text.contains("multipart/byteranges") && text.contains("bytes 50000-50009/"), "{text}");
    let head = cinema.ask("HEAD /film/x.mp4 HTTP/1.1\r\nHost: example\r\n\r\n");
    let head = responses(&cinema.serve(head), &[true]).remove(0);
    assert_eq!(head.field("content-length"), Some(OBJECT_BYTES.to_string().as_str()));
    let same = cinema.ask("GET /film/x.mp4 HTTP/1.1\r\nHost: example\r\nIf-None-Match: \"1\"\r\n\r\n");
    assert_eq!(responses(&cinema.serve(same), &[false]).remove(0).status, 304);
    let folder = cinema.ask("GET /film HTTP/1.1\r\nHost: example\r\n\r\n");
    assert_eq!(responses(&cinema.serve(folder), &[false]).remove(0).field("location"), Some("/film/"));
    let none = cinema.ask("GET /film/../y HTTP/1.1\r\nHost: example\r\n\r\n");
    assert_eq!(responses(&cinema.serve(none), &[false]).remove(0).status, 404);
}

#[test]
fn no_more_is_read_than_the_peer_takes() {
    let mut cinema = Cinema::new(64);
    cinema.bench.stack.window = Some(3 * PIECE_BYTES as i64);
    let id = cinema.ask(WHOLE);
    let mut rounds = 0;
    loop {
        let read = cinema.read_all() as u64;
        assert!(read <= 4, "{read} pieces were read into a window of three");
        cinema.read_all();
        let most = cinema.held();
        assert!(most <= 8, "{most} pieces are held");
        rounds += 1;
        if cinema.take(id) == 0 {
            break;
        }
    }
    assert!(rounds >= 10, "{rounds}");
    assert_eq!(cinema.disk.borrow().reads, OBJECT_BYTES.div_ceil(PIECE_BYTES));
    assert_eq!(cinema.bench.service.figures().streams, 0);
}

#[test]
fn a_peer_that_takes_nothing_leaves_memory_for_others() {
    let mut cinema = Cinema::new(16);
    let hogs: Vec<ConnectionId> = (0..40).map(|_| cinema.ask(WHOLE)).collect();
    while cinema.read_all() > 0 {}
    assert_eq!(cinema.held(), 8, "it has as many as are left");
    let id = cinema.bench.open_from("198.51.100.1:1");
    cinema.bench.data(id, WHOLE);
    cinema.turn();
    let stream = cinema.serve(id);
    assert_eq!(responses(&stream, &[false]).remove(0).body.len() as u64, OBJECT_BYTES);
    // Those who wait go on when some of it comes back.
    cinema.bench.end(hogs[0]);
    for hog in &hogs[1..] {
        let stream = loop {
            cinema.bench.pass(std::time::Duration::from_millis(250));
            let stream = cinema.serve(*hog);
            if stream.len() as u64 > OBJECT_BYTES {
                break stream;
            }
        };
        assert_eq!(responses(&stream, &[false]).remove(0).body.len() as u64, OBJECT_BYTES);
        cinema.bench.end(*hog);
    }
    cinema.bench.end(id);
    cinema.turn();
    assert_eq!((cinema.held(), cinema.disk.borrow().held), (0, 0));
}

#[test]
fn a_piece_that_cant_be_read_ends_its_connection_alone() {
    let mut cinema = Cinema::new(64);
    let (first, second) = (cinema.ask(WHOLE), cinema.ask(WHOLE));
    let (_, token) = cinema.disk.borrow_mut().asked.pop_front().unwrap();
    let error = LibraryError::of(std::io::Error::other("rotten"));
    cinema.disk.borrow_mut().told.push_back(LibraryEvent::Read { token, result: Err(error) });
    cinema.turn();
    assert!(cinema.bench.stack.connections[&first].is_aborted);
    cinema.bench.end(first);
    assert_eq!(responses(&cinema.serve(second), &[false]).remove(0).body.len() as u64, OBJECT_BYTES);
    assert_eq!(cinema.bench.service.figures().stream_errors, 1);
    assert_eq!(cinema.bench.service.take_notes(), ["the library: rotten"]);
    cinema.bench.end(second);
    cinema.turn();
    assert_eq!((cinema.held(), cinema.disk.borrow().held), (0, 0));
}

const PIECES: u64 = OBJECT_BYTES.div_ceil(PIECE_BYTES);

#[test]
fn what_is_kept_is_read_once_for_all_viewers() {
    let mut cinema = Cinema::keeping(64, 64);
    let whole: Vec<u8> = (0..OBJECT_BYTES).map(byte).collect();
    // Two at the same time: each piece is read for the first that asks.
    let viewers = [cinema.ask(WHOLE), cinema.ask(WHOLE)];
    for id in viewers {
        assert!(responses(&cinema.serve(id), &[false]).remove(0).body == whole);
    }
    assert_eq!(cinema.disk.borrow().reads, PIECES);
    // Later: nothing is read, whatever the range.
    let (first, end) = (PIECE_BYTES - 5, 7 * PIECE_BYTES + 5);
    let ranges = [(0, OBJECT_BYTES), (first, end), (OBJECT_BYTES - 1, OBJECT_BYTES), (3, 4)];
    for (first, end) in ranges {
        let range = format!("Range: bytes={first}-{}", end - 1);
        let id = cinema.ask(&format!("GET /film/x.mp4 HTTP/1.1\r\nHost: example\r\n{range}\r\n\r\n"));
        let body = responses(&cinema.serve(id), &[false]).remove(0).body;
        assert!(body == whole[first as usize..end as usize], "{range}");
        cinema.bench.end(id);
    }
    assert_eq!(cinema.disk.borrow().reads, PIECES);
    viewers.into_iter().for_each(|id| cinema.bench.end(id));
    cinema.turn();
    let figures = cinema.bench.service.figures();
    assert_eq!((figures.pieces_read, figures.piece_bytes_read), (PIECES, OBJECT_BYTES));
    assert_eq!((figures.read_cache.pieces, figures.read_cache.inserted), (PIECES, PIECES));
    assert!(figures.read_cache.hits > PIECES, "{figures:?}");
    assert_eq!((cinema.held(), cinema.disk.borrow().held), (0, 0));
}

#[test]
fn a_cache_holds_no_more_than_it_may() {
    let mut cinema = Cinema::keeping(64, 8);
    for _ in 0..3 {
        let id = cinema.ask(WHOLE);
        assert_eq!(responses(&cinema.serve(id), &[false]).remove(0).body.len() as u64, OBJECT_BYTES);
        cinema.bench.end(id);
        assert!(cinema.bench.service.figures().read_cache.pieces <= 8);
    }
    assert!(cinema.disk.borrow().reads > 2 * PIECES);
}

// Attack: time and cost: pieces of films held by who asks for what is kept, and takes nothing
#[test]
fn a_peer_holds_kept_pieces_as_it_holds_others() {
    let mut cinema = Cinema::keeping(16, 64);
    let id = cinema.ask(WHOLE);
    cinema.serve(id);
    cinema.bench.end(id);
    for _ in 0..40 {
        cinema.ask(WHOLE);
    }
    assert_eq!(cinema.held(), 8, "it has as many as are left");
}

#[test]
fn if_a_shared_read_fails_each_who_waits_reads_for_itself() {
    let mut cinema = Cinema::keeping(64, 64);
    let viewers = [cinema.ask(WHOLE), cinema.ask(WHOLE), cinema.ask(WHOLE)];
    let (piece, token) = cinema.disk.borrow_mut().asked.pop_front().unwrap();
    assert!(cinema.disk.borrow().asked.iter().all(|(other, _)| *other != piece), "it is asked for once");
    let error = LibraryError::of(std::io::Error::other("rotten"));
    cinema.disk.borrow_mut().told.push_back(LibraryEvent::Read { token, result: Err(error) });
    cinema.turn();
    let aborted = viewers.map(|id| cinema.bench.stack.connections[&id].is_aborted);
    assert_eq!(aborted, [true, false, false]);
    for id in &viewers[1..] {
        assert_eq!(responses(&cinema.serve(*id), &[false]).remove(0).body.len() as u64, OBJECT_BYTES);
    }
    viewers.into_iter().for_each(|id| cinema.bench.end(id));
    cinema.turn();
    assert_eq!((cinema.held(), cinema.disk.borrow().held), (0, 0));
}

#[test]
fn a_library_that_is_not_open_is_told_to_clients() {
    let mut cinema = Cinema::new(64);
    let error = LibraryError::of(std::io::Error::other("gone"));
    cinema.disk.borrow_mut().told.push_back(LibraryEvent::Failed(error));
    cinema.turn();
    let id = cinema.ask(WHOLE);
    assert_eq!(responses(&cinema.serve(id), &[false]).remove(0).status, 503);
}

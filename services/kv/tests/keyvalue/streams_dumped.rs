//! Streams in dumps: what redis-server 7.0.15 wrote, what is written here, and what nobody wrote.

use crate::client::{Store, contents};
use proptest::prelude::*;
use qanat_kv::keyspace::space::Keyspace;
use qanat_kv::rdb::payload::{self, PayloadError, close};
use qanat_kv::rdb::reader::Reader;
use qanat_kv::rdb::writer;

/// DUMP of a stream with three groups; its entries lie in pieces of five, and some are gone.
const DUMPED: &[u8] = include_bytes!("dumps/stream.dump");
/// A file with a stream, a string and a library of functions.
const FILE: &[u8] = include_bytes!("dumps/stream.rdb");
/// What a key of these tests may have.
const BYTES_MAX: usize = 1 << 20;

fn restore(store: &mut Store, key: &str, payload: &[u8]) -> String {
    let head = format!("*4\r\n$7\r\nrestore\r\n${}\r\n{key}\r\n$1\r\n0\r\n${}\r\n", key.len(), payload.len());
    store.say(0, &[head.as_bytes(), payload, b"\r\n"].concat())
}

/// What DUMP gives of a key.
fn dump(store: &Store, key: &[u8]) -> Vec<u8> {
    payload::write(&store.state.keyspace.find(0, key).unwrap().value)
}

/// What redis-server answered of the stream that it dumped.
const ANSWERS: [(&str, &str); 7] = [
    ("xlen s", ":32"),
    (
        "xrange s - + count 3",
        "*3 *2 $3 1-1 *4 $4 name $4 Sara $3 age $2 42 *2 $3 2-1 *2 $5 other $1 x *2 $3 5-0 *4 $4 name $3 Eve $3 age $19 9223372036854775807",
    ),
    ("xrange s 12-0 13-9999", "*1 *2 $7 13-3000 *4 $1 n $2 -2 $1 v $6 230000"),
    ("xpending s g1", "*4 :4 $3 1-1 $4 10-0 *2 *2 $5 alice $1 3 *2 $3 bob $1 1"),
    (
        "xinfo groups s",
        "*3 *12 $4 name $5 12345 $9 consumers :1 $7 pending :0 $17 last-delivered-id $22 18446744073709551614-5 $12 entries-read $-1 $3 lag :0 \
         *12 $4 name $2 g1 $9 consumers :2 $7 pending :4 $17 last-delivered-id $4 10-0 $12 entries-read $-1 $3 lag $-1 \
         *12 $4 name $2 g3 $9 consumers :0 $7 pending :0 $17 last-delivered-id $4 11-0 $12 entries-read :9 $3 lag $-1",
    ),
    ("xpending s g1 5-1 5-1 1 alice", "*1 *4 $3 5-1 $5 alice :999000 :7"),
    ("xadd s 1-1 a b", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
];

#[test]
fn what_redis_dumped_is_there_and_comes_back() {
    let mut store = Store::new(1);
    assert_eq!(restore(&mut store, "s", DUMPED), "+OK");
    store.hears(&ANSWERS);
    assert!(store.line("xinfo stream s").contains("$20 max-deleted-entry-id $8 39-29000 $13 entries-added :36"));
    // What is written here has all of it, too.
    let mut other = Store::new(1);
    assert_eq!(restore(&mut other, "s", &dump(&store, b"s")), "+OK");
    other.hears(&ANSWERS);
    assert_eq!(contents(&other.state.keyspace), contents(&store.state.keyspace));
    assert_eq!(restore(&mut other, "s", DUMPED), "-BUSYKEY Target key name already exists.");
}

#[test]
fn files_have_streams() {
    let mut keyspace = Keyspace::default();
    let mut reader = Reader::new(FILE, false).expect("a dump");
    while let Some(item) = reader.next_key().expect("a key") {
        keyspace.put(item.database, &item.key, &item.entry);
    }
    assert_eq!(reader.skipped().functions, 1);
    let before = contents(&keyspace);
    let mut file = Vec::new();
    writer::write(&keyspace, &mut file, |_| {}).expect("memory takes it");
    let mut store = Store::over(keyspace, 1);
    store.hears(&[
        ("xrange stream - +", "*1 *2 $3 1-1 *2 $1 a $1 b"),
        ("xpending stream g", "*4 :1 $3 1-1 $3 1-1 *1 *2 $1 c $1 1"),
        ("type after", "+string"),
    ]);
    let (mut copy, mut reader) = (Keyspace::default(), Reader::new(file.as_slice(), false).expect("a dump"));
    while let Some(item) = reader.next_key().expect("a key") {
        copy.put(item.database, &item.key, &item.entry);
    }
    assert_eq!(contents(&copy), before);
}

/// A piece with one entry, 1-1 with field a that is b, and the elements that are given for it.
fn piece(entry: &[u8]) -> Vec<u8> {
    let inner = [b"\x01\x01\x00\x01\x01\x01\x81a\x02\x00\x01".as_slice(), entry, b"\xff"].concat();
    let header = [&(inner.len() as u32 + 6).to_le_bytes()[..], &[0xff, 0xff]].concat();
    let bytes = [header, inner].concat();
    [&[16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, bytes.len() as u8][..], &bytes].concat()
}

const ENTRY: &[u8] = b"\x02\x01\x00\x01\x00\x01\x81b\x02\x04\x01";

#[test]
fn all_three_types_are_read() {
    let id = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let pending = [&[1][..], &id, &[5, 0, 0, 0, 0, 0, 0, 0, 3]].concat();
    for kind in [15, 19, 21] {
        let mut body = [&[kind, 1][..], &piece(ENTRY), &[1, 7, 7]].concat();
        // The first id, the greatest one that was deleted, and how many there were.
        body.extend((kind > 15).then_some([1, 1, 0, 0, 9]).into_iter().flatten());
        body.extend([1, 1, b'g', 7, 7]);
        body.extend((kind > 15).then_some(9));
        body.extend_from_slice(&pending);
        body.extend([1, 1, b'c', 6, 0, 0, 0, 0, 0, 0, 0]);
        body.extend((kind == 21).then_some([0; 8]).into_iter().flatten());
        body.extend([&[1][..], &id].concat());
        let mut store = Store::new(1);
        assert_eq!(restore(&mut store, "s", &close(body)), "+OK", "{kind}");
        let read = if kind > 15 { 9 } else { 1 };
        store.hears(&[
            ("xrange s - +", "*1 *2 $3 1-1 *2 $1 a $1 b"),
            ("xpending s g - + 9", "*1 *4 $3 1-1 $1 c :999995 :3"),
            (
                "xinfo groups s",
                &format!("*1 *12 $4 name $1 g $9 consumers :1 $7 pending :1 $17 last-delivered-id $3 7-7 $12 entries-read :{read} $3 lag :0"),
            ),
        ]);
    }
}

#[test]
fn what_is_no_stream_is_refused() {
    let whole = |entry: &[u8], rest: &[u8]| [&[19, 1][..], &piece(entry), rest].concat();
    let good = &[1, 7, 7, 1, 1, 0, 0, 1, 0];
    assert!(payload::read(&close(whole(ENTRY, good)), BYTES_MAX).is_ok());
    let id = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let group = |rest: &[u8]| [&[1, 7, 7, 1, 1, 0, 0, 1, 1, 1, b'g', 0, 0, 0][..], rest].concat();
    let pending = [&id[..], &[0; 9]].concat();
    for body in [
        // Flags that there are not, a count of elements that is none, no fields, and an entry that is gone in place of one that is there.
        whole(b"\x04\x01\x00\x01\x00\x01\x81b\x02\x04\x01", good),
        whole(b"\x02\x01\x00\x01\x00\x01\x81b\x02\x05\x01", good),
        whole(b"\x00\x01\x00\x01\x00\x01\x00\x01\x04\x01", good),
        whole(b"\x03\x01\x00\x01\x00\x01\x81b\x02\x04\x01", good),
        // No element at all, and a text where a number has to be.
        whole(b"", good),
        whole(b"\x81x\x02\x00\x01\x00\x01\x81b\x02\x04\x01", good),
        // Another length, a last id before the entry, and the same piece twice.
        whole(ENTRY, &[2, 7, 7, 1, 1, 0, 0, 1, 0]),
        whole(ENTRY, &[1, 1, 0, 1, 1, 0, 0, 1, 0]),
        [&[19, 2][..], &piece(ENTRY), &piece(ENTRY), &[2, 7, 7, 1, 1, 0, 0, 1, 0]].concat(),
        // An id of another length.
        [19, 1, 1, 0].to_vec(),
        // Pending and nobody's; a consumer's and not pending; twice; two consumers and two groups of one name.
        whole(ENTRY, &group(&[&[1][..], &pending, &[0]].concat())),
        whole(ENTRY, &group(&[&[0, 1, 1, b'c'][..], &[0; 8], &[1], &id].concat())),
        whole(ENTRY, &group(&[&[2][..], &pending, &pending, &[0]].concat())),
        whole(ENTRY, &group(&[&[0, 2, 1, b'c'][..], &[0; 9], &[1, b'c'], &[0; 9]].concat())),
        whole(ENTRY, &[1, 7, 7, 1, 1, 0, 0, 1, 2, 1, b'g', 0, 0, 0, 0, 0, 1, b'g', 0, 0, 0, 0, 0]),
        // More than there can be.
        [&[19][..], &[0x81], &[0xff; 8]].concat(),
        whole(ENTRY, &group(&[&[0x81][..], &[0xff; 8]].concat())),
    ] {
        let read = payload::read(&close(body.clone()), BYTES_MAX);
        assert!(matches!(read, Err(PayloadError::Value(_))), "{body:?}");
    }
}

/// Entries that are gone cost nothing, however long the names of their fields are; those that are there are counted with these.
#[test]
fn short_payloads_do_not_make_long_streams() {
    let mut store = Store::new(1);
    let name = "n".repeat(4_000);
    for number in 1..=20 {
        store.line(&format!("xadd s {number}-1 {name} v"));
    }
    let payload = dump(&store, b"s");
    assert!(payload.len() < 6_000 * 20);
    assert!(payload::read(&payload, 20_000).is_err());
    assert!(payload::read(&payload, 200_000).is_ok());
}

proptest! {
    #[test]
    fn damage_makes_nothing_worse_than_an_error(place in 0..DUMPED.len() - 10, byte: u8, cut in 0..DUMPED.len()) {
        let mut body = DUMPED[..DUMPED.len() - 10].to_vec();
        body[place] = byte;
        for body in [body.clone(), body[..cut.min(body.len())].to_vec()] {
            if let Ok(value) = payload::read(&close(body), BYTES_MAX) {
                // What is taken can be written, and read again.
                let written = payload::write(&value);
                let again = payload::read(&written, BYTES_MAX).expect("what was written");
                prop_assert_eq!(again.bytes(), value.bytes());
            }
        }
    }
}

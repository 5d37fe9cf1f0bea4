//! Dumps: files that redis-server 7.0.15 wrote with each of its encodings, one as older versions wrote theirs, and whatever is written here.

use crate::client::{Store, contents};
use crate::replay::request;
use proptest::prelude::*;
use qanat_kv::keyspace::change::Change;
use qanat_kv::keyspace::space::Keyspace;
use qanat_kv::rdb::error::{RdbError, Wrong};
use qanat_kv::rdb::payload;
use qanat_kv::rdb::reader::{Reader, Skipped};
use qanat_kv::rdb::writer;

const PACKED: &[u8] = include_bytes!("dumps/packed.rdb");
const PLAIN: &[u8] = include_bytes!("dumps/plain.rdb");
const OLD: &[u8] = include_bytes!("dumps/old.rdb");
const NEWER: &[u8] = include_bytes!("dumps/newer.rdb");
const STREAM: &[u8] = include_bytes!("dumps/stream.rdb");

fn read(dump: &[u8], skips: bool) -> Result<(Keyspace, Skipped), RdbError> {
    let mut keyspace = Keyspace::default();
    let mut reader = Reader::new(dump, skips)?;
    while let Some(item) = reader.next_key()? {
        keyspace.put(item.database, &item.key, &item.entry);
    }
    Ok((keyspace, reader.skipped()))
}

fn written(keyspace: &Keyspace) -> Vec<u8> {
    let mut dump = Vec::new();
    writer::write(keyspace, &mut dump, |_| {}).expect("memory takes it");
    dump
}

#[test]
fn what_redis_wrote_is_there() {
    for dump in [PACKED, PLAIN] {
        let (keyspace, _) = read(dump, false).expect("a dump");
        let mut store = Store::over(keyspace, 1);
        store.hears(&[
            ("dbsize", ":14"),
            ("get word", "$5 hello"),
            ("get number", "$5 12345"),
            ("get negative", "$6 -70000"),
            ("get large", "$19 9223372036854775807"),
            ("strlen empty", ":0"),
            ("lrange list 2 -1", "*6 $1 1 $2 -5 $3 300 $5 70000 $8 -3000000 $19 9223372036854775807"),
            ("hmget hash f n m", "*3 $1 v $1 1 $5 -2000"),
            ("smismember ints 1 2 300000 4", "*4 :1 :1 :1 :0"),
            ("sismember bigints -9223372036854775808", ":1"),
            ("smismember words a b c 7", "*4 :1 :1 :1 :1"),
            ("zrange ranks 0 -1", "*5 $3 low $3 one $3 two $4 huge $4 high"),
            ("zscore ranks huge", "$6 1e+100"),
            ("pexpiretime later", ":4102444800000"),
            ("getrange compressed 0 5", "$6 abcdab"),
            ("llen longlist", ":3"),
            ("select 3", "+OK"),
            ("get other", "$2 db"),
        ]);
    }
}

#[test]
fn what_older_and_newer_versions_wrote_is_there() {
    let (keyspace, _) = read(OLD, false).expect("a dump");
    let mut store = Store::over(keyspace, 1);
    store.hears(&[
        ("pexpiretime seconds", ":2147483647000"),
        ("lrange list 0 -1", "*2 $1 a $5 12345"),
        ("zrange zset 0 -1 withscores", "*8 $3 low $4 -inf $1 b $2 -3 $1 a $3 2.5 $4 high $3 inf"),
        ("hmget zipmap f g", "*2 $1 v $2 ww"),
        ("lrange ziplist 0 7", "*8 $1 a $1 3 $4 -100 $4 1000 $6 -70000 $8 -3000000 $10 1073741824 $13 1099511627776"),
        ("lrange ziplist 9 9", "*1 $5 after"),
        ("zscore zsetzl n", "$3 2.5"),
        ("hmget hashzl f g", "*2 $1 v $2 -5"),
        ("lrange quick 12 -1", "*1 $3 end"),
    ]);
    let (keyspace, _) = read(NEWER, false).expect("a dump");
    Store::over(keyspace, 1).hears(&[("smismember setlp a bc d", "*3 :1 :1 :0")]);
}

#[test]
fn values_of_modules_are_refused_by_name_or_passed_over() {
    // A dump of one key, with a module's number and nothing behind it.
    let mut dump = b"REDIS0010\x07\x06module\x81\x00\x00\x00\x00\x00\x00\x00\x01\x00\xff".to_vec();
    dump.extend_from_slice(&crc::Crc::<u64>::new(&crc::CRC_64_REDIS).checksum(&dump).to_le_bytes());
    let error = read(&dump, false).expect_err("a module");
    assert_eq!(error.key.as_deref(), Some(b"module".as_slice()));
    assert_eq!(error.wrong, Wrong::Unsupported { kind: "value of a module", number: 7 });
    assert!(error.to_string().contains("key \"module\""), "{error}");
    let (keyspace, skipped) = read(&dump, true).expect("a dump");
    assert_eq!((keyspace.len(), skipped.keys), (0, 1));
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    for dump in [PACKED, PLAIN, STREAM] {
        for length in 0..dump.len() {
            assert!(read(&dump[..length], true).is_err(), "{length}");
        }
        for place in 0..dump.len() {
            let mut damaged = dump.to_vec();
            damaged[place] ^= 0x10;
            // Without a checksum, or with a version that had none, there is nothing to notice it by.
            assert!(read(&damaged, true).is_err() || place < 9, "{place}");
        }
    }
}

#[test]
fn a_value_is_carried_as_redis_does() {
    let mut store = Store::new(1);
    let no = "-ERR Bad data format";
    store.hears(&[
        ("dump k", "$-1"),
        ("set k hello", "+OK"),
        ("dump k", "$17 \\x00\\x05hello\\n\\x00cr\\xdfve4 \\n"),
        ("restore k 0 \"\\x00\\x05hello\\n\\x00cr\\xdfve4 \\n\"", "-BUSYKEY Target key name already exists."),
        ("restore new 0 \"\\x00\\x05hello\\n\\x00cr\\xdfve4 \\n\"", "+OK"),
        ("get new", "$5 hello"),
        ("restore k 100 \"\\x00\\x05hello\\n\\x00cr\\xdfve4 \\n\" replace idletime 5", "+OK"),
        ("pttl k", ":100"),
        ("restore k 1 \"\\x00\\x05hello\\n\\x00cr\\xdfve4 \\n\" replace absttl freq 255", "+OK"),
        ("exists k", ":0"),
        ("restore a x xx", "-ERR value is not an integer or out of range"),
        ("restore a -1 xx", "-ERR Invalid TTL value, must be >= 0"),
        ("restore a 0 xx idletime -1", "-ERR Invalid IDLETIME value, must be >= 0"),
        ("restore a 0 xx freq 256", "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ("restore a 0 xx idletime 1 freq 1", "-ERR syntax error"),
        ("restore a 0 xx freq", "-ERR syntax error"),
        ("restore a 0 xx", "-ERR DUMP payload version or checksum are wrong"),
    ]);
    // An empty set, with the end that belongs to it.
    let mut body = vec![2, 0, 10, 0];
    let sum = crc::Crc::<u64>::new(&crc::CRC_64_REDIS).checksum(&body);
    body.extend_from_slice(&sum.to_le_bytes());
    let request = [b"*4\r\n$7\r\nrestore\r\n$1\r\nz\r\n$1\r\n0\r\n$12\r\n".as_slice(), &body, b"\r\n"].concat();
    assert_eq!(store.say(0, &request), no);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(requests in prop::collection::vec(request(), 0..80)) {
        let mut store = Store::new(1);
        requests.iter().for_each(|line| drop(store.line(line)));
        // Functions are written, and are passed over by who reads.
        let keyspace = &mut store.state.keyspace;
        while let Some(name) = keyspace.libraries.at(0).map(|(name, _)| Box::<[u8]>::from(name)) {
            keyspace.change(0, Change::DeleteLibrary { name: &name });
        }
        let dump = written(keyspace);
        let (copy, _) = read(&dump, false).expect("a dump");
        prop_assert_eq!(contents(&copy), contents(keyspace));
        for (_, entry) in keyspace.database(0).iter() {
            let payload = payload::write(&entry.value);
            let value = payload::read(&payload, 1 << 20).expect("a payload");
            prop_assert_eq!(value.kind(), entry.value.kind());
            prop_assert_eq!(value.bytes(), entry.value.bytes());
        }
    }
}

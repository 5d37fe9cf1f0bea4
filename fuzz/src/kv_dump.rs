//! Dumps of Redis, and values as RESTORE takes them, that may be anybody's: what is taken is written, and read as the same. What is there
//! takes no more than it may.

use qanat_kv::keyspace::space::Keyspace;
use qanat_kv::rdb::reader::Reader;
use qanat_kv::rdb::{payload, writer};

/// Bytes that a value may have here.
const BYTES_MAX: usize = 1 << 20;

/// Redis' checksum, bit by bit: not the code that is tried.
fn checksum(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 })
    })
}

/// Makes the checksum at the end right.
pub fn repair(data: &mut [u8]) {
    if let Some((body, end)) = data.split_last_chunk_mut::<8>() {
        *end = checksum(body).to_le_bytes();
    }
}

fn read(dump: &[u8]) -> Option<Keyspace> {
    let mut keyspace = Keyspace::default();
    let mut reader = Reader::new(dump, true).ok()?;
    loop {
        match reader.next_key() {
            Ok(Some(item)) => keyspace.put(item.database, &item.key, &item.entry),
            Ok(None) => return Some(keyspace),
            Err(error) => {
                assert!(error.offset <= dump.len() as u64);
                return None;
            }
        }
    }
}

/// As a file, and as a payload.
pub fn kv_dump(data: &[u8]) {
    if let Some(keyspace) = read(data) {
        let mut dump = Vec::new();
        let mut all = keyspace;
        all.now_ms = i64::MIN;
        writer::write(&all, &mut dump, |_| {}).expect("memory takes it");
        let copy = read(&dump).expect("what was written is read");
        assert_eq!((copy.len(), copy.bytes()), (all.len(), all.bytes()));
    }
    if let Ok(value) = payload::read(data, BYTES_MAX) {
        assert!(!value.is_empty() && value.bytes() <= BYTES_MAX);
        let written = payload::write(&value);
        let copy = payload::read(&written, BYTES_MAX).expect("what was written is read");
        assert_eq!((copy.kind(), copy.bytes()), (value.kind(), value.bytes()));
    }
}

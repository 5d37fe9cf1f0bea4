//! The log of what was written to a drive (QEMU's `blklogwrites`, the format of the kernel's dm-log-writes): whether what was told as
//! durable was, at every moment at which the power might have failed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The first word of a log, and of the blocks that `tests/hardware/src/cases/durable.rs` writes.
const LOG_MAGIC: u64 = 0x006a_7366_7773_6872;
const BLOCK_MAGIC: u64 = 0x5141_4e41_5444_5552;
const SECTOR: usize = 512;
/// Of entries: all that was written before is durable when this one ends; nothing was written.
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

/// An entry.
struct Entry<'log> {
    sector: u64,
    flags: u64,
    data: &'log [u8],
}

/// What the log says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Blocks of the case's.
    pub writes: usize,
    /// Flushes, each of which was replayed to.
    pub flushes: usize,
    /// The most that a block said was durable.
    pub acknowledged: u64,
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    bytes.get(8 * index..8 * index + 8)?.try_into().map(u64::from_le_bytes).ok()
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// The entries of a log.
fn entries(log: &[u8]) -> io::Result<Vec<Entry<'_>>> {
    let count = match (word(log, 0), word(log, 1), word(log, 2)) {
        (Some(LOG_MAGIC), Some(1), Some(count)) => count,
        head => return Err(wrong(format!("this is no log of version 1: {head:x?}"))),
    };
    let (mut found, mut at) = (Vec::new(), SECTOR);
    for number in 0..count {
        let cut = || wrong(format!("the log ends in entry {number} of {count}"));
        let head = log.get(at..at + SECTOR).ok_or_else(cut)?;
        let (Some(sector), Some(sectors), Some(flags)) = (word(head, 0), word(head, 1), word(head, 2)) else {
            return Err(cut());
        };
        let bytes = if flags & DISCARD != 0 { 0 } else { sectors as usize * SECTOR };
        let data = log.get(at + SECTOR..at + SECTOR + bytes).ok_or_else(cut)?;
        found.push(Entry { sector, flags, data });
        at += SECTOR + bytes;
    }
    Ok(found)
}

/// Judges a log.
///
/// # Errors
/// The first entry at which something that had been told as durable was not, or what is wrong with the log.
pub fn judge(path: &Path) -> io::Result<Verdict> {
    let log = fs::read(path)?;
    judge_bytes(&log)
}

fn judge_bytes(log: &[u8]) -> io::Result<Verdict> {
    let mut verdict = Verdict::default();
    // Which durable writes are on the drive, and which were flushed with it; the drive's blocks as of the last flush.
    let (mut written, mut flushed): (BTreeMap<u64, u64>, BTreeMap<u64, u64>) = (BTreeMap::new(), BTreeMap::new());
    let (mut blocks, mut stable): (BTreeMap<u64, u64>, BTreeMap<u64, u64>) = (BTreeMap::new(), BTreeMap::new());
    for (index, entry) in entries(log)?.iter().enumerate() {
        for (offset, block) in (0..).zip(entry.data.chunks_exact(SECTOR)) {
            let sector = entry.sector + offset;
            if word(block, 0) != Some(BLOCK_MAGIC) {
                continue;
            }
            let (number, durable, acknowledged) = (word(block, 1), word(block, 2), word(block, 3));
            let (Some(number), Some(durable), Some(acknowledged)) = (number, durable, acknowledged) else { continue };
            verdict.writes += 1;
            verdict.acknowledged = verdict.acknowledged.max(acknowledged);
            if let Some((lost, _)) = written.range(..acknowledged).find(|(lost, _)| !flushed.contains_key(lost)) {
                let text =
                    format!("entry {index}: write {number} was made when {lost} had been told as durable, and was not");
                return Err(wrong(text));
            }
            // As after a loss of power now: each block has what was flushed last, or something newer.
            for (sector, lost) in flushed.range(..acknowledged).map(|(number, sector)| (sector, number)) {
                if stable.get(sector).is_none_or(|there| there < lost) {
                    return Err(wrong(format!("entry {index}: sector {sector} lost write {lost}")));
                }
            }
            blocks.insert(sector, number);
            if durable != 0 {
                written.insert(number, sector);
            }
        }
        if entry.flags & FLUSH != 0 {
            verdict.flushes += 1;
            flushed.clone_from(&written);
            stable.clone_from(&blocks);
        }
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of these blocks (number, durable, acknowledged) and flushes.
    fn log(of: &[Option<(u64, u64, u64)>]) -> Vec<u8> {
        let sector = |words: &[u64]| {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.resize(SECTOR, 0);
            bytes
        };
        let mut log = sector(&[LOG_MAGIC, 1, of.len() as u64, SECTOR as u64]);
        for entry in of {
            match entry {
                Some((number, durable, acknowledged)) => {
                    log.extend(sector(&[*number, 1, 0]));
                    log.extend(sector(&[BLOCK_MAGIC, *number, *durable, *acknowledged]));
                }
                None => log.extend(sector(&[0, 0, FLUSH])),
            }
        }
        log
    }

    #[test]
    fn what_was_told_before_its_flush_is_found() {
        let good = log(&[Some((0, 1, 0)), Some((1, 0, 0)), None, Some((2, 1, 2)), None, Some((3, 0, 3))]);
        let verdict = judge_bytes(&good).expect("all was flushed");
        assert_eq!(verdict, Verdict { writes: 4, flushes: 2, acknowledged: 3 });
        // The flush is missing, or came before the write.
        for bad in [vec![Some((0, 1, 0)), Some((1, 0, 1))], vec![None, Some((0, 1, 0)), Some((1, 0, 1)), None]] {
            let told = judge_bytes(&log(&bad)).expect_err("0 was not durable").to_string();
            assert!(told.contains("entry") && told.contains("0 had been told"), "{told}");
        }
        assert!(judge_bytes(&good[..good.len() - 1]).is_err() && judge_bytes(&[0; 600]).is_err());
    }
}

//! Middleware that writes down what is asked of a disk and when it answers: a text that can be read, and replayed.
//!
//! ```text
//! # qanat disk trace 1: block 512 bytes, 2048 blocks
//! 1203 s 0 read 128 16          at 1,203 ns request 0 was submitted: 16 blocks from 128 on
//! 1790 s 1 write 0 8 durable
//! 9120 e 0 ok                   request 0 ended
//! 11804 e 1 the device could not read or write the blocks
//! ```
//! Contents are not in it: a trace can be passed on. Numbers count submissions.

use crate::slots::Slots;
use crate::vsic::{Completion, Operation, Request, Vsic, VsicStatistics};
use qanat_api::Geometry;
use qanat_nic::{Clock, Time};
use std::fmt;
use std::io::{self, BufRead, Write};
use std::os::fd::BorrowedFd;

/// What was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A read of so many blocks from one on.
    Read {
        /// The first.
        block: u64,
        /// How many.
        blocks: u64,
    },
    /// A write of so many blocks from one on.
    Write {
        /// The first.
        block: u64,
        /// How many.
        blocks: u64,
        /// Whether it ends only when it survives a loss of power.
        durable: bool,
    },
    /// A flush.
    Flush,
    /// Zeroes for so many blocks from one on.
    WriteZeroes {
        /// The first.
        block: u64,
        /// How many.
        blocks: u64,
    },
}

/// A line of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A request was submitted.
    Submitted {
        /// When.
        time: Time,
        /// Its number.
        number: u64,
        /// What.
        asked: Asked,
    },
    /// A request ended.
    Ended {
        /// When.
        time: Time,
        /// Its number.
        number: u64,
        /// What went wrong, if anything.
        error: Option<String>,
    },
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Submitted { time, number, asked } => {
                write!(f, "{} s {number} ", time.as_nanos())?;
                match asked {
                    Asked::Read { block, blocks } => write!(f, "read {block} {blocks}"),
                    Asked::Write { block, blocks, durable: false } => write!(f, "write {block} {blocks}"),
                    Asked::Write { block, blocks, durable: true } => write!(f, "write {block} {blocks} durable"),
                    Asked::Flush => write!(f, "flush"),
                    Asked::WriteZeroes { block, blocks } => write!(f, "zero {block} {blocks}"),
                }
            }
            Entry::Ended { time, number, error: None } => write!(f, "{} e {number} ok", time.as_nanos()),
            Entry::Ended { time, number, error: Some(error) } => write!(f, "{} e {number} {error}", time.as_nanos()),
        }
    }
}

/// Why a trace can't be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// A line that is none of a trace's.
    #[error("line {line}: {text:?} is no line of a disk trace")]
    Line {
        /// Its number, from 1 on.
        line: usize,
        /// What it says, or the beginning of it.
        text: String,
    },
}

/// Longest line that is read, bytes.
const LINE_BYTES_MAX: u64 = 1_024;

/// Reads a trace, line by line; it ends at the first error.
pub fn read(mut input: impl BufRead) -> impl Iterator<Item = Result<Entry, TraceError>> {
    let (mut number, mut ended) = (0, false);
    std::iter::from_fn(move || {
        while !ended {
            number += 1;
            let mut line = Vec::new();
            match io::Read::take(&mut input, LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) if line.starts_with(b"#") || line.trim_ascii().is_empty() => continue,
                Ok(_) => {}
                Err(error) => {
                    ended = true;
                    return Some(Err(error.into()));
                }
            }
            let text = String::from_utf8_lossy(&line);
            let entry = parse(text.trim_end());
            ended = entry.is_none();
            let short = || text.trim_end().chars().take(60).collect();
            return Some(entry.ok_or_else(|| TraceError::Line { line: number, text: short() }));
        }
        None
    })
}

fn parse(line: &str) -> Option<Entry> {
    let (time, rest) = line.split_once(' ')?;
    let (kind, rest) = rest.split_once(' ')?;
    let (number, rest) = rest.split_once(' ')?;
    let (time, number) = (Time::from_nanos(time.parse().ok()?), number.parse().ok()?);
    if kind == "e" {
        let error = (rest != "ok").then(|| rest.to_owned());
        return Some(Entry::Ended { time, number, error });
    }
    let words: Vec<&str> = rest.split(' ').collect();
    let range = |block: &str, blocks: &str| Some((block.parse().ok()?, blocks.parse().ok()?));
    let asked = match (kind, words.as_slice()) {
        ("s", ["read", block, blocks]) => range(block, blocks).map(|(block, blocks)| Asked::Read { block, blocks })?,
        ("s", ["write", block, blocks]) => {
            range(block, blocks).map(|(block, blocks)| Asked::Write { block, blocks, durable: false })?
        }
        ("s", ["write", block, blocks, "durable"]) => {
            range(block, blocks).map(|(block, blocks)| Asked::Write { block, blocks, durable: true })?
        }
        ("s", ["flush"]) => Asked::Flush,
        ("s", ["zero", block, blocks]) => {
            range(block, blocks).map(|(block, blocks)| Asked::WriteZeroes { block, blocks })?
        }
        _ => return None,
    };
    Some(Entry::Submitted { time, number, asked })
}

/// Any device, with a record.
pub struct Trace<V, W: Write, C> {
    inner: V,
    output: W,
    clock: C,
    /// Of requests under way: the submitter's token, and the number.
    under_way: Slots<(u64, u64)>,
    submitted: u64,
    /// The first thing that went wrong with the output.
    failure: Option<io::Error>,
}

impl<V: Vsic, W: Write, C: Clock> Trace<V, W, C> {
    /// Writes down in `output` what is asked of `inner`. The caller buffers.
    pub fn new(inner: V, mut output: W, clock: C) -> Trace<V, W, C> {
        let Geometry { block_bytes, blocks, .. } = inner.geometry();
        let failure = writeln!(output, "# qanat disk trace 1: block {block_bytes} bytes, {blocks} blocks").err();
        Trace { inner, output, clock, under_way: Slots::new(), submitted: 0, failure }
    }

    /// The device and the output, and whether all has been written.
    ///
    /// # Errors
    /// What the output said first.
    pub fn finish(mut self) -> io::Result<(V, W)> {
        match self.failure.take() {
            Some(error) => Err(error),
            None => {
                self.output.flush()?;
                Ok((self.inner, self.output))
            }
        }
    }

    fn note(&mut self, entry: &Entry) {
        // The disk goes on if its record can't: `finish` tells.
        if self.failure.is_none() {
            self.failure = writeln!(self.output, "{entry}").err();
        }
    }
}

impl<V: Vsic, W: Write, C: Clock> Vsic for Trace<V, W, C> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    fn submit(&mut self, request: Request) -> Result<(), Request> {
        let block_bytes = self.geometry().block_bytes as usize;
        let asked = match &request.operation {
            Operation::Read { block, frame } => {
                Asked::Read { block: *block, blocks: (frame.len() / block_bytes) as u64 }
            }
            Operation::Write { block, frame, durable } => {
                Asked::Write { block: *block, blocks: (frame.len() / block_bytes) as u64, durable: *durable }
            }
            Operation::Flush => Asked::Flush,
            Operation::WriteZeroes { block, blocks } => Asked::WriteZeroes { block: *block, blocks: *blocks },
        };
        let number = self.submitted;
        let token = self.under_way.put((request.token, number));
        if let Err(refused) = self.inner.submit(Request { token, ..request }) {
            let (token, _) = self.under_way.take(refused.token).unwrap_or_default();
            return Err(Request { token, ..refused });
        }
        self.submitted += 1;
        self.note(&Entry::Submitted { time: self.clock.now(), number, asked });
        Ok(())
    }

    fn ring(&mut self) {
        self.inner.ring();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let before = completions.len();
        let count = self.inner.complete(completions, completions_max);
        let time = self.clock.now();
        for completion in completions.iter_mut().skip(before) {
            let Some((token, number)) = self.under_way.take(completion.token) else { continue };
            completion.token = token;
            let error = completion.result.err().map(|error| error.to_string());
            self.note(&Entry::Ended { time, number, error });
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.inner.doorbell()
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    fn statistics(&self) -> VsicStatistics {
        self.inner.statistics()
    }
}

impl<V: fmt::Debug, W: Write, C> fmt::Debug for Trace<V, W, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({:?}, {} submitted)", self.inner, self.submitted)
    }
}

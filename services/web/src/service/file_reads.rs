//! [`FileReads`]: pieces of streamed files that are being read, who waits for each, and those that are kept.
//!
//! ```text
//!  ask ──► kept ──► lent at once
//!      ├─► being read ──► waits for the same reading
//!      └─► a job for a reader ──► done ──► kept, and lent to all who wait
//! ```
//! A piece that is kept is a whole window, so that it serves ranges that begin anywhere. Without a cache only what is asked for is read.

use crate::config::Caching;
use crate::content::window::{ALIGNMENT, Window, WindowPool};
use crate::content::{FileIdentity, OpenFile};
use crate::readers::Job;
use qanat::{Bytes, ConnectionId};
use qanat_store::{ReadCache, ReadCacheFigures};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// A file that was changed so few seconds ago may change again without looking different: what is read of it is not kept.
const STEADY_SECONDS: u64 = 2;

/// A window of a file in one of its states.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct PieceKey {
    file: FileIdentity,
    number: u64,
}

/// A connection that waits, and its right to hold what it waits for.
#[derive(Debug)]
struct Waiter {
    connection: ConnectionId,
    window: Window,
}

#[derive(Debug)]
struct Reading {
    /// `None`: it is not to be kept, and nobody else waits for it.
    key: Option<PieceKey>,
    start: u64,
    file: Arc<OpenFile>,
    first: Waiter,
    /// Others that asked meanwhile.
    more: Vec<Waiter>,
}

/// What becomes of a question for a piece.
#[derive(Debug)]
pub enum Answer {
    /// It is here: its bytes from `start` on, lent.
    Here { start: u64, bytes: Bytes },
    /// A reader has to do this; [`FileReads::done`] follows.
    Job(Job),
    /// Somebody else has asked for it already.
    Awaited,
}

/// What has come for a connection: the bytes from `start` on, lent.
#[derive(Debug)]
pub struct Delivery {
    pub connection: ConnectionId,
    pub start: u64,
    pub bytes: io::Result<Bytes>,
}

/// See the module.
#[derive(Debug)]
pub struct FileReads {
    windows: WindowPool,
    is_direct: bool,
    cache: Option<ReadCache<PieceKey, Bytes>>,
    /// By token. As many as there are windows, at most.
    readings: Vec<Option<Reading>>,
    free_tokens: Vec<usize>,
    by_piece: HashMap<PieceKey, usize>,
    read_count: u64,
    refused_count: u64,
    is_refusal_told: bool,
}

impl FileReads {
    /// Into these windows' buffers.
    pub fn new(windows: WindowPool, caching: &Caching) -> FileReads {
        let cache = caching.cache(windows.window_bytes());
        FileReads {
            windows,
            is_direct: *caching != Caching::Kernel,
            cache,
            readings: Vec::new(),
            free_tokens: Vec::new(),
            by_piece: HashMap::new(),
            read_count: 0,
            refused_count: 0,
            is_refusal_told: false,
        }
    }

    /// Pieces that were read so far.
    pub fn read_count(&self) -> u64 {
        self.read_count
    }

    /// Of these, those that went through the page cache against what was wanted.
    pub fn refused_count(&self) -> u64 {
        self.refused_count
    }

    /// What the operator is to know, once.
    pub fn take_note(&mut self) -> Option<String> {
        let is_news = self.refused_count > 0 && !std::mem::replace(&mut self.is_refusal_told, self.refused_count > 0);
        is_news.then(|| {
            "files are read through the kernel's page cache, because their file system has no O_DIRECT: what --read-cache \
             says costs memory twice there. Serve them from another file system, or leave the option out."
                .to_owned()
        })
    }

    pub fn cache_figures(&self) -> ReadCacheFigures {
        self.cache.as_ref().map(ReadCache::figures).unwrap_or_default()
    }

    /// Nothing is kept any more. What is being read is not kept either.
    pub fn forget(&mut self) {
        self.cache.iter_mut().for_each(ReadCache::clear);
        self.by_piece.clear();
        self.readings.iter_mut().flatten().for_each(|reading| reading.key = None);
    }

    /// Asks for what is at `offset` of a file, of which `length` bytes are wanted. The connection has taken a window for it, and asks
    /// for nothing else before that has come.
    pub fn ask(
        &mut self,
        connection: ConnectionId,
        file: &Arc<OpenFile>,
        (offset, length): (u64, u64),
        window: Window,
    ) -> Answer {
        let window_bytes = self.windows.window_bytes() as u64;
        let (start, end, key) = match &mut self.cache {
            Some(cache) => {
                let number = offset / window_bytes;
                let (key, start) = (PieceKey { file: file.identity, number }, number * window_bytes);
                if let Some(bytes) = cache.get(&key) {
                    return Answer::Here { start, bytes: window.lend(bytes.clone()) };
                }
                (start, file.identity.size(), Some(key))
            }
            None if self.is_direct => (offset - offset % ALIGNMENT as u64, offset + length, None),
            None => (offset, offset + length, None),
        };
        let waiter = Waiter { connection, window };
        let awaited = key.and_then(|key| self.by_piece.get(&key)).and_then(|token| self.readings.get_mut(*token));
        if let Some(reading) = awaited.and_then(Option::as_mut) {
            reading.more.push(waiter);
            return Answer::Awaited;
        }
        let token = self.free_tokens.pop().unwrap_or_else(|| {
            self.readings.push(None);
            self.readings.len() - 1
        });
        if let Some(key) = key {
            self.by_piece.insert(key, token);
        }
        if let Some(place) = self.readings.get_mut(token) {
            *place = Some(Reading { key, start, file: Arc::clone(file), first: waiter, more: Vec::new() });
        }
        let length = end.saturating_sub(start).min(window_bytes) as usize;
        Answer::Job(Job::Read { token, file: Arc::clone(file), start, length, buffer: self.windows.buffer() })
    }

    /// A reader has done a job, at the date `now_seconds`: what each that waited for it gets.
    pub fn done(
        &mut self,
        token: usize,
        bytes: io::Result<Bytes>,
        now_seconds: u64,
    ) -> impl Iterator<Item = Delivery> + use<> {
        let reading = self.readings.get_mut(token).and_then(Option::take);
        if let Some(Reading { key, file, .. }) = &reading {
            self.free_tokens.push(token);
            self.read_count += 1;
            self.refused_count += u64::from(self.is_direct && !file.is_direct());
            if let Some(key) = key {
                self.by_piece.remove(key);
                let steady_since = u64::try_from(file.identity.changed_seconds()).unwrap_or(u64::MAX);
                if let (Some(cache), Ok(bytes)) = (&mut self.cache, &bytes)
                    && now_seconds > steady_since.saturating_add(STEADY_SECONDS)
                {
                    cache.insert(*key, bytes.clone());
                }
            }
        }
        let (start, waiters) = match reading {
            Some(Reading { start, first, more, .. }) => (start, Some(first).into_iter().chain(more)),
            None => (0, None.into_iter().chain(Vec::new())),
        };
        waiters.map(move |Waiter { connection, window }| {
            let bytes = match &bytes {
                Ok(bytes) => Ok(window.lend(bytes.clone())),
                // Its kind is all that anybody looks at.
                Err(error) => Err(error.kind().into()),
            };
            Delivery { connection, start, bytes }
        })
    }
}

//! [`Session`]: what is kept of a client, and [`Sessions`]: of all of them.

use crate::engine::listening::channels::Kind;
use crate::engine::reading::Reading;
use crate::engine::tracking::tracker::Tracker;
use crate::keyspace::change::End;
use crate::keyspace::watch::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;

/// A command of a transaction that waits for EXEC.
#[derive(Clone, Debug, Default)]
pub struct Queued {
    /// The text in which the arguments lie.
    pub text: Vec<u8>,
    /// Where they lie.
    pub ranges: Vec<Range<usize>>,
}

/// A transaction that was begun.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// Its commands so far.
    pub queued: Vec<Queued>,
    /// Their bytes.
    pub bytes: usize,
    /// One of them may make the keyspace larger.
    pub grows: bool,
    /// One of them may change keys, or tell others something.
    pub writes: bool,
    /// One of them was refused: EXEC will do nothing.
    pub is_spoiled: bool,
}

/// What a blocked client waits for.
#[derive(Clone, PartialEq, Debug)]
pub enum Wish {
    /// An element of a list (BLPOP, BRPOP).
    Pop(End),
    /// Several of them (BLMPOP).
    PopMany(End, usize),
    /// One that is put in another list (BLMOVE, BRPOPLPUSH).
    Move {
        /// From this end,
        from: End,
        /// to that end
        to: End,
        /// of this list.
        target: Box<[u8]>,
    },
    /// The least or greatest of a sorted set (BZPOPMIN, BZPOPMAX).
    PopScore {
        /// The greatest.
        is_max: bool,
    },
    /// Several of them (BZMPOP).
    PopScores {
        /// The greatest.
        is_max: bool,
        /// So many at most.
        count: usize,
    },
    /// Entries of streams (XREAD, XREADGROUP).
    Read(Reading),
}

/// Which answers a client does not hear (`CLIENT REPLY`). Messages of channels are heard always.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Silence {
    /// It hears them.
    #[default]
    Off,
    /// It does not hear the next one.
    Next,
    /// This is the one that it does not hear.
    Now,
    /// It hears none.
    On,
}

/// A client that waits for a key.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The database of the keys.
    pub database: u8,
    /// Any of these will do; the first one that has something.
    pub keys: Vec<Box<[u8]>>,
    /// What for.
    pub wish: Wish,
    /// Until then (Unix, ms); 0: for ever.
    pub until_ms: i64,
    /// Who waits longer has a lower number.
    pub turn: u64,
}

/// What is kept of a client.
#[derive(Debug)]
pub struct Session {
    /// Never given twice.
    pub id: u64,
    /// Whence it comes.
    pub peer: SocketAddr,
    /// Its database.
    pub database: u8,
    /// As it calls itself.
    pub name: Box<[u8]>,
    /// It speaks version 3.
    pub is_three: bool,
    /// When it came (Unix, ms).
    pub since_ms: i64,
    /// When it said something last (Unix, ms).
    pub last_ms: i64,
    /// What it asked for last.
    pub last_command: &'static str,
    /// Its transaction.
    pub transaction: Option<Box<Transaction>>,
    /// What it watches, and the versions.
    pub watched: BTreeMap<Place, u64>,
    /// Bytes of their names.
    pub watched_bytes: usize,
    /// Channels that it listens to.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Patterns of channels.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Sharded channels.
    pub shards: BTreeSet<Box<[u8]>>,
    /// Bytes of the names of all that it listens to.
    pub listened_bytes: usize,
    /// What it waits for.
    pub blocked: Option<Box<Blocked>>,
    /// It watches all commands.
    pub is_monitor: bool,
    /// The place of the user that it is.
    pub user: usize,
    /// It has said who it is, or did not need to when it came.
    pub is_authenticated: bool,
    /// Wrong passwords that it has said since it came.
    pub guesses: u32,
    /// It is told when keys change that it has read (`CLIENT TRACKING`).
    pub tracker: Option<Box<Tracker>>,
    /// It tracks, or is told instead of one that does, or was once.
    pub is_told: bool,
    /// It is not to be closed for want of memory (`CLIENT NO-EVICT`), which it is never here.
    pub is_kept: bool,
    /// Its next request waits until clients go on (`CLIENT PAUSE`).
    pub is_paused: bool,
    /// Whether it hears answers.
    pub silence: Silence,
    /// It is closed when what it is owed was sent.
    pub is_ending: bool,
    /// It is closed at once.
    pub is_killed: bool,
}

impl Session {
    /// A new one.
    pub fn new(id: u64, peer: SocketAddr, now_ms: i64) -> Session {
        Session {
            id,
            peer,
            database: 0,
            name: Box::default(),
            is_three: false,
            since_ms: now_ms,
            last_ms: now_ms,
            last_command: "NULL",
            transaction: None,
            watched: BTreeMap::new(),
            watched_bytes: 0,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            shards: BTreeSet::new(),
            listened_bytes: 0,
            blocked: None,
            is_monitor: false,
            user: 0,
            is_authenticated: true,
            guesses: 0,
            tracker: None,
            is_told: false,
            is_kept: false,
            is_paused: false,
            silence: Silence::Off,
            is_ending: false,
            is_killed: false,
        }
    }

    /// How many channels and patterns it listens to, sharded ones included.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shards.len()
    }

    /// The names of a kind that it listens to.
    pub fn names(&mut self, kind: Kind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    /// How many it is told that it listens to: sharded channels are counted by themselves.
    pub fn told(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.channels.len() + self.patterns.len(),
            Kind::Shard => self.shards.len(),
        }
    }
}

/// All clients, by the slots of their connections.
#[derive(Debug, Default)]
pub struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    count: usize,
    ids: u64,
    /// Who comes has to say who it is.
    pub are_asked: bool,
}

impl Sessions {
    /// A client comes, in a slot that is free.
    pub fn insert(&mut self, slot: usize, peer: SocketAddr, now_ms: i64) {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.ids += 1;
        let session = Session { is_authenticated: !self.are_asked, ..Session::new(self.ids, peer, now_ms) };
        if let Some(place) = self.slots.get_mut(slot) {
            self.count += usize::from(place.is_none());
            *place = Some(Box::new(session));
        }
    }

    /// A client goes.
    pub fn remove(&mut self, slot: usize) -> Option<Box<Session>> {
        let gone = self.slots.get_mut(slot)?.take();
        self.count -= usize::from(gone.is_some());
        gone
    }

    /// A client.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&Session> {
        self.slots.get(slot)?.as_deref()
    }

    /// A client, to be changed.
    #[inline]
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut Session> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// The slot of the client of this number.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.iter().find(|(_, session)| session.id == id).map(|(slot, _)| slot)
    }

    /// All, with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Session)> {
        self.slots.iter().enumerate().filter_map(|(slot, session)| Some((slot, session.as_deref()?)))
    }

    /// All, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Session)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, session)| Some((slot, session.as_deref_mut()?)))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clients that have come so far.
    pub fn ids(&self) -> u64 {
        self.ids
    }
}

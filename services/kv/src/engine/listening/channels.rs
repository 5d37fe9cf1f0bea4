//! [`Channels`]: who listens to which channel and pattern.

use std::collections::{BTreeSet, HashMap};

type Listeners = HashMap<Box<[u8]>, BTreeSet<usize>>;

/// What a client can listen to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A sharded channel. In a cluster its messages stay in one shard; here they are channels of their own.
    Shard,
}

/// Clients by channels and patterns.
#[derive(Debug, Default)]
pub struct Channels {
    channels: Listeners,
    patterns: Listeners,
    shards: Listeners,
}

impl Channels {
    fn of(&self, kind: Kind) -> &Listeners {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut Listeners {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    /// A client listens from now on.
    pub fn add(&mut self, kind: Kind, name: &[u8], client: usize) {
        self.of_mut(kind).entry(name.into()).or_default().insert(client);
    }

    /// It does no more.
    pub fn remove(&mut self, kind: Kind, name: &[u8], client: usize) {
        let listeners = self.of_mut(kind);
        if let Some(clients) = listeners.get_mut(name) {
            clients.remove(&client);
            if clients.is_empty() {
                listeners.remove(name);
            }
        }
    }

    /// Who listens to a channel by its name.
    pub fn listeners(&self, kind: Kind, channel: &[u8]) -> impl ExactSizeIterator<Item = usize> {
        static NOBODY: BTreeSet<usize> = BTreeSet::new();
        self.of(kind).get(channel).unwrap_or(&NOBODY).iter().copied()
    }

    /// All patterns, with who listens.
    pub fn patterns(&self) -> impl ExactSizeIterator<Item = (&[u8], &BTreeSet<usize>)> {
        self.patterns.iter().map(|(pattern, clients)| (pattern.as_ref(), clients))
    }

    /// All channels of a kind that somebody listens to by name.
    pub fn names(&self, kind: Kind) -> impl ExactSizeIterator<Item = &[u8]> {
        self.of(kind).keys().map(AsRef::as_ref)
    }

    /// Whether nobody can hear what is published at a channel that is not sharded.
    pub fn are_deserted(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty()
    }
}

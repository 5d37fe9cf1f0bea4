//! [`Channels`]: who listens to which channel and pattern.

use std::collections::{BTreeSet, HashMap};

type Listeners = HashMap<Box<[u8]>, BTreeSet<usize>>;

/// Clients by channels and patterns.
#[derive(Debug, Default)]
pub struct Channels {
    channels: Listeners,
    patterns: Listeners,
}

fn remove(listeners: &mut Listeners, name: &[u8], client: usize) {
    if let Some(clients) = listeners.get_mut(name) {
        clients.remove(&client);
        if clients.is_empty() {
            listeners.remove(name);
        }
    }
}

impl Channels {
    fn of(&mut self, is_pattern: bool) -> &mut Listeners {
        if is_pattern { &mut self.patterns } else { &mut self.channels }
    }

    /// A client listens from now on.
    pub fn add(&mut self, is_pattern: bool, name: &[u8], client: usize) {
        self.of(is_pattern).entry(name.into()).or_default().insert(client);
    }

    /// It does no more.
    pub fn remove(&mut self, is_pattern: bool, name: &[u8], client: usize) {
        remove(self.of(is_pattern), name, client);
    }

    /// Who listens to a channel by its name.
    pub fn listeners(&self, channel: &[u8]) -> impl ExactSizeIterator<Item = usize> {
        static NOBODY: BTreeSet<usize> = BTreeSet::new();
        self.channels.get(channel).unwrap_or(&NOBODY).iter().copied()
    }

    /// All patterns, with who listens.
    pub fn patterns(&self) -> impl ExactSizeIterator<Item = (&[u8], &BTreeSet<usize>)> {
        self.patterns.iter().map(|(pattern, clients)| (pattern.as_ref(), clients))
    }

    /// All channels that somebody listens to by name.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.channels.keys().map(AsRef::as_ref)
    }
}

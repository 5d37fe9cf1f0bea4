//! [`Events`]: what has happened to keys, if somebody wants to know (`notify-keyspace-events`).

/// A set of kinds of events, and of the channels at which they are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kinds(u16);

impl Kinds {
    /// To any kind of value.
    pub const GENERIC: Kinds = Kinds(1);
    /// To strings.
    pub const STRING: Kinds = Kinds(1 << 1);
    /// To lists.
    pub const LIST: Kinds = Kinds(1 << 2);
    /// To sets.
    pub const SET: Kinds = Kinds(1 << 3);
    /// To hashes.
    pub const HASH: Kinds = Kinds(1 << 4);
    /// To sorted sets.
    pub const SORTED: Kinds = Kinds(1 << 5);
    /// A key has expired.
    pub const EXPIRED: Kinds = Kinds(1 << 6);
    /// A key went for want of memory.
    pub const EVICTED: Kinds = Kinds(1 << 7);
    /// To streams.
    pub const STREAM: Kinds = Kinds(1 << 8);
    /// Of modules. There are none.
    pub const MODULE: Kinds = Kinds(1 << 9);
    /// A key is there that was not.
    pub const NEW: Kinds = Kinds(1 << 10);
    /// They are told at the keys' channels.
    pub const AT_KEY: Kinds = Kinds(1 << 11);
    /// They are told at the events' channels.
    pub const AT_EVENT: Kinds = Kinds(1 << 12);
    /// A key was looked for and is not there.
    pub const MISS: Kinds = Kinds(1 << 13);

    /// What `A` means.
    const ALL: Kinds = Kinds((1 << 10) - 1);

    /// Those that letters mean, as `notify-keyspace-events` has them; nothing, if there is another letter.
    pub fn of(letters: &[u8]) -> Option<Kinds> {
        letters.iter().try_fold(Kinds::default(), |kinds, letter| {
            let all = (*letter == b'A').then_some(Kinds::ALL);
            let one = || LETTERS.iter().find(|(known, _)| known.as_bytes() == [*letter]).map(|(_, kind)| *kind);
            Some(Kinds(kinds.0 | all.or_else(one)?.0))
        })
    }

    /// As letters, in the order in which Redis has them. Behind `A` it has no `n`.
    pub fn letters(self) -> String {
        let has_all = self.0 & Kinds::ALL.0 == Kinds::ALL.0;
        let is_told = |kind: Kinds| self.meets(kind) && !(has_all && kind.0 < Kinds::AT_KEY.0);
        let letters = LETTERS.iter().filter(|(_, kind)| is_told(*kind)).map(|(letter, _)| *letter);
        has_all.then_some("A").into_iter().chain(letters).collect()
    }

    /// Whether any of these is in it.
    #[inline]
    pub fn meets(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }
}

const LETTERS: [(&str, Kinds); 14] = [
    ("g", Kinds::GENERIC),
    ("$", Kinds::STRING),
    ("l", Kinds::LIST),
    ("s", Kinds::SET),
    ("h", Kinds::HASH),
    ("z", Kinds::SORTED),
    ("x", Kinds::EXPIRED),
    ("e", Kinds::EVICTED),
    ("t", Kinds::STREAM),
    ("d", Kinds::MODULE),
    ("n", Kinds::NEW),
    ("K", Kinds::AT_KEY),
    ("E", Kinds::AT_EVENT),
    ("m", Kinds::MISS),
];

/// Something that happened to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Of this kind.
    pub kind: Kinds,
    /// As it is called.
    pub name: &'static str,
    /// The key's database.
    pub database: u8,
    /// The key.
    pub key: Box<[u8]>,
}

/// Events that were not told yet. While nobody wants to know, nothing is noted.
#[derive(Debug, Default)]
pub struct Events {
    /// Those that are wanted; none, if there is no channel at which they are told.
    wanted: Kinds,
    noted: Vec<Event>,
    /// What is put now is in place of something that was there: no key is new.
    pub is_replacing: bool,
}

impl Events {
    /// These are wanted from now on.
    pub fn want(&mut self, kinds: Kinds) {
        let is_told = kinds.meets(Kinds(Kinds::AT_KEY.0 | Kinds::AT_EVENT.0));
        self.wanted = if is_told { kinds } else { Kinds::default() };
    }

    /// Whether events of a kind are wanted, or are told at such channels.
    #[inline]
    pub fn wants(&self, kind: Kinds) -> bool {
        self.wanted.meets(kind)
    }

    /// Something happened.
    #[inline]
    pub fn note(&mut self, kind: Kinds, name: &'static str, database: u8, key: &[u8]) {
        if self.wants(kind) {
            self.noted.push(Event { kind, name, database, key: key.into() });
        }
    }

    /// Whether there is nothing to be told.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.noted.is_empty() && !self.is_replacing
    }

    /// Takes what has happened since it was taken last.
    pub fn take(&mut self) -> Vec<Event> {
        self.is_replacing = false;
        std::mem::take(&mut self.noted)
    }

    /// Forgets what was looked for: the command has failed before it looked.
    pub fn forget_misses(&mut self) {
        self.noted.retain(|event| event.kind != Kinds::MISS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_redis() {
        for (said, told) in [
            ("", Some("")),
            ("KEA", Some("AKE")),
            ("AKEnm", Some("AKEm")),
            ("mnEKxg$", Some("g$xnKEm")),
            ("dtezhsl$gxn", Some("A")),
            ("Kq", None),
        ] {
            assert_eq!(Kinds::of(said.as_bytes()).map(Kinds::letters).as_deref(), told);
        }
    }

    #[test]
    fn nothing_is_noted_that_nobody_wants() {
        let mut events = Events::default();
        for (kinds, count) in [("", 0), ("A", 0), ("Kg", 0), ("K$", 1), ("EA", 1)] {
            events.want(Kinds::of(kinds.as_bytes()).unwrap());
            events.note(Kinds::STRING, "set", 0, b"k");
            assert_eq!(events.take().len(), count, "{kinds}");
        }
    }
}

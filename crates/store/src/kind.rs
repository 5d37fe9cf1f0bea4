//! [`Kind`]: which structure a store is.

/// Which structure a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`Log`](crate::Log).
    Log,
    /// [`Queue`](crate::Queue).
    Queue,
    /// [`Objects`](crate::Objects).
    Objects,
}

impl Kind {
    pub(crate) fn number(self) -> u32 {
        match self {
            Kind::Log => 1,
            Kind::Queue => 2,
            Kind::Objects => 3,
        }
    }

    pub(crate) fn of(number: u32) -> Option<Kind> {
        [Kind::Log, Kind::Queue, Kind::Objects].into_iter().find(|kind| kind.number() == number)
    }
}

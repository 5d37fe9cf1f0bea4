//! What a fault is: something that happens to a service, or to a whole machine's services, and goes away again.

use super::kinds::{Kind, Promise, Station};
use super::scene::{House, Scene};
use qanat_tests::random::Random;

/// Makes it go away.
pub type Heal<'a> = Box<dyn FnOnce() + 'a>;

/// A fault of the table.
pub struct Fault {
    pub class: &'static str,
    pub name: &'static str,
    /// What this kind promises; `None`: it can't happen to it.
    pub promise: Promised,
    pub act: Act,
}

/// How it is done, and what heals it; `None`: this system has no such thing.
#[derive(Clone, Copy)]
pub enum Act {
    /// To each service by itself.
    Service(ToService),
    /// To a daemon, and so to all services of its machine.
    Daemon(ToDaemon),
}

type Promised = fn(Kind) -> Option<Promise>;
type ToService = for<'a> fn(&'a Scene, &'a Station, &mut Random) -> Option<Heal<'a>>;
type ToDaemon = for<'a> fn(&'a Scene, &'a House, &mut Random) -> Option<Heal<'a>>;

/// A fault of each service by itself.
pub const fn service(class: &'static str, name: &'static str, promise: Promised, act: ToService) -> Fault {
    Fault { class, name, promise, act: Act::Service(act) }
}

/// A fault of a daemon.
pub const fn daemon(class: &'static str, name: &'static str, promise: Promised, act: ToDaemon) -> Fault {
    Fault { class, name, promise, act: Act::Daemon(act) }
}

/// For a fault that is over at once.
pub fn over<'a>() -> Option<Heal<'a>> {
    Some(Box::new(|| {}))
}

/// Promises that many faults have in common.
pub mod promises {
    use super::{Kind, Promise};

    pub fn all_go_on(_: Kind) -> Option<Promise> {
        Some(Promise::GoesOn)
    }

    /// What is on somebody else's net core goes on if that is started again soon enough.
    pub fn all_end(kind: Kind) -> Option<Promise> {
        Some(if kind == Kind::EchoByHand { Promise::GoesOnOrEnds } else { Promise::Ends })
    }

    pub fn all_are_restarted(_: Kind) -> Option<Promise> {
        Some(Promise::Restarted)
    }

    pub fn on_wires_go_on(kind: Kind) -> Option<Promise> {
        (!kind.is_on_card()).then_some(Promise::GoesOn)
    }

    pub fn on_cards_go_on(kind: Kind) -> Option<Promise> {
        kind.is_on_card().then_some(Promise::GoesOn)
    }
}

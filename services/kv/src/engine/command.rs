//! [`Command`]: how a command is known: its arguments, keys, and what is true of it.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::names::Names;
use crate::resp::request::Args;
use std::sync::OnceLock;

/// What is true of a command. The names are Redis'.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// It may change keys.
    pub const WRITE: Flags = Flags(1);
    /// It reads keys.
    pub const READ: Flags = Flags(2);
    /// It takes a bounded time.
    pub const FAST: Flags = Flags(4);
    /// It is about the server.
    pub const ADMIN: Flags = Flags(8);
    /// It may wait.
    pub const BLOCKING: Flags = Flags(16);
    /// It is executed at once, not queued by MULTI.
    pub const NO_MULTI: Flags = Flags(32);
    /// It may make the keyspace larger.
    pub const GROWS: Flags = Flags(64);
    /// It is about channels: a client that listens may ask for it.
    pub const CHANNELS: Flags = Flags(128);
    /// What it writes may be as long as what its keys have.
    pub const COPIES: Flags = Flags(256);

    /// It is refused between MULTI and EXEC.
    pub const ALONE: Flags = Flags(512);

    /// None of them.
    pub const fn none() -> Flags {
        Flags(0)
    }

    /// Both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of these are true.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// As `COMMAND INFO` names them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let names = [
            (Flags::WRITE, "write"),
            (Flags::READ, "readonly"),
            (Flags::GROWS, "denyoom"),
            (Flags::ADMIN, "admin"),
            (Flags::CHANNELS, "pubsub"),
            (Flags::FAST, "fast"),
            (Flags::BLOCKING, "blocking"),
        ];
        names.into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }
}

/// Where the keys of a command are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// There are none.
    None,
    /// From the first one to the last one, counted from the end if it is negative, each so many arguments behind the one before.
    Range(usize, i32, usize),
    /// The argument there says how many follow it.
    Counted(usize),
    /// The first argument, and as many as the second says behind it.
    TargetAndCounted,
    /// The first half of what follows the word STREAMS, which is looked for from that argument on.
    Streams(usize),
    /// The first argument, and those behind these words, each where it is said last. They are looked for from that argument on. Some other
    /// words are followed by so many arguments that are none of these words.
    Stored {
        /// Where the search begins.
        from: usize,
        /// The words: two at most.
        words: &'static [&'static str],
        /// The other words.
        skipped: &'static [(&'static str, usize)],
    },
}

/// The places behind two words, each where it is said last.
fn stored(args: &Args<'_>, from: usize, words: &[&str], skipped: &[(&str, usize)]) -> [Option<usize>; 2] {
    let (mut place, mut found) = (from, [None; 2]);
    while place < args.len() {
        let word = words.iter().zip(&mut found).find(|(word, _)| args.is(place, word) && place + 1 < args.len());
        let count = skipped.iter().find(|(word, _)| args.is(place, word)).map_or(0, |(_, count)| *count);
        place += if word.is_some() { 2 } else { 1 + count };
        word.into_iter().for_each(|(_, found)| *found = Some(place - 1));
    }
    found
}

impl Keys {
    /// Whether they are known only by other arguments.
    pub fn are_counted(self) -> bool {
        matches!(self, Keys::Counted(_) | Keys::TargetAndCounted | Keys::Stored { .. } | Keys::Streams(_))
    }

    /// The places of the keys.
    pub fn places(self, args: &Args<'_>) -> impl Iterator<Item = usize> + use<> {
        let count = args.len();
        let counted = |place: usize| {
            let said = crate::resp::number::unsigned(args.at(place)).map_or(0, |said| said as usize);
            said.min(count.saturating_sub(place + 1))
        };
        let none = [None; 3];
        let (others, first, end, step) = match self {
            Keys::None => (none, 0, 0, 1),
            Keys::Range(first, last, step) => {
                let end =
                    if last < 0 { (count as i64 + i64::from(last) + 1).max(0) as usize } else { last as usize + 1 };
                (none, first, end.min(count), step)
            }
            Keys::Counted(place) => (none, place + 1, place + 1 + counted(place), 1),
            Keys::TargetAndCounted => ([Some(1), None, None], 3, 3 + counted(2), 1),
            Keys::Streams(from) => {
                let first = (from..count).find(|place| args.is(*place, "STREAMS")).map_or(count, |place| place + 1);
                (none, first, first + (count - first) / 2, 1)
            }
            // There is one key at least, which is told before the targets.
            Keys::Stored { from, words, skipped } => {
                let [one, other] = stored(args, from, words, skipped);
                ([(count > 1).then_some(1), one, other], 0, 0, 1)
            }
        };
        others.into_iter().flatten().chain((first..end).step_by(step.max(1)))
    }

    /// As `COMMAND INFO` tells them: first, last, step.
    pub fn told(self) -> [i64; 3] {
        match self {
            Keys::Range(first, last, step) => [first as i64, i64::from(last), step as i64],
            Keys::TargetAndCounted | Keys::Stored { .. } => [1, 1, 1],
            Keys::None | Keys::Counted(_) | Keys::Streams(_) => [0, 0, 0],
        }
    }
}

/// A command.
pub struct Command {
    /// Its name, in small letters.
    pub name: &'static str,
    /// So many arguments, the name included; if negative, at least so many.
    pub arity: i32,
    /// What is true of it.
    pub flags: Flags,
    /// Its keys.
    pub keys: Keys,
    /// As `COMMAND DOCS` groups it.
    pub group: &'static str,
    /// As `COMMAND DOCS` tells it.
    pub summary: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// What it does.
    pub run: fn(&mut Call<'_>) -> Result<(), Fault>,
}

impl Command {
    /// Whether it takes so many arguments, the name included.
    pub fn takes(&self, count: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= least } else { count == least }
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Command({})", self.name)
    }
}

/// Commands that tell of commands, or execute others, are in the table themselves. So it is put here, once, and not imported by them.
static TABLE: OnceLock<(Vec<&'static Command>, Names)> = OnceLock::new();

/// A command, and its place in the table.
pub type Found = (usize, &'static Command);

/// All commands, by their names; none before they are [put here](put_table).
pub fn all() -> &'static [&'static Command] {
    TABLE.get().map_or(&[], |(commands, _)| commands)
}

/// The command of this name, in letters of any size, with its place in the table.
pub fn find_place(name: &[u8]) -> Option<Found> {
    let (commands, names) = TABLE.get()?;
    let place = names.place(name)?;
    Some((place, *commands.get(place)?))
}

/// The same, without its place.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    find_place(name).map(|(_, command)| command)
}

/// Puts the table here, if that was not done yet.
pub fn put_table(make: impl FnOnce() -> Vec<&'static Command>) -> &'static [&'static Command] {
    let (commands, _) = TABLE.get_or_init(|| {
        let commands = make();
        let names = Names::of(commands.iter().map(|command| command.name));
        (commands, names)
    });
    commands
}

/// A group's commands: name, arity, flags, keys, the version that had it first, what it does, and the function.
macro_rules! commands {
    ($group:literal: $($name:literal, $arity:literal, [$($flag:ident)*], $keys:expr, $since:literal, $summary:literal => $run:expr;)*) => {
        /// The commands of this file.
        pub const COMMANDS: &[$crate::engine::command::Command] = &[$($crate::engine::command::Command {
            name: $name,
            arity: $arity,
            flags: $crate::engine::command::Flags::none()$(.and($crate::engine::command::Flags::$flag))*,
            keys: $keys,
            group: $group,
            summary: $summary,
            since: $since,
            run: $run,
        },)*];
    };
}
pub(crate) use commands;

/// The first argument is a key.
pub const ONE: Keys = Keys::Range(1, 1, 1);
/// The second is: the first one is a subcommand.
pub const SECOND: Keys = Keys::Range(2, 2, 1);
/// The first two are.
pub const TWO: Keys = Keys::Range(1, 2, 1);
/// All are.
pub const ALL: Keys = Keys::Range(1, -1, 1);
/// None is.
pub const NO_KEYS: Keys = Keys::None;

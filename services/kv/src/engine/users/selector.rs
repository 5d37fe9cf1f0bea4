//! [`Selector`]: a set of commands, keys and channels. What a command needs has to be in one of a user's selectors.

use crate::glob::matches;
use std::collections::BTreeMap;

/// Numbers that commands and subcommands have, at most.
pub const NUMBERS_MAX: usize = 512;
/// Patterns of keys, patterns of channels, and first arguments of a selector, at most.
pub const PATTERNS_MAX: usize = 4_096;

/// What is done with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access(u8);

impl Access {
    /// Its name alone is looked at: whether there is such a key, or how long its value is.
    pub const NAME: Access = Access(0);
    /// Its value is read.
    pub const READ: Access = Access(1);
    /// It is changed.
    pub const WRITE: Access = Access(2);
    /// Both.
    pub const BOTH: Access = Access(3);

    /// Whether all of this is in it.
    pub fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    pub fn and(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// A set of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Numbers([u64; NUMBERS_MAX / 64]);

impl Numbers {
    const ALL: Numbers = Numbers([u64::MAX; NUMBERS_MAX / 64]);

    /// A number that is too large is in no set: so it is refused.
    fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn set(&mut self, number: usize, is_in: bool) {
        if let Some(word) = self.0.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            *word = if is_in { *word | bit } else { *word & !bit };
        }
    }
}

/// See the module. The new one has nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector {
    /// All commands, those included that come with another version.
    pub has_all_commands: bool,
    commands: Numbers,
    /// First arguments with which a command is in it that is not in it otherwise.
    first_arguments: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// All keys.
    pub has_all_keys: bool,
    keys: Vec<(Access, Box<[u8]>)>,
    /// All channels.
    pub has_all_channels: bool,
    channels: Vec<Box<[u8]>>,
    /// What was said of commands, in order, since all or none were in it. What was said twice of the same stands once, at the last place.
    rules: Vec<(bool, String)>,
    began_with_all: bool,
}

/// Whether there was room.
type HadRoom = bool;

impl Selector {
    /// All of everything.
    pub fn everything() -> Selector {
        let mut selector = Selector { has_all_keys: true, has_all_channels: true, ..Selector::default() };
        selector.set_all_commands(true);
        selector
    }

    /// Whether it has all of everything.
    pub fn is_everything(&self) -> bool {
        self.has_all_commands && self.commands == Numbers::ALL && self.has_all_keys && self.has_all_channels
    }

    /// Whether any key may be read.
    pub fn reads_all_keys(&self) -> bool {
        self.has_all_keys || self.keys.iter().any(|(access, pattern)| access.has(Access::READ) && **pattern == *b"*")
    }

    /// All commands, or none.
    pub fn set_all_commands(&mut self, is_in: bool) {
        self.commands = if is_in { Numbers::ALL } else { Numbers::default() };
        (self.has_all_commands, self.began_with_all) = (is_in, is_in);
        self.first_arguments.clear();
        self.rules.clear();
    }

    /// Commands of these numbers are in it, or not, because that was said of `what`: a name, or `@` and a category.
    pub fn set_commands(&mut self, numbers: impl Iterator<Item = usize>, is_in: bool, what: &str) {
        for number in numbers {
            self.commands.set(number, is_in);
            self.first_arguments.remove(&number);
        }
        self.has_all_commands &= is_in;
        // A command's own rule is about its subcommands and first arguments, too.
        let is_of = |said: &str| said == what || said.strip_prefix(what).is_some_and(|rest| rest.starts_with('|'));
        self.rules.retain(|(_, said)| !is_of(said));
        self.rules.push((is_in, what.to_owned()));
    }

    /// A command is in it if it has this first argument.
    pub fn add_first_argument(&mut self, number: usize, argument: &[u8], what: &str) -> HadRoom {
        let arguments = self.first_arguments.entry(number).or_default();
        if arguments.iter().any(|other| other.eq_ignore_ascii_case(argument)) {
            return true;
        }
        let has_room = arguments.len() < PATTERNS_MAX;
        if has_room {
            arguments.push(argument.into());
            self.rules.push((true, what.to_owned()));
        }
        has_room
    }

    /// Whether a command is in it, with its first argument.
    pub fn has_command(&self, number: usize, first: &[u8]) -> bool {
        self.commands.has(number)
            || self
                .first_arguments
                .get(&number)
                .is_some_and(|all| all.iter().any(|argument| argument.eq_ignore_ascii_case(first)))
    }

    /// Whether a number is in it, whatever the arguments.
    pub fn has_number(&self, number: usize) -> bool {
        self.commands.has(number)
    }

    /// Keys of a pattern.
    pub fn add_keys(&mut self, access: Access, pattern: &[u8]) -> HadRoom {
        if let Some((before, _)) = self.keys.iter_mut().find(|(_, other)| other.as_ref() == pattern) {
            *before = before.and(access);
            return true;
        }
        let has_room = self.keys.len() < PATTERNS_MAX;
        if has_room {
            self.keys.push((access, pattern.into()));
        }
        has_room
    }

    /// All keys, or none.
    pub fn set_all_keys(&mut self, is_in: bool) {
        self.has_all_keys = is_in;
        self.keys.clear();
    }

    /// Whether this may be done with a key.
    pub fn has_key(&self, key: &[u8], access: Access) -> bool {
        self.has_all_keys || self.keys.iter().any(|(has, pattern)| has.has(access) && matches(pattern, key))
    }

    /// Channels of a pattern.
    pub fn add_channels(&mut self, pattern: &[u8]) -> HadRoom {
        let is_there = self.channels.iter().any(|other| other.as_ref() == pattern);
        let has_room = is_there || self.channels.len() < PATTERNS_MAX;
        if has_room && !is_there {
            self.channels.push(pattern.into());
        }
        has_room
    }

    /// All channels, or none.
    pub fn set_all_channels(&mut self, is_in: bool) {
        self.has_all_channels = is_in;
        self.channels.clear();
    }

    /// Whether it has a channel; or a pattern of channels, which has to be in it as it is.
    pub fn has_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let is_meant = |pattern: &[u8]| if is_pattern { pattern == channel } else { matches(pattern, channel) };
        self.has_all_channels || self.channels.iter().any(|pattern| is_meant(pattern))
    }

    /// Its commands, as they were said.
    pub fn commands_text(&self) -> String {
        let mut text = if self.began_with_all { "+@all" } else { "-@all" }.to_owned();
        for (is_in, what) in &self.rules {
            text.push_str(if *is_in { " +" } else { " -" });
            text.push_str(what);
        }
        text
    }

    /// Its keys, as they can be said.
    pub fn keys_text(&self) -> Vec<u8> {
        if self.has_all_keys {
            return b"~*".to_vec();
        }
        let sign = |access: Access| match access {
            Access::READ => b"%R~".as_slice(),
            Access::WRITE => b"%W~",
            _ => b"~",
        };
        let all: Vec<Vec<u8>> = self.keys.iter().map(|(access, pattern)| [sign(*access), pattern].concat()).collect();
        all.join(&b' ')
    }

    /// Its channels, as they can be said.
    pub fn channels_text(&self) -> Vec<u8> {
        if self.has_all_channels {
            return b"&*".to_vec();
        }
        let all: Vec<Vec<u8>> = self.channels.iter().map(|pattern| [b"&".as_slice(), pattern].concat()).collect();
        all.join(&b' ')
    }

    /// All of it, in one line.
    pub fn text(&self) -> Vec<u8> {
        let (mut parts, mut channels) = (vec![self.keys_text()], self.channels_text());
        if !self.has_all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(std::mem::take(&mut channels));
        parts.push(self.commands_text().into_bytes());
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_twice_of_the_same_is_kept_once() {
        let mut selector = Selector::default();
        for _ in 0..1_000 {
            selector.set_commands([1, 2].into_iter(), true, "@read");
            selector.set_commands([2].into_iter(), false, "get");
            selector.set_commands([3].into_iter(), true, "config|get");
        }
        assert_eq!(selector.commands_text(), "-@all +@read -get +config|get");
        assert!(selector.has_command(1, b"") && !selector.has_command(2, b"") && selector.has_command(3, b""));
        selector.set_commands([3, 4].into_iter(), false, "config");
        assert_eq!(selector.commands_text(), "-@all +@read -get -config");
        assert!(selector.add_first_argument(7, b"0", "select|0"));
        assert!(selector.has_command(7, b"0") && !selector.has_command(7, b"1"));
        assert!(!selector.has_command(NUMBERS_MAX, b""));
    }

    #[test]
    fn rights_to_keys_are_of_one_pattern() {
        let mut selector = Selector::default();
        selector.add_keys(Access::READ, b"a*");
        selector.add_keys(Access::WRITE, b"*b");
        assert!(selector.has_key(b"ab", Access::READ) && selector.has_key(b"ab", Access::WRITE));
        assert!(!selector.has_key(b"ab", Access::BOTH) && selector.has_key(b"ab", Access::NAME));
        selector.add_keys(Access::WRITE, b"a*");
        assert!(selector.has_key(b"ab", Access::BOTH));
        assert_eq!(selector.keys_text(), b"~a* %W~*b");
    }

    #[test]
    fn a_pattern_of_channels_has_to_be_there_itself() {
        let mut selector = Selector::default();
        selector.add_channels(b"news.*");
        assert!(selector.has_channel(b"news.a", false) && !selector.has_channel(b"new", false));
        assert!(selector.has_channel(b"news.*", true) && !selector.has_channel(b"news.a*", true));
        assert_eq!(selector.text(), b"resetchannels &news.* -@all");
    }
}

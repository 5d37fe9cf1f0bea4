//! [`Counts`]: how often each command was executed, and what went wrong.

use crate::engine::observed::durations::Durations;
use std::collections::BTreeMap;

/// Kinds of errors that are counted, at most.
const ERRORS_MAX: usize = 128;

/// What is known of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// How often it was executed.
    pub calls: u64,
    /// How long it took, of what was measured.
    pub nanoseconds: u64,
    /// The same, by how long it took.
    pub durations: Durations,
    /// How often it was refused before it was executed.
    pub rejected: u64,
    /// How often it answered an error.
    pub failed: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Counts {
    /// By the numbers of commands and subcommands.
    commands: Vec<Count>,
    errors: BTreeMap<Box<str>, u64>,
}

impl Counts {
    /// A command's, or a subcommand's.
    #[inline]
    pub fn of(&mut self, number: usize) -> Option<&mut Count> {
        if self.commands.len() <= number {
            self.commands.resize(number + 1, Count::default());
        }
        self.commands.get_mut(number)
    }

    /// All, by the numbers.
    pub fn commands(&self) -> impl Iterator<Item = &Count> {
        self.commands.iter()
    }

    /// An error was answered. Its first word says what kind it is.
    pub fn failed(&mut self, error: &str) {
        let kind = error.split(' ').next().unwrap_or_default();
        if let Some(count) = self.errors.get_mut(kind) {
            *count += 1;
        } else if self.errors.len() < ERRORS_MAX {
            self.errors.insert(kind.into(), 1);
        }
    }

    /// Kinds of errors, and how often each was answered.
    pub fn errors(&self) -> impl Iterator<Item = (&str, u64)> {
        self.errors.iter().map(|(kind, count)| (kind.as_ref(), *count))
    }
}

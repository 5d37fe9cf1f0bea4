//! What is sent, and what counts as its answer.

use super::window::Mark;

/// What is sent, and what counts as its answer.
pub trait Traffic {
    /// Decides what is sent as `mark`: its payload's length, bytes.
    fn prepare(&mut self, mark: Mark) -> usize;

    /// Writes that payload; returns its checksum's sum.
    fn write(&mut self, mark: Mark, payload: &mut [u8]) -> u16;

    /// Judges a payload that came from the target.
    fn read(&mut self, payload: &[u8]) -> Incoming;

    /// Whether counting may begin when the warm-up is over.
    fn is_ready(&self) -> bool {
        true
    }

    /// The window begins: counts so far were the warm-up's.
    fn begin(&mut self) {}
}

/// What a payload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// The answer to what was sent as this mark, if it still waits.
    Answer(Mark),
    /// A late answer, or a payload that is not ours.
    Foreign,
    /// Counted by the traffic itself.
    Wrong,
}

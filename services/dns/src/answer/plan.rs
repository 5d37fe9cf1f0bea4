//! What is known of an answer before its records are, and what its header says of them.

use super::edns::OptReply;

/// How a message will end: what is known before its records are.
pub(super) struct Plan<'a> {
    pub(super) question_end: usize,
    pub(super) opt: Option<OptReply<'a>>,
    /// Bytes the whole message may have.
    pub(super) limit: usize,
    pub(super) dnssec: bool,
}

impl Plan<'_> {
    /// Bytes the message may have before OPT.
    #[inline(always)]
    pub(super) fn records_end(&self) -> usize {
        self.limit.saturating_sub(self.opt.as_ref().map_or(0, OptReply::length)).max(self.question_end)
    }
}

/// What a header says of the sections.
#[derive(Clone, Copy, Default)]
pub(super) struct Verdict {
    pub(super) authoritative: bool,
    pub(super) truncated: bool,
    pub(super) rcode: u8,
    pub(super) answers: u16,
    pub(super) authority: u16,
    pub(super) additional: u16,
    /// Where the records end.
    pub(super) end: usize,
    pub(super) source_hash: u32,
}

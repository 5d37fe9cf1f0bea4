//! [`Guard`]: what a peer makes this side do, against what it asks for.

/// Bytes of frames that nothing comes of, for each byte of those of which something does (as nginx counts them).
const USELESS_BYTES_PER_USEFUL: u64 = 8;
/// So many more are no flood.
const USEFUL_BYTES_FREE: u64 = 1 << 20;
/// Streams that end early and are no flood.
const ENDED_EARLY_FREE: u64 = 100;

/// Counts for one connection.
#[derive(Debug, Default)]
pub(super) struct Guard {
    bytes: u64,
    useful_bytes: u64,
    streams: u64,
    streams_ended_early: u64,
}

impl Guard {
    /// A frame of so many bytes came.
    pub(super) fn came(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// So many bytes were of use: of a request, or of a response that is sent.
    pub(super) fn was_useful(&mut self, bytes: usize) {
        self.useful_bytes += bytes as u64;
    }

    /// A request began.
    pub(super) fn stream_began(&mut self) {
        self.streams += 1;
    }

    /// It ended before the peer had its response, whoever ended it.
    pub(super) fn stream_ended_early(&mut self) {
        self.streams_ended_early += 1;
    }

    /// Whether this is more than is reasonable: frames of which nothing comes, or requests that are taken back, which is what a rapid
    /// reset is (CVE-2023-44487), or a peer's that has this side reset them.
    pub(super) fn is_flood(&self) -> bool {
        let is_idle_talk = self.bytes / USELESS_BYTES_PER_USEFUL > self.useful_bytes + USEFUL_BYTES_FREE;
        let is_taken_back = self.streams_ended_early > ENDED_EARLY_FREE && self.streams_ended_early > self.streams / 2;
        is_idle_talk || is_taken_back
    }
}

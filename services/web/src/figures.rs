//! Live figures: what an operator watches.

use qanat_http2::Http2Figures;
use qanat_store::ReadCacheFigures;
use qanat_tls::TlsFigures;
use serde::Serialize;

/// Counters since start, and gauges. Plain numbers; serialisable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Requests answered (each response counted once, when it is handed to the stack).
    pub requests: u64,
    /// Responses by class: index 0 is 1xx, 4 is 5xx.
    pub responses: [u64; 5],
    /// Of these, responses with status 304.
    pub not_modified: u64,
    /// Of these, responses with status 206.
    pub partial: u64,
    /// Requests answered from the raw-target cache without any decoding.
    pub fast_path: u64,
    /// Bytes of responses handed to the stack.
    pub bytes_sent: u64,
    /// Bytes the peers acknowledged.
    pub bytes_acknowledged: u64,
    /// Connections open.
    pub connections_open: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections reset because `connections_max` was reached, or the service is stopping.
    pub connections_refused: u64,
    /// Of these, connections reset because their peer had as many as one peer may have.
    pub connections_refused_peer: u64,
    /// Connections that ended otherwise than in order.
    pub connections_broken: u64,
    /// Commands the stack refused.
    pub commands_refused: u64,
    /// Requests refused because their peer made too many (429).
    pub requests_limited: u64,
    /// Passwords that were looked at, and were right. One that was right before is not looked at again.
    pub passwords_right: u64,
    /// Passwords that were looked at, and were wrong.
    pub passwords_wrong: u64,
    /// Passwords that were not looked at, because others were under way (429, 503).
    pub guesses_limited: u64,
    /// Requests refused as malformed (400, 414, 431, 505 …).
    pub parse_errors: u64,
    /// Connections closed because a request head was not complete in time.
    pub timeouts_head: u64,
    /// Connections closed because they were unused.
    pub timeouts_idle: u64,
    /// Connections reset because the peer took nothing any more.
    pub timeouts_send: u64,
    /// Connections reset because the peer took what it was owed too slowly.
    pub timeouts_rate: u64,
    /// Of these, connections that held windows of large files while those were scarce.
    pub windows_taken_back: u64,
    /// Times a connection had to wait because its peer held its share of the windows.
    pub window_share_waits: u64,
    /// Times a pipelined request had to wait for earlier responses.
    pub pipeline_waits: u64,
    /// Bytes of content in memory.
    pub cached_bytes: u64,
    /// Files (with their compressed variants) known and held.
    pub cached_objects: u64,
    /// Files put out of memory for others.
    pub evictions: u64,
    /// Files read again because they changed.
    pub reloads: u64,
    /// Look-ups handed to the reader threads.
    pub lookups: u64,
    /// Ready frames in device memory (pre-copy).
    pub ready_frames: u64,
    /// Segments sent in a ready frame.
    pub ready_hits: u64,
    /// Times no ready frame was free and the cap or the pool allowed none more.
    pub ready_misses: u64,
    /// Windows read from disk for streamed files.
    pub windows_read: u64,
    /// Of these, windows that were to be read around the kernel's page cache, and could not: their file system has no O_DIRECT.
    pub windows_read_by_kernel_cache: u64,
    /// Windows in memory now.
    pub windows_in_use: u64,
    /// The cache of windows, or of a library's pieces, if there is one.
    pub read_cache: ReadCacheFigures,
    /// Objects of a library that are being sent now, once for each range.
    pub streams: u64,
    /// Pieces of a library's objects that were read.
    pub pieces_read: u64,
    /// Bytes of these.
    pub piece_bytes_read: u64,
    /// Times a peer had taken all before the next piece came from the disk.
    pub stalls: u64,
    /// Responses cut short because their file shrank or failed under them.
    pub stream_errors: u64,
    /// Access-log lines written.
    pub log_lines: u64,
    /// Access-log lines dropped because the writer was behind, or failed.
    pub log_drops: u64,
    /// Requests of plain HTTP that were told to ask by HTTPS.
    pub redirects: u64,
    /// Of the layer below, if there is one.
    pub tls: TlsFigures,
    /// Of the layer between that and the service.
    pub http2: Http2Figures,
}

impl Figures {
    /// Goes on counting where a service that has ended stopped.
    #[must_use]
    pub fn after(mut self, ended: &Figures) -> Figures {
        let pairs = [
            (&mut self.requests, ended.requests),
            (&mut self.not_modified, ended.not_modified),
            (&mut self.partial, ended.partial),
            (&mut self.fast_path, ended.fast_path),
            (&mut self.bytes_sent, ended.bytes_sent),
            (&mut self.bytes_acknowledged, ended.bytes_acknowledged),
            (&mut self.connections_accepted, ended.connections_accepted),
            (&mut self.connections_refused, ended.connections_refused),
            (&mut self.connections_refused_peer, ended.connections_refused_peer),
            (&mut self.connections_broken, ended.connections_broken),
            (&mut self.commands_refused, ended.commands_refused),
            (&mut self.requests_limited, ended.requests_limited),
            (&mut self.passwords_right, ended.passwords_right),
            (&mut self.passwords_wrong, ended.passwords_wrong),
            (&mut self.guesses_limited, ended.guesses_limited),
            (&mut self.parse_errors, ended.parse_errors),
            (&mut self.timeouts_head, ended.timeouts_head),
            (&mut self.timeouts_idle, ended.timeouts_idle),
            (&mut self.timeouts_send, ended.timeouts_send),
            (&mut self.timeouts_rate, ended.timeouts_rate),
            (&mut self.windows_taken_back, ended.windows_taken_back),
            (&mut self.window_share_waits, ended.window_share_waits),
            (&mut self.pipeline_waits, ended.pipeline_waits),
            (&mut self.evictions, ended.evictions),
            (&mut self.reloads, ended.reloads),
            (&mut self.lookups, ended.lookups),
            (&mut self.ready_hits, ended.ready_hits),
            (&mut self.ready_misses, ended.ready_misses),
            (&mut self.windows_read, ended.windows_read),
            (&mut self.windows_read_by_kernel_cache, ended.windows_read_by_kernel_cache),
            (&mut self.pieces_read, ended.pieces_read),
            (&mut self.piece_bytes_read, ended.piece_bytes_read),
            (&mut self.stalls, ended.stalls),
            (&mut self.stream_errors, ended.stream_errors),
            (&mut self.log_lines, ended.log_lines),
            (&mut self.log_drops, ended.log_drops),
            (&mut self.redirects, ended.redirects),
        ];
        let counts = pairs.into_iter().chain(self.responses.iter_mut().zip(ended.responses));
        counts.for_each(|(count, before)| *count += before);
        self.read_cache = self.read_cache.after(&ended.read_cache);
        self.tls.add(&ended.tls);
        self.http2.add(&ended.http2);
        self
    }

    pub(crate) fn count_response(&mut self, status: u16) {
        self.requests += 1;
        if let Some(class) = self.responses.get_mut((status / 100).saturating_sub(1) as usize) {
            *class += 1;
        }
        match status {
            304 => self.not_modified += 1,
            206 => self.partial += 1,
            _ => {}
        }
    }
}

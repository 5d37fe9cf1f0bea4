//! [`Stream`]: what is kept of a request and its response.

use crate::settings::WINDOW;
use qanat_api::{ConnectionId, SendQueue};

/// How far a response is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// Its head is not sent.
    Head,
    /// So many bytes are left of its content; `None`: as many as come until the service closes.
    Content(Option<u64>),
    /// Everything is sent.
    Ended,
}

/// See the module.
pub(super) struct Stream {
    /// The connection it is on.
    pub(super) carrier: ConnectionId,
    pub(super) number: u32,
    /// What may be sent on it.
    pub(super) window: i64,
    /// What may come on it.
    pub(super) receive_window: i64,
    /// The head of the request, until the service gets it.
    pub(super) request: Option<Box<[u8]>>,
    /// Bytes of content that the request said would come.
    pub(super) content_length: Option<u64>,
    /// Those that came.
    pub(super) content_bytes: u64,
    /// The response has no content whatever its head says.
    pub(super) is_head: bool,
    /// The peer sends no more.
    pub(super) is_ended: bool,
    /// The service knows of it.
    pub(super) is_known: bool,
    /// The service has closed it.
    pub(super) is_closing: bool,
    /// Both sides have sent everything.
    pub(super) is_over: bool,
    /// It is in the list of those that may have something to send.
    pub(super) is_ready: bool,
    pub(super) progress: Progress,
    pub(super) queue: SendQueue,
    /// Bytes, with their frames, that the peer has not acknowledged.
    pub(super) unacknowledged: usize,
}

impl Stream {
    /// A request that came whole but for its content.
    pub(super) fn new(carrier: ConnectionId, number: u32, window: i64, request: Box<[u8]>) -> Stream {
        Stream {
            carrier,
            number,
            window,
            receive_window: WINDOW,
            request: Some(request),
            content_length: None,
            content_bytes: 0,
            is_head: false,
            is_ended: false,
            is_known: false,
            is_closing: false,
            is_over: false,
            is_ready: false,
            progress: Progress::Head,
            queue: SendQueue::default(),
            unacknowledged: 0,
        }
    }

    /// Whether nothing is left to do.
    pub(super) fn is_done(&self) -> bool {
        self.is_over && self.is_closing && self.unacknowledged == 0
    }
}

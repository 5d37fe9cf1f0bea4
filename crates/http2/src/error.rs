//! What can be wrong with what a peer sent (RFC 9113, 5.4 and 7).

/// Why a connection or a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ErrorCode {
    /// Nothing is wrong.
    NoError = 0,
    /// The peer broke a rule for which there is no other code.
    Protocol = 1,
    /// This side can't go on.
    Internal = 2,
    /// The peer sent more than it may.
    FlowControl = 3,
    /// A frame came for a stream that is over.
    StreamClosed = 5,
    /// A frame has a length that it can't have.
    FrameSize = 6,
    /// Nothing was done for the request: it may be sent again.
    RefusedStream = 7,
    /// The block of fields can't be read.
    Compression = 9,
    /// The peer makes this side do more than is reasonable.
    EnhanceYourCalm = 11,
}

/// What was wrong, and with what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The connection ends.
    Connection(ErrorCode),
    /// The stream of this number ends.
    Stream(u32, ErrorCode),
}

//! Frames (RFC 9113, 4 and 6).

use crate::error::ErrorCode::{FrameSize, Protocol};
use crate::error::{ErrorCode, Fault};
use crate::settings::FRAME_BYTES;

/// Bytes before a frame's content.
pub(crate) const HEADER_BYTES: usize = 9;

/// Types of frames.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// What is before a frame's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// 0: the connection.
    pub(crate) stream: u32,
}

impl Header {
    /// The header at the beginning of `bytes`; `None`: they are too few.
    pub(crate) fn read(bytes: &[u8]) -> Option<Header> {
        let [high, middle, low, kind, flags, stream @ ..] = bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Header {
            length: u32::from_be_bytes([0, *high, *middle, *low]) as usize,
            kind: *kind,
            flags: *flags,
            // The first bit means nothing.
            stream: u32::from_be_bytes(*stream) & 0x7fff_ffff,
        })
    }

    /// As it is sent.
    pub(crate) fn bytes(self) -> [u8; HEADER_BYTES] {
        let [_, high, middle, low] = (self.length as u32).to_be_bytes();
        let [a, b, c, d] = self.stream.to_be_bytes();
        [high, middle, low, self.kind, self.flags, a, b, c, d]
    }

    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
pub(crate) fn write(kind: u8, flags: u8, stream: u32, content: &[u8], target: &mut Vec<u8>) {
    target.extend_from_slice(&Header { length: content.len(), kind, flags, stream }.bytes());
    target.extend_from_slice(content);
}

/// Appends the frames of a block of fields.
pub(crate) fn write_block(stream: u32, block: &[u8], ends_stream: bool, target: &mut Vec<u8>) {
    let mut kind = kind::HEADERS;
    let mut flags = if ends_stream { flag::END_STREAM } else { 0 };
    let mut rest = block;
    loop {
        let (part, more) = rest.split_at(rest.len().min(FRAME_BYTES));
        let end = if more.is_empty() { flag::END_HEADERS } else { 0 };
        write(kind, flags | end, stream, part, target);
        if more.is_empty() {
            return;
        }
        (rest, kind, flags) = (more, kind::CONTINUATION, 0);
    }
}

/// A frame whose form is as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frame<'a> {
    /// Content. What counts for the windows is the frame's length with its padding.
    Data { stream: u32, content: &'a [u8], counted: usize, is_last: bool },
    /// The beginning of a block of fields.
    Headers { stream: u32, block: &'a [u8], is_last: bool, ends_block: bool },
    /// More of it.
    Continuation { stream: u32, block: &'a [u8], ends_block: bool },
    /// A stream is over.
    Reset { stream: u32 },
    /// The peer's settings; how they begin and end was looked at.
    Settings(&'a [u8]),
    /// It has ours.
    SettingsTaken,
    /// To be sent back.
    Ping([u8; 8]),
    /// So many bytes more may be sent.
    WindowUpdate { stream: u32, increment: i64 },
    /// Nothing is to be done.
    Ignored,
}

/// The frame of a header and all its content.
pub(crate) fn parse(header: Header, payload: &[u8]) -> Result<Frame<'_>, Fault> {
    let wrong = |code: ErrorCode| Err(Fault::Connection(code));
    let stream = header.stream;
    let of_stream = matches!(
        header.kind,
        kind::DATA | kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::CONTINUATION | kind::PUSH_PROMISE
    );
    let of_connection = matches!(header.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
    if of_stream && stream == 0 || of_connection && stream != 0 {
        return wrong(Protocol);
    }
    Ok(match header.kind {
        kind::DATA => Frame::Data {
            stream,
            content: unpadded(header, payload)?,
            counted: payload.len(),
            is_last: header.has(flag::END_STREAM),
        },
        kind::HEADERS => {
            let mut block = unpadded(header, payload)?;
            if header.has(flag::PRIORITY) {
                let Some((priority, rest)) = block.split_first_chunk::<5>() else { return wrong(FrameSize) };
                check_priority(stream, priority)?;
                block = rest;
            }
            let (is_last, ends_block) = (header.has(flag::END_STREAM), header.has(flag::END_HEADERS));
            Frame::Headers { stream, block, is_last, ends_block }
        }
        kind::CONTINUATION => Frame::Continuation { stream, block: payload, ends_block: header.has(flag::END_HEADERS) },
        kind::PRIORITY => match payload.try_into() {
            Ok(priority) => check_priority(stream, priority).map(|()| Frame::Ignored)?,
            Err(_) => return Err(Fault::Stream(stream, FrameSize)),
        },
        kind::RST_STREAM if payload.len() == 4 => Frame::Reset { stream },
        kind::SETTINGS if header.has(flag::ACK) && payload.is_empty() => Frame::SettingsTaken,
        kind::SETTINGS if !header.has(flag::ACK) && payload.len().is_multiple_of(6) => Frame::Settings(payload),
        kind::PING => match payload.try_into() {
            Ok(_) if header.has(flag::ACK) => Frame::Ignored,
            Ok(opaque) => Frame::Ping(opaque),
            Err(_) => return wrong(FrameSize),
        },
        kind::GOAWAY if payload.len() >= 8 => Frame::Ignored,
        kind::WINDOW_UPDATE => {
            let Ok(increment) = payload.try_into() else { return wrong(FrameSize) };
            match u32::from_be_bytes(increment) & 0x7fff_ffff {
                0 if stream == 0 => return wrong(Protocol),
                0 => return Err(Fault::Stream(stream, Protocol)),
                increment => Frame::WindowUpdate { stream, increment: increment.into() },
            }
        }
        // Clients push nothing (8.4).
        kind::PUSH_PROMISE => return wrong(Protocol),
        kind::RST_STREAM | kind::SETTINGS | kind::GOAWAY => return wrong(FrameSize),
        // What nobody knows is left out (4.1).
        _ => Frame::Ignored,
    })
}

/// The content without its padding (6.1).
fn unpadded(header: Header, payload: &[u8]) -> Result<&[u8], Fault> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let Some((padding, rest)) = payload.split_first() else { return Err(Fault::Connection(FrameSize)) };
    let length = rest.len().checked_sub(usize::from(*padding)).ok_or(Fault::Connection(Protocol))?;
    Ok(rest.get(..length).unwrap_or_default())
}

/// Priorities are not heeded (5.3.2), but a stream that depends on itself was never one (RFC 7540, 5.3.1).
fn check_priority(stream: u32, priority: &[u8; 5]) -> Result<(), Fault> {
    let [a, b, c, d, _weight] = *priority;
    let on = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
    if on == stream { Err(Fault::Connection(Protocol)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Frame<'_>, Fault> {
        parse(Header { length: payload.len(), kind, flags, stream }, payload)
    }

    #[test]
    fn padding_and_priorities_are_taken_off() {
        let expected = Frame::Data { stream: 3, content: b"ab", counted: 5, is_last: true };
        assert_eq!(parsed(kind::DATA, 0x9, 3, b"\x02ab\0\0"), Ok(expected));
        let expected = Frame::Headers { stream: 3, block: b"ab", is_last: false, ends_block: true };
        assert_eq!(parsed(kind::HEADERS, 0x2c, 3, b"\x01\0\0\0\x01\x10ab\0"), Ok(expected));
    }

    #[test]
    fn what_has_not_its_form_is_refused() {
        let connection = |code| Err(Fault::Connection(code));
        for (kind, flags, stream, payload, expected) in [
            (kind::DATA, 0, 0, &b"ab"[..], connection(Protocol)),
            (kind::DATA, flag::PADDED, 1, b"", connection(FrameSize)),
            (kind::DATA, flag::PADDED, 1, b"\x03ab", connection(Protocol)),
            (kind::HEADERS, flag::PRIORITY, 1, b"\0\0\0\0", connection(FrameSize)),
            (kind::HEADERS, flag::PRIORITY, 1, b"\0\0\0\x01\0", connection(Protocol)),
            (kind::PRIORITY, 0, 1, b"\0\0\0\0", Err(Fault::Stream(1, FrameSize))),
            (kind::RST_STREAM, 0, 1, b"\0", connection(FrameSize)),
            (kind::SETTINGS, 0, 1, b"", connection(Protocol)),
            (kind::SETTINGS, 0, 0, b"\0", connection(FrameSize)),
            (kind::SETTINGS, flag::ACK, 0, b"\0\0\0\0\0\0", connection(FrameSize)),
            (kind::PUSH_PROMISE, 0, 1, b"", connection(Protocol)),
            (kind::PING, 0, 0, b"short", connection(FrameSize)),
            (kind::GOAWAY, 0, 0, b"short", connection(FrameSize)),
            (kind::WINDOW_UPDATE, 0, 0, b"\0\0\0\0", connection(Protocol)),
            (kind::WINDOW_UPDATE, 0, 7, b"\0\0\0\0", Err(Fault::Stream(7, Protocol))),
            (kind::WINDOW_UPDATE, 0, 7, b"\0\0\0", connection(FrameSize)),
            (kind::CONTINUATION, 0, 0, b"", connection(Protocol)),
            (99, 0xff, 7, b"anything", Ok(Frame::Ignored)),
        ] {
            assert_eq!(parsed(kind, flags, stream, payload), expected, "{kind} {flags} {stream} {payload:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(length in 0usize..1 << 24, kind: u8, flags: u8, stream in 0u32..1 << 31) {
            let header = Header { length, kind, flags, stream };
            prop_assert_eq!(Header::read(&header.bytes()), Some(header));
        }

        #[test]
        fn a_block_is_cut_into_frames(block in proptest::collection::vec(any::<u8>(), 0..40_000), ends: bool) {
            let mut bytes = Vec::new();
            write_block(5, &block, ends, &mut bytes);
            let (mut rest, mut seen, mut is_first) = (bytes.as_slice(), Vec::<u8>::new(), true);
            while let Some(header) = Header::read(rest) {
                let (payload, more) = rest[HEADER_BYTES..].split_at(header.length);
                rest = more;
                match parse(header, payload).unwrap() {
                    Frame::Headers { stream: 5, block, is_last, ends_block } => {
                        prop_assert!(is_first && is_last == ends && ends_block == rest.is_empty());
                        seen.extend(block);
                    }
                    Frame::Continuation { stream: 5, block, ends_block } => {
                        prop_assert!(!is_first && ends_block == rest.is_empty());
                        seen.extend(block);
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
                is_first = false;
            }
            prop_assert_eq!(seen, block);
        }
    }
}

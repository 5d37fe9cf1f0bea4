//! SETTINGS: what each side tells the other of itself (RFC 9113, 6.5).

use crate::error::{ErrorCode, Fault};

/// The preface's first part, with which every client begins (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The protocol's name in a handshake of TLS (RFC 9113, 3.2).
pub const ALPN: &str = "h2";
/// Bytes that may be sent on a stream, or a connection, unless something else is said.
pub(crate) const WINDOW: i64 = 65_535;
/// What a window can be at most.
pub(crate) const WINDOW_MAX: i64 = (1 << 31) - 1;
/// Bytes of a frame's content, unless something else is said: it is what we say.
pub(crate) const FRAME_BYTES: usize = 16_384;

const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// What we say: all else is as the RFC has it. A client that knows how long a head may be does not send a longer one.
pub(crate) fn ours(streams_max: u32, head_bytes_max: usize) -> Vec<u8> {
    let head_bytes_max = u32::try_from(head_bytes_max).unwrap_or(u32::MAX);
    [(MAX_CONCURRENT_STREAMS, streams_max), (MAX_HEADER_LIST_SIZE, head_bytes_max)]
        .into_iter()
        .flat_map(|(name, value)| name.to_be_bytes().into_iter().chain(value.to_be_bytes()))
        .collect()
}

/// The peer's initial window for streams; `None`: it says nothing of it.
///
/// Of what else it says nothing changes what we do: we push nothing, keep no table, and send frames that every peer takes.
pub(crate) fn initial_window(payload: &[u8]) -> Result<Option<i64>, Fault> {
    let mut window = None;
    for setting in payload.chunks_exact(6) {
        let (name, value) = setting.split_at(2);
        let name = u16::from_be_bytes(name.try_into().unwrap_or_default());
        let value = u32::from_be_bytes(value.try_into().unwrap_or_default());
        match name {
            ENABLE_PUSH if value > 1 => return Err(Fault::Connection(ErrorCode::Protocol)),
            INITIAL_WINDOW_SIZE if i64::from(value) > WINDOW_MAX => {
                return Err(Fault::Connection(ErrorCode::FlowControl));
            }
            INITIAL_WINDOW_SIZE => window = Some(i64::from(value)),
            MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                return Err(Fault::Connection(ErrorCode::Protocol));
            }
            _ => {}
        }
    }
    Ok(window)
}

//! The datagrams that are sent.

/// Length of the neighbour's frames, bytes.
pub(super) const ECHO_FRAME: usize = 64;
/// What the wire adds to a frame, bytes: preamble, checksum, gap.
pub(super) const FRAME_OVERHEAD: u64 = 24;
/// The port of the echo.
pub(super) const PORT: u16 = 7;

/// A UDP datagram between 10.77.0.x addresses; `stamp` is the end of it.
pub(super) fn datagram(
    source: [u8; 6],
    destination: [u8; 6],
    last: [u8; 2],
    ports: (u16, u16),
    length: usize,
    stamp: u64,
) -> Vec<u8> {
    let mut frame = [destination, source].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(((length - 14) as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 77, 0, last[0], 10, 77, 0, last[1]]);
    frame.extend(ports.0.to_be_bytes());
    frame.extend(ports.1.to_be_bytes());
    frame.extend(((length - 34) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.resize(length - 8, 0);
    frame.extend(stamp.to_be_bytes());
    frame
}

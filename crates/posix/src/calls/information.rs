//! `TCP_INFO`: what the stack knows of a connection, in the places of Linux' structure.

use crate::sockets::socket::Kind;
use crate::world::lock::lock;
use qanat_stack::tcp::{ConnectionInfo, Phase, State};
use rustix::io::Errno;

/// Linux' numbers of states.
const LISTEN: u8 = 10;
const CLOSED: u8 = 7;
/// Linux' numbers of congestion states.
const OPEN: u8 = 0;
const DISORDER: u8 = 1;
const REDUCED: u8 = 2;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;
/// No slow start threshold yet.
const INFINITE: u32 = 0x7fff_ffff;
/// Duplicate acknowledgements at first: what Linux calls reordering. This stack goes by time (RFC 8985) and doesn't count them.
const REORDERING: u32 = 3;

/// `struct tcp_info` of Linux 6.1, as far as `tcpi_rcv_ooopack` and `tcpi_snd_wnd`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TcpInfo {
    state: u8,
    congestion_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    window_scales: u8,
    flags: u8,
    timeout_us: u32,
    delayed_ack_us: u32,
    send_segment: u32,
    receive_segment: u32,
    unacknowledged: u32,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    forward_acks: u32,
    last_data_sent_ms: u32,
    last_ack_sent_ms: u32,
    last_data_received_ms: u32,
    last_ack_received_ms: u32,
    path_mtu: u32,
    receive_threshold: u32,
    round_trip_us: u32,
    round_trip_variance_us: u32,
    slow_start_threshold: u32,
    congestion_window: u32,
    advertised_segment: u32,
    reordering: u32,
    receive_round_trip_us: u32,
    receive_space: u32,
    retransmissions: u32,
    pacing_rate: u64,
    pacing_rate_max: u64,
    bytes_acknowledged: u64,
    bytes_received: u64,
    segments_out: u32,
    segments_in: u32,
    bytes_not_sent: u32,
    minimum_round_trip_us: u32,
    data_segments_in: u32,
    data_segments_out: u32,
    delivery_rate: u64,
    busy_us: u64,
    window_limited_us: u64,
    buffer_limited_us: u64,
    delivered: u32,
    delivered_marked: u32,
    bytes_sent: u64,
    bytes_retransmitted: u64,
    duplicate_sacks: u32,
    reordering_seen: u32,
    out_of_order_in: u32,
    send_window: u32,
}

fn fill(info: &mut TcpInfo, known: &ConnectionInfo, now: qanat::Time, mtu: u16) {
    let segment = u32::from(known.maximum_segment.max(1));
    let segments = |bytes: u32| bytes.div_ceil(segment);
    let since_ms = |time: qanat::Time| now.since(time).as_millis().min(u128::from(u32::MAX)) as u32;
    let micros = |time: std::time::Duration| time.as_micros().min(u128::from(u32::MAX)) as u32;
    *info = TcpInfo {
        state: state_number(known.state),
        congestion_state: congestion_state(known),
        backoff: known.backoff,
        retransmits: known.backoff,
        probes: known.probes_unanswered,
        options: options(known),
        // What the peer's window is shifted by is in the low half.
        window_scales: known.window_scales.1 | known.window_scales.0 << 4,
        timeout_us: micros(known.retransmission_timeout),
        send_segment: segment,
        receive_segment: known.receive_segment.into(),
        unacknowledged: segments(known.outstanding),
        sacked: segments(known.sacked),
        lost: segments(known.lost),
        retransmitted: segments(known.retransmitted_in_flight),
        last_data_sent_ms: since_ms(known.last_sent),
        last_data_received_ms: since_ms(known.last_received),
        last_ack_received_ms: since_ms(known.last_received),
        path_mtu: mtu.into(),
        receive_threshold: known.receive_window,
        round_trip_us: micros(known.smoothed_rtt),
        round_trip_variance_us: micros(known.rtt_variance),
        slow_start_threshold: known.slow_start_threshold.map_or(INFINITE, |bytes| bytes / segment),
        congestion_window: known.congestion_window / segment,
        advertised_segment: known.offered_segment.into(),
        reordering: REORDERING,
        receive_space: known.receive_window,
        retransmissions: known.segments_retransmitted,
        bytes_acknowledged: known.bytes_acknowledged,
        bytes_received: known.bytes_received,
        segments_out: known.segments_sent,
        segments_in: known.segments_received,
        bytes_not_sent: known.unsent.min(u64::from(u32::MAX)) as u32,
        minimum_round_trip_us: known.minimum_rtt.map_or(u32::MAX, micros),
        flags: (known.fast_open_failure as u8) << 1,
        delivered: known.segments_delivered,
        delivered_marked: known.ecn_marks,
        bytes_sent: known.bytes_acknowledged + u64::from(known.outstanding) + known.bytes_retransmitted,
        bytes_retransmitted: known.bytes_retransmitted,
        duplicate_sacks: known.duplicate_sacks,
        reordering_seen: known.reordering_seen.into(),
        send_window: known.send_window,
        ..TcpInfo::default()
    };
}

fn congestion_state(known: &ConnectionInfo) -> u8 {
    match known.phase {
        Phase::Open if known.sacked > 0 => DISORDER,
        Phase::Open => OPEN,
        Phase::Reduced => REDUCED,
        Phase::Recovery => RECOVERY,
        Phase::Loss => LOSS,
    }
}

fn options(known: &ConnectionInfo) -> u8 {
    let scales = known.window_scales != (0, 0);
    let syn_data = u8::from(known.syn_data) << 5;
    syn_data | u8::from(known.timestamps) | u8::from(known.sack) << 1 | u8::from(scales) << 2 | u8::from(known.ecn) << 3
}

/// Linux' number of a state.
fn state_number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
        State::Closed => CLOSED,
    }
}

/// Fills in `TCP_INFO`.
///
/// # Safety
/// `target` has `room` writable bytes.
pub(super) unsafe fn tell(number: u32, target: *mut u8, room: usize) -> Result<i32, Errno> {
    let guard = lock()?;
    let now = guard.clock_now();
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let mut info = TcpInfo { state: CLOSED, ..TcpInfo::default() };
    match &socket.kind {
        Kind::Listener(listener) => {
            info.state = LISTEN;
            info.unacknowledged = listener.pending.len() as u32;
            info.sacked = listener.backlog as u32;
        }
        Kind::Stream(stream) => {
            if let Some((_, _, known)) = stream.connection.and_then(|id| guard.stack.connection_info(id)) {
                fill(&mut info, &known, now, guard.vnic.mtu());
            }
        }
        Kind::Bound | Kind::Datagram(_) => {}
    }
    // What the kernel wrote beyond is of a socket that is not connected: zero.
    // SAFETY: the pointer is to as many readable and writable bytes as the length says.
    unsafe { std::ptr::copy_nonoverlapping((&raw const info).cast(), target, room.min(size_of::<TcpInfo>())) };
    Ok(0)
}

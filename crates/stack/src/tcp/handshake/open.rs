//! Connections as they begin: all variables at their first values.

use crate::tcp::challenge::Challenges;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::state::CongestionState;
use crate::tcp::connection::{Conditions, Connection, Statistics};
use crate::tcp::env::Env;
use crate::tcp::handshake::half_open::HalfOpen;
use crate::tcp::handshake::parameters::OpenParameters;
use crate::tcp::lifetime::lifecycle::Lifecycle;
use crate::tcp::lifetime::outcome::Outcome;
use crate::tcp::lifetime::patience::Patience;
use crate::tcp::receive::held::HeldData;
use crate::tcp::receive::owed_acks::OwedAcks;
use crate::tcp::receive::sizing::RightSizing;
use crate::tcp::receive::window::ReceiveWindow;
use crate::tcp::recovery::rack::Rack;
use crate::tcp::recovery::rtt::RttEstimator;
use crate::tcp::recovery::scoreboard::Scoreboard;
use crate::tcp::recovery::variables::Recovery;
use crate::tcp::segment::{MSS_DEFAULT, SegmentIn};
use crate::tcp::send::bunching::Bunching;
use crate::tcp::send::queue::SendQueue;
use crate::tcp::send::segment_size::PathMtu;
use crate::tcp::send::window::SendWindow;
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::state::State;
use crate::tcp::timers::Timers;
use crate::tcp::timestamps::TimestampClock;
use qanat_api::CongestionAlgorithm;
use qanat_nic::Time;

impl Connection {
    #[inline(always)] // large: built where it stays
    fn new(open: &OpenParameters, state: State, config: &TcpConfig, now: Time) -> Connection {
        let start = open.initial_sequence;
        let maximum_segment = open.maximum_segment.max(1);
        Connection {
            lifecycle: Lifecycle::new(state),
            is: Conditions {
                paced: config.pacing || config.congestion == CongestionAlgorithm::Bbr,
                ..Conditions::default()
            },
            send_scale: 0,
            maximum_segment: maximum_segment.min(MSS_DEFAULT),
            send_next: start,
            send_window: SendWindow::default(),
            receive_window: ReceiveWindow::new(),
            acks: OwedAcks::new(),
            timestamps: TimestampClock::new(open.timestamp_offset, now),
            congestion: CongestionState::new(config.congestion, start),
            board: Scoreboard::new(start),
            queue: SendQueue::new(),
            timers: Timers::new(),
            rtt: RttEstimator::new(),
            last_received: now,
            last_sent: now,
            id: open.id,
            local_port: open.local_port,
            peer_port: open.peer_port,
            rack: Rack::new(start),
            recovery: Recovery::new(start),
            path_mtu: PathMtu::new(maximum_segment),
            held: HeldData::new(),
            right_sizing: RightSizing::new(config, open.receive_window),
            bunching: Bunching::new(config.no_delay, start),
            initial_send: start,
            patience: Patience::new(config.user_timeout, now),
            challenges: Challenges::default(),
            extras: None,
            pacing_next: Time::ZERO,
            statistics: Statistics::default(),
            outcome: Outcome::default(),
        }
    }

    /// An active open: the SYN goes out with the next `output`.
    pub fn open_active(open: &OpenParameters, config: &TcpConfig, now: Time) -> Connection {
        let mut connection = Connection::new(open, State::SynSent, config, now);
        connection.is.handshake.want_syn(true);
        connection.is.output_wanted = true;
        connection.is.timestamps = config.timestamps;
        connection.is.sack = config.sack;
        connection.is.ecn = config.ecn && config.ecn_requested;
        connection
    }

    /// A passive open whose handshake `acknowledgment` completes. Give that segment to [`input`](Connection::input)
    /// next: it may carry data.
    #[inline(always)] // one caller; large: built where it stays
    pub fn from_half_open(
        open: &OpenParameters,
        half: &HalfOpen,
        segment: &SegmentIn<'_>,
        env: &mut Env<'_>,
    ) -> Connection {
        let mut connection = Connection::new(open, State::Established, env.config, env.now);
        connection.is.timestamps = half.timestamps;
        connection.is.sack = half.sack;
        connection.is.ecn = half.ecn;
        connection.send_scale = half.send_scale;
        connection.receive_window.set_scale(half.receive_scale);
        connection.timestamps.set_recent(half.timestamp_recent, env.now);
        connection.set_receive_start(half.peer_initial, env.config.initial_window(open.receive_window));
        connection.board = Scoreboard::new(open.initial_sequence + 1);
        connection.send_next = open.initial_sequence + 1;
        connection.send_window.open(u32::from(segment.window) << half.send_scale, segment.sequence);
        connection.recovery = Recovery::new(connection.send_next);
        connection.set_peer_segment(half.peer_segment);
        connection.congestion.open(u32::from(connection.maximum_segment));
        if half.transmissions == 1 {
            connection.rtt.sample(env.now.since(half.sent_at), env.now);
        }
        connection.statistics.delivered = 1;
        connection.start_right_sizing(env.now);
        connection.arm_keepalive(env.config, env.now);
        env.counters.passive_opens += 1;
        connection
    }

    /// Notes the peer's ISN, and that it may send `size` bytes.
    pub(in crate::tcp) fn set_receive_start(&mut self, initial: SequenceNumber, size: u32) {
        self.receive_window.start(initial, size);
        self.acks.start(self.receive_window.next());
    }
}

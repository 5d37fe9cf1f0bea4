//! How a socket's options are given to the stack for its connection.

use crate::sockets::socket::{Kind, Options, Socket};
use qanat::{Keepalive, Setting, Time};
use qanat_stack::Stack;
use std::time::Duration;

/// As Linux' defaults.
pub(crate) const KEEP_IDLE: Duration = Duration::from_secs(7_200);
pub(crate) const KEEP_INTERVAL: Duration = Duration::from_secs(75);
pub(crate) const KEEP_COUNT: u32 = 9;

/// Tells the stack what differs from its defaults.
pub(crate) fn apply(socket: Option<&Socket>, stack: &mut Stack, now: Time) {
    let Some(socket) = socket else { return };
    let Kind::Stream(stream) = &socket.kind else { return };
    let Some(connection) = stream.connection else { return };
    let options = &socket.options;
    // The connection is there; what it is told can't be wrong.
    if options.no_delay {
        let _ = stack.set(now, connection, Setting::NoDelay(true));
    }
    if options.cork {
        let _ = stack.set(now, connection, Setting::Cork(true));
    }
    if options.keepalive {
        let _ = stack.set(now, connection, Setting::Keepalive(Some(keepalive(options))));
    }
    if options.syn_retransmissions.is_some() && stream.is_connecting {
        let _ = stack.set(now, connection, Setting::SynRetransmissions(options.syn_retransmissions));
    }
    if options.user_timeout.is_some() {
        let _ = stack.set(now, connection, Setting::UserTimeout(options.user_timeout));
    }
    if let Some(algorithm) = options.congestion {
        let _ = stack.set(now, connection, Setting::Congestion(algorithm));
    }
}

/// How a peer that says nothing is asked whether it is there.
pub(crate) fn keepalive(options: &Options) -> Keepalive {
    let seconds = |seconds: Option<u32>, default| seconds.map_or(default, |s| Duration::from_secs(s.into()));
    Keepalive {
        idle: seconds(options.keep_idle_s, KEEP_IDLE),
        interval: seconds(options.keep_interval_s, KEEP_INTERVAL),
        probes_max: options.keep_count.unwrap_or(KEEP_COUNT).min(255) as u8,
    }
}

//! The choice among the algorithms. Dispatch is an enum: no allocation, no virtual call.

use crate::tcp::congestion::control::{AckSample, CongestionCause, CongestionControl, Window};
use crate::tcp::congestion::cubic::Cubic;
use crate::tcp::congestion::model::Model;
use crate::tcp::congestion::new_reno::NewReno;
use qanat_api::CongestionAlgorithm;
use std::time::Duration;

/// One of the algorithms, with its state.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum Congestion {
    /// RFC 9438.
    Cubic(Cubic),
    /// RFC 5681, 6582.
    NewReno(NewReno),
    /// BBR, version 3. It is large, and few connections have it.
    Bbr(Box<Model>),
}

impl Congestion {
    /// Fresh state of `algorithm`; `seed` differs among connections.
    pub fn new(algorithm: CongestionAlgorithm, seed: u32) -> Congestion {
        match algorithm {
            CongestionAlgorithm::Cubic => Congestion::Cubic(Cubic::new()),
            CongestionAlgorithm::NewReno => Congestion::NewReno(NewReno::new()),
            CongestionAlgorithm::Bbr => Congestion::Bbr(Box::new(Model::new(seed))),
        }
    }
}

macro_rules! dispatch {
    ($self:ident, $algorithm:ident => $call:expr) => {
        match $self {
            Congestion::Cubic($algorithm) => $call,
            Congestion::NewReno($algorithm) => $call,
            Congestion::Bbr($algorithm) => $call,
        }
    };
}

impl CongestionControl for Congestion {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, sample: &AckSample) {
        dispatch!(self, algorithm => algorithm.on_ack(window, sample));
    }
    fn on_congestion(&mut self, window: &Window, in_flight: u32, maximum_segment: u32, cause: CongestionCause) -> u32 {
        dispatch!(self, algorithm => algorithm.on_congestion(window, in_flight, maximum_segment, cause))
    }
    fn on_undo(&mut self) {
        dispatch!(self, algorithm => algorithm.on_undo());
    }
    fn on_idle(&mut self, idle: Duration) {
        dispatch!(self, algorithm => algorithm.on_idle(idle));
    }
    fn name(&self) -> &'static str {
        dispatch!(self, algorithm => algorithm.name())
    }
}

//! [`Model`]: congestion control by a model of the path, with what it is told of it.

use crate::tcp::congestion::bbr::Bbr;
use crate::tcp::congestion::control::{AckSample, CongestionCause, CongestionControl, Window};
use crate::tcp::recovery::delivery_rate::DeliveryRate;
use std::time::Duration;

/// BBR, and the rate at which the path delivers.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Model {
    /// What is made of it.
    pub bbr: Bbr,
    /// What is measured.
    pub rate: DeliveryRate,
}

impl Model {
    /// Of a connection whose first sequence number is `seed`.
    pub fn new(seed: u32) -> Model {
        Model { bbr: Bbr::new(seed), rate: DeliveryRate::default() }
    }
}

/// What windows are moved by in the other algorithms. The model sets the window itself, at each acknowledgement.
impl CongestionControl for Model {
    fn on_ack(&mut self, _window: &mut Window, _sample: &AckSample) {}

    /// There is no threshold.
    fn on_congestion(&mut self, window: &Window, _in_flight: u32, _segment: u32, cause: CongestionCause) -> u32 {
        self.bbr.on_recovery(window.congestion_window, false);
        if cause == CongestionCause::EcnEcho {
            self.bbr.on_congestion_echo(self.rate.delivered());
        }
        window.slow_start_threshold
    }

    fn on_undo(&mut self) {
        self.bbr.on_spurious_loss(self.rate.delivered());
    }

    fn on_idle(&mut self, _idle: Duration) {}

    fn name(&self) -> &'static str {
        "bbr"
    }
}

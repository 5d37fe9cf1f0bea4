//! A connection whose congestion control is a model of the path: what it is told of what leaves, arrives, and is lost.

use crate::tcp::congestion::bbr::PathSample;
use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::recovery::delivery_rate::RateSample;
use crate::tcp::recovery::phase::AckNews;
use crate::tcp::recovery::scoreboard::EVER_RETRANSMITTED;
use qanat_nic::Time;

impl Connection {
    /// A segment of so many octets has left, and is on the scoreboard.
    #[inline]
    pub(in crate::tcp) fn note_departure(&mut self, octets: u32, now: Time) {
        if self.congestion.model().is_some() {
            self.tell_departure(octets, now);
        }
    }

    fn tell_departure(&mut self, octets: u32, now: Time) {
        let in_flight = self.in_flight();
        let Some(model) = self.congestion.model_mut() else { return };
        if in_flight <= octets && model.rate.is_application_limited() {
            model.bbr.on_restart(now);
        }
        model.rate.on_sent(in_flight, octets, now);
    }

    /// There was nothing more to send, though the window had room: what is measured from here on is the application's rate.
    #[inline]
    pub(in crate::tcp) fn note_application_limit(&mut self) {
        if self.congestion.model().is_some() {
            self.tell_application_limit();
        }
    }

    fn tell_application_limit(&mut self) {
        let in_flight = self.in_flight();
        let has_room = in_flight < self.congestion.window() && self.board.lost() <= self.board.retransmitted();
        if let Some(model) = self.congestion.model_mut()
            && has_room
        {
            model.rate.set_application_limited(in_flight);
        }
    }

    fn path_sample(&self, rate: RateSample, acknowledged: u32, now: Time) -> PathSample {
        PathSample {
            rate,
            acknowledged,
            in_flight: self.in_flight(),
            delivered: self.congestion.model().map_or(0, |model| model.rate.delivered()),
            is_window_limited: self.congestion.is_limiting(),
            maximum_segment: u32::from(self.maximum_segment),
            has_sack: self.is.sack,
            is_recovering: !self.recovery.is_open(),
            smoothed_rtt: self.rtt.smoothed(),
            now,
        }
    }

    /// An acknowledgement was applied; losses that it shows were told. The model sets the window.
    pub(in crate::tcp) fn update_model(&mut self, news: &AckNews, env: &mut Env<'_>) {
        if news.delivered == 0 {
            return;
        }
        let now = env.now;
        let oldest = match self.board.get(0) {
            None => now,
            // Nothing that is outstanding was sent before the first one, unless that was sent again.
            Some(first) if !first.has(EVER_RETRANSMITTED) => first.sent_at,
            Some(_) => Time::ZERO,
        };
        let Some(model) = self.congestion.model_mut() else { return };
        model.rate.note_delivered(news.delivered, now);
        let minimum = model.bbr.min_rtt();
        let rate = model.rate.sample(minimum, now);
        model.rate.forget_before(oldest);
        let sample = self.path_sample(rate, news.delivered, now);
        let window = self.congestion.window();
        let Some(model) = self.congestion.model_mut() else { return };
        let window = model.bbr.on_ack(&sample, window);
        if model.bbr.wants_application_limited() {
            model.rate.set_application_limited(sample.in_flight);
        }
        self.congestion.set_window(window);
    }

    /// Segments were found lost: when each was sent last, and its octets.
    pub(in crate::tcp) fn tell_losses(&mut self, losses: &[(Time, u32)], now: Time) {
        let sample = self.path_sample(RateSample::default(), 0, now);
        let Some(model) = self.congestion.model_mut() else { return };
        for (sent_at, octets) in losses {
            match model.rate.on_lost(*sent_at, *octets) {
                Some(lost) => model.bbr.on_lost(*octets, &lost, &sample),
                None => model.bbr.on_congestion_echo(sample.delivered),
            }
        }
    }
}

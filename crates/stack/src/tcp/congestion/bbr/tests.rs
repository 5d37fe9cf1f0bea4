//! The draft's example test cases, on a path of one bottleneck.

use super::state::{Bbr, PathSample, State};
use crate::tcp::recovery::delivery_rate::{DeliveryRate, RateSample};
use qanat_nic::Time;
use std::collections::VecDeque;
use std::time::Duration;

const SEGMENT: u32 = 1_000;
const TICK: Duration = Duration::from_micros(50);

/// A segment on its way: when it was sent, and when its acknowledgement comes; `None`: it is lost, which is found then.
struct OnItsWay {
    sent_at: Time,
    known_at: Time,
    is_lost: bool,
}

/// A sender, and a path that takes so many octets a second and as long as it says.
struct Path {
    bbr: Bbr,
    rate: DeliveryRate,
    cwnd: u32,
    now: Time,
    octets_per_s: u64,
    round_trip: Duration,
    /// One of so many segments is lost; 0: none is.
    loses_every: u64,
    /// The application gives so many octets a second at most; 0: as many as go.
    application: u64,
    given: f64,
    sent: u64,
    in_flight: u32,
    pacing_next: Time,
    link_free: Time,
    segments: VecDeque<OnItsWay>,
    states: Vec<State>,
}

impl Path {
    fn new(octets_per_s: u64, round_trip_ms: u64) -> Path {
        let now = Time::from_millis(1_000);
        let bbr = Bbr::new(7);
        Path {
            states: vec![bbr.state],
            bbr,
            rate: DeliveryRate::default(),
            cwnd: 10 * SEGMENT,
            now,
            octets_per_s,
            round_trip: Duration::from_millis(round_trip_ms),
            loses_every: 0,
            application: 0,
            given: 0.0,
            sent: 0,
            in_flight: 0,
            pacing_next: now,
            link_free: now,
            segments: VecDeque::new(),
        }
    }

    fn sample(&self, rate: RateSample, acknowledged: u32, is_window_limited: bool) -> PathSample {
        PathSample {
            rate,
            acknowledged,
            in_flight: self.in_flight,
            delivered: self.rate.delivered(),
            is_window_limited,
            maximum_segment: SEGMENT,
            has_sack: true,
            is_recovering: self.loses_every > 0,
            smoothed_rtt: self.round_trip,
            now: self.now,
        }
    }

    fn tick(&mut self) {
        self.now += TICK;
        self.given += self.application as f64 * TICK.as_secs_f64();
        self.learn();
        self.send();
        if self.states.last() != Some(&self.bbr.state) {
            self.states.push(self.bbr.state);
        }
    }

    /// What is known by now.
    fn learn(&mut self) {
        let is_window_limited = self.in_flight + SEGMENT > self.cwnd;
        while let Some(first) = self.segments.front().filter(|first| first.known_at <= self.now) {
            let (sent_at, is_lost) = (first.sent_at, first.is_lost);
            self.segments.pop_front();
            self.in_flight -= SEGMENT;
            if is_lost {
                let sample = self.sample(RateSample::default(), 0, is_window_limited);
                if let Some(lost) = self.rate.on_lost(sent_at, SEGMENT) {
                    self.bbr.on_lost(SEGMENT, &lost, &sample);
                }
                continue;
            }
            self.rate.on_delivered(sent_at, false);
            self.rate.note_delivered(SEGMENT, self.now);
            let rate = self.rate.sample(self.bbr.min_rtt(), self.now);
            let sample = self.sample(rate, SEGMENT, is_window_limited);
            self.cwnd = self.bbr.on_ack(&sample, self.cwnd);
            if self.bbr.wants_application_limited() {
                self.rate.set_application_limited(self.in_flight);
            }
        }
    }

    fn send(&mut self) {
        while self.in_flight + SEGMENT <= self.cwnd && self.pacing_next <= self.now {
            if self.application > 0 && self.given < f64::from(SEGMENT) {
                self.rate.set_application_limited(self.in_flight);
                return;
            }
            self.given -= f64::from(SEGMENT);
            self.in_flight += SEGMENT;
            self.sent += 1;
            if self.in_flight <= SEGMENT && self.rate.is_application_limited() {
                self.bbr.on_restart(self.now);
            }
            self.rate.on_sent(self.in_flight, SEGMENT, self.now);
            let service = Duration::from_nanos(u64::from(SEGMENT) * 1_000_000_000 / self.octets_per_s);
            self.link_free = self.link_free.max(self.now) + service;
            let is_lost = self.loses_every > 0 && self.sent.is_multiple_of(self.loses_every);
            self.segments.push_back(OnItsWay {
                sent_at: self.now,
                known_at: self.link_free + self.round_trip,
                is_lost,
            });
            if let Some(gap) = (u64::from(SEGMENT) * 1_000_000_000).checked_div(self.bbr.pacing_rate()) {
                let earliest = Time::from_nanos(self.now.as_nanos() - TICK.as_nanos() as u64);
                self.pacing_next = self.pacing_next.max(earliest) + Duration::from_nanos(gap);
            }
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.tick();
        }
    }

    /// Until it is in this state.
    fn until(&mut self, state: State) {
        let patience = self.now + Duration::from_secs(30);
        while self.bbr.state != state {
            self.tick();
            assert!(self.now < patience, "never {state:?}: {:?}", self.states);
        }
    }
}

#[test]
fn startup_ends_when_the_rate_grows_no_more_and_the_cycle_begins() {
    for (octets_per_s, round_trip_ms) in [(1_000_000, 40), (5_000_000, 10), (200_000, 100), (20_000_000, 5)] {
        let mut path = Path::new(octets_per_s, round_trip_ms);
        path.until(State::Drain);
        let found = path.bbr.max_bw as f64 / octets_per_s as f64;
        assert!((0.95..=1.05).contains(&found), "{octets_per_s}/s, {round_trip_ms} ms: {found}");
        assert!(path.bbr.full_bw_reached && path.bbr.full_bw_count >= 3);
        assert_eq!(path.bbr.pacing_gain, 50);
        path.until(State::Up);
        assert_eq!(path.bbr.pacing_gain, 125);
        path.until(State::Cruise);
        // DOWN may be over at once: Drain has left no queue.
        path.states.retain(|state| *state != State::Down);
        assert_eq!(path.states, [State::Startup, State::Drain, State::Cruise, State::Refill, State::Up, State::Cruise]);
    }
}

#[test]
fn what_is_sent_is_what_the_path_takes_and_the_queue_stays_short() {
    let mut path = Path::new(2_000_000, 40);
    path.run(Duration::from_secs(4));
    let before = path.rate.delivered();
    path.run(Duration::from_secs(20));
    let share = (path.rate.delivered() - before) as f64 / (20.0 * 2_000_000.0);
    assert!(share > 0.93, "{share}");
    // The shortest round trip was seen again and again: ProbeRTT.
    assert!(path.states.contains(&State::ProbeRtt), "{:?}", path.states);
    assert!(path.bbr.min_rtt().unwrap() < Duration::from_millis(42), "{:?}", path.bbr.min_rtt());
}

#[test]
fn a_round_trip_is_measured_with_little_in_flight() {
    let mut path = Path::new(2_000_000, 40);
    path.until(State::ProbeRtt);
    assert_eq!(path.bbr.cwnd_gain, 50);
    let began = path.now;
    path.run(Duration::from_millis(150));
    assert!(u64::from(path.in_flight) <= path.bbr.probe_rtt_cwnd());
    while path.bbr.state == State::ProbeRtt {
        path.tick();
    }
    let took = path.now.since(began);
    assert!((200..600).contains(&took.as_millis()), "{took:?}");
    assert_eq!(path.bbr.state, State::Cruise);
    assert!(u64::from(path.cwnd) > path.bbr.probe_rtt_cwnd(), "the window is what it was");
}

#[test]
fn an_application_that_is_the_limit_says_nothing_of_the_path() {
    let mut path = Path::new(10_000_000, 20);
    path.application = 300_000;
    path.run(Duration::from_secs(4));
    assert_eq!(path.states, [State::Startup], "there is more, for all that is known");
    // And then it gives all that goes.
    path.application = 0;
    path.until(State::Cruise);
    assert!((9_300_000..=10_700_000).contains(&path.bbr.max_bw), "{}", path.bbr.max_bw);
}

#[test]
fn a_pause_is_as_good_as_a_probe() {
    let mut path = Path::new(2_000_000, 40);
    path.until(State::Cruise);
    // Nothing is given for longer than a round trip is good.
    path.application = 1;
    path.given = 0.0;
    path.run(Duration::from_secs(6));
    assert_eq!(path.in_flight, 0);
    let rate = path.bbr.bw;
    path.application = 0;
    path.run(Duration::from_millis(200));
    assert!(!path.states.contains(&State::ProbeRtt), "{:?}", path.states);
    assert!(path.bbr.bw * 10 >= rate * 9, "it goes on at the rate that it knew");
}

#[test]
fn few_losses_slow_nobody_down_and_many_set_a_bound() {
    let mut path = Path::new(2_000_000, 40);
    path.loses_every = 150;
    path.run(Duration::from_secs(4));
    let before = path.rate.delivered();
    path.run(Duration::from_secs(8));
    let share = (path.rate.delivered() - before) as f64 / (8.0 * 2_000_000.0);
    assert!(share > 0.85, "{share}: less than a hundredth is lost");
    // More than a fiftieth while it probes: it gives way.
    path.loses_every = 10;
    path.until(State::Refill);
    path.until(State::Down);
    assert!(path.bbr.prev_probe_too_high);
    assert!(path.bbr.inflight_longterm < u64::MAX);
    assert!(path.bbr.bw_shortterm <= path.bbr.max_bw || path.bbr.bw_shortterm == u64::MAX);
}

#[test]
fn losses_that_were_none_are_taken_back() {
    let mut path = Path::new(2_000_000, 40);
    path.until(State::Cruise);
    let cwnd = path.cwnd;
    path.bbr.on_recovery(cwnd, false);
    path.loses_every = 3;
    while path.bbr.bw_shortterm == u64::MAX {
        path.tick();
    }
    assert!(path.bbr.inflight_shortterm < u64::MAX);
    path.bbr.on_spurious_loss(path.rate.delivered());
    assert_eq!(path.bbr.inflight_shortterm, u64::MAX);
    assert_eq!(path.bbr.bw_shortterm, u64::MAX);
    assert_eq!(path.bbr.after_recovery(1), cwnd);
}

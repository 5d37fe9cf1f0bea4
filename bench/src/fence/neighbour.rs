//! A neighbour beside a flood: its datagrams to a card and back by a schedule, and how late the answers are.

use super::control::Control;
use super::error::FenceError;
use super::frames::{ECHO_FRAME, FRAME_OVERHEAD, PORT, datagram};
use crate::harness::cpu;
use hdrhistogram::Histogram;
use qanat_control::address::Address;
use qanat_control::client::{Session, VnicHandle};
use qanat_control::filter::{Direction, Rate};
use qanat_control::protocol::VnicWish;
use qanat_nic::{AfXdp, MemoryPlan, TransmitBuffer, TransmitOptions, Vnic};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the flood is policed to, bits a second.
const RATE: u64 = 40_000_000;
/// Length of the flood's frames, bytes.
const FLOOD_FRAME: usize = 1_000;
/// Frames in a burst of the flood.
const BURST_FRAMES: usize = 64;
/// Datagrams without an answer, at most, while the neighbour's highest rate is looked for.
const WINDOW: u64 = 32;
/// Runs before it is measured: until then the policer's burst is used up, and the rings have lost what the last flood left there.
const LEAD: Duration = Duration::from_millis(100);
/// Pause before each run. A host that gives two processors less time than two real ones takes it back in this pause, not in the run.
const REST: Duration = Duration::from_millis(50);
/// How long answers are waited for after a run.
const LATE: Duration = Duration::from_millis(50);
const PLAN: MemoryPlan =
    MemoryPlan { frame_size: 2_048, receive_frames: 1_024, transmit_frames: 1_024, prepared_frames: 0 };

/// What is done beside the neighbour, on processor 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flood {
    /// Nothing.
    Quiet,
    /// Nothing is sent, but the processor is as busy as under a flood.
    Busy,
    /// Another card sends to the neighbour's server: as fast as can be, or a gigabit a second in bursts, asleep between.
    Sends { policed: bool, gigabit: bool },
}

/// How much a neighbour has to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Half as many datagrams as it can answer one after the other: half of its processor's time is left.
    HalfAlone,
    /// Half as many datagrams as it can answer when [`WINDOW`] of them always wait.
    HalfPeak,
}

/// What a run found.
#[derive(Clone, Copy, Default)]
pub(super) struct Found {
    /// Answers a second.
    pub(super) answers: f64,
    /// Latencies in µs at the median, 90th and 99th percentile.
    pub(super) latency_us: [f64; 3],
    /// Share of the time in which the neighbour had something to do, percent.
    pub(super) busy_percent: f64,
    /// Share of the datagrams that were never answered, percent.
    pub(super) lost_percent: f64,
    /// What the flood offers, and what of it passes the gate, Mbit/s with overhead; only of a flood.
    pub(super) flood_mbit: Option<[f64; 2]>,
}

fn card(session: &Session, last: u8) -> Result<(VnicHandle, AfXdp), FenceError> {
    let wish = VnicWish {
        name: format!("card {last}"),
        addresses: vec![(Address::from([10, 77, 0, last]), 24)],
        services: vec!["udp".parse()?],
        ..VnicWish::default()
    };
    let vnic = session.create_vnic(wish)?;
    let queue = vnic.open_queue(0, PLAN)?;
    Ok((vnic, queue))
}

/// Puts a frame into the ring; false: no room.
fn queue_frame(queue: &mut AfXdp, bytes: &[u8]) -> bool {
    if queue.transmit_room() == 0 {
        return false;
    }
    let Some(mut frame) = queue.transmit_pool().allocate(64) else { return false };
    let Some(target) = frame.append(bytes.len()) else { return false };
    target.copy_from_slice(bytes);
    queue.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).is_ok()
}

/// The work of the flood's thread.
const IDLE: u8 = 0;
const SPIN: u8 = 1;
const FLOOD: u8 = 2;
const GIGABIT: u8 = 3;

/// A card whose owner sends as fast as can be, or at a rate, on processor 1.
struct Flooder {
    work: Arc<AtomicU8>,
    stop: Arc<AtomicBool>,
    offered_bits: Arc<AtomicU64>,
    card: VnicHandle,
    thread: Option<JoinHandle<()>>,
}

impl Flooder {
    fn start(control: &Control, to: [u8; 6]) -> Result<Flooder, FenceError> {
        let (work, stop) = (Arc::new(AtomicU8::new(IDLE)), Arc::new(AtomicBool::new(false)));
        let (offered_bits, session) = (Arc::new(AtomicU64::new(0)), control.session()?);
        let (told, asked, count) = (Arc::clone(&stop), Arc::clone(&work), Arc::clone(&offered_bits));
        let (sender, ready) = sync_channel(1);
        let flood = move || match card(&session, 4) {
            Err(error) => drop(sender.send(Err(error))),
            Ok((card, mut queue)) => {
                let frame = datagram(card.status().mac, to, [4, 3], (9, 9), FLOOD_FRAME, 0);
                let _ = sender.send(Ok(card));
                // Unpinned it keeps a processor busy all the same: the neighbour's is taken.
                let _ = cpu::pin(1);
                flood(&mut queue, &frame, &told, &asked, &count);
            }
        };
        let thread = Some(std::thread::spawn(flood));
        let card = ready.recv().map_err(|_| FenceError::NoFlood)??;
        Ok(Flooder { work, stop, offered_bits, card, thread })
    }

    fn begin(&self, flood: Flood) -> Result<(), FenceError> {
        let work = match flood {
            Flood::Quiet => IDLE,
            Flood::Busy => SPIN,
            Flood::Sends { policed, gigabit } => {
                let rate = if policed { Rate { bits_per_s: RATE, ..Rate::UNLIMITED } } else { Rate::UNLIMITED };
                self.card.set_rate(Direction::Transmit, rate)?;
                if gigabit { GIGABIT } else { FLOOD }
            }
        };
        self.work.store(work, Ordering::Relaxed);
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// The bits that were offered and those that have passed the gate, with overhead, and when they were counted.
    fn sent(&self, session: &Session) -> Result<([u64; 2], Instant), FenceError> {
        let status = session.status()?;
        let now = Instant::now();
        let own = self.card.status().vnic;
        let own = status.vnics.iter().find(|vnic| vnic.vnic == own).ok_or(FenceError::NoFloodCard)?;
        let passed = own.transmit.counts.iter().filter(|count| !count.dropped);
        let bits = passed.map(|count| (count.bytes + FRAME_OVERHEAD * count.frames) * 8).sum();
        Ok(([self.offered_bits.load(Ordering::Relaxed), bits], now))
    }
}

impl Drop for Flooder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Does what is asked for until it is told to end.
fn flood(queue: &mut AfXdp, frame: &[u8], told: &AtomicBool, asked: &AtomicU8, offered_bits: &AtomicU64) {
    let bits = (FLOOD_FRAME as u64 + FRAME_OVERHEAD) * 8;
    let mut due = Instant::now();
    while !told.load(Ordering::Relaxed) {
        match asked.load(Ordering::Relaxed) {
            IDLE => {
                std::thread::park();
                due = Instant::now();
                continue;
            }
            SPIN => {
                std::hint::spin_loop();
                continue;
            }
            GIGABIT => {
                due += Duration::from_nanos(BURST_FRAMES as u64 * bits);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            _ => {}
        }
        let sent = (0..BURST_FRAMES).take_while(|_| queue_frame(queue, frame)).count() as u64;
        queue.flush();
        offered_bits.fetch_add(sent * bits, Ordering::Relaxed);
    }
}

/// Client and server of the echo, on one thread.
struct Echo {
    client: AfXdp,
    server: AfXdp,
    request: Vec<u8>,
    start: Instant,
    sent: u64,
    answered: u64,
    busy: Duration,
    latencies: Histogram<u64>,
}

/// When the next datagram goes.
#[derive(Clone, Copy)]
enum Pace {
    /// By a schedule, so many a second, whatever became of those before.
    PerSecond(f64),
    /// When fewer than so many are unanswered.
    Window(u64),
}

impl Echo {
    /// Serves what has come, and takes answers.
    fn turn(&mut self, frames: &mut Vec<qanat::Frame>) {
        self.server.receive(frames, 64);
        for frame in frames.drain(..) {
            let bytes = frame.bytes();
            // Everything else is the flood's.
            if bytes.len() == ECHO_FRAME && bytes.get(36..38) == Some(&PORT.to_be_bytes()) {
                let mut answer = bytes.to_vec();
                let (head, rest) = answer.split_at_mut(6);
                head.swap_with_slice(&mut rest[..6]);
                let (one, other) = answer[26..34].split_at_mut(4);
                one.swap_with_slice(other);
                let (one, other) = answer[34..38].split_at_mut(2);
                one.swap_with_slice(other);
                queue_frame(&mut self.server, &answer);
            }
        }
        self.server.flush();
        self.client.receive(frames, 64);
        for frame in frames.drain(..) {
            let bytes = frame.bytes();
            let Some(stamp) = bytes.last_chunk().filter(|_| bytes.len() == ECHO_FRAME) else { continue };
            let due = u64::from_be_bytes(*stamp);
            self.answered += 1;
            let taken = (self.start.elapsed().as_nanos() as u64).saturating_sub(due).max(1);
            // Longer than the histogram goes is as long as it goes.
            self.latencies.saturating_record(taken);
        }
    }

    fn ask(&mut self, due_ns: u64) {
        if let Some(stamp) = self.request.last_chunk_mut() {
            *stamp = due_ns.to_be_bytes();
        }
        self.sent += 1;
        queue_frame(&mut self.client, &self.request);
    }

    fn run(&mut self, duration: Duration, pace: Pace) {
        let mut frames = Vec::with_capacity(64);
        let begun = Instant::now();
        let offset = begun.duration_since(self.start).as_nanos() as u64;
        (self.sent, self.answered, self.busy) = (0, 0, Duration::ZERO);
        let mut now = Duration::ZERO;
        while now < duration {
            let before = (self.sent, self.answered);
            match pace {
                Pace::PerSecond(per_s) => loop {
                    let due = (self.sent as f64 * 1e9 / per_s) as u64;
                    if u128::from(due) > now.as_nanos() {
                        break;
                    }
                    self.ask(offset + due);
                },
                Pace::Window(window) => {
                    while self.sent < self.answered + window {
                        self.ask(offset + now.as_nanos() as u64);
                    }
                }
            }
            self.client.flush();
            self.turn(&mut frames);
            let then = std::mem::replace(&mut now, begun.elapsed());
            if (self.sent, self.answered) != before {
                self.busy += now - then;
            }
        }
    }

    /// Takes answers until none is missing, or for so long.
    fn finish(&mut self, patience: Duration) {
        let mut frames = Vec::with_capacity(64);
        let begun = Instant::now();
        while self.answered < self.sent && begun.elapsed() < patience {
            self.turn(&mut frames);
        }
    }

    /// Answers a second at this pace.
    fn rate(&mut self, duration: Duration, window: u64) -> f64 {
        let begun = Instant::now();
        self.run(duration, Pace::Window(window));
        let rate = self.answered as f64 / begun.elapsed().as_secs_f64();
        self.finish(LATE);
        rate
    }
}

/// A daemon, the neighbour's two cards and the flood's, on the thread that made them: queues stay with theirs.
struct Scene {
    // Dropped in this order: the daemon goes last.
    flooder: Flooder,
    echo: Echo,
    _cards: [VnicHandle; 2],
    session: Session,
    _control: Control,
}

impl Scene {
    fn set_up() -> Result<Scene, FenceError> {
        let control = Control::start()?;
        let session = control.session()?;
        let ((one, client), (other, server)) = (card(&session, 2)?, card(&session, 3)?);
        let (from, to) = (one.status().mac, other.status().mac);
        let flooder = Flooder::start(&control, to)?;
        // After the daemon's threads are made, which would be pinned with this one.
        cpu::pin(0)?;
        let latencies = Histogram::new_with_bounds(1, 10_000_000_000, 3)?;
        let request = datagram(from, to, [2, 3], (9, PORT), ECHO_FRAME, 0);
        let start = Instant::now();
        let mut echo = Echo { client, server, request, start, sent: 0, answered: 0, busy: Duration::ZERO, latencies };
        // The first touch of everything, and what the daemon makes ready for the next card.
        echo.run(Duration::from_millis(600), Pace::Window(WINDOW));
        echo.finish(LATE);
        Ok(Scene { flooder, echo, _cards: [one, other], session, _control: control })
    }

    fn play(&mut self, asked: Asked) -> Result<Found, FenceError> {
        match asked {
            Asked::Load(load) => {
                let window = if load == Load::HalfPeak { WINDOW } else { 1 };
                Ok(Found { answers: self.echo.rate(Duration::from_millis(300), window) / 2.0, ..Found::default() })
            }
            Asked::Run(duration, flood, per_s) => {
                std::thread::sleep(REST);
                self.flooder.begin(flood)?;
                let found = self.measure(duration, flood, per_s);
                self.flooder.begin(Flood::Quiet)?;
                found
            }
        }
    }

    fn measure(&mut self, duration: Duration, flood: Flood, per_s: f64) -> Result<Found, FenceError> {
        let is_flood = matches!(flood, Flood::Sends { .. });
        let Scene { flooder, echo, session, .. } = self;
        let sent = || is_flood.then(|| flooder.sent(session)).transpose();
        echo.run(LEAD, Pace::PerSecond(per_s));
        echo.finish(LATE);
        let before = sent()?;
        echo.latencies.reset();
        let begun = Instant::now();
        echo.run(duration, Pace::PerSecond(per_s));
        let (seconds, in_time) = (begun.elapsed().as_secs_f64(), echo.answered);
        let after = sent()?;
        echo.finish(LATE);
        let flood_mbit = before.zip(after).map(|((before, then), (after, now))| {
            let seconds = now.duration_since(then).as_secs_f64();
            [0, 1].map(|which: usize| (after[which] - before[which]) as f64 / seconds / 1e6)
        });
        Ok(Found {
            answers: in_time as f64 / seconds,
            latency_us: [0.5, 0.9, 0.99].map(|quantile| echo.latencies.value_at_quantile(quantile) as f64 / 1e3),
            busy_percent: echo.busy.as_secs_f64() * 100.0 / seconds,
            lost_percent: echo.sent.saturating_sub(echo.answered) as f64 * 100.0 / echo.sent.max(1) as f64,
            flood_mbit,
        })
    }
}

enum Asked {
    Load(Load),
    Run(Duration, Flood, f64),
}

/// A scene and the thread it is played on.
pub(super) struct Stage {
    asks: Option<SyncSender<Asked>>,
    answers: Receiver<Result<Found, FenceError>>,
    thread: Option<JoinHandle<()>>,
}

impl Stage {
    /// Builds the scene in the namespace of the thread that calls.
    pub(super) fn set_up() -> Result<Stage, FenceError> {
        let (asks, asked) = sync_channel(1);
        let (sender, answers) = sync_channel(1);
        let play = move || match Scene::set_up() {
            Err(error) => drop(sender.send(Err(error))),
            Ok(mut scene) => {
                let _ = sender.send(Ok(Found::default()));
                for asked in asked {
                    if sender.send(scene.play(asked)).is_err() {
                        return;
                    }
                }
            }
        };
        let thread = Some(std::thread::spawn(play));
        let stage = Stage { asks: Some(asks), answers, thread };
        stage.answer()?;
        Ok(stage)
    }

    fn answer(&self) -> Result<Found, FenceError> {
        self.answers.recv().unwrap_or(Err(FenceError::NoNeighbour))
    }

    fn ask(&self, asked: Asked) -> Result<Found, FenceError> {
        let asks = self.asks.as_ref().ok_or(FenceError::Closed)?;
        asks.send(asked).map_err(|_| FenceError::NoNeighbour)?;
        self.answer()
    }

    /// Datagrams a second that make this load.
    pub(super) fn load(&self, load: Load) -> Result<f64, FenceError> {
        Ok(self.ask(Asked::Load(load))?.answers)
    }

    /// One run of `duration` at `per_s` datagrams a second.
    pub(super) fn run(&self, duration: Duration, flood: Flood, per_s: f64) -> Result<Found, FenceError> {
        self.ask(Asked::Run(duration, flood, per_s))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.asks = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

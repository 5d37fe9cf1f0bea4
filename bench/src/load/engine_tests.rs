use super::*;
use crate::load::mix::{RequestShape, Target, Url};
use proptest::prelude::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Connect(u32),
    Send(u32),
    Close(u32),
    Abort(u32),
}

#[derive(Default)]
struct Fake {
    acts: Vec<Act>,
    refuse: Option<ErrorKind>,
}

impl Transport for Fake {
    fn connect(&mut self, worker: u32) -> Result<(), ErrorKind> {
        self.acts.push(Act::Connect(worker));
        self.refuse.map_or(Ok(()), Err)
    }
    fn send(&mut self, worker: u32, request: &Bytes) -> Result<(), ErrorKind> {
        assert!(request.starts_with(b"GET / HTTP/1.1\r\n"));
        self.acts.push(Act::Send(worker));
        Ok(())
    }
    fn close(&mut self, worker: u32) {
        self.acts.push(Act::Close(worker));
    }
    fn abort(&mut self, worker: u32) {
        self.acts.push(Act::Abort(worker));
    }
}

impl Fake {
    fn take(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }
}

fn options() -> EngineOptions {
    EngineOptions {
        connections: 1,
        pipeline: 1,
        close: false,
        rate_per_s: None,
        backlog_max: 1_000,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        verify: false,
        head: false,
        watch_process: None,
    }
}

fn engine(options: EngineOptions) -> (Engine, Fake) {
    let target = Target { url: Url::parse("http://x/").unwrap(), weight: 1 };
    let shape = RequestShape { close: options.close, ..RequestShape::default() };
    let mut engine = Engine::new(options, Mix::new(&[target], &shape, 1).unwrap());
    let mut transport = Fake::default();
    engine.start(Time::ZERO, &mut transport);
    engine.tick(Time::ZERO, &mut transport); // the warm-up of no length ends
    (engine, transport)
}

fn at(microseconds: u64) -> Time {
    Time::from_micros(microseconds)
}

fn finish(engine: &mut Engine, transport: &mut Fake, now: Time) -> Report {
    engine.finish_early(now, transport);
    engine.take_report().unwrap()
}

#[test]
fn closed_loop_keeps_the_pipe_full() {
    let (mut engine, mut transport) = engine(EngineOptions { pipeline: 2, ..options() });
    engine.connected(0, at(10), &mut transport);
    assert_eq!(transport.take(), [Act::Connect(0), Act::Send(0), Act::Send(0)]);
    let two = [ANSWER, ANSWER].concat();
    engine.data(0, &two[..50], at(20), &mut transport);
    engine.data(0, &two[50..], at(30), &mut transport);
    assert_eq!(transport.take(), [Act::Send(0), Act::Send(0)]);
    let report = finish(&mut engine, &mut transport, at(1_000_000));
    assert_eq!((report.requests, report.errors_total, report.received_bytes), (2, 0, two.len() as u64));
    assert_eq!(report.response_time_us.count, 2);
    assert!(report.response_time_us.max < 21.0 && report.response_time_us.min > 9.0);
    assert_eq!(transport.take(), [Act::Abort(0)]);
}

#[test]
fn a_first_answer_may_take_longer_than_the_window() {
    let options = EngineOptions { duration: Duration::from_millis(100), ..options() };
    let (mut slow, mut transport) = engine(options.clone());
    slow.connected(0, at(10), &mut transport);
    slow.tick(at(150_000), &mut transport);
    assert!(!slow.is_over(), "nothing is known yet");
    slow.data(0, ANSWER, at(160_000), &mut transport);
    slow.tick(at(170_000), &mut transport);
    assert_eq!(slow.take_report().map(|report| (report.requests, report.errors_total)), Some((1, 0)));

    let (mut silent, mut transport) = engine(options);
    silent.connected(0, at(10), &mut transport);
    silent.tick(at(1_100_000), &mut transport);
    assert!(silent.is_over(), "no answer is waited for any longer");
}

#[test]
fn with_close_the_server_closes_first() {
    let (mut engine, mut transport) = engine(EngineOptions { close: true, ..options() });
    engine.connected(0, at(10), &mut transport);
    engine.data(0, ANSWER, at(20), &mut transport);
    assert_eq!(transport.take(), [Act::Connect(0), Act::Send(0)], "nothing until the peer's FIN");
    engine.peer_closed(0, at(21), &mut transport);
    assert_eq!(transport.take(), [Act::Close(0), Act::Connect(0)]);
    let report = finish(&mut engine, &mut transport, at(100));
    assert_eq!((report.requests, report.errors_total, report.connections_opened), (1, 0, 1));
    assert!((report.response_time_us.max - 20.0).abs() < 0.2, "from the connection's begin");
}

#[test]
fn open_loop_latency_counts_from_when_it_was_due() {
    for close in [false, true] {
        let (mut engine, mut transport) = engine(EngineOptions { close, rate_per_s: Some(1_000.0), ..options() });
        if close {
            // Due at 0: connects at once.
            assert_eq!(transport.take(), [Act::Connect(0)]);
        }
        engine.connected(0, at(10), &mut transport);
        assert_eq!(transport.take().last(), Some(&Act::Send(0)));
        engine.tick(at(5_000), &mut transport); // five more come due, and no connection is free
        engine.data(0, ANSWER, at(5_000), &mut transport);
        if close {
            engine.peer_closed(0, at(5_000), &mut transport);
            engine.connected(0, at(5_000), &mut transport);
        }
        assert_eq!(transport.take().last(), Some(&Act::Send(0)));
        engine.data(0, ANSWER, at(6_000), &mut transport);
        let report = finish(&mut engine, &mut transport, at(6_000));
        assert_eq!((report.requests, report.errors_total), (2, 0));
        assert!((report.response_time_us.min - 5_000.0).abs() < 10.0, "{:?}", report.response_time_us);
        let open = report.open_loop.unwrap();
        assert_eq!((open.scheduled, open.dropped), (if close { 6 } else { 7 }, 0));
        assert!(open.late >= 1 && open.backlog_peak >= 4);
    }
}

#[test]
fn a_refusing_server_is_not_hammered() {
    let (mut engine, mut transport) = engine(options());
    let mut attempts = 0;
    for millisecond in 0..1_000 {
        let now = Time::from_millis(millisecond);
        attempts += transport.take().iter().filter(|act| matches!(act, Act::Connect(_))).count();
        engine.closed(0, Some(ErrorKind::ConnectRefused), now, &mut transport);
        engine.sweep(now, &mut transport);
    }
    assert!((5..20).contains(&attempts), "{attempts}");
    let report = finish(&mut engine, &mut transport, Time::from_millis(1_000));
    assert!(report.errors.connect_refused >= 5);
    let (mut engine, mut transport) = self::engine(options());
    transport.refuse = Some(ErrorKind::NoPort);
    engine.closed(0, Some(ErrorKind::ConnectUnreachable), at(1), &mut transport);
    engine.sweep(Time::from_millis(50), &mut transport);
    assert_eq!(finish(&mut engine, &mut transport, at(60_000)).errors.no_port, 1);
}

#[test]
fn failures_have_kinds() {
    type Script = fn(&mut Engine, &mut Fake);
    type Count = fn(&ErrorCounts) -> u64;
    let scripts: [(Script, Count); 7] = [
        (|e, t| e.data(0, b"SMTP ready\r\n", at(20), t), |errors| errors.protocol),
        (|e, t| e.data(0, &[ANSWER, b"more"].concat(), at(20), t), |_| 1),
        (|e, t| e.data(0, b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", at(20), t), |errors| errors.status),
        (
            |e, t| {
                e.data(0, &ANSWER[..ANSWER.len() - 1], at(20), t);
                e.peer_closed(0, at(21), t);
            },
            |errors| errors.short_body,
        ),
        (|e, t| e.peer_closed(0, at(21), t), |errors| errors.reset),
        (|e, t| e.closed(0, Some(ErrorKind::Reset), at(21), t), |errors| errors.reset),
        (
            |e, t| {
                for millisecond in 0..1_200 {
                    e.sweep(Time::from_millis(millisecond), t);
                }
            },
            |errors| errors.timeout,
        ),
    ];
    for (number, (script, count)) in scripts.iter().enumerate() {
        let (mut engine, mut transport) = engine(options());
        engine.connected(0, at(10), &mut transport);
        script(&mut engine, &mut transport);
        let report = finish(&mut engine, &mut transport, Time::from_millis(2_000));
        assert_eq!(count(&report.errors), 1, "script {number}: {:?}", report.errors);
        // "more" after an answer is the beginning of the next request's (it was sent meanwhile): short, not wrong.
        assert_eq!(report.errors_total, u64::from(number != 1), "script {number}");
    }
}

#[test]
fn bodies_are_compared() {
    let (mut engine, mut transport) = engine(EngineOptions { verify: true, ..options() });
    engine.connected(0, at(10), &mut transport);
    engine.data(0, ANSWER, at(20), &mut transport);
    engine.data(0, ANSWER, at(30), &mut transport);
    engine.data(
        0,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        at(40),
        &mut transport,
    );
    engine.data(0, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\noK", at(50), &mut transport);
    let report = finish(&mut engine, &mut transport, at(60));
    assert_eq!((report.requests, report.errors.body, report.errors_total), (4, 1, 1));
}

#[test]
fn a_server_may_end_an_idle_or_finished_connection() {
    let (mut engine, mut transport) = engine(options());
    engine.connected(0, at(10), &mut transport);
    engine.data(0, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", at(20), &mut transport);
    engine.peer_closed(0, at(30), &mut transport);
    engine.connected(0, at(40), &mut transport);
    engine.data(0, b"HTTP/1.0 200 OK\r\n\r\nuntil the end", at(50), &mut transport);
    engine.peer_closed(0, at(60), &mut transport);
    let report = finish(&mut engine, &mut transport, at(100));
    // The second answer, delimited by the end, says no more requests: the next is on a third connection.
    assert_eq!((report.requests, report.errors_total, report.connections_opened), (2, 0, 2));
}

#[test]
fn handshakes_under_way_are_bounded() {
    let (mut engine, mut transport) = engine(EngineOptions { connections: 1_000, ..options() });
    assert_eq!(transport.take().len(), 1, "the first one finds the way");
    engine.connected(0, at(1), &mut transport);
    assert_eq!(transport.take().len(), 1 + CONNECTING_MAX, "one request, and the others' handshakes");
    for index in 1..=CONNECTING_MAX as u32 {
        engine.connected(index, at(1), &mut transport);
    }
    let connects = transport.take().iter().filter(|act| matches!(act, Act::Connect(_))).count();
    assert_eq!(connects, CONNECTING_MAX);
}

proptest! {
    /// Whatever the network does, in whatever order, the engine neither panics nor loses count.
    #[test]
    fn survives_any_network(
        close in any::<bool>(),
        rate in proptest::option::of(100.0f64..100_000.0),
        pipeline in 1usize..4,
        happenings in proptest::collection::vec((0u8..8, 0u32..4, 0usize..60), 1..400),
    ) {
        let (mut engine, mut transport) =
            engine(EngineOptions { connections: 4, close, rate_per_s: rate, pipeline, backlog_max: 8, ..options() });
        for (step, (kind, worker, length)) in happenings.into_iter().enumerate() {
            let now = at(step as u64 * 997);
            match kind {
                0 | 1 => engine.connected(worker, now, &mut transport),
                2 | 3 => engine.data(worker, ANSWER, now, &mut transport),
                4 => engine.data(worker, &ANSWER[..length.min(ANSWER.len())], now, &mut transport),
                5 => engine.peer_closed(worker, now, &mut transport),
                6 => engine.closed(worker, (length % 2 == 0).then_some(ErrorKind::Reset), now, &mut transport),
                _ => {
                    engine.tick(now, &mut transport);
                    engine.sweep(now, &mut transport);
                }
            }
            let count = |wanted: &[State]| engine.workers.iter().filter(|w| wanted.contains(&w.state)).count();
            prop_assert_eq!(engine.connecting, count(&[State::Connecting]));
            prop_assert_eq!(engine.open, count(&[State::Open, State::Ending]));
            prop_assert!(engine.workers.iter().all(|w| w.pending.len() <= engine.options.pipeline));
            prop_assert!(engine.unconnected.len() <= 4);
        }
        let report = finish(&mut engine, &mut transport, at(1_000_000));
        prop_assert_eq!(report.requests, report.response_time_us.count);
        prop_assert_eq!(engine.open + engine.connecting, 0);
    }
}

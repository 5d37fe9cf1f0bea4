//! One card of several queues, each served by a net core of its own: to the service, and to its peers, one stack.
#![forbid(unsafe_code)]

use qanat::split::{Connector, SplitOptions, SplitRuntime};
use qanat::{
    Bytes, Commands, ConnectOptions, ConnectionId, Context, Event, RuntimeOptions, Service, StartError, StopHandle,
};
use qanat_control::address::Address;
use qanat_control::client::Session;
use qanat_control::filter::Service as Ports;
use qanat_control::protocol::StackWish;
use qanat_control::protocol::VnicWish;
use qanat_tests::e2e::{
    House, Pages, Program, Wire, connect, echoes, eventually, has_ended, process, scenario, scenario_on,
};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(20);
const STREAMS: usize = 32;
const ADDRESS: &str = "10.77.0.2:7";

/// A queue, as its net core tells of it.
#[derive(Clone, Copy, Debug)]
struct Queue {
    process: u64,
    processor: u64,
    queue: u64,
    connections: u64,
    events: u64,
}

/// Those of the card at 10.77.0.2, in order.
fn queues(house: &House) -> Vec<Queue> {
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let cores = house.status()["net_cores"].as_array().cloned().unwrap_or_default();
    let of_core = |core: &Value| {
        let (process, processor) = (number(&core["process"]), number(&core["processor"]));
        let cards = core["cards"].as_array().cloned().unwrap_or_default();
        let own = cards.into_iter().filter(|card| card["addresses"].to_string().contains("\"10.77.0.2\""));
        let queue = move |card: Value| Queue {
            process,
            processor,
            queue: number(&card["queue"]),
            connections: card["service"]["connections"].as_u64().unwrap_or(0),
            events: card["service"]["events"].as_u64().unwrap_or(0),
        };
        own.map(queue).collect::<Vec<_>>()
    };
    let mut all: Vec<Queue> = cores.iter().flat_map(of_core).collect();
    all.sort_by_key(|queue| queue.queue);
    all
}

fn streams(count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    eventually("echo answers", GRACE, || {
        streams.extend(connect(ADDRESS));
        streams.len() == count
    });
    streams
}

/// Both queues are served, by two net cores.
fn are_two(all: &[Queue]) -> bool {
    matches!(all, [first, second] if first.queue == 0 && second.queue == 1 && first.process != second.process)
}

#[test]
fn flows_of_one_address_are_spread_over_two_net_cores_and_one_that_dies_takes_its_own_with_it() {
    scenario_on(2, || {
        let house = House::new("0-1");
        let mut echo = house.start(&["echo", "--net-cores", "2"]);
        let mut all = streams(STREAMS);
        assert!(all.iter_mut().all(|stream| echoes(stream, 20_000)), "every byte comes back");
        let now = queues(&house);
        let spread = |all: &[Queue]| all.iter().all(|queue| queue.connections >= STREAMS as u64 / 8);
        assert!(are_two(&now) && spread(&now), "{now:?}");
        assert_eq!(now.iter().map(|queue| queue.connections).sum::<u64>(), STREAMS as u64, "{now:?}");
        let text = house.text();
        for said in [", queue 0 of 2: \"echo\"", ", queue 1 of 2: \"echo\"", "2 of 2 queues open", "2 VNICs"] {
            assert!(text.contains(said) != (said == "2 VNICs"), "{said} in {text}");
        }

        // Datagrams of many flows, each answered from the address it was sent to.
        let before = queues(&house);
        for number in 0..40u8 {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
            socket.connect(ADDRESS).expect("a peer");
            socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
            let (sent, mut back) = (vec![number; 500], vec![0; 600]);
            socket.send(&sent).expect("to send");
            let count = socket.recv(&mut back).expect("an answer");
            assert_eq!(back[..count], sent[..]);
        }
        let after = queues(&house);
        assert!(before.iter().zip(&after).all(|(before, after)| after.events >= before.events + 5), "{after:?}");

        // An echo request's queue depends on who asks.
        for number in 1..=6 {
            let source = format!("10.88.0.{number}");
            Program::new("ip").arguments(["address", "add", &format!("{source}/32"), "dev", "lo"]).succeeds();
            Program::new("ping").arguments(["-c", "1", "-W", "5", "-I", &source, "10.77.0.2"]).succeeds();
        }

        let [stays, dies] = now[..] else { panic!("{now:?}") };
        kill_process(process(dies.process), Signal::KILL).expect("a net core to kill");
        let alive = all.iter_mut().filter_map(|stream| echoes(stream, 20_000).then_some(())).count();
        assert_eq!(alive as u64, stays.connections, "the other's connections go on, and no others");
        eventually("it is started again, and has its queue", GRACE, || are_two(&queues(&house)));
        let mut new = streams(STREAMS);
        assert!(new.iter_mut().all(|stream| echoes(stream, 20_000)));
        let now = queues(&house);
        assert!(spread(&now) && now[0].process == stays.process && now[1].process != dies.process, "{now:?}");

        // The first queue's, too, which answers for the address.
        kill_process(process(stays.process), Signal::KILL).expect("a net core to kill");
        eventually("it is started again, and has its queue", GRACE, || are_two(&queues(&house)));
        let lasting = new.iter_mut().filter_map(|stream| (!has_ended(stream)).then_some(())).count();
        assert!(lasting > 0 && echo.is_running());
        assert!(streams(STREAMS).iter_mut().all(|stream| echoes(stream, 20_000)));
        drop(echo);
        house.end_without_cards();
    });
}

#[test]
fn who_dies_at_each_start_has_its_queue_served_by_another_until_it_lives() {
    scenario_on(2, || {
        let house = House::new("0-1");
        let echo = house.start(&["echo", "--net-cores", "2"]);
        drop(streams(STREAMS));
        let told = |house: &House| {
            let all = house.status()["net_cores_started"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|core| core["processor"] == 1).unwrap_or_default()
        };
        let kill = |core: &Value| {
            let number = core["process"].as_u64().filter(|number| *number != 0);
            number.map(|number| kill_process(process(number), Signal::KILL))
        };
        eventually("it is given up for now", GRACE, || {
            let core = told(&house);
            kill(&core);
            core["is_failing"] == true
        });
        assert!(house.text().contains("processor 1, which dies at each start"), "{}", house.text());
        eventually("both queues are with the other", GRACE, || {
            let now = queues(&house);
            now.len() == 2 && now.iter().all(|queue| queue.processor == 0)
        });
        // No flow of either is lost, and none is cut when it lives again: its queue goes there with all that is open.
        let mut all = streams(STREAMS);
        assert!(all.iter_mut().all(|stream| echoes(stream, 20_000)));
        eventually("it lives", GRACE, || told(&house)["is_failing"] == false);
        eventually("it has a queue", GRACE, || {
            let now = queues(&house);
            now.len() == 2 && now.iter().any(|queue| queue.processor == 1)
        });
        assert!(all.iter_mut().all(|stream| echoes(stream, 20_000)));
        drop(echo);
        house.end_without_cards();
    });
}

#[test]
fn queues_move_one_by_one_as_net_cores_come_and_go() {
    scenario_on(2, || {
        let house = House::new("0");
        // Of more queues than net cores, several are on one.
        let echo = house.start(&["echo", "--net-cores", "2"]);
        let all = streams(8);
        let now = queues(&house);
        assert!(now.len() == 2 && now[0].process == now[1].process, "{now:?}");
        let is_over = Arc::new(AtomicBool::new(false));
        let under_load = all.into_iter().map(|mut stream| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut rounds = 0u64;
                while !is_over.load(Ordering::Relaxed) && echoes(&mut stream, 50_000) {
                    rounds += 1;
                }
                (echoes(&mut stream, 1_000), rounds)
            })
        });
        let under_load: Vec<_> = under_load.collect();
        for round in 0..2 {
            assert_eq!(house.net_core(&["add", "1"]).code, Some(0), "round {round}");
            eventually("one queue has come to it", GRACE, || are_two(&queues(&house)));
            assert_eq!(house.net_core(&["remove", "1"]).code, Some(0), "round {round}");
            eventually("and has gone back", GRACE, || {
                let now = queues(&house);
                now.len() == 2 && now.iter().all(|queue| queue.processor == 0 && queue.process == now[0].process)
            });
        }
        is_over.store(true, Ordering::Relaxed);
        for stream in under_load {
            let (is_alive, rounds) = stream.join().expect("a stream");
            assert!(is_alive && rounds > 0, "every byte came back, over {rounds} rounds");
        }
        drop(echo);
        house.end_without_cards();
    });
}

/// A service at the moment when it says that it can be reached. Dropped, it is ended.
struct Serving {
    child: Child,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Serving {
    fn start(house: &House, arguments: &[&str]) -> Serving {
        let mut command = Command::new(house.command());
        command.args(arguments).args(["--net-cores", "2", "--json"]).env("QANAT_SOCKET", house.socket());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a service");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let is_it = |line: &String| ["\"serving\"", "\"echoing\""].iter().any(|event| line.contains(event));
        assert!(lines.by_ref().map_while(Result::ok).any(|line| is_it(&line)), "{arguments:?} serves");
        Serving { child, _lines: lines }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = kill_process(process(self.child.id().into()), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Of so many datagrams, each from a port of its own and sent once, how many are answered.
fn answered(count: usize, to: &str, question: &[u8]) -> usize {
    let send = |_| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect(to).expect("a peer");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        socket.send(question).expect("to send");
        socket
    };
    let all: Vec<UdpSocket> = (0..count).map(send).collect();
    all.iter().filter(|socket| socket.recv(&mut [0; 512]).is_ok()).count()
}

#[test]
fn who_says_that_it_serves_is_reached_by_every_queue() {
    scenario_on(2, || {
        let house = House::new("0-1");
        let zone = format!("{}/example.zone", house.root());
        std::fs::write(&zone, "@ 60 IN SOA ns hostmaster 1 60 60 60 60\n@ 60 IN NS ns\nns 60 IN A 10.77.0.2\n")
            .expect("a zone");
        let zone = format!("example={zone}");
        // The daemon's state is not to be served.
        let pages = Pages::new().with("index.html", "here");
        let question = b"\x01\x02\0\0\0\x01\0\0\0\0\0\0\x02ns\x07example\0\0\x01\0\x01";
        let connected = |port| (0..20).filter_map(|_| connect(&format!("10.77.0.2:{port}"))).count();
        for round in 0..3 {
            let dns = Serving::start(&house, &["dns", "--zone", &zone]);
            assert_eq!(answered(20, "10.77.0.2:53", question), 20, "dns, round {round}");
            drop(dns);
            let echo = Serving::start(&house, &["echo"]);
            assert_eq!((answered(20, ADDRESS, b"hello"), connected(7)), (20, 20), "echo, round {round}");
            drop(echo);
            let web = Serving::start(&house, &["web", pages.argument()]);
            assert_eq!(connected(80), 20, "web, round {round}");
            drop(web);
        }
        house.end_without_cards();
    });
}

/// The services on each queue, in order.
fn sharers(house: &House) -> Vec<Vec<u64>> {
    let cores = house.status()["net_cores"].as_array().cloned().unwrap_or_default();
    let cards = cores.iter().flat_map(|core| core["cards"].as_array().cloned().unwrap_or_default());
    let of_card = |card: Value| {
        let sharing = card["sharing"].as_array().cloned().unwrap_or_default();
        let all = std::iter::once(card["service"].clone()).chain(sharing);
        all.filter_map(|service| service["process"].as_u64()).collect()
    };
    cards.map(of_card).collect()
}

#[test]
fn app_cores_share_each_queue_and_one_that_dies_is_back_on_all() {
    scenario_on(2, || {
        let house = House::new("0-1");
        let echo = house.start(&["echo", "--net-cores", "2", "--app-cores", "2"]);
        let are_there = |all: &[Vec<u64>]| all.len() == 2 && all.iter().all(|of_one| of_one.len() == 2);
        eventually("both are on both", GRACE, || are_there(&sharers(&house)));
        assert!(streams(STREAMS).iter_mut().all(|stream| echoes(stream, 20_000)));
        let victim = sharers(&house)[0][0];
        kill_process(process(victim), Signal::KILL).expect("an app core to kill");
        eventually("another is in its place", GRACE, || {
            let all = sharers(&house);
            are_there(&all) && !all.concat().contains(&victim)
        });
        assert!(streams(STREAMS).iter_mut().all(|stream| echoes(stream, 20_000)));
        drop(echo);
        house.end_without_cards();
    });
}

/// Who is told that a packet was too big is the stack that sent it.
#[test]
fn errors_reach_the_queue_whose_packet_they_tell_of() {
    scenario(|| {
        // So many that by chance a queue has less than two once in a hundred thousand times.
        const COUNT: usize = 24;
        let house = House::new("0");
        let wire = Wire::new();
        let run = |line: &str| {
            let mut words = line.split_whitespace();
            Program::new(words.next().unwrap_or_default()).arguments(words).succeeds();
        };
        // Between the two the kernel forwards, over a link narrower than either end believes.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding");
        let echo = house.start(&["echo", "--net-cores", "2"]);
        drop(streams(1));
        run("ip route replace 10.78.9.2/32 dev e2e-near mtu lock 1000");
        wire.far(|| run("ip route add 10.77.0.0/24 via 10.78.9.1"));
        let (streams, told) = wire.far(|| {
            let mut streams: Vec<TcpStream> = (0..COUNT).filter_map(|_| connect(ADDRESS)).collect();
            streams.retain_mut(|stream| echoes(stream, 40_000));
            let told = Program::new("ss").arguments(["-tinH", "state", "established", "dport = :7"]).run().text();
            (streams, told)
        });
        assert_eq!(streams.len(), COUNT, "every byte came back");
        let now = queues(&house);
        assert!(now.iter().all(|queue| queue.connections >= 2), "{now:?}");
        // Who is told nothing sends segments of the least size in the end, not of the link's.
        let sizes = told.split_whitespace().filter_map(|word| word.strip_prefix("rcvmss:")?.parse::<u32>().ok());
        assert_eq!(sizes.filter(|size| (900..1_000).contains(size)).count(), COUNT, "{told}");
        drop(streams);
        drop(echo);
        house.end();
    });
}

/// Connects to others, says something, and wants it back.
struct Caller {
    peer: SocketAddr,
    wanted: usize,
    open: HashMap<ConnectionId, Vec<u8>>,
    done: Arc<AtomicUsize>,
}

impl Service for Caller {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        for number in 0..self.wanted {
            // Every second from a port of its choice.
            let port = 20_000 + number as u16;
            let local = (number % 2 == 0).then(|| SocketAddr::from(([0, 0, 0, 0], port)));
            let options = ConnectOptions { local, ..ConnectOptions::default() };
            let connection = context.connect(self.peer, options)?;
            self.open.insert(connection, Vec::new());
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        match event {
            Event::Connected { connection } => {
                let _ = context.send(connection, Bytes::from(vec![connection.index() as u8; 3_000]));
            }
            Event::Data { connection, chunk } => {
                let Some(back) = self.open.get_mut(&connection) else { return };
                back.extend_from_slice(chunk.bytes());
                context.consume(connection, chunk);
                if back.len() == 3_000 && back.iter().all(|byte| *byte == connection.index() as u8) {
                    self.done.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }
}

/// Gives back what comes, on every connection to it.
fn echo_of_the_kernel(listener: TcpListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4_096];
                while let Ok(count) = stream.read(&mut buffer)
                    && count > 0
                    && stream.write_all(&buffer[..count]).is_ok()
                {}
            });
        }
    });
}

#[test]
fn connections_made_by_the_service_are_answered_where_they_were_made_and_nobody_has_anothers_queue() {
    scenario_on(2, || {
        const COUNT: usize = 40;
        let house = House::new("0-1");
        let socket = house.socket();
        let wish = VnicWish {
            name: "caller".to_owned(),
            addresses: vec![(Address::from([10, 77, 0, 2]), 24)],
            queues: 2,
            services: vec!["tcp/any".parse::<Ports>().expect("all of TCP")],
            ..VnicWish::default()
        };
        let ask = |wish: &VnicWish, stack: StackWish| {
            Session::connect(&socket).and_then(|session| session.attach_net_core(wish.clone(), stack))
        };
        // What there is not, is refused.
        for (wish, queue) in [
            (wish.clone(), 2),
            (wish.clone(), u32::MAX),
            (VnicWish { queues: 2, priority_queues: 1, ..wish.clone() }, 0),
            (VnicWish { queues: u32::MAX, ..wish.clone() }, 7),
        ] {
            let refused = ask(&wish, StackWish { queue, ..StackWish::default() });
            assert!(refused.is_err(), "{refused:?}");
        }
        assert!(house.status()["vnics"].as_array().is_some_and(Vec::is_empty));

        let listener = TcpListener::bind("10.88.0.1:9").or_else(|_| {
            Program::new("ip").arguments(["address", "add", "10.88.0.1/32", "dev", "lo"]).succeeds();
            TcpListener::bind("10.88.0.1:9")
        });
        echo_of_the_kernel(listener.expect("a port"));
        let connectors = (0..2u32).map(|queue| {
            let (wish, socket) = (wish.clone(), socket.clone());
            let connector: Connector = Box::new(move || {
                let session = Session::connect(&socket).map_err(std::io::Error::other)?;
                let stack = StackWish { queue, ..StackWish::default() };
                let attached = session.attach_net_core(wish.clone(), stack).map_err(std::io::Error::other)?;
                attached.ok_or_else(|| std::io::ErrorKind::NotFound.into())
            });
            (connector, None)
        });
        let mut runtime =
            SplitRuntime::attach_all(connectors.collect(), SplitOptions::new("caller")).expect("both net cores");
        assert_eq!(runtime.addresses().len(), 1);
        // Who is another process has no part of it, be it the same user's.
        let other = Program::new(house.command())
            .arguments(["echo", "--net-cores", "2", "--port", "9"])
            .environment("QANAT_SOCKET", house.socket())
            .run();
        assert!(other.code == Some(1) && other.stderr.contains("is taken"), "{}", other.stderr);
        // Nor has this one a queue twice.
        let twice = ask(&wish, StackWish { queue: 1, ..StackWish::default() });
        assert!(twice.as_ref().is_err_and(|error| error.to_string().contains("served already")), "{twice:?}");

        let done = Arc::new(AtomicUsize::new(0));
        let peer = SocketAddr::from(([10, 88, 0, 1], 9));
        let mut caller = Caller { peer, wanted: COUNT, open: HashMap::new(), done: Arc::clone(&done) };
        let stop = StopHandle::new().expect("a doorbell");
        let teller = stop.clone();
        let sight = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let began = Instant::now();
                while done.load(Ordering::Relaxed) < COUNT && began.elapsed() < GRACE {
                    std::thread::sleep(Duration::from_millis(20));
                }
                let sight = queues(&house);
                teller.request();
                sight
            });
            let options = RuntimeOptions { grace: Duration::ZERO, ..RuntimeOptions::default() };
            runtime.run(&mut caller, &stop, options, &mut |_, _| {}).expect("to run");
            waiter.join().expect("who waits")
        });
        assert_eq!(done.load(Ordering::Relaxed), COUNT, "{sight:?}");
        assert!(are_two(&sight) && sight.iter().all(|queue| queue.connections >= 10), "{sight:?}");
        drop(runtime);
        house.end_without_cards();
    });
}

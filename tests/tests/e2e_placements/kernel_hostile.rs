//! Clients who mean ill, to services in the kernel placement.

use qanat_tests::e2e::{Client, PATIENCE, Pages, Place, Program, Server, eventually, qanat, scenario};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

fn serve(pages: &Pages, place: Place, more: &[&str]) -> Server {
    Server::start(&[&[pages.argument()], place.options(), more].concat())
}

/// By either way of asking the kernel.
const PLACES: [Place; 2] = [Place::Kernel, Place::Epoll];

fn by_each_way(test: impl Fn(Place) + Sync) {
    PLACES.into_iter().for_each(|place| scenario(|| test(place)));
}

fn is_served(server: &Server) {
    let mut client = Client::connect(server.address()).expect("it listens");
    assert_eq!(client.get("/").expect("an answer").body, b"hello");
}

/// Nothing is held for anybody who is gone.
fn comes_to_rest(server: &mut Server) {
    server.figures_when("all are gone", |figures| {
        figures["kernel"]["connections"] == 0 && figures["kernel"]["frames_in_use"] == 0
    });
}

#[test]
fn who_asks_for_much_and_reads_nothing_holds_up_nobody() {
    by_each_way(|place| {
        let pages = Pages::new().with("index.html", "hello").with("large.bin", Pages::pattern(1 << 20));
        let mut server = serve(&pages, place, &["--connections", "1000"]);
        // More than the answers' way takes: what is asked then is not read, and what is not read is not held.
        let request = b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2_000);
        let held: Vec<TcpStream> = (0..300)
            .map(|_| {
                let mut stream = TcpStream::connect(server.address()).expect("it listens");
                stream.set_write_timeout(Some(Duration::from_millis(20))).expect("a limit");
                let _ = stream.write_all(&request);
                stream
            })
            .collect();
        for _ in 0..20 {
            is_served(&server);
        }
        let figures = server.figures();
        let frames = figures["kernel"]["frames_in_use"].as_u64().expect("a count");
        assert!(frames < 8_192, "{figures}");
        drop(held);
        comes_to_rest(&mut server);
        is_served(&server);
        assert_eq!(server.stop().leaks(), Vec::<String>::new());
    });
}

#[test]
fn resets_and_halves_leave_nothing() {
    by_each_way(|place| {
        let pages = Pages::new().with("index.html", "hello").with("large.bin", Pages::pattern(1 << 20));
        let mut server = serve(&pages, place, &[]);
        for round in 0..600 {
            let mut stream = TcpStream::connect(server.address()).expect("it listens");
            if round % 2 == 0 {
                set_socket_linger(&stream, Some(Duration::ZERO)).expect("an option");
            }
            let text: &[u8] = match round % 3 {
                0 => b"",
                1 => b"GET /large.bin HT",
                _ => b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
            };
            stream.write_all(text).expect("it takes them");
        }
        comes_to_rest(&mut server);
        is_served(&server);
        assert_eq!(server.stop().leaks(), Vec::<String>::new());
    });
}

#[test]
fn out_of_descriptors_it_waits_and_goes_on() {
    by_each_way(|place| {
        let pages = Pages::new().with("index.html", "hello");
        let program = qanat().display().to_string();
        let words = [&["--nofile=64:64", &program, "web", "--json", pages.argument()], place.options()];
        let running = Program::new("prlimit").arguments(words.concat()).start();
        let address = "10.77.0.2:80".parse().expect("an address");
        let is_served = || Client::connect(address).and_then(|mut client| client.get("/")).is_ok();
        eventually("it listens", PATIENCE, is_served);
        let held: Vec<TcpStream> =
            (0..100).map(|_| TcpStream::connect(address).expect("the kernel takes them")).collect();
        // The last one has its turn when others go.
        let mut last = held.last().expect("there are some");
        last.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it is kept");
        last.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
        assert!(last.read(&mut [0; 1]).is_err(), "there are no descriptors");
        last.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut answer = String::new();
        std::thread::scope(|scope| {
            scope.spawn(|| held.iter().take(99).for_each(|stream| _ = stream.shutdown(Shutdown::Both)));
            last.read_to_string(&mut answer).expect("an answer");
        });
        assert!(answer.ends_with("hello"), "{answer}");
        eventually("others are served, too", PATIENCE, is_served);
        let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
        kill_process_group(group, Signal::INT).expect("Ctrl-C");
        let outcome = running.wait(PATIENCE);
        let text = outcome.text();
        let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default()).expect("figures");
        assert!(last["kernel"]["accept_failures"].as_u64().is_some_and(|failures| failures > 0), "{last}");
    });
}

#[test]
fn too_many_are_refused_and_the_others_are_served() {
    by_each_way(|place| {
        let pages = Pages::new().with("index.html", "hello");
        let mut server = serve(&pages, place, &["--connections", "50"]);
        let held: Vec<TcpStream> = (0..1_000).filter_map(|_| TcpStream::connect(server.address()).ok()).collect();
        // By the service, or by the placement if they come faster than the service can refuse them.
        server.figures_when("no more than there may be", |figures| {
            let count = |name: &str| figures["kernel"][name].as_u64().unwrap_or_default();
            count("accepted") + count("connections_refused") == 1_000 && count("connections") <= 50
        });
        drop(held);
        comes_to_rest(&mut server);
        is_served(&server);
        assert_eq!(server.stop().leaks(), Vec::<String>::new());
    });
}

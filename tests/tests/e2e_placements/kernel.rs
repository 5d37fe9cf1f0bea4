//! What is particular to the kernel placement: it is taken by who can have no other, listens where it is told, and answers from where it was
//! asked.

use qanat_tests::e2e::{
    Client, NOBODY, PATIENCE, Pages, Place, Program, Running, Server, directory_for_anybody, eventually, has_address,
    qanat, qanat_for_anybody, scenario, workspace,
};
use std::net::{TcpStream, UdpSocket};

/// What a command says that refuses.
fn refusal(words: &[&str]) -> String {
    let outcome = Program::new(qanat()).arguments(words).patience(PATIENCE).run();
    assert_eq!(outcome.code, Some(1), "{words:?}: {}{}", outcome.text(), outcome.stderr);
    outcome.stderr
}

#[test]
fn who_has_no_rights_and_no_daemon_has_the_kernels_and_is_told() {
    scenario(|| {
        let directory = directory_for_anybody();
        let program = qanat_for_anybody(directory.path());
        let site = directory.path().join("site");
        std::fs::create_dir(&site).expect("a directory");
        std::fs::write(site.join("index.html"), "for anybody").expect("a file");
        let as_nobody = |words: &[&str]| {
            let (site, program) = (site.display().to_string(), program.display().to_string());
            let words = [&NOBODY[..], &[&program, "web", &site], words].concat();
            Program::new("setpriv").arguments(words)
        };
        let refused = as_nobody(&["--port", "80"]).environment("QANAT_LOG", "info").patience(PATIENCE).run();
        assert!(refused.stderr.contains("--port 8080"), "{}", refused.stderr);
        let mut running = as_nobody(&["--port", "8080"]).start();
        let url = "http://127.0.0.1:8080/";
        eventually("a page", PATIENCE, || {
            Program::new("curl").arguments(["-s", url]).patience(PATIENCE).run().text() == "for anybody"
        });
        running.kill();
        let said = running.wait(PATIENCE).stderr;
        assert!(said.contains("--placement kernel") && said.contains("qanat up"), "{said}");
    });
}

#[test]
fn what_does_not_go_together_is_said() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "hello");
        let web = |more: &[&str]| refusal(&[&["web", pages.argument()], more].concat());
        assert!(web(&["--sockets", "epoll", "--placement", "linked"]).contains("--placement kernel"));
        assert!(web(&["--placement", "kernel", "--address", "10.9.9.9/24"]).contains("--listen"));
        assert!(web(&["--placement", "kernel", "--net-cores", "2"]).contains("--net-cores"));
        assert!(web(&["--placement", "kernel", "--share"]).contains("--share"));
        assert!(web(&["--placement", "kernel", "--app-cores", "2", "--accept", "queue"]).contains("by a hash"));
        assert!(web(&["--placement", "kernel", "--mtu", "1400"]).contains("options of one"));
        assert!(refusal(&["echo", "--raw", "--placement", "kernel"]).contains("other placements"));
        assert!(web(&["--placement", "linked", "--listen", "127.0.0.1"]).contains("--address"));
        assert!(web(&["--listen", "198.51.100.7"]).contains("no interface has this address"));
        let _first = Server::start(&[pages.argument(), "--listen", "127.0.0.1"]);
        assert!(web(&["--listen", "127.0.0.1"]).contains("another program is there"));
    });
}

#[test]
fn it_listens_where_it_is_told_and_nowhere_else() {
    scenario(|| {
        has_address("10.77.0.2/24");
        let cache = |words: &[&str]| {
            Server::try_start_as("cache", &[&["--placement", "kernel"], words].concat())
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let is_there = |address: &str| TcpStream::connect((address, 11_211)).is_ok();
        // A cache is not for strangers.
        let server = cache(&[]);
        assert!(is_there("127.0.0.1") && is_there("::1") && !is_there("10.77.0.2"));
        assert_eq!(server.stop().code, Some(0));
        let server = cache(&["--listen", "10.77.0.2", "--listen", "::1"]);
        assert!(!is_there("127.0.0.1") && is_there("::1") && is_there("10.77.0.2"));
        assert_eq!(server.stop().code, Some(0));
        let pages = Pages::new().with("index.html", "hello");
        let server = Server::start(&[pages.argument(), "--placement", "kernel", "--port", "11211"]);
        assert!(is_there("127.0.0.1") && is_there("::1") && is_there("10.77.0.2"));
        assert_eq!(server.stop().leaks(), Vec::<String>::new());
    });
}

/// As in a container with Docker's usual profile.
#[test]
fn where_io_uring_is_forbidden_it_is_epoll_and_that_is_said() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "hello");
        let forbidden = workspace().join("tests/tests/e2e_placements/without_io_uring.py");
        let program = qanat().display().to_string();
        let serve = |more: &[&str]| {
            let words =
                [&[&program, "web", pages.argument(), "--placement", "kernel", "--port", "8080", "--json"], more];
            Program::new("python3").arguments([&forbidden]).arguments(words.concat()).environment("QANAT_LOG", "info")
        };
        let mut running = serve(&[]).start();
        eventually("a page", PATIENCE, || {
            Program::new("curl").arguments(["-s", "http://127.0.0.1:8080/"]).patience(PATIENCE).run().text() == "hello"
        });
        running.kill();
        let said = running.wait(PATIENCE);
        assert!(said.stderr.contains("--sockets epoll") && said.stderr.contains("io_uring_setup"), "{}", said.stderr);
        // Who asks for it by name is refused.
        let refused = serve(&["--sockets", "io-uring"]).patience(PATIENCE).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("io_uring is switched off"), "{}", refused.stderr);
    });
}

#[test]
fn a_port_that_the_service_does_not_listen_at_is_nobodys() {
    scenario(|| {
        let words = ["echo", "--json", "--udp", "--placement", "kernel"];
        let mut running = Program::new(qanat()).arguments(words).start();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect("127.0.0.1:7").expect("an address");
        socket.set_read_timeout(Some(std::time::Duration::from_millis(100))).expect("a limit");
        eventually("it echoes datagrams", PATIENCE, || socket.send(b"x").is_ok() && socket.recv(&mut [0; 1]).is_ok());
        assert!(TcpStream::connect("127.0.0.1:7").is_err(), "who connects would wait for nobody");
        running.kill();
    });
}

#[test]
fn datagrams_are_answered_from_the_address_that_was_asked() {
    scenario(|| {
        for address in ["10.77.0.2/24", "10.77.0.3/24", "fd77::2/64", "fd77::3/64"] {
            has_address(address);
        }
        let words = ["echo", "--json", "--placement", "kernel", "--listen", "0.0.0.0", "--listen", "::"];
        let mut running = Program::new(qanat()).arguments(words).start();
        eventually("it listens", PATIENCE, || TcpStream::connect("10.77.0.2:7").is_ok());
        for (from, to) in [
            ("10.77.0.2:0", "10.77.0.3:7"),
            ("127.0.0.1:0", "10.77.0.2:7"),
            ("[::1]:0", "[fd77::3]:7"),
            ("[fd77::2]:0", "[fd77::3]:7"),
        ] {
            let socket = UdpSocket::bind(from).expect("a socket");
            // It hears nobody else.
            socket.connect(to).expect("an address");
            socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
            socket.send(b"whose").expect("sent");
            let mut buffer = [0; 10];
            assert_eq!(socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{from} {to}: {error}")), 5);
        }
        assert!(running.is_running());
        running.kill();
    });
}

#[test]
fn a_request_costs_the_ring_two_calls_and_less_if_there_are_many() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "hello");
        let mut server = Server::start(&[&[pages.argument()], Place::Kernel.options()].concat());
        let mut client = Client::connect(server.address()).expect("it listens");
        let calls = |server: &mut Server, requests: u64| {
            let figures = server.figures_when("they are counted", |figures| {
                figures["web"]["requests"].as_u64().is_some_and(|done| done >= requests)
            });
            figures["kernel"]["enters"].as_u64().expect("a count")
        };
        for _ in 0..1_000 {
            assert_eq!(client.get("/").expect("an answer").body, b"hello");
        }
        let one_by_one = calls(&mut server, 1_000);
        // And a few a second for time-outs and figures.
        assert!(one_by_one < 3_000, "{one_by_one} calls");
        let before = calls(&mut server, 1_000);
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
        for _ in 0..100 {
            client.send(&request).expect("it takes requests");
            for _ in 0..100 {
                assert_eq!(client.answer().expect("an answer").body, b"hello");
            }
        }
        let together = calls(&mut server, 11_000) - before;
        assert!(together < 5_000, "{together} calls for 10,000 requests");
        assert_eq!(server.stop().code, Some(0));
    });
}

#[test]
fn a_zone_is_fetched_from_another_server() {
    scenario(|| {
        let directory = directory_for_anybody();
        let at = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(at("zone"), "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS ns\nns A 10.77.0.2\nwww A 192.0.2.1\n")
            .expect("a file");
        let zone = |more: &str| format!("[[zone]]\nname = \"example.test\"\n{more}\n");
        let primary = zone("file = \"zone\"\nallow_transfer = [\"127.0.0.0/8\"]");
        std::fs::write(at("primary.toml"), primary).expect("a file");
        let secondary = zone("file = \"copy\"\nprimary = [\"127.0.0.1\"]");
        std::fs::write(at("secondary.toml"), secondary).expect("a file");
        let serve = |config: &str, address: &str| {
            let words = ["dns", "--json", "--placement", "kernel", "--listen", address, "--config", &at(config)];
            Program::new(qanat()).arguments(words).start()
        };
        // They are confined: one may dial, and neither may do more.
        let mut running = [serve("primary.toml", "127.0.0.1"), serve("secondary.toml", "127.0.0.2")];
        eventually("the copy", PATIENCE, || {
            let words = ["+tries=1", "+time=5", "+short", "@127.0.0.2", "www.example.test"];
            Program::new("dig").arguments(words).patience(PATIENCE).run().text().trim() == "192.0.2.1"
        });
        running.iter_mut().for_each(Running::kill);
    });
}

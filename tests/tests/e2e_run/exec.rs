//! Sockets over `exec`, and programs that share an address.

use super::{OURS, PATIENCE, ask, cards, ends, run, run_with, signal, sleeps};
use qanat_tests::e2e::{Pages, Program, Running, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Words that happen to be there.
const LEFT_MAX: usize = 8;

fn process(number: &str) -> Option<Pid> {
    number.trim().parse().ok().and_then(Pid::from_raw)
}

#[test]
fn nginx_is_upgraded_under_load() {
    scenario(|| {
        let site = Pages::new().with("index.html", "It flows.");
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path().display();
        let config = format!(
            "user root; worker_processes 2; error_log {at}/errors notice; pid {at}/pid; events {{ }}\n\
             http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; \
             fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen {OURS}:80; listen 8080; root {}; }} }}\n",
            site.argument()
        );
        std::fs::write(directory.path().join("nginx.conf"), config).expect("a file");
        // nginx executes the path it was started by.
        let file = format!("{at}/nginx.conf");
        let server = run(directory.path(), &["/usr/sbin/nginx", "-c", &file]).start();
        let get = |url: &str| Program::new("curl").arguments(["-sS", "-m", "5", url]).run();
        eventually("nginx answers", PATIENCE, || get("http://10.77.0.2/").text() == "It flows.");
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap_or_default();
        let old = process(&read("pid")).expect("a master");
        let load =
            Program::new("wrk").arguments(["-t1", "-c8", "-d3", "--timeout", "20s", "http://10.77.0.2/"]).start();
        kill_process(old, Signal::USR2).expect("a signal");
        eventually("the new master has written its number", PATIENCE, || {
            process(&read("pid.oldbin")) == Some(old) && process(&read("pid")).is_some_and(|new| new != old)
        });
        let new = process(&read("pid")).expect("a new master");
        kill_process(old, Signal::WINCH).expect("a signal");
        kill_process(old, Signal::QUIT).expect("a signal");
        eventually("the old master has gone", PATIENCE, || read("pid.oldbin").is_empty());
        // Whoever answers now is the new one's.
        for url in ["http://10.77.0.2/", "http://10.77.0.2:8080/", "http://127.0.0.1:8080/"] {
            assert_eq!(get(url).text(), "It flows.", "{url}");
        }
        let said = load.wait(PATIENCE).text();
        assert!(said.contains("requests in") && !said.contains("Non-2xx"), "{said}");
        kill_process(new, Signal::QUIT).expect("a signal");
        eventually("its card is gone", PATIENCE, || cards(directory.path()) == 0);
        let said = server.wait(PATIENCE).stderr;
        assert!(said.contains("exec /usr/sbin/nginx: joins"), "{said}");
    });
}

/// A server in Python that executes another program.
fn python(directory: &Path, first: &str, then: &str) -> Running {
    std::fs::write(directory.join("then.py"), then).expect("a file");
    std::fs::write(directory.join("first.py"), first).expect("a file");
    let path = directory.join("first.py");
    run(directory, &["python3", path.to_str().expect("a path")]).start()
}

#[test]
fn sockets_are_inherited_over_exec() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let then = directory.path().join("then.py");
        // As systemd hands listeners on: from descriptor 3. The others: a connection, an instance of epoll with both, a datagram
        // socket, and a listener that is closed on exec.
        let first = format!(
            "import os, select, socket\n\
             s = socket.create_server(('{OURS}', 7000))\n\
             kept = socket.create_server(('{OURS}', 7001))\n\
             u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('{OURS}', 7000))\n\
             os.dup2(s.fileno(), 30, inheritable=True); os.dup2(u.fileno(), 31, inheritable=True)\n\
             c = s.accept()[0]; os.dup2(c.fileno(), 32, inheritable=True)\n\
             e = select.epoll(); e.register(30, select.EPOLLIN); e.register(32, select.EPOLLIN)\n\
             os.dup2(e.fileno(), 33, inheritable=True)\n\
             try: os.execv('/nowhere', ['nowhere'])\n\
             except FileNotFoundError: pass\n\
             c.sendall(b'first')\n\
             os.execve('/usr/bin/python3', ['python3', '{}'], {{'LISTEN_FDS': '1', 'PATH': '/usr/bin'}})\n",
            then.display()
        );
        let then = "import os, select, socket\n\
             s, u, c = [socket.socket(fileno=fd) for fd in (30, 31, 32)]; e = select.epoll.fromfd(33)\n\
             assert 'LD_PRELOAD' in os.environ and 'QANAT_JOINS' not in os.environ\n\
             peer = c.getpeername()[1]\n\
             while True:\n\
             \x20   for fd, _ in e.poll():\n\
             \x20       if fd == 30: a = s.accept()[0]; a.sendall(b'then'); a.close()\n\
             \x20       if fd == 32:\n\
             \x20           said = c.recv(100)\n\
             \x20           if not said: raise SystemExit\n\
             \x20           c.sendall(b'%d ' % peer + said)\n\
             \x20           u.sendto(b'by the way', u.recvfrom(100)[1])\n";
        let server = python(directory.path(), &first, then);
        let address = format!("{OURS}:7000").parse().expect("an address");
        let mut stream = None;
        eventually("it listens", PATIENCE, || {
            stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok();
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        let port = stream.local_addr().expect("an address").port();
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut answer = [0; 100];
        stream.read_exact(&mut answer[..5]).expect("the first program's");
        assert_eq!(&answer[..5], b"first");
        eventually("the second one accepts", PATIENCE, || ask(7000, "", 4).as_deref() == Some("then"));
        let datagrams = std::net::UdpSocket::bind("10.77.0.1:0").expect("a socket");
        datagrams.set_read_timeout(Some(PATIENCE)).expect("a limit");
        datagrams.send_to(b"?", (OURS, 7000)).expect("sent");
        stream.write_all(b"and on").expect("sent");
        let count = stream.read(&mut answer).expect("the second program's");
        assert_eq!(String::from_utf8_lossy(&answer[..count]), format!("{port} and on"));
        let count = datagrams.recv(&mut answer).expect("a datagram");
        assert_eq!(&answer[..count], b"by the way");
        // What was closed on exec is closed.
        let refused = TcpStream::connect_timeout(&format!("{OURS}:7001").parse().expect("an address"), PATIENCE);
        assert!(refused.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused));
        drop(stream);
        let outcome = server.wait(PATIENCE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        eventually("its card is gone", PATIENCE, || cards(directory.path()) == 0);
    });
}

/// Words in the memory that a program's processes share which are addresses of the library's constants. Such a word would be one of
/// something else in a program that joins; addresses of its code are there as what was left on stacks.
fn pointers_to_constants(process: u32) -> Vec<(u64, u64)> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("its mappings");
    let range = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let of = |name: &str| -> Vec<_> { maps.lines().filter(|line| line.contains(name)).collect() };
    let world = of("qanat-world").first().and_then(|line| range(line)).expect("a world");
    let constants = of("libqanat").into_iter().filter(|line| !line.contains(" r-xp "));
    let constants: Vec<(u64, u64)> = constants.filter_map(range).collect();
    assert!(constants.len() > 1, "{maps}");
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).expect("its memory");
    let mut found = Vec::new();
    let mut piece = vec![0; 1 << 20];
    // It is used from the start on, a piece of a mebibyte at least each time.
    for at in (world.0..world.1).step_by(piece.len()) {
        memory.read_exact_at(&mut piece, at).expect("readable");
        let words = piece.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")));
        let before = found.len();
        let mut is_empty = true;
        for (word, place) in words.zip((at..).step_by(8)) {
            is_empty &= word == 0;
            if constants.iter().any(|(start, end)| (*start..*end).contains(&word)) {
                found.push((place, word));
            }
        }
        if is_empty && before == found.len() {
            break;
        }
    }
    found
}

#[test]
fn what_is_shared_points_to_nothing_of_one_program() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        // Connections both ways, datagrams, epoll that is emptied again, unsent and unread bytes.
        let script = format!(
            "import select, socket\n\
             s = socket.create_server(('{OURS}', 7000)); e = select.epoll(); e.register(s, select.EPOLLIN)\n\
             u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('{OURS}', 7000))\n\
             e.register(u, select.EPOLLIN); n = select.epoll(); n.register(u, select.EPOLLIN); n.unregister(u)\n\
             c = s.accept()[0]; c.setblocking(False); sent = c.send(b'x' * 900000)\n\
             d = s.accept()[0]; d.sendall(b'hello')\n\
             while True: e.poll(); u.sendto(b'there', u.recvfrom(100)[1])"
        );
        let server = run(directory.path(), &["python3", "-c", &script]).start();
        let mut streams = Vec::new();
        eventually("it listens", PATIENCE, || {
            streams.extend(TcpStream::connect((OURS, 7000)));
            !streams.is_empty()
        });
        assert_eq!(ask(7000, "some words that nobody reads", 5).as_deref(), Some("hello"));
        let datagrams = std::net::UdpSocket::bind("10.77.0.1:0").expect("a socket");
        datagrams.set_read_timeout(Some(Duration::from_secs(1))).expect("a limit");
        let mut answer = [0; 100];
        eventually("a datagram comes back", PATIENCE, || {
            datagrams.send_to(b"hello", (OURS, 7000)).is_ok() && datagrams.recv(&mut answer).is_ok()
        });
        let found = pointers_to_constants(server.id());
        // A word may have been left in memory that nobody uses; what a connection or a piece of data has is there many times.
        assert!(found.len() < LEFT_MAX, "{} of them, such as {:x?}", found.len(), found.first());
        drop(streams);
        ends(server, Signal::KILL, directory.path());
    });
}

#[test]
fn programs_side_by_side_have_addresses_of_their_own_or_share_one() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = |port: u16| {
            format!(
                "import socket\ns = socket.create_server(('', {port}))\nwhile True: s.accept()[0].sendall(b'{port}')"
            )
        };
        let asked = |address: &str, port: u16| {
            let stream = TcpStream::connect_timeout(&format!("{address}:{port}").parse().ok()?, Duration::from_secs(1));
            let mut text = String::new();
            let mut stream = stream.ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.read_to_string(&mut text).ok()?;
            Some(text)
        };
        let serves = |address: &str, port: u16| {
            eventually(&format!("{address} port {port} answers"), PATIENCE, || {
                asked(address, port) == Some(port.to_string())
            });
        };
        // Nobody names an address: the second program gets the next.
        let one = run_with(directory.path(), &[], &["python3", "-c", &script(7000)]).start();
        serves(OURS, 7000);
        let two = run_with(directory.path(), &[], &["python3", "-c", &script(7001)]).start();
        serves("10.77.0.3", 7001);
        // Who names it shares it.
        let named = ["--address", "10.77.0.2/24"];
        let three = run_with(directory.path(), &named, &["python3", "-c", &script(7002)]).start();
        serves(OURS, 7002);
        serves(OURS, 7000);
        // It stays when the program that had it first goes, however it goes but in the middle of the stack's work (docs/posix.md).
        sleeps(one.id());
        signal(&one, Signal::KILL);
        one.wait(PATIENCE);
        serves(OURS, 7002);
        eventually("what the killed one had is closed", PATIENCE, || {
            let refused = TcpStream::connect_timeout(&format!("{OURS}:7000").parse().expect("an address"), PATIENCE);
            refused.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        });
        // What one command starts stays together.
        let both = format!("python3 -c \"{}\" & exec python3 -c \"{}\"", script(7003), script(7004));
        let four = run_with(directory.path(), &[], &["sh", "-c", &both]).start();
        serves("10.77.0.4", 7003);
        serves("10.77.0.4", 7004);
        signal(&three, Signal::TERM);
        three.wait(PATIENCE);
        signal(&two, Signal::TERM);
        let said = two.wait(PATIENCE).stderr;
        assert!(said.contains("10.77.0.2 is python3's, so this program has 10.77.0.3"), "{said}");
        let status = Program::new("pkill").arguments(["-P", &four.id().to_string()]).run();
        assert_eq!(status.code, Some(0));
        ends(four, Signal::TERM, directory.path());
    });
}

#[test]
fn haproxy_hands_its_listeners_on_without_losing_a_connection() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path().display();
        let config = format!(
            "global\n nbthread 2\n stats socket {at}/sock mode 600 expose-fd listeners\n\
             defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend web\n bind {OURS}:80\n http-request return status 200 content-type text/plain string \"It flows.\"\n"
        );
        std::fs::write(directory.path().join("haproxy.cfg"), config).expect("a file");
        let file = format!("{at}/haproxy.cfg");
        let master = format!("{at}/master");
        let server = run(directory.path(), &["haproxy", "-W", "-S", &master, "-f", &file]).start();
        let question = "GET / HTTP/1.0\r\n\r\n";
        let asked = || ask(80, question, 1_000).is_some_and(|answer| answer.ends_with("It flows."));
        eventually("haproxy answers", PATIENCE, asked);
        let worker = || {
            let outcome = Program::new("pgrep").arguments(["-P", &server.id().to_string()]).run();
            outcome.text().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let old = worker();
        assert_eq!(old.len(), 1);
        // The worker answers before the master does. A signal that comes before the master waits is lost, also without Qanat.
        eventually("the master answers", PATIENCE, || {
            let Ok(mut master) = UnixStream::connect(&master) else {
                return false;
            };
            master.set_read_timeout(Some(PATIENCE)).expect("a time");
            master.write_all(b"show proc\n").is_ok() && master.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0)
        });
        signal(&server, Signal::USR2);
        // One after another, as long as the workers change: each is answered.
        eventually("a new worker is alone", PATIENCE, || {
            assert!(asked(), "each connection is answered");
            let now = worker();
            now.len() == 1 && now != old
        });
        assert!(asked());
        let said = ends(server, Signal::TERM, directory.path());
        assert!(said.contains("recvmsg: ours"), "{said}");
    });
}

#[test]
fn status_tells_of_each_socket() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!(
            "import socket\n\
             k = socket.create_server(('127.0.0.1', 7001)); s = socket.create_server(('{OURS}', 7000))\n\
             u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('{OURS}', 7000))\n\
             c = s.accept()[0]; c.sendall(b'hello'); s.accept()"
        );
        let server = run(directory.path(), &["python3", "-c", &script]).start();
        let mut stream = None;
        eventually("it listens", PATIENCE, || {
            stream = TcpStream::connect((OURS, 7000)).ok();
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).expect("an answer");
        stream.write_all(b"unread").expect("sent");
        let status = |words: &[&str]| {
            let program = Program::new(qanat()).arguments(["status", "--socket"]);
            program.arguments([directory.path().join("control.sock")]).arguments(words).run().text()
        };
        let socket = directory.path().join("control.sock");
        eventually("the unread bytes are told of", PATIENCE, || {
            let value: serde_json::Value = serde_json::from_str(&status(&["--json"])).expect("JSON");
            let program = &value["programs"][0];
            let rows = program["descriptors"].as_array().expect("rows");
            let has = |wanted: &[(&str, serde_json::Value)]| {
                rows.iter().any(|row| wanted.iter().all(|(name, value)| row[name] == *value))
            };
            let peer = stream.local_addr().expect("an address").to_string();
            assert_eq!(program["program"], "python3", "{value}");
            assert!(has(&[("state", "listen".into()), ("local", "10.77.0.2:7000".into()), ("protocol", "tcp".into())]));
            assert!(has(&[("state", "bound".into()), ("protocol", "udp".into()), ("process", server.id().into())]));
            assert!(has(&[
                ("owner", "kernel".into()),
                ("call", "listen".into()),
                ("address", "127.0.0.1:7001".into())
            ]));
            assert!(program["fallbacks"].as_u64() >= Some(1));
            has(&[("state", "established".into()), ("peer", peer.into()), ("receive_queue", 6.into())])
        });
        let text = status(&[]);
        assert!(socket.exists() && text.contains("under qanat run on 10.77.0.2"), "{text}");
        ends(server, Signal::KILL, directory.path());
    });
}

/// Started by a program under `qanat run`, it can't be refused, but is not passed over in silence.
#[test]
fn a_program_without_libraries_is_told_of() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let said = run(directory.path(), &["sh", "-c", "/sbin/ldconfig -p; true"]).succeeds().stderr;
        assert!(said.contains("exec /sbin/ldconfig: its sockets are the kernel's: it is linked statically"), "{said}");
    });
}

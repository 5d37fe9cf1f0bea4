//! Well-known programs under load, each asked by the kernel's clients, and what came of it compared.

use super::{OURS, PATIENCE, ask, ends, run, signal};
use qanat_tests::e2e::{NOBODY, Outcome, Pages, Program, Running, eventually, scenario};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections at once, and exchanges on each, where a test is its own client.
const CLIENTS: usize = 8;
const ROUNDS: usize = 60;

/// A server under `qanat run` with its files in `directory`, once it accepts connections at `port`.
fn serve(directory: &Path, words: &[&str], port: u16) -> Running {
    let server = run(directory, words).directory(directory).start();
    eventually(&format!("{} listens", words.join(" ")), PATIENCE, || TcpStream::connect((OURS, port)).is_ok());
    server
}

/// Writes a file of a test's, and says where it is.
fn file(directory: &Path, name: &str, content: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, content).expect("a file");
    path.to_str().expect("a plain name").to_owned()
}

fn client(program: &str, words: &[&str]) -> Outcome {
    Program::new(program).arguments(words).succeeds()
}

/// Load of HTTP on kept connections for a second; each request must be answered well.
fn wrk(url: &str) {
    // A machine that stands still for two seconds is no error of the server's.
    let said = client("wrk", &["-t1", "-c16", "-d1", "--timeout", "20s", url]).text();
    let is_well = !said.contains("Socket errors") && !said.contains("Non-2xx");
    assert!(is_well && said.contains("requests in"), "{said}");
}

/// Several connections at once, each with `exchange` done on it many times, which says whether all was well.
fn exchanges(port: u16, exchange: impl Fn(&mut TcpStream, usize) -> Option<()> + Sync) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let exchange = &exchange;
            scope.spawn(move || {
                let mut stream = TcpStream::connect((OURS, port)).expect("a connection");
                stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
                stream.set_nodelay(true).expect("an option");
                for round in 0..ROUNDS {
                    exchange(&mut stream, round)
                        .unwrap_or_else(|| panic!("client {client}, round {round} of port {port}"));
                }
            });
        }
    });
}

/// A server that says everything back has it back as it was: messages of many lengths, up to more than a window.
fn echoes(port: u16) {
    let bytes = Pages::pattern(200_000);
    exchanges(port, |stream, round| {
        let message = &bytes[..1 + (round * round * 97) % bytes.len()];
        // Both ways at once: neither side waits for the other's buffers.
        let mut sender = stream.try_clone().ok()?;
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || sender.write_all(message));
            let mut heard = vec![0; message.len()];
            stream.read_exact(&mut heard).ok()?;
            sent.join().ok()?.ok()?;
            (heard == message).then_some(())
        })
    });
}

/// Files of lengths about segments' and buffers', as a server of files has them.
fn files() -> Pages {
    [0, 1, 1_447, 1_448, 1_449, 65_536, 3_000_000]
        .into_iter()
        .fold(Pages::new(), |pages, length| pages.with(&format!("{length}.bin"), Pages::pattern(length)))
        .with("index.html", "It flows.")
}

/// A server of [`files`] serves them whole, and under load.
fn serves_files(site: &Pages, port: u16) {
    let url = |name: &str| format!("http://{OURS}:{port}/{name}");
    for entry in std::fs::read_dir(site.path()).expect("a directory").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        let got = client("curl", &["-sS", "--fail", "-m", "10", &url(&name)]).stdout;
        assert!(got == std::fs::read(entry.path()).expect("a file"), "{name} of {} bytes", got.len());
    }
    wrk(&url("1448.bin"));
}

#[test]
fn postgresql_keeps_its_sums_under_load() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).expect("its mode");
        let versions = std::fs::read_dir("/usr/lib/postgresql").expect("`make test-deps` installs PostgreSQL");
        let programs = versions.flatten().map(|entry| entry.path().join("bin")).max().expect("a version");
        let programs = programs.to_str().expect("a plain name");
        let data = directory.path().join("data").display().to_string();
        // It refuses to be root.
        let words = ["-D", &data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"];
        let made = Program::new("setpriv").arguments(NOBODY).arguments([format!("{programs}/initdb")]).arguments(words);
        made.directory(directory.path()).succeeds();
        std::fs::write(format!("{data}/pg_hba.conf"), "host all all 10.77.0.0/24 trust\n").expect("who may connect");
        let postgres = format!("{programs}/postgres");
        let sockets = directory.path().display().to_string();
        let words = [&postgres, "-D", &data, "-h", OURS, "-k", &sockets, "-F"];
        let server = serve(directory.path(), &[&["setpriv"], &NOBODY[..], &words[..]].concat(), 5432);
        let to = ["-h", OURS, "-U", "postgres"];
        // It listens first, and refuses whoever comes before its log is read.
        eventually("it takes queries", PATIENCE, || {
            Program::new("pg_isready").arguments(to).arguments(["-q"]).run().code == Some(0)
        });
        let psql = |question: &str| {
            let said = client("psql", &[&to[..], &["-Atqc", question, "postgres"][..]].concat()).text();
            said.trim().to_owned()
        };
        let pgbench =
            |words: &[&str]| client(&format!("{programs}/pgbench"), &[&to[..], words, &["postgres"]].concat());
        pgbench(&["-i", "-q"]);
        let said = pgbench(&["-n", "-c", "4", "-j", "2", "-t", "150"]).text();
        assert!(said.contains("number of failed transactions: 0"), "{said}");
        assert_eq!(psql("select count(*) from pgbench_history"), "600");
        let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history), \
            (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches)";
        assert_eq!(psql(sums), "t|t");
        assert_eq!(psql("select md5(repeat('qanat', 600000)) = md5(repeat('qanat', 600000))"), "t");
        assert_eq!(psql("select repeat('qanat', 600000)"), "qanat".repeat(600_000), "3 MB of an answer");
        // Fast shutdown.
        let said = ends(server, Signal::INT, directory.path());
        assert!(said.contains("database system is shut down"), "{said}");
    });
}

#[test]
fn node_serves_and_takes_under_load() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = "require('http').createServer((question, answer) => {\n\
             let length = 0;\n\
             question.on('data', bytes => length += bytes.length);\n\
             question.on('end', () => answer.end(question.method == 'POST' ? `${length} bytes` : 'x'.repeat(5000)));\n\
             }).listen(8000)";
        let server = serve(directory.path(), &["node", &file(directory.path(), "server.js", script)], 8000);
        let url = format!("http://{OURS}:8000/");
        assert_eq!(client("curl", &["-sS", "-m", "10", &url]).text(), "x".repeat(5_000));
        let large = file(directory.path(), "large", &"y".repeat(3_000_000));
        let said = client("curl", &["-sS", "-m", "10", "--data-binary", &format!("@{large}"), &url]);
        assert_eq!(said.text(), "3000000 bytes");
        wrk(&url);
        // It closes descriptors by a system call's number: what was ours is the kernel's when it has the number next.
        let said = client("curl", &["-sS", "-m", "10", "http://127.0.0.1:8000/"]);
        assert_eq!(said.text(), "x".repeat(5_000));
        ends(server, Signal::TERM, directory.path());
    });
}

#[test]
fn java_selects_among_channels() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let server = format!(
            r#"
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.*;

class Echo {{
    public static void main(String[] words) throws Exception {{
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open().bind(new InetSocketAddress("{OURS}", 8000));
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {{
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {{
                if (key.isAcceptable()) {{
                    SocketChannel channel = listener.accept();
                    if (channel == null) continue;
                    channel.configureBlocking(false);
                    channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(50_000));
                    continue;
                }}
                SocketChannel channel = (SocketChannel) key.channel();
                ByteBuffer bytes = (ByteBuffer) key.attachment();
                if (key.isReadable() && channel.read(bytes) < 0) {{ channel.close(); continue; }}
                bytes.flip();
                channel.write(bytes);
                bytes.compact();
                int reads = bytes.hasRemaining() ? SelectionKey.OP_READ : 0;
                key.interestOps(reads | (bytes.position() > 0 ? SelectionKey.OP_WRITE : 0));
            }}
            selector.selectedKeys().clear();
        }}
    }}
}}
"#
        );
        let server = serve(directory.path(), &["java", &file(directory.path(), "Echo.java", &server)], 8000);
        echoes(8000);
        ends(server, Signal::KILL, directory.path());
    });
}

#[test]
fn pythons_asyncio_echoes() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!(
            "import asyncio\n\
             async def echo(reader, writer):\n\
             \x20   while said := await reader.read(50_000):\n\
             \x20       writer.write(said); await writer.drain()\n\
             \x20   writer.close()\n\
             async def main():\n\
             \x20   async with await asyncio.start_server(echo, '{OURS}', 8000) as server: await server.serve_forever()\n\
             asyncio.run(main())"
        );
        let server = serve(directory.path(), &["python3", "-c", &script], 8000);
        echoes(8000);
        ends(server, Signal::KILL, directory.path());
    });
}

#[test]
fn lighttpd_and_pythons_http_server_serve_files() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let site = files();
        let config = format!(
            "server.document-root = \"{}\"\nserver.bind = \"{OURS}\"\nserver.port = 8000\nserver.upload-dirs = (\"{}\")\n",
            site.argument(),
            directory.path().display()
        );
        let config = file(directory.path(), "lighttpd.conf", &config);
        let python = ["python3", "-m", "http.server", "8000", "--bind", OURS, "--directory", site.argument()];
        for (words, by) in [(&["lighttpd", "-D", "-f", &config][..], Signal::INT), (&python, Signal::KILL)] {
            let server = serve(directory.path(), words, 8000);
            serves_files(&site, 8000);
            ends(server, by, directory.path());
        }
    });
}

#[test]
fn iperf3_counts_what_it_sent_both_ways() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let server = serve(directory.path(), &["iperf3", "-s", "-B", OURS], 5201);
        for words in [&["-P", "4"][..], &["-R", "-P", "4"], &["-u", "-b", "100M"], &["-u", "-b", "100M", "-R"]] {
            let mut said = serde_json::Value::Null;
            // The server may still be at the end of the test before; and the datagram that begins a test of datagrams may be lost.
            eventually("iperf3 makes its test", PATIENCE, || {
                let outcome = Program::new("iperf3").arguments(["-J", "-t", "1", "-c", OURS]).arguments(words).run();
                said = serde_json::from_str(&outcome.text()).expect("JSON");
                let error = said["error"].as_str();
                error.into_iter().for_each(|error| eprintln!("iperf3 {words:?}: {error}"));
                error.is_none()
            });
            let end = &said["end"];
            let count = |name: &str| end[name]["bytes"].as_f64().unwrap_or(0.0);
            // Of datagrams it says what was sent and what was lost.
            let arrived = match words.contains(&"-u") {
                true => end["sum"]["packets"].as_f64() > end["sum"]["lost_packets"].as_f64(),
                false => count("sum_received") > 0.0 && count("sum_received") <= count("sum_sent"),
            };
            assert!(arrived, "{words:?}: {end}");
        }
        ends(server, Signal::TERM, directory.path());
    });
}

#[test]
fn wget_has_all_of_a_large_file() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let content = Pages::pattern(50_000_000);
        let site = Pages::new().with("large.bin", &content);
        // An address of this machine's on the card's link.
        client("ip", &["address", "add", "10.77.0.1/32", "dev", "lo"]);
        let words = ["-m", "http.server", "8000", "--bind", "10.77.0.1", "--directory", site.argument()];
        let _server = Program::new("python3").arguments(words).start();
        eventually("the kernel's server listens", PATIENCE, || TcpStream::connect("10.77.0.1:8000").is_ok());
        let url = "http://10.77.0.1:8000/large.bin";
        let outcome = run(directory.path(), &["wget", "-q", "-O", "got", url]).directory(directory.path()).succeeds();
        assert!(outcome.stderr.contains("connect 10.77.0.1:8000: ours"), "{}", outcome.stderr);
        assert!(std::fs::read(directory.path().join("got")).expect("a file") == content);
    });
}

#[test]
fn netpipe_finds_its_messages_whole() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        // It takes one connection, so nobody else may look whether it listens; -i: each message is compared.
        for words in [&["-i"][..], &[]] {
            let server = run(directory.path(), &[&["NPtcp"], words].concat()).directory(directory.path()).start();
            let mut said = String::new();
            eventually("NetPIPE listens", PATIENCE, || {
                let words = [&["-h", OURS, "-u", "100000", "-n", "20", "-o", "/dev/null"], words].concat();
                let outcome = Program::new("NPtcp").arguments(words).run();
                said = outcome.text() + &outcome.stderr;
                outcome.code == Some(0)
            });
            let compared = said.matches("Integrity check passed").count();
            assert!(!said.to_lowercase().contains("fail") && (compared > 20) == words.contains(&"-i"), "{said}");
            // Its receiver ends with an error on Linux, too.
            server.wait(PATIENCE);
        }
    });
}

/// Counts at a server of memcached's or redis's protocol go up by exactly what all clients have asked for.
fn counts_up(port: u16) {
    exchanges(port, |stream, _| {
        stream.write_all(b"incr n 1\r\n").ok()?;
        let mut said = Vec::new();
        while !said.ends_with(b"\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            said.push(byte[0]);
        }
        said[0].is_ascii_digit().then_some(())
    });
}

/// Attaches gdb, lets the program go on, stops it again where it waits, and leaves it; then strace.
fn looks_at(directory: &Path, server: &Running) {
    let id = server.id().to_string();
    let words = ["-p", &id, "-batch", "-ex", "tbreak epoll_wait", "-ex", "continue", "-ex", "bt", "-ex", "detach"];
    let said = client("gdb", &words).text();
    assert!(said.contains("epoll_wait"), "{said}");
    let trace = file(directory, "trace", "");
    let strace = Program::new("strace").arguments(["-f", "-o", &trace, "-p", &id]).start();
    eventually("strace sees calls", PATIENCE, || std::fs::metadata(&trace).is_ok_and(|trace| trace.len() > 10_000));
    signal(&strace, Signal::INT);
    strace.wait(PATIENCE);
}

#[test]
fn memcached_counts_under_load_and_beside_gdb_and_strace() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for threads in ["1", "4"] {
            let words = ["memcached", "-u", "nobody", "-l", OURS, "-U", "11211", "-t", threads];
            let server = serve(directory.path(), &words, 11211);
            assert_eq!(ask(11211, "set n 0 0 1\r\n0\r\n", 8).as_deref(), Some("STORED\r\n"));
            let is_over = AtomicBool::new(threads == "1");
            let times = std::thread::scope(|scope| {
                let load = scope.spawn(|| {
                    let mut times = 0;
                    while times == 0 || !is_over.load(Ordering::Relaxed) {
                        counts_up(11211);
                        times += 1;
                    }
                    times
                });
                if threads == "4" {
                    looks_at(directory.path(), &server);
                    is_over.store(true, Ordering::Relaxed);
                }
                load.join().expect("the load")
            });
            let counted = (times * CLIENTS * ROUNDS).to_string();
            assert_eq!(ask(11211, "incr n 0\r\n", counted.len() + 2), Some(counted + "\r\n"));
            datagrams_are_answered();
            ends(server, Signal::TERM, directory.path());
        }
    });
}

/// memcached's frames of UDP: the request's number comes back with the answer.
fn datagrams_are_answered() {
    let socket = UdpSocket::bind("10.77.0.1:0").expect("a socket");
    socket.connect((OURS, 11211)).expect("a peer");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut answer = [0; 2_000];
    // As many at once as a socket's buffer surely holds.
    for first in (0..2_000u16).step_by(20) {
        for number in first..first + 20 {
            socket.send(&[&number.to_be_bytes(), &b"\0\0\0\x01\0\0get n\r\n"[..]].concat()).expect("sent");
        }
        let mut missing: Vec<u16> = (first..first + 20).collect();
        while !missing.is_empty() {
            let count = socket.recv(&mut answer).expect("an answer to each");
            assert!(answer[8..count].starts_with(b"VALUE n 0 "), "{:?}", &answer[..count]);
            missing.retain(|number| number.to_be_bytes() != answer[..2]);
        }
    }
}

#[test]
fn redis_counts_under_load_while_it_saves() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let words = ["redis-server", "--bind", OURS, "--protected-mode", "no", "--save", ""];
        let server = serve(directory.path(), &words, 6379);
        let benchmark = |words: &[&str]| {
            let said = client("redis-benchmark", &[&["-h", OURS, "-q", "-c", "32"], words].concat()).text();
            assert!(!said.to_lowercase().contains("error"), "{said}");
        };
        let cli = |words: &[&str]| client("redis-cli", &[&["-h", OURS], words].concat()).text().trim().to_owned();
        benchmark(&["-n", "5000", "-r", "5000", "-d", "1000", "-t", "set"]);
        assert_eq!(cli(&["bgsave"]), "Background saving started");
        for pipeline in ["1", "16"] {
            benchmark(&["-n", "8000", "-P", pipeline, "incr", "n"]);
        }
        assert_eq!(cli(&["get", "n"]), "16000");
        eventually("it is saved", PATIENCE, || cli(&["info", "persistence"]).contains("rdb_bgsave_in_progress:0"));
        assert!(cli(&["info", "persistence"]).contains("rdb_last_bgsave_status:ok"));
        // A client of ours at another address, asking ours: a subscriber has all that is published.
        let heard = Program::new("redis-cli").arguments(["-h", OURS, "subscribe", "news"]).start();
        eventually("it is heard", PATIENCE, || cli(&["publish", "news", "it flows"]) == "1");
        // What was published is on its way, and `redis-cli` has to read and print it.
        std::thread::sleep(Duration::from_millis(300));
        signal(&heard, Signal::TERM);
        assert!(heard.wait(PATIENCE).text().contains("it flows"));
        ends(server, Signal::TERM, directory.path());
    });
}

#[test]
fn haproxy_leaves_out_a_server_that_fails() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        client("ip", &["address", "add", "10.77.0.1/32", "dev", "lo"]);
        let site = Pages::new().with("index.html", "It flows.");
        let at = directory.path().display();
        let backend = |port: &str| {
            let config = format!(
                "user root; daemon off; worker_processes 1; error_log stderr; pid {at}/pid{port}; events {{ }}\n\
                 http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; \
                 uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
                 server {{ listen 10.77.0.1:{port}; root {}; }} }}\n",
                site.argument()
            );
            let config = file(directory.path(), &format!("nginx{port}.conf"), &config);
            Program::new("nginx").arguments(["-c", &config]).start()
        };
        // A check may take as long as from one to the next: a machine that stands still is no server that fails.
        let config = format!(
            "global\n stats socket {at}/sock mode 600\n\
             defaults\n mode http\n timeout connect 20s\n timeout client 20s\n timeout server 20s\n timeout check 20s\n retries 3\n option redispatch\n\
             frontend web\n bind {OURS}:80\n default_backend pages\n\
             backend pages\n option httpchk GET /index.html\n default-server inter 2s fall 2 rise 1\n\
             \x20server one 10.77.0.1:8001 check\n server two 10.77.0.1:8002 check\n"
        );
        let (mut one, _two) = (backend("8001"), backend("8002"));
        let server = serve(directory.path(), &["haproxy", "-f", &file(directory.path(), "haproxy.cfg", &config)], 80);
        let state = |name: &str| {
            // haproxy makes this socket after it has begun to listen.
            let Ok(mut socket) = std::os::unix::net::UnixStream::connect(directory.path().join("sock")) else {
                return String::new();
            };
            socket.write_all(b"show stat\n").expect("sent");
            let mut said = String::new();
            socket.read_to_string(&mut said).expect("its servers");
            let row = said.lines().find(|line| line.starts_with(&format!("pages,{name},"))).unwrap_or_default();
            row.split(',').nth(17).unwrap_or_default().to_owned()
        };
        let url = format!("http://{OURS}/index.html");
        eventually("both are up", PATIENCE, || state("one") == "UP" && state("two") == "UP");
        wrk(&url);
        one.kill();
        eventually("one is down", PATIENCE, || state("one") == "DOWN");
        wrk(&url);
        let _one = backend("8001");
        eventually("it is up again", PATIENCE, || state("one") == "UP");
        wrk(&url);
        ends(server, Signal::TERM, directory.path());
    });
}

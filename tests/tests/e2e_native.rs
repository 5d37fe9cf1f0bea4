//! `libqanat-native` as its users have it: programs in C, Python and Go, built against the header and the library alone, with clients on the
//! kernel's sockets.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{
    House, Outcome, PATIENCE, Program, Running, eventually, native_library, qanat, scenario, workspace,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connections of its own, of whoever may not send from every port.
const OWN_PORTS: &str = "ephemeral-ports=61000-61255";

/// Where the library is.
fn library() -> PathBuf {
    native_library().parent().map(Path::to_owned).expect("a directory")
}

fn text(path: &Path) -> String {
    path.to_str().expect("a name").to_owned()
}

/// A program that finds the library.
fn with_library(program: impl AsRef<std::ffi::OsStr>) -> Program {
    Program::new(program).environment("LD_LIBRARY_PATH", library()).environment("QANAT_SOCKET", "/nowhere/sock")
}

/// A program in C, built with every warning an error.
fn compiled(source: &str, directory: &Path) -> PathBuf {
    let made = directory.join("made");
    let (root, library) = (workspace(), text(&library()));
    let include = format!("-I{}", root.join("crates/native/include").display());
    let words = ["-std=c11", "-D_DEFAULT_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", &include, "-o"];
    let build = Program::new("cc").arguments(words).arguments([&made, &root.join(source)]);
    build.arguments(["-L", &library, "-lqanat-native", "-pthread"]).succeeds();
    made
}

/// Another implementation of the same example, as it is run.
fn examples(name: &str, directory: &Path) -> Vec<(&'static str, Vec<String>)> {
    let examples = workspace().join("examples/native");
    let c = compiled(&format!("examples/native/c/{name}.c"), directory);
    let python = examples.join(format!("python/{name}.py"));
    let package = if name == "echo" { "./echo" } else { "./http" };
    let go = directory.join("go");
    let go_build = Program::new("go").directory(examples.join("go")).arguments(["build", "-o", &text(&go), package]);
    let include = format!("-I{}", workspace().join("crates/native/include").display());
    go_build
        .environment("CGO_CFLAGS", include)
        .environment("CGO_LDFLAGS", format!("-L{}", library().display()))
        .environment("CGO_ENABLED", "1")
        .environment("GOFLAGS", "-mod=mod")
        .environment("GOPROXY", "off")
        .environment("GOTOOLCHAIN", "local")
        .environment("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"))
        .patience(Duration::from_secs(300))
        .succeeds();
    vec![("C", vec![text(&c)]), ("Python", vec!["/usr/bin/python3".to_owned(), text(&python)]), ("Go", vec![text(&go)])]
}

/// Starts an example; it serves when this returns.
fn start(words: &[String], options: &[&str], port: u16) -> Running {
    let (program, arguments) = words.split_first().expect("a program");
    let example = with_library(program).arguments(arguments).arguments(options).piped().start();
    eventually("it serves", PATIENCE, || dial(options, port).is_some());
    example
}

fn address(options: &[&str]) -> &'static str {
    if options.iter().any(|option| option.contains("kernel")) { "127.0.0.1" } else { "10.77.0.2" }
}

fn dial(options: &[&str], port: u16) -> Option<TcpStream> {
    let to = format!("{}:{port}", address(options)).parse().expect("an address");
    let stream = TcpStream::connect_timeout(&to, Duration::from_millis(300)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    Some(stream)
}

/// Asks it to end, as Ctrl-C does.
fn ends(example: Running) -> Outcome {
    let process = rustix::process::Pid::from_raw(example.id() as i32).expect("a process");
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a signal");
    let outcome = example.wait(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    outcome
}

const PLACES: [&[&str]; 2] = [&["card=own", "address=10.77.0.2/24"], &["placement=kernel"]];

#[test]
fn echo_in_each_language_sends_back_streams_and_datagrams() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let long: Vec<u8> = (0..300_000_u32).map(|number| (number / 7) as u8).collect();
        for (language, words) in examples("echo", directory.path()) {
            for options in PLACES {
                let example = start(&words, options, 7);
                let mut stream = dial(options, 7).expect("a connection");
                let (said, mut reader) = (long.clone(), stream.try_clone().expect("the same"));
                let writer = std::thread::spawn(move || {
                    stream.write_all(&said).expect("sent");
                    stream.shutdown(Shutdown::Write).expect("shut down");
                });
                let mut heard = Vec::new();
                reader.read_to_end(&mut heard).expect("heard");
                writer.join().expect("the writer");
                assert!(heard == long, "{language}: {} bytes", heard.len());
                let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
                socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                // One that comes in fragments may be too long to be sent back, and harms nobody.
                socket.send_to(&[1; 3_000], (address(options), 7)).expect("sent");
                socket.send_to(b"datagram", (address(options), 7)).expect("sent");
                let mut heard = [0; 4_096];
                let mut length = socket.recv(&mut heard).expect("heard");
                if length == 3_000 {
                    length = socket.recv(&mut heard).expect("heard");
                }
                assert_eq!(heard.get(..length), Some(b"datagram".as_slice()), "{language}");
                ends(example);
                eventually("no card is left", PATIENCE, || !Path::new("/sys/class/net/qanat0").exists());
            }
        }
    });
}

#[test]
fn the_page_in_each_language_is_what_curl_and_wrk_get() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for (language, words) in examples("http_hello", directory.path()) {
            for options in PLACES {
                let example = start(&words, options, 8_080);
                let url = format!("http://{}:8080/", address(options));
                let fetched = Program::new("curl").arguments(["-sfm", "10", &url, &url]).succeeds();
                assert_eq!(fetched.text(), "It flows.\nIt flows.\n", "{language}");
                // A head in pieces, and two at once.
                let mut stream = dial(options, 8_080).expect("a connection");
                for part in ["GET / HTTP/1.1\r\nHost: a\r", "\n\r", "\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"] {
                    stream.write_all(part.as_bytes()).expect("sent");
                }
                stream.shutdown(Shutdown::Write).expect("shut down");
                let mut heard = String::new();
                stream.read_to_string(&mut heard).expect("heard");
                assert_eq!(heard.matches("It flows.\n").count(), 3, "{language}: {heard}");
                let load =
                    Program::new("wrk").arguments(["--connections=8", "--threads=1", "--duration=1", &url]).succeeds();
                let told = load.text();
                assert!(
                    told.contains("requests in") && !told.contains("Non-2xx") && !told.contains("Socket errors"),
                    "{told}"
                );
                ends(example);
            }
        }
    });
}

/// The program that takes every call, and a file of 1 MiB, which is not in /tmp: that may have no direct I/O.
fn calls_and_a_file() -> (PathBuf, String, tempfile::TempDir) {
    let directory = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let calls = compiled("tests/native/calls.c", directory.path());
    let file = directory.path().join("disk");
    std::fs::write(&file, vec![7; 1 << 20]).expect("a disk");
    (calls, format!("file={}", file.display()), directory)
}

const TOLD: &str = "all calls did what the header says\n";

#[test]
fn every_call_does_what_the_header_says() {
    scenario(|| {
        let (calls, file, _directory) = calls_and_a_file();
        for engine in ["io-uring", "epoll"] {
            // An area of a disk takes io_uring of its own; sockets take what they are told.
            for spin in ["never", "always"] {
                let (engine, spin) = (format!("sockets={engine}"), format!("spin={spin}"));
                let words = ["127.0.0.1", "127.0.0.1", &file, "placement=kernel", &engine, &spin];
                assert_eq!(with_library(&calls).arguments(words).succeeds().text(), TOLD);
            }
        }
        for device in ["veth", "tap"] {
            let device = format!("device={device}");
            let words = ["10.77.0.2", "10.77.0.1", &file, "address=10.77.0.2/24", "card=own", &device];
            assert_eq!(with_library(&calls).arguments(words).succeeds().text(), TOLD);
        }
    });
}

#[test]
fn cards_and_net_cores_are_the_daemons_as_well() {
    scenario(|| {
        let (calls, file, _directory) = calls_and_a_file();
        let house = House::new("0");
        let socket = format!("socket={}", house.socket().display());
        for placement in ["linked", "split"] {
            let placement = format!("placement={placement}");
            let words = ["10.77.0.2", "10.77.0.1", &file, "address=10.77.0.2/24", &socket, &placement, OWN_PORTS];
            assert_eq!(with_library(&calls).arguments(words).succeeds().text(), TOLD);
        }
        // What can't be had says why.
        let words = ["10.77.0.2", "10.77.0.1", &file, "placement=split", "net=/nowhere/net"];
        let refused = with_library(&calls).arguments(words).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("/nowhere/net"), "{}", refused.stderr);
    });
}

#[test]
fn areas_are_the_daemons_as_well() {
    scenario(|| {
        let (calls, _, directory) = calls_and_a_file();
        let socket = directory.path().join("control.sock");
        let asks = |words: &[&str]| Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", &socket);
        let _daemon = asks(&["up"]).start();
        eventually("the daemon listens", PATIENCE, || asks(&["limits"]).run().code == Some(0));
        let own = directory.path().join("own");
        std::fs::create_dir(&own).expect("a directory");
        let (image, own) = (text(&directory.path().join("image")), text(&own));
        asks(&["disk", "add", "fast", "--file", &image, "--size", "64M"]).succeeds();
        asks(&["disk", "add", "own", "--directory", &own, "--size", "64M"]).succeeds();
        let socket = format!("socket={}", socket.display());
        // By the disk's core, and by a file of its own.
        for disk in ["fast", "own"] {
            asks(&["disk", "create", "mine", "--on", disk, "--size", "1M"]).succeeds();
            let words = ["127.0.0.1", "127.0.0.1", "placement=kernel", &socket, &format!("area={disk}/mine")];
            assert_eq!(with_library(&calls).arguments(words).succeeds().text(), TOLD);
        }
        let words = ["127.0.0.1", "127.0.0.1", "placement=kernel", &socket, "area=fast/yours"];
        let refused = with_library(&calls).arguments(words).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("yours"), "{}", refused.stderr);
    });
}

#[test]
fn the_header_is_good_for_other_compilers() {
    let header = workspace().join("crates/native/include/qanat-native.h");
    for words in [
        ["gcc", "-std=c99", "-Wpedantic", "-x", "c"],
        ["clang", "-std=c99", "-Wpedantic", "-x", "c"],
        ["clang", "-std=c++11", "-Wpedantic", "-x", "c++"],
    ] {
        let (compiler, rest) = words.split_first().expect("a compiler");
        Program::new(compiler)
            .arguments(rest)
            .arguments(["-Wall", "-Werror", "-fsyntax-only", &text(&header)])
            .succeeds();
    }
}

/// What docs/native.md begins with, by its own words: installed, built by `pkg-config`, run, and asked.
#[test]
fn the_pages_server_is_built_of_what_is_installed_and_answers() {
    scenario(|| {
        let (root, place) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let page = std::fs::read_to_string(workspace().join("docs/native.md")).expect("the page");
        let block = |kind: &str| {
            let (_, rest) = page.split_once(&format!("```{kind}\n")).expect("a block");
            rest.split_once("```").expect("its end").0.to_owned()
        };
        std::fs::write(place.path().join("echo.c"), block("c file echo.c")).expect("written");
        let word = |name: &str, path: &Path| format!("{name}={}", path.display());
        let command = qanat();
        let words = [
            word("DESTDIR", root.path()),
            word("QANAT", &command),
            word("LIBRARY", &command.with_file_name("libqanat_posix.so")),
            word("NATIVE", &native_library()),
        ];
        Program::new("make").directory(workspace()).arguments(["install", "PREFIX=/usr"]).arguments(words).succeeds();
        let build = block("sh").lines().next().expect("a command").to_owned();
        let installed = root.path().join("usr/lib");
        Program::new("sh")
            .directory(place.path())
            .arguments(["-c", &build])
            .environment("PKG_CONFIG_PATH", installed.join("pkgconfig"))
            .environment("PKG_CONFIG_SYSROOT_DIR", root.path())
            .succeeds();
        let echo = Program::new(place.path().join("echo")).environment("LD_LIBRARY_PATH", installed);
        let _echo = echo.environment("QANAT_SOCKET", "/nowhere/sock").piped().start();
        let mut stream = None;
        eventually("it serves", PATIENCE, || {
            stream = dial(PLACES[0], 7);
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        stream.write_all(b"it flows").expect("sent");
        stream.shutdown(Shutdown::Write).expect("shut down");
        let mut heard = String::new();
        stream.read_to_string(&mut heard).expect("heard");
        assert_eq!(heard, "it flows");
    });
}

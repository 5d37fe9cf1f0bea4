//! Nothing of the library's is visible to the program: it sees the same of itself, its children, its limits and its descriptors as without
//! the library (docs/posix.md, «What the program sees of it»).

use super::{OURS, PATIENCE, ask, ends, run, signal};
use qanat_tests::e2e::{Program, eventually, scenario};
use rustix::process::Signal;
use std::net::TcpListener;

/// What the program sees, bare and under `qanat run`: the same.
fn sees_the_same(how: &[&str]) {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e_run/invisible.py");
        // A server of the kernel's that keeps connections.
        let keep = |address: &str| {
            let listener = TcpListener::bind(address).expect("a listener");
            std::thread::spawn(move || listener.incoming().map_while(Result::ok).collect::<Vec<_>>());
        };
        Program::new("ip").arguments(["address", "add", "10.77.0.1/24", "dev", "lo"]).succeeds();
        keep("10.77.0.1:7000");
        // The address that is the card's with the library is the kernel's without.
        Program::new("ip").arguments(["address", "add", "10.76.0.2/24", "dev", "lo"]).succeeds();
        let words = ["python3", script, OURS, "10.77.0.1"];
        let bare = Program::new("python3").arguments([script, "10.76.0.2", "10.77.0.1"]).arguments(how).run();
        Program::new("ip").arguments(["address", "del", "10.77.0.1/24", "dev", "lo"]).succeeds();
        let program = Program::new(qanat_tests::e2e::qanat()).arguments(["run", "--"]).arguments(words).arguments(how);
        let ours = program.environment("QANAT_SOCKET", directory.path().join("control.sock")).run();
        assert_eq!(bare.code, Some(0), "{}{}", bare.text(), bare.stderr);
        let (bare, text) = (bare.text(), ours.text());
        for (bare, ours) in bare.lines().zip(text.lines()) {
            assert_eq!(bare, ours, "without the library, and with it");
        }
        assert_eq!(ours.code, Some(0), "{text}{}", ours.stderr);
        assert_eq!(bare.lines().count(), text.lines().count(), "{}", ours.stderr);
        assert_eq!(ours.stderr, "");
    });
}

#[test]
fn a_program_sees_nothing_of_the_library() {
    sees_the_same(&[]);
}

/// Orphans come to it, but none of the library's.
#[test]
fn a_program_that_adopts_orphans_sees_none_of_the_librarys() {
    sees_the_same(&["subreaper"]);
}

/// Few descriptors and short files: the limits are the program's.
#[test]
fn a_program_with_low_limits_has_a_card_and_its_limits() {
    sees_the_same(&["few"]);
}

/// It counts its children by the signals of their ends.
#[test]
fn ncat_starts_a_program_for_each_connection() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let words = ["ncat", "-l", "-k", OURS, "9002", "--exec", "/bin/cat"];
        let mut server = run(directory.path(), &words).start();
        for round in 0..20 {
            let said = format!("hello {round}\n");
            eventually("it is said back", PATIENCE, || ask(9_002, &said, said.len()).as_deref() == Some(said.as_str()));
            assert!(server.is_running(), "after {round}");
        }
        ends(server, Signal::TERM, directory.path());
    });
}

/// The first process of a namespace of processes adopts all orphans there.
#[test]
fn the_first_process_of_a_namespace_sees_no_child_of_the_librarys() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = "import ctypes, os, socket, signal, time\n\
                      heard = []; signal.signal(signal.SIGCHLD, lambda *a: heard.append(1))\n\
                      l = socket.create_server(('10.77.0.2', 7000))\n\
                      status = ctypes.c_int(); libc = ctypes.CDLL(None, use_errno=True)\n\
                      print(os.getpid(), libc.waitpid(-1, ctypes.byref(status), os.WNOHANG), ctypes.get_errno(), heard, flush=True)\n\
                      while True: l.accept()[0].send(b'well')";
        let daemon = Program::new(qanat_tests::e2e::qanat()).arguments(["up", "--socket"]);
        let daemon = daemon.arguments([directory.path().join("control.sock")]).start();
        eventually("the daemon listens", PATIENCE, || directory.path().join("control.sock").exists());
        let command = qanat_tests::e2e::qanat();
        let words = ["--fork", "--pid", "--mount-proc", "--kill-child"];
        let program = Program::new("unshare").arguments(words).arguments([command.as_os_str()]);
        let program = program.arguments(["run", "--", "python3", "-c", script]);
        let server = program.environment("QANAT_SOCKET", directory.path().join("control.sock")).start();
        eventually("it answers", PATIENCE, || ask(7_000, "", 4).as_deref() == Some("well"));
        signal(&server, Signal::KILL);
        let outcome = server.wait(PATIENCE);
        assert_eq!(outcome.text().trim(), "1 -1 10 []", "{}", outcome.stderr);
        drop(daemon);
    });
}

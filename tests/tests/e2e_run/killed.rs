//! A program killed in the very middle of the stack's work: whoever shares the stack can't go on with it, and nobody waits in vain.

use super::{OURS, PATIENCE, ask, keeper_of, run, run_with, sleeps};
use qanat_tests::e2e::{Program, eventually, scenario};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Whether a connection is ended by a reset, before its reader loses patience.
fn is_reset(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

#[test]
fn peers_are_reset_sharers_told_and_the_address_is_free() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        Program::new("ip").arguments(["address", "add", "10.77.0.1/32", "dev", "lo"]).succeeds();
        let kernels = TcpListener::bind("10.77.0.1:8000").expect("a listener");
        // It has connections both ways, and no other reason to call `sendto` or `writev` (as its card is a veth or a TAP device) than to
        // send what the stack has ready.
        let victim = format!(
            "import socket\n\
             s = socket.create_server(('{OURS}', 7000)); kept = [socket.create_connection(('10.77.0.1', 8000))]\n\
             while True: c = s.accept()[0]; kept.append(c); c.sendall(b'hello')"
        );
        let mut victim = run(directory.path(), &["python3", "-c", &victim]).start();
        kernels.set_nonblocking(true).expect("a listener that does not wait");
        let mut outgoing = None;
        eventually("the victim connects", PATIENCE, || {
            outgoing = kernels.accept().ok().map(|(stream, _)| stream);
            outgoing.is_some()
        });
        let outgoing = outgoing.expect("a connection");
        outgoing.set_nonblocking(false).expect("a stream that waits");
        let connect = |port: u16, greeting: &[u8]| {
            let mut stream = TcpStream::connect((OURS, port)).expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
            let mut heard = vec![0; greeting.len()];
            stream.read_exact(&mut heard).expect("an answer");
            assert_eq!(heard, greeting);
            stream
        };
        eventually("the victim listens", PATIENCE, || ask(7000, "", 5).as_deref() == Some("hello"));
        // Who shares its card waits for what will never come, and says what came of that.
        let sharer = format!(
            "import socket, time\n\
             s = socket.create_server(('{OURS}', 7001)); c = s.accept()[0]; c.sendall(b'hello')\n\
             try: c.recv(1)\n\
             except OSError as error: print(error.errno, flush=True)\n\
             time.sleep(1000)"
        );
        let named = ["--address", "10.77.0.2/24"];
        let sharer = run_with(directory.path(), &named, &["python3", "-c", &sharer]).start();
        let mut shared = None;
        eventually("the sharer listens", PATIENCE, || {
            shared = TcpStream::connect((OURS, 7001)).ok();
            shared.is_some()
        });
        let mut idle: Vec<TcpStream> = (0..300).map(|_| connect(7000, b"hello")).collect();
        idle.extend(shared);
        idle.push(outgoing);
        // The kernel kills it on its way into the call, with the lock held.
        let killer = [
            "-qq",
            "-e",
            "trace=sendto,writev",
            "-e",
            "inject=sendto,writev:signal=SIGKILL",
            "-p",
            &victim.id().to_string(),
        ];
        let killer = Program::new("strace").arguments(killer).start();
        eventually("it is killed as it sends", PATIENCE, || {
            ask(7000, "", 5);
            !victim.is_running()
        });
        killer.wait(PATIENCE);
        victim.wait(PATIENCE);
        // All wait at once: none may need another's time.
        let count = idle.len();
        let waits: Vec<_> = idle.into_iter().map(|stream| std::thread::spawn(|| is_reset(stream))).collect();
        let reset = waits.into_iter().map(|wait| wait.join().expect("a reader")).filter(|reset| *reset);
        assert_eq!(reset.count(), count, "each peer is told");
        // The address is a new program's at once.
        let next =
            "import socket\ns = socket.create_server(('10.77.0.2', 7000))\nwhile True: s.accept()[0].sendall(b'again')";
        let _next = run(directory.path(), &["python3", "-c", next]).start();
        eventually("the next one answers", PATIENCE, || ask(7000, "", 5).as_deref() == Some("again"));
        // The sharer has lost its card, too, and ends.
        let said = sharer.wait(PATIENCE);
        assert_eq!(said.text().trim().parse().ok(), Some(Errno::NETDOWN.raw_os_error()), "{}", said.stderr);
        assert!(said.stderr.contains("was killed in the middle of the stack's work"), "{}", said.stderr);
    });
}

/// Whoever kills the keeper kills what it keeps: nobody would learn of the program's end any more.
#[test]
fn a_keeper_that_is_killed_leaves_nobody_waiting() {
    scenario(|| {
        // In the middle of the stack's work, and at rest.
        for at_work in [true, false] {
            let directory = tempfile::tempdir().expect("a directory");
            let script = format!(
                "import os, socket\n\
                 s = socket.create_server(('{OURS}', 7000)); kept = [s.accept()[0]]\n\
                 if os.fork() == 0: kept += [s.accept()[0]]; kept[1].sendall(b'child'); kept[1].recv(1); os._exit(0)\n\
                 try: kept[0].recv(1)\n\
                 except OSError as error: print(error.errno, flush=True)"
            );
            let program = run(directory.path(), &["python3", "-c", &script]).start();
            let mut idle = None;
            eventually("it listens", PATIENCE, || {
                idle = TcpStream::connect((OURS, 7000)).ok();
                idle.is_some()
            });
            let mut childs = TcpStream::connect((OURS, 7000)).expect("a connection");
            childs.read_exact(&mut [0; 5]).expect("a child");
            // The keeper isn't taken for the program.
            let alike = ["--ns", &program.id().to_string(), "--nslist", "net", "-f", "create_server"];
            assert_eq!(Program::new("pgrep").arguments(alike).succeeds().text().lines().count(), 2, "with the child");
            let keeper = keeper_of(&program);
            if at_work {
                // The child's end is the keeper's to tell its peer.
                let keeper = keeper.as_raw_nonzero().to_string();
                let killer =
                    ["-qq", "-e", "trace=sendto,writev", "-e", "inject=sendto,writev:signal=SIGKILL", "-p", &keeper];
                let killer = Program::new("strace").arguments(killer).start();
                eventually("strace is attached", PATIENCE, || {
                    std::fs::read_to_string(format!("/proc/{keeper}/status"))
                        .is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
                });
                childs.write_all(b"!").expect("sent");
                killer.wait(PATIENCE);
            } else {
                sleeps(program.id());
                kill_process(keeper, Signal::KILL).expect("a signal");
            }
            assert!(idle.is_some_and(is_reset), "its peer is told");
            assert!(at_work || is_reset(childs), "the child's is");
            let said = program.wait(PATIENCE);
            assert_eq!(said.text().trim().parse().ok(), Some(Errno::NETDOWN.raw_os_error()), "{}", said.stderr);
            assert!(said.stderr.contains("or its qanat-keeper was"), "{}", said.stderr);
            // The address is free.
            let next = format!("import socket; socket.create_server(('{OURS}', 7000)).accept()[0].sendall(b'again')");
            let next = run(directory.path(), &["python3", "-c", &next]).start();
            eventually("the next one answers", PATIENCE, || ask(7000, "", 5).as_deref() == Some("again"));
            next.wait(PATIENCE);
        }
    });
}

#[test]
fn a_process_that_ends_while_its_threads_send_takes_nobody_along() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("ends.py");
        std::fs::write(&script, include_str!("ends.py")).expect("a script");
        let script = script.to_str().expect("a path");
        let outcome = run(directory.path(), &["python3", script]).succeeds();
        assert_eq!(outcome.text(), "all ended\n");
    });
}

//! What a thread that waits is woken by.

use super::{OURS, PATIENCE, ends, keeper_of, run, signal, sleeps};
use qanat_tests::e2e::{Program, eventually, scenario};
use rustix::process::{Pid, Signal, kill_process};
use std::net::UdpSocket;
use std::time::Duration;

/// A process that is stopped, and goes on whatever becomes of the test.
struct Stopped(Pid);

impl Stopped {
    fn new(process: Pid) -> Stopped {
        kill_process(process, Signal::STOP).expect("a signal");
        Stopped(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// `epoll` tells of the device once, then it is armed again: also when it was told beside something of ours, as descriptors of the
/// kernel's had their turn. Else no packet wakes the thread any more, and only the keeper, a second later, finds out.
#[test]
fn a_packet_wakes_who_waits_for_the_kernels_descriptors_too() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!(
            "import os, select, socket, time\n\
             u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('{OURS}', 7000)); r, w = os.pipe()\n\
             e = select.epoll(); e.register(u, select.EPOLLIN); e.register(r, select.EPOLLIN)\n\
             open('bound', 'x').close()\n\
             e.poll(); u.recv(100)\n\
             if os.fork() == 0: time.sleep(0.2); os.write(w, b'x'); os._exit(0)\n\
             # Asleep with the device armed, and woken by the pipe.\n\
             assert e.poll() == [(r, select.EPOLLIN)]\n\
             open('woken', 'x').close()\n\
             while not os.path.exists('sent'): time.sleep(0.01)\n\
             # The kernel's descriptors have their turn, and while they are asked for a packet comes.\n\
             assert len(e.poll()) == 2\n\
             os.read(r, 1); u.recv(100)\n\
             assert e.poll() == [(u.fileno(), select.EPOLLIN)]; u.recv(100)\n\
             open('waits', 'x').close()\n\
             assert e.poll() == [(u.fileno(), select.EPOLLIN)]\n\
             u.sendto(*u.recvfrom(100)); e.poll()"
        );
        let path = directory.path().join("server.py");
        std::fs::write(&path, script).expect("a file");
        let server = run(directory.path(), &["python3", path.to_str().expect("a path")]).directory(directory.path());
        let server = server.start();
        let has = |name: &str| directory.path().join(name).exists();
        eventually("it is there", PATIENCE, || has("bound"));
        let socket = UdpSocket::bind("10.77.0.1:0").expect("a socket");
        socket.send_to(b"first", (OURS, 7000)).expect("sent");
        eventually("the pipe woke it", PATIENCE, || has("woken"));
        let slowly =
            ["-qq", "-o", "/dev/null", "-e", "trace=epoll_pwait", "-e", "inject=epoll_pwait:delay_enter=500ms", "-p"];
        let id = server.id().to_string();
        let strace = Program::new("strace").arguments(slowly).arguments([&id]).start();
        let status = format!("/proc/{id}/status");
        eventually("strace is attached", PATIENCE, || {
            std::fs::read_to_string(&status).is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
        });
        // Nobody comes to its aid.
        let keeper = keeper_of(&server);
        sleeps(keeper.as_raw_nonzero().get().unsigned_abs());
        let stopped = Stopped::new(keeper);
        socket.send_to(b"second", (OURS, 7000)).expect("sent");
        std::fs::write(directory.path().join("sent"), "").expect("a file");
        std::thread::sleep(Duration::from_millis(200));
        socket.send_to(b"third", (OURS, 7000)).expect("sent");
        eventually("it waits", PATIENCE, || has("waits"));
        signal(&strace, Signal::TERM);
        strace.wait(PATIENCE);
        sleeps(server.id());
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        socket.send_to(b"fourth", (OURS, 7000)).expect("sent");
        let mut answer = [0; 100];
        let heard = socket.recv(&mut answer).map(|count| answer[..count].to_vec());
        drop(stopped);
        assert_eq!(heard.ok().as_deref(), Some(&b"fourth"[..]), "a packet wakes it");
        ends(server, Signal::KILL, directory.path());
    });
}

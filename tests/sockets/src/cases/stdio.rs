//! C's standard I/O over sockets.

use crate::case::ready;
use crate::pattern::is_intact;
use crate::suite::{BOTH, EACH, Suite, V4};
use crate::sys::{self, Stream};

pub fn add(suite: &mut Suite) {
    suite.add(EACH, "lines_both_ways", |t| {
        let (fd, peer) = t.accepted();
        let out = sys::dup(fd).fd();
        let (Some(input), Some(output)) = (Stream::open(fd, c"r"), Stream::open(out, c"w")) else {
            t.see("fdopen", "failed");
            return;
        };
        peer.say("first line\nsecond line\nlast");
        peer.shut(libc::SHUT_WR);
        for _ in 0..4 {
            t.see("line", format!("{:?}", input.line()));
        }
        t.see("at_end", input.is_at_end());
        t.see("print", output.print(c"answer", 42));
        t.see("flush", output.flush());
        t.see("peer", peer.hear(10));
        t.see("close", output.close());
        t.see("close", input.close());
        t.see("peer", peer.hear(1));
    });
    suite.add(BOTH, "close_flushes", |t| {
        let (fd, peer) = t.accepted();
        let Some(stream) = Stream::open(fd, c"w") else { return };
        stream.print(c"kept", 1);
        stream.print(c"back", 2);
        t.see("close", stream.close());
        t.see("peer", peer.hear(20));
    });
    suite.add(BOTH, "unbuffered", |t| {
        let (fd, peer) = t.accepted();
        let Some(stream) = Stream::open(fd, c"r+") else { return };
        t.see("unbuffered", stream.unbuffered());
        t.see("print", stream.print(c"now", 7));
        t.see("peer", peer.hear(6));
        peer.say("back\n");
        t.see("line", format!("{:?}", stream.line()));
    });
    suite.add(BOTH, "dprintf", |t| {
        let (fd, peer) = t.accepted();
        t.see("dprintf", sys::print_to(fd, c"number", -5));
        t.see("peer", peer.hear(10));
    });
    suite.add(BOTH, "large_read", |t| {
        let (fd, peer) = t.accepted();
        let Some(stream) = Stream::open(fd, c"r") else { return };
        peer.begin_send(100_000);
        let mut bytes = vec![0; 100_000];
        t.see("read", stream.read(&mut bytes));
        t.see("intact", is_intact(&bytes, 0));
        t.see("peer", crate::case::finish());
    });
    suite.add(BOTH, "peer_gone", |t| {
        let (fd, peer) = t.accepted();
        peer.abort();
        ready(fd, libc::POLLRDHUP);
        t.see("dprintf", sys::print_to(fd, c"x", 1));
        let Some(stream) = Stream::open(fd, c"w") else { return };
        t.see("print", stream.print(c"x", 1));
        t.see("flush", stream.flush());
    });
    suite.add(V4, "standard_streams_of_a_program", |t| {
        let (fd, peer) = t.accepted();
        let child = sys::spawn(&["sh", "-c", "read line; echo got $line; echo more"], fd, fd);
        sys::close(fd);
        peer.say("a line\n");
        t.see("peer", peer.hear(100));
        t.see("child", sys::wait(child.fd()).1);
    });
    suite.add(V4, "wrong_mode", |t| {
        let fd = t.tcp();
        t.see("open", Stream::open(fd, c"q").is_some());
        t.see("closed", Stream::open(1_000_000, c"r").is_some());
    });
}

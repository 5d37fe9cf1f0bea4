//! The kinds of device a service can make for itself: the same bytes, with clients on the kernel's sockets.

use qanat_tests::e2e::{Pages, Program, Server, eventually, qanat, scenario};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const LARGE: usize = 20 << 20;

#[test]
fn large_answers_leave_a_tap_device_in_pieces_of_many_segments() {
    scenario(|| {
        let content = Pages::pattern(LARGE);
        let pages = Pages::new().with("large", &content).with("small", Pages::pattern(1_000));
        let server = Server::start(&[pages.argument(), "--device", "tap", "--also", "fd77::2/64"]);
        assert_eq!(server.announcement()["driver"], "tun");
        for host in ["10.77.0.2", "[fd77::2]"] {
            let [large, small] = ["large", "small"].map(|name| format!("http://{host}/{name}"));
            let get = |url: &str| Program::new("curl").arguments(["-sS", "--max-time", "100", url]).succeeds().stdout;
            assert!(get(&large) == content, "{large} differs");
            assert!(get(&small) == Pages::pattern(1_000), "{small} differs");
        }
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        let count = |name: &str| stopped.last["vnic"][name].as_u64().unwrap_or_default();
        let (frames, writes) = (count("device_transmit_frames"), count("device_transmit_doorbells"));
        println!("{frames} frames, {writes} writes");
        assert!(frames > 2 * LARGE as u64 / 1_460 && writes < frames / 4, "{frames} frames, {writes} writes");
        assert_eq!((count("device_transmit_lost"), count("device_transmit_invalid")), (0, 0));
    });
}

#[test]
fn a_stream_comes_through_either_kind_of_device_and_goes_back() {
    for (kind, placement) in [("tap", "linked"), ("tap", "split"), ("veth", "linked")] {
        scenario(move || {
            let words = ["echo", "--device", kind, "--placement", placement];
            let mut echo = Program::new(qanat()).arguments(words).piped().start();
            let mut stream = None;
            eventually("the echo answers", PATIENCE, || {
                assert!(echo.is_running(), "{words:?}");
                stream = TcpStream::connect("10.77.0.2:7").ok();
                stream.is_some()
            });
            let mut stream = stream.expect("a connection");
            let content = Pages::pattern(8 << 20);
            let mut writer = stream.try_clone().expect("a descriptor");
            let sent = content.clone();
            let writing = std::thread::spawn(move || {
                writer.write_all(&sent).expect("the stream is taken");
                writer.shutdown(Shutdown::Write).expect("the end is told");
            });
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("the stream comes back");
            writing.join().expect("the writer");
            assert!(got == content, "{words:?}: {} bytes of {}", got.len(), content.len());
        });
    }
}

#[test]
fn what_a_tap_device_can_not_do_is_refused() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "hello");
        for (words, reason) in [
            (&["--device", "tap", "--force-copy"][..], "--force-copy is for --device veth"),
            (&["--device", "tap", "--interface", "lo", "--address", "10.78.0.2/24"], "cannot be used with"),
        ] {
            let refusal = Server::try_start(&[&[pages.argument()][..], words].concat()).err();
            assert!(refusal.as_deref().is_some_and(|text| text.contains(reason)), "{words:?}: {refusal:?}");
        }
    });
}

//! The kinds of device a service can make for itself: the same bytes, with clients on the kernel's sockets.

use super::links::{daemon_for, daemon_without_bpffs, is_answered};
use qanat_tests::e2e::{Pages, Program, Running, Server, eventually, qanat, scenario};
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

const PREFIX: &str = "10.77.0.0/24";
/// Each way between two ends.
const EXCHANGED: usize = 30 << 20;

fn command(pages: &Pages, words: &[&str]) -> Program {
    Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", pages.file(".daemon/control.sock"))
}

/// A server of these pages on a card of that kind.
fn serve(pages: &Pages, kind: &str, address: &str) -> Running {
    let running = command(pages, &["web", pages.argument(), "--device", kind, "--address", &format!("{address}/24")])
        .piped()
        .start();
    eventually("it answers", PATIENCE, || is_answered(&format!("{address}:80")));
    running
}

/// What a program on a card of that kind gets from there.
fn get_by_card(pages: &Pages, kind: &str, url: &str) -> Vec<u8> {
    let words = ["run", "--device", kind, "--address", "10.77.0.40/24", "--", "curl", "-sS", "--max-time", "100", url];
    command(pages, &words).succeeds().stdout
}

fn get(url: &str) -> Vec<u8> {
    Program::new("curl").arguments(["-sS", "--max-time", "100", url]).succeeds().stdout
}

fn classifiers(side: &str) -> String {
    Program::new("tc").arguments(["filter", "show", "dev", "qanat0", side]).run().text()
}

#[test]
fn a_daemons_tap_card_exchanges_bytes_with_the_kernel_and_with_other_cards() {
    scenario(|| {
        let content = Pages::pattern(EXCHANGED);
        let pages = Pages::new().with("large", &content).with("index.html", "here");
        let daemon = daemon_for(&pages, PREFIX);
        let _tap = serve(&pages, "tap", "10.77.0.2");
        let _veth = serve(&pages, "veth", "10.77.0.3");
        let root = pages.path().as_os_str();
        let words = [
            "-m".as_ref(),
            "http.server".as_ref(),
            "--bind".as_ref(),
            "10.77.0.1".as_ref(),
            "8000".as_ref(),
            "-d".as_ref(),
            root,
        ];
        let _kernel = Program::new("python3").arguments(words).piped().start();
        eventually("the kernel's server answers", PATIENCE, || TcpStream::connect("10.77.0.1:8000").is_ok());
        assert!(get("http://10.77.0.2/large") == content, "TAP card to kernel");
        for (kind, url, way) in [
            ("tap", "http://10.77.0.1:8000/large", "kernel to TAP card"),
            ("veth", "http://10.77.0.2/large", "TAP card to veth card"),
            ("tap", "http://10.77.0.3/large", "veth card to TAP card"),
            ("tap", "http://10.77.0.2/large", "TAP card to TAP card"),
        ] {
            let got = get_by_card(&pages, kind, url);
            assert!(got == content, "{way}: {} bytes of {}", got.len(), content.len());
        }
        let listed = command(&pages, &["vnic", "list"]).succeeds().text();
        println!("{listed}");
        assert!(!listed.contains(" offload ") && listed.contains("switched"), "{listed}");
        command(&pages, &["down"]).succeeds();
        assert_eq!(daemon.wait(PATIENCE).code, Some(0));
    });
}

#[test]
fn a_daemons_tap_card_outlives_its_daemon_and_keeps_its_fence() {
    scenario(|| {
        let content = Pages::pattern(EXCHANGED);
        let pages = Pages::new().with("large", &content).with("small", "It flows.").with("index.html", "here");
        let mut first = daemon_for(&pages, PREFIX);
        let _web = serve(&pages, "tap", "10.77.0.2");
        let is_whole = || classifiers("ingress").contains("tap_gate") && classifiers("egress").contains("tap_deliver");
        assert!(is_whole());
        Program::new("tc").arguments(["qdisc", "del", "dev", "qanat0", "clsact"]).succeeds();
        eventually("the fence is back", PATIENCE, is_whole);
        assert_eq!(get("http://10.77.0.2/small"), b"It flows.");
        first.kill();
        assert!(is_whole() && get("http://10.77.0.2/large") == content, "without a daemon");
        let mut second = daemon_for(&pages, PREFIX);
        assert!(is_whole() && get("http://10.77.0.2/large") == content, "with the next one");
        second.kill();
        let third = daemon_without_bpffs(&pages);
        assert!(is_whole() && get("http://10.77.0.2/large") == content, "without a BPF file system");
        let listed = command(&pages, &["vnic", "list"]).succeeds().text();
        assert!(listed.contains("10.77.0.2/24") && listed.contains("qanat0"), "{listed}");
        assert!(get_by_card(&pages, "veth", "http://10.77.0.2/small") == b"It flows.", "from a card of the next one's");
        // Elsewhere nothing would judge what it carries.
        Program::new("ip").arguments(["netns", "add", "elsewhere"]).succeeds();
        Program::new("ip").arguments(["link", "set", "qanat0", "netns", "elsewhere"]).succeeds();
        eventually("its card ends", PATIENCE, || !command(&pages, &["vnic", "list"]).run().text().contains("qanat0"));
        Program::new("ip").arguments(["netns", "del", "elsewhere"]).succeeds();
        command(&pages, &["down"]).succeeds();
        assert_eq!(third.wait(PATIENCE).code, Some(0));
    });
}

/// Elsewhere nothing would judge what it carries, and whoever holds its descriptor would not notice: the device goes with the card.
#[test]
fn a_daemons_tap_card_that_is_moved_ends_with_its_device() {
    scenario(|| {
        let pages = Pages::new();
        let mut daemon = daemon_for(&pages, PREFIX);
        let ip = |words: &str| Program::new("ip").arguments(words.split(' ')).run().code == Some(0);
        let create =
            ["vnic", "create", "kept", "--address", "10.77.0.2/24", "--service", "tcp/80", "--provider", "tap"];
        let is_listed = || command(&pages, &["vnic", "list"]).succeeds().text().contains("kept");
        assert!(ip("netns add elsewhere"));
        // It has a descriptor of the device, which says where that is.
        command(&pages, &create).succeeds();
        assert!(is_listed() && ip("link set qanat0 netns elsewhere"));
        eventually("its card ends", PATIENCE, || !is_listed());
        eventually("the device goes", PATIENCE, || !ip("-n elsewhere link show qanat0"));
        // The next daemon has none: it waits until the device is back, whatever it is called then.
        command(&pages, &create).succeeds();
        daemon.kill();
        daemon = daemon_for(&pages, PREFIX);
        assert!(is_listed() && ip("link set qanat0 netns elsewhere"));
        eventually("its card ends", PATIENCE, || !is_listed());
        assert!(
            ip("-n elsewhere link set qanat0 name moved")
                && ip(&format!("-n elsewhere link set moved netns {}", daemon.id()))
        );
        eventually("the device goes", PATIENCE, || !ip("link show moved"));
        assert!(!ip("-n elsewhere link show moved") && ip("netns del elsewhere"));
        command(&pages, &["down"]).succeeds();
        assert_eq!(daemon.wait(PATIENCE).code, Some(0));
    });
}

#[test]
fn what_a_daemons_tap_card_can_not_do_is_refused() {
    scenario(|| {
        let pages = Pages::new();
        let daemon = daemon_for(&pages, PREFIX);
        let create =
            ["vnic", "create", "kept", "--address", "10.77.0.2/24", "--service", "tcp/80", "--provider", "tap"];
        for (words, reason) in [
            (&["--queues", "2"][..], "a TAP device has one queue"),
            (&["--mtu", "9000"], "takes 64 KiB at a time all the same"),
            (&["--shared"], "is not on the uplink"),
        ] {
            let refused = command(&pages, &[&create[..], words].concat()).run();
            assert!(
                refused.code != Some(0) && refused.text().contains(reason) || refused.stderr.contains(reason),
                "{refused:?}"
            );
        }
        command(&pages, &create).succeeds();
        let ethernet = ["filter", "create", "--vnic", "0", "--receive", "ethernet", "any", "0x88b5"];
        let refused = command(&pages, &ethernet).run();
        assert!(refused.code != Some(0), "no EtherType: {refused:?}");
        command(&pages, &["down"]).succeeds();
        assert_eq!(daemon.wait(PATIENCE).code, Some(0));
    });
}

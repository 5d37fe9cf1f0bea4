//! The kernel's end of a daemon's card changes, and interfaces are deleted under services.

use qanat_tests::e2e::{Client, Pages, Program, Running, eventually, links, qanat, scenario};
use std::path::Path;
use std::time::Duration;

/// Where the daemon's card is reached.
const CARD: &str = "10.77.0.2:80";
/// For whatever must happen sooner or later.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

fn daemon(pages: &Pages) -> Running {
    daemon_for(pages, "10.77.0.0/24")
}

/// A daemon whose one rule, «rooms», allows these addresses.
pub(super) fn daemon_for(pages: &Pages, addresses: &str) -> Running {
    daemon_with(pages, addresses, "")
}

/// As [`daemon_for`], with more in its policy.
pub(super) fn daemon_with(pages: &Pages, addresses: &str, more: &str) -> Running {
    let socket = pages.file(".daemon/control.sock");
    let policy = format!(
        "socket = \"{}\"\n{more}\n[[rule]]\nname = \"rooms\"\nusers = [\"root\"]\naddresses = [\"{addresses}\"]\nservices = \
         [\"any\"]\n",
        socket.display()
    );
    pages.write(".daemon/policy.toml", policy);
    let policy = pages.file(".daemon/policy.toml");
    wait_for(Program::new(qanat()).arguments(["up".as_ref(), "--config".as_ref(), policy.as_os_str()]), &socket)
}

/// As [`daemon_for`] did it last, where no BPF file system is mounted, as in many containers.
pub(super) fn daemon_without_bpffs(pages: &Pages) -> Running {
    let script = "while umount /sys/fs/bpf 2>/dev/null; do :; done; exec \"$0\" up --config \"$1\"";
    let (program, policy) = (qanat(), pages.file(".daemon/policy.toml"));
    let unshared = Program::new("unshare").arguments(["--mount", "sh", "-ec", script]).arguments([program, policy]);
    wait_for(unshared, &pages.file(".daemon/control.sock"))
}

fn wait_for(daemon: Program, socket: &Path) -> Running {
    let daemon = daemon.start();
    eventually("the daemon listens", PATIENCE, || {
        let status = Program::new(qanat()).arguments(["status", "--json"]).environment("QANAT_SOCKET", socket).run();
        status.code == Some(0)
    });
    daemon
}

fn web(pages: &Pages, more: &[&str]) -> Running {
    let program = Program::new(qanat()).arguments(["web", "--json", pages.argument()]).arguments(more);
    program.environment("QANAT_SOCKET", pages.file(".daemon/control.sock")).start()
}

fn ip(words: &str) {
    Program::new("ip").arguments(words.split(' ')).succeeds();
}

pub(super) fn is_answered(address: &str) -> bool {
    let address = address.parse().expect("an address");
    Client::connect(address).and_then(|mut client| client.get("/index.html")).is_ok_and(|got| got.body == b"here")
}

#[test]
fn a_card_is_reached_whatever_the_kernels_end_is_called() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "here");
        let mut first = daemon(&pages);
        // A program of XDP is at the kernel's end of a veth card only.
        let server = web(&pages, &["--device", "veth"]);
        eventually("an answer", PATIENCE, || is_answered(CARD));
        for number in 1..=3 {
            ip(&format!("link set qanat0 address 02:00:00:00:77:0{number}"));
            eventually("an answer by the new Ethernet address", PATIENCE, || is_answered(CARD));
        }
        // With nobody there to see it, and with the address that the next daemon finds.
        first.kill();
        ip("link set qanat0 address 02:00:00:00:77:09");
        let second = daemon(&pages);
        eventually("an answer, the daemon restarted", PATIENCE, || is_answered(CARD));
        // The fence is put back where somebody took it away.
        let has_program = || {
            let all = links();
            all.iter().any(|link| link["ifname"] == "qanat0" && link["xdp"].is_object())
        };
        assert!(has_program(), "{:?}", links());
        ip("link set qanat0 xdp off");
        eventually("the gate is back", PATIENCE, has_program);
        eventually("an answer behind the gate", PATIENCE, || is_answered(CARD));
        drop((server, second));
    });
}

/// The kernel keeps an IPv6 address once an interface, so its ways to further ones of a card are routes.
#[test]
fn a_card_is_reached_at_each_of_its_addresses() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "here");
        let mut first = daemon_for(&pages, "any");
        let own = |number: u32| {
            [
                format!("10.77.0.{number}"),
                format!("10.77.0.10{number}"),
                format!("fd77::{number}"),
                format!("fd77::10{number}"),
            ]
        };
        let cards = [own(2), own(3)];
        let start = |addresses: &[String; 4]| {
            let length = |address: &str| if address.contains(':') { 64 } else { 24 };
            let named: Vec<String> = addresses.iter().map(|address| format!("{address}/{}", length(address))).collect();
            let [first, second, third, fourth] = &named[..] else { unreachable!() };
            web(&pages, &["--address", first, "--also", second, "--also", third, "--also", fourth])
        };
        let services = cards.each_ref().map(start);
        let all_answer = |when: &str| {
            for address in cards.iter().flatten() {
                let port = if address.contains(':') { format!("[{address}]:80") } else { format!("{address}:80") };
                eventually(&format!("{port} answers {when}"), PATIENCE, || is_answered(&port));
            }
        };
        all_answer("at first");
        first.kill();
        let second = daemon_for(&pages, "any");
        all_answer("after the daemon's restart");
        drop((services, second));
    });
}

#[test]
fn a_service_ends_with_its_interface() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "here");
        let mut first = daemon(&pages);
        let services = [web(&pages, &[]), web(&pages, &["--direct", "--address", "10.78.1.2/24"])];
        for address in [CARD, "10.78.1.2:80"] {
            eventually("an answer", PATIENCE, || is_answered(address));
        }
        ip("link delete qanat0");
        ip("link delete qanat1");
        for service in services {
            let outcome = service.wait(PATIENCE);
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            let told = outcome.stderr.lines().filter(|line| line.contains("interface was deleted")).count();
            assert_eq!(told, 1, "{outcome:?}");
        }
        assert!(first.is_running());
    });
}

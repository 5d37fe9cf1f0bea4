//! Net cores that the daemon starts: services find them by asking it, and find the next one when theirs dies.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{NOBODY, Program, Running, eventually, qanat, qanat_for_anybody, scenario};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const GRACE: Duration = Duration::from_secs(20);

/// A daemon with net cores, and a copy of the command where anybody may run it.
struct House {
    place: TempDir,
    command: PathBuf,
    daemon: Running,
}

fn process(number: u64) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process")
}

impl House {
    fn new(cores: &str) -> House {
        let place = tempfile::tempdir().expect("a directory");
        let command = qanat_for_anybody(place.path());
        std::fs::write(place.path().join("small"), "It flows.").expect("a file");
        let policy = format!(
            "socket = \"{}\"\ngroup = \"nogroup\"\n[net]\ncores = \"{cores}\"\nframes = 1024\n[[rule]]\nusers = [\"root\", \
             \"65534\"]\naddresses = [\"10.77.0.0/24\"]\nservices = [\"any/any\"]\n",
            place.path().join("control.sock").display()
        );
        std::fs::write(place.path().join("policy"), policy).expect("a policy");
        let daemon = Program::new(qanat())
            .arguments(["up".as_ref(), "--config".as_ref(), place.path().join("policy").as_os_str()])
            .start();
        let house = House { place, command, daemon };
        eventually("the daemon listens", GRACE, || house.socket().exists());
        house
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("control.sock")
    }

    /// Without privileges, as all who use the daemon.
    fn start(&self, arguments: &[&str]) -> Running {
        let program = Program::new("setpriv").arguments(NOBODY).arguments([&self.command]).arguments(arguments);
        program.environment("QANAT_SOCKET", self.socket()).start()
    }

    fn root(&self) -> &str {
        self.place.path().to_str().expect("a name")
    }

    fn status(&self) -> Value {
        let asked = Program::new(qanat()).arguments(["status", "--json"]).environment("QANAT_SOCKET", self.socket());
        serde_json::from_str(asked.run().text().trim()).unwrap_or_default()
    }

    fn text(&self) -> String {
        Program::new(qanat()).arguments(["status"]).environment("QANAT_SOCKET", self.socket()).succeeds().text()
    }

    /// The net core that has a service of that name, as it says itself.
    fn net_core_of(&self, service: &str) -> Value {
        let all = self.status()["net_cores"].as_array().cloned().unwrap_or_default();
        let has = |core: &Value| {
            let cards = core["cards"].as_array().cloned().unwrap_or_default();
            cards.iter().any(|card| card["service"]["name"] == service)
        };
        all.into_iter().find(has).unwrap_or_default()
    }

    fn end(self) {
        kill_process_group(process(self.daemon.id().into()), Signal::INT).expect("Ctrl-C");
        let outcome = self.daemon.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        eventually("nothing is left", GRACE, || !Path::new("/sys/class/net/qanat0").exists());
    }
}

fn fetch(address: &str) -> String {
    let url = format!("http://{address}/small");
    Program::new("curl").arguments(["--silent", "--max-time", "1", "--connect-timeout", "1", &url]).run().text()
}

/// As `fetch`, by who does not wait for the kernel to send its SYN again.
fn serves(address: &str) -> bool {
    let to = format!("{address}:80").parse().expect("an address");
    let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_millis(20)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    let mut page = String::new();
    let asked = stream.write_all(b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    asked.is_ok() && stream.read_to_string(&mut page).is_ok() && page.ends_with("It flows.")
}

/// So many bytes to an echo and back.
fn echoes(stream: &mut TcpStream, count: usize) -> bool {
    let sent: Vec<u8> = (0..count).map(|number| (number % 251) as u8).collect();
    let mut back = vec![0; count];
    stream.write_all(&sent).is_ok() && stream.read_exact(&mut back).is_ok() && sent == back
}

fn connect(to: &str) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&to.parse().expect("an address"), Duration::from_millis(200)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    Some(stream)
}

#[test]
fn services_are_given_to_the_daemons_net_cores_and_find_the_next_when_theirs_dies() {
    scenario(|| {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let house = House::new(if processors > 1 { "0-1" } else { "0" });
        let mut web = house.start(&["web", house.root(), "--placement", "split"]);
        eventually("web serves", GRACE, || fetch("10.77.0.2") == "It flows.");
        let mut echo = house.start(&["echo", "--placement", "split", "--address", "10.77.0.3/24"]);
        let mut stream = None;
        eventually("echo answers", GRACE, || {
            stream = connect("10.77.0.3:7");
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        assert!(echoes(&mut stream, 1_000));

        let (first, second) = (house.net_core_of("web"), house.net_core_of("echo"));
        let number = |core: &Value| core["process"].as_u64().unwrap_or(0);
        if processors > 1 {
            assert_ne!(number(&first), number(&second), "the net core with fewer cards is chosen");
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", number(&first))).expect("its status");
        let processor = format!("Cpus_allowed_list:\t{}\n", first["processor"]);
        for held in ["Uid:\t65534\t65534", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", &processor] {
            assert!(status.contains(held), "{held} in {status}");
        }
        let text = house.text();
        for said in ["started again 0 times", "\"web\"", "\"echo\"", "confined", "credits ", "on processor 0"] {
            assert!(text.contains(said), "{said} in {text}");
        }

        // Web's dies. Echo's goes on, with its connection.
        let killed = Instant::now();
        kill_process(process(number(&first)), Signal::KILL).expect("a net core to kill");
        while !serves("10.77.0.2") {
            assert!(killed.elapsed() < GRACE, "web serves again");
        }
        println!("served again {:?} after the net core was killed", killed.elapsed());
        assert!(processors == 1 || echoes(&mut stream, 100_000), "the other net core's connection goes on");
        let status = house.status();
        let cores = status["net_cores_started"].as_array().cloned().unwrap_or_default();
        let restarts: u64 = cores.iter().filter_map(|core| core["restarts"].as_u64()).sum();
        assert!(restarts == 1 && web.is_running() && echo.is_running(), "{status}");
        assert_ne!(number(&house.net_core_of("web")), number(&first));

        // Who has gone leaves no card behind.
        drop(echo);
        eventually("echo's card is gone", GRACE, || {
            house.status()["vnics"].as_array().is_some_and(|vnics| vnics.len() == 1)
        });
        drop(web);
        house.end();
    });
}

#[test]
fn net_cores_are_the_daemons_and_take_nobody_else() {
    scenario(|| {
        let house = House::new("0");
        let web = house.start(&["web", house.root(), "--placement", "split"]);
        eventually("web serves", GRACE, || fetch("10.77.0.2") == "It flows.");
        // By its status' name nobody gets a card, and the policy is the policy.
        let name = house.net_core_of("web")["socket"].as_str().unwrap_or_default().to_owned();
        let refused = house.start(&["echo", "--net", &name]).wait(GRACE);
        assert!(refused.code == Some(1) && refused.stderr.contains("the daemon's"), "{}", refused.stderr);
        for (address, why) in [("10.99.0.2/24", "does not allow"), ("10.77.0.2/24", "is taken")] {
            let refused = house.start(&["echo", "--placement", "split", "--address", address]).wait(GRACE);
            assert!(refused.code == Some(1) && refused.stderr.contains(why), "{}", refused.stderr);
        }
        // A daemon started anew has net cores anew; the service finds them.
        let before = house.net_core_of("web")["process"].clone();
        kill_process(process(house.daemon.id().into()), Signal::HUP).expect("HUP");
        eventually("another net core serves", GRACE, || {
            let now = house.net_core_of("web")["process"].clone();
            !now.is_null() && now != before && fetch("10.77.0.2") == "It flows."
        });
        drop(web);
        house.end();
    });
}

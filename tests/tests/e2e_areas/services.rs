//! Native services on areas of the daemon's disks, for the kernel's clients: in both placements, confined, and over the death of the
//! disk's core and of the daemon.

use crate::house::{GRACE, House, done};
use qanat_tests::e2e::{Program, Running, eventually, process, qanat, scenario};
use rustix::process::{Signal, kill_process};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Long enough for a byte that is on its way, and short enough to be waited for if none is.
const GLANCE: Duration = Duration::from_millis(300);

fn connection() -> TcpStream {
    let mut stream = None;
    eventually("it serves", GRACE, || {
        stream = TcpStream::connect_timeout(&([10, 77, 0, 2], 7).into(), GLANCE).ok();
        stream.is_some()
    });
    let stream = stream.expect("a connection");
    stream.set_read_timeout(Some(GRACE)).expect("a time-out");
    stream
}

/// What comes back for `said`, if the connection does not break.
fn try_talk(said: &[u8]) -> std::io::Result<Vec<u8>> {
    let (mut stream, mut heard) = (connection(), Vec::new());
    stream.write_all(said)?;
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut heard)?;
    Ok(heard)
}

/// It answers again, and with what was said.
fn answers(what: &str) {
    eventually(what, GRACE, || {
        let heard = try_talk(what.as_bytes());
        assert!(
            heard.as_ref().is_ok_and(|heard| heard == what.as_bytes())
                || heard.is_err()
                || heard.as_ref().is_ok_and(Vec::is_empty)
        );
        heard.is_ok_and(|heard| !heard.is_empty())
    });
}

fn echo(house: &House, area: &str, placement: &str) -> Program {
    let words = ["echo-disk", area, "--on", "fast", "--placement", placement];
    Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", house.socket())
}

fn is_confined(service: &Running) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.id())).expect("its status");
    for held in ["Uid:\t65534\t65534", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(held), "{held} in {status}");
    }
}

/// Numbers, one after the other.
fn counted(from: u32, to: u32) -> Vec<u8> {
    (from..to).flat_map(u32::to_be_bytes).collect()
}

#[test]
fn a_service_goes_on_with_its_area_over_the_death_of_core_and_daemon() {
    for placement in ["linked", "split"] {
        scenario(|| {
            let mut house = House::new(4, 64);
            let image = house.image("fast.img");
            done(&house.root(&["add", "fast", "--file", &image, "--size", "64M"]));
            done(&house.root(&["create", "logs", "--on", "fast", "--size", "8M"]));
            let free = house.json(&["disk", "list", "--on", "fast"])["free_bytes"].as_u64().expect("bytes");
            let service = echo(&house, "logs", placement).piped().start();
            let said: Vec<u8> = (0..300_000_u32).map(|number| (number / 3) as u8).collect();
            assert!(try_talk(&said).expect("an answer") == said, "{placement}");
            assert!(try_talk(b"the first words").expect("an answer") == b"the first words");
            let holds = |bytes: &[u8]| {
                let stored = std::fs::read(&image).expect("the disk");
                stored.windows(bytes.len()).any(|window| window == bytes)
            };
            assert!(holds(b"the first words"), "what was answered is on the disk");
            is_confined(&service);

            // The core stands still: nothing is answered, and then everything.
            let core = house.disk_core().expect("a disk core");
            let mut stream = connection();
            stream.write_all(&counted(0, 1_000)).expect("sent");
            let mut heard = vec![0; 4_000];
            stream.read_exact(&mut heard).expect("heard");
            kill_process(process(core), Signal::STOP).expect("a core");
            stream.write_all(&counted(1_000, 2_000)).expect("sent");
            stream.set_read_timeout(Some(GLANCE)).expect("a time-out");
            let silence = stream.read(&mut [0; 1]).expect_err("nobody answers");
            assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
            kill_process(process(core), Signal::CONT).expect("a core");
            stream.set_read_timeout(Some(GRACE)).expect("a time-out");
            stream.read_exact(&mut heard).expect("heard");
            assert!(heard == counted(1_000, 2_000), "each once, in order");

            // It dies with requests under way: their connection breaks, and what was answered before is whole.
            kill_process(process(core), Signal::STOP).expect("a core");
            stream.write_all(&counted(2_000, 3_000)).expect("sent");
            std::thread::sleep(GLANCE);
            kill_process(process(core), Signal::KILL).expect("a core");
            let mut rest = Vec::new();
            let broken = stream.read_to_end(&mut rest).expect_err("what is lost is not answered");
            assert_eq!(broken.kind(), ErrorKind::ConnectionReset, "{placement}: {broken}");
            assert!(counted(2_000, 3_000).starts_with(&rest), "nothing but what was said");
            answers("after the death of the core");
            // An idle one notices, too.
            let next = house.disk_core().expect("another disk core");
            assert_ne!(next, core);
            kill_process(process(next), Signal::KILL).expect("a core");
            eventually("there is a core without anybody's asking", GRACE, || {
                house.disk_core().is_some_and(|third| third != next)
            });
            answers("after the death of another core");

            house.crash();
            house.start();
            answers("after the death of the daemon");
            assert!(holds(b"after the death of the daemon"));

            // Deleted, it is there as long as the service has it.
            let text = done(&house.root(&["delete", "logs", "--on", "fast"]));
            assert!(text.contains("its space is free once nobody uses it"), "{text}");
            answers("after the deletion");
            kill_process(process(service.id().into()), Signal::TERM).expect("a service");
            let outcome = service.wait(GRACE);
            assert_eq!(outcome.code, Some(0), "{placement}: {outcome:?}");
            let lost = outcome.stderr.matches("is lost").count();
            assert_eq!((lost, outcome.stderr.matches("is there again").count()), (3, 3), "{placement}: {outcome:?}");
            println!(
                "{placement}: {:?}",
                outcome.stderr.lines().filter(|line| line.contains("there again")).collect::<Vec<_>>()
            );
            let space = || house.json(&["disk", "list", "--on", "fast"])["free_bytes"].as_u64();
            eventually("its space is free", GRACE, || space() == Some(free + (8 << 20)));
            house.end();
        });
    }
}

#[test]
fn a_service_on_a_file_of_its_own_needs_no_core_and_no_daemon() {
    for placement in ["linked", "split"] {
        scenario(|| {
            let mut house = House::ruled(4, 64, "");
            let path = house.image("areas");
            done(&house.root(&["add", "fast", "--directory", &path, "--size", "64M"]));
            done(&house.root(&["create", "logs", "--on", "fast", "--size", "8M"]));
            let service = echo(&house, "logs", placement).piped().start();
            let said: Vec<u8> = (0..300_000_u32).map(|number| (number / 3) as u8).collect();
            assert!(try_talk(&said).expect("an answer") == said, "{placement}");
            is_confined(&service);
            assert!(house.disk_core().is_none(), "nobody needs one");
            house.crash();
            house.start();
            answers("after the death of the daemon");
            let stored = std::fs::read(format!("{path}/1.area")).expect("its file");
            let words = b"after the death of the daemon";
            assert!(stored.windows(words.len()).any(|window| window == words), "what was answered is in the file");
            // The daemon has not handed it out, and the kernel says that somebody has it.
            let text = done(&house.root(&["delete", "logs", "--on", "fast"]));
            assert!(text.contains("somebody still has a descriptor of it"), "{text}");
            answers("after the deletion");
            kill_process(process(service.id().into()), Signal::TERM).expect("a service");
            let outcome = service.wait(GRACE);
            assert_eq!(outcome.code, Some(0), "{placement}: {outcome:?}");
            let all = format!("{}{}", outcome.text(), outcome.stderr);
            assert!(all.contains("of fast, a file of its own, without a disk core"), "{placement}: {outcome:?}");
            assert!(!all.contains("is lost") && house.disk_core().is_none(), "{placement}: {outcome:?}");
            eventually("its file is gone", GRACE, || !std::path::Path::new(&path).join("1.area").exists());
            house.end();
        });
    }
}

#[test]
fn an_area_that_cant_be_had_says_which_command_makes_it() {
    scenario(|| {
        let house = House::new(4, 64);
        let image = house.image("fast.img");
        let refuses = |area: &str, parts: &[&str]| {
            let outcome = echo(&house, area, "linked").run();
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            parts
                .iter()
                .for_each(|part| assert!(outcome.stderr.contains(part), "{part:?} is not in {}", outcome.stderr));
        };
        refuses("logs", &["fast", "nor has the daemon a disk of that name", "sudo qanat disk add fast --file"]);
        done(&house.root(&["add", "fast", "--file", &image, "--size", "64M"]));
        refuses("logs", &["the disk fast has no area logs", "qanat disk create logs --on fast --size"]);
        house.end();
    });
}

#[test]
fn another_area_by_the_same_name_is_not_taken_for_the_lost_one() {
    scenario(|| {
        let house = House::new(4, 64);
        let image = house.image("fast.img");
        done(&house.root(&["add", "fast", "--file", &image, "--size", "64M"]));
        done(&house.root(&["create", "logs", "--on", "fast", "--size", "8M"]));
        let log = house.image("log");
        let words = ["echo-disk", "logs", "--on", "fast", "--placement", "linked"];
        let service = Program::new("sh").arguments(["-c", "exec \"$0\" \"$@\" 2> \"$LOG\""]).arguments([qanat()]);
        let service = service.arguments(words).environment("LOG", &log).environment("QANAT_SOCKET", house.socket());
        let service = service.piped().start();
        answers("the first words");
        done(&house.root(&["delete", "logs", "--on", "fast"]));
        done(&house.root(&["create", "logs", "--on", "fast", "--size", "8M"]));
        kill_process(process(house.disk_core().expect("a disk core")), Signal::KILL).expect("a core");
        eventually("nobody has any area", GRACE, || {
            let disk = house.json(&["disk", "list", "--on", "fast"]);
            disk["areas"].as_array().is_some_and(|areas| areas.iter().all(|area| area["handles"] == 0))
        });
        // It has no disk any more: what comes is not answered.
        let heard = try_talk(b"the last words");
        assert!(heard.is_err() || heard.is_ok_and(|heard| heard.is_empty()));
        eventually("it says that the area is gone", GRACE, || {
            std::fs::read_to_string(&log).is_ok_and(|said| said.contains("is gone for good"))
        });
        kill_process(process(service.id().into()), Signal::TERM).expect("a service");
        service.wait(GRACE);
        house.end();
    });
}

//! Who may have too few descriptors is told how many are needed, before anything has begun; with so many it works.

use super::remedies::Place;
use qanat_tests::e2e::scenario;

const LINK: &str = "ip link add near type veth peer name far; ip link set far up; ip link set near up";
const ON_LINK: &str = "--interface near --address 10.9.0.2/24";

/// Commands, and how many descriptors they say that they need.
fn commands() -> Vec<(String, u64)> {
    let services = ["echo", "web site", "dns --zone example.test=z", "web site --placement split"];
    let mut all: Vec<(String, u64)> = services.iter().map(|service| (format!("{service} {ON_LINK}"), 64)).collect();
    // With a daemon's card too, which comes as a descriptor beside a message.
    all.extend([("echo --address 10.77.0.9/24".to_owned(), 64), ("status".to_owned(), 64), ("hello".to_owned(), 64)]);
    all.push((format!("run {ON_LINK} -- touch begun"), 1_024));
    all.push(("run --address 10.77.0.9/24 -- touch begun".to_owned(), 1_024));
    all
}

/// The hard limits that are tried.
const LIMITS: [u64; 12] = [16, 40, 63, 64, 100, 256, 400, 512, 700, 800, 1_023, 1_024];

#[test]
fn who_may_have_too_few_descriptors_is_told_how_many_are_needed() {
    scenario(|| {
        let mut place = Place::new();
        place.shell(LINK);
        place.shell("printf '$TTL 60\\n@ SOA n h 1 1 1 1 1\\n@ NS n\\nn A 192.0.2.1\\n' > z");
        let daemon = "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done";
        place.shell(daemon);
        for (command, needed) in commands() {
            let _ = std::fs::remove_file(place.file("begun"));
            for limit in LIMITS.into_iter().filter(|limit| *limit < needed) {
                let said = place.with_limit("nofile", limit).fails(&command);
                let context = format!("{command} with {limit}: {said}");
                assert!(said.lines().count() == 1 && !place.has("begun"), "{context}");
                assert!(said.contains(&needed.to_string()) && said.contains(&limit.to_string()), "{context}");
                assert!(said.contains("ulimit") && said.contains("LimitNOFILE"), "{context}");
            }
            // The limit that it names is enough.
            place.with_limit("nofile", needed).works(&command);
        }
    });
}

/// A program whose limit is lowered once it runs: the library says the same, and nothing of its own stays behind.
#[test]
fn a_program_that_lowers_its_limit_before_its_first_socket_is_told() {
    scenario(|| {
        let place = Place::new();
        place.shell(LINK);
        let program = "import socket; s = socket.socket(); print(s.bind(('10.9.0.2', 80)) or s.listen() or 'listens')";
        std::fs::write(place.file("program.py"), program).expect("a file");
        let listens = |said: &str| said.lines().any(|line| line == "listens");
        for limit in [200, 512, 800] {
            let script = format!("ulimit -n {limit}; exec python3 program.py");
            let said =
                place.says(&["run", "--interface", "near", "--address", "10.9.0.2/24", "--", "sh", "-c", &script]);
            let line = said.lines().find(|line| line.contains("no virtual card")).unwrap_or_default();
            assert!(line.contains("1024 descriptors") && line.contains(&limit.to_string()), "{limit}: {said}");
            assert!(line.contains("ulimit -Hn 1024") && !listens(&said), "{limit}: {said}");
        }
        // A low limit that may be raised is no hindrance.
        let script = "ulimit -Sn 64; exec python3 program.py";
        let said = place.says(&["run", "--interface", "near", "--address", "10.9.0.2/24", "--", "sh", "-c", script]);
        assert!(listens(&said) && !said.contains("no virtual card"), "{said}");
    });
}

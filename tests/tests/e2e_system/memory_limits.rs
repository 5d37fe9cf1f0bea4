//! Who may have too few addresses, or too short files, is told how much is needed, before anything has begun; with so much it works.

use super::remedies::Place;
use qanat_tests::e2e::scenario;

const LINK: &str = "ip link add near type veth peer name far; ip link set far up; ip link set near up";
const ON_LINK: &str = "--interface near --address 10.9.0.2/24";
/// What a service needs, and a program under `qanat run`.
const SERVICE_MIB: u64 = 512;
const PROGRAM_MIB: u64 = 5 << 10;

/// Commands, how much they need, and how they say it.
fn commands() -> Vec<(String, u64, &'static str)> {
    let services = ["echo", "web site", "dns --zone example.test=z", "web site --placement split"];
    let service = |words: String| (words, SERVICE_MIB, "needs 512 MiB of address space");
    let mut all: Vec<_> = services.iter().map(|name| service(format!("{name} {ON_LINK}"))).collect();
    all.extend(["echo --address 10.77.0.9/24", "up --socket other", "hello"].map(|words| service(words.to_owned())));
    for card in [ON_LINK, "--address 10.77.0.9/24"] {
        // The program needs the card for as long as it takes to make a socket.
        let words = format!("run {card} -- python3 program.py");
        all.push((words, PROGRAM_MIB, "needs 5 GiB of address space"));
    }
    all
}

#[test]
fn who_may_have_too_little_is_told_how_much_is_needed() {
    scenario(|| {
        let mut place = Place::new();
        place.shell(LINK);
        place.shell("printf '$TTL 60\\n@ SOA n h 1 1 1 1 1\\n@ NS n\\nn A 192.0.2.1\\n' > z");
        place.shell(
            "printf 'import socket\\nopen(\"begun\", \"w\")\\nsocket.create_server((\"\", 80))\\n' > program.py",
        );
        place.shell("$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done");
        for (command, needed_mib, says) in commands() {
            for limit_mib in [64, 128, 256, 511, 2_048, 4_608].into_iter().filter(|limit| *limit < needed_mib) {
                let said = place.with_limit("as", limit_mib << 20).fails(&command);
                let context = format!("{command} with {limit_mib} MiB: {said}");
                assert!(said.lines().count() == 1 && !place.has("begun"), "{context}");
                assert!(said.contains(says) && said.contains(&format!("may have {limit_mib}")), "{context}");
                assert!(said.contains("ulimit -v") && said.contains("LimitAS"), "{context}");
            }
            // What is said goes to a file, too.
            for limit_kib in [64, 1 << 10, 32 << 10] {
                let said = place.with_limit("fsize", limit_kib << 10).fails(&command);
                let context = format!("{command} with files of {limit_kib} KiB: {said}");
                assert!(said.lines().count() == 1 && !place.has("begun"), "{context}");
                assert!(
                    said.contains("memory file") && said.contains(&format!("may have files of {limit_kib} KiB")),
                    "{context}"
                );
                assert!(said.contains("ulimit -H -f") && said.contains("LimitFSIZE"), "{context}");
            }
            place.with_limit("as", needed_mib << 20).works(&command);
            assert!(!place.said().contains("no virtual card"), "{command}: {}", place.said());
            let _ = std::fs::remove_file(place.file("begun"));
        }
    });
}

//! What commands say to people fits 80 columns, or says how wide it is.

use super::links::PATIENCE;
use super::remedies::Place;
use qanat_tests::e2e::{eventually, scenario};
use rustix::process::{Pid, Signal, kill_process};

const COLUMNS: usize = 80;

/// Lines that are too long, but for those that can't be folded: one word, or what somebody copies.
fn too_long(said: &str) -> Vec<String> {
    let is_one = |line: &str| {
        let text = line.trim();
        !text.contains(' ') || text.starts_with('`') && text.ends_with('`')
    };
    said.lines().filter(|line| line.chars().count() > COLUMNS && !is_one(line)).map(str::to_owned).collect()
}

/// Long names, many addresses, long services: what makes lines long.
fn fill(place: &Place) {
    let policy = "[[rule]]\nname = \"a rule with a long name, because nobody has forbidden such names\"\nusers = [\"*\"]\nvnics = 64\n\
                  addresses = [\"10.77.0.0/24\", \"fd77:1234:5678:9abc::/64\", \"fd77:1234:5678:9abd::/64\", \"fd77:1234:5678:9abe::/64\"]\n\
                  services = [\"any\", \"tcp/80\", \"tcp/443\", \"tcp/8080-8090\", \"udp/53\", \"udp/5353\", \"udp/40000-50000\", \"47\"]\n";
    std::fs::write(place.file("qanat.toml"), policy).expect("a policy");
    place.shell(
        "$Q up --config qanat.toml >up.log 2>&1 & echo $! > number; until $Q status >/dev/null 2>&1; do sleep 0.1; done",
    );
    let name = "card-".repeat(12);
    for number in 2..5 {
        let addresses: Vec<String> = (1..5).map(|more| format!("--address 10.77.0.{more}{number}/24")).collect();
        place.shell(&format!(
            "$Q vnic create {name}{number} --address fd77:1234:5678:9abc::{number}/64 {} --service tcp/80 --service tcp/8080-8090 \
             --service udp/40000-50000 --service tcp/443 >/dev/null",
            addresses.join(" ")
        ));
    }
}

#[test]
fn what_commands_say_fits_80_columns() {
    scenario(|| {
        let place = Place::new();
        fill(&place);
        std::fs::write(place.file("z"), "$TTL 60\n@ SOA n h 1 1 1 1 1\n@ NS n\nn A 192.0.2.1\n").expect("a zone");
        for (words, known) in [
            ("status", "VNIC 0"),
            ("vnic list", "VNIC 0"),
            ("vnic create another-card-with-a-name --address 10.77.0.9/24 --service tcp/80", "VNIC 3"),
            ("limits", "EtherTypes"),
            ("doctor", "control plane"),
            ("top --interval 0.1 --count 1", "VNIC"),
            ("dns check z --name example.test", "3 records"),
            ("hello", "server"),
            ("bench --list", "echo-veth"),
        ] {
            let said = place.says(&words.split(' ').collect::<Vec<_>>());
            assert!(said.contains(known), "{words}: {said}");
            assert_eq!(too_long(&said), Vec::<String>::new(), "{words}: {said}");
        }
        // Services, with what they say at their end.
        place.shell("ip link add near type veth peer name far; ip link set far up; ip link set near up");
        place.shell("ip link add other type veth peer name rest; ip link set rest up; ip link set other up");
        for (words, ready) in [
            ("web site --address 10.77.0.200/24", "Serving"),
            ("dns --zone example.test=z --address 10.77.0.201/24 --control dns.sock", "Answering"),
            ("echo --address 10.77.0.202/24", "Echoing"),
            ("delay near other", "Forwarding"),
        ] {
            let mut service = place.start(words);
            eventually(&format!("{words} is there"), PATIENCE, || place.said().contains(ready));
            if words.starts_with("dns") {
                let said = place.says(&["dns", "status", "--control", "dns.sock"]);
                assert!(said.contains("example.test") && too_long(&said).is_empty(), "{said}");
            }
            let id = i32::try_from(service.id()).ok().and_then(Pid::from_raw).expect("a process");
            kill_process(id, Signal::INT).expect("it runs");
            assert!(service.wait().expect("it ends").success(), "{words}: {}", place.said());
            let said = place.said();
            assert_eq!(too_long(&said), Vec::<String>::new(), "{words}: {said}");
        }
    });
}

/// A table that doesn't fit says how wide it is.
#[test]
fn tables_say_how_wide_they_are() {
    scenario(|| {
        let place = Place::new();
        let said = place.says(&["bench", "ratio", "--quick", "--repetitions", "1", "-d", "10ms"]);
        let grid = said.lines().skip_while(|line| !line.is_empty()).take_while(|line| !line.starts_with('*'));
        let widest = grid.map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest > COLUMNS, "{said}");
        assert!(said.contains(&format!("\n  width     {widest} columns\n")), "{said}");
    });
}

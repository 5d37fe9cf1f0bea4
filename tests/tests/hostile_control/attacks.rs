//! The table of attacks of clients on each other and on the daemon: `attacks.py`, judged here. The client there shares no
//! code with ours, and has rings, memory and messages in its own hands. Another user's service is watched throughout.

use super::cards::{Control, card};
use super::rows::CLASSES;
use super::running::{descriptors, links};
use qanat_tests::e2e::{Program, eventually, qanat, scenario, workspace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The witness is a user with a rule of its own: a real service needs more memory than those who attack may have.
const POLICY: &str = "[[rule]]\nname = \"witness\"\nusers = [\"1004\"]\nvnics = 1\naddresses = [\"10.77.0.250\"]\n\
                      services = [\"any\"]\n\
                      [[rule]]\nname = \"test\"\nusers = [\"*\"]\nvnics = 8\nmemory_mib = 2\naddresses = [\"10.77.0.0/24\"]\n\
                      services = [\"any\"]\n";
/// Those of identity.py and quotes.py: before the rule for everybody, which names nobody.
const OTHERS: &str = "[[rule]]\nname = \"bound\"\nusers = [\"1010\"]\naddresses = [\"10.77.0.0/24\"]\n\
                      services = [\"any\"]\npeers = [\"10.77.0.1\"]\n\
                      [[rule]]\nname = \"anywhere\"\nusers = [\"1011\"]\naddresses = [\"any\"]\nservices = [\"any\"]\n\
                      [[rule]]\nname = \"members\"\nusers = [\"300001\"]\ngroups = [\"60\"]\n\
                      addresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n";
/// The witness' clients.
const CHANNELS: [&str; 4] = ["udp", "tcp", "status", "door"];

#[test]
fn the_table_of_attacks() {
    scenario(|| {
        let directory = workspace().join("tests/tests/hostile_control");
        let numbers = directory.join("subuid");
        let control = Control::start(&format!("subordinate_users = {numbers:?}\n{OTHERS}{POLICY}"));
        // The first card brings what the daemon keeps for the next.
        drop(card(&control, 2, &["udp/7"]));
        eventually("it is gone", Duration::from_secs(20), || control.vnics().is_empty());
        let (before_links, before_descriptors) = (links(), descriptors(&control));
        let script = directory.join("attacks.py");
        // QANAT_ATTACKS: words of the names of those wanted.
        let wanted = std::env::var("QANAT_ATTACKS").unwrap_or_default();
        let outcome = Program::new("python3")
            .arguments([script.as_os_str(), control.socket.as_os_str(), qanat().as_os_str()])
            .arguments(wanted.split(',').filter(|word| !word.is_empty()))
            .environment("PYTHONDONTWRITEBYTECODE", "1")
            .patience(Duration::from_secs(600))
            .succeeds();
        let rows: Vec<Value> =
            outcome.text().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        let wrong: Vec<String> = rows
            .iter()
            .filter(|row| (&row["control"], &row["attack"], &row["off"]) != (&true.into(), &false.into(), &true.into()))
            .map(Value::to_string)
            .collect();
        println!("{}", witness(&rows));
        assert!(wrong.is_empty(), "allowed must happen, forbidden must not, unprotected must:\n{}", wrong.join("\n"));
        assert!(!rows.is_empty(), "there are attacks");
        // Past libtest's capture: how the neighbour fared is what the table is for.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), summary(&rows).as_bytes());
        eventually("nothing is left behind", Duration::from_secs(5), || {
            control.vnics().is_empty() && links() == before_links && descriptors(&control) <= before_descriptors
        });
    });
}

fn milliseconds(microseconds: &Value) -> String {
    microseconds.as_f64().map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time / 1_000.0))
}

/// What the witness heard during each attack: answers, and p50/p99/worst in ms, of each of its clients.
fn witness(rows: &[Value]) -> String {
    let mut text = format!("{:<100}{:>6}", "attack", "s");
    for channel in CHANNELS {
        let _ = write!(text, "{channel:>30}");
    }
    for row in rows {
        let name =
            format!("{}: {}", row["class"].as_str().unwrap_or_default(), row["name"].as_str().unwrap_or_default());
        let _ = write!(text, "\n{name:<100}{:>6}", row["seconds"].to_string());
        for channel in CHANNELS {
            let seen = &row["witness"][channel];
            let times = ["p50_us", "p99_us", "max_us"].map(|which| milliseconds(&seen[which])).join("/");
            let _ = write!(text, "{:>30}", format!("{} {times}", seen["answers"]));
        }
    }
    text
}

/// Rows, seconds, and the witness' answers and longest wait in each class.
fn summary(rows: &[Value]) -> String {
    let mut text = String::from("\nwitness during the attacks of a class: answers, longest wait in ms\n");
    let mut classes = BTreeMap::<&str, Vec<&Value>>::new();
    for row in rows {
        classes.entry(row["class"].as_str().unwrap_or_default()).or_default().push(row);
    }
    for class in CLASSES {
        let rows = classes.remove(class).unwrap_or_default();
        let seconds: f64 = rows.iter().filter_map(|row| row["seconds"].as_f64()).sum();
        let _ = write!(text, "{class:<20}{:>4} rows {seconds:>6.1} s", rows.len());
        for channel in CHANNELS {
            let answers: u64 = rows.iter().filter_map(|row| row["witness"][channel]["answers"].as_u64()).sum();
            let worst = rows.iter().filter_map(|row| row["witness"][channel]["max_us"].as_f64()).fold(0.0, f64::max);
            let _ = write!(text, "  {channel} {answers} {:.1}", worst / 1_000.0);
        }
        text.push('\n');
    }
    assert!(classes.is_empty(), "classes there are not: {:?}", classes.keys());
    text
}

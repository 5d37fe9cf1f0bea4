//! The table of attacks of clients on each other and on the daemon: `attacks.py`, judged here. The client there shares no
//! code with ours, and has rings, memory and messages in its own hands.

use super::cards::Control;
use super::running::{descriptors, links};
use qanat_tests::e2e::{Program, eventually, scenario, workspace};
use std::collections::BTreeMap;
use std::time::Duration;

/// Fewer than there are: none is to be lost unnoticed.
const ROWS_MIN: usize = 60;

#[test]
fn the_table_of_attacks() {
    scenario(|| {
        let control = Control::start(
            "[[rule]]\nname = \"test\"\nusers = [\"*\"]\nvnics = 8\nmemory_mib = 2\naddresses = [\"10.77.0.0/24\"]\n\
             services = [\"any\"]\n",
        );
        assert!(control.vnics().is_empty());
        let (before_links, before_descriptors) = (links(), descriptors());
        let script = workspace().join("tests/tests/hostile_control/attacks.py");
        // QANAT_ATTACKS: words of the names of those wanted.
        let wanted = std::env::var("QANAT_ATTACKS").unwrap_or_default();
        let outcome = Program::new("python3")
            .arguments([script.as_os_str(), control.socket.as_os_str()])
            .arguments(wanted.split(',').filter(|word| !word.is_empty()))
            .environment("PYTHONDONTWRITEBYTECODE", "1")
            .patience(Duration::from_secs(300))
            .succeeds();
        let (mut classes, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
        for line in outcome.text().lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
            *classes.entry(row["class"].as_str().expect("a class").to_owned()).or_default() += 1;
            if (&row["control"], &row["attack"], &row["off"]) != (&true.into(), &false.into(), &true.into()) {
                wrong.push(line.to_owned());
            }
        }
        let count: usize = classes.values().sum();
        println!("{count} attacks: {classes:?}");
        assert!(wrong.is_empty(), "allowed must happen, forbidden must not, unprotected must:\n{}", wrong.join("\n"));
        assert!(count >= ROWS_MIN || !wanted.is_empty(), "{count} attacks are left");
        eventually("nothing is left behind", Duration::from_secs(5), || {
            control.vnics().is_empty() && links() == before_links && descriptors() <= before_descriptors
        });
    });
}

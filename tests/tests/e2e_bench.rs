//! `qanat bench` as a whole: tables by name, as JSON and as a page; runs are short, and no number in them matters.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Program, qanat, scenario};
use serde_json::Value;
use std::collections::HashSet;

const SHORT: [&str; 5] = ["--quick", "-d", "100ms", "--repetitions", "1"];
/// Where each answer waits for the disk, one may take longer than that beside other tests.
const DURABLE: [&str; 5] = ["--quick", "-d", "5s", "--repetitions", "1"];

#[test]
fn a_report_has_every_table_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("report.html");
    let page_path = page.display().to_string();
    let words =
        ["bench", "--tables", "echo-pair,echo-memif", "--json", "--report", &page_path, "--filter", "256 at once"];
    let text = Program::new(qanat()).arguments(words).arguments(SHORT).succeeds().text();
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let tables = report["tables"].as_array().expect("tables");
    assert_eq!((tables.len(), &report["failures"]), (2, &Value::Array(Vec::new())), "{text}");
    for table in tables {
        let rows = table["rows"].as_array().expect("rows");
        let peers: HashSet<&str> = rows.iter().filter_map(|row| row["peer"].as_str()).collect();
        assert!(peers.contains("raw (driver)") && peers.contains("native UDP"), "{table}");
        for row in rows {
            assert!(row["values"][0]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        }
        let environment = &table["environment"];
        for field in ["kernel", "processors", "commit", "date", "link", "pinning", "quiet", "placement"] {
            assert!(environment[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {environment}");
        }
    }
    let html = std::fs::read_to_string(&page).expect("the page");
    assert!(html.matches("<svg").count() == 2 && html.contains("Placement"), "two drawings");
    for outside in ["src=", "@import", "url(", "<script", "<link"] {
        assert!(!html.contains(outside), "complete in one file, but has {outside}");
    }
    // It is written so that a reader of XML finds no fault with it, and a browser no quirks.
    let check = "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])";
    Program::new("python3").arguments(["-c", check, &page_path]).succeeds();
}

#[test]
fn a_document_keeps_what_people_wrote() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("performance.md");
    let report = path.display().to_string();
    let bench = || {
        let words = ["bench", "--tables", "echo-pair", "--report", &report, "--filter", "64 bytes, 256 at once"];
        Program::new(qanat()).arguments(words).arguments(SHORT).run()
    };
    let text = || std::fs::read_to_string(&path).expect("the document");
    let before = "A lesson.\n\n<!-- bench: echo-pair -->\nold\n<!-- /bench: echo-pair -->\n\nAnother one.\n";
    std::fs::write(&path, before).expect("a document");
    assert_eq!(bench().code, Some(0));
    let after = text();
    assert!(
        after.starts_with("A lesson.\n") && after.ends_with("\nAnother one.\n") && !after.contains("old"),
        "{after}"
    );
    assert!(after.contains("raw (driver)<br>") && after.contains("(performance-echo-pair.svg)"), "{after}");
    assert!(path.with_file_name("performance-echo-pair.svg").exists());
    // A document whose marks are wrong is refused before anything is measured, and stays as it is.
    let open = before.replace("<!-- /bench: echo-pair -->", "");
    std::fs::write(&path, &open).expect("a document");
    let outcome = bench();
    assert_eq!((outcome.code, text()), (Some(1), open));
    assert!(
        outcome.stderr.contains("<!-- /bench: echo-pair -->") && outcome.stderr.contains("performance.md"),
        "{outcome:?}"
    );
}

#[test]
fn tables_over_a_veth_say_what_failed() {
    scenario(|| {
        let words = ["bench", "echo", "--link", "veth", "--json", "--filter", "64 bytes, 256"];
        let text = Program::new(qanat()).arguments(words).arguments(SHORT).succeeds().text();
        let table: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let rows = table["rows"].as_array().expect("rows");
        assert!(rows.iter().any(|row| row["peer"] == "Linux io_uring, batches"), "{table}");
        for row in rows {
            assert!(row["values"][0]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        }
    });
    let outcome = Program::new(qanat()).arguments(["bench", "--tables", "web,wep", "--quick"]).run();
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.stderr.contains("no table is called \"wep\"") && outcome.stderr.contains("echo-memif"),
        "{outcome:?}"
    );
    let names = Program::new(qanat()).arguments(["bench", "--list"]).succeeds().text();
    assert!(["web", "echo-veth", "breakdown", "paths"].iter().all(|name| names.contains(name)), "{names}");
    let outcome = Program::new(qanat()).arguments(["bench", "breakdown", "--quick"]).run();
    if outcome.code != Some(0) {
        assert!(outcome.stderr.contains("make bench-breakdown"), "{outcome:?}");
    }
}

/// The peers of a table that is measured shortly, each of which does something.
fn peers_of(words: &[&str]) -> Vec<String> {
    peers_by(words, SHORT)
}

/// The same, measured in this way.
fn peers_by(words: &[&str], how: [&str; 5]) -> Vec<String> {
    let text = Program::new(qanat()).arguments(["bench"]).arguments(words).arguments(["--json"]).arguments(how);
    let text = text.succeeds().text();
    let table: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let rows = table["rows"].as_array().expect("rows");
    let columns = table["columns"].as_array().expect("columns");
    let rate = columns.iter().position(|column| column["name"] == "requests_per_s").unwrap_or(0);
    for row in rows {
        assert!(row["values"][rate]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        // What another program fails at is told, and is not judged here: nginx with films from a disk loses an answer now and then.
        let is_ours = row["peer"].as_str().is_some_and(|peer| peer.contains("qanat"));
        assert!(!is_ours || row["note"].as_str().is_none_or(|note| !note.contains("FAILED")), "{row}");
    }
    rows.iter().filter_map(|row| row["peer"].as_str().map(str::to_owned)).collect()
}

#[test]
fn name_servers_are_compared() {
    scenario(|| {
        let peers = peers_of(&["dns", "--filter", "one at a time"]);
        assert_eq!(peers, ["raw echo (driver)", "Knot, XDP", "Knot, sockets", "NSD", "qanat dns"]);
    });
}

#[test]
fn crossings_are_compared() {
    scenario(|| {
        for case in ["512 B, at once", "512 B, one after"] {
            assert_eq!(
                peers_of(&["crossing", "--filter", case]),
                ["linked", "linked, with crossing", "kernel"],
                "{case}"
            );
        }
    });
}

#[test]
fn crossing_is_predicted_and_measured_on_each_link() {
    let directory = tempfile::tempdir().expect("a directory");
    let picture = directory.path().join("model.svg").display().to_string();
    for case in ["memif, 512 B", "veth, 4 KiB, one at a time", "disk, 4 KiB, with 5 µs"] {
        let words = ["bench", "model", "--json", "--svg", &picture, "--filter", case];
        let text = Program::new(qanat()).arguments(words).arguments(SHORT).succeeds().text();
        let table: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let value = |row: &Value, column: &str| {
            let columns = table["columns"].as_array().expect("columns");
            let number = columns.iter().position(|known| known["name"] == column).expect("a column");
            row["values"][number]["median"].as_f64()
        };
        let rows = table["rows"].as_array().expect("rows");
        assert_eq!((rows[0]["peer"].as_str(), rows[1]["peer"].as_str()), (Some("user level"), Some("with crossing")));
        assert!(rows.iter().all(|row| value(row, "predicted_per_s").is_some_and(|rate| rate > 0.0)), "{text}");
        for row in &rows[..2] {
            assert!(value(row, "records_per_s") > Some(0.0) && value(row, "error_percent").is_some(), "{row}");
            // By the service's own count: what crosses is events received and commands given.
            assert!(value(row, "calls") >= Some(1.0), "{row}");
        }
        assert!(value(&rows[1], "predicted_degradation_percent") >= Some(0.0), "{text}");
        assert!(std::fs::read_to_string(&picture).is_ok_and(|svg| svg.contains("predicted")), "{case}");
    }
}

#[test]
fn servers_of_https_are_compared() {
    scenario(|| {
        for case in ["handshake", "HTTP/2"] {
            let peers = peers_of(&["https", "--filter", case]);
            assert_eq!(peers, ["nginx", "qanat web --https", "qanat web --https --spin never"], "{case}");
        }
    });
}

#[test]
fn servers_of_films_are_compared() {
    scenario(|| {
        let peers = peers_of(&["video", "--filter", "encrypted, 8"]);
        assert_eq!(peers, ["nginx", "nginx, from the page cache", "qanat video", "qanat video --spin never"]);
    });
}

#[test]
fn caches_of_what_was_read_are_compared() {
    scenario(|| {
        let peers = peers_of(&["read-cache", "--filter", "reader of everything"]);
        let own = ["qanat web, page cache", "qanat web, none", "qanat web, own, lru", "qanat web, own, s3-fifo"];
        assert_eq!(peers, [own.as_slice(), &["nginx, page cache"]].concat());
    });
}

#[test]
fn stores_are_compared_by_both_kinds_of_clients() {
    for case in
        ["durable SET, one connection", "half GET, 50 connections, pipeline", "GET, 50 connections, kernel client"]
    {
        let how = if case.starts_with("durable") { DURABLE } else { SHORT };
        let peers = peers_by(&["kv", "--filter", case], how);
        let ours: Vec<&String> =
            peers.iter().filter(|peer| *peer != "Valkey" && *peer != "RocksDB, in process").collect();
        assert!(ours.chunks(2).all(|pair| pair == ["Redis", "qanat kv"]) && !ours.is_empty(), "{case}: {peers:?}");
    }
    let peers = peers_of(&["kv", "--memory", "--filter", "strings"]);
    assert!(
        peers.first().is_some_and(|peer| peer == "Redis") && peers.last().is_some_and(|peer| peer == "qanat kv"),
        "{peers:?}"
    );
}

#[test]
fn disks_are_compared_and_tenants_are_beside_each_other() {
    let peers = peers_of(&["disk", "--filter", "reads, 4 KiB, depth 32"]);
    assert_eq!(peers, ["fio io_uring", "fio libaio", "qanat", "qanat, disk core"]);
    assert_eq!(peers_of(&["disk", "--tenants"]), ["one after the other", "both at once"]);
}

#[test]
fn a_device_of_ones_own_and_a_daemons_card_are_compared() {
    let peers = peers_of(&["gate", "--filter", "1 KiB, keep-alive"]);
    let peers: HashSet<&str> = peers.iter().map(String::as_str).collect();
    assert_eq!(peers, HashSet::from(["direct", "daemon's card"]));
}

#[test]
fn a_programs_request_has_a_profile() {
    let words = ["bench", "run", "--profile", "--json", "--filter", "redis, half GET, 1 KiB"];
    if !std::path::Path::new("/usr/bin/perf").exists() {
        let outcome = Program::new(qanat()).arguments(words).arguments(SHORT).run();
        assert!(outcome.code != Some(0) && outcome.stderr.contains("apt-get install linux-perf"), "{outcome:?}");
        return eprintln!("SKIPPED: there is no perf here");
    }
    scenario(|| {
        let words = words.into_iter().chain(["--quick", "--repetitions", "1"]);
        let text = Program::new(qanat()).arguments(words).succeeds().text();
        let table: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let of = |peer: &str, column: &str| {
            let index = table["columns"].as_array().and_then(|all| all.iter().position(|it| it["name"] == column));
            let mut rows = table["rows"].as_array().expect("rows").iter();
            let row = rows.find(|row| row["case"] == "redis, half GET, 1 KiB" && row["peer"] == peer);
            row.and_then(|row| row["values"][index.expect("a column")]["median"].as_f64()).expect("a value")
        };
        // The stack is the kernel's, whose receive work the load's processor does; or it is the library's.
        assert!(of("kernel", "receive") > 0.0 && of("kernel", "libqanat") == 0.0, "{table}");
        for part in ["libqanat", "program", "link_out", "load_receive", "sum_us"] {
            assert!(of("qanat run", part) > 0.0, "{part}: {table}");
        }
    });
}

#[test]
fn placements_are_compared_and_modelled() {
    let table = |words: &[&str]| -> Value {
        let text = Program::new(qanat()).arguments(words).arguments(SHORT).succeeds().text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    // Linked and split, with copies and without, over small and large packets, Linux; the same over veth, Linux without
    // offloads, too; under load; what there is at least; a net core that dies.
    let cases = [
        ("ping-pong, 64 B", 9),
        ("over veth, 64 B", 12),
        ("64 connections, 64 B", 2),
        ("64 connections, web", 2),
        ("of a bare program", 4),
        ("killed", 2),
    ];
    for (filter, peers_expected) in cases {
        let split = table(&["bench", "split", "--json", "--filter", filter]);
        let rows = split["rows"].as_array().expect("rows");
        let peers: HashSet<&str> = rows.iter().filter_map(|row| row["peer"].as_str()).collect();
        assert_eq!((peers.len(), rows.len()), (peers_expected, peers_expected), "{split}");
        for row in rows {
            let column = match row["case"].as_str().unwrap_or_default() {
                case if case.starts_with("ping-pong") => 0,
                "a net core is killed" => 9,
                _ => 4,
            };
            let value = &row["values"][column]["median"];
            assert!(value.as_f64().is_some_and(|value| value > 0.0), "{row}");
        }
    }
    let ratio = table(&["bench", "ratio", "--json", "--filter", "64 B"]);
    assert_eq!(ratio["rows"].as_array().map(Vec::len), Some(6), "{ratio}");
}

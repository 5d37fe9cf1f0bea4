//! Zones between servers: a Knot secondary of ours, we of Knot and of NSD, with TSIG, before and after a change told of by
//! NOTIFY; every name asked for at both ends.
#![forbid(unsafe_code)]

use qanat_dns::name::Name;
use qanat_dns::transfer::walk::{self, WholeRecord};
use qanat_tests::e2e::{
    NOBODY, Program, Running, directory_for_anybody, eventually, qanat, qanat_for_anybody, scenario,
};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, SystemTime};

const OURS: &str = "10.77.0.2:53";
const KNOT: &str = "10.77.0.1:5302";
const NSD: &str = "10.77.0.1:5301";
const PATIENCE: Duration = Duration::from_secs(20);
const NAMES: usize = 300;
const KEY: &str = "transfer.test";
const SECRET: &str = "cXVpdGUgYSBsb25nIHNlY3JldCBmb3IgYSB0ZXN0";
const TYPES: [u16; 6] = [1, 2, 6, 15, 16, 28];

/// A zone whose timers never expire in a test: only NOTIFY can bring a change. Each version lacks one name of the one
/// before, has a new one, and another address of a third.
fn zone(serial: usize) -> String {
    let mut text =
        format!("$TTL 60\n@ SOA ns host {serial} 36000 9000 1209600 30\n@ NS ns\n@ MX 10 mail\nns A 10.77.0.2\n");
    for number in serial..NAMES + serial {
        let address = if number == 100 { serial } else { number };
        let _ = writeln!(text, "n{number} A 192.0.{}.{}", address >> 8, address & 255);
    }
    // More than a message of 16 KiB in all.
    for number in 0..NAMES {
        let _ = writeln!(text, "t{number} TXT \"{}\"", "x".repeat(90));
    }
    text
}

fn names(apex: &str, serial: usize) -> Vec<Name> {
    let there = (0..=NAMES + serial).map(|number| format!("n{number}.{apex}"));
    let texts = (0..NAMES).step_by(50).map(|number| format!("t{number}.{apex}"));
    let all = there.chain(texts).chain([apex.to_owned(), format!("ns.{apex}"), format!("nothing.{apex}")]);
    all.map(|name| Name::absolute(&name).expect("a name")).collect()
}

/// Response code and answers, in an order of their own; `None`: no answer.
fn ask(server: &str, name: &Name, qtype: u16) -> Option<(u8, Vec<WholeRecord>)> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect(server).ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(1_000))).ok()?;
    let mut message = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name.wire());
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    socket.send(&message).ok()?;
    let mut bytes = [0; 4_096];
    let length = socket.recv(&mut bytes).ok()?;
    let mut records = walk::answers(&bytes[..length]).ok()?;
    records.sort();
    Some((bytes[3] & 0xf, records))
}

fn serial(server: &str, apex: &str) -> Option<u32> {
    let (code, records) = ask(server, &Name::absolute(apex).expect("a name"), 6)?;
    let data = &records.first().filter(|_| code == 0)?.data;
    Some(u32::from_be_bytes(*data.get(data.len().checked_sub(20)?..)?.first_chunk()?))
}

fn has_serial(what: &str, server: &str, apex: &str, wanted: u32) {
    eventually(&format!("{what} has serial {wanted} of {apex}"), PATIENCE, || serial(server, apex) == Some(wanted));
}

/// Every name and type has the same answer at both servers.
fn same(one: &str, other: &str, apex: &str, serial: usize) {
    for name in names(apex, serial) {
        for qtype in TYPES {
            let (left, right) = (ask(one, &name, qtype), ask(other, &name, qtype));
            assert!(left.is_some() && left == right, "{name} {qtype}: {one} {left:?}, {other} {right:?}");
        }
    }
}

fn signal(process: &Running, signal: Signal) {
    let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, signal).expect("a signal");
}

fn start_ours(directory: &Path, config: &str) -> Running {
    let key = format!("[[key]]\nname = \"{KEY}\"\nsecret = \"{SECRET}\"\n");
    fs::write(directory.join("dns.toml"), format!("{key}{config}")).expect("a file");
    Program::new(qanat()).arguments(["dns", "--json", "--config"]).arguments([directory.join("dns.toml")]).start()
}

/// Ends it and gives its figures of transfers, and all it said.
fn stop_ours(running: Running) -> (Value, String) {
    let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
    kill_process_group(group, Signal::INT).expect("Ctrl-C");
    let outcome = running.wait(PATIENCE);
    let text = format!("{}{}", outcome.text(), outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{text}");
    let last = outcome.text().lines().last().map(str::to_owned).unwrap_or_default();
    let value: Value = serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error}: {text}"));
    (value["transfers"].clone(), text)
}

fn start_knot(directory: &Path, zones: &str) -> Running {
    let at = directory.display();
    let config = format!(
        "server:\n  rundir: {at}\n  listen: 0.0.0.0@5302\n  automatic-acl: off\nlog:\n  - target: stderr\n    any: info\n\
         database:\n  storage: {at}/knot\nkey:\n  - id: {KEY}\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         remote:\n  - id: qanat\n    address: 10.77.0.2@53\n    key: {KEY}\n\
         acl:\n  - id: all\n    address: 10.77.0.2\n    key: {KEY}\n    action: [transfer, notify]\n{zones}"
    );
    fs::create_dir(directory.join("knot")).expect("a directory for its journal");
    fs::write(directory.join("knot.conf"), config).expect("a file");
    Program::new("knotd").arguments(["-c"]).arguments([directory.join("knot.conf")]).start()
}

fn start_nsd(directory: &Path, zones: &str) -> Running {
    let at = directory.display();
    let config = format!(
        "server:\n ip-address: 0.0.0.0@5301\n username: \"\"\n chroot: \"\"\n zonesdir: {at}\n pidfile: {at}/nsd.pid\n \
         xfrdfile: {at}/xfrd\n zonelistfile: {at}/zonelist\n xfrdir: {at}\n server-count: 1\n database: \"\"\n \
         rrl-ratelimit: 0\n minimal-responses: yes\nremote-control:\n control-enable: no\n\
         key:\n name: {KEY}\n algorithm: hmac-sha256\n secret: \"{SECRET}\"\n{zones}"
    );
    fs::write(directory.join("nsd.conf"), config).expect("a file");
    Program::new("nsd").arguments(["-d", "-c"]).arguments([directory.join("nsd.conf")]).start()
}

#[test]
fn a_knot_secondary_follows_us() {
    scenario(|| {
        let directory = directory_for_anybody();
        let write = |version: usize| fs::write(directory.path().join("zone"), zone(version)).expect("a file");
        write(1);
        let config = format!(
            "[[zone]]\nname = \"ours.test\"\nfile = \"zone\"\nallow_transfer = [\"10.77.0.0/24 key:{KEY}\"]\n\
             also_notify = [\"{KNOT} key:{KEY}\"]\n"
        );
        let ours = start_ours(directory.path(), &config);
        has_serial("our own", OURS, "ours.test", 1);
        let zones = "zone:\n  - domain: ours.test\n    master: qanat\n    acl: all\n    zonefile-sync: -1\n";
        let _knot = start_knot(directory.path(), zones);
        has_serial("Knot", KNOT, "ours.test", 1);
        same(OURS, KNOT, "ours.test", 1);
        for version in [2, 3] {
            write(version);
            signal(&ours, Signal::HUP);
            has_serial("Knot, told by NOTIFY,", KNOT, "ours.test", version as u32);
            same(OURS, KNOT, "ours.test", version);
        }
        who_may_not();
        let (figures, text) = stop_ours(ours);
        assert!(figures["whole_out"].as_u64() >= Some(1) && figures["steps_out"].as_u64() >= Some(2), "{text}");
        assert!(figures["refused"].as_u64() >= Some(1) && figures["bad_signatures"].as_u64() == Some(1), "{text}");
        assert!(!text.contains("does not answer NOTIFY of serial 3"), "{text}");
    });
}

/// Transfers as `kdig` asks for them: with the key, without, with another secret.
fn who_may_not() {
    let kdig = |words: &[&str]| {
        let outcome = Program::new("kdig").arguments(["@10.77.0.2", "+timeout=3"]).arguments(words).run();
        format!("{}{}", outcome.text(), outcome.stderr)
    };
    let key = format!("hmac-sha256:{KEY}:{SECRET}");
    let good = kdig(&["-y", &key, "ours.test", "AXFR"]);
    assert!(good.contains("n100.ours.test.") && good.matches("SOA").count() >= 2, "{good}");
    let steps = kdig(&["-y", &key, "ours.test", "IXFR=2"]);
    assert!(steps.matches("SOA").count() >= 4 && !steps.contains("t1.ours.test."), "{steps}");
    let signed = kdig(&["-y", &key, "n100.ours.test", "A"]);
    assert!(signed.contains("192.0.0.3") && signed.contains("TSIG"), "{signed}");
    let unsigned = kdig(&["ours.test", "AXFR"]);
    assert!(unsigned.contains("REFUSED"), "{unsigned}");
    let other = kdig(&["-y", &format!("hmac-sha256:{KEY}:AAAA"), "ours.test", "AXFR"]);
    assert!(other.contains("BADSIG") || other.contains("NOTAUTH"), "{other}");
}

#[test]
fn we_follow_knot_and_nsd() {
    scenario(|| {
        let directory = directory_for_anybody();
        let write = |version: usize| {
            for name in ["knot.zone", "nsd.zone"] {
                fs::write(directory.path().join(name), zone(version)).expect("a file");
            }
        };
        write(1);
        let at = directory.path().display();
        let config = format!(
            "[[zone]]\nname = \"knot.test\"\nprimary = [\"{KNOT} key:{KEY}\"]\n\
             [[zone]]\nname = \"nsd.test\"\nprimary = [\"10.77.0.1:9 key:{KEY}\", \"{NSD} key:{KEY}\"]\n"
        );
        let zones = format!(
            "zone:\n  - domain: knot.test\n    file: {at}/knot.zone\n    notify: qanat\n    acl: all\n    \
             zonefile-sync: -1\n    zonefile-load: difference\n    journal-content: changes\n"
        );
        let knot = start_knot(directory.path(), &zones);
        let zones = format!(
            "zone:\n name: nsd.test\n zonefile: nsd.zone\n provide-xfr: 10.77.0.0/24 {KEY}\n notify: 10.77.0.2 {KEY}\n"
        );
        let nsd = start_nsd(directory.path(), &zones);
        let ours = start_ours(directory.path(), &config);
        for (what, server, apex) in [("Knot", KNOT, "knot.test"), ("NSD", NSD, "nsd.test")] {
            has_serial(what, server, apex, 1);
            has_serial("our copy", OURS, apex, 1);
            same(server, OURS, apex, 1);
        }
        for version in [2, 3] {
            write(version);
            signal(&knot, Signal::HUP);
            signal(&nsd, Signal::HUP);
            for (what, server, apex) in [("Knot", KNOT, "knot.test"), ("NSD", NSD, "nsd.test")] {
                has_serial(what, server, apex, version as u32);
                has_serial("our copy, told by NOTIFY,", OURS, apex, version as u32);
                same(server, OURS, apex, version);
            }
        }
        let (figures, text) = stop_ours(ours);
        assert!(figures["received"].as_u64() >= Some(6) && figures["notified"].as_u64() >= Some(4), "{text}");
        assert_eq!(figures["unusable"], 0, "{text}");
    });
}

/// A user without a capability, whose rule names the ports of the service and no others, is a secondary all the same.
#[test]
fn an_ordinary_user_follows_behind_the_daemon() {
    const POLICY: &str = "group = \"nogroup\"\n[[rule]]\nname = \"dns\"\nusers = [\"nobody\"]\naddresses = [\"10.77.0.2\"]\n\
                          services = [\"udp/53\", \"tcp/53\", \"tcp/61000-61255\"]\n";
    scenario(|| {
        let directory = directory_for_anybody();
        let path = directory.path();
        let command = qanat_for_anybody(path);
        let (policy, socket) = (path.join("policy.toml"), path.join("control.sock"));
        fs::write(&policy, POLICY).expect("a file");
        let daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]);
        let daemon = daemon.arguments(["--config"]).arguments([&policy]).start();
        eventually("the daemon listens", PATIENCE, || socket.exists());
        fs::write(path.join("knot.zone"), zone(1)).expect("a file");
        let at = path.display();
        let zones = format!(
            "zone:\n  - domain: knot.test\n    file: {at}/knot.zone\n    notify: qanat\n    acl: all\n    \
             zonefile-sync: -1\n    zonefile-load: difference\n    journal-content: changes\n"
        );
        let knot = start_knot(path, &zones);
        let key = format!("[[key]]\nname = \"{KEY}\"\nsecret = \"{SECRET}\"\n");
        let config = format!("{key}[[zone]]\nname = \"knot.test\"\nprimary = [\"{KNOT} key:{KEY}\"]\n");
        fs::write(path.join("dns.toml"), config).expect("a file");
        let ours = Program::new("setpriv")
            .arguments(NOBODY)
            .arguments([&command])
            .arguments(["dns", "--json", "--config"])
            .arguments([path.join("dns.toml")])
            .environment("QANAT_SOCKET", &socket)
            .start();
        has_serial("our copy", OURS, "knot.test", 1);
        fs::write(path.join("knot.zone"), zone(2)).expect("a file");
        signal(&knot, Signal::HUP);
        has_serial("our copy, told by NOTIFY,", OURS, "knot.test", 2);
        same(KNOT, OURS, "knot.test", 2);
        let (figures, text) = stop_ours(ours);
        assert!(figures["received"].as_u64() >= Some(2), "{text}");
        signal(&daemon, Signal::TERM);
        assert_eq!(daemon.wait(PATIENCE).code, Some(0));
    });
}

/// A zone that never came, came, was kept over a restart while its primary was away, and expired.
#[test]
fn a_copy_is_kept_and_expires() {
    const EXPIRE_S: u64 = 3_600;
    scenario(|| {
        let directory = directory_for_anybody();
        let at = directory.path().display();
        let text = zone(1).replace("36000 9000 1209600", &format!("1 1 {EXPIRE_S}"));
        fs::write(directory.path().join("knot.zone"), text).expect("a file");
        let config = format!("[[zone]]\nname = \"knot.test\"\nprimary = [\"{KNOT} key:{KEY}\"]\nfile = \"copy\"\n");
        let apex = Name::absolute("knot.test").expect("a name");
        let fails = |what: &str| {
            eventually(what, PATIENCE, || ask(OURS, &apex, 6).is_some_and(|(code, _)| code == 2));
        };
        let ours = start_ours(directory.path(), &config);
        fails("SERVFAIL for a zone that never came");
        let zones = format!(
            "zone:\n  - domain: knot.test\n    file: {at}/knot.zone\n    acl: all\n    zonefile-sync: -1\n    \
             journal-content: none\n"
        );
        let knot = start_knot(directory.path(), &zones);
        has_serial("our copy", OURS, "knot.test", 1);
        same(KNOT, OURS, "knot.test", 1);
        stop_ours(ours);
        drop(knot);

        let ours = start_ours(directory.path(), &config);
        has_serial("what was kept", OURS, "knot.test", 1);
        stop_ours(ours);

        let put_back = |seconds| {
            let file = fs::File::options().append(true).open(directory.path().join("copy")).expect("the copy");
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("a time");
        };
        put_back(EXPIRE_S - 4);
        let ours = start_ours(directory.path(), &config);
        eventually("an answer", PATIENCE, || ask(OURS, &apex, 6).is_some());
        let was_served = serial(OURS, "knot.test").is_some();
        fails("SERVFAIL for an expired zone");
        let (_, text) = stop_ours(ours);
        assert!(!was_served || text.contains("expired: no primary answered"), "{text}");

        put_back(EXPIRE_S);
        let ours = start_ours(directory.path(), &config);
        fails("SERVFAIL for a copy that expired while nobody ran");
        stop_ours(ours);
    });
}

/// A catalog zone (RFC 9432) that Knot makes of its zones: what it lists is served here, what it no longer lists is gone, and what a
/// catalog says of a zone of our own is left alone.
#[test]
fn we_follow_a_catalog_of_knots() {
    scenario(|| {
        let directory = directory_for_anybody();
        let path = directory.path();
        let at = path.display();
        let member = |name: &str| {
            format!(
                "  - domain: {name}\n    file: {at}/knot.zone\n    acl: all\n    zonefile-sync: -1\n    journal-content: none\n"
            )
        };
        fs::write(path.join("knot.zone"), zone(1)).expect("a file");
        fs::write(path.join("own"), zone(9)).expect("a file");
        let catalog = |serial: u32, members: &[&str]| {
            let list: String =
                members.iter().enumerate().map(|(id, name)| format!("m{id}.zones PTR {name}.\n")).collect();
            let text =
                format!("$TTL 0\n@ SOA . . {serial} 36000 9000 1209600 0\n@ NS invalid.\nversion TXT \"2\"\n{list}");
            fs::write(path.join("catz.zone"), text).expect("a file");
        };
        catalog(1, &["one.test", "own.test"]);
        let zones = format!(
            "zone:\n  - domain: catz.test\n    file: {at}/catz.zone\n    notify: qanat\n    acl: all\n    zonefile-sync: -1\n    \
             zonefile-load: difference\n    journal-content: changes\n{}{}",
            member("one.test"),
            member("two.test")
        );
        let knot = start_knot(path, &zones);
        let config = format!(
            "[[template]]\nname = \"members\"\nprimary = [\"{KNOT} key:{KEY}\"]\nfile = \"copy-%s\"\n\
             [[zone]]\nname = \"catz.test\"\nprimary = [\"{KNOT} key:{KEY}\"]\ncatalog = [\"members\"]\n\
             [[zone]]\nname = \"own.test\"\nfile = \"own\"\n"
        );
        let ours = start_ours(path, &config);
        has_serial("a member", OURS, "one.test", 1);
        same(KNOT, OURS, "one.test", 1);
        has_serial("our own", OURS, "own.test", 9);
        assert!(path.join("copy-one.test").exists());
        catalog(2, &["two.test"]);
        signal(&knot, Signal::HUP);
        has_serial("the new member", OURS, "two.test", 1);
        let apex = Name::absolute("one.test").expect("a name");
        eventually("REFUSED for one that is gone", PATIENCE, || ask(OURS, &apex, 6).is_some_and(|(code, _)| code == 5));
        eventually("no copy of it", PATIENCE, || !path.join("copy-one.test").exists());
        // A catalog that is broken changes nothing.
        fs::write(path.join("catz.zone"), "$TTL 0\n@ SOA . . 3 36000 9000 1209600 0\n@ NS invalid.\n").expect("a file");
        signal(&knot, Signal::HUP);
        has_serial("the catalog", OURS, "catz.test", 3);
        has_serial("the member", OURS, "two.test", 1);
        let (figures, text) = stop_ours(ours);
        assert!(figures["received"].as_u64() >= Some(4), "{text}");
        for part in ["one.test.: removed, with serial 1", "left as it is", "its members stay as they were"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}

/// Zones from elsewhere are added, asked for and removed while the server runs.
#[test]
fn secondaries_come_and_go() {
    scenario(|| {
        let directory = directory_for_anybody();
        let path = directory.path();
        let at = path.display();
        fs::write(path.join("knot.zone"), zone(1)).expect("a file");
        // Knot tells nobody.
        let one = |name: &str| {
            format!(
                "  - domain: {name}\n    file: {at}/knot.zone\n    acl: all\n    zonefile-sync: -1\n    journal-content: none\n"
            )
        };
        let knot = start_knot(path, &format!("zone:\n{}{}", one("one.test"), one("two.test")));
        let secondary = |name: &str| format!("[[zone]]\nname = \"{name}\"\nprimary = [\"{KNOT} key:{KEY}\"]\n");
        let head = "control = \"control.sock\"\nmetrics = \"127.0.0.1:9153\"\n";
        let write = |zones: &str| {
            let key = format!("[[key]]\nname = \"{KEY}\"\nsecret = \"{SECRET}\"\n");
            fs::write(path.join("dns.toml"), format!("{head}{key}{zones}")).expect("a file");
        };
        write(&secondary("one.test"));
        let ours =
            Program::new(qanat()).arguments(["dns", "--json", "--config"]).arguments([path.join("dns.toml")]).start();
        has_serial("the first", OURS, "one.test", 1);
        let order = |words: &[&str]| {
            let outcome = Program::new(qanat()).arguments(["dns"]).arguments(words);
            let outcome = outcome.arguments(["--control"]).arguments([path.join("control.sock")]).run();
            assert_eq!(outcome.code, Some(0), "{words:?}: {}{}", outcome.text(), outcome.stderr);
            outcome.text()
        };
        let text = order(&["status"]);
        assert!(text.contains("one.test. serving, serial 1") && text.contains(", expires in 1"), "{text}");
        write(&(secondary("one.test") + &secondary("two.test")));
        assert!(order(&["reload"]).contains("two.test.: new, from its primary"));
        has_serial("the second", OURS, "two.test", 1);
        fs::write(path.join("knot.zone"), zone(2)).expect("a file");
        signal(&knot, Signal::HUP);
        has_serial("Knot", KNOT, "two.test", 2);
        order(&["refresh", "two.test"]);
        has_serial("the second, asked for", OURS, "two.test", 2);
        write(&secondary("two.test"));
        assert!(order(&["reload"]).contains("one.test.: removed, with serial 1"));
        let apex = Name::absolute("one.test").expect("a name");
        eventually("REFUSED for what is gone", PATIENCE, || ask(OURS, &apex, 6).is_some_and(|(code, _)| code == 5));
        assert!(!order(&["status"]).contains("one.test."));
        drop(knot);
        order(&["refresh", "two.test"]);
        eventually("the failure is shown", PATIENCE, || {
            order(&["status", "two.test"]).contains("failed in a row, the last: ")
        });
        let (figures, text) = stop_ours(ours);
        assert!(figures["failed"].as_u64() >= Some(1) && figures["received"].as_u64() >= Some(3), "{text}");
        assert!(text.contains("two.test.: serial 2 transferred from "), "{text}");
    });
}

//! Net cores that the daemon starts: services find them by asking it, and find the next one when theirs dies.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{
    House, Outcome, PATIENCE, Program, Running, connect, echoes, eventually, has_ended, net_core_at, process, qanat,
    scenario, scenario_on,
};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(20);

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
            assert!(killed.elapsed() < PATIENCE, "web serves again");
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

/// As by systemd, or by the arrow key in a shell: its old card is still with the net core, which is about to notice.
#[test]
fn a_service_that_is_started_again_at_once_has_its_address() {
    scenario(|| {
        let house = House::new("0");
        for number in 0..6 {
            let mut echo = house.start(&["echo", "--placement", "split"]);
            eventually("echo answers, or has given up", GRACE, || {
                connect("10.77.0.2:7").is_some_and(|mut stream| echoes(&mut stream, 100)) || !echo.is_running()
            });
            assert!(echo.is_running(), "start {number}: {:?}", echo.wait(GRACE));
        }
        // Who has it still is asked to choose another, and soon.
        let _echo = house.start(&["echo", "--placement", "split"]);
        eventually("echo answers", GRACE, || connect("10.77.0.2:7").is_some());
        let second = house.start(&["web", house.root(), "--placement", "split"]).wait(GRACE);
        assert!(second.stderr.contains("address 10.77.0.2 is taken: choose another"), "{second:?}");
    });
}

#[test]
fn a_service_on_two_net_cores_goes_on_with_one_while_the_other_is_started_again() {
    scenario_on(2, || {
        let house = House::new("0-1");
        let two = ["echo", "--net-cores", "2", "--also", "10.77.0.3/24"];
        let echo = house.start(&two);
        let (mut here, mut there) = (None, None);
        eventually("echo answers at both", GRACE, || {
            here = here.take().or_else(|| connect("10.77.0.2:7"));
            there = there.take().or_else(|| connect("10.77.0.3:7"));
            here.is_some() && there.is_some()
        });
        let (mut here, mut there) = (here.expect("a stream"), there.expect("a stream"));
        assert!(echoes(&mut here, 100_000) && echoes(&mut there, 100_000));
        let status = house.status();
        let (first, second) = (net_core_at(&status, "10.77.0.2"), net_core_at(&status, "10.77.0.3"));
        assert!(first != second && first * second != 0, "{status}");
        // No more than there are, and an address for each.
        for (arguments, why) in [
            (
                vec!["--net-cores", "3", "--address=10.77.0.4/24", "--also=10.77.0.5/24", "--also=10.77.0.6/24"],
                "each of the 2",
            ),
            (vec!["--net-cores", "3", "--address=10.77.0.4/24", "--also=10.77.0.5/24"], "an address each"),
            (vec!["--net-cores", "2", "--interface", "lo", "--address=10.77.0.4/24"], "leave out --interface"),
        ] {
            let refused = house.start(&[vec!["echo"], arguments].concat()).wait(GRACE);
            assert!(refused.code == Some(1) && refused.stderr.contains(why), "{}", refused.stderr);
        }

        kill_process(process(second), Signal::KILL).expect("a net core to kill");
        assert!(echoes(&mut here, 300_000), "the other net core's connection goes on");
        assert!(has_ended(&mut there) || !echoes(&mut there, 10), "its own do not");
        eventually("it answers there again", GRACE, || {
            connect("10.77.0.3:7").is_some_and(|mut stream| echoes(&mut stream, 100_000))
        });
        assert!(echoes(&mut here, 100_000));
        let status = house.status();
        assert_eq!(net_core_at(&status, "10.77.0.2"), first);
        assert!(net_core_at(&status, "10.77.0.3") != second, "{status}");
        drop(echo);
        house.end_without_cards();
    });
}

#[test]
fn a_service_starts_several_net_cores_of_its_own_where_there_is_no_daemon() {
    scenario(|| {
        for more in [&[][..], &["--app-cores", "2"]] {
            let words = [&["echo", "--direct", "--net-cores", "2", "--also", "10.78.0.2/24"], more].concat();
            let echo = Program::new(qanat()).arguments(words).start();
            for address in ["10.77.0.2:7", "10.78.0.2:7"] {
                eventually("echo answers", GRACE, || {
                    connect(address).is_some_and(|mut stream| echoes(&mut stream, 100_000))
                });
            }
            kill_process(process(echo.id().into()), Signal::INT).expect("Ctrl-C");
            let outcome = echo.wait(GRACE);
            assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        }
    });
}

#[test]
fn net_cores_are_added_and_removed_under_load_and_no_connection_notices() {
    scenario_on(2, || {
        let house = House::new("0");
        let net_core = |words: &[&str]| house.net_core(words);
        // Not by anybody, not the last, not where there is none, and not twice.
        let refused = house.start(&["net-core", "add", "1"]).wait(GRACE);
        assert!(refused.code == Some(1) && refused.stderr.contains("only root"), "{}", refused.stderr);
        for (words, why) in [
            (["remove", "0"], "the last one"),
            (["remove", "1"], "has no net core"),
            (["add", "0"], "already"),
            (["add", "999"], "there is no processor 999"),
        ] {
            let refused = net_core(&words);
            assert!(refused.code == Some(1) && refused.stderr.contains(why), "{}", refused.stderr);
        }
        let first = house.start(&["echo", "--placement", "split"]);
        eventually("the first answers", GRACE, || connect("10.77.0.2:7").is_some());
        assert_eq!(net_core(&["add", "1"]).code, Some(0));
        let second = house.start(&["echo", "--placement", "split", "--address", "10.77.0.3/24"]);
        eventually("the second answers", GRACE, || connect("10.77.0.3:7").is_some());
        let status = house.status();
        let (stays, goes) = (net_core_at(&status, "10.77.0.2"), net_core_at(&status, "10.77.0.3"));
        assert!(stays != goes, "who comes has the one with fewer cards: {status}");
        let third = house.start(&["echo", "--placement", "split", "--address", "10.77.0.4/24"]);
        eventually("the third answers", GRACE, || connect("10.77.0.4:7").is_some());
        assert_eq!(net_core_at(&house.status(), "10.77.0.4"), stays);
        let has_ended = |core: u64| !Path::new(&format!("/proc/{core}/status")).exists();

        // Every byte of every stream is checked while its card goes and comes.
        let is_over = Arc::new(AtomicBool::new(false));
        let streams: Vec<_> = ["10.77.0.2:7", "10.77.0.3:7", "10.77.0.3:7", "10.77.0.3:7"]
            .into_iter()
            .map(|address| {
                let (mut stream, is_over) = (connect(address).expect("a stream"), Arc::clone(&is_over));
                std::thread::spawn(move || {
                    let mut rounds = 0u64;
                    while !is_over.load(Ordering::Relaxed) && echoes(&mut stream, 50_000) {
                        rounds += 1;
                    }
                    (echoes(&mut stream, 1_000), rounds)
                })
            })
            .collect();
        let mut last = goes;
        for round in 0..3 {
            // Its card goes on in the other's process, and its own ends.
            assert_eq!(net_core(&["remove", "1"]).code, Some(0), "round {round}");
            eventually("its process has ended", GRACE, || has_ended(last));
            assert_eq!(net_core_at(&house.status(), "10.77.0.3"), stays);
            // Cards come to the new one until the other has one more at most: the one that came last.
            assert_eq!(net_core(&["add", "1"]).code, Some(0), "round {round}");
            eventually("cards have come", GRACE, || {
                let status = house.status();
                let own = status["net_cores_started"].as_array().cloned().unwrap_or_default();
                last = own.iter().find(|core| core["processor"] == 1).and_then(|c| c["process"].as_u64()).unwrap_or(0);
                last != 0 && net_core_at(&status, "10.77.0.3") == last
            });
        }
        // The first has moved from nowhere so far. Now it has to.
        assert_eq!(net_core(&["remove", "0"]).code, Some(0));
        eventually("its process has ended", GRACE, || has_ended(stays));
        let status = house.status();
        assert!(
            ["10.77.0.2", "10.77.0.3", "10.77.0.4"].iter().all(|own| net_core_at(&status, own) == last),
            "{status}"
        );
        assert!(house.text().contains(" cards, "), "{}", house.text());
        assert_eq!(net_core(&["add", "0"]).code, Some(0));
        eventually("one has come", GRACE, || house.text().contains("1 cards, 1 came from others"));
        is_over.store(true, Ordering::Relaxed);
        for stream in streams {
            let (is_alive, rounds) = stream.join().expect("a stream");
            assert!(is_alive && rounds > 0, "every byte came back, over {rounds} rounds");
        }
        let status = house.status();
        let restarts = status["net_cores_started"].to_string().matches("\"restarts\":0").count();
        assert!(restarts == 2 && status["vnics"].as_array().is_some_and(|all| all.len() == 3), "{status}");
        drop((first, second, third));
        house.end_without_cards();
    });
}

/// Of a card that moves, either net core is killed somewhere on the way: it is here, or there, or made anew; never twice.
#[test]
fn a_net_core_killed_while_cards_move_loses_what_it_has_and_no_more() {
    scenario_on(2, || {
        let house = House::new("0");
        let net_core = |words: &[&str]| house.net_core(words);
        let echoes_at = |address: &str| {
            let mut stream = None;
            eventually("it answers", GRACE, || {
                stream = connect(address);
                stream.as_mut().is_some_and(|stream| echoes(stream, 1_000))
            });
            stream.expect("a stream")
        };
        let services = ["10.77.0.2", "10.77.0.3"].map(|address| {
            let service = house.start(&["echo", "--placement", "split", "--address", &format!("{address}/24")]);
            drop(echoes_at(&format!("{address}:7")));
            service
        });
        for round in 0..8u64 {
            let mut streams = ["10.77.0.2:7", "10.77.0.3:7"].map(echoes_at);
            let old = net_core_at(&house.status(), "10.77.0.2");
            assert_eq!(net_core(&["add", "1"]).code, Some(0));
            let mut new = 0;
            if round % 2 == 0 {
                // The one it comes to, as soon as there is one.
                eventually("it is there", GRACE, || {
                    let all = house.status()["net_cores_started"].as_array().cloned().unwrap_or_default();
                    new = all.iter().find(|c| c["processor"] == 1).and_then(|c| c["process"].as_u64()).unwrap_or(0);
                    new != 0
                });
            }
            std::thread::sleep(Duration::from_millis(round * 3));
            let killed = if round % 2 == 0 { new } else { old };
            let _ = kill_process(process(killed), Signal::KILL);
            // Whatever has become of it: every stream goes on, byte by byte, or has ended; and both services answer.
            for stream in &mut streams {
                assert!(echoes(stream, 10_000) || has_ended(stream), "round {round}");
            }
            drop(["10.77.0.2:7", "10.77.0.3:7"].map(echoes_at));
            eventually("each card is in one place", GRACE, || {
                let all = house.status()["net_cores"].as_array().cloned().unwrap_or_default();
                let count = |address: &str| {
                    let here = |core: &&Value| core["cards"].to_string().contains(&format!("\"{address}\""));
                    all.iter().filter(here).count()
                };
                house.status()["vnics"].as_array().is_some_and(|vnics| vnics.len() == 2)
                    && count("10.77.0.2") == 1
                    && count("10.77.0.3") == 1
            });
            // The last one is not removed, and the other may be about to be started again.
            eventually("both are there", GRACE, || {
                let all = house.status()["net_cores_started"].as_array().cloned().unwrap_or_default();
                all.len() == 2 && all.iter().all(|core| core["process"].as_u64().is_some_and(|process| process > 0))
            });
            assert_eq!(net_core(&["remove", "1"]).code, Some(0), "round {round}");
            eventually("one is left", GRACE, || {
                house.status()["net_cores_started"].as_array().is_some_and(|cores| cores.len() == 1)
            });
        }
        drop(services);
        house.end_without_cards();
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
        // Nor does another user get a share of it, whatever it says; the same user does not unless both say so.
        let stranger = Program::new("setpriv")
            .arguments(["--reuid=65533", "--regid=65534", "--clear-groups"])
            .arguments([house.command().as_os_str(), "web".as_ref(), house.root().as_ref(), "--share".as_ref()])
            .environment("QANAT_SOCKET", house.socket());
        let own = house.start(&["web", house.root(), "--share"]);
        for refused in [stranger.run(), own.wait(GRACE)] {
            assert!(refused.code == Some(1) && refused.stderr.contains("is taken"), "{}", refused.stderr);
        }
        // A daemon started anew has net cores anew; the service finds them.
        let before = house.net_core_of("web")["process"].clone();
        kill_process(process(house.daemon().into()), Signal::HUP).expect("HUP");
        eventually("another net core serves", GRACE, || {
            let now = house.net_core_of("web")["process"].clone();
            !now.is_null() && now != before && fetch("10.77.0.2") == "It flows."
        });
        drop(web);
        house.end();
    });
}

/// The services on the card of a net core, as the daemon's status has them: name, process, connections.
fn services_of(core: &Value) -> Vec<(u64, u64)> {
    let card = core["cards"].as_array().and_then(|cards| cards.first()).cloned().unwrap_or_default();
    let sharing = card["sharing"].as_array().cloned().unwrap_or_default();
    let all = std::iter::once(card["service"].clone()).chain(sharing).filter(|service| !service.is_null());
    all.map(|service| (service["process"].as_u64().unwrap_or(0), service["connections"].as_u64().unwrap_or(0)))
        .collect()
}

#[test]
fn app_cores_share_a_listener_and_one_that_dies_is_started_again() {
    scenario(|| {
        let house = House::new("0");
        let echo = house.start(&["echo", "--placement", "split", "--app-cores", "2"]);
        eventually("both are there", GRACE, || services_of(&house.net_core_of("echo")).len() == 2);
        let mut streams = Vec::new();
        eventually("both have connections", GRACE, || {
            streams.extend(connect("10.77.0.2:7"));
            let all = services_of(&house.net_core_of("echo"));
            streams.len() >= 4 && all.len() == 2 && all.iter().all(|(_, connections)| *connections >= 2)
        });
        assert!(streams.iter_mut().all(|stream| echoes(stream, 10_000)));
        let (victim, its) = services_of(&house.net_core_of("echo"))[0];
        kill_process(process(victim), Signal::KILL).expect("an app core to kill");
        eventually("another is in its place", GRACE, || {
            let all = services_of(&house.net_core_of("echo"));
            all.len() == 2 && all.iter().all(|(process, _)| *process != victim)
        });
        // Its connections are reset, the other's go on.
        let ended = streams.iter_mut().filter_map(|stream| has_ended(stream).then_some(())).count() as u64;
        assert_eq!(ended, its, "its connections, and no others, are reset");
        kill_process(process(echo.id().into()), Signal::INT).expect("Ctrl-C");
        let outcome = echo.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        house.end_without_cards();
    });
}

/// A service's memory is its user's, whether it has a card of its own or shares one.
#[test]
fn a_user_over_its_limit_is_refused_a_further_service_and_not_when_one_has_gone() {
    scenario(|| {
        // A card of 1,024 + 8,192 frames, 18 MiB, its injector, 0.4 MiB, and two services of 30; not a third.
        let house = House::with_memory("0", 80);
        let share = ["echo", "--share"];
        let first = house.start(&share);
        eventually("the first is there", GRACE, || services_of(&house.net_core_of("echo")).len() == 1);
        let second = house.start(&share);
        eventually("both are there", GRACE, || services_of(&house.net_core_of("echo")).len() == 2);
        let refused = house.start(&share).wait(GRACE);
        assert!(refused.code == Some(1), "{}", refused.stderr);
        for said in ["allows 80 MiB", "raise memory_mib", "--app-cores"] {
            assert!(refused.stderr.contains(said), "{said} in {}", refused.stderr);
        }
        let limits = house.start(&["limits", "--json"]).wait(GRACE).text();
        let limits: Value = serde_json::from_str(limits.trim()).unwrap_or_default();
        let injector = qanat_nic::af_xdp::INJECTION_BYTES;
        assert_eq!(limits["memory_bytes"]["used"], injector + ((18 + 2 * 30) << 20), "{limits}");
        // Nor another user for this one's sake; and memory is given back, however a service ends.
        kill_process(process(second.id().into()), Signal::KILL).expect("a service to kill");
        let mut third = None;
        eventually("another has its place", GRACE, || {
            let is_there = third.as_mut().is_some_and(Running::is_running);
            if !is_there {
                third = Some(house.start(&share));
            }
            is_there && services_of(&house.net_core_of("echo")).len() == 2
        });
        assert!(connect("10.77.0.2:7").is_some_and(|mut stream| echoes(&mut stream, 10_000)));
        drop((first, third));
        house.end();
    });
}

/// Asks `times` on one connection, two requests at once; how many answers came whole.
fn asks(stream: &mut TcpStream, times: usize) -> usize {
    let question = b"GET /small HTTP/1.1\r\nHost: x\r\n\r\nGET /small HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut answered = 0;
    for _ in 0..times {
        let mut text = String::new();
        let mut buffer = [0; 4_096];
        if stream.write_all(question).is_err() {
            break;
        }
        while text.matches("It flows.").count() < 2 {
            match stream.read(&mut buffer) {
                Ok(count) if count > 0 => text.push_str(&String::from_utf8_lossy(&buffer[..count])),
                _ => return answered,
            }
        }
        assert_eq!(text.matches("HTTP/1.1 200").count(), 2, "{text}");
        answered += 2;
    }
    answered
}

#[test]
fn web_gives_its_connections_up_between_two_requests() {
    const CLIENTS: usize = 8;
    const TIMES: usize = 400;
    scenario(|| {
        let house = House::new("0");
        let words = ["web", house.root(), "--share", "--json"];
        let (first, second) = (house.start(&words), house.start(&words));
        eventually("both are there", GRACE, || services_of(&house.net_core_of("web")).len() == 2);
        let of = |id: u32| {
            services_of(&house.net_core_of("web")).iter().find(|(it, _)| *it == u64::from(id)).map(|(_, count)| *count)
        };
        // Who is attached does not yet listen.
        let mut streams = Vec::new();
        eventually("both have some", GRACE, || {
            streams.extend(connect("10.77.0.2:80"));
            streams.len() >= CLIENTS && of(first.id()) > Some(0) && of(second.id()) > Some(0)
        });
        let clients = streams.len();
        // One that idles moves as well.
        let mut idle = connect("10.77.0.2:80").expect("a connection");
        assert_eq!(asks(&mut idle, 1), 2);
        assert!(streams.iter_mut().all(|stream| asks(stream, 1) == 2));
        let asking: Vec<_> = streams
            .into_iter()
            .map(|mut stream| std::thread::spawn(move || (asks(&mut stream, TIMES), stream)))
            .collect();
        kill_process(process(first.id().into()), Signal::INT).expect("Ctrl-C");
        let gone = first.wait(GRACE);
        assert_eq!(gone.code, Some(0), "{}", gone.stderr);
        let streams: Vec<_> = asking.into_iter().map(|thread| thread.join().expect("a client")).collect();
        let counts: Vec<usize> = streams.iter().map(|(answered, _)| *answered).collect();
        assert_eq!(counts, vec![2 * TIMES; clients], "every request was answered");
        assert_eq!(asks(&mut idle, 1), 2);
        assert_eq!(of(second.id()), Some(clients as u64 + 1), "the other has them all");
        drop((streams, idle));
        kill_process(process(second.id().into()), Signal::INT).expect("Ctrl-C");
        let stayed = second.wait(GRACE);
        // None was lost, and none answered twice.
        let requests = |outcome: &Outcome| {
            let last = outcome.text().lines().last().map(str::to_owned).unwrap_or_default();
            serde_json::from_str::<Value>(&last).unwrap_or_default()["web"]["requests"].as_u64().unwrap_or(0)
        };
        let asked = (clients * 2 * (TIMES + 1) + 4) as u64;
        assert_eq!(requests(&gone) + requests(&stayed), asked, "{} and {}", requests(&gone), requests(&stayed));
        house.end();
    });
}

#[test]
fn app_cores_come_and_go_on_a_net_core_of_their_own_and_no_connection_notices() {
    scenario(|| {
        let start = |words: &[&str]| Program::new(qanat()).arguments(words).start();
        let net = start(&["net", "--direct", "--socket", "@qanat-net-shared", "--accept", "least-loaded"]);
        let status = || {
            let asked = Program::new(qanat()).arguments(["status", "--json", "--net", "@qanat-net-shared"]).run();
            serde_json::from_str::<Value>(asked.text().trim()).unwrap_or_default()["net_cores"][0].clone()
        };
        eventually("the net core listens", GRACE, || status().is_object());
        let share = ["echo", "--net", "@qanat-net-shared", "--share"];
        let first = start(&share);
        let mut streams = Vec::new();
        eventually("echo answers", GRACE, || {
            streams.extend(connect("10.77.0.2:7"));
            streams.len() == 4
        });
        let second = start(&share);
        // Who is attached does not yet listen: a connection that is its own shows that it does.
        eventually("the second listens", GRACE, || {
            let _probe = connect("10.77.0.2:7");
            services_of(&status()).iter().any(|(id, count)| *id == u64::from(second.id()) && *count > 0)
        });
        eventually("the first four are left", GRACE, || {
            services_of(&status()).iter().map(|(_, count)| *count).sum::<u64>() == 4
        });
        while streams.len() < 8 {
            streams.extend(connect("10.77.0.2:7"));
        }
        eventually("the one with fewer has the new ones", GRACE, || {
            services_of(&status()).iter().all(|(_, connections)| *connections == 4)
        });
        // Under load one leaves: all streams go on, on the other.
        let under_load: Vec<_> = streams
            .into_iter()
            .map(|mut stream| {
                std::thread::spawn(move || (0..60).all(|_| echoes(&mut stream, 30_000)).then_some(stream))
            })
            .collect();
        kill_process(process(first.id().into()), Signal::INT).expect("Ctrl-C");
        let outcome = first.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let streams: Vec<_> = under_load.into_iter().map(|thread| thread.join().expect("a stream")).collect();
        assert!(streams.iter().all(Option::is_some), "every byte came back");
        let all = services_of(&status());
        assert_eq!(all, [(second.id().into(), 8)], "the other has them all");
        drop((second, net));
    });
}

#[test]
fn a_net_core_serves_over_memif_one_peer_after_the_other() {
    let place = tempfile::tempdir().expect("a directory");
    let name = |file: &str| place.path().join(file).to_str().expect("a name").to_owned();
    let (memif, socket) = (format!("memif:{}", name("link")), name("net"));
    let mut net = Program::new(qanat()).arguments(["net", "--link", &memif, "--socket", &socket]).start();
    eventually("it waits for its peer", GRACE, || Path::new(&name("link")).exists());
    let mut echo = Program::new(qanat()).arguments(["echo", "--net", &socket]).start();
    let slave = format!("memif-slave:{}", name("link"));
    for round in 0..2 {
        eventually("datagrams come back", GRACE, || {
            let load = ["load", "udp", "10.77.0.2:7", "--link", &slave, "--window", "8", "--duration", "300ms"];
            let outcome = Program::new(qanat()).arguments(load).run();
            outcome.code == Some(0)
        });
        println!("round {round} was served");
        // The peer has left: the net core is started again, and the service finds it.
        assert!(net.is_running() && echo.is_running());
    }
}

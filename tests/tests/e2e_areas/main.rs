//! Disks of the daemon's, and the areas that its users have on them: by the policy, over restarts, and over its death at any moment.
#![forbid(unsafe_code)]

mod fenced;
mod house;
mod services;

use house::{GRACE, GROUP, House, USERS, done, refused};
use qanat_control::client::{ClientError, Session};
use qanat_control::protocol::{Answer, AreaPath, Request};
use qanat_tests::e2e::{Outcome, Program, eventually, process, qanat, scenario};
use qanat_tests::random::Random;
use rustix::process::{Gid, Signal, Uid, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn users_have_areas_on_the_daemons_disks_by_the_policy() {
    scenario(|| {
        let house = House::new(2, 24);
        let [alice, bob] = USERS;
        let image = house.image("fast.img");
        let text = done(&house.root(&["add", "fast", "--file", &image, "--size", "64M"]));
        assert!(text.contains("a disk of 64 MiB with 0 areas, 62 MiB of it free"), "{text}");
        let text = done(&house.user(alice, &["create", "logs", "--on", "fast", "--size", "8M"]));
        assert!(text.contains("the area logs has 8 MiB, zeroed"), "{text}");
        done(&house.user(alice, &["grow", "logs", "--on", "fast", "--size", "16M"]));
        done(&house.user(bob, &["create", "data", "--on", "fast", "--size", "5000"]));
        done(&house.user(alice, &["limit", "logs", "--on", "fast", "--requests", "1k"]));

        // What each sees.
        let list = |user| done(&house.user(user, &["list"]));
        assert!(list(alice).contains("logs  16 MiB, of user 65534, at most 1000 requests/s"), "{}", list(alice));
        assert!(!list(alice).contains("data") && list(bob).contains("data  8 KiB"), "{}", list(bob));
        let all = house.json(&["disk", "status"]);
        assert_eq!((&all[0]["free_bytes"], all[0]["areas"].as_array().map(Vec::len)), (&48_226_304.into(), Some(2)));
        assert_eq!(house.json(&["status"])["disks"], all);
        let limits = house.json(&["limits"]);
        assert_eq!((&limits["disks"][0], &limits["areas"]["used"]), (&"fast".into(), &0.into()));
        let figures =
            Program::new(qanat()).arguments(["status", "--prometheus"]).environment("QANAT_SOCKET", house.socket());
        let figures = figures.succeeds().text();
        for figure in [
            "qanat_disk_bytes{disk=\"fast\"} 67108864",
            "qanat_disk_areas{disk=\"fast\"} 2",
            "qanat_area_ready_bytes{disk=\"fast\",area=\"logs\",number=\"1\",uid=\"65534\"} 16777216",
        ] {
            assert!(figures.contains(figure), "{figure} in {figures}");
        }

        // What can't be done.
        let cases: [(Outcome, &[&str]); 13] = [
            (
                house.user(alice, &["create", "more", "--on", "fast", "--size", "9M"]),
                &["allows 24 MiB of areas", "8388608 bytes are left"],
            ),
            (house.user(alice, &["grow", "logs", "--on", "fast", "--size", "25M"]), &["allows 24 MiB of areas"]),
            (
                house.user(alice, &["create", "data", "--on", "fast", "--size", "1M"]),
                &["another user has an area data on fast", "choose another name"],
            ),
            (
                house.user(alice, &["create", "logs", "--on", "fast", "--size", "1M"]),
                &["you have an area logs on fast already"],
            ),
            (house.user(alice, &["grow", "data", "--on", "fast", "--size", "1M"]), &["data on fast is another user's"]),
            (house.user(alice, &["delete", "data", "--on", "fast"]), &["data on fast is another user's"]),
            (house.user(alice, &["delete", "none", "--on", "fast"]), &["the disk fast has no area none"]),
            (house.user(alice, &["grow", "logs", "--on", "fast", "--size", "1M"]), &["can't become smaller"]),
            (
                house.user(alice, &["create", "more", "--on", "slow", "--size", "1M"]),
                &["slow", "nor has the daemon a disk of that name"],
            ),
            (house.user(alice, &["add", "mine", "--file", "/dev/null"]), &["only root", "disk_admin"]),
            (house.user(alice, &["remove", "fast"]), &["only root"]),
            (house.user(alice, &["bench", "data", "--on", "fast"]), &["data on fast is another user's"]),
            (house.root(&["create", "more", "--on", "fast", "--size", "1G"]), &["the disk is full", "ask for less"]),
        ];
        cases.iter().for_each(|(outcome, parts)| refused(outcome, parts));
        done(&house.user(alice, &["create", "second", "--on", "fast", "--size", "1M"]));
        refused(&house.user(alice, &["create", "third", "--on", "fast", "--size", "1M"]), &["allows 2 areas, not 3"]);
        done(&house.user(alice, &["delete", "second", "--on", "fast"]));
        done(&house.user(alice, &["create", "third", "--on", "fast", "--size", "1M"]));
        // Root may delete anybody's.
        done(&house.root(&["delete", "third", "--on", "fast"]));
        house.end();
    });
}

#[test]
fn disks_that_cant_be_had_are_refused_and_left_alone() {
    scenario(|| {
        let mut house = House::new(2, 24);
        let image = house.image("fast.img");
        done(&house.root(&["add", "fast", "--file", &image, "--size", "8M"]));
        done(&house.root(&["create", "logs", "--on", "fast", "--size", "1M"]));
        // The daemon has it: who names the file is told so.
        refused(&house.root(&["list", "--on", "./fast.img"]), &["in use", "has locked it", "say --on fast"]);
        let foreign = house.image("ext4.img");
        std::fs::write(&foreign, vec![0; 8 << 20]).expect("a file");
        Program::new("/sbin/mkfs.ext4").arguments(["-q", "-F"]).arguments([&foreign]).succeeds();
        let before = std::fs::read(&foreign).expect("the file");
        let own = house.image("own.img");
        done(&house.root(&["prepare", &own, "--size", "8M"]));
        let cases: [(&[&str], &[&str]); 9] = [
            (&["add", "fast", "--file", &own], &["the disk fast", "is there already"]),
            (&["add", "again", "--file", &image], &["the disk fast", "is there already"]),
            (&["add", "a/b", "--file", &own], &["no name of a disk"]),
            (&["add", "other", "--file", &foreign], &["ext4 file system"]),
            (&["add", "other", "--file", &own, "--size", "8M"], &["is there already: leave --size out"]),
            (&["add", "other", "--file", "/none/none.img"], &["/none/none.img", "No such file"]),
            (&["add", "other", "--file", "/dev/null"], &["neither a regular file nor a block device"]),
            (&["add", "other", "--file", &house.image("small.img"), "--size", "1M"], &["too small"]),
            (&["remove", "none"], &["no disk none", "qanat disk list"]),
        ];
        for (words, parts) in cases {
            refused(&house.root(words), parts);
        }
        assert!(std::fs::read(&foreign).expect("the file") == before, "nothing is written");
        assert!(!PathBuf::from(house.image("small.img")).exists(), "a file made in vain is removed");
        assert_eq!(house.json(&["disk", "list"]).as_array().map(Vec::len), Some(1));

        // A disk that is there already, and one that is missing when the daemon starts: told of, and the others go on.
        done(&house.root(&["add", "own", "--file", &own]));
        house.crash();
        std::fs::rename(&own, house.image("away.img")).expect("renamed");
        house.start();
        house.is_ready("fast");
        eventually("the other has failed", GRACE, || house.state("own") == "failed");
        let text = done(&house.root(&["list"]));
        assert!(text.contains("it can't be used") && text.contains("No such file") && text.contains("logs"), "{text}");
        refused(
            &house.root(&["create", "x", "--on", "own", "--size", "1M"]),
            &["can't be used", "qanat disk remove own"],
        );
        done(&house.root(&["remove", "own"]));
        done(&house.root(&["add", "own", "--file", &house.image("away.img")]));
        // What was removed is nobody's, with all that is on it.
        done(&house.root(&["remove", "fast"]));
        let list = house.json(&["disk", "list", "--on", &image]);
        assert_eq!(list["areas"][0]["name"], "logs");
        done(&house.root(&["add", "fast", "--file", &image]));
        assert!(done(&house.root(&["list", "--on", "fast"])).contains("logs"));
        house.end();
    });
}

/// As by the core of a daemon that died, which the kernel takes its time to end.
#[test]
fn a_disk_that_somebody_holds_when_the_daemon_starts_comes_back_by_itself() {
    scenario(|| {
        let mut house = House::new(2, 24);
        let image = house.image("fast.img");
        done(&house.root(&["add", "fast", "--file", &image, "--size", "8M"]));
        done(&house.root(&["create", "logs", "--on", "fast", "--size", "1M"]));
        house.crash();
        let mut holder = Program::new("flock").arguments(["--exclusive", &image, "sleep", "1000"]).start();
        let is_held = || Program::new("flock").arguments(["--nonblock", &image, "true"]).run().code != Some(0);
        eventually("it is held", GRACE, is_held);
        house.start();
        eventually("it can't be had", GRACE, || house.state("fast") == "failed");
        let text = done(&house.root(&["list"]));
        assert!(text.contains("it can't be used") && text.contains("it is tried again"), "{text}");
        holder.kill();
        house.is_ready("fast");
        assert!(done(&house.root(&["list", "--on", "fast"])).contains("logs"));
        house.end();
    });
}

#[test]
fn zeroing_goes_on_behind_everything_else_and_over_crashes() {
    scenario(|| {
        let mut house = House::new(4, 1_024);
        let image = house.image("fast.img");
        done(&house.root(&["add", "fast", "--file", &image, "--size", "600M"]));
        // What the last owner left.
        std::fs::File::options()
            .write(true)
            .open(&image)
            .and_then(|file| {
                use std::os::unix::fs::FileExt;
                file.write_all_at(&[0xaa; 4_096], 300 << 20)
            })
            .expect("a mark");
        let [alice, bob] = USERS;
        done(&house.user(alice, &["create", "large", "--on", "fast", "--size", "500M", "--no-wait"]));
        // Others don't wait for that.
        done(&house.user(bob, &["create", "small", "--on", "fast", "--size", "1M"]));
        done(&house.user(bob, &["delete", "small", "--on", "fast"]));
        house.crash();
        house.start();
        let area = |house: &House| house.json(&["disk", "list", "--on", "fast"])["areas"][0].clone();
        eventually("it is zeroed", GRACE, || area(&house)["bytes"] == 500 << 20);
        // Anew, as by `systemctl reload`: the same disk, and nothing lost.
        house.signal(Signal::HUP);
        std::thread::sleep(Duration::from_millis(300));
        house.listens();
        house.is_ready("fast");
        assert_eq!((&area(&house)["name"], &area(&house)["uid"]), (&"large".into(), &alice.into()));
        let _disks = house.end();
        let content = std::fs::read(&image).expect("the disk");
        assert!(content[2 << 20..502 << 20].iter().all(|byte| *byte == 0), "nobody reads what another has left");
    });
}

#[test]
fn areas_are_used_through_the_disks_core_and_given_up_with_who_used_them() {
    scenario(|| {
        let house = House::new(4, 64);
        let image = house.image("fast.img");
        done(&house.root(&["add", "fast", "--file", &image, "--size", "64M"]));
        let [alice, bob] = USERS;
        done(&house.user(alice, &["create", "logs", "--on", "fast", "--size", "8M"]));
        done(&house.user(bob, &["create", "data", "--on", "fast", "--size", "8M"]));
        let text = done(&house.user(alice, &["bench", "logs", "--on", "fast", "-d", "20ms", "--overwrite", "--json"]));
        let points: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line a point")).collect();
        assert!(points.len() == 8 && points.iter().all(|point| point["requests_per_s"].as_f64() > Some(0.0)), "{text}");
        // The core lets go of what a program had when it looks at it next.
        let handles = |area: usize| house.json(&["disk", "list", "--on", "fast"])["areas"][area]["handles"].clone();
        eventually("nobody has an area", GRACE, || handles(0) == 0 && handles(1) == 0);

        // Deleted while it is used: the name is free at once, and the space when the user is gone.
        let who = [format!("--reuid={alice}"), format!("--regid={GROUP}"), "--clear-groups".to_owned()];
        let words = ["disk", "bench", "logs", "--on", "fast", "-d", "60s"];
        let bench = || {
            let program = Program::new("setpriv").arguments(&who).arguments([&house.command]).arguments(words);
            program.environment("QANAT_SOCKET", house.socket()).start()
        };
        let disk = || house.json(&["disk", "list", "--on", "fast"]);
        let mut running = bench();
        eventually("it has the area", GRACE, || disk()["areas"][0]["handles"] == 1);
        refused(&house.root(&["remove", "fast"]), &["1 handles of areas on the disk are open"]);
        let free = disk()["free_bytes"].as_u64().expect("bytes");
        done(&house.user(alice, &["grow", "logs", "--on", "fast", "--size", "12M"]));
        let text = done(&house.user(alice, &["delete", "logs", "--on", "fast"]));
        assert!(text.contains("its space is free once nobody uses it"), "{text}");
        assert!(running.is_running() && disk()["areas"][0]["is_deleted"] == true);
        done(&house.user(alice, &["create", "logs", "--on", "fast", "--size", "4M"]));
        running.kill();
        eventually("its space is free", GRACE, || disk()["free_bytes"] == free + (4 << 20));

        // The core dies: who used the area is told by an error, and the next has another core.
        let mut running = bench();
        eventually("it has the area", GRACE, || disk()["areas"][1]["handles"] == 1);
        let ours = house.disk_core().expect("a disk core");
        let status = std::fs::read_to_string(format!("/proc/{ours}/status")).expect("its status");
        for held in ["Uid:\t65534\t65534", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(held), "{held} in {status}");
        }
        kill_process(process(ours), Signal::KILL).expect("a disk core to kill");
        eventually("it ends", GRACE, || !running.is_running());
        let outcome = running.wait(GRACE);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        eventually("nobody holds the area", GRACE, || disk()["areas"][1]["handles"] == 0);
        done(&house.user(bob, &["bench", "data", "--on", "fast", "-d", "20ms"]));
        house.end();
    });
}

/// The ceiling of a user's is for all the user's areas together: what two programs got of two areas, in the time of both.
#[test]
fn areas_of_one_user_share_the_ceiling_of_the_policy() {
    scenario(|| {
        let house = House::new(4, 64);
        done(&house.root(&["add", "fast", "--file", &house.image("fast.img"), "--size", "64M"]));
        let [alice, _] = USERS;
        for area in ["logs", "data"] {
            done(&house.user(alice, &["create", area, "--on", "fast", "--size", "8M"]));
        }
        let begun = std::time::Instant::now();
        let bench = |area| done(&house.user(alice, &["bench", area, "--on", "fast", "-d", "500ms", "--json"]));
        let texts = std::thread::scope(|scope| {
            let other = scope.spawn(|| bench("data"));
            [bench("logs"), other.join().expect("its work")]
        });
        let elapsed_s = begun.elapsed().as_secs_f64();
        let lines = texts.iter().flat_map(|text| text.lines());
        let rates = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON")["requests_per_s"].as_f64());
        let requests = rates.flatten().sum::<f64>() * 0.5;
        println!("{requests} requests in {elapsed_s} s");
        assert!(requests > 0.0 && requests < 2_000.0 * (elapsed_s + 0.1), "{requests} requests in {elapsed_s} s");
        house.end();
    });
}

/// What a user knows of its areas: by name, the bytes, and whether the last change of it was acknowledged.
type Known = BTreeMap<String, (Option<u64>, bool)>;

/// Creates, grows and deletes areas until the daemon is gone, and counts the changes that it acknowledges.
fn churn(house: &House, user: u32, known: &mut Known, random: &mut Random, acknowledged: &AtomicUsize) {
    let Ok(session) = Session::connect(&house.socket()) else { return };
    loop {
        let name = format!("u{user}-{}", random.below(6));
        let path = AreaPath { disk: "fast".to_owned(), area: name.clone() };
        let (request, expected) = match known.get(&name) {
            None | Some((None, true)) => {
                let bytes = 4_096 * random.between(1, 200);
                (Request::CreateArea { path, bytes, fenced: false }, Some(bytes))
            }
            Some((Some(bytes), true)) if random.one_in(3) => {
                let bytes = bytes + 4_096;
                (Request::GrowArea { path, bytes }, Some(bytes))
            }
            // Of one whose last change nobody has acknowledged, it is not known whether it is there.
            _ => (Request::DeleteArea { path }, None),
        };
        known.entry(name.clone()).or_insert((None, true)).1 = false;
        match session.ask(request) {
            Ok(Answer::Area(_)) => {
                known.insert(name, (expected, true));
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ok(other) => panic!("{other:?}"),
            Err(ClientError::Refused(why)) => {
                // The disk is being opened, or it is full, or it was deleted by the change that was not acknowledged.
                assert!(why.text.contains("has no area") || why.text.contains("is full"), "{why}");
                let gone = why.text.contains("has no area");
                known.entry(name).and_modify(|(bytes, is_sure)| (*bytes, *is_sure) = (bytes.filter(|_| !gone), true));
            }
            Err(_) => return,
        }
    }
}

/// Does some work as a user, in a thread of its own.
pub fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            let (group, user) = (Gid::from_raw(GROUP), Uid::from_raw(user));
            rustix::thread::set_thread_res_gid(group, group, group).expect("the group");
            rustix::thread::set_thread_res_uid(user, user, user).expect("the user");
            work()
        };
        scope.spawn(run).join().expect("its work")
    })
}

/// What is on the disk, by what the daemon said before it was killed: no change that it acknowledged is lost, and nothing is given twice.
fn agrees(list: &Value, known: &mut [Known; 2]) {
    let areas = list["areas"].as_array().expect("areas");
    let mut used = Vec::new();
    for area in areas {
        for extent in area["extents"].as_array().expect("extents") {
            let (unit, units) = (extent[0].as_u64().expect("a unit"), extent[1].as_u64().expect("units"));
            used.push((unit, unit + units));
        }
    }
    used.sort_unstable();
    assert!(used.windows(2).all(|pair| pair[0].1 <= pair[1].0), "space is given twice: {list}");
    for (user, known) in USERS.into_iter().zip(known) {
        let own: BTreeMap<&str, u64> = areas
            .iter()
            .filter(|area| area["uid"] == user && area["is_deleted"] == false)
            .map(|area| (area["name"].as_str().expect("a name"), area["reserved_bytes"].as_u64().expect("bytes")))
            .collect();
        for (name, (bytes, is_sure)) in &mut *known {
            let found = own.get(name.as_str()).copied();
            assert!(!*is_sure || found == *bytes, "{name}: acknowledged {bytes:?}, found {found:?}: {list}");
            (*bytes, *is_sure) = (found, true);
        }
        assert!(own.keys().all(|name| known.contains_key(*name)), "areas that nobody asked for: {list}");
    }
}

/// Kills the daemon again and again while two users create, grow and delete areas; `image`: where the table is.
/// `agrees_as_well`: what else must be so, by the list of areas, while no daemon runs.
///
/// It is killed when it has acknowledged so many changes and a moment has passed: a machine of any speed does as much before it.
pub fn killed_at_any_moment(house: &mut House, image: &str, rounds: u32, agrees_as_well: impl Fn(&Value)) {
    let mut random = Random::new(21);
    let mut known: [Known; 2] = Default::default();
    for round in 0..rounds {
        let changes = if random.one_in(4) { 0 } else { random.between(1, 40) as usize };
        let pause = Duration::from_micros(random.between(0, 10_000));
        let mut randoms = [random.draw(), random.draw()].map(Random::new);
        let acknowledged = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (house, acknowledged) = (&*house, &acknowledged);
            for ((user, known), random) in USERS.into_iter().zip(&mut known).zip(&mut randoms) {
                scope.spawn(move || as_user(user, || churn(house, user, known, random, acknowledged)));
            }
            eventually("changes are acknowledged", GRACE, || acknowledged.load(Ordering::Relaxed) >= changes);
            std::thread::sleep(pause);
            house.signal(Signal::KILL);
        });
        house.has_ended();
        let mut list = Value::Null;
        // What the daemon had under way goes on a moment after its end, and its lock with it.
        eventually("the disk is nobody's", GRACE, || {
            let told = Program::new(qanat()).arguments(["disk", "list", "--on", image, "--json"]).run();
            assert!(told.code == Some(0) || told.stderr.contains("in use"), "{told:?}");
            list = serde_json::from_str(told.text().trim()).unwrap_or_default();
            told.code == Some(0)
        });
        agrees(&list, &mut known);
        agrees_as_well(&list);
        let acknowledged = acknowledged.into_inner();
        println!(
            "round {round}: killed after {acknowledged} changes; {} areas",
            list["areas"].as_array().map_or(0, Vec::len)
        );
        house.start();
    }
    house.is_ready("fast");
}

#[test]
fn a_daemon_killed_at_any_moment_loses_nothing_and_gives_nothing_twice() {
    scenario(|| {
        let mut house = House::new(16, 64);
        let image = house.image("fast.img");
        done(&house.root(&["add", "fast", "--file", &image, "--size", "64M"]));
        killed_at_any_moment(&mut house, &image, 12, |_| {});
        house.end();
    });
}

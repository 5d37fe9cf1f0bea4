//! Areas that the kernel fences: files of a directory, used by users without any rights, and partitions of a loop device, which only root has.
//! Nobody's disk core runs.

use crate::house::{GRACE, House, USERS, done, refused};
use crate::{as_user, killed_at_any_moment};
use qanat_control::client::{OpenedArea, OwnArea, Session};
use qanat_control::protocol::{AreaFence, AreaPath, AreaWish};
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::shared::SharedLayout;
use qanat_tests::e2e::{Program, eventually, qanat, scenario, unfolded};
use serde_json::Value;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
const ATTACK: &str = include_str!("../../hostile/area.py");

/// An area's descriptor, as any client of this user's gets it.
fn own(house: &House, user: u32, area: &str) -> OwnArea {
    let layout = SharedLayout::new(&NvmeOptions::default(), 4, 4_096);
    let path = AreaPath { disk: "fast".to_owned(), area: area.to_owned() };
    let wish = AreaWish { path, read_only: false, layout };
    let (status, opened) = as_user(user, || {
        Session::connect(&house.socket()).and_then(|session| session.open_area(wish)).expect("an area")
    });
    let OpenedArea::Own(own) = opened else { panic!("{status:?}") };
    assert_ne!(status.fence, AreaFence::Core);
    own
}

/// The same open file, as a holder may pass it on.
fn copy(area: &OwnArea) -> OwnedFd {
    area.file.as_fd().try_clone_to_owned().expect("a descriptor")
}

/// Reads and writes of any length, as any holder may.
fn plain(area: &OwnArea) -> File {
    let file = copy(area);
    let flags = rustix::fs::fcntl_getfl(&file).expect("flags");
    rustix::fs::fcntl_setfl(&file, flags - rustix::fs::OFlags::DIRECT).expect("flags");
    file.into()
}

/// Which acts beyond an area of so many bytes happen, tried by `user` with a descriptor and nothing else.
fn tried(user: u32, descriptor: OwnedFd, bytes: u64, acts: &[&str]) -> Vec<String> {
    let mut attack = Command::new("setpriv");
    attack.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]);
    attack.args(["/usr/bin/python3", "-c", ATTACK, &bytes.to_string()]).args(acts).stdin(Stdio::from(descriptor));
    let outcome = attack.output().expect("python3");
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let acts: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
    let acts = acts.as_object().expect("acts").iter().filter(|(_, happened)| **happened == true);
    acts.map(|(act, _)| act.clone()).collect()
}

fn disk(house: &House) -> Value {
    house.json(&["disk", "list", "--on", "fast"])
}

fn free(house: &House) -> u64 {
    disk(house)["free_bytes"].as_u64().expect("bytes")
}

fn add_directory(house: &House) -> PathBuf {
    let path = PathBuf::from(house.image("areas"));
    done(&house.root(&["add", "fast", "--directory", path.to_str().expect("a plain name"), "--size", "64M"]));
    path
}

#[test]
fn a_user_has_a_file_of_its_own_and_no_disk_core_runs() {
    scenario(|| {
        let mut house = House::ruled(4, 40, "");
        let [alice, bob] = USERS;
        let path = add_directory(&house);
        let text = done(&house.user(alice, &["create", "logs", "--on", "fast", "--size", "8M"]));
        assert!(text.contains("the area logs has 8 MiB, zeroed"), "{text}");
        done(&house.user(bob, &["create", "data", "--on", "fast", "--size", "4M"]));
        let list = done(&house.user(alice, &["list"]));
        assert!(list.contains("logs  8 MiB, of user 65534, a file of its own, without a disk core"), "{list}");
        assert_eq!((&disk(&house)["fenced"], &disk(&house)["areas"][0]["fence"]), (&"file".into(), &"file".into()));
        // Its memory is registered with the kernel by itself, and more of it than users may lock by default.
        let text = done(&house.root(&["bench", "logs", "--on", "fast", "-d", "20ms", "--overwrite"]));
        assert!(text.contains("logs on fast: a file of its own, without a disk core"), "{text}");
        assert!(house.disk_core().is_none(), "nobody needs one");
        done(&house.user(alice, &["grow", "logs", "--on", "fast", "--size", "12M"]));
        assert_eq!(fs::metadata(path.join("1.area")).expect("its file").len(), 12 * MIB);
        let (path_text, other) = (path.to_str().expect("a plain name"), house.image("other"));
        let cases: [(_, &[&str]); 6] = [
            (house.user(bob, &["bench", "logs", "--on", "fast"]), &["logs on fast is another user's"]),
            (house.user(alice, &["limit", "logs", "--on", "fast", "--requests", "9"]), &["io.max", "without --fenced"]),
            (house.root(&["create", "big", "--on", "fast", "--size", "1G"]), &["the disk is full"]),
            (house.root(&["add", "again", "--directory", path_text]), &["the disk fast", "is there already"]),
            (house.root(&["add", "other", "--directory", &other]), &["other: No such file"]),
            (house.user(alice, &["add", "mine", "--directory", "/tmp/x", "--size", "8M"]), &["only root"]),
        ];
        cases.iter().for_each(|(outcome, parts)| refused(outcome, parts));

        // What is there with the descriptor is there for the next holder, whatever becomes of the daemon meanwhile.
        let area = own(&house, alice, "logs");
        assert_eq!(area.bytes, 12 * MIB);
        house.crash();
        plain(&area).write_all_at(b"while nobody is there", 5 * MIB).expect("written");
        fs::write(path.join("77.area"), "left by a daemon that died").expect("a file");
        house.start();
        house.is_ready("fast");
        assert!(!path.join("77.area").exists(), "what no area has is removed");
        let again = own(&house, alice, "logs");
        let mut found = [0; 21];
        plain(&again).read_exact_at(&mut found, 5 * MIB).expect("read");
        assert_eq!(&found, b"while nobody is there");
        drop((area, again));

        // The disk is let go of, and had again.
        eventually("nobody has it", GRACE, || disk(&house)["areas"][0]["handles"] == 0);
        done(&house.root(&["remove", "fast"]));
        refused(
            &house.root(&["add", "fast", "--directory", path_text, "--size", "64M"]),
            &["not empty", "leave --size out"],
        );
        done(&house.root(&["add", "fast", "--directory", path_text]));
        assert!(done(&house.user(alice, &["list"])).contains("logs  12 MiB"));
        house.end();
    });
}

#[test]
fn whose_requests_are_to_be_counted_has_no_area_without_a_core() {
    scenario(|| {
        let house = House::new(4, 40);
        let [alice, _] = USERS;
        add_directory(&house);
        let refusal = house.user(alice, &["create", "logs", "--on", "fast", "--size", "1M"]);
        refused(&refusal, &["disk_rate", "without a disk core", "io.max"]);
        done(&house.root(&["create", "logs", "--on", "fast", "--size", "1M"]));
        house.end();
    });
}

// Attack: descriptors: a neighbour's area, and more room than one's own, by the descriptor of an area's file
#[test]
fn the_holder_of_a_file_reaches_nothing_else_and_keeps_no_more_room_than_it_has() {
    scenario(|| {
        let house = House::ruled(4, 40, "");
        let [alice, bob] = USERS;
        let path = add_directory(&house);
        for (user, area) in [(alice, "logs"), (bob, "data")] {
            done(&house.user(user, &["create", area, "--on", "fast", "--size", "4M"]));
        }
        let neighbour = own(&house, bob, "data");
        plain(&neighbour).write_all_at(&vec![0xb0; 4 << 20], 0).expect("written");
        let area = own(&house, alice, "logs");
        let acts = ["write_beyond", "write_across", "grown", "room_taken", "opened_again", "discard_beyond"];
        // Its own file can be made longer. That is all, and it does not last.
        let beyond = ["grown", "room_taken", "write_across", "write_beyond"];
        let mut happened = tried(alice, copy(&area), area.bytes, &acts);
        happened.sort_unstable();
        assert_eq!(happened, beyond);
        let mut control = fs::OpenOptions::new();
        let anybodys = house.unit.directory().join("anybodys");
        fs::write(&anybodys, vec![0; 4 << 20]).expect("a file");
        fs::set_permissions(&anybodys, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("permissions");
        let control = control.read(true).write(true).open(&anybodys).expect("opened");
        let happened = tried(alice, control.into(), 4 * MIB, &["opened_again"]);
        assert_eq!(happened, ["opened_again"], "a file that others may open is opened again");
        let length = || fs::metadata(path.join("1.area")).expect("its file").len();
        eventually("it is cut back", GRACE, || length() == 4 * MIB);
        let figures = Program::new(qanat()).arguments(["status", "--prometheus"]);
        let figures = figures.environment("QANAT_SOCKET", house.socket());
        eventually("it is counted", GRACE, || {
            !figures_of(&house).contains("qanat_disk_offences_total{disk=\"fast\"} 0\n")
        });
        assert!(figures.succeeds().text().contains("qanat_disk_offences_total{disk=\"fast\"}"));
        let mut found = vec![0; 4 << 20];
        plain(&neighbour).read_exact_at(&mut found, 0).expect("read");
        assert!(found.iter().all(|byte| *byte == 0xb0), "the neighbour's bytes");
        house.end();
    });
}

fn figures_of(house: &House) -> String {
    let status = Program::new(qanat()).arguments(["status", "--prometheus"]);
    status.environment("QANAT_SOCKET", house.socket()).succeeds().text()
}

/// Deletes an area of which a descriptor was passed on: its space is free when the kernel says that nobody has it, over the daemon's death.
fn deletion_waits_for_the_kernel(house: &mut House, user: u32, free_bytes: u64) {
    let area = own(house, user, "logs");
    let kept = copy(&area);
    let space = area.bytes;
    let text = done(&house.user(user, &["delete", "logs", "--on", "fast"]));
    assert!(text.contains("(1 handles are open)"), "{text}");
    // What the daemon counts is over; what the kernel counts is not.
    drop(area);
    eventually("its handle is gone", GRACE, || disk(house)["areas"][0]["handles"] == 0);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let is_kept = |house: &House| disk(house)["areas"][0]["is_deleted"] == true && free(house) == free_bytes;
    assert!(is_kept(house), "{}", disk(house));
    house.crash();
    house.start();
    house.is_ready("fast");
    assert!(is_kept(house), "{}", disk(house));
    // Nobody is given what somebody still has.
    done(&house.root(&["create", "other", "--on", "fast", "--size", "20M"]));
    done(&house.root(&["delete", "other", "--on", "fast"]));
    File::from(kept).write_all_at(&[0; 0], 0).expect("it is open still");
    eventually("its space is free", GRACE, || free(house) == free_bytes + space);
}

#[test]
fn a_deleted_file_counts_until_nobody_has_it_open() {
    scenario(|| {
        let mut house = House::ruled(4, 40, "");
        let [alice, _] = USERS;
        let path = add_directory(&house);
        done(&house.user(alice, &["create", "logs", "--on", "fast", "--size", "4M"]));
        let free_bytes = free(&house);
        deletion_waits_for_the_kernel(&mut house, alice, free_bytes);
        assert!(!path.join("1.area").exists());
        house.end();
    });
}

#[test]
fn a_daemon_killed_at_any_moment_has_a_file_for_each_area_and_no_other() {
    scenario(|| {
        let mut house = House::ruled(16, 64, "");
        let path = add_directory(&house);
        let table = path.join("areas.qanat");
        let agrees = |list: &Value| {
            for area in list["areas"].as_array().expect("areas") {
                let (number, bytes) = (&area["number"], area["bytes"].as_u64().expect("bytes"));
                let Ok(found) = fs::metadata(path.join(format!("{number}.area"))) else {
                    // A deleted area loses its file first, and its place in the table when its room is free again.
                    assert!(bytes == 0 || area["is_deleted"] == true, "{area} has no file");
                    continue;
                };
                assert!(found.len() >= bytes, "{area}: {} bytes", found.len());
            }
        };
        killed_at_any_moment(&mut house, table.to_str().expect("a plain name"), 6, agrees);
        eventually("files without areas are gone", GRACE, || {
            // One that is being deleted leaves the table after its file.
            let count = disk(&house)["areas"].as_array().map_or(0, Vec::len);
            fs::read_dir(&path).expect("the directory").count() == count + 1
        });
        house.end();
    });
}

/// A loop device over a new file, as long as it is needed.
struct Loop(String);

impl Loop {
    fn over(image: &Path, mib: u64) -> Loop {
        // What was there before is nobody's to read.
        let mut content = vec![0xaa; (mib * MIB) as usize];
        content[..2 << 20].fill(0);
        fs::write(image, content).expect("a file");
        let device = Program::new("losetup").arguments(["--find", "--show"]).arguments([image]).succeeds().text();
        Loop(device.trim().to_owned())
    }

    fn open(&self) -> File {
        fs::OpenOptions::new().read(true).write(true).open(&self.0).expect("the device")
    }

    fn partitions(&self) -> usize {
        let name = Path::new(&self.0).file_name().expect("a name");
        let entries = fs::read_dir(Path::new("/sys/class/block").join(name)).expect("sysfs");
        entries.flatten().filter(|entry| entry.path().join("partition").exists()).count()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Program::new("losetup").arguments(["--detach", &self.0]).run();
    }
}

// Attack: descriptors: the rest of a disk, by the descriptor of an area's partition
#[test]
fn a_partition_is_fenced_by_the_kernel_and_its_space_waits_for_whoever_has_it() {
    scenario(|| {
        let mut house = House::ruled(4, 40, "");
        let [alice, _] = USERS;
        let device = Loop::over(Path::new(&house.image("loop.img")), 32);
        done(&house.root(&["add", "fast", "--file", &device.0]));
        // A loop device can be moved within its file by whoever may write to a part of it.
        let refusal = house.user(alice, &["create", "logs", "--on", "fast", "--size", "4M", "--fenced"]);
        refused(&refusal, &["only root has fenced areas there", "within its file"]);
        let image = house.image("image.img");
        done(&house.root(&["add", "image", "--file", &image, "--size", "8M"]));
        let refusal = house.root(&["create", "logs", "--on", "image", "--size", "1M", "--fenced"]);
        refused(&refusal, &["can't fence areas on the disk image", "--directory"]);
        done(&house.root(&["create", "logs", "--on", "fast", "--size", "4M", "--fenced"]));
        done(&house.root(&["create", "next", "--on", "fast", "--size", "4M", "--fenced"]));
        assert_eq!(disk(&house)["areas"][0]["fence"], "partition");
        assert_eq!(device.partitions(), 0, "they are made when they are needed");
        let neighbour = own(&house, 0, "next");
        let mut found = vec![1; 4 << 20];
        plain(&neighbour).read_exact_at(&mut found, 0).expect("read");
        assert!(found.iter().all(|byte| *byte == 0), "nobody reads what was there before");
        plain(&neighbour).write_all_at(&vec![0xb0; 4 << 20], 0).expect("written");
        let area = own(&house, 0, "logs");
        assert_eq!(device.partitions(), 2);

        // What its holder can do beyond it: nothing. The same acts happen to a device of one's own.
        let acts = [
            "read_beyond",
            "write_beyond",
            "write_across",
            "discard_beyond",
            "zeroes_across",
            "partition_added",
            "made_read_only",
        ];
        let more = ["grown", "room_taken", "opened_again"];
        let all: Vec<&str> = acts.into_iter().chain(more).collect();
        assert_eq!(tried(alice, copy(&area), area.bytes, &all), [""; 0]);
        let scratch = Loop::over(Path::new(&house.image("scratch.img")), 64);
        let control = tried(0, scratch.open().into(), MIB, &acts);
        assert_eq!(control.len(), acts.len(), "{control:?}");
        // The day that this does not happen any more, users may have partitions of loop devices, too.
        assert_eq!(tried(alice, copy(&area), area.bytes, &["loop_moved"]), ["loop_moved"]);
        // Past all caches: what is on the disk.
        plain(&neighbour).sync_all().expect("durable");
        let content = fs::read(house.image("loop.img")).expect("the device's file");
        // Whole pages: a byte of the records between the areas may have any value, this one, too.
        let pages = content.chunks(4096).filter(|page| page.iter().all(|byte| *byte == 0xb0)).count();
        assert_eq!(pages, (4 << 20) / 4096, "the neighbour's bytes");

        // It grows while it is open, if there is room behind it: there is none behind the first, and some behind the second.
        refused(&house.root(&["grow", "logs", "--on", "fast", "--size", "5M"]), &["not so much room behind it"]);
        done(&house.root(&["grow", "next", "--on", "fast", "--size", "6M"]));
        let mut beyond = [1; 512];
        plain(&neighbour).read_exact_at(&mut beyond, 6 * MIB - 512).expect("it is larger already");
        assert_eq!(beyond, [0; 512]);

        // Who keeps a descriptor keeps the disk; a daemon that starts leaves what is used, and removes the rest.
        let kept = copy(&neighbour);
        drop((neighbour, area));
        eventually("nobody has it", GRACE, || {
            disk(&house)["areas"].as_array().expect("areas").iter().all(|area| area["handles"] == 0)
        });
        refused(&house.root(&["remove", "fast"]), &["the area next is still open somewhere"]);
        house.crash();
        let doctor = Program::new(qanat()).arguments(["doctor"]).environment("QANAT_SOCKET", house.socket()).run();
        // That of the other area went when the disk was to be removed.
        let found = format!("disk fast ({}): partitions left: 1", device.0);
        assert!(unfolded(&doctor.text()).contains(&found), "{found:?} is not in {doctor:?}");
        house.start();
        house.is_ready("fast");
        assert_eq!(device.partitions(), 1);
        drop(kept);
        let text = done(&house.root(&["bench", "next", "--on", "fast", "-d", "20ms"]));
        assert!(text.contains("next on fast: a partition of its own, without a disk core"), "{text}");
        assert!(house.disk_core().is_none());
        done(&house.root(&["delete", "next", "--on", "fast"]));
        let free_bytes = 26 * MIB;
        eventually("its space is free", GRACE, || free(&house) == free_bytes);
        deletion_waits_for_the_kernel(&mut house, 0, free_bytes);
        assert_eq!(device.partitions(), 0);
        done(&house.root(&["create", "core", "--on", "fast", "--size", "1M"]));
        done(&house.root(&["bench", "core", "--on", "fast", "-d", "20ms"]));
        house.end();
        assert_eq!(device.partitions(), 0);
    });
}

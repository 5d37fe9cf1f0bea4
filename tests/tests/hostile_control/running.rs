//! Real processes and real frames: cards that forge, handles that are abused, memory that is pulled away.

use super::cards::{Control, PLAN, arrivals, card, count, rule, send, wish};
use super::frames::{Ipv4, arp, ethernet, tcp, udp};
use qanat_control::filter::{Accepted, Direction, Filter, FilterFlags, Level, Ports};
use qanat_control::protocol::{Answer, QueueWish, Request};
use qanat_nic::{AfXdp, Vnic};
use qanat_tests::e2e::{
    NOBODY, PATIENCE, Program, Running, eventually, qanat_for_anybody, resident_kib, scenario, workspace,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What the descriptors of this process and the daemon's are, for a failure's message.
fn open_files(control: &Control) -> Vec<String> {
    let of = |process: u32| std::fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors").flatten();
    let entries = of(std::process::id()).chain(of(control.process()));
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// Descriptors of this process and the daemon's, once its thread that prepares injectors has come to rest.
pub fn descriptors(control: &Control) -> usize {
    let of = |process: u32| std::fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors").count();
    let count = || of(std::process::id()) + of(control.process());
    let (mut last, mut since) = (count(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
        if count() != last {
            (last, since) = (count(), Instant::now());
        }
    }
    last
}

pub fn links() -> usize {
    qanat_nic::link::links().expect("links").len()
}

/// kill -9, with all its children.
pub fn kill_group(program: Running) {
    let group = i32::try_from(program.id()).ok().and_then(Pid::from_raw).expect("a process group");
    kill_process_group(group, Signal::KILL).expect("kill -9");
    program.wait(Duration::from_secs(5));
}

// Attack: frames: another card's addresses, and the kernel's
#[test]
fn a_card_cannot_speak_for_another() {
    scenario(|| {
        let control = Control::generous();
        let (attacker, mut attack) = card(&control, 2, &["udp/7"]);
        let (victim, mut seen) = card(&control, 3, &["udp/7"]);
        let (own, other) = (attacker.status().mac, victim.status().mac);
        let to_victim = |source, port| {
            let packet = Ipv4 { source, destination: [10, 77, 0, 3], ..Ipv4::own(17) }.with(&udp(port, 9));
            ethernet(other, own, 0x0800, &packet)
        };
        arrivals(&mut seen);
        let honest = to_victim([10, 77, 0, 2], 7);
        send(&mut attack, std::slice::from_ref(&honest));
        assert_eq!(arrivals(&mut seen), std::slice::from_ref(&honest), "the allowed form arrives as it was sent");
        let forged = [
            to_victim([10, 77, 0, 1], 7),
            to_victim([10, 77, 0, 2], 8),
            ethernet(other, [2, 0, 0, 0, 0, 9], 0x0800, &honest[14..]),
            ethernet(other, own, 0x0806, &arp(2, own, [10, 77, 0, 1], [10, 77, 0, 3])),
            ethernet([0xff; 6], own, 0x0806, &arp(1, own, [10, 77, 0, 1], [10, 77, 0, 3])),
            ethernet(other, own, 0x0800, &Ipv4 { destination: [10, 77, 0, 3], ..Ipv4::own(6) }.with(&tcp(7, 9))),
        ];
        send(&mut attack, &forged);
        assert!(arrivals(&mut seen).is_empty(), "nothing forged arrives");
        let status =
            control.vnics().into_iter().find(|vnic| vnic.vnic == attacker.status().vnic).expect("the attacker");
        let dropped: u64 = status.transmit.counts.iter().filter(|count| count.dropped).map(|count| count.frames).sum();
        assert_eq!(dropped, forged.len() as u64, "each drop has a cause: {:?}", status.transmit.counts);
        // What the victim sends to the kernel is none of the attacker's affair.
        let secret = Ipv4 { source: [10, 77, 0, 3], ..Ipv4::own(17) }.with(&udp(7, 9));
        send(&mut seen, &[ethernet([0xff; 6], other, 0x0800, &secret)]);
        assert!(arrivals(&mut attack).is_empty());
    });
}

// Attack: descriptors: filters that were not given, by descriptors of all kinds
#[test]
fn filters_are_capabilities() {
    scenario(|| {
        let control = Control::generous();
        let session = control.session();
        let (attacker, mut queue) = card(&control, 2, &[]);
        let (victim, mut seen) = card(&control, 3, &[]);
        let (own, other) = (attacker.status().mac, victim.status().mac);
        let packet = Ipv4 { destination: [10, 77, 0, 3], ..Ipv4::own(17) }.with(&udp(7, 9));
        let frame = ethernet(other, own, 0x0800, &packet);
        let mut passes = |what: &str, expected: bool| {
            send(&mut queue, std::slice::from_ref(&frame));
            assert_eq!(arrivals(&mut seen).len(), usize::from(expected), "{what}");
        };
        passes("by default nothing may be sent", false);
        let service = Accepted { ports: Ports { first: 7, last: 7 }, ..Accepted::default() };
        let filter = session.create_filter(FilterFlags::transmit(Level::Udp), &[], &[service]).expect("a filter");
        passes("a filter not assigned is none", false);
        attacker.assign(&filter, None).expect("assigned");
        passes("assigned", true);
        attacker.unassign(&filter).expect("unassigned");
        passes("unassigned", false);
        // Passed on: the right is the descriptor, not who asked for it.
        let passed_on: OwnedFd = filter.as_fd().try_clone_to_owned().expect("a copy");
        drop(filter);
        let ask = |beside: &OwnedFd| {
            let mut buffer = vec![0; 65_536];
            qanat_control::protocol::send(attacker.as_fd(), Request::Assign { queue: None }, &[beside.as_fd()])
                .expect("sent");
            qanat_control::protocol::receive::<Answer>(attacker.as_fd(), &mut buffer).expect("an answer").0
        };
        assert!(matches!(ask(&passed_on), Answer::Done), "a copy is as good");
        passes("by a copy of the handle", true);
        // Guessed, of the wrong kind, or its own card's.
        let file: OwnedFd = std::fs::File::open("/dev/null").expect("a file").into();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let card = attacker.as_fd().try_clone_to_owned().expect("a copy");
        for wrong in [file, socket.into(), card] {
            assert!(matches!(ask(&wrong), Answer::Refused(_)), "no filter's handle");
        }
        drop(passed_on);
        eventually("a filter whose handles are closed counts no more", Duration::from_millis(500), || {
            control.vnics().iter().all(|vnic| vnic.transmit.filters.is_empty())
        });
        passes("closed", false);
    });
}

// Attack: descriptors: frame memory of every wrong kind
#[test]
fn memory_is_what_was_agreed_on() {
    scenario(|| {
        let control = Control::start(&rule("memory_mib = 4"));
        let vnic = control.session().create_vnic(wish(2, &[])).expect("a VNIC");
        let seals = SealFlags::SHRINK | SealFlags::GROW;
        let file = |length: u64, seals: SealFlags| -> OwnedFd {
            let file = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memory file");
            ftruncate(&file, length).expect("its size");
            fcntl_add_seals(&file, seals).expect("its seals");
            file
        };
        let plan =
            QueueWish { queue: 0, frame_size: 2_048, receive_frames: 64, transmit_frames: 64, prepared_frames: 0 };
        let ask = |wish: QueueWish, beside: &[&OwnedFd]| {
            let mut buffer = vec![0; 65_536];
            let beside: Vec<_> = beside.iter().map(|fd| fd.as_fd()).collect();
            qanat_control::protocol::send(vnic.as_fd(), Request::OpenQueue(wish), &beside).expect("sent");
            qanat_control::protocol::receive::<Answer>(vnic.as_fd(), &mut buffer).expect("an answer")
        };
        let refused = |what: &str, wish: QueueWish, beside: &[&OwnedFd]| {
            let (answer, given) = ask(wish, beside);
            let Answer::Refused(why) = answer else { panic!("{what}: {answer:?}") };
            assert!(given.is_empty(), "{what}: {why}");
        };
        let length = 128 * 2_048;
        let good = file(length, seals);
        rustix::fs::fallocate(&good, rustix::fs::FallocateFlags::empty(), 0, length).expect("its pages");
        refused("memory without pages", plan, &[&file(length, seals)]);
        refused("no memory", plan, &[]);
        refused("two memories", plan, &[&good, &good]);
        refused("memory that can shrink", plan, &[&file(length, SealFlags::GROW)]);
        refused("memory that can grow", plan, &[&file(length, SealFlags::SHRINK)]);
        refused("memory without seals", plan, &[&file(length, SealFlags::empty())]);
        refused("memory that can't be written", plan, &[&file(length, seals | SealFlags::WRITE)]);
        refused("too short", plan, &[&file(length - 2_048, seals)]);
        refused("too long", plan, &[&file(length + 2_048, seals)]);
        refused("empty", QueueWish { receive_frames: 0, transmit_frames: 0, ..plan }, &[&file(0, seals)]);
        let disk: OwnedFd = tempfile::tempfile().expect("a file").into();
        refused("a file on disk", plan, &[&disk]);
        let socket: OwnedFd = std::os::unix::net::UnixStream::pair().expect("sockets").0.into();
        refused("a socket", plan, &[&socket]);
        refused("a queue there is not", QueueWish { queue: 1, ..plan }, &[&good]);
        refused("a queue far beyond", QueueWish { queue: u32::MAX, ..plan }, &[&good]);
        refused("frames of no size", QueueWish { frame_size: 0, ..plan }, &[&good]);
        refused("frames of a strange size", QueueWish { frame_size: 3_000, ..plan }, &[&good]);
        let most = QueueWish { receive_frames: u32::MAX, transmit_frames: u32::MAX, ..plan };
        refused("more frames than there are numbers", most, &[&good]);
        let beyond = QueueWish { receive_frames: 4_096, ..plan };
        refused("more than the rule allows", beyond, &[&file(2_048 * (4_096 + 64), seals)]);
        let (answer, given) = ask(plan, &[&good]);
        assert!(
            matches!(answer, Answer::Queue(_)) && matches!(given.len(), 1 | 3),
            "the agreed memory is taken: {answer:?}"
        );
        assert!(ftruncate(&good, 0).is_err(), "and can't be pulled away");
        refused("a queue that is open", plan, &[&good]);
    });
}

#[test]
fn a_card_is_ready_and_gone_without_a_trace() {
    scenario(|| {
        let control = Control::generous();
        let session = control.session();
        let mut times = Vec::new();
        // The first card brings what the daemon keeps for the next.
        drop(session.create_vnic(wish(2, &["udp"])).expect("a VNIC"));
        eventually("it is gone", Duration::from_secs(2), || control.vnics().is_empty());
        // Answered after the session above was taken on: its descriptors are counted.
        assert!(control.vnics().is_empty());
        let (before_links, before_descriptors) = (links(), descriptors(&control));
        for _ in 0..20 {
            let start = Instant::now();
            let vnic = session.create_vnic(wish(2, &["udp"])).expect("a VNIC");
            let queue = vnic.open_queue(0, qanat_nic::MemoryPlan::default()).expect("a queue");
            times.push(start.elapsed());
            drop((vnic, queue));
            eventually("a closed handle's card goes", PATIENCE, || links() == before_links);
            // Answered when the daemon is done with it.
            assert!(control.vnics().is_empty());
        }
        times.sort();
        println!("VNIC and queue ready: median {:?}, worst {:?}", times[10], times[19]);
        let start = Instant::now();
        while descriptors(&control) > before_descriptors {
            assert!(start.elapsed() < PATIENCE, "of {before_descriptors} descriptors: {:#?}", open_files(&control));
        }
    });
}

/// Ten thousand in `make soak`: `QANAT_CYCLES` says how many.
#[test]
fn cycles_leave_nothing_behind() {
    scenario(|| {
        let control = Control::generous();
        let session = control.session();
        let cycles = std::env::var("QANAT_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
        let resident = || resident_kib(std::process::id()) + resident_kib(control.process());
        let cycle = |number: u32| {
            let vnic =
                session.create_vnic(wish(2, &["tcp", "udp"])).unwrap_or_else(|error| panic!("{number}: {error}"));
            if number.is_multiple_of(10) {
                let _queue: AfXdp = vnic.open_queue(0, PLAN).expect("a queue");
                let filter = Filter::service("tcp/80".parse().expect("a service"));
                let filter = session.create_filter_of(Direction::Transmit, vec![filter]).expect("a filter");
                vnic.assign(&filter, None).expect("assigned");
            }
        };
        // The first ones fill what is kept for the next: allocators, spares.
        (0..50).for_each(cycle);
        eventually("all are gone", Duration::from_secs(2), || control.vnics().is_empty());
        let state = control.socket.with_extension("state");
        let files = || std::fs::read_dir(&state).expect("the state's directory").count();
        let (before_links, before_descriptors, before_files) = (links(), descriptors(&control), files());
        let (before_kib, start) = (resident(), Instant::now());
        (0..cycles).for_each(cycle);
        let elapsed = start.elapsed();
        eventually("all are gone", Duration::from_secs(2), || control.vnics().is_empty());
        assert_eq!(links(), before_links);
        eventually("no descriptor is left", Duration::from_secs(5), || descriptors(&control) <= before_descriptors);
        let Answer::Limits(limits) = session.ask(Request::Limits).expect("limits") else { panic!("limits") };
        assert_eq!((limits.vnics[1], limits.memory_bytes[1]), (0, 0));
        // What is charged is written down until the kernel has closed the sockets.
        eventually("nothing is written down", Duration::from_secs(5), || files() <= before_files);
        let grown_kib = resident().saturating_sub(before_kib);
        println!(
            "{cycles} cycles in {elapsed:?}, {} descriptors, {before_kib} KiB + {grown_kib} KiB",
            descriptors(&control)
        );
        assert!(grown_kib < 8_192, "{grown_kib} KiB more");
    });
}

/// A site and the command, where anybody may read the one and run the other.
pub fn site_for_anybody() -> (TempDir, PathBuf) {
    let site = tempfile::tempdir().expect("a directory");
    std::fs::copy(workspace().join("site/index.html"), site.path().join("index.html")).expect("a page");
    let command = qanat_for_anybody(site.path());
    (site, command)
}

// Attack: descriptors: a server killed at any moment, its card still there
#[test]
fn a_killed_server_without_privileges_leaves_nothing() {
    scenario(|| {
        let control = Control::generous();
        let (site, command) = site_for_anybody();
        let before = links();
        for delay_ms in [0, 3, 6, 12, 25, 50, 400] {
            let server = Program::new("setpriv")
                .arguments(NOBODY)
                .arguments([command.as_os_str(), "web".as_ref(), site.path().as_os_str()])
                .environment("QANAT_SOCKET", &control.socket)
                .start();
            std::thread::sleep(Duration::from_millis(delay_ms));
            if delay_ms == 400 {
                let page = Program::new("curl").arguments(["-sS", "-m", "5", "http://10.77.0.2/"]).succeeds();
                assert!(page.text().contains("It flows."), "an ordinary user serves");
                let vnics = control.vnics();
                assert_eq!(vnics.iter().map(|vnic| vnic.user).collect::<Vec<_>>(), [65_534]);
                assert!(count(&vnics[0], true, "passed_to_kernel").0 > 3);
                // Another user's card is nobody else's to delete, nor its own to speak of.
                let stranger = Program::new("setpriv")
                    .arguments(["--reuid=65533", "--regid=65534", "--clear-groups"])
                    .arguments([command.as_os_str(), "vnic".as_ref(), "delete".as_ref(), "0".as_ref()])
                    .environment("QANAT_SOCKET", &control.socket)
                    .run();
                assert!(stranger.code == Some(1) && stranger.stderr.contains("has no VNIC 0"), "{stranger:?}");
            }
            let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw).expect("a process group");
            kill_process_group(group, Signal::KILL).expect("kill -9");
            server.wait(PATIENCE);
            eventually("a killed server's card goes", PATIENCE, || links() == before);
            assert!(control.vnics().is_empty(), "killed after {delay_ms} ms");
        }
    });
}

// Attack: time and cost: a card that is never read
#[test]
fn who_does_not_read_delays_nobody() {
    scenario(|| {
        let control = Control::generous();
        let (stopped, queue) = card(&control, 2, &["udp/7"]);
        // As by SIGSTOP: its rings and memory are held, and nothing in them moves.
        let (sender, mut send_queue) = card(&control, 3, &["udp/7"]);
        let packet = Ipv4 { source: [10, 77, 0, 3], destination: [10, 77, 0, 2], ..Ipv4::own(17) }.with(&udp(7, 9));
        let frame = ethernet(stopped.status().mac, sender.status().mac, 0x0800, &packet);
        for _ in 0..16 {
            send(&mut send_queue, &vec![frame.clone(); 64]);
        }
        let (mut third, mut other) = (card(&control, 4, &["udp/7"]), card(&control, 5, &["udp/7"]));
        let packet = Ipv4 { source: [10, 77, 0, 4], destination: [10, 77, 0, 5], ..Ipv4::own(17) }.with(&udp(7, 9));
        let frame = ethernet(other.0.status().mac, third.0.status().mac, 0x0800, &packet);
        send(&mut third.1, std::slice::from_ref(&frame));
        assert_eq!(arrivals(&mut other.1), [frame]);
        assert!(queue.statistics().receive_no_buffer + queue.statistics().receive_ring_full > 0, "its own loss only");
    });
}

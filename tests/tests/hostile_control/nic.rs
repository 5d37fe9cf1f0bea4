//! Provider `queue`: a veth device with four queues stands in for a NIC, some of whose queues are cards'.

use super::cards::{Control, PLAN, arrivals, count, send};
use super::frames::ethernet;
use super::running::{kill_group, site_for_anybody};
use super::uplink::packet;
use qanat_control::address::Address;
use qanat_control::client::VnicHandle;
use qanat_control::filter::{Direction, Filter, Rate};
use qanat_control::protocol::{Provider, VnicStatus, VnicWish};
use qanat_daemon::{clear, leftovers};
use qanat_nic::AfXdp;
use qanat_nic::af_xdp::{AttachConfig, Interface, Rule};
use qanat_nic::link::{Namespace, link};
use qanat_tests::e2e::{NOBODY, Program, eventually, qanat, scenario};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const NIC: &str = "[[nic]]\ninterface = \"nic0\"\nqueues = [1, 3]\n\
    [[rule]]\nname = \"fast\"\nusers = [\"*\"]\nvnics = 8\naddresses = [\"192.0.2.0/24\", \"10.77.0.0/24\"]\n\
    services = [\"udp\", \"tcp/80\"]\ntrusted = true\n";

fn run(line: &str) {
    let mut words = line.split(' ');
    Program::new(words.next().expect("a command")).arguments(words).succeeds();
}

/// The NIC, with 192.0.2.1 of the kernel's; its other end is far0 in a namespace of its own.
fn nic() -> Namespace {
    let far = Namespace::anonymous().expect("a namespace");
    qanat_nic::link::make_veth("nic0", "far0", &far, 1_500, 4).expect("a veth device");
    run("ip addr add 192.0.2.1/24 dev nic0");
    run("ip link set nic0 up");
    far.within(|| {
        run("ip addr add 192.0.2.9/24 dev far0");
        run("ip link set far0 up");
    })
    .expect("the far side");
    far
}

/// The far end of the wire, with a hand on each queue.
struct Far {
    queues: Vec<AfXdp>,
    _interface: Interface,
}

impl Far {
    fn open(namespace: &Namespace) -> Far {
        let config = AttachConfig {
            interface: "far0".to_owned(),
            namespace: Some(namespace.clone()),
            queues: 4,
            rules: vec![Rule::everything()],
            injection: false,
            ..AttachConfig::default()
        };
        let interface = Interface::attach(config).expect("the far end");
        let queues = interface.openers().into_iter().map(|opener| opener.open(PLAN).expect("a queue")).collect();
        Far { queues, _interface: interface }
    }
}

fn queue_wish(last: u8, first: u32) -> VnicWish {
    VnicWish {
        name: format!("card {last}"),
        addresses: vec![(Address::from([192, 0, 2, last]), 24)],
        services: vec!["udp/7".parse().expect("a service")],
        provider: Provider::Queue { interface: "nic0".to_owned(), first },
        ..VnicWish::default()
    }
}

fn queue_card(control: &Control, last: u8, first: u32) -> (VnicHandle, AfXdp) {
    let vnic = control.session().create_vnic(queue_wish(last, first)).expect("a card of the NIC's");
    let queue = vnic.open_queue(0, PLAN).expect("its queue");
    (vnic, queue)
}

fn datagram(source: u8, destination: u8, ports: (u16, u16), to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    ethernet(to, from, 0x0800, &packet(source, destination, ports))
}

fn received(status: &VnicStatus, cause: &str) -> u64 {
    count(status, false, cause).0
}

fn has_program() -> bool {
    link("nic0").expect("the NIC").xdp_program.is_some()
}

/// The kernel takes its time to give a queue back whose socket is closed.
#[test]
fn a_queue_that_was_given_back_can_be_had_at_once() {
    scenario(|| {
        let _far = nic();
        let control = Control::start(NIC);
        for _ in 0..40 {
            drop(queue_card(&control, 20, 2));
            eventually("it is gone", Duration::from_secs(20), || control.vnics().is_empty());
        }
        // Who has it keeps it: after a second the next one is told.
        let (_vnic, _queue) = queue_card(&control, 20, 2);
        assert!(control.session().create_vnic(queue_wish(30, 2)).is_err());
    });
}

#[test]
fn a_trusted_process_has_a_queue_of_the_nics() {
    scenario(|| {
        let far = nic();
        let control = Control::start(NIC);
        let mut far = Far::open(&far);
        assert!(!has_program(), "nothing is attached before somebody asks");
        let (vnic, mut queue) = queue_card(&control, 20, 2);
        let mac = link("nic0").expect("the NIC").mac.0;
        assert_eq!((vnic.status().mac, vnic.status().interface.as_str()), (mac, "nic0"));
        let there = [2, 9, 9, 9, 9, 9];
        let own = datagram(9, 20, (9, 7), mac, there);
        send(&mut far.queues[2], std::slice::from_ref(&own));
        assert_eq!(arrivals(&mut queue), std::slice::from_ref(&own), "what comes by its queue and is its own");
        // By another queue, to another address, to another Ethernet address: the kernel's.
        send(&mut far.queues[1], std::slice::from_ref(&own));
        send(&mut far.queues[2], &[datagram(9, 21, (9, 7), mac, there), datagram(9, 20, (9, 7), there, there)]);
        assert!(arrivals(&mut queue).is_empty());
        let status = &control.vnics()[0];
        assert_eq!((received(status, "delivered"), received(status, "no_queue")), (1, 1), "{:?}", status.receive);
        // What it sends goes out by its queue, whatever it is: that is why it must be trusted.
        let sent = [datagram(20, 9, (7, 9), there, mac), datagram(66, 9, (6, 6), there, there)];
        send(&mut queue, &sent);
        let mut seen = arrivals(&mut far.queues[2]);
        // The kernel's own questions come along.
        seen.retain(|frame| frame.get(12..14) == Some(&[8, 0]));
        assert_eq!(seen, sent);
        // The kernel's own traffic is the kernel's, on that queue too.
        let kernel = UdpSocket::bind("192.0.2.1:7").expect("a socket");
        kernel.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
        send(&mut far.queues[2], &[datagram(9, 1, (9, 7), mac, there)]);
        assert_eq!(kernel.recv(&mut [0; 64]).ok(), Some(4));
        // Filters and rates of what it receives hold.
        vnic.add_filter(Direction::Receive, Filter::service("udp/8".parse().expect("a service"))).expect("a filter");
        send(&mut far.queues[2], &[own.clone(), datagram(9, 20, (9, 8), mac, there)]);
        assert_eq!(arrivals(&mut queue).len(), 1);
        let rate = Rate { packets_per_s: 1, ..Rate::UNLIMITED };
        vnic.set_rate(Direction::Receive, rate).expect("a rate");
        send(&mut far.queues[2], &vec![datagram(9, 20, (9, 8), mac, there); 64]);
        assert!(arrivals(&mut queue).len() < 8);
        assert!(received(&control.vnics()[0], "rate_packets") > 32);
        let steered = Filter::service("udp/9".parse().expect("a service"));
        let steered = control.session().create_filter_of(Direction::Receive, vec![steered]).expect("a filter");
        assert!(vnic.assign(&steered, Some(0)).is_err(), "which queue is the NIC's affair");
        // Two on one NIC; what is left after the first is gone.
        let (second, mut other) = queue_card(&control, 30, 1);
        drop((vnic, queue));
        eventually("the first is gone", Duration::from_secs(1), || control.vnics().len() == 1);
        assert!(has_program());
        send(&mut far.queues[1], &[datagram(9, 30, (9, 7), mac, there)]);
        assert_eq!(arrivals(&mut other).len(), 1);
        let (again, _queue) = queue_card(&control, 20, 2);
        drop((second, other, again));
        eventually("the NIC is the kernel's again", Duration::from_secs(1), || !has_program());
        assert!(control.vnics().is_empty() && link("nic0").is_ok());
    });
}

// Attack: privilege: a NIC's own queue, taken by one who is not trusted
#[test]
fn a_nics_queue_is_for_those_the_policy_trusts() {
    scenario(|| {
        let _far = nic();
        let refused = |control: &Control, what: &str, wish: VnicWish, words: &[&str]| {
            let error = control.session().create_vnic(wish).err().unwrap_or_else(|| panic!("{what}: allowed"));
            let error = error.to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{what}: {error}");
            assert!(!has_program() || control.vnics().len() == 1, "{what}: nothing is left attached");
        };
        {
            let control = Control::start(&NIC.replace("trusted = true", ""));
            refused(&control, "without trust", queue_wish(20, 2), &["rule \"fast\"", "trusted = true"]);
            let limits = control.session().limits().expect("limits");
            assert_eq!(limits.providers, ["veth", "tap"]);
        }
        let control = Control::start(NIC);
        let of = |interface: &str, first, queues| VnicWish {
            provider: Provider::Queue { interface: interface.to_owned(), first },
            queues,
            ..queue_wish(20, 0)
        };
        refused(&control, "the kernel's queue", of("nic0", 0, 1), &["queues 0 to 0 of nic0", "gives away 1 to 3"]);
        refused(&control, "one too many", of("nic0", 3, 2), &["gives away 1 to 3"]);
        refused(&control, "all there are", of("nic0", u32::MAX, 4), &["gives away 1 to 3"]);
        refused(&control, "another NIC", of("lo", 1, 1), &["gives away none"]);
        refused(
            &control,
            "an urgent one",
            VnicWish { queues: 2, priority_queues: 1, ..of("nic0", 1, 2) },
            &["NIC's affair"],
        );
        refused(&control, "the kernel's address", queue_wish(1, 2), &["192.0.2.1", "--shared"]);
        refused(&control, "no address of the kernel's", VnicWish { shared: true, ..queue_wish(20, 2) }, &["shared"]);
        refused(
            &control,
            "an SR-IOV function",
            VnicWish { provider: Provider::Vf { interface: "nic0".to_owned(), number: None }, ..queue_wish(20, 2) },
            &["functions of nic0", "[[vf]]"],
        );
        let (_vnic, _queue) = queue_card(&control, 20, 2);
        refused(
            &control,
            "another's queue",
            VnicWish { queues: 2, ..queue_wish(30, 1) },
            &["queue 2 of nic0 is another"],
        );
        refused(&control, "another's address", queue_wish(20, 1), &["taken"]);
        let socket = |arguments: &[&str]| {
            Program::new(qanat()).arguments(arguments).environment("QANAT_SOCKET", &control.socket).succeeds().text()
        };
        let text = socket(&["status"]);
        assert!(text.contains("on nic0") && text.contains("own queue 2"), "{text}");
        let text = socket(&["limits"]);
        assert!(text.contains("queue (nic0: 1 3)"), "{text}");
        assert!(text.lines().any(|line| line.split_whitespace().eq(["VLANs", "none"])), "{text}");
        let made = socket(&[
            "vnic",
            "create",
            "by hand",
            "--provider",
            "queue",
            "--device",
            "nic0",
            "--queue",
            "3",
            "--address",
            "192.0.2.40/24",
            "--service",
            "udp/7",
        ]);
        assert!(made.contains("own queue 3"), "{made}");
        socket(&["vnic", "delete", "1"]);
    });
}

/// A server without privileges, killed; with an address of its own, and with one of the kernel's.
#[test]
fn a_killed_server_gives_its_queue_back() {
    scenario(|| {
        let far = nic();
        // Its kernel's packets come by queue 0.
        far.within(|| run("ethtool -L far0 tx 1 rx 4")).expect("the far side");
        let control = Control::start(&NIC.replace("[1, 3]", "[0, 3]"));
        let (site, command) = site_for_anybody();
        for address in ["192.0.2.20/24", "192.0.2.1/24"] {
            let server = Program::new("setpriv")
                .arguments(NOBODY)
                .arguments([command.as_os_str(), "web".as_ref(), site.path().as_os_str()])
                .arguments(["--interface", "nic0", "--queue", "0", "--address", address])
                .environment("QANAT_SOCKET", &control.socket)
                .start();
            let url = format!("http://{}/", address.trim_end_matches("/24"));
            eventually("it serves", Duration::from_secs(10), || {
                let page = far.within(|| Program::new("curl").arguments(["-sS", "-m", "2", &url]).run());
                page.expect("the far side").text().contains("It flows.")
            });
            let vnics = control.vnics();
            assert!(vnics.len() == 1 && vnics[0].user == 65_534 && received(&vnics[0], "delivered") > 3, "{vnics:?}");
            kill_group(server);
            let start = Instant::now();
            eventually("all is given back", Duration::from_secs(2), || control.vnics().is_empty() && !has_program());
            println!("{address}: gone after {:?}", start.elapsed());
        }
    });
}

#[test]
fn queues_of_a_nic_outlive_their_daemon() {
    scenario(|| {
        let far = nic();
        let mut control = Control::start(NIC);
        let mut far = Far::open(&far);
        let (vnic, mut queue) = queue_card(&control, 20, 2);
        let (dead, dead_queue) = queue_card(&control, 30, 1);
        let (mac, there) = (vnic.status().mac, [2, 9, 9, 9, 9, 9]);
        let mut passes = |when: &str| {
            send(&mut far.queues[2], &[datagram(9, 20, (9, 7), mac, there)]);
            assert_eq!(arrivals(&mut queue).len(), 1, "{when}");
        };
        passes("at first");
        control.crash();
        passes("without a daemon");
        drop((dead, dead_queue));
        control.resume();
        let names: Vec<String> = control.vnics().into_iter().map(|vnic| vnic.name).collect();
        assert_eq!(names, ["card 20"]);
        passes("with the next");
        assert_eq!(received(&control.vnics()[0], "delivered"), 3, "counters are what they were");
        assert!(control.session().create_vnic(queue_wish(40, 2)).is_err(), "the queue is taken");
        vnic.set_rate(Direction::Receive, Rate { packets_per_s: 5, ..Rate::UNLIMITED }).expect("the handle is good");
        // What a crashed one leaves is removed, and the NIC is not.
        control.crash();
        let left = leftovers(&control.socket).expect("what is left");
        assert!(left.len() == 1 && left[0].in_use && left[0].interface == "nic0", "{left:?}");
        clear(&control.socket);
        assert!(link("nic0").is_ok() && !has_program(), "the NIC is the kernel's again");
        control.resume();
        assert!(control.vnics().is_empty());
    });
}

//! Who has an injector, over the daemon's end and as what its memory is charged for.

use super::cards::{Control, PLAN, arrivals, card, rule, send, wish};
use super::frames::{Ipv4, ethernet, udp};
use qanat_nic::{AfXdp, Vnic};
use qanat_tests::e2e::scenario;

/// Frames of one flush: enough to be worth injecting.
const FRAMES: usize = 64;

/// From 10.77.0.2 to 10.77.0.3.
fn packets(from: [u8; 6], to: [u8; 6]) -> Vec<Vec<u8>> {
    let packet = Ipv4 { destination: [10, 77, 0, 3], ..Ipv4::own(17) }.with(&udp(7, 9));
    vec![ethernet(to, from, 0x0800, &packet); FRAMES]
}

/// How many of those frames arrive.
fn exchange(sender: &mut AfXdp, receiver: &mut AfXdp) -> usize {
    let (from, to) = (sender.capabilities().mac.0, receiver.capabilities().mac.0);
    send(sender, &packets(from, to));
    arrivals(receiver).len()
}

#[test]
fn cards_inject_over_a_daemons_end() {
    scenario(|| {
        let mut control = Control::generous();
        let (vnic, mut sender) = card(&control, 2, &["udp/7"]);
        let (_other, mut receiver) = card(&control, 3, &["udp/7"]);
        let mut injects = |when: &str| {
            assert_eq!(exchange(&mut sender, &mut receiver), FRAMES, "{when}");
            assert!(sender.injects(), "{when}");
        };
        injects("at first");
        control.crash();
        injects("without a daemon");
        control.resume();
        injects("with the next one");
        let (_third, third) = card(&control, 4, &["udp/7"]);
        assert!(third.injects(), "the next daemon has the program");
        // The card ends, and its row with it: its sender sends nothing by it any more.
        drop(vnic);
        let is_gone = || control.vnics().iter().all(|vnic| vnic.name != "card 2");
        qanat_tests::e2e::eventually("the card is gone", std::time::Duration::from_secs(5), is_gone);
        let before = sender.statistics().transmit_injected;
        assert_eq!(exchange(&mut sender, &mut receiver), 0);
        assert_eq!(sender.statistics().transmit_injected, before, "the row sends nothing");
        assert!(sender.is_gone(), "the sender can notice");
    });
}

// Attack: privilege: an injector for who is neither root nor trusted
#[test]
fn a_program_is_for_those_who_could_attach_one_anyway() {
    scenario(|| {
        let script = "import sys; sys.path.insert(0, sys.argv[2]); import card; s = card.Session(sys.argv[1], 1001); \
                      print(len(card.Queue(s.create(2)).others))";
        let others = |control: &Control| {
            let directory = qanat_tests::e2e::workspace().join("tests/tests/hostile_control");
            let asked = qanat_tests::e2e::Program::new("python3")
                .arguments(["-c", script])
                .arguments([control.socket.as_os_str(), directory.as_os_str()])
                .environment("PYTHONDONTWRITEBYTECODE", "1")
                .succeeds();
            asked.text().trim().to_owned()
        };
        assert_eq!(others(&Control::generous()), "0", "user 1001 has the socket, and nothing else");
        assert_eq!(others(&Control::start(&rule("trusted = true"))), "2", "the control: program and batch");
    });
}

#[test]
fn a_full_quota_leaves_the_ring() {
    scenario(|| {
        // 1.5 MiB for the first queue's frames, and 0.4 for its injector.
        let control = Control::start(&rule("memory_mib = 3"));
        let (_first, first) = card(&control, 2, &["udp/7"]);
        assert!(first.injects());
        let vnic = control.session().create_vnic(wish(3, &["udp/7"])).expect("a VNIC");
        assert!(vnic.open_queue(0, PLAN).is_err(), "1.1 MiB are left");
        let plan = qanat_nic::MemoryPlan { receive_frames: 128, transmit_frames: 256, ..PLAN };
        let mut second = vnic.open_queue(0, plan).expect("0.75 MiB");
        assert!(!second.injects(), "there is no room for an injector");
        let mut first = first;
        let from = second.capabilities().mac.0;
        let packet = Ipv4 { source: [10, 77, 0, 3], destination: [10, 77, 0, 2], ..Ipv4::own(17) }.with(&udp(7, 9));
        send(&mut second, &vec![ethernet(first.capabilities().mac.0, from, 0x0800, &packet); FRAMES]);
        assert_eq!(arrivals(&mut first).len(), FRAMES, "it sends all the same");
    });
}

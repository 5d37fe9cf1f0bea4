//! Several queues of a card: who receives what, and that nothing is lost or comes twice when that changes.

use super::cards::{Control, PLAN, arrivals, card, send, wish};
use super::frames::{Ipv4, arp, ethernet, udp};
use qanat_control::client::{FilterHandle, Session, VnicHandle};
use qanat_control::filter::{Accepted, Addresses, Direction, FilterFlags, Level, Ports};
use qanat_control::protocol::VnicWish;
use qanat_nic::{AfXdp, Vnic};
use qanat_tests::e2e::{PATIENCE, eventually, scenario, workspace};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SERVICE: u16 = 7;

fn several(control: &Control, last: u8, queues: u32, priority_queues: u32) -> (VnicHandle, Vec<AfXdp>) {
    let wish = VnicWish { queues, priority_queues, ..wish(last, &["udp/7"]) };
    let vnic = control.session().create_vnic(wish).expect("a VNIC");
    let queues = (0..queues).map(|queue| vnic.open_queue(queue, PLAN).expect("a queue")).collect();
    (vnic, queues)
}

/// A datagram from `last`'s card to a card, of the flow of source port `port`.
fn datagram(from: &VnicHandle, last: u8, to: [u8; 6], destination: u8, port: u16, number: u32) -> Vec<u8> {
    let mut bytes = udp(port, SERVICE);
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&number.to_be_bytes());
    let packet =
        Ipv4 { source: [10, 77, 0, last], destination: [10, 77, 0, destination], ..Ipv4::own(17) }.with(&bytes);
    ethernet(to, from.status().mac, 0x0800, &packet)
}

fn number_of(frame: &[u8]) -> u32 {
    frame.last_chunk().map_or(u32::MAX, |bytes| u32::from_be_bytes(*bytes))
}

fn service(session: &Session, local: Addresses) -> FilterHandle {
    let ports = Ports { first: SERVICE, last: SERVICE };
    let accepted = Accepted { addresses: local, ports, ..Accepted::default() };
    session.create_filter(FilterFlags::receive(Level::Udp), &[], &[accepted]).expect("a filter")
}

#[test]
fn flows_keep_their_queue_and_spread() {
    scenario(|| {
        let control = Control::generous();
        let (sender, mut out) = card(&control, 2, &["udp"]);
        let (receiver, mut queues) = several(&control, 3, 3, 1);
        let to = receiver.status().mac;
        let burst = |number| (0..64).map(|port| datagram(&sender, 2, to, 3, 1_000 + port, number)).collect::<Vec<_>>();
        let mut seen = Vec::new();
        for number in 0..3 {
            send(&mut out, &burst(number));
            let ports = queues.iter_mut().map(|queue| {
                let mut ports: Vec<[u8; 2]> = arrivals(queue).iter().map(|frame| [frame[34], frame[35]]).collect();
                ports.sort_unstable();
                ports
            });
            seen.push(ports.collect::<Vec<_>>());
        }
        assert!(seen.iter().all(|other| *other == seen[0]), "a flow stays with its queue");
        let counts: Vec<usize> = seen[0].iter().map(Vec::len).collect();
        println!("flows by queue: {counts:?}");
        assert!(counts[0] >= 16 && counts[1] >= 16 && counts[0] + counts[1] == 64, "{counts:?}");
        assert_eq!(counts[2], 0, "a high-priority queue gets what a filter gives it");
        // What a further queue sends passes the same gate, and no other.
        let honest = datagram(&receiver, 3, sender.status().mac, 2, SERVICE, 9);
        let forged = datagram(&receiver, 4, sender.status().mac, 2, SERVICE, 9);
        for (number, queue) in queues.iter_mut().enumerate() {
            send(queue, std::slice::from_ref(&forged));
            assert!(arrivals(&mut out).is_empty(), "forged by queue {number}");
            // The port answers from is the service's.
            let honest = [&honest[..34], &SERVICE.to_be_bytes(), &9u16.to_be_bytes(), &honest[38..]].concat();
            send(queue, std::slice::from_ref(&honest));
            assert_eq!(arrivals(&mut out), [honest], "sent by queue {number}");
        }
        // By number a queue that is not there is refused.
        let filter = service(&control.session(), Addresses::ANY);
        assert!(receiver.assign(&filter, Some(3)).is_err());
        let transmit = FilterFlags::transmit(Level::Udp);
        let accepted = Accepted { ports: Ports { first: 7, last: 7 }, ..Accepted::default() };
        let transmit = control.session().create_filter(transmit, &[], &[accepted]).expect("a filter");
        assert!(receiver.assign(&transmit, Some(1)).is_err(), "what is sent has no queue");
    });
}

/// Queues that ask for a neighbour at the same time have an answer each; one who asks for another that is silent is in nobody's way.
#[test]
fn each_queue_has_the_answer_it_asked_for() {
    scenario(|| {
        let control = Control::generous();
        let (neighbour, mut out) = card(&control, 2, &["udp"]);
        let (asker, mut queues) = several(&control, 3, 4, 0);
        let [own, other] = [&asker, &neighbour].map(|card| card.status().mac);
        let question = |last| ethernet([0xff; 6], own, 0x0806, &arp(1, own, [10, 77, 0, 3], [10, 77, 0, last]));
        let answer = ethernet(own, other, 0x0806, &arp(2, other, [10, 77, 0, 2], [10, 77, 0, 3]));
        send(&mut queues[1], &[question(99)]);
        for number in [2, 1, 3, 0] {
            send(&mut queues[number], &[question(2)]);
        }
        assert_eq!(arrivals(&mut out).len(), 4);
        send(&mut out, &vec![answer.clone(); 4]);
        for (number, queue) in queues.iter_mut().enumerate() {
            assert!(arrivals(queue) == [answer.clone()], "queue {number}");
        }
    });
}

/// A sender of numbered datagrams of eight flows to 10.77.0.3, never more than `WINDOW` ahead of what has arrived.
struct Stream {
    arrived: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u32>>,
}

const WINDOW: u32 = 96;

impl Stream {
    fn start(socket: &Path, to: [u8; 6]) -> Stream {
        let (arrived, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (watched, told, socket) = (Arc::clone(&arrived), Arc::clone(&stop), socket.to_owned());
        let run = move || {
            let session = Session::connect(&socket).expect("a session");
            let vnic = session.create_vnic(wish(9, &["udp"])).expect("a VNIC");
            let mut queue = vnic.open_queue(0, PLAN).expect("a queue");
            let mut number = 0;
            while !told.load(Ordering::Acquire) {
                if number - watched.load(Ordering::Acquire) >= WINDOW || queue.transmit_room() < 16 {
                    queue.flush();
                    std::thread::yield_now();
                    continue;
                }
                let frames: Vec<Vec<u8>> = (number..number + 8)
                    .map(|number| datagram(&vnic, 9, to, 3, 1_000 + (number % 8) as u16, number))
                    .collect();
                send(&mut queue, &frames);
                number += 8;
            }
            // Whatever is in the ring still.
            for _ in 0..50 {
                queue.flush();
                std::thread::sleep(Duration::from_millis(1));
            }
            number
        };
        Stream { arrived, stop, thread: Some(std::thread::spawn(run)) }
    }
}

/// Has `change` called some hundred times while the stream flows; every number must arrive once, at any of `queues`.
fn nothing_is_lost(control: &Control, to: [u8; 6], queues: &mut [AfXdp], mut change: impl FnMut(usize)) -> Vec<u32> {
    let mut stream = Stream::start(&control.socket, to);
    let mut by_queue = vec![0; queues.len()];
    let mut seen: Vec<u8> = Vec::new();
    let mut collect = |queues: &mut [AfXdp], by_queue: &mut Vec<u32>| {
        let mut frames = Vec::new();
        for (queue, count) in queues.iter_mut().zip(by_queue.iter_mut()) {
            queue.receive(&mut frames, 64);
            for frame in frames.drain(..).filter(|frame| frame.bytes().get(23) == Some(&17)) {
                let number = number_of(frame.bytes()) as usize;
                seen.resize(seen.len().max(number + 1), 0);
                seen[number] += 1;
                *count += 1;
            }
            queue.flush();
        }
        let total: u32 = by_queue.iter().sum();
        stream.arrived.store(total, Ordering::Release);
        total
    };
    for turn in 0..100 {
        let before = by_queue.iter().sum::<u32>();
        let patience = Instant::now();
        while collect(queues, &mut by_queue) < before + 2 * WINDOW && patience.elapsed() < Duration::from_secs(2) {}
        change(turn);
    }
    stream.stop.store(true, Ordering::Release);
    let patience = Instant::now();
    let thread = stream.thread.take().expect("a sender");
    while !thread.is_finished() && patience.elapsed() < PATIENCE {
        collect(queues, &mut by_queue);
    }
    let sent = thread.join().expect("the sender ends well");
    let quiet = Instant::now();
    while collect(queues, &mut by_queue) < sent && quiet.elapsed() < PATIENCE {}
    let lost: Vec<usize> = (0..sent as usize).filter(|number| seen.get(*number).is_none_or(|n| *n == 0)).collect();
    let twice = seen.iter().filter(|count| **count > 1).count();
    println!("{sent} datagrams, by queue {by_queue:?}");
    assert!(lost.is_empty() && twice == 0, "{} of {sent} lost ({lost:?}), {twice} twice", lost.len());
    assert!(sent > 10_000, "the stream flows: {sent}");
    by_queue
}

#[test]
fn a_filter_goes_from_queue_to_queue_without_loss() {
    scenario(|| {
        let control = Control::generous();
        let (receiver, mut queues) = several(&control, 3, 3, 1);
        let session = control.session();
        let filter = service(&session, Addresses::ANY);
        let to = receiver.status().mac;
        let by_queue = nothing_is_lost(&control, to, &mut queues, |turn| {
            let queue = [Some(0), Some(1), Some(2), None][turn % 4];
            receiver.assign(&filter, queue).expect("assigned");
        });
        assert!(by_queue.iter().all(|count| *count > 1_000), "{by_queue:?}");
    });
}

#[test]
fn a_filter_goes_from_card_to_card_without_loss() {
    scenario(|| {
        let control = Control::generous();
        let (first, mut queues) = several(&control, 3, 1, 0);
        let (second, others) = several(&control, 4, 2, 0);
        queues.extend(others);
        let session = control.session();
        let address: Addresses = "10.77.0.3".parse().expect("an address");
        let filter = service(&session, address);
        let to = first.status().mac;
        let by_queue = nothing_is_lost(&control, to, &mut queues, |turn| {
            let (vnic, queue) = [(&first, None), (&second, Some(0)), (&second, Some(1))][turn % 3];
            vnic.assign(&filter, queue).expect("assigned");
        });
        assert!(by_queue.iter().all(|count| *count > 1_000), "{by_queue:?}");
        // With the filter goes the right.
        second.assign(&filter, None).expect("assigned");
        drop(filter);
        let is_listed = || control.vnics().iter().any(|vnic| !vnic.receive.filters.is_empty());
        eventually("closed filters count no more", PATIENCE, || !is_listed());
        let (sender, mut out) = card(&control, 2, &["udp"]);
        send(&mut out, &[datagram(&sender, 2, to, 3, 1, 5)]);
        let counts: Vec<usize> = queues.iter_mut().map(|queue| arrivals(queue).len()).collect();
        assert_eq!(counts, [1, 0, 0], "back to whose address it is");
    });
}

// Attack: time and cost: queues opened and closed without end
#[test]
fn a_card_gives_back_what_it_took() {
    scenario(|| {
        let control = Control::generous();
        let (victim, mut seen) = card(&control, 3, &["udp/7"]);
        let to = victim.status().mac;
        let session = control.session();
        let filter = service(&session, "10.77.0.3".parse().expect("an address"));
        let direction = Direction::Receive;
        assert!(session.create_filter_of(direction, Vec::new()).is_err(), "a filter covers something");
        let (taker, mut taken) = card(&control, 4, &[]);
        taker.assign(&filter, None).expect("assigned");
        let (sender, mut out) = card(&control, 2, &["udp"]);
        send(&mut out, &[datagram(&sender, 2, to, 3, 1, 5)]);
        assert_eq!((arrivals(&mut taken).len(), arrivals(&mut seen).len()), (1, 0));
        taker.unassign(&filter).expect("unassigned");
        send(&mut out, &[datagram(&sender, 2, to, 3, 1, 6)]);
        assert_eq!((arrivals(&mut taken).len(), arrivals(&mut seen).len()), (0, 1));
        // A card that is deleted gives back what it took.
        taker.assign(&filter, None).expect("assigned");
        drop((taker, taken));
        eventually("a closed card goes", PATIENCE, || control.vnics().len() <= 2);
        send(&mut out, &[datagram(&sender, 2, to, 3, 1, 7)]);
        assert_eq!(arrivals(&mut seen).len(), 1);
    });
}

/// Has a card of `user` try to take what is for 10.77.0.3, by a filter of that address.
fn takes(control: &Control, user: u32) -> String {
    let script = format!(
        "import socket, sys\n\
         sys.path.insert(0, {:?})\n\
         sys.dont_write_bytecode = True\n\
         from card import Refused, as_user, ask, wish\n\
         session = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
         as_user({user}, lambda: session.connect({:?}))\n\
         card = socket.socket(fileno=ask(session, {{'create-vnic': wish(4)}})[1][0])\n\
         volume = {{'local': '10.77.0.3', 'service': 'udp/7', 'peer': 'any', 'peer_ports': 'any'}}\n\
         made = {{'create-filter': {{'direction': 'receive', 'filters': [volume]}}}}\n\
         handle = ask(session, made)[1][0]\n\
         try:\n\
         \x20   ask(card, {{'assign': {{'queue': None}}}}, [handle])\n\
         \x20   print('taken')\n\
         except Refused as refused:\n\
         \x20   print(refused)\n",
        workspace().join("tests/tests/hostile_control"),
        control.socket
    );
    let output = std::process::Command::new("python3").args(["-c", &script]).output().expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

// Attack: identity and names: another user's packets taken by a filter
#[test]
fn another_users_packets_are_not_to_be_taken() {
    scenario(|| {
        let control = Control::generous();
        let (victim, mut seen) = card(&control, 3, &["udp/7"]);
        assert_eq!(takes(&control, 0), "taken\n", "one's own may be");
        eventually("a dead client's card goes", PATIENCE, || control.vnics().len() <= 1);
        assert!(takes(&control, 65_534).contains("another user's"), "another's not");
        let (sender, mut out) = card(&control, 2, &["udp"]);
        send(&mut out, &[datagram(&sender, 2, victim.status().mac, 3, 1, 5)]);
        assert_eq!(arrivals(&mut seen).len(), 1);
    });
}

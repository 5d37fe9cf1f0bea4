//! Faults of links and neighbours.

use super::fault::promises::{all_end, all_go_on, on_cards_go_on, on_wires_go_on};
use super::fault::{Fault, Heal, service};
use super::kinds::{Promise, Station};
use super::machine::Machine;
use super::scene::Scene;
use super::{PATIENCE, kinds::Kind};
use qanat_tests::e2e::{Program, eventually, workspace};
use qanat_tests::random::Random;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A veth device between the street and the town.
pub struct Wire {
    street: Arc<Machine>,
    town: Arc<Machine>,
    number: usize,
}

impl Wire {
    /// `near3` with 10.78.3.1 on the street, `far3` with 10.78.3.2 in town.
    pub fn lay(scene: &Scene, number: usize) -> Wire {
        let wire = Wire { street: Arc::clone(&scene.street), town: Arc::clone(&scene.town), number };
        wire.make();
        wire
    }

    pub fn near(&self) -> String {
        format!("near{}", self.number)
    }

    pub fn far(&self) -> String {
        format!("far{}", self.number)
    }

    fn make(&self) {
        let (near, far, number) = (self.near(), self.far(), self.number);
        self.street.succeeds(&format!("ip link add {near} type veth peer name {far} netns {}", self.town.id()));
        self.street.succeeds(&format!("ip address add 10.78.{number}.1/24 dev {near}"));
        self.street.succeeds(&format!("ip link set {near} up"));
        self.address_far();
    }

    fn address_far(&self) {
        self.town.succeeds(&format!("ip address add 10.78.{}.2/24 dev {}", self.number, self.far()));
        self.town.succeeds(&format!("ip link set {} up", self.far()));
    }
}

/// The kernel's end of what a service is on: who asks it is behind that.
struct Peer<'a> {
    machine: &'a Machine,
    name: String,
    /// With the prefix, as `ip address` takes it.
    address: String,
    /// The service's.
    service: String,
}

fn peer<'a>(scene: &'a Scene, station: &'a Station) -> Peer<'a> {
    let service = station.kind.address();
    match (&station.wire, scene.house(station)) {
        (Some(wire), _) => {
            Peer { machine: &scene.town, name: wire.far(), address: format!("10.78.{}.2/24", wire.number), service }
        }
        (None, Some(house)) => {
            let mut name = None;
            eventually("a card's interface", PATIENCE, || {
                name = house.machine.way_to(&service);
                name.is_some()
            });
            let address = format!("10.77.0.1 peer {service}/32");
            Peer { machine: &house.machine, name: name.unwrap_or_default(), address, service }
        }
        (None, None) => unreachable!("a service without a link"),
    }
}

impl Peer<'_> {
    /// With `@` for the interface. Whether it was done.
    fn try_to(&self, line: &str) -> bool {
        self.machine.run(&line.replace('@', &self.name)).code == Some(0)
    }

    fn hardware(&self) -> String {
        hardware(self.machine, &self.name)
    }
}

fn hardware(machine: &Machine, name: &str) -> String {
    let text = machine.run(&format!("ip -j link show {name}")).text();
    let links: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    links.first().and_then(|link| link["address"].as_str()).unwrap_or_default().to_owned()
}

/// One command at the peer, and another that takes it back.
fn at_peer<'a>(scene: &'a Scene, station: &'a Station, apply: &str, heal: &'static str) -> Option<Heal<'a>> {
    let peer = peer(scene, station);
    let with =
        move |line: &str, peer: &Peer<'_>| line.replace("ADDRESS", &peer.address).replace("SERVICE", &peer.service);
    let is_done = peer.try_to(&with(apply, &peer));
    is_done.then(|| -> Heal<'a> { Box::new(move || _ = peer.try_to(&with(heal, &peer))) })
}

/// The same at the service's own end of a wire.
fn at_own<'a>(station: &'a Station, apply: &str, heal: &str) -> Option<Heal<'a>> {
    let wire = station.wire.as_ref()?;
    let (apply, heal) = (apply.replace('@', &wire.near()), heal.replace('@', &wire.near()));
    let is_done = wire.street.run(&apply).code == Some(0);
    is_done.then(|| -> Heal<'a> { Box::new(move || _ = wire.street.run(&heal)) })
}

fn any_hardware(random: &mut Random) -> String {
    let bytes = random.draw().to_be_bytes();
    format!("02:00:00:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2])
}

fn peer_down<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, "ip link set @ down", "ip link set @ up")
}

fn own_down<'a>(_: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_own(station, "ip link set @ down", "ip link set @ up")
}

fn peer_hardware<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let peer = peer(scene, station);
    let before = peer.hardware();
    peer.try_to(&format!("ip link set @ address {}", any_hardware(random)));
    // It stays so in half of the cases.
    let stays = random.below(2) == 0;
    Some(Box::new(move || {
        if !stays {
            peer.try_to(&format!("ip link set @ address {before}"));
        }
    }))
}

fn own_hardware<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let wire = station.wire.as_ref()?;
    let heal = format!("ip link set @ address {}", hardware(&wire.street, &wire.near()));
    at_own(station, &format!("ip link set @ address {}", any_hardware(random)), &heal)
}

fn peer_mtu<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, &format!("ip link set @ mtu {}", 600 + random.below(850)), "ip link set @ mtu 1500")
}

fn own_mtu<'a>(_: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    at_own(station, &format!("ip link set @ mtu {}", 600 + random.below(850)), "ip link set @ mtu 1500")
}

fn queues<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, "ethtool -L @ rx 2", "ethtool -L @ rx 1")
}

fn offloads<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, "ethtool -K @ tx off gro on", "ethtool -K @ tx on gro off")
}

/// `link.c`, compiled.
pub fn compile(directory: &Path) -> PathBuf {
    let object = directory.join("link.o");
    Program::new("clang")
        .arguments(["-O2", "-g", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu", "-c"])
        .arguments([workspace().join("tests/tests/faults/link.c"), "-o".into(), object.clone()])
        .succeeds();
    object
}

fn program<'a>(scene: &'a Scene, station: &'a Station, section: &str) -> Option<Heal<'a>> {
    let object = scene.tools.programs.display();
    at_peer(scene, station, &format!("ip link set @ xdp object {object} section {section}"), "ip link set @ xdp off")
}

fn program_passes<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    program(scene, station, "xdp/pass")
}

fn program_drops<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    program(scene, station, "xdp/drop")
}

/// Somebody takes the fence away; the daemon puts it back.
fn gate_off<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, "ip link set @ xdp off", "true")
}

fn loss<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    let peer = peer(scene, station);
    let (object, filter) = (scene.tools.programs.display(), "bpf direct-action object-file");
    let is_done = peer.try_to("tc qdisc add dev @ clsact")
        && peer.try_to(&format!("tc filter add dev @ egress {filter} {object} section tc/lose"))
        && peer.try_to(&format!("tc filter add dev @ ingress {filter} {object} section tc/lose"));
    let heal: Heal<'a> = Box::new(move || _ = peer.try_to("tc qdisc delete dev @ clsact"));
    if is_done {
        return Some(heal);
    }
    heal();
    None
}

fn slow<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    let apply = "tc qdisc add dev @ root tbf rate 2mbit burst 8k latency 5ms";
    at_peer(scene, station, apply, "tc qdisc delete dev @ root")
}

/// The peer's end goes to another namespace, and comes back. On its way back it has a name of its own: its card may have ended meanwhile,
/// and the daemon gives the old name to the next card, which is not to get this one's address.
fn moved<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    let peer = peer(scene, station);
    let is_done = peer.try_to(&format!("ip link set @ netns {}", scene.elsewhere.id()));
    is_done.then(|| -> Heal<'a> {
        Box::new(move || {
            let Peer { name, address, .. } = &peer;
            let own = format!("moved{}", station.kind.number());
            let elsewhere = |line: &str| scene.elsewhere.run(line).code == Some(0);
            // A card may be gone with its service by now.
            if elsewhere(&format!("ip link set {name} name {own}"))
                && elsewhere(&format!("ip link set {own} netns {}", peer.machine.id()))
                && peer.try_to(&format!("ip address add {address} dev {own}"))
                && peer.try_to(&format!("ip link set {own} name @"))
            {
                peer.try_to("ip link set @ up");
            } else {
                peer.try_to(&format!("ip link delete {own}"));
            }
        })
    })
}

/// The same, and meanwhile another interface has got its number.
fn renumbered<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let there = peer(scene, station);
    let text = there.machine.run(&format!("ip -j link show {}", there.name)).text();
    let links: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    let number = links.first()?["ifindex"].as_u64()?;
    let heal = moved(scene, station, random)?;
    let name = format!("taken{}", station.kind.number());
    there.try_to(&format!("ip link add {name} index {number} type veth peer name {name}b"));
    Some(Box::new(move || {
        heal();
        there.try_to(&format!("ip link delete {name}"));
    }))
}

fn deleted<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let peer = peer(scene, station);
    match (&station.wire, random.below(2)) {
        (Some(wire), 0) => _ = wire.street.run(&format!("ip link delete {}", wire.near())),
        _ => _ = peer.try_to("ip link delete @"),
    }
    Some(Box::new(|| station.wire.iter().for_each(Wire::make)))
}

fn neighbours_flushed<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, "ip neighbour flush dev @", "true")
}

fn neighbour_failed<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, "ip neighbour replace SERVICE dev @ nud failed", "true")
}

fn neighbour_wrong<'a>(scene: &'a Scene, station: &'a Station, random: &mut Random) -> Option<Heal<'a>> {
    let apply = format!("ip neighbour replace SERVICE lladdr {} nud permanent dev @", any_hardware(random));
    at_peer(scene, station, &apply, "ip neighbour delete SERVICE dev @")
}

fn address_off<'a>(scene: &'a Scene, station: &'a Station, _: &mut Random) -> Option<Heal<'a>> {
    at_peer(scene, station, "ip address delete ADDRESS dev @", "ip address add ADDRESS dev @")
}

fn moving(kind: Kind) -> Option<Promise> {
    Some(if kind.is_on_card() { Promise::GoesOnOrEnds } else { Promise::GoesOn })
}

pub const FAULTS: &[Fault] = &[
    service("links", "the peer's link is down", all_go_on, peer_down),
    service("links", "its own link is down", on_wires_go_on, own_down),
    service("links", "the peer's Ethernet address changes", all_go_on, peer_hardware),
    service("links", "its own Ethernet address changes", on_wires_go_on, own_hardware),
    service("links", "the peer's MTU shrinks", all_go_on, peer_mtu),
    service("links", "its own MTU shrinks", on_wires_go_on, own_mtu),
    service("links", "the peer has more queues", all_go_on, queues),
    service("links", "the peer's offloads change", all_go_on, offloads),
    service("links", "an XDP program comes to the peer", on_wires_go_on, program_passes),
    service("links", "an XDP program at the peer drops everything", on_wires_go_on, program_drops),
    service("links", "the gate is taken off a card", on_cards_go_on, gate_off),
    service("links", "a quarter of all packets is lost", all_go_on, loss),
    service("links", "the peer sends slowly", all_go_on, slow),
    service("links", "the peer's end is elsewhere for a while", moving, moved),
    service("links", "the peer's end comes back under another number", moving, renumbered),
    service("links", "the interface is deleted", all_end, deleted),
    service("links", "the peer's neighbours are flushed", all_go_on, neighbours_flushed),
    service("links", "the peer's neighbour has failed", all_go_on, neighbour_failed),
    service("links", "the peer has a wrong neighbour for good", all_go_on, neighbour_wrong),
    service("links", "the peer's address is taken off", all_go_on, address_off),
];

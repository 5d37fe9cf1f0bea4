//! On other people's Ethernet: VLANs, router advertisements, duplicate addresses, switches that snoop.

use qanat_tests::e2e::{Pages, Program, Server, Wire, eventually, qanat, scenario, workspace};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::net::{Ipv6Addr, SocketAddrV6};
use std::path::PathBuf;
use std::time::Duration;

fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    Program::new(words.next().unwrap_or_default()).arguments(words).succeeds().text()
}

/// What `curl` gets of `url`, if it does within so many seconds.
fn curl(url: &str, patience_s: &str) -> Option<Vec<u8>> {
    let outcome = Program::new("curl").arguments(["-gsS", "--max-time", patience_s, url]).run();
    (outcome.code == Some(0)).then_some(outcome.stdout)
}

/// `tag.c` for VLAN `identifier`, compiled.
fn tagger(pages: &Pages, identifier: u16) -> PathBuf {
    let source = workspace().join("tests/tests/e2e_system/tag.c");
    let object = PathBuf::from(pages.argument()).with_extension(format!("vlan{identifier}.o"));
    Program::new("clang")
        .arguments(["-O2", "-g", "-target", "bpf", "-I/usr/include/x86_64-linux-gnu", "-c"])
        .arguments([source.as_os_str(), "-o".as_ref(), object.as_os_str()])
        .arguments([format!("-DIDENTIFIER={identifier}")])
        .succeeds();
    object
}

/// Makes everything the kernel sends and receives by `e2e-far` be in a VLAN, as an interface `e2e-far.5` over it would;
/// such interfaces are not in every kernel.
fn tag(object: &std::path::Path) {
    // Sees to it that there is none from before.
    let _ = Program::new("tc").arguments(["qdisc", "delete", "dev", "e2e-far", "clsact"]).run();
    run("tc qdisc add dev e2e-far clsact");
    let object = object.display();
    run(&format!("tc filter add dev e2e-far egress bpf direct-action object-file {object} section tc/push"));
    run(&format!("tc filter add dev e2e-far ingress bpf direct-action object-file {object} section tc/pop"));
}

#[test]
fn a_server_in_a_vlan() {
    scenario(|| {
        let wire = Wire::new();
        let content = Pages::pattern(200_000);
        let pages = Pages::new().with("data", &content).with("index.html", "index");
        let address = ["--address", "10.78.9.7/24", "--also", "fd09::7/64", "--dad", "off"];
        let arguments = [pages.argument(), "--interface", Wire::NEAR, "--vlan", "5"];
        let server = Server::start(&[&arguments[..], &address].concat());
        let (five, six) = (tagger(&pages, 5), tagger(&pages, 6));
        wire.far(|| {
            run("ip address add fd09::2/64 dev e2e-far nodad");
            // Or the tag would be beside the frame, where the XDP program of a veth doesn't see it.
            run("ethtool -K e2e-far txvlan off");
            let url = "http://10.78.9.7/data";
            assert_eq!(curl(url, "1"), None, "untagged");
            tag(&five);
            assert!(curl(url, "10").is_some_and(|body| body == content), "in its VLAN");
            assert!(curl("http://[fd09::7]/data", "10").is_some_and(|body| body == content), "by IPv6 too");
            tag(&six);
            assert_eq!(curl(url, "1"), None, "in another");
        });
        // Untagged, the kernel has its own traffic as before.
        wire.far(|| {
            run("tc qdisc delete dev e2e-far clsact");
            run(&format!("ping -c 1 -W 2 {}", Wire::NEAR_ADDRESS));
            let load = ["load", "http", "http://10.78.9.7/", "-c", "4", "-d", "500ms", "--warm-up", "100ms"];
            let vlan = ["--interface", "e2e-far", "--vlan", "5", "--source", "10.78.9.9", "--json"];
            let outcome = Program::new(qanat()).arguments(load).arguments(vlan).succeeds().text();
            let report: serde_json::Value =
                serde_json::from_str(outcome.lines().last().unwrap_or_default()).expect("a report");
            assert!(report["requests"].as_u64() > Some(0), "{report}");
        });
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        let outcome = Program::new(qanat()).arguments(["web", pages.argument(), "--vlan", "5"]).run();
        assert!(outcome.code == Some(2) && outcome.stderr.contains("--interface"), "{outcome:?}");
    });
}

/// Advertises a router and a prefix on `interface`, as `radvd` does.
fn advertise(interface: &str, prefix: Ipv6Addr) {
    let links: serde_json::Value =
        serde_json::from_str(&run(&format!("ip -j link show dev {interface}"))).expect("its description");
    let index = links[0]["ifindex"].as_u64().and_then(|index| u32::try_from(index).ok()).expect("its index");
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).expect("a raw socket");
    socket.set_multicast_if_v6(index).expect("its interface");
    socket.set_multicast_hops_v6(255).expect("its hop limit");
    socket.set_multicast_loop_v6(false).expect("no copy of it");
    // Router lifetime 1,800 s; a prefix of 64 bits, on-link and for autoconfiguration, for an hour.
    let mut message = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x0e, 0x10, 0, 0, 0, 0]);
    message.extend(prefix.octets());
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    socket.send_to(&message, &SockAddr::from(SocketAddrV6::new(all_nodes, 0, 0, index))).expect("sending");
}

#[test]
fn an_address_by_router_advertisement() {
    scenario(|| {
        let wire = Wire::new();
        let pages = Pages::new().with("index.html", "index");
        let arguments = [pages.argument(), "--interface", Wire::NEAR, "--address", "10.78.9.7/24", "--ipv6", "auto"];
        let mut server = Server::start(&arguments);
        let prefix: Ipv6Addr = "2001:db8:77::".parse().expect("a prefix");
        wire.far(|| {
            assert_eq!(curl("http://10.78.9.7/", "5").as_deref(), Some(b"index".as_slice()), "IPv4 doesn't wait");
            // Once its kernel may use its link-local address.
            eventually("the router is ready", Duration::from_secs(10), || {
                !run("ip -6 address show dev e2e-far scope link -tentative").is_empty()
            });
            advertise("e2e-far", prefix);
        });
        let is_of_prefix = |line: &serde_json::Value| {
            let address: Option<Ipv6Addr> = line["address"].as_str().and_then(|text| text.parse().ok());
            line["state"] == "usable"
                && address.is_some_and(|address| address.to_bits() >> 64 == prefix.to_bits() >> 64)
        };
        let line = server.said("address", Duration::from_secs(10), is_of_prefix);
        let address = line["address"].as_str().unwrap_or_default().to_owned();
        wire.far(|| {
            run("ip address add 2001:db8:77::2/64 dev e2e-far nodad");
            assert_eq!(curl(&format!("http://[{address}]/"), "10").as_deref(), Some(b"index".as_slice()));
            let neighbours = run("ip -6 neighbour show dev e2e-far");
            assert!(neighbours.contains(&address), "{neighbours}");
        });
        // The kernel had the advertisement too.
        let kernel = run(&format!("ip -6 address show dev {} scope global", Wire::NEAR));
        assert!(kernel.contains("2001:db8:77:") && !kernel.contains(&address), "{kernel}");
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
    });
}

#[test]
fn an_address_that_somebody_has() {
    scenario(|| {
        let wire = Wire::new();
        wire.far(|| run("ip address add fd09::5/64 dev e2e-far nodad"));
        let pages = Pages::new().with("index.html", "index");
        let addresses = ["--address", "10.78.9.7/24", "--also", "fd09::5/64", "--also", "fd09::7/64"];
        let mut server = Server::start(&[&[pages.argument(), "--interface", Wire::NEAR], &addresses[..]].concat());
        let theirs = |line: &serde_json::Value| line["address"] == "fd09::5" && line["state"] == "duplicate";
        server.said("address", Duration::from_secs(10), theirs);
        wire.far(|| {
            assert_eq!(curl("http://10.78.9.7/", "5").as_deref(), Some(b"index".as_slice()));
            let ours = "http://[fd09::7]/";
            eventually("ours is usable", Duration::from_secs(5), || curl(ours, "2").is_some());
            // And the other way round: Linux puts ours on trial, and is told.
            run("ip address add fd09::7/64 dev e2e-far");
            eventually("Linux finds it taken", Duration::from_secs(10), || {
                run("ip -6 address show dev e2e-far dadfailed").contains("fd09::7")
            });
            run("ip address delete fd09::7/64 dev e2e-far");
            assert_eq!(curl(ours, "5").as_deref(), Some(b"index".as_slice()));
        });
        assert_eq!(server.stop().code, Some(0));
    });
}

#[test]
fn a_switch_that_snoops_learns_our_groups() {
    scenario(|| {
        let wire = Wire::new();
        wire.far(|| {
            run("ip link add e2e-bridge type bridge mcast_snooping 1 mcast_querier 1 mcast_mld_version 2");
            run("ip link set e2e-far master e2e-bridge");
            run("ip link set e2e-bridge up");
            run("ip address add fd09::2/64 dev e2e-bridge nodad");
        });
        let pages = Pages::new().with("index.html", "index");
        let addresses = ["--address", "10.78.9.7/24", "--also", "fd09::a:b:c/64"];
        let server = Server::start(&[&[pages.argument(), "--interface", Wire::NEAR], &addresses[..]].concat());
        wire.far(|| {
            // The solicited-node group of fd09::a:b:c.
            eventually("the bridge knows the group", Duration::from_secs(10), || {
                run("bridge mdb show dev e2e-bridge").contains("ff02::1:ff0b:c")
            });
            eventually("it is reachable", Duration::from_secs(10), || curl("http://[fd09::a:b:c]/", "2").is_some());
        });
        assert_eq!(server.stop().code, Some(0));
    });
}

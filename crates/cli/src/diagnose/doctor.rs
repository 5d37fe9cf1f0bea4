//! `qanat doctor`: what of this machine stands in the way, and what to do about it.

use crate::columns::fitted;
use crate::daemon::DaemonArguments;
use crate::say::sayln;
use clap::Args;
use qanat_control::client::{ClientError, Session};
use qanat_control::protocol::{Provider, Status, VnicStatus};
use qanat_daemon::policy::Policy;
use qanat_daemon::policy::usual_disk_records;
use qanat_daemon::{is_left_program, left_partitions, leftovers};
use qanat_export::place::mounted;
use qanat_export::probe::{Health, probe};
use qanat_nic::foreign::refuse_rights;
use qanat_nic::link::{self, Link};
use qanat_nic::privilege;
use qanat_nic::vfio::Sysfs;
use serde_json::json;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The oldest kernel with all that is used.
const KERNEL_MIN: (u32, u32) = (6, 6);
/// So often is a daemon asked that hangs up, and so long does it take between two tries.
const TRIES: usize = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);
/// So long may an export take to answer.
const EXPORT_PATIENCE: Duration = Duration::from_secs(2);
/// This program, in whatever place it is.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Check what Qanat needs of this machine: kernel, privileges, memory, cards, offloads, leftovers
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat doctor                  what is wrong, and what to do about it
  sudo qanat doctor --fix       and does it
  qanat doctor --json           for programs
Exit code 1: something is wrong that stops it from working.")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// Do what can be done about it
    #[arg(long)]
    fix: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grade {
    Good,
    Note,
    Wrong,
}

struct Finding {
    grade: Grade,
    what: String,
    remedy: String,
    /// A command that is the remedy.
    fix: Option<Vec<String>>,
}

fn good(what: impl Into<String>) -> Finding {
    Finding { grade: Grade::Good, what: what.into(), remedy: String::new(), fix: None }
}

fn bad(grade: Grade, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { grade, what: what.into(), remedy: remedy.into(), fix: None }
}

impl Finding {
    fn fixed_by(self, command: &[&str]) -> Finding {
        Finding { fix: Some(command.iter().map(|word| (*word).to_owned()).collect()), ..self }
    }
}

/// Looks at everything, fixes what it may, and reports.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let mut findings = vec![kernel(), descriptors(), bpf_setting(), bpf_files(), memory_lock(), group()];
    findings.extend(capabilities());
    findings.push(daemon(&arguments.daemon));
    findings.extend(cards(&arguments.daemon));
    findings.extend(functions(&arguments.daemon));
    findings.extend(partitions(&arguments.daemon));
    findings.extend(exports());
    let mut wrong = 0;
    for finding in &mut findings {
        if arguments.fix
            && let Some(command) = finding.fix.clone()
        {
            apply(finding, &command);
        }
        wrong += u32::from(finding.grade == Grade::Wrong);
    }
    if arguments.json {
        let name = |grade| match grade {
            Grade::Good => "good",
            Grade::Note => "note",
            Grade::Wrong => "wrong",
        };
        let list: Vec<_> = findings
            .iter()
            .map(|finding| json!({"grade": name(finding.grade), "finding": finding.what, "remedy": finding.remedy}))
            .collect();
        sayln!("{}", json!(list));
    } else {
        for finding in &findings {
            let mark = match finding.grade {
                Grade::Good => "ok   ",
                Grade::Note => "note ",
                Grade::Wrong => "WRONG",
            };
            sayln!("{}", fitted(&format!("{mark} {}", finding.what)));
            if !finding.remedy.is_empty() {
                sayln!("{}", fitted(&format!("      → {}", finding.remedy)));
            }
        }
    }
    match wrong {
        0 => Ok(()),
        1 => Err("1 thing stands in the way".to_owned()),
        _ => Err(format!("{wrong} things stand in the way")),
    }
}

fn apply(finding: &mut Finding, command: &[String]) {
    let Some((program, arguments)) = command.split_first() else { return };
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => {
            finding.grade = Grade::Good;
            let shown = command.join(" ").replacen(THIS_PROGRAM, "qanat", 1);
            finding.what.push_str(&format!(" (fixed: {shown})"));
            finding.remedy.clear();
        }
        Ok(output) => {
            finding.remedy.push_str(&format!(" (failed: {})", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Err(error) => finding.remedy.push_str(&format!(" (failed: {program}: {error})")),
    }
}

/// Directories that services export. What nobody answers is in the way of whoever looks there.
fn exports() -> Vec<Finding> {
    let finding = |path: &Path| {
        let text = path.display().to_string();
        let left = |what: &str, words: &[&str]| {
            let command = [&["umount"], words, &[text.as_str()]].concat();
            bad(Grade::Note, format!("export {text}: {what}"), command.join(" ")).fixed_by(&command)
        };
        match probe(path, EXPORT_PATIENCE) {
            Health::Answers => good(format!("export {text}")),
            Health::Dead => left("left over, its service is gone", &["--lazy"]),
            Health::Silent => left("its service does not answer", &["--force", "--lazy"]),
        }
    };
    mounted().unwrap_or_default().iter().map(|path| finding(path)).collect()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease");
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (major, minor) = KERNEL_MIN;
    match version >= KERNEL_MIN {
        true => good(format!("kernel {release}")),
        false => bad(Grade::Wrong, format!("kernel {release}"), format!("Linux {major}.{minor} or newer is needed")),
    }
}

fn descriptors() -> Finding {
    let refuses = UnixStream::pair().is_ok_and(|(socket, _)| refuse_rights(socket.as_fd()).is_ok());
    match refuses {
        true => good("sockets can refuse descriptors"),
        false => bad(
            Grade::Note,
            "sockets can't refuse descriptors: a service can make its net core wait, and with it that net core's others",
            "Linux 6.16 or newer, if services of several users share net cores",
        ),
    }
}

fn bpf_setting() -> Finding {
    match read("/proc/sys/net/core/bpf_jit_enable").as_str() {
        "0" => bad(Grade::Note, "BPF programs are interpreted", "sysctl -w net.core.bpf_jit_enable=1").fixed_by(&[
            "sysctl",
            "-w",
            "net.core.bpf_jit_enable=1",
        ]),
        "" => bad(
            Grade::Note,
            "whether BPF programs are compiled can't be seen",
            if rustix::process::geteuid().is_root() {
                "mount -t proc proc /proc, in the machine's own namespaces"
            } else {
                "run with sudo"
            },
        ),
        _ => good("BPF programs are compiled to machine code"),
    }
}

/// A daemon that takes cards back puts its programs over the tables of the last one. The kernel passes these on by names in
/// a file system. A daemon makes one of its own if it has to, but not under the unit's restrictions.
fn bpf_files() -> Finding {
    let is_there = |line: &str| line.split(' ').nth(1) == Some("/sys/fs/bpf") && line.split(' ').nth(2) == Some("bpf");
    match read("/proc/mounts").lines().any(is_there) {
        true => good("BPF file system: mounted"),
        false => bad(
            Grade::Note,
            "BPF file system: not mounted; a daemon under the unit's restrictions, which can't mount, could not take cards back",
            "mount -t bpf bpf /sys/fs/bpf",
        )
        .fixed_by(&["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"]),
    }
}

fn memory_lock() -> Finding {
    let limits = read("/proc/self/limits");
    let line = limits.lines().find(|line| line.starts_with("Max locked memory")).unwrap_or_default();
    let soft = line.split_whitespace().nth(3).unwrap_or_default();
    let enough = soft == "unlimited" || soft.parse::<u64>().is_ok_and(|bytes| bytes >= 128 << 20);
    let has_lock_capability = capability_bits() >> 14 & 1 == 1;
    match enough || has_lock_capability {
        true => good("locked memory: as much as is needed"),
        false => bad(
            Grade::Note,
            format!("locked memory: {soft} bytes"),
            "no matter behind the daemon, which registers memory itself; else `ulimit -l unlimited`",
        ),
    }
}

fn capability_bits() -> u64 {
    let status = read("/proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(line.trim(), 16).unwrap_or(0)
}

fn capabilities() -> Vec<Finding> {
    let bits = capability_bits();
    let missing: Vec<&str> =
        privilege::NEEDED.iter().filter(|(_, bit)| bits >> bit & 1 == 0).map(|(name, _)| *name).collect();
    match missing.len() {
        0 => vec![good("privileges: enough for the daemon and for --direct")],
        missing if missing == privilege::NEEDED.len() && !rustix::process::geteuid().is_root() => {
            vec![good("privileges: none, as behind the daemon")]
        }
        _ => {
            vec![bad(Grade::Note, format!("privileges: no CAP_{}", missing.join(", CAP_")), privilege::remedy())]
        }
    }
}

fn group() -> Finding {
    match Policy::default().socket_group() {
        Ok(Some(_)) => good("group qanat: there"),
        Err(why) => bad(Grade::Wrong, why, "look at /etc/nsswitch.conf and the services it names"),
        Ok(None) => bad(Grade::Note, "no group qanat: only root can ask the daemon", "groupadd --system qanat")
            .fixed_by(&["groupadd", "--system", "qanat"]),
    }
}

/// What the daemon says of itself. A daemon that is just being killed still lets a client connect and then hangs up; it is asked
/// again until it is gone.
fn ask(path: &Path) -> Result<Status, ClientError> {
    let again = |last: &Result<Status, ClientError>| matches!(last, Err(ClientError::Fault(_)));
    let once = || Session::connect(path).and_then(|session| session.status());
    let mut told = once();
    for _ in 1..TRIES {
        if !again(&told) {
            break;
        }
        std::thread::sleep(BETWEEN_TRIES);
        told = once();
    }
    told
}

fn daemon(arguments: &DaemonArguments) -> Finding {
    let path = arguments.path();
    match ask(&path) {
        Ok(status) => good(format!("control plane {}: {} cards", status.daemon, status.vnics.len())),
        Err(ClientError::Unreachable(_, error)) if error.kind() == std::io::ErrorKind::PermissionDenied => bad(
            Grade::Wrong,
            format!("control plane at {}: this user may not ask", path.display()),
            "usermod -aG qanat USER, then log in anew",
        ),
        Err(ClientError::Unreachable(..)) if leftovers(&path).is_some() => crashed(&path),
        Err(ClientError::Unreachable(..)) if path.exists() => {
            let text = path.display().to_string();
            bad(Grade::Wrong, format!("{text}: left over, nobody listens"), format!("rm {text}, then sudo qanat up"))
                .fixed_by(&["rm", "--", &text])
        }
        Err(ClientError::Unreachable(..)) => bad(Grade::Note, "no control plane", "sudo qanat up"),
        Err(error) => bad(Grade::Wrong, format!("control plane: {error}"), "qanat down, then sudo qanat up"),
    }
}

/// What a daemon left that did not end by itself.
fn crashed(path: &Path) -> Finding {
    let left = leftovers(path).unwrap_or_default();
    let in_use: Vec<&str> = left.iter().filter(|card| card.in_use).map(|card| card.interface.as_str()).collect();
    let socket = path.display().to_string();
    let what = format!("control plane at {socket}: crashed, {} cards left, {} in use", left.len(), in_use.len());
    match in_use.is_empty() {
        // Nobody would miss them.
        true => bad(Grade::Wrong, what, "sudo qanat up, or sudo qanat down").fixed_by(&[
            THIS_PROGRAM,
            "down",
            "--socket",
            &socket,
        ]),
        false => bad(
            Grade::Wrong,
            format!("{what} ({})", in_use.join(", ")),
            "sudo qanat up takes them back; sudo qanat down ends them",
        ),
    }
}

fn cards(arguments: &DaemonArguments) -> Vec<Finding> {
    let Ok(links) = link::links() else {
        return vec![bad(Grade::Wrong, "interfaces can't be listed", "is this a Linux with netlink?")];
    };
    let status = ask(&arguments.path());
    // Only root is told of all.
    let known: Option<Known> = status.ok().filter(|_| rustix::process::geteuid().is_root()).map(|status| {
        let is_queue = |vnic: &&VnicStatus| matches!(vnic.provider, Provider::Queue { .. });
        Known {
            nics: status.vnics.iter().filter(is_queue).map(|vnic| vnic.interface.clone()).collect(),
            cards: status.vnics.iter().filter(|vnic| !is_queue(vnic)).cloned().collect(),
            uplink: status.uplink,
        }
    });
    links.iter().filter(|link| link.name != "lo").map(|link| card(link, known.as_ref())).collect()
}

/// Virtual functions that a daemon which has ended left, or that are somebody's: what makes and removes them is told.
fn functions(arguments: &DaemonArguments) -> Vec<Finding> {
    let sysfs = Sysfs::default();
    if ask(&arguments.path()).is_ok() {
        return Vec::new();
    }
    let found = link::links().unwrap_or_default().into_iter().filter_map(|link| {
        let parent = sysfs.of_interface(&link.name)?;
        let count = sysfs.functions(parent);
        let is_ours = |number| {
            let function = sysfs.virtual_function(parent, number)?;
            (sysfs.driver(function).as_deref() == Some("vfio-pci")).then_some(())
        };
        let are_left = count > 0 && (0..count).all(|number| is_ours(number).is_some());
        let what = format!("{}: vfio-pci has its {count} virtual functions, and there is no control plane", link.name);
        let remedy = format!("if no program drives one: echo 0 > /sys/class/net/{}/device/sriov_numvfs", link.name);
        are_left.then(|| bad(Grade::Note, what, remedy))
    });
    found.collect()
}

/// Partitions of fenced areas that a daemon which has ended left.
fn partitions(arguments: &DaemonArguments) -> Vec<Finding> {
    let path = arguments.path();
    if ask(&path).is_ok() {
        return Vec::new();
    }
    let left = left_partitions(&usual_disk_records(&path)).into_iter().map(|left| {
        let device = left.path.display().to_string();
        let what =
            format!("disk {} ({device}): partitions left: {}, and there is no control plane", left.disk, left.count);
        let remedy = format!("sudo qanat up removes those that nobody uses, or partx --delete {device}");
        bad(Grade::Wrong, what, remedy).fixed_by(&["partx", "--delete", &device])
    });
    left.collect()
}

/// Interfaces the control plane has to do with.
struct Known {
    cards: Vec<VnicStatus>,
    /// Of which cards have queues.
    nics: Vec<String>,
    uplink: Option<String>,
}

/// An address of a card that the kernel does not reach by its interface, and the kernel's address there: somebody took that away.
fn lost_way(link: &Link, known: &Known) -> Option<(String, String)> {
    let card = known.cards.iter().find(|card| card.interface == link.name && !card.shared && !card.uplink)?;
    let is_lost = |(address, _): &&(IpAddr, u8)| {
        link::route_to(*address).map_or(true, |route| route.interface_index != link.index)
    };
    let (address, _) = card.addresses.iter().find(is_lost)?;
    let gateway = card.gateways.iter().find(|gateway| gateway.is_ipv4() == address.is_ipv4())?;
    Some((address.to_string(), gateway.to_string()))
}

fn card(link: &Link, known: Option<&Known>) -> Finding {
    let name = &link.name;
    let driver = link::driver(name).unwrap_or_else(|_| "no driver".to_owned());
    let is_physical = Path::new(&format!("/sys/class/net/{name}/device")).exists();
    let ours = known.and_then(|known| {
        let uplink = || (known.uplink.as_ref() == Some(name)).then_some("the control plane's uplink");
        let nic = || known.nics.contains(name).then_some("some of its queues are cards of the control plane");
        let is_card = known.cards.iter().any(|card| card.interface == *name);
        is_card.then_some("a card of the control plane").or_else(uplink).or_else(nic)
    });
    let mut what = format!("{name}: {driver}, MTU {}, {} queues", link.mtu, link.receive_queues);
    match (link.xdp_program, ours) {
        (_, Some(ours)) if !link.is_up => bad(
            Grade::Wrong,
            format!("{what}, {ours}, down: nothing comes through"),
            format!("sudo ip link set {name} up"),
        )
        .fixed_by(&["ip", "link", "set", name, "up"]),
        (_, Some(ours)) => match known.and_then(|known| lost_way(link, known)) {
            None => good(format!("{what}, {ours}")),
            Some((address, gateway)) => bad(
                Grade::Wrong,
                format!("{what}, {ours}, and the kernel has no way to {address} by it"),
                format!("sudo ip address add {gateway} peer {address} dev {name}"),
            )
            .fixed_by(&["ip", "address", "add", &gateway, "peer", &address, "dev", name]),
        },
        // With cards left it is told of with them.
        (Some(program), None) if known.is_some() && is_left_program(program) => bad(
            Grade::Note,
            format!("{what}, XDP program {program} of a control plane that is no more"),
            format!("ip link set {name} xdp off"),
        )
        .fixed_by(&["ip", "link", "set", name, "xdp", "off"]),
        (Some(program), None) if name.starts_with("qanat") && known.is_some() => bad(
            Grade::Note,
            format!("{what}, XDP program {program}, and no control plane that knows it"),
            format!("if no server uses it: ip link delete {name}"),
        )
        .fixed_by(&["ip", "link", "delete", name]),
        (Some(program), None) if !name.starts_with("qanat") => bad(
            Grade::Note,
            format!("{what}, occupied by XDP program {program}"),
            format!("`bpftool prog show id {program}` says whose; `ip link set {name} xdp off` removes it"),
        ),
        _ if !link.is_up => bad(Grade::Note, format!("{what}, down"), format!("ip link set {name} up")),
        _ => {
            if is_physical {
                what.push_str(", physical");
            }
            good(what)
        }
    }
}

//! The fence's tables, written by the daemon alone. Layouts: twin of `bpf/gate.c`.

use crate::filter::{Direction, Filter, Rate};
use crate::protocol::Count;
use aya::maps::{Array, DevMap, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues, XskMap};
use aya::programs::{ProgramFd, TestRun, TestRunOptions, Xdp};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader};
use std::fmt::Display;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// VNICs at most.
pub const VNICS_MAX: u32 = 256;
/// Queues of a VNIC at most.
pub const QUEUES_MAX: u32 = 16;
/// Filters of a VNIC and direction at most.
pub const VNIC_FILTERS_MAX: usize = 1_024;
const FILTERS_MAX: usize = 16_384;
const LIMITS_MAX: u32 = 1_024;
/// Rows of limits: none, then two per VNIC, then two per owner.
const OWNER_LIMITS: u32 = 1 + 2 * VNICS_MAX;
/// Owners with a ceiling at most.
pub const OWNERS_MAX: u32 = (LIMITS_MAX - OWNER_LIMITS) / 2;
/// A frame costs a wire this much beyond its bytes.
const FRAME_OVERHEAD: u64 = 24;

/// Fates of a frame, by their names in listings and metrics, and whether they are drops.
pub const CAUSES: [(&str, bool); 22] = [
    ("passed_to_kernel", false),
    ("switched", false),
    ("delivered", false),
    ("no_vnic", true),
    ("too_short", true),
    ("source_mac", true),
    ("vlan_tag", true),
    ("ethertype", true),
    ("arp_forged", true),
    ("nd_forged", true),
    ("source_address", true),
    ("fragment", true),
    ("ip_options", true),
    ("extension_header", true),
    ("icmp_type", true),
    ("no_filter", true),
    ("rate_bits", true),
    ("rate_packets", true),
    ("destination_mac", true),
    ("not_addressed", true),
    ("no_queue", true),
    ("not_switched", true),
];

/// ICMP echo and errors allowed.
pub const FLAG_ICMP: u32 = 1;
/// May reach other VNICs.
pub const FLAG_SWITCH: u32 = 2;
/// Nothing is dropped on the way out: for tests that show what the fence is good for.
pub const FLAG_UNFENCED: u32 = 4;

const XDP_DROP: u32 = 1;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gate.o"));

/// What a program made of a frame.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// It went no further.
    pub dropped: bool,
    /// Under which name it was counted; empty: under none.
    pub cause: String,
    /// How long it took, on average.
    pub duration: Duration,
}

/// A row of the table of VNICs.
#[derive(Clone, Copy, Debug, Default)]
pub struct VnicRow {
    /// Ethernet address of the application's end.
    pub mac: [u8; 6],
    /// Of the kernel's end.
    pub host_mac: [u8; 6],
    /// `FLAG_…`.
    pub flags: u32,
    /// Transmit and receive: first filter and count.
    pub filters: [(u16, u16); 2],
    /// Counts changes of filters.
    pub generation: u32,
    /// Transmit and receive: rows of limits, the VNIC's own and its owner's; 0: none.
    pub limits: [[u32; 2]; 2],
}

impl VnicRow {
    fn encode(&self) -> [u8; 48] {
        let mut row = [0; 48];
        row[..6].copy_from_slice(&self.mac);
        row[6..12].copy_from_slice(&self.host_mac);
        let range = |(first, count): (u16, u16)| u32::from(first) << 16 | u32::from(count);
        let [[one, two], [three, four]] = self.limits;
        let words =
            [self.flags, range(self.filters[0]), range(self.filters[1]), self.generation, one, two, three, four];
        for (target, word) in row[12..].chunks_exact_mut(4).zip(words) {
            target.copy_from_slice(&word.to_ne_bytes());
        }
        row
    }
}

/// The two programs and their tables. They live as long as an interface has one of them, with or without the daemon.
pub struct Tables {
    gates: HashMap<MapData, u32, u32>,
    ends: HashMap<MapData, u32, u32>,
    vnics: Array<MapData, [u8; 48]>,
    owners: HashMap<MapData, [u8; 16], u32>,
    filters: Array<MapData, [u8; 80]>,
    limits: Array<MapData, [u64; 6]>,
    counters: PerCpuArray<MapData, [u64; 2]>,
    ports: DevMap<MapData>,
    sockets: XskMap<MapData>,
    /// Rows of filters in use.
    taken: Vec<bool>,
    /// Where the next search for free rows starts: rows just freed may still be read, so they are reused last.
    cursor: usize,
    gate: ProgramFd,
    deliver: ProgramFd,
    /// Keeps the programs; gives them to tests.
    object: Ebpf,
}

impl Tables {
    /// Loads both programs.
    ///
    /// # Errors
    /// What is missing.
    pub fn load() -> Result<Tables, String> {
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| explain("load the gate", &error))?;
        let mut load = |name: &str| -> Result<ProgramFd, String> {
            let missing = || format!("the gate has no program {name}: rebuild");
            let program: &mut Xdp = object.program_mut(name).ok_or_else(missing)?.try_into().map_err(|_| missing())?;
            program.load().map_err(|error| explain("load the gate", &error))?;
            program
                .fd()
                .and_then(|fd| fd.try_clone().map_err(Into::into))
                .map_err(|error| explain("load the gate", &error))
        };
        let (gate, deliver) = (load("gate")?, load("deliver")?);
        Ok(Tables {
            gates: map(&mut object, "gates")?,
            ends: map(&mut object, "ends")?,
            vnics: map(&mut object, "vnics")?,
            owners: map(&mut object, "owners")?,
            filters: map(&mut object, "filters")?,
            limits: map(&mut object, "limits")?,
            counters: map(&mut object, "counters")?,
            ports: map(&mut object, "ports")?,
            sockets: map(&mut object, "sockets")?,
            taken: vec![false; FILTERS_MAX],
            cursor: 0,
            gate,
            deliver,
            object,
        })
    }

    /// The program of the switch's ends.
    pub fn gate(&self) -> BorrowedFd<'_> {
        self.gate.as_fd()
    }

    /// The program of the VNICs' ends.
    pub fn deliver(&self) -> BorrowedFd<'_> {
        self.deliver.as_fd()
    }

    /// Runs `gate` or `deliver` on a frame `repeat` times, as if it came from the loopback interface of the calling
    /// thread's namespace, and says what became of it. Nothing is sent. For tests and benchmarks.
    ///
    /// # Errors
    /// What the system says.
    pub fn judge(&self, slot: u32, direction: Direction, frame: &[u8], repeat: u32) -> Result<Verdict, String> {
        let name = if direction == Direction::Transmit { "gate" } else { "deliver" };
        let program: Option<&Xdp> = self.object.program(name).and_then(|program| program.try_into().ok());
        let program = program.ok_or("the program is gone")?;
        let before = self.counts(slot, direction);
        let options = TestRunOptions { data_in: Some(frame), repeat, ..TestRunOptions::new() };
        let result = program.test_run(options).map_err(|error| explain("run the gate on a frame", &error))?;
        let earlier = |cause: &str| before.iter().find(|count| count.cause == cause).map_or(0, |count| count.frames);
        let after = self.counts(slot, direction);
        let grown = after.iter().find(|count| count.frames > earlier(&count.cause));
        let cause = grown.map(|count| count.cause.clone()).unwrap_or_default();
        Ok(Verdict { dropped: result.return_value == XDP_DROP, cause, duration: result.duration })
    }

    /// Writes a VNIC's row.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_vnic(&mut self, slot: u32, row: &VnicRow) -> Result<(), String> {
        self.vnics.set(slot, row.encode(), 0).map_err(|error| explain("write a VNIC's row", &error))
    }

    /// Puts both ends of a VNIC under its number: what they see is judged from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(&mut self, slot: u32, host_index: u32, end_index: u32) -> Result<(), String> {
        let what = "connect a VNIC";
        self.gates.insert(host_index, slot, 0).map_err(|error| explain(what, &error))?;
        self.ends.insert(end_index, slot, 0).map_err(|error| explain(what, &error))
    }

    /// As `connect`, and makes it reachable from other VNICs; in the namespace of the switch's ends.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_port(&mut self, slot: u32, host_index: u32) -> Result<(), String> {
        self.ports.set(slot, host_index, None, 0).map_err(|error| explain("open a switch port", &error))
    }

    /// Forgets a VNIC: what its ends still see is dropped.
    pub fn disconnect(&mut self, slot: u32, host_index: u32, end_index: u32, addresses: &[IpAddr]) {
        // What is not there needs no removing; the devices are gone with their ports.
        let _ = self.gates.remove(&host_index);
        let _ = self.ends.remove(&end_index);
        for address in addresses {
            let _ = self.owners.remove(&key(*address));
        }
        for queue in 0..QUEUES_MAX {
            let _ = self.sockets.unset(slot * QUEUES_MAX + queue);
        }
        let _ = self.vnics.set(slot, VnicRow::default().encode(), 0);
    }

    /// Gives an address to a VNIC.
    ///
    /// # Errors
    /// What the system says.
    pub fn own(&mut self, slot: u32, address: IpAddr) -> Result<(), String> {
        self.owners.insert(key(address), slot, 0).map_err(|error| explain("give an address", &error))
    }

    /// Sends what is delivered to a queue to this socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_socket(&mut self, slot: u32, queue: u32, socket: BorrowedFd<'_>) -> Result<(), String> {
        let row = slot * QUEUES_MAX + queue;
        self.sockets.set(row, socket.as_raw_fd(), 0).map_err(|error| explain("register a queue's socket", &error))
    }

    /// Writes filters into free rows; returns the first and the count, for a [`VnicRow`].
    ///
    /// # Errors
    /// No room.
    pub fn write_filters(&mut self, filters: &[Filter]) -> Result<(u16, u16), String> {
        if filters.is_empty() {
            return Ok((0, 0));
        }
        if filters.len() > VNIC_FILTERS_MAX {
            return Err(format!("{} filters: at most {VNIC_FILTERS_MAX} of one VNIC and direction", filters.len()));
        }
        let first = self.free_rows(filters.len()).ok_or("the table of filters is full: delete some, or some VNICs")?;
        for (filter, row) in filters.iter().zip(first..) {
            if let Some(taken) = self.taken.get_mut(row) {
                *taken = true;
            }
            let written = self.filters.set(row as u32, encode(filter), 0);
            written.map_err(|error| explain("write a filter", &error))?;
        }
        self.cursor = first + filters.len();
        Ok((first as u16, filters.len() as u16))
    }

    fn free_rows(&self, count: usize) -> Option<usize> {
        let is_free = |first: &usize| self.taken.get(*first..first + count).is_some_and(|rows| !rows.contains(&true));
        (self.cursor..FILTERS_MAX).chain(0..self.cursor).find(is_free)
    }

    /// Frees the rows of filters no VNIC's row names any more.
    pub fn free_filters(&mut self, (first, count): (u16, u16)) {
        let range = usize::from(first)..usize::from(first) + usize::from(count);
        self.taken.get_mut(range).unwrap_or_default().fill(false);
    }

    /// Rows of filters in use.
    pub fn filters_in_use(&self) -> usize {
        self.taken.iter().filter(|taken| **taken).count()
    }

    /// The row of a VNIC's own limit.
    pub fn vnic_limit(slot: u32, direction: Direction) -> u32 {
        1 + 2 * slot + direction as u32
    }

    /// The row of an owner's limit.
    pub fn owner_limit(owner: u32, direction: Direction) -> u32 {
        OWNER_LIMITS + 2 * owner + direction as u32
    }

    /// Sets a limit; the bucket is full. `mtu`: a burst holds a few packets at least, or none would ever pass.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_limit(&mut self, row: u32, rate: Rate, mtu: u32) -> Result<(), String> {
        self.limits.set(row, encode_rate(rate, mtu), 0).map_err(|error| explain("set a rate", &error))
    }

    /// A VNIC's counters in one direction; those that are zero are left out.
    pub fn counts(&self, slot: u32, direction: Direction) -> Vec<Count> {
        let first = counter_row(slot, direction);
        let read = |(offset, (name, dropped)): (u32, (&str, bool))| {
            let values = self.counters.get(&(first + offset), 0).ok()?;
            let sum = |index: usize| values.iter().filter_map(|value| value.get(index)).sum::<u64>();
            let (frames, bytes) = (sum(0), sum(1));
            (frames > 0).then(|| Count { cause: name.to_owned(), dropped, frames, bytes })
        };
        (0..).zip(CAUSES).filter_map(read).collect()
    }

    /// Counts from zero again, for a VNIC that takes over the number.
    ///
    /// # Errors
    /// What the system says.
    pub fn clear_counts(&mut self, slot: u32) -> Result<(), String> {
        let processors = nr_cpus().map_err(|(what, error)| format!("{what}: {error}"))?;
        for direction in [Direction::Transmit, Direction::Receive] {
            let first = counter_row(slot, direction);
            for row in first..first + CAUSES.len() as u32 {
                let zeros = PerCpuValues::try_from(vec![[0u64; 2]; processors]).map_err(|error| error.to_string())?;
                self.counters.set(row, zeros, 0).map_err(|error| explain("clear counters", &error))?;
            }
        }
        Ok(())
    }
}

fn counter_row(slot: u32, direction: Direction) -> u32 {
    (slot * 2 + direction as u32) * CAUSES.len() as u32
}

fn key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn encode(filter: &Filter) -> [u8; 80] {
    let mut row = [0; 80];
    let ((local, local_mask), (peer, peer_mask)) = (filter.local.octets(), filter.peer.octets());
    for (target, bytes) in row.chunks_exact_mut(16).zip([local, local_mask, peer, peer_mask]) {
        target.copy_from_slice(&bytes);
    }
    let (service, peer) = (filter.service, filter.peer_ports);
    let ports = [service.ports.first, service.ports.last, peer.first, peer.last];
    for (target, port) in row[64..72].chunks_exact_mut(2).zip(ports) {
        target.copy_from_slice(&port.to_ne_bytes());
    }
    row[72] = service.protocol_first;
    row[73] = service.protocol_last;
    row
}

/// Costs and tolerances in sixteenths of a nanosecond; per byte in 16.16 fixed point.
fn encode_rate(rate: Rate, mtu: u32) -> [u64; 6] {
    const SECOND: u128 = 16_000_000_000;
    let frame = u64::from(mtu) + 14 + FRAME_OVERHEAD;
    let bounded = |value: u128| u64::try_from(value).unwrap_or(u64::MAX >> 20);
    let (mut per_byte, mut per_packet, mut bits, mut packets) = (0, 0, 0, 0);
    if rate.bits_per_s > 0 {
        per_byte = bounded(((SECOND * 8) << 16) / u128::from(rate.bits_per_s.max(1_000))).max(1);
        let burst = if rate.burst_bytes > 0 { rate.burst_bytes } else { rate.bits_per_s / 800 };
        bits = bounded((u128::from(burst.max(4 * frame)) * u128::from(per_byte)) >> 16);
    }
    if rate.packets_per_s > 0 {
        per_packet = bounded(SECOND / u128::from(rate.packets_per_s)).max(1);
        let burst = if rate.burst_packets > 0 { rate.burst_packets } else { rate.packets_per_s / 100 };
        packets = bounded(u128::from(burst.max(4)) * u128::from(per_packet));
    }
    [per_byte, per_packet, bits, packets, 0, 0]
}

fn map<T: TryFrom<Map, Error = MapError>>(object: &mut Ebpf, name: &str) -> Result<T, String> {
    let map = object.take_map(name).ok_or_else(|| format!("the gate has no table {name}: rebuild"))?;
    T::try_from(map).map_err(|error| explain("open the gate's tables", &error))
}

/// An error with its causes, and the remedy for the usual one.
fn explain(what: &str, error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = format!("{what}: {error}");
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(system) = current.downcast_ref::<std::io::Error>() {
            text = format!("{what}: {system}");
            if system.kind() == std::io::ErrorKind::PermissionDenied {
                text.push_str("; it needs root, or CAP_BPF and CAP_NET_ADMIN: run with sudo");
            }
        }
        cause = current.source();
    }
    text
}

/// For messages about anything that displays itself.
pub(super) fn say(what: &str, error: impl Display) -> String {
    format!("{what}: {error}")
}

//! The fence's tables, written by the daemon alone. Layouts: twin of `bpf/gate.c`.

use crate::error::{DaemonError, explain, say};
use crate::fence::pins::PinDirectory;
use crate::fence::rows::{FILTER_BYTES, FilterRow, VNIC_BYTES, VnicRow, encode_rate};
use aya::maps::{Array, DevMap, HashMap, Map, MapData, MapError, MapInfo, PerCpuArray, PerCpuValues, XskMap};
use aya::programs::{Program, ProgramFd, ProgramInfo, SchedClassifier, TestRun, TestRunOptions, Xdp, loaded_programs};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader, Pod};
use qanat_control::address::Address;
use qanat_control::filter::{Direction, Rate};
use qanat_control::protocol::Count;
use qanat_nic::af_xdp::load_program;
use qanat_wire::ethernet::MacAddress;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
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
/// Fates of a frame, by their names in listings and metrics, and whether they are drops.
pub const CAUSES: [(&str, bool); 27] = [
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
    ("to_uplink", false),
    ("diverted", false),
    ("mapped_address", true),
    ("icmp_quote", true),
    ("offload", true),
];

/// ICMP echo and errors allowed.
pub const FLAG_ICMP: u32 = 1;
/// May reach other VNICs.
pub const FLAG_SWITCH: u32 = 2;
/// Nothing is dropped on the way out: for tests that show what the fence is good for.
pub const FLAG_UNFENCED: u32 = 4;
/// Receives what its filters cover; else everything that is IP and has no tag.
pub const FLAG_FILTERED: u32 = 8;
/// May reach, and be reached from, the uplink.
pub const FLAG_UPLINK: u32 = 16;
/// Its addresses are the kernel's too: on the wire it goes by the uplink's Ethernet address.
pub const FLAG_SHARED: u32 = 32;
/// Has queues of a NIC's.
pub const FLAG_QUEUE: u32 = 64;
/// Its rule names peers: it asks for these and for next hops only, and sends ICMP to these only.
pub const FLAG_PEERS: u32 = 128;
/// Owner of the kernel's own addresses.
pub const KERNEL: u32 = u32::MAX;
const XDP_DROP: u32 = 1;
/// Of `bpf(BPF_MAP_UPDATE_ELEM)`: the row must not be there.
const BPF_NOEXIST: u64 = 1;
/// Programs that not every VNIC needs: a further queue's two, the uplink's, that of NICs whose queues are VNICs', and TAP devices'.
const OTHERS: [&str; 7] = ["relay", "deliver_queue", "uplink", OWN_QUEUE, TAP_GATE, TAP_DELIVER, ONWARD];
/// Tables that say nothing but what was seen: counters, and what is found out again.
const FORGETTABLE: [&str; 5] = ["counters", "flows", "datagrams", "questions", "asked"];
/// The program of NICs some of whose queues belong to VNICs.
pub const OWN_QUEUE: &str = "own_queue";
/// The classifier of what comes from TAP devices.
pub const TAP_GATE: &str = "tap_gate";
/// The classifier of what goes to TAP devices.
pub const TAP_DELIVER: &str = "tap_deliver";
/// The program of what other VNICs send to them.
const ONWARD: &str = "onward";
/// Of the ranges of filters in a VNIC's row.
const FILTERS_OFFSET: usize = 16;
pub(crate) static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gate.o"));

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

/// The programs and their tables. They live as long as an interface has one of them, with or without the daemon.
pub struct Tables {
    gates: HashMap<MapData, u32, u32>,
    ends: HashMap<MapData, u32, u32>,
    vnics: Array<MapData, [u8; VNIC_BYTES]>,
    owners: HashMap<MapData, [u8; 16], u32>,
    cards: HashMap<MapData, u64, u32>,
    filters: Array<MapData, [u8; FILTER_BYTES]>,
    limits: Array<MapData, [u64; 6]>,
    counters: PerCpuArray<MapData, [u64; 2]>,
    ports: DevMap<MapData>,
    /// `None`: taken back from a daemon of which no TAP device was in use.
    doors: Option<Array<MapData, u32>>,
    inlets: DevMap<MapData>,
    /// `None`: taken back from a daemon of whose NICs none was in use.
    nic_queues: Option<HashMap<MapData, u64, u32>>,
    gateways: HashMap<MapData, [u8; 16], u32>,
    uplinks: DevMap<MapData>,
    uplink_row: Array<MapData, [u8; 8]>,
    sockets: XskMap<MapData>,
    /// Rows of filters in use.
    taken: Vec<bool>,
    /// Where the next search for free rows starts: rows just freed may still be read, so they are reused last.
    cursor: usize,
    gate: ProgramFd,
    deliver: ProgramFd,
    /// [`OTHERS`], as far as they are there.
    others: BTreeMap<&'static str, ProgramFd>,
    /// Keeps the programs; gives them to tests. `None`: taken back from an earlier daemon.
    object: Option<Ebpf>,
}

impl Tables {
    /// Loads the programs.
    ///
    /// # Errors
    /// What is missing.
    pub fn load() -> Result<Tables, DaemonError> {
        Tables::load_by(&mut EbpfLoader::new())
    }

    fn load_by(loader: &mut EbpfLoader<'_>) -> Result<Tables, DaemonError> {
        let mut object = loader.load(OBJECT).map_err(|error| explain("load the gate", &error))?;
        let mut load = |name: &str| -> Result<ProgramFd, DaemonError> {
            let missing = || format!("the gate has no program {name}: rebuild");
            let program = object.program_mut(name).ok_or_else(missing)?;
            let loaded = match program {
                Program::Xdp(program) => {
                    load_program(program, Xdp::load).and_then(|()| program.fd()?.try_clone().map_err(Into::into))
                }
                Program::SchedClassifier(program) => load_program(program, SchedClassifier::load)
                    .and_then(|()| program.fd()?.try_clone().map_err(Into::into)),
                _ => return Err(missing().into()),
            };
            loaded.map_err(|error| explain("load the gate", &error))
        };
        let (gate, deliver) = (load("gate")?, load("deliver")?);
        let others: Result<_, DaemonError> = OTHERS.iter().map(|name| Ok((*name, load(name)?))).collect();
        let others = others?;
        let take =
            |name: &str| object.take_map(name).ok_or_else(|| format!("the gate has no table {name}: rebuild").into());
        let tables = Tables::over(take, gate, deliver)?;
        Ok(Tables { object: Some(object), others, ..tables })
    }

    /// Takes back programs that run since an earlier daemon's time, by number and name, and their tables. Rows of filters
    /// named by `rows` are in use.
    ///
    /// # Errors
    /// They are gone.
    pub fn take_back(programs: &[(u32, &str)], rows: impl Iterator<Item = u32>) -> Result<Tables, DaemonError> {
        let (mut found, mut maps) = running(programs)?;
        let mut main = |name: &str| found.remove(name).ok_or_else(|| ended(name));
        let (gate, deliver) = (main("gate")?, main("deliver")?);
        let others = found;
        let take = |name: &str| {
            let data = maps.remove(name).ok_or_else(|| format!("take back the fence: its table {name} is gone"))?;
            Ok(match name {
                "gates" | "ends" | "owners" | "cards" | "nic_queues" | "gateways" => Map::HashMap(data),
                "counters" => Map::PerCpuArray(data),
                "ports" | "inlets" | "uplinks" => Map::DevMap(data),
                "sockets" => Map::XskMap(data),
                _ => Map::Array(data),
            })
        };
        let tables = Tables::over(take, gate, deliver)?;
        let mut tables = Tables { others, ..tables };
        tables.take_rows(rows)?;
        Ok(tables)
    }

    /// As [`take_back`](Tables::take_back), with this version's programs over the tables of another's: they are to be
    /// attached in place of those.
    ///
    /// # Errors
    /// The tables are gone, or of another shape.
    pub fn upgrade(programs: &[(u32, &str)], rows: impl Iterator<Item = u32>) -> Result<Tables, DaemonError> {
        let (_, maps) = running(programs)?;
        let shape = |info: &MapInfo| (info.key_size(), info.value_size(), info.max_entries(), info.map_flags());
        // Shapes by what this version would make.
        let fresh = EbpfLoader::new().load(OBJECT).map_err(|error| explain("load the gate", &error))?;
        let directory = PinDirectory::create()?;
        let load = || -> Result<Tables, DaemonError> {
            let mut loader = EbpfLoader::new();
            for (name, map) in fresh.maps() {
                let Some(old) = maps.get(name) else { continue };
                let new = data(map).ok_or_else(|| format!("table {name} is of a new kind"))?;
                let [old_info, new_info] = [old, new].map(MapData::info);
                let old_info = old_info.map_err(|error| explain(name, &error))?;
                if shape(&old_info) != shape(&new_info.map_err(|error| explain(name, &error))?) {
                    // They begin anew with this version's programs.
                    if FORGETTABLE.contains(&name) {
                        continue;
                    }
                    return Err(format!("table {name} has another shape").into());
                }
                let path = directory.path_of(name);
                old.pin(&path).map_err(|error| explain(name, &error))?;
                loader.map_pin_path(name, path);
            }
            Tables::load_by(&mut loader)
        };
        let loaded = load();
        drop(directory);
        let mut tables = loaded?;
        tables.take_rows(rows)?;
        Ok(tables)
    }

    fn take_rows(&mut self, slots: impl Iterator<Item = u32>) -> Result<(), DaemonError> {
        for slot in slots {
            for range in self.ranges(slot)? {
                let range = usize::from(range.0)..usize::from(range.0) + usize::from(range.1);
                self.taken.get_mut(range).unwrap_or_default().fill(true);
            }
        }
        Ok(())
    }

    /// Forgets everything but these devices' ends, addresses (with the VNIC that has each) and VNICs.
    pub(crate) fn retain(
        &mut self,
        hosts: &BTreeSet<u32>,
        ends: &BTreeSet<u32>,
        addresses: &BTreeMap<Address, u32>,
        slots: &BTreeSet<u32>,
    ) {
        // Nothing to do about what can't be removed: it names what is not there.
        for (table, known) in [(&mut self.gates, hosts), (&mut self.ends, ends)] {
            let stale: Vec<u32> = table.keys().flatten().filter(|index| !known.contains(index)).collect();
            stale.iter().for_each(|index| drop(table.remove(index)));
        }
        let known: BTreeMap<[u8; 16], u32> =
            addresses.iter().map(|(address, slot)| (address.octets(), *slot)).collect();
        let is_stale = |entry: &([u8; 16], u32)| known.get(&entry.0) != Some(&entry.1);
        let stale: Vec<[u8; 16]> = self.owners.iter().flatten().filter(is_stale).map(|(address, _)| address).collect();
        stale.iter().for_each(|address| drop(self.owners.remove(address)));
        self.forget_nic_queues(|row| !slots.contains(&(row / QUEUES_MAX)));
        for slot in (0..VNICS_MAX).filter(|slot| !slots.contains(slot)) {
            for queue in 0..QUEUES_MAX {
                let _ = self.sockets.unset(slot * QUEUES_MAX + queue);
            }
            for range in self.ranges(slot).unwrap_or_default() {
                self.free_filters(range);
            }
            let _ = self.vnics.set(slot, VnicRow::default().encode(), 0);
        }
    }

    fn over(
        mut take: impl FnMut(&str) -> Result<Map, DaemonError>,
        gate: ProgramFd,
        deliver: ProgramFd,
    ) -> Result<Tables, DaemonError> {
        Ok(Tables {
            gates: open(take("gates")?)?,
            ends: open(take("ends")?)?,
            vnics: open(take("vnics")?)?,
            owners: open(take("owners")?)?,
            cards: open(take("cards")?)?,
            filters: open(take("filters")?)?,
            limits: open(take("limits")?)?,
            counters: open(take("counters")?)?,
            ports: open(take("ports")?)?,
            doors: take("doors").ok().map(open).transpose()?,
            inlets: open(take("inlets")?)?,
            nic_queues: take("nic_queues").ok().map(open).transpose()?,
            gateways: open(take("gateways")?)?,
            uplinks: open(take("uplinks")?)?,
            uplink_row: open(take("uplink_row")?)?,
            sockets: open(take("sockets")?)?,
            taken: vec![false; FILTERS_MAX],
            cursor: 0,
            gate,
            deliver,
            others: BTreeMap::new(),
            object: None,
        })
    }

    /// The rows of filters a VNIC's row names, transmit and receive: first and count.
    ///
    /// # Errors
    /// What the system says.
    pub fn ranges(&self, slot: u32) -> Result<[(u16, u16); 2], DaemonError> {
        let row = self.vnics.get(&slot, 0).map_err(|error| explain("read a VNIC's row", &error))?;
        let range = |offset: usize| {
            let word =
                row.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word));
            ((word >> 16) as u16, word as u16)
        };
        Ok([range(FILTERS_OFFSET), range(FILTERS_OFFSET + 4)])
    }

    /// The program of the switch's ends.
    pub fn gate(&self) -> BorrowedFd<'_> {
        self.gate.as_fd()
    }

    /// One of the other programs: `relay`, `deliver_queue`, `uplink`.
    ///
    /// # Errors
    /// It ended with an earlier daemon, as no device had it.
    pub fn other(&self, name: &str) -> Result<BorrowedFd<'_>, DaemonError> {
        self.others.get(name).map(AsFd::as_fd).ok_or_else(|| ended(name))
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
    pub fn judge(&self, slot: u32, direction: Direction, frame: &[u8], repeat: u32) -> Result<Verdict, DaemonError> {
        let name = if direction == Direction::Transmit { "gate" } else { "deliver" };
        let object = self.object.as_ref().ok_or("programs taken back are not for tests")?;
        let program: Option<&Xdp> = object.program(name).and_then(|program| program.try_into().ok());
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
    pub fn set_vnic(&mut self, slot: u32, row: &VnicRow) -> Result<(), DaemonError> {
        self.vnics.set(slot, row.encode(), 0).map_err(|error| explain("write a VNIC's row", &error))
    }

    /// Puts both ends of a VNIC under its number: what they see is judged from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(&mut self, slot: u32, host_index: u32, end_index: u32) -> Result<(), DaemonError> {
        let what = "connect a VNIC";
        claim(&mut self.gates, host_index, slot).map_err(|error| error.of(what, &host_index))?;
        claim(&mut self.ends, end_index, slot * QUEUES_MAX).map_err(|error| error.of(what, &end_index))
    }

    /// As `connect`, and makes it reachable from other VNICs; in the namespace of the switch's ends.
    ///
    /// # Errors
    /// What the system says.
    pub fn open_port(&mut self, slot: u32, host_index: u32) -> Result<(), DaemonError> {
        self.ports.set(slot, host_index, None, 0).map_err(|error| explain("open a switch port", &error))?;
        self.open_door(slot, host_index)
    }

    fn open_door(&mut self, slot: u32, host_index: u32) -> Result<(), DaemonError> {
        let Some(doors) = &mut self.doors else { return Ok(()) };
        doors.set(slot, host_index, 0).map_err(|error| explain("open a switch port", &error))
    }

    /// As `connect` and `open_port`, for a VNIC that is a TAP device.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect_tap(&mut self, slot: u32, index: u32) -> Result<(), DaemonError> {
        let onward = self.others.get(ONWARD).ok_or_else(|| ended(ONWARD))?;
        let set = self.ports.set(slot, index, Some(onward), 0);
        set.map_err(|error| explain("open a switch port", &error))?;
        claim(&mut self.gates, index, slot).map_err(|error| error.of("connect a VNIC", &index))?;
        self.open_door(slot, index)
    }

    /// Sends what is for a row of further queues to `inlet`, and judges what these interfaces see as the row's; in the
    /// namespace of the VNICs' ends.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect_queue(&mut self, row: u32, inlet: u32, devices: &[u32]) -> Result<(), DaemonError> {
        let what = "connect a further queue";
        self.inlets.set(row, inlet, None, 0).map_err(|error| explain(what, &error))?;
        devices.iter().try_for_each(|index| claim(&mut self.ends, *index, row).map_err(|error| error.of(what, index)))
    }

    /// Forgets these interfaces of further queues. What leads to them goes with them.
    pub fn disconnect_queues(&mut self, slot: u32, devices: &[u32]) {
        for device in devices {
            if self.ends.get(device, 0).is_ok_and(|row| row / QUEUES_MAX == slot) {
                let _ = self.ends.remove(device);
            }
        }
    }

    /// Makes queue `queue` of the NIC with this interface a VNIC's.
    ///
    /// # Errors
    /// What the system says.
    pub fn own_nic_queue(&mut self, interface: u32, queue: u32, row: u32) -> Result<(), DaemonError> {
        let place = u64::from(interface) << 32 | u64::from(queue);
        let queues = self.nic_queues.as_mut().ok_or_else(|| ended(OWN_QUEUE))?;
        claim(queues, place, row).map_err(|error| error.of("give a NIC's queue", &queue))
    }

    /// Names the uplink, in its namespace.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_uplink(&mut self, index: u32, mac: [u8; 6]) -> Result<(), DaemonError> {
        let mut row = [0; 8];
        row[..6].copy_from_slice(&mac);
        self.uplink_row.set(0, row, 0).map_err(|error| explain("write the uplink's row", &error))?;
        self.uplinks.set(0, index, None, 0).map_err(|error| explain("open the uplink's port", &error))
    }

    /// Names the next hops on the uplink, and forgets others.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_gateways(&mut self, gateways: &[Address]) -> Result<(), DaemonError> {
        let stale: Vec<[u8; 16]> = self.gateways.keys().flatten().collect();
        stale.iter().for_each(|address| drop(self.gateways.remove(address)));
        let mut write = |address: &Address| self.gateways.insert(address.octets(), 1, 0);
        gateways.iter().try_for_each(&mut write).map_err(|error| explain("name the uplink's next hops", &error))
    }

    /// Tells whose an Ethernet address is.
    ///
    /// # Errors
    /// What the system says.
    pub fn name_card(&mut self, slot: u32, mac: [u8; 6]) -> Result<(), DaemonError> {
        claim(&mut self.cards, MacAddress(mac).to_bits(), slot)
            .map_err(|error| error.of("name a card", &format!("{mac:02x?}")))
    }

    /// Forgets a VNIC: what its ends still see is dropped. `devices`: their interfaces, if they are its own.
    pub fn disconnect(&mut self, slot: u32, devices: Option<(u32, u32)>, addresses: &[Address]) {
        // What is not there, or another's, is left; the devices are gone with their ports.
        if let Some((host, end)) = devices {
            give_back(&mut self.gates, host, slot);
            give_back(&mut self.ends, end, slot * QUEUES_MAX);
        }
        for address in addresses {
            give_back(&mut self.owners, address.octets(), slot);
        }
        let cards: Vec<u64> = self.cards.iter().flatten().filter(|(_, of)| *of == slot).map(|(mac, _)| mac).collect();
        cards.iter().for_each(|mac| drop(self.cards.remove(mac)));
        self.forget_nic_queues(|row| row / QUEUES_MAX == slot);
        for queue in 0..QUEUES_MAX {
            let _ = self.sockets.unset(slot * QUEUES_MAX + queue);
        }
        let _ = self.open_door(slot, 0);
        let _ = self.vnics.set(slot, VnicRow::default().encode(), 0);
    }

    fn forget_nic_queues(&mut self, is_stale: impl Fn(u32) -> bool) {
        let Some(queues) = &mut self.nic_queues else { return };
        let stale = queues.iter().flatten().filter(|(_, row)| is_stale(*row)).map(|(place, _)| place);
        let stale: Vec<u64> = stale.collect();
        stale.iter().for_each(|place| drop(queues.remove(place)));
    }

    /// Gives an address to a VNIC, or to [`KERNEL`].
    ///
    /// # Errors
    /// Another has it, or what the system says.
    pub fn own(&mut self, slot: u32, address: Address) -> Result<(), DaemonError> {
        claim(&mut self.owners, address.octets(), slot).map_err(|error| error.of("give an address", &address))
    }

    /// Gives an address of the kernel's to a VNIC that shares it.
    ///
    /// # Errors
    /// Another VNIC has it, or what the system says.
    pub fn share(&mut self, slot: u32, address: Address) -> Result<(), DaemonError> {
        give_back(&mut self.owners, address.octets(), KERNEL);
        self.own(slot, address)
    }

    /// Sends what is delivered to a queue to this socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_socket(&mut self, slot: u32, queue: u32, socket: BorrowedFd<'_>) -> Result<(), DaemonError> {
        let row = slot * QUEUES_MAX + queue;
        self.sockets.set(row, socket.as_raw_fd(), 0).map_err(|error| explain("register a queue's socket", &error))
    }

    /// Writes filters into free rows; returns the first and the count, for a [`VnicRow`].
    ///
    /// # Errors
    /// No room.
    pub fn write_filters<T: Copy + Into<FilterRow>>(&mut self, filters: &[T]) -> Result<(u16, u16), DaemonError> {
        if filters.is_empty() {
            return Ok((0, 0));
        }
        if filters.len() > VNIC_FILTERS_MAX {
            return Err(
                format!("{} filters: at most {VNIC_FILTERS_MAX} of one VNIC and direction", filters.len()).into()
            );
        }
        let first = self.free_rows(filters.len()).ok_or("the table of filters is full: delete some, or some VNICs")?;
        for (filter, row) in filters.iter().zip(first..) {
            if let Some(taken) = self.taken.get_mut(row) {
                *taken = true;
            }
            let filter: FilterRow = (*filter).into();
            let written = self.filters.set(row as u32, filter.encode(), 0);
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
    pub fn set_limit(&mut self, row: u32, rate: Rate, mtu: u32) -> Result<(), DaemonError> {
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
    pub fn clear_counts(&mut self, slot: u32) -> Result<(), DaemonError> {
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

/// Why somebody can't have a row of a table.
enum RowError {
    /// Whose it is.
    Taken(u32),
    System(MapError),
}

impl RowError {
    fn of(self, what: &str, key: &dyn Display) -> DaemonError {
        match self {
            RowError::Taken(KERNEL) => format!("{what}: {key} is the kernel's").into(),
            RowError::Taken(_) => format!("{what}: {key} is another VNIC's").into(),
            RowError::System(error) => explain(what, &error),
        }
    }
}

/// Writes whose something is, unless it is another's: no later grant takes it away.
fn claim<K: Pod>(table: &mut HashMap<MapData, K, u32>, key: K, owner: u32) -> Result<(), RowError> {
    match table.insert(key, owner, BPF_NOEXIST) {
        Ok(()) => Ok(()),
        Err(error) => match table.get(&key, 0) {
            Ok(found) if found == owner => Ok(()),
            Ok(found) => Err(RowError::Taken(found)),
            Err(_) => Err(RowError::System(error)),
        },
    }
}

/// Removes what is `owner`'s, and nothing else. The daemon alone writes these tables, so nobody comes in between.
fn give_back<K: Pod>(table: &mut HashMap<MapData, K, u32>, key: K, owner: u32) {
    if table.get(&key, 0).is_ok_and(|found| found == owner) {
        let _ = table.remove(&key);
    }
}

fn counter_row(slot: u32, direction: Direction) -> u32 {
    (slot * 2 + direction as u32) * CAUSES.len() as u32
}

fn open<T: TryFrom<Map, Error = MapError>>(map: Map) -> Result<T, DaemonError> {
    T::try_from(map).map_err(|error| explain("open the gate's tables", &error))
}

fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::DevMap(data)
        | Map::XskMap(data) => Some(data),
        _ => None,
    }
}

/// Programs by name, and tables.
type Running = (BTreeMap<&'static str, ProgramFd>, BTreeMap<String, MapData>);

/// The programs over the table of VNICs that `programs` (number and name) have, and all tables of theirs.
fn running(programs: &[(u32, &str)]) -> Result<Running, DaemonError> {
    let what = "take back the fence";
    let mut maps = BTreeMap::new();
    for (id, name) in programs {
        maps.extend(programs_maps(*id, name)?.1);
    }
    let vnics = maps.get("vnics").ok_or("take back the fence: its table vnics is gone")?;
    let table = vnics.info().map_err(|error| explain(what, &error))?.id();
    let mut found = BTreeMap::new();
    for info in loaded_programs().flatten() {
        let name = ["gate", "deliver"].iter().chain(&OTHERS).find(|name| info.name_as_str() == Some(name));
        let is_ours = || info.map_ids().ok().flatten().is_some_and(|ids| ids.contains(&table));
        if let Some(name) = name
            && is_ours()
        {
            // It may end in this moment: nobody but the daemon that was killed had it attached.
            let Ok((program, more)) = programs_maps(info.id(), name) else { continue };
            maps.extend(more);
            found.insert(*name, program);
        }
    }
    Ok((found, maps))
}

fn ended(name: &str) -> DaemonError {
    format!("the program {name} ended with an earlier daemon: `qanat down`, then up again").into()
}

/// Whether program `id` is called `name`.
pub(crate) fn is_called(id: u32, name: &str) -> bool {
    loaded_programs().flatten().any(|info| info.id() == id && info.name_as_str() == Some(name))
}

/// The number of the program called `name` that `program` is.
pub(crate) fn program_id(program: BorrowedFd<'_>, name: &str) -> Result<u32, DaemonError> {
    let text = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = std::fs::read_to_string(text).map_err(|error| say(name, error))?;
    let number = text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    number.ok_or_else(|| format!("the kernel does not tell the number of the program {name}").into())
}

/// The program `name` with this number, and its tables by name.
pub(crate) fn programs_maps(id: u32, name: &str) -> Result<(ProgramFd, BTreeMap<String, MapData>), DaemonError> {
    let what = format!("take back the program {name}");
    let is_it = |info: &ProgramInfo| info.id() == id && info.name_as_str() == Some(name);
    let info = loaded_programs().flatten().find(is_it).ok_or_else(|| format!("{what}: it is gone"))?;
    let program = info.fd().map_err(|error| explain(&what, &error))?;
    let mut maps = BTreeMap::new();
    for id in info.map_ids().map_err(|error| explain(&what, &error))?.unwrap_or_default() {
        let name = MapInfo::from_id(id).map_err(|error| explain(&what, &error))?;
        let name = name.name_as_str().unwrap_or_default().to_owned();
        maps.insert(name, MapData::from_id(id).map_err(|error| explain(&what, &error))?);
    }
    Ok((program, maps))
}

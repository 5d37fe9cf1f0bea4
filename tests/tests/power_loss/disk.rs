//! [`Disk`]: a file system in memory that knows what a loss of power may take from it.
//!
//! What a program has written is seen by all at once, and is safe when an `fsync` that began afterwards has covered it. Until then each sector of
//! each write may be lost or kept, whatever became of the others: a disk's cache keeps no order. Names are as a journal has them: changes of
//! names are lost from the newest one back, and any `fsync`, of whatever file or directory, makes all of them safe, as on ext4.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// What is written as a whole, or not at all.
const SECTOR_BYTES: usize = 512;
/// The directory that is there from the start.
pub const ROOT: u64 = 1;

/// Numbers of files, by directory and name.
type Names = BTreeMap<(u64, OsString), u64>;

/// How unsafe sectors and names fare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// All are lost.
    Lost,
    /// All are kept.
    Kept,
    /// Each by itself.
    Mixed,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, data: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => write(data, *offset, bytes),
            Change::Length(length) => data.resize(*length, 0),
        }
    }
}

/// A file or directory.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// As programs see it.
    pub data: Vec<u8>,
    /// Whether it is a directory.
    pub is_directory: bool,
    safe: Vec<u8>,
    changes: Vec<Change>,
}

impl Node {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.data);
        self.changes.push(change);
    }

    fn settle(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.safe);
        }
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Disk {
    nodes: BTreeMap<u64, Node>,
    names: Names,
    /// Names as they were before each change that is not safe.
    former: Vec<Names>,
    next: u64,
    /// Without power: every operation fails.
    pub is_off: bool,
    /// Calls of `fsync`.
    pub settled: u64,
}

fn write(data: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[offset..end].copy_from_slice(bytes);
}

impl Disk {
    pub fn new() -> Disk {
        let root = Node { is_directory: true, ..Node::default() };
        Disk {
            nodes: BTreeMap::from([(ROOT, root)]),
            names: Names::new(),
            former: Vec::new(),
            next: ROOT + 1,
            is_off: false,
            settled: 0,
        }
    }

    pub fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number).filter(|_| !self.is_off)
    }

    pub fn find(&self, directory: u64, name: &OsStr) -> Option<u64> {
        self.names.get(&(directory, name.to_owned())).copied().filter(|_| !self.is_off)
    }

    /// What a directory has.
    pub fn list(&self, directory: u64) -> Vec<(OsString, u64)> {
        let of = self.names.iter().filter(|((of, _), _)| *of == directory);
        of.map(|((_, name), number)| (name.clone(), *number)).collect()
    }

    fn rename_by(&mut self, change: impl FnOnce(&mut Names)) {
        self.former.push(self.names.clone());
        change(&mut self.names);
    }

    pub fn make(&mut self, directory: u64, name: &OsStr, is_directory: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, Node { is_directory, ..Node::default() });
        self.rename_by(|names| names.extend([((directory, name.to_owned()), number)]));
        number
    }

    pub fn remove(&mut self, directory: u64, name: &OsStr) -> bool {
        let is_there = self.find(directory, name).is_some();
        if is_there {
            self.rename_by(|names| names.retain(|(of, known), _| (*of, known.as_os_str()) != (directory, name)));
        }
        is_there
    }

    pub fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> bool {
        let Some(number) = self.find(from.0, from.1) else { return false };
        self.rename_by(|names| {
            names.remove(&(from.0, from.1.to_owned()));
            names.insert((to.0, to.1.to_owned()), number);
        });
        true
    }

    pub fn write(&mut self, number: u64, offset: usize, bytes: &[u8]) -> bool {
        let node = self.nodes.get_mut(&number).filter(|_| !self.is_off);
        node.map(|node| node.change(Change::Write { offset, bytes: bytes.to_vec() })).is_some()
    }

    pub fn set_length(&mut self, number: u64, length: usize) -> bool {
        let node = self.nodes.get_mut(&number).filter(|_| !self.is_off);
        node.map(|node| node.change(Change::Length(length))).is_some()
    }

    /// `fsync` of a file or directory.
    pub fn settle(&mut self, number: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&number).filter(|_| !self.is_off) else { return false };
        node.settle();
        self.former.clear();
        self.settled += 1;
        true
    }

    /// What is there when power is back.
    pub fn after_power_loss(&self, fate: Fate, seed: u64) -> Disk {
        let mut random = seed;
        let mut is_kept = || match fate {
            Fate::Lost => false,
            Fate::Kept => true,
            // A linear congruential generator (Knuth, MMIX).
            Fate::Mixed => {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                random >> 63 == 1
            }
        };
        let mut after = Disk { is_off: false, former: Vec::new(), ..self.clone() };
        // From the newest change back, until one is kept.
        for former in self.former.iter().rev() {
            if is_kept() {
                break;
            }
            after.names.clone_from(former);
        }
        for node in after.nodes.values_mut() {
            for change in std::mem::take(&mut node.changes) {
                match change {
                    Change::Length(_) if is_kept() => change.apply(&mut node.safe),
                    Change::Length(_) => {}
                    Change::Write { mut offset, ref bytes } => {
                        let mut rest = &bytes[..];
                        while !rest.is_empty() {
                            let (sector, later) = rest.split_at(rest.len().min(SECTOR_BYTES - offset % SECTOR_BYTES));
                            if is_kept() {
                                write(&mut node.safe, offset, sector);
                            }
                            (offset, rest) = (offset + sector.len(), later);
                        }
                    }
                }
            }
            node.data.clone_from(&node.safe);
        }
        after
    }
}

#[test]
fn what_was_settled_stays_and_the_rest_may_go() {
    let name = OsStr::new("log");
    let mut disk = Disk::new();
    let file = disk.make(ROOT, name, false);
    assert!(disk.write(file, 0, &[1; 1_000]) && disk.settle(file));
    assert!(disk.write(file, 1_000, &[2; 2_000]) && disk.rename((ROOT, name), (ROOT, OsStr::new("new"))));
    let data = |disk: &Disk, name: &str| Some(disk.node(disk.find(ROOT, OsStr::new(name))?)?.data.clone());

    let lost = disk.after_power_loss(Fate::Lost, 1);
    assert_eq!((data(&lost, "log"), data(&lost, "new")), (Some(vec![1; 1_000]), None));
    let kept = disk.after_power_loss(Fate::Kept, 1);
    assert_eq!((data(&kept, "log"), data(&kept, "new")), (None, disk.node(file).map(|node| node.data.clone())));
    let mut torn = 0;
    for seed in 0..50_u64 {
        let mixed = disk.after_power_loss(Fate::Mixed, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let data = data(&mixed, "log").or(data(&mixed, "new")).expect("one of the names");
        assert!(data.len() >= 1_000 && data[..1_000] == [1; 1_000], "what was settled is there");
        torn += u32::from(data.len() > 1_000 && data[1_000..].contains(&0));
    }
    assert!(torn > 0, "sectors fare by themselves");

    disk.is_off = true;
    assert!(!disk.write(file, 0, &[3]) && !disk.settle(file) && disk.node(file).is_none());
}

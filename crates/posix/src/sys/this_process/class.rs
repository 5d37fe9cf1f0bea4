//! A process's *class*: what it may do, which decides with whom it may share a world. Memory that one process writes and another follows gives
//! the first control of the second. So a process shares memory only with those that could control it anyway, as the kernel sees it
//! (`ptrace`).

use crate::sys::raw::{self, Call};
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// With it a process controls all others of its user namespace.
const CAP_SYS_PTRACE: u64 = 1 << 19;
/// More groups than this are not looked at: such a process is unlike any other.
const GROUPS_MAX: usize = 256;

/// Real, effective and saved.
type Ids = [u32; 3];

/// A process's rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Class {
    users: Ids,
    groups: Ids,
    /// The supplementary groups, in order.
    more_groups: Vec<u32>,
    /// The capabilities it has or can take.
    capabilities: u64,
    /// Its filters of system calls: how many it began with, or a number of its own since it took one more.
    filters: u64,
    /// Its namespaces: user; and mount, process and network in one number.
    user_namespace: u64,
    namespaces: u64,
    /// What `/` is: device and file.
    root: [u64; 2],
}

/// What the [child that tries a call](crate::lifecycle::lowering) finds out without memory of its own.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Found {
    users: Ids,
    groups: Ids,
    count: usize,
    more_groups: [u32; GROUPS_MAX],
    capabilities: u64,
    root: [u64; 2],
}

/// What holds for this process and its children until something changes it: the kernel is asked when a world is made or joined, while
/// `/proc` is there.
static FILTERS: AtomicU64 = AtomicU64::new(0);
static USER_NAMESPACE: AtomicU64 = AtomicU64::new(0);
static NAMESPACES: AtomicU64 = AtomicU64::new(0);

/// A number that no other process comes by.
fn unique() -> u64 {
    let bytes = qanat::entropy().unwrap_or_default();
    bytes.iter().take(8).fold(1, |number, byte| number << 8 | u64::from(*byte)) | 1 << 63
}

fn inode(path: &str) -> Option<u64> {
    std::fs::metadata(path).ok().map(|file| std::os::unix::fs::MetadataExt::ino(&file))
}

fn namespaces(process: &str) -> Option<(u64, u64)> {
    let of = |kind: &str| inode(&format!("/proc/{process}/ns/{kind}"));
    let others = [of("mnt")?, of("pid")?, of("net")?];
    // Distinct inodes of one file system, so the sum of their multiples tells them apart.
    let mixed = others.iter().fold(0u64, |all, one| all.wrapping_mul(0x1_0000_01b3).wrapping_add(*one));
    Some((of("user")?, mixed & !(1 << 63)))
}

/// Asks the kernel for what can't be asked later, once.
pub(crate) fn look_around() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        let (user, others) = namespaces("self").unwrap_or_else(|| (unique(), unique()));
        USER_NAMESPACE.store(user, Ordering::Relaxed);
        NAMESPACES.store(others, Ordering::Relaxed);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        FILTERS.store(filters(&status).unwrap_or_else(unique), Ordering::Relaxed);
    });
}

/// This process is about to have a filter more.
pub(crate) fn filter_added() {
    FILTERS.store(unique(), Ordering::Relaxed);
}

/// This process is in other namespaces.
pub(crate) fn namespaces_changed() {
    NAMESPACES.store(unique(), Ordering::Relaxed);
}

/// This process is in another user namespace, or will be.
pub(crate) fn user_namespace_changed() {
    USER_NAMESPACE.store(unique(), Ordering::Relaxed);
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn filters(status: &str) -> Option<u64> {
    let mode: u64 = field(status, "Seccomp")?.parse().ok()?;
    // Older kernels don't say how many.
    let count: u64 = field(status, "Seccomp_filters").and_then(|text| text.parse().ok()).unwrap_or(mode);
    Some(count.max(u64::from(mode != 0)))
}

fn ids(text: &str) -> Option<Ids> {
    let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([words.next()?, words.next()?, words.next()?])
}

impl Found {
    pub(crate) const NOTHING: Found =
        Found { users: [0; 3], groups: [0; 3], count: 0, more_groups: [0; GROUPS_MAX], capabilities: 0, root: [0; 2] };

    /// Asks the kernel, and takes no memory.
    pub(crate) fn look(&mut self) {
        let pointer = |ids: &mut Ids| ids.each_mut().map(|id| std::ptr::from_mut(id).addr());
        let [real, effective, saved] = pointer(&mut self.users);
        // SAFETY: the array has room for three numbers.
        unsafe { raw::call(&Call::new(libc::SYS_getresuid, [real, effective, saved, 0, 0])) };
        let [real, effective, saved] = pointer(&mut self.groups);
        // SAFETY: the array has room for three numbers.
        unsafe { raw::call(&Call::new(libc::SYS_getresgid, [real, effective, saved, 0, 0])) };
        let list = self.more_groups.as_mut_ptr().addr();
        // SAFETY: the array has room for as many numbers as is said.
        let count = unsafe { raw::call(&Call::new(libc::SYS_getgroups, [GROUPS_MAX, list, 0, 0, 0])) };
        self.count = usize::try_from(count).unwrap_or(usize::MAX);
        // Version 3 of the structure, and this process.
        let mut head = [0x2008_0522u32, 0];
        let mut sets = [[0u32; 3]; 2];
        let arguments = [head.as_mut_ptr().addr(), sets.as_mut_ptr().addr(), 0, 0, 0];
        // SAFETY: the head, and the two parts of the answer.
        unsafe { raw::call(&Call::new(libc::SYS_capget, arguments)) };
        self.capabilities = u64::from(sets[1][1]) << 32 | u64::from(sets[0][1]);
        let mut file = std::mem::MaybeUninit::<libc::stat>::zeroed();
        let arguments = [libc::AT_FDCWD as usize, c"/".as_ptr().addr(), file.as_mut_ptr().addr(), 0, 0];
        // SAFETY: a string, and room for the answer.
        unsafe { raw::call(&Call::new(libc::SYS_newfstatat, arguments)) };
        // SAFETY: the structure is plain numbers, and it was zeroed at first.
        let file = unsafe { file.assume_init() };
        self.root = [file.st_dev, file.st_ino];
    }

    /// With what the kernel need not be asked.
    pub(crate) fn class(&self) -> Class {
        let mut more_groups: Vec<u32> = match self.more_groups.get(..self.count) {
            Some(groups) => groups.to_vec(),
            // Too many to be compared: like nobody's.
            None => vec![unique() as u32; GROUPS_MAX + 1],
        };
        more_groups.sort_unstable();
        Class {
            users: self.users,
            groups: self.groups,
            more_groups,
            capabilities: self.capabilities,
            filters: FILTERS.load(Ordering::Relaxed),
            user_namespace: USER_NAMESPACE.load(Ordering::Relaxed),
            namespaces: NAMESPACES.load(Ordering::Relaxed),
            root: self.root,
        }
    }
}

impl Class {
    /// This process's.
    pub(crate) fn own() -> Class {
        look_around();
        let mut found = Found::NOTHING;
        found.look();
        found.class()
    }

    /// As the kernel tells of a process; `None`: it does not, or not to this one, which therefore may not control it.
    pub(crate) fn of(process: libc::pid_t) -> Option<Class> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let (user_namespace, namespaces) = namespaces(&process.to_string())?;
        let mut more_groups: Vec<u32> =
            field(&status, "Groups")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
        more_groups.sort_unstable();
        let root = std::fs::metadata(format!("/proc/{process}/root/")).ok()?;
        let root = [std::os::unix::fs::MetadataExt::dev(&root), std::os::unix::fs::MetadataExt::ino(&root)];
        Some(Class {
            users: ids(field(&status, "Uid")?)?,
            groups: ids(field(&status, "Gid")?)?,
            more_groups,
            capabilities: u64::from_str_radix(field(&status, "CapPrm")?, 16).ok()?,
            filters: filters(&status)?,
            user_namespace,
            namespaces,
            root,
        })
    }

    /// Whether a process of this class may write what a process of class `reader` follows: it could control that one anyway.
    pub(crate) fn covers(&self, reader: &Class) -> bool {
        let is_as_free = self.filters == 0 || self.filters == reader.filters;
        if !is_as_free || self.user_namespace != reader.user_namespace {
            return false;
        }
        self.capabilities & CAP_SYS_PTRACE != 0 || self.is_like(reader)
    }

    /// The same but for capabilities, of which the other one has none more.
    fn is_like(&self, other: &Class) -> bool {
        let plain = |class: &Class| Class { capabilities: 0, filters: 0, ..class.clone() };
        other.capabilities & !self.capabilities == 0 && plain(self) == plain(other)
    }

    /// With what this process notes of itself now.
    pub(crate) fn with_own_notes(self) -> Class {
        Class {
            filters: FILTERS.load(Ordering::Relaxed),
            user_namespace: USER_NAMESPACE.load(Ordering::Relaxed),
            namespaces: NAMESPACES.load(Ordering::Relaxed),
            ..self
        }
    }

    /// User, group and further groups, for a process that becomes the same.
    pub(crate) fn identity(&self) -> (Ids, Ids, &[u32]) {
        (self.users, self.groups, &self.more_groups)
    }

    /// For another process, which [reads](Class::read) it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let numbers = self.users.iter().chain(&self.groups).map(|id| u64::from(*id));
        let rest = [self.capabilities, self.filters, self.user_namespace, self.namespaces, self.root[0], self.root[1]];
        for number in numbers.chain(rest).chain(self.more_groups.iter().map(|group| u64::from(*group))) {
            // Writing to a String cannot fail.
            let _ = write!(text, "{number} ");
        }
        text
    }

    /// What [`text`](Class::text) wrote.
    pub(crate) fn read(text: &str) -> Option<Class> {
        let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let numbers = numbers?;
        let (fixed, groups) = numbers.split_at_checked(12)?;
        let id = |at: usize| fixed.get(at).and_then(|number| u32::try_from(*number).ok());
        let more_groups: Option<Vec<u32>> = groups.iter().map(|number| u32::try_from(*number).ok()).collect();
        Some(Class {
            users: [id(0)?, id(1)?, id(2)?],
            groups: [id(3)?, id(4)?, id(5)?],
            more_groups: more_groups?,
            capabilities: fixed[6],
            filters: fixed[7],
            user_namespace: fixed[8],
            namespaces: fixed[9],
            root: [fixed[10], fixed[11]],
        })
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "user {}, group {}", self.users[1], self.groups[1])?;
        match self.filters {
            0 => Ok(()),
            _ => write!(out, ", with a filter of system calls"),
        }
    }
}

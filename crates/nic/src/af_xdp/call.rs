//! The `bpf` system call, for what the library has no function for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_MAP_CREATE: i64 = 0;
const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_MAP_DELETE_ELEM: i64 = 3;
const BPF_MAP_GET_FD_BY_ID: i64 = 14;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// `union bpf_attr`, as far as it is used, zero elsewhere.
#[repr(C, align(8))]
#[derive(Default)]
struct Attributes {
    words: [u32; 16],
}

impl Attributes {
    fn new(words: &[u32]) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.words.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
        attributes
    }

    /// Puts an address at a place of two words.
    fn with_address<T>(mut self, at: usize, value: *const T) -> Attributes {
        let address = value.expose_provenance() as u64;
        self.words[at] = address as u32;
        self.words[at + 1] = (address >> 32) as u32;
        self
    }
}

/// # Safety
/// Addresses among the attributes are of live values of the length the command reads, and it writes to none.
unsafe fn call(command: i64, attributes: &Attributes) -> io::Result<i32> {
    let pointer: *const Attributes = attributes;
    // SAFETY: a live attribute block of this length, zero beyond the fields this command has. Its addresses are of live values of the
    // length that the command reads, and it writes to none: the function's contract, which each caller below keeps.
    match unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<Attributes>()) } {
        result if result >= 0 => Ok(result as i32),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// As [`call`]; and the command returns a new descriptor.
unsafe fn call_for_descriptor(command: i64, attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the addresses are as `call` requires, and the command returns a new descriptor, which nobody else owns: the function's
    // contract, which each caller below keeps.
    unsafe { Ok(OwnedFd::from_raw_fd(call(command, attributes)?)) }
}

/// An array of one value that can be mapped.
pub(super) fn make_value(bytes: u32) -> io::Result<OwnedFd> {
    // SAFETY: no addresses.
    unsafe { call_for_descriptor(BPF_MAP_CREATE, &Attributes::new(&[BPF_MAP_TYPE_ARRAY, 4, bytes, 1, BPF_F_MMAPABLE])) }
}

/// Puts a map into a table of maps.
pub(super) fn set_map(table: BorrowedFd<'_>, key: u32, map: BorrowedFd<'_>) -> io::Result<()> {
    set_element(table, key, &map.as_raw_fd())
}

/// Puts an interface of the calling thread's namespace into a table of devices.
pub(super) fn set_device(table: BorrowedFd<'_>, key: u32, index: u32) -> io::Result<()> {
    // No program looks at what is redirected there.
    set_element(table, key, &[index, 0])
}

fn set_element<T>(table: BorrowedFd<'_>, key: u32, value: &T) -> io::Result<()> {
    let attributes = Attributes::new(&[table.as_raw_fd() as u32]).with_address(2, &raw const key);
    // SAFETY: a live key and value, of the sizes such a table has.
    unsafe { call(BPF_MAP_UPDATE_ELEM, &attributes.with_address(4, value)).map(drop) }
}

/// Takes one out.
pub(super) fn remove_element(table: BorrowedFd<'_>, key: u32) -> io::Result<()> {
    let attributes = Attributes::new(&[table.as_raw_fd() as u32]).with_address(2, &raw const key);
    // SAFETY: a live key of the size a table has.
    unsafe { call(BPF_MAP_DELETE_ELEM, &attributes).map(drop) }
}

/// Whether there is a map of this number.
pub(super) fn is_map(number: u32) -> io::Result<bool> {
    // SAFETY: no addresses.
    match unsafe { call_for_descriptor(BPF_MAP_GET_FD_BY_ID, &Attributes::new(&[number])) } {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The number the kernel knows a map by.
pub(super) fn map_number(map: BorrowedFd<'_>) -> io::Result<u32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("map_id:")?.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("the kernel does not tell a map's number"))
}

//! `getifaddrs` and the functions of `net/if.h`: the C library's lists, and the card behind them.

use super::{Card, FLAGS, INDEX, NAME, broadcast, card, mask};
use crate::sys::libc_next;
use libc::{c_char, c_int, c_uint, if_nameindex as NameIndex, ifaddrs, sockaddr, sockaddr_ll, sockaddr_storage};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// One of our entries, with all that it points to.
struct Entry {
    entry: ifaddrs,
    address: sockaddr_storage,
    mask: sockaddr_storage,
    broadcast: sockaddr_storage,
    /// `struct rtnl_link_stats`: nothing is counted here.
    counts: [u32; 24],
}

/// Entries that programs have, by the address of their lists' first ones.
static LENT: Mutex<BTreeMap<usize, Lent>> = Mutex::new(BTreeMap::new());

struct Lent {
    /// Kept for the programs that have it.
    #[allow(dead_code, reason = "a list points into it")]
    entries: Vec<Entry>,
    /// The list begins with ours.
    is_all: bool,
}

// SAFETY: the pointers in it are those of a list, and whoever has that list looks after it.
unsafe impl Send for Lent {}

fn zeroed() -> Entry {
    // SAFETY: numbers and pointers, which may be null.
    unsafe { std::mem::zeroed() }
}

/// Of an address, or of the card itself. It does not point to its own parts yet.
fn entry_of(card: &Card, address: Option<(IpAddr, u8)>) -> Entry {
    let mut entry = zeroed();
    entry.entry.ifa_name = NAME.as_ptr().cast_mut();
    entry.entry.ifa_flags = FLAGS;
    match address {
        None => {
            let packet = |mac: [u8; 6]| {
                // SAFETY: the structure is plain numbers, for which zeros are valid.
                let mut packet: sockaddr_ll = unsafe { std::mem::zeroed() };
                packet.sll_family = libc::AF_PACKET as u16;
                packet.sll_ifindex = INDEX as c_int;
                packet.sll_hatype = libc::ARPHRD_ETHER;
                packet.sll_halen = 6;
                packet.sll_addr[..6].copy_from_slice(&mac);
                packet
            };
            // SAFETY: the storage is larger than any address.
            unsafe {
                (&raw mut entry.address).cast::<sockaddr_ll>().write(packet(card.mac));
                (&raw mut entry.broadcast).cast::<sockaddr_ll>().write(packet([0xff; 6]));
            }
        }
        Some((address, length)) => {
            let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
            let storage = |ip: IpAddr| crate::sys::address::encode(SocketAddr::new(ip, 0), family).0;
            entry.address = storage(address);
            entry.mask = storage(mask(address, length));
            if let IpAddr::V4(four) = address {
                entry.broadcast = storage(broadcast((four, length)).into());
            }
        }
    }
    entry
}

impl Entry {
    /// It points to its own parts, as far as they are filled in. It stays where it is from now on.
    fn point(&mut self) {
        self.entry.ifa_addr = (&raw mut self.address).cast();
        if self.mask.ss_family != 0 {
            self.entry.ifa_netmask = (&raw mut self.mask).cast();
        }
        if self.broadcast.ss_family != 0 {
            self.entry.ifa_ifu = (&raw mut self.broadcast).cast::<sockaddr>();
        }
        if c_int::from(self.address.ss_family) == libc::AF_PACKET {
            self.entry.ifa_data = (&raw mut self.counts).cast();
        }
    }
}

/// # Safety
/// As `getifaddrs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getifaddrs(list: *mut *mut ifaddrs) -> c_int {
    // First, as the kernel's end of a card that is made now is one of the kernel's interfaces.
    let card = card();
    // SAFETY: `list` is writable: the program's duty by getifaddrs(3).
    let status = unsafe { libc_next::getifaddrs(list) };
    let Some(card) = card.filter(|_| status == 0) else { return status };
    let links = [None].into_iter().chain(card.addresses.iter().map(|address| Some(*address)));
    let mut entries: Vec<Entry> = links.map(|address| entry_of(&card, address)).collect();
    let mut next = std::ptr::null_mut();
    for entry in entries.iter_mut().rev() {
        entry.point();
        entry.entry.ifa_next = next;
        next = &raw mut entry.entry;
    }
    // SAFETY: `list` is writable: the program's duty by getifaddrs(3). The C library has made a list, or none.
    let first = unsafe {
        let mut place = list;
        while !(*place).is_null() {
            place = &raw mut (**place).ifa_next;
        }
        *place = next;
        *list
    };
    let lent = Lent { entries, is_all: first == next };
    LENT.lock().unwrap_or_else(PoisonError::into_inner).insert(first.addr(), lent);
    0
}

/// # Safety
/// As `freeifaddrs`.
#[unsafe(no_mangle)]
unsafe extern "C" fn freeifaddrs(list: *mut ifaddrs) {
    let lent = LENT.lock().unwrap_or_else(PoisonError::into_inner).remove(&list.addr());
    if !lent.is_some_and(|lent| lent.is_all) {
        // SAFETY: `list` came from `getifaddrs`: the program's duty by freeifaddrs(3). The C library gives up all of its entries by their
        // first.
        unsafe { libc_next::freeifaddrs(list) };
    }
}

/// # Safety
/// As `if_nametoindex`.
#[unsafe(no_mangle)]
unsafe extern "C" fn if_nametoindex(name: *const c_char) -> c_uint {
    // SAFETY: `name` is null or a C string: the program's duty by if_nametoindex(3).
    let is_it = !name.is_null() && unsafe { CStr::from_ptr(name) } == NAME;
    if is_it && card().is_some() {
        return INDEX;
    }
    // SAFETY: `name` is null or a C string: the program's duty by if_nametoindex(3).
    unsafe { libc_next::if_nametoindex(name) }
}

/// # Safety
/// As `if_indextoname`.
#[unsafe(no_mangle)]
unsafe extern "C" fn if_indextoname(index: c_uint, name: *mut c_char) -> *mut c_char {
    if index != INDEX || card().is_none() {
        // SAFETY: `name` has room for the longest name: the program's duty by if_indextoname(3).
        return unsafe { libc_next::if_indextoname(index, name) };
    }
    // SAFETY: `name` has room for the longest name: the program's duty by if_indextoname(3).
    unsafe { std::ptr::copy_nonoverlapping(NAME.as_ptr(), name, NAME.count_bytes() + 1) };
    name
}

/// The array is the C library's, and so is each name in it: `if_freenameindex` gives them back to its heap.
#[unsafe(no_mangle)]
extern "C" fn if_nameindex() -> *mut NameIndex {
    let card = card();
    // SAFETY: the call takes no pointers.
    let theirs = unsafe { libc_next::if_nameindex() };
    if theirs.is_null() || card.is_none() {
        return theirs;
    }
    // SAFETY: an array that ends with an entry of nothing, and memory from the C library's heap for one more.
    unsafe {
        let mut count = 0;
        while !(*theirs.add(count)).if_name.is_null() || (*theirs.add(count)).if_index != 0 {
            count += 1;
        }
        let name = libc::strdup(NAME.as_ptr());
        let grown = libc::realloc(theirs.cast(), (count + 2) * size_of::<NameIndex>()).cast::<NameIndex>();
        if name.is_null() || grown.is_null() {
            libc::free(name.cast());
            return if grown.is_null() { theirs } else { grown };
        }
        grown.add(count + 1).write(NameIndex { if_index: 0, if_name: std::ptr::null_mut() });
        grown.add(count).write(NameIndex { if_index: INDEX, if_name: name });
        grown
    }
}

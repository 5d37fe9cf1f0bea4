//! The table of functions that packetdrill has filled in (its `packetdrill.h`), in its order.

use crate::{calls, wire};
use libc::{
    c_char, c_int, c_longlong, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t,
    sockaddr, socklen_t, ssize_t, timeval, useconds_t,
};
use qanat_posix::script::{Setup, start};
use std::ffi::CStr;
use std::net::IpAddr;

/// What the first argument of each function is; nothing here needs it.
type UserData = *mut c_void;

macro_rules! table {
    ($($name:ident: $module:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// packetdrill's `struct packetdrill_interface`. Each function is what its name says in C, with the table's first word
        /// before its arguments.
        #[repr(C)]
        #[derive(Debug)]
        #[allow(missing_docs, reason = "names of C functions")]
        pub struct Interface {
            pub userdata: UserData,
            $(pub $name: unsafe extern "C" fn(UserData, $($type),*) $(-> $result)?,)*
        }

        /// All of ours.
        fn table() -> Interface {
            Interface { userdata: std::ptr::null_mut(), $($name: $module::$name,)* }
        }
    };
}

table! {
    free: wire();
    socket: calls(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind: calls(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    listen: calls(fd: c_int, backlog: c_int) -> c_int;
    accept: calls(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    connect: calls(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    read: calls(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t;
    readv: calls(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    recv: calls(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    recvfrom: calls(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int, peer: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
    recvmsg: calls(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    write: calls(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    writev: calls(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    send: calls(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    sendto: calls(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int, peer: *const sockaddr, length: socklen_t) -> ssize_t;
    sendmsg: calls(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fcntl: calls(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    ioctl: calls(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int;
    close: calls(fd: c_int) -> c_int;
    shutdown: calls(fd: c_int, how: c_int) -> c_int;
    getsockopt: calls(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
    setsockopt: calls(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    poll: calls(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    netdev_send: wire(packet: *const c_void, length: size_t) -> c_int;
    netdev_receive: wire(packet: *mut c_void, length: *mut size_t, time_us: *mut c_longlong) -> c_int;
    usleep: wire(time_us: useconds_t) -> c_int;
    gettimeofday: wire(time: *mut timeval, zone: *mut c_void) -> c_int;
    epoll_create: calls(size: c_int) -> c_int;
    epoll_ctl: calls(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_wait: calls(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int;
    pipe: calls(ends: *mut c_int) -> c_int;
    splice: calls(from: c_int, from_offset: *mut loff_t, to: c_int, to_offset: *mut loff_t, count: size_t, flags: c_uint) -> ssize_t;
}

/// What is wrong with `--so_flags`.
#[derive(Debug, thiserror::Error)]
enum FlagError {
    #[error("{0} is no address")]
    Address(String),
    #[error("{0} is no number of bytes")]
    Bytes(String),
    #[error("{0}: known are local=ADDRESS and mtu=BYTES")]
    Unknown(String),
    #[error("local=ADDRESS is missing: the same as packetdrill's --local_ip")]
    NoAddress,
}

/// What `--so_flags` says: `local=ADDRESS` (once per family) and `mtu=BYTES`, with commas between.
fn setup(flags: &str) -> Result<Setup, FlagError> {
    let mut setup = Setup { addresses: Vec::new(), mtu: 1_500 };
    for flag in flags.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
        match flag.split_once('=') {
            Some(("local", address)) => {
                let address: IpAddr = address.parse().map_err(|_| FlagError::Address(address.to_owned()))?;
                setup.addresses.push(address);
            }
            Some(("mtu", bytes)) => {
                setup.mtu = bytes.parse().map_err(|_| FlagError::Bytes(bytes.to_owned()))?;
            }
            _ => return Err(FlagError::Unknown(flag.to_owned())),
        }
    }
    if setup.addresses.is_empty() {
        return Err(FlagError::NoAddress);
    }
    Ok(setup)
}

/// What packetdrill asks a library for.
///
/// # Safety
/// `flags` is null or a C string; `interface` has room for the table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, interface: *mut Interface) {
    // SAFETY: `flags` is null or a C string; `interface` has room for the table: this function's condition.
    let flags = if flags.is_null() { c"" } else { unsafe { CStr::from_ptr(flags) } };
    match setup(&flags.to_string_lossy()) {
        Ok(setup) => start(&setup),
        Err(reason) => {
            // There is no way to say so but this.
            eprintln!("libqanat_packetdrill.so: --so_flags: {reason}");
            std::process::exit(1);
        }
    }
    crate::quiet::unlock_memory();
    // SAFETY: `flags` is null or a C string; `interface` has room for the table: this function's condition.
    unsafe { interface.write(table()) };
}

//! XDP programs by descriptor: attaching one to an interface, and asking one about a frame.

use super::netlink::{Message, interface_header, request};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Attaches an XDP program natively to an interface, in place of any other, for as long as the interface exists: unlike
/// an attachment by `bpf_link`, it outlives the process.
///
/// # Errors
/// What netlink says.
pub fn set_xdp(index: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    attach(index, program, XDP_FLAGS_DRV_MODE)
}

/// As [`set_xdp`], by the kernel's generic means: for an interface without XDP of its own, such as loopback, that is to
/// keep a program and its maps in being rather than to run it.
///
/// # Errors
/// What netlink says.
pub fn set_generic_xdp(index: u32, program: BorrowedFd<'_>) -> io::Result<()> {
    const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
    attach(index, program, XDP_FLAGS_SKB_MODE)
}

/// Takes an interface's native XDP program from it.
///
/// # Errors
/// What netlink says.
pub fn clear_xdp(index: u32) -> io::Result<()> {
    const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    attach_descriptor(index, -1, XDP_FLAGS_DRV_MODE)
}

fn attach(index: u32, program: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    attach_descriptor(index, program.as_raw_fd(), flags)
}

fn attach_descriptor(index: u32, descriptor: i32, flags: u32) -> io::Result<()> {
    const IFLA_XDP_FD: u16 = 1;
    const IFLA_XDP_FLAGS: u16 = 3;
    let message = Message::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &interface_header(index, 0, 0));
    request(message.nest(libc::IFLA_XDP, &[], |xdp| {
        xdp.attribute(IFLA_XDP_FD, &descriptor.to_ne_bytes()).attribute(IFLA_XDP_FLAGS, &flags.to_ne_bytes())
    }))?;
    Ok(())
}

/// Runs a program on a frame that goes nowhere, and returns its verdict (`XDP_PASS`, …).
///
/// # Errors
/// What the system says; a frame shorter than an Ethernet header is refused.
pub fn ask_program(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    const BPF_PROG_TEST_RUN: i64 = 10;
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        program: u32,
        result: u32,
        data_bytes_in: u32,
        data_bytes_out: u32,
        data_in: u64,
        rest: [u64; 7],
    }
    let mut attributes = Attributes {
        program: program.as_raw_fd() as u32,
        data_bytes_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        ..Attributes::default()
    };
    // SAFETY: a live attribute block of this length, zero beyond the fields this command has; it names a live buffer that
    // is only read, and none to write to.
    let outcome =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_TEST_RUN, &raw mut attributes, size_of::<Attributes>()) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(attributes.result) }
}

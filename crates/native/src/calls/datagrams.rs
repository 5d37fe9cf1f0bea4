//! Datagrams.

use super::connections::socket_address;
use super::guard::{Qanat, bytes, enter, put};
use crate::address::Address;
use crate::status::Code;
use qanat::{Commands, UdpSocketId};

/// Opens a UDP socket at an own address and port. QANAT_EVENT_DATAGRAM tells of what comes. `socket` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_bind_udp(qanat: *mut Qanat, local: *const Address, socket: *mut u64) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let local = socket_address(local)?;
            let made = native.command(|context| context.bind_udp(local))?;
            put(socket, made.to_token());
            Ok(())
        })
    }
}

/// Closes a UDP socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_close_udp(qanat: *mut Qanat, socket: u64) -> Code {
    let socket = UdpSocketId::from_token(socket);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.close_udp(socket))?)) }
}

/// Sends a datagram. If the device has no room, it is lost, as any datagram may be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_send_to(
    qanat: *mut Qanat,
    socket: u64,
    peer: *const Address,
    data: *const u8,
    length: usize,
) -> Code {
    let socket = UdpSocketId::from_token(socket);
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let (peer, data) = (socket_address(peer)?, bytes(data, length)?);
            Ok(native.command(|context| context.send_to(socket, peer, data))?)
        })
    }
}

/// Sends a datagram's memory back, or on, without a copy: an answer in the frame that its question came in. `qanat_writable` gives its bytes to
/// be written. The memory is not lent any more, unless the status is QANAT_STATUS_INVALID or QANAT_STATUS_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_send_memory_to(
    qanat: *mut Qanat,
    socket: u64,
    peer: *const Address,
    memory: u64,
) -> Code {
    let socket = UdpSocketId::from_token(socket);
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let peer = socket_address(peer)?;
            native.send_memory_to(socket, peer, memory)
        })
    }
}

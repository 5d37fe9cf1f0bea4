//! An AF_XDP socket: made, given memory, bound.

use super::config::{Mode, RingSizes};
use super::ring::{Consumer, Producer};
use crate::base::errno;
use crate::error::DeviceError;
use crate::link::Namespace;
use crate::memory::Region;
use libc::xdp_desc;
use rustix::io::Errno;
use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// `struct xsk_tx_metadata` of 6.18: flags, checksum start and offset, launch time. It sits before the frame's data.
pub(super) const TRANSMIT_METADATA_BYTES: u32 = 24;
/// A queue just released by another socket is free again within some 20 ms, on a busy machine some 100.
pub(super) const BIND_WAIT: Duration = Duration::from_secs(1);
/// Frames in flight are charged to the send buffer.
const SEND_BUFFER_BYTES: i32 = 64 << 20;

/// Frames that one `sendto` takes. After so many the sender looks at the clock.
const KICK_FRAMES_MAX: u32 = 256;

const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const XDP_UMEM_TX_METADATA_LEN: u32 = 1 << 2;

/// Where and how to bind.
pub(super) struct SocketConfig<'a> {
    pub(super) interface: &'a str,
    pub(super) index: u32,
    pub(super) queue: u32,
    pub(super) namespace: Option<&'a Namespace>,
    pub(super) mode: Mode,
    pub(super) rings: RingSizes,
    pub(super) scatter: bool,
    pub(super) transmit_checksum: bool,
    /// A bound socket whose frame memory this one uses too, rather than registering it again.
    pub(super) sharing: Option<&'a Socket>,
    /// How long to wait for a queue that another socket has.
    pub(super) patience: Duration,
}

/// A bound socket and its rings. Fields drop in this order: the rings must be unmapped before the descriptor closes.
pub(super) struct Socket {
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) receive: Consumer<xdp_desc>,
    pub(super) transmit: Producer<xdp_desc>,
    /// Bytes kept before each transmitted frame for metadata; 0: the kernel has none.
    pub(super) metadata_bytes: u32,
    pub(super) zero_copy: bool,
    fd: OwnedFd,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Socket {
    /// Makes a socket with `region` as its UMEM. `stock` puts frames into the fill ring before the queue goes live.
    ///
    /// `region` must outlive the socket, and only frames it lends may be written by the kernel: the caller's part.
    pub(super) fn open(
        config: &SocketConfig<'_>,
        region: &Region,
        stock: impl FnOnce(&mut Producer<u64>),
    ) -> Result<Socket, DeviceError> {
        let (fd, metadata_bytes) = prepare(config, region)?;
        let mut socket = Socket::map(fd, config.rings, metadata_bytes)?;
        stock(&mut socket.fill);
        bind(socket.as_fd(), config)?;
        socket.zero_copy = is_zero_copy(socket.as_fd());
        Ok(socket)
    }

    /// Maps the rings of a socket that has them already, with these sizes.
    pub(super) fn map(fd: OwnedFd, rings: RingSizes, metadata_bytes: u32) -> Result<Socket, DeviceError> {
        let system = |error| DeviceError::system("map an AF_XDP socket's rings", error);
        // SAFETY: an all-zero xdp_mmap_offsets is valid.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        get_option(fd.as_fd(), libc::XDP_MMAP_OFFSETS, &mut offsets).map_err(system)?;
        Ok(Socket {
            fill: Producer::map(fd.as_fd(), libc::XDP_UMEM_PGOFF_FILL_RING, rings.fill, &offsets.fr).map_err(system)?,
            completion: Consumer::map(fd.as_fd(), libc::XDP_UMEM_PGOFF_COMPLETION_RING, rings.completion, &offsets.cr)
                .map_err(system)?,
            receive: Consumer::map(fd.as_fd(), libc::XDP_PGOFF_RX_RING as u64, rings.receive, &offsets.rx)
                .map_err(system)?,
            transmit: Producer::map(fd.as_fd(), libc::XDP_PGOFF_TX_RING as u64, rings.transmit, &offsets.tx)
                .map_err(system)?,
            metadata_bytes,
            zero_copy: is_zero_copy(fd.as_fd()),
            fd,
        })
    }

    /// Tells the kernel that there are frames to send. The errno is 0 on success.
    #[inline]
    pub(super) fn kick_transmit(&self) -> i32 {
        match rustix::net::send(&self.fd, &[], SendFlags::DONTWAIT) {
            Ok(_) => 0,
            Err(error) => error.raw_os_error(),
        }
    }

    /// Tells the kernel that there are frames to receive into again.
    #[inline]
    pub(super) fn kick_receive(&self) {
        // Nothing to do about errors: the next call tries again.
        let _ = self.receive_nothing();
    }

    /// What the kernel says of a call that receives nothing.
    fn receive_nothing(&self) -> Result<(), Errno> {
        rustix::net::recv(&self.fd, &mut [0u8; 0], RecvFlags::DONTWAIT).map(|_| ())
    }

    /// Whether the kernel has taken the socket from its queue, as it does when the interface is deleted.
    pub(super) fn is_unbound(&self) -> bool {
        self.receive_nothing() == Err(Errno::NXIO)
    }

    /// The kernel's counters of this socket; zeros if it won't tell.
    pub(super) fn kernel_statistics(&self) -> libc::xdp_statistics {
        // SAFETY: an all-zero xdp_statistics is valid.
        let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let _ = errno::kept(|| get_option(self.as_fd(), libc::XDP_STATISTICS, &mut statistics));
        statistics
    }
}

/// Makes a socket with `region` as its UMEM and rings of the sizes asked for, neither mapped nor bound; returns the bytes
/// of metadata agreed on too.
pub(super) fn prepare(config: &SocketConfig<'_>, region: &Region) -> Result<(OwnedFd, u32), DeviceError> {
    let system = |error| DeviceError::system("set up an AF_XDP socket", error);
    let fd = match config.namespace {
        Some(namespace) => namespace.within(create).map_err(|error| DeviceError::system("enter namespace", error))?,
        None => create(),
    };
    let fd = fd.map_err(|error| match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => DeviceError::KernelTooOld { missing: "AF_XDP sockets" },
        _ => DeviceError::system("open an AF_XDP socket", error),
    })?;
    let metadata_bytes = match config.sharing {
        Some(owner) => owner.metadata_bytes,
        None => register(fd.as_fd(), region, config.transmit_checksum)?,
    };
    let rings = config.rings;
    for (option, size) in [
        (libc::XDP_UMEM_FILL_RING, rings.fill),
        (libc::XDP_UMEM_COMPLETION_RING, rings.completion),
        (libc::XDP_RX_RING, rings.receive),
        (libc::XDP_TX_RING, rings.transmit),
    ] {
        set_option(fd.as_fd(), libc::SOL_XDP, option, &size).map_err(system)?;
    }
    // Without it (before 6.17) a sendto takes 32 frames; flush then calls more often.
    let budget = rings.transmit.min(KICK_FRAMES_MAX);
    let _ = set_option(fd.as_fd(), libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget);
    // Without the privilege the default limit stays, and a full buffer makes flush try again.
    let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES);
    Ok((fd, metadata_bytes))
}

fn is_zero_copy(fd: BorrowedFd<'_>) -> bool {
    let mut options = libc::xdp_options { flags: 0 };
    get_option(fd, libc::XDP_OPTIONS, &mut options).is_ok() && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
}

/// Binds a socket to its queue.
pub(super) fn bind(fd: BorrowedFd<'_>, config: &SocketConfig<'_>) -> Result<(), DeviceError> {
    let mode = match config.mode {
        Mode::Auto => SocketAddrXdpFlags::empty(),
        Mode::Copy => SocketAddrXdpFlags::XDP_COPY,
        Mode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
    };
    let scatter = if config.scatter { SocketAddrXdpFlags::XDP_USE_SG } else { SocketAddrXdpFlags::empty() };
    // A socket that shares takes its mode and flags from the owner of the memory, and may name none.
    let flags = match config.sharing {
        Some(_) => SocketAddrXdpFlags::XDP_SHARED_UMEM,
        None => SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP | mode | scatter,
    };
    let address = SocketAddrXdp::new(flags, config.index, config.queue);
    let deadline = Instant::now() + config.patience;
    loop {
        let bound = match config.sharing {
            Some(owner) => rustix::net::bind(
                fd,
                &SocketAddrXdpWithSharedUmem { addr: address.clone(), shared_umem_fd: owner.as_fd() },
            ),
            None => rustix::net::bind(fd, &address),
        };
        let Err(error) = bound else { return Ok(()) };
        let name = config.interface.to_owned();
        return Err(match error {
            Errno::BUSY if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            Errno::BUSY => DeviceError::QueueBusy { name, queue: config.queue },
            Errno::NODEV => DeviceError::NoSuchInterface { name },
            Errno::NETDOWN => DeviceError::InterfaceDown { name },
            Errno::NOBUFS => DeviceError::LockedMemory { bytes: 0 },
            _ => {
                DeviceError::System { what: format!("bind to queue {} of {name}", config.queue), source: error.into() }
            }
        });
    }
}

fn create() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?)
}

/// Registers frame memory; returns the metadata bytes agreed on. Kernels differ: some want a flag for metadata, some
/// refuse the flag, some know no metadata.
fn register(fd: BorrowedFd<'_>, region: &Region, metadata: bool) -> Result<u32, DeviceError> {
    let mut attempts = vec![(0, 0)];
    if metadata {
        attempts.splice(0..0, [(TRANSMIT_METADATA_BYTES, XDP_UMEM_TX_METADATA_LEN), (TRANSMIT_METADATA_BYTES, 0)]);
    }
    let mut last = io::Error::from_raw_os_error(libc::EINVAL);
    for (metadata_bytes, flags) in attempts {
        let registration = libc::xdp_umem_reg {
            addr: region.base().as_ptr() as u64,
            len: region.length() as u64,
            chunk_size: region.frame_size(),
            headroom: 0,
            flags,
            tx_metadata_len: metadata_bytes,
        };
        match set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration) {
            Ok(()) => return Ok(metadata_bytes),
            Err(error) => last = error,
        }
        if last.raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    Err(match last.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM) => DeviceError::LockedMemory { bytes: region.length() },
        _ => DeviceError::system("register frame memory", last),
    })
}

fn set_option<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: reads a live T of its size.
    let result = unsafe {
        let value: *const T = value;
        libc::setsockopt(fd.as_raw_fd(), level, option, value.cast(), size_of::<T>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Only for plain C structures, valid with any bytes.
fn get_option<T: Copy>(fd: BorrowedFd<'_>, option: i32, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: writes at most the size of a live T, which any bytes are valid for.
    let result = unsafe {
        let value: *mut T = value;
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value.cast(), &raw mut length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

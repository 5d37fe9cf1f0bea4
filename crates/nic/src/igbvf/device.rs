//! [`IgbVf`]: the virtual function as a [`Vnic`].

use super::error::IgbVfError;
use super::groups::{ADDRESSES_MAX, Groups};
use super::handshake::Handshake;
use super::mailbox::Mailbox;
use super::memory::Descriptors;
use super::receive::ReceiveRing;
use super::registers::{
    CTRL, CTRL_RESET, DESCRIPTOR_BYTES, EIAC, EICR, EIMC, EIMS, IVAR_MISC, IVAR_VALID, IVAR0, MESSAGE_CLEAR_TO_SEND,
    STATUS, STATUS_LINK,
};
use super::transmit::TransmitRing;
use crate::base::random::unpredictable;
use crate::base::time::{Clock, MonotonicClock, Time};
use crate::memory::{Frame, Region};
use crate::plan::{FrameMemory, MemoryPlan};
use crate::statistics::VnicStatistics;
use crate::vfio::{Function, PciAddress, Registers, VfioError};
use crate::vnic::{Capabilities, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::MacAddress;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Vendor and device numbers of the function.
const VENDOR: u16 = 0x8086;
const DEVICE: u16 = 0x10ca;
/// Bytes of BAR 0.
const REGISTERS_BYTES: usize = 16_384;
/// Descriptors of each ring.
const RING: u32 = 512;
/// Vectors: of frames, and of the mailbox.
const VECTORS: u32 = 2;
/// Longest layer-3 packet that the host's driver lets through without more, bytes.
pub const MTU: u16 = 1_500;
/// Ethernet header, a VLAN tag and the frame's checksum.
const LINK_BYTES: u32 = 22;
/// How often to look whether the host's driver has something to say, at most. It rings the bell, too.
const LOOK: Duration = Duration::from_millis(50);
/// Calls that find nothing between two looks at the clock.
const CALLS: u32 = 64;

/// How a function is to be opened.
#[derive(Clone, Debug)]
pub struct IgbVfConfig {
    /// Where it is.
    pub address: PciAddress,
    /// How much memory for frames.
    pub plan: MemoryPlan,
    /// Addresses that neighbours on the link may ask for: of IPv6 29 at most.
    pub addresses: Vec<IpAddr>,
    /// How long the host's driver may take to answer.
    pub patience: Duration,
}

impl IgbVfConfig {
    /// With memory as by default, and 10 s for the host's driver.
    pub fn new(address: PciAddress) -> IgbVfConfig {
        IgbVfConfig { address, plan: MemoryPlan::default(), addresses: Vec::new(), patience: Duration::from_secs(10) }
    }
}

/// A virtual function of an Intel 82576, with one queue of each kind.
pub struct IgbVf {
    registers: Registers,
    function: Function,
    event: File,
    /// Somebody sleeps on the eventfd, so it must be emptied.
    is_watched: Cell<bool>,
    mailbox: Mailbox,
    /// Under way after the host's driver was reset; `None`: frames flow.
    handshake: Option<Handshake>,
    groups: Groups,
    receive: ReceiveRing,
    transmit: TransmitRing,
    memory: FrameMemory,
    mac: MacAddress,
    clock: MonotonicClock,
    look_at: Time,
    calls: u32,
    resets: u64,
    statistics: VnicStatistics,
}

impl std::fmt::Debug for IgbVf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IgbVf({}, {:?})", self.function.address(), self.mac)
    }
}

/// An address of one's own, for a host that gives none.
fn own_address() -> io::Result<MacAddress> {
    let mut bytes: [u8; 6] = unpredictable()?;
    bytes[0] = bytes[0] & 0xfc | 2;
    Ok(MacAddress(bytes))
}

/// Bytes of the longest frame, its checksum included.
fn frame_bytes() -> u32 {
    u32::from(MTU) + LINK_BYTES
}

/// What a setting's addresses listen to, if all settings make sense.
fn check(config: &IgbVfConfig) -> Result<Groups, IgbVfError> {
    let (address, size) = (config.address, config.plan.frame_size);
    if u64::from(size) < u64::from(frame_bytes()) || size > 16_384 {
        let reason = format!("frames of {size} bytes for {address}: it takes 2048 to 16384");
        return Err(IgbVfError::Invalid { reason });
    }
    let mut groups = Groups::default();
    for wanted in &config.addresses {
        if let IpAddr::V6(wanted) = wanted
            && groups.add(*wanted).is_none()
        {
            let reason = format!("{address} can be asked for by {ADDRESSES_MAX} IPv6 addresses at most");
            return Err(IgbVfError::Invalid { reason });
        }
    }
    Ok(groups)
}

impl IgbVf {
    /// Opens the virtual function at an address, which vfio-pci must have, and has the host's driver let it send.
    ///
    /// # Errors
    /// [`IgbVfError`].
    pub fn open(config: &IgbVfConfig) -> Result<IgbVf, IgbVfError> {
        check(config)?;
        IgbVf::over(Function::open(config.address)?, config)
    }

    /// The same of a function that is open already.
    ///
    /// # Errors
    /// [`IgbVfError`].
    pub fn over(mut function: Function, config: &IgbVfConfig) -> Result<IgbVf, IgbVfError> {
        let address = function.address();
        let groups = check(config)?;
        let identity = function.identity();
        if (identity.vendor, identity.device) != (VENDOR, DEVICE) {
            let found = format!("{:04x}:{:04x}", identity.vendor, identity.device);
            return Err(VfioError::WrongKind { address, wanted: "virtual function of an 82576", found }.into());
        }
        let no_memory = |error| IgbVfError::Memory { address, error };
        let memory = config.plan.allocate().map_err(no_memory)?;
        let frames_at = function.map(&memory.region)?;
        let rings = Region::new(2, (RING * DESCRIPTOR_BYTES as u32).max(4_096)).map_err(no_memory)?;
        let rings_at = function.map(&rings)?;
        let descriptors =
            || Descriptors::new(&rings, rings_at, RING).ok_or_else(|| no_memory(io::ErrorKind::OutOfMemory.into()));
        let receive = ReceiveRing::new(descriptors()?, frames_at, memory.receive.clone());
        let transmit = TransmitRing::new(descriptors()?, frames_at);
        let registers = function.registers(0, REGISTERS_BYTES)?;
        let event = File::from(function.interrupts(0, VECTORS)?);
        function.set_bus_master(true)?;
        let mac = own_address().map_err(no_memory)?;
        let clock = MonotonicClock::new();
        let mut card = IgbVf {
            registers,
            function,
            event,
            is_watched: Cell::new(false),
            mailbox: Mailbox::default(),
            handshake: Some(Handshake::new(mac, frame_bytes(), groups.clone())),
            groups,
            receive,
            transmit,
            memory,
            mac,
            look_at: clock.now(),
            clock,
            calls: 0,
            resets: 0,
            statistics: VnicStatistics::default(),
        };
        let deadline = card.clock.now() + config.patience;
        while !card.recover() {
            if card.clock.now() >= deadline {
                return Err(IgbVfError::NoAnswer { address, milliseconds: config.patience.as_millis() as u64 });
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(card)
    }

    /// How often the host's driver had everything set anew.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Whether frames flow: the host's driver lets it send, and the link is up.
    pub fn is_up(&self) -> bool {
        self.handshake.is_none() && self.registers.read(STATUS) & STATUS_LINK != 0
    }

    /// Gets on with a handshake; whether frames flow.
    fn recover(&mut self) -> bool {
        let Some(handshake) = &mut self.handshake else { return true };
        let Some(mac) = handshake.advance(&self.registers, &mut self.mailbox, self.clock.now()) else {
            // The mailbox rings: its vector is set again after each reset of the function.
            self.route();
            return false;
        };
        self.handshake = None;
        self.mac = mac;
        self.receive.start(&self.registers);
        self.statistics.transmit_lost += self.transmit.start(&self.registers);
        self.route();
        // A device may take a while to turn its queues on.
        self.look_at = self.clock.now() + LOOK;
        true
    }

    /// Has queues and mailbox ring.
    fn route(&self) {
        let both = (1 << VECTORS) - 1;
        self.registers.write(IVAR0, IVAR_VALID);
        self.registers.write(IVAR_MISC, IVAR_VALID | 1);
        self.registers.write(EIAC, both);
        self.registers.write(EIMS, both);
    }

    /// Whether the host's driver has been reset; then all begins anew.
    fn watch(&mut self) {
        let was_reset = self.mailbox.takes_reset(&self.registers);
        let message = self.mailbox.take_message(&self.registers);
        let may_not_send = message.is_some_and(|words| words[0] & MESSAGE_CLEAR_TO_SEND == 0);
        if was_reset || may_not_send {
            self.resets += 1;
            self.begin_anew();
        }
    }

    fn begin_anew(&mut self) {
        self.handshake = Some(Handshake::new(self.mac, frame_bytes(), self.groups.clone()));
    }

    /// Empties the eventfd, if somebody sleeps on it; whether there was something in it.
    fn hush(&mut self) -> bool {
        // A system call, only for those who sleep.
        self.is_watched.get() && (&self.event).read(&mut [0; 8]).is_ok()
    }

    /// Nothing came: looks after the mailbox, now and then.
    #[cold]
    fn idle(&mut self, rang: bool) {
        self.calls = self.calls.wrapping_add(1);
        if !rang && !self.calls.is_multiple_of(CALLS) {
            return;
        }
        let now = self.clock.now();
        let is_due = now >= self.look_at;
        if rang || is_due {
            self.look_at = now + LOOK;
            self.watch();
        }
        // The host has reset the function itself, which says nothing.
        if is_due && self.handshake.is_none() && !self.receive.is_on(&self.registers) {
            self.resets += 1;
            self.begin_anew();
        }
    }

    /// A frame of another region, in one of ours.
    #[cold]
    fn copy(&mut self, buffer: TransmitBuffer) -> Result<TransmitBuffer, TransmitBuffer> {
        let Some(mut frame) = self.memory.transmit.allocate(0) else { return Err(buffer) };
        if frame.append_bytes(buffer.frame().bytes()).is_none() {
            return Err(buffer);
        }
        self.statistics.transmit_copied += 1;
        Ok(TransmitBuffer::Owned(frame))
    }
}

impl Vnic for IgbVf {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mac: self.mac,
            mtu: MTU,
            transmit_checksum: false,
            receive_checksum: ReceiveChecksum::Verify,
            transmit_buffers_max: 1,
            transmit_headroom: 0,
        }
    }

    #[inline]
    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        if self.handshake.is_some() {
            self.hush();
            if !self.recover() {
                return 0;
            }
        }
        let mut count = self.receive.take(frames, frames_max, &mut self.statistics);
        if count == 0 {
            let rang = self.hush();
            if rang {
                // What rings from here on is for what came after this second look.
                count = self.receive.take(frames, frames_max, &mut self.statistics);
            }
            self.idle(rang);
        }
        if self.handshake.is_none() {
            self.receive.refill(&self.registers);
        }
        count
    }

    #[inline]
    fn transmit_room(&mut self) -> usize {
        self.transmit.reclaim();
        self.transmit.room()
    }

    #[inline]
    fn transmit(&mut self, buffer: TransmitBuffer, _options: TransmitOptions) -> Result<(), TransmitBuffer> {
        if self.handshake.is_some() {
            // As a wire that is unplugged: what is sent is lost, and the stack's timers see to it.
            self.statistics.transmit_lost += 1;
            return Ok(());
        }
        let buffer = if buffer.frame().is_of(&self.memory.transmit) { buffer } else { self.copy(buffer)? };
        let bytes = buffer.frame().len();
        if bytes == 0 || bytes + 4 > frame_bytes() as usize {
            self.statistics.transmit_invalid += 1;
            return Ok(());
        }
        self.transmit.put(buffer).inspect_err(|_| self.statistics.transmit_ring_full += 1)?;
        self.statistics.transmit_frames += 1;
        self.statistics.transmit_bytes += bytes as u64;
        Ok(())
    }

    #[inline]
    fn flush(&mut self) {
        if self.handshake.is_none() && self.transmit.ring(&self.registers) {
            self.statistics.transmit_doorbells += 1;
        }
        self.transmit.reclaim();
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.is_watched.set(true);
        Some(self.event.as_fd())
    }

    /// Everything is set anew for it: frames are lost meanwhile.
    fn claim_address(&mut self, address: IpAddr) -> bool {
        let IpAddr::V6(address) = address else { return true };
        let added = self.groups.add(address);
        if added == Some(true) {
            self.begin_anew();
        }
        added.is_some()
    }

    fn release_address(&mut self, address: IpAddr) {
        if let IpAddr::V6(address) = address {
            self.groups.remove(address);
        }
    }

    fn statistics(&self) -> VnicStatistics {
        self.statistics
    }
}

impl Drop for IgbVf {
    /// Stops the function: its memory is the device's until then.
    fn drop(&mut self) {
        self.registers.write(EIMC, u32::MAX);
        self.registers.write(EICR, u32::MAX);
        self.registers.write(CTRL, self.registers.read(CTRL) | CTRL_RESET);
        if self.function.set_bus_master(false).is_err() {
            self.receive.give_up();
            self.transmit.give_up();
            self.function.give_up();
        }
    }
}

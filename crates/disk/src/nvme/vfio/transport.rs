//! [`FunctionTransport`]: the registers of a controller in a function's BAR 0.

use crate::nvme::spec::{DOORBELLS, PAGE_BYTES};
use crate::nvme::transport::Transport;
use qanat_nic::vfio::{Function, Registers, VfioError};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Bytes of BAR 0 that are mapped: registers, and doorbells of some queues at any distance but the largest.
const MAPPED_BYTES: usize = DOORBELLS as usize + 4 * PAGE_BYTES as usize;
/// How long to wait between two looks at a controller that is being brought up.
const PAUSE: Duration = Duration::from_micros(100);

/// The registers of a controller that is a function of the machine.
#[derive(Debug)]
pub struct FunctionTransport {
    registers: Registers,
    function: Function,
    event: OwnedFd,
    vector: u16,
    /// Somebody sleeps on the eventfd, so it must be emptied.
    is_watched: Cell<bool>,
}

impl FunctionTransport {
    /// Over a function, which may reach memory from now on.
    ///
    /// # Errors
    /// [`VfioError`].
    pub fn new(function: Function) -> Result<FunctionTransport, VfioError> {
        let registers = function.registers(0, MAPPED_BYTES)?;
        // The admin queue has vector 0, which nobody listens to; a controller with a single vector has no other.
        let vectors = function.vectors().clamp(1, 2);
        let vector = vectors - 1;
        let event = function.interrupts(vector, vectors)?;
        function.set_bus_master(true)?;
        Ok(FunctionTransport { registers, function, event, vector: vector as u16, is_watched: Cell::new(false) })
    }

    /// The function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The same, to have it reach other memory.
    pub fn function_mut(&mut self) -> &mut Function {
        &mut self.function
    }
}

impl Transport for FunctionTransport {
    #[inline]
    fn read32(&mut self, offset: u32) -> u32 {
        self.registers.read(offset)
    }

    /// As two halves: a controller needn't answer to 64 bits at once.
    fn read64(&mut self, offset: u32) -> u64 {
        let lower = u64::from(self.registers.read(offset));
        lower | u64::from(self.registers.read(offset.saturating_add(4))) << 32
    }

    #[inline]
    fn write32(&mut self, offset: u32, value: u32) {
        self.registers.write(offset, value);
    }

    fn write64(&mut self, offset: u32, value: u64) {
        self.registers.write(offset, value as u32);
        self.registers.write(offset.saturating_add(4), (value >> 32) as u32);
    }

    fn event(&self, has_some: &dyn Fn() -> bool) -> Option<BorrowedFd<'_>> {
        self.is_watched.set(true);
        if has_some() {
            // Their interrupt may have been read already. A full counter is readable anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
        Some(self.event.as_fd())
    }

    fn silence(&mut self) -> bool {
        // A system call, only for those who slept.
        if self.is_watched.replace(false) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
        true
    }

    fn interrupt_vector(&self) -> Option<u16> {
        Some(self.vector)
    }

    fn relax(&mut self) {
        std::thread::sleep(PAUSE);
    }

    fn isolate(&mut self) -> bool {
        if self.function.set_bus_master(false).is_ok() {
            return true;
        }
        self.function.give_up();
        false
    }
}

//! [`CoreEnd`]: the disk core's end of an application's registers and doorbells.

use super::bell::Bell;
use super::layout::{LayoutError, SharedLayout};
use super::memory::TenantMemory;
use super::page::{DOORBELL_COUNT, Page, Side};
use crate::controller::{Controller, GuestMemory};
use crate::nvme::spec::{Configuration, DOORBELLS, register};
use crate::vsic::Vsic;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Registers that the driver writes before CC.
const ADMIN_REGISTERS: [u32; 5] = [register::AQA, register::ASQ, register::ASQ + 4, register::ACQ, register::ACQ + 4];

/// The page of registers, from the core's side. Each word is read once at a look, and then judged by the controller.
#[derive(Debug)]
pub(crate) struct CoreEnd {
    page: Page,
    bell: Bell,
    configuration: u32,
    status: u32,
    heard: [u32; DOORBELL_COUNT as usize],
}

impl CoreEnd {
    /// Maps an application's memory: the page, and what commands may name.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub(crate) fn map(
        layout: SharedLayout,
        file: BorrowedFd<'_>,
        doorbell: OwnedFd,
    ) -> Result<(CoreEnd, TenantMemory), LayoutError> {
        let regions = layout.map(file)?;
        let memory = TenantMemory::new(&layout, regions.queues, regions.frames).ok_or(LayoutError::Range(layout))?;
        let page = Page::new(regions.link);
        let heard = [0; DOORBELL_COUNT as usize];
        Ok((CoreEnd { page, bell: Bell::new(doorbell), configuration: 0, status: 0, heard }, memory))
    }

    /// Shows what the controller is like, whatever was there before.
    pub(crate) fn begin<B: Vsic, M: GuestMemory>(&mut self, controller: &Controller<B, M>) {
        for offset in [register::CAP, register::CAP + 4, register::VS] {
            self.page.store(offset, controller.read32(offset));
        }
        self.page.store(register::CC, 0);
        self.status = controller.read32(register::CSTS);
        self.page.store(register::CSTS, self.status);
    }

    /// Tells the controller what the driver has written since.
    #[inline]
    pub(crate) fn hear<B: Vsic, M: GuestMemory>(&mut self, controller: &mut Controller<B, M>) {
        let configuration = self.page.load(register::CC);
        if configuration != self.configuration {
            self.configure(controller, configuration);
        }
        for (index, heard) in (0..).zip(&mut self.heard) {
            let offset = DOORBELLS + 4 * index;
            let value = self.page.load(offset);
            if value != *heard {
                *heard = value;
                controller.write32(offset, value);
            }
        }
    }

    #[cold]
    fn configure<B: Vsic, M: GuestMemory>(&mut self, controller: &mut Controller<B, M>, configuration: u32) {
        let (old, new) = (Configuration::from_bits(self.configuration), Configuration::from_bits(configuration));
        self.configuration = configuration;
        if new.is_enabled() && !old.is_enabled() {
            for offset in ADMIN_REGISTERS {
                controller.write32(offset, self.page.load(offset));
            }
            // A driver rings none before the controller is ready.
            for (index, heard) in (0..).zip(&mut self.heard) {
                *heard = 0;
                self.page.store(DOORBELLS + 4 * index, 0);
            }
        }
        controller.write32(register::CC, configuration);
    }

    /// Shows the controller's status, and wakes the driver if it sleeps and there is news.
    #[inline]
    pub(crate) fn tell<B: Vsic, M: GuestMemory>(&mut self, controller: &Controller<B, M>, has_posted: bool) {
        let status = controller.read32(register::CSTS);
        let has_changed = status != self.status;
        if has_changed {
            self.status = status;
            self.page.store(register::CSTS, status);
        }
        if (has_posted || has_changed) && self.page.is_asleep(Side::Driver) {
            self.bell.ring();
        }
    }

    /// Says that the controller is no more: nothing of the memory is touched again, by the device neither.
    pub(crate) fn say_gone(&self) {
        for offset in [register::CAP, register::CAP + 4, register::CSTS] {
            self.page.store(offset, u32::MAX);
        }
        self.bell.ring();
    }

    /// Says that commands are held by a rate, for the time that the driver waits for them: the number of times so far, and how long this
    /// time.
    pub(crate) fn say_held(&self, holds: u32, time: Duration) {
        self.page.say_held(holds, u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    }

    /// Says whether the core sleeps.
    pub(crate) fn say_asleep(&self, sleeps: bool) {
        self.page.say_asleep(Side::Core, sleeps);
    }

    /// Whether the driver has written something that the controller was not told.
    pub(crate) fn has_news(&self) -> bool {
        let is_rung = |(index, heard): (u32, &u32)| self.page.load(DOORBELLS + 4 * index) != *heard;
        self.page.load(register::CC) != self.configuration || (0..).zip(&self.heard).any(is_rung)
    }

    /// Takes the rings that have come; `false`: the application is gone.
    pub(crate) fn silence(&self) -> bool {
        self.bell.silence()
    }
}

impl AsFd for CoreEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

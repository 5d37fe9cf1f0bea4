//! MSI-X vectors as eventfds.

use super::address::PciAddress;
use super::call::{
    self, DEVICE_GET_IRQ_INFO, DEVICE_SET_IRQS, InterruptInfo, InterruptSet, MSIX, TRIGGER_EVENTFD, VECTORS_MAX,
};
use super::error::VfioError;
use std::os::fd::{AsRawFd, BorrowedFd};

/// MSI-X vectors that a function has.
pub(super) fn count(device: BorrowedFd<'_>) -> u32 {
    let mut info = InterruptInfo { size: size_of::<InterruptInfo>() as u32, index: MSIX, ..InterruptInfo::default() };
    call::with_argument(device, DEVICE_GET_IRQ_INFO, &mut info).map_or(0, |()| info.count)
}

/// Turns MSI-X on: vector `index` writes to eventfd `index`, if there is one.
///
/// # Errors
/// [`VfioError::NoInterrupts`], [`VfioError::System`].
pub(super) fn route(
    device: BorrowedFd<'_>,
    address: PciAddress,
    events: &[Option<BorrowedFd<'_>>],
) -> Result<(), VfioError> {
    let (wanted, available) = (events.len() as u32, count(device).min(VECTORS_MAX as u32));
    if wanted > available {
        return Err(VfioError::NoInterrupts { address, wanted, available });
    }
    let mut set = InterruptSet {
        size: (size_of::<InterruptSet>() - 4 * (VECTORS_MAX - events.len())) as u32,
        flags: TRIGGER_EVENTFD,
        index: MSIX,
        start: 0,
        count: wanted,
        descriptors: [-1; VECTORS_MAX],
    };
    for (descriptor, event) in set.descriptors.iter_mut().zip(events) {
        *descriptor = event.map_or(-1, |event| event.as_raw_fd());
    }
    call::with_argument(device, DEVICE_SET_IRQS, &mut set)
        .map_err(|source| VfioError::system(format!("turn MSI-X of {address} on"), source))
}

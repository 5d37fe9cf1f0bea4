//! The NVMe driver and the software controller: each with the other, the driver with a device that breaks the protocol, the controller
//! with a driver that does.

mod broken;
mod device;
mod driver;
mod random;
mod rig;

//! [`Injection`]: the program that injects frames, and its table of senders.
//!
//! One program serves all senders of a control plane, each by a row of its own. So a sender costs the kernel no program, nothing is made
//! ahead, a row that is taken back ends its sender at once, and the kernel knows the program throughout: a run of one that is
//! attached nowhere would patch the kernel's code, at everybody's expense.

use super::batch::{Batch, map_batch, unmap_batch};
use super::call;
use super::program::load_error;
use crate::base::random::unpredictable;
use crate::error::DeviceError;
use crate::link::{Namespace, set_generic_xdp};
use aya::maps::{Map, MapData};
use aya::programs::Xdp;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub(super) const LOADING: &str = "prepare to inject frames";
/// The name of the program, and of its maps.
pub const INJECT: &str = "inject";
const BATCHES: &str = "batches";
const DEVICES: &str = "devices";
/// Senders at most; twin of `ROWS_MAX` in `bpf/inject.c`.
pub const INJECTION_ROWS_MAX: u32 = 4_096;
/// What a sender's batch takes of the kernel's memory: whole pages.
pub const INJECTION_BYTES: u64 = (size_of::<Batch>() as u64).next_multiple_of(4_096);

/// The program's text. A process that goes on with an earlier process's program compares it.
pub static INJECTION_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/inject.o"));

/// A sender's batch that is in no row yet.
pub struct PreparedBatch {
    map: OwnedFd,
    number: u32,
}

impl PreparedBatch {
    /// The number the kernel knows it by, as long as anybody has it.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// What a sender is handed.
#[derive(Debug)]
pub struct HandedInjector {
    /// The program, which is all senders'.
    pub program: OwnedFd,
    /// The map with the batch. A process that has it sends by the batch's row.
    pub batch: OwnedFd,
}

impl HandedInjector {
    /// As they travel.
    pub fn into_descriptors(self) -> [OwnedFd; 2] {
        [self.program, self.batch]
    }

    /// As they arrive; `None` if it isn't two.
    pub fn from_descriptors(mut descriptors: impl Iterator<Item = OwnedFd>) -> Option<HandedInjector> {
        let handed = HandedInjector { program: descriptors.next()?, batch: descriptors.next()? };
        // An earlier daemon's were more, and another program's.
        descriptors.next().is_none().then_some(handed)
    }
}

/// The program and its table.
pub struct Injection {
    program: OwnedFd,
    batches: MapData,
    devices: MapData,
}

impl Injection {
    /// Loads the program. It is to be kept known to the kernel by [`keep_at`](Injection::keep_at).
    ///
    /// # Errors
    /// What the system says.
    pub fn load() -> Result<Injection, DeviceError> {
        let mut object = super::object::load(INJECTION_OBJECT).map_err(load_error)?;
        let missing =
            || DeviceError::Invalid { reason: "the object lacks the program inject, or its maps: rebuild".to_owned() };
        let loading = |error: aya::programs::ProgramError| load_error(error.into());
        let program: &mut Xdp = object.program_mut(INJECT).ok_or_else(missing)?.try_into().map_err(loading)?;
        super::object::load_program(program, Xdp::load).map_err(loading)?;
        let program = program.fd().map_err(loading)?.as_fd().try_clone_to_owned();
        let program = program.map_err(|error| DeviceError::system(LOADING, error))?;
        match (object.take_map(BATCHES), object.take_map(DEVICES)) {
            (Some(Map::ArrayOfMaps(batches)), Some(Map::DevMap(devices))) => {
                Ok(Injection { program, batches, devices })
            }
            _ => Err(missing()),
        }
    }

    /// Goes on with the program another process has loaded, and its maps by name.
    ///
    /// # Errors
    /// `Invalid` if it isn't this program.
    pub fn take_back(
        program: OwnedFd,
        mut maps: impl FnMut(&str) -> Option<MapData>,
    ) -> Result<Injection, DeviceError> {
        let missing = || DeviceError::Invalid { reason: "the injecting program has other maps".to_owned() };
        Ok(Injection {
            program,
            batches: maps(BATCHES).ok_or_else(missing)?,
            devices: maps(DEVICES).ok_or_else(missing)?,
        })
    }

    /// Attaches the program to an interface of the calling thread's namespace that no traffic passes, for as long as the
    /// interface exists.
    ///
    /// # Errors
    /// What the system says.
    pub fn keep_at(&self, index: u32) -> Result<(), DeviceError> {
        set_generic_xdp(index, self.program.as_fd())
            .map_err(|error| DeviceError::system("attach the injecting program", error))
    }

    /// Makes a batch, empty.
    ///
    /// # Errors
    /// What the system says.
    pub fn make_batch() -> Result<PreparedBatch, DeviceError> {
        let make = || -> io::Result<PreparedBatch> {
            let map = call::make_value(size_of::<Batch>() as u32)?;
            let number = call::map_number(map.as_fd())?;
            Ok(PreparedBatch { map, number })
        };
        make().map_err(|error| DeviceError::system(LOADING, error))
    }

    /// Whether anybody has the batch the kernel knows by this number: descriptors, mappings, programs and tables all count.
    /// A kernel that does not tell says yes.
    pub fn is_held(number: u32) -> bool {
        call::is_map(number).unwrap_or(true)
    }

    /// Gives a row to a sender whose frames leave by the device `index` of `namespace`.
    ///
    /// # Errors
    /// What the system says.
    pub fn hand_over(
        &mut self,
        row: u32,
        batch: PreparedBatch,
        index: u32,
        namespace: &Namespace,
    ) -> Result<HandedInjector, DeviceError> {
        let system = |error| DeviceError::system(LOADING, error);
        let mapped = map_batch(batch.map.as_fd()).map_err(system)?;
        let key = key().map_err(system);
        // SAFETY: a mapping of a whole batch that nobody else has yet.
        unsafe {
            (&raw mut (*mapped.as_ptr()).row).write(row);
            (&raw mut (*mapped.as_ptr()).key).write(*key.as_ref().unwrap_or(&[0; 2]));
        }
        unmap_batch(mapped);
        key?;
        let devices = self.devices.fd().as_fd();
        // The kernel looks the device's number up in the calling thread's namespace.
        namespace.within(|| call::set_device(devices, row, index)).and_then(|done| done).map_err(system)?;
        call::set_map(self.batches.fd().as_fd(), row, batch.map.as_fd()).map_err(system)?;
        let program = self.program.try_clone().map_err(system)?;
        Ok(HandedInjector { program, batch: batch.map })
    }

    /// Lets the sender of a row send by the device `index` of `namespace` again, or has it find another way meanwhile: it sends nothing
    /// then, and keeps what it has.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_sending(&mut self, row: u32, device: Option<(u32, &Namespace)>) -> Result<(), DeviceError> {
        let devices = self.devices.fd().as_fd();
        match device {
            Some((index, namespace)) => namespace
                .within(|| call::set_device(devices, row, index))
                .and_then(|done| done)
                .map_err(|error| DeviceError::system(LOADING, error)),
            None => {
                // A row without a device is no error.
                let _ = call::remove_element(devices, row);
                Ok(())
            }
        }
    }

    /// Takes a row back: its sender sends nothing from now on.
    pub fn revoke(&mut self, row: u32) {
        // A row that nobody has is no error.
        let _ = call::remove_element(self.batches.fd().as_fd(), row);
        let _ = call::remove_element(self.devices.fd().as_fd(), row);
    }
}

/// Numbers that nobody guesses.
fn key() -> io::Result<[u64; 2]> {
    let bits = u128::from_ne_bytes(unpredictable()?);
    Ok([bits as u64, (bits >> 64) as u64])
}

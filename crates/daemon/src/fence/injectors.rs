//! Injectors: who sends large batches without socket buffers, and what keeps that in order.
//!
//! The program is one for all cards (`crates/nic/bpf/inject.c`), and each queue that has an injector has a row of its table, by the
//! number of its charge. It is kept by a device of the cards' namespace that nothing passes: so cards send as quickly when this
//! daemon is gone, and the next one finds the program there.

use crate::error::{DaemonError, say};
use crate::fence::digest::digest;
use crate::fence::tables::programs_maps;
use qanat_nic::af_xdp::{HandedInjector, INJECT, INJECTION_OBJECT, Injection, PreparedBatch};
use qanat_nic::link::{self, Namespace};
use std::os::fd::AsFd;

/// What the two ends of the device are called, before the program's digest.
const NAMES: [&str; 2] = ["keep", "kept"];
/// Of a device that nothing passes.
const MTU: u32 = 1_500;

/// For whom a queue is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opener {
    /// A process that holds a card's handle.
    Client,
    /// A net core of the daemon's, which can do no more with a program than run it (`qanat/src/confine/`).
    NetCore,
}

/// The program, where the kernel has what it needs.
#[derive(Default)]
pub(crate) struct Injectors {
    injection: Option<Injection>,
}

impl Injectors {
    /// Goes on with the program that an earlier daemon has left in `ends`, or loads it. Without it all goes by the rings.
    pub(crate) fn start(ends: &Namespace) -> Injectors {
        let injection = take_back(ends).or_else(|| load(ends).ok());
        Injectors { injection }
    }

    /// A batch for a queue, in no row yet.
    pub(crate) fn prepare(&self) -> Option<PreparedBatch> {
        self.injection.as_ref()?;
        Injection::make_batch().ok()
    }

    /// Gives a row to a queue whose frames leave by the device `index` of `ends`.
    pub(crate) fn hand_over(
        &mut self,
        row: u32,
        batch: PreparedBatch,
        index: u32,
        ends: &Namespace,
    ) -> Option<HandedInjector> {
        self.injection.as_mut()?.hand_over(row, batch, index, ends).ok()
    }

    /// Has a row's sender send by this device of `ends`, or (`None`) find another way until it is told otherwise.
    pub(crate) fn set_sending(&mut self, row: u32, index: Option<u32>, ends: &Namespace) {
        if let Some(injection) = &mut self.injection {
            // Without its device the row sends nothing, and its sender finds another way.
            let _ = injection.set_sending(row, index.map(|index| (index, ends)));
        }
    }

    /// Takes it back.
    pub(crate) fn revoke(&mut self, row: u32) {
        if let Some(injection) = &mut self.injection {
            injection.revoke(row);
        }
    }
}

fn names() -> [String; 2] {
    let digest = digest(INJECTION_OBJECT) & 0xfff_ffff_ffff;
    NAMES.map(|name| format!("{name}{digest:011x}"))
}

/// The program that the device of this name keeps: of the same text as ours.
fn take_back(ends: &Namespace) -> Option<Injection> {
    let [name, _] = names();
    let program = ends.within(|| link::link(&name)).ok()?.ok()?.xdp_program?;
    let (program, mut maps) = programs_maps(program, INJECT).ok()?;
    let program = program.as_fd().try_clone_to_owned().ok()?;
    Injection::take_back(program, |name| maps.remove(name)).ok()
}

fn load(ends: &Namespace) -> Result<Injection, DaemonError> {
    let injection = Injection::load().map_err(|error| error.to_string())?;
    let [name, other] = names();
    let keep = || -> Result<(), DaemonError> {
        let failed = |error| say("make a device that keeps the injecting program", error);
        match link::make_veth(&name, &other, ends, MTU, 1) {
            // An earlier daemon ended before it had attached the program.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            outcome => outcome.map_err(failed)?,
        }
        let index = link::link(&name).map_err(failed)?.index;
        injection.keep_at(index).map_err(|error| error.to_string().into())
    };
    ends.within(keep).map_err(|error| say("enter a namespace", error))??;
    Ok(injection)
}

/// The devices of the calling thread's namespace that keep a program, of whatever version: earlier ones have clients yet.
pub(crate) fn keepers() -> Vec<u32> {
    let is_keeper = |name: &str| NAMES.iter().any(|prefix| name.starts_with(prefix));
    let links = link::links().unwrap_or_default();
    links.into_iter().filter(|link| is_keeper(&link.name)).map(|link| link.index).collect()
}

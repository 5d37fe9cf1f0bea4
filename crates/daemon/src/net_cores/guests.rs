//! Net cores added and removed while they run.
//!
//! ```text
//!   remove 1   its cards move to those with the fewest (`moves.rs`), and it ends; until they have, it is a guest on another
//!              processor: its connections go on, it takes no more cards
//!   add 1      a new one is started, or a guest comes home, and has cards of the fullest
//! ```
//! A card that can't move yet (its service is just coming, its next net core has just died) is tried again: so a guest is what a
//! net core is in between.

use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::log::Event;
use crate::net_cores::core::{NetCore, Standing};
use crate::policy::NET_CORES_MAX;
use crate::requests::served::{Served, done};
use qanat_control::net_core::Order;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::path::Path;

/// Whether programs can run on it.
fn is_online(processor: u32) -> bool {
    let directory = Path::new("/sys/devices/system/cpu").join(format!("cpu{processor}"));
    // The first one cannot be taken away, and has no such file.
    let online = std::fs::read_to_string(directory.join("online"));
    directory.exists() && online.map_or(true, |text| text.trim() != "0")
}

impl Daemon {
    /// A processor has a net core from now on.
    pub(crate) fn add_net_core(&mut self, processor: u32, peer: Peer) -> Served {
        let cores = &self.net_cores.cores;
        if cores.iter().any(|core| core.processor == processor && core.is_at_home()) {
            return Err(format!("processor {processor} has a net core already: see `qanat status`").into());
        }
        if cores.iter().filter(|core| core.is_at_home()).count() >= NET_CORES_MAX {
            return Err(format!("{NET_CORES_MAX} net cores at most").into());
        }
        if !is_online(processor) {
            return Err(format!("there is no processor {processor}: `nproc` says how many there are, from 0 on").into());
        }
        if let Some(index) = cores.iter().position(|core| core.standing == Standing::Guest(processor)) {
            self.place_net_core(index, processor, Standing::AtHome)?;
            self.share_cards_with(index);
            (self.log)(&Event::new("net-core-add", "done", format!("processor {processor}: it is back")).by(peer));
            return done();
        }
        let free = cores.iter().position(|core| core.standing == Standing::Gone);
        let index = free.unwrap_or(cores.len());
        if free.is_none() {
            self.net_cores.cores.push(NetCore::new(processor));
        }
        if let Some(core) = self.net_cores.cores.get_mut(index) {
            *core = NetCore::new(processor);
        }
        self.start_net_core(index).inspect_err(|_| self.forget_net_core(index))?;
        self.share_cards_with(index);
        (self.log)(&Event::new("net-core-add", "done", format!("processor {processor}")).by(peer));
        done()
    }

    /// A processor is without net core from now on. What the net core serves goes on.
    pub(crate) fn remove_net_core(&mut self, processor: u32, peer: Peer) -> Served {
        let at_home = || self.net_cores.cores.iter().enumerate().filter(|(_, core)| core.is_at_home());
        let index = at_home().find(|(_, core)| core.processor == processor).map(|(index, _)| index);
        let index = index.ok_or_else(|| format!("processor {processor} has no net core: see `qanat status`"))?;
        let others = at_home().filter(|(other, core)| *other != index && core.running.is_some());
        let host = others.min_by_key(|(_, core)| core.cards.len()).map(|(_, core)| core.processor);
        let host =
            host.ok_or("it is the last one: add another first (`qanat net-core add`), or end all (`qanat down`)")?;
        let is_dead = self.net_cores.cores.get(index).is_none_or(|core| core.running.is_none());
        let text = match is_dead || self.has_nothing(index) {
            true => {
                self.end_net_core(index);
                format!("processor {processor}: it had no cards, and has ended")
            }
            false => {
                self.place_net_core(index, host, Standing::Guest(processor))?;
                self.move_cards_of_guests(true);
                format!("processor {processor}: its cards move, and it is a guest on processor {host} until they have")
            }
        };
        (self.log)(&Event::new("net-core-remove", "done", text).by(peer));
        done()
    }

    /// Has it run on another processor.
    fn place_net_core(&mut self, index: usize, processor: u32, standing: Standing) -> Result<(), DaemonError> {
        let core = self.net_cores.cores.get(index).ok_or("there is no such net core")?;
        let (child, _) = core.running.as_ref().ok_or("the net core has just died: it is started again in a moment")?;
        let mut set = CpuSet::new();
        set.set(processor as usize);
        sched_setaffinity(Some(Pid::from_child(child)), &set).map_err(|error| say("move a net core", error))?;
        let core = self.net_cores.cores.get_mut(index).ok_or("there is no such net core")?;
        (core.processor, core.standing) = (processor, standing);
        // It runs there, whether it has heard of it or not.
        let is_guest = standing != Standing::AtHome;
        if let Err(error) = self.order(index, Order::Processor { processor, is_guest }, &[]) {
            (self.log)(&Event::new("net-core-move", "failed", error));
        }
        Ok(())
    }

    /// Whether it has no cards, those on their way from it included.
    fn has_nothing(&self, index: usize) -> bool {
        let core = self.net_cores.cores.get(index);
        core.is_none_or(|core| core.cards.is_empty()) && !self.net_cores.moves.is_from(index)
    }

    /// Guests that serve nobody any more end.
    pub(crate) fn end_idle_guests(&mut self) {
        let is_guest = |core: &NetCore| matches!(core.standing, Standing::Guest(_));
        let all = self.net_cores.cores.iter().enumerate();
        let idle: Vec<usize> =
            all.filter(|(index, core)| is_guest(core) && self.has_nothing(*index)).map(|(index, _)| index).collect();
        for index in idle {
            self.end_net_core(index);
        }
    }

    /// It has nothing to do, and ends.
    fn end_net_core(&mut self, index: usize) {
        let running = self.net_cores.cores.get_mut(index).and_then(|core| core.running.take());
        if let Some((child, socket)) = running {
            drop(socket);
            let text = "its cards have moved, or are gone";
            self.net_cores.end(child, &[], Event::new("net-core-end", "done", text));
        }
        self.forget_net_core(index);
    }

    /// Its place is free.
    fn forget_net_core(&mut self, index: usize) {
        if let Some(core) = self.net_cores.cores.get_mut(index) {
            core.standing = Standing::Gone;
        }
        // Its end is known; nothing said of it later is to be taken for its successor's.
        let watches = self.endpoints.iter().filter(|(_, endpoint)| endpoint.role == Role::NetCore(index));
        let watches: Vec<u64> = watches.map(|(token, _)| *token).collect();
        watches.into_iter().for_each(|token| self.close(token));
    }
}

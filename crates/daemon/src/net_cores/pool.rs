//! All net cores, and the processes that have been told to die.

use crate::log::Event;
use crate::net_cores::core::{NetCore, Standing, Starter};
use crate::net_cores::moves::Moves;
use qanat_control::net_core::CardNumber;
use qanat_control::protocol::NetCoreState;
use std::collections::HashMap;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long the daemon's own end waits for theirs.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// All of them.
#[derive(Default)]
pub(crate) struct NetCores {
    pub(super) starter: Option<Starter>,
    /// Numbered: places are not moved.
    pub(crate) cores: Vec<NetCore>,
    pub(crate) moves: Moves,
    /// What net cores hold VNICs by: the card of each handle's token. A VNIC of several queues has several.
    pub(super) handles: HashMap<u64, CardNumber>,
    /// Processes that have been told to die. Nobody waits for one: it may hang in the kernel.
    pub(super) dying: Vec<Dying>,
}

/// A net core that is to be no more.
pub(super) struct Dying {
    pub(super) child: Child,
    pub(super) since: Instant,
    /// Numbers of the handles it may still hold.
    pub(super) handles: Vec<u64>,
    /// What is to be said of its end.
    pub(super) event: Option<Event>,
}

impl NetCores {
    /// A VNIC is gone.
    pub(crate) fn forget_vnic(&mut self, slot: u32) {
        self.forget(|card| card.vnic == slot);
    }

    /// A handle is closed: if it was a net core's, that one has the card no more. Others may have other queues of the VNIC.
    pub(crate) fn handle_closed(&mut self, token: u64) {
        // By a net core started again it may be had by another handle already.
        let Some(card) = self.handles.remove(&token) else { return };
        if !self.handles.values().any(|other| *other == card) {
            self.forget(|other| *other == card);
        }
    }

    fn forget(&mut self, is_gone: impl Fn(&CardNumber) -> bool) {
        self.cores.iter_mut().for_each(|core| {
            core.cards.retain(|card| !is_gone(card));
            core.shared.retain(|card| !is_gone(card));
        });
        self.moves.forget(is_gone);
    }

    /// Whether one is to be started again, or to be seen to live.
    pub(crate) fn is_one_missing(&self) -> bool {
        self.cores.iter().any(|core| core.is_at_home() && (core.running.is_none() || core.failures > 0))
    }

    /// Has a net core's process end, which has these cards. `event`: said when it has, with how.
    pub(crate) fn end(&mut self, mut child: Child, cards: &[CardNumber], event: Event) {
        let _ = child.kill();
        let held = self.handles.iter().filter(|(_, card)| cards.contains(card));
        let handles = held.map(|(token, _)| *token).collect();
        self.dying.push(Dying { child, since: Instant::now(), handles, event: Some(event) });
    }

    /// Whether a process has been killed and is still there.
    pub(crate) fn is_one_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    pub(crate) fn states(&self) -> Vec<NetCoreState> {
        let state = |core: &NetCore| NetCoreState {
            processor: core.processor,
            process: core.running.as_ref().map_or(0, |(child, _)| child.id()),
            uptime_s: core.started.elapsed().as_secs(),
            restarts: core.restarts,
            is_failing: core.is_failing(),
            vnics: core.cards.iter().map(|card| card.vnic).collect(),
            queues: core.cards.iter().map(|card| card.queue).collect(),
            cards_moved: core.cards_moved,
            removed_from: if let Standing::Guest(from) = core.standing { Some(from) } else { None },
        };
        self.cores.iter().filter(|core| core.standing != Standing::Gone).map(state).collect()
    }
}

/// It ends with the daemon, whatever it is doing; if it hangs in the kernel, after it.
impl Drop for NetCores {
    fn drop(&mut self) {
        let mut children: Vec<Child> = std::mem::take(&mut self.dying).into_iter().map(|dying| dying.child).collect();
        for (mut child, socket) in self.cores.iter_mut().filter_map(|core| core.running.take()) {
            drop(socket);
            let _ = child.kill();
            children.push(child);
        }
        let begun = Instant::now();
        while !children.is_empty() && begun.elapsed() < LAST_PATIENCE {
            children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
